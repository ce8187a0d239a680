"""A cluster on this machine whose processes tests kill, stop and wake up.

The test owns all processes (`Machines`): workers, and clients that hand tasks to workers. A client
reaches the workers through sockets in a folder (`Crew`, an executor). As on a real cluster,

- the task of a killed worker is handed to another worker;
- a worker that does not answer is given up, and its task is handed to another worker. If it was only
  stopped, it wakes up late and finishes a task that nobody waits for.

Processes are forked from a server that has imported hyperslab, so a new one takes milliseconds.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import queue
import random
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

__all__ = ["Crew", "Machines"]

CONTEXT = multiprocessing.get_context("forkserver")
# Works unless another test has started the server before.
CONTEXT.set_forkserver_preload(["plan_client", "hyperslab._copy.run", "hyperslab._codecs.zarr"])

# Seconds after which a client gives up a worker for the first time. Each further time it waits longer,
# up to a bound: a slow machine looks like one with stopped workers.
PATIENCE, LONGEST = 0.25, 10.0

# Seconds until a client looks for a worker again, if one cannot be reached.
PAUSE = 0.01

# Seconds that a worker waits for a call from a client that has connected.
SILENCE = 0.2

# Seconds in which a process that nothing disturbs must end: much more than it needs on a busy machine,
# and less than pytest gives a test.
ENDS = 240.0


class Crew:
    """Runs calls on the workers whose sockets are in a folder.

    An executor for hyperslab, by `submit` and `_max_workers`.
    """

    def __init__(self, folder: Path, slots: int = 2) -> None:
        self._folder, self._max_workers = folder, slots
        self._calls: queue.SimpleQueue[tuple[Future[Any], bytes]] = queue.SimpleQueue()
        self._busy: set[str] = set()
        # When workers did not answer. They get a call only if there are no others.
        self._silent: dict[str, float] = {}
        self._lock = threading.Lock()
        for _ in range(slots):
            threading.Thread(target=self._serve, daemon=True).start()

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._calls.put((future, pickle.dumps((function, arguments))))
        return future

    def _serve(self) -> None:
        while True:
            future, call = self._calls.get()
            if not future.set_running_or_notify_cancel():
                continue
            patience = PATIENCE
            while True:
                worker = self._take()
                try:
                    failed, answer = ask(self._folder / worker, call, patience)
                    self._silent.pop(worker, None)
                    break
                except TimeoutError:
                    self._silent[worker] = time.monotonic()
                    patience = min(1.5 * patience, LONGEST)
                except (OSError, EOFError):
                    # The worker was killed, or has not begun to listen.
                    self._silent[worker] = time.monotonic()
                    time.sleep(PAUSE)
                finally:
                    self._busy.discard(worker)
            (future.set_exception if failed else future.set_result)(answer)

    def _take(self) -> str:
        """Waits for a worker without a task."""
        while True:
            with self._lock:
                if free := set(os.listdir(self._folder)) - self._busy:
                    worker = min(free, key=lambda each: (self._silent.get(each, 0.0), random.random()))
                    self._busy.add(worker)
                    return worker
            time.sleep(0.002)


def ask(worker: Path, call: bytes, patience: float) -> tuple[bool, Any]:
    """Returns whether a call failed, and its result or its error. Fails if the worker is lost."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(patience)
        sock.connect(str(worker))
        sock.settimeout(None)
        with Connection(sock.detach()) as connection:
            connection.send_bytes(call)
            if not connection.poll(patience):
                raise TimeoutError(f"no answer of worker {worker.name}")
            answer: tuple[bool, Any] = connection.recv()
            return answer


def watched(stacks: Path, function: Callable[..., object], *arguments: Any) -> None:
    """Calls a function. A signal writes the stacks of all threads to a file meanwhile."""
    with stacks.open("w") as file:
        faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)
        function(*arguments)


def work(path: Path) -> None:
    """The program of a worker: one call after the other, until the test ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)
        while parent.sentinel not in wait([listener, parent.sentinel]):
            with suppress(OSError, EOFError), Connection(listener.accept()[0].detach()) as connection:
                if connection.poll(SILENCE):
                    connection.send(result_of(connection.recv_bytes()))


def result_of(call: bytes) -> tuple[bool, Any]:
    try:
        function, arguments = pickle.loads(call)
        return False, function(*arguments)
    except Exception as error:
        return True, error


class Machines:
    """The processes of one test. They end with the block.

    with Machines(workers=2) as machines:
        client = machines.start(function, machines.folder)
        machines.stop(machines.workers[0])
    """

    def __init__(self, workers: int) -> None:
        # Names of sockets must be short.
        self._temporary = tempfile.TemporaryDirectory(prefix="crew-")
        self.folder, self._stacks = (Path(self._temporary.name) / name for name in ("w", "stacks"))
        self.folder.mkdir()
        self._stacks.mkdir()
        self.workers: list[BaseProcess] = []
        self.clients: list[BaseProcess] = []
        self.stopped: list[BaseProcess] = []
        self._started = 0
        for _ in range(workers):
            self.add_worker()

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.workers, *self.clients):
            process.kill()
            process.join()
        self._temporary.cleanup()

    def add_worker(self) -> None:
        self._started += 1
        path = self.folder / f"w{self._started}"
        self.workers.append(self._start(path.name, work, path))

    def start(self, client: Callable[..., object], *arguments: Any) -> BaseProcess:
        """Starts a client. Its exit code is 1 if the function fails."""
        process = self._start(f"c{len(self.clients)}", client, *arguments)
        self.clients.append(process)
        return process

    def _start(self, name: str, function: Callable[..., object], *arguments: Any) -> BaseProcess:
        arguments = (self._stacks / name, function, *arguments)
        process = CONTEXT.Process(target=watched, args=arguments, name=name, daemon=True)
        process.start()
        return process

    def join(self, client: BaseProcess) -> None:
        """Waits until a client ends. Fails if it does not, and says where all processes are."""
        client.join(ENDS)
        assert client.exitcode is not None, f"{client.name} does not end\n{self.stacks()}"

    def stacks(self) -> str:
        """Returns where the threads of all processes are."""
        found = []
        for process in (*self.clients, *self.workers):
            if process in self.stopped:
                found.append(f"{process.name}: stopped")
            elif process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal.SIGUSR1)
                time.sleep(0.5)
                found.append(f"{process.name}:\n{(self._stacks / process.name).read_text()}")
        return "\n".join(found)

    def running(self, processes: Iterable[BaseProcess]) -> list[BaseProcess]:
        """Returns the processes that have not ended and are not stopped."""
        return [each for each in processes if each.is_alive() and each not in self.stopped]

    def kill(self, process: BaseProcess) -> None:
        """Kills a process. Another worker takes the place of a worker."""
        process.kill()
        process.join()
        if process in self.stopped:
            self.stopped.remove(process)
        if process in self.workers:
            self.workers.remove(process)
            (self.folder / process.name).unlink(missing_ok=True)
            self.add_worker()

    def stop(self, process: BaseProcess) -> None:
        """Suspends a process. Another worker joins if it is a worker."""
        assert process.pid is not None
        if process.is_alive():
            os.kill(process.pid, signal.SIGSTOP)
            self.stopped.append(process)
            if process in self.workers:
                self.add_worker()

    def wake(self, process: BaseProcess) -> None:
        assert process.pid is not None
        self.stopped.remove(process)
        # The process may have ended before it stopped.
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)

    def settle(self) -> None:
        """Wakes all processes up, and returns when no task and no client is left."""
        for process in list(self.stopped):
            self.wake(process)
        for client in self.clients:
            self.join(client)
        self.rest()

    def rest(self) -> None:
        """Returns when workers that are not stopped have no task left."""
        nothing = pickle.dumps((os.getpid, ()))
        for worker in self.running(self.workers):
            # A worker takes calls in order, so this one is its last. It may not have begun.
            with suppress(FileNotFoundError, ConnectionRefusedError):
                ask(self.folder / worker.name, nothing, ENDS)
