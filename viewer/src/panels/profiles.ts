// Profiles along each axis through the elements that were clicked.

import { shownUnits } from "../base/chosen";
import { button, fill, h } from "../base/dom";
import { digitsFor, number } from "../base/format";
import { Latest } from "../base/latest";
import type { Described } from "../base/types";
import { setView, view } from "../base/view_state";
import { problem } from "../frame/problem";
import type { AxisLabels } from "../picture/axis_labels";
import { degrees } from "../picture/axis_labels";
import type { Mark } from "../picture/picture";
import { Chart } from "./chart";
import type { Series } from "./series";
import { series } from "./series";

/** Okabe and Ito's colours: the colour-blind tell them apart. One for each profile. */
const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
/** The most elements of a profile. A chart has fewer pixels. */
const MOST = 2000;

export function marks(described: Described): Mark[] {
  return view()
    .marks.split(";")
    .map((text) => text.split(",").map(Number))
    .filter((at) => at.length === described.shape.length && at.every((n, axis) => Number.isInteger(n) && n >= 0 && n < (described.shape[axis] ?? 0)))
    .slice(0, COLORS.length)
    .map((at, n) => ({ at, color: COLORS[n] ?? "#000" }));
}

/** Keeps one more element. The oldest one goes if there are too many. */
export function addMark(described: Described, at: number[]): void {
  const kept = marks(described).map((mark) => mark.at.join(","));
  const text = at.join(",");
  if (kept.includes(text)) return;
  setView({ marks: [...kept.slice(kept.length >= COLORS.length ? 1 : 0), text].join(";") });
}

export class Profiles {
  readonly element = h("div", { class: "profiles" });
  private chips = h("ul", { class: "chips", "aria-label": "Profiles" });
  private charts = h("div", {});
  private drawn: Chart[] = [];
  private latest = new Latest();
  /** Finished ones: a request that was given up never finishes. */
  private cache = new Map<string, Series>();

  constructor(
    private path: string,
    private described: Described,
    private labels: AxisLabels[],
    /** The axes of the picture: their profiles come last. */
    private plane: () => number[],
  ) {
    this.element.append(this.chips, this.charts);
    this.update();
  }

  update(): void {
    const { described } = this;
    const key = [view().marks, described.version, view().part, this.plane().join(",")].join("|");
    void this.latest.run(
      key,
      (signal) => this.show(marks(described), signal),
      (error) => fill(this.charts, problem(error)),
    );
  }

  private async show(found: Mark[], signal: AbortSignal): Promise<void> {
    if (found.length === 0) {
      this.clear();
      this.chips.replaceChildren();
      const keys = "Click a place of the picture: its profile along each axis appears here.";
      fill(this.charts, h("p", { class: "quiet" }, keys));
      return;
    }
    this.chips.replaceChildren(...found.map((mark) => this.chip(mark, found)));
    if (found.length > 1) this.chips.append(h("li", {}, button("Remove all", () => setView({ marks: "" }))));
    await this.draw(found, signal);
  }

  private chip(mark: Mark, all: Mark[]): HTMLElement {
    const dot = h("span", { class: "dot" });
    dot.style.background = mark.color;
    const name = this.place(mark.at);
    const remove = (): void =>
      setView({ marks: all.filter((other) => other !== mark).map((other) => other.at.join(",")).join(";") });
    return h("li", {}, dot, name, button("×", remove, { "aria-label": `Remove the profile at ${name}` }));
  }

  private place(at: number[]): string {
    return this.plane().map((axis) => this.labels[axis]?.label(at[axis] ?? 0) ?? "").join(", ");
  }

  private clear(): void {
    for (const chart of this.drawn.splice(0)) chart.destroy();
  }

  private async draw(found: Mark[], signal: AbortSignal): Promise<void> {
    const { described } = this;
    const plane = this.plane();
    const axes = described.shape
      .map((_, axis) => axis)
      .filter((axis) => (described.shape[axis] ?? 0) > 1 && axis !== described.rgb)
      .sort((a, b) => Number(plane.includes(a)) - Number(plane.includes(b)) || a - b);
    const made: Chart[] = [];
    for (const axis of axes) {
      const read = await Promise.all(found.map((mark) => this.read(mark, axis, signal)));
      if (signal.aborted) return;
      made.push(this.chart(axis, found, read));
    }
    this.clear();
    this.drawn = made;
    fill(this.charts, ...made.map((chart) => chart.element));
  }

  private async read(mark: Mark, axis: number, signal: AbortSignal): Promise<Series> {
    const { described } = this;
    const { part } = view();
    const fixed = mark.at.map((n, other) => (other === axis ? ":" : n));
    const key = [fixed, described.version, part].join("|");
    let found = this.cache.get(key);
    if (!found) {
      const range = { start: 0, stop: described.shape[axis] ?? 0, step: 1 };
      found = await series(this.path, described, mark.at, axis, range, MOST, part, signal);
      this.cache.set(key, found);
    }
    return found;
  }

  private chart(axis: number, found: Mark[], read: Series[]): Chart {
    const label = this.labels[axis];
    const range = read[0]?.range ?? { start: 0, stop: 0, step: 1 };
    const n = Math.max(...read.map((one) => one.values.length));
    const elements = Array.from({ length: n }, (_, at) => range.start + at * range.step);
    const isNumber = label !== undefined && label.direction !== 0;
    const places = elements.map((at) => (isNumber ? label.at(at) : at));
    const digits = digitsFor(places[0] ?? 0, places[1] ?? 0, 6);
    const isBack = isNumber && label.direction < 0;
    const ordered = <T,>(values: ArrayLike<T>): T[] => (isBack ? Array.from(values).reverse() : Array.from(values));
    return new Chart({
      title: `Profile along ${label?.name ?? "an axis"}`,
      x: ordered(places),
      lines: found.map((mark, at) => ({
        name: this.place(mark.at),
        color: mark.color,
        values: ordered(read[at]?.values ?? []),
      })),
      height: 190,
      label: (x) => (isNumber ? number(x, digits) : Number.isInteger(x) ? (label?.label(x) ?? "") : ""),
      space: isNumber ? 56 : 90,
      xTitle: label?.title() ?? "",
      yTitle: degrees(shownUnits(view(), this.described)) ?? "",
    });
  }

  destroy(): void {
    this.latest.destroy();
    this.clear();
  }
}
