"""Datasets whose elements are in other files: new ones, and writes to them."""

from __future__ import annotations

import math
import operator
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from hyperslab._hdf5.array import FileArray
    from hyperslab._hdf5.group import FileGroup
    from hyperslab._native import StoredType

__all__ = [
    "ExternalFile",
    "check_external",
    "check_prefix",
    "directory_of",
    "external_files",
    "write_external",
]

_UNLIMITED = 2**64 - 1
_ORIGIN = "${ORIGIN}"

# A file: its name, the first byte, and the number of bytes (``None``: as many as there are).
ExternalFile = tuple[str, int, int | None]


def _entry(entry: Any) -> ExternalFile:
    if not isinstance(entry, tuple):
        raise ArgumentTypeError("Each external entry must be a tuple of (name, offset, size)")
    name, offset, size = entry
    offset, size = operator.index(offset), operator.index(size)
    if offset < 0 or size < 0:
        raise OverflowError(f"external: expected an offset and a size of at least 0, found {offset}, {size}")
    return os.fsdecode(name), offset, None if size >= _UNLIMITED else size


def external_files(external: Any) -> list[ExternalFile]:
    """Return the files in the argument ``external``."""
    if external is None:
        return []
    if isinstance(external, (str, bytes, os.PathLike)):
        return [_entry((external, 0, _UNLIMITED))]
    return [_entry(entry) for entry in external]


def check_external(
    group: FileGroup,
    path: str,
    files: list[ExternalFile],
    stored: StoredType,
    shape: tuple[int, ...] | None,
    maxshape: Any,
    chunk: Any,
) -> None:
    """Fail if elements of a new dataset cannot be in these files."""
    where = f"dataset '/{path}': external"
    if chunk is not None:
        raise InvalidArgumentError(f"{where}: elements in other files have neither chunks nor filters")
    if shape is None:
        raise InvalidArgumentError(f"{where}: a dataset without a shape has no elements")
    if stored.refers:
        raise UnsupportedError(f"{where}: text, sequences and references cannot be in other files")
    most = shape if maxshape is None or maxshape is True else tuple(maxshape)
    if any(limit != n for limit, n in zip(most[1:], shape[1:], strict=False)):
        raise InvalidArgumentError(f"{where}: only the first axis may have a limit other than its length")
    room = sum(_UNLIMITED if size is None else size for _, _, size in files)
    needed = math.prod(shape) * stored.size
    if room < needed:
        raise InvalidArgumentError(
            f"{where}: the files have room for {room} bytes, but elements have {needed}"
        )
    if any(size is None for _, _, size in files[:-1]):
        raise InvalidArgumentError(f"{where}: only the last file may have no limit of bytes")
    for name, *_ in files:
        _place(group._editor, name)


def _place(editor: Any, name: str) -> Path:
    found = editor.external_place(name)
    if found is None:
        raise UnsupportedError(
            f"external file {name!r}: only files on the disk can have elements in other files"
        )
    return Path(found)


def directory_of(node: Any, prefix: Any) -> str:
    """Return the directory that ``efile_prefix`` means."""
    text = os.fsdecode(prefix)
    if text.startswith(_ORIGIN):
        text = str(Path(node.file.filename).absolute().parent) + text[len(_ORIGIN) :]
    return text


def check_prefix(group: FileGroup, prefix: Any, files: list[ExternalFile]) -> None:
    """Fail if external files are not in the directory ``efile_prefix``."""
    if prefix is None or not files:
        return
    directory = Path(directory_of(group, prefix))
    for name, *_ in files:
        if Path(name).is_absolute():
            continue
        wanted = directory / name
        is_new = directory.is_dir() and not wanted.exists()
        if is_new:
            wanted.touch()
        place = _place(group._editor, name)
        if place != wanted.resolve():
            if is_new:
                wanted.unlink()
            raise UnsupportedError(
                f"efile_prefix={os.fsdecode(prefix)!r}: {name!r} is found in '{place.parent}', since files "
                "do not store this directory; pass an absolute name"
            )


def write_external(array: FileArray, selection: Any, values: Any, meaning: Any, raw: bool) -> None:
    """Write ``array[selection] = values`` to the files with the elements.

    The rows that the selection is about are read, changed in memory, and written back.
    """
    from hyperslab._hdf5.file import File

    places = [_place(array._editor, name) for name, *_ in array._facts["external"]]
    new_places = [place for place in places if not place.exists()]
    for place in new_places:
        place.touch()
    if new_places:
        # Handles look for the files again.
        array._editor.touch_external(array._address)
    first, rows, selection = _rows(array.shape, selection)
    shape = (rows, *array.shape[1:]) if array.shape else ()
    stored = array._stored_type
    size = 0 if stored is None else stored.size
    start = first * math.prod(array.shape[1:]) * size
    with File.in_memory() as memory:
        part: Any = memory.create_dataset("part", shape, array.id.get_type().copy())
        part._write_values(..., array.read(slice(first, first + rows) if array.shape else ()))
        if raw:
            part._set_raw(selection, values, meaning)
        else:
            part._write_values(selection, values, meaning)
        memory.flush()
        at = part.id.get_offset()
        count = math.prod(shape) * size
        new = memory.image()[at : at + count] if count else b""
    for place, (_, offset, length) in zip(places, array._facts["external"], strict=True):
        length = _UNLIMITED if length is None else length
        piece = new[: max(0, length - start)] if start < length else b""
        if piece:
            with place.open("r+b") as file:
                file.seek(offset + start)
                file.write(piece)
        new = new[len(piece) :]
        start = max(0, start - length)
        if not new:
            break


def _rows(shape: tuple[int, ...], selection: Any) -> tuple[int, int, Any]:
    """Return the first row and the number of rows that a selection is about, and the selection there."""
    parts = selection if isinstance(selection, tuple) else (selection,)
    length = shape[0] if shape else 1
    if not shape or not parts:
        return 0, length, selection
    head = parts[0]
    if isinstance(head, (int, np.integer)) and not isinstance(head, (bool, np.bool_)):
        at = int(head) + (length if head < 0 else 0)
        if 0 <= at < length:
            return at, 1, (0, *parts[1:])
    if isinstance(head, slice):
        start, stop, step = head.indices(length)
        if step > 0 and start < stop:
            return start, stop - start, (slice(0, stop - start, step), *parts[1:])
    return 0, length, selection
