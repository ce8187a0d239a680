"""Chunks encoded by many versions of numcodecs, each read as the only chunk of a Zarr v2 array."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from support import assert_same

OURS = [
    "zlib",
    "gzip",
    "zstd",
    "blosc",
    "lz4",
    "bz2",
    "shuffle",
    "crc32c",
    "crc32",
    "adler32",
    "lzma",
    "pcodec",
    "zfpy",
    "base64",
]


# Filters with only one possible output: our bytes must be the same.
FIXED = ["delta", "fixedscaleoffset", "quantize", "packbits", "astype", "categorize/U"]


def fixture_folder(corpora: Path) -> Path:
    folder = corpora / "zarr" / "numcodecs-fixture"
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}")
    return folder


def arrays(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    return {path.stem.removeprefix("array."): np.load(path) for path in sorted(folder.glob("array.*.npy"))}


def store_chunk(
    path: Path, array: np.ndarray[Any, Any], config: dict[str, Any], encoded: bytes, **more: Any
) -> None:
    """Writes a v2 array of one chunk with given bytes."""
    path.mkdir(parents=True)
    # numcodecs encodes memory in its own order.
    order = "C" if array.flags.c_contiguous else "F"
    document = {
        "zarr_format": 2,
        "shape": array.shape,
        "chunks": array.shape,
        "dtype": array.dtype.str,
        "fill_value": None,
        "order": order,
        "compressor": config,
        "filters": None,
        **more,
    }
    (path / ".zarray").write_text(json.dumps(document))
    (path / ".".join("0" for _ in array.shape)).write_bytes(encoded)


@pytest.mark.parametrize("codec", OURS)
def test_encoded_by_numcodecs(corpora: Path, tmp_path: Path, codec: str) -> None:
    folder = fixture_folder(corpora) / codec
    compared = 0
    for number, expected in arrays(folder).items():
        for settings in sorted(folder.glob("codec.*")):
            config = json.loads((settings / "config.json").read_text())
            path = tmp_path / f"{settings.name}-{number}"
            store_chunk(path, expected, config, (settings / f"encoded.{number}.dat").read_bytes())
            assert_same(hs.open_array(path, mode="r")[...], expected, str(path))
            # The codec also works as a filter.
            path = tmp_path / f"{settings.name}-{number}-filter"
            encoded = (settings / f"encoded.{number}.dat").read_bytes()
            store_chunk(path, expected, config, encoded, compressor=None, filters=[config])
            assert_same(hs.open_array(path, mode="r")[...], expected, str(path))
            compared += 1
    assert compared == len(list(folder.glob("codec.*/encoded.*.dat")))
    assert compared >= 13


@pytest.mark.parametrize("codec", FIXED)
def test_the_same_bytes(corpora: Path, tmp_path: Path, codec: str) -> None:
    compared = 0
    for config_file in sorted((fixture_folder(corpora) / codec).rglob("config.json")):
        settings = config_file.parent
        for number, array in arrays(settings.parent).items():
            encoded = (settings / f"encoded.{number}.dat").read_bytes()
            config = json.loads(config_file.read_text())
            path = tmp_path / str(compared)
            store_chunk(path / "theirs", array, config, encoded, compressor=None, filters=[config])
            found = hs.open_array(path / "theirs", mode="r")[...]
            if codec in ("delta", "packbits", "categorize/U"):
                assert_same(found, array, str(settings))
            else:
                np.testing.assert_allclose(found, array, atol=10 if config.get("digits") == -1 else 0.5)
            order: Any = "C" if array.flags.c_contiguous else "F"
            more: dict[str, Any] = {"filters": [config], "compressors": None, "order": order}
            more["config"] = {"write_empty_chunks": True}
            hs.create_array(path / "ours", data=array, chunks=array.shape, zarr_format=2, **more)
            (chunk,) = (path / "ours").glob("[0-9]*")
            assert chunk.read_bytes() == encoded, settings
            compared += 1
    assert compared >= 4


@pytest.mark.parametrize("codec", ["json2", "msgpack2", "categorize/O"])
def test_objects(corpora: Path, tmp_path: Path, codec: str) -> None:
    folder = fixture_folder(corpora) / codec
    compared = 0
    for config_file in sorted(folder.glob("codec.*/config.json")):
        config = json.loads(config_file.read_text())
        for path in sorted(folder.glob("array.*.npy")):
            array = np.load(path, allow_pickle=True)
            dtype = array.dtype
            file = config_file.parent / f"encoded.{path.stem.removeprefix('array.')}.dat"
            if codec == "categorize/O" and array.dtype != object:
                continue
            if not file.exists():
                assert config["id"] == "json"  # of numcodecs before 0.6
                continue
            encoded = file.read_bytes()
            place = tmp_path / str(compared)
            store_chunk(place / "theirs", array, config, encoded, compressor=None, filters=[config])
            theirs = hs.open_array(place / "theirs", mode="r")
            if array.dtype != object:
                assert_same(theirs[...], array, str(config_file))
            found = theirs.read().astype(object)
            array = array.astype(object)
            assert found.shape == array.shape
            # JSON sorts keys.
            one, other = ([repr(value) for value in values.ravel()] for values in (found, array))
            if codec == "json2":
                one, other = (
                    [json.dumps(value, sort_keys=True) for value in values.ravel()]
                    for values in (found, array)
                )
            assert one == other, str(config_file)
            if dtype.hasobject and config["id"] != "json":
                order: Any = "C" if array.flags.c_contiguous else "F"
                how: dict[str, Any] = {"dtype": object, "order": order, "compressors": None, "zarr_format": 2}
                ours = hs.create_array(
                    place / "ours",
                    shape=array.shape,
                    chunks=array.shape,
                    filters=[config],
                    fill_value="",
                    **how,
                )
            else:
                # Only other libraries create these arrays, including zarr-python 2.
                shutil.copytree(place / "theirs", place / "ours")
                ours = hs.open_array(place / "ours", mode="r+")
                ours[...] = np.flip(array.ravel()).reshape(array.shape)
            ours[...] = array
            (chunk,) = (place / "ours").glob("[0-9]*")
            assert chunk.read_bytes() == encoded, str(config_file)
            compared += 1
    assert compared >= {"json2": 34, "msgpack2": 11}.get(codec, 4)


def test_codecs_that_are_missing_are_named(corpora: Path, tmp_path: Path) -> None:
    folder = fixture_folder(corpora)
    refused: dict[str, int] = {}
    for config_file in sorted(folder.rglob("config.json")):
        config = json.loads(config_file.read_text())
        codec = config["id"]
        # Other tests cover codecs of objects.
        if codec in (*OURS, *FIXED, "categorize", "json2", "json", "msgpack2"):
            continue
        path = tmp_path / config_file.parent.relative_to(folder)
        store_chunk(path, np.zeros(1000, "i4"), config, b"?")
        elements = codec.startswith("vlen-")
        why = "supported only as the first filter" if elements else "not supported"
        with pytest.raises(hs.errors.UnknownCodecError, match=f'codec "{codec}" is {why}') as caught:
            hs.open_array(path, mode="r")
        assert isinstance(caught.value, NotImplementedError)
        assert ".zarray" in str(caught.value)
        assert ("runs code" in str(caught.value)) == (codec == "pickle")
        refused[codec] = refused.get(codec, 0) + 1
    assert {"pickle", "vlen-utf8"} <= refused.keys()
    # Every folder of the corpus is in one of the two sets.
    assert {path.name for path in folder.iterdir() if list(path.rglob("config.json"))} <= {
        *OURS,
        *FIXED,
        *refused,
        "categorize",
        "json2",
        "msgpack2",
    }
