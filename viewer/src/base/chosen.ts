// Which part of an array the view shows: the axes of the plane, the sliders, the window.

import { clamp, parseSelection } from "./api";
import type { Described, Slice } from "./types";
import type { View } from "./view_state";

export interface Chosen {
  /** One index per axis. Those of the plane's axes do not count. */
  at: number[];
  /** The axes of rows and columns. */
  axes: [number, number];
  rows: Slice;
  columns: Slice;
}

export function chosen(view: View, described: Described): Chosen {
  const { shape } = described;
  const rank = shape.length;
  const asked = view.plane.split(",").map(Number);
  const isPair = (axes: number[]): boolean =>
    axes.length === 2 && axes[0] !== axes[1] && axes.every((axis) => Number.isInteger(axis) && axis >= 0 && axis < rank);
  const fallback = isPair(described.plane) ? described.plane : [Math.max(0, rank - 2), rank - 1];
  const [row = 0, column = 0] = view.plane !== "" && isPair(asked) ? asked : fallback;
  const parts = parseSelection(view.select, shape, described.axes.map((axis) => axis.name));
  const whole = (axis: number): Slice => ({ start: 0, stop: shape[axis] ?? 0, step: 1 });
  const window = (axis: number): Slice => {
    const part = parts[axis];
    return typeof part === "object" && part.stop > part.start ? { ...part, step: 1 } : whole(axis);
  };
  return {
    at: shape.map((size, axis) => {
      const part = parts[axis];
      return clamp(typeof part === "number" ? part : 0, 0, Math.max(0, size - 1));
    }),
    axes: [row, column],
    rows: window(row),
    columns: window(column),
  };
}

/** The text of `View.select`. Empty: the first of each slider, and all of the plane. */
export function selectText(chosen: Chosen, described: Described): string {
  const { shape } = described;
  const [row, column] = chosen.axes;
  const parts = shape.map((size, axis) => {
    if (axis !== row && axis !== column) return String(chosen.at[axis] ?? 0);
    const { start, stop } = axis === row ? chosen.rows : chosen.columns;
    return start === 0 && stop === size ? ":" : `${start}:${stop}`;
  });
  return parts.every((part) => part === ":" || part === "0") ? "" : parts.join(",");
}

/** The units of the numbers that are shown. A phase has others than its array. */
export function shownUnits(view: View, described: Described): string | null {
  if (described.kind === "time") return null;
  return described.kind === "complex" && view.part === "phase" ? "radians" : described.units;
}

/** The selection of what is visible, with every axis spelled out. */
export function visibleText(chosen: Chosen, described: Described): string {
  const [row, column] = chosen.axes;
  return described.shape
    .map((_, axis) => {
      if (axis === described.rgb) return ":";
      if (axis !== row && axis !== column) return String(chosen.at[axis] ?? 0);
      const { start, stop } = axis === row ? chosen.rows : chosen.columns;
      return `${start}:${stop}`;
    })
    .join(",");
}
