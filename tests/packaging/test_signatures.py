"""Docstrings list the parameters of the signatures: names, defaults and choices.

The API reference of the site shows the docstrings with the defaults of the signatures. The stub of
the native module has its signatures.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import typing
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import hyperslab as hs
import pytest
from hyperslab import _native
from hyperslab._core.arguments import DEFAULT_FILL_VALUE

MODULES = ("", ".codecs", ".dask", ".errors", ".h5", ".storage", ".xarray", ".zarr")
# Names that defaults in docstrings use.
NAMES = {"Bytes": hs.codecs.Bytes, "Crc32c": hs.codecs.Crc32c, "zipfile": zipfile}
STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def public() -> Iterator[tuple[str, Any]]:
    """Yields functions, classes and methods that users call."""
    for suffix in MODULES:
        module = importlib.import_module(f"hyperslab{suffix}")
        for name in module.__all__:
            thing = getattr(module, name)
            yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing):
                for each in dir(thing):
                    if not each.startswith("_"):
                        yield f"{module.__name__}.{name}.{each}", getattr(thing, each)


def documented(thing: Any) -> dict[str, str]:
    """Returns the parameters in a docstring, each with the text after the colon."""
    section = re.search(r"^Parameters\n-+\n((?:.*\n?)+?)(?=\w.*\n---|\Z)", inspect.getdoc(thing) or "", re.M)
    lines = section[1].splitlines() if section else []
    parts = [line.partition(" : ") for line in lines if re.match(r"[\w*]", line)]
    return {name: kind for names, _, kind in parts for name in names.split(", ")}


def parameters(thing: Any) -> dict[str, inspect.Parameter]:
    """Returns the parameters in the signature. Names include their stars."""
    found = inspect.signature(thing).parameters.values()
    return {STARS.get(each.kind, "") + each.name: each for each in found if each.name != "self"}


DOCUMENTED = {name: thing for name, thing in public() if callable(thing) and documented(thing)}


def test_there_is_much_to_compare() -> None:
    assert len(DOCUMENTED) > 100
    assert set(documented(hs.open)) > {"store", "mode", "cache", "**kwargs"}
    assert documented(hs.open)["zarr_format"] == "{2, 3}, optional"


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings_name_the_parameters(name: str) -> None:
    assert set(documented(DOCUMENTED[name])) == set(parameters(DOCUMENTED[name]))


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings_tell_the_defaults(name: str) -> None:
    """Each type is followed by its default, or by ``optional`` if the default is nothing."""
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


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings_tell_the_choices(name: str) -> None:
    """``{"C", "F"}`` lists all values that the annotation allows."""
    for parameter, kind in documented(DOCUMENTED[name]).items():
        choices = re.match(r"\{(.+)\}", kind)
        if choices:
            annotation = annotation_of(DOCUMENTED[name], parameter)
            assert annotation is str or set(eval(f"[{choices[1]}]")) == values(annotation), parameter


def annotation_of(thing: Any, parameter: str) -> Any:
    """Returns the type in an annotation, with names from the function's module."""
    function = thing.__init__ if inspect.isclass(thing) else thing
    annotation = inspect.signature(function).parameters[parameter].annotation
    return eval(annotation, vars(sys.modules[function.__module__]))


def values(annotation: Any) -> set[Any]:
    """Returns the values in an annotation, other than ``None``."""
    if typing.get_origin(annotation) is Literal:
        return set(typing.get_args(annotation)) - {None}
    return {value for part in typing.get_args(annotation) for value in values(part)}


def test_a_group_creates_arrays_as_the_function_does() -> None:
    function, method = parameters(hs.create_array), parameters(hs.Group.create_array)
    for name in ("store", "name", "zarr_format"):
        del function[name]
    assert method.pop("name").default is inspect.Parameter.empty
    assert method.pop("compressor") == function["compressors"].replace(name="compressor")
    assert method == function


def stub() -> ModuleType:
    """Returns the stub of the native module as a module.

    An overloaded function is its longest overload, which shows all parameters.
    """
    path = Path(hs.__file__).with_name("_native.pyi")
    module = ModuleType("hyperslab._native_stub")
    longest: dict[str, Any] = {}

    def overload(function: Any) -> Any:
        known = longest.get(function.__name__, function)
        longest[function.__name__] = max(known, function, key=lambda each: len(shown(each)))
        return longest[function.__name__]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(typing, "overload", overload)
        exec(compile("from __future__ import annotations\n" + path.read_text(), path, "exec"), vars(module))
    return module


def shown(thing: Any) -> list[tuple[Any, ...]]:
    """Returns names, kinds and defaults.

    The native module shows ``...`` for non-constant defaults.
    """
    found = [each for each in inspect.signature(thing).parameters.values() if each.name != "self"]
    return [(each.name, each.kind, ... if each.default == () else each.default) for each in found]


def test_the_stub_tells_the_signatures() -> None:
    told = stub()
    assert set(told.__all__) == set(_native.__all__)
    assert len(told.__all__) > 80
    for name in told.__all__:
        real, said = getattr(_native, name), getattr(told, name, None)
        if inspect.isclass(real):
            for member in vars(real):
                method = getattr(real, member)
                if callable(method) and not member.startswith("__"):
                    assert shown(method) == shown(getattr(said, member)), f"{name}.{member}"
            if "__new__" in vars(said):
                assert shown(real) == shown(said), name
        elif callable(real):
            assert shown(real) == shown(said), name
