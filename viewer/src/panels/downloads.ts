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
  private what = h("p", { class: "quiet" });
  private links: { link: HTMLAnchorElement; format: string }[] = [];

  constructor(
    private path: string,
    private described: Described,
    private select: () => string,
  ) {
    const isNumber = ["number", "bool", "complex", "time"].includes(this.described.kind);
    const list = h("ul", {});
    for (const { format, label } of FORMATS) {
      if ((format === "png" && (!isNumber || this.described.shape.length < 2)) || (format === "npy" && this.described.kind === "text")) continue;
      const name = `${this.described.name.split("/").at(-1) ?? "array"}.${format}`;
      const link = h("a", { download: name }, label);
      list.append(h("li", {}, link));
      this.links.push({ link, format });
    }
    fill(this.element, this.what, list);
    this.update();
  }

  /** Changes the links that are there: a film would take them away under a click. */
  update(): void {
    const select = this.select();
    this.what.textContent = select === "" ? "All elements" : `Elements [${select}], each of them`;
    for (const { link, format } of this.links) link.href = download(this.path, { select, format });
  }
}
