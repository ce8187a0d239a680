// An array of one axis as a line.

import { clamp, parseSelection } from "../base/api";
import { shownUnits } from "../base/chosen";
import { button, fill, h } from "../base/dom";
import { count, digitsFor, number } from "../base/format";
import { Latest } from "../base/latest";
import type { Described, Slice } from "../base/types";
import { setView, view } from "../base/view_state";
import { problem } from "../frame/problem";
import type { AxisLabels } from "../picture/axis_labels";
import { degrees } from "../picture/axis_labels";
import { Chart } from "./chart";
import { extremes, series } from "./series";

/** Elements that are read one by one. Of longer ranges the server sends every k-th. */
const MOST = 1 << 20;

export class Lines {
  readonly element: HTMLElement;
  private stage = h("div", { class: "stage" });
  private note = h("p", { class: "quiet" });
  private chart: Chart | null = null;
  private latest = new Latest();

  constructor(
    private path: string,
    private described: Described,
    private label: AxisLabels,
    private loaded: () => void,
  ) {
    this.element = h(
      "div",
      { class: "lines" },
      this.stage,
      h(
        "div",
        { class: "buttons", role: "group", "aria-label": "Part of the axis" },
        button("‹", () => this.move(-0.5), { "aria-label": "Earlier", title: "Earlier ([)" }),
        button("›", () => this.move(0.5), { "aria-label": "Later", title: "Later (])" }),
        button("+", () => this.zoom(0.5), { "aria-label": "Zoom in" }),
        button("−", () => this.zoom(2), { "aria-label": "Zoom out" }),
        button("All", () => this.show(0, this.size())),
        this.note,
      ),
    );
  }

  private size(): number {
    return this.described.shape[0] ?? 0;
  }

  range(): Slice {
    const [found] = parseSelection(view().select, [this.size()], [this.described.axes[0]?.name ?? null]);
    const all = { start: 0, stop: this.size(), step: 1 };
    return typeof found === "object" && found.stop > found.start ? { ...found, step: 1 } : all;
  }

  private show(start: number, stop: number): void {
    const from = clamp(Math.floor(start), 0, Math.max(0, this.size() - 2));
    const to = clamp(Math.ceil(stop), from + 2, this.size());
    setView({ select: from === 0 && to === this.size() ? "" : `${from}:${to}` });
  }

  move(by: number): void {
    const { start, stop } = this.range();
    const away = clamp((stop - start) * by, -start, this.size() - stop);
    this.show(start + away, stop + away);
  }

  zoom(factor: number): void {
    const { start, stop } = this.range();
    const middle = (start + stop) / 2;
    const half = ((stop - start) / 2) * factor;
    this.show(middle - half, middle + half);
  }

  async update(): Promise<void> {
    const { described } = this;
    if (this.size() === 0) {
      fill(this.stage, h("p", {}, "The array is empty."));
      return;
    }
    const range = this.range();
    const key = [range.start, range.stop, described.version, view().part].join("|");
    await this.latest.run(
      key,
      async (signal) => {
        const most = range.stop - range.start > MOST ? MOST : null;
        const found = await series(this.path, described, [0], 0, range, most, view().part, signal);
        if (signal.aborted) return;
        const width = Math.max(200, this.stage.getBoundingClientRect().width);
        const parts = extremes(found, width);
        const isSummary = parts.each > 1;
        const color = "#0072b2";
        const { label } = this;
        const isNumber = label.direction > 0;
        const digits = digitsFor(label.at(range.start), label.at(range.start + 1), 7);
        this.chart?.destroy();
        this.chart = new Chart({
          title: described.long_name ?? described.name,
          x: isNumber ? parts.x.map((at) => label.at(at)) : parts.x,
          lines: isSummary
            ? [
                { name: "smallest", color, values: parts.low },
                { name: "largest", color, values: parts.high },
              ]
            : [{ name: described.name.split("/").at(-1) ?? "value", color, values: parts.low }],
          isBand: isSummary,
          height: 360,
          label: (x) => (isNumber ? number(x, digits) : Number.isInteger(x) ? label.label(x) : label.label(Math.round(x))),
          space: 100,
          xTitle: label.title(),
          yTitle: degrees(shownUnits(view(), described)) ?? "",
          selected: (from, to) => this.show(isNumber ? label.find(from) : from, (isNumber ? label.find(to) : to) + 1),
        });
        fill(this.stage, this.chart.element);
        const step = found.range.step > 1 ? `every ${count(found.range.step)}th element is read; ` : "";
        const each = isSummary ? `${step}each pixel shows the smallest and largest of ${count(parts.each)}` : "every element is shown";
        this.note.textContent = `${count(range.stop - range.start)} elements: ${each}. Drag to zoom.`;
        this.loaded();
      },
      (error) => fill(this.stage, problem(error, () => void this.update())),
    );
  }

  destroy(): void {
    this.latest.destroy();
    this.chart?.destroy();
  }
}
