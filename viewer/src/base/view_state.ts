// What is on the screen, as the address bar holds it.

import { encodePath, prefix } from "./api";

export interface View {
  /** Name and path of the node. Empty: nothing is open. */
  path: string;
  tab: string;
  /** Integers for the sliders, slices for what is shown: `3,0:90,0:180`. Empty: the first, and all. */
  select: string;
  /** The axes of rows and columns, such as `1,2`. Empty: the server's choice. */
  plane: string;
  /** `2-98` and the like in percent, `all`, or `low,high`. */
  range: string;
  scale: string;
  map: string;
  part: string;
  /** Elements whose profiles are shown: `3,40,20;3,10,5`. */
  marks: string;
  /** A box of rows and columns whose histogram is shown: `0:20,30:60`. */
  box: string;
}

const DEFAULTS: View = {
  path: "",
  tab: "",
  select: "",
  plane: "",
  range: "2-98",
  scale: "linear",
  map: "viridis",
  part: "abs",
  marks: "",
  box: "",
};

type Listener = (view: View, before: View) => void;

/** A part of a path. People write `%` as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part.replace(/%(?![0-9a-f]{2})/gi, "%25"));
  } catch {
    return part;
  }
}

function read(): View {
  const view = { ...DEFAULTS };
  const inside = location.pathname.slice(prefix.length);
  if (inside.startsWith("view/")) {
    view.path = inside.slice(5).split("/").map(decoded).join("/").replace(/\/+$/, "");
  }
  for (const [name, value] of new URLSearchParams(location.search)) {
    if (Object.hasOwn(DEFAULTS, name) && name !== "path") view[name as keyof View] = value;
  }
  return view;
}

export function addressOf(view: View): string {
  const pairs = (Object.keys(DEFAULTS) as (keyof View)[])
    .filter((name) => name !== "path" && view[name] !== DEFAULTS[name])
    // Commas and colons stay readable.
    .map((name) => `${name}=${encodeURIComponent(view[name]).replace(/%2C/g, ",").replace(/%3A/g, ":")}`);
  const where = view.path === "" ? prefix : `${prefix}view/${encodePath(view.path)}`;
  return where + (pairs.length ? `?${pairs.join("&")}` : "");
}

let current = read();
const listeners = new Set<Listener>();
let timer = 0;

export function view(): View {
  return current;
}

export function onView(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(before: View): void {
  for (const listener of [...listeners]) listener(current, before);
}

/** Changes the view. Another node or tab is a step of the browser's history, the rest is not. */
export function setView(change: Partial<View>): void {
  const before = current;
  current = { ...current, ...change };
  if (addressOf(before) === addressOf(current)) return;
  window.clearTimeout(timer);
  if (before.path !== current.path || before.tab !== current.tab) {
    history.replaceState(null, "", addressOf(before));
    history.pushState(null, "", addressOf(current));
  } else {
    // Browsers refuse more than about 100 changes in 10 s.
    timer = window.setTimeout(() => history.replaceState(null, "", addressOf(current)), 150);
  }
  tell(before);
}

/** Opens another node: what was chosen for the old one is forgotten, except its colours. */
export function openNode(path: string): void {
  setView({ ...DEFAULTS, path, map: current.map });
}

window.addEventListener("popstate", () => {
  window.clearTimeout(timer);
  const before = current;
  current = read();
  tell(before);
});
