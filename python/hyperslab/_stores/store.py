"""Stores: places that hold the objects of a hierarchy."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias, cast

from hyperslab import _native
from hyperslab._base.config import config
from hyperslab.errors import NodeNotFoundError, ReadOnlyError, StoreError, UnsupportedError

__all__ = [
    "FileStore",
    "LocalStore",
    "MemoryStore",
    "Store",
    "StoreLike",
    "StorePath",
    "location_in",
    "location_of",
    "resolve_store",
    "store_beside",
    "store_of",
]


class Store:
    """Named objects (bytes). The base of all stores; not instantiated directly."""

    _native: _native.StoreHandle
    _read_only: bool

    def __init__(self) -> None:
        raise TypeError("use LocalStore, MemoryStore or RemoteStore")

    @property
    def read_only(self) -> bool:
        """True if nodes opened through this store refuse changes."""
        return self._read_only

    @property
    def url(self) -> str:
        """The store's location: ``file:///data/ocean.zarr``, ``memory://…``."""
        return self._native.url

    def with_read_only(self, read_only: bool = True) -> Store:
        """Return the same store with another `read_only`."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._read_only = bool(read_only)
        return other

    def list(self, prefix: str = "") -> list[str]:
        """Return the keys of all objects below a prefix, sorted."""
        return self._native.list(prefix)

    def get(self, key: str) -> bytes | None:
        """Return the bytes of an object, or ``None`` if there is none."""
        return self._native.get(key)

    def set(self, key: str, value: bytes) -> None:
        """Create or replace an object."""
        self._writable()
        self._native.set(key, bytes(value))

    def delete(self, key: str) -> bool:
        """Delete an object. Returns True if there was one."""
        self._writable()
        return self._native.delete(key)

    def close(self) -> None:
        """Close the file of a `FileStore` or the archive of a `ZipStore`.

        Other stores hold nothing open, and stay usable.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        try:
            self.close()
        except StoreError:
            # After a failed write `close` fails, too. The first error says why.
            if not isinstance(error, StoreError):
                raise

    def _writable(self) -> None:
        if self._read_only:
            raise ReadOnlyError(f"store {self.url} was opened in read-only mode")

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Store)
            and self._read_only == other._read_only
            and self._native.same(other._native)
        )

    __hash__ = None  # type: ignore[assignment]


def store_beside(handle: _native.StoreHandle, place: Store | None = None) -> Store:
    """Return the store of a node that is under construction for a place.

    On disk, other processes can use it too: workers of a cluster write there.
    """
    if isinstance(place, LocalStore):
        return LocalStore._of(handle, place.fsync, False)
    store = object.__new__(Store)
    store._native, store._read_only = handle, False
    return store


class LocalStore(Store):
    """Objects as files below a directory. The first write creates a missing directory.

    Parameters
    ----------
    root : str or os.PathLike
        The directory: a path or ``file://`` URL.
    fsync : bool, optional
        Whether to flush every write to the disk before it returns. Default: ``config.fsync``.
    read_only : bool, default False
        Whether nodes opened through this store refuse changes.

    Raises
    ------
    StoreError
        If ``root`` is not a directory or cannot be reached. The error is also the matching built-in
        exception (``NotADirectoryError``, ``PermissionError``).
    """

    def __init__(
        self, root: str | os.PathLike[str], *, fsync: bool | None = None, read_only: bool = False
    ) -> None:
        self._fsync = config.fsync if fsync is None else bool(fsync)
        self._native = _native.StoreHandle.local(location_of(root), self._fsync)
        self._read_only = bool(read_only)

    @classmethod
    def _of(cls, handle: _native.StoreHandle, fsync: bool, read_only: bool) -> LocalStore:
        self = object.__new__(cls)
        self._fsync, self._native, self._read_only = fsync, handle, read_only
        return self

    @property
    def root(self) -> Path:
        """The directory, as an absolute path."""
        return Path(cast("os.PathLike[str]", self._native.root))

    @property
    def fsync(self) -> bool:
        """True if every write is flushed to the disk before it returns."""
        return self._fsync

    def __reduce__(self) -> tuple[Any, ...]:
        return _local, (self._native.root, self._fsync, self._read_only)


def _local(root: str, fsync: bool, read_only: bool) -> LocalStore:
    return LocalStore(root, fsync=fsync, read_only=read_only)


class MemoryStore(Store):
    """Objects in memory, freed with the last reference to them.

    Parameters
    ----------
    store_dict : mutable mapping, optional
        The mapping that holds the objects: a dictionary, or any mapping from `str` to `bytes`, also
        one that stores them elsewhere. Without it, the engine holds them: threads need not take
        turns, and groups are listed without looking at all keys.
    read_only : bool, default False
        Whether nodes opened through this store refuse changes.

    Examples
    --------
    >>> import hyperslab as hs
    >>> store = hs.MemoryStore()
    >>> z = hs.create_array(store, name="a", shape=(3,), dtype="u1")
    >>> hs.open_array(store, path="a", mode="r").shape
    (3,)
    >>> objects = {}
    >>> z = hs.create_array(objects, data=[1, 2, 3], compressors=None)
    >>> sorted(objects)
    ['c/0', 'zarr.json']
    """

    # True if a mapping of the caller holds the objects.
    _has_mapping = False
    # True if that mapping is a dictionary, which keeps its objects in memory.
    _has_dict = False

    def __init__(
        self, store_dict: MutableMapping[str, bytes] | None = None, *, read_only: bool = False
    ) -> None:
        if store_dict is None:
            self._native = _native.StoreHandle.memory()
        elif isinstance(store_dict, MutableMapping):
            self._native = _native.StoreHandle.mapping(store_dict)
            self._has_mapping = True
            self._has_dict = isinstance(store_dict, dict)
        else:
            raise TypeError(f"store_dict: expected a mutable mapping, found {type(store_dict).__name__}")
        self._read_only = bool(read_only)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a MemoryStore, and what lies in it, cannot be pickled: its objects are in this process only"
        )


class FileStore(Store):
    """An HDF5 or NetCDF file, held open and read only: the store of its arrays and groups.

    Parameters
    ----------
    path : str or os.PathLike
        A path, a ``file://`` URL, or the URL of an object on a server.
    storage_options : mapping, optional
        Server options: see `RemoteStore`.

    Raises
    ------
    NodeNotFoundError
        If there is no such file.
    """

    _options: list[tuple[str, str]]
    # Arguments with which `hyperslab.File` opened the file: name, driver, …
    _opened_as: Mapping[str, Any] = {}
    # True if a Python file object reads the file.
    _is_object = False

    def __init__(
        self, path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        self._options = []
        if storage_options is not None:
            from hyperslab._stores.remote import flat_options

            self._options = flat_options(storage_options)
        location = path if isinstance(path, str) else location_of(path)
        handle, inside, _ = _native.find_place(location, storage=self._options)
        if not (handle.is_file or inside):
            # The name of an object on a server may have any ending.
            handle, inside = handle.file_at("") or (handle, inside)
        if inside or not handle.is_file:
            raise NodeNotFoundError(f"there is no HDF5 or NetCDF file '{_native.shown(location)}'")
        self._native, self._read_only = handle, True

    @classmethod
    def _of(cls, handle: _native.StoreHandle, options: list[tuple[str, str]] | None = None) -> FileStore:
        self = object.__new__(cls)
        self._native, self._read_only, self._options = handle, True, options or []
        return self

    def close(self) -> None:
        """Close the file. Its contents cannot be read any more."""
        self._native.close()

    @property
    def path(self) -> Path:
        """The path of the file. Raises `UnsupportedError` if it is not a file in a directory."""
        path = self._native.file_path
        if path is None:
            raise UnsupportedError(f"{self.url} is no local file")
        return Path(path)

    def with_read_only(self, read_only: bool = True) -> Store:
        """Return the store itself: it is always read only."""
        if not read_only:
            raise UnsupportedError("open HDF5 files with hyperslab.File(path, 'r+') to change them")
        return self

    def reopening(self) -> tuple[str, list[tuple[str, str]], bool]:
        """Return how another process opens the file: path or URL, options, whether these have secrets.

        Fails if the file cannot be pickled, or has secrets that must not be.
        """
        if self._is_object:
            raise TypeError("what a file object reads cannot be pickled: open the file by its path or URL")
        if self._native.file_path is not None:
            return str(self.path), [], False
        from hyperslab._stores.remote import has_secrets, pickled_options, pickled_url

        url, options = pickled_url(self._native), pickled_options(self._options)
        return url, options, self._native.has_secret_url or has_secrets(options)

    @classmethod
    def reopened(cls, url: str, options: list[tuple[str, str]]) -> FileStore:
        """Open a file as `reopening` says."""
        return FileStore(url, storage_options=dict(options) or None)

    def __reduce__(self) -> tuple[Any, ...]:
        return FileStore.reopened, self.reopening()[:2]


class ReferenceStore(Store):
    """A document of references, read only: the store of its arrays and groups.

    Parameters
    ----------
    path : str or os.PathLike
        A path or URL; or ``reference://``, in the style of fsspec.
    storage_options : mapping, optional
        Options of the document's server: see `RemoteStore`. With ``reference://``, ``fo`` is the
        document. ``target_protocol`` and ``target_options`` say how to reach it,
        ``remote_protocol`` and ``remote_options`` how to reach the data it refers to.

    Raises
    ------
    NodeNotFoundError
        If there is no such document.
    """

    _options: list[tuple[str, str]]

    def __init__(
        self, path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        from hyperslab._stores.remote import flat_options

        self._options = flat_options(storage_options)
        handle, inside, _ = _native.find_place(location_of(path), storage=self._options)
        if inside or handle.is_writable or not handle.url.lower().endswith(_REFERENCES):
            raise NodeNotFoundError(
                f"there is no document of references '{_native.shown(location_of(path))}'"
            )
        self._native, self._read_only = handle, True

    @classmethod
    def _of(cls, handle: _native.StoreHandle, options: list[tuple[str, str]] | None = None) -> ReferenceStore:
        self = object.__new__(cls)
        self._native, self._read_only, self._options = handle, True, options or []
        return self

    def with_read_only(self, read_only: bool = True) -> Store:
        """Return the store itself: it is always read only."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        from hyperslab._stores.remote import pickled_options, pickled_url

        options = pickled_options(self._options)
        # In fsspec's style, the location of the references is an option.
        spelled = any(name == "fo" for name, _ in options)
        return _references, ("reference://" if spelled else pickled_url(self._native), options)


def _references(url: str, options: list[tuple[str, str]]) -> ReferenceStore:
    return ReferenceStore(url, storage_options=dict(options))


class StorePath:
    """A path in a store. Accepted wherever a store is.

    Parameters
    ----------
    store : Store
    path : str, default ""
        The path of a node; ``""`` for the root.

    Examples
    --------
    >>> import hyperslab as hs
    >>> place = hs.storage.StorePath(hs.MemoryStore()) / "ocean" / "sst"
    >>> z = hs.create_array(place, shape=(3,), dtype="u1")
    >>> z.path, z.store_path == place
    ('ocean/sst', True)
    """

    def __init__(self, store: Store, path: str = "") -> None:
        if not isinstance(store, Store):
            raise TypeError(f"store: expected a store, found {type(store).__name__}")
        self.store = store
        self.path = "/".join(part for part in path.split("/") if part)

    @property
    def read_only(self) -> bool:
        """True if the store refuses changes."""
        return self.store.read_only

    def __truediv__(self, other: str) -> StorePath:
        return type(self)(self.store, f"{self.path}/{other}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorePath) and self.store == other.store and self.path == other.path

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"{self.store.url}/{self.path}" if self.path else self.store.url

    def __repr__(self) -> str:
        return f"StorePath({self.store!r}, {self.path!r})"


class ReadableFile(Protocol):
    """A file object that is opened for reading bytes."""

    def read(self, size: int, /) -> Any:
        """Read at most ``size`` bytes."""

    def seek(self, offset: int, whence: int = ..., /) -> Any:
        """Move the position."""

    def tell(self) -> int:
        """Return the position."""
        ...


StoreLike: TypeAlias = Store | StorePath | str | os.PathLike[str] | MutableMapping[str, bytes] | ReadableFile
"""A store, a path in one, a path, a URL, a mapping of objects, or an HDF5 or NetCDF file object."""


_PATH = type(Path())
# Name endings of reference documents, and of folders of them.
_REFERENCES = (".json", ".parq", ".parquet")
# The start of a URL after pathlib: ``Path("s3://bucket/a")`` is ``s3:/bucket/a``.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def location_of(path: str | os.PathLike[str]) -> str:
    """Return a path or URL as the engine understands it.

    A path object is a URL only if pathlib made it from one. Otherwise it is a name, even if it
    looks like a URL.
    """
    if isinstance(path, str):
        return path
    text = os.fsdecode(path)
    return text if text.startswith("/") or _SCHEME.match(text) else f"./{text}"


def store_of(
    handle: _native.StoreHandle, fsync: bool, read_only: bool, options: list[tuple[str, str]] | None = None
) -> Store:
    """Return the Python object for a store that a path or URL led to."""
    if handle.is_file:
        return FileStore._of(handle, options)
    if handle.is_local:
        return LocalStore._of(handle, fsync, read_only)
    if handle.url.startswith("zip:"):
        from hyperslab._stores.zip import ZipStore

        return ZipStore._of(handle, read_only or not handle.is_writable, options)
    if not handle.is_writable and handle.url.lower().endswith(_REFERENCES):
        return ReferenceStore._of(handle, options)
    if options is not None:
        from hyperslab._stores.remote import RemoteStore

        return RemoteStore._of(handle, options, read_only)
    store = object.__new__(MemoryStore if handle.url.startswith("memory:") else Store)
    store._native, store._read_only = handle, read_only
    return store


def location_in(
    given: Any, storage_options: Mapping[str, Any] | None
) -> tuple[str, list[tuple[str, str]] | None] | None:
    """Return the path or URL that an argument is, with the options of its server.

    ``None``: the argument is a store, or stands for one.
    """
    if isinstance(given, str):
        if "://" in given and _native.takes_storage_options(given):
            from hyperslab._stores.remote import flat_options

            return given, flat_options(storage_options)
        if storage_options is not None:
            raise _unused_options()
        return given, None
    if storage_options is not None:
        raise _unused_options()
    if not isinstance(given, os.PathLike):
        return None
    if type(given) is _PATH:
        return location_of(given), None
    from hyperslab._stores.file_objects import is_file_object

    if is_file_object(given):
        return None
    protocol = getattr(given, "protocol", "")
    if protocol in ("", "file"):
        return location_of(given), None
    # A path of universal_pathlib on a server.
    if _native.takes_storage_options(str(given)):
        return location_in(str(given), getattr(given, "storage_options", None))
    raise UnsupportedError(
        f"stores of protocol {protocol!r} are not supported yet (supported: local files, memory)"
    )


def _unused_options() -> TypeError:
    return TypeError(
        "'storage_options' was provided but unused: it is for URLs of object stores and web servers "
        "(s3://, gs://, az://, https://, …)"
    )


def resolve_store(store: Any, storage_options: Mapping[str, Any] | None = None) -> tuple[Store, str]:
    """Return the store that an argument stands for, and a path inside it.

    Also takes zarr-python's stores, and ``StorePath``.
    """
    location = location_in(store, storage_options)
    if location is not None:
        fsync = config._values["fsync"]
        handle, path, read_only = _native.find_place(location[0], fsync=fsync, storage=location[1] or [])
        return store_of(handle, fsync, read_only, location[1]), path
    if store is None:
        return MemoryStore(), ""
    if isinstance(store, Store):
        return store, ""
    if isinstance(store, StorePath):
        return store.store, store.path
    from hyperslab._stores.file_objects import is_file_object, store_of_object

    if is_file_object(store):
        return store_of_object(store), ""
    if type(store).__module__.split(".")[0] == "zarr":
        if hasattr(store, "store") and hasattr(store, "path"):
            inner, path = resolve_store(store.store)
            return inner, "/".join(part for part in (path, str(store.path)) if part)
        # Check the class name, because wrappers of stores have the same attributes.
        if type(store).__name__ == "LocalStore":
            return LocalStore(store.root, read_only=bool(store.read_only)), ""
    from hyperslab._stores.foreign import native_store
    from hyperslab._stores.zarr import ZarrStore, is_zarr_store

    native = native_store(store)
    if native is not None:
        return native, ""
    if is_zarr_store(store):
        return ZarrStore(store), ""
    if type(store).__module__.split(".")[0] == "obstore":
        # Other obstore stores go through zarr-python.
        from zarr.storage import ObjectStore

        return ZarrStore(ObjectStore(store)), ""
    # Exclude hyperslab's groups and attributes, which are mappings too.
    if isinstance(store, MutableMapping) and type(store).__module__.split(".")[0] != "hyperslab":
        return MemoryStore(store), ""
    raise TypeError(
        "expected a path, a file:// URL, a store of hyperslab or zarr-python or a mutable mapping as store, "
        f"found {type(store).__name__}"
    )
