// The grid of chunks as a picture, coloured by stored bytes.

import { askJson, isAbort } from "../base/api";
import type { Chosen } from "../base/chosen";
import { chosen, selectText } from "../base/chosen";
import { announce, button, fill, h } from "../base/dom";
import { bytes, count } from "../base/format";
import type { Described } from "../base/types";
import { setView, view } from "../base/view_state";
import { problem } from "../frame/problem";
import { isDark, onTheme } from "../frame/theme";
import { table } from "../picture/scale";
import type { Layout } from "./layout";
import { cells, chunkAt, layout, numberOf, placeOf } from "./layout";
import type { Stored } from "./stored";
import { MOST_CHUNKS, stored } from "./stored";

const ABSENT = { light: [226, 229, 233], dark: [44, 49, 56] } as const;
const BAD = [230, 30, 40] as const;
/** Beside the 256 shades of stored chunks, in the order in which they hide each other. */
const [GAP, ABSENT_SHADE, BAD_SHADE] = [-2, -1, 256];
/** The most cells of a picture along one side. */
const MOST_PIXELS = 1000;

interface Checked {
  /** `null`: the store does not list its chunks. */
  checked: number | null;
  /** `at` is `null` for faults of the whole array. */
  bad: { at: number | null; message: string }[];
}

export class ChunkMap {
  readonly element = h("div", { class: "chunk-map" });
  /** The picture alone, for other places of the page. */
  readonly canvas: HTMLCanvasElement;
  private found: Stored | null = null;
  private layout: Layout | null = null;
  private bad = new Map<number, string>();
  private text = h("p", { class: "readout" });
  private legend = h("div", { class: "legend" });
  private checking = h("div", { class: "checking" });
  private stage: HTMLElement;
  private cursor: number[] | null = null;
  private frame = h("div", { class: "cursor", hidden: true });
  private controller = new AbortController();
  private unsubscribe: () => void;
  readonly ready: Promise<void>;

  constructor(
    private path: string,
    private described: Described,
    private isWide: boolean,
    private opened: () => void,
  ) {
    const keys = "Arrow keys choose a chunk. Enter shows it.";
    this.canvas = h("canvas", {
      class: "grid",
      tabindex: "0",
      role: "application",
      "aria-label": `Chunks of ${described.name}. ${keys}`,
      onpointermove: (event: PointerEvent) => this.hover(event),
      onclick: (event: PointerEvent) => {
        const at = this.under(event);
        if (at) this.go(at);
      },
      onkeydown: (event: KeyboardEvent) => this.key(event),
    });
    this.stage = h("div", { class: "stage" }, this.canvas, this.frame);
    this.unsubscribe = onTheme(() => this.draw());
    this.ready = this.load();
  }

  private async load(): Promise<void> {
    const { described } = this;
    if (!described.chunks) {
      fill(this.element, h("p", { class: "quiet" }, "This array has no chunks: its elements lie in one piece."));
      return;
    }
    fill(this.element, h("p", { class: "quiet" }, "Reading where the chunks are…"));
    try {
      const its = described.shards ?? described.chunks;
      const unit = described.shards ? "shard" : "chunk";
      this.found = await stored(this.path, described.shape, its, unit, this.controller.signal);
    } catch (error) {
      if (!isAbort(error)) fill(this.element, problem(error));
      return;
    }
    if (!this.found.bytes) {
      const many = `The array has ${count(this.found.total)} ${this.units()}, more than a picture can show (${count(MOST_CHUNKS)}).`;
      fill(this.element, h("p", {}, many));
      return;
    }
    fill(
      this.element,
      this.legend,
      this.stage,
      this.text,
      h(
        "div",
        { class: "buttons" },
        button(`Check all ${this.units()}`, () => void this.check(), { title: "Decode every chunk, and mark damaged ones" }),
        this.checking,
      ),
    );
    this.words();
    this.draw();
  }

  private units(): string {
    return this.found?.unit === "shard" ? "shards" : "chunks";
  }

  private words(): void {
    const { found } = this;
    if (!found) return;
    const units = this.units();
    const absent = found.total - found.count;
    const gradient = h("canvas", { width: 256, height: 1, class: "gradient", "aria-hidden": "true" });
    const image = new ImageData(256, 1);
    image.data.set(table("viridis"));
    gradient.getContext("2d")?.putImageData(image, 0, 0);
    const isOne = found.smallest === found.largest;
    fill(
      this.legend,
      h("span", {}, `${count(found.count)} of ${count(found.total)} ${units} are stored, ${bytes(found.sum)}`),
      h("span", {}, `each ${found.shape.join(" × ")} elements`),
      found.count > 0 && h("span", { class: "scale" }, bytes(found.smallest), gradient, isOne ? "" : bytes(found.largest)),
      absent > 0 && h("span", {}, h("span", { class: "swatch absent" }), `absent: ${count(absent)}`),
      this.bad.size > 0 && h("span", {}, h("span", { class: "swatch bad" }), `damaged: ${count(this.bad.size)}`),
    );
    fill(this.text, h("span", { class: "quiet" }, `Click a ${found.unit} to see its elements.`));
  }

  draw(): void {
    const { found } = this;
    if (!found?.bytes) return;
    const [row, column] = chosen(view(), this.described).axes;
    this.layout = layout(found.grid, [row, column], this.isWide ? 1.8 : 0.8);
    const { height, width } = this.layout;
    // Screens have fewer pixels than some grids have chunks. A pixel then shows the largest of its chunks,
    // so that the few stored chunks of a sparse array are seen.
    const each = Math.max(1, Math.ceil(Math.max(height, width) / MOST_PIXELS));
    const [tall, wide] = [Math.max(1, Math.ceil(height / each)), Math.max(1, Math.ceil(width / each))];
    const shades = new Int32Array(tall * wide).fill(GAP);
    const span = found.largest - found.smallest;
    const { bytes: sizes } = found;
    cells(this.layout, (chunk, down, right) => {
      const size = sizes[chunk] ?? -1;
      const stored = span > 0 ? Math.round(((size - found.smallest) / span) * 255) : 128;
      const shade = this.bad.has(chunk) ? BAD_SHADE : size < 0 ? ABSENT_SHADE : stored;
      const to = each === 1 ? down * wide + right : Math.floor(down / each) * wide + Math.floor(right / each);
      if (shade > (shades[to] ?? GAP)) shades[to] = shade;
    });
    this.paint(shades, tall, wide);
    // A cell has at most 40 pixels, and all cells together fill the width.
    this.stage.style.maxWidth = `${Math.max(200, width * 40)}px`;
    this.stage.style.aspectRatio = `${width} / ${height}`;
  }

  private paint(shades: Int32Array, tall: number, wide: number): void {
    this.canvas.width = wide;
    this.canvas.height = tall;
    const image = new ImageData(wide, tall);
    const colors = table("viridis");
    const absent = ABSENT[isDark() ? "dark" : "light"];
    shades.forEach((shade, cell) => {
      if (shade === GAP) return;
      for (let part = 0; part < 3; part += 1) {
        const stored = colors[shade * 4 + part] ?? 0;
        image.data[cell * 4 + part] =
          shade === BAD_SHADE ? (BAD[part] ?? 0) : shade === ABSENT_SHADE ? (absent[part] ?? 0) : stored;
      }
      image.data[cell * 4 + 3] = 255;
    });
    this.canvas.getContext("2d")?.putImageData(image, 0, 0);
  }

  private cellUnder(event: PointerEvent): [number, number] | null {
    const box = this.canvas.getBoundingClientRect();
    if (!this.layout || box.width === 0) return null;
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.layout.height);
    const column = Math.floor(((event.clientX - box.left) / box.width) * this.layout.width);
    return [row, column];
  }

  private under(event: PointerEvent): number[] | null {
    const cell = this.cellUnder(event);
    return cell && this.layout ? chunkAt(this.layout, ...cell) : null;
  }

  private hover(event: PointerEvent): void {
    const at = this.under(event);
    if (at) this.say(at);
  }

  private say(at: number[]): string {
    const { found } = this;
    if (!found?.bytes) return "";
    const n = numberOf(at, found.grid);
    const size = found.bytes[n] ?? -1;
    const from = at.map((one, axis) => {
      const start = one * (found.shape[axis] ?? 1);
      return `${start}:${Math.min(start + (found.shape[axis] ?? 1), this.described.shape[axis] ?? 0)}`;
    });
    const state = this.bad.get(n) ?? (size < 0 ? "absent: every element is the fill value" : bytes(size));
    const words = `${found.unit} (${at.join(", ")}): ${state}`;
    fill(this.text, h("strong", {}, words), h("span", { class: "quiet" }, `elements [${from.join(", ")}]`));
    return words;
  }

  private key(event: KeyboardEvent): void {
    const arrows: Record<string, [number, number]> = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const arrow = arrows[event.key];
    if (event.key === "Enter" && this.cursor && this.layout) {
      const at = chunkAt(this.layout, this.cursor[0] ?? 0, this.cursor[1] ?? 0);
      if (at) this.go(at);
    } else if (arrow && this.layout) {
      const [row = 0, column = 0] = this.cursor ?? [0, 0];
      for (let by = 1; by < 3; by += 1) {
        const next = this.cursor ? [row + arrow[0] * by, column + arrow[1] * by] : [0, 0];
        const at = chunkAt(this.layout, next[0] ?? 0, next[1] ?? 0);
        if (!at) continue;
        this.cursor = next;
        announce(this.say(at));
        break;
      }
      this.place();
    } else return;
    event.preventDefault();
  }

  private place(): void {
    if (!this.cursor || !this.layout) return;
    const [row = 0, column = 0] = this.cursor;
    this.frame.hidden = false;
    this.frame.style.left = `${(column / this.layout.width) * 100}%`;
    this.frame.style.top = `${(row / this.layout.height) * 100}%`;
    this.frame.style.width = `max(6px, ${100 / this.layout.width}%)`;
    this.frame.style.height = `max(6px, ${100 / this.layout.height}%)`;
  }

  /** Shows the elements of a chunk. */
  private go(at: number[]): void {
    const { found } = this;
    if (!found) return;
    const now: Chosen = chosen(view(), this.described);
    const start = (axis: number): number => (at[axis] ?? 0) * (found.shape[axis] ?? 1);
    const part = (axis: number): { start: number; stop: number; step: number } => ({
      start: start(axis),
      stop: Math.min(start(axis) + (found.shape[axis] ?? 1), this.described.shape[axis] ?? 0),
      step: 1,
    });
    const to: Chosen = {
      axes: now.axes,
      at: at.map((_, axis) => start(axis)),
      rows: part(now.axes[0]),
      columns: part(now.axes[1]),
    };
    setView({ select: selectText(to, this.described), tab: "" });
    this.opened();
  }

  private async check(): Promise<void> {
    fill(this.checking, h("span", { role: "status" }, "decoding every chunk…"), button("Stop", () => this.controller.abort()));
    this.controller = new AbortController();
    try {
      const found = await askJson<Checked>("bad", this.path, {}, this.controller.signal);
      this.bad = new Map(found.bad.flatMap(({ at, message }) => (at === null ? [] : [[at, message]])));
      const [first] = this.bad.keys();
      const others = found.bad.filter(({ at }) => at === null).map(({ message }) => message);
      const all = found.checked === null ? "" : ` of ${count(found.checked)}`;
      const words =
        found.bad.length === 0
          ? `All ${count(found.checked ?? this.found?.count ?? 0)} ${this.units()} are intact`
          : [`${count(this.bad.size)}${all} ${this.units()} are damaged`, ...others].join("; ");
      this.words();
      fill(this.checking, h("span", { role: "status" }, words));
      if (first !== undefined && this.found) this.say(placeOf(first, this.found.grid));
      this.draw();
    } catch (error) {
      if (isAbort(error)) fill(this.checking, "stopped");
      else fill(this.checking, problem(error));
    }
  }

  destroy(): void {
    this.controller.abort();
    this.unsubscribe();
  }
}
