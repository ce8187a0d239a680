// Wheel, drag, pinch, clicks and keys on a picture.

/** What a picture does with gestures. Places are CSS pixels inside the picture. */
export interface Gestures {
  pan(dx: number, dy: number): void;
  zoom(factor: number, x?: number, y?: number): void;
  hover(x: number, y: number): void;
  leave(): void;
  click(x: number, y: number): void;
  box(x0: number, y0: number, x1: number, y1: number, isDone: boolean): void;
  fit(): void;
  /** Moves the crosshair by steps of the screen. */
  step(right: number, down: number): void;
  /** Takes the profiles at the crosshair. */
  pick(): void;
}

/** A click moves less than this, in CSS pixels. */
const STILL = 4;

export function attachGestures(element: HTMLElement, act: Gestures, isBoxing: () => boolean): void {
  const down = new Map<number, { x: number; y: number }>();
  let start: { x: number; y: number } | null = null;
  let moved = false;
  let boxing = false;

  const place = (event: MouseEvent): { x: number; y: number } => {
    const rect = element.getBoundingClientRect();
    return { x: event.clientX - rect.left, y: event.clientY - rect.top };
  };

  element.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const { x, y } = place(event);
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
      act.zoom(Math.exp(-Math.min(Math.max(event.deltaY * lines, -300), 300) / 400), x, y);
    },
    { passive: false },
  );

  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    element.focus({ preventScroll: true });
    element.setPointerCapture(event.pointerId);
    const at = place(event);
    down.set(event.pointerId, at);
    if (down.size === 1) {
      start = at;
      moved = false;
      boxing = event.shiftKey || isBoxing();
    } else {
      moved = true;
      boxing = false;
    }
  });

  element.addEventListener("pointermove", (event) => {
    const at = place(event);
    const before = down.get(event.pointerId);
    if (!before) {
      act.hover(at.x, at.y);
      return;
    }
    if (start && Math.hypot(at.x - start.x, at.y - start.y) > STILL) moved = true;
    if (down.size === 2) {
      const other = [...down].find(([id]) => id !== event.pointerId)?.[1] ?? at;
      const was = Math.hypot(before.x - other.x, before.y - other.y);
      const now = Math.hypot(at.x - other.x, at.y - other.y);
      act.pan((at.x - before.x) / 2, (at.y - before.y) / 2);
      if (was > 0) act.zoom(now / was, (at.x + other.x) / 2, (at.y + other.y) / 2);
    } else if (moved && start) {
      if (boxing) act.box(start.x, start.y, at.x, at.y, false);
      else act.pan(at.x - before.x, at.y - before.y);
    }
    down.set(event.pointerId, at);
  });

  const up = (event: PointerEvent): void => {
    if (!down.delete(event.pointerId) || down.size > 0 || !start) return;
    const at = place(event);
    if (event.type === "pointerup") {
      if (boxing && moved) act.box(start.x, start.y, at.x, at.y, true);
      else if (!moved) act.click(at.x, at.y);
    }
    start = null;
  };
  element.addEventListener("pointerup", up);
  element.addEventListener("pointercancel", up);
  element.addEventListener("pointerleave", () => act.leave());
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = event.shiftKey ? 60 : 0;
    const arrows: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    };
    const arrow = arrows[event.key];
    if (arrow) {
      if (by > 0) act.pan(-arrow[0] * by, -arrow[1] * by);
      else act.step(arrow[0], arrow[1]);
    } else if (event.key === "+" || event.key === "=") act.zoom(1.5);
    else if (event.key === "-") act.zoom(1 / 1.5);
    else if (event.key === "0") act.fit();
    else if (event.key === "Enter") act.pick();
    else return;
    event.preventDefault();
  });
}
