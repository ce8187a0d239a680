// Notices that an array changed.

import { askJson } from "../base/api";

/** Milliseconds between two questions. Files that a run appends to grow more slowly. */
const EVERY = 2000;

/** Calls `changed` when the array has another version, and again later if that answers `false`. */
export function follow(path: string, version: string, changed: () => Promise<boolean>): () => void {
  let isOver = false;
  let isAsking = false;
  const controller = new AbortController();
  const timer = window.setInterval(() => {
    if (document.hidden || isOver || isAsking) return;
    isAsking = true;
    askJson<{ version: string }>("version", path, {}, controller.signal)
      .then(async (now) => {
        if (isOver || now.version === version) return;
        if (await changed()) version = now.version;
      })
      // A file is being replaced, or the server is gone: the next request that somebody needs says so.
      .catch(() => undefined)
      .finally(() => (isAsking = false));
  }, EVERY);
  return () => {
    isOver = true;
    controller.abort();
    window.clearInterval(timer);
  };
}
