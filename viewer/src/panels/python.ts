// The lines of Python that give what is on the screen.

import { encodePath, prefix, token } from "../base/api";
import { announce, button, fill, h } from "../base/dom";
import type { Described } from "../base/types";

/** The name and the path below it. The server says how many parts the name has. */
export interface Where {
  /** What is served: a file or a hierarchy. */
  root: string;
  /** The group of the array inside. */
  group: string;
  name: string;
}

const KEYWORDS = new Set(
  ("False None True and as assert async await break class continue def del elif else except finally for from global if import in " +
    "is lambda nonlocal not or pass raise return try while with yield").split(" "),
);
/** What else `isel` takes by name. */
const TAKEN = new Set(["self", "indexers", "drop", "missing_dims"]);

/** Text as Python writes it. What is not seen on the screen, such as a change of direction, is escaped. */
export function quoted(text: string): string {
  return JSON.stringify(text).replace(/[\p{C}\p{Z}]/gu, (letter) => {
    if (letter === " ") return letter;
    const code = letter.codePointAt(0) ?? 0;
    return code > 0xffff ? `\\U${code.toString(16).padStart(8, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

function isName(text: string): boolean {
  return /^[A-Za-z_]\w*$/.test(text) && !KEYWORDS.has(text) && !TAKEN.has(text);
}

export function hyperslabLine(path: string, select: string): string {
  const url = quoted(`${location.origin}${prefix}zarr/${encodePath(path)}`);
  const options = token() === null ? "" : ', storage_options={"headers": {"Authorization": "Bearer TOKEN"}}';
  return `import hyperslab as hs\n\nvalues = hs.open(${url}${options})[${spaced(select)}]`;
}

export function xarrayLine(where: Where, described: Described, select: string): string {
  const url = quoted(`${location.origin}${prefix}zarr/${encodePath(where.root)}`);
  const group = where.group === "" ? "" : `, group=${quoted(where.group)}`;
  const options = token() === null ? "" : ', storage_options={"headers": {"Authorization": "Bearer TOKEN"}}';
  const parts = select === "" ? [] : select.split(",");
  const named = described.axes.map((axis, n) => [axis.name ?? `dim_${n}`, parts[n] ?? ":"] as const);
  const used = named.filter(([, part]) => part !== ":");
  const value = (part: string): string =>
    part.includes(":") ? `slice(${part.split(":").map((one) => one || "None").join(", ")})` : part;
  const isel = used.every(([name]) => isName(name))
    ? used.map(([name, part]) => `${name}=${value(part)}`).join(", ")
    : `{${used.map(([name, part]) => `${quoted(name)}: ${value(part)}`).join(", ")}}`;
  const call = used.length === 0 ? "" : `.isel(${isel})`;
  const name = quoted(where.name);
  return `import xarray as xr\n\ndata = xr.open_dataset(${url}, engine="hyperslab"${group}${options})\nvalues = data[${name}]${call}`;
}

function spaced(select: string): string {
  return select === "" ? "..." : select.replace(/,/g, ", ");
}

export class Python {
  readonly element = h("div", { class: "python" });
  private hyperslab = h("code", {});
  private xarray: HTMLElement | null = null;

  constructor(
    private path: string,
    private described: Described,
    private where: Where,
    private select: () => string,
  ) {
    const names = described.axes.map((axis) => axis.name);
    // xarray needs a name for each axis.
    if (names.length > 0 && names.every((name) => name !== null)) this.xarray = h("code", {});
    fill(this.element, this.line("hyperslab", this.hyperslab), this.xarray && this.line("xarray", this.xarray));
    this.update();
  }

  /** Writes the lines into the elements that are there: a film would take buttons away under a click. */
  update(): void {
    const select = this.select();
    this.hyperslab.textContent = hyperslabLine(this.path, select);
    if (this.xarray) this.xarray.textContent = xarrayLine(this.where, this.described, select);
  }

  private line(name: string, code: HTMLElement): HTMLElement {
    const copy = button("Copy", () => {
      void navigator.clipboard.writeText(code.textContent ?? "").then(
        () => {
          copy.textContent = "Copied";
          announce(`The lines for ${name} are copied`);
          window.setTimeout(() => (copy.textContent = "Copy"), 1500);
        },
        () => announce("The browser does not allow to copy: select the text"),
      );
    }, { "aria-label": `Copy the lines for ${name}` });
    return h(
      "div",
      { class: "code" },
      h("div", { class: "code-head" }, h("span", {}, name), copy),
      h("pre", { tabindex: "0", role: "region", "aria-label": `Lines for ${name}` }, code),
    );
  }
}
