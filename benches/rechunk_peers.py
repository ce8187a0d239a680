"""Rechunker and cubed, which need a different zarr-python from the contenders of `copies.py`.

Each runs in its own environment (`pip install rechunker`, `pip install cubed zarr`). `copies.py`
calls the Python of that environment: PYTHON rechunk_peers.py NAME SOURCE TARGET MEMORY.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

SPACE = 64


def rechunker_(source: str, target: str, memory: str) -> None:
    """Rechunker on dask's threads, as its tutorial shows it. Works with Zarr v2 only."""
    import rechunker
    import zarr

    array: Any = zarr.open(source, mode="r")
    with tempfile.TemporaryDirectory() as between:
        plan = rechunker.rechunk(
            array,
            target_chunks=(array.shape[0], SPACE, SPACE),
            # The memory of one task. There is one task per thread.
            max_mem=int(memory.removesuffix(" MiB")) * (1 << 20) // 2,
            target_store=target,
            temp_store=f"{between}/x",
        )
        plan.execute()


def cubed_(source: str, target: str, memory: str) -> None:
    """cubed on its own threads."""
    import cubed

    with tempfile.TemporaryDirectory() as between:
        allowed = int(memory.removesuffix(" MiB")) << 20
        spec = cubed.Spec(work_dir=between, allowed_mem=allowed, reserved_mem=0, executor_name="threads")
        array = cubed.from_zarr(source, spec=spec)
        new = array.rechunk((array.shape[0], SPACE, SPACE))
        cubed.to_zarr(new, store=target)


CONTENDERS = {"rechunker": rechunker_, "cubed": cubed_}


def peak_bytes() -> int:
    """Returns the peak memory of this process or of its largest child.

    Reads /proc for this process, because `getrusage` may report the memory of the parent.
    """
    status = Path("/proc/self/status").read_text()
    own = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) * 1024


def main() -> None:
    """Prints seconds and peak memory."""
    warnings.simplefilter("ignore")
    name, source, target, memory = sys.argv[1:]
    start = time.perf_counter()
    CONTENDERS[name](source, target, memory)
    print(json.dumps([time.perf_counter() - start, peak_bytes()]))


if __name__ == "__main__":
    main()
