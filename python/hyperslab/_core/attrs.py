"""User attributes: a stored dictionary."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from hyperslab import _native

__all__ = ["Attributes", "attributes_text"]


def attributes_text(attributes: Mapping[str, Any] | None) -> str:
    """Return attributes as JSON.

    ``NaN`` and infinities are written as Python writes them. Other software does the same.
    """
    return json.dumps(dict(attributes or {}), allow_nan=True)


class Attributes(MutableMapping[str, Any]):
    """The attributes of an array or a group. Every change is stored at once.

    A change starts from the attributes stored at that moment and touches only its own keys.
    Objects, threads and processes therefore do not undo each other's changes. Changes by others
    show up here after a change, or after ``refresh()`` of the array or group.

    Values are JSON values: dictionaries, lists, strings, numbers, booleans, ``None``. Changing a
    value in place (``attrs["list"].append(1)``) does not store it: assign it.

    Examples
    --------
    >>> import hyperslab as hs
    >>> g = hs.create_group(hs.MemoryStore(), attributes={"title": "ocean"})
    >>> g.attrs["version"] = 2
    >>> g.attrs.asdict()
    {'title': 'ocean', 'version': 2}
    """

    def __init__(self, stored: _native.StoredAttributes) -> None:
        self._stored = stored
        # The version of the attributes, and their values. They are set together.
        self._cached: tuple[int, dict[str, Any]] = (0, {})

    def _dict(self) -> dict[str, Any]:
        # Another object of the same node may have changed the attributes.
        cached = self._cached
        newer = self._stored.newer(cached[0])
        if newer is None:
            return cached[1]
        self._cached = newer
        return newer[1]

    def __getitem__(self, name: str) -> Any:
        value = self._dict()[name]
        return copy.deepcopy(value) if isinstance(value, (dict, list)) else value

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __setitem__(self, name: str, value: Any) -> None:
        self._stored.update(attributes_text({name: value}))

    def __delitem__(self, name: str) -> None:
        if not self._stored.delete(name):
            raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._dict()))

    def __len__(self) -> int:
        return len(self._dict())

    def __contains__(self, name: object) -> bool:
        return name in self._dict()

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add or replace several attributes in one change."""
        self._stored.update(attributes_text(dict(*args, **kwargs)))

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the value of a name. If it has no value, the default is stored first.

        Values that others have set count as well.
        """
        self._stored.update(attributes_text({name: default}), True)
        return self[name]

    def clear(self) -> None:
        """Remove all attributes in one change."""
        self.put({})

    def put(self, attributes: Mapping[str, Any]) -> None:
        """Replace all attributes in one change."""
        self._stored.set(attributes_text(attributes))

    def text(self) -> str:
        """Return all attributes as JSON."""
        return self._stored.text()

    def asdict(self) -> dict[str, Any]:
        """Return all attributes as a new dictionary."""
        return self._stored.asdict()

    def __eq__(self, other: object) -> bool:
        return self.asdict() == (other.asdict() if isinstance(other, Attributes) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Attributes({self._dict()!r})"
