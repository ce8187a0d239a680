"""Handles variables that are lazily read from the arrays they are written to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from hyperslab._core.array import Array
from hyperslab._xarray.plan import Plan, Write
from hyperslab.errors import InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._dask.blocks import Written

__all__ = ["read_first"]


def read_first(plan: Plan, compute: bool) -> None:
    """Load variables that read elements of other writes, before the first write."""
    if not any(write.is_lazy for write in plan.writes):
        return
    from dask.base import compute as compute_all

    from hyperslab._dask.blocks import UnsettledReads, refusal, settle

    try:
        loaded = settle([_written(write) for write in plan.writes], compute_all if compute else None)
    except UnsettledReads as error:
        name = plan.writes[error.number].target.name
        raise InvalidArgumentError(refusal(error, f"variable {name!r}", "ds.load()")) from None
    for number, values in loaded.items():
        plan.writes[number] = plan.writes[number]._replace(source=values)


def _written(write: Write) -> Written:
    """Return the place of a write, to check what it reads."""
    from hyperslab._dask.blocks import Written
    from hyperslab.dask import _placed

    planned = write.target
    target = cast(Array, planned.trial if planned.existing is None else planned.existing)
    grows = target.shape != planned.shape
    source = write.source
    if write.is_lazy and not grows:
        source = _placed(source, target, write.region, "rechunk").x
    given = None if planned.given is None else planned.given._data
    return Written(source, target, _box_of(write.region, planned.shape), grows, given)


def _box_of(region: Any, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return start and end of an xarray region along each axis."""
    slices = region if isinstance(region, tuple) else (slice(None),) * len(shape)
    return tuple(each.indices(n)[:2] for each, n in zip(slices, shape, strict=True))
