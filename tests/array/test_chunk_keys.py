"""Chunk key encodings that are extensions: suffix, prefix, fanout, template.

zarr-python supports `default` and `v2` and lets users register others. The classes here follow the
registered specifications, and zarr-python reads and writes with them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import hyperslab as hs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples, scratch
from zarr.core.chunk_key_encodings import ChunkKeyEncoding, parse_chunk_key_encoding
from zarr.registry import register_chunk_key_encoding


@dataclass(frozen=True)
class Suffix(ChunkKeyEncoding):
    name: ClassVar[str] = "suffix"
    suffix: str
    base: Any = "default"

    @classmethod
    def from_dict(cls, data: Any) -> Suffix:
        settings = data["configuration"]
        base = settings.get("base-encoding", settings.get("base_encoding", {"name": "default"}))
        return cls(settings["suffix"], base)

    def to_dict(self) -> dict[str, Any]:
        return {"name": "suffix", "configuration": {"suffix": self.suffix, "base-encoding": self.base}}

    def encode_chunk_key(self, chunk_coords: tuple[int, ...]) -> str:
        return parse_chunk_key_encoding(self.base).encode_chunk_key(chunk_coords) + self.suffix


@dataclass(frozen=True)
class Fanout(ChunkKeyEncoding):
    name: ClassVar[str] = "fanout"
    max_children: int = field(default=1001)

    def encode_chunk_key(self, chunk_coords: tuple[int, ...]) -> str:
        parts = []
        for axis, index in enumerate(chunk_coords):
            digits, rest = [str(index % (self.max_children - 1))], index // (self.max_children - 1)
            while rest:
                digits.append(str(rest % (self.max_children - 1)))
                rest //= self.max_children - 1
            parts += [f"d{axis}", *reversed(digits)]
        return "/".join([*parts, "c"])


@dataclass(frozen=True)
class Template(ChunkKeyEncoding):
    """Supports only templates that name both of two axes."""

    name: ClassVar[str] = "template"
    template: str

    def encode_chunk_key(self, chunk_coords: tuple[int, ...]) -> str:
        return self.template.replace("{-1", "{1").format(*chunk_coords)


for kind in (Suffix, Fanout, Template):
    register_chunk_key_encoding(kind.name, kind)

SUFFIX = {"name": "suffix", "configuration": {"suffix": ".tiff", "base-encoding": {"name": "default"}}}
ENCODINGS: list[dict[str, Any]] = [
    SUFFIX,
    {
        "name": "suffix",
        "configuration": {
            "suffix": "9",
            "base-encoding": {"name": "v2", "configuration": {"separator": "/"}},
        },
    },
    {"name": "suffix", "configuration": {"suffix": "/x", "base-encoding": {"name": "fanout"}}},
    {"name": "fanout", "configuration": {"max_children": 4}},
    {"name": "template", "configuration": {"template": "é {1:03}/{0}.png"}},
    {"name": "template", "configuration": {"template": "{{x}}{-1}_{0:02}"}},
]


@settings(max_examples=examples(60))
@given(
    st.sampled_from(ENCODINGS), st.tuples(st.integers(0, 12), st.integers(0, 12)), st.booleans(), st.data()
)
def test_both_ways(
    keys: dict[str, Any],
    shape: tuple[int, int],
    sharded: bool,
    data: st.DataObject,
) -> None:
    values = np.arange(shape[0] * shape[1], dtype="i4").reshape(shape) + 1
    with scratch() as path:
        shards = (4, 4) if sharded else None
        ours = hs.create_array(
            path / "a", shape=shape, chunks=(1, 2), shards=shards, dtype="i4", chunk_key_encoding=keys
        )
        ours[...] = values
        theirs = zarr.open_array(path / "a", mode="r+")
        assert np.array_equal(theirs[...], values)
        rows = data.draw(st.integers(0, 12))
        other = zarr.create_array(
            path / "b", shape=shape, chunks=(1, 2), shards=shards, dtype="i4", chunk_key_encoding=keys
        )
        other[...] = values
        names = [
            sorted(str(f.relative_to(path / n)) for f in (path / n).rglob("*") if f.is_file()) for n in "ab"
        ]
        assert names[0] == names[1]
        read = hs.open_array(path / "b", mode="r+")
        assert np.array_equal(read[...], values)
        assert read.nchunks_initialized == ours.nchunks_initialized
        # A resize removes values, and new elements have the fill value.
        read.resize((rows, shape[1]))
        expected = np.zeros((rows, shape[1]), "i4")
        expected[: shape[0]] = values[:rows]
        assert np.array_equal(read[...], expected)
        assert np.array_equal(zarr.open_array(path / "b")[...], expected)
        read.resize(shape)
        expected = values.copy()
        expected[rows:] = 0
        assert np.array_equal(read[...], expected)


@pytest.mark.parametrize("keys", ENCODINGS)
def test_metadata_object(keys: dict[str, Any]) -> None:
    z = hs.zeros((300, 40), chunks=(1, 2), dtype="u1", chunk_key_encoding=keys)
    ours, theirs = z.metadata.chunk_key_encoding, parse_chunk_key_encoding(keys)
    for chunk in [(0, 0), (299, 19), (7, 3)]:
        key = ours.encode_chunk_key(chunk)
        assert key == z.metadata.encode_chunk_key(chunk) == theirs.encode_chunk_key(chunk)
        assert ours.decode_chunk_key(key) == chunk
    with pytest.raises(hs.errors.InvalidArgumentError, match="no chunk"):
        ours.decode_chunk_key("zarr.json")
    like = hs.from_array({}, data=z)
    assert like.metadata.chunk_key_encoding == ours
    z[1, 2] = 1
    assert theirs.encode_chunk_key((1, 1)) in z.store.list()
    assert z.nchunks_initialized == 1


def test_names_and_zarrs() -> None:
    z = hs.zeros((4,), chunks=(2,), chunk_key_encoding="fanout")
    assert z.metadata["chunk_key_encoding"] == {"name": "fanout", "configuration": {"max_children": 1001}}
    keys = {"name": "zarrs.default_suffix", "configuration": {"separator": ".", "suffix": ".x"}}
    z = hs.zeros((4,), chunks=(2,), chunk_key_encoding=keys)
    z[:] = 1
    assert {"c.0.x", "c.1.x"} < set(z.store.list())
    keys = {"name": "prefix", "configuration": {"prefix": "x/", "base_encoding": "v2"}}
    z = hs.zeros((4, 4), chunks=(2, 2), chunk_key_encoding=keys)
    z[:] = 1
    assert {"x/0.0", "x/1.1"} < set(z.store.list())


def test_a_copy_keeps_its_keys(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=np.arange(9), chunks=(2,), chunk_key_encoding=SUFFIX)
    hs.copy(z, tmp_path / "b")
    assert (tmp_path / "b" / "c" / "4.tiff").exists()
    hs.copy(z, tmp_path / "c", zarr_format=2)
    assert np.array_equal(zarr.open_array(tmp_path / "c")[:], np.arange(9))


@pytest.mark.parametrize("suffix", ["/../../x", "/zarr.json", "//", "/", "\0", "\\", "x" * 5000, 1, None])
def test_hostile(tmp_path: Path, suffix: Any) -> None:
    keys = {"name": "suffix", "configuration": {"suffix": suffix, "base-encoding": {"name": "default"}}}
    with pytest.raises(ValueError, match="chunk_key_encoding"):
        hs.create_array(tmp_path / "new", shape=(4,), dtype="i4", chunk_key_encoding=keys)
    assert not (tmp_path / "new").exists()
    hs.create_array(tmp_path / "a", shape=(4,), dtype="i4")
    document = json.loads((tmp_path / "a" / "zarr.json").read_text())
    document["chunk_key_encoding"] = keys
    (tmp_path / "a" / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(hs.errors.HyperslabError, match="chunk_key_encoding"):
        hs.open_array(tmp_path / "a")


@pytest.mark.parametrize("template", ["{0}{1}", "{0}", "{0}/{2}", "{0}.{1", "zarr.json/../{0}.{1}"])
def test_templates_that_do_not_go(template: str) -> None:
    keys = {"name": "template", "configuration": {"template": template}}
    with pytest.raises(ValueError, match="chunk_key_encoding"):
        hs.zeros((4, 4), chunk_key_encoding=keys)
    with pytest.raises(ValueError, match="hilbert"):
        hs.zeros((4, 4), chunk_key_encoding={"name": "hilbert"})
