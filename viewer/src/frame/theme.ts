// Light and dark: as the system says, or as somebody chose.

const NAME = "hyperslab theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

export function isDark(): boolean {
  const chosen = localStorage.getItem(NAME);
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
  if ((next === "dark") === system.matches) localStorage.removeItem(NAME);
  else localStorage.setItem(NAME, next);
  apply();
}

export function startTheme(): void {
  system.addEventListener("change", apply);
  apply();
}
