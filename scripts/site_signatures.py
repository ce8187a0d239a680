"""Shows types and defaults of parameters on the site as the signatures have them.

This extends griffe, which reads the docstrings for the site (mkdocs.yml). griffe alone makes three
mistakes:

- Each name of ``store, mode, path`` gets the type and the default of ``store``.
- The first word of ``{"r", "r+"}`` becomes the default, and ``array-like`` a difference.
- A class that has `__new__` in place of `__init__` gets no signature.
"""

import re
from typing import Any

import griffe


class Signatures(griffe.Extension):  # type: ignore[misc]
    """Called for each class and function after the whole package has been read."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Shows the parameters of `__new__` if the class docstring documents parameters."""
        new = cls.members.get("__new__")
        has_parameters = cls.docstring is not None and "Parameters\n---" in cls.docstring.value
        if has_parameters and new is not None and "__init__" not in cls.members:
            new.name, new.returns = "__init__", None
            cls.set_member("__init__", new)
        correct(cls)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Corrects the docstring."""
        correct(func)


def correct(function: griffe.Function | griffe.Class) -> None:
    """Gives each parameter in a docstring its written type and the signature's default.

    Without a written type it uses the type in the signature.
    """
    docstring = function.docstring
    if docstring is None:
        return
    lines = re.findall(r"^(\S.*?) : (.+?)(?:, optional|, default .+)?$", docstring.value, re.MULTILINE)
    types = {name: written for names, written in lines for name in names.split(", ")}
    for section in docstring.parsed:
        if section.kind is griffe.DocstringSectionKind.parameters:
            for told in section.value:
                name = told.name.lstrip("*")
                real = function.parameters[name]
                told.value = real.default if name == told.name else None
                told.annotation = types.get(told.name, real.annotation)
