"""Compares a file in `hyperslab.h5` with h5py: every object, attribute, property and chunk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hdf5_same import same_values

# Properties of datasets that must be equal.
PROPERTIES = (
    "shape",
    "dtype",
    "ndim",
    "size",
    "nbytes",
    "maxshape",
    "chunks",
    "compression",
    "compression_opts",
    "shuffle",
    "fletcher32",
    "scaleoffset",
    "filter_ids",
    "filter_names",
    "external",
    "is_virtual",
    "is_scale",
    "name",
)
CLASSES = {h5py.Dataset: hs.h5.Dataset, h5py.Group: hs.h5.Group, h5py.Datatype: hs.h5.Datatype}
LINKS = {h5py.HardLink: hs.h5.HardLink, h5py.SoftLink: hs.h5.SoftLink, h5py.ExternalLink: hs.h5.ExternalLink}


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """Calls `hyperslab.h5.register` and undoes its effects afterwards."""
    kinds = (hs.FileArray, hs.Datatype, hs.Empty)
    before = [kind._kin for kind in kinds]
    hs.h5.register()
    try:
        yield
    finally:
        for kind, kin in zip(kinds, before, strict=True):
            kind._kin = kin


def same_dtype(ours: np.dtype[Any], theirs: np.dtype[Any], what: str) -> None:
    """Compares types, including h5py's metadata in them."""
    assert ours == theirs, f"{what}: {ours}, expected {theirs}"
    assert hs.h5.check_string_dtype(ours) == h5py.check_string_dtype(theirs), what
    assert hs.h5.check_enum_dtype(ours) == h5py.check_enum_dtype(theirs), what
    assert hs.h5.check_vlen_dtype(ours) == h5py.check_vlen_dtype(theirs), what
    refers = h5py.check_ref_dtype(theirs)
    known = {None: None, h5py.Reference: hs.h5.Reference, h5py.RegionReference: hs.h5.RegionReference}
    assert hs.h5.check_ref_dtype(ours) is known[refers], what


def same_attributes(ours: Any, theirs: Any, what: str) -> None:
    assert list(ours) == list(theirs), what
    assert len(ours) == len(theirs)
    for name, expected in theirs.items():
        where = f"{what}, attribute {name}"
        same_values(ours[name], expected, where)
        same_values(ours[name.encode("utf-8", "surrogateescape")], expected, where)
        mine, id_ = ours.get_id(name), theirs.get_id(name)
        same_dtype(mine.dtype, id_.dtype, where)
        assert mine.shape == id_.shape, where


def same_low_level(ours: Any, theirs: Any, what: str) -> None:
    """Compares h5py's low-level interface to a dataset."""
    mine, id_ = ours.id, theirs.id
    assert (mine.shape, mine.rank, mine.valid) == (id_.shape, id_.rank, id_.valid), what
    assert mine.get_type().get_class() == id_.get_type().get_class(), what
    assert mine.get_offset() == id_.get_offset(), what
    space, expected = mine.get_space(), id_.get_space()
    for name in ("type", "ndims", "dims", "npoints"):
        asked = f"get_simple_extent_{name}"
        assert getattr(space, asked)() == getattr(expected, asked)(), (what, asked)
    plist, expected = mine.get_create_plist(), id_.get_create_plist()
    assert plist.get_layout() == expected.get_layout(), what
    assert plist.get_nfilters() == expected.get_nfilters(), what
    for index in range(plist.get_nfilters()):
        assert plist.get_filter(index) == expected.get_filter(index), what
    assert ours._filters == theirs._filters, what
    if theirs.chunks is None:
        return
    assert mine.get_storage_size() == id_.get_storage_size(), what
    assert mine.get_num_chunks() == id_.get_num_chunks(), what
    if theirs.size:
        assert list(ours.iter_chunks()) == list(theirs.iter_chunks()), what
    stored: list[Any] = []
    id_.chunk_iter(stored.append)
    mine_stored: list[Any] = []
    mine.chunk_iter(mine_stored.append)
    assert sorted(map(tuple, mine_stored)) == sorted(map(tuple, stored)), what
    for index, chunk in enumerate(stored[:50]):
        assert mine.get_chunk_info_by_coord(chunk.chunk_offset) == tuple(chunk), what
        assert mine.read_direct_chunk(chunk.chunk_offset) == id_.read_direct_chunk(chunk.chunk_offset), what
        assert mine.get_chunk_info(index).size == mine_stored[index].size


def same_dataset(ours: Any, theirs: Any, what: str) -> None:
    for name in PROPERTIES:
        found, expected = getattr(ours, name), getattr(theirs, name)
        assert found == expected, f"{what}.{name}: {found!r}, expected {expected!r}"
    same_dtype(ours.dtype, theirs.dtype, what)
    same_low_level(ours, theirs, what)
    same_values(ours[()], theirs[()], what)
    if theirs.shape is not None:
        same_values(ours[...], theirs[...], what)
    if theirs.shape and theirs.size:
        same_values(ours[: theirs.shape[0] // 2 + 1], theirs[: theirs.shape[0] // 2 + 1], what)
        same_values(ours[-1], theirs[-1], what)
        assert len(ours) == ours.len() == len(theirs), what
    if h5py.check_string_dtype(theirs.dtype) and theirs.shape is not None:
        try:
            expected = theirs.asstr()[()]
        except UnicodeDecodeError:
            with pytest.raises(UnicodeDecodeError):
                ours.asstr()[()]
        else:
            same_values(ours.asstr()[()], expected, what)
    if theirs.id.get_type().get_class() in (0, 1) and theirs.shape:
        into, expected = np.empty(theirs.shape, "f8"), np.empty(theirs.shape, "f8")
        ours.read_direct(into)
        theirs.read_direct(expected)
        same_values(into, expected, what)
    if h5py.check_ref_dtype(theirs.dtype) is h5py.Reference:
        for found, expected in zip(np.ravel(ours[...]), np.ravel(theirs[...]), strict=True):
            assert bool(found) == bool(expected), what
            if expected:
                assert ours.file[found].name == theirs.file[expected].name, what


def same_group(ours: Any, theirs: Any, what: str) -> None:
    assert list(ours) == list(ours.keys()) == list(theirs), what
    assert len(ours) == len(theirs), what
    assert repr(ours.keys()) == repr(theirs.keys()), what
    assert list(reversed(ours)) == list(reversed(theirs)), what


def same_file(ours: hs.File, theirs: h5py.File) -> int:
    """Compares everything in two files. Returns the number of objects."""
    names, found = ["/"], ["/"]
    theirs.visit(names.append)
    ours.visit(found.append)
    assert found == names
    links: list[Any] = []
    found_links: list[Any] = []
    theirs.visititems_links(lambda name, link: links.append((name, LINKS[type(link)])))
    ours.visititems_links(lambda name, link: found_links.append((name, type(link))))
    assert found_links == links
    names_of_links: list[str] = []
    ours.visit_links(names_of_links.append)
    assert names_of_links == [name for name, _ in links]
    same_values(ours.userblock_size, theirs.userblock_size)
    for name in names:
        node, expected = ours[name], theirs[name]
        kind = next(mine for class_, mine in CLASSES.items() if isinstance(expected, class_))
        assert isinstance(node, kind) and ours.get(name, getclass=True) is kind, name
        assert node.name == expected.name and node.parent.name == expected.parent.name
        same_attributes(node.attrs, expected.attrs, name)
        if isinstance(expected, h5py.Dataset):
            same_dataset(node, expected, name)
        elif isinstance(expected, h5py.Group):
            same_group(node, expected, name)
        else:
            same_dtype(node.dtype, expected.dtype, name)
            assert node.id.get_class() == expected.id.get_class()
    return len(names)
