// Notices that an array changed.

import { askJson } from "../base/api";

/** Milliseconds between two questions. Files that a run appends to grow more slowly. */
const EVERY = 2000;

export function follow(path: string, version: string, changed: () => void): () => void {
  let isOver = false;
  const controller = new AbortController();
  const timer = window.setInterval(() => {
    if (document.hidden || isOver) return;
    askJson<{ version: string }>("version", path, {}, controller.signal).then(
      (now) => {
        if (isOver || now.version === version) return;
        version = now.version;
        changed();
      },
      // A file is being replaced, or the server is gone: the next request that somebody needs says so.
      () => undefined,
    );
  }, EVERY);
  return () => {
    isOver = true;
    controller.abort();
    window.clearInterval(timer);
  };
}
