"""Validation of stores and files, as `hyperslab validate` does it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hyperslab import _native
from hyperslab._base.progress import show_progress
from hyperslab._core.array_common import AnyArray
from hyperslab._core.group_common import AnyGroup
from hyperslab._stores.store import location_in, resolve_store
from hyperslab.errors import ArgumentTypeError

if TYPE_CHECKING:
    from hyperslab._core.array import Array
    from hyperslab._core.group import Group
    from hyperslab._hdf5.array import FileArray
    from hyperslab._hdf5.group import FileGroup
    from hyperslab._stores.store import StoreLike

__all__ = [
    "Finding",
    "MissingChunks",
    "Progress",
    "Source",
    "ValidationCost",
    "ValidationReport",
    "named_sources",
    "options_of",
    "report_of",
    "validate",
    "validation_cost",
]

Progress: TypeAlias = Callable[[Literal["verify"], int, int], object]
Severity: TypeAlias = Literal["error", "warning", "note"]
Level: TypeAlias = Literal["structure", "conventions", "missing", "decode"]


@dataclass(frozen=True)
class Finding:
    """Something that `hyperslab.validate` found."""

    location: str
    """The location that was validated, as it was given."""
    severity: Severity
    """``"error"``: data is lost, damaged, or not readable. ``"warning"``: programs may read something
    else than the writer meant, or space is lost. ``"note"``: nothing is wrong."""
    level: Level
    """The check that found it."""
    kind: str
    """The kind, in words with hyphens: ``"damaged-chunk"``. The names never change."""
    path: str
    """Path of the node, with a leading ``/``."""
    chunk: tuple[int, ...] | None
    """Index of the chunk along each axis."""
    key: str | None
    """Key of the object in the store."""
    offset: int | None
    """First byte in the object."""
    found: str
    """The state that was found."""
    expected: str | None
    """The state that was expected."""
    advice: str
    """Advice for the user."""

    def __str__(self) -> str:
        """Return the finding in one line."""
        place = self.path
        if self.chunk is not None:
            place += f", chunk {list(self.chunk)}"
        if self.key is not None:
            place += f", key {self.key!r}"
        if self.offset is not None:
            place += f", byte {self.offset}"
        expected = "" if self.expected is None else f"; expected {self.expected}"
        return f"{self.severity}: {self.kind}: {place}: {self.found}{expected}. {self.advice}"


@dataclass(frozen=True)
class MissingChunks:
    """The absent chunks of an array."""

    path: str
    """Path of the array, with a leading ``/``."""
    unit: Literal["chunk", "shard"]
    """The word for the counted objects: shards, if their chunks cannot be counted without decoding."""
    grid: tuple[int, ...]
    """Chunks along each axis."""
    total: int
    """Number of chunks of the grid."""
    absent: int
    """Number of absent ones."""
    first: list[tuple[int, ...]] = field(repr=False)
    """The first 1000 absent ones, in C order."""


@dataclass(frozen=True)
class ValidationReport:
    """The findings of `hyperslab.validate`. The report is true if there are no errors."""

    findings: list[Finding]
    """The worst first, location by location."""
    missing: dict[str, list[MissingChunks]] = field(repr=False)
    """Absent chunks of each array, by location, if they were looked for."""
    unreached: dict[str, str]
    """Locations that could not be looked at, and why."""
    omitted: int = field(repr=False)
    """Number of findings beyond the first 10 000 of a location."""
    png: bytes | None = field(repr=False, compare=False)
    """A picture of absent chunks, if it was asked for and if chunks are absent."""
    _json: str = field(repr=False, compare=False)

    def __bool__(self) -> bool:
        """Return whether everything could be looked at, and no error was found."""
        return not self.unreached and not self.errors

    def __iter__(self) -> Iterator[Finding]:
        """Iterate over the findings."""
        return iter(self.findings)

    @property
    def errors(self) -> list[Finding]:
        """The findings that are errors."""
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """The findings that are warnings."""
        return [finding for finding in self.findings if finding.severity == "warning"]

    def to_json(self) -> str:
        """Return everything as JSON, as ``hyperslab validate --json`` prints it."""
        return self._json

    def _repr_png_(self) -> bytes | None:
        return self.png


@dataclass(frozen=True)
class ValidationCost:
    """The requests and bytes of a validation; made by `hyperslab.validation_cost`."""

    location: str
    """The location, as it was given."""
    nodes: int
    """Arrays and groups."""
    objects: int
    """Stored chunks, or shards."""
    structure_requests: int
    """Requests for the structure. Listings come on top."""
    decode_requests: int
    """Requests for decoding all chunks."""
    decode_bytes: int
    """Bytes that decoding all chunks reads."""
    unknown: int
    """Arrays in stores that cannot be listed."""


Source: TypeAlias = "Array | FileArray | Group | FileGroup | StoreLike"


def named_sources(
    sources: tuple[Source, ...], storage_options: Mapping[str, Any] | None
) -> list[tuple[str, Any]]:
    """Name sources, as the engine takes them."""
    takes = [isinstance(source, str) and _native.takes_storage_options(source) for source in sources]
    named: list[tuple[str, Any]] = []
    for source, far in zip(sources, takes, strict=True):
        if isinstance(source, AnyArray | AnyGroup):
            named.append((source.name, source._handle))
            continue
        # The options are for one source at least. If none takes them, all refuse them.
        location = location_in(source, storage_options if far or not any(takes) else None)
        if location is not None:
            named.append(location)
            continue
        try:
            store, path = resolve_store(source)
        except TypeError:
            raise ArgumentTypeError(
                f"expected paths, URLs, stores, arrays and groups, found {type(source).__name__}: pass a path"
            ) from None
        named.append((str(store), (store._native, path)))
    if not named:
        raise ArgumentTypeError("expected at least one path, array or group, found none")
    return named


def options_of(
    *,
    decode: bool = False,
    missing: bool = False,
    expect_complete: bool = False,
    conventions: bool = True,
    png: bool = False,
    resume: str | os.PathLike[str] | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """Return the options of a validation, as the engine takes them."""
    return {
        "decode": bool(decode), "missing": bool(missing or png), "expect_complete": bool(expect_complete),
        "conventions": bool(conventions), "png": bool(png), "threads": threads,
        "resume": None if resume is None else os.fspath(resume),
    }  # fmt: skip


def validate(
    *sources: Source,
    decode: bool = False,
    missing: bool = False,
    expect_complete: bool = False,
    conventions: bool = True,
    png: bool = False,
    resume: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ValidationReport:
    """Find damage, losses, leftovers and contradictions in stores and files.

    Looks at everything at each location: Zarr v2 and v3, shards, HDF5, NetCDF, references, archives,
    local and remote. A fault is named with its array, chunk, key and offset, and the others go on.

    The structure is always checked: metadata documents, consolidated metadata, keys, sizes, indexes
    of shards, all structures of files.

    Parameters
    ----------
    *sources : str, path, store, Array or Group
        What to validate. A damaged store can often not be opened: pass its path, URL or store.
    decode : bool, default False
        Read and decode every stored chunk, and verify all checksums. Takes as long as reading
        everything once, and little memory.
    missing : bool, default False
        Count and list absent chunks. Nothing is decoded for that.
    expect_complete : bool, default False
        Absent chunks are errors.
    conventions : bool, default True
        Check the conventions of CF and NetCDF that decide whether xarray reads a file right. Reads the
        values of coordinates.
    png : bool, default False
        Draw a map of the chunks of each array that lacks some, for `ValidationReport.png`. Implies
        ``missing``.
    resume : str or path, optional
        A file that notes decoded parts, with sizes and times (or tags) of their objects. It is made if it
        does not exist. Another call with the same file decodes only new and changed objects.
    threads : int, optional
        Number of threads. ``None``: `hyperslab.config`.
    progress : callable, or True, optional
        Called as ``progress("verify", bytes_done, bytes_in_all)``. ``True`` shows a bar.
    storage_options : mapping, optional
        Credentials and settings for URLs of servers, as for `hyperslab.open`.

    Returns
    -------
    ValidationReport
        All findings. It is true if there are no errors.

    Examples
    --------
    >>> z = hs.create_array("whole.zarr", shape=(4,), chunks=(2,), dtype="f4")
    >>> z[:2] = 1.5
    >>> bool(hs.validate("whole.zarr", decode=True))
    True
    >>> report = hs.validate("whole.zarr", expect_complete=True)
    >>> print(report.findings[0].kind, report.missing["whole.zarr"][0].first)
    absent-chunks [(1,)]
    """
    named = named_sources(sources, storage_options)
    given = options_of(
        decode=decode, missing=missing, expect_complete=expect_complete, conventions=conventions, png=png,
        resume=resume, threads=threads,
    )  # fmt: skip
    with show_progress(progress) as callback:
        text, picture = _native.validate_all(named, given, callback)
    return report_of(text, picture)


def report_of(text: str, png: bytes | None = None) -> ValidationReport:
    """Read a report that the engine made."""
    facts = json.loads(text)
    findings = [
        Finding(**{**one, "chunk": None if one["chunk"] is None else tuple(one["chunk"])})
        for one in facts["findings"]
    ]
    absent = {
        looked["location"]: [
            MissingChunks(
                path=one["path"],
                unit=one["unit"],
                grid=tuple(one["grid"]),
                total=one["total"],
                absent=one["absent"],
                first=[tuple(chunk) for chunk in one["first"]],
            )
            for one in looked["missing"]
        ]
        for looked in facts["looked"]
        if looked["missing"]
    }
    unreached = {one["location"]: one["why"] for one in facts["unreached"]}
    return ValidationReport(findings, absent, unreached, facts["omitted"], png, text)


def validation_cost(
    *sources: Source, decode: bool = False, storage_options: Mapping[str, Any] | None = None
) -> list[ValidationCost]:
    """Estimate what `validate` would read: requests and bytes.

    Opens all nodes, and lists stored chunks.

    Parameters
    ----------
    *sources : str, path, store, Array or Group
        As for `validate`.
    decode : bool, default False
        As for `validate`.
    storage_options : mapping, optional
        As for `validate`.

    Returns
    -------
    list of ValidationCost
        The cost of each source.

    Examples
    --------
    >>> z = hs.create_array("costs.zarr", shape=(4,), chunks=(2,), dtype="f4")
    >>> z[:] = 1.5
    >>> [cost] = hs.validation_cost("costs.zarr", decode=True)
    >>> cost.objects, cost.decode_requests
    (2, 2)
    """
    named = named_sources(sources, storage_options)
    return [ValidationCost(**one) for one in json.loads(_native.validate_cost(named, bool(decode)))]
