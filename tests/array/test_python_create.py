"""Opening and creating from Python: modes, stores, arguments, codecs, groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest

REF = np.arange(48, dtype="<i4").reshape(6, 8)


@pytest.fixture
def z() -> hs.Array:
    new = hs.create_array(hs.MemoryStore(), shape=(6, 8), chunks=(2, 3), dtype="<i4")
    new[...] = REF
    return new


# ---- opening and creating


def test_modes(tmp_path: Path) -> None:
    there, missing = tmp_path / "there", tmp_path / "missing"
    hs.create_array(there, shape=(3,), dtype="i4")
    for mode in ("r", "r+", "a"):
        assert hs.open(there, mode=mode).shape == (3,)
    for mode in ("r", "r+", None):
        for opened in (hs.open, hs.open_array, hs.open_group):
            with pytest.raises(FileNotFoundError):
                opened(missing, mode=mode)
    with pytest.raises(hs.errors.ArrayNotFoundError):
        hs.open_array(missing)
    assert not missing.exists()
    with pytest.raises(FileExistsError):
        hs.open(there, mode="w-")
    with pytest.raises(ValueError, match="Invalid mode"):
        hs.open(there, mode="x")
    with pytest.raises(hs.errors.ContainsArrayError):
        hs.open_group(there)
    assert isinstance(hs.open(there, mode="w"), hs.Group)
    assert isinstance(hs.open(missing, mode="a"), hs.Group)
    with pytest.raises(hs.errors.NodeTypeValidationError):
        hs.open_array(missing, mode="r")
    z = hs.open(missing, mode="w", shape=(4,), dtype="u1", chunks=2)
    assert z.chunks == (2,) and hs.open(missing, mode="a", shape=(9,)).shape == (4,)
    assert hs.open_array(tmp_path / "new", mode="w-", shape=3, dtype="f4").shape == (3,)


def test_mistyped_keywords_are_not_ignored(z: hs.Array) -> None:
    for opened in (hs.open, hs.open_array, hs.open_group):
        with pytest.raises(TypeError, match="mod"):
            opened(z.store, mod="r")


def test_what_a_store_can_be(tmp_path: Path) -> None:
    root = tmp_path / "a b"
    hs.create_array(root, shape=(3,), dtype="i4")[:] = 7
    places = [
        str(root),
        root,
        f"file://{tmp_path}/a%20b",
        f"file://localhost{tmp_path}/a%20b",
        hs.LocalStore(root),
    ]
    for place in places:
        assert hs.open_array(place, mode="r")[0] == 7
    assert hs.open_array(tmp_path, path="/a b/", mode="r")[0] == 7
    with pytest.raises(NotImplementedError, match="ftp"):
        hs.open("ftp://host/a.zarr")
    for place in (3, [], b"a"):
        with pytest.raises(TypeError):
            hs.open(place)
    with pytest.raises(TypeError, match="storage_options"):
        hs.open(root, storage_options={})
    assert hs.open().store.url.startswith("memory://")


def test_stores_of_zarr_python(tmp_path: Path) -> None:
    storage = pytest.importorskip("zarr.storage")
    hs.create_array(tmp_path, name="a/b", shape=(3,), dtype="i4")
    store = storage.LocalStore(tmp_path)
    assert hs.open(store, path="a/b").shape == (3,)
    assert hs.open(storage.StorePath(store, "a"), path="b").shape == (3,)
    with pytest.raises(hs.errors.NodeNotFoundError):
        hs.open(storage.MemoryStore())


def test_a_file_in_the_place_of_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError) as caught:
        hs.open(tmp_path / "file")
    assert isinstance(caught.value, hs.errors.UnknownFormatError)


def test_existing_nodes_are_not_replaced_unasked() -> None:
    store = hs.MemoryStore()
    hs.create_array(store, name="a", shape=(3,), dtype="i4")[:] = 1
    for create in (hs.create_array, hs.create_group):
        arguments = {"name": "a", "shape": 2, "dtype": "u1"} if create is hs.create_array else {"path": "a"}
        with pytest.raises(hs.errors.ContainsArrayError):
            create(store, **arguments)
    assert hs.open_array(store, path="a")[:].tolist() == [1, 1, 1]
    assert hs.create_array(store, name="a", shape=2, dtype="u1", overwrite=True)[:].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ("auto", (10, 20)),
        (5, (5, 5)),
        ((5, -1), (5, 20)),
        (False, (10, 20)),
        ([3, 4], (3, 4)),
        (np.array([2, 2]), (2, 2)),
    ],
)
def test_chunks(chunks: Any, expected: tuple[int, ...]) -> None:
    assert hs.create_array(hs.MemoryStore(), shape=(10, 20), dtype="u1", chunks=chunks).chunks == expected


@pytest.mark.parametrize("chunks", [True, 0, (5,), (5, 0), (5, -2), (5, None), "x", (2.5, 1), [[5, 6], [20]]])
def test_chunks_that_cannot_be(chunks: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        hs.create_array(hs.MemoryStore(), shape=(10, 20), dtype="u1", chunks=chunks)


@pytest.mark.parametrize(
    ("dtype", "says"),
    [
        (object, "vlen_dtype"), ("U", "U10"), ("f16", "long double"), ("i4,O", "one size"),
        (("i4", (2,)), "more axes"), ([(("title", "a"), "i4")], "title"), ("i4,f16", "long double"),
        (hs.vlen_dtype("i4,f4"), "structures"), (hs.vlen_dtype(hs.vlen_dtype("i4")), "not supported"),
    ],
)  # fmt: skip
def test_element_types_that_are_missing(dtype: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says) as caught:
        hs.create_array(hs.MemoryStore(), shape=(3,), dtype=dtype)
    assert isinstance(caught.value, (hs.errors.DataTypeError, NotImplementedError))


@pytest.mark.parametrize(
    "arguments", [{}, {"shape": 3}, {"dtype": "i4"}, {"data": [1], "shape": 1}, {"data": [1], "dtype": "i4"}]
)
def test_shape_and_type_are_given_once(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        hs.create_array(hs.MemoryStore(), **arguments)


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("i4", -3), ("f4", np.nan), ("f8", -0.0), ("c8", 1 + 2j), ("?", True), ("S3", b"ab"), ("U3", "äb"),
        ("V2", b"\1\2"),
        ("M8[ns]", "NaT"), ("M8[D]", "2020-02-29"), ("m8[s]", 5), (">f8", 1e300),
    ],
)  # fmt: skip
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_fill_values(dtype: str, fill: Any, zarr_format: Any) -> None:
    store = hs.MemoryStore()
    hs.create_array(store, shape=(2,), dtype=dtype, fill_value=fill, zarr_format=zarr_format)
    z = hs.open_array(store)
    expected = np.array(fill, dtype)
    assert np.array(z.fill_value, dtype).tobytes() == expected.tobytes()
    assert z[:].astype(dtype).tobytes() == expected.tobytes() * 2


def test_fill_values_that_cannot_be() -> None:
    for dtype, fill in [("i4", "x"), ("i4", np.nan), ("f4", [1, 2]), ("u1", 300), ("M8[s]", "yesterday?")]:
        with pytest.raises((ValueError, OverflowError)):
            hs.create_array(hs.MemoryStore(), shape=(3,), dtype=dtype, fill_value=fill)


def test_no_fill_value_in_v2() -> None:
    z = hs.create_array(hs.MemoryStore(), shape=(3,), dtype="i4", fill_value=None, zarr_format=2)
    assert z.fill_value is None and z.metadata.fill_value is None and z[:].tolist() == [0, 0, 0]
    assert hs.create_array(hs.MemoryStore(), shape=(3,), dtype="i4", zarr_format=2).fill_value == 0
    assert hs.create_array(hs.MemoryStore(), shape=(3,), dtype="i4", fill_value=None).fill_value == 0


def test_what_is_missing_says_so() -> None:
    with pytest.raises(NotImplementedError, match="zarr_format=2"):
        hs.create_array(hs.MemoryStore(), shape=(3,), dtype=hs.vlen_dtype("i4"))
    with pytest.raises(hs.errors.UnknownCodecError, match="no-such-codec"):
        hs.create_array(hs.MemoryStore(), shape=(3,), dtype="i4", compressors={"id": "no-such-codec"})
    with pytest.raises(hs.errors.UnknownCodecError, match="pickle"):
        hs.create_array(hs.MemoryStore(), shape=(3,), dtype="i4", compressors={"id": "pickle"})
    with pytest.raises(ValueError, match="serializer"):
        hs.create_array(hs.MemoryStore(), shape=(3,), dtype="i4", serializer=hs.codecs.Bytes(), zarr_format=2)


def test_data_from_another_array(z: hs.Array) -> None:
    copied = hs.create_array(hs.MemoryStore(), data=z, chunks=(3, 8), zarr_format=2)
    assert np.array_equal(copied[:], REF) and copied.chunks == (3, 8)
    assert hs.array(z).chunks == (2, 3)
    empty = hs.create_array(hs.MemoryStore(), data=REF, write_data=False)
    assert empty[:].max() == 0
    assert hs.create_array(hs.MemoryStore(), data=3)[()] == 3


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    ("encoding", "key"),
    [(None, None), (("v2", "/"), "1/2"), ({"name": "v2", "separator": "."}, "1.2"), ("v2", "1.2"),
     ({"name": "default", "configuration": {"separator": "."}}, "c.1.2"), (("default", "/"), "c/1/2")],
)  # fmt: skip
def test_chunk_keys(zarr_format: Any, encoding: Any, key: str | None) -> None:
    if zarr_format == 2 and key and key.startswith("c"):
        with pytest.raises(hs.errors.InvalidArgumentError, match="expected 'v2'"):
            hs.zeros(3, chunk_key_encoding=encoding, zarr_format=2)
        return
    z = hs.create_array(
        hs.MemoryStore(),
        shape=(2, 3),
        chunks=(1, 1),
        dtype="u1",
        chunk_key_encoding=encoding,
        zarr_format=zarr_format,
    )
    z[1, 2] = 1
    wanted = key or ("1.2" if zarr_format == 2 else "c/1/2")
    if zarr_format == 2:
        wanted = wanted.removeprefix("c").lstrip("/.")
    assert wanted in z.store.list()


def test_conveniences(tmp_path: Path) -> None:
    assert hs.ones((2,), dtype="i2")[:].tolist() == [1, 1]
    assert hs.full((2,), 7, dtype="i2")[:].tolist() == [7, 7]
    assert hs.empty(3).dtype == np.float64
    z = hs.create(
        (4,), dtype="i4", compressor={"id": "zlib", "level": 1}, zarr_format=2, dimension_separator="/"
    )
    assert z.compressors == (hs.codecs.Zlib(1),)
    z = hs.create(4, dtype="i4", codecs=[hs.codecs.Bytes("big"), hs.codecs.Gzip(1), hs.codecs.Crc32c()])
    assert z.serializer == hs.codecs.Bytes("big") and z.compressors == (hs.codecs.Gzip(1), hs.codecs.Crc32c())
    hs.save(tmp_path / "one", REF)
    assert np.array_equal(hs.load(tmp_path / "one"), REF)
    hs.save(tmp_path / "two", REF, x=np.array([1, 2]))
    assert sorted(hs.load(tmp_path / "two")) == ["arr_0", "x"]
    assert isinstance(hs.group(tmp_path / "two"), hs.Group)


# ---- codecs of other packages


def test_codecs_of_numcodecs_and_zarr_python() -> None:
    numcodecs, codecs = pytest.importorskip("numcodecs"), pytest.importorskip("zarr.codecs")
    ours = hs.codecs
    for given, expected in [
        (numcodecs.Blosc("lz4", 3, numcodecs.Blosc.BITSHUFFLE), ours.Blosc("lz4", 3, "bitshuffle")),
        (numcodecs.Zstd(3), ours.Zstd(3)),
        (numcodecs.GZip(2), ours.Gzip(2)),
        (numcodecs.Zlib(2), ours.Zlib(2)),
        (numcodecs.LZ4(), ours.LZ4()),
        (codecs.ZstdCodec(level=3), ours.Zstd(3)),
        (codecs.GzipCodec(level=2), ours.Gzip(2)),
        (codecs.BloscCodec(cname="zlib", clevel=1, shuffle="shuffle"), ours.Blosc("zlib", 1, "shuffle")),
        (codecs.BloscCodec(), ours.Blosc()),
        ({"id": "zstd", "level": 1}, ours.Zstd(1)),
        ({"name": "zstd", "configuration": {"level": 1}}, ours.Zstd(1)),
        ({"name": "blosc"}, ours.Blosc()),
    ]:
        for zarr_format in (2, 3):
            z = hs.create_array(hs.MemoryStore(), data=REF, compressors=given, zarr_format=zarr_format)
            (found,) = z.compressors
            if isinstance(expected, ours.Blosc):
                assert isinstance(found, ours.Blosc)
                assert (found.cname, found.clevel) == (expected.cname, expected.clevel)
                assert expected.shuffle is None or found.shuffle == expected.shuffle
            else:
                assert found == expected
            assert np.array_equal(z[:], REF)


def test_codecs_that_are_none() -> None:
    for given in ("zstd", 3, [3], object()):
        with pytest.raises((ValueError, TypeError)):
            hs.create_array(hs.MemoryStore(), shape=3, dtype="i4", compressors=given)
    with pytest.raises(ValueError, match="shuffle"):
        hs.codecs.Blosc(shuffle="sideways")
    with pytest.raises(ValueError, match="v2"):
        hs.codecs.Transpose((0,)).to_dict(zarr_format=2)


def test_transpose() -> None:
    z = hs.create_array(hs.MemoryStore(), data=REF, filters=hs.codecs.Transpose((1, 0)), order=None)
    assert z.filters == (hs.codecs.Transpose((1, 0)),) and z.order == "F" and np.array_equal(z[:], REF)


# ---- groups


def test_group_is_a_mapping() -> None:
    g = hs.create_group(hs.MemoryStore())
    g["a"] = REF
    g.create_group("b").create_array("c", shape=(2,), dtype="f4")
    assert list(g) == ["a", "b"] == list(g.keys()) and len(g) == 2 and bool(hs.create_group(hs.MemoryStore()))
    assert [type(node) for node in g.values()] == [hs.Array, hs.Group]
    assert dict(g.items())["a"] == g["a"]
    assert "b/c" in g and "x" not in g and 3 not in g and ".." not in g
    assert g.get("x") is None and g.get("x", 5) == 5
    for missing in ("x", "b/x", "a/x"):
        with pytest.raises(KeyError):
            g[missing]
    assert [path for path, _ in g.members(max_depth=None)] == ["a", "b", "b/c"]
    assert (g.nmembers(), g.nmembers(None), g.nmembers(1)) == (2, 3, 3)
    assert list(g.array_keys()) == ["a"] and [name for name, _ in g.groups()] == ["b"]
    assert [node.name for node in g.array_values()] == ["/a"] and [
        node.path for node in g.group_values()
    ] == ["b"]
    assert repr(g.tree()) == "/\n├── a (6, 8) int32\n└── b\n    └── c (2,) float32\n"
    assert repr(g.tree(level=0)) == "/\n├── a (6, 8) int32\n└── b\n"
    assert "Truncated" in repr(g.tree(max_nodes=1))
    del g["b"]
    assert list(g) == ["a"]
    with pytest.raises(KeyError):
        del g["b"]
    assert "No. arrays   : 1" in repr(g.info_complete())


def test_require() -> None:
    g = hs.create_group(hs.MemoryStore())
    z = g.require_array("a", shape=(3,), dtype="i4")
    assert g.require_array("a", shape=3, dtype="i8") == z
    for bad in ({"shape": 4}, {"shape": 3, "dtype": "i2"}, {"shape": 3, "dtype": "i8", "exact": True}):
        with pytest.raises(TypeError):
            g.require_array("a", **bad)
    with pytest.raises(TypeError):
        g.require_group("a")
    assert g.require_group("b") == g.require_group("b")
    with pytest.raises(TypeError):
        g.require_array("b", shape=3)
    assert g.require_group("b", overwrite=True, attributes={"n": 1}).attrs["n"] == 1
    assert [node.name for node in g.require_groups("x", "y/z")] == ["/x", "/y/z"]
    # Argument names are checked even if the array exists.
    with pytest.raises(TypeError, match="unexpected keyword argument 'shap'"):
        g.require_array("a", shape=3, shap=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'attribute'"):
        g.require_group("b", attribute={})
    assert g.require_array("plain", shape=3, compressor=None).compressors == ()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidated(zarr_format: Any) -> None:
    store = hs.MemoryStore()
    g = hs.create_group(store, zarr_format=zarr_format)
    g.create_array("a/b", shape=(3,), dtype="i4")
    with pytest.raises(hs.errors.GroupNotFoundError):
        hs.open_consolidated(store)
    assert [path for path, _ in hs.consolidate_metadata(store).members(None)] == ["a", "a/b"]
    assert hs.open_consolidated(store)["a/b"].shape == (3,)
    assert hs.open_group(store, use_consolidated=False).metadata.consolidated_metadata is None
    consolidated = hs.open_group(store).metadata.consolidated_metadata
    assert consolidated is not None and sorted(consolidated.flattened_metadata) == ["a", "a/b"]


def test_bad_names() -> None:
    g = hs.create_group(hs.MemoryStore())
    for name in ("", "/", "..", "a/../b", "a\\..\\b", "zarr.json"):
        with pytest.raises(ValueError):
            g.create_array(name, shape=(1,), dtype="u1")
