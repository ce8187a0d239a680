"""The tree of a group, as text and HTML."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

__all__ = ["Tree"]


class Tree:
    """A hierarchy that prints as a tree.

    Parameters
    ----------
    name : str
        Name of the root.
    nodes : iterable of (path, facts)
        All nodes below, each group followed by its members; ``facts`` are printed after the name.
    note : str
        Printed first, for instance that nodes were left out.
    plain : bool
        Whether names are plain text. Otherwise they are bold on terminals that understand ANSI
        codes.
    """

    def __init__(
        self, name: str, nodes: Iterable[tuple[str, str]], note: str = "", plain: bool = True
    ) -> None:
        self._name, self._note, self._plain = name, note, plain
        self._nodes = [(path.split("/"), facts) for path, facts in nodes]

    def _lines(self) -> list[tuple[str, str, str]]:
        """Return the branches, name and facts of each node."""
        last: dict[tuple[str, ...], str] = {}
        for parts, _ in self._nodes:
            last[tuple(parts[:-1])] = parts[-1]
        lines = []
        for parts, facts in self._nodes:
            is_last = [last.get(tuple(parts[:depth])) == parts[depth] for depth in range(len(parts))]
            stems = "".join("    " if end else "│   " for end in is_last[:-1])
            lines.append((stems + ("└── " if is_last[-1] else "├── "), parts[-1], facts))
        return lines

    def __repr__(self) -> str:
        on, off = ("", "") if self._plain else ("\x1b[1m", "\x1b[0m")
        lines = [
            f"{stem}{on}{name}{off}{' ' + facts if facts else ''}" for stem, name, facts in self._lines()
        ]
        head = [self._note] if self._note else []
        return "\n".join([*head, f"{on}{self._name}{off}", *lines]) + "\n"

    def _repr_html_(self) -> str:
        lines = [
            f"{stem}<b>{escape(name)}</b>{' ' + escape(facts) if facts else ''}"
            for stem, name, facts in self._lines()
        ]
        head = [escape(self._note)] if self._note else []
        body = "\n".join([*head, f"<b>{escape(self._name)}</b>", *lines])
        return (
            '<pre style="white-space:pre;overflow-x:auto;line-height:normal;'
            f"font-family:Menlo,'DejaVu Sans Mono',Consolas,monospace\">{body}</pre>"
        )
