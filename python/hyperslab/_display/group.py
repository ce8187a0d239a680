"""HTML of a group for notebooks: sections that open and close, as xarray shows datasets.

It uses no scripts and no files. Colours follow the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from hyperslab._display.html import facts_table

__all__ = ["ArrayFacts", "codec_name", "group_html"]

_LONGEST = 200

# The filters that the HDF Group has registered, and those of the library itself.
_FILTERS = {
    1: "gzip",
    2: "shuffle",
    3: "fletcher32",
    4: "szip",
    5: "nbit",
    6: "scaleoffset",
    307: "bzip2",
    32000: "lzf",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32026: "blosc2",
}


@dataclass
class ArrayFacts:
    """An array as a group shows it."""

    axes: str
    """Lengths, with the names of axes if there are any."""
    dtype: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)


def codec_name(codec: Any) -> str:
    """Return the name of a codec, or of a filter of HDF5."""
    if isinstance(codec, Mapping):
        number = codec.get("id")
        known = _FILTERS.get(number) if isinstance(number, int) else number
        return str(known or codec.get("name") or f"filter {number}")
    return str(codec).split("(", 1)[0].removesuffix("Codec").lower()


def group_html(
    title: str,
    attributes: Mapping[str, Any],
    nodes: Sequence[tuple[str, ArrayFacts | str | None]],
    dimensions: Mapping[str, str],
    note: str = "",
) -> str:
    """Return a group with all nodes below.

    ``nodes`` are paths with the facts of an array, the reason why it cannot be read, or ``None`` for
    a group.
    """
    head = f'<div style="margin-bottom:4px"><b>{escape(title)}</b></div>'
    if note:
        head += f"<div>{escape(note)}</div>"
    sized = {name: length for name, length in dimensions.items() if name}
    return f"<div>{head}{_dimensions(sized)}{_members(nodes, '')}{_attributes(attributes)}</div>"


def _section(title: str, body: str, *, opened: bool) -> str:
    state = " open" if opened else ""
    return (
        f'<details{state} style="margin:2px 0"><summary style="cursor:pointer">{title}</summary>'
        f'<div style="margin:2px 0 6px 18px">{body}</div></details>'
    )


def _dimensions(dimensions: Mapping[str, str]) -> str:
    if not dimensions:
        return ""
    body = ", ".join(f"<b>{escape(name)}</b>: {escape(length)}" for name, length in dimensions.items())
    return _section(f"Dimensions ({len(dimensions)})", body, opened=True)


def _attributes(attributes: Mapping[str, Any]) -> str:
    if not attributes:
        return ""
    shown = {name: _short(value) for name, value in attributes.items()}
    return _section(f"Attributes ({len(shown)})", facts_table(shown), opened=False)


def _short(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _members(nodes: Sequence[tuple[str, ArrayFacts | str | None]], prefix: str) -> str:
    arrays, groups = [], []
    for path, facts in nodes:
        name = path.removeprefix(prefix)
        if not path.startswith(prefix) or not name or "/" in name:
            continue
        if facts is None:
            below = f"{path}/"
            groups.append(_section(f"<b>{escape(name)}</b>", _members(nodes, below) or "empty", opened=False))
        else:
            arrays.append(_array(name, facts))
    html = ""
    if arrays:
        html += _section(f"Arrays ({len(arrays)})", "".join(arrays), opened=True)
    if groups:
        html += _section(f"Groups ({len(groups)})", "".join(groups), opened=True)
    return html


def _array(name: str, facts: ArrayFacts | str) -> str:
    if isinstance(facts, str):
        return f"<div><b>{escape(name)}</b> unreadable: {escape(facts)}</div>"
    line = (
        f'<span style="display:inline-block;min-width:9em"><b>{escape(name)}</b></span> '
        f'<span style="display:inline-block;min-width:16em">{escape(facts.axes)}</span> {escape(facts.dtype)}'
    )
    attributes = {attribute: _short(value) for attribute, value in facts.attributes.items()}
    body = facts_table(facts.facts) + (facts_table(attributes) if attributes else "")
    return _section(line, body, opened=False)
