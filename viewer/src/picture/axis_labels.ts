// The coordinates along an axis: labels, ticks, and places of values.

import { askJson, isAbort } from "../base/api";
import { digitsFor, niceStep, niceTicks, number, withUnits } from "../base/format";
import type { Axis, Coordinates } from "../base/types";

/** The most coordinates that are asked for at once. Longer axes have every k-th one. */
const MOST = 4096;

export class AxisLabels {
  private values: (number | string | null)[] | null = null;
  private step = 1;
  /** `values` ascend or descend everywhere: +1 or −1. 0: neither, or no numbers. */
  direction = 0;
  units: string | null;
  readonly name: string;

  constructor(
    private path: string,
    readonly number: number,
    readonly axis: Axis,
  ) {
    this.units = axis.units;
    this.name = axis.name ?? `axis ${number}`;
  }

  /** Asks for the coordinates. Without them, labels are indices. */
  async load(signal: AbortSignal): Promise<void> {
    if (this.axis.coordinate === null || this.axis.size === 0) return;
    this.step = Math.max(1, Math.ceil(this.axis.size / MOST));
    const select = `0:${this.axis.size}:${this.step}`;
    try {
      const found = await askJson<Coordinates>("coordinates", this.path, { axis: this.number, select }, signal);
      if (found.name === null) return;
      this.values = found.values;
      this.units = found.units ?? this.units;
      this.direction = monotone(this.values);
    } catch (error) {
      if (isAbort(error)) throw error;
      // Coordinates that cannot be read are no reason to hide the numbers.
      this.values = null;
    }
  }

  get hasValues(): boolean {
    return this.values !== null;
  }

  /** The coordinate of an element as a number, between its neighbours where only some are known. */
  at(index: number): number {
    if (!this.values || this.direction === 0) return index;
    const known = this.values as number[];
    if (known.length === 1) return known[0] ?? NaN;
    const place = index / this.step;
    const first = Math.min(Math.max(Math.floor(place), 0), known.length - 2);
    const one = known[first] ?? NaN;
    return one + ((known[first + 1] ?? NaN) - one) * (place - first);
  }

  /** The element whose coordinate is nearest: the opposite of `at`, with fractions. */
  find(value: number): number {
    if (!this.values || this.direction === 0) return value;
    const known = this.values as number[];
    let low = 0;
    let high = known.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (((known[middle] ?? 0) - value) * this.direction <= 0) low = middle;
      else high = middle;
    }
    const one = known[low] ?? NaN;
    const other = known[high] ?? NaN;
    return (low + (other === one ? 0 : (value - one) / (other - one))) * this.step;
  }

  /** The place in `values` that is nearest to an element. The last elements may have none of their own. */
  private nearest(index: number): number {
    return Math.min(Math.round(index / this.step), (this.values?.length ?? 1) - 1);
  }

  /** The coordinate of an element in words. */
  label(index: number): string {
    const place = this.nearest(index);
    const value = this.values?.[place];
    if (value === undefined || value === null) return String(index);
    const about = index === place * this.step ? "" : "about ";
    if (typeof value === "string") return about + short(value);
    const isOrdered = this.direction !== 0;
    const here = isOrdered ? this.at(index) : value;
    const next = isOrdered ? this.at(index + 1) : (this.values?.[place + 1] ?? this.values?.[place - 1]);
    const digits = Number.isInteger(here) ? 15 : digitsFor(here, typeof next === "number" ? next : here, 6);
    return about + withUnits(number(here, digits), degrees(this.units));
  }

  /** Round coordinates between two edges, with their places as elements. Element n is from n to n + 1. */
  ticks(from: number, to: number, parts: number): { at: number; label: string }[] {
    if (this.direction !== 0 && this.axis.size > 1) {
      const ends = [this.at(from - 0.5), this.at(to - 0.5)].sort((a, b) => a - b);
      const [low = 0, high = 1] = ends;
      const digits = digitsFor(low, high, 5);
      return niceTicks(low, high, parts).map((value) => ({ at: this.find(value) + 0.5, label: number(value, digits) }));
    }
    const step = Math.max(1, niceStep(to - from, parts));
    const known: { at: number; label: string }[] = [];
    const found: { at: number; label: string }[] = [];
    for (let n = Math.ceil(from / step) * step; n < to; n += step) {
      found.push({ at: n + 0.5, label: String(n) });
      const place = this.nearest(n);
      const value = this.values?.[place];
      // Text stands at the element that it belongs to, which may be beside n.
      const at = place * this.step;
      if (typeof value === "string" && at >= from && at < to && known.at(-1)?.at !== at + 0.5) {
        known.push({ at: at + 0.5, label: short(value) });
      }
    }
    return known.length > 0 ? known : found;
  }

  /** The axis in words, with units. */
  title(): string {
    const units = degrees(this.units);
    return units && !/ since /.test(units) && this.values ? `${this.name} (${units})` : this.name;
  }
}

/** Midnights without the time of day. */
function short(text: string): string {
  return text.replace(/[T ]00:00(:00(\.0+)?)?$/, "");
}

export function degrees(units: string | null): string | null {
  if (units === null) return null;
  const found = /^degrees?_?(north|east|south|west|N|E|S|W)$/i.exec(units);
  return found ? `°${found[1]?.[0]?.toUpperCase()}` : units;
}

function monotone(values: (number | string | null)[]): number {
  let direction = 0;
  for (let n = 0; n < values.length; n += 1) {
    const value = values[n];
    if (typeof value !== "number") return 0;
    const before = values[n - 1];
    if (typeof before !== "number") continue;
    const sign = Math.sign(value - before);
    if (sign === 0 || (direction !== 0 && sign !== direction)) return 0;
    direction = sign;
  }
  return direction === 0 && values.length === 1 ? 1 : direction;
}
