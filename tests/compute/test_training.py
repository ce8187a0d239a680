"""Worker processes read random samples, as they do for a DataLoader of PyTorch."""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from support import assert_same

METHODS = ["spawn", "forkserver", "fork"] if sys.platform.startswith("linux") else ["spawn"]


class Crops:
    """A `Dataset`: a length, and items by number."""

    def __init__(self, array: hs.Array, corners: np.ndarray[Any, Any]) -> None:
        self.array, self.corners = array, corners

    def __len__(self) -> int:
        return len(self.corners)

    def __getitem__(self, number: int) -> Any:
        t, y, x = self.corners[number]
        return self.array.read((slice(t, t + 1), slice(y, y + 16), slice(x, x + 16)), threads=1)


_dataset: list[Crops] = []


def prepare(dataset: Crops) -> None:
    """Runs in each worker, as in a DataLoader. The dataset came by a fork, or pickled."""
    _dataset[:] = [dataset]


def batch(numbers: list[int]) -> Any:
    return np.stack([_dataset[0][number] for number in numbers])


@pytest.mark.parametrize("cache", [None, "1 MiB"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers(tmp_path: Path, seed: int, method: str, cache: str | None) -> None:
    chance = np.random.default_rng(seed)
    data = chance.normal(size=(12, 96, 80)).astype("f4")
    hs.create_array(tmp_path / "a", data=data, shards=(6, 48, 40), chunks=(1, 16, 8))
    array = hs.open_array(tmp_path / "a", mode="r", cache=cache)
    corners = chance.integers(0, [12, 81, 65], (64, 3))
    dataset = Crops(array, corners)
    # The parent has already used the array: its threads run, its caches are warm.
    assert_same(array[...], data)
    batches = [list(range(at, at + 8)) for at in range(0, 64, 8)]
    with multiprocessing.get_context(method).Pool(2, prepare, (dataset,)) as pool:
        for _ in range(2):
            found = np.concatenate(pool.map(batch, batches))
            expected = [data[t : t + 1, y : y + 16, x : x + 16] for t, y, x in corners]
            assert_same(found, np.stack(expected), f"seed {seed}")


def test_with_pytorch(tmp_path: Path, seed: int) -> None:
    torch = pytest.importorskip("torch")
    data = np.random.default_rng(seed).normal(size=(12, 96, 80)).astype("f4")
    array = hs.create_array(tmp_path / "a", data=data, shards=(6, 48, 40), chunks=(1, 16, 8))
    corners = np.random.default_rng(seed).integers(0, [12, 81, 65], (64, 3))
    for method in METHODS:
        loader = torch.utils.data.DataLoader(
            Crops(array, corners), batch_size=8, num_workers=2, multiprocessing_context=method
        )
        found = torch.cat(list(loader)).numpy()
        assert_same(found, np.stack([data[t : t + 1, y : y + 16, x : x + 16] for t, y, x in corners]))


def test_with_jax() -> None:
    jax = pytest.importorskip("jax")
    z = hs.array(np.arange(12, dtype="f4").reshape(3, 4))
    assert_same(np.asarray(jax.numpy.asarray(z[1:])), z[1:])
