"""Compares zarr-python's public names with ours, and with the table of missing names.

Each difference is written as in the table of ``docs/zarr-surface.md``:

- ``zarr.name``, ``Array.name``, ``config.name``: the name is missing here.
- ``Group.name(argument)``: the argument is missing here.
- ``Group.name(argument=)``: the argument has another default here.
- ``Group.name(argument, …)``: the argument is positional there, and keyword-only here.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import hyperslab as hs
import pytest
import zarr

TABLE = Path(__file__).parents[2] / "docs" / "zarr-surface.md"
# Modules whose names are compared, besides `zarr` itself.
MODULES = ("errors", "storage", "codecs", "dtype")

if tuple(map(int, zarr.__version__.split(".")[:2])) < (3, 4):
    pytest.skip("the table is about zarr-python 3.4", allow_module_level=True)


def public(thing: Any) -> list[str]:
    """Returns the names of a class or module that are meant for users."""
    names = [name for name in dir(thing) if not name.startswith("_")]
    if not isinstance(thing, ModuleType):
        return names
    # Names that a module has imported are not its own.
    own = [name for name in names if getattr(getattr(thing, name), "__module__", "").startswith("zarr")]
    return sorted({*own, *getattr(thing, "__all__", ())} - {"__version__"})


def arguments(function: Any) -> Mapping[str, inspect.Parameter]:
    found = inspect.signature(function).parameters
    return {name: found[name] for name in found if name not in ("self", "cls")}


def has_the_same_default(theirs: Any, ours: Any) -> bool:
    # Objects that only say "not given" are never equal.
    return theirs is ours or repr(theirs) == repr(ours) or bool(theirs == ours)


def of_arguments(theirs: Any, ours: Any, name: str) -> Iterator[str]:
    """Yields the differences of two functions."""
    there, here = arguments(theirs), arguments(ours)
    for argument, parameter in there.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        mine = here.get(argument)
        if mine is None:
            yield f"{name}({argument})"
            continue
        is_needed = parameter.default is parameter.empty
        if not is_needed and not has_the_same_default(parameter.default, mine.default):
            yield f"{name}({argument}=)"
        positional = parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        if (positional and mine.kind is mine.KEYWORD_ONLY) or mine.kind is mine.POSITIONAL_ONLY:
            yield f"{name}({argument}, …)"


def of_names(theirs: Any, ours: Any, prefix: str) -> Iterator[str]:
    """Yields the differences of two modules or classes."""
    for name in public(theirs):
        full = f"{prefix}.{name}"
        if not hasattr(ours, name):
            yield full
            continue
        there, here = getattr(theirs, name), getattr(ours, name)
        is_compared = callable(there) and (not inspect.isclass(there) or prefix in ("storage", "codecs"))
        if is_compared and not issubclass(there if inspect.isclass(there) else object, Exception):
            yield from of_arguments(there, here, full)


def differences() -> set[str]:
    found = [
        *of_names(zarr, hs, "zarr"),
        *of_names(zarr.Array, hs.Array, "Array"),
        *of_names(zarr.Group, hs.Group, "Group"),
        *of_names(zarr.config, hs.config, "config"),
    ]
    for module in MODULES:
        theirs = importlib.import_module(f"zarr.{module}")
        found += of_names(theirs, getattr(hs, module, None), module)
    return set(found)


def listed() -> dict[str, str]:
    """Returns the names in the table, with the reasons."""
    found: dict[str, str] = {}
    for line in TABLE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| `") or len(cells) != 2:
            continue
        for name in re.findall(r"`([^`]+)`", cells[0]):
            assert name not in found, f"{name} is listed twice"
            found[name] = cells[1]
    return found


def test_what_is_not_here_is_listed() -> None:
    missing = sorted(differences() - set(listed()))
    assert not missing, f"neither here nor in {TABLE.name}: {missing}"


def test_what_is_listed_is_not_here() -> None:
    stale = sorted(set(listed()) - differences())
    assert not stale, f"{TABLE.name} lists what is here, or is not in zarr-python: {stale}"


def test_each_difference_has_a_reason() -> None:
    assert all(reason for reason in listed().values())
