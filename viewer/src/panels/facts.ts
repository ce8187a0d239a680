// Attributes, chunks and codecs of an array, or attributes of a group.

import { askJson } from "../base/api";
import { fill, h } from "../base/dom";
import { problem } from "../frame/problem";

export class Facts {
  readonly element = h("div", { class: "facts-panel" });
  private isLoaded = false;

  constructor(private path: string) {}

  /** Asks once: when somebody opens the panel. */
  async load(): Promise<void> {
    if (this.isLoaded) return;
    this.isLoaded = true;
    try {
      const [attributes, info] = await Promise.all([
        askJson<Record<string, unknown>>("attributes", this.path),
        askJson<Record<string, unknown>>("info", this.path),
      ]);
      fill(
        this.element,
        h("h3", {}, "Attributes"),
        Object.keys(attributes).length === 0 ? h("p", { class: "quiet" }, "none") : list(attributes),
        h("h3", {}, "Storage"),
        list(Object.fromEntries(Object.entries(info).filter(([name]) => name !== "attributes" && name !== "url"))),
      );
    } catch (error) {
      this.isLoaded = false;
      fill(this.element, problem(error, () => void this.load()));
    }
  }
}

/** Names beside texts. */
export function factList(facts: readonly (readonly [string, string])[]): HTMLElement {
  const list = h("dl", { class: "facts" });
  for (const [name, value] of facts) list.append(h("dt", {}, name), h("dd", {}, value));
  return list;
}

function list(values: Record<string, unknown>): HTMLElement {
  const found = h("dl", { class: "facts wide" });
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined) continue;
    const text = typeof value === "string" ? value : isFlat(value) ? words(value) : JSON.stringify(value, null, 1);
    found.append(h("dt", {}, name), h("dd", {}, text.length > 2000 ? `${text.slice(0, 2000)}…` : text));
  }
  return found;
}

function isFlat(value: unknown): boolean {
  return typeof value !== "object" || (Array.isArray(value) && value.every((one) => typeof one !== "object" || one === null));
}

function words(value: unknown): string {
  return Array.isArray(value) ? value.map(String).join(", ") : String(value);
}
