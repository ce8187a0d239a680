// The colour bar: colours, ticks, ends that can be typed, and what missing looks like.

import { h } from "../base/dom";
import { digitsFor, niceTicks, number } from "../base/format";
import { degrees } from "./axis_labels";
import type { Scale } from "./scale";
import { ticks } from "./scale";

export class ColorBar {
  readonly element: HTMLElement;
  private canvas = h("canvas", { width: 256, height: 1, "aria-hidden": "true" });
  private ticks = h("div", { class: "bar-ticks", "aria-hidden": "true" });
  private low: HTMLInputElement;
  private high: HTMLInputElement;
  private units = h("span", { class: "units" });
  private scale: Scale | null = null;
  private missing = h("span", { class: "missing-legend" });

  constructor(act: (low: number, high: number) => void) {
    // The other end keeps its number: the text of its field is rounded.
    const end = (label: string, other: (typed: number, scale: Scale) => [number, number]): HTMLInputElement => {
      const changed = (): void => {
        if (input.value === "" || !this.scale) return;
        const [low, high] = other(Number(input.value), this.scale);
        if (high > low) act(low, high);
      };
      const input = h("input", { type: "number", step: "any", class: "bar-end", "aria-label": label, title: label, onchange: changed });
      return input;
    };
    this.low = end("lowest colour", (low, { high }) => [low, high]);
    this.high = end("highest colour", (high, { low }) => [low, high]);
    this.element = h(
      "div",
      { class: "color-bar" },
      this.low,
      h("div", { class: "bar" }, this.canvas, this.ticks),
      this.high,
      this.units,
      this.missing,
    );
  }

  update(scale: Scale, colors: Uint8Array, units: string | null, missing: number, isPhotograph: boolean): void {
    this.scale = scale;
    const image = new ImageData(256, 1);
    image.data.set(colors);
    this.canvas.getContext("2d")?.putImageData(image, 0, 0);
    this.ticks.replaceChildren(
      ...ticks(scale, 5, niceTicks)
        .filter(({ at }) => at > 0.03 && at < 0.97)
        .map(({ at, label }) => {
          const tick = h("span", {}, label);
          tick.style.left = `${at * 100}%`;
          return tick;
        }),
    );
    const digits = digitsFor(scale.low, scale.high, 5) + 1;
    for (const [input, value] of [[this.low, scale.low], [this.high, scale.high]] as const) {
      if (document.activeElement !== input) input.value = number(value, digits).replace("−", "-");
    }
    this.units.textContent = degrees(units) ?? "";
    this.missing.replaceChildren(...(missing > 0 ? [h("span", { class: "hatch" }), "missing"] : []));
    this.element.hidden = isPhotograph && missing === 0;
    this.element.classList.toggle("photograph", isPhotograph);
  }
}
