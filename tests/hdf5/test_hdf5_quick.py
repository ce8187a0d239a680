"""Quick ways to write plain values: the same files, results and errors as the general ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import hyperslab.h5 as h5
import numpy as np
import pytest
from frames import frames
from hyperslab.errors import ClosedError

_STRUCTURE = np.dtype([("a", "i4"), ("b", "f8")])


def _values() -> list[Any]:
    numbers: list[Any] = [0, -5, 2**63 - 1, -(2**63), 1.5, float("nan"), True, False]
    texts: list[Any] = ["a text", "é and €", "x" * 5000]
    arrays = [np.arange(6).reshape(2, 3).astype(kind) for kind in ("i1", ">i2", "u4", "f4", ">f8", "c8", "?")]
    # These take the general way.
    others: list[Any] = ["", 2**63, b"bytes", [1, 2], np.float32(2), np.zeros((2, 0)), (1.5, 2)]
    others += [np.arange(6).reshape(2, 3).T, np.ma.array([1, 2], mask=[0, 1]), np.zeros(2, _STRUCTURE)]
    enumeration = h5py.enum_dtype({"RED": 0, "BLUE": 1}, "i1")
    others += [np.zeros(2, enumeration), np.float16([1, 2]), np.array(["a", "b"], object)]
    return numbers + texts + arrays + others


def _same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
    assert np.shape(a) == np.shape(b)
    np.testing.assert_array_equal(a, b)


def test_attributes_are_those_of_h5py_and_of_the_general_way(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.h5" for name in ("quick", "general", "h5py")]
    with (
        hs.File(paths[0], "w") as quick,
        hs.File(paths[1], "w") as general,
        h5py.File(paths[2], "w") as other,
    ):
        for number, value in enumerate(_values()):
            for file in (quick, general, other):
                file.create_group(f"g{number}")
            quick[f"g{number}"].attrs["value"] = value
            general[f"g{number}"].attrs.create("value", value)
            other[f"g{number}"].attrs["value"] = value
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with h5py.File(paths[0]) as quick, h5py.File(paths[2]) as other:
        for name in other:
            _same(quick[name].attrs["value"], other[name].attrs["value"])
            types = [file[name].attrs.get_id("value").get_type() for file in (quick, other)]
            assert types[0] == types[1], name


def test_datasets_are_those_of_h5py_and_of_the_general_way(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.h5" for name in ("quick", "general", "h5py")]
    arrays = [value for value in _values() if isinstance(value, np.ndarray) and value.dtype.kind in "iufcb"]
    arrays += [np.array(5), np.arange(8192.0), np.arange(8193.0), np.zeros((1,) * 5)]
    with (
        hs.File(paths[0], "w") as quick,
        hs.File(paths[1], "w") as general,
        h5py.File(paths[2], "w") as other,
    ):
        for number, array in enumerate(arrays):
            quick.create_dataset(f"d{number}", data=array)
            general.create_dataset(f"d{number}", data=array, fill_time=None)
            other.create_dataset(f"d{number}", data=array)
            _same(quick[f"d{number}"][()], general[f"d{number}"][()])
        quick.create_group("g").create_dataset("d", data=arrays[0])
        general.create_group("g").create_dataset("d", data=arrays[0], fill_time=None)
        assert quick["g/d"].name == quick["g"].create_dataset("e", data=arrays[0]).name[:-1] + "d"
        general["g"].create_dataset("e", data=arrays[0], fill_time=None)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with h5py.File(paths[0]) as quick, h5py.File(paths[2]) as other:
        for name in other:
            assert quick[name].dtype == other[name].dtype and quick[name].chunks is None
            assert quick[name].maxshape == other[name].maxshape
            _same(quick[name][()], other[name][()])


def test_a_new_dataset_is_used_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with hs.File(path, "w") as file:
        a = file.create_dataset("a", data=np.arange(10))
        a.attrs["n"] = 1
        a[2:4] = 7
        for number in range(100):
            a[...] = np.arange(10) + number
        assert a.shape == (10,) and a.name == "/a" and a == file["a"]
        file.move("a", "b")
        a.attrs["late"] = "text"
        assert a[1] == 100 and dict(file["b"].attrs) == {"n": 1, "late": "text"}
        file.flush()
        a[0] = -1
    with h5py.File(path) as file:
        assert file["b"][:2].tolist() == [-1, 100]
    # An element that is overwritten before a flush stays in its place.
    # (4 KiB are the collection of the text.)
    assert path.stat().st_size < 6500


@pytest.mark.parametrize("mode", ["closed", "read"])
def test_files_that_are_not_changed_refuse(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "a.h5"
    with hs.File(path, "w") as file:
        a = file.create_dataset("a", data=np.arange(3))
    if mode == "closed":
        for work in (lambda: file.create_dataset("b", data=np.arange(3)), lambda: a.attrs.update(n=1)):
            with pytest.raises(ClosedError):
                work()
        return
    with hs.File(path) as file:
        for work in (
            lambda: file.create_dataset("b", data=np.arange(3)),
            lambda: file["a"].attrs.update(n=1),
            lambda: file.attrs.update(n="text"),
        ):
            with pytest.raises(hs.errors.ReadOnlyError, match="opened for reading"):
                work()


def test_names_have_h5pys_errors(tmp_path: Path) -> None:
    with hs.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=np.arange(3))
        with pytest.raises(ValueError, match="name already exists"):
            file.create_dataset("a", data=np.arange(3))
        with pytest.raises(ValueError, match="NUL"):
            file.create_dataset("a\0b", data=np.arange(3))
        file.create_dataset("x/y", data=np.arange(3))
        file.create_dataset(b"z", data=np.arange(3))
        assert file.create_dataset(None, data=np.arange(3)).name is None
        assert sorted(file) == ["a", "x", "z"]
        with pytest.raises(ValueError, match="no attribute name"):
            file.attrs[""] = 1
        with pytest.raises(ValueError, match="embedded NUL"):
            file.attrs["a"] = "x\0y"
        with pytest.raises(TypeError):
            file.attrs[5] = 1  # type: ignore[index]
        file.attrs[b"bytes"] = 1
        assert list(file.attrs) == ["bytes"]


def test_committed_types_have_attributes(tmp_path: Path) -> None:
    with hs.File(tmp_path / "a.h5", "w") as file:
        file["t"] = np.dtype("i4")
        file["t"].attrs["n"] = 1
        assert file["t"].attrs["n"] == 1


def test_the_order_of_attributes_is_kept(tmp_path: Path) -> None:
    with hs.File(tmp_path / "a.h5", "w", track_order=True) as file:
        for name in "cab":
            file.attrs[name] = 1
        h5.get_config().track_order = True
        try:
            a = file.create_dataset("a", data=np.arange(3))
        finally:
            h5.get_config().track_order = False
        for name in "cab":
            a.attrs[name] = name
        assert list(file.attrs) == list(a.attrs) == ["c", "a", "b"]


def _texts(count: int) -> np.ndarray[Any, Any]:
    made = np.empty(count, object)
    made[:] = [("", "é€", b"bytes", "\udcff", "x" * (n % 70))[n % 5] for n in range(count)]
    return made


def _written(path: Path, dtype: Any, values: Any) -> Any:
    with hs.File(path, "w") as file:
        file.create_dataset("before", data="text")
        file.create_dataset("a", data=values, dtype=dtype)
        file.create_dataset("after", data="text")
    return h5py.File(path)


@pytest.mark.parametrize("count", [1, 1365, 1366, 5000, 100_000])
def test_texts(tmp_path: Path, count: int) -> None:
    texts = _texts(2 * count)[::2]
    expected = [
        text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape") for text in texts
    ]
    for values in (texts, texts.tolist(), texts.reshape(-1, 1)):
        with _written(tmp_path / "a.h5", h5py.string_dtype(), values) as file:
            assert file["a"][...].reshape(-1).tolist() == expected
            assert file["before"][()] == file["after"][()] == b"text"


@pytest.mark.parametrize("count", [100, 200_000])
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (5, TypeError, "expected text, found int"),
        (None, TypeError, "expected text, found NoneType"),
        ("a\0b", ValueError, "embedded NUL"),
    ],
)
def test_a_wrong_text_leaves_nothing(
    tmp_path: Path, count: int, wrong: Any, error: type[Exception], message: str
) -> None:
    path = tmp_path / "a.h5"
    texts = _texts(count)
    texts[-1] = wrong
    with hs.File(path, "w") as file:
        for _ in range(5):
            with pytest.raises(error, match=message):
                file.create_dataset("a", data=texts, dtype=h5py.string_dtype())
        assert list(file) == []
    # The space of the texts before it was given back.
    assert path.stat().st_size < 100_000


def test_ascii_text_is_checked(tmp_path: Path) -> None:
    texts = np.array(["a"] * 3000 + ["é"], object)
    with hs.File(tmp_path / "a.h5", "w") as file, pytest.raises(UnicodeEncodeError):
        file.create_dataset("a", data=texts, dtype=h5py.string_dtype("ascii"))


def _sequences(kind: Any, lengths: list[int]) -> np.ndarray[Any, Any]:
    made = np.empty(len(lengths), object)
    for number, length in enumerate(lengths):
        made[number] = (np.arange(length) + number).astype(kind)
    return made


@pytest.mark.parametrize("kind", ["i4", ">f8", "?", "c16"])
@pytest.mark.parametrize("lengths", [[3, 0, 1], [200, 0, 150] * 200, [100_000, 0, 300_000]])
def test_sequences(tmp_path: Path, kind: str, lengths: list[int]) -> None:
    values = _sequences(kind, lengths)
    _written(tmp_path / "a.h5", h5py.vlen_dtype(np.dtype(kind)), values).close()
    # h5py does not swap the bytes of sequences, neither of its own nor of ours.
    library: Any = hs if kind.startswith(">") else h5py
    with library.File(tmp_path / "a.h5") as file:
        for found, expected in zip(file["a"][...], values, strict=True):
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype


def test_sequences_that_need_conversion(tmp_path: Path) -> None:
    values = np.empty(6, object)
    values[:] = [np.arange(5.0), [1, 2], None, 7, np.arange(10)[::2], np.arange(4, dtype="i2")]
    with _written(tmp_path / "a.h5", h5py.vlen_dtype(np.dtype("i4")), values) as file:
        found = [one.tolist() for one in file["a"][...]]
    assert found == [[0, 1, 2, 3, 4], [1, 2], [], [7], [0, 2, 4, 6, 8], [0, 1, 2, 3]]


def test_sequences_of_structures(tmp_path: Path) -> None:
    values = np.empty(600, object)
    for number in range(600):
        values[number] = np.zeros(number % 100, _STRUCTURE)
        values[number]["b"] = number
    with _written(tmp_path / "a.h5", h5py.vlen_dtype(_STRUCTURE), values) as file:
        for found, expected in zip(file["a"][...], values, strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("rows", [1000, 1024, 8192])
@pytest.mark.parametrize("columns", [50, 64])
@pytest.mark.parametrize("chunk", [(128, 64), (128, 50), (100, 32), (8192, 64)])
@pytest.mark.parametrize("maxshape", [None, (None, None)])
def test_chunks_without_filter(
    tmp_path: Path, rows: int, columns: int, chunk: tuple[int, int], maxshape: Any
) -> None:
    values = np.arange(rows * columns, dtype="i4").reshape(rows, columns)
    chunk = (min(chunk[0], rows), min(chunk[1], columns))
    expected = values.copy()
    with hs.File(tmp_path / "a.h5", "w") as file:
        a = file.create_dataset("a", data=values, chunks=chunk, maxshape=maxshape)
        a[chunk[0] : 3 * chunk[0]] = -values[chunk[0] : 3 * chunk[0]]
        expected[chunk[0] : 3 * chunk[0]] *= -1
        a[3:5] = expected[3:5] = 1
        np.testing.assert_array_equal(a[...], expected)
        file.flush()
        a[: chunk[0]] = expected[: chunk[0]] = 2
        np.testing.assert_array_equal(a[...], expected)
    with h5py.File(tmp_path / "a.h5") as other:
        np.testing.assert_array_equal(other["a"][...], expected)


def _numbered(work: Callable[[int], Any]) -> Callable[[], Any]:
    numbers = iter(range(10))
    return lambda: work(next(numbers))


def test_plain_values_run_few_python_functions(tmp_path: Path) -> None:
    with hs.File(tmp_path / "a.h5", "w") as file:
        data = np.arange(10)
        assert len(frames(_numbered(lambda n: file.create_dataset(f"d{n}", data=data)))) <= 4
        a = file["d0"]
        for value in (5, 1.5, True, "text", data):
            assert len(frames(_numbered(lambda n, value=value: a.attrs.__setitem__(f"a{n}", value)))) <= 3  # type: ignore[misc]
