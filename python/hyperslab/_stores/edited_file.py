"""HDF5 files that are being changed."""

from __future__ import annotations

import os
import weakref
from typing import Any

from hyperslab import _native
from hyperslab._stores.store import FileStore, Store
from hyperslab.errors import UnsupportedError

__all__ = ["EditedFile"]


class EditedFile(FileStore):
    """An HDF5 file that is being changed: the store of its arrays and groups.

    Changes become permanent, and visible to other programs, by `flush`, by `close`, when the last
    array or group of the file is dropped, and when the process ends.

    ``sink``: a Python file object that gets the bytes of a file in memory.
    """

    def __init__(self, handle: _native.StoreHandle, sink: Any = None) -> None:
        self._native, self._read_only, self._options = handle, False, []
        self._sink = sink
        self._is_object = sink is not None
        self._finisher = weakref.finalize(self, _finish, handle, sink, os.getpid())

    def flush(self) -> None:
        """Make all changes permanent, and visible to other programs."""
        self._native.check_open()
        editor = self._native.editor()
        if editor is not None:
            editor.flush()
            _write_out(editor, self._sink)

    def set_flush_every(self, seconds: float) -> None:
        """Flush with the first change that comes so many seconds after the last such flush."""
        editor = self._native.editor()
        assert editor is not None
        editor.set_flush_every(seconds)

    def close(self) -> None:
        """Make all changes permanent and close the file. Its contents cannot be read any more.

        If this fails, the file stays open.
        """
        _finish(self._native, self._sink, os.getpid())
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


def _finish(handle: _native.StoreHandle, sink: Any, process: int) -> None:
    # A forked process has a copy of the changes, which are its parent's.
    if not handle.is_open or os.getpid() != process:
        return
    editor = handle.editor()
    if editor is not None:
        editor.finish()
        _write_out(editor, sink)
    handle.close()


def _write_out(editor: _native.Editor, sink: Any) -> None:
    if sink is None:
        return
    sink.seek(0)
    image = memoryview(editor.image())
    while image:
        written = sink.write(image)
        image = image[len(image) if written is None else written :]
    sink.truncate()
    if hasattr(sink, "flush"):
        sink.flush()
