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

export function hyperslabLine(path: string, select: string): string {
  const url = JSON.stringify(`${location.origin}${prefix}zarr/${encodePath(path)}`);
  const options = token() === null ? "" : ', storage_options={"headers": {"Authorization": "Bearer TOKEN"}}';
  return `import hyperslab as hs\n\nvalues = hs.open(${url}${options})[${spaced(select)}]`;
}

export function xarrayLine(where: Where, described: Described, select: string): string {
  const url = JSON.stringify(`${location.origin}${prefix}zarr/${encodePath(where.root)}`);
  const group = where.group === "" ? "" : `, group=${JSON.stringify(where.group)}`;
  const options = token() === null ? "" : ', storage_options={"headers": {"Authorization": "Bearer TOKEN"}}';
  const parts = select === "" ? [] : select.split(",");
  const named = described.axes.map((axis, n) => [axis.name ?? `dim_${n}`, parts[n] ?? ":"] as const);
  const used = named.filter(([, part]) => part !== ":");
  const isel = used.map(([name, part]) => {
    const value = part.includes(":") ? `slice(${part.split(":").map((one) => one || "None").join(", ")})` : part;
    return /^[A-Za-z_]\w*$/.test(name) ? `${name}=${value}` : `**{${JSON.stringify(name)}: ${value}}`;
  });
  const call = isel.length === 0 ? "" : `.isel(${isel.join(", ")})`;
  const name = JSON.stringify(where.name);
  return `import xarray as xr\n\ndata = xr.open_dataset(${url}, engine="hyperslab"${group}${options})\nvalues = data[${name}]${call}`;
}

function spaced(select: string): string {
  return select === "" ? "..." : select.replace(/,/g, ", ");
}

export class Python {
  readonly element = h("div", { class: "python" });

  constructor(
    private path: string,
    private described: Described,
    private where: Where,
    private select: () => string,
  ) {
    this.update();
  }

  update(): void {
    const { described } = this;
    const select = this.select();
    const names = described.axes.map((axis) => axis.name);
    // xarray needs a name for each axis.
    const isVariable = names.length > 0 && names.every((name) => name !== null);
    fill(
      this.element,
      this.line("hyperslab", hyperslabLine(this.path, select)),
      isVariable && this.line("xarray", xarrayLine(this.where, described, select)),
    );
  }

  private line(name: string, text: string): HTMLElement {
    const copy = button("Copy", () => {
      void navigator.clipboard.writeText(text).then(
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
      h("pre", { tabindex: "0", role: "region", "aria-label": `Lines for ${name}` }, h("code", {}, text)),
    );
  }
}
