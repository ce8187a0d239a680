// Builds elements. Text is always a text node, so names in files cannot become markup.

type Child = Node | string | number | null | undefined | false;
type Value = string | number | boolean | null | undefined | ((event: never) => void);

/** Makes an element: attributes, `on…` handlers, and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(element: Element, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
}

/** Replaces what an element contains. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  append(element, children);
}

/** Makes a button. Its label is also what screen readers say, unless there is a title. */
export function button(label: string, act: () => void, attributes: Record<string, Value> = {}): HTMLButtonElement {
  return h("button", { type: "button", onclick: act, ...attributes }, label);
}

export interface Choice {
  value: string;
  label: string;
}

/** Makes a labelled list of choices. */
export function choose(
  label: string,
  choices: Choice[],
  value: string,
  act: (value: string) => void,
): { element: HTMLLabelElement; select: HTMLSelectElement } {
  const select = h("select", { onchange: () => act(select.value) });
  for (const choice of choices) {
    select.append(h("option", { value: choice.value, selected: choice.value === value }, choice.label));
  }
  return { element: h("label", { class: "choose" }, h("span", {}, label), select), select };
}

/** A live region: what is put here is read aloud by screen readers. */
const live = h("div", { class: "unseen", role: "status", "aria-live": "polite" });

export function announce(text: string): void {
  if (!live.isConnected) document.body.append(live);
  live.textContent = text;
}

/** Calls `act` once, `wait` milliseconds after the last call. */
export function debounced(wait: number, act: () => void): (() => void) & { cancel: () => void } {
  let timer = 0;
  const later = (): void => {
    window.clearTimeout(timer);
    timer = window.setTimeout(act, wait);
  };
  return Object.assign(later, { cancel: () => window.clearTimeout(timer) });
}
