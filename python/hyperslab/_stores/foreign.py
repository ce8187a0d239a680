"""Stores of obstore and file systems of fsspec, made anew as our own: requests then go past Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab import _native
from hyperslab._stores.remote import RemoteStore
from hyperslab._stores.store import LocalStore, Store
from hyperslab.errors import UnsupportedError

__all__ = ["native_store", "url_of_fsspec"]

# What `client_options` of obstore says that is not about credentials, where we have a setting for it.
CLIENT_OPTIONS = ("allow_http", "proxy_url")

# Where the name of the bucket is among the options of obstore, by the class of the store.
BUCKETS = {
    "S3Store": ("s3", ("bucket", "bucket_name", "aws_bucket", "aws_bucket_name")),
    "GCSStore": ("gs", ("bucket", "bucket_name", "google_bucket", "google_bucket_name")),
    "AzureStore": ("az", ("container_name", "azure_container_name")),
}

# Protocols of fsspec whose options have the names that `storage_options` takes.
PROTOCOLS = ("s3", "s3a", "gs", "gcs", "az", "abfs")


def native_store(store: Any) -> Store | None:
    """A store of ours that reaches what an object of obstore, fsspec or zarr-python reaches; ``None``: it is
    no such object, or it has what only Python can do (a provider of credentials, a setting that we do not
    have), and is to be asked itself.
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
    # Certificates, headers and times that somebody chose are not left out silently.
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
    """The URL of a path on a server, and the options that reach it; ``None``: it is on none that we reach."""
    protocol = file_system.protocol
    protocols = (protocol,) if isinstance(protocol, str) else tuple(protocol)
    options: Mapping[str, Any] = getattr(file_system, "storage_options", {})
    # How Python runs it.
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
        # An option that is an object.
        return None
