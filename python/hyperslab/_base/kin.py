"""Makes objects instances of h5py's classes for `isinstance`, after `hyperslab.h5.register`."""

from __future__ import annotations

from typing import Any, ClassVar, Self

__all__ = ["Kin"]


class Kin:
    """An object that `isinstance` takes for one of h5py.

    If the type does not match, `isinstance` checks the object's ``__class__``. After
    `hyperslab.h5.register`, this is the corresponding class of h5py.
    """

    _kin: ClassVar[type | None] = None

    def _as_kin(self) -> Self:
        """Return the object, marked as h5py's by ``__module__``, which h5netcdf checks."""
        if type(self)._kin is not None:
            self.__dict__["__module__"] = type(self)._kin.__module__
        return self

    # In a class of its own: in classes whose methods use `super()`, the compiler treats the name
    # `__class__` specially.
    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self)._kin or type(self)
