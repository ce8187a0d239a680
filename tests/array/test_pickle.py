"""A pickle holds the location of an object. The object is opened again when first used."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest


@pytest.fixture
def z(tmp_path: Path) -> hs.Array:
    return hs.create_array(tmp_path / "a b", name="x/y", data=np.arange(6, dtype="i4"), chunks=(4,))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_round_trip(z: hs.Array, protocol: int) -> None:
    loaded = pickle.loads(pickle.dumps(z, protocol))
    assert type(loaded) is hs.Array and loaded == z and loaded.name == "/x/y"
    assert loaded[:].tolist() == list(range(6))
    loaded[0] = 9
    assert z[0] == 9
    group = hs.open_group(z.store)
    again = pickle.loads(pickle.dumps(group, protocol))
    assert type(again) is hs.Group and again == group and list(again) == ["x"]


def test_mode_store_and_settings_are_kept(z: hs.Array) -> None:
    r = pickle.loads(pickle.dumps(hs.open_array(z.store, path="x/y", mode="r")))
    assert r.read_only
    with pytest.raises(hs.errors.ReadOnlyError):
        r[0] = 1
    store = hs.LocalStore(z.store.root, fsync=True)
    again = pickle.loads(pickle.dumps(store))
    assert again == store and again.fsync and not again.read_only
    kept = pickle.loads(pickle.dumps(z.with_config({"write_empty_chunks": True})))
    kept[:] = 0
    assert z.nchunks_initialized == 2


def test_pickles_are_small_and_hold_no_data(z: hs.Array) -> None:
    assert len(pickle.dumps(z)) < 500


def test_opened_on_first_use(z: hs.Array) -> None:
    text = pickle.dumps(z)
    root = z.store.root
    moved = root.with_name("moved")
    root.rename(moved)
    loaded = pickle.loads(text)
    assert loaded.path == "x/y"
    with pytest.raises(hs.errors.ArrayNotFoundError):
        loaded.shape
    moved.rename(root)
    assert loaded.shape == (6,)


def test_metadata_is_that_of_the_time_of_opening(z: hs.Array) -> None:
    text = pickle.dumps(z)
    z.resize((3,))
    assert pickle.loads(text).shape == (3,)


def test_copies(z: hs.Array) -> None:
    assert copy.copy(z) == z and copy.deepcopy(z)[1] == 1


def test_another_process(z: hs.Array, tmp_path: Path) -> None:
    (tmp_path / "pickle").write_bytes(pickle.dumps(z))
    program = f"import pickle; print(pickle.load(open({str(tmp_path / 'pickle')!r}, 'rb'))[:].tolist())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0, 1, 2, 3, 4, 5]"


@pytest.mark.parametrize(
    "make",
    [hs.MemoryStore, lambda: hs.zeros((3,)), lambda: hs.create_group(hs.MemoryStore())],
    ids=["store", "array", "group"],
)
def test_memory_cannot_be_pickled(make: Any) -> None:
    with pytest.raises(TypeError, match="MemoryStore"):
        pickle.dumps(make())


def test_errors_can_be_pickled(z: hs.Array) -> None:
    for cause in (lambda: z[100], lambda: hs.open(z.store, path="nothing", mode="r")):
        with pytest.raises(hs.HyperslabError) as caught:
            cause()
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is type(caught.value) and str(again) == str(caught.value)


def test_errors_can_be_made_by_new() -> None:
    # dask's workers do this.
    for name in hs.errors.__all__:
        kind = getattr(hs.errors, name)
        if issubclass(kind, hs.HyperslabError):
            assert kind.__new__(kind, "what").args == ("what",)
            assert str(kind("what")) == "what"
    assert hs.errors.StoreNotFoundError(2, "gone").errno == 2
