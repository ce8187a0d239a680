"""Objects that `hyperslab.h5.register` makes instances of h5py's classes to `isinstance`."""

from __future__ import annotations

from typing import Any, ClassVar, Self

__all__ = ["Kin"]


class Kin:
    """`isinstance` asks an object for its ``__class__`` where its type is not the one in question. After
    `hyperslab.h5.register` that is the class of h5py that it stands for.
    """

    _kin: ClassVar[type | None] = None

    def _as_kin(self) -> Self:
        """Itself, which tells h5netcdf that it is of h5py: by the module of its class."""
        if type(self)._kin is not None:
            self.__dict__["__module__"] = type(self)._kin.__module__
        return self

    # Apart from classes whose methods use `super()`: the compiler gives the name a meaning there.
    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self)._kin or type(self)
