// Numbers as people read them.

const UNITS = ["bytes", "kB", "MB", "GB", "TB", "PB"];

export function bytes(n: number): string {
  let unit = 0;
  while (n >= 1000 && unit + 1 < UNITS.length) {
    n /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? n : n < 10 ? n.toFixed(1) : Math.round(n)} ${UNITS[unit] ?? ""}`;
}

/** A count with thin spaces between thousands. */
export function count(n: number): string {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

/** A number with `digits` significant digits, without zeros at the end. */
export function number(value: number, digits = 6): string {
  if (Number.isNaN(value)) return "missing";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  // Nanoseconds since 1970 have 19 digits.
  if (digits >= 15 && Number.isInteger(value) && size < 1e21) return String(value).replace("-", "−");
  const text =
    size >= 10 ** Math.max(7, digits) || size < 1e-4
      ? value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e")
      : String(Number(value.toPrecision(digits)));
  return text.replace("-", "−");
}

/**
 * The digits that tell two numbers apart, with one to spare: at least `least`. Eastings of 5432100 and
 * 5432110 need seven. 15 digits are what numbers of 64 bits hold.
 */
export function digitsFor(one: number, other: number, least: number): number {
  const apart = Math.abs(one - other);
  if (!(apart > 0) || !Number.isFinite(apart)) return least;
  const size = Math.max(Math.abs(one), Math.abs(other));
  return Math.min(Math.max(Math.ceil(Math.log10(size / apart)) + 2, least), 15);
}

export function shape(sizes: readonly number[]): string {
  return sizes.length === 0 ? "one value" : sizes.map(count).join(" × ");
}

/** One, two or five times a power of ten: the step of about `parts` ticks over a length. */
export function niceStep(length: number, parts: number): number {
  const rough = length / Math.max(1, parts);
  const power = 10 ** Math.floor(Math.log10(rough));
  const rest = rough / power;
  return power * (rest > 5 ? 10 : rest > 2 ? 5 : rest > 1 ? 2 : 1);
}

/** Round numbers between two ends. */
export function niceTicks(low: number, high: number, parts: number): number[] {
  if (!(high > low) || !Number.isFinite(high - low)) return [low];
  const step = niceStep(high - low, parts);
  const ticks: number[] = [];
  const first = Math.ceil(low / step);
  // The steps are counted: beyond 2^53, adding 1 changes nothing, and a loop would have no end.
  for (let n = 0; n <= (high - low) / step + 1 && (first + n) * step <= high + step * 1e-9; n += 1) {
    const exact = (first + n) * step;
    const tick = Number.isInteger(exact) ? exact : Number(exact.toPrecision(15));
    if (tick !== ticks.at(-1)) ticks.push(tick);
  }
  return ticks;
}

/** A unit as text, without a meaningless `1`. */
export function withUnits(text: string, units: string | null | undefined): string {
  return units && units !== "1" && !/ since /.test(units) ? `${text} ${units}` : text;
}
