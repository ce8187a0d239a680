"""``hyperslab.view``: an array in the viewer, in a notebook or a browser."""

from __future__ import annotations

import html
import os
import secrets
import sys
import threading
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from hyperslab._core.array_common import AnyArray
from hyperslab._core.group import Group
from hyperslab._core.node import ZarrNode
from hyperslab._create.open import open as open_node
from hyperslab._serve.server import Server, serve
from hyperslab._stores.store import FileStore, LocalStore
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

__all__ = ["Viewer", "view"]

# Open views by what they serve: the server's address, its options, and the process.
_Key = tuple[str, tuple[tuple[str, str], ...], int]
_servers: dict[_Key, _Served] = {}
# Turns of the threads of a process. A forked child has a lock of its own.
_turns: dict[int, threading.Lock] = {}


def _turn() -> threading.Lock:
    return _turns.setdefault(os.getpid(), threading.Lock())


@dataclass
class _Served:
    server: Server
    # Number of views that are not closed.
    views: int = 0


@dataclass
class Viewer:
    """An array or a group in the viewer, from `hyperslab.view`.

    Notebooks show it as a frame. The server runs until `close`, or until the program ends.
    """

    url: str
    """The address, with the server's token. Only programs of this machine can open it."""
    width: str = "100%"
    height: int = 640
    _key: _Key | None = field(default=None, repr=False)

    def close(self) -> None:
        """Close the view. The server of the last view of a file stops."""
        with _turn():
            key, self._key = self._key, None
            if key is None or key not in _servers:
                return
            served = _servers[key]
            served.views -= 1
            if served.views:
                return
            del _servers[key]
        served.server.stop()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        """Return the frame."""
        if self._key is None:
            return "<em>This view is closed: call hyperslab.view again.</em>"
        source, width = html.escape(self.url, quote=True), html.escape(str(self.width), quote=True)
        return (
            f'<iframe src="{source}" width="{width}" height="{int(self.height)}" '
            'style="border: 1px solid #8884" allow="fullscreen"></iframe>'
        )


def view(
    node: Any,
    select: str | None = None,
    *,
    map: str | None = None,
    range: tuple[float, float] | None = None,
    width: str | int = "100%",
    height: int = 640,
    storage_options: Any = None,
) -> Viewer:
    """Look at an array or a group: as a frame in a notebook, in a browser otherwise.

    A server on the loopback address serves the data, with a token that is part of the address.
    Views of the same data share it. Outside of notebooks the address is printed.

    Parameters
    ----------
    node : Array, Group, str or os.PathLike
        What to look at, or its path or URL. It must be stored in files or on a server: data in the
        memory of this process have no address.
    select : str, optional
        What to show first, as between NumPy's brackets: ``"0, :, ::2"``.
    map : str, optional
        The colours: ``"viridis"``, ``"cividis"``, ``"magma"``, ``"gray"``, ``"blue-red"``.
    range : tuple of float, optional
        The values of the first and the last colour.
    width, height
        The size of the frame: CSS, and pixels.
    storage_options : mapping, optional
        Credentials and settings of a server, for a URL.

    Returns
    -------
    Viewer

    Raises
    ------
    InvalidArgumentError
        If the data are not stored where the server can read them.

    Examples
    --------
    >>> z = hs.create_array("looked.zarr", shape=(4, 6), dtype="f4")
    >>> look = hs.view(z, "1:, :", map="magma")  # doctest: +ELLIPSIS
    http://127.0.0.1:.../view/looked.zarr?token=...&select=1%3A%2C%20%3A&map=magma
    >>> look.close()
    """
    if isinstance(node, str | os.PathLike):
        node = open_node(node, mode="r", storage_options=storage_options)
    if not isinstance(node, AnyArray | Group | ZarrNode):
        raise ArgumentTypeError(
            f"view: expected an array, a group or a path, found {type(node).__name__}. Pass what "
            "hyperslab.open returns."
        )
    location, options = _location(node)
    key = (location, tuple(options), os.getpid())
    with _turn():
        served = _servers.get(key)
        if served is None or not served.server.is_running:
            token = secrets.token_urlsafe(16)
            served = _Served(serve(location, token=token, storage_options=dict(options)))
            _servers[key] = served
        served.views += 1
    query: dict[str, str] = {"token": served.server.token or ""}
    given = {
        "select": select,
        "map": map,
        "range": None if range is None else ",".join(repr(float(n)).removesuffix(".0") for n in range),
    }
    query |= {name: value for name, value in given.items() if value is not None}
    place = "/".join(part for part in (served.server.names[0], node.path.strip("/")) if part)
    url = f"{served.server.url}/view/{quote(place)}?{urlencode(query, quote_via=quote)}"
    made = Viewer(url, str(width), height, key)
    if not _is_notebook():
        print(url)
    return made


def _location(node: Any) -> tuple[str, list[tuple[str, str]]]:
    """Return the path or URL of the store or file that has a node, and options of its server."""
    store = node.store
    is_stored = isinstance(store, LocalStore | FileStore) or hasattr(store, "_options")
    if not is_stored or getattr(store, "_is_object", False) or store.url.startswith("memory:"):
        raise InvalidArgumentError(
            f"view: '{node.name}' is in {store.url}, which the server cannot read. Store it first: "
            "hyperslab.copy(node, 'new.zarr')"
        )
    return store.url, list(getattr(store, "_options", []))


def _is_notebook() -> bool:
    """Return True if results of cells are shown as HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")
