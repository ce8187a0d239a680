"""HTML for notebooks: a table of facts and a drawing of the chunk grid.

It uses no scripts and no files. Colours follow the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

__all__ = ["array_html", "facts_table"]

_SIDE = 150.0
_SHORTEST = 14.0
_CLOSEST = 4.5
_SLANT = 0.4


def facts_table(facts: Mapping[str, Any]) -> str:
    """Return a table of facts, one per row."""
    rows = "".join(
        f'<tr><th style="text-align:left;padding:1px 12px 1px 0;font-weight:600">{escape(name)}</th>'
        f'<td style="text-align:left;padding:1px 0">{escape(str(value))}</td></tr>'
        for name, value in facts.items()
    )
    return f'<table style="border-collapse:collapse;background:none">{rows}</table>'


def array_html(
    title: str,
    facts: Mapping[str, Any],
    shape: Sequence[int],
    chunks: Sequence[int],
    shards: Sequence[int] | None = None,
) -> str:
    """Return the facts of an array beside a drawing of its chunk grid. Shards have bold edges."""
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:24px;align-items:center">'
        f'<div><div style="margin-bottom:4px"><b>{escape(title)}</b></div>{facts_table(facts)}</div>'
        f"<div>{_grid(shape, chunks, shards)}</div></div>"
    )


def _lengths(shape: Sequence[int]) -> list[float]:
    """Return drawn lengths: in proportion, but long enough to show both ends of an axis."""
    longest = max(shape)
    return [max(_SIDE * length / longest, _SHORTEST) for length in shape]


def _cuts(length: int, chunk: int, drawn: float, *, all_or_none: bool = False) -> list[float]:
    """Return the drawn positions of chunk boundaries. If there are too many: only some, or none."""
    count = -(-length // chunk)
    every = -(-count // max(int(drawn / _CLOSEST), 1))
    if every > 1 and all_or_none:
        return []
    return [drawn * index * chunk / length for index in range(every, count, every)]


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _points(*corners: tuple[float, float]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)


def _text(x: float, y: float, value: int, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{value}</text>'


def _lines(
    box: tuple[float, float, float, float, float],
    shape: Sequence[int],
    chunks: Sequence[int],
    *,
    all_or_none: bool = False,
) -> str:
    """Draw chunk boundaries on the visible sides of a block (left, top, width, height, slant)."""
    left, top, width, height, slant = box
    x, y = left + width, top + height
    lines = ""
    for cut in _cuts(shape[2], chunks[2], width, all_or_none=all_or_none):
        lines += _line(left + cut, top, left + cut, y)
        lines += _line(left + cut, top, left + cut + slant, top - slant) if slant else ""
    for cut in _cuts(shape[1], chunks[1], height, all_or_none=all_or_none):
        lines += _line(left, top + cut, x, top + cut)
        lines += _line(x, top + cut, x + slant, top + cut - slant) if slant else ""
    for cut in _cuts(shape[0], chunks[0], slant, all_or_none=all_or_none) if slant else ():
        lines += _line(left + cut, top - cut, x + cut, top - cut)
        lines += _line(x + cut, top - cut, x + cut, y - cut)
    return lines


def _grid(shape: Sequence[int], chunks: Sequence[int], shards: Sequence[int] | None = None) -> str:
    """Draw the last three axes as a block cut into chunks; fewer axes as a face or a bar."""
    if not shape or 0 in shape:
        return ""
    # A missing axis has one element.
    shape3, chunks3 = ([1, 1, *shape][-3:], [1, 1, *chunks][-3:])
    depth, height, width = _lengths(shape3)
    flat = shape3[0] == 1
    slant = 0.0 if flat else depth * _SLANT + 8
    left, top = 4.0, 4.0 + slant
    x, y = left + width, top + height
    face = f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
    box = left, top, width, height, slant
    lines, bold, sides = _lines(box, shape3, chunks3, all_or_none=shards is not None), "", ""
    if shards is not None:
        bold = '<g stroke="#3b82c4" stroke-width="2">' + _lines(box, shape3, [1, 1, *shards][-3:]) + "</g>"
    if not flat:
        right, back = x + slant, top - slant
        roof = _points((left, top), (left + slant, back), (right, back), (x, top))
        wall = _points((x, top), (right, back), (right, y - slant), (x, y))
        sides = (
            f'<polygon points="{roof}" fill-opacity="0.22"/><polygon points="{wall}" fill-opacity="0.34"/>'
        )
    labels = _text(left + width / 2, y + 14, shape3[2])
    if len(shape) > 1:
        labels += _text(x + slant + 6, top + (height - slant) / 2 + 4, shape3[1], "start")
    if not flat:
        labels += _text(left + slant / 2 - 4, top - slant / 2 - 2, shape3[0], "end")
    if len(shape) > 3:
        outer = " × ".join(str(length) for length in shape[:-3])
        labels += f'<text x="{left:.1f}" y="{y + 30:.1f}">{outer} of these</text>'
    room = x + slant + 60, y + (36 if len(shape) > 3 else 20)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{room[0] + 40:.0f}" height="{room[1]:.0f}" '
        f'viewBox="-40 0 {room[0] + 40:.0f} {room[1]:.0f}" role="img" aria-label="chunk grid" '
        'style="max-width:100%;height:auto;font:12px sans-serif">'
        '<g fill="#3b82c4" fill-opacity="0.28" stroke="#3b82c4" stroke-width="1.5">'
        f"{sides}{face}</g>"
        f'<g stroke="#3b82c4" stroke-opacity="{0.45 if bold else 0.65}" stroke-width="1">{lines}</g>{bold}'
        f'<g fill="currentColor" stroke="none">{labels}</g></svg>'
    )
