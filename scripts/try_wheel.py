"""Uses an installed hyperslab with only NumPy beside it: try_wheel.py

For machines where the tests' other packages cannot be installed: an old glibc, an emulated
processor. Tries every compressor, because each has its own C code.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np

COMPRESSORS: list[dict[str, Any] | None] = [
    None,
    {"id": "zstd", "level": 3},
    {"id": "gzip", "level": 5},
    {"id": "zlib", "level": 5},
    {"id": "lz4", "acceleration": 1},
    {"id": "bz2", "level": 1},
    {"id": "lzma", "preset": 1},
    {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1},
    {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2},
    {"id": "blosc", "cname": "zlib", "clevel": 3, "shuffle": 1},
    {"id": "blosc", "cname": "blosclz", "clevel": 5, "shuffle": 1},
]


def main() -> None:
    """Stops with an error at the first wrong result."""
    rows = np.arange(200, dtype="f4")
    data = np.sin(rows[:, None] / 50) * rows + rows[:, None]
    with tempfile.TemporaryDirectory() as folder:
        for number, compressor in enumerate(COMPRESSORS):
            path = f"{folder}/{number}"
            hs.create_array(
                path, data=data, chunks=(64, 64), zarr_format=2, filters=None, compressors=compressor
            )
            array = hs.open_array(path, mode="r")
            assert np.array_equal(array[:], data), compressor
            assert np.array_equal(array[::-3, 5:150:7], data[::-3, 5:150:7]), compressor
        path = f"{folder}/shards"
        array = hs.create_array(path, shape=data.shape, dtype="f4", chunks=(16, 16), shards=(64, 64))
        array[:] = data
        array[10:20, 30:70] = 1
        data[10:20, 30:70] = 1
        assert np.array_equal(hs.open_array(path)[:], data)
        chunk = Path(folder, "shards/c/0/0")
        chunk.write_bytes(b"damaged" + chunk.read_bytes()[7:-4] + b"\0\0\0\0")
        try:
            hs.open_array(path)[:]
        except hs.HyperslabError:
            pass
        else:
            sys.exit("a damaged shard was read")
        command = Path(sysconfig.get_path("scripts"), "hyperslab")
        tree = subprocess.run([command, "tree", folder + "/1"], check=True, capture_output=True, text=True)
        assert "(200, 200)" in tree.stdout and "zstd" in tree.stdout, tree.stdout
    print(
        f"hyperslab {hs.__version__}: {len(COMPRESSORS)} compressors and shards on Python "
        f"{platform.python_version()}, {platform.machine()}, {' '.join(platform.libc_ver())}"
    )


if __name__ == "__main__":
    main()
