"""Attributes: a dictionary that is stored exactly."""

from __future__ import annotations

import json
import math
from typing import Any

import hyperslab as hs
import pytest
from hypothesis import given
from hypothesis import strategies as st

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=10,
)
documents = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), json_values, max_size=5)


def node(kind: str, zarr_format: Any) -> hs.Array | hs.Group:
    if kind == "array":
        return hs.create_array(hs.MemoryStore(), shape=(2,), dtype="u1", zarr_format=zarr_format)
    return hs.create_group(hs.MemoryStore(), zarr_format=zarr_format)


@given(attributes=documents, kind=st.sampled_from(["array", "group"]), zarr_format=st.sampled_from([2, 3]))
def test_anything_round_trips(attributes: dict[str, Any], kind: str, zarr_format: int) -> None:
    n = node(kind, zarr_format)
    n.attrs.put(attributes)
    text = json.dumps(attributes)
    assert json.dumps(n.attrs.asdict()) == text
    assert json.dumps(hs.open(n.store, mode="r").attrs.asdict()) == text
    assert list(n.attrs) == list(attributes) and len(n.attrs) == len(attributes)


@pytest.mark.parametrize("kind", ["array", "group"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_dictionary_that_is_stored(kind: str, zarr_format: int) -> None:
    n = node(kind, zarr_format)
    stored = lambda: hs.open(n.store, mode="r").attrs.asdict()  # noqa: E731
    n.attrs["a"] = 1
    n.attrs.update({"b": [1]}, c={"d": None})
    assert stored() == {"a": 1, "b": [1], "c": {"d": None}} == n.attrs.asdict() == dict(n.attrs)
    assert n.attrs == stored() and "a" in n.attrs and "x" not in n.attrs
    del n.attrs["a"]
    assert n.attrs.pop("b") == [1] and n.attrs.setdefault("e", 5) == 5
    assert stored() == {"c": {"d": None}, "e": 5}
    for missing in (lambda: n.attrs["x"], lambda: n.attrs.__delitem__("x")):
        with pytest.raises(KeyError):
            missing()
    assert n.update_attributes({"f": 6}).attrs["f"] == 6
    n.attrs = {"only": True}
    assert stored() == {"only": True}
    n.attrs.clear()
    assert stored() == {} and repr(n.attrs) == "Attributes({})"


def test_values_in_place_are_not_shared() -> None:
    g = hs.create_group(hs.MemoryStore(), attributes={"list": [1]})
    g.attrs["list"].append(2)
    g.attrs.asdict()["list"].append(3)
    assert g.attrs["list"] == [1]


def test_infinities() -> None:
    g = hs.create_group(
        hs.MemoryStore(), attributes={"nan": math.nan, "inf": [math.inf, -math.inf], "zero": -0.0}
    )
    found = hs.open_group(g.store).attrs.asdict()
    assert (
        math.isnan(found["nan"])
        and found["inf"] == [math.inf, -math.inf]
        and math.copysign(1, found["zero"]) == -1
    )


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, b"x"])
def test_values_that_json_does_not_have(value: Any) -> None:
    g = hs.create_group(hs.MemoryStore(), attributes={"a": 1})
    with pytest.raises(TypeError):
        g.attrs["b"] = value
    with pytest.raises(TypeError):
        hs.create_group(hs.MemoryStore(), attributes={"b": value})
    assert g.attrs.asdict() == {"a": 1}


def test_a_text_that_is_none() -> None:
    g = hs.create_group(hs.MemoryStore())
    with pytest.raises(ValueError, match="surrogate"):
        g.attrs["a"] = "\ud800"
    assert g.attrs.asdict() == {}


def test_changes_of_one_attribute_leave_the_others_as_they_were_written() -> None:
    store = hs.MemoryStore()
    g = hs.create_group(store, zarr_format=2)
    store.set(".zattrs", b'{"one": 1.0, "big": 123456789012345678901234567890, "exp": 1E5}')
    g = hs.open_group(store)
    g.attrs["new"] = 1
    text = (store.get(".zattrs") or b"").decode()
    assert "1E5" in text and "123456789012345678901234567890" in text and "1.0" in text
    del g.attrs["one"]
    assert "1E5" in (store.get(".zattrs") or b"").decode()
