// A part of the side of the page that opens and closes.

import { h } from "../base/dom";

export function section(title: string, content: HTMLElement, isOpen: boolean, opened: () => void = () => undefined): HTMLDetailsElement {
  const details = h("details", { class: "section", open: isOpen }, h("summary", {}, h("h2", {}, title)), content);
  details.addEventListener("toggle", () => {
    if (details.open) opened();
  });
  return details;
}
