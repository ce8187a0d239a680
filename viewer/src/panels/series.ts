// Numbers along one axis, from the server.

import { ask, parseSelection, selection } from "../base/api";
import type { Described, Slice } from "../base/types";

export interface Series {
  /** The elements that the numbers stand for. */
  range: Slice;
  values: Float32Array;
}

/** Reads along an axis, at about `most` elements. Without `most`: every element. */
export async function series(
  path: string,
  described: Described,
  at: number[],
  axis: number,
  range: Slice,
  most: number | null,
  part: string,
  signal: AbortSignal,
): Promise<Series> {
  const parts: (number | Slice)[] = [...at];
  parts[axis] = range;
  const select = selection(parts);
  const query = { select, height: most, part: described.kind === "complex" ? part : null };
  const response = await ask("plane", path, query, signal);
  const read = parseSelection(response.headers.get("X-Select") ?? select, described.shape)[axis];
  return { range: typeof read === "object" ? read : range, values: new Float32Array(await response.arrayBuffer()) };
}

/** The smallest and largest number of each of `parts` parts, so that no spike is lost. */
export function extremes(found: Series, parts: number): { x: Float64Array; low: Float32Array; high: Float32Array; each: number } {
  const { values, range } = found;
  const each = Math.max(1, Math.ceil(values.length / parts));
  const n = Math.ceil(values.length / each);
  const x = new Float64Array(n);
  const low = new Float32Array(n).fill(NaN);
  const high = new Float32Array(n).fill(NaN);
  for (let part = 0; part < n; part += 1) {
    const first = part * each;
    const last = Math.min(first + each, values.length);
    x[part] = range.start + ((first + last - 1) / 2) * range.step;
    for (let at = first; at < last; at += 1) {
      const value = values[at] ?? NaN;
      if (Number.isNaN(value)) continue;
      if (!((low[part] ?? NaN) <= value)) low[part] = value;
      if (!((high[part] ?? NaN) >= value)) high[part] = value;
    }
  }
  return { x, low, high, each };
}
