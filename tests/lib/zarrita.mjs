// Reads an array with zarrita, for `test_clients.py`. Argument: the URL of the array.

import * as zarr from "zarrita";

const array = await zarr.open(new zarr.FetchStore(process.argv[2]), { kind: "array" });
const { data, shape } = await zarr.get(array);
const part = await zarr.get(array, [zarr.slice(1, 3), ...array.shape.slice(1).map(() => null)]);
const plain = (values) => Array.from(values, (value) => (typeof value === "bigint" ? Number(value) : String(value)));
console.log(
  JSON.stringify({ shape, dtype: array.dtype, attributes: array.attrs, data: plain(data), part: plain(part.data) }),
);
