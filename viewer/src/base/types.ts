// What the server answers. See docs/serve.md.

export type Kind = "number" | "complex" | "bool" | "text" | "compound" | "time" | "object";

export interface Axis {
  name: string | null;
  size: number;
  chunk: number | null;
  kind: "time" | "latitude" | "longitude" | "x" | "y" | "z" | "channel" | null;
  coordinate: string | null;
  units: string | null;
}

export interface Described {
  name: string;
  format: string;
  shape: number[];
  dtype: string;
  chunks: number[] | null;
  shards: number[] | null;
  kind: Kind;
  fill_value: unknown;
  units: string | null;
  long_name: string | null;
  axes: Axis[];
  plane: number[];
  rgb: number | null;
  levels: { path: string; shape: number[] }[];
  version: string;
}

export interface Coordinates {
  name: string | null;
  units: string | null;
  kind: string | null;
  values: (number | string | null)[];
}

export interface Histogram {
  count: number;
  missing: number;
  min: number | null;
  max: number | null;
  mean: number | null;
  std: number | null;
  low: number | null;
  high: number | null;
  counts: number[];
  percentiles: Record<string, number | null>;
  sampled: boolean;
}

export interface Table {
  columns: string[];
  rows: unknown[][];
}

export interface Tree {
  kind: "folder" | "group" | "array" | "unreadable";
  format?: string;
  shape?: number[];
  dtype?: string;
  chunks?: number[] | null;
  found?: string;
  truncated?: boolean;
  members?: Record<string, Tree>;
}

export interface Point {
  stored: unknown;
  value: unknown;
  coordinates: Record<string, unknown>;
}

/** A range of elements along an axis. */
export interface Slice {
  start: number;
  stop: number;
  step: number;
}
