"""Several processes change parts of the same chunks and shards.

No update is lost, and no file is left over.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
from support import kills

LIMIT = 120

COUNT = """
import sys
import hyperslab as hs
path, me, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
z = hs.open_array(path, mode="r+")
for k in range(rounds):
    z[me * rounds + k] = 1 + k
"""


@pytest.mark.parametrize("layout", ["raw", "zstd", "shard"])
def test_partial_writes_lose_no_update(tmp_path: Path, layout: str) -> None:
    """Four processes write every element of one chunk (or shard) separately."""
    rounds = 60
    options: dict[str, Any] = {"raw": {"compressors": None}, "zstd": {}, "shard": {"shards": (240,)}}[layout]
    chunks = (24,) if layout == "shard" else (240,)
    hs.create_array(tmp_path / "a", shape=(240,), chunks=chunks, dtype="i4", **options)
    command = [sys.executable, "-c", COUNT, str(tmp_path / "a")]
    writers = [subprocess.Popen([*command, str(me), str(rounds)]) for me in range(4)]
    assert [writer.wait(LIMIT) for writer in writers] == [0] * 4
    assert hs.open_array(tmp_path / "a", mode="r")[:].tolist() == list(range(1, rounds + 1)) * 4
    assert os.listdir(tmp_path / "a/c") == ["0"]


KILLED = """
import sys
import hyperslab as hs, numpy as np
root = sys.argv[1]
plain, shard = hs.open_array(root + "/plain", mode="r+"), hs.open_array(root + "/shard", mode="r+")
group = hs.open_group(root, mode="r+")
print("ready", flush=True)
k = 0
while True:
    k += 1
    plain[:], shard[:] = k, k
    plain[3], shard[3] = k, k
    plain.attrs["k"] = group.attrs["k"] = k
"""


def names(root: Path) -> list[str]:
    return [name for _, below, files in os.walk(root) for name in below + files]


def test_killed_writers_leave_nothing_that_other_software_lists(tmp_path: Path) -> None:
    root = tmp_path / "g"
    hs.create_group(root)
    for name, shards in (("plain", None), ("shard", (64,))):
        hs.create_array(root / name, shape=(64,), chunks=(8,), shards=shards, dtype="i4")
    rng = np.random.default_rng()
    warned: list[str] = []
    # Temporary files of writers that were killed right before a rename. zarr-python warns of them
    # in every later round.
    left_before: set[str] = set()
    rounds = kills(12)
    for _ in range(rounds):
        writer = subprocess.Popen([sys.executable, "-c", KILLED, str(root)], stdout=subprocess.PIPE)
        assert writer.stdout is not None and writer.stdout.readline()
        end = time.monotonic() + 0.05 + rng.random() * 0.05
        while time.monotonic() < end:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                members = dict(zarr.open_group(root, mode="r").members())
            assert set(members) == {"plain", "shard"}
            found = [str(warning.message) for warning in caught]
            warned += [text for text in found if not any(name in text for name in left_before)]
        writer.send_signal(signal.SIGKILL)
        writer.wait(LIMIT)
        assert (hs.open_array(root / "plain", mode="r")[8:16] > 0).all()
        left_before |= {name for name in names(root) if name.endswith(".hyperslab-tmp")}
    # A new file has a temporary name for some microseconds before it is renamed.
    assert len([text for text in warned if "hyperslab-tmp" in text]) <= rounds, warned
    store = hs.LocalStore(root)
    left = [name for name in names(root) if name.endswith(".hyperslab-tmp")]
    assert len(left) <= rounds
    if left:
        time.sleep(2.2)
    del store
    # The next writers of the same objects remove the leftover files.
    plain, shard = hs.open_array(root / "plain", mode="r+"), hs.open_array(root / "shard", mode="r+")
    plain[:] = shard[:] = 7
    assert not [n for n in names(root / "plain" / "c") + names(root / "shard" / "c") if n.endswith("-tmp")]
