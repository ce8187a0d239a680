"""256 random samples of (1, 64, 64) from a sharded array, in 2 workers, compared with others.

    python benches/training_rows.py [--repeat 5] [--method fork]

Works like a DataLoader: the workers are running, open the array once and get lists of samples.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from multiprocessing.pool import Pool
from typing import Any

import hyperslab as hs
import numpy as np

SHAPE, SHARDS, CHUNKS = (128, 1024, 1024), (16, 512, 512), (1, 64, 64)
SAMPLES, BATCH = 256, 16

_opened: dict[str, Any] = {}

# zarr-python's pipelines, and TensorStore.
PIPELINES = {
    "zarr-python": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
}
PEERS = (*PIPELINES, "tensorstore")
# Workers that read nothing: the cost of sending batches to the parent.
NOTHING = "nothing"
KINDS = ("hyperslab", *PEERS, NOTHING)


def prepare(kind: str, path: str) -> None:
    """Opens the array. Runs in each worker."""
    if kind in PIPELINES:
        import zarr

        with zarr.config.set({"codec_pipeline.path": PIPELINES[kind]}):
            _opened["read"] = zarr.open_array(path, mode="r").__getitem__
    elif kind == "tensorstore":
        import tensorstore as ts

        store = ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": path}}).result()
        _opened["read"] = lambda selection: store[selection].read().result()
    elif kind == NOTHING:
        _opened["read"] = lambda _: np.zeros((1, 64, 64), "f4")
    else:
        array = hs.open_array(path, mode="r")
        _opened["read"] = lambda selection: array.read(selection, threads=1)


def batch(corners: list[tuple[int, int, int]]) -> Any:
    """Reads one batch in a worker and sends it to the parent."""
    read = _opened["read"]
    return np.stack([read((slice(t, t + 1), slice(y, y + 64), slice(x, x + 64))) for t, y, x in corners])


def epoch(pool: Pool, corners: list[list[tuple[int, int, int]]]) -> tuple[float, Any]:
    """Returns the time of all samples, and their values."""
    begin = time.perf_counter()
    found = list(pool.imap(batch, corners))
    return time.perf_counter() - begin, np.concatenate(found)


def main() -> None:
    """Prints the best times, also as multiples of the best peer's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--method", default="spawn")
    arguments = parser.parse_args()
    chance = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as path:
        array = hs.create_array(f"{path}/a", shape=SHAPE, shards=SHARDS, chunks=CHUNKS, dtype="f4")
        for t in range(0, SHAPE[0], SHARDS[0]):
            array[t : t + SHARDS[0]] = chance.normal(size=(SHARDS[0], *SHAPE[1:])).round(2)
        for where in ("anywhere", "on chunks"):
            step = 1 if where == "anywhere" else 64
            most = [SHAPE[0], (SHAPE[1] - 64) // step + 1, (SHAPE[2] - 64) // step + 1]
            drawn = chance.integers(0, most, (SAMPLES, 3)) * [1, step, step]
            corners = [[tuple(row) for row in part.tolist()] for part in np.split(drawn, SAMPLES // BATCH)]
            best: dict[str, float] = {}
            found: dict[str, Any] = {}
            context = multiprocessing.get_context(arguments.method)
            for kind in KINDS:
                with context.Pool(2, prepare, (kind, f"{path}/a")) as pool:
                    epoch(pool, corners)
                    runs = [epoch(pool, corners) for _ in range(arguments.repeat)]
                best[kind], found[kind] = min(spent for spent, _ in runs), runs[0][1]
            assert all(np.array_equal(found["hyperslab"], found[peer]) for peer in PEERS)
            peer = min(best[kind] for kind in PEERS)
            for kind, spent in best.items():
                print(f"{where:<10} {kind:<12} {spent * 1e3:8.1f} ms   {spent / peer:.2f} x")


if __name__ == "__main__":
    main()
