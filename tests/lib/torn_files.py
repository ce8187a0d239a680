"""HDF5 files as killed programs leave them: every state between two flushes of h5py.

A program writes through h5py into memory, and each write of the HDF5 library is recorded. A prefix of the
writes is what a killed process leaves. Without some of the writes since the last flush, it is what a power
cut may leave.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np

TEXT = h5py.string_dtype()


class Recorder(io.RawIOBase):
    """A file in memory that records its changes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.at = 0
        self.log: list[tuple[int, bytes | None]] = []

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = offset + (0, self.at, len(self.data))[whence]
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer: Any) -> int:
        part = self.data[self.at : self.at + len(buffer)]
        buffer[: len(part)] = part
        self.at += len(part)
        return len(part)

    def write(self, data: Any) -> int:
        new = bytes(data)
        apply(self.data, (self.at, new))
        self.log.append((self.at, new))
        self.at += len(new)
        return len(new)

    def truncate(self, size: int | None = None) -> int:
        length = self.at if size is None else size
        apply(self.data, (length, None))
        self.log.append((length, None))
        return length

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def apply(data: bytearray, change: tuple[int, bytes | None]) -> None:
    """Makes a change: bytes at an offset, or a length."""
    at, new = change
    if new is None:
        if len(data) > at:
            del data[at:]
        data.extend(bytes(at - len(data)))
        return
    if len(data) < at:
        data.extend(bytes(at - len(data)))
    data[at : at + len(new)] = new


@dataclass
class Recording:
    """The changes of a file, and its flushed state at each of them."""

    log: list[tuple[int, bytes | None]]
    # For each flush: the number of changes before it was complete.
    flushes: list[int] = field(default_factory=list)
    # For each dataset: its values after each operation, with the number of changes before it, and whether
    # there was a flush since the operation (the number of the flush).
    versions: dict[str, list[tuple[int, int, np.ndarray[Any, Any]]]] = field(default_factory=dict)
    chunks: dict[str, tuple[int, ...] | None] = field(default_factory=dict)

    def state(self, upto: int, dropped: frozenset[int] = frozenset()) -> bytes:
        """Returns the file after a number of changes, without some of them."""
        data = bytearray()
        for number, change in enumerate(self.log[:upto]):
            if number not in dropped:
                apply(data, change)
        return bytes(data)

    def promised(self, upto: int) -> int:
        """Returns the number of flushes that were complete after a number of changes."""
        return sum(done <= upto for done in self.flushes)

    def allowed(self, name: str, upto: int) -> list[np.ndarray[Any, Any]] | None:
        """Returns what a dataset may have: its values of the last flush, and all later ones."""
        flushed = self.promised(upto)
        before = [value for at, flush, value in self.versions[name] if flush <= flushed and at <= upto]
        if not any(flush <= flushed for _, flush, _ in self.versions[name]):
            return None
        later = [value for at, flush, value in self.versions[name] if flush > flushed and at <= upto]
        return before[-1:] + later


def record(seed: int, libver: Any, flushes: int = 4) -> Recording:
    """Runs a random program of h5py, and records it."""
    rng = np.random.default_rng(seed)
    file, recording = Recorder(), Recording([])
    recording.log = file.log
    h5 = h5py.File(file, "w", libver=libver)
    names: list[str] = []
    pending: list[tuple[str, int, np.ndarray[Any, Any]]] = []

    def note(name: str, at: int) -> None:
        pending.append((name, at, np.asarray(h5[name][...])))

    def numbers(shape: Any) -> np.ndarray[Any, Any]:
        # Every value occurs once, so that a wrong one is seen.
        note_number[0] += 1
        count = int(np.prod(shape))
        return (np.arange(count, dtype="i8").reshape(shape) + note_number[0] * 100_003).astype("i8")

    note_number = [0]

    def new() -> None:
        at = len(file.log)
        group = ["", "g/", "g/h/"][int(rng.integers(3))]
        name = f"{group}d{len(names)}" + "x" * int(rng.integers(12))
        kind = int(rng.integers(5))
        rows = int(rng.integers(1, 60))
        chunks: tuple[int, ...] | None = None
        if kind == 0:
            h5.create_dataset(name, data=numbers((rows, 3)))
        elif kind == 1:
            chunks = (int(rng.integers(1, 9)), 3)
            kinds: list[dict[str, Any]] = [{"compression": "gzip"}, {"fletcher32": True, "shuffle": True}]
            more = kinds[int(rng.integers(2))]
            h5.create_dataset(name, data=numbers((rows, 3)), chunks=chunks, maxshape=(None, 3), **more)
        elif kind == 2:
            chunks = (int(rng.integers(2, 12)),)
            h5.create_dataset(name, data=numbers((rows,)), chunks=chunks, compression="gzip", maxshape=(200,))
        elif kind == 3:
            chunks = (int(rng.integers(2, 6)), 2)
            h5.create_dataset(name, data=numbers((rows, 4)), chunks=chunks, maxshape=(None, None))
        else:
            texts = [f"{name} {row} " + "t" * int(rng.integers(60)) for row in range(rows)]
            h5.create_dataset(name, data=texts, dtype=TEXT)
        for number in range(int(rng.integers(4))):
            h5[name].attrs[f"a{number}"] = f"{name} {number}"
        names.append(name)
        recording.chunks[name] = chunks
        recording.versions[name] = []
        note(name, at)

    def change() -> None:
        at = len(file.log)
        name = names[int(rng.integers(len(names)))]
        data = h5[name]
        start = int(rng.integers(len(data)))
        stop = int(rng.integers(start, len(data))) + 1
        if data.dtype.kind == "O":
            data[start:stop] = [f"{name} new {note_number[0]} " + "u" * int(rng.integers(90))] * (
                stop - start
            )
            note_number[0] += 1
        elif data.chunks is not None and rng.integers(2) and len(data) < 150:
            rows = int(rng.integers(1, 30))
            new_rows = numbers((rows, *data.shape[1:]))
            data.resize(len(data) + rows, axis=0)
            data[-rows:] = new_rows
        else:
            # Values that compress in other ways: chunks move.
            values = numbers((stop - start, *data.shape[1:]))
            data[start:stop] = values if rng.integers(2) else values * 7919 % 2**40
        note(name, at)

    for number in range(flushes):
        for _ in range(int(rng.integers(1, 5))):
            new()
        for _ in range(int(rng.integers(8))):
            change()
        # A write without a flush may be seen, too.
        for name, at, value in pending:
            recording.versions[name].append((at, number + 1, value))
        pending.clear()
        h5.flush()
        recording.flushes.append(len(file.log))
    h5.close()
    # Whatever closing writes is after the last flush.
    return recording


@dataclass
class Verdict:
    """The parts of a torn file that came back."""

    opened_before: bool = False
    opened_after: bool = False
    in_place: bool = False
    right: int = 0
    found: int = 0
    named: int = 0
    # Datasets with wrong values that the plan names as doubtful.
    doubtful: int = 0
    wrong: list[str] = field(default_factory=list)


def read_all(path: Path) -> dict[str, np.ndarray[Any, Any]] | None:
    """Returns all datasets, as h5py reads them. `None`: it cannot read all of them."""
    found: dict[str, np.ndarray[Any, Any]] = {}

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset):
            found[name] = np.asarray(node[...])
            dict(node.attrs)

    try:
        with h5py.File(path, "r") as h5:
            h5.visititems(visit)
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, UnicodeDecodeError):
        return None
    return found


def fits(
    value: np.ndarray[Any, Any],
    allowed: list[np.ndarray[Any, Any]],
    may_fill: np.ndarray[Any, Any] | bool,
) -> bool:
    """Returns whether each element is one of the allowed versions, or fill value where that may be."""
    shapes = {one.shape for one in allowed}
    if value.shape not in shapes or value.dtype.kind != allowed[0].dtype.kind:
        return False
    first = allowed[0].shape
    ok = np.zeros(value.shape, bool)
    zero = value == (b"" if value.dtype.kind == "O" else 0)
    for one in allowed:
        inside = tuple(slice(0, min(a, b)) for a, b in zip(one.shape, value.shape, strict=True))
        ok[inside] |= value[inside] == one[inside]
    # Rows that were never flushed may be missing.
    beyond = np.ones(value.shape, bool)
    beyond[tuple(slice(0, length) for length in first)] = False
    return bool(np.all(ok | (zero & (beyond | may_fill))))


def judge(recording: Recording, upto: int, data: bytes, folder: Path) -> Verdict:
    """Repairs a torn file, and compares what came back with what was flushed."""
    verdict = Verdict()
    torn, new = folder / "torn.h5", folder / "new.h5"
    torn.write_bytes(data)
    new.unlink(missing_ok=True)
    promised = {
        name: allowed for name in recording.versions if (allowed := recording.allowed(name, upto)) is not None
    }

    def all_right(found: dict[str, np.ndarray[Any, Any]] | None) -> bool:
        return found is not None and all(
            name in found and fits(found[name], allowed, False) for name, allowed in promised.items()
        )

    verdict.opened_before = all_right(read_all(torn))
    try:
        plan = hs.repair(torn)
    except hs.HyperslabError as error:
        if promised:
            verdict.wrong.append(f"refused: {error}")
        return verdict
    # A file that looks closed: the plan names more if it is told that the program was killed.
    looks_closed = not plan and not plan.lost
    if plan.needs_target:
        done = hs.repair(torn, plan, to=new)
        assert torn.read_bytes() == data
    else:
        done, new = hs.repair(torn, plan), torn
        verdict.in_place = bool(plan)
    found = read_all(new)
    verdict.opened_after = found is not None
    if found is None:
        verdict.wrong.append("h5py does not read the result")
        return verdict
    with hs.File(new) as ours:
        for name, value in found.items():
            mine = np.asarray(ours[name][...])
            # Rows that were not flushed may be seen by one of them only.
            if not np.array_equal(mine, value) and not (
                name in promised and fits(mine, promised[name], False) and fits(value, promised[name], False)
            ):
                verdict.wrong.append(f"{name}: hyperslab and h5py read different values")
    told = hs.repair(torn, killed=True) if looks_closed else done
    doubtful = {loss.path.strip("/") for loss in told.doubtful}
    losses: dict[str, list[Any]] = {}
    for loss in done.lost:
        losses.setdefault(loss.path.strip("/"), []).append(loss)
    orphans = {name: value for name, value in found.items() if name.startswith("lost+found/")}
    for name, allowed in promised.items():
        here = losses.get(name, [])
        if name in found:
            may_fill: Any = np.zeros(found[name].shape, bool)
            chunks = recording.chunks[name]
            for loss in here:
                if loss.chunk is None or chunks is None:
                    may_fill[...] = True
                else:
                    may_fill[
                        tuple(slice(at * n, (at + 1) * n) for at, n in zip(loss.chunk, chunks, strict=True))
                    ] = True
            if not fits(found[name], allowed, may_fill):
                if name in doubtful:
                    verdict.doubtful += 1
                else:
                    verdict.wrong.append(f"{name}: wrong values")
            elif fits(found[name], allowed, False):
                verdict.right += 1
            else:
                verdict.named += 1
            continue
        above = [name.rsplit("/", depth)[0] for depth in range(1, name.count("/") + 1)] + [""]
        if any(fits(value, allowed, False) for value in orphans.values()):
            verdict.found += 1
        elif here or any(losses.get(path) for path in above):
            verdict.named += 1
        else:
            verdict.wrong.append(f"{name}: lost, and not named")
    return verdict


def cuts(recording: Recording, rng: np.random.Generator, most: int) -> list[tuple[int, frozenset[int]]]:
    """Returns states to try: numbers of changes, and changes that are left out."""
    total = len(recording.log)
    all_cuts = np.arange(recording.flushes[0], total + 1)
    if len(all_cuts) > most:
        all_cuts = np.sort(rng.choice(all_cuts, most, replace=False))
    return [(int(cut), frozenset()) for cut in all_cuts]


def unordered(recording: Recording, rng: np.random.Generator, most: int) -> list[tuple[int, frozenset[int]]]:
    """Like `cuts`, without a random part of the changes since the last flush: a power cut."""
    states = []
    for cut, _ in cuts(recording, rng, most):
        since = max(done for done in recording.flushes if done <= cut)
        lost = [number for number in range(since, cut) if rng.random() < 0.5]
        states.append((cut, frozenset(lost)))
    return states


def run(
    seeds: range,
    libver: Any,
    folder: Path,
    most: int,
    choose: Callable[..., list[tuple[int, frozenset[int]]]] = cuts,
) -> dict[str, Any]:
    """Judges many torn files. Returns the sums, and what is wrong."""
    sums: dict[str, Any] = dict.fromkeys(
        ("files", "before", "after", "in_place", "right", "found", "named", "doubtful"), 0
    )
    sums["wrong"] = []
    for seed in seeds:
        recording = record(seed, libver)
        rng = np.random.default_rng(seed)
        for cut, dropped in choose(recording, rng, most):
            verdict = judge(recording, cut, recording.state(cut, dropped), folder)
            sums["files"] += 1
            sums["before"] += verdict.opened_before
            sums["after"] += verdict.opened_after
            sums["in_place"] += verdict.in_place
            for name in ("right", "found", "named", "doubtful"):
                sums[name] += getattr(verdict, name)
            sums["wrong"] += [(seed, cut, sorted(dropped), why) for why in verdict.wrong]
    return sums
