"""Stores: where the objects of a hierarchy are."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias, cast

from hyperslab import _native
from hyperslab._base.config import config
from hyperslab.errors import NodeNotFoundError, ReadOnlyError, UnsupportedError

__all__ = [
    "FileStore",
    "LocalStore",
    "MemoryStore",
    "Store",
    "StoreLike",
    "StorePath",
    "location_of",
    "open_root",
    "refuse_file_name",
    "resolve_store",
    "store_beside",
]


class Store:
    """Named objects (bytes): what `LocalStore` and `MemoryStore` have in common. Not made directly."""

    _native: _native.StoreHandle
    _read_only: bool

    def __init__(self) -> None:
        raise TypeError("use LocalStore, MemoryStore or RemoteStore")

    @property
    def read_only(self) -> bool:
        """Whether nodes opened through it refuse changes."""
        return self._read_only

    @property
    def url(self) -> str:
        """Where it is: ``file:///data/ocean.zarr``, ``memory://…``."""
        return self._native.url

    def with_read_only(self, read_only: bool = True) -> Store:
        """The same store with another `read_only`."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._read_only = bool(read_only)
        return other

    def list(self, prefix: str = "") -> list[str]:
        """The keys of all objects below a prefix, sorted."""
        return self._native.list(prefix)

    def get(self, key: str) -> bytes | None:
        """The bytes of an object, ``None`` where there is none."""
        return self._native.get(key)

    def set(self, key: str, value: bytes) -> None:
        """Create or replace an object."""
        self._writable()
        self._native.set(key, bytes(value))

    def delete(self, key: str) -> bool:
        """Delete an object; returns whether there was one."""
        self._writable()
        return self._native.delete(key)

    def close(self) -> None:
        """Give back what it holds open: the file of a `FileStore`, the archive of a `ZipStore`. Others hold
        nothing open, and go on."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
    """The store of a node that is under construction, and will be at a place. On disk other processes reach
    it, too: workers of a cluster write there.
    """
    if isinstance(place, LocalStore):
        return LocalStore._of(handle, place.fsync, False)
    store = object.__new__(Store)
    store._native, store._read_only = handle, False
    return store


class LocalStore(Store):
    """Objects as files below a directory, which the first write makes where it is missing.

    Parameters
    ----------
    root : str or os.PathLike
        The directory: a path or ``file://`` URL.
    fsync : bool, optional
        Whether every write is flushed to the disk before it returns. Default: ``config.fsync``.
    read_only : bool, default False
        Whether nodes opened through it refuse changes.

    Raises
    ------
    StoreError
        Where ``root`` is something else than a directory, or cannot be reached; also the built-in exception
        for the case (``NotADirectoryError``, ``PermissionError``).
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
        """Whether every write is flushed to the disk before it returns."""
        return self._fsync

    def __reduce__(self) -> tuple[Any, ...]:
        return _local, (self._native.root, self._fsync, self._read_only)


def _local(root: str, fsync: bool, read_only: bool) -> LocalStore:
    return LocalStore(root, fsync=fsync, read_only=read_only)


class MemoryStore(Store):
    """Objects in memory, gone when the last reference to them is.

    Parameters
    ----------
    store_dict : mutable mapping, optional
        What holds the objects: a dictionary, or any mapping from `str` to `bytes`, also one that stores them
        elsewhere. Without, they are in memory of the engine: threads need no turns, and groups are listed
        without a look at all keys.
    read_only : bool, default False
        Whether nodes opened through it refuse changes.

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

    # True: a mapping of the caller's holds the objects.
    _has_mapping = False
    # True: that mapping is a dictionary, which keeps its objects in memory.
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
    """One file of HDF5 or NetCDF, held open and read only: the store of the arrays and groups in it.

    Parameters
    ----------
    path : str or os.PathLike
        The file, as a path, a ``file://`` URL, or the URL of an object on a server.
    storage_options : mapping, optional
        Of a server: see `RemoteStore`.

    Raises
    ------
    NodeNotFoundError
        Where there is no such file.
    """

    _options: list[tuple[str, str]]
    # How `hyperslab.File` opened it: name, driver, …
    _opened_as: Mapping[str, Any] = {}
    # Whether a file object of Python reads it.
    _is_object = False

    def __init__(
        self, path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        from hyperslab._stores.remote import flat_options

        self._options = flat_options(storage_options)
        handle, inside = _native.StoreHandle.reach(location_of(path), False, self._options)
        if not (handle.is_file or inside):
            # The name of an object on a server may end in any way.
            handle, inside = handle.file_at("") or (handle, inside)
        if inside or not handle.is_file:
            raise NodeNotFoundError(f"there is no HDF5 or NetCDF file '{_native.shown(location_of(path))}'")
        self._native, self._read_only = handle, True

    @classmethod
    def _of(cls, handle: _native.StoreHandle, options: list[tuple[str, str]] | None = None) -> FileStore:
        self = object.__new__(cls)
        self._native, self._read_only, self._options = handle, True, options or []
        return self

    def close(self) -> None:
        """Close the file: what is in it cannot be read any more."""
        self._native.close()

    @property
    def path(self) -> Path:
        """The file. Raises `UnsupportedError` where it is an object of a store that is no directory."""
        path = self._native.file_path
        if path is None:
            raise UnsupportedError(f"{self.url} is no local file")
        return Path(path)

    def with_read_only(self, read_only: bool = True) -> Store:
        """Itself: it is read only."""
        if not read_only:
            raise UnsupportedError("files of HDF5 and NetCDF are read only so far")
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._is_object:
            raise TypeError("what a file object reads cannot be pickled: open the file by its path or URL")
        if self._native.file_path is not None:
            return FileStore, (str(self.path),)
        from hyperslab._stores.remote import pickled_options, pickled_url

        return _file, (pickled_url(self._native), pickled_options(self._options))


def _file(url: str, options: list[tuple[str, str]]) -> FileStore:
    return FileStore(url, storage_options=dict(options))


class ReferenceStore(Store):
    """A document of references, read only: the store of the arrays and groups in it.

    Parameters
    ----------
    path : str or os.PathLike
        The document, as a path or URL; or ``reference://``, as fsspec spells it.
    storage_options : mapping, optional
        Of its server: see `RemoteStore`. With ``reference://``: ``fo`` is the document; ``target_protocol``
        and ``target_options`` say how it is reached, ``remote_protocol`` and ``remote_options`` how what it
        leads to is reached.

    Raises
    ------
    NodeNotFoundError
        Where there is no such document.
    """

    _options: list[tuple[str, str]]

    def __init__(
        self, path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        from hyperslab._stores.remote import flat_options

        self._options = flat_options(storage_options)
        handle, inside = _native.StoreHandle.reach(location_of(path), False, self._options)
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
        """Itself: it is read only."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        from hyperslab._stores.remote import pickled_options, pickled_url

        options = pickled_options(self._options)
        # As fsspec spells it: where the references are is an option.
        spelled = any(name == "fo" for name, _ in options)
        return _references, ("reference://" if spelled else pickled_url(self._native), options)


def _references(url: str, options: list[tuple[str, str]]) -> ReferenceStore:
    return ReferenceStore(url, storage_options=dict(options))


class StorePath:
    """A path in a store. Functions that take a store take it, too.

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
        """Whether the store refuses changes."""
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
        """At most so many bytes."""

    def seek(self, offset: int, whence: int = ..., /) -> Any:
        """Moves the position."""

    def tell(self) -> int:
        """The position."""
        ...


StoreLike: TypeAlias = Store | StorePath | str | os.PathLike[str] | MutableMapping[str, bytes] | ReadableFile
"""A store, a path in one, a path, a URL, a mapping that holds objects, a file object of HDF5 or NetCDF."""


_PATH = type(Path())
# Documents of references, and folders of them.
_REFERENCES = (".json", ".parq", ".parquet")
# The first part of what pathlib makes of a URL: ``Path("s3://bucket/a")`` is ``s3:/bucket/a``.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def location_of(path: str | os.PathLike[str]) -> str:
    """A path or URL as the engine understands it. Of a path object, whatever looks like a URL is a name."""
    if isinstance(path, str):
        return path
    text = os.fsdecode(path)
    return text if text.startswith("/") or _SCHEME.match(text) else f"./{text}"


def open_root(
    location: Any, read_only: bool, zarr_format: int | None
) -> tuple[Store, _native.ArrayHandle | _native.GroupHandle] | None:
    """The store at a path or URL, and what is stored there: the quick way where all is well.

    ``None``: take the long way, by `resolve_store`.
    """
    # Exactly these: a class derived from them may mean something else than a local file.
    if type(location) is not str and type(location) is not _PATH:
        return None
    # A look in advance takes a request to a server.
    if type(location) is str and "://" in location:
        return None
    fsync = config.fsync
    found = _native.open_root(location_of(location), fsync, zarr_format)
    return None if found is None else (_store_of(found[0], fsync, read_only), found[1])


def _store_of(
    handle: _native.StoreHandle, fsync: bool, read_only: bool, options: list[tuple[str, str]] | None = None
) -> Store:
    """The Python object for a store that a path or URL led to."""
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


def _reach(location: str, storage_options: Mapping[str, Any] | None = None) -> tuple[Store, str]:
    """The store that a path or URL leads into, and the path in the store."""
    fsync, options = config.fsync, None
    if "://" in location and _native.takes_storage_options(location):
        from hyperslab._stores.remote import flat_options

        options = flat_options(storage_options)
    elif storage_options is not None:
        raise _unused_options()
    handle, path = _native.StoreHandle.reach(location, fsync, options or [])
    return _store_of(handle, fsync, False, options), path


def _unused_options() -> TypeError:
    return TypeError(
        "'storage_options' was provided but unused: it is for URLs of object stores and web servers "
        "(s3://, gs://, az://, https://, …)"
    )


def refuse_file_name(given: Any, store: Store) -> None:
    """Refuses to make a directory ``typo.h5``, unless a store was given, not a path."""
    if isinstance(given, (str, os.PathLike)) and isinstance(store, LocalStore):
        store._native.refuse_file_name()


def resolve_store(store: Any, storage_options: Mapping[str, Any] | None = None) -> tuple[Store, str]:
    """The store that an argument means, and a path inside it.

    Also takes zarr-python's stores, and ``StorePath``.
    """
    if storage_options is not None and not isinstance(store, str):
        raise _unused_options()
    if store is None:
        return MemoryStore(), ""
    if isinstance(store, Store):
        return store, ""
    if isinstance(store, StorePath):
        return store.store, store.path
    if isinstance(store, str):
        return _reach(store, storage_options)
    from hyperslab._stores.file_objects import is_file_object, store_of_object

    if is_file_object(store):
        return store_of_object(store), ""
    if isinstance(store, os.PathLike):
        protocol = getattr(store, "protocol", "")
        if protocol not in ("", "file"):
            # A path of universal_pathlib.
            if _native.takes_storage_options(str(store)):
                return _reach(str(store), getattr(store, "storage_options", None))
            raise UnsupportedError(
                f"stores of protocol {protocol!r} are not supported yet (supported: local files, memory)"
            )
        return _reach(location_of(store))
    if type(store).__module__.split(".")[0] == "zarr":
        if hasattr(store, "store") and hasattr(store, "path"):
            inner, path = resolve_store(store.store)
            return inner, "/".join(part for part in (path, str(store.path)) if part)
        # Not what is around one: wrappers have its attributes, too.
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
        # What is not made anew goes through zarr-python.
        from zarr.storage import ObjectStore

        return ZarrStore(ObjectStore(store)), ""
    # Groups and attributes are mappings, too.
    if isinstance(store, MutableMapping) and type(store).__module__.split(".")[0] != "hyperslab":
        return MemoryStore(store), ""
    raise TypeError(
        "expected a path, a file:// URL, a store of hyperslab or zarr-python or a mutable mapping as store, "
        f"found {type(store).__name__}"
    )
