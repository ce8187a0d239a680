// Links that download what is on the screen.

import { download } from "../base/api";
import { fill, h } from "../base/dom";
import type { Described } from "../base/types";

const FORMATS = [
  { format: "nc", label: "NetCDF (.nc)" },
  { format: "zarr.zip", label: "Zarr (.zarr.zip)" },
  { format: "npy", label: "NumPy (.npy)" },
  { format: "csv", label: "CSV" },
  { format: "png", label: "PNG" },
];

export class Downloads {
  readonly element = h("div", { class: "downloads" });

  constructor(
    private path: string,
    private described: Described,
    private select: () => string,
  ) {
    this.update();
  }

  update(): void {
    const select = this.select();
    const isNumber = ["number", "bool", "complex", "time"].includes(this.described.kind);
    const list = h("ul", {});
    for (const { format, label } of FORMATS) {
      if ((format === "png" && (!isNumber || this.described.shape.length < 2)) || (format === "npy" && this.described.kind === "text")) continue;
      const name = `${this.described.name.split("/").at(-1) ?? "array"}.${format}`;
      list.append(h("li", {}, h("a", { href: download(this.path, { select, format }), download: name }, label)));
    }
    fill(this.element, h("p", { class: "quiet" }, select === "" ? "All elements" : `Elements [${select}], each of them`), list);
  }
}
