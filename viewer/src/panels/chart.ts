// Line charts by uPlot, in the colours of the theme.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { h } from "../base/dom";
import { digitsFor, niceTicks, number } from "../base/format";
import { onTheme } from "../frame/theme";

export interface Line {
  name: string;
  color: string;
  values: ArrayLike<number>;
}

export interface ChartOptions {
  title: string;
  /** Ascending. */
  x: ArrayLike<number>;
  lines: Line[];
  height: number;
  /** What stands at a place of the x axis. */
  label: (x: number) => string;
  /** Pixels between labels of the x axis. */
  space?: number;
  xTitle: string;
  yTitle: string;
  /** Lines 0 and 1 are the smallest and largest numbers of each place: fill between them. */
  isBand?: boolean;
  /** A part of the x axis was selected by dragging. */
  selected?: (from: number, to: number) => void;
}

export class Chart {
  readonly element: HTMLElement;
  private plot: uPlot | null = null;
  private observer: ResizeObserver;
  private unsubscribe: () => void;

  constructor(private options: ChartOptions) {
    this.element = h("div", { class: "chart", role: "img", "aria-label": describe(options) });
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.element);
    this.unsubscribe = onTheme(() => this.build());
  }

  private resize(): void {
    const width = Math.floor(this.element.getBoundingClientRect().width);
    if (width < 60) return;
    if (this.plot) this.plot.setSize({ width, height: this.options.height });
    else this.build();
  }

  private build(): void {
    const width = Math.floor(this.element.getBoundingClientRect().width);
    if (width < 60) return;
    this.plot?.destroy();
    const { options } = this;
    const style = getComputedStyle(this.element);
    const [ink, line] = ["--ink", "--line"].map((name) => style.getPropertyValue(name).trim());
    const axis: uPlot.Axis = {
      stroke: ink ?? "#000",
      grid: { stroke: line ?? "#ccc", width: 1 },
      ticks: { stroke: line ?? "#ccc", width: 1 },
      font: "12px system-ui, sans-serif",
      labelFont: "12px system-ui, sans-serif",
      labelSize: 18,
    };
    const isBand = options.isBand ?? false;
    // Few points are seen as points: a line of one would be invisible.
    const points = { show: options.x.length <= 40, size: 5 };
    this.plot = new uPlot(
      {
        width,
        height: options.height,
        padding: [8, 14, 0, 0],
        legend: { live: true },
        cursor: { drag: { x: options.selected !== undefined, y: false, setScale: false } },
        scales: { x: { time: false } },
        axes: [
          {
            ...axis,
            label: options.xTitle,
            // uPlot adds its step without end where numbers are too large to change: nanoseconds since 1970.
            splits: (plot, _, from, to, __, space) => niceTicks(from, to, plot.width / Math.max(1, space)),
            values: (_, splits) => splits.map(options.label),
            space: options.space ?? 56,
            size: 34,
          },
          {
            ...axis,
            label: options.yTitle,
            size: 62,
            values: (_, splits) => splits.map((n) => number(n, digitsFor(splits[0] ?? 0, splits.at(-1) ?? 0, 5))),
          },
        ],
        series: [
          { label: options.xTitle, value: (_, x) => (x === null ? "" : options.label(x)) },
          ...options.lines.map((its): uPlot.Series => ({
            label: its.name,
            stroke: its.color,
            width: 1.5,
            points,
            value: (_, y) => (y === null || y === undefined || Number.isNaN(y) ? "" : number(y, 7)),
          })),
        ],
        ...(isBand ? { bands: [{ series: [2, 1], fill: `${options.lines[0]?.color ?? "#000"}55` }] } : {}),
        hooks: {
          setSelect: [
            (plot) => {
              const { left, width: wide } = plot.select;
              if (wide < 4) return;
              options.selected?.(plot.posToVal(left, "x"), plot.posToVal(left + wide, "x"));
            },
          ],
        },
      },
      [Float64Array.from(options.x), ...options.lines.map((its) => holes(its.values))] as uPlot.AlignedData,
      this.element,
    );
  }

  destroy(): void {
    this.observer.disconnect();
    this.unsubscribe();
    this.plot?.destroy();
  }
}

/** uPlot draws gaps for null, not for NaN. */
function holes(values: ArrayLike<number>): (number | null)[] {
  return Array.from(values, (value) => (Number.isFinite(value) ? value : null));
}

/** A chart in words, for screen readers. */
function describe(options: ChartOptions): string {
  const lines = options.lines.map(({ name, values }) => {
    let low = Infinity;
    let high = -Infinity;
    for (let n = 0; n < values.length; n += 1) {
      const value = values[n] ?? NaN;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    return low <= high ? `${name}: ${number(low, digitsFor(low, high, 6))} to ${number(high, digitsFor(low, high, 6))}` : `${name}: all missing`;
  });
  return `${options.title}. ${lines.join("; ")}`;
}
