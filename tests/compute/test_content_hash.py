"""`content_hash` against its definition in NumPy, and what it does not depend on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from blake3_numpy import blake3
from content_hash_reference import array_hash, brick_shape, group_hash
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Case, cases, from_bits
from support import examples, scratch

FORMATS = [2, 3, "HDF5"]


def stored(
    values: np.ndarray[Any, Any], form: Any, path: Path, chunks: tuple[int, ...], *, shards: int = 0
) -> Any:
    """Stores an array in a format, and opens it again."""
    if form == "HDF5":
        import h5py

        with h5py.File(path / "a.h5", "w") as file:
            wanted = chunks if values.size and values.ndim else None
            file.create_dataset("a", data=values, chunks=wanted)
        return hs.open(path / "a.h5", mode="r")["a"]
    options: dict[str, Any] = {"zarr_format": form, "chunks": chunks or None}
    if shards and form == 3:
        options["shards"] = tuple(shards * n for n in chunks)
    return hs.create_array(path / "a.zarr", data=values, **options)


def test_blake3_is_that_of_the_paper() -> None:
    assert blake3(b"").hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert blake3(b"abc").hex() == "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"
    # From the test vectors of BLAKE3: the first bytes of digests of 0, 1, …, 250, 0, 1, …
    for length, start in [
        (1024, "42214739f095a406"),
        (1025, "d00278ae47eb27b3"),
        (31744, "62b6960e1a44bcc1"),
    ]:
        assert blake3(bytes(n % 251 for n in range(length))).hex()[:16] == start


@given(case=cases())
@settings(max_examples=examples(150))
def test_the_hash_is_that_of_its_definition(case: Case) -> None:
    array = hs.create_array(hs.MemoryStore(), **case.arguments())
    array[...] = case.data
    found = hs.content_hash(array)
    expected = array_hash(case.data, attributes=case.attributes, dimensions=case.dimension_names)
    assert found.hash == expected
    assert found.arrays == {"": expected}


SHAPES = [(), (0, 3), (5000,), (70_000,), (3, 70, 300), (37, 1, 2000), (40, 7, 3), (9, 1100), (2, 3, 4, 500)]


@given(
    shape=st.sampled_from(SHAPES),
    form=st.sampled_from(FORMATS),
    dtype=st.sampled_from(["|b1", "|u1", ">i2", "<f4", ">f8", "<c16", "|S3", "|S40"]),
    data=st.data(),
)
@settings(max_examples=examples(40), deadline=None)
def test_large_arrays_of_all_formats(
    shape: tuple[int, ...], form: Any, dtype: str, data: st.DataObject
) -> None:
    chunks = tuple(data.draw(st.integers(max(n // 20, 1), max(n, 1))) for n in shape)
    values = from_bits(data.draw(st.integers(0, 1000)), int(np.prod(shape)), np.dtype(dtype)).reshape(shape)
    memory = data.draw(st.sampled_from([None, 0, 20_000, 400_000]))
    threads = data.draw(st.integers(1, 4))
    with scratch() as path:
        array = stored(values, form, path, chunks, shards=data.draw(st.integers(0, 2)))
        assert hs.content_hash(array, max_memory=memory, threads=threads).hash == array_hash(values)


def test_text_of_any_length_and_of_fixed_length(tmp_path: Path) -> None:
    texts = np.array([["a", "", "čaj"], ["\U0001f600", "x" * 300, "b"]], object)
    expected = array_hash(texts)
    for form in (2, 3):
        z = hs.create_array(tmp_path / f"{form}.zarr", data=texts, zarr_format=form, chunks=(1, 2))
        assert hs.content_hash(z).hash == expected
        z = hs.create_array(tmp_path / f"u{form}.zarr", data=texts.astype(">U300"), zarr_format=form)
        assert hs.content_hash(z).hash == expected
    with hs.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=texts, dtype=hs.h5.string_dtype())
    assert hs.content_hash(tmp_path / "a.h5" / "a").hash == expected


def test_structures_without_their_gaps(tmp_path: Path) -> None:
    inner = np.dtype([("x", ">i2"), ("y", "u1")])
    aligned = np.dtype([("a", "u1"), ("b", ">f8"), ("c", inner, (2,))], align=True)
    values = np.zeros(700, aligned)
    values["a"], values["b"] = np.arange(700) % 256, np.arange(700) / 3
    values["c"]["x"] = np.arange(1400).reshape(700, 2)
    expected = array_hash(values)
    with hs.File(tmp_path / "a.h5", "w") as file:
        file["a"] = values
        assert hs.content_hash(file["a"]).hash == expected
    packed = np.dtype([("a", "u1"), ("b", "<f8"), ("c", [("x", "<i2"), ("y", "u1")], (2,))])
    z = hs.create_array(hs.MemoryStore(), data=values.astype(packed), zarr_format=2)
    assert hs.content_hash(z).hash == expected


def test_elements_that_only_hdf5_has(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        pair = file.create_dataset("pairs", (3,), np.dtype(("i4", (2,))))
        pair[...] = [[1, 2], [3, 4], [5, 6]]
        rows = file.create_dataset("rows", (2,), h5py.vlen_dtype("i2"))
        rows[0], rows[1] = [1, 2, 3], []
        file.create_dataset("nothing", data=h5py.Empty("f4"))
        file["long"] = np.arange(3, dtype="g")
        file.create_dataset("places", data=[file["pairs"].ref, file["long"].ref], dtype=h5py.ref_dtype)
        mixed = np.dtype([("n", "i4"), ("name", h5py.string_dtype())])
        file.create_dataset("mixed", data=np.array([(1, "a"), (2, "b")], mixed))
    before = hs.content_hash(tmp_path / "a.h5")
    assert set(before.arrays) == {"long", "mixed", "nothing", "pairs", "places", "rows"}
    assert before.arrays["places"] == array_hash(np.array(["/pairs", "/long"], object))
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["pairs"][1] = [3, 5]
        file["mixed"][1] = (2, "c")
        file["rows"][1] = [0]
    after = hs.content_hash(tmp_path / "a.h5")
    changed = {path for path in before.arrays if before.arrays[path] != after.arrays[path]}
    assert changed == {"pairs", "mixed", "rows"}
    facts = {node["path"]: node for node in json.loads(after.to_json())["nodes"]}
    assert facts["pairs"]["dtype"] == {"hdf5": "int32(2,)"}
    assert facts["nothing"]["shape"] is None
    assert facts["rows"]["dtype"] == {"sequence": "<i2"}


def test_elements_that_may_be_missing() -> None:
    values = np.ma.masked_array(np.arange(5.0), [0, 1, 0, 0, 1])
    z = hs.create_array(hs.MemoryStore(), shape=5, dtype=hs.optional_dtype("f8"))
    z[...] = values
    stored_bytes = np.zeros(5, [("value", "<f8"), ("there", "u1")])
    stored_bytes["value"], stored_bytes["there"] = values.filled(0), ~values.mask
    facts = json.loads(hs.content_hash(z).to_json())["nodes"][0]
    assert facts["dtype"] == {"optional": "<f8"}
    # One brick in one slab.
    assert facts["values"] == blake3(blake3(stored_bytes.tobytes())).hex()


def test_what_counts() -> None:
    def of(**changes: Any) -> str:
        wanted: dict[str, Any] = {
            "data": np.arange(6.0).reshape(2, 3),
            "attributes": {"units": "m", "n": 1},
            "dimension_names": ("y", "x"),
        }
        return hs.content_hash(hs.create_array(hs.MemoryStore(), **{**wanted, **changes})).hash

    same = of()
    assert of(chunks=(1, 2), compressors=None, attributes={"n": 1, "units": "m"}, fill_value=7) == same
    different = [
        of(data=np.arange(6.0).reshape(3, 2)),
        of(data=np.arange(6.0, dtype="f4").reshape(2, 3)),
        of(data=np.arange(1, 7.0).reshape(2, 3)),
        of(attributes={"units": "m", "n": 1.0}),
        of(attributes={"units": "m"}),
        of(dimension_names=("x", "y")),
        of(dimension_names=None),
        of(attributes={"units": "m", "n": 1, "_FillValue": 3}),
    ]
    assert len({same, *different}) == 1 + len(different)
    # Bits count: zeros of both signs differ, and so do NaNs.
    nans = np.array([0x7FF8000000000000, 0x7FF8000000000001], "u8").view("f8")
    assert len({of(data=np.full((2, 3), value)) for value in (0.0, -0.0, *nans)}) == 4


def test_groups_name_their_members(tmp_path: Path) -> None:
    root = hs.create_group(tmp_path / "g.zarr", attributes={"title": "t"})
    root.create_array("a-b/c", data=np.arange(3))
    root.create_array("a/b/c", data=np.arange(4))
    root.create_array("a.b", data=np.arange(5))
    root.create_group("empty", attributes={"é": [None, True, 1.5, "\u0007"]})
    found = hs.content_hash(root)
    arrays = {path: array_hash(np.arange(n)) for path, n in [("a-b/c", 3), ("a/b/c", 4), ("a.b", 5)]}
    assert found.arrays == arrays
    inner = group_hash({"c": arrays["a/b/c"]})
    groups = {
        "a-b": group_hash({"c": arrays["a-b/c"]}),
        "a": group_hash({"b": inner}),
        "a/b": inner,
        "empty": group_hash({}, {"é": [None, True, 1.5, "\u0007"]}),
    }
    members = {name: groups.get(name) or arrays[name] for name in ("a-b", "a", "a.b", "empty")}
    assert found.groups == {"": group_hash(members, {"title": "t"}), **groups}
    # A part has the same hash alone.
    assert hs.content_hash(root["a"]).hash == groups["a"]
    assert hs.content_hash(tmp_path / "g.zarr" / "a" / "b" / "c").hash == arrays["a/b/c"]


@given(
    shape=st.sampled_from([(12_000,), (40, 30, 50), (9, 2000), (60,)]),
    form=st.sampled_from([2, 3]),
    rows=st.lists(st.integers(0, 6000), min_size=1, max_size=3),
)
@settings(max_examples=examples(12), deadline=None)
def test_appended_rows_cost_only_themselves(shape: tuple[int, ...], form: int, rows: list[int]) -> None:
    rng = np.random.default_rng(0)
    chunks = tuple(max(n // 3, 1) for n in shape)
    root = hs.create_group(hs.MemoryStore(), zarr_format=form)
    z = root.create_array("z", data=rng.normal(size=shape), chunks=chunks)
    root.create_array("still", data=np.arange(10_000.0))
    before = hs.content_hash(root)
    for more in rows:
        old, more = z.shape[0], more % (2 * shape[0])
        z.append(rng.normal(size=(more, *shape[1:])))
        told: list[int] = []
        grown = hs.content_hash(
            root,
            appended_to=before,
            progress=lambda phase, done, total, told=told: told.extend([done, total]),
        )
        assert grown == hs.content_hash(root)
        assert grown.arrays["z"] == array_hash(z[:])
        # At most one slab of old rows, and of the other array, is read again.
        slab = brick_shape(shape, 8)[0]
        row = 8 * int(np.prod(shape[1:]))
        assert told[-1] == told[-2]
        first = old - old % slab
        assert told[-1] == (z.shape[0] - first) * row + 8 * (10_000 % 2048)
        before = hs.ContentHash.from_json(grown.to_json())


def test_an_earlier_hash_of_another_array_is_not_used(tmp_path: Path) -> None:
    root = hs.create_group(tmp_path / "g.zarr")
    root.create_array("z", data=np.arange(9000.0))
    before = hs.content_hash(root)
    for data in (np.arange(9000), np.arange(3000.0), np.arange(9000.0).reshape(4500, 2)):
        root.create_array("z", data=data, overwrite=True)
        assert hs.content_hash(root, appended_to=before).arrays["z"] == array_hash(data)


def test_progress_that_raises_stops() -> None:
    z = hs.create_array(hs.MemoryStore(), shape=(4000, 1000), dtype="f8", chunks=(100, 1000))

    def fail(phase: str, done: int, total: int) -> None:
        assert (phase, total) == ("read", 32_000_000)
        if done:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        hs.content_hash(z, progress=fail)


def test_damaged_chunks_are_errors(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "z.zarr", data=np.arange(100.0), chunks=50)
    (tmp_path / "z.zarr" / "c" / "1").write_bytes(b"damaged")
    with pytest.raises(hs.HyperslabError, match="chunk"):
        hs.content_hash(z)


def test_wrong_arguments(tmp_path: Path) -> None:
    z = hs.create_array(hs.MemoryStore(), data=[1, 2])
    with pytest.raises(TypeError, match="appended_to: expected a hash"):
        hs.content_hash(z, appended_to="abc")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        hs.content_hash(tmp_path / "none")
    found = hs.content_hash(z)
    other = hs.ContentHash.from_json(found.to_json().replace('"version": 1', '"version": 2'))
    with pytest.raises(ValueError, match="version 2"):
        hs.content_hash(z, appended_to=other)
    assert str(found) == found.hash
