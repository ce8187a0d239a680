"""Repairs of stores and files, as `hyperslab repair` does them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from hyperslab import _native
from hyperslab._base.progress import show_progress

__all__ = ["RepairAction", "RepairLoss", "RepairPlan", "repair", "undo_repair"]

Progress: TypeAlias = Callable[[Literal["verify", "copy"], int, int], object]


@dataclass(frozen=True)
class RepairAction:
    """A thing that a repair does."""

    kind: str
    """The kind, in words with hyphens: ``"superblock"``, ``"salvage"``. The names never change."""
    path: str
    """Path of the node, with a leading ``/``."""
    key: str | None
    """Key of the object that is replaced or removed."""
    why: str
    """The reason."""
    does: str
    """The effect of the action, in words."""


@dataclass(frozen=True)
class RepairLoss:
    """Something that is lost."""

    path: str
    """Path of the node, with a leading ``/``."""
    chunk: tuple[int, ...] | None
    """Index of the chunk along each axis."""
    region: tuple[slice, ...] | None
    """The elements of the chunk, as an index of the array."""
    offset: int | None
    """First byte at fault."""
    why: str
    """The loss and its reason."""


@dataclass(frozen=True)
class RepairPlan:
    """The actions and losses of a repair. The plan is true if there is something to do."""

    location: str
    """The location, as it was given."""
    actions: list[RepairAction]
    """The actions, in their order."""
    lost: list[RepairLoss]
    """The losses."""
    doubtful: list[RepairLoss]
    """Nodes that may have wrong values. They stay as they are."""
    left: list[str]
    """Faults that no action mends."""
    adopted: int
    """Objects of an HDF5 file that nothing leads to, which get names in ``/lost+found``."""
    needs_target: bool
    """``True`` if the repair makes a new file: pass its path as *to*."""
    hash: str
    """The hash of the plan. A repair runs only if the plan is still the same."""
    more_lost: int = field(repr=False)
    """Number of losses that are not listed."""
    _json: str = field(repr=False, compare=False)

    def __bool__(self) -> bool:
        """Return whether there is something to do."""
        return bool(self.actions)

    def to_json(self) -> str:
        """Return everything as JSON, as ``hyperslab repair --json`` prints it."""
        return self._json


def _loss(facts: dict[str, Any]) -> RepairLoss:
    chunk, region = facts["chunk"], facts["region"]
    return RepairLoss(
        path=facts["path"],
        chunk=None if chunk is None else tuple(chunk),
        region=None if region is None else tuple(map(slice, region["start"], region["stop"])),
        offset=facts["offset"],
        why=facts["why"],
    )


def repair(
    path: str | os.PathLike[str],
    plan: RepairPlan | str | None = None,
    *,
    to: str | os.PathLike[str] | None = None,
    fill: bool = False,
    killed: bool = False,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> RepairPlan:
    """Repair a damaged store or file, by a plan.

    Without *plan*, looks and returns a plan: nothing is changed. With a plan, carries it out, if it is
    still the same. Everything that is replaced goes to a quarantine beside the store, and `undo_repair`
    gives it back.

    HDF5 and NetCDF-4 files that a killed program left: flags and lengths are put right in place. If
    something is lost, everything else is copied to a new file, *to*, and the old one stays as it is.

    Parameters
    ----------
    path : str or path
        A local file or directory.
    plan : RepairPlan or str, optional
        The plan to carry out, or its hash.
    to : str or path, optional
        The new file, if the plan needs one (`RepairPlan.needs_target`).
    fill : bool, default False
        Write damaged chunks of Zarr arrays again, with the fill value. Otherwise they become absent.
    killed : bool, default False
        A program was killed while it wrote the HDF5 file. The file does not always tell. With this
        argument `RepairPlan.doubtful` names all datasets whose compressed chunks may have taken each
        other's places.
    threads : int, optional
        Number of threads. ``None``: `hyperslab.config`.
    progress : callable, or True, optional
        Called as ``progress(phase, done, in_all)``. ``True`` shows a bar.

    Returns
    -------
    RepairPlan
        The actions and the losses.

    Examples
    --------
    >>> with hs.File("torn.h5", "w", libver="latest") as file:
    ...     file["x"] = np.arange(4)
    >>> plan = hs.repair("torn.h5")
    >>> bool(plan), plan.lost
    (False, [])
    """
    hash_ = plan.hash if isinstance(plan, RepairPlan) else plan
    with show_progress(progress) as callback:
        text = _native.repair_location(
            os.fspath(path),
            hash_,
            None if to is None else os.fspath(to),
            bool(fill),
            bool(killed),
            threads,
            callback,
        )
    facts = json.loads(text)
    return RepairPlan(
        location=facts["location"],
        actions=[RepairAction(**one) for one in facts["actions"]],
        lost=[_loss(one) for one in facts["lost"]],
        doubtful=[_loss(one) for one in facts["doubtful"]],
        left=facts["left"],
        adopted=facts["adopted"],
        needs_target=facts["needs_target"],
        hash=facts["hash"],
        more_lost=facts["more_lost"],
        _json=text,
    )


def undo_repair(path: str | os.PathLike[str]) -> bool:
    """Take back the last repair of a store or file.

    Gives back the old bytes, also if the repair was killed. New files that a repair made stay. Fails if
    somebody has changed the repaired bytes since.

    Parameters
    ----------
    path : str or path
        The location that was repaired.

    Returns
    -------
    bool
        ``False`` if there is no repair to take back.

    Examples
    --------
    >>> with hs.File("well.h5", "w") as file:
    ...     file["x"] = np.arange(4)
    >>> hs.undo_repair("well.h5")
    False
    """
    return _native.undo_repair(os.fspath(path))
