// The newest of several requests of a panel.

import { isAbort } from "./api";

/** Runs the newest work, and gives up older work. */
export class Latest {
  private controller = new AbortController();
  private key: string | null = null;

  /**
   * Works for a key. Does nothing if the work for this key is done or under way. After an error the next
   * call works again.
   */
  async run(
    key: string,
    work: (signal: AbortSignal) => Promise<void>,
    failed: (error: unknown) => void,
  ): Promise<void> {
    if (key === this.key) return;
    this.key = key;
    this.controller.abort();
    this.controller = new AbortController();
    const { signal } = this.controller;
    try {
      await work(signal);
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      this.key = null;
      failed(error);
    }
  }

  destroy(): void {
    this.controller.abort();
  }
}
