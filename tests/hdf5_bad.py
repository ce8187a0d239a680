"""Reads damaged files, in a process of its own: a crash, a hang or a memory hog takes down this one only.

    python hdf5_bad.py GOOD OUT HOW [STEP]

Each damaged copy of GOOD is written to OUT and read from there completely. HOW is ``bytes`` (each byte changed),
``loose`` (the same without verifying checksums), ``cut`` (each shorter beginning). Prints a JSON object: how many copies
there were, how many were errors, equal or different, and what should never happen.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import resource
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np

#: Memory above what importing takes.
MEMORY = 1 << 30
SECONDS = 30
ERRORS = (hs.HyperslabError, ValueError, OSError, KeyError, MemoryError)
LARGEST = 1 << 20


def digest(value: Any) -> str:
    """All of a value, whatever it is."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return f"{value.shape}{[digest(item) for item in value.reshape(-1)]}"
        return f"{value.dtype}{value.shape}{hashlib.blake2b(value.tobytes()).hexdigest()}"
    if isinstance(value, dict):
        return str(sorted((key, digest(item)) for key, item in value.items()))
    return repr(value)


def everything(path: Path) -> str:
    """All that is in a file as text; of arrays that claim to be huge, a corner."""
    found: list[str] = []
    waiting = [("", hs.open(path, mode="r"))]
    # Hard links may make circles; what is at the same path is the same, so a bound on paths ends them.
    for _ in range(100):
        if not waiting:
            break
        name, node = waiting.pop(0)
        found.append(f"{name}: {digest(dict(node.attrs))}")
        if isinstance(node, hs.Array):
            found.append(f"{node.shape} {node.dtype} {node.chunks} {node.maxshape}")
            if node.size * max(1, node.dtype.itemsize) <= LARGEST:
                found.append(digest(node[...]))
            else:
                found.append(digest(node[tuple(slice(0, 2) for _ in node.shape)]))
        elif name.count("/") < 6:
            waiting += [(f"{name}/{key}", node[key]) for key in node]
    return "\n".join(found)


def damaged(good: bytes, how: str, step: int) -> Any:
    if how == "cut":
        for length in range(0, len(good), step):
            yield f"the first {length} bytes", good[:length]
        return
    bad = bytearray(good)
    for at in range(0, len(good), step):
        # A bit at either end, a small and a large number.
        for value in {good[at] ^ 1, good[at] ^ 0x80, 0, 0xFF, (good[at] + 1) & 0xFF} - {good[at]}:
            bad[at] = value
            yield f"byte {at} = {value:#04x}", bytes(bad)
        bad[at] = good[at]


def main(good: Path, out: Path, how: str, step: int) -> None:
    bytes_ = good.read_bytes()
    if how == "loose":
        hs.config.set({"verify_checksums": False})
    expected = everything(good)
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    never: list[str] = []
    different: list[str] = []
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, hard))
    for number, (what, bad) in enumerate(damaged(bytes_, how, step)):
        out.write_bytes(bad)
        if number % 20 == 0:
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            # Where it stopped, if it did.
            (out.parent / "last").write_text(what)
        try:
            found = everything(out)
        except ERRORS as error:
            counts["errors"] += 1
            kinds[type(error).__name__] += 1
        except BaseException as error:
            never.append(f"{what}: {type(error).__name__}: {error}")
        else:
            counts["equal" if found == expected else "different"] += 1
            if found != expected:
                different.append(what)
    faulthandler.cancel_dump_traceback_later()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    report = {**counts, "kinds": kinds, "never": never[:20], "at": different[:2000], "peak": peak}
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 1)
