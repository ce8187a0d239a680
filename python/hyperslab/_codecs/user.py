"""Users' codecs: how classes of users, numcodecs and zarr-python are found and called.

When an array is opened or created, the engine calls `find` for each unknown codec name, because
this module hands it over. The engine gets an object of `OfNumcodecs` or `OfZarr`, whose ``encode``
and ``decode`` take and return ``bytes``.

Nothing here imports numcodecs or zarr-python, except through an entry point.
"""

from __future__ import annotations

import itertools
import json
import sys
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from hyperslab import _native
from hyperslab._codecs.codec import plain_json
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "brought_by",
    "is_user_codec",
    "metadata_of",
    "parse",
    "register_codec",
    "take",
]

_SMALL: Final = _native.small_numbers()

# Classes by name in Zarr v2 and v3. Each change is a single operation, so threads need no lock.
_by_id: dict[str, type] = {}
_by_name: dict[str, type] = {}

# Classes used to make codecs, by name and format (True: Zarr v2).
_used: dict[tuple[str, bool], type] = {}

_ABSTRACT: Final = {
    "ArrayArrayCodec": "array-array",
    "ArrayBytesCodec": "array-bytes",
    "BytesBytesCodec": "bytes-bytes",
}


def register_codec(
    key: str | type, codec_cls: Any = None, *, codec_id: str | None = None, qualname: str | None = None
) -> None:
    """Make a class a codec that arrays can name.

    Some classes need no registration: classes from entry points (``numcodecs.codecs``,
    ``zarr.codecs``), classes registered with numcodecs or zarr-python when an array is opened, and
    classes of codec objects passed to `hyperslab.create_array`. Registering a name again replaces
    its class, for arrays opened from then on.

    These codecs run in Python, one thread at a time: reading and writing their arrays is slow.

    Parameters
    ----------
    key : str or class
        The name, as in ``zarr.registry.register_codec(key, cls)``; or the class, as in
        ``numcodecs.register_codec(cls)``.
    codec_cls : class, optional
        One of these:

        - A subclass of numcodecs' ``Codec``, or any class with ``encode(buf)`` and ``decode(buf)``.
          In Zarr v2, ``encode`` gets an array with the shape and data type of a chunk, or bytes if
          another codec comes before. In Zarr v3, where the name is ``numcodecs.`` plus the id, it
          always gets bytes. It returns bytes or an array, and ``decode`` gets these as bytes.
          ``get_config()`` and ``from_config(settings)`` are used if the class has them. Otherwise
          settings are public attributes, passed as keyword arguments.
        - A subclass of zarr-python's ``ArrayArrayCodec``, ``ArrayBytesCodec`` or
          ``BytesBytesCodec``, for Zarr v3.
    codec_id : str, optional
        The name, if ``key`` is the class. Default: the class's own ``codec_id``.
    qualname : str, optional
        Has no effect.

    Raises
    ------
    InvalidArgumentError
        If the name belongs to a codec of hyperslab. These cannot be replaced.
    ArgumentTypeError
        If the class is not a codec.

    Examples
    --------
    >>> import hyperslab as hs
    >>> class Reverse:
    ...     codec_id = "example-reverse"
    ...     def encode(self, buf):
    ...         return bytes(memoryview(buf).cast("B"))[::-1]
    ...     def decode(self, buf):
    ...         return buf[::-1]
    >>> hs.codecs.register_codec(Reverse)
    >>> z = hs.create_array(hs.MemoryStore(), data=[1, 2, 3], compressors={"id": "example-reverse"})
    >>> z[:]
    array([1, 2, 3])
    """
    codec: Any = codec_cls
    name: Any = key
    if not isinstance(key, str):
        # Called with the arguments of numcodecs.
        codec, name = key, codec_cls if codec_id is None else codec_id
    if not isinstance(codec, type):
        raise ArgumentTypeError(f"expected the class of a codec, found {codec!r}")
    of_zarr = _kind(codec) is not None
    if not of_zarr and not (callable(getattr(codec, "encode", None)) and hasattr(codec, "decode")):
        raise ArgumentTypeError(f"expected a codec with the methods encode and decode, found {codec!r}")
    if name is None:
        name = getattr(codec, "codec_id", None)
    if not isinstance(name, str) or not name:
        raise ArgumentTypeError(f"{codec!r} has no codec_id: pass the name of the codec, too")
    if _native.is_reserved_codec(name, not of_zarr):
        raise InvalidArgumentError(
            f"{name!r} is the name of a codec of hyperslab, which cannot be replaced: choose another name"
        )
    (_by_name if of_zarr else _by_id)[name] = codec


def _kind(codec: type) -> str | None:
    """Return the kind of a subclass of zarr-python's codec classes; ``None`` for other classes."""
    for base in codec.__mro__:
        if base.__module__ == "zarr.abc.codec" and base.__name__ in _ABSTRACT:
            return _ABSTRACT[base.__name__]
    return None


# ---- finding the class of a name


def _class_of(name: str, v2: bool) -> type | None:
    """Return the class registered for a name: here, with other packages, or as an entry point."""
    if _native.is_reserved_codec(name, v2):
        return None
    of_numcodecs = name if v2 else name.removeprefix("numcodecs.")
    searches: list[Callable[[], type | None]] = []
    if not v2:
        searches += [lambda: _by_name.get(name)]
    if v2 or of_numcodecs != name:
        searches += [lambda: _by_id.get(of_numcodecs), lambda: _registered_with_numcodecs(of_numcodecs)]
    if not v2:
        searches += [lambda: _registered_with_zarr(name), lambda: _entry_point("zarr.codecs", name)]
    if v2 or of_numcodecs != name:
        searches += [lambda: _entry_point("numcodecs.codecs", of_numcodecs)]
    return next((found for search in searches if (found := search()) is not None), None)


def _registered_with_numcodecs(codec_id: str) -> type | None:
    registry = getattr(sys.modules.get("numcodecs.registry"), "codec_registry", {})
    found = registry.get(codec_id)
    return found if isinstance(found, type) else None


def _registered_with_zarr(name: str) -> type | None:
    registry = sys.modules.get("zarr.registry")
    if registry is None:
        return None
    try:
        found = registry.get_codec_class(name)
    except (KeyError, ValueError) as error:
        # An unknown codec raises one of the two, depending on the version of zarr-python.
        if isinstance(error, KeyError) or type(error).__name__ == "UnknownCodecError":
            return None
        raise
    # This includes zarr-python's own wrappers of numcodecs' codecs.
    return found if isinstance(found, type) and _kind(found) is not None else None


def _entry_point(group: str, name: str) -> type | None:
    # Importing it takes as long as a third of this package.
    from importlib.metadata import entry_points

    every = entry_points()
    found: tuple[EntryPoint, ...] = (*every.select(group=group, name=name),)
    if group == "zarr.codecs":
        # zarr-python also has one group per codec, for several classes with the same name.
        found += (*every.select(group=f"{group}.{name}"),)
    if not found:
        return None
    loaded = found[0].load()
    if not isinstance(loaded, type):
        raise TypeError(
            f"entry point {found[0].value!r} of codec {name!r}: expected a class, found {loaded!r}"
        )
    (_by_name if _kind(loaded) is not None else _by_id)[name] = loaded
    return loaded


# ---- objects and their metadata


def _make_object(found: type, name: str, settings: Mapping[str, Any] | None, of_zarr: bool) -> Any:
    """Make an object of a class from settings in metadata."""
    if of_zarr:
        document: dict[str, Any] = {"name": name}
        if settings is not None:
            document["configuration"] = dict(settings)
        return found.from_dict(document)  # type: ignore[attr-defined]
    settings = {key: value for key, value in (settings or {}).items() if key != "id"}
    from_config = getattr(found, "from_config", None)
    return found(**settings) if from_config is None else from_config(settings)


def _v2_metadata(codec: Any, codec_id: str | None = None) -> dict[str, Any]:
    """Return the Zarr v2 metadata of a codec with ``encode`` and ``decode``."""
    if callable(getattr(codec, "get_config", None)):
        config = dict(codec.get_config())
    else:
        config = {key: value for key, value in vars(codec).items() if not key.startswith("_")}
    if codec_id is not None or "id" not in config:
        # Put the id first, as numcodecs does.
        config = {"id": codec_id or codec.codec_id, **{k: v for k, v in config.items() if k != "id"}}
    return _check_document(config, codec)


def _v3_metadata(codec: Any) -> dict[str, Any]:
    """Return the metadata of a zarr-python codec."""
    return _check_document(dict(codec.to_dict()), codec)


def _check_document(document: dict[str, Any], codec: Any) -> dict[str, Any]:
    found: dict[str, Any] = plain_json(document)
    try:
        json.dumps(found)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"the settings of {codec!r} cannot be stored as JSON: {error}") from error
    return found


def is_user_codec(codec: Any) -> bool:
    """Return True for a codec that is neither hyperslab's nor metadata, and register its class."""
    if isinstance(codec, (type, Mapping)):
        return False
    kind = type(codec)
    if _kind(kind) is not None:
        name = dict(codec.to_dict()).get("name")
        v2 = False
    elif callable(getattr(codec, "encode", None)) and callable(getattr(codec, "decode", None)):
        name, v2 = getattr(codec, "codec_id", None), True
        if name is None:
            # The class may be registered under a name that it does not know itself.
            name = next((key for key, found in _by_id.items() if found is kind), None)
    else:
        return False
    if not isinstance(name, str) or _native.is_reserved_codec(name, v2):
        return False
    register_codec(kind, name)
    return True


def metadata_of(codec: Any, zarr_format: int) -> dict[str, Any]:
    """Return the metadata of a user's codec."""
    kind = type(codec)
    if _kind(kind) is not None:
        if zarr_format == 2:
            raise InvalidArgumentError(f"Zarr v2 cannot use codec {codec!r}: its class is for Zarr v3")
        return _v3_metadata(codec)
    key = getattr(codec, "codec_id", None)
    if key is None:
        key = next((name for name, found in _by_id.items() if found is kind), None)
    config = _v2_metadata(codec, key)
    if zarr_format == 2:
        return config
    settings = {name: value for name, value in config.items() if name != "id"}
    return {"name": f"numcodecs.{config['id']}", "configuration": settings}


def parse(name: str, settings: Mapping[str, Any] | None, v2: bool) -> Any:
    """Make a user's codec from metadata; ``None`` if there is no class for it."""
    found = _class_of(name, v2)
    if found is None:
        return None
    return _make_object(found, name, settings, _kind(found) is not None)


# ---- arrays that are sent to other processes


def brought_by(array: Any) -> tuple[tuple[str, type], ...]:
    """Return the classes of an array's codecs that another process may not know."""
    if not _used:
        return ()
    v2 = array.zarr_format == 2
    found = ((name, _used.get((name, v2))) for name in _names(array.metadata.to_dict()))
    return tuple((name, kind) for name, kind in found if kind is not None and _is_importable(kind))


def _names(document: Any) -> set[str]:
    """Return all possible names of codecs in a metadata document."""
    if isinstance(document, dict):
        own = {document[key] for key in ("id", "name") if isinstance(document.get(key), str)}
        parts = ("codecs", "index_codecs", "configuration", "filters", "compressor")
        return own.union(*(_names(document.get(key)) for key in parts))
    return set().union(*map(_names, document)) if isinstance(document, list) else set()


def _is_importable(kind: type) -> bool:
    return getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind


def take(codecs: Iterable[tuple[str, type]]) -> None:
    """Register classes that came with an array, unless their names are known."""
    for name, kind in codecs:
        if _class_of(name, _kind(kind) is None and not name.startswith("numcodecs.")) is None:
            register_codec(kind, name if _kind(kind) is not None else name.removeprefix("numcodecs."))


# ---- what the engine calls

_counted = itertools.count()
_numbers: weakref.WeakKeyDictionary[type, int] = weakref.WeakKeyDictionary()


def _number(kind: type) -> int:
    """Return a number unique to a class. Caches depend on the class that decoded, not its name."""
    return _numbers.setdefault(kind, next(_counted))


def makes_bytes(name: str) -> bool:
    """Return True if the codec of a Zarr v3 name is an array-to-bytes codec."""
    found = _class_of(name, False)
    return found is not None and _kind(found) == "array-bytes"


def find(
    name: str,
    settings: str | None,
    v2: bool,
    dtype: np.dtype[Any] | None,
    shape: tuple[int, ...],
    fortran: bool,
    fill: bytes,
) -> OfNumcodecs | OfZarr | None:
    """Return the codec for a name and JSON settings, for chunks of this type and shape.

    Returns ``None`` if there is none. ``dtype`` is ``None`` if elements have variable length.
    """
    found = _class_of(name, v2)
    if found is None:
        return None
    _used[name, v2] = found
    parsed = None if settings is None else json.loads(settings)
    if parsed is not None and not isinstance(parsed, dict):
        raise TypeError(f"settings: expected a JSON object, found {settings}")
    chunk = None if dtype is None else _Chunk(dtype, shape, "F" if fortran else "C", fill)
    if _kind(found) is not None:
        return OfZarr(name, _make_object(found, name, parsed, True), chunk)
    codec_id = name if v2 else name.removeprefix("numcodecs.")
    return OfNumcodecs(codec_id, _make_object(found, codec_id, parsed, False), chunk if v2 else None)


class _Chunk:
    """The type and shape of arrays to encode."""

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...], order: Any, fill: bytes) -> None:
        self.dtype, self.shape, self.order, self.fill = dtype, shape, order, fill

    def array(self, src: bytes) -> np.ndarray[Any, Any]:
        """Return a new array, which the codec may change or keep."""
        return np.ndarray(self.shape, self.dtype, buffer=bytearray(src), order=self.order)

    def bytes(self, array: np.ndarray[Any, Any], who: str) -> bytes:
        """Return the bytes of an array, after checking its type and shape."""
        if array.shape != self.shape or array.dtype.newbyteorder("=") != self.dtype.newbyteorder("="):
            raise TypeError(
                f"{who}: expected an array of {self.dtype} of shape {self.shape}, "
                f"found one of {array.dtype} of shape {array.shape}"
            )
        return array.astype(self.dtype, copy=False).tobytes(self.order)


def _bytes_of(made: Any, who: str) -> bytes:
    """Return a codec's result as bytes; arrays in their memory order."""
    if isinstance(made, bytes):
        return made
    if isinstance(made, np.ndarray):
        if made.dtype.hasobject:
            raise TypeError(f"{who}: expected bytes or an array of numbers, found an array of objects")
        return made.tobytes("A")
    if hasattr(made, "to_bytes") and hasattr(made, "as_numpy_array"):
        return bytes(made.to_bytes())
    try:
        memory = memoryview(made)
    except TypeError:
        raise TypeError(f"{who}: expected bytes or an array, found {type(made).__name__}") from None
    return memory.tobytes()


class OfNumcodecs:
    """A codec with ``encode`` and ``decode``. In Zarr v2 it takes arrays, otherwise bytes."""

    encoded = None

    def __init__(self, codec_id: str, codec: Any, chunk: _Chunk | None) -> None:
        self.name, self._codec, self._chunk, self.class_id = codec_id, codec, chunk, _number(type(codec))
        self.kind = "bytes-bytes" if chunk is None else "array-bytes"
        config = _v2_metadata(codec, codec_id)
        self.v2: str | None = json.dumps(config)
        settings = {name: value for name, value in config.items() if name != "id"}
        self.v3 = json.dumps({"name": f"numcodecs.{codec_id}", "configuration": settings})
        self.bytes_bytes = None if chunk is None else OfNumcodecs(codec_id, codec, None)

    def encode(self, src: bytes) -> bytes:
        array = src if self._chunk is None else self._chunk.array(src)
        return _bytes_of(self._codec.encode(array), f"{self.name}: encode")

    def decode(self, src: bytes) -> bytes:
        return _bytes_of(self._codec.decode(src), f"{self.name}: decode")


class OfZarr:
    """A codec of one of zarr-python's classes."""

    v2 = None
    bytes_bytes = None

    def __init__(self, name: str, codec: Any, chunk: _Chunk | None) -> None:
        kind = _kind(type(codec))
        if chunk is None:
            if kind != "bytes-bytes":
                raise TypeError(f"{name}: cannot encode elements of variable length")
            # zarr-python's compressors take a 1-D array of bytes.
            chunk = _Chunk(np.dtype("u1"), (1,), "C", b"\0")
        self.name, self.kind, self.class_id = name, kind, _number(type(codec))
        self._chunk = chunk
        self._spec = _spec(chunk)
        self._codec = codec.evolve_from_array_spec(self._spec)
        self.v3 = json.dumps(_v3_metadata(self._codec))
        self._make_object = chunk
        self.encoded: tuple[str, tuple[int, ...], bytes] | None = None
        if kind == "array-array":
            spec = self._codec.resolve_metadata(self._spec)
            native = spec.dtype.to_native_dtype()
            fill = np.asarray(spec.fill_value).astype(native).tobytes()
            self._make_object = _Chunk(native, tuple(spec.shape), "C", fill)
            # Types of the package ml_dtypes have names there; NumPy has no type strings for them.
            small = _SMALL.get(native.name) if native.type.__module__ == "ml_dtypes" else None
            self.encoded = (small or native.str, self._make_object.shape, fill)

    def encode(self, src: bytes) -> bytes:
        given = self._buffer(src) if self.kind == "bytes-bytes" else self._array(self._chunk, src)
        made = _call(self._codec, "encode", given, self._spec)
        if made is None:
            raise TypeError(f"{self.name}: encode returned None: chunks cannot be left out here")
        return self._bytes(made, self._make_object if self.kind == "array-array" else None, "encode")

    def decode(self, src: bytes) -> bytes:
        given = self._array(self._make_object, src) if self.kind == "array-array" else self._buffer(src)
        made = _call(self._codec, "decode", given, self._spec)
        return self._bytes(made, None if self.kind == "bytes-bytes" else self._chunk, "decode")

    def _buffer(self, src: bytes) -> Any:
        return self._spec.prototype.buffer.from_bytes(src)

    def _array(self, chunk: _Chunk, src: bytes) -> Any:
        expected = chunk.dtype.itemsize * int(np.prod(chunk.shape, dtype=object))
        if len(src) != expected:
            raise ValueError(f"{self.name}: expected {expected} bytes, found {len(src)}")
        return self._spec.prototype.nd_buffer.from_numpy_array(chunk.array(src))

    def _bytes(self, made: Any, chunk: _Chunk | None, verb: str) -> bytes:
        who = f"{self.name}: {verb}"
        if chunk is None:
            return _bytes_of(made, who)
        array = made.as_numpy_array() if hasattr(made, "as_numpy_array") else made
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{who}: expected an array, found {type(made).__name__}")
        return chunk.bytes(array, who)


def _spec(chunk: _Chunk) -> Any:
    """Return zarr-python's description of a chunk. (It is imported: its classes are in use.)"""
    from zarr.core.array_spec import ArrayConfig, ArraySpec
    from zarr.core.buffer import default_buffer_prototype
    from zarr.dtype import parse_dtype

    size = chunk.dtype.itemsize
    # Arrays that are being created may have no fill value yet.
    filled = chunk.fill if len(chunk.fill) == size else bytes(size)
    fill = np.ndarray((), chunk.dtype, buffer=bytearray(filled))[()]
    return ArraySpec(
        shape=chunk.shape,
        dtype=parse_dtype(chunk.dtype, zarr_format=3),
        fill_value=fill,
        config=ArrayConfig.from_dict({"order": "C"}),
        prototype=default_buffer_prototype(),
    )


def _call(codec: Any, verb: str, given: Any, spec: Any) -> Any:
    """Encode or decode one chunk."""
    at_once = getattr(codec, f"_{verb}_sync", None)
    if at_once is not None and getattr(codec, "_sync_capable", True):
        return at_once(given, spec)
    return _run(getattr(codec, f"_{verb}_single")(given, spec), f"{type(codec).__name__}._{verb}_single")


def _run(work: Coroutine[Any, Any, Any], who: str) -> Any:
    """Run a coroutine to its end on this thread, without an event loop.

    Functions that it passes to other threads (`asyncio.to_thread`) run here, at once.
    """
    # Import only when needed: it is slow, and most programs have no such codec.
    import asyncio

    outer = asyncio._get_running_loop()
    asyncio._set_running_loop(cast(asyncio.AbstractEventLoop, _HERE))
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    finally:
        asyncio._set_running_loop(outer)
        work.close()
    raise RuntimeError(f"{who} waits for something other than a function: codecs run without an event loop")


class _Done:
    """An awaitable that already has its result."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __await__(self) -> Generator[Any, None, Any]:
        return self._value
        yield  # makes this a generator, which never stops to wait


class _Here:
    """The part of an event loop that runs functions, on the calling thread."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        return _Done(func(*args))

    def is_running(self) -> bool:
        return True

    def get_debug(self) -> bool:
        return False


_HERE: Final = _Here()

_native.set_codec_finder(find, makes_bytes)
