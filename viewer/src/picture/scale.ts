// From numbers to colours: ranges, scales, and tables of colours.

import { COLORS } from "../../generated/colors";
import { digitsFor, number } from "../base/format";
import type { Plane } from "./planes";

export const SCALES = [
  { value: "linear", label: "linear" },
  { value: "log", label: "logarithmic" },
  { value: "symmetric", label: "symmetric" },
  { value: "symlog", label: "symmetric log" },
];

export const RANGES = [
  { value: "2-98", label: "2 to 98 %" },
  { value: "1-99", label: "1 to 99 %" },
  { value: "all", label: "smallest to largest" },
];

export const MAPS = Object.keys(COLORS);

/** How numbers become colours. */
export interface Scale {
  kind: string;
  low: number;
  high: number;
}

/** The part of a symmetric logarithmic scale that is linear. */
const LINEAR_PART = 1e-3;

/** The place of a number in the table of colours: 0 to 1 between the ends. */
export function place(scale: Scale, value: number): number {
  const { kind, low, high } = scale;
  if (!(high > low)) return 0.5;
  if (kind === "log") {
    const from = Math.max(low, Number.MIN_VALUE);
    return value <= 0 ? 0 : (Math.log(value) - Math.log(from)) / (Math.log(high) - Math.log(from));
  }
  if (kind === "symlog") {
    const c = Math.max(Math.abs(low), Math.abs(high)) * LINEAR_PART;
    return 0.5 + (0.5 * Math.asinh(value / c)) / Math.asinh(1 / LINEAR_PART);
  }
  return (value - low) / (high - low);
}

/** The number at a place: the opposite of `place`. */
export function valueOf(scale: Scale, at: number): number {
  const { kind, low, high } = scale;
  if (kind === "log") return Math.exp(Math.log(low) + at * (Math.log(high) - Math.log(low)));
  if (kind === "symlog") {
    const c = Math.max(Math.abs(low), Math.abs(high)) * LINEAR_PART;
    return c * Math.sinh((at - 0.5) * 2 * Math.asinh(1 / LINEAR_PART));
  }
  return low + at * (high - low);
}

/** Reads a range that somebody typed. */
export function typed(range: string): [number, number] | null {
  const ends = range.split(",").map(Number);
  const [low, high] = ends;
  const isRange = ends.length === 2 && low !== undefined && high !== undefined && Number.isFinite(high - low);
  return isRange && high > low ? [low, high] : null;
}

/** The percents of a range such as `2-98`: also of one that nobody understands. */
function percents(range: string): [number, number] {
  const [first = NaN, last = NaN] = (/^([\d.]+)-([\d.]+)$/.exec(range) ?? []).slice(1).map(Number);
  return first < last && last <= 100 ? [first, last] : [2, 98];
}

/** Sorted numbers of a plane, at most 100,000. */
function sample(plane: Plane, positive: boolean): Float32Array {
  const step = Math.max(1, Math.floor(plane.data.length / 1e5));
  const found = new Float32Array(Math.ceil(plane.data.length / step));
  let n = 0;
  for (let at = 0; at < plane.data.length; at += step) {
    const value = plane.data[at] ?? NaN;
    if (Number.isFinite(value) && (!positive || value > 0)) {
      found[n] = value;
      n += 1;
    }
  }
  return found.subarray(0, n).sort();
}

function extremes(plane: Plane, positive: boolean): [number, number] | null {
  let low = Infinity;
  let high = -Infinity;
  for (const value of plane.data) {
    if (!Number.isFinite(value) || (positive && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

/** The ends of the colours for a plane. `null`: the plane has no numbers. */
export function fit(plane: Plane, range: string, kind: string): Scale | null {
  let ends = typed(range);
  if (!ends && plane.channels === 3 && range === "2-98") {
    // Photographs keep their brightness.
    const all = extremes(plane, false);
    ends = all && all[0] >= 0 && all[1] <= 255 && all[1] > 1 ? [0, 255] : all;
  }
  if (!ends) {
    const positive = kind === "log";
    if (range === "all") ends = extremes(plane, positive);
    else {
      const [first, last] = percents(range);
      const sorted = sample(plane, positive);
      const at = (percent: number): number => sorted[Math.round(((sorted.length - 1) * percent) / 100)] ?? NaN;
      ends = sorted.length === 0 ? null : [at(first), at(last)];
      // Most numbers are the same: percentiles would hide the others.
      if (ends && ends[0] === ends[1]) ends = extremes(plane, positive);
    }
  }
  if (!ends) return null;
  let [low, high] = ends;
  if (kind === "symmetric" || kind === "symlog") {
    high = Math.max(Math.abs(low), Math.abs(high)) || 1;
    low = -high;
  }
  if (kind === "log" && low <= 0) low = high > 0 ? high / 1000 : 1e-3;
  return { kind, low, high };
}

/** A colour map with 256 colours, as bytes: red, green, blue, 255. */
export function table(name: string): Uint8Array {
  const stops = COLORS[name] ?? COLORS["viridis"] ?? [];
  const bytes = new Uint8Array(256 * 4);
  for (let n = 0; n < 256; n += 1) {
    const at = (n / 255) * (stops.length - 1);
    const first = Math.min(Math.floor(at), stops.length - 2);
    const rest = at - first;
    for (let part = 0; part < 3; part += 1) {
      const one = stops[first]?.[part] ?? 0;
      const other = stops[first + 1]?.[part] ?? 0;
      bytes[n * 4 + part] = Math.round(one + (other - one) * rest);
    }
    bytes[n * 4 + 3] = 255;
  }
  return bytes;
}

/** Round numbers for a colour bar, with their places. */
export function ticks(scale: Scale, parts: number, nice: (low: number, high: number, parts: number) => number[]): { at: number; label: string }[] {
  const { kind, low, high } = scale;
  let values: number[];
  if (kind === "log") {
    values = [];
    const last = Math.floor(Math.log10(high) + 1e-6);
    for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= last; power += 1) values.push(10 ** power);
    if (values.length < 2) values = nice(low, high, parts);
    const every = Math.ceil(values.length / parts);
    values = values.filter((_, n) => n % every === 0);
  } else if (kind === "symlog") {
    const power = 10 ** Math.floor(Math.log10(high));
    values = [-power, -power / 100, 0, power / 100, power];
  } else {
    values = nice(low, high, parts);
  }
  const digits = digitsFor(low, high, 4);
  return values.map((value) => ({ at: place(scale, value), label: number(value, digits) }));
}
