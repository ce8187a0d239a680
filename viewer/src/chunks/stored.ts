// The stored bytes of all chunks of an array.

import { ask, askJson } from "../base/api";

export interface Stored {
  /** `chunk` or `shard`. */
  unit: string;
  /** Elements of one chunk along each axis. */
  shape: number[];
  grid: number[];
  total: number;
  /** Bytes of each chunk in C order. −1: absent. `null`: the store does not list its chunks. */
  bytes: Float64Array | null;
  count: number;
  smallest: number;
  largest: number;
  sum: number;
}

/** The most chunks of a picture. More have no pixels on any screen. */
export const MOST_CHUNKS = 1 << 24;

interface Answer {
  unit: string;
  shape: number[];
  grid: number[];
  total: number;
}

/** `unit`: what `chunks` are the sizes of, `chunk` or `shard`. */
export async function stored(
  path: string,
  shape: number[],
  chunks: number[],
  unit: string,
  signal: AbortSignal,
): Promise<Stored> {
  // The facts are small if no chunk is listed with them: the server is asked for those once.
  const guess = shape.map((size, axis) => Math.ceil(size / Math.max(1, chunks[axis] ?? 1)));
  const total = guess.reduce((n, one) => n * one, 1);
  const none: Stored = { unit, shape: chunks, grid: guess, total, bytes: null, count: 0, smallest: 0, largest: 0, sum: 0 };
  if (total > MOST_CHUNKS) return none;
  const response = await ask("chunks", path, { format: "raw" }, signal);
  const raw = new DataView(await response.arrayBuffer());
  const n = raw.byteLength / 8;
  // Units of the grid may be shards, which are fewer.
  const facts = n === total ? none : await askJson<Answer>("chunks", path, {}, signal);
  const bytes = new Float64Array(n);
  let [count, smallest, largest, sum] = [0, Infinity, 0, 0];
  for (let at = 0; at < n; at += 1) {
    const low = raw.getUint32(at * 8, true);
    const high = raw.getUint32(at * 8 + 4, true);
    if (low === 0xffffffff && high === 0xffffffff) {
      bytes[at] = -1;
      continue;
    }
    const one = high * 2 ** 32 + low;
    bytes[at] = one;
    count += 1;
    sum += one;
    if (one < smallest) smallest = one;
    if (one > largest) largest = one;
  }
  const { shape: sizes, grid } = facts;
  return { unit: facts.unit, shape: sizes, grid, total: n, bytes, count, smallest: count ? smallest : 0, largest, sum };
}
