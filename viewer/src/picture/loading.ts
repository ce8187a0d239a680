// Reads the plane that is wanted now, and lets go of those that were wanted before.

import { isAbort } from "../base/api";
import type { Described } from "../base/types";
import type { Plane, Wanted } from "./planes";
import { Planes } from "./planes";

/** Reading shorter than this is not announced, in milliseconds. */
const PATIENCE = 150;
/** While a wheel turns, only the last place is read. */
const REST = 70;

export interface LoadingEvents {
  /** The plane is here, perhaps with a coarser one to show where it ends. */
  came(plane: Plane, coarse: Plane | null): void;
  failed(error: unknown): void;
  busy(isBusy: boolean): void;
}

export class Loading {
  private planes: Planes;
  private controller: AbortController | null = null;
  /** The plane that is read ahead. It comes as `null` if that fails. */
  private ahead: { key: string; plane: Promise<Plane | null>; controller: AbortController } | null = null;
  private waiting: (() => void)[] = [];

  constructor(
    described: Described,
    private events: LoadingEvents,
  ) {
    this.planes = new Planes(described);
  }

  /** Wants a plane, and another one when it is here. `isUrgent`: asks for it at once. */
  want(wanted: Wanted, isUrgent: boolean, next: Wanted | null): void {
    this.controller?.abort();
    const controller = new AbortController();
    this.controller = controller;
    const { signal } = controller;
    if (this.planes.find(wanted)) {
      void this.load(wanted, controller, next);
      return;
    }
    const wait = isUrgent ? 0 : REST;
    window.setTimeout(() => {
      if (!signal.aborted && this.controller === controller) this.events.busy(true);
    }, PATIENCE + wait);
    window.setTimeout(() => {
      if (signal.aborted) return;
      // What is read ahead may be what is wanted now.
      if (this.ahead?.key !== keyOf(wanted)) this.ahead?.controller.abort();
      void this.load(wanted, controller, next);
    }, wait);
  }

  private async load(wanted: Wanted, controller: AbortController, next: Wanted | null): Promise<void> {
    const { signal } = controller;
    try {
      // What is kept is shown at once: without it a film would flicker.
      const ahead = this.ahead?.key === keyOf(wanted) ? this.ahead.plane : null;
      const plane = this.planes.find(wanted) ?? (await ahead) ?? (await this.planes.load(wanted, signal));
      if (signal.aborted) return;
      const coarse = this.planes.coarse(wanted);
      this.done(controller);
      this.events.came(plane, coarse === plane ? null : coarse);
      if (next) this.prefetch(next);
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      this.done(controller);
      this.events.failed(error);
    }
  }

  private done(controller: AbortController): void {
    if (this.controller === controller) this.controller = null;
    this.events.busy(false);
    for (const resolve of this.waiting.splice(0)) resolve();
  }

  private prefetch(wanted: Wanted): void {
    const key = keyOf(wanted);
    if (this.ahead?.key === key) return;
    this.ahead?.controller.abort();
    const controller = new AbortController();
    const plane = this.planes.load(wanted, controller.signal).catch(() => null);
    const ahead = { key, plane, controller };
    this.ahead = ahead;
    void plane.then(() => {
      if (this.ahead === ahead) this.ahead = null;
    });
  }

  /** True if the last plane that was wanted is here. */
  get isIdle(): boolean {
    return this.controller === null;
  }

  /** Resolves when nothing is wanted any more. */
  settled(): Promise<void> {
    if (this.isIdle) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  destroy(): void {
    this.controller?.abort();
    this.ahead?.controller.abort();
    for (const resolve of this.waiting.splice(0)) resolve();
  }
}

function keyOf(wanted: Wanted): string {
  return JSON.stringify(wanted);
}
