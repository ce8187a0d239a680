"""Codecs of numcodecs in both formats, compared with numcodecs itself and zarr-python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hyperslab as hs
import numcodecs
import numpy as np
import pytest
import zarr

# Codecs that are no compressors. Zarr v2 puts them into `filters`.
FILTERS: dict[str, Any] = {
    "shuffle": numcodecs.Shuffle(8),
    "shuffle 3": numcodecs.Shuffle(3),
    "shuffle 1": numcodecs.Shuffle(1),
    "crc32": numcodecs.CRC32(),
    "crc32 end": numcodecs.CRC32(location="end"),
    "adler32": numcodecs.Adler32(),
    "adler32 end": numcodecs.Adler32(location="end"),
    "fletcher32": numcodecs.Fletcher32(),
}
COMPRESSORS: dict[str, Any] = {"bz2": numcodecs.BZ2(), "bz2 9": numcodecs.BZ2(9)}
CODECS = FILTERS | COMPRESSORS


def data_of(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    return rng.normal(size=(30, 36)).round(2).cumsum(0)


@pytest.mark.parametrize("name", CODECS)
def test_bytes(tmp_path: Path, rng: np.random.Generator, name: str) -> None:
    """Each library reads what the other encodes.

    If the format allows only one encoding, the bytes are equal.
    """
    codec, data = CODECS[name], data_of(rng)[:10, :9].copy()
    z = hs.create_array(tmp_path / "a", data=data, chunks=(10, 9), compressors=codec, filters=None)
    ours = (tmp_path / "a/c/0/0").read_bytes()
    assert np.frombuffer(codec.decode(ours), "f8").tobytes() == data.tobytes()
    theirs = bytes(codec.encode(data.view("u1").ravel()))
    if name not in COMPRESSORS:
        assert ours == theirs
    (tmp_path / "a/c/0/0").write_bytes(theirs)
    np.testing.assert_array_equal(z[...], data)
    np.testing.assert_array_equal(z[3:5, ::-2], data[3:5, ::-2])


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_python(tmp_path: Path, rng: np.random.Generator, name: str, zarr_format: Any) -> None:
    codec, data = CODECS[name], data_of(rng)
    more: dict[str, Any] = {"filters": [codec], "compressors": None}
    if zarr_format == 3:
        more = {"filters": None, "compressors": [codec, numcodecs.Zlib(1)]}
    elif name in COMPRESSORS:
        more = {"filters": None, "compressors": codec}
    z = hs.create_array(tmp_path / "a", data=data, chunks=(10, 12), zarr_format=zarr_format, **more)
    np.testing.assert_array_equal(z[...], data)
    theirs: Any = zarr.open_array(tmp_path / "a", mode="r+")
    np.testing.assert_array_equal(theirs[...], data)
    theirs[5:25, 7:20] = data[5:25, 7:20] * 2
    data[5:25, 7:20] *= 2
    np.testing.assert_array_equal(hs.open_array(tmp_path / "a")[...], data)
    # Arrays that zarr-python has written.
    if zarr_format == 2:
        theirs = zarr.create_array(tmp_path / "b", data=data, chunks=(10, 12), zarr_format=2, **more)
        np.testing.assert_array_equal(hs.open_array(tmp_path / "b")[...], data)
        again = hs.open_array(tmp_path / "b")
        again[1:3, 4:9] = 0
        data[1:3, 4:9] = 0
        np.testing.assert_array_equal(theirs[...], data)


@pytest.mark.parametrize("name", CODECS)
def test_damage_is_found(tmp_path: Path, rng: np.random.Generator, name: str) -> None:
    data = data_of(rng)
    z = hs.create_array(tmp_path / "a", data=data, chunks=(30, 36), compressors=CODECS[name], filters=None)
    path = tmp_path / "a/c/0/0"
    good = path.read_bytes()
    for bad in (good[:-1], good + b"x", b"", good[: len(good) // 2]):
        path.write_bytes(bad)
        with pytest.raises(hs.HyperslabError, match="c/0/0"):
            z[...]
    if "shuffle" not in name:
        path.write_bytes(good[:90] + bytes([good[90] ^ 4]) + good[91:])
        with pytest.raises(hs.HyperslabError, match="c/0/0"):
            z[...]


def test_classes() -> None:
    for codec, theirs in [
        (hs.codecs.BZ2(4), numcodecs.BZ2(4)),
        (hs.codecs.Shuffle(8), numcodecs.Shuffle(8)),
        (hs.codecs.CRC32("end"), numcodecs.CRC32("end")),
        (hs.codecs.Adler32(), numcodecs.Adler32()),
        (hs.codecs.Fletcher32(), numcodecs.Fletcher32()),
    ]:
        z = hs.create_array(hs.MemoryStore(), shape=(8,), dtype="f8", compressors=theirs)
        assert z.compressors == (codec,)
        assert codec.to_dict(2)["id"] == theirs.codec_id
        assert codec.to_dict(3)["name"] == f"numcodecs.{theirs.codec_id}"


@pytest.mark.parametrize(
    ("codec", "message"),
    [
        ({"id": "shuffle", "elementsize": 7}, "expected chunks of a multiple of elementsize 7"),
        ({"id": "shuffle", "elementsize": -1}, "shuffle"),
        ({"id": "bz2", "level": 0}, "level must be 1 to 9, found 0"),
        ({"id": "crc32", "location": "middle"}, "crc32"),
        ({"id": "adler32", "seed": 1}, "seed"),
        ({"id": "fletcher32", "x": 1}, "fletcher32"),
    ],
)
def test_refused(tmp_path: Path, codec: dict[str, Any], message: str) -> None:
    with pytest.raises(hs.HyperslabError, match=message):
        hs.create_array(tmp_path / "a", shape=(100,), dtype="f8", compressors=codec)
    assert not (tmp_path / "a").exists()
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
    if codec["id"] == "bz2":
        # Only the encoder needs the level.
        stored = hs.open_array(tmp_path / "b")
        assert (stored[...] == 0).all()
        with pytest.raises(hs.HyperslabError, match=message):
            stored[...] = 1
        return
    with pytest.raises(hs.HyperslabError, match=message):
        hs.open_array(tmp_path / "b")


def test_categories(tmp_path: Path) -> None:
    labels = ["Rhine", "Elbe", "ß"]
    codec = numcodecs.Categorize(labels, dtype="<U5", astype="u2")
    words = np.random.default_rng(0).choice([*labels, ""], (20, 30)).astype("<U5")
    how: dict[str, Any] = {"shape": words.shape, "chunks": (7, 11), "dtype": "<U5", "zarr_format": 2}
    z = hs.create_array(tmp_path / "ours", filters=[codec], compressors=None, **how)
    z[...] = words
    assert np.array_equal(zarr.open_array(tmp_path / "ours")[...], words)
    assert z.filters == (hs.codecs.Categorize(labels, "<U5", "<u2"),)
    zarr.create_array(tmp_path / "theirs", filters=[codec], compressors=None, **how)[...] = words
    theirs = hs.open_array(tmp_path / "theirs")
    assert np.array_equal(theirs[3:, ::-2], words[3:, ::-2])
    theirs[0, 0] = "Elbe"
    with pytest.raises(hs.errors.ChunkError, match="expected one of the labels"):
        theirs[0, 1] = "Oder"
    assert theirs[0, :2].tolist() == ["Elbe", words[0, 1]]
