"""Trials of copies by a plan: processes are killed, stopped and woken up late, on disk and on a server.

A trial starts clients and workers, and disturbs them at random times until a client has finished the
copy. Then the destination must be the same as after an undisturbed run, byte for byte, with nothing
beside it. A user changes the copy, or replaces it by another one. Then all stopped processes wake up,
and must change nothing.

`make test` runs 20 trials, and `make soak` as many as you like. The seed and the number
repeat a trial's choices, though not its timing.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from crew import ENDS, Machines
from object_server_client import Server
from plan_client import IN_THE_WAY, STORE_FAILED, SUPERSEDED, run_plan
from support import assert_same, files_below

TRIALS = int(os.environ.get("HYPERSLAB_TRIALS") or 20)

WHERE = ["disk", "server", "server"]
HOW = ["new", "overwrite", "into"]
LAYOUTS: dict[str, dict[str, Any]] = {
    # Chunks at the edge, two passes on disk.
    "chunks": {"chunks": (24, 8, 8), "max_memory": "24 KiB", "task_size": "8 KiB"},
    "shards": {"chunks": (12, 4, 4), "shards": (24, 16, 8), "task_size": "12 KiB"},
    "few tasks": {"chunks": (24, 16, 32), "task_size": "48 KiB"},
}
SHAPE = (48, 30, 32)

# How a server fails. Each request fails with the probability `CHANCE`.
CHANCE = 0.06
REFUSED: list[dict[str, Any]] = [
    {"do": "status", "status": 503, "retry_after": 0},
    {"do": "status", "status": 409, "method": "PUT"},
    {"do": "reset"},
]
# The request takes effect, and its answer is lost.
LOST: list[dict[str, Any]] = [{"do": "status", "status": 500, "late": True}, {"do": "reset", "late": True}]
FAULTS = {"none": [], "refused": REFUSED, "lost answers": LOST, "both": REFUSED + LOST}
LAG = 0.4


def values(has_blanks: bool) -> np.ndarray[Any, Any]:
    """Returns the source. With blanks, chunks of the copy are all fill value, and are not stored."""
    found = np.random.default_rng(1).integers(1, 1000, SHAPE, "i4")
    if has_blanks:
        found[:24, :16, :32] = 0
    return found


# ---- places


class Disk:
    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.root, self.place, self.options = root, str(root / "b"), None

    def stored(self) -> dict[str, bytes]:
        """Returns everything at the destination and beside it."""
        folders = {f"{path.relative_to(self.root)}/": b"" for path in self.root.iterdir() if path.is_dir()}
        return files_below(self.root) | folders

    def end(self) -> None:
        shutil.rmtree(self.root)


class Bucket:
    def __init__(self, server: Server, name: str) -> None:
        self.server, self.name, self.lag = server, name, 0.0
        server.control(drop=[name], buckets=[name], faults=[], latency=0, listing_lag=0)
        server.reset()
        self.place, self.options = f"s3://{name}/b", server.s3_options

    def stored(self) -> dict[str, bytes]:
        keys = self.server.list(self.name)
        if self.lag:
            # Nobody knows these notes: a killed client's tasks wrote them, and listings lack them.
            keys = [key for key in keys if "/.hyperslab-copy/journal/done/" not in key]
        return {key: self.server.get(self.name, key) for key in keys}

    def disturb(self, chance: random.Random) -> str:
        faults = chance.choice(sorted(FAULTS))
        self.lag = chance.choice([0, 0, LAG])
        self.server.control(
            faults=[{"chance": CHANCE, "times": 10**9, **each} for each in FAULTS[faults]],
            latency=chance.choice([0, 0.002, 0.01]),
            listing_lag=self.lag,
            seed=chance.randrange(10**9),
        )
        return f"faults: {faults}, lag: {self.lag}"

    def end(self) -> None:
        self.server.control(drop=[self.name], faults=[], latency=0, listing_lag=0)


def prepare(at: Disk | Bucket, how: str, source: Path, layout: str) -> hs.CopyPlan:
    """Makes the old contents of the destination. Returns the plan."""
    wanted = dict(LAYOUTS[layout])
    options: dict[str, Any] = {"storage_options": at.options}
    if how == "overwrite":
        hs.create_array(at.place, data=np.full((20, 9), 5, "i2"), chunks=(3, 9), **options)
        options["overwrite"] = True
    elif how == "into":
        target = hs.create_array(
            at.place,
            shape=(2 * SHAPE[0], *SHAPE[1:]),
            dtype="i4",
            chunks=wanted.pop("chunks"),
            shards=wanted.pop("shards", None),
            **options,
        )
        target[...] = 7
        options["target_region"] = np.s_[SHAPE[0] :]
    return hs.plan_copy(source, at.place, **wanted, **options)


# ---- processes


@dataclass
class Trial:
    at: Disk | Bucket
    plan: hs.CopyPlan
    machines: Machines
    chance: random.Random
    notes: Path
    longest: float
    told: list[str] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    failures: int = 0
    numbers: dict[BaseProcess, int] = field(default_factory=dict)

    def start(self) -> None:
        number = len(self.numbers)
        options: dict[str, Any] = {}
        if self.chance.random() < 0.2:
            options["verify"] = True
        if self.chance.random() < 0.2:
            options["check"] = "contents"
        folder = self.machines.folder if self.chance.random() < 0.7 else None
        client = self.machines.start(run_plan, self.plan, folder, self.note(number), options)
        self.numbers[client] = number
        self.tell(f"client {number} {options} {'on workers' if folder else 'alone'}")

    def tell(self, what: str) -> None:
        self.told.append(f"{time.monotonic() - self.begun:.2f} s: {what}")

    def note(self, number: int) -> Path:
        return self.notes / f"client-{number}"

    def has_begun(self, client: BaseProcess) -> bool:
        return self.note(self.numbers[client]).with_suffix(".begun").exists()

    def finish(self) -> None:
        """Starts and disturbs clients until one of them finishes the copy."""
        disturbances = self.chance.randint(2, 7)
        ended: set[BaseProcess] = set()
        until = 0.0
        while True:
            running = self.machines.running(self.machines.clients)
            for client in set(self.machines.clients) - ended:
                if client.exitcode is not None:
                    ended.add(client)
                    self.check_end(client)
            if any(client.exitcode == 0 for client in ended):
                break
            if not running:
                self.start()
            elif disturbances:
                wait([each.sentinel for each in running], self.chance.uniform(0, self.longest))
                disturbances -= 1
                self.disturb()
            else:
                wait([each.sentinel for each in running], until - time.monotonic())
                assert time.monotonic() < until, f"no client ends\n{self.machines.stacks()}"
                continue
            until = time.monotonic() + ENDS
        for client in self.machines.running(self.machines.clients):
            self.machines.join(client)
            self.check_end(client)

    def check_end(self, client: BaseProcess) -> None:
        code, note = client.exitcode, self.note(self.numbers[client])
        self.tell(f"client {self.numbers[client]} ended: {code}")
        if code == STORE_FAILED and isinstance(self.at, Bucket):
            self.failures += 1
        elif code not in (0, -9, SUPERSEDED):
            why = note.read_text() if note.exists() else ""
            # Two clients at a time.
            harmless = ("another run has", "there is no journal of this copy")
            assert code == IN_THE_WAY and any(each in why for each in harmless), f"{code}: {why}"
            if "end its process" in why:
                # A stopped client holds the lock.
                for holder in set(self.machines.clients).intersection(self.machines.stopped):
                    self.machines.kill(holder)

    def disturb(self) -> None:
        machines = self.machines
        clients, workers = machines.running(machines.clients), machines.running(machines.workers)
        what = self.chance.choice(
            ["kill client", "stop client", "kill worker", "stop worker", "stop worker", "wake", "another"]
        )
        self.tell(what)
        if what == "another" and len(clients) < 2:
            self.start()
        elif what == "wake" and machines.stopped:
            machines.wake(self.chance.choice(machines.stopped))
        elif what.endswith("client") and clients:
            client = self.chance.choice(clients)
            (machines.kill if what.startswith("kill") else machines.stop)(client)
        elif what.endswith("worker") and workers:
            (machines.kill if what.startswith("kill") else machines.stop)(self.chance.choice(workers))

    def wake_late(self) -> None:
        """Wakes all processes up. A client that has not begun would rightly begin a new copy."""
        for client in [each for each in self.machines.stopped if each in self.machines.clients]:
            if not self.has_begun(client):
                self.machines.kill(client)
        late = [each for each in self.machines.clients if each in self.machines.stopped]
        self.tell(f"{len(self.machines.stopped)} wake up, {len(late)} of them clients")
        self.machines.settle()
        for client in late:
            self.tell(f"client {self.numbers[client]} ended late: {client.exitcode}")
            assert client.exitcode in (0, SUPERSEDED, IN_THE_WAY, STORE_FAILED), self.note(
                self.numbers[client]
            ).read_text()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    for name, has_blanks in (("full", False), ("blanks", True)):
        hs.create_array(folder / name, data=values(has_blanks), chunks=(1, 30, 32), attributes={"title": "x"})
    return folder


@pytest.fixture(scope="module")
def undisturbed() -> dict[Any, tuple[dict[str, bytes], float]]:
    """Bytes and seconds of undisturbed runs by workers, by kind of trial."""
    return {}


@pytest.mark.parametrize("number", range(TRIALS))
def test_trial(
    number: int,
    seed: int,
    server: Server,
    sources: Path,
    undisturbed: dict[Any, tuple[dict[str, bytes], float]],
    tmp_path: Path,
) -> None:
    chance = random.Random(f"{seed} {number}")
    where = WHERE[number % len(WHERE)]
    how = HOW[number // len(WHERE) % len(HOW)]
    layout = chance.choice(sorted(LAYOUTS))
    # Copies into an array delete chunks of fill value. On a server the request cannot have a condition:
    # a late one deletes what a user has written there (docs/cluster.md).
    has_blanks = where == "disk" or how != "into"
    source = sources / ("blanks" if has_blanks else "full")
    told = [f"seed {seed}, trial {number}: {where}, {how}, {layout}"]

    def make(name: str) -> Disk | Bucket:
        return Disk(tmp_path / name) if where == "disk" else Bucket(server, name)

    kind = where, how, layout
    if kind not in undisturbed:
        at = make("undisturbed")
        plan = prepare(at, how, source, layout)
        with Machines(workers=2) as machines:
            begun = time.monotonic()
            client = machines.start(run_plan, plan, machines.folder, tmp_path / "note", {})
            client.join()
            undisturbed[kind] = at.stored(), time.monotonic() - begun
            assert client.exitcode == 0, (tmp_path / "note").read_text()
        at.end()
    expected, longest = undisturbed[kind]
    at = make("b")
    plan = prepare(at, how, source, layout)
    try:
        with Machines(workers=2) as machines:
            trial = Trial(at, plan, machines, chance, tmp_path, longest, told)
            if isinstance(at, Bucket):
                trial.tell(at.disturb(chance))
            trial.finish()
            # A worker of an earlier run may be about to take back its last note.
            machines.rest()
            same(at.stored(), expected)
            copied = hs.open_array(at.place, mode="r+", storage_options=at.options)
            assert_same(copied[-SHAPE[0] :], values(has_blanks))
            then = chance.choice(["nothing", "user", "plan"])
            trial.tell(f"then: {then}")
            if then == "user":
                copied[...] = np.arange(copied.size, dtype="i4").reshape(copied.shape) + 1
            elif then == "plan":
                other = {"chunks": (7, 30, 5), "overwrite": True, "task_size": "16 KiB"}
                hs.plan_copy(source, at.place, storage_options=at.options, **other).run()
            after = at.stored()
            trial.wake_late()
            same(at.stored(), after)
            at.end()
    except BaseException as error:
        error.add_note("\n".join(told))
        raise


def same(found: dict[str, bytes], expected: dict[str, bytes]) -> None:
    assert sorted(found) == sorted(expected)
    assert [key for key in found if found[key] != expected[key]] == []
