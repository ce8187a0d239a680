// Histogram and statistics of what is visible, or of a box in the picture.

import { askJson } from "../base/api";
import { chosen, shownUnits, visibleText } from "../base/chosen";
import { button, fill, h } from "../base/dom";
import { count, digitsFor, number, withUnits } from "../base/format";
import { Latest } from "../base/latest";
import type { Described, Histogram, Slice } from "../base/types";
import { setView, view } from "../base/view_state";
import { problem } from "../frame/problem";
import { degrees } from "../picture/axis_labels";
import { factList } from "./facts";

const SVG = "http://www.w3.org/2000/svg";

/** The box of the view. */
export function boxOf(described: Described): { rows: Slice; columns: Slice } | null {
  const found = /^(\d+):(\d+),(\d+):(\d+)$/.exec(view().box);
  if (!found) return null;
  const [top = 0, bottom = 0, left = 0, right = 0] = found.slice(1).map(Number);
  const [row, column] = chosen(view(), described).axes;
  const isInside = bottom <= (described.shape[row] ?? 0) && right <= (described.shape[column] ?? 0);
  return isInside && top < bottom && left < right
    ? { rows: { start: top, stop: bottom, step: 1 }, columns: { start: left, stop: right, step: 1 } }
    : null;
}

/** The selection of the box, or of all that is visible. */
export function boxText(described: Described): string {
  const now = chosen(view(), described);
  const box = boxOf(described);
  return visibleText(box ? { ...now, ...box } : now, described);
}

export class Box {
  readonly element = h("div", { class: "histogram" });
  private latest = new Latest();

  constructor(
    private path: string,
    private described: Described,
  ) {}

  async update(): Promise<void> {
    const { described } = this;
    if (!["number", "bool", "time", "complex"].includes(described.kind)) {
      fill(this.element, h("p", { class: "quiet" }, "Histograms are of numbers."));
      return;
    }
    const select = boxText(described);
    const part = described.kind === "complex" ? view().part : null;
    const key = `${select}|${described.version}|${part}`;
    await this.latest.run(
      key,
      async (signal) => {
        const found = await askJson<Histogram>("histogram", this.path, { select, bins: 48, part }, signal);
        if (!signal.aborted) this.show(found, select);
      },
      (error) => fill(this.element, problem(error)),
    );
  }

  private show(found: Histogram, select: string): void {
    const units = degrees(shownUnits(view(), this.described));
    const digits = digitsFor(found.min ?? 0, found.max ?? 0, 6);
    const words = (value: number | null | undefined): string =>
      typeof value === "number" ? withUnits(number(value, digits), units) : "none";
    const facts: [string, string][] = [
      ["numbers", count(found.count)],
      ["missing", count(found.missing)],
      ["smallest", words(found.min)],
      ["largest", words(found.max)],
      ["mean", words(found.mean)],
      ["standard deviation", words(found.std)],
      ["median", words(found.percentiles["50"])],
      ["2 and 98 %", `${words(found.percentiles["2"])}, ${words(found.percentiles["98"])}`],
    ];
    const hasBox = boxOf(this.described) !== null;
    fill(
      this.element,
      h("p", { class: "quiet" }, hasBox ? `The box [${select}]` : `What is visible: [${select}]`, found.sampled && ", from a sample"),
      found.counts.length > 0 && bars(found),
      factList(facts),
      hasBox
        ? button("Remove the box", () => setView({ box: "" }))
        : h("p", { class: "quiet" }, "Draw a box with Shift and the mouse, or with the button Box."),
    );
  }

  destroy(): void {
    this.latest.destroy();
  }
}

/** The histogram as bars. */
function bars(found: Histogram): Element {
  const most = Math.max(1, ...found.counts);
  const svg = document.createElementNS(SVG, "svg");
  const n = found.counts.length;
  svg.setAttribute("viewBox", `0 0 ${n} 40`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "bars");
  svg.setAttribute("role", "img");
  const [low, high] = [found.low ?? NaN, found.high ?? NaN];
  const digits = digitsFor(low, high, 4);
  svg.setAttribute("aria-label", `Histogram from ${number(low, digits)} to ${number(high, digits)}`);
  found.counts.forEach((one, at) => {
    const bar = document.createElementNS(SVG, "rect");
    const tall = (one / most) * 39;
    bar.setAttribute("x", String(at + 0.05));
    bar.setAttribute("width", "0.9");
    bar.setAttribute("y", String(40 - tall));
    bar.setAttribute("height", String(tall));
    svg.append(bar);
  });
  return h(
    "div",
    {},
    svg,
    h("div", { class: "ends" }, h("span", {}, number(low, digits)), h("span", {}, number(high, digits))),
  );
}
