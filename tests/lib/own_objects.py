"""Random changes of one HDF5 group, with a model of what it holds then.

Threads and processes change groups of their own in one file. Run as a program, it is one such process:
``own_objects.py FILE NAME SEED THREADS``. It prints its models, pickled.
"""

from __future__ import annotations

import pickle
import random
import sys
import threading
from typing import Any

import hyperslab as hs
import hyperslab.h5 as h5
import numpy as np

Model = dict[str, Any]
STEPS = 80


class Changes:
    """Changes of one group. ``model`` has the values of its datasets and attributes (``@name``)."""

    def __init__(self, file: Any, name: str, seed: int) -> None:
        self.file, self.name = file, name
        self.random = random.Random(seed)
        self.model: Model = {}

    def run(self, steps: int = STEPS) -> None:
        group = self.file.require_group(self.name)
        for _ in range(steps):
            names = [name for name in self.model if not name.startswith("@")]
            steps_of_one = (self._write, self._write, self._write, self._resize, self._read)
            if not names or self.random.random() < 0.2:
                self._create(group, f"d{self.random.randrange(8)}")
            elif self.random.random() < 0.2:
                self._set_attribute(group)
            else:
                self.random.choice(steps_of_one)(group, self.random.choice(names))
            if self.random.random() < 0.03:
                self.file.flush()

    def _create(self, group: Any, name: str) -> None:
        chance = self.random
        if name in self.model:
            del group[name]
        options: dict[str, Any] = {"maxshape": (None,), "compression": chance.choice([None, "gzip", "lzf"])}
        values: np.ndarray[Any, Any]
        match chance.randrange(5):
            case 0:
                texts = [
                    f"text {chance.random()}" * chance.randrange(3) for _ in range(chance.randrange(1, 60))
                ]
                values = np.array(texts, object)
                options |= {"dtype": h5.string_dtype(), "chunks": (7,)}
            case 1:
                values = np.empty(chance.randrange(1, 20), object)
                for number in range(len(values)):
                    values[number] = np.arange(chance.randrange(30), dtype="i2")
                options |= {"dtype": h5.vlen_dtype(np.dtype("i2")), "chunks": (5,)}
            case 2:
                values = np.arange(chance.randrange(1, 2000), dtype="f8")
                options = {}
            case 3:
                values = np.arange(chance.randrange(1, 20000), dtype="u2")
                options["chunks"] = (chance.randrange(50, 3000),)
            case _:
                shape = (chance.randrange(1, 40), chance.randrange(1, 40))
                values = np.arange(shape[0] * shape[1], dtype="i4").reshape(shape)
                options |= {"chunks": (chance.randrange(1, 11), 7), "maxshape": (None, None)}
        group.create_dataset(name, data=values, **options)
        self.model[name] = values.copy()

    def _write(self, group: Any, name: str) -> None:
        values, chance = self.model[name], self.random
        if values.dtype == object:
            if len(values):
                at = chance.randrange(len(values))
                is_text = isinstance(values[at], str)
                new: Any = (
                    "new" * chance.randrange(9) if is_text else np.arange(chance.randrange(40), dtype="i2")
                )
                group[name][at] = values[at] = new
            return
        part = tuple(slice(*sorted(chance.choices(range(length + 1), k=2))) for length in values.shape)
        group[name][part] = values[part] = chance.randrange(1000)

    def _resize(self, group: Any, name: str) -> None:
        values = self.model[name]
        if group[name].chunks is None:
            return
        length = max(0, values.shape[0] + self.random.randrange(-10, 30))
        group[name].resize(length, 0)
        longer = np.zeros((length, *values.shape[1:]), values.dtype)
        if values.dtype == object:
            is_text = h5.check_string_dtype(group[name].dtype) is not None
            longer[:] = [""] * length if is_text else None
            for number in range(length if not is_text else 0):
                longer[number] = np.zeros(0, "i2")
        both = min(length, values.shape[0])
        longer[:both] = values[:both]
        self.model[name] = longer

    def _read(self, group: Any, name: str) -> None:
        assert_equal(group[name][...], self.model[name], f"{self.name}/{name}, read by its writer")

    def _set_attribute(self, group: Any) -> None:
        name = f"a{self.random.randrange(12)}"
        values = [
            self.random.random(),
            "text " * self.random.randrange(50),
            np.arange(1 + self.random.randrange(500)),
        ]
        group.attrs[name] = self.model[f"@{name}"] = self.random.choice(values)


def assert_equal(found: Any, expected: Any, where: str) -> None:
    if expected.dtype != object:
        np.testing.assert_array_equal(found, expected, where)
        return
    assert len(found) == len(expected), where
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if isinstance(other, str):
            assert (one.decode() if isinstance(one, bytes) else one) == other, f"{where}, element {number}"
        else:
            np.testing.assert_array_equal(one, other, f"{where}, element {number}")


def check(file: Any, models: dict[str, Model]) -> None:
    """Compares a file, opened by h5py or by us, with models."""
    for group, model in models.items():
        for name, value in model.items():
            if name.startswith("@"):
                np.testing.assert_array_equal(file[group].attrs[name[1:]], value, f"{group}{name}")
            else:
                assert_equal(file[group][name][...], value, f"{group}/{name}")


def change(file: Any, changes: list[Changes], *, flushes: bool) -> None:
    """Runs changes on threads of their own, with flushes beside. Raises the first error of a thread."""
    errors: list[BaseException] = []

    def caught(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=caught, args=(one.run,)) for one in changes]
    for thread in threads:
        thread.start()
    while flushes and not errors and any(thread.is_alive() for thread in threads):
        caught(file.flush)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


if __name__ == "__main__":
    path, name, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with hs.File(path, "a") as file:
        changes = [Changes(file, f"{name}{number}", seed + number) for number in range(count)]
        change(file, changes, flushes=seed % 4 != 0)
    sys.stdout.buffer.write(pickle.dumps({one.name: one.model for one in changes}))
