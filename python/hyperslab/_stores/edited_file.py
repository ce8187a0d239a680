"""HDF5 files that are being changed."""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from typing import Any

from hyperslab import _native
from hyperslab._stores.store import FileStore, Store
from hyperslab.errors import UnsupportedError

__all__ = ["EditedFile", "image_of", "is_stream"]

# Bytes that a file object gets at once.
_PIECE = 8 << 20


class EditedFile(FileStore):
    """An HDF5 file that is being changed: the store of its arrays and groups.

    Changes become permanent, and visible to other programs, by `flush`, by `close`, when the last
    array or group of the file is dropped, and when the process ends.

    ``sink``: a Python file object that gets the bytes of a file in memory. ``pages``: bytes of a page,
    if the closed file gets pages that it did not have. ``path``: the path of a file on the disk.
    """

    def __init__(
        self,
        handle: _native.StoreHandle,
        sink: Any = None,
        pages: int | None = None,
        path: str | None = None,
    ) -> None:
        self._native, self._read_only, self._options = handle, False, []
        self._sink, self._pages, self._path = sink, pages, path
        self._is_object = sink is not None
        # The dimensions of a NetCDF file, and whether attributes are written in netCDF's types.
        self._netcdf: Any = None
        self._writes_netcdf = False
        self._finisher = weakref.finalize(self, _finish, handle, sink, os.getpid(), pages, path)

    def flush(self) -> None:
        """Make all changes permanent, and visible to other programs."""
        self._native.check_open()
        editor = self._native.editor()
        if editor is not None:
            editor.flush()
            if not is_stream(self._sink):
                _write_out(editor, self._sink, self._pages)

    def set_flush_every(self, seconds: float) -> None:
        """Flush with the first change that comes ``seconds`` after the last such flush."""
        editor = self._native.editor()
        assert editor is not None
        editor.set_flush_every(seconds)

    def close(self) -> None:
        """Make all changes permanent and close the file. Its contents cannot be read any more.

        If this fails, the file stays open.
        """
        _finish(self._native, self._sink, os.getpid(), self._pages, self._path)
        self._finisher.detach()
        # A temporary file is removed when nobody refers to it.
        self._sink = None

    def with_read_only(self, read_only: bool = True) -> Store:
        """Return the store itself: its file is being changed."""
        if read_only:
            raise UnsupportedError(f"{self.url} is being changed: open it again with mode 'r'")
        return self

    def reopening(self) -> tuple[str, list[tuple[str, str]], bool]:
        """Fail: other processes cannot continue the changes of this one."""
        raise TypeError(
            f"{self.url} is being changed, so it cannot be pickled: close it, and open it with 'r'"
        )


def is_stream(sink: Any) -> bool:
    """Return True for a file object that takes bytes one after the other only, such as a pipe."""
    if sink is None:
        return False
    seekable = getattr(sink, "seekable", None)
    return not hasattr(sink, "seek") or (seekable is not None and not seekable())


def _finish(
    handle: _native.StoreHandle, sink: Any, process: int, pages: int | None, path: str | None
) -> None:
    # A forked process has a copy of the changes, which are its parent's.
    if not handle.is_open or os.getpid() != process:
        return
    editor = handle.editor()
    if editor is not None:
        editor.finish(pages)
        if pages is None:
            pages = editor.lost_pages()
        _write_out(editor, sink, pages)
    handle.close()
    if path is not None and pages is not None:
        # Another program that changes the file by now keeps it without pages.
        with suppress(BlockingIOError):
            _native.paginate_file(path, pages)


def image_of(editor: _native.Editor, pages: int | None) -> bytes:
    """Return the bytes of a file, after a flush."""
    image = editor.image()
    return image if pages is None else _native.paginated_image(image, pages)


def _write_out(editor: _native.Editor, sink: Any, pages: int | None) -> None:
    if sink is None:
        return
    streams = is_stream(sink)
    if not streams:
        sink.seek(0)
    if pages is None:
        offset = 0
        while part := editor.part(offset, _PIECE):
            _write(sink, part)
            offset += len(part)
    else:
        _write(sink, image_of(editor, pages))
    if not streams:
        sink.truncate()
    if hasattr(sink, "flush"):
        sink.flush()


def _write(sink: Any, data: bytes) -> None:
    left = memoryview(data)
    while left:
        written = sink.write(left)
        left = left[len(left) if written is None else written :]
