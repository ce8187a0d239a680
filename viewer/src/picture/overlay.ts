// What is drawn around and above a picture: ticks, coastlines, marks, the box, the crosshair.

import { COASTLINES } from "../../generated/coastlines";
import type { AxisLabels } from "./axis_labels";
import type { Camera } from "./camera";

/** Space for labels, in CSS pixels. */
export const GUTTER = { left: 84, bottom: 40, top: 8, right: 14 };

export interface Above {
  marks: { row: number; column: number; color: string }[];
  box: { top: number; bottom: number; left: number; right: number } | null;
  cross: { row: number; column: number } | null;
  isMap: boolean;
}

export interface Inks {
  text: string;
  line: string;
  coast: string;
}

let lines: Int16Array | null = null;

/** Points of coastlines: per line its length, then longitudes and latitudes in hundredths of a degree. */
function coastlines(): Int16Array {
  if (!lines) {
    const bytes = Uint8Array.from(atob(COASTLINES), (letter) => letter.charCodeAt(0));
    lines = new Int16Array(bytes.buffer);
  }
  return lines;
}

export function drawOverlay(
  context: CanvasRenderingContext2D,
  pixels: number,
  camera: Camera,
  rows: AxisLabels,
  columns: AxisLabels,
  above: Above,
  inks: Inks,
): void {
  const { width, height } = camera;
  context.setTransform(pixels, 0, 0, pixels, 0, 0);
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
  drawTicks(context, camera, rows, columns, inks);
  context.translate(GUTTER.left, GUTTER.top);
  context.save();
  context.beginPath();
  context.rect(0, 0, width, height);
  context.clip();
  if (above.isMap) drawCoast(context, camera, rows, columns, inks);
  if (above.box) {
    const { top, bottom, left, right } = above.box;
    const x = Math.min(camera.x(left), camera.x(right));
    const y = Math.min(camera.y(top), camera.y(bottom));
    twice(context, () => {
      context.strokeRect(x, y, Math.abs(camera.x(right) - camera.x(left)), Math.abs(camera.y(bottom) - camera.y(top)));
    });
  }
  if (above.cross) {
    const x = camera.x(above.cross.column + 0.5);
    const y = camera.y(above.cross.row + 0.5);
    twice(context, () => {
      context.beginPath();
      context.moveTo(x - 12, y);
      context.lineTo(x + 12, y);
      context.moveTo(x, y - 12);
      context.lineTo(x, y + 12);
      context.stroke();
    });
  }
  for (const mark of above.marks) {
    context.beginPath();
    context.arc(camera.x(mark.column + 0.5), camera.y(mark.row + 0.5), 6, 0, 2 * Math.PI);
    context.fillStyle = mark.color;
    context.fill();
    context.lineWidth = 2;
    context.strokeStyle = "#fff";
    context.stroke();
  }
  context.restore();
}

/** Draws in white on black, so that lines are seen on every colour. */
function twice(context: CanvasRenderingContext2D, draw: () => void): void {
  for (const [ink, width] of [["#000", 3.5], ["#fff", 1.5]] as const) {
    context.strokeStyle = ink;
    context.lineWidth = width;
    draw();
  }
}

function drawTicks(
  context: CanvasRenderingContext2D,
  camera: Camera,
  rows: AxisLabels,
  columns: AxisLabels,
  inks: Inks,
): void {
  const { width, height } = camera;
  const { left, right, top, bottom } = GUTTER;
  context.save();
  context.strokeStyle = inks.line;
  context.lineWidth = 1;
  context.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
  context.fillStyle = inks.text;
  context.font = "12px system-ui, sans-serif";
  const seen = camera.visible();
  context.textAlign = "center";
  context.textBaseline = "top";
  let last = -Infinity;
  const across = columns.ticks(seen.left, seen.right, width / 90);
  for (const tick of across.sort((a, b) => camera.x(a.at) - camera.x(b.at))) {
    const x = left + camera.x(tick.at);
    const half = context.measureText(tick.label).width / 2;
    if (x < left || x > left + width || x - half < last + 8) continue;
    context.fillRect(x - 0.5, top + height, 1, 4);
    const at = Math.min(Math.max(x, half + 2), left + width + right - half);
    context.fillText(tick.label, at, top + height + 6);
    last = at + half;
  }
  context.fillText(columns.title(), left + width / 2, top + height + bottom - 16);
  context.textAlign = "right";
  context.textBaseline = "middle";
  last = -Infinity;
  const down = rows.ticks(seen.top, seen.bottom, height / 50);
  for (const tick of down.sort((a, b) => camera.y(a.at) - camera.y(b.at))) {
    const y = top + camera.y(tick.at);
    if (y < top || y > top + height || y < last + 14) continue;
    context.fillRect(left - 4, y - 0.5, 4, 1);
    context.fillText(tick.label, left - 7, y, left - 24);
    last = y;
  }
  context.translate(9, top + height / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.fillText(rows.title(), 0, 0, height);
  context.restore();
}

/** Coastlines, where both axes have coordinates that are numbers. */
function drawCoast(
  context: CanvasRenderingContext2D,
  camera: Camera,
  rows: AxisLabels,
  columns: AxisLabels,
  inks: Inks,
): void {
  if (rows.direction === 0 || columns.direction === 0) return;
  const points = coastlines();
  context.strokeStyle = inks.coast;
  context.lineWidth = 1.2;
  context.lineJoin = "round";
  context.beginPath();
  // Longitudes are −180 to 180, or 0 to 360: draw three worlds side by side.
  const edges = [columns.at(0), columns.at(columns.axis.size - 1)].sort((a, b) => a - b) as [number, number];
  for (const shift of [-360, 0, 360]) {
    if (edges[1] < shift - 180 || edges[0] > shift + 180) continue;
    for (let at = 0; at < points.length; ) {
      const end = at + 1 + 2 * (points[at] ?? 0);
      let isFirst = true;
      for (let n = at + 1; n < end; n += 2) {
        const x = camera.x(columns.find((points[n] ?? 0) / 100 + shift) + 0.5);
        const y = camera.y(rows.find((points[n + 1] ?? 0) / 100) + 0.5);
        // Lines that cross the edge of the world end there.
        const isCut = Math.abs((points[n] ?? 0) - (points[n - 2] ?? 0)) > 18000;
        if (isFirst || isCut) context.moveTo(x, y);
        else context.lineTo(x, y);
        isFirst = false;
      }
      at = end;
    }
  }
  context.stroke();
}
