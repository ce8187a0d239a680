"""Compressors and checksums of numcodecs with all settings, against numcodecs and zarr-python."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import hyperslab as hs
import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LZMA1 = 0x4000000000000001
DTYPES = ["i1", "u2", "i4", "u8", "f4", "f8", ">i2", ">f8", "M8[s]"]


@st.composite
def lzma_chains(draw: st.DrawFn, last: int) -> list[dict[str, int]]:
    """Draws LZMA filters and their options. The last filter is LZMA1 or LZMA2."""
    delta = st.builds(lambda dist: {"id": 3, "dist": dist}, st.integers(1, 256))
    bcj = st.sampled_from([{"id": filter_id} for filter_id in range(4, 10)])
    before = draw(st.lists(delta | bcj, max_size=2))
    options = st.fixed_dictionaries(
        {"id": st.just(last), "preset": st.integers(0, 2)},
        optional={
            "dict_size": st.integers(4096, 1 << 20),
            "pb": st.integers(0, 4),
            "nice_len": st.integers(5, 273),
            "mode": st.sampled_from([1, 2]),
            "mf": st.sampled_from([3, 4, 0x12, 0x13, 0x14]),
            "depth": st.integers(0, 10),
        },
    )
    return [*before, draw(options)]


def lzma_settings() -> st.SearchStrategy[dict[str, Any]]:
    presets = st.one_of(st.none(), st.integers(0, 4), st.just(1 | 1 << 31))
    xz = st.fixed_dictionaries(
        {"format": st.just(1)}, optional={"preset": presets, "check": st.sampled_from([-1, 0, 1, 4, 10])}
    )
    alone = st.fixed_dictionaries({"format": st.just(2)}, optional={"preset": presets})
    raw = st.builds(lambda filters: {"format": 3, "filters": filters}, lzma_chains(0x21) | lzma_chains(LZMA1))
    return xz | alone | raw


CODECS: dict[str, st.SearchStrategy[Any]] = {
    "lzma": lzma_settings().map(lambda given: numcodecs.LZMA(**given)),
    "jenkins_lookup3": st.builds(numcodecs.JenkinsLookup3, initval=st.integers(0, 2**32 - 1)),
    "bz2": st.builds(numcodecs.BZ2, level=st.integers(1, 9)),
    "base64": st.just(numcodecs.Base64()),
}
# Codecs that Zarr v3 lacks.
ONLY_V2 = ["base64"]


@st.composite
def arrays(draw: st.DrawFn, dtypes: list[str]) -> tuple[np.ndarray[Any, Any], tuple[int, ...]]:
    """Draws values of one of several patterns, and a chunk shape."""
    shape = draw(st.lists(st.integers(1, 24), min_size=1, max_size=3))
    chunks = tuple(draw(st.integers(1, length + 2)) for length in shape)
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    steps = rng.integers(-100, 100, shape)
    values = draw(st.sampled_from([steps, steps.cumsum(-1), steps * 0 + 7]))
    return (values / 4 if dtype.kind == "f" else values).astype(dtype), chunks


def check_both_directions(
    folder: Path, data: np.ndarray[Any, Any], chunks: tuple[int, ...], zarr_format: int, more: dict[str, Any]
) -> None:
    """zarr-python reads and changes our array, and we read and change one of zarr-python."""
    ours = hs.create_array(
        folder / "ours", data=data, chunks=chunks, zarr_format=zarr_format, overwrite=True, **more
    )
    theirs: Any = zarr.open_array(folder / "ours", mode="r+")
    np.testing.assert_array_equal(theirs[...], data)
    changed = data.copy()
    part = tuple(slice(length // 3, length // 2 + 1) for length in data.shape)
    changed[part] = changed[part][..., ::-1]
    theirs[part] = changed[part]
    np.testing.assert_array_equal(hs.open_array(folder / "ours")[...], changed)
    ours[part] = data[part]
    np.testing.assert_array_equal(theirs[...], data)


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("zarr_format", [2, 3])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_with_zarr_python(tmp_path: Path, name: str, zarr_format: int, data: st.DataObject) -> None:
    if zarr_format == 3 and name in ONLY_V2:
        return
    codec, (values, chunks) = data.draw(CODECS[name]), data.draw(arrays(DTYPES))
    check_both_directions(tmp_path, values, chunks, zarr_format, {"filters": None, "compressors": [codec]})


@pytest.mark.parametrize("name", CODECS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_chunks_of_numcodecs(tmp_path: Path, name: str, data: st.DataObject) -> None:
    """Each library decodes what the other encodes. Checksums and base64 allow only one encoding."""
    codec = data.draw(CODECS[name])
    values, _ = data.draw(arrays(["u1", "f4"]))
    z = hs.create_array(
        tmp_path / "a",
        data=values,
        chunks=values.shape,
        zarr_format=2,
        filters=None,
        compressors=codec,
        fill_value=None,
        overwrite=True,
    )
    path = tmp_path / "a" / ".".join("0" for _ in values.shape)
    assert bytes(codec.decode(path.read_bytes())) == values.tobytes()
    encoded = bytes(codec.encode(values))
    if name in ("jenkins_lookup3", "base64"):
        assert path.read_bytes() == encoded
    path.write_bytes(encoded)
    np.testing.assert_array_equal(z[...], values)


@pytest.mark.parametrize("name", ["lzma", "bz2"])
def test_streams_follow_one_another(tmp_path: Path, name: str) -> None:
    codec = numcodecs.get_codec({"id": name})
    data = np.arange(100, dtype="i4")
    z = hs.create_array(tmp_path / "a", data=data, chunks=100, zarr_format=2, compressors=codec)
    stored = bytes(codec.encode(data[:30])) + bytes(codec.encode(data[30:]))
    (tmp_path / "a/0").write_bytes(stored)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a", mode="r")[...], data)
    np.testing.assert_array_equal(z[...], data)
    (tmp_path / "a/0").write_bytes(stored[:-1])
    with pytest.raises(hs.HyperslabError, match="truncated"):
        z[...]


DAMAGED: dict[str, Any] = {
    "xz": numcodecs.LZMA(preset=1),
    "alone": numcodecs.LZMA(format=2, preset=1),
    "raw": numcodecs.LZMA(format=3, filters=[{"id": 3, "dist": 4}, {"id": 33, "preset": 0}]),
    "jenkins_lookup3": numcodecs.JenkinsLookup3(3),
    "bz2": numcodecs.BZ2(),
}
# Codecs with a checksum: a changed byte never yields other elements.
CHECKED = ["xz", "jenkins_lookup3", "bz2"]


@pytest.mark.parametrize("name", DAMAGED)
def test_damage(tmp_path: Path, name: str) -> None:
    """Each truncation is an error. With a checksum, a changed byte is an error or has no effect."""
    data = (np.arange(100, dtype="i4") ** 2) % 37
    z = hs.create_array(tmp_path / "a", data=data, chunks=100, filters=None, compressors=DAMAGED[name])
    path = tmp_path / "a/c/0"
    good = path.read_bytes()
    for end in range(len(good)):
        path.write_bytes(good[:end])
        with pytest.raises(hs.HyperslabError, match="c/0"):
            z[...]
    path.write_bytes(good + b"\0")
    with pytest.raises(hs.HyperslabError, match="c/0"):
        z[...]
    for at in range(len(good)):
        for flip in (1, 0x80, 0xFF):
            path.write_bytes(good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :])
            try:
                found = z[...]
            except hs.HyperslabError:
                continue
            if name in CHECKED:
                np.testing.assert_array_equal(found, data)


def needs(package: str) -> Any:
    """Skips a test if `package` is not installed: numcodecs then lacks a codec."""
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed")


NEWEST = tuple(int(part) for part in zarr.__version__.split(".")[:2]) >= (3, 4)
pcodec_settings = st.fixed_dictionaries(
    {"level": st.integers(0, 10)},
    optional={
        "mode_spec": st.sampled_from(["auto", "classic"]),
        "delta_spec": st.sampled_from(["auto", "no_op", "try_lookback"]),
        "equal_pages_up_to": st.integers(1, 100),
    },
) | st.builds(
    lambda order: {"delta_spec": "try_consecutive", "delta_encoding_order": order}, st.integers(0, 7)
)
NUMBERS = ["u2", "u4", "u8", "i2", "i4", "i8", "f2", "f4", "f8", "M8[s]"]


@needs("pcodec")
@pytest.mark.parametrize("zarr_format", [2, 3])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_pcodec(tmp_path: Path, zarr_format: int, data: st.DataObject) -> None:
    if not NEWEST:
        pytest.skip("zarr-python is older than 3.4, and numcodecs beside it: its pcodec knows fewer settings")
    codec = hs.codecs.PCodec(**data.draw(pcodec_settings))
    values, chunks = data.draw(arrays(NUMBERS))
    more: dict[str, Any] = {"filters": None, "compressors": codec}
    if zarr_format == 3:
        compressor = data.draw(st.sampled_from([None, hs.codecs.Zstd()]))
        more = {"serializer": codec, "compressors": compressor}
    check_both_directions(tmp_path, values, chunks, zarr_format, more)


zfpy_modes = st.sampled_from(
    [(2, {"rate": 8}), (2, {"rate": 20.5}), (3, {"precision": 17}), (4, {"tolerance": 0.03}), (4, {})]
)


@needs("zfpy")
@pytest.mark.parametrize("zarr_format", [2, 3])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_zfpy(tmp_path: Path, zarr_format: int, data: st.DataObject) -> None:
    mode, given_mode = data.draw(zfpy_modes)
    codec = hs.codecs.ZFPY(mode, **given_mode)
    values, chunks = data.draw(arrays(["i4", "i8", "f4", "f8"]))
    more: dict[str, Any] = {"filters": None, "compressors": codec}
    if zarr_format == 3:
        more = {"serializer": codec, "compressors": None}
    if not given_mode:
        return check_both_directions(tmp_path, values, chunks, zarr_format, more)
    # The codec is lossy. Compare the streams, and the values decoded from them.
    z = hs.create_array(
        tmp_path / "a", data=values, chunks=chunks, zarr_format=zarr_format, overwrite=True, **more
    )
    theirs: Any = zarr.open_array(tmp_path / "a", mode="r+")
    np.testing.assert_array_equal(z[...], theirs[...])
    ours = {
        path: path.read_bytes()
        for path in (tmp_path / "a").rglob("*")
        if path.is_file() and path.name[-1].isdigit()
    }
    theirs[...] = values
    for path, stored in ours.items():
        assert path.read_bytes() == stored, str(path)
    return None


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "M8[s]"])
@pytest.mark.parametrize("shape", [(), (50,), (9, 6), (5, 1, 7), (3, 5, 2, 6)])
def test_zfp(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    data = (np.arange(np.prod(shape, dtype=int)) * 37 % 101).reshape(shape).astype(dtype)
    more: dict[str, Any] = {"serializer": hs.codecs.Zfp(), "compressors": None}
    chunks = tuple(length // 2 + 1 for length in shape)
    z = hs.create_array(tmp_path / "a", data=data, chunks=chunks, **more)
    np.testing.assert_array_equal(z[...], data)
    assert z.serializer == hs.codecs.Zfp()
    if dtype in ("f4", "f8"):
        more["serializer"] = hs.codecs.Zfp("fixed_accuracy", tolerance=0.25)
        lossy = hs.create_array(tmp_path / "b", data=data, chunks=chunks, **more)
        assert np.abs(lossy[...] - data).max() <= 0.25


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"])
def test_streams_of_zfp(tmp_path: Path, dtype: str) -> None:
    """The zfp library writes the same bytes. Integers are widened as the specification says."""
    zfpy: Any = pytest.importorskip("zfpy")
    modes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"mode": "reversible"}, {}),
        ({"mode": "fixed_rate", "rate": 10.5}, {"rate": 10.5}),
        ({"mode": "fixed_precision", "precision": 14}, {"precision": 14}),
        ({"mode": "fixed_accuracy", "tolerance": 0.1}, {"tolerance": 0.1}),
    ]
    for number, shape in enumerate([(1,), (50,), (9, 6), (5, 1, 7), (3, 5, 2, 6)]):
        values = (np.arange(np.prod(shape)) * 37 % 101 + 1).reshape(shape).astype(dtype)
        bits = values.itemsize * 8
        offset = 1 << (bits - 1) if dtype[0] == "u" and bits < 32 else 0
        wide = values.astype(f"i{values.itemsize}") if dtype[0] == "u" and bits >= 32 else values
        if bits < 32:
            wide = (values.astype("i4") - offset) << (31 - bits)
        for at, (mode, settings_of_zfpy) in enumerate(modes):
            z = hs.create_array(
                tmp_path / f"{number}-{at}",
                data=values,
                chunks=shape,
                serializer=hs.codecs.Zfp(**mode),
                compressors=None,
            )
            stored = (tmp_path / f"{number}-{at}/c" / "/".join("0" for _ in shape)).read_bytes()
            assert stored == zfpy.compress_numpy(wide, write_header=False, **settings_of_zfpy), (shape, mode)
            if mode["mode"] == "reversible":
                np.testing.assert_array_equal(z[...], values)


def test_zfp_keeps_no_wrong_values(tmp_path: Path) -> None:
    z = hs.create_array(
        tmp_path / "a", shape=4, dtype="u4", serializer=hs.codecs.Zfp(), compressors=None, fill_value=7
    )
    with pytest.raises(hs.HyperslabError, match="too large for them"):
        z[...] = [1, 2, 3, 2**31]
    np.testing.assert_array_equal(z[...], 7)
    for more, shape, dtype in [
        ({"serializer": hs.codecs.Zfp()}, (1,) * 5, "f4"),
        ({"serializer": hs.codecs.Zfp()}, (4,), "f2"),
        ({"serializer": hs.codecs.ZFPY()}, (4,), "u4"),
        ({"serializer": hs.codecs.PCodec()}, (4,), "u1"),
        ({"serializer": hs.codecs.PCodec()}, (4,), "c8"),
    ]:
        with pytest.raises(hs.HyperslabError, match="encodes"):
            hs.create_array(hs.MemoryStore(), shape=shape, dtype=dtype, compressors=None, **more)


@pytest.mark.parametrize("codec", [hs.codecs.PCodec(), hs.codecs.ZFPY(), hs.codecs.Zfp()])
@pytest.mark.parametrize("dtype", ["i4", "f8"])
def test_damaged_numbers(tmp_path: Path, codec: Any, dtype: str) -> None:
    data = ((np.arange(60) ** 2) % 37).reshape(6, 10).astype(dtype)
    z = hs.create_array(tmp_path / "a", data=data, chunks=(6, 10), serializer=codec, compressors=None)
    path = tmp_path / "a/c/0/0"
    good = path.read_bytes()
    for end in range(len(good)):
        path.write_bytes(good[:end])
        with pytest.raises(hs.HyperslabError, match="c/0/0"):
            z[...]
    path.write_bytes(good + bytes(8))
    with pytest.raises(hs.HyperslabError, match="c/0/0"):
        z[...]
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x41]) + good[at + 1 :])
        try:
            assert z[...].shape == (6, 10)
        except hs.HyperslabError:
            pass


def test_classes() -> None:
    filters = [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]
    for codec, theirs in [
        (hs.codecs.LZMA(), numcodecs.LZMA()),
        (hs.codecs.LZMA(2, 0, 9), numcodecs.LZMA(2, 0, 9)),
        (hs.codecs.LZMA(format=3, filters=filters), numcodecs.LZMA(format=3, filters=filters)),
        (hs.codecs.JenkinsLookup3(7), numcodecs.JenkinsLookup3(7)),
        (hs.codecs.JenkinsLookup3(7, b"ab"), numcodecs.JenkinsLookup3(7, b"ab")),
    ]:
        z = hs.create_array(hs.MemoryStore(), shape=(8,), dtype="f8", compressors=theirs)
        assert z.compressors == (codec,)
        again = hs.create_array(hs.MemoryStore(), shape=(8,), dtype="f8", compressors=codec, zarr_format=2)
        assert again.compressors == (codec,)
        assert codec.to_dict(2)["id"] == theirs.codec_id
        assert codec.to_dict(3)["name"] == f"numcodecs.{theirs.codec_id}"


@pytest.mark.parametrize(
    ("codec", "message"),
    [
        ({"id": "lzma", "format": 7}, "format must be 1"),
        ({"id": "lzma", "format": 3}, "needs filters"),
        ({"id": "lzma", "preset": 1, "filters": [{"id": 33}]}, "expected preset or filters, found both"),
        ({"id": "lzma", "filters": [{"id": 33}, {"id": 3}]}, "refuses"),
        ({"id": "lzma", "level": 1}, "level"),
        ({"id": "jenkins_lookup3", "initval": -1}, "jenkins_lookup3"),
        ({"id": "jenkins_lookup3", "prefix": "ab"}, "jenkins_lookup3"),
    ],
)
def test_refused(tmp_path: Path, codec: dict[str, Any], message: str) -> None:
    with pytest.raises(hs.HyperslabError, match=message):
        hs.create_array(tmp_path / "a", shape=(100,), dtype="f8", compressors=codec)
    document: dict[str, Any] = {
        "zarr_format": 2,
        "shape": [100],
        "chunks": [100],
        "dtype": "<f8",
        "fill_value": 0,
        "order": "C",
        "filters": None,
        "compressor": codec,
    }
    (tmp_path / "b").mkdir()
    (tmp_path / "b/.zarray").write_text(json.dumps(document))
    with pytest.raises(hs.HyperslabError, match=message):
        hs.open_array(tmp_path / "b")


def test_a_dictionary_that_no_chunk_fills(tmp_path: Path) -> None:
    z = hs.create_array(
        tmp_path / "a", data=np.arange(10, dtype="u1"), chunks=10, compressors=numcodecs.LZMA(format=2)
    )
    path = tmp_path / "a/c/0"
    stored = path.read_bytes()
    path.write_bytes(stored[:1] + (3 << 30).to_bytes(4, "little") + stored[5:])
    with pytest.raises(hs.HyperslabError, match="256 MiB of memory"):
        z[...]
