"""The facts that notebooks show of a group and of all nodes below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyperslab._core.array import Array
from hyperslab._core.info import human_size, shown_chunks
from hyperslab._core.unreadable import UnreadableArray, reason_text

if TYPE_CHECKING:
    from hyperslab._core.group_common import AnyGroup
    from hyperslab._display.group import ArrayFacts

__all__ = ["html_of"]

# Nodes to show. Opening more takes noticeable time on servers.
_MOST = 100


def html_of(group: AnyGroup) -> str:
    """Return a group as HTML."""
    from hyperslab._display.group import group_html

    listed = group._listed(None)
    nodes: list[tuple[str, ArrayFacts | str | None]] = []
    arrays: list[tuple[int, Array]] = []
    for path, kind, found in listed[:_MOST]:
        node = found() if kind == "array" else None
        if isinstance(node, UnreadableArray):
            nodes.append((path, reason_text(node.error)))
        elif isinstance(node, Array):
            arrays.append((path.count("/"), node))
            nodes.append((path, _facts(node)))
        else:
            nodes.append((path, None))
    # The dimensions of this group come first.
    lengths: dict[str, list[int]] = {}
    for _, array in sorted(arrays, key=lambda pair: pair[0]):
        for name, length in zip(array.dimension_names or (), array.shape, strict=False):
            known = lengths.setdefault(name or "", [])
            if length not in known:
                known.append(length)
    note = f"The first {_MOST} of {len(listed)} nodes" if len(listed) > _MOST else ""
    dimensions = {name: " or ".join(map(str, found)) for name, found in lengths.items()}
    title = f"Group {group.store.url}{group.name}"
    return group_html(title, dict(group.attrs), nodes, dimensions, note)


def _facts(array: Array) -> ArrayFacts:
    from hyperslab._display.group import ArrayFacts, codec_name

    names = array.dimension_names
    axes = str(array.shape)
    if names:
        pairs = [f"{name or '-'}: {length}" for name, length in zip(names, array.shape, strict=False)]
        axes = f"({', '.join(pairs)})"
    codecs = " ".join(codec_name(codec) for codec in (*array.filters, *array.compressors))
    facts = {
        "Chunks": shown_chunks(array),
        "Codecs": codecs or "none",
        "Bytes": human_size(array.nbytes),
    }
    return ArrayFacts(axes, str(array._shown_dtype), facts, dict(array.attrs))
