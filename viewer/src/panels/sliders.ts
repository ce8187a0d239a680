// A slider for each axis that the picture does not show, with its coordinate, and the film.

import type { Chosen } from "../base/chosen";
import { chosen, selectText } from "../base/chosen";
import { announce, button, h } from "../base/dom";
import type { Described } from "../base/types";
import { setView, view } from "../base/view_state";
import type { AxisLabels } from "../picture/axis_labels";

/** Steps of a film per second. */
const SPEEDS = [1, 2, 5, 10, 25];

interface Row {
  axis: number;
  input: HTMLInputElement;
  output: HTMLOutputElement;
  play: HTMLButtonElement;
}

export class Sliders {
  readonly element = h("div", { class: "sliders" });
  private rows: Row[] = [];
  private playing: number | null = null;
  /** Counts films. One that sleeps while the next one starts must not wake up. */
  private film = 0;
  private speed = 5;
  private axes = "";

  constructor(
    private described: Described,
    private labels: AxisLabels[],
    /** Resolves when the picture shows the step. */
    private settled: () => Promise<void>,
  ) {
    this.update();
  }

  /** Shows what the view says. */
  update(): void {
    const now = chosen(view(), this.described);
    const hidden = this.described.rgb;
    const axes = this.described.shape
      .map((_, axis) => axis)
      .filter((axis) => !now.axes.includes(axis) && (this.described.shape[axis] ?? 0) > 1 && axis !== hidden);
    if (String(axes) !== this.axes) this.build(axes);
    for (const row of this.rows) this.show(row, now.at[row.axis] ?? 0);
  }

  private build(axes: number[]): void {
    this.stop();
    this.axes = String(axes);
    this.rows = axes.map((axis) => {
      const size = this.described.shape[axis] ?? 1;
      const name = this.labels[axis]?.name ?? `axis ${axis}`;
      const input = h("input", {
        type: "range",
        min: 0,
        max: size - 1,
        step: 1,
        "aria-label": name,
        oninput: () => {
          this.stop();
          this.move(axis, Number(input.value));
        },
      });
      const output = h("output", {});
      const play = button("▶", () => (this.playing === axis ? this.stop() : void this.play(axis)), {
        class: "play",
        title: `Play along ${name} (space)`,
        "aria-label": `Play along ${name}`,
      });
      return { axis, input, output, play };
    });
    this.element.replaceChildren(
      ...this.rows.map(({ axis, input, output, play }) => {
        const name = this.labels[axis]?.name ?? "";
        const back = button("‹", () => this.step(axis, -1), { "aria-label": `Previous ${name}`, title: "Previous ([)" });
        const on = button("›", () => this.step(axis, 1), { "aria-label": `Next ${name}`, title: "Next (])" });
        return h("div", { class: "slider" }, h("span", { class: "name" }, name), play, back, input, on, output);
      }),
    );
    if (this.rows.length > 0) {
      const select = h("select", { "aria-label": "Steps per second", onchange: () => (this.speed = Number(select.value)) });
      for (const speed of SPEEDS) select.append(h("option", { value: speed, selected: speed === this.speed }, `${speed} per second`));
      this.element.lastElementChild?.append(select);
    }
  }

  private show(row: Row, index: number): void {
    const size = this.described.shape[row.axis] ?? 1;
    row.input.value = String(index);
    const label = this.labels[row.axis]?.label(index) ?? String(index);
    row.output.textContent = label === String(index) ? `${index} / ${size - 1}` : `${label} · ${index} / ${size - 1}`;
    row.input.setAttribute("aria-valuetext", `${label}, ${index} of ${size - 1}`);
    const isPlaying = this.playing === row.axis;
    row.play.textContent = isPlaying ? "⏸" : "▶";
    row.play.setAttribute("aria-label", `${isPlaying ? "Pause" : "Play along"} ${this.labels[row.axis]?.name ?? ""}`);
  }

  private move(axis: number, index: number): void {
    const now: Chosen = chosen(view(), this.described);
    now.at[axis] = index;
    setView({ select: selectText(now, this.described) });
  }

  /** One step along an axis. By default along the first. */
  step(axis: number | undefined, by: number): void {
    axis ??= this.rows[0]?.axis;
    if (axis === undefined) return;
    this.stop();
    const size = this.described.shape[axis] ?? 1;
    const index = ((chosen(view(), this.described).at[axis] ?? 0) + by + size) % size;
    this.move(axis, index);
    announce(this.labels[axis]?.label(index) ?? String(index));
  }

  toggle(): void {
    const axis = this.rows[0]?.axis;
    if (this.playing !== null) this.stop();
    else if (axis !== undefined) void this.play(axis);
  }

  private async play(axis: number): Promise<void> {
    this.stop();
    this.playing = axis;
    this.film += 1;
    const { film } = this;
    this.update();
    const size = this.described.shape[axis] ?? 1;
    while (this.film === film && this.playing === axis && this.element.isConnected) {
      const start = performance.now();
      const index = ((chosen(view(), this.described).at[axis] ?? 0) + 1) % size;
      this.move(axis, index);
      // A slow step delays the film, and no step is left out.
      await this.settled();
      const rest = 1000 / this.speed - (performance.now() - start);
      await new Promise((resolve) => window.setTimeout(resolve, Math.max(rest, 10)));
    }
  }

  stop(): void {
    if (this.playing === null) return;
    this.playing = null;
    this.update();
  }
}
