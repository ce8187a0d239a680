// The keys of the page.

import { button, h } from "../base/dom";

const KEYS: [string, string][] = [
  ["/", "search"],
  ["p", "picture or line"],
  ["c", "chunks"],
  ["t", "table"],
  ["[ and ]", "one step back or on along the first slider"],
  ["space", "play or pause the film"],
  ["+ and −", "zoom, if the picture has the focus"],
  ["arrows", "move the crosshair and read its value, if the picture has the focus"],
  ["Shift and arrows", "move the picture"],
  ["Enter", "profiles at the crosshair"],
  ["0", "show all, if the picture has the focus"],
  ["f", "fit the colours to what is visible"],
  ["m", "next colour map"],
  ["d", "light or dark"],
  ["?", "this list"],
];

const POINTER: [string, string][] = [
  ["wheel, pinch", "zoom"],
  ["drag", "move"],
  ["click", "profiles"],
  ["Shift and drag", "a box: histogram and statistics"],
];

export function help(): HTMLDialogElement {
  const list = (rows: [string, string][]): HTMLElement => {
    const found = h("dl", { class: "facts keys" });
    for (const [key, what] of rows) found.append(h("dt", {}, h("kbd", {}, key)), h("dd", {}, what));
    return found;
  };
  const dialog = h(
    "dialog",
    { class: "help", "aria-labelledby": "help-title" },
    button("Close", () => dialog.close()),
    h("h2", { id: "help-title" }, "Keys"),
    list(KEYS),
    h("h2", {}, "Mouse and fingers"),
    list(POINTER),
  );
  return dialog;
}
