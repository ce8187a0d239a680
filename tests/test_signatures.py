"""The parameters that docstrings tell are those of the signatures: names, defaults and choices. The stubs of
the native module tell its signatures, too.

The API reference of the site takes parameters from the docstrings, and their defaults from the signatures.
"""

from __future__ import annotations

import importlib
import inspect
import re
import typing
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import hyperslab as hs
import pytest
from hyperslab import _native
from hyperslab._create import DEFAULT_FILL_VALUE

MODULES = ("", ".codecs", ".dask", ".errors", ".h5", ".storage", ".xarray", ".zarr")
# What code in docstrings may name.
NAMES = {"Bytes": hs.codecs.Bytes, "Crc32c": hs.codecs.Crc32c, "zipfile": zipfile}


def public() -> dict[str, Callable[..., Any]]:
    """Functions, classes and methods that users call."""
    found: dict[str, Callable[..., Any]] = {}
    for suffix in MODULES:
        module = importlib.import_module(f"hyperslab{suffix}")
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing):
                members = [each for each in dir(thing) if not each.startswith("_")]
                found |= {f"{module.__name__}.{name}.{each}": getattr(thing, each) for each in members}
            found[f"{module.__name__}.{name}"] = thing
    return {name: thing for name, thing in found.items() if callable(thing)}


def documented(thing: Any) -> dict[str, str]:
    """Parameters in a docstring, and what stands behind the colon."""
    section = re.search(r"^Parameters\n-+\n((?:.*\n?)+?)(?=\w.*\n---|\Z)", inspect.getdoc(thing) or "", re.M)
    lines = section[1].splitlines() if section else []
    parts = [line.partition(" : ") for line in lines if re.match(r"[\w*]", line)]
    return {name: kind for names, _, kind in parts for name in names.split(", ")}


def parameters(thing: Any) -> dict[str, inspect.Parameter]:
    """Parameters in the signature, with the stars that are written before names."""
    found = inspect.signature(thing).parameters.values()
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return {stars.get(each.kind, "") + each.name: each for each in found if each.name != "self"}


DOCUMENTED = {name: thing for name, thing in public().items() if documented(thing)}


def test_there_is_much_to_compare() -> None:
    assert len(DOCUMENTED) > 100
    assert set(documented(hs.open)) > {"store", "mode", "cache", "**kwargs"}
    assert documented(hs.open)["zarr_format"] == "{2, 3}, optional"


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings_name_the_parameters(name: str) -> None:
    assert set(documented(DOCUMENTED[name])) == set(parameters(DOCUMENTED[name]))


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings_tell_the_defaults(name: str) -> None:
    """Behind the type stands ``optional`` where nothing is the default, else ``default`` and the default."""
    wrong = []
    for parameter, kind in documented(DOCUMENTED[name]).items():
        real = parameters(DOCUMENTED[name])[parameter]
        if not kind:
            continue
        if real.default is real.empty:
            is_right = not re.search(r"\b(optional|default)\b", kind)
        elif re.search(r", default (.+)$", kind):
            is_right = eval(kind.partition(", default ")[2], NAMES) == real.default
        else:
            is_right = kind.endswith(", optional") and real.default in (None, DEFAULT_FILL_VALUE)
        if not is_right:
            wrong.append(f"{parameter} : {kind}, but {real}")
    assert not wrong
