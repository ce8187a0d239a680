"""A server for arrays of any format: ``hyperslab serve`` in a process of Python."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hyperslab import _native
from hyperslab._stores.remote import flat_options
from hyperslab.errors import ArgumentTypeError

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Server", "serve"]


class Server:
    """A running server, from `hyperslab.serve`.

    Stops at the end of a ``with`` block, by `stop`, and when nothing refers to it any more.
    """

    def __init__(self, handle: _native.ServerHandle) -> None:
        self._handle = handle

    @property
    def url(self) -> str:
        """The URL, without a slash at the end."""
        return self._handle.url

    @property
    def token(self) -> str | None:
        """The token that clients must send, or None if they need none."""
        return self._handle.token

    @property
    def names(self) -> list[str]:
        """The names of the served nodes, in the order of the locations."""
        return list(self._handle.names)

    @property
    def is_running(self) -> bool:
        """True until the server is stopped."""
        return self._handle.is_running()

    def zarr_url(self, name: str | None = None) -> str:
        """Return the URL of a served node as Zarr; by default of the first."""
        from urllib.parse import quote

        return f"{self.url}/zarr/{quote(self.names[0] if name is None else name)}"

    def wait(self) -> None:
        """Wait until the server is stopped, or until Ctrl-C."""
        try:
            while self.is_running:
                time.sleep(0.2)
        except KeyboardInterrupt:
            self.stop()

    def stop(self) -> None:
        """Stop the server. Answers that are being sent have up to 3 s."""
        self._handle.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        """Return the URL, the names, and whether the server runs."""
        state = "" if self.is_running else ", stopped"
        return f"<Server {self.url} {self.names}{state}>"


def serve(
    *locations: str | os.PathLike[str],
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    public: bool = False,
    cors: str | None = None,
    read_timeout: float = 30.0,
    prefix: str = "",
    log: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Server:
    """Serve arrays over HTTP, as Zarr v3 and in other forms, and return at once.

    Parameters
    ----------
    *locations
        Paths and URLs of any format. A directory gives access to everything below it, a file to
        itself. Each is served under its own name.
    host
        The address to listen on. By default only programs of this machine can connect.
    port
        The port to listen on. 0: a free one.
    token
        A token that clients must send. If there is none, other addresses than the loopback address
        get a new one.
    public
        Let in everybody who reaches the address.
    cors
        The origin whose web pages may read, or ``"*"``.
    read_timeout
        The longest wait for a client, in seconds.
    prefix
        The path before all routes, behind a proxy.
    log
        Print each request to standard error.
    storage_options
        Credentials and settings of the servers that URLs lead to, as in `RemoteStore`.

    Returns
    -------
    Server
        The running server.

    Examples
    --------
    >>> import urllib.request
    >>> z = hs.create_array("served.zarr", shape=4, dtype="i2")
    >>> z[:] = [1, 2, 3, 4]
    >>> with hs.serve("served.zarr") as server:
    ...     values = hs.open(server.zarr_url())[1:3].tolist()
    ...     url = f"{server.url}/api/data/served.zarr?select=::2"
    ...     with urllib.request.urlopen(url) as answer:
    ...         text = answer.read().decode().strip()
    >>> values, text
    ([2, 3], '[1, 3]')
    """
    for location in locations:
        if not isinstance(location, str | os.PathLike):
            kind = type(location).__name__
            raise ArgumentTypeError(
                f"serve: expected paths and URLs, found {kind}. Pass the path of the data."
            )
    handle = _native.ServerHandle(
        [os.fspath(location) for location in locations],
        host,
        port,
        token,
        public,
        cors,
        float(read_timeout),
        prefix,
        log,
        flat_options(storage_options),
    )
    return Server(handle)
