"""Where a copy lies while a plan makes it, and its journal: see `hyperslab._copy_run`."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from hyperslab import _native
from hyperslab._copy_plan import CopyPlan
from hyperslab._store import LocalStore, resolve_store
from hyperslab.errors import DestinationError

__all__ = ["Place", "is_remote"]

SUFFIX: Final = ".hyperslab-copy"

# Names of documents that make an array or a group, and those beside them.
_DOCUMENTS: Final = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")

# Requests at a time where metadata is written and what is stored is verified.
_AT_ONCE: Final = 16


def is_remote(place: str) -> bool:
    return _native.takes_storage_options(place)


class Place:
    """A destination while the copy to it is made."""

    def __init__(
        self, id: str, destination: str, options: Mapping[str, Any] | None, fsync: bool, is_into: bool
    ) -> None:
        self._local: Path | None = None
        self._is_into = is_into
        if is_remote(destination):
            self.store, self._base = resolve_store(destination, options)
            self._work = self._join(self._base, SUFFIX)
        else:
            self._local = Path(destination)
            self._root = self._local.with_name(f".{self._local.name}{SUFFIX}")
            if is_into:
                # Chunks and journal in one store.
                self.store = LocalStore(self._local.parent, fsync=fsync)
                self._base, self._work = self._local.name, self._root.name
            else:
                self.store = LocalStore(self._root, fsync=fsync)
                # Of each plan its own: a worker that is late with a task of another one does no harm.
                self._base, self._work = f"new-{id[:16]}", ""
        self._fsync = fsync

    @staticmethod
    def _join(*parts: str) -> str:
        return "/".join(part for part in parts if part)

    def data(self, path: str) -> str:
        return self._join(self._base, path)

    def journal(self, name: str) -> str:
        return self._join(self._work, "journal", name)

    def temporary(self, name: str) -> str:
        return self._join(self._work, "temporary", name)

    # -- the journal

    def plan(self, wanted: CopyPlan) -> CopyPlan | None:
        """The plan that is being executed, if it is for the same copy; another one is an error."""
        id, text = self.store.get(self.journal("id")), self.store.get(self.journal("plan.json"))
        if id is None or text is None:
            return None
        if id != wanted.id.encode():
            raise DestinationError(
                f"{wanted.destination}: the journal beside it is that of another copy "
                f"({_difference(wanted, text)}). Make that plan again and go on, or delete {self._named()}"
            )
        return CopyPlan.from_json(text.decode(), storage_options=wanted.storage_options)

    def _named(self) -> str:
        return str(self._root) if self._local is not None else f"{self.store.url}/{self._work}"

    def begin(self, plan: CopyPlan) -> None:
        if self._local is not None:
            # What a worker left that came too late.
            shutil.rmtree(self._root, ignore_errors=True)
        self.store.set(self.journal("plan.json"), plan.to_json().encode())
        self.store.set(self.journal("id"), plan.id.encode())

    def check_journal(self, id: str) -> None:
        """A worker that everybody took for dead may come back when the copy is finished."""
        if self.store.get(self.journal("id")) != id.encode():
            raise DestinationError(
                f"{self._named()}: there is no journal of this copy: it was finished or given up, and this "
                "task is of no use"
            )

    def records(self, stage: int) -> dict[int, set[str]]:
        """For each task that a worker has noted, hashes of what it has written."""
        found: dict[int, set[str]] = {}
        for key in self.store.list(self.journal(f"done/{stage}")):
            number, _, record = key.rpartition("/")[2].partition("-")
            if number.isdecimal():
                found.setdefault(int(number), set()).add(record)
        return found

    def clear(self, plan: CopyPlan) -> None:
        """On a server: deletes what is replaced, documents first, before anything is written."""
        if self._local is not None or not plan.overwrite or self.store.get(self.journal("cleared")):
            return
        old = [key for key in self.store.list(self._base) if not _is_below(key, self._work)]
        documents = [key for key in old if key.rpartition("/")[2] in _DOCUMENTS]
        self._delete(sorted(documents, key=lambda key: key.count("/")))
        self._delete([key for key in old if key.rpartition("/")[2] not in _DOCUMENTS])
        self.store.set(self.journal("cleared"), b"cleared")

    def remove_journal(self) -> None:
        if self._local is not None:
            # The mark that all is done goes last.
            for name in ("temporary", *([] if self._is_into else [self._base]), "old", "journal/done"):
                shutil.rmtree(self._root / name, ignore_errors=True)
            for name in ("id", "plan.json", "finished"):
                (self._root / "journal" / name).unlink(missing_ok=True)
            shutil.rmtree(self._root, ignore_errors=True)
            return
        keys = self.store.list(self._work)
        last = self.journal("finished")
        self._delete([key for key in keys if key != last])
        self.store.delete(last)

    def _delete(self, keys: list[str]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(self.store.delete, keys):
                pass

    def drop_temporary(self, stage: int) -> None:
        """Deletes temporary arrays that nobody reads any more."""
        if self._local is not None and stage >= 0:
            shutil.rmtree(self._root / "temporary" / str(stage), ignore_errors=True)

    def discard(self, plan: CopyPlan) -> None:
        if self._local is None and not self._is_into and not self.is_finished():
            self._delete([key for key in self.store.list(self._base) if not _is_below(key, self._work)])
        self.remove_journal()

    # -- the destination

    def check(self, plan: CopyPlan, has_begun: bool) -> None:
        """Refuses a destination where something is, and one that is in the source or around it."""
        if self._is_into:
            if plan.source == plan.destination:
                raise DestinationError(f"{plan.destination}: it is the source")
            return
        if self._local is None:
            if _is_below(plan.source, plan.destination) or _is_below(plan.destination, plan.source):
                raise DestinationError(f"{plan.destination}: source and destination are one inside the other")
            if not has_begun and self.store.list(self._base):
                if not plan.overwrite:
                    raise DestinationError(
                        f"{plan.destination}: objects are there already; set overwrite to replace them"
                    )
                if not any(self.store.get(self.data(name)) is not None for name in _DOCUMENTS):
                    raise DestinationError(
                        f"{plan.destination}: the objects there are no array or group; they are not replaced"
                    )
            return
        if os.path.lexists(self._local):
            if not plan.overwrite:
                raise DestinationError(f"{plan.destination}: it exists already; set overwrite to replace it")
            if self._local.is_symlink() or not _native.is_replaceable_directory(str(self._local)):
                raise DestinationError(
                    f"{plan.destination}: it exists and is no array or group; it is not replaced"
                )
        if not is_remote(plan.source) and "://" not in plan.source:
            source, target = os.path.realpath(plan.source), os.path.realpath(self._local)
            if _is_below(source, target) or _is_below(target, source):
                raise DestinationError(f"{plan.destination}: source and destination are one inside the other")

    def is_finished(self) -> bool:
        """Whether the copy is in its place, and only the journal has to go."""
        mark = self.store.get(self.journal("finished"))
        if mark is None or self._local is None or self._is_into:
            return mark is not None
        return mark == _inode(self._local)

    def finish(self, plan: CopyPlan) -> None:
        """Writes metadata, and moves the copy to its place."""

        def write(document: tuple[str, str]) -> None:
            key, text = document
            self.store.set(self.data(key), text.encode())

        if self._is_into:
            self.store.set(self.journal("finished"), b"finished")
            self.remove_journal()
            return
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            # Groups after what is in them; `.zarray` and `.zgroup` after `.zattrs`.
            for _, same in itertools.groupby(plan.documents, lambda one: (one[0].count("/"), _last(one[0]))):
                list(pool.map(write, same))
        if self._local is None:
            self.store.set(self.journal("finished"), b"finished")
        else:
            self._move(self._local, plan.overwrite)
        self.remove_journal()

    def _move(self, target: Path, overwrite: bool) -> None:
        new = self._root / self._base
        # Which directory is the copy: if that is at the destination, all is done.
        self.store.set(self.journal("finished"), _inode(new) or b"")
        try:
            if overwrite and target.is_dir():
                _native.replace_directory(str(new), str(target), str(self._root / "old"))
            else:
                new.rename(target)
        except OSError as error:
            raise DestinationError(f"{target}: the finished copy cannot take its place: {error}") from error
        if self._fsync:
            _flush(target.parent)


def _inode(directory: Path) -> bytes | None:
    """What tells a directory from all others, whatever its name is."""
    try:
        found = directory.stat()
    except OSError:
        return None
    return f"{found.st_dev}:{found.st_ino}".encode()


def _last(key: str) -> bool:
    return not key.endswith(".zattrs")


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith(above.rstrip("/") + "/")


def _flush(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _difference(wanted: CopyPlan, text: bytes) -> str:
    """In what two plans differ, in words."""
    try:
        found = CopyPlan.from_json(text.decode())
    except ValueError as error:
        return str(error)
    if found.source != wanted.source:
        return f"of {found.source}, not of {wanted.source}"
    if found.options != wanted.options or found.task_bytes != wanted.task_bytes:
        ours, theirs = json.loads(wanted.options), json.loads(found.options)
        names = [f"{name}: {theirs.get(name)!r}" for name in ours if ours[name] != theirs.get(name)]
        return "with other options: " + (", ".join(names) or f"task_size: {found.task_bytes}")
    return "its source had other metadata"
