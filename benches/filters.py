"""Codecs of numcodecs on chunks of 1 MiB: hyperslab compared with numcodecs on the same files.

    python benches/filters.py

hyperslab reads and writes an array. The comparison reads the file's bytes and decodes them into the
same memory, or encodes and writes them to a file that replaces the old one. Both use one thread.
Encoding time is mostly file system time, so the last column leaves the file out: hyperslab writes
an array in memory, numcodecs keeps the bytes.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import hyperslab as hs
import numcodecs
import numpy as np

COUNT = 1 << 18
ROUNDS = 15


def data_for(codec: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Returns 1 MiB of elements that suit a codec."""
    values = np.cumsum(np.random.default_rng(0).normal(size=COUNT)).astype("f4")
    if codec["id"] == "packbits":
        return np.tile(values > 0, 4)
    if codec["id"] in ("delta", "shuffle"):
        return (100 * values).astype("i4")
    return values


def settings() -> list[dict[str, Any]]:
    """Returns the codecs as Zarr v2 writes them."""
    typed = {"dtype": "<f4"}
    return [
        {"id": "delta", "dtype": "<i4"},
        {"id": "delta", "dtype": "<i4", "astype": "<i2"},
        {"id": "fixedscaleoffset", "offset": 0, "scale": 10, "astype": "<i2", **typed},
        {"id": "quantize", "digits": 1, **typed},
        {"id": "astype", "encode_dtype": "<f8", "decode_dtype": "<f4"},
        {"id": "bitround", "keepbits": 8},
        {"id": "packbits"},
        {"id": "shuffle", "elementsize": 4},
        {"id": "crc32"},
        {"id": "adler32"},
        {"id": "fletcher32"},
        {"id": "jenkins_lookup3"},
        {"id": "base64"},
        {"id": "bz2", "level": 1},
        {"id": "lzma", "preset": 1},
        {"id": "pcodec"},
    ]


def median(work: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """Returns the median seconds of two works that take turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS + 1):
        for to, do in zip(times, (work, other), strict=True):
            start = time.perf_counter()
            do()
            if number > 0:
                to.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def row(config: dict[str, Any]) -> tuple[str, ...] | None:
    """Returns the row of one codec, or ``None`` if numcodecs lacks it."""
    try:
        theirs = numcodecs.get_codec(dict(config))
    except (ImportError, ValueError):
        return None
    values = data_for(config)
    kinds = {"delta", "fixedscaleoffset", "quantize", "astype", "bitround", "packbits", "shuffle"}
    place = "filters" if config["id"] in kinds else "compressors"
    how: dict[str, Any] = {"filters": None, "compressors": None} | {place: [config]}
    with tempfile.TemporaryDirectory() as directory:
        array = hs.create_array(f"{directory}/a", data=values, chunks=values.shape, zarr_format=2, **how)
        file, new, out = Path(directory, "a", "0"), Path(directory, "new"), np.empty_like(values)

        def write() -> None:
            new.write_bytes(theirs.encode(values))
            new.rename(directory + "/old")

        read = median(lambda: array.read(out=out), lambda: theirs.decode(file.read_bytes(), out))
        written = median(lambda: array.__setitem__(..., values), write)
    memory = hs.create_array(hs.MemoryStore(), data=values, chunks=values.shape, zarr_format=2, **how)
    kept: dict[str, Any] = {}
    encoded = median(
        lambda: memory.__setitem__(..., values), lambda: kept.__setitem__("0", theirs.encode(values))
    )
    name = " ".join(str(value) for key, value in config.items() if key not in ("dtype", "decode_dtype"))
    cells = [f"{1e6 * ours:.0f} µs ({peer / ours:.1f} ×)" for ours, peer in (read, written, encoded)]
    return name, *cells


def main() -> None:
    """Prints the table."""
    hs.config.set(threads=1)
    rows = [found for found in map(row, settings()) if found is not None]
    print(common.table(("codec", "decode (× as fast as numcodecs)", "encode", "in memory"), rows, left=1))


if __name__ == "__main__":
    main()
