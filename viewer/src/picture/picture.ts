// A picture of two axes of an array.

import type { Chosen } from "../base/chosen";
import { chosen, selectText, shownUnits } from "../base/chosen";
import { button, debounced, h } from "../base/dom";
import type { Described, Slice } from "../base/types";
import { setView, view } from "../base/view_state";
import { isDark, onTheme } from "../frame/theme";
import type { AxisLabels } from "./axis_labels";
import type { Camera } from "./camera";
import { cameraFor } from "./camera_for";
import { ColorBar } from "./color_bar";
import { attachGestures } from "./gestures";
import type { Above } from "./overlay";
import { GUTTER, drawOverlay } from "./overlay";
import { Loading } from "./loading";
import type { Plane, Wanted } from "./planes";
import { Readout } from "./readout";
import type { Layer } from "./renderer";
import { renderer } from "./renderer";
import type { Scale } from "./scale";
import { fit, table, typed } from "./scale";

/** What a picture tells the page around it. */
export interface PictureEvents {
  /** An element was clicked. */
  picked(at: number[]): void;
  /** A box was drawn. */
  boxed(rows: Slice, columns: Slice): void;
  /** A plane came. */
  loaded(plane: Plane): void;
  failed(error: unknown): void;
}

export interface Mark {
  at: number[];
  color: string;
}

export class Picture {
  readonly element: HTMLElement;
  private area: HTMLElement;
  private renderer = renderer();
  private overlay = h("canvas", { class: "overlay", "aria-hidden": "true" });
  private busy = h("div", { class: "busy", hidden: true }, "reading…");
  readonly bar: ColorBar;
  readonly readout: Readout;
  private loading: Loading;
  private camera: Camera;
  private chosen: Chosen;
  private plane: Plane | null = null;
  private layers: Plane[] = [];
  private scale: Scale | null = null;
  private colors: { name: string; table: Uint8Array } = { name: "", table: new Uint8Array(0) };
  private cross: { row: number; column: number } | null = null;
  private box: Above["box"] = null;
  private marks: Mark[] = [];
  private frame = 0;
  private observer: ResizeObserver;
  private unsubscribe: () => void;
  isBoxing = false;
  /** Draws something while the first plane is read. */
  placeholder: HTMLElement | null = null;
  hasCoast = true;

  constructor(
    private path: string,
    private described: Described,
    private labels: AxisLabels[],
    private events: PictureEvents,
  ) {
    this.loading = new Loading(described, {
      came: (plane, coarse) => this.take(plane, coarse),
      failed: (error) => events.failed(error),
      busy: (isBusy) => (this.busy.hidden = !isBusy),
    });
    this.chosen = chosen(view(), described);
    this.bar = new ColorBar((low, high) => setView({ range: `${low},${high}` }));
    this.readout = new Readout(path, described, labels);
    this.camera = cameraFor(described, labels, this.chosen.axes);
    this.area = h("div", {
      class: "area",
      tabindex: "0",
      role: "application",
      "aria-busy": "true",
      "aria-label": `Picture of ${described.name}`,
      "aria-describedby": "picture-keys",
    });
    this.area.append(this.renderer.canvas);
    const keys = "Arrow keys move a crosshair and read its value. Enter shows profiles. Plus and minus zoom. 0 shows all.";
    this.element = h(
      "div",
      { class: "picture" },
      this.overlay,
      this.area,
      this.buttons(),
      this.busy,
      h("p", { id: "picture-keys", class: "unseen" }, keys),
    );
    attachGestures(this.area, this.gestures(), () => this.isBoxing);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.element);
    this.unsubscribe = onTheme(() => this.draw());
  }

  private resize(): void {
    const box = this.element.getBoundingClientRect();
    const width = Math.max(40, Math.floor(box.width) - GUTTER.left - GUTTER.right);
    const height = Math.max(40, Math.floor(box.height) - GUTTER.top - GUTTER.bottom);
    if (width === this.camera.width && height === this.camera.height) return;
    const isFirst = this.camera.width === 1;
    const wasWhole = this.camera.isWhole();
    this.camera.resize(width, height);
    const pixels = this.pixels();
    this.renderer.resize(width, height, pixels);
    for (const element of [this.area, this.renderer.canvas]) {
      element.style.width = `${width}px`;
      element.style.height = `${height}px`;
    }
    this.area.style.left = `${GUTTER.left}px`;
    this.area.style.top = `${GUTTER.top}px`;
    this.overlay.width = Math.round(box.width * pixels);
    this.overlay.height = Math.round(box.height * pixels);
    if (isFirst) this.look();
    else if (wasWhole) this.camera.fit();
    this.request();
    this.draw();
  }

  private pixels(): number {
    return Math.min(window.devicePixelRatio || 1, 2);
  }

  /** Points the camera at the window of the view. */
  private look(): void {
    const { rows, columns } = this.chosen;
    this.camera.show(rows.start, rows.stop, columns.start, columns.stop);
  }

  /** Shows what the view says. */
  update(): void {
    const now = chosen(view(), this.described);
    const before = this.chosen;
    this.chosen = now;
    const isTurned = String(now.axes) !== String(before.axes);
    if (isTurned) {
      const { width, height } = this.camera;
      this.camera = cameraFor(this.described, this.labels, now.axes);
      this.camera.width = width;
      this.camera.height = height;
      this.layers = [];
      this.plane = null;
      this.box = null;
      this.cross = null;
    }
    const same = (a: Slice, b: Slice): boolean => a.start === b.start && a.stop === b.stop;
    if (isTurned || !same(now.rows, before.rows) || !same(now.columns, before.columns)) this.look();
    this.request(now.at.findIndex((n, axis) => n !== before.at[axis]), before);
    this.fitRange(false);
    this.draw();
  }

  private wanted(at = this.chosen.at): Wanted {
    return {
      path: this.path,
      version: this.described.version,
      at,
      axes: this.chosen.axes,
      ...this.camera.wanted(this.pixels()),
      part: view().part,
      rgb: this.isPhotograph ? this.described.rgb : null,
    };
  }

  get isPhotograph(): boolean {
    const { rgb } = this.described;
    return rgb !== null && !this.chosen.axes.includes(rgb);
  }

  /** Reads what is visible. `moved`: the axis of a slider that moved, since `before`. */
  private request(moved = -1, before: Chosen | null = null): void {
    if (this.camera.width === 1) return;
    this.area.setAttribute("aria-busy", "true");
    this.loading.want(this.wanted(), moved >= 0 || !this.plane, before && this.next(moved, before));
  }

  private take(plane: Plane, coarse: Plane | null): void {
    this.placeholder?.remove();
    this.placeholder = null;
    this.layers = coarse ? [coarse, plane] : [plane];
    const isFirst = this.plane === null;
    this.plane = plane;
    this.fitRange(isFirst);
    this.draw();
    this.events.loaded(plane);
  }

  /** The next step of a slider: it is read while somebody looks at this one. */
  private next(axis: number, before: Chosen): Wanted | null {
    const now = this.chosen.at[axis] ?? 0;
    const next = now + Math.sign(now - (before.at[axis] ?? 0));
    if (axis < 0 || next < 0 || next >= (this.described.shape[axis] ?? 0)) return null;
    const at = [...this.chosen.at];
    at[axis] = next;
    return this.wanted(at);
  }

  /** Resolves when the picture shows what the view says. */
  settled(): Promise<void> {
    return this.loading.settled();
  }

  private fitted = "";

  /** Chooses the ends of the colours. A film and a moved window keep them, until `isNew`. */
  fitRange(isNew: boolean): void {
    if (!this.plane) return;
    const { range, scale, part } = view();
    const key = [range, scale, part, this.chosen.axes, this.isPhotograph].join("|");
    if (!isNew && key === this.fitted && this.scale) return;
    const isPhase = this.described.kind === "complex" && part === "phase" && !typed(range);
    this.scale = isPhase ? { kind: "linear", low: -Math.PI, high: Math.PI } : fit(this.plane, range, scale);
    this.fitted = this.scale ? key : "";
    this.draw();
  }

  setMarks(marks: Mark[], box: Above["box"]): void {
    this.marks = marks;
    this.box = box;
    this.draw();
  }

  draw(): void {
    window.cancelAnimationFrame(this.frame);
    this.frame = window.requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    const { camera } = this;
    if (camera.width === 1) return;
    const { map } = view();
    if (this.colors.name !== map) this.colors = { name: map, table: table(map) };
    const scale = this.scale ?? { kind: "linear", low: 0, high: 1 };
    const layers = this.layers.map((plane): Layer => {
      const { rows, columns } = plane;
      // The last sample may reach beyond the array: it stands for as many elements as the others.
      const bottom = rows.start + plane.height * rows.step;
      const right = columns.start + plane.width * columns.step;
      return { plane, left: camera.x(columns.start), right: camera.x(right), top: camera.y(rows.start), bottom: camera.y(bottom) };
    });
    // Corners far outside lose their precision on graphics cards.
    const near = layers.filter((layer) => Math.abs(layer.right - layer.left) < 1e6 && Math.abs(layer.bottom - layer.top) < 1e6);
    this.renderer.draw(near, { scale, colors: this.colors.table, isDark: isDark() });
    this.bar.update(scale, this.colors.table, shownUnits(view(), this.described), this.plane?.missing ?? 0, this.isPhotograph);
    if (this.placeholder) this.placePlaceholder(this.placeholder);
    this.paintOverlay();
    this.area.setAttribute("aria-busy", String(!this.loading.isIdle));
  }

  private placePlaceholder(element: HTMLElement): void {
    const { camera } = this;
    const [x0, x1] = [camera.x(0), camera.x(camera.columns)].sort((a, b) => a - b) as [number, number];
    const [y0, y1] = [camera.y(0), camera.y(camera.rows)].sort((a, b) => a - b) as [number, number];
    element.style.left = `${GUTTER.left + x0}px`;
    element.style.top = `${GUTTER.top + y0}px`;
    element.style.width = `${x1 - x0}px`;
    element.style.height = `${y1 - y0}px`;
  }

  private paintOverlay(): void {
    const context = this.overlay.getContext("2d");
    const [row, column] = this.chosen.axes;
    const [rows, columns] = [this.labels[row], this.labels[column]];
    if (!context || !rows || !columns) return;
    const style = getComputedStyle(this.element);
    const ink = (name: string): string => style.getPropertyValue(name).trim();
    drawOverlay(context, this.pixels(), this.camera, rows, columns, {
      marks: this.marks.map(({ at, color }) => ({ row: at[row] ?? 0, column: at[column] ?? 0, color })),
      box: this.box,
      cross: this.cross,
      isMap: this.hasCoast && this.isMap(),
    }, { text: ink("--ink"), line: ink("--line"), coast: ink("--coast") });
  }

  isMap(): boolean {
    const [row, column] = this.chosen.axes;
    return this.described.axes[row]?.kind === "latitude" && this.described.axes[column]?.kind === "longitude";
  }

  private full(row: number, column: number): number[] {
    const at = [...this.chosen.at];
    at[this.chosen.axes[0]] = row;
    at[this.chosen.axes[1]] = column;
    return at;
  }

  private say(place: { row: number; column: number } | null, speak: boolean): void {
    if (!place) return;
    this.readout.show(this.plane, this.full(place.row, place.column), this.chosen.axes, speak);
  }

  private store = debounced(200, () => {
    const { top, bottom, left, right } = this.camera.visible();
    // The view's own window is not looked at again: it is rounded.
    this.chosen = {
      ...this.chosen,
      rows: { start: top, stop: bottom, step: 1 },
      columns: { start: left, stop: right, step: 1 },
    };
    setView({ select: selectText(this.chosen, this.described) });
  });

  private moved(): void {
    this.request();
    this.draw();
    this.store();
  }

  zoom(factor: number, x?: number, y?: number): void {
    this.camera.zoom(factor, x, y);
    this.moved();
  }

  fit(): void {
    this.camera.fit();
    this.moved();
  }

  private gestures(): Parameters<typeof attachGestures>[1] {
    return {
      pan: (dx, dy) => {
        this.camera.pan(dx, dy);
        this.moved();
      },
      zoom: (factor, x, y) => this.zoom(factor, x, y),
      hover: (x, y) => this.say(this.camera.element(x, y), false),
      leave: () => undefined,
      click: (x, y) => {
        const place = this.camera.element(x, y);
        if (place) this.events.picked(this.full(place.row, place.column));
        this.say(place, false);
      },
      box: (x0, y0, x1, y1, isDone) => {
        this.box = this.camera.box(x0, y0, x1, y1);
        this.draw();
        const { top, bottom, left, right } = this.box;
        if (isDone) this.events.boxed({ start: top, stop: bottom, step: 1 }, { start: left, stop: right, step: 1 });
      },
      fit: () => this.fit(),
      step: (right, down) => this.stepCross(right, down),
      pick: () => {
        if (this.cross) this.events.picked(this.full(this.cross.row, this.cross.column));
      },
    };
  }

  private stepCross(right: number, down: number): void {
    const { camera } = this;
    const seen = camera.visible();
    this.cross ??= { row: (seen.top + seen.bottom) >> 1, column: (seen.left + seen.right) >> 1 };
    const by = (scale: number): number => Math.max(1, Math.round(8 / scale));
    const rows = down * by(camera.tall) * (camera.isFlipped ? -1 : 1);
    const columns = right * by(camera.wide) * (camera.isMirrored ? -1 : 1);
    this.cross = {
      row: Math.min(Math.max(this.cross.row + rows, 0), camera.rows - 1),
      column: Math.min(Math.max(this.cross.column + columns, 0), camera.columns - 1),
    };
    const x = camera.x(this.cross.column + 0.5);
    const y = camera.y(this.cross.row + 0.5);
    const beyond = (at: number, size: number): number => (at < 0 ? 20 - at : at > size ? size - 20 - at : 0);
    const [dx, dy] = [beyond(x, camera.width), beyond(y, camera.height)];
    if (dx !== 0 || dy !== 0) {
      camera.pan(dx, dy);
      this.moved();
    }
    this.say(this.cross, true);
    this.draw();
  }

  /** Buttons for what gestures do, for people who use neither wheel nor keys. */
  private buttons(): HTMLElement {
    return h(
      "div",
      { class: "buttons zoom", role: "group", "aria-label": "Zoom" },
      button("+", () => this.zoom(1.5), { title: "Zoom in (+)", "aria-label": "Zoom in" }),
      button("−", () => this.zoom(1 / 1.5), { title: "Zoom out (−)", "aria-label": "Zoom out" }),
      button("All", () => this.fit(), { title: "Show the whole plane (0)" }),
    );
  }

  destroy(): void {
    this.loading.destroy();
    this.store.cancel();
    this.observer.disconnect();
    this.unsubscribe();
    this.readout.clear();
    window.cancelAnimationFrame(this.frame);
    this.renderer.destroy();
  }
}
