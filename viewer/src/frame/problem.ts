// An error as people read it: what was asked, what was found, what to do.

import { Problem } from "../base/api";
import { button, h } from "../base/dom";

export function problem(error: unknown, again?: () => void): HTMLElement {
  const known = error instanceof Problem ? error : null;
  const found = known?.found ?? (error instanceof Error ? error.message : String(error));
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", {}, h("strong", {}, found)),
    known && h("p", { class: "quiet" }, "Asked: ", h("code", {}, known.asked)),
    known?.advice ? h("p", {}, `What to do: ${known.advice}.`) : null,
    again ? button("Try again", again) : null,
  );
}
