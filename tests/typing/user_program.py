"""A program as users of hyperslab write it. mypy and pyright check it, but it is not run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import hyperslab as hs
import numpy as np
import numpy.typing as npt


def make(root: Path) -> hs.Group:
    group = hs.create_group(root, attributes={"title": "ocean"}, zarr_format=3)
    sst = group.create_array(
        "sst",
        shape=(50, 180, 360),
        chunks=(1, 180, 360),
        dtype="f4",
        compressors=hs.codecs.Zstd(level=3),
        fill_value=np.nan,
        dimension_names=("time", "lat", "lon"),
        attributes={"units": "K"},
    )
    sst[0, ..., ::-1] = np.zeros((180, 360), np.float32)
    sst[1] = 3
    sst.attrs["history"] = ["made"]
    sst.write((2, slice(None)), np.ones(360), threads=1, write_empty_chunks=True)
    hs.create_array(str(root), name="depth", data=np.arange(3), chunks="auto", compressors=None)
    hs.create_array(
        hs.MemoryStore(), shape=10, dtype=np.int16, compressors=[{"name": "gzip"}], overwrite=True
    )
    return group


def mean(z: hs.Array) -> npt.NDArray[Any]:
    out = np.empty(z.shape[1:], z.dtype)
    total = np.zeros(z.shape[1:])
    for step in range(z.shape[0]):
        z.read(step, out=out)
        total += out
    return np.asarray(total / len(z))


def picked(z: hs.Array) -> None:
    z[[3, 1], :, 0] = z.oindex[[1, 3], ..., z[0, 0] > 1]
    z.vindex[[0, 1], np.array([2, 3]), 4] += 1
    z.blocks[0, -1:] = 0
    z.set_mask_selection(z[...] > 3, 3)
    z.get_coordinate_selection(([0], [1], [2]), out=np.empty(1))


def warmer(z: hs.Array, out: hs.Array) -> None:
    stream = z.stream(axis=-1, start=1, stop=None, ahead="64 MiB")
    with out.writer(buffer=1 << 20) as w:
        for step, values in stream:
            assert_type(step, int)
            w[step, ...] = values + 1
        w.flush()
    stream.close()


def names(group: hs.Group) -> Iterator[str]:
    for name, node in group.members():
        if isinstance(node, hs.Array):
            yield f"{name}: {node.dtype} {node.shape} in chunks of {node.chunks}"
        else:
            yield from names(node)


def main() -> None:
    with hs.config.set(threads=2):
        group = make(Path("ocean.zarr"))
    node = hs.open("ocean.zarr", mode="r")
    if isinstance(node, hs.Group):
        print(node.tree())
    z = hs.open_array("ocean.zarr", path="sst", mode="r+")
    assert_type(z, hs.Array)
    assert_type(z.shape, tuple[int, ...])
    assert_type(z.ndim, int)
    assert_type(group.attrs["title"], Any)
    print(mean(z), z.explain((0, slice(None))), z.info, *names(group))
    z.resize((60, 180, 360))
    z.append(np.zeros((1, 180, 360)))
    z.update_attributes({"done": True})
    del group["depth"]
    hs.consolidate_metadata("ocean.zarr")
    try:
        z[100]
    except hs.errors.BoundsCheckError as error:
        print(error)
    except (hs.errors.ChunkError, hs.HyperslabError):
        raise


if __name__ == "__main__":
    main()
