"""No argument, option or location is accepted and ignored. zarr-python judges what it has too."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr

# The newest zarr-python is the reference. The oldest Python runs an older one, which differs.
needs_newest_zarr = pytest.mark.skipif(
    tuple(int(part) for part in zarr.__version__.split(".")[:2]) < (3, 4),
    reason="zarr-python is older than 3.4",
)
LIBRARIES = pytest.mark.parametrize("library", [hs, zarr])
REF = np.arange(12, dtype="i4").reshape(3, 4)


def memory(library: Any) -> Any:
    return hs.MemoryStore() if library is hs else zarr.storage.MemoryStore()


# ---- nothing is created unasked


@pytest.mark.parametrize("opened", [hs.open, hs.open_group, hs.open_array])
@pytest.mark.parametrize("name", ["typo.h5", "typo.zarr", "typo.nc/group", "typo/a/b"])
def test_opening_creates_nothing(tmp_path: Path, opened: Any, name: str) -> None:
    for path in (tmp_path / name, str(tmp_path / name), (tmp_path / name).as_uri()):
        with pytest.raises(FileNotFoundError, match="pass mode='a'"):
            opened(path)
        with pytest.raises(FileNotFoundError):
            opened(path, mode="r+")
    with pytest.raises(FileNotFoundError):
        opened(hs.MemoryStore(), path=name)
    assert list(tmp_path.iterdir()) == []


def test_opening_what_is_there_is_for_writing(tmp_path: Path) -> None:
    hs.save(tmp_path / "a", REF)
    hs.create_group(tmp_path / "g")
    for opened in (hs.open, hs.open_array):
        z = opened(tmp_path / "a")
        z[0, 0] += 1
        assert not z.read_only
    assert hs.load(tmp_path / "a")[0, 0] == 2
    hs.open_group(tmp_path / "g").attrs["x"] = 1
    hs.open(tmp_path / "g").attrs["y"] = 2
    assert dict(zarr.open_group(tmp_path / "g", mode="r").attrs) == {"x": 1, "y": 2}
    assert hs.open(hs.LocalStore(tmp_path / "a", read_only=True)).read_only
    # Without a name, none can be mistyped.
    assert isinstance(hs.open(), hs.Group) and isinstance(hs.open_group(), hs.Group)


@pytest.mark.parametrize("ending", ["h5", "hdf5", "nc", "nc4", "cdf", "he5", "H5", "Nc"])
def test_names_of_files_become_no_stores(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"typo.{ending}"
    attempts: list[Any] = [
        lambda p: hs.open(p, mode="a"),
        lambda p: hs.open(p, mode="w"),
        lambda p: hs.open_group(p, mode="w-"),
        lambda p: hs.open_array(p, mode="w", shape=(2,)),
        lambda p: hs.create_array(p, shape=(2,), dtype="i4"),
        lambda p: hs.create_array(p / "inside", shape=(2,), dtype="i4"),
        lambda p: hs.create_group(p),
        lambda p: hs.group(p),
        lambda p: hs.zeros((2,), store=p),
        lambda p: hs.array([1], store=p),
        lambda p: hs.save(p, REF),
        lambda p: hs.save(p, a=REF),
        lambda p: hs.from_array(p, data=REF),
    ]
    # A copy may make a file of HDF5 or NetCDF-4. Names of NetCDF classic files need a format.
    if ending == "cdf":
        attempts.append(lambda p: hs.copy(hs.array([1]), p))
    for attempt in attempts:
        with pytest.raises(ValueError, match="no Zarr store is created"):
            attempt(path)
    assert list(tmp_path.iterdir()) == []
    # Names inside a store are free, and a store object may have any name.
    hs.create_group(tmp_path / "g").create_group(f"run.{ending}")
    hs.create_array(hs.LocalStore(path), shape=(2,), dtype="i4")
    assert hs.open(path).shape == (2,)


def test_the_command_line_makes_no_such_stores(tmp_path: Path) -> None:
    hs.save(tmp_path / "a", REF)
    for dest in ("b.cdf", "simplecache::memory://q", "foo://x"):
        done = subprocess.run(
            [sys.executable, "-m", "hyperslab", "copy", "a", dest],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(Path(hs.__file__).parents[1])},
        )
        assert done.returncode != 0 and dest in done.stderr, done
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


# ---- locations

URLS = [
    "simplecache::memory://q",
    "zip::file://a.zip",
    "zip::a.zip",
    "foo://x",
    "ftp://host/a",
    "ftp:/host/a",
    "my_scheme://x",
]


@pytest.mark.parametrize("url", URLS)
def test_urls_that_are_not_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    attempts: list[Any] = [
        hs.open,
        lambda p: hs.open(p, mode="r"),
        lambda p: hs.open(p, mode="w"),
        lambda p: hs.open_array(p, mode="w", shape=(2,)),
        lambda p: hs.open_group(p, mode="w"),
        hs.open_consolidated,
        hs.consolidate_metadata,
        lambda p: hs.create_array(p, shape=(2,), dtype="i4"),
        hs.create_group,
        hs.group,
        lambda p: hs.zeros((2,), store=p),
        lambda p: hs.array([1], store=p),
        lambda p: hs.save(p, REF),
        lambda p: hs.save(p, a=REF),
        hs.load,
        lambda p: hs.copy(hs.array([1]), p),
        lambda p: hs.copy(p, hs.MemoryStore()),
        lambda p: hs.from_array(p, data=REF),
        lambda p: hs.LocalStore(p),
        lambda p: hs.FileStore(p),
    ]
    for attempt in attempts:
        with pytest.raises(
            ValueError,
            match=r"file:// URL|only file:// is understood|a zip archive is opened by its own location",
        ):
            attempt(url)
    assert list(tmp_path.iterdir()) == []


def test_paths_that_look_like_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hs.save("./zip::a", REF)
    hs.save(Path("b::c"), REF)
    hs.save("odd:name", REF)
    hs.save(f"{tmp_path}/x://y", REF)
    hs.save(f"file:{tmp_path}/plain", REF)
    hs.save(hs.LocalStore(f"file://{tmp_path}/with%20space"), REF)
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == ["b::c", "odd:name", "plain", "with space", "x:", "zip::a"]
    for path in ("./zip::a", Path("zip::a"), "./b::c", Path("odd:name"), f"file://{tmp_path}/plain"):
        assert np.array_equal(hs.open(path)[:], REF)
    with pytest.raises(ValueError, match="ftp://"):
        hs.open(Path("ftp://host/a"), mode="w")


# ---- unknown and contradictory arguments


@needs_newest_zarr
@LIBRARIES
def test_what_zarr_python_refuses_too(tmp_path: Path, library: Any) -> None:
    refused: list[Any] = [
        lambda: library.zeros((2,), fill_value=5),
        lambda: library.ones((2,), fill_value=5),
        lambda: library.group(memory(library)).zeros(name="a", shape=(2,), fill_value=5),
        lambda: library.group(memory(library)).ones(name="a", shape=(2,), fill_value=5),
        lambda: library.create((4,), chunks=(2,), chunk_shape=(1,)),
        lambda: library.create((4,), compressor=None, codecs=[{"name": "bytes"}]),
        lambda: library.create((4,), unknown=1),
        lambda: library.create_array(memory(library), shape=(2,), dtype="i4", unknown=1),
        lambda: library.create_array(memory(library), shape=(2,), dtype="i4", config={"unknown": 1}),
        lambda: library.create_array(memory(library), shape=(2,), dtype="i4", config={"order": "A"}),
        lambda: library.create_array(memory(library), shape=(12,), data=REF),
        lambda: library.create_array(
            memory(library), shape=2, dtype="i4", zarr_format=2, chunk_key_encoding=("default", "/")
        ),
        lambda: library.save(tmp_path / "a", REF, mode="w"),
        lambda: library.save(tmp_path / "a", REF, overwrite=True),
        lambda: library.save(tmp_path / "a", REF, REF, chunks=(2, 2)),
        lambda: library.save(tmp_path / "a", REF, None),
        lambda: library.save_array(tmp_path / "a", None),
        lambda: library.save_array(tmp_path / "a", REF, unknown=1),
        lambda: library.open(memory(library), mode="a", config={"order": "F"}),
        lambda: library.config.get("unknown"),
    ]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "mine").write_text("kept")
    for attempt in refused:
        with pytest.raises((TypeError, ValueError, KeyError)):
            attempt()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["mine"]
    group = library.group(memory(library))
    for value in (group, None, {"a": 1}):
        with pytest.raises(TypeError):
            group["n"] = value
    assert list(group) == []


def test_what_zarr_python_accepts_and_ignores(tmp_path: Path) -> None:
    hs.save(tmp_path / "a", REF)
    hs.create_group(tmp_path / "g", attributes={"a": 1})
    group = hs.open(tmp_path / "g")
    group.create_group("sub")
    group.create_array("x", shape=(2,), dtype="f8")
    refused: list[Any] = [
        lambda: hs.open(tmp_path / "a", shape=(5,)),
        lambda: hs.open(tmp_path / "a", mode="r", attributes={"a": 2}),
        lambda: hs.open_array(tmp_path / "a", mode="r+", chunks=(1, 1)),
        lambda: hs.open_array(tmp_path / "a", use_consolidated=True),
        lambda: hs.open(tmp_path / "g", config={"order": "F"}),
        lambda: hs.open_group(tmp_path / "g", mode="r", attributes={"a": 2}),
        lambda: hs.open_group(tmp_path / "g", mode="w", use_consolidated=True),
        lambda: hs.open(tmp_path / "g", mode="r", use_consolidated=True),
        lambda: hs.open_consolidated(tmp_path / "g", use_consolidated=False),
        lambda: hs.open(tmp_path / "a", cache="1 MiB", config={"cache": "2 MiB"}),
        lambda: hs.create((4,), compressor=None, compressors=None),
        lambda: hs.create((4,), dimension_separator=".", chunk_key_encoding=("v2", "/")),
        lambda: hs.create((4,), write_empty_chunks=True, config={"write_empty_chunks": False}),
        lambda: hs.create((4,), codecs=[{"name": "bytes"}], filters=[]),
        lambda: hs.create((4,), mode="r"),
        lambda: hs.create((4,), mode="w-", overwrite=True),
        lambda: hs.array([1], shape=(1,)),
        lambda: hs.array([1], data=[2]),
        lambda: group.require_group("sub", unknown=1),
        lambda: group.require_array("x", shape=(2,), unknown=1),
        lambda: group.tree(expand=True),
        lambda: hs.array([1]).with_config({"write_empty_chunks": "no"}),
        lambda: hs.array([1]).with_config({"read_missing_chunks": 1}),
        lambda: hs.array([1]).with_config(5),  # type: ignore[arg-type]
    ]
    for number, attempt in enumerate(refused):
        with pytest.raises((TypeError, ValueError)):
            pytest.fail(f"number {number} was accepted: {attempt()!r}")
    assert dict(hs.open(tmp_path / "g").attrs) == {"a": 1}
    assert np.array_equal(hs.load(tmp_path / "a"), REF)


def test_every_function_names_its_arguments() -> None:
    """Pass-through arguments reach a function that names them all: mistyped ones are refused."""
    through = {"array", "copy_all", "empty", "empty_like", "full", "full_like", "map_chunks", "ones",
               "ones_like", "open", "open_array", "open_async", "open_consolidated", "open_like", "pyramid",
               "save", "save_array", "save_group", "zeros", "zeros_like"}  # fmt: skip
    functions = {name: getattr(hs, name) for name in hs.__all__ if inspect.isfunction(getattr(hs, name))}
    takes_any = {
        name
        for name, function in functions.items()
        if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())
    }
    assert takes_any == through


@LIBRARIES
def test_modes_of_creating(tmp_path: Path, library: Any) -> None:
    for name, function in (("create", library.create), ("array", library.array)):
        first = (3,) if name == "create" else [1, 2, 3]
        function(first, store=tmp_path / name, mode="w")
        function(first, store=tmp_path / name, mode="w")
        with pytest.raises((FileExistsError, ValueError)):
            function(first, store=tmp_path / name, mode="a")
        with pytest.raises((FileExistsError, ValueError)):
            function(first, store=tmp_path / name, mode="w-")
    library.save_array(tmp_path / "s", REF, mode="w")
    library.save_array(tmp_path / "s", REF + 1, mode="w")
    assert np.array_equal(library.load(tmp_path / "s"), REF + 1)


# ---- fill values

DTYPES = ["b1", "i1", "u8", "f2", "f8", "c8", "c16", "m8[s]", "M8[s]", "M8[ns]", "m8[10us]", "S3", "U3", "V3"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_default_fill_values_are_zarr_pythons(dtype: str, zarr_format: Any) -> None:
    def made(library: Any, function: str) -> Any:
        arguments = {"dtype": dtype, "zarr_format": zarr_format}
        if function == "create_array":
            return library.create_array(memory(library), shape=(1,), **arguments)
        if function == "group.zeros":
            return library.group(memory(library), zarr_format=zarr_format).zeros(
                name="a", shape=(1,), dtype=dtype
            )
        if function == "full":
            return library.full((1,), 0, **arguments)
        return getattr(library, function)((1,), **arguments)

    for function in ("create_array", "create", "empty", "zeros", "ones", "full", "group.zeros"):
        if dtype in ("S3", "U3", "V3") and function in ("zeros", "group.zeros", "full", "ones"):
            continue  # zarr-python: the text '0', and an error
        ours, theirs = made(hs, function), made(zarr, function)
        assert ours.fill_value.tobytes() == theirs.fill_value.tobytes(), function
        assert ours[...].tobytes() == theirs[...].tobytes(), function
    assert hs.zeros((1,), dtype=dtype, zarr_format=zarr_format)[...].tobytes() == bytes(
        np.dtype(dtype).itemsize
    )


# ---- settings of one array


@needs_newest_zarr
@pytest.mark.parametrize("dtype", ["i4", "string"])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("shape", [(4, 5, 6), (40, 50, 60)])
def test_order_of_results(tmp_path: Path, zarr_format: Any, shape: tuple[int, ...], dtype: str) -> None:
    if dtype == "string" and shape[0] > 4:
        shape = (4, 5, 6)
    values = np.arange(np.prod(shape)).reshape(shape).astype("i4" if dtype == "i4" else "T")
    z = hs.create_array(tmp_path, shape=shape, dtype=dtype, chunks=tuple(n // 2 for n in shape),
                        zarr_format=zarr_format, config={"order": "F"})  # fmt: skip
    z[...] = values
    opened: list[Any] = [z, hs.open(tmp_path, config={"order": "F"}), hs.open_array(tmp_path).with_config(
        {"order": "F"}), hs.open_array(tmp_path, mode="r", config={"order": "F"})]  # fmt: skip
    if zarr_format == 3:
        assert all(array.order == "F" for array in opened)
        theirs = zarr.open_array(tmp_path, config={"order": "F"})  # type: ignore[arg-type]
    for array in opened:
        for selection in (..., 1, (slice(None), 0), (slice(1, 3), slice(None, None, 2))):
            found = array[selection]
            np.testing.assert_array_equal(found, values[selection])
            assert found.flags.f_contiguous and not found.flags.c_contiguous
            if zarr_format == 3:
                assert found.strides == theirs[selection].strides
        assert array.oindex[[0, 2], :, [1, 3]].flags.f_contiguous
        assert array.read(1).flags.f_contiguous
        assert array.with_config({"order": "C"})[...].flags.c_contiguous
        assert array.with_config({"order": None})[...].flags.c_contiguous
    out = np.zeros_like(values)
    np.testing.assert_array_equal(z.read(out=out), values)


@LIBRARIES
def test_order_of_all(tmp_path: Path, library: Any) -> None:
    before = library.config.get("array.order")
    with library.config.set({"array.order": "F"}):
        assert library.config.get("array.order") == "F"
        z = library.create_array(memory(library), shape=(3, 4), dtype="i4")
        assert z[...].flags.f_contiguous and z.order == "F"
        z = library.create_array(memory(library), shape=(3, 4), dtype="i4", zarr_format=2)
        assert z[...].flags.f_contiguous and z.order == z.metadata.order == "F"
    assert library.config.get("array.order") == before == "C"


@needs_newest_zarr
@LIBRARIES
@pytest.mark.parametrize("shards", [None, (4, 4)])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_missing_chunks(tmp_path: Path, library: Any, zarr_format: Any, shards: Any) -> None:
    if zarr_format == 2 and shards:
        pytest.skip("Zarr v2 has no shards")
    z = library.create_array(tmp_path, shape=(8, 8), chunks=(2, 2), shards=shards, dtype="i4",
                             zarr_format=zarr_format, config={"read_missing_chunks": False})  # fmt: skip
    error = hs.errors.ChunkNotFoundError if library is hs else zarr.errors.ChunkNotFoundError
    key = "0.0" if zarr_format == 2 else "c/0/0"
    for read in (lambda: z[...], lambda: z[0, 0], lambda: z.oindex[[0, 7], [0, 7]], lambda: z.vindex[0, 0]):
        with pytest.raises(error, match=key):
            read()
    z[0, 0] = 1
    assert z[0, 0] == 1 and z[:2, :2].sum() == 1
    if shards:
        # An inner chunk absent from a stored shard is not missing.
        assert z[:4, :4].sum() == 1
    with pytest.raises(error):
        z[0]
    assert z.with_config({"read_missing_chunks": True})[0].sum() == 1
    opened = library.open_array(tmp_path, mode="r", config={"read_missing_chunks": False})
    with pytest.raises(error):
        opened[...]
    assert library.open_array(tmp_path, mode="r")[...].sum() == 1
    z[...] = 5
    assert z[...].sum() == 64 * 5


def test_missing_chunks_of_all(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(4, 4), chunks=(2, 2), dtype="i4")
    text = hs.create_array(tmp_path / "t", shape=(4,), chunks=(2,), dtype="string")
    text[0] = "a"
    with hs.config.set({"array.read_missing_chunks": False}):
        # An array keeps the settings from when it was opened.
        assert z[:].sum() == 0
        z, text = hs.open_array(tmp_path / "a"), hs.open_array(tmp_path / "t")
        reads: list[Any] = [lambda: z[:], lambda: z.read(), lambda: z.read(out=np.empty((4, 4), "i4")),
                            lambda: next(iter(z.stream())), lambda: np.asarray(z), lambda: text[:],
                            lambda: text.read_ragged(), lambda: text[3], lambda: list(z)]  # fmt: skip
        for read in reads:
            with pytest.raises(hs.errors.ChunkNotFoundError, match="it is not stored"):
                read()
        assert text[0] == "a" and text[:2].tolist() == ["a", ""]
        # Parts of absent chunks can be written.
        z[1, 1] = 1
        assert z[0, 0] == 0
        (tmp_path / "a" / "c" / "0" / "0").unlink()
        with pytest.raises(hs.errors.ChunkNotFoundError, match="c/0/0"):
            z[0, 0]
    assert hs.open_array(tmp_path / "a")[:].sum() == 0


def test_settings_survive_pickling_and_join(tmp_path: Path) -> None:
    import pickle

    z = hs.create_array(tmp_path, data=np.ones((3, 4)), config={"order": "F", "cache": "1 MiB"})
    again = pickle.loads(pickle.dumps(z))
    assert again[...].flags.f_contiguous and again.cache is not None
    both = z.with_config({"write_empty_chunks": True}).with_config({"read_missing_chunks": False})
    assert both[...].flags.f_contiguous and both.cache is z.cache
    theirs = zarr.create_array({}, shape=(2, 2), dtype="i4", config={"order": "F"})  # type: ignore[arg-type]
    assert hs.create_array(hs.MemoryStore(), shape=(2, 2), dtype="i4", config=theirs.config)[
        :
    ].flags.f_contiguous


@needs_newest_zarr
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"ZARR_DEFAULT_ZARR_FORMAT": "2"}, (2, "C", False, None, True)),
        ({"ZARR_DEFAULT_ZARR_FORMAT": "2", "HYPERSLAB_ZARR_FORMAT": "3"}, (3, "C", False, None, True)),
        ({"ZARR_ARRAY__ORDER": "F", "ZARR_ARRAY__WRITE_EMPTY_CHUNKS": "True"}, (3, "F", True, None, True)),
        ({"ZARR_THREADING__MAX_WORKERS": "2"}, (3, "C", False, 2, True)),
        ({"ZARR_THREADING__MAX_WORKERS": "None", "ZARR_ARRAY__READ_MISSING_CHUNKS": "False"},
         (3, "C", False, None, False)),
    ],
)  # fmt: skip
def test_variables_of_zarr_python(variables: dict[str, str], expected: tuple[Any, ...]) -> None:
    names = ("default_zarr_format", "array.order", "array.write_empty_chunks", "threading.max_workers",
             "array.read_missing_chunks")  # fmt: skip
    for library in ("hyperslab", "zarr"):
        if library == "zarr" and "HYPERSLAB_ZARR_FORMAT" in variables:
            continue
        code = f"import {library} as l; print(tuple(l.config.get(name) for name in {names!r}))"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("HYPERSLAB_", "ZARR_"))}
        env = {**clean, "PYTHONPATH": str(Path(hs.__file__).parents[1]), **variables}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
        )
        assert (done.stdout.strip(), done.stderr) == (str(expected), ""), library


# ---- Zarr arrays as data


def sources(library: Any, zarr_format: int) -> Any:
    arguments: dict[str, Any] = {"shape": (4, 6), "chunks": (2, 3), "dtype": "i2", "fill_value": 7,
                                 "attributes": {"a": {"b": [1]}}, "zarr_format": zarr_format}  # fmt: skip
    if zarr_format == 3:
        arguments |= {
            "shards": (4, 6),
            "dimension_names": ["x", None],
            "compressors": [{"name": "gzip", "configuration": {"level": 3}}, {"name": "crc32c"}],
            "filters": [{"name": "transpose", "configuration": {"order": [1, 0]}}],
            "chunk_key_encoding": {"name": "v2", "separator": "."},
        }
    else:
        import numcodecs

        arguments |= {"order": "F", "compressors": numcodecs.Zlib(2),
                      "chunk_key_encoding": {"name": "v2", "separator": "/"}}  # fmt: skip
    z = library.create_array(memory(library), **arguments)
    z[:2] = np.arange(12).reshape(2, 6)
    return z


def facts(array: Any) -> dict[str, Any]:
    names = ("shape", "chunks", "shards", "dtype", "fill_value", "order")
    found = {
        name: getattr(array, name) for name in names if name != "order" or array.metadata.zarr_format == 2
    }
    codecs = (*array.filters, *([array.serializer] if array.serializer else []), *array.compressors)
    found["codecs"] = [
        c if isinstance(c, dict) else c.get_config() if not hasattr(c, "to_dict") else c.to_dict()
        for c in codecs
    ]
    found["attributes"] = dict(array.attrs)
    return found


def plain(value: Any) -> Any:
    """Turns tuples into lists and drops empty configurations."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if plain(v) not in ({}, None)}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@needs_newest_zarr
@pytest.mark.parametrize("source", [hs, zarr])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("to", [2, 3, None])
@pytest.mark.parametrize("function", ["create_array", "array", "from_array", "group.create_array"])
def test_a_zarr_array_as_data(tmp_path: Path, source: Any, zarr_format: int, to: Any, function: str) -> None:
    def made(library: Any, data: Any) -> Any:
        place, more = tmp_path / library.__name__, {} if to is None else {"zarr_format": to}
        if function == "group.create_array":
            return library.group(place, zarr_format=to).create_array("a", data=data)
        if function == "array":
            return library.array(data, store=place, **more)
        return getattr(library, function)(place, data=data, **more)

    try:
        theirs = made(zarr, sources(zarr, zarr_format))
    except ValueError:
        with pytest.raises(ValueError, match="shards|dimension_names"):
            made(hs, sources(source, zarr_format))
        return
    ours = made(hs, sources(source, zarr_format))
    assert plain(facts(ours)) == plain(facts(zarr.open(ours.store.root / ours.path, mode="r")) | {
        "codecs": facts(ours)["codecs"]})  # fmt: skip
    found = facts(zarr.open(Path(str(ours.store.root)) / ours.path, mode="r"))
    if function in ("create_array", "group.create_array"):
        # Each library chooses its own chunks and codecs.
        for name in ("chunks", "shards", "codecs"):
            found[name] = facts(theirs)[name]
    assert plain(found) == plain(facts(theirs))
    assert np.array_equal(ours[...], theirs[...])
    assert np.array_equal(ours[...], sources(source, zarr_format)[...])


def test_what_is_given_wins_over_what_is_kept() -> None:
    z = sources(hs, 3)
    made = hs.array(
        z, compressor=None, chunks=(4, 6), attributes={}, fill_value=1, dimension_names=["p", "q"]
    )
    assert (made.compressors, made.chunks, dict(made.attrs), made.fill_value) == ((), (4, 6), {}, 1)
    assert made.dimension_names == ("p", "q") and made.shards == (4, 6)
    made = hs.array(z, codecs=[{"name": "bytes", "configuration": {"endian": "little"}}], shards=None)
    assert (made.filters, made.compressors, made.shards, made.chunks) == ((), (), None, (2, 3))
    made = hs.array(z, dimension_separator="/")
    assert made.metadata.to_dict()["chunk_key_encoding"]["configuration"] == {"separator": "/"}
    made = hs.from_array(hs.MemoryStore(), data=z, write_data=False)
    assert (made[...] == 7).all()
    assert (hs.array(z, write_data=False)[...] == 7).all()
    # Values nested in attributes are not shared.
    made.attrs.asdict()["a"]["b"].append(2)
    assert z.attrs["a"] == {"b": [1]}
