"""Recreates stores of obstore and fsspec as native stores, so that requests bypass Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab import _native
from hyperslab._stores.remote import RemoteStore
from hyperslab._stores.store import LocalStore, Store
from hyperslab.errors import UnsupportedError

__all__ = ["native_store", "url_of_fsspec"]

# Client options of obstore (`client_options`) that we have a setting for, besides credentials.
CLIENT_OPTIONS = ("allow_http", "proxy_url")

# URL scheme and possible option names of the bucket, by obstore's class of store.
BUCKETS = {
    "S3Store": ("s3", ("bucket", "bucket_name", "aws_bucket", "aws_bucket_name")),
    "GCSStore": ("gs", ("bucket", "bucket_name", "google_bucket", "google_bucket_name")),
    "AzureStore": ("az", ("container_name", "azure_container_name")),
}

# Protocols of fsspec with the same option names as `storage_options`.
PROTOCOLS = ("s3", "s3a", "gs", "gcs", "az", "abfs")


def native_store(store: Any) -> Store | None:
    """Return a native store for the place of an object of obstore, fsspec or zarr-python.

    Returns ``None`` for other objects, and for objects that need Python: with a credential
    provider, or with a setting that we do not have. Call such an object itself.
    """
    package = type(store).__module__.split(".")[0]
    name = type(store).__name__
    try:
        if package == "obstore":
            return _of_obstore(store, name)
        if package == "fsspec" and name == "FSMap":
            return _of_fsspec(store.fs, store.root)
        if package == "zarr" and name == "FsspecStore":
            found = _of_fsspec(store.fs, store.path)
        elif package == "zarr" and name == "ObjectStore":
            found = _of_obstore(store.store, type(store.store).__name__)
        else:
            return None
    except UnsupportedError:
        return None
    return None if found is None else found.with_read_only(bool(store.read_only))


def _of_obstore(store: Any, name: str) -> Store | None:
    if name == "LocalStore":
        return None if store.prefix is None else LocalStore(store.prefix)
    if name == "HTTPStore":
        return _remote(store.url, _client_options(store))
    if name not in BUCKETS or getattr(store, "credential_provider", None) is not None:
        return None
    scheme, names = BUCKETS[name]
    options = dict(store.config)
    bucket = next((options.pop(name) for name in names if name in options), None)
    if bucket is None:
        return None
    path = "/".join(part for part in (bucket, (store.prefix or "").strip("/")) if part)
    return _remote(f"{scheme}://{path}", options | _client_options(store))


def _client_options(store: Any) -> dict[str, Any]:
    given = dict(store.client_options or {})
    # Never drop certificates, headers or timeouts that a user chose.
    unknown = {name for name in given if name not in CLIENT_OPTIONS}
    if unknown:
        raise UnsupportedError(f"client options of obstore: {', '.join(sorted(unknown))}")
    return given


def _of_fsspec(file_system: Any, path: str) -> Store | None:
    protocol = file_system.protocol
    protocols = (protocol,) if isinstance(protocol, str) else tuple(protocol)
    if "file" in protocols:
        return LocalStore(path)
    found = url_of_fsspec(file_system, path)
    return None if found is None else _remote(*found)


def url_of_fsspec(file_system: Any, path: str) -> tuple[str, Mapping[str, Any]] | None:
    """Return the URL of a path on a server, with its options; ``None`` if we cannot reach it."""
    protocol = file_system.protocol
    protocols = (protocol,) if isinstance(protocol, str) else tuple(protocol)
    options: Mapping[str, Any] = getattr(file_system, "storage_options", {})
    # These options only say how Python runs the requests.
    options = {name: value for name, value in options.items() if name not in ("asynchronous", "loop")}
    if "http" in protocols or "https" in protocols:
        return (path, options) if path.startswith("http") else None
    scheme = next((name for name in protocols if name in PROTOCOLS), None)
    return None if scheme is None else (f"{scheme}://{path.strip('/')}", options)


def _remote(url: str, options: Mapping[str, Any]) -> Store | None:
    if not _native.takes_storage_options(url):
        return None
    try:
        return RemoteStore(url, storage_options=options)
    except TypeError:
        # One of the options is an object.
        return None
