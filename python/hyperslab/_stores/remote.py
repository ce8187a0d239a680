"""Object stores and web servers: S3, Google Cloud Storage, Azure Blob Storage, HTTP."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from hyperslab import _native
from hyperslab._base.config import config
from hyperslab._stores.store import Store
from hyperslab.errors import NodeNotFoundError, UnsupportedError

__all__ = ["RemoteStore", "flat_options", "pickled_options"]


class RemoteStore(Store):
    """Objects on a server, below a URL. No request is sent before the first read or write.

    Parameters
    ----------
    url : str
        ``s3://bucket/path``, ``gs://bucket/path``, ``az://container/path``,
        ``abfs://container@account.dfs.core.windows.net/path``, ``https://host/path``.
    storage_options : mapping, optional
        Credentials and settings, under the names of s3fs, gcsfs and adlfs (``key``, ``secret``,
        ``anon``, ``endpoint_url``, …) or of obstore (``access_key_id``, ``skip_signature``,
        ``region``, …). Options that are not given are looked up in the environment, in ``~/.aws``,
        and in the cloud that this machine runs in.
    read_only : bool, default False
        Whether nodes opened through this store refuse changes.

    Raises
    ------
    UnsupportedError
        If the URL or an option is invalid. The message contains no secrets.
    """

    _options: list[tuple[str, str]]

    def __init__(
        self, url: str, *, storage_options: Mapping[str, Any] | None = None, read_only: bool = False
    ) -> None:
        self._options = flat_options(storage_options)
        if not _native.takes_storage_options(url):
            raise UnsupportedError("a RemoteStore is on a server: give a URL such as s3://bucket/path")
        handle, path, _ = _native.find_place(url, storage=self._options)
        if path or handle.is_file:
            raise NodeNotFoundError(f"{handle.url} is a file: use hyperslab.open or FileStore")
        self._native, self._read_only = handle, bool(read_only)

    @classmethod
    def _of(cls, handle: _native.StoreHandle, options: list[tuple[str, str]], read_only: bool) -> RemoteStore:
        self = object.__new__(cls)
        self._native, self._options, self._read_only = handle, options, read_only
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _remote, (pickled_url(self._native), pickled_options(self._options), self._read_only)


def _remote(url: str, options: list[tuple[str, str]], read_only: bool) -> RemoteStore:
    return RemoteStore(url, storage_options=dict(options), read_only=read_only)


def pickled_url(handle: _native.StoreHandle) -> str:
    """Return the URL of a store for a pickle. Secrets in it need ``pickle_credentials``."""
    if handle.has_secret_url:
        check_pickled_secrets(["the user or the query in its URL"])
    return handle.secret_url if config.pickle_credentials else handle.url


def pickled_options(options: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return options for a pickle. Secrets need ``pickle_credentials``: pickles are readable."""
    secret = [name for name, _ in options if _native.is_secret_option(name)]
    if secret:
        check_pickled_secrets(secret)
    return options


def has_secrets(options: list[tuple[str, str]]) -> bool:
    """Return True if an option is a secret."""
    return any(_native.is_secret_option(name) for name, _ in options)


def check_pickled_secrets(names: Sequence[str] = ("its server's options or URL",)) -> None:
    """Fail if secrets must not be pickled. ``names``: what they are."""
    if not config.pickle_credentials:
        raise _refusal(names)


def _refusal(names: Sequence[str]) -> TypeError:
    return TypeError(
        f"cannot pickle a store with secrets ({', '.join(names)}): leave these to the environment or a "
        "profile, which the other process finds itself, or allow it by "
        "hyperslab.config.set(pickle_credentials=True)"
    )


def flat_options(options: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return storage options as sorted text. Names of nested mappings are joined by dots.

    Options that are ``None`` are left out.
    """
    if options is None:
        return []
    if not isinstance(options, Mapping):
        raise TypeError(f"storage_options: expected a mapping, found {type(options).__name__}")
    found: list[tuple[str, str]] = []
    for name, value in options.items():
        if not isinstance(name, str):
            raise TypeError(f"storage_options: expected names of type str, found {type(name).__name__}")
        if value is None:
            continue
        if isinstance(value, Mapping) and name == "token":
            # gcsfs takes the content of a credentials file.
            found.append((name, json.dumps(dict(value))))
        elif isinstance(value, Mapping):
            found += [(f"{name}.{inner}", text) for inner, text in flat_options(value)]
        elif isinstance(value, bool):
            found.append((name, "true" if value else "false"))
        elif isinstance(value, (str, int, float)):
            found.append((name, str(value)))
        elif isinstance(value, bytes):
            found.append((name, value.decode()))
        elif isinstance(value, os.PathLike):
            found.append((name, os.fsdecode(value)))
        else:
            raise TypeError(
                f"storage option {name!r}: expected text, a number or a mapping, found {type(value).__name__}"
            )
    return sorted(found)
