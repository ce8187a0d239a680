// What a picture shows: axes, part of complex numbers, colours, range.

import { chosen, selectText } from "../base/chosen";
import type { Choice } from "../base/dom";
import { button, choose, h } from "../base/dom";
import type { Described } from "../base/types";
import { setView, view } from "../base/view_state";
import type { AxisLabels } from "../picture/axis_labels";
import type { Picture } from "../picture/picture";
import { MAPS, RANGES, SCALES, typed } from "../picture/scale";

export const PARTS: Choice[] = [
  { value: "abs", label: "magnitude" },
  { value: "phase", label: "phase" },
  { value: "real", label: "real part" },
  { value: "imag", label: "imaginary part" },
];

export function partChoice(): HTMLElement {
  return choose("Part", PARTS, view().part, (part) => setView({ part, range: "2-98" })).element;
}

export class Toolbar {
  readonly element = h("div", { class: "toolbar" });
  private rebuild: () => void;
  private built = "";

  constructor(described: Described, labels: AxisLabels[], picture: Picture) {
    this.rebuild = () => {
      const now = chosen(view(), described);
      const axes = described.shape.map((_, axis) => ({ value: String(axis), label: labels[axis]?.name ?? `axis ${axis}` }));
      const turn = (which: 0 | 1, axis: number): void => {
        const now = chosen(view(), described);
        const next: [number, number] = [...now.axes];
        next[which] = axis;
        // The axis that was there takes the other place.
        if (next[0] === next[1]) next[1 - which] = now.axes[which];
        const whole = (of: number): { start: number; stop: number; step: number } => ({ start: 0, stop: described.shape[of] ?? 0, step: 1 });
        const select = selectText({ ...now, axes: next, rows: whole(next[0]), columns: whole(next[1]) }, described);
        setView({ plane: next.join(","), select, box: "" });
      };
      const isPhotograph = picture.isPhotograph;
      const ranges = typed(view().range) ? [...RANGES, { value: view().range, label: "typed" }] : RANGES;
      const box = button("Box", () => {
        picture.isBoxing = !picture.isBoxing;
        box.setAttribute("aria-pressed", String(picture.isBoxing));
      }, { title: "Draw a box (Shift and drag)", "aria-pressed": String(picture.isBoxing) });
      const coast = button("Coast", () => {
        picture.hasCoast = !picture.hasCoast;
        coast.setAttribute("aria-pressed", String(picture.hasCoast));
        picture.draw();
      }, { title: "Coastlines", "aria-pressed": String(picture.hasCoast) });
      this.element.replaceChildren(
        ...[
          described.shape.length > 1 && choose("Rows", axes, String(now.axes[0]), (axis) => turn(0, Number(axis))).element,
          described.shape.length > 1 && choose("Columns", axes, String(now.axes[1]), (axis) => turn(1, Number(axis))).element,
          described.kind === "complex" && partChoice(),
          !isPhotograph && choose("Colours", MAPS.map((map) => ({ value: map, label: map })), view().map, (map) => setView({ map })).element,
          !isPhotograph && choose("Scale", SCALES, view().scale, (scale) => setView({ scale })).element,
          choose("Range", ranges, view().range, (range) => setView({ range })).element,
          button("Fit", () => picture.fitRange(true), { title: "Fit the colours to what is visible (f)" }),
          box,
          picture.isMap() && coast,
        ].filter((element): element is HTMLElement => element instanceof HTMLElement),
      );
    };
    this.rebuild();
    this.built = this.key();
  }

  private key(): string {
    const { plane, part, map, scale, range } = view();
    return [plane, part, map, scale, range].join("|");
  }

  update(): void {
    // A film moves every few milliseconds: a list that is open would close, and clicks would be lost.
    if (this.key() === this.built) return;
    this.built = this.key();
    // Keyboards stay where they are.
    if (this.element.contains(document.activeElement)) {
      const index = [...this.element.querySelectorAll<HTMLElement>("select, button")].indexOf(document.activeElement as HTMLElement);
      this.rebuild();
      this.element.querySelectorAll<HTMLElement>("select, button")[index]?.focus();
      return;
    }
    this.rebuild();
  }
}
