"""Programs of `test_metadata_races.py` and `test_metadata_kill.py`: they change metadata.

Some are killed.

    python metadata_writers.py append PATH WHO COUNT
    python metadata_writers.py attributes PATH WHO COUNT
    python metadata_writers.py create PATH WHO COUNT
    python metadata_writers.py once KIND PATH
    python metadata_writers.py kill KIND PATH KILLS SEED
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import support

#: Rows per append, and chunk length. Most appends end within a chunk.
BLOCK, CHUNK = 3, 4

LENGTH = 30


def append(path: Path, who: int, count: int) -> None:
    """Appends in turn through an old handle and a new one.

    The old handle has not seen others' changes.
    """
    z = hs.open_array(path, mode="r+")
    for n in range(count):
        (z if n % 2 else hs.open_array(path, mode="r+")).append([who * 1000 + n + 1])


def attributes(path: Path, who: int, count: int) -> None:
    node = hs.open(path, mode="r+")
    for n in range(count):
        node.attrs[f"{who}-{n}"] = n
        if n % 3 == 2:
            del node.attrs[f"{who}-{n - 1}"]


def create(path: Path, who: int, count: int) -> None:
    """Prints the numbers of the arrays that this process created first."""
    group, won = hs.open_group(path, mode="r+"), []
    for n in range(count):
        try:
            group.create_array(f"g{n}/a", shape=(2,), dtype="i4", attributes={"by": who})
            won.append(n)
        except hs.errors.ContainsArrayError:
            pass
    print(*won)


def values(generation: int) -> np.ndarray[Any, Any]:
    return np.full(LENGTH + generation % 5, generation, "i4")


def overwrite(path: Path) -> None:
    """Overwrites the array with the next generation. Larger and smaller arrays alternate."""
    old = hs.open_array(path, path="a", mode="r")
    generation = old.attrs["generation"] + 1
    data = values(generation)
    group = hs.open_group(path, mode="r+")
    z = group.create_array(
        "a",
        shape=data.shape,
        dtype="i4",
        chunks=(CHUNK,),
        attributes={"generation": generation},
        overwrite=True,
    )
    z[...] = data


def create_with_data(path: Path) -> None:
    """Overwrites the array with the next generation and its data.

    Every second time the data reads from the last generation, block by block.
    """
    last = hs.open_array(path, path="a", mode="r")
    generation = int(last[0]) + 1
    if generation % 2:
        hs.open_group(path, mode="r+").create_array(
            "a", data=values(generation), chunks=(CHUNK,), overwrite=True
        )
    else:
        hs.from_array(path, name="a", data=Renewed(last, values(generation)), chunks=(CHUNK,), overwrite=True)


class Renewed:
    """Data that reads from the array it is overwriting."""

    def __init__(self, last: hs.Array, following: np.ndarray[Any, Any]) -> None:
        self.last, self.following = last, following
        self.shape, self.dtype = following.shape, following.dtype

    def __getitem__(self, selection: slice) -> np.ndarray[Any, Any]:
        assert set(self.last[selection].tolist()) <= {int(self.following[0]) - 1}
        return self.following[selection]


def assign(path: Path) -> None:
    group = hs.open_group(path, mode="r+")
    group["a"] = values(int(group["a"][0]) + 1)


def save_group(path: Path) -> None:
    """Saves the group and its array."""
    hs.save_group(path, a=values(int(hs.open_array(path, path="a", mode="r")[0]) + 1))


def append_block(path: Path) -> None:
    z = hs.open_array(path, path="a", mode="r+")
    z.append(np.full((BLOCK, 2), z.shape[0] // BLOCK + 1, "i4"))


def resize(path: Path) -> None:
    z = hs.open_array(path, path="a", mode="r+")
    z.resize((LENGTH,))
    z[...] = np.arange(1, LENGTH + 1)
    z.resize((time.monotonic_ns() % LENGTH,))


#: Writers that replace an array together with its data.
WITH_DATA = {"create": create_with_data, "assign": assign, "save": save_group}

KINDS = {"overwrite": overwrite, **WITH_DATA, "append": append_block, "resize": resize}


def begin(kind: str, path: Path) -> None:
    group = hs.create_group(path)
    if kind == "overwrite" or kind in WITH_DATA:
        first = values(1)
        z = group.create_array(
            "a", shape=first.shape, dtype="i4", chunks=(CHUNK,), attributes={"generation": 1}
        )
        z[...] = first
    elif kind == "append":
        group.create_array("a", shape=(0, 2), dtype="i4", chunks=(CHUNK, 1))
    else:
        group.create_array("a", shape=(LENGTH,), dtype="i4", chunks=(CHUNK,))


def check(kind: str, path: Path) -> None:
    """Checks the invariant after every kill."""
    z = hs.open_array(path, path="a", mode="r+")
    found = z[...]
    if kind == "overwrite":
        generation = z.attrs["generation"]
        assert z.shape == values(generation).shape
        # Completely old, or the new array with the chunks written before the kill.
        assert set(found.tolist()) <= {0, generation}, f"{generation}: {found}"
    elif kind in WITH_DATA:
        assert np.array_equal(found, values(int(found[0]))), found
    elif kind == "append":
        blocks = np.repeat(np.arange(1, z.shape[0] // BLOCK + 1), BLOCK)
        assert z.shape[0] % BLOCK == 0 and np.array_equal(found, np.stack([blocks, blocks], axis=1)), found
    else:
        length = z.shape[0]
        z.resize((LENGTH + 5,))
        assert not z[length:].any(), f"{length}: {z[...]}"


def kill(kind: str, path: Path, kills: int, seed: int) -> None:
    """Forks writers and kills each in the middle of its work."""
    for _ in support.killed(lambda: KINDS[kind](path), kills, seed, 0.01):
        check(kind, path)


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "kill":
        kill(rest[0], Path(rest[1]), int(rest[2]), int(rest[3]))
    elif what == "once":
        KINDS[rest[0]](Path(rest[1]))
    else:
        {"append": append, "attributes": attributes, "create": create}[what](
            Path(rest[0]), int(rest[1]), int(rest[2])
        )


if __name__ == "__main__":
    main()
