// The page: header, tree, and what is open.

import { askJson, isAbort, takeToken } from "./base/api";
import { announce, button, fill, h } from "./base/dom";
import { shape } from "./base/format";
import type { Described, Tree } from "./base/types";
import { onView, setView, view } from "./base/view_state";
import { help } from "./frame/help";
import { problem } from "./frame/problem";
import { isDark, onTheme, startTheme, switchTheme } from "./frame/theme";
import { TreePanel } from "./frame/tree";
import { ArrayPage } from "./page/array_page";
import { GroupPage } from "./page/group_page";
import { MAPS } from "./picture/scale";
import "./style.css";

takeToken();
startTheme();

const title = h("h1", {});
const facts = h("div", { class: "badges" });
const content = h("main", { id: "content", tabindex: "-1" });
const dialog = help();
const showTree = (isOpen: boolean): void => {
  document.body.classList.toggle("nav-open", isOpen);
  menu.setAttribute("aria-expanded", String(isOpen));
};
const tree = new TreePanel(() => showTree(false));
const menu = button("☰", () => showTree(!document.body.classList.contains("nav-open")), {
  class: "menu",
  "aria-label": "Arrays",
  "aria-controls": "nav",
  "aria-expanded": "false",
});
const theme = button("", switchTheme, {});
const nameTheme = (): void => {
  const other = isDark() ? "light" : "dark";
  theme.textContent = isDark() ? "☀" : "☾";
  theme.setAttribute("aria-label", `Use ${other} colours`);
  theme.title = `Use ${other} colours (d)`;
};
onTheme(nameTheme);
nameTheme();

document.body.append(
  h("a", { class: "skip", href: "#content", onclick: (event: Event) => {
    event.preventDefault();
    content.focus();
  } }, "Skip to the array"),
  h("header", {}, menu, h("div", { class: "titles" }, title, facts), theme, button("?", () => dialog.showModal(), { "aria-label": "Keys", title: "Keys (?)" })),
  h("div", { class: "frame" }, tree.element, content),
  dialog,
);

let page: ArrayPage | GroupPage | null = null;
let opening = new AbortController();

function header(path: string, words: string[], about: string | null): void {
  const parts = path.split("/");
  const name = parts.pop() ?? "";
  fill(title, path === "" ? "hyperslab" : name, parts.length > 0 && h("span", { class: "above" }, ` in ${parts.join("/")}`));
  fill(facts, about !== null && h("span", { class: "about" }, about), ...words.map((word) => h("span", { class: "badge" }, word)));
  document.title = path === "" ? "hyperslab" : `${name} · hyperslab`;
}

async function open(): Promise<void> {
  const { path } = view();
  opening.abort();
  opening = new AbortController();
  const { signal } = opening;
  page?.destroy();
  page = null;
  header(path, [], null);
  fill(content, h("p", { class: "quiet" }, "opening…"));
  try {
    const node = await askJson<Tree>("tree", path, { depth: 1 }, signal);
    if (signal.aborted) return;
    if (node.kind === "array") {
      page = new ArrayPage(path, (described: Described) => {
        const chunks = described.chunks ? [`chunks ${described.chunks.join(" × ")}`] : [];
        const shards = described.shards ? [`shards ${described.shards.join(" × ")}`] : [];
        header(path, [shape(described.shape), described.dtype, ...chunks, ...shards, described.format], described.long_name);
        announce(`${path} is open`);
      });
    } else {
      header(path, path === "" ? [] : [node.format ?? node.kind], null);
      page = new GroupPage(path, node);
    }
    fill(content, page.element);
  } catch (error) {
    if (!isAbort(error)) fill(content, problem(error, () => void open()));
  }
}

onView((now, before) => {
  if (now.path !== before.path) void open();
});
void open();

document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  const element = target instanceof HTMLElement ? target : null;
  const isTyping = element?.matches("input:not([type=range]), select, textarea") ?? false;
  if (key === "Escape") showTree(false);
  if (isTyping || (key === " " && element?.matches("button, summary, a"))) return;
  if (key === "?") dialog.showModal();
  else if (key === "/") {
    showTree(true);
    tree.search.focus();
  } else if (key === "d") switchTheme();
  else if (key === "m") {
    const map = MAPS[(MAPS.indexOf(view().map) + 1) % MAPS.length] ?? "viridis";
    setView({ map });
    announce(`Colours: ${map}`);
  } else if (!(page instanceof ArrayPage && page.key(key))) return;
  event.preventDefault();
});
