"""Everything that h5py tells about a file, as plain data: to compare a file with its copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

# Stands for a value that h5py cannot read: it does not know the type or the filter, for example.
UNREADABLE = "unreadable"

# Larger datasets in bytes are compared by their chunks and some elements.
LARGE = 64 << 20


class View:
    """The objects of an open file. An object has the first path that leads to it."""

    def __init__(self, file: h5py.File) -> None:
        self.file = file
        self.paths: dict[int, bytes] = {}
        self.found: dict[bytes, Any] = {}
        self._late: list[tuple[Any, bytes]] = []

    def all(self) -> dict[bytes, Any]:
        self.found[b"user block"] = self._user_block()
        fcpl = self.file.id.get_create_plist()
        self.found[b"file"] = fcpl.get_userblock(), fcpl.get_sizes()
        self._object(self.file["/"], b"/")
        # References need the paths of all objects.
        for node, path in self._late:
            self._values(node, path)
        return self.found

    def _user_block(self) -> bytes:
        with Path(self.file.filename).open("rb") as raw:
            return raw.read(self.file.userblock_size)

    def _object(self, node: Any, path: bytes) -> None:
        info = h5py.h5o.get_info(node.id)
        self.paths[info.addr] = path
        facts: dict[str, Any] = {"type": info.type, "links": info.rc}
        facts["times"] = info.atime, info.mtime, info.ctime, info.btime
        self.found[path] = facts
        self._late.append((node, path))
        if isinstance(node, h5py.Group):
            gcpl = node.id.get_create_plist()
            facts["order"] = gcpl.get_link_creation_order(), gcpl.get_attr_creation_order()
            facts["in order"] = list(node)
            for name in sorted(node.id):
                self._link(node, name, path)
        elif isinstance(node, h5py.Dataset):
            self._dataset(node, facts)
        else:
            facts["datatype"] = node.id.encode()

    def _link(self, group: h5py.Group, name: bytes, above: bytes) -> None:
        path = above.rstrip(b"/") + b"/" + name
        info = group.id.links.get_info(name)
        facts: dict[str, Any] = {"type": info.type, "cset": info.cset}
        if info.corder_valid:
            facts["order"] = info.corder
        self.found[b"link " + path] = facts
        if info.type in (h5py.h5l.TYPE_SOFT, h5py.h5l.TYPE_EXTERNAL):
            facts["value"] = group.id.links.get_val(name)
        elif info.type == h5py.h5l.TYPE_HARD:
            node = group[name.decode("utf-8", "surrogateescape")] if _is_text(name) else None
            if node is None:
                return
            address = h5py.h5o.get_info(node.id).addr
            if address in self.paths:
                facts["same as"] = self.paths[address]
            else:
                self._object(node, path)

    def _dataset(self, node: h5py.Dataset, facts: dict[str, Any]) -> None:
        id_, dcpl = node.id, node.id.get_create_plist()
        type_ = id_.get_type()
        facts["datatype"] = type_.encode(), type_.committed()
        facts["space"] = node.shape, None if node.shape is None else node.maxshape
        facts["layout"] = dcpl.get_layout(), node.chunks
        facts["filters"] = [dcpl.get_filter(n) for n in range(dcpl.get_nfilters())]
        facts["times of fill"] = dcpl.get_fill_time(), dcpl.get_alloc_time(), dcpl.fill_value_defined()
        facts["attr order"] = dcpl.get_attr_creation_order()
        facts["external"] = node.external
        if dcpl.get_layout() == h5py.h5d.VIRTUAL:
            facts["sources"] = [
                (source.file_name, source.dset_name, _space(source.vspace), _space(source.src_space))
                for source in node.virtual_sources()
            ]
        if node.chunks is not None and node.shape is not None:
            stored: list[Any] = []
            id_.chunk_iter(stored.append)
            facts["chunks"] = sorted((info.chunk_offset, info.filter_mask) for info in stored)
            if not _refers(type_):
                facts["raw"] = [
                    id_.read_direct_chunk(info.chunk_offset)[1]
                    for info in sorted(stored, key=lambda info: info.chunk_offset)
                ]

    def _values(self, node: Any, path: bytes) -> None:
        facts = self.found[path]
        attributes: list[Any] = []
        for name in node.attrs:
            id_ = node.attrs.get_id(name)
            type_ = id_.get_type()
            try:
                value = self.shown(node.attrs[name])
            except (OSError, TypeError, ValueError, RuntimeError):
                value = UNREADABLE
            attributes.append((name, id_.shape, type_.encode(), type_.committed(), value))
        facts["attributes"] = attributes
        if isinstance(node, h5py.Dataset) and node.shape is not None:
            try:
                # An axis may have a claimed length only: nearly all of its elements are fill value.
                is_small = node.size * node.dtype.itemsize < LARGE
                values = node[()] if is_small else node[tuple(slice(min(n, 9)) for n in node.shape)]
                facts["values"] = self.shown(values)
                facts["fill"] = self.shown(node.fillvalue)
            except (OSError, TypeError, ValueError, RuntimeError):
                facts["values"] = UNREADABLE

    def shown(self, value: Any) -> Any:
        """Return a value that can be compared. References are the paths of their targets."""
        if isinstance(value, h5py.Empty):
            return "empty", str(value.dtype)
        if isinstance(value, h5py.RegionReference):
            target = self._target(value)
            return target, None if target is None else _space(h5py.h5r.get_region(value, self.file.id))
        if isinstance(value, h5py.Reference):
            return self._target(value)
        if isinstance(value, str | bytes):
            return value
        value = np.asarray(value)
        if value.dtype.names is not None:
            return tuple((name, self.shown(value[name])) for name in value.dtype.names)
        if value.dtype.kind == "O":
            return value.shape, [self.shown(one) for one in value.reshape(-1)]
        if value.dtype.kind in "fc" and value.dtype.itemsize in (16, 32):
            # The padding of long doubles is arbitrary.
            return value.shape, str(value.dtype), repr(value.tolist())
        return value.shape, str(value.dtype), value.tobytes()

    def _target(self, reference: Any) -> bytes | None:
        """Return the path of the target. A deleted object has no path, even if its bytes are still there."""
        if not reference:
            return None
        try:
            node = h5py.h5r.dereference(reference, self.file.id)
        except (KeyError, ValueError, OSError, RuntimeError):
            return None
        return self.paths.get(h5py.h5o.get_info(node).addr)


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _refers(type_: Any) -> bool:
    return any(type_.detect_class(one) for one in (h5py.h5t.REFERENCE, h5py.h5t.VLEN)) or (
        type_.detect_class(h5py.h5t.STRING) and _has_text(type_)
    )


def _has_text(type_: Any) -> bool:
    """Return True if a type has text of variable length."""
    if isinstance(type_, h5py.h5t.TypeStringID):
        return bool(type_.is_variable_str())
    if isinstance(type_, h5py.h5t.TypeCompoundID):
        return any(_has_text(type_.get_member_type(n)) for n in range(type_.get_nmembers()))
    if isinstance(type_, h5py.h5t.TypeArrayID | h5py.h5t.TypeVlenID):
        return _has_text(type_.get_super())
    return False


def _space(space: Any) -> Any:
    kind = space.get_select_type()
    extent = space.get_simple_extent_type(), space.shape
    if kind == h5py.h5s.SEL_HYPERSLABS:
        if space.is_regular_hyperslab():
            return extent, space.get_regular_hyperslab()
        return extent, space.get_select_hyper_blocklist().tobytes()
    if kind == h5py.h5s.SEL_POINTS:
        return extent, space.get_select_elem_pointlist().tobytes()
    return extent, kind


def view(path: Path) -> dict[bytes, Any]:
    """Return everything in a file."""
    with h5py.File(path, "r") as file:
        return View(file).all()
