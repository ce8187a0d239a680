// Which part of a plane the screen shows.

import { clamp } from "../base/api";
import type { Slice } from "../base/types";

export class Camera {
  /** The element in the middle of the screen, as edges count: element 0 is from 0 to 1. */
  row = 0;
  column = 0;
  /** Pixels of the screen per element. */
  tall = 1;
  wide = 1;
  /** Size of the screen, in CSS pixels. */
  height = 1;
  width = 1;
  /** The first row is at the bottom: latitudes that ascend. */
  isFlipped = false;
  /** The first column is on the right. */
  isMirrored = false;
  /** Elements are squares, as in photographs and maps. */
  isSquare = false;

  constructor(
    public rows: number,
    public columns: number,
  ) {}

  /** Shows everything. */
  fit(): void {
    this.show(0, this.rows, 0, this.columns);
  }

  /** Shows a part. If elements are squares, more than this part may be visible. */
  show(top: number, bottom: number, left: number, right: number): void {
    this.row = (top + bottom) / 2;
    this.column = (left + right) / 2;
    this.tall = this.height / Math.max(bottom - top, 1e-9);
    this.wide = this.width / Math.max(right - left, 1e-9);
    if (this.isSquare) this.tall = this.wide = Math.min(this.tall, this.wide);
  }

  resize(width: number, height: number): void {
    if (this.isSquare) {
      const change = Math.min(width / this.width, height / this.height);
      this.tall *= change;
      this.wide *= change;
    } else {
      this.tall *= height / this.height;
      this.wide *= width / this.width;
    }
    this.width = width;
    this.height = height;
  }

  x(column: number): number {
    const away = (column - this.column) * this.wide;
    return this.width / 2 + (this.isMirrored ? -away : away);
  }

  y(row: number): number {
    const away = (row - this.row) * this.tall;
    return this.height / 2 + (this.isFlipped ? -away : away);
  }

  columnAt(x: number): number {
    const away = (x - this.width / 2) / this.wide;
    return this.column + (this.isMirrored ? -away : away);
  }

  rowAt(y: number): number {
    const away = (y - this.height / 2) / this.tall;
    return this.row + (this.isFlipped ? -away : away);
  }

  /** The element at a place of the screen. */
  element(x: number, y: number): { row: number; column: number } | null {
    const row = Math.floor(this.rowAt(y));
    const column = Math.floor(this.columnAt(x));
    return row >= 0 && column >= 0 && row < this.rows && column < this.columns ? { row, column } : null;
  }

  /** The elements between two corners on the screen: at least one. */
  box(x0: number, y0: number, x1: number, y1: number): { top: number; bottom: number; left: number; right: number } {
    const range = (a: number, b: number, size: number): [number, number] => {
      const low = clamp(Math.floor(Math.min(a, b)), 0, size - 1);
      return [low, clamp(Math.ceil(Math.max(a, b)), low + 1, size)];
    };
    const [top, bottom] = range(this.rowAt(y0), this.rowAt(y1), this.rows);
    const [left, right] = range(this.columnAt(x0), this.columnAt(x1), this.columns);
    return { top, bottom, left, right };
  }

  pan(dx: number, dy: number): void {
    this.column = clamp(this.column - (this.isMirrored ? -dx : dx) / this.wide, 0, this.columns);
    this.row = clamp(this.row - (this.isFlipped ? -dy : dy) / this.tall, 0, this.rows);
  }

  /** Zooms by a factor. The element under this point of the screen stays there. */
  zoom(factor: number, x = this.width / 2, y = this.height / 2): void {
    const row = this.rowAt(y);
    const column = this.columnAt(x);
    const least = (pixels: number, count: number): number => Math.min(1, (0.5 * pixels) / count);
    const low = Math.max(least(this.width, this.columns) / this.wide, least(this.height, this.rows) / this.tall);
    const bounded = clamp(factor, Math.min(1, low), Math.max(1, Math.min(200 / this.wide, 200 / this.tall)));
    this.wide *= bounded;
    this.tall *= bounded;
    this.column += column - this.columnAt(x);
    this.row += row - this.rowAt(y);
    this.pan(0, 0);
  }

  /** The visible elements. */
  visible(): { top: number; bottom: number; left: number; right: number } {
    const rows = [this.rowAt(0), this.rowAt(this.height)].sort((a, b) => a - b);
    const columns = [this.columnAt(0), this.columnAt(this.width)].sort((a, b) => a - b);
    return {
      top: clamp(Math.floor((rows[0] ?? 0) + 1e-6), 0, this.rows - 1),
      bottom: clamp(Math.ceil((rows[1] ?? 0) - 1e-6), 1, this.rows),
      left: clamp(Math.floor((columns[0] ?? 0) + 1e-6), 0, this.columns - 1),
      right: clamp(Math.ceil((columns[1] ?? 0) - 1e-6), 1, this.columns),
    };
  }

  /** True if the whole plane is visible. */
  isWhole(): boolean {
    const { top, bottom, left, right } = this.visible();
    return top === 0 && left === 0 && bottom === this.rows && right === this.columns;
  }

  /** The elements to read for this screen: about one per pixel, and some beyond the edges. */
  wanted(pixels: number): { rows: Slice; columns: Slice } {
    const { top, bottom, left, right } = this.visible();
    const part = (from: number, to: number, size: number, scale: number): Slice => {
      const step = Math.max(1, Math.floor(1 / (scale * pixels)));
      const margin = Math.ceil((to - from) / 8);
      const start = Math.floor(Math.max(0, from - margin) / step) * step;
      return { start, stop: Math.min(size, Math.ceil((to + margin) / step) * step), step };
    };
    return { rows: part(top, bottom, this.rows, this.tall), columns: part(left, right, this.columns, this.wide) };
  }
}
