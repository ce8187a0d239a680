"""Types and defaults of parameters on the site, as the signatures have them: an extension of griffe, which
reads the docstrings for the site (mkdocs.yml).

griffe alone gives each name of ``store, mode, path`` the type and default of ``store``, takes the first word
of ``{"r", "r+"}`` for the default, and shows no signature of a class whose objects `__new__` makes.
"""

import re
from typing import Any

import griffe


class Signatures(griffe.Extension):  # type: ignore[misc]
    """Called for each class and function when the whole package is read."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Shows the parameters of `__new__`, if users are meant to call the class: the docstring has them."""
        new = cls.members.get("__new__")
        has_parameters = cls.docstring is not None and "Parameters\n---" in cls.docstring.value
        if has_parameters and new is not None and "__init__" not in cls.members:
            new.name, new.returns = "__init__", None
            cls.set_member("__init__", new)
        correct(cls)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Corrects what the docstring says."""
        correct(func)


def correct(function: griffe.Function | griffe.Class) -> None:
    """Gives each parameter in a docstring the default of the signature, and the type, where the docstring
    has none.
    """
    docstring = function.docstring
    for section in [] if docstring is None else docstring.parsed:
        if section.kind is not griffe.DocstringSectionKind.parameters:
            continue
        for told in section.value:
            name = told.name.lstrip("*")
            real = function.parameters[name]
            told.value = None if name != told.name else real.default
            choices = re.search(rf"^{name} : (\{{.+?)(, optional|, default .+)?$", docstring.value, re.M)
            if choices:
                told.annotation = choices[1]
            elif any(told.annotation is each.annotation for each in function.parameters):
                told.annotation = real.annotation
            elif isinstance(told.annotation, griffe.ExprTuple):
                # Several types are no tuple: "int, sequence of int".
                told.annotation.implicit = True
