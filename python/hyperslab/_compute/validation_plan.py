"""Plans of validations that many processes execute."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hyperslab import _native
from hyperslab._base.config import parse_size
from hyperslab._base.progress import show_progress
from hyperslab._base.tasks import run_tasks
from hyperslab._compute.validate import (
    Progress,
    Source,
    ValidationReport,
    named_sources,
    options_of,
    report_of,
)
from hyperslab.errors import InvalidArgumentError

__all__ = ["ValidationPart", "ValidationPlan", "plan_validation"]


@dataclass(frozen=True)
class ValidationPart:
    """Some chunks of one array, to be decoded by one task."""

    source: int
    """The number of the source."""
    path: str
    """Path of the array in its store or file."""
    bytes: int
    """Approximate bytes of the elements."""
    _json: str = field(repr=False)


@dataclass(frozen=True)
class ValidationPlan:
    """A plan for a validation by many processes; made by `hyperslab.plan_validation`.

    Plans are small and picklable. The structure has been checked: `report` has the findings.
    """

    sources: tuple[Source, ...]
    """The sources, as they were given."""
    parts: tuple[ValidationPart, ...] = field(repr=False)
    """The parts to decode."""
    report: ValidationReport
    """The findings without decoding."""
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    """Server options. They may be secret, and are pickled."""

    def run(
        self,
        executor: Any = None,
        *,
        retries: int = 2,
        threads: int | None = None,
        progress: Progress | bool | None = None,
    ) -> ValidationReport:
        """Decode all parts, and join their findings with those of `report`.

        Parameters
        ----------
        executor : executor, optional
            Runs the tasks. ``None``: this process. Otherwise an executor of `concurrent.futures`
            (threads or processes), a `distributed.Client`, or the module ``ray``. All processes must
            reach the sources by the same paths or URLs.
        retries : int, default 2
            How many times to rerun a failed task.
        threads : int, optional
            Threads per task. Default: `hyperslab.config` in this process, otherwise one.
        progress : callable, or True, optional
            Called as ``progress("verify", bytes_done, bytes_in_all)``. ``True`` shows a bar.

        Returns
        -------
        ValidationReport
            The same as that of `hyperslab.validate` with ``decode=True``.

        Examples
        --------
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> z = hs.create_array("planned.zarr", data=list(range(8)), chunks=2)
        >>> plan = hs.plan_validation("planned.zarr")
        >>> with ThreadPoolExecutor() as executor:
        ...     len(plan.parts), bool(plan.run(executor))
        (1, True)
        """
        outcomes = []
        total, done = sum(part.bytes for part in self.parts), 0
        if threads is None and executor is not None:
            threads = 1
        task = _Task(self.sources, self.storage_options, threads)
        name = "hyperslab-validate"
        with show_progress(progress) as callback:
            for number, outcome in run_tasks(task, self.parts, executor, retries=retries, name=name):
                outcomes.append(outcome)
                done += self.parts[number].bytes
                if callback is not None:
                    callback("verify", done, total)
        return report_of(_native.validate_join(self.report.to_json(), outcomes))


@dataclass(frozen=True)
class _Task:
    """Decodes a part. Returns its findings as JSON."""

    sources: tuple[Source, ...]
    storage_options: Mapping[str, Any] | None
    threads: int | None

    def __call__(self, part: ValidationPart) -> str:
        named = named_sources(self.sources, self.storage_options)[part.source]
        return _native.validate_part(named, part._json, self.threads)


def plan_validation(
    *sources: Source,
    missing: bool = False,
    expect_complete: bool = False,
    conventions: bool = True,
    task_size: int | str = "1 GiB",
    storage_options: Mapping[str, Any] | None = None,
) -> ValidationPlan:
    """Check the structure of stores and files, and plan the decoding of their chunks by many processes.

    Parameters
    ----------
    *sources : str, path, store, Array or Group
        As for `hyperslab.validate`. Other processes must be able to open them.
    missing : bool, default False
        As for `hyperslab.validate`.
    expect_complete : bool, default False
        As for `hyperslab.validate`.
    conventions : bool, default True
        As for `hyperslab.validate`.
    task_size : int or str, default "1 GiB"
        Approximate bytes of elements that a task decodes. A task needs little memory: each of its
        threads holds one chunk, or 2 MiB of small ones.
    storage_options : mapping, optional
        As for `hyperslab.validate`.

    Returns
    -------
    ValidationPlan
        Call its method ``run``.

    Examples
    --------
    >>> z = hs.create_array("parts.zarr", data=list(range(8)), chunks=2)
    >>> plan = hs.plan_validation("parts.zarr")
    >>> bool(plan.report), bool(plan.run())
    (True, True)
    """
    size = parse_size(task_size)
    if size < 1:
        raise InvalidArgumentError(f"task_size: expected at least 1 byte, found {task_size!r}")
    named = named_sources(sources, storage_options)
    given = options_of(missing=missing, expect_complete=expect_complete, conventions=conventions)
    text, parts = _native.validate_plan(named, given, size)
    made = tuple(ValidationPart(source, json.loads(part)["path"], n, part) for source, n, part in parts)
    return ValidationPlan(tuple(sources), made, report_of(text), storage_options)
