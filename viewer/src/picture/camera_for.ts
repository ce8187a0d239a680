// How a plane lies on the screen: which way is up, and whether elements are squares.

import type { Described } from "../base/types";
import type { AxisLabels } from "./axis_labels";
import { Camera } from "./camera";

const SPACE = ["latitude", "longitude", "x", "y", "z"];

export function cameraFor(described: Described, labels: AxisLabels[], of: [number, number]): Camera {
  const { shape, axes, levels } = described;
  const [row, column] = of;
  const camera = new Camera(Math.max(1, shape[row] ?? 1), Math.max(1, shape[column] ?? 1));
  const kinds = [axes[row]?.kind ?? null, axes[column]?.kind ?? null] as const;
  const ratio = camera.rows / camera.columns;
  const within = (most: number): boolean => ratio < most && ratio > 1 / most;
  const isSpace = kinds.every((kind) => kind !== null && SPACE.includes(kind));
  // Axes without a meaning are as likely time and depth: long planes fill the screen.
  camera.isSquare = isSpace ? within(8) : kinds.every((kind) => kind === null) && within(4);
  // North is up. So is the top of y axes that are no rows of an image.
  const isUp = kinds[0] === "latitude" || (kinds[0] === "y" && labels[row]?.hasValues === true && levels.length === 0);
  camera.isFlipped = isUp && (labels[row]?.direction ?? 0) > 0;
  camera.isMirrored = kinds[1] === "longitude" && (labels[column]?.direction ?? 0) < 0;
  return camera;
}
