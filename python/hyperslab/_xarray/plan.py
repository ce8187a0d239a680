"""Plans the writes of a dataset before anything is changed.

xarray's `ZarrStore` decides what goes where, and everything is checked. Groups and arrays are
created, lengthened and written afterwards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from xarray import Dataset, Variable
from xarray.backends.common import ArrayWriter
from xarray.backends.zarr import ZarrStore
from xarray.coding.strings import check_vlen_dtype
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab._core.arguments import DEFAULT_FILL_VALUE, ZarrFormat
from hyperslab._core.array import Array
from hyperslab._core.group import Group
from hyperslab._core.unreadable import UnreadableArray
from hyperslab._create.new import create_group
from hyperslab._stores.store import MemoryStore
from hyperslab._xarray import checks
from hyperslab._xarray.fits import numbers_that_fit, text_that_fits
from hyperslab._xarray.zarr import ZarrReader
from hyperslab.errors import ArgumentTypeError, ContainsGroupError, InvalidArgumentError

__all__ = ["Plan", "PlannedArray", "PlannedGroup", "Write", "ZarrPlanner"]


class PlannedGroup:
    """A group to write to."""

    def __init__(self, at: str, existing: Group | None, trial: Group) -> None:
        self.at = at
        """Path relative to the group that `to_zarr` writes."""
        self.existing = existing
        self.trial = trial
        """A group in memory. New arrays and groups are first created there, to check them."""
        self.attributes: Mapping[str, Any] | None = None
        """The group's new attributes."""


class PlannedArray:
    """An existing or new array to write to."""

    def __init__(
        self,
        group: PlannedGroup,
        name: str,
        *,
        existing: Array | None = None,
        trial: Array | None = None,
        arguments: Mapping[str, Any] | None = None,
        given: Variable | None = None,
    ) -> None:
        self.group, self.name = group, name
        self.given = given
        """The variable to write, before encoding."""
        self.existing = existing
        self.trial = trial
        """A new array, created in memory."""
        self.arguments = arguments or {}
        """Arguments of `create_array` for a new array."""
        found: Any = existing if trial is None else trial
        self.shape: tuple[int, ...] = found.shape
        """The planned shape. The array may still be shorter."""
        self.old_shape = self.shape
        """The shape when the plan was made."""
        self.is_lengthened = False
        """True once this write has begun to make the array longer."""

    @property
    def path(self) -> str:
        """Path relative to the group that `to_zarr` writes."""
        return f"{self.group.at}/{self.name}" if self.group.at else self.name

    def resize(self, shape: tuple[int, ...]) -> None:
        """Plan another shape."""
        self.shape = tuple(shape)


class Write(NamedTuple):
    """Values and their destination."""

    source: Any
    target: PlannedArray
    region: Any

    @property
    def is_lazy(self) -> bool:
        """True if the values are a dask array."""
        return is_chunked_array(self.source)


class Plan(ArrayWriter):
    """All steps, in the order of the dataset. xarray uses it as its writer of arrays."""

    def __init__(self, existing: Group | None, zarr_format: ZarrFormat) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        trial = create_group(MemoryStore(), zarr_format=zarr_format)
        self.root = PlannedGroup("", existing, trial)
        self.groups = [self.root]
        self.arrays: list[PlannedArray] = []
        self.writes: list[Write] = []

    def add(self, source: Any, target: Any, region: Any = None) -> None:
        """Plan to write an array to a region of a target."""
        if is_chunked_array(source) and type(source).__module__.partition(".")[0] != "dask":
            raise ArgumentTypeError(f"expected chunked arrays of dask, found {type(source)!r}")
        self.writes.append(Write(source, target, region))

    def sync(self, compute: bool = True, chunkmanager_store_kwargs: Any = None) -> None:
        """Do nothing: writing begins when everything is planned."""


class ZarrPlanner(ZarrStore):
    """xarray's store of a Zarr group, which only plans changes."""

    zarr_group: Any

    def __init__(
        self,
        plan: Plan,
        group: PlannedGroup,
        mode: Any,
        *,
        append_dim: Any,
        region: Any,
        safe_chunks: bool,
        align_chunks: bool,
        write_empty: bool | None,
    ) -> None:
        self._plan, self._planned = plan, group
        self._given: Mapping[Any, Variable] = {}
        self._stored_encodings: dict[Any, Mapping[str, Any]] = {}
        self._coordinates: set[Any] = set()
        # True if variables without `append_dim` are left alone.
        self._keeps_static = mode == "a-"
        present = group.trial if group.existing is None else group.existing
        super().__init__(
            present,
            mode,
            append_dim=append_dim,
            write_region=region,
            safe_chunks=safe_chunks,
            align_chunks=align_chunks,
            write_empty=write_empty,
            use_zarr_fill_value_as_mask=present.zarr_format == 2,
        )

    def child(self, path: str) -> ZarrPlanner:
        """Return the store of a group below."""
        found: Any = None
        if self._planned.existing is not None:
            parts = path.split("/")
            for depth in range(1, len(parts) + 1):
                found = self._planned.existing.get("/".join(parts[:depth]))
                if found is not None and not isinstance(found, Group):
                    raise TypeError(f"{'/'.join(parts[:depth])!r} is an array, not a group")
                if found is None:
                    break
        group = PlannedGroup(path, found, self._planned.trial.require_group(path))
        self._plan.groups.append(group)
        return type(self)(
            self._plan,
            group,
            self._mode,
            append_dim=self._append_dim,
            region=self._write_region,
            safe_chunks=self._safe_chunks,
            align_chunks=self._align_chunks,
            write_empty=self._write_empty,
        )

    # ---- the existing group

    def _fetch_members(self) -> dict[str, Any]:
        existing = self._planned.existing
        return {} if existing is None else dict(existing.members())

    def arrays(self) -> tuple[tuple[str, Any], ...]:
        """Return names and arrays of the existing group."""
        return tuple((name, node) for name, node in self.members.items() if not isinstance(node, Group))

    def array_keys(self) -> tuple[str, ...]:
        """Return names of arrays in the existing group."""
        return tuple(name for name, _ in self.arrays())

    def open_store_variable(self, name: str) -> Variable:
        """Return an existing array as a variable of xarray."""
        reader = ZarrReader(self.zarr_group, (), self._use_zarr_fill_value_as_mask)
        return reader._variable(self._existing(name))

    def get_dimensions(self) -> dict[str, int]:
        """Return the dimensions of all existing arrays, with their lengths."""
        found: dict[str, int] = {}
        for sizes in self._stored_sizes().values():
            for dimension, length in sizes.items():
                if found.setdefault(str(dimension), length) != length:
                    raise InvalidArgumentError(
                        f"arrays disagree on the length of dimension {dimension!r}: "
                        f"{found[str(dimension)]} and {length}"
                    )
        return found

    def _existing(self, name: str) -> Array:
        found: Any = self.members[name]
        if isinstance(found, UnreadableArray):
            raise found.error
        if self._write_empty is not None:
            found = found.with_config({"write_empty_chunks": self._write_empty})
        array: Array = found
        return array

    # ---- xarray's steps, planned

    def plan(self, ds: Dataset, encoding: Mapping[str, Any] | None) -> None:
        """Plan to write a dataset that was checked against the region."""
        from xarray.backends.writers import dump_to_store

        self._coordinates = set(ds.coords)
        dump_to_store(ds, self, self._plan, encoding=encoding)  # type: ignore[no-untyped-call]

    def store(
        self,
        variables: Any,
        attributes: Any,
        check_encoding_set: Any = frozenset(),
        writer: Any = None,
        unlimited_dims: Any = None,
    ) -> None:
        """Encode variables, and plan to write them."""
        self._given, mode = variables, self._mode
        # With ``a-``, xarray drops variables without `append_dim` before they are compared with the
        # stored ones.
        self._mode = "a" if mode == "a-" else mode
        try:
            super().store(variables, attributes, check_encoding_set, writer, unlimited_dims)  # type: ignore[no-untyped-call]
        finally:
            self._mode = mode
            self._given = {}

    def encode(self, variables: Any, attributes: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Encode variables; for existing arrays, in the encoding of the array."""
        dates: dict[Any, Variable] = {}
        others: dict[Any, Variable] = {}
        stored = set(self.array_keys())
        for name, variable in variables.items():
            if name not in stored:
                others[name] = variable
                continue
            array = self._existing(name)
            self._stored_encodings[name] = dict(variable.encoding)
            if array.dtype.kind in "mM":
                # xarray would turn dates into numbers, with units that this array does not have.
                dates[name] = checks.dates_as_stored(name, variable, array)
            else:
                checks.check_raw(name, variable, array)
                fitting = numbers_that_fit(name, variable, array)
                others[name] = text_that_fits(name, fitting, array)
        encoded, attributes = super().encode(others, attributes)  # type: ignore[no-untyped-call]
        all_variables = encoded | dates
        return {name: all_variables[name] for name in variables}, attributes

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Plan new attributes of the group."""
        self._planned.trial.attrs.put(attributes)
        self._planned.attributes = attributes

    def set_variables(
        self, variables: Any, check_encoding_set: Any, writer: Any, unlimited_dims: Any = None
    ) -> None:
        """Plan to write encoded variables. Variables that are stored already are left out."""
        first, static = len(self._plan.writes), set()
        if self._planned.existing is not None:
            if self._append_dim is not None or not {*variables} <= {*self.array_keys()}:
                checks.check_dimensions(variables, self._stored_sizes(), self._append_dim)
            static = {name for name, v in variables.items() if self._is_static(name, v)}
            if self._keeps_static:
                variables = {name: v for name, v in variables.items() if name not in static}
        super().set_variables(variables, check_encoding_set, writer, unlimited_dims)
        self._plan.writes[first:] = [w for w in self._plan.writes[first:] if w.target.name not in static]

    def _stored_sizes(self) -> dict[str, Mapping[Any, int]]:
        """Return dimension lengths of existing arrays; empty for arrays without dimension names."""
        found: dict[str, Mapping[Any, int]] = {}
        for name, node in self.arrays():
            found[name] = {}
            if not isinstance(node, UnreadableArray):
                with contextlib.suppress(KeyError):
                    found[name] = self.open_store_variable(name).sizes
            elif self._append_dim is not None:
                checks.check_unreadable(node, self._append_dim)
        return found

    def _is_static(self, name: Any, variable: Variable) -> bool:
        """Return True if a stored variable is kept. Raises an error if it does not fit."""
        if name not in self.array_keys():
            return False
        array = self._existing(name)
        checks.check_meaning(name, self._given[name], variable, self._stored_encodings[name], array)
        if self._append_dim is None or self._append_dim in variable.dims:
            return False
        is_coordinate = name in self._coordinates
        if not self._keeps_static or (is_coordinate and variable.ndim > 0):
            checks.check_same(name, variable, array, self._append_dim, is_coordinate)
        return True

    def _open_existing_array(self, *, name: str) -> Any:
        return self._add(
            PlannedArray(self._planned, name, existing=self._existing(name), given=self._given.get(name))
        )

    def _create_new_array(
        self,
        *,
        name: str,
        shape: tuple[int, ...],
        dtype: Any,
        fill_value: Any,
        encoding: dict[str, Any],
        attrs: dict[str, Any],
    ) -> Any:
        if name in self.members:
            raise ContainsGroupError(
                f"variable {name!r}: there is a group of this name in {self.zarr_group!r}"
            )
        own, given = encoding.pop("write_empty_chunks", None), self._write_empty
        if own is not None and given is not None and own != given:
            raise InvalidArgumentError(
                f"variable {name!r}: write_empty_chunks is {own} in the encoding and {given} as an argument"
            )
        own = given if own is None else own
        # The group was already emptied. zarr-python's handles cache metadata; ours do not.
        for useless in ("overwrite", "cache_metadata", "fill_value"):
            encoding.pop(useless, None)
        if fill_value is None and self.zarr_group.zarr_format == 3:
            fill_value = DEFAULT_FILL_VALUE
        # For scalars, as in zarr-python.
        encoding["dimension_names"] = encoding.get("dimension_names") or None
        text = check_vlen_dtype(dtype)  # type: ignore[no-untyped-call]
        arguments = dict(
            encoding,
            shape=shape,
            dtype=dtype if text is None else text,
            fill_value=fill_value,
            attributes=attrs,
            config=None if own is None else {"write_empty_chunks": own},
        )
        try:
            trial = self._planned.trial.create_array(name, **arguments)
        except Exception as error:
            error.add_note(f"Raised while creating variable {name!r}")
            raise
        return self._add(PlannedArray(self._planned, name, trial=trial, arguments=arguments))

    def _add(self, array: PlannedArray) -> PlannedArray:
        self._plan.arrays.append(array)
        return array
