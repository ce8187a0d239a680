"""Reads damaged files in its own process: a crash, a hang or a memory hog ends only this process.

    python hdf5_bad.py GOOD OUT HOW [STEP]

Writes each damaged copy of GOOD to OUT and reads all of it. HOW is ``bytes`` (each byte changed),
``loose`` (the same without verifying checksums) or ``cut`` (each shorter beginning). Prints a JSON
object: the number of copies that were errors, equal or different, and failures that must never
happen.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import resource
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np

#: Memory beyond the memory after importing.
MEMORY = 1 << 30
SECONDS = 30
ERRORS = (hs.HyperslabError, ValueError, OSError, KeyError, MemoryError)
LARGEST = 1 << 20


def digest(value: Any) -> str:
    """Returns text for the complete value of any type."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return f"{value.shape}{[digest(item) for item in value.reshape(-1)]}"
        return f"{value.dtype}{value.shape}{hashlib.blake2b(value.tobytes()).hexdigest()}"
    if isinstance(value, dict):
        return str(sorted((key, digest(item)) for key, item in value.items()))
    return repr(value)


def everything(path: Path) -> tuple[dict[str, str], list[str]]:
    """Reads everything in a file: texts by path, and errors. Reads huge arrays in part."""
    found: dict[str, str] = {}
    errors: list[str] = []

    def attempt(name: str, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except ERRORS as error:
            errors.append(type(error).__name__)
            return None

    waiting = [("", attempt("", lambda: hs.open(path, mode="r")))]
    # Hard links can form cycles, so the walk is limited.
    for _ in range(100):
        if not waiting:
            break
        name, node = waiting.pop(0)
        if node is None:
            continue
        attrs = attempt(name, lambda: digest(dict(node.attrs)))
        if attrs is not None:
            found[f"{name} attributes"] = attrs
        if isinstance(node, hs.Array):
            facts = attempt(name, lambda: f"{node.shape} {node.dtype} {node.chunks} {node.maxshape}")
            if facts is None:
                continue
            found[name] = facts
            if node.shape is not None:
                small = node.size * max(1, node.dtype.itemsize) <= LARGEST
                part = ... if small else tuple(slice(0, 2) for _ in node.shape)
                values = attempt(name, lambda: digest(node[part]))
                if values is not None:
                    found[f"{name} values"] = values
        elif isinstance(node, hs.Group) and name.count("/") < 6:
            names = attempt(name, lambda: list(node)) or []
            waiting += [(f"{name}/{key}", attempt(name, lambda: node[key])) for key in names]
        else:
            text = attempt(name, lambda: repr(node))
            if text is not None:
                found[name] = text
    return found, errors


def damaged(good: bytes, how: str, step: int) -> Any:
    if how == "cut":
        for length in range(0, len(good), step):
            yield f"the first {length} bytes", good[:length]
        return
    bad = bytearray(good)
    for at in range(0, len(good), step):
        # The lowest bit, the highest bit, a small number and a large one.
        for value in {good[at] ^ 1, good[at] ^ 0x80, 0, 0xFF, (good[at] + 1) & 0xFF} - {good[at]}:
            bad[at] = value
            yield f"byte {at} = {value:#04x}", bytes(bad)
        bad[at] = good[at]


def main(good: Path, out: Path, how: str, step: int) -> None:
    bytes_ = good.read_bytes()
    if how == "loose":
        hs.config.set({"verify_checksums": False})
    expected, errors = everything(good)
    assert not errors, errors
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
            # Shows where a crash or a hang happened.
            (out.parent / "last").write_text(what)
        try:
            found, errors = everything(out)
        except BaseException as error:
            never.append(f"{what}: {type(error).__name__}: {error}")
            continue
        kinds.update(errors)
        # An error may hide other nodes. Values that were read must be right.
        wrong = [name for name, text in found.items() if expected.get(name) != text]
        if wrong or not errors and len(found) < len(expected):
            counts["different"] += 1
            different.append(f"{what}: {wrong[:2]}")
        else:
            counts["errors" if errors else "equal"] += 1
    faulthandler.cancel_dump_traceback_later()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    report = {**counts, "kinds": kinds, "never": never[:20], "at": different[:2000], "peak": peak}
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 1)
