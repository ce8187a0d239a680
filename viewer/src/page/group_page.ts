// The page of a group or a folder: what is in it.

import { askJson, isAbort } from "../base/api";
import { fill, h } from "../base/dom";
import { shape } from "../base/format";
import type { Tree } from "../base/types";
import { addressOf, openNode, view } from "../base/view_state";
import { problem } from "../frame/problem";
import { section } from "../frame/section";
import { Facts } from "../panels/facts";

export class GroupPage {
  readonly element = h("div", { class: "page" });
  private controller = new AbortController();

  constructor(
    readonly path: string,
    private known: Tree | null,
  ) {
    void this.open();
  }

  private async open(): Promise<void> {
    try {
      const tree = this.known ?? (await askJson<Tree>("tree", this.path, { depth: 1 }, this.controller.signal));
      const members = Object.entries(tree.members ?? {});
      const head = h("tr", {}, ...["name", "shape", "type", "chunks"].map((name) => h("th", { scope: "col" }, name)));
      const body = h("tbody", {});
      for (const [name, node] of members) {
        const path = this.path === "" ? name : `${this.path}/${name}`;
        const link = h("a", {
          href: addressOf({ ...view(), path, select: "", tab: "" }),
          onclick: (event: MouseEvent) => {
            if (event.ctrlKey || event.metaKey || event.shiftKey) return;
            event.preventDefault();
            openNode(path);
          },
        }, name);
        const row = h("tr", {}, h("th", { scope: "row" }, node.kind === "unreadable" ? name : link));
        if (node.kind === "array") {
          row.append(h("td", {}, shape(node.shape ?? [])), h("td", {}, node.dtype ?? ""), h("td", {}, node.chunks ? node.chunks.join(" × ") : "none"));
        } else {
          row.append(h("td", { colspan: 3, class: "quiet" }, node.kind === "unreadable" ? `not readable: ${node.found ?? ""}` : node.kind));
        }
        body.append(row);
      }
      const table = h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of members" },
        h("table", {}, h("thead", {}, head), body),
      );
      const main = h("section", { class: "main", "aria-label": "Members" }, members.length === 0 ? h("p", { class: "quiet" }, "Nothing is in here.") : table);
      fill(this.element, main);
      if (this.path !== "" && tree.kind === "group") {
        const facts = new Facts(this.path);
        const side = h("aside", { class: "side", "aria-label": "Details" }, section("Attributes and storage", facts.element, true));
        this.element.append(side);
        void facts.load();
      }
    } catch (error) {
      if (!isAbort(error)) fill(this.element, problem(error, () => void this.open()));
    }
  }

  destroy(): void {
    this.controller.abort();
  }
}
