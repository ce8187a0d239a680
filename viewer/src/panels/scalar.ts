// An array without axes: one value.

import { askExact } from "../base/api";
import { fill, h } from "../base/dom";
import { withUnits } from "../base/format";
import type { Described, Point } from "../base/types";
import { problem } from "../frame/problem";
import { degrees } from "../picture/axis_labels";
import { cell } from "../picture/readout";

export class Scalar {
  readonly element = h("div", { class: "scalar" });

  constructor(
    private path: string,
    private described: Described,
  ) {}

  async update(): Promise<void> {
    try {
      const point = await askExact<Point>("point", this.path, { at: "" });
      const isTime = this.described.kind === "time";
      const value = cell(point.value);
      const stored = cell(point.stored);
      fill(
        this.element,
        h("p", { class: "large" }, point.value === null || isTime ? value : withUnits(value, degrees(this.described.units))),
        stored !== value && h("p", { class: "quiet" }, `stored: ${stored}`),
      );
    } catch (error) {
      fill(this.element, problem(error, () => void this.update()));
    }
  }
}
