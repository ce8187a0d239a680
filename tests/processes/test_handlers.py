"""Signal handlers and finalizers in the middle of a write, and interrupts of a waiting process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import hyperslab as hs
import pytest

LIMIT = 60


def run(code: str, *args: object) -> str:
    """Returns the output of a program, which must end on its own."""
    command = [sys.executable, "-c", code, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


HANDLER = """
import signal, sys
import hyperslab as hs, numpy as np
path, shards, how = sys.argv[1], sys.argv[2] == "shards", sys.argv[3]
hs.config.threads = 2
n = 512 * 4096
kind = {"shards": (n,)} if shards else {}
codec = {"name": "zstd", "configuration": {"level": 12}}
z = hs.create_array(path, shape=(n,), chunks=(4096,), dtype="f8", compressors=codec, **kind)
x = np.round(np.random.default_rng(0).normal(size=n), 2)
raised, ran = [], []
def handler(*_):
    if ran:
        return
    ran.append(1)
    try:
        if how == "writer":
            with z.writer() as w:
                w[0:5] = 1.0
        else:
            z[0] = 1.0
    except hs.errors.BusyError as error:
        raised.append(error)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.1)
while not ran:
    z[1:] = x[1:]
assert np.array_equal(z[5:], x[5:])
if raised:
    assert isinstance(raised[0], RuntimeError) and "being changed by this thread" in str(raised[0])
print(len(raised))
"""


@pytest.mark.parametrize("how", ["direct", "writer"])
def test_a_handler_that_writes_to_the_shard_being_written_is_refused(tmp_path: Path, how: str) -> None:
    assert run(HANDLER, tmp_path / "a", "shards", how) == "1"


def test_a_handler_that_writes_to_another_chunk_writes(tmp_path: Path) -> None:
    run(HANDLER, tmp_path / "a", "plain", "direct")
    assert hs.open_array(tmp_path / "a", mode="r")[0] == 1.0


FINALIZER = """
import gc, sys
import hyperslab as hs, numpy as np
hs.config.threads = 2
path = sys.argv[1]
z = hs.create_array(path, shape=(40, 250, 250), chunks=(1, 250, 250), shards=(40, 250, 250), dtype="i4",
                    compressors={"name": "gzip", "configuration": {"level": 6}})
noise = np.random.default_rng(0).integers(0, 1000, (39, 250, 250), dtype="i4")
class Box: pass
for k in range(10):
    b = Box(); b.w = z.writer(); b.me = b
    b.w[39, k] = k + 1
    gc.set_threshold(1)
    del b
    z[:39] = noise
"""


def test_a_writer_that_is_collected_in_the_middle_of_a_write_loses_nothing(tmp_path: Path) -> None:
    run(FINALIZER, tmp_path / "a")
    z = hs.open_array(tmp_path / "a", mode="r")
    assert [int(z[39, k, 0]) for k in range(10)] == list(range(1, 11))


WAITER = """
import sys
import hyperslab as hs
z = hs.open_array(sys.argv[1], mode="r+")
print("ready", flush=True)
try:
    exec(sys.argv[2])
    print("written")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("shards", [None, (64,)])
@pytest.mark.parametrize("code", ["z[0:3] = 5", "with z.writer() as w: w[0:3] = 5"])
def test_waiting_for_another_process_can_be_interrupted(
    tmp_path: Path, shards: tuple[int, ...] | None, code: str
) -> None:
    import fcntl

    z = hs.create_array(tmp_path / "a", shape=(64,), chunks=(8,), shards=shards, dtype="i4")
    z[:] = 1
    with open(tmp_path / "a/c/0") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        command = [sys.executable, "-c", WAITER, str(tmp_path / "a"), code]
        waiter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert waiter.stdout is not None and waiter.stdout.readline() == "ready\n"
        try:
            answer = waiter.communicate(timeout=1)
            pytest.fail(f"did not wait: {answer}")
        except subprocess.TimeoutExpired:
            pass
        waiter.send_signal(signal.SIGINT)
        if code.startswith("with"):
            # The end of the program stores queued writes. Interrupt again, several times if
            # necessary.
            for _ in range(20):
                try:
                    waiter.wait(1)
                    break
                except subprocess.TimeoutExpired:
                    waiter.send_signal(signal.SIGINT)
        out = waiter.communicate(timeout=LIMIT)[0]
        assert out.startswith("interrupted")
    # No lock file and no temporary file remain.
    assert set(os.listdir(tmp_path / "a/c")) == ({"0"} if shards else {str(k) for k in range(8)})
    assert (hs.open_array(tmp_path / "a", mode="r")[:] == 1).all()


LARGE = """
import signal, sys, time, threading, os
import hyperslab as hs, numpy as np
n = 2 << 20
codec = {"name": "zstd", "configuration": {"level": 9}}
z = hs.create_array(
    sys.argv[1], shape=(32 * n,), chunks=(1 << 16,), shards=(n,), dtype="f8", compressors=codec
)
x = np.round(np.random.default_rng(0).normal(size=n), 3)
threads = int(sys.argv[2])
def stored():
    return len(os.listdir(sys.argv[1] + "/c"))
sent = []
def send():
    # In the middle of the write, however fast the machine is.
    while not (os.path.isdir(sys.argv[1] + "/c") and stored()):
        time.sleep(0.01)
    sent.append(stored())
    os.kill(os.getpid(), signal.SIGINT)
t = threading.Thread(target=send)
t.start()
try:
    z.write(slice(None), np.broadcast_to(x, (32, n)).reshape(-1), threads=threads)
    print("finished")
except KeyboardInterrupt:
    # Shards under way are completed, one more may have been begun meanwhile.
    more = stored() - sent[0]
    assert more <= threads + 1 < 32, (sent, more)
    print("interrupted")
t.join()
"""


@pytest.mark.parametrize("threads", [1, 8])
def test_a_write_of_many_shards_stops_within_one(tmp_path: Path, threads: int) -> None:
    assert run(LARGE, tmp_path / "a", threads) == "interrupted"
