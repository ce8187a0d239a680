"""Damaged HDF5 files that are changed: an error, or a file that is no worse than before."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

# Damaged files of a run.
FILES = int(os.environ.get("HYPERSLAB_TRIALS", "150"))

LIB = Path(__file__).parents[1] / "lib"


def base_files() -> list[bytes]:
    """Return small files with structures of all kinds."""
    made = []
    for libver in ("earliest", ("v110", "v110")):
        for kind in range(3):
            with h5py.File.in_memory(libver=libver) as file:
                _fill(file, kind)
                file.flush()
                made.append(file.id.get_file_image())
    return made


def _fill(file: h5py.File, kind: int) -> None:
    rng = np.random.default_rng(kind)
    text = h5py.string_dtype()
    if kind == 0:
        file["contiguous"] = rng.integers(0, 9, (5, 4))
        file["scalar"] = 3.5
        file.create_dataset("texts", data=["a", "", "bc" * 9], dtype=text)
        file.attrs["text"], file.attrs["numbers"] = "é", np.arange(4)
        file.create_group("g/h").attrs["a"] = 1
        file["hard"], file["soft"] = file["g/h"], h5py.SoftLink("/g")
        file["type"] = np.dtype([("a", "<i4"), ("b", "S3")])
        file["ref"] = file["contiguous"].ref
    elif kind == 1:
        data = rng.integers(0, 99, (12, 10)).astype("<i2")
        file.create_dataset("gzip", data=data, chunks=(5, 4), compression="gzip", shuffle=True)
        file.create_dataset("sum", data=data, chunks=(5, 4), fletcher32=True, maxshape=(20, 20))
        file.create_dataset("grows", data=data[0], chunks=(3,), maxshape=(None,))
        file.create_dataset("two", data=data, chunks=(5, 4), maxshape=(None, None), fillvalue=7)
        file.create_dataset("lists", data=["x" * n for n in range(9)], dtype=text, chunks=(4,), compression=1)
    else:
        many = file.create_group("many", track_order=True)
        for n in range(12):
            many[f"d{n}"] = n
            many.attrs[f"a{n}"] = n
        old = file.create_group("old")
        for n in range(12):
            old[f"d{n}"] = n
            old.attrs[f"a{n}"] = "text"


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """Return a file with flipped or random bytes, exchanged or cut blocks."""
    made = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(0, len(made)))
        match int(rng.integers(0, 6)):
            case 0:
                made[at] ^= 1 << int(rng.integers(0, 8))
            case 1:
                made[at] = int(rng.choice([0, 0xFF, 0x7F, 0x80]))
            case 2:
                made[at : at + 8] = bytes(rng.integers(0, 256, 8, np.uint8))[: len(made) - at]
            case 3:
                # An address of another structure.
                other = int(rng.integers(0, len(made) // 8)) * 8
                made[at - at % 8 : at - at % 8 + 8] = other.to_bytes(8, "little")
            case 4:
                size = int(rng.choice([8, 64, 256]))
                to = int(rng.integers(0, len(made)))
                one, two = bytes(made[at : at + size]), bytes(made[to : to + size])
                if len(one) == len(two) == size and abs(at - to) >= size:
                    made[at : at + size], made[to : to + size] = two, one
            case 5:
                made[at : at + int(rng.choice([8, 64]))] = b""
                made += bytes(len(content) - len(made))
    return bytes(made)


def verdicts(paths: list[Path]) -> Iterator[tuple[Path, str, str]]:
    """Change files in child processes. Yield each file, its last step, and the verdict.

    A child that crashes or hangs is replaced.
    """
    left = list(paths)
    while left:
        command = [sys.executable, str(LIB / "h5_edits.py"), *map(str, left)]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(LIB), *sys.path]))
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
            out, error, code = done.stdout, done.stderr, done.returncode
        except subprocess.TimeoutExpired as late:
            out = (late.stdout or b"").decode() if isinstance(late.stdout, bytes) else (late.stdout or "")
            error, code = "it takes more than 60 s", -1
        steps = out.split("before ")[1:]
        for path, text in zip(left, steps):
            lines = text.splitlines()[1:]
            is_last = lines[-1:] != ["done"]
            said = "\n".join(line for line in lines if line.startswith("WORSE"))
            step = lines[-1] if lines else "before"
            yield path, step, f"{said}{f' exit code {code}: {error[-1500:]}' if is_last else ''}"
        assert steps, (code, error)
        left = left[len(steps) :]


@pytest.mark.differential
def test_a_changed_file_is_no_worse(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bases = base_files()
    paths = []
    for number in range(FILES):
        path = tmp_path / f"{number}.h5"
        path.write_bytes(damaged(rng, bases[int(rng.integers(0, len(bases)))]))
        paths.append(path)
    wrong = [
        f"file {path.name} of HYPERSLAB_SEED={seed}: {step}: {said}"
        for path, step, said in verdicts(paths)
        # The library's own failures: before the change, or in what it could not read then.
        if step not in ("before", "after, damaged") and said
    ]
    assert not wrong, "\n".join(wrong[:5])
