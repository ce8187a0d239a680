"""Changes of groups in HDF5 files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hyperslab._hdf5.create import new_dataset, time_of
from hyperslab._hdf5.defaults import get_config
from hyperslab._hdf5.links import ExternalLink, HardLink, SoftLink
from hyperslab._hdf5.names import text_of
from hyperslab._hdf5.netcdf import is_netcdf
from hyperslab._hdf5.node import FileNode
from hyperslab._native import StoredType, create_plain
from hyperslab.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    NameExistsError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from hyperslab._hdf5.array import FileArray
    from hyperslab._hdf5.group import FileGroup

__all__ = ["GroupWriting", "parts_of"]


def parts_of(path: str) -> list[str]:
    """Return the names in a path."""
    return [part for part in path.split("/") if part not in ("", ".")]


class GroupWriting(FileNode):
    """Changes of a group: new objects, links, copies. They are made at once for this process, and for
    others when the file is flushed or closed."""

    if TYPE_CHECKING:

        def _hdf5_address(self) -> int: ...
        def _node(self, handle: Any) -> Any: ...
        def _array(self, handle: Any) -> FileArray: ...
        def _file_link(self, name: str) -> tuple[str, int, str, str] | None: ...

    def _start(self: Any, path: str) -> FileGroup:
        """Return the group at which a path starts."""
        group: FileGroup = self.file if path.startswith("/") and self.path else self
        return group

    def _enter(self: Any, group: FileGroup, names: list[str], make: bool) -> FileGroup:
        """Return the group at a path, made of the names after each other."""
        for name in names:
            if group._file_link(name) is None and make:
                group = group._make_group(name)
                continue
            found: Any = group[name]
            if not isinstance(found, GroupWriting):
                raise ArgumentTypeError(f"Incompatible object ({type(found).__name__}) already exists")
            group = cast("FileGroup", found)
        return group

    def _make_group(self: Any, name: str, track_order: bool = False, made_at: int | None = None) -> FileGroup:
        editor = self._editor
        path = self._path_to(name)
        track_order = track_order or is_netcdf(self)
        address = editor.create_group(path, track_order, made_at)
        editor.link(self._hdf5_address(), name, address)
        made: FileGroup = self._node(editor.open(address, path))
        return made

    def _path_to(self: Any, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name

    def _free(self: Any, name: Any) -> tuple[FileGroup, list[str], str]:
        """Return the group at which a new path starts, the names of groups above, and the last name.

        Fails if there is an object at the path, or if something else than groups is on the way.
        """
        self._editor  # noqa: B018
        path = text_of(name)
        if not path:
            raise InvalidArgumentError("Unable to create object (name parameter cannot be an empty string)")
        if "\0" in path:
            raise InvalidArgumentError(f"the name {path!r} contains a NUL")
        group, names = self._start(path), parts_of(path)
        if not names:
            raise NameExistsError(f"Unable to create object (name already exists): {path!r}")
        *above, last = names
        while above and group._file_link(above[0]) is not None:
            try:
                found = group[above[0]]
            except KeyError as error:
                raise InvalidArgumentError(
                    f"Unable to create {path!r} (component not found): {error}"
                ) from None
            if not isinstance(found, GroupWriting):
                raise ArgumentTypeError(
                    f"Unable to create {path!r}: incompatible object ({type(found).__name__}) already exists "
                    f"at {above[0]!r}"
                )
            group = cast("FileGroup", found)
            above = above[1:]
        if not above and group._file_link(last) is not None:
            raise NameExistsError(
                f"Unable to create '/{group._path_to(last)}' (name already exists): delete it first, or "
                "choose another name"
            )
        return group, above, last

    def create_group(
        self,
        name: str | bytes | None,
        track_order: bool | None = None,
        *,
        track_times: bool | None = False,
        overwrite: bool = False,
        attributes: Any = None,
    ) -> FileGroup:
        """Create a group, and groups above that are missing.

        Parameters
        ----------
        name : str, bytes or None
            A name or path. ``None``: a group without a name, for ``group[name] = …``.
        track_order : bool, optional
            Whether the group keeps the order of its links and attributes. Default: ``get_config()``.
        track_times : bool, default False
            Whether the group keeps the times of its changes. (Groups of ``libver="earliest"`` that do not
            track the order have no times.)
        overwrite, attributes
            As in `hyperslab.Group.create_group`.

        Raises
        ------
        ValueError
            If the name is in use.

        Examples
        --------
        >>> import hyperslab as hs
        >>> file = hs.File.in_memory()
        >>> file.create_group("ocean/deep").name, list(file)
        ('/ocean/deep', ['ocean'])
        """
        made_at = time_of(track_times, "True, False, or None")
        tracked = bool(get_config().track_order if track_order is None else track_order)
        if name is None:
            editor = self._editor
            made = self._node(editor.open(editor.create_group("", tracked, made_at), ""))
            vars(made)["_is_anonymous"] = True
        else:
            if overwrite and name in self:  # type: ignore[operator]
                del self[name]
            group, above, last = self._free(name)
            made = self._enter(group, above, True)._make_group(last, tracked, made_at)
        if attributes:
            made.attrs.update(attributes)
        return made  # type: ignore[no-any-return]

    def require_group(self: Any, name: str | bytes, **_: Any) -> FileGroup:
        """Return the group of this name, which is created if there is none.

        Raises `TypeError` if there is something else.
        """
        if name not in self:
            made: FileGroup = self.create_group(name)
            return made
        found = self[name]
        if not isinstance(found, GroupWriting):
            raise ArgumentTypeError(f"Incompatible object ({type(found).__name__}) already exists")
        return found  # type: ignore[return-value]

    def create_dataset(
        self: Any, name: Any, shape: Any = None, dtype: Any = None, data: Any = None, **keywords: Any
    ) -> FileArray:
        """Create a dataset, and groups above that are missing, with h5py's arguments.

        Parameters
        ----------
        name : str, bytes or None
            A name or path. ``None``: a dataset without a name, for ``group[name] = …``.
        shape : int or tuple of int, optional
            ``()``: one element without axes. Default: the shape of ``data``.
        dtype : data-type, optional
            A NumPy type, with h5py's notes (`string_dtype`, `vlen_dtype`, …), or a committed type.
        data : array-like, optional
            The elements. `Empty`: a dataset without elements and shape.
        **keywords
            Other arguments of h5py:

            * ``chunks``: the shape of chunks; ``True``: chosen as in h5py.
            * ``maxshape``: most elements per axis; ``None`` in the tuple, or ``True``: no limit.
            * ``compression``: ``"gzip"``, ``"lzf"``, a level of gzip, the number of a filter, or an
              object of hdf5plugin; ``compression_opts``: its options.
            * ``shuffle``, ``fletcher32``, ``scaleoffset``: other filters.
            * ``fillvalue``: the value of elements that were never written; ``fill_time``:
              ``"ifset"``, ``"alloc"`` or ``"never"``.
            * ``track_order``: whether the dataset keeps the order of its attributes.
            * ``dcpl``: an object of ``h5p.create(h5p.DATASET_CREATE)``.
            * ``track_times``: whether the dataset keeps the time of its last change.
            * ``external``: a file for the elements, or a list of ``(name, offset, size)``. Files are in
              the directory of this file or below, see ``hyperslab.config.external_files``.
            * ``efile_prefix``: the directory of such files. It must be the one in which they are found
              without it.
            * ``dapl``, ``virtual_prefix``, ``rdcc_nbytes``, ``rdcc_nslots``, ``rdcc_w0``: without effect
              on the file.

        Examples
        --------
        >>> import hyperslab as hs, numpy as np
        >>> file = hs.File.in_memory()
        >>> t = file.create_dataset("t", data=np.arange(6.0), chunks=(3,), compression="gzip")
        >>> t[1:3], t.compression, t.compression_opts
        (array([1., 2.]), 'gzip', 4)
        """
        if shape is None and dtype is None and not keywords and not get_config().track_order:
            # Most datasets are small arrays of numbers: one call makes the whole dataset.
            handle = create_plain(self, name, data)
            if handle is not None:
                return self._array(handle)  # type: ignore[no-any-return]
        if not name:
            made = new_dataset(self, "", shape, dtype, data, **keywords)
            vars(made)["_is_anonymous"] = True
            return made
        group, above, last = self._free(name)
        path = group._path_to("/".join([*above, last]))
        made = new_dataset(group, path, shape, dtype, data, **keywords)
        group = self._enter(group, above, True)
        self._editor.link(group._hdf5_address(), last, made._address)
        return made

    def create_array(self: Any, *_: Any, **__: Any) -> Any:
        """Fail: arrays of HDF5 files are made by `create_dataset`."""
        self._editor  # noqa: B018
        raise UnsupportedError(f"group '{self.name}' is in an HDF5 file: use create_dataset")

    create = create_hierarchy = create_array

    def create_dataset_like(self: Any, name: Any, other: Any, **keywords: Any) -> FileArray:
        """Create a dataset with the properties of another one, but without its elements and attributes.

        Keywords are those of `create_dataset`. They take precedence.
        """
        for key in (
            "shape",
            "dtype",
            "chunks",
            "compression",
            "compression_opts",
            "scaleoffset",
            "shuffle",
            "fletcher32",
            "fillvalue",
        ):
            keywords.setdefault(key, getattr(other, key))
        if keywords["compression"] == "unknown":
            known = (1, 2, 3, 4, 6, 32000)
            unknown = [one for one in other.filters if one["id"] not in known]
            keywords["compression"] = unknown[0]["id"]
            keywords["compression_opts"] = unknown[0]["parameters"]
        keywords.setdefault("track_times", other.id.get_create_plist().get_obj_track_times())
        if other.maxshape != other.shape:
            keywords.setdefault("maxshape", other.maxshape)
        made: FileArray = self.create_dataset(name, **keywords)
        return made

    def require_dataset(
        self: Any, name: str, shape: Any, dtype: Any, exact: bool = False, **keywords: Any
    ) -> FileArray:
        """Return the dataset of a name, which is created if there is none.

        Raises
        ------
        TypeError
            If the dataset has another shape (with ``maxshape``: another one), or a type to which
            ``dtype`` cannot be cast safely (with ``exact``: another type).
        """
        from hyperslab._hdf5.array import FileArray

        if name not in self:
            made: FileArray = self.create_dataset(name, shape, dtype, **keywords)
            return made
        found = self[name]
        if not isinstance(found, FileArray):
            raise ArgumentTypeError(f"Incompatible object ({type(found).__name__}) already exists")
        wanted = (shape,) if isinstance(shape, int) else shape if shape is None else tuple(shape)
        if wanted != found.shape:
            if "maxshape" not in keywords:
                raise ArgumentTypeError(f"Shapes do not match (existing {found.shape} vs new {wanted})")
            if keywords["maxshape"] != found.maxshape:
                raise ArgumentTypeError(
                    f"Max shapes do not match (existing {found.maxshape} vs new {keywords['maxshape']})"
                )
        kind = np.dtype(dtype)
        if exact and kind != found.dtype:
            raise ArgumentTypeError(f"Datatypes do not exactly match (existing {found.dtype} vs new {dtype})")
        if not exact and not np.can_cast(kind, found.dtype):
            raise ArgumentTypeError(
                f"Datatypes cannot be safely cast (existing {found.dtype} vs new {dtype})"
            )
        return found

    def create_virtual_dataset(self: Any, name: Any, layout: Any, fillvalue: Any = None) -> FileArray:
        """Create a dataset that is made of parts of other datasets: see `VirtualLayout`."""
        group, above, last = self._free(name)
        path = group._path_to("/".join([*above, last]))
        made: FileArray = layout._make(group, path, fillvalue)
        group = self._enter(group, above, True)
        self._editor.link(group._hdf5_address(), last, made._address)
        return made

    @contextmanager
    def build_virtual_dataset(
        self: Any, name: Any, shape: Any, dtype: Any, maxshape: Any = None, fillvalue: Any = None
    ) -> Iterator[Any]:
        """Create a virtual dataset at the end of a ``with`` block, from the layout that it fills."""
        from hyperslab._hdf5.virtual import VirtualLayout

        layout = VirtualLayout(shape, dtype, maxshape, self.file.filename)
        yield layout
        self.create_virtual_dataset(name, layout, fillvalue)

    # ---- links

    def __setitem__(self: Any, name: Any, value: Any) -> None:
        from hyperslab._hdf5.group import Datatype

        if isinstance(value, (FileNode, Datatype)) or _is_of_h5py(value):
            self._link_object(name, value)
            return
        if not isinstance(value, (SoftLink, ExternalLink, HardLink, np.dtype)):
            self.create_dataset(name, data=value)
            return
        group, above, last = self._free(name)
        editor = self._editor
        if isinstance(value, HardLink):
            raise ArgumentTypeError("a HardLink names no object: assign the object itself")
        group = self._enter(group, above, True)
        at = group._hdf5_address()
        if isinstance(value, SoftLink):
            editor.link_soft(at, last, text_of(value.path))
        elif isinstance(value, ExternalLink):
            editor.link_external(at, last, text_of(value.filename), text_of(value.path))
        else:
            self._commit(name, StoredType(value))

    def _commit(self: Any, name: Any, stored: StoredType) -> None:
        """Give a type a name."""
        group, above, last = self._free(name)
        group = self._enter(group, above, True)
        editor = self._editor
        editor.link(group._hdf5_address(), last, editor.commit(group._path_to(last), stored))

    def _link_object(self: Any, name: Any, value: Any) -> None:
        handle = getattr(value, "_store", None)
        if handle is None or not handle._native.is_same_file(self._store._native):
            raise NameExistsError(
                f"Unable to create link {name!r} (interfile hard links are not allowed): use an "
                "ExternalLink, or copy the object"
            )
        group, above, last = self._free(name)
        group = self._enter(group, above, True)
        self._editor.link(group._hdf5_address(), last, value._address)

    def __delitem__(self: Any, name: Any) -> None:
        editor = self._editor
        path = text_of(name)
        group, names = self._start(path), parts_of(path)
        if not names:
            raise KeyError(f"Couldn't delete link {path!r} (it is a group, not a link)")
        *above, last = names
        try:
            group = self._enter(group, above, False)
        except ArgumentTypeError as error:
            raise KeyError(f"Couldn't delete link {path!r} ({error})") from None
        if group._file_link(last) is None:
            raise KeyError(f"Couldn't delete link {path!r} (there is none)")
        editor.unlink(group._hdf5_address(), last)

    def move(self: Any, source: str | bytes, dest: str | bytes) -> None:
        """Move a link to another name or path. Groups above that are missing are created."""
        if source == dest:
            return
        editor = self._editor
        path = text_of(source)
        names = parts_of(path)
        try:
            group = self._enter(self._start(path), names[:-1], False)
        except (KeyError, ArgumentTypeError) as error:
            raise InvalidArgumentError(f"Unable to move link {path!r} ({error})") from None
        if not names or group._file_link(names[-1]) is None:
            raise InvalidArgumentError(f"Unable to move link {path!r} (name doesn't exist)")
        to, above, last = self._free(dest)
        to = self._enter(to, above, True)
        editor.move_link(group._hdf5_address(), names[-1], to._hdf5_address(), last)

    def copy(  # type: ignore[no-untyped-def]
        self: Any,
        source: Any,
        dest: Any,
        name: str | None = None,
        shallow: bool = False,
        expand_soft: bool = False,
        expand_external: bool = False,
        expand_refs: bool = False,
        without_attrs: bool = False,
        **options: Any,
    ):
        """Copy an object with everything below it, within the file or to another one.

        Parameters
        ----------
        source : str, FileGroup, FileArray or Datatype
            A path, or an object of any file.
        dest : str or FileGroup
            A path, or the group to copy into.
        name : str, optional
            The name in the group ``dest``. Default: the last part of the source's name.
        shallow : bool, default False
            Whether to copy only the members directly below a group. Groups among them stay empty.
        expand_soft, expand_external : bool, default False
            Whether to copy what soft (external) links lead to, instead of the links.
        expand_refs : bool, default False
            Whether to copy objects that references lead to.
        without_attrs : bool, default False
            Whether to leave out attributes.
        **options
            Refused: they are options of `hyperslab.copy`.
        """
        from hyperslab._hdf5.copying import Copying

        if not isinstance(source, FileNode) and not hasattr(source, "_stored_type"):
            path = text_of(source)
            try:
                source = self[path]
            except KeyError:
                raise RuntimeError(
                    f"Unable to synchronously copy object (object {path!r} doesn't exist)"
                ) from None
        if options:
            raise UnsupportedError(f"copy: {', '.join(options)}: only hyperslab.copy has these options")
        if isinstance(dest, GroupWriting):
            into: Any = dest
            target = name if name is not None else source.name.rpartition("/")[2]
        elif isinstance(dest, FileNode):
            raise ArgumentTypeError("Destination must be path or Group object")
        else:
            into, target = self, text_of(dest)
        copying = Copying(into, shallow, expand_soft, expand_external, expand_refs, without_attrs)
        copying.run(source, target)

    def clear(self: Any) -> None:
        """Remove all links of the group."""
        for name in list(self):
            del self[name]

    def update(self: Any, *args: Any, **kwargs: Any) -> None:
        """Assign each value of a mapping, or of pairs, to its name."""
        for name, value in dict(*args, **kwargs).items():
            self[name] = value


def _is_of_h5py(value: Any) -> bool:
    """Return True for an object of h5py itself, which is in another file."""
    return type(value).__module__.startswith("h5py._hl") and hasattr(value, "id")
