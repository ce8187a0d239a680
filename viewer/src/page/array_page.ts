// The page of one array.

import { askJson, isAbort, parseSelection, selection } from "../base/api";
import { chosen, selectText, visibleText } from "../base/chosen";
import { announce, button, fill, h } from "../base/dom";
import { shape as shapeWords } from "../base/format";
import type { Described } from "../base/types";
import { onView, setView, view } from "../base/view_state";
import { ChunkMap } from "../chunks/chunk_map";
import { problem } from "../frame/problem";
import { section } from "../frame/section";
import { Box, boxOf } from "../panels/box";
import { Cost } from "../panels/cost";
import { Downloads } from "../panels/downloads";
import { Facts } from "../panels/facts";
import { Lines } from "../panels/lines";
import { Profiles, addMark, marks } from "../panels/profiles";
import { Python } from "../panels/python";
import { Scalar } from "../panels/scalar";
import { Sliders } from "../panels/sliders";
import { ValueTable } from "../panels/value_table";
import { AxisLabels } from "../picture/axis_labels";
import { Picture } from "../picture/picture";
import type { Plane } from "../picture/planes";
import { follow } from "./follow";
import { Toolbar, partChoice } from "./toolbar";
import { rootOf } from "./where";

/** The most chunks whose sizes are read while a picture comes: 128 kB of them. */
const MOST_MEANWHILE = 1 << 14;

type Tab = "picture" | "chunks" | "table";

interface Panel {
  update(): void | Promise<void>;
}

export class ArrayPage {
  readonly element = h("div", { class: "page" });
  private described: Described | null = null;
  private labels: AxisLabels[] = [];
  private controller = new AbortController();
  private stops: (() => void)[] = [];
  private parts: { destroy(): void }[] = [];
  private panels: Panel[] = [];
  private picture: Picture | null = null;
  private sliders: Sliders | null = null;
  private lines: Lines | null = null;
  private toolbar: Toolbar | null = null;
  private plane: Plane | null = null;
  private cost: Panel | null = null;

  constructor(
    readonly path: string,
    private header: (described: Described) => void,
  ) {
    fill(this.element, h("p", { class: "quiet", role: "status" }, "opening…"));
    void this.open();
  }

  /** Reads what the array is, and shows it. `false`: a message says why not. */
  private async open(): Promise<boolean> {
    const { signal } = this.controller;
    this.clear();
    try {
      const described = await askJson<Described>("describe", this.path, {}, signal);
      this.labels = described.axes.map((axis, n) => new AxisLabels(this.path, n, axis));
      this.described = described;
      this.header(described);
      // The first picture needs its own coordinates. Sliders show indices until theirs come.
      await Promise.all(chosen(view(), described).axes.map((axis) => this.labels[axis]?.load(signal)));
      this.build(described);
      await Promise.all(this.labels.map((label) => (label.hasValues ? null : label.load(signal))));
      this.sliders?.update();
      this.picture?.draw();
      for (const panel of this.panels) void panel.update();
      return true;
    } catch (error) {
      if (isAbort(error) || signal.aborted) return false;
      fill(this.element, problem(error, () => void this.open()));
      // A file that is being replaced comes back. No version is the empty text, so the next answer opens it.
      if (this.described) this.stops.push(follow(this.path, "", () => this.changed()));
      return false;
    }
  }

  private tabs(described: Described): Tab[] {
    const hasPicture = ["number", "bool", "complex", "time"].includes(described.kind);
    if (described.shape.length === 0) return ["picture"];
    return hasPicture ? ["picture", "chunks", "table"] : ["table", "chunks"];
  }

  private build(described: Described): void {
    const tabs = this.tabs(described);
    const main = h("section", { class: "main", "aria-label": "Elements" });
    const side = h("aside", { class: "side", "aria-label": "Details" });
    fill(this.element, main, side);
    const select = (): string => this.selected(described);
    const showTab = (): void => {
      const hadFocus = main.querySelector(".tabs")?.contains(document.activeElement) ?? false;
      for (const part of this.parts.splice(0)) part.destroy();
      this.picture = null;
      this.sliders = null;
      this.lines = null;
      this.toolbar = null;
      this.cost = null;
      this.panels = [];
      const tab = tabs.includes(view().tab as Tab) ? (view().tab as Tab) : tabs[0];
      const bar = this.tabBar(tabs, tab, described);
      const body = h("div", { class: "body" });
      fill(main, bar, body);
      if (hadFocus) bar.querySelector<HTMLElement>("[aria-pressed=true]")?.focus();
      if (tab === "chunks") this.showChunks(body, described);
      else if (tab === "table") this.showTable(body, described);
      else if (described.shape.length === 0) this.showScalar(body, described);
      else if (described.shape.length === 1) this.showLines(body, described);
      else this.showPicture(body, described);
      fill(side, ...this.sections(described, tab ?? "picture", select));
      for (const panel of this.panels) void panel.update();
    };
    showTab();
    this.stops.push(
      onView((now, before) => {
        if (now.path !== this.path) return;
        if (now.tab !== before.tab) {
          showTab();
          return;
        }
        this.update();
      }),
      follow(this.path, described.version, () => this.changed()),
    );
  }

  private tabBar(tabs: Tab[], open: Tab | undefined, described: Described): HTMLElement {
    const picture = described.shape.length === 0 ? "Value" : described.shape.length === 1 ? "Line" : "Picture";
    const names: Record<Tab, string> = { picture, chunks: "Chunks", table: "Table" };
    const bar = h("div", { class: "tabs", role: "group", "aria-label": "Ways to look" });
    for (const tab of tabs) {
      bar.append(
        button(names[tab], () => setView({ tab: tab === tabs[0] ? "" : tab }), { "aria-pressed": String(tab === open), class: "tab" }),
      );
    }
    return bar;
  }

  private selected(described: Described): string {
    const { shape } = described;
    if (shape.length === 0) return "";
    const isTable = !["number", "bool", "complex", "time"].includes(described.kind);
    if (shape.length === 1 || isTable) {
      // Written anew: people copy the lines of Python, so no text of an address may get into them.
      const { select } = view();
      return select === "" ? "" : selection(parseSelection(select, shape, described.axes.map((axis) => axis.name)));
    }
    const now = chosen(view(), described);
    return visibleText(now, described)
      .split(",")
      .map((part, axis) => (part === `0:${shape[axis] ?? 0}` ? ":" : part))
      .join(",");
  }

  private showPicture(body: HTMLElement, described: Described): void {
    if (described.shape.includes(0)) {
      fill(body, h("p", {}, "The array is empty."));
      return;
    }
    const failed = h("div", {});
    let meanwhile: ChunkMap | null = null;
    const picture = new Picture(this.path, described, this.labels, {
      picked: (at) => addMark(described, at),
      boxed: (rows, columns) => setView({ box: `${rows.start}:${rows.stop},${columns.start}:${columns.stop}` }),
      loaded: (plane) => {
        failed.replaceChildren();
        meanwhile?.destroy();
        meanwhile = null;
        this.plane = plane;
        void this.cost?.update();
      },
      failed: (error) => fill(failed, problem(error, () => picture.update())),
    });
    this.picture = picture;
    this.toolbar = new Toolbar(described, this.labels, picture);
    this.sliders = new Sliders(described, this.labels, () => picture.settled());
    meanwhile = this.chunksMeanwhile(picture, described);
    this.parts.push(picture, { destroy: () => this.sliders?.stop() });
    fill(body, this.toolbar.element, failed, picture.element, picture.bar.element, picture.readout.element, this.sliders.element);
    this.drawMarks(described);
  }

  /** The sizes of chunks show the field's shape before anything is decoded. */
  private chunksMeanwhile(picture: Picture, described: Described): ChunkMap | null {
    const unit = described.shards ?? described.chunks;
    if (!unit || view().select !== "") return null;
    const units = described.shape.reduce((n, size, axis) => n * Math.ceil(size / Math.max(1, unit[axis] ?? 1)), 1);
    if (units > MOST_MEANWHILE) return null;
    const map = new ChunkMap(this.path, described, true, () => undefined);
    const note = h("div", { class: "meanwhile", "aria-hidden": "true" }, map.canvas);
    map.canvas.tabIndex = -1;
    picture.placeholder = note;
    picture.element.append(note);
    this.parts.push(map);
    return map;
  }

  private showLines(body: HTMLElement, described: Described): void {
    const label = this.labels[0];
    if (!label) return;
    const lines = new Lines(this.path, described, label, () => undefined);
    this.lines = lines;
    this.parts.push(lines);
    this.panels.push(lines);
    if (described.kind === "complex") body.append(h("div", { class: "toolbar" }, partChoice()));
    body.append(lines.element);
  }

  private showTable(body: HTMLElement, described: Described): void {
    const table = new ValueTable(this.path, described, this.labels);
    this.parts.push(table);
    this.panels.push(table);
    body.append(table.element);
    if (described.shape.length > 2) {
      this.sliders = new Sliders(described, this.labels, () => Promise.resolve());
      body.append(this.sliders.element);
    }
  }

  private showChunks(body: HTMLElement, described: Described): void {
    const map = new ChunkMap(this.path, described, true, () => announce("Showing the chunk"));
    this.parts.push(map);
    fill(body, map.element);
  }

  private showScalar(body: HTMLElement, described: Described): void {
    const scalar = new Scalar(this.path, described);
    this.panels.push(scalar);
    fill(body, scalar.element);
  }

  private sections(described: Described, tab: Tab, select: () => string): HTMLElement[] {
    const found: HTMLElement[] = [];
    if (tab === "picture" && this.picture) {
      const plane = (): number[] => chosen(view(), described).axes;
      const profiles = new Profiles(this.path, described, this.labels, plane);
      const box = new Box(this.path, described);
      const boxes = section("Statistics", box.element, boxOf(described) !== null, () => void box.update());
      this.parts.push(profiles, box);
      this.panels.push(profiles, {
        update: () => {
          if (boxOf(described)) boxes.open = true;
          return boxes.open ? box.update() : undefined;
        },
      });
      found.push(section("Profiles", profiles.element, true), boxes);
    }
    const python = new Python(this.path, described, rootOf(this.path, described), select);
    const downloads = new Downloads(this.path, described, select);
    this.panels.push(python, downloads);
    found.push(section("Python", python.element, true), section("Download", downloads.element, false));
    if (described.shape.length > 0) {
      const cost = new Cost(this.path, () => ({
        select: this.plane && this.picture ? this.plane.select : select() || described.shape.map(() => ":").join(","),
        name: this.plane && this.picture ? "What was read for the picture" : "The selection",
        level: this.plane?.level ?? null,
        took: this.plane?.took ?? null,
      }));
      // The server plans a read for each answer: it is asked for what somebody sees.
      const costs = section("Cost", cost.element, false, () => void cost.update());
      this.cost = { update: () => (costs.open ? cost.update() : undefined) };
      this.parts.push(cost);
      this.panels.push(this.cost);
      found.push(costs);
    }
    const facts = new Facts(this.path);
    found.push(section("Attributes and storage", facts.element, false, () => void facts.load()));
    return found;
  }

  private drawMarks(described: Described): void {
    const box = boxOf(described);
    const corners = box && { top: box.rows.start, bottom: box.rows.stop, left: box.columns.start, right: box.columns.stop };
    this.picture?.setMarks(marks(described), corners);
  }

  private update(): void {
    const { described } = this;
    if (!described) return;
    this.picture?.update();
    this.sliders?.update();
    this.toolbar?.update();
    this.drawMarks(described);
    for (const panel of this.panels) void panel.update();
  }

  /** The file changed: reads it again. Who looked at the last step looks at the new last step. */
  private async changed(): Promise<boolean> {
    const before = this.described;
    if (!before) return true;
    try {
      const now = await askJson<Described>("describe", this.path, {}, this.controller.signal);
      const grown = now.shape.flatMap((size, axis) => (size === before.shape[axis] ? [] : [`${this.labels[axis]?.name ?? axis}: ${size}`]));
      let change = {};
      if (now.shape.length === before.shape.length && now.shape.length > 1) {
        const was = chosen(view(), before);
        const parts = parseSelection(view().select, before.shape);
        const at = was.at.map((n, axis) => {
          const last = (before.shape[axis] ?? 1) - 1;
          return n === last && last > 0 ? (now.shape[axis] ?? 1) - 1 : n;
        });
        const grow = (axis: number, slice: { start: number; stop: number; step: number }): typeof slice =>
          typeof parts[axis] === "object" && slice.stop === before.shape[axis] ? { ...slice, stop: now.shape[axis] ?? 0 } : slice;
        const select = selectText({ ...was, at, rows: grow(was.axes[0], was.rows), columns: grow(was.axes[1], was.columns) }, now);
        change = { select };
      }
      this.clear();
      setView(change);
      announce(grown.length > 0 ? `The array grew. ${grown.join(", ")}` : "The array changed");
      const isOpen = await this.open();
      if (isOpen) this.note(grown.length > 0 ? `The array changed: ${shapeWords(now.shape)}` : "The array changed");
      return true;
    } catch {
      // The file is being replaced. The next question finds the new one.
      return false;
    }
  }

  private note(text: string): void {
    const note = h("p", { class: "toast" }, text);
    this.element.append(note);
    window.setTimeout(() => note.remove(), 4000);
  }

  /** Does what a key of the page says. */
  key(key: string): boolean {
    if (key === "[" || key === "]") {
      const by = key === "[" ? -1 : 1;
      if (this.lines) this.lines.move(by / 2);
      else this.sliders?.step(undefined, by);
    } else if (key === " ") this.sliders?.toggle();
    else if (key === "f") this.picture?.fitRange(true);
    else if (key === "p") setView({ tab: "" });
    else if (key === "c") setView({ tab: "chunks" });
    else if (key === "t") setView({ tab: "table" });
    else return false;
    return true;
  }

  private clear(): void {
    this.sliders?.stop();
    for (const stop of this.stops.splice(0)) stop();
    for (const part of this.parts.splice(0)) part.destroy();
    this.panels = [];
    this.cost = null;
    this.plane = null;
  }

  destroy(): void {
    this.controller.abort();
    this.clear();
  }
}
