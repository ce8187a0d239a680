"""Small tools of the tests."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


def examples(usual: int) -> int:
    """Returns the number of cases of a generated test: `usual`, or HYPERSLAB_EXAMPLES if set.

    ``HYPERSLAB_EXAMPLES=25%`` is a quarter of the usual number, at least 1.
    """
    wanted = os.environ.get("HYPERSLAB_EXAMPLES") or "100%"
    if wanted.endswith("%"):
        return max(usual * int(wanted[:-1]) // 100, 1)
    return int(wanted)


def kills(usual: int) -> int:
    """Returns how many processes a test kills: `usual`, or HYPERSLAB_KILLS if set.

    Prints the number: `make soak` counts it.
    """
    count = int(os.environ.get("HYPERSLAB_KILLS") or usual)
    print(f"\nkills: {count}")
    return count


@contextmanager
def scratch() -> Iterator[Path]:
    """Yields an empty directory for one generated case. ``tmp_path`` lasts for the whole test."""
    with tempfile.TemporaryDirectory(prefix="hyperslab-") as path:
        yield Path(path)


@contextmanager
def dask_cluster(
    *, workers: int = 2, threads: int = 1, settings: Mapping[str, Any] | None = None
) -> Iterator[Any]:
    """Starts a dask cluster whose workers may start processes. ``settings`` are dask's."""
    import dask
    import distributed

    with (
        dask.config.set({"distributed.worker.daemon": True, **(settings or {})}),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            processes=True,
            dashboard_address=None,
            memory_limit=0,
        ) as cluster,
    ):
        yield cluster


def killed(write: Callable[[], object], kills: int, seed: int, seconds: float) -> Iterator[None]:
    """Forks endlessly writing children and kills each after ``seconds`` on average.

    Yields after each kill.
    """
    chance = random.Random(seed)
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            try:
                while True:
                    write()
            finally:
                os._exit(1)
        time.sleep(chance.expovariate(1 / seconds))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            sys.exit("a writer failed")
        yield


def as_array(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Converts a result to an array. NumPy's scalars lack byte order and padding of strings."""
    return value if isinstance(value, np.ndarray) else np.asarray(value).astype(dtype)


def assert_same(found: Any, expected: Any, what: str = "") -> None:
    """Compares element type, byte order, shape and bits.

    ``-0.0`` is not ``0.0``, and NaNs have payloads.
    """
    if isinstance(expected, np.generic) and isinstance(found, np.ndarray):
        expected = np.asarray(expected).astype(found.dtype.newbyteorder("=")).astype(found.dtype)
    expected = np.asarray(expected)
    found = as_array(found, expected.dtype)
    assert found.dtype == expected.dtype, f"{what}: dtype {found.dtype.str}, expected {expected.dtype.str}"
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    if found.tobytes() == expected.tobytes():
        return
    bits = f"V{expected.dtype.itemsize}"
    differ = np.ascontiguousarray(found).view(bits) != np.ascontiguousarray(expected).view(bits)
    where = tuple(int(i) for i in np.argwhere(np.atleast_1d(differ))[0])
    at = where if expected.ndim else ()
    raise AssertionError(
        f"{what}: {int(np.sum(differ))} of {expected.size} elements differ, the first at {where}: "
        f"found {found[at]!r} ({found[at].tobytes().hex()}), "
        f"expected {expected[at]!r} ({expected[at].tobytes().hex()})"
    )


def as_view(selection: Any) -> Any:
    """Returns the same selection, but never a scalar: NumPy's scalars have no byte order."""
    selection = selection if isinstance(selection, tuple) else (selection,)
    return selection if ... in selection else (*selection, ...)


def assign(model: np.ndarray[Any, Any], selection: Any, value: Any) -> None:
    """Assigns by broadcasting. The ellipsis makes NumPy treat a single element like an array."""
    model[as_view(selection)] = value


def same_scalar(found: Any, expected: Any, dtype: np.dtype[Any]) -> bool:
    """Compares the bits of two fill values. ``None`` only equals ``None``."""
    if found is None or expected is None:
        return found is expected
    return np.asarray(found, dtype).tobytes() == np.asarray(expected, dtype).tobytes()


def files_below(root: Path) -> dict[str, bytes]:
    """Returns relative path and contents of every file below a directory."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


def chunk_files(root: Path) -> dict[str, bytes]:
    """Returns the files that are chunks."""
    return {name: data for name, data in files_below(root).items() if name.rsplit("/", 1)[-1] not in METADATA}


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def edit_json(path: Path, **changes: Any) -> None:
    """Changes members of a metadata document; ``...`` removes one."""
    document = read_json(path)
    for name, value in changes.items():
        if value is ...:
            document.pop(name, None)
        else:
            document[name] = value
    path.write_text(json.dumps(document))
