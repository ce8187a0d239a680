// Requests to the server, and its errors.

import type { Slice } from "./types";

/** An answer that says what was asked, what was found, and what to do. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly asked: string,
    readonly found: string,
    readonly advice: string,
  ) {
    super(found);
  }
}

const base = new URL(document.baseURI);
const TOKEN = `hyperslab token ${base.pathname}`;
let taken: string | null = null;

/**
 * Keeps the token of the address for this tab. The address loses the token, so that people who
 * send the address do not send the token.
 */
export function takeToken(): void {
  const url = new URL(location.href);
  const token = url.searchParams.get("token");
  if (token === null) return;
  taken = token;
  try {
    sessionStorage.setItem(TOKEN, token);
  } catch {
    // A frame in a page of another site may not have a storage. The token is lost when it loads again.
  }
  url.searchParams.delete("token");
  history.replaceState(null, "", url);
}

export function token(): string | null {
  try {
    return taken ?? sessionStorage.getItem(TOKEN);
  } catch {
    return taken;
  }
}

/** The prefix of all routes, with a slash at the end. */
export const prefix = base.pathname;

export function encodePath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

type Query = Record<string, string | number | null | undefined>;

export function address(what: string, path: string, query: Query = {}): string {
  const pairs = Object.entries(query)
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value)).replace(/%2C/g, ",").replace(/%3A/g, ":")}`);
  const tail = path === "" ? "" : `/${encodePath(path)}`;
  return `${prefix}api/${what}${tail}${pairs.length ? `?${pairs.join("&")}` : ""}`;
}

/** Asks the server. Fails with a [`Problem`], or with an `AbortError` if `signal` says so. */
export async function ask(what: string, path: string, query: Query = {}, signal?: AbortSignal): Promise<Response> {
  const known = token();
  const headers: HeadersInit = known === null ? {} : { Authorization: `Bearer ${known}` };
  const url = address(what, path, query);
  let response: Response;
  try {
    response = await fetch(url, { headers, ...(signal ? { signal } : {}) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, url, "the server does not answer", "check that hyperslab serve still runs, then try again");
  }
  if (response.ok) return response;
  let said: Partial<Problem> = {};
  try {
    said = (await response.json()) as Partial<Problem>;
  } catch {
    // A proxy answers with text.
  }
  throw new Problem(
    response.status,
    said.asked ?? url,
    said.found ?? `status ${response.status}`,
    said.advice ?? "try again",
  );
}

export async function askJson<T>(what: string, path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await (await ask(what, path, query, signal)).json()) as T;
}

/** Like `askJson`, but integers that JavaScript's numbers do not hold are text. */
export async function askExact<T>(what: string, path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const text = await (await ask(what, path, query, signal)).text();
  const exact = (_: string, value: unknown, context?: { source?: string }): unknown => {
    const isLarge = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return isLarge && /^-?\d+$/.test(context?.source ?? "") ? context?.source : value;
  };
  return JSON.parse(text, exact as (key: string, value: unknown) => unknown) as T;
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** An address of something to download. Links cannot send headers, so the token is part of it. */
export function download(path: string, query: Query): string {
  return address("download", path, { ...query, token: token() });
}

/** A selection as NumPy writes it. */
export function selection(parts: (number | Slice)[]): string {
  return parts
    .map((part) => {
      if (typeof part === "number") return String(part);
      const tail = part.step === 1 ? "" : `:${part.step}`;
      return `${part.start}:${part.stop}${tail}`;
    })
    .join(",");
}

/**
 * The slices of a selection as text: the opposite of `selection`. `sizes` ends open slices.
 *
 * People write addresses too: `time=3`, `..., -1`, and negative indices are understood. A part that is
 * not understood stands for the whole axis.
 */
export function parseSelection(
  text: string,
  sizes: readonly number[],
  names: readonly (string | null)[] = [],
): (number | Slice)[] {
  const words = text.split(",").map((word) => word.trim());
  const parts = sizes.map(() => "");
  if (words.some((word) => word.includes("="))) {
    for (const word of words) {
      const [name = "", part = ""] = word.split("=");
      const axis = names.indexOf(name.trim());
      if (axis >= 0) parts[axis] = part.trim();
    }
  } else {
    const rest = words.indexOf("...");
    words.forEach((word, at) => {
      const axis = rest >= 0 && at > rest ? sizes.length - words.length + at : at;
      if (at !== rest && axis >= 0 && axis < sizes.length) parts[axis] = word;
    });
  }
  return sizes.map((size, axis) => {
    const part = parts[axis] ?? "";
    const [start, stop, step] = part.split(":");
    const whole = (value: string | undefined, otherwise: number): number => {
      const n = value === undefined || value === "" ? otherwise : Number(value);
      if (!Number.isInteger(n)) return otherwise;
      return n < 0 ? n + size : n;
    };
    if (stop === undefined && part !== "" && Number.isInteger(Number(part))) return clamp(whole(start, 0), 0, Math.max(0, size - 1));
    const from = clamp(whole(start, 0), 0, size);
    return { start: from, stop: clamp(whole(stop, size), from, size), step: Math.max(1, whole(step, 1)) };
  });
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}
