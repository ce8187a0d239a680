"""All settings of hyperslab.

``threads`` (environment variable ``HYPERSLAB_THREADS``)
    Threads per request, including the caller's. ``None`` (also ``0`` and ``auto``): one per core.
    Default: ``None``.
``recycler_bytes`` (``HYPERSLAB_RECYCLER``)
    Maximum bytes of memory kept for later results; also as text, ``"64 MiB"``. ``0``: none.
    Default: 256 MiB.
``verify_checksums`` (``HYPERSLAB_VERIFY_CHECKSUMS``)
    Verify checksums of chunks on reading. Default: yes.
``write_empty_chunks`` (``HYPERSLAB_WRITE_EMPTY_CHUNKS``)
    Store chunks that hold only the fill value. For arrays opened from now on. Default: no.
``decodes_in_flight`` (``HYPERSLAB_DECODES_IN_FLIGHT``)
    Maximum number of inner chunks decoded at once, each into its own memory. Bounds the memory of a
    read. Default: 8.
``partial_reads`` (``HYPERSLAB_PARTIAL_READS``)
    Read only the wanted chunks of a shard instead of the whole shard. Default: yes.
``partial_decode`` (``HYPERSLAB_PARTIAL_DECODE``)
    Decode only the wanted part of a chunk. Default: yes.
``shard_index_bound`` (``HYPERSLAB_SHARD_INDEX_BOUND``)
    Maximum bytes of memory for cached shard indexes; also as text, ``"64 MiB"``. ``0``: none.
    Default: 64 MiB.
``vlen_chunk_bound`` (``HYPERSLAB_VLEN_CHUNK_BOUND``)
    Maximum decoded bytes of a chunk of text, bytes or arrays of variable length; also as text. A
    chunk that decodes to at most 1032 times its stored bytes is read in any case. Default: 256 MiB.
``external_files`` (``HYPERSLAB_EXTERNAL_FILES``)
    Other files that an HDF5 file or a document of references may refer to: by external links, by
    external data, or as sources of virtual datasets. Files in the same directory or below
    (``"same-directory"``, the default), any file (``"anywhere"``), or none (``"refuse"``). For
    files opened from now on.
``requests_per_second`` (``HYPERSLAB_REQUESTS_PER_SECOND``)
    Maximum number of requests per second to each host of remote stores, on average. ``None`` (also
    ``0``): no limit. The storage option of the same name overrides it. Default: ``None``.
``fsync`` (``HYPERSLAB_FSYNC``)
    Flush every write to the disk before it returns. For local stores opened from now on. Default:
    no.
``file_locks`` (``HYPERSLAB_FILE_LOCKS``)
    Lock files (``flock``) against other processes during read-modify-write: of parts of chunks and
    shards, and of metadata. For local stores opened from now on. Default: yes. Without locks,
    processes that change parts of one chunk at the same time lose each other's changes.
``default_zarr_format`` (``HYPERSLAB_ZARR_FORMAT``)
    The format of new nodes if ``zarr_format`` is ``None``: 2 or 3. Default: 3.
``order`` (``HYPERSLAB_ORDER``)
    The memory order of results: ``"C"`` (last axis fastest) or ``"F"``. As in zarr-python, results
    of Zarr v2 arrays have the order in their metadata instead, and new Zarr v2 arrays get this
    order. For arrays opened from now on. Default: C.
``read_missing_chunks`` (``HYPERSLAB_READ_MISSING_CHUNKS``)
    Read absent chunks of Zarr arrays as fill values. If not, a ``ChunkNotFoundError`` names the
    first absent chunk. For arrays opened from now on. Default: yes.
``pickle_credentials`` (``HYPERSLAB_PICKLE_CREDENTIALS``)
    Include secrets passed to a remote store in pickles of the store and of its nodes. If not,
    pickling a store with secrets fails. Default: no.

Environment variables are read when hyperslab is imported. A variable with an invalid value is
ignored with a warning.

zarr-python's names ``array.order``, ``array.read_missing_chunks``, ``array.write_empty_chunks`` and
``threading.max_workers`` work too. Its variables ``ZARR_ARRAY__ORDER``,
``ZARR_ARRAY__READ_MISSING_CHUNKS``, ``ZARR_ARRAY__WRITE_EMPTY_CHUNKS``,
``ZARR_DEFAULT_ZARR_FORMAT`` and ``ZARR_THREADING__MAX_WORKERS`` count if hyperslab's own variable
is not set. Its tuning settings ``async.…``, ``codec_pipeline.…`` and ``array.sharding_coalesce_…``,
and ``array.rectilinear_chunks``, are kept but have no effect. Its other settings (``codecs.…``,
``json_indent``, …) raise ``KeyError``. Options of a call override settings.

As in zarr-python, an array object keeps the ``order``, ``write_empty_chunks`` and
``read_missing_chunks`` that were set when it was opened or created. All other settings take effect
immediately.

Examples
--------
>>> import hyperslab as hs
>>> hs.config.threads = 4
>>> with hs.config.set(threads=1, verify_checksums=False):
...     hs.config.threads
1
>>> hs.config.threads
4
>>> hs.config.set({"threads": None, "recycler_bytes": "64 MiB"}).recycler_bytes
67108864
>>> hs.config["array.order"], hs.config["async.concurrency"]
('C', 10)
>>> hs.config.reset()
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from hyperslab import _native

__all__ = ["Config", "ConfigSet", "config", "parse_size"]

_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)


def parse_size(value: int | str) -> int:
    """Return the bytes of ``4096``, ``"64 MiB"`` or ``"1.5 GB"``.

    Raises `ValueError` or `TypeError` for anything else.
    """
    if isinstance(value, str):
        found = _SIZE.fullmatch(value)
        if found is None:
            raise ValueError(f"expected a number of bytes such as 4096 or '64 MiB', found {value!r}")
        number, unit = found[1], (found[2] or "").lower()
        size = (
            int(float(number) * (_BINARY | _UNITS)[unit])
            if "." in number
            else int(number) * (_BINARY | _UNITS)[unit]
        )
    else:
        size = _integer(value)
    if not 0 <= size < 2**63:
        raise ValueError(f"expected a number of bytes from 0 to 2**63 - 1, found {value!r}")
    return size


def _integer(value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"expected an integer, found {value!r}")
    return int(cast(Any, value).__index__())


def _threads(value: object) -> int | None:
    if value is None or (isinstance(value, str) and value.strip().lower() in ("auto", "0")):
        return None
    if isinstance(value, str):
        if not value.strip().isdecimal():
            raise ValueError(f"expected a number of threads or 'auto', found {value!r}")
        value = int(value)
    count = _integer(value)
    if not 0 <= count <= 1024:
        raise ValueError(f"expected 0 to 1024 threads, found {count}")
    return count or None


def _count(value: object) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    count = _integer(value)
    if not 1 <= count < 2**31:
        raise ValueError(f"expected a number from 1 to 2**31 - 1, found {count}")
    return count


def _rate(value: object) -> float | None:
    if value is None or (isinstance(value, str) and value.strip().lower() == "none"):
        return None
    if isinstance(value, bool):
        raise TypeError(f"expected a number of requests, found {value!r}")
    rate = float(cast(Any, value))
    if rate != 0 and not 1e-6 <= rate <= 1e6:
        raise ValueError(f"expected 0.000001 to 1000000 requests, found {value!r}")
    return rate or None


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("1", "true", "yes", "on"):
            return True
        if word in ("0", "false", "no", "off"):
            return False
    raise ValueError(f"expected true or false, found {value!r}")


def _format(value: object) -> Literal[2, 3]:
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if isinstance(number, bool) or number not in (2, 3):
        raise ValueError(f"expected 2 or 3, found {value!r}")
    return 2 if number == 2 else 3


def _word(*words: str) -> Callable[[Any], str]:
    def parse(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"expected {' or '.join(map(repr, words))}, found {value!r}")
        return value

    return parse


_PARSE: dict[str, Callable[[Any], Any]] = {
    "threads": _threads,
    "recycler_bytes": parse_size,
    "verify_checksums": _flag,
    "write_empty_chunks": _flag,
    "decodes_in_flight": _count,
    "partial_reads": _flag,
    "partial_decode": _flag,
    "shard_index_bound": parse_size,
    "vlen_chunk_bound": parse_size,
    "external_files": _word("same-directory", "anywhere", "refuse"),
    "requests_per_second": _rate,
    "fsync": _flag,
    "file_locks": _flag,
    "default_zarr_format": _format,
    "order": _word("C", "F"),
    "read_missing_chunks": _flag,
    "pickle_credentials": _flag,
}
_DEFAULTS: dict[str, Any] = {
    "threads": None,
    "recycler_bytes": 256 << 20,
    "verify_checksums": True,
    "write_empty_chunks": False,
    "decodes_in_flight": 8,
    "partial_reads": True,
    "partial_decode": True,
    "shard_index_bound": 64 << 20,
    "vlen_chunk_bound": 256 << 20,
    "external_files": "same-directory",
    "requests_per_second": None,
    "fsync": False,
    "file_locks": True,
    "default_zarr_format": 3,
    "order": "C",
    "read_missing_chunks": True,
    "pickle_credentials": False,
}
_ENVIRONMENT = {
    "threads": "HYPERSLAB_THREADS",
    "recycler_bytes": "HYPERSLAB_RECYCLER",
    "verify_checksums": "HYPERSLAB_VERIFY_CHECKSUMS",
    "write_empty_chunks": "HYPERSLAB_WRITE_EMPTY_CHUNKS",
    "decodes_in_flight": "HYPERSLAB_DECODES_IN_FLIGHT",
    "partial_reads": "HYPERSLAB_PARTIAL_READS",
    "partial_decode": "HYPERSLAB_PARTIAL_DECODE",
    "shard_index_bound": "HYPERSLAB_SHARD_INDEX_BOUND",
    "vlen_chunk_bound": "HYPERSLAB_VLEN_CHUNK_BOUND",
    "external_files": "HYPERSLAB_EXTERNAL_FILES",
    "requests_per_second": "HYPERSLAB_REQUESTS_PER_SECOND",
    "fsync": "HYPERSLAB_FSYNC",
    "file_locks": "HYPERSLAB_FILE_LOCKS",
    "default_zarr_format": "HYPERSLAB_ZARR_FORMAT",
    "order": "HYPERSLAB_ORDER",
    "read_missing_chunks": "HYPERSLAB_READ_MISSING_CHUNKS",
    "pickle_credentials": "HYPERSLAB_PICKLE_CREDENTIALS",
}
# zarr-python's names for settings.
_ALIASES = {
    "array.order": "order",
    "array.read_missing_chunks": "read_missing_chunks",
    "array.write_empty_chunks": "write_empty_chunks",
    "threading.max_workers": "threads",
}
# zarr-python's settings that have no effect here, with their defaults in zarr-python.
_WITHOUT_EFFECT: dict[str, Any] = {
    "array.rectilinear_chunks": False,
    "array.sharding_coalesce_max_bytes": 16 << 20,
    "array.sharding_coalesce_max_gap_bytes": 1 << 20,
    "async.concurrency": 10,
    "async.timeout": None,
    "codec_pipeline.batch_size": 1,
    "codec_pipeline.max_workers": None,
    "codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline",
}
_ZARR_ENVIRONMENT = {
    "order": "ZARR_ARRAY__ORDER",
    "read_missing_chunks": "ZARR_ARRAY__READ_MISSING_CHUNKS",
    "write_empty_chunks": "ZARR_ARRAY__WRITE_EMPTY_CHUNKS",
    "default_zarr_format": "ZARR_DEFAULT_ZARR_FORMAT",
    "threads": "ZARR_THREADING__MAX_WORKERS",
}
# Settings of the engine take effect in Rust. This package looks the others up.
_APPLY: dict[str, Callable[[Any], None]] = {
    "threads": lambda value: _native.set_threads(value or 0),
    "recycler_bytes": _native.set_recycler_bound,
    "verify_checksums": _native.set_verify_checksums,
    "write_empty_chunks": _native.set_write_empty_chunks,
    "decodes_in_flight": _native.set_decodes_in_flight,
    "partial_reads": _native.set_partial_reads,
    "partial_decode": _native.set_partial_decode,
    "shard_index_bound": _native.set_shard_index_bound,
    "vlen_chunk_bound": _native.set_vlen_chunk_bound,
    "external_files": _native.set_external_files,
    "requests_per_second": _native.set_requests_per_second,
    "file_locks": _native.set_file_locks,
    "read_missing_chunks": _native.set_read_missing_chunks,
}


_NO_DEFAULT: Any = object()


def _unknown_setting(name: str) -> KeyError:
    return KeyError(f"unknown setting {name!r} (settings: {', '.join(_PARSE)})")


def _flatten(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten settings to dotted names: ``{"a": {"b": 1}}`` is ``{"a.b": 1}``."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        inner = _flatten(value) if isinstance(value, Mapping) else None
        found |= {name: value} if inner is None else {f"{name}.{key}": item for key, item in inner.items()}
    return found


class ConfigSet:
    """The result of `Config.set`: a context manager that restores the old values."""

    def __init__(self, config: Config, old: Mapping[str, Any]) -> None:
        self._config, self._old = config, dict(old)

    def __enter__(self) -> Config:
        return self._config

    def __exit__(self, *_: object) -> None:
        self._config._assign(self._old)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)


class Config:
    """All settings of hyperslab, for the whole process. The module's docstring explains each one.

    Settings are attributes. ``config.set(...)`` changes several at once, also temporarily as a
    context manager.
    """

    __slots__ = ("_values", "_without_effect")

    _values: dict[str, Any]
    _without_effect: dict[str, Any]

    def __init__(self) -> None:
        self._values = {}
        self._without_effect = dict(_WITHOUT_EFFECT)
        self._assign(_DEFAULTS)

    @property
    def threads(self) -> int | None:
        """Threads per request, including the caller's; ``None``: one per core."""
        return cast("int | None", self._values["threads"])

    @threads.setter
    def threads(self, value: int | None) -> None:
        self._assign({"threads": value})

    @property
    def recycler_bytes(self) -> int:
        """Maximum bytes of memory kept for later results; 0 turns recycling off."""
        return cast(int, self._values["recycler_bytes"])

    @recycler_bytes.setter
    def recycler_bytes(self, value: int | str) -> None:
        self._assign({"recycler_bytes": value})

    @property
    def verify_checksums(self) -> bool:
        """True if checksums of chunks are verified on reading."""
        return cast(bool, self._values["verify_checksums"])

    @verify_checksums.setter
    def verify_checksums(self, value: bool) -> None:
        self._assign({"verify_checksums": value})

    @property
    def write_empty_chunks(self) -> bool:
        """True if chunks that hold only the fill value are stored."""
        return cast(bool, self._values["write_empty_chunks"])

    @write_empty_chunks.setter
    def write_empty_chunks(self, value: bool) -> None:
        self._assign({"write_empty_chunks": value})

    @property
    def decodes_in_flight(self) -> int:
        """Maximum number of inner chunks decoded at once; bounds the memory of a read."""
        return cast(int, self._values["decodes_in_flight"])

    @decodes_in_flight.setter
    def decodes_in_flight(self, value: int) -> None:
        self._assign({"decodes_in_flight": value})

    @property
    def partial_reads(self) -> bool:
        """True if only the wanted chunks of a shard are read, instead of the whole shard."""
        return cast(bool, self._values["partial_reads"])

    @partial_reads.setter
    def partial_reads(self, value: bool) -> None:
        self._assign({"partial_reads": value})

    @property
    def partial_decode(self) -> bool:
        """True if only the wanted part of a chunk is decoded."""
        return cast(bool, self._values["partial_decode"])

    @partial_decode.setter
    def partial_decode(self, value: bool) -> None:
        self._assign({"partial_decode": value})

    @property
    def shard_index_bound(self) -> int:
        """Maximum bytes of memory for cached shard indexes; 0 keeps none."""
        return cast(int, self._values["shard_index_bound"])

    @shard_index_bound.setter
    def shard_index_bound(self, value: int | str) -> None:
        self._assign({"shard_index_bound": value})

    @property
    def vlen_chunk_bound(self) -> int:
        """Maximum decoded bytes of a chunk of variable-length elements.

        A chunk that decodes to at most 1032 times its stored bytes is read in any case.
        """
        return cast(int, self._values["vlen_chunk_bound"])

    @vlen_chunk_bound.setter
    def vlen_chunk_bound(self, value: int | str) -> None:
        self._assign({"vlen_chunk_bound": value})

    @property
    def external_files(self) -> Literal["same-directory", "anywhere", "refuse"]:
        """Other files that an HDF5 file may refer to."""
        return cast(Literal["same-directory", "anywhere", "refuse"], self._values["external_files"])

    @external_files.setter
    def external_files(self, value: Literal["same-directory", "anywhere", "refuse"]) -> None:
        self._assign({"external_files": value})

    @property
    def requests_per_second(self) -> float | None:
        """Maximum requests per second to each host of remote stores; ``None``: no limit."""
        return cast("float | None", self._values["requests_per_second"])

    @requests_per_second.setter
    def requests_per_second(self, value: float | None) -> None:
        self._assign({"requests_per_second": value})

    @property
    def fsync(self) -> bool:
        """True if local stores opened from now on flush every write to the disk."""
        return cast(bool, self._values["fsync"])

    @fsync.setter
    def fsync(self, value: bool) -> None:
        self._assign({"fsync": value})

    @property
    def file_locks(self) -> bool:
        """True if local stores opened from now on lock files against other processes."""
        return cast(bool, self._values["file_locks"])

    @file_locks.setter
    def file_locks(self, value: bool) -> None:
        self._assign({"file_locks": value})

    @property
    def default_zarr_format(self) -> Literal[2, 3]:
        """The format of new nodes if the caller gives none."""
        return cast(Literal[2, 3], self._values["default_zarr_format"])

    @default_zarr_format.setter
    def default_zarr_format(self, value: Literal[2, 3]) -> None:
        self._assign({"default_zarr_format": value})

    @property
    def order(self) -> Literal["C", "F"]:
        """The memory order of results."""
        return cast(Literal["C", "F"], self._values["order"])

    @order.setter
    def order(self, value: Literal["C", "F"]) -> None:
        self._assign({"order": value})

    @property
    def read_missing_chunks(self) -> bool:
        """True if absent chunks are read as fill values."""
        return cast(bool, self._values["read_missing_chunks"])

    @read_missing_chunks.setter
    def read_missing_chunks(self, value: bool) -> None:
        self._assign({"read_missing_chunks": value})

    @property
    def pickle_credentials(self) -> bool:
        """True if pickles of remote stores include the secrets passed to them."""
        return cast(bool, self._values["pickle_credentials"])

    @pickle_credentials.setter
    def pickle_credentials(self, value: bool) -> None:
        self._assign({"pickle_credentials": value})

    @property
    def defaults(self) -> list[dict[str, Any]]:
        """The defaults of all settings, as a list like in zarr-python."""
        return [dict(_DEFAULTS)]

    def get(self, key: str, default: Any = _NO_DEFAULT) -> Any:
        """Return the value of a setting by name.

        An unknown name gives ``default``; without a default, as in zarr-python, a ``KeyError``.
        """
        name = _ALIASES.get(key, key)
        for values in (self._values, self._without_effect):
            if name in values:
                return values[name]
        if default is _NO_DEFAULT:
            raise _unknown_setting(name)
        return default

    def __getitem__(self, key: str) -> Any:
        return self.get(key)

    def set(self, arg: Mapping[str, Any] | None = None, **more: Any) -> ConfigSet:
        """Change settings: all of them, or none if one is invalid.

        Parameters
        ----------
        arg, **more
            Settings by name. In keywords, ``__`` stands for a dot: ``array__order="F"``.

        Returns
        -------
        ConfigSet
            In a ``with`` statement, restores the old values at the end.

        Raises
        ------
        KeyError
            For an unknown setting.
        ValueError, TypeError
            For an invalid value.
        """
        given = _flatten(arg or {}) | _flatten(
            {name.replace("__", "."): value for name, value in more.items()}
        )
        new = {_ALIASES.get(name, name): value for name, value in given.items()}
        now = self._values | self._without_effect
        old = {name: now[name] for name in new if name in now}
        self._assign(new)
        return ConfigSet(self, old)

    def reset(self) -> None:
        """Reset every setting to its environment variable or default."""
        self._assign(_DEFAULTS | _WITHOUT_EFFECT)
        self._read_environment(os.environ)

    def refresh(self) -> None:
        """Same as `reset`, as in zarr-python."""
        self.reset()

    def pprint(self, *args: Any, **kwargs: Any) -> None:
        """Print all settings. Takes the arguments of `pprint.pprint`."""
        import pprint

        pprint.pprint(self.to_dict(), *args, **kwargs)

    def to_dict(self) -> dict[str, Any]:
        """Return all settings by name."""
        return dict(self._values)

    def __repr__(self) -> str:
        return "Config(" + ", ".join(f"{name}={value!r}" for name, value in self._values.items()) + ")"

    def _assign(self, settings: Mapping[str, Any]) -> None:
        parsed = {}
        ignored = {name: value for name, value in settings.items() if name in _WITHOUT_EFFECT}
        for name, value in settings.items():
            if name in ignored:
                continue
            if name not in _PARSE:
                raise _unknown_setting(name)
            try:
                parsed[name] = _PARSE[name](value)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{name}: {error}") from None
        for name, value in parsed.items():
            if name in _APPLY:
                _APPLY[name](value)
            self._values[name] = value
        self._without_effect.update(ignored)

    def _read_environment(self, environment: Mapping[str, str]) -> None:
        for name, variable in _ENVIRONMENT.items():
            text = environment.get(variable, "")
            if not text.strip() and name in _ZARR_ENVIRONMENT:
                variable = _ZARR_ENVIRONMENT[name]
                text = environment.get(variable, "")
            if not text.strip() or (variable.startswith("ZARR_") and text.strip().lower() == "none"):
                continue
            try:
                self._assign({name: text})
            except (TypeError, ValueError) as error:
                # An invalid variable must not make the package unusable.
                warnings.warn(f"environment variable {variable} is ignored: {error}", stacklevel=2)


config = Config()
config._read_environment(os.environ)
