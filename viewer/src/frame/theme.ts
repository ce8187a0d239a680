// Light and dark: as the system says, or as somebody chose.

const NAME = "hyperslab theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

/** Frames in pages of other sites may not have a storage: then the choice lasts as long as the page. */
let chosen = ((): string | null => {
  try {
    return localStorage.getItem(NAME);
  } catch {
    return null;
  }
})();

export function isDark(): boolean {
  return chosen === null ? system.matches : chosen === "dark";
}

function apply(): void {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
  for (const listener of listeners) listener();
}

export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function switchTheme(): void {
  const next = isDark() ? "light" : "dark";
  // Who comes back to what the system says follows the system again.
  chosen = (next === "dark") === system.matches ? null : next;
  try {
    if (chosen === null) localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, chosen);
  } catch {
    // See above.
  }
  apply();
}

export function startTheme(): void {
  system.addEventListener("change", apply);
  apply();
}
