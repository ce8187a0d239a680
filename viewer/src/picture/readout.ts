// The value and the coordinates under the pointer.

import { askExact, isAbort } from "../base/api";
import { shownUnits } from "../base/chosen";
import { announce, debounced, fill, h } from "../base/dom";
import { number, withUnits } from "../base/format";
import type { Described, Point } from "../base/types";
import { view } from "../base/view_state";
import type { AxisLabels } from "./axis_labels";
import type { Plane } from "./planes";
import { valueAt } from "./planes";

/** A pointer rests after this time, in milliseconds. Then the exact element is asked for. */
const REST = 250;

export class Readout {
  readonly element = h("div", { class: "readout" });
  private controller = new AbortController();
  private where: { at: number[]; speak: boolean } | null = null;
  private exact = debounced(REST, () => void this.ask());

  constructor(
    private path: string,
    private described: Described,
    private labels: AxisLabels[],
  ) {
    this.clear();
  }

  clear(): void {
    this.exact.cancel();
    this.controller.abort();
    this.where = null;
    fill(this.element, h("span", { class: "quiet" }, "Point at the picture for values. Click for profiles."));
  }

  /** Shows an element, first from the plane that is already here, then as it is stored. */
  show(plane: Plane | null, at: number[], axes: [number, number], speak: boolean): void {
    const [rowAxis, columnAxis] = axes;
    const row = at[rowAxis] ?? 0;
    const column = at[columnAxis] ?? 0;
    const found = plane && valueAt(plane, row, column);
    const value = found ? this.words(found.values) : "…";
    const isNear = found !== null && (found.row !== row || found.column !== column);
    this.write(at, axes, isNear ? `about ${value}` : value, null);
    this.controller.abort();
    this.where = { at, speak };
    this.exact();
  }

  private words(values: number[]): string {
    if (values.some(Number.isNaN)) return "missing";
    // Planes have numbers of 32 bits: they hold seven digits.
    return withUnits(values.map((value) => number(value, 7)).join(", "), shownUnits(view(), this.described));
  }

  private write(at: number[], axes: readonly number[], value: string, stored: string | null): void {
    const place = axes.map((axis) => `${this.labels[axis]?.name ?? ""} ${this.labels[axis]?.label(at[axis] ?? 0) ?? ""}`);
    fill(
      this.element,
      h("strong", { class: "value" }, value),
      h("span", {}, place.join(", ")),
      h("span", { class: "quiet" }, `[${at.join(", ")}]`),
      stored !== null && h("span", { class: "quiet" }, `stored: ${stored}`),
    );
  }

  private async ask(): Promise<void> {
    const where = this.where;
    if (!where) return;
    this.controller = new AbortController();
    const { at } = where;
    try {
      const point = await askExact<Point>("point", this.path, { at: at.join(",") }, this.controller.signal);
      const value = cell(point.value);
      const stored = cell(point.stored);
      const axes = at.map((_, axis) => axis).filter((axis) => this.described.shape[axis] !== 1);
      const text = point.value === null ? "missing" : this.described.kind === "time" ? value : withUnits(value, this.described.units);
      this.write(at, axes, text, stored === value ? null : stored);
      if (where.speak) announce(this.element.textContent ?? "");
    } catch (error) {
      // The plane's own value stays.
      if (!isAbort(error)) this.exact.cancel();
    }
  }
}

/** An element as text: numbers with all their digits, lists for complex ones and compounds, words. */
export function cell(value: unknown): string {
  if (value === null || value === undefined) return "missing";
  if (typeof value === "number") return String(value).replace("-", "−");
  if (typeof value === "string") return /^-\d+$/.test(value) ? value.replace("-", "−") : value;
  return JSON.stringify(value);
}
