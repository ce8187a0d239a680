// The tree of everything that is served, with a search.

import { askJson, isAbort } from "../base/api";
import { append, debounced, fill, h } from "../base/dom";
import { shape } from "../base/format";
import type { Tree } from "../base/types";
import { addressOf, onView, openNode, view } from "../base/view_state";
import { problem } from "./problem";

/** The most results of a search that are listed. */
const MOST = 200;

export class TreePanel {
  readonly element: HTMLElement;
  readonly search: HTMLInputElement;
  private root = h("ul", { class: "tree" });
  private results = h("ul", { class: "tree results", hidden: true, "aria-label": "Search results" });
  private all: Promise<Tree> | null = null;
  private loaded = new Map<string, Promise<Tree>>();
  private items = new Map<string, HTMLElement>();

  constructor(private picked: () => void) {
    this.search = h("input", {
      type: "search",
      placeholder: "Search ( / )",
      "aria-label": "Search arrays and groups",
      oninput: debounced(150, () => void this.find()),
      onkeydown: (event: KeyboardEvent) => {
        if (event.key === "Escape") {
          this.search.value = "";
          void this.find();
          this.search.blur();
        } else if (event.key === "Enter") {
          this.results.querySelector<HTMLAnchorElement>("a")?.click();
        }
      },
    });
    this.element = h("nav", { class: "nav", id: "nav", "aria-label": "Arrays" }, this.search, this.results, this.root);
    onView((now, before) => {
      if (now.path !== before.path) void this.reveal();
    });
    void this.start();
  }

  private async start(): Promise<void> {
    try {
      const tree = await this.load("");
      const names = Object.entries(tree.members ?? {});
      fill(this.root, ...names.map(([name, node]) => this.item(name, name, node)));
      const only = names[0];
      if (view().path === "" && names.length === 1 && only) {
        if (only[1].kind === "array") openNode(only[0]);
        else await this.expand(only[0]);
      }
      await this.reveal();
    } catch (error) {
      if (!isAbort(error)) fill(this.root, h("li", {}, problem(error, () => void this.start())));
    }
  }

  private load(path: string): Promise<Tree> {
    let found = this.loaded.get(path);
    if (!found) {
      found = askJson<Tree>("tree", path, { depth: 1 });
      found.catch(() => this.loaded.delete(path));
      this.loaded.set(path, found);
    }
    return found;
  }

  private item(name: string, path: string, node: Tree): HTMLElement {
    const item = h("li", {});
    const isInner = node.kind === "group" || node.kind === "folder";
    const link = this.link(name, path, node);
    if (isInner) {
      const toggle = h("button", {
        type: "button",
        class: "toggle",
        "aria-expanded": "false",
        "aria-label": `Open ${name}`,
        onclick: () => void (item.classList.contains("open") ? this.collapse(item) : this.expand(path)),
      }, "▸");
      item.append(h("div", { class: "row" }, toggle, link));
    } else {
      item.append(h("div", { class: "row" }, h("span", { class: "toggle", "aria-hidden": "true" }), link));
    }
    this.items.set(path, item);
    return item;
  }

  private link(name: string, path: string, node: Tree): HTMLElement {
    if (node.kind === "unreadable") return h("span", { class: "quiet", title: node.found }, `${name} (not readable)`);
    const link = h(
      "a",
      {
        href: addressOf({ ...view(), path, tab: "", select: "", plane: "", marks: "", box: "", range: "2-98", scale: "linear", part: "abs" }),
        class: `node ${node.kind}`,
        title: path,
        onclick: (event: MouseEvent) => {
          // The browser opens new tabs itself.
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          openNode(path);
          if (node.kind === "array") this.picked();
          else void this.expand(path);
        },
      },
      h("span", { class: "label" }, name),
    );
    if (node.kind === "array") append(link, [h("span", { class: "quiet" }, shape(node.shape ?? []))]);
    return link;
  }

  private collapse(item: HTMLElement): void {
    item.classList.remove("open");
    item.querySelector(":scope > ul")?.remove();
    const toggle = item.querySelector("button.toggle");
    toggle?.setAttribute("aria-expanded", "false");
    if (toggle) toggle.textContent = "▸";
  }

  private async expand(path: string): Promise<void> {
    const item = this.items.get(path);
    if (!item || item.classList.contains("open")) return;
    item.classList.add("open");
    const toggle = item.querySelector("button.toggle");
    toggle?.setAttribute("aria-expanded", "true");
    if (toggle) toggle.textContent = "▾";
    const list = h("ul", {}, h("li", { class: "quiet" }, "reading…"));
    item.append(list);
    try {
      const tree = await this.load(path);
      const members = Object.entries(tree.members ?? {});
      fill(list, ...members.map(([name, node]) => this.item(name, `${path}/${name}`, node)));
      if (members.length === 0) fill(list, h("li", { class: "quiet" }, "empty"));
      if (tree.truncated) list.append(h("li", { class: "quiet" }, "and more: search for the others"));
    } catch (error) {
      fill(list, h("li", {}, problem(error)));
    }
  }

  /** Opens the branches that lead to the open node, and marks the node. */
  private async reveal(): Promise<void> {
    const parts = view().path.split("/");
    for (let n = 1; n < parts.length; n += 1) await this.expand(parts.slice(0, n).join("/"));
    for (const link of this.element.querySelectorAll("[aria-current]")) link.removeAttribute("aria-current");
    const link = this.items.get(view().path)?.querySelector("a");
    link?.setAttribute("aria-current", "page");
    link?.scrollIntoView({ block: "nearest" });
  }

  private async find(): Promise<void> {
    const words = this.search.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
    this.root.hidden = words.length > 0;
    this.results.hidden = words.length === 0;
    if (words.length === 0) return;
    fill(this.results, h("li", { class: "quiet" }, "searching…"));
    try {
      this.all ??= askJson<Tree>("tree", "");
      const found: [string, Tree][] = [];
      let isTruncated = false;
      const visit = (node: Tree, path: string): void => {
        isTruncated ||= node.truncated === true;
        for (const [name, member] of Object.entries(node.members ?? {})) {
          const inside = path === "" ? name : `${path}/${name}`;
          const text = inside.toLowerCase();
          if (words.every((word) => text.includes(word))) found.push([inside, member]);
          visit(member, inside);
        }
      };
      visit(await this.all, "");
      const listed = found.slice(0, MOST).map(([path, node]) => h("li", {}, h("div", { class: "row" }, this.link(path, path, node))));
      fill(this.results, ...listed);
      if (found.length === 0) fill(this.results, h("li", { class: "quiet" }, "nothing has such a name"));
      if (found.length > MOST || isTruncated) this.results.append(h("li", { class: "quiet" }, "and more: use more letters"));
    } catch (error) {
      this.all = null;
      fill(this.results, h("li", {}, problem(error)));
    }
  }
}
