// What the picture costs, and what other chunks would cost.

import { askJson } from "../base/api";
import { button, fill, h } from "../base/dom";
import { bytes, count } from "../base/format";
import { Latest } from "../base/latest";
import { problem } from "../frame/problem";
import { factList } from "./facts";

interface Explained {
  bytes: number;
  chunks: number;
  objects: number;
  bytes_read: number;
  bytes_decoded: number;
  threads: number;
  strategies: Record<string, number>;
  tasks: { ranges: [number, number][] }[];
}

interface Access {
  access: string;
  requests: number;
  bytes_read: number;
  bytes_decoded: number;
  seconds_disk: number;
  seconds_object_store: number;
}

interface Layout {
  chunks: number[] | null;
  shards: number[] | null;
  objects: number;
  access: Access[];
  copy?: string | null;
}

export class Cost {
  readonly element = h("div", { class: "cost" });
  private now = h("div", {});
  private other = h("div", {});
  private latest = new Latest();

  constructor(
    private path: string,
    /** The selection that is explained, and what it is called. */
    private what: () => { select: string; name: string; level: string | null; took: number | null },
  ) {
    const compare = button("Compare other chunks", () => void this.advise());
    this.element.append(this.now, compare, this.other);
  }

  async update(): Promise<void> {
    const { select, name, level, took } = this.what();
    const key = `${select}|${level}`;
    if (select === "") return;
    await this.latest.run(
      key,
      async (signal) => {
        const found = await askJson<Explained>("explain", this.path, { select, list: 0 }, signal);
        if (signal.aborted) return;
        const facts: [string, string][] = [
          ["chunks", count(found.chunks)],
          ["objects read", count(found.objects)],
          ["bytes read", bytes(found.bytes_read)],
          ["bytes decoded", bytes(found.bytes_decoded)],
          ["bytes wanted", bytes(found.bytes)],
        ];
        if (took !== null) facts.push(["time in the server", `${took < 10 ? took.toFixed(1) : Math.round(took)} ms`]);
        const isLevel = level !== null && level !== "" && level !== this.path;
        fill(
          this.now,
          h("p", { class: "quiet" }, `${name}: [${select}]`),
          isLevel && h("p", {}, `Read from the pyramid level ${level}. Without the pyramid:`),
          factList(facts),
        );
      },
      (error) => fill(this.now, problem(error)),
    );
  }

  private async advise(): Promise<void> {
    const { select } = this.what();
    fill(this.other, h("p", { class: "quiet", role: "status" }, "comparing…"));
    try {
      const found = await askJson<Record<string, Layout | null>>("advise", this.path, { select });
      const layouts = Object.entries(found).filter((one): one is [string, Layout] => Array.isArray(one[1]?.access));
      const head = h("tr", {});
      for (const name of ["layout", "chunks", "requests", "read", "decoded", "on a disk", "object store"]) {
        head.append(h("th", { scope: "col" }, name));
      }
      const body = h("tbody", {});
      for (const [name, layout] of layouts) {
        const access = layout.access[0];
        if (!access) continue;
        const shards = layout.shards ? ` in ${layout.shards.join(" × ")}` : "";
        body.append(
          h(
            "tr",
            {},
            h("th", { scope: "row" }, name),
            h("td", {}, (layout.chunks?.join(" × ") ?? "none") + shards),
            h("td", {}, count(access.requests)),
            h("td", {}, bytes(Math.round(access.bytes_read))),
            h("td", {}, bytes(Math.round(access.bytes_decoded))),
            h("td", {}, seconds(access.seconds_disk)),
            h("td", {}, seconds(access.seconds_object_store)),
          ),
        );
      }
      const copies = layouts.map(([, layout]) => layout.copy).filter((text): text is string => typeof text === "string");
      fill(
        this.other,
        h(
          "div",
          { class: "scroll", tabindex: "0", role: "region", "aria-label": "Costs of layouts" },
          h("table", {}, h("thead", {}, head), body),
        ),
        h("p", { class: "quiet" }, `For [${select}]. Times are estimates.`),
        ...copies.map((text) => h("pre", {}, h("code", {}, text))),
      );
    } catch (error) {
      fill(this.other, problem(error));
    }
  }

  destroy(): void {
    this.latest.destroy();
  }
}

function seconds(n: number): string {
  return n < 0.001 ? `${Math.round(n * 1e6)} µs` : n < 1 ? `${(n * 1000).toPrecision(2)} ms` : `${n.toPrecision(3)} s`;
}
