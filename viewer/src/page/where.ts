// The hierarchy that an array is in, for xarray.

import type { Described } from "../base/types";
import type { Where } from "../panels/python";

const FILE = /\.(zarr|zarr\.zip|zip|h5|hdf5|he5|nc|nc4|cdf|json|parq|parquet)$/i;

/** Cuts a path at the first part that is named like a file or a hierarchy. */
export function rootOf(path: string, _: Described): Where {
  const parts = path.split("/");
  const end = parts.findIndex((part) => FILE.test(part));
  const depth = end < 0 || end === parts.length - 1 ? Math.max(1, parts.length - 1) : end + 1;
  const inside = parts.slice(depth);
  return {
    root: parts.slice(0, depth).join("/"),
    group: inside.slice(0, -1).join("/"),
    name: inside.at(-1) ?? path,
  };
}
