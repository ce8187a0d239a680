// Planes of numbers from the server, with a cache.

import { ask, parseSelection, selection } from "../base/api";
import type { Described, Slice } from "../base/types";

/** Numbers of a part of a plane. NaN: missing. */
export interface Plane {
  rows: Slice;
  columns: Slice;
  height: number;
  width: number;
  /** In C order: one number per element, or three (red, green, blue). */
  data: Float32Array;
  channels: 1 | 3;
  missing: number;
  /** The pyramid level that was read, if the server says so. */
  level: string | null;
  select: string;
  /** What the server needed, in milliseconds. */
  took: number | null;
}

/** What a plane is asked for. */
export interface Wanted {
  path: string;
  version: string;
  /** One integer per axis. Those of the plane's axes do not count. */
  at: number[];
  axes: [number, number];
  rows: Slice;
  columns: Slice;
  part: string;
  /** The axis of red, green and blue. */
  rgb: number | null;
}

/** Bytes of planes that are kept. */
const KEPT = 96 << 20;

export class Planes {
  private kept = new Map<string, Plane>();
  private size = 0;

  constructor(private described: Described) {}

  /** Finds a kept plane that shows all that is wanted, at least as fine. */
  find(wanted: Wanted): Plane | null {
    const name = family(wanted);
    for (const [key, plane] of this.kept) {
      if (!key.startsWith(name)) continue;
      const asked = key.slice(name.length).split(",").map(Number);
      const [r0 = 0, r1 = 0, rs = 1, c0 = 0, c1 = 0, cs = 1] = asked;
      if (r0 <= wanted.rows.start && r1 >= wanted.rows.stop && rs <= wanted.rows.step &&
        c0 <= wanted.columns.start && c1 >= wanted.columns.stop && cs <= wanted.columns.step) {
        this.kept.delete(key);
        this.kept.set(key, plane);
        return plane;
      }
    }
    return null;
  }

  /** Any kept plane of the same sliders: something to show at once. */
  coarse(wanted: Wanted): Plane | null {
    const name = family(wanted);
    let best: Plane | null = null;
    for (const [key, plane] of this.kept) {
      if (key.startsWith(name) && (!best || area(plane) > area(best))) best = plane;
    }
    return best;
  }

  async load(wanted: Wanted, signal: AbortSignal): Promise<Plane> {
    const found = this.find(wanted);
    if (found) return found;
    const plane = wanted.rgb === null ? await this.one(wanted, wanted.at, signal) : await this.three(wanted, signal);
    const key = family(wanted) + [wanted.rows, wanted.columns].map((s) => [s.start, s.stop, s.step]).join(",");
    this.kept.set(key, plane);
    this.size += plane.data.byteLength;
    for (const [old, its] of this.kept) {
      if (this.size <= KEPT || old === key) break;
      this.kept.delete(old);
      this.size -= its.data.byteLength;
    }
    return plane;
  }

  private async one(wanted: Wanted, at: number[], signal: AbortSignal): Promise<Plane> {
    const [rowAxis, columnAxis] = wanted.axes;
    const parts: (number | Slice)[] = [...at];
    parts[rowAxis] = { ...wanted.rows, step: 1 };
    parts[columnAxis] = { ...wanted.columns, step: 1 };
    const tall = samples(wanted.rows);
    const wide = samples(wanted.columns);
    const isTurned = rowAxis > columnAxis;
    const response = await ask(
      "plane",
      wanted.path,
      {
        select: selection(parts),
        height: isTurned ? wide : tall,
        width: isTurned ? tall : wide,
        part: this.described.kind === "complex" ? wanted.part : null,
      },
      signal,
    );
    const numbers = new Float32Array(await response.arrayBuffer());
    const [first = 0, second = 0] = (response.headers.get("X-Shape") ?? "").split(",").map(Number);
    const read = parseSelection(response.headers.get("X-Select") ?? selection(parts), this.described.shape);
    const timing = /dur=([\d.]+)/.exec(response.headers.get("Server-Timing") ?? "");
    return {
      rows: slice(read[rowAxis], wanted.rows),
      columns: slice(read[columnAxis], wanted.columns),
      height: isTurned ? second : first,
      width: isTurned ? first : second,
      data: isTurned ? turned(numbers, first, second) : numbers,
      channels: 1,
      missing: Number(response.headers.get("X-Missing") ?? 0),
      level: response.headers.get("X-Level"),
      select: response.headers.get("X-Select") ?? selection(parts),
      took: timing ? Number(timing[1]) : null,
    };
  }

  private async three(wanted: Wanted, signal: AbortSignal): Promise<Plane> {
    const axis = wanted.rgb ?? 0;
    const colors = await Promise.all(
      [0, 1, 2].map((color) => {
        const at = [...wanted.at];
        at[axis] = color;
        return this.one(wanted, at, signal);
      }),
    );
    const [red, green, blue] = colors as [Plane, Plane, Plane];
    const data = new Float32Array(red.data.length * 3);
    for (let n = 0; n < red.data.length; n += 1) {
      data[n * 3] = red.data[n] ?? 0;
      data[n * 3 + 1] = green.data[n] ?? 0;
      data[n * 3 + 2] = blue.data[n] ?? 0;
    }
    return { ...red, data, channels: 3 };
  }
}

function family(wanted: Wanted): string {
  const at = wanted.at.map((n, axis) => (wanted.axes.includes(axis) || axis === wanted.rgb ? "" : n));
  return `${wanted.path}|${wanted.version}|${at}|${wanted.axes}|${wanted.part}|${wanted.rgb}|`;
}

function area(plane: Plane): number {
  return (plane.rows.stop - plane.rows.start) * (plane.columns.stop - plane.columns.start);
}

function samples(range: Slice): number {
  return Math.max(1, Math.ceil((range.stop - range.start) / range.step));
}

function slice(part: number | Slice | undefined, otherwise: Slice): Slice {
  return typeof part === "object" ? part : otherwise;
}

function turned(numbers: Float32Array, height: number, width: number): Float32Array {
  const result = new Float32Array(numbers.length);
  for (let row = 0; row < height; row += 1) {
    for (let column = 0; column < width; column += 1) {
      result[column * height + row] = numbers[row * width + column] ?? NaN;
    }
  }
  return result;
}

/** The element of a plane that an element of the array is shown by, and its number. */
export function valueAt(plane: Plane, row: number, column: number): { row: number; column: number; values: number[] } | null {
  const down = Math.floor((row - plane.rows.start) / plane.rows.step);
  const right = Math.floor((column - plane.columns.start) / plane.columns.step);
  if (down < 0 || right < 0 || down >= plane.height || right >= plane.width) return null;
  const first = (down * plane.width + right) * plane.channels;
  return {
    row: plane.rows.start + down * plane.rows.step,
    column: plane.columns.start + right * plane.columns.step,
    values: [...plane.data.subarray(first, first + plane.channels)],
  };
}
