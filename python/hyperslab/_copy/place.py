"""The place of a copy while a plan makes it, and its journal: see `hyperslab._copy.run`.

**Ownership.** Each run of a plan has a random number. The journal's object ``id`` holds the number
of the plan and of the run that makes the copy. A run that resumes writes its own number there. The
previous run may still be alive: stopped, or on a machine that was cut off. It then finds another
number or no journal, and stops. Runs check ``id`` before each task, before they delete temporary
arrays, and before they move the copy to its place.

**Fence.** A run may be stopped in the middle of a task, after its last check. Tasks therefore write
to ``writing``, a store with a fence (see ``fence.rs``). On disk, a run makes its files in its own
folder ``writing-…`` and renames them from there. A run that takes over or finishes deletes this
folder, so later renames by the old run fail. On a server, each write has a condition: the object
must be as it was when ``id`` still named the run.

**Lock.** On disk, a run checks and acts under a lock of the directory ``journal``, so that no other
run comes in between. Servers and some shared file systems have no such lock. There, a run that is
stopped exactly between check and act goes unnoticed.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hyperslab import _native
from hyperslab._copy.copy import groups_above
from hyperslab._copy.directories import flush, inode, lock
from hyperslab._copy.locations import copy_options, is_remote
from hyperslab._copy.plan import CopyPlan, difference
from hyperslab._stores.store import LocalStore, resolve_store
from hyperslab.errors import DestinationError, SupersededError

__all__ = ["Place"]

SUFFIX: Final = ".hyperslab-copy"

# Names of the metadata documents of arrays and groups.
_DOCUMENTS: Final = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")

# Concurrent requests for writing metadata and for verifying stored objects.
_AT_ONCE: Final = 16

# Objects that a server deletes with one request.
_DELETED_AT_ONCE: Final = 1000

# Seconds that a run waits for another run that holds the lock. The lock is held for a few renames,
# and at the end while files are deleted. A run stopped there holds it until its process ends.
_WAIT: Final = 10.0

# Seconds after a look at the journal (or after taking over) in which a step need not look again.
_RECENT: Final = 1.0

# Prefix of the folders in which runs make their files.
_WRITING: Final = "writing-"

# Attempts at deleting a folder in which an ended run still makes files.
_ATTEMPTS: Final = 20

# Objects in the journal of a server that say how far a run has come.
_MARKS: Final = ("cleared", "finished")

# Server options that enable caches. A run must see what other runs write.
_CACHES: Final = ("cache", "cache_size", "cache_check")


class Place:
    """A destination while the copy to it is made.

    ``run``: the number of the run; ``None``: make a new number.
    """

    def __init__(
        self,
        id: str,
        destination: str,
        options: Mapping[str, Any] | None,
        fsync: bool,
        is_into: bool,
        run: str | None = None,
    ) -> None:
        self.run = secrets.token_hex(8) if run is None else run
        self._mark = f"{id} {self.run}".encode()
        # The journal's ``id`` when `plan` read it.
        self._seen: bytes | None = None
        # When this run last wrote or found its number there.
        self._looked = -math.inf
        # Keys of records in the journal, which a listing may not show yet.
        self.noted: set[str] = set()
        self._local: Path | None = None
        self._is_into = is_into
        if is_remote(destination):
            kept = {name: value for name, value in (options or {}).items() if name not in _CACHES}
            self.store, self._base = resolve_store(destination, copy_options(kept))
            self._work = self._join(self._base, SUFFIX)
        else:
            self._local = Path(destination)
            self._root = self._local.with_name(f".{self._local.name}{SUFFIX}")
            if is_into:
                # Chunks and journal are in one store.
                self.store = LocalStore(self._local.parent, fsync=fsync)
                self._base, self._work = self._local.name, self._root.name
            else:
                self.store = LocalStore(self._root, fsync=fsync)
                # Each plan has its own folder, so a late worker of another plan does no harm.
                self._base, self._work = f"new-{id[:16]}", ""
        self._fsync = fsync
        # The folder of this run. Made only by a run that begins or takes over.
        self._folder = self._root / f"{_WRITING}{self.run}" if self._local is not None else None
        # Tasks write to this store.
        self.writing = self.store._native.fenced(self._folder, self.journal("id"), self._mark)

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
        """Return the plan in the journal, or None. Fails if the plan is for another copy."""
        self._seen = id = self.store.get(self.journal("id"))
        text = None if id is None else self.store.get(self.journal("plan.json"))
        if id is None or text is None:
            return None
        if id.partition(b" ")[0] != wanted.id.encode():
            raise DestinationError(
                f"{wanted.destination}: the journal beside it is that of another copy "
                f"({difference(wanted, text)}). Make that plan again and go on, or delete {self._named()}"
            )
        found = CopyPlan.from_json(text.decode(), storage_options=wanted.storage_options)
        return replace(found, source_store=wanted.source_store)

    def _named(self) -> str:
        return str(self._root) if self._local is not None else f"{self.store.url}/{self._work}"

    def begin(self, plan: CopyPlan, is_clean: bool = False) -> None:
        """Make the journal of a new copy. ``is_clean``: a listing showed no journal.

        Fails if the destination is occupied by now.
        """
        with self.lock_out_others(make=True):
            # On a server, `take_over` fails if another run began since the last call of `plan`.
            if self._local is not None and self.plan(plan) is not None:
                raise DestinationError(f"{plan.destination}: another run has just begun a copy to it")
            if self._local is not None and (journal := self._root / "journal").is_dir():
                # Delete what a late worker left. Keep the directory: it has the lock.
                for left in (*self._root.iterdir(), *journal.iterdir()):
                    if left.is_dir() and left != journal:
                        shutil.rmtree(left, ignore_errors=True)
                    elif left != journal:
                        left.unlink(missing_ok=True)
                self._seen = None
            taken = self._seen is not None
            # A run of this copy was about to begin. Until it was superseded it may have written chunks.
            is_ours = self._seen is not None and self._seen.partition(b" ")[0] == plan.id.encode()
            self.take_over()
            there: list[str] | None = None
            name, text, is_written = self.journal("plan.json"), plan.to_json().encode(), False
            if self._local is None:
                with ThreadPoolExecutor(1) as pool:
                    # Marks of an earlier run must not meet the new plan: a later run would believe
                    # them.
                    writing = pool.submit(self.writing.set, name, text) if is_clean and not taken else None
                    there = self.store.list(self._work if plan.overwrite or plan.is_into else self._base)
                    if writing is not None:
                        writing.result()
                # Another run may have been killed while it deleted its journal. A listing that lags
                # may lack the marks.
                rest = {key for key in there if _is_below(key, self._work)} - {self.journal("id"), name}
                if rest or taken:
                    rest |= {self.journal(name) for name in _MARKS}
                self.delete(sorted(rest))
                is_written = writing is not None
            if not is_written:
                self.writing.set(name, text)
        if not plan.overwrite:
            # Another run may have begun and finished the copy before this one began.
            if is_ours and there and not self._has_documents():
                there = []
            try:
                self.check(plan, False, there)
            except DestinationError:
                self.remove_journal()
                raise

    def take_over(self) -> None:
        """Make this run the owner of the copy. The previous run can no longer write.

        Fails if another run took over since `plan` read the journal: that run keeps the copy.
        """
        # On a server through the fence, which then has looked at the claim.
        store = self.writing if self._local is None else self.store._native
        looked = time.monotonic()
        if not store.swap(self.journal("id"), self._seen, self._mark):
            raise SupersededError(
                f"{self._named()}: another run has begun, resumed or finished the copy at the same time. "
                "This run stops, and changes nothing more"
            )
        self._seen, self._looked = self._mark, looked
        self.end_writing()
        if self._folder is not None:
            # Without a lock, another run may have finished by now. Tasks then find no folder.
            with contextlib.suppress(FileNotFoundError):
                self._folder.mkdir()

    def end_writing(self) -> None:
        """Prevent tasks of all runs on this disk from putting more objects in place.

        On a server, changing or deleting ``id`` does that.
        """
        if self._local is None:
            return
        for folder in self._root.glob(f"{_WRITING}*"):
            # Renaming the folder invalidates all file names in it at once. Deleting takes longer.
            ended = folder.with_name(f"ended-{secrets.token_hex(8)}")
            try:
                folder.rename(ended)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise DestinationError(
                    f"{folder}: tasks that write there cannot be ended: {error}"
                ) from error
            for _ in range(_ATTEMPTS):
                # On NFS, other machines may reach the folder by its number until it is deleted.
                shutil.rmtree(ended, ignore_errors=True)
                if not ended.exists():
                    break
                time.sleep(0.01)

    def check_journal(self, recent: bool = False) -> None:
        """Fail if this run no longer owns the copy.

        A process that seemed dead may come back after another run has resumed or finished.
        ``recent``: on a server, a step right after a look need not look again. Its writes pass the
        fence.
        """
        looked = time.monotonic()
        if recent and self._local is None and looked - self._looked < _RECENT:
            return
        # Through the fence, which then need not look itself.
        found = self.writing.get(self.journal("id"))
        if found == self._mark:
            self._looked = looked
            return
        if found is None:
            why = "there is no journal of this copy: it was finished or given up by another run"
        elif found.partition(b" ")[0] == self._mark.partition(b" ")[0]:
            why = "another run has resumed this copy"
        else:
            why = "the journal is that of another copy: this one was finished or given up by another run"
        raise SupersededError(f"{self._named()}: {why}. This run stops, and changes nothing more")

    @contextlib.contextmanager
    def lock_out_others(self, make: bool = False, wait: float | None = None) -> Iterator[bool]:
        """Lock out other runs on this disk.

        They cannot begin, resume, finish or give up a copy to this place meanwhile. Yields whether
        there is a lock. ``make``: make the journal's directory, which carries the lock. ``wait``:
        seconds until this fails if another run has the lock.
        """
        descriptor = self._lock(make, _WAIT if wait is None else wait)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _lock(self, make: bool, wait: float) -> int | None:
        return None if self._local is None else lock(self._root / "journal", make, wait, self._named)

    def note_done(self, stage: int, record: str) -> str:
        """Record a finished task. Returns the key of the record."""
        key = self.journal(f"done/{stage}/{record}")
        self.noted.add(key)
        if self._local is None:
            # The fence lets a new object pass for a second after another run has taken over, and takes
            # it back after a look. A run that finds the record relies on the objects: look before.
            self.check_journal()
        self.writing.set(key, b"done")
        if self._local is None:
            try:
                self.check_journal()
            except SupersededError:
                self.store._native.delete_all([key])
                raise
        return key

    @contextlib.contextmanager
    def taking_back(self) -> Iterator[None]:
        """Take back late objects of this run, also in the journal, if the block fails as superseded."""
        try:
            yield
        except DestinationError:
            self.take_back()
            raise

    def take_back(self) -> None:
        """Delete objects on a server that this run has created too late. Call it after a failure."""
        if self._local is None:
            # The fence does that when it looks at the journal. The failure is the error to report.
            with contextlib.suppress(Exception):
                self.check_journal()

    def records(self, stage: int) -> dict[tuple[int, int], set[str]]:
        """Return the hashes of what workers wrote, for each range of tasks that they recorded."""
        found: dict[tuple[int, int], set[str]] = {}
        listed = self.store.list(self.journal(f"done/{stage}"))
        self.noted.update(listed)
        for key in listed:
            first, _, rest = key.rpartition("/")[2].partition("-")
            end, _, record = rest.partition("-")
            if first.isdecimal() and end.isdecimal() and int(first) < int(end):
                found.setdefault((int(first), int(end)), set()).add(record)
        return found

    def clear(self, plan: CopyPlan) -> None:
        """On a server, delete the old node before anything is written, documents first."""
        if self._local is not None or not plan.overwrite or self.store.get(self.journal("cleared")):
            return
        self.enclosing_groups(plan).forget()
        old = [key for key in self.store.list(self._base) if not _is_below(key, self._work)]
        documents = [key for key in old if key.rpartition("/")[2] in _DOCUMENTS]
        self.delete(sorted(documents, key=lambda key: key.count("/")))
        self.delete([key for key in old if key.rpartition("/")[2] not in _DOCUMENTS])
        self.writing.set(self.journal("cleared"), b"cleared")

    def remove_journal(self, listed: list[str] | None = None) -> None:
        """Delete the journal. ``listed``: its keys, if this run has just listed them and looked at it."""
        self.end_writing()
        if self._local is not None:
            # The mark that all is done is deleted last.
            for name in ("temporary", *([] if self._is_into else [self._base]), "old", "journal/done"):
                shutil.rmtree(self._root / name, ignore_errors=True)
            for name in ("id", "plan.json", "finished"):
                (self._root / "journal" / name).unlink(missing_ok=True)
            shutil.rmtree(self._root, ignore_errors=True)
            return
        # Delete the marks and ``id`` after the plan: a copy without a plan is not resumed. All names that
        # are known are deleted, as listings may lag.
        last = [self.journal(name) for name in (*_MARKS, "id")]
        is_listed = listed is not None
        if listed is None:
            listed = self.store.list(self._work)
        if not is_listed and not listed and self.writing.get(self.journal("id")) is None:
            # Another run has deleted the journal.
            return
        known = {*listed, *self.noted, self.journal("plan.json")}
        first = sorted(known.difference(last))
        if len(first) + len(last) <= _DELETED_AT_ONCE:
            self.delete([*first, *last], recent=is_listed)
        else:
            self.delete(first)
            self.delete(last)

    @property
    def is_remote(self) -> bool:
        return self._local is None

    def delete(self, keys: Sequence[str], recent: bool = False) -> None:
        """On a server, delete objects, unless this run no longer owns the copy.

        The objects were just listed, or nobody else writes them. A run that is suspended between the look at
        the journal and a request still deletes the objects of this request.
        """
        for at in range(0, len(keys), _DELETED_AT_ONCE):
            self.check_journal(recent)
            self.store._native.delete_all(keys[at : at + _DELETED_AT_ONCE])

    def sweep(self, wait: float | None = None) -> None:
        """Delete files of late tasks, unless a run is making a copy to this place.

        ``wait``: as in `lock_out_others`.
        """
        if self._local is None or self._is_into:
            return
        with self.lock_out_others(make=True, wait=wait) as is_locked:
            if is_locked and self.store.get(self.journal("id")) is None:
                shutil.rmtree(self._root, ignore_errors=True)

    def remove_leftovers(self) -> None:
        """Delete the rest of the journal of a complete copy: a run was killed while it deleted it.

        `plan` has found no plan in this journal.
        """
        if self._local is not None:
            if self._root.exists():
                self.sweep()
        elif self.store.list(self._work):
            # If another run has begun since, the journal belongs to that run.
            with contextlib.suppress(SupersededError):
                self.take_over()
                self.remove_journal()

    def drop_temporary(self, stage: int) -> None:
        """Delete temporary arrays on disk that no task needs any more."""
        if self._local is None or stage < 0:
            return
        aside = self._root / f"dropped-{stage}-{self.run}"
        with self.lock_out_others():
            # A run that resumed may need them: an absent chunk would read as fill values.
            self.check_journal()
            with contextlib.suppress(OSError):
                (self._root / "temporary" / str(stage)).rename(aside)
        shutil.rmtree(aside, ignore_errors=True)

    def discard(self, plan: CopyPlan) -> None:
        if self._local is None and not self._is_into and not self.is_finished():
            self.delete([key for key in self.store.list(self._base) if not _is_below(key, self._work)])
        self.remove_journal()

    def remove_remains(self, plan: CopyPlan) -> bool:
        """Delete a journal on this disk that names no copy. Returns True if there was one.

        A run was killed while it deleted its journal, or before it had written the plan. The
        destination stays as it is. On a server, the next copy deletes such a journal.
        """
        if self._local is None or not self._root.is_dir():
            return False
        with self.lock_out_others(make=True):
            # Another run may have begun by now.
            if self.plan(plan) is not None:
                return False
            self.remove_journal()
        return True

    # -- the destination

    def check(self, plan: CopyPlan, has_begun: bool, there: list[str] | None = None) -> None:
        """Fail if the destination is occupied, or if source and destination overlap.

        ``there``: the keys at a destination on a server, if they were just listed.
        """
        if self._is_into:
            if plan.destination in (plan.sources or (plan.source,)):
                raise DestinationError(f"{plan.destination}: it is the source")
            return
        if self._local is None:
            if any(
                _is_below(source, plan.destination) or _is_below(plan.destination, source)
                for source in plan.sources or (plan.source,)
            ):
                raise DestinationError(f"{plan.destination}: source and destination are one inside the other")
            if not has_begun and there is None:
                there = self.list_destination()
            # A run may have been killed right after it claimed the journal, or while it deleted it.
            if not has_begun and any(not self.is_journal(key) for key in there or ()):
                if not plan.overwrite:
                    raise DestinationError(
                        f"{plan.destination}: objects are there already; set overwrite to replace them"
                    )
                if not self._has_documents():
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
        for place in plan.sources or (plan.source,):
            if is_remote(place) or "://" in place:
                continue
            source, target = os.path.realpath(place), os.path.realpath(self._local)
            if _is_below(source, target) or _is_below(target, source):
                raise DestinationError(f"{plan.destination}: source and destination are one inside the other")

    def _has_documents(self) -> bool:
        return any(self.store.get(self.data(name)) is not None for name in _DOCUMENTS)

    def list_destination(self) -> list[str] | None:
        """Return the keys at a destination on a server; ``None`` on disk, or for a region."""
        return None if self._is_into or self._local is not None else self.store.list(self._base)

    def is_journal(self, key: str) -> bool:
        """Return True if an object belongs to the journal, or to temporary arrays."""
        return _is_below(key, self._work)

    def is_finished(self) -> bool:
        """Return True if the copy is in place and only the journal is left to delete."""
        mark = self.store.get(self.journal("finished"))
        if mark is None or self._local is None or self._is_into:
            return mark is not None
        return mark == inode(self._local)

    def holds_documents(self, plan: CopyPlan) -> bool:
        """Return True if the metadata at the destination is the metadata of the copy."""
        if self._is_into or (self._local is not None and not self._local.is_dir()):
            return False
        there = self.at_destination()
        return all(there.store.get(there.data(key)) == text.encode() for key, text in plan.documents)

    def at_destination(self) -> Place:
        """Return this place as it is once the copy is finished."""
        there = copy.copy(self)
        if self._local is not None and not self._is_into:
            there.store, there._base = LocalStore(self._local), ""
        return there

    def enclosing_groups(self, plan: CopyPlan) -> _native.GroupsAbove:
        """Return the groups above the destination that have consolidated metadata."""
        return groups_above(plan.destination, "", plan.storage_options, self._fsync)

    def finish(self, plan: CopyPlan, is_noted: bool = False) -> None:
        """Write the metadata, and move the copy to its place.

        ``is_noted``: this process has written all of the journal, so its keys need no listing.
        """

        def look() -> _native.GroupsAbove:
            found = self.enclosing_groups(plan)
            found.forget()
            return found

        def write(document: tuple[str, str]) -> None:
            key, text = document
            self.writing.set(self.data(key), text.encode())

        above: _native.GroupsAbove | None = None
        listed: list[str] | None = None
        with ThreadPoolExecutor(_AT_ONCE + 1) as pool:
            looking = None if self._is_into else pool.submit(look)
            # Not a recent look: metadata must not appear while another run goes on.
            self.check_journal()
            if looking is not None:
                if plan.overwrite:
                    # Nobody may read the new chunks by an old description.
                    looking.result()
                # Write groups after their members, and `.zarray` and `.zgroup` after `.zattrs`.
                for _, same in itertools.groupby(
                    plan.documents, lambda one: (one[0].count("/"), _last(one[0]))
                ):
                    list(pool.map(write, same))
                above = looking.result()
        with self.lock_out_others():
            if self._local is None:
                # The keys to delete are listed meanwhile: the listing need not show the mark.
                with ThreadPoolExecutor(1) as pool:
                    listing = None if is_noted else pool.submit(self.store.list, self._work)
                    # A run that finds the mark relies on the metadata: this look proves that it was in
                    # time.
                    self.check_journal()
                    self.writing.set(self.journal("finished"), b"finished")
                    listed = [] if listing is None else listing.result()
            else:
                self.check_journal()
                self.end_writing()
                if self._is_into:
                    self.store.set(self.journal("finished"), b"finished")
                else:
                    self._move(self._local, plan.overwrite)
            if above is not None:
                above.renew()
            self.remove_journal(listed)

    def _move(self, target: Path, overwrite: bool) -> None:
        new = self._root / self._base
        # Record the identity of the copy's directory. If it is at the destination, all is done.
        self.store.set(self.journal("finished"), inode(new) or b"")
        try:
            if overwrite and target.is_dir():
                _native.replace_directory(str(new), str(target), str(self._root / "old"))
            else:
                new.rename(target)
        except OSError as error:
            raise DestinationError(f"{target}: the finished copy cannot take its place: {error}") from error
        if self._fsync:
            flush(target.parent)


def _last(key: str) -> bool:
    return not key.endswith(".zattrs")


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith(above.rstrip("/") + "/")
