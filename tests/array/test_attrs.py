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


# Numbers, names and texts as other software may write them.
STORED = r"""{"zero": -0, "zeros": [-0.0, 0, 0e0, 1E5, 1e-400, 1e400, -1E+400, 0.1, 1.7976931348623157e308],
"tokens": [NaN, Infinity, -Infinity], "twice": 1, "text": "\ud83d\ude00 \u00e9\u0000é",
"int": [9223372036854775807, 9223372036854775808, -9223372036854775809, 123456789012345678901234567890],
"": {"": [[], {}, null, true, false]}, "rows": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}],
"twice": {"b": 2, "c": 3, "b": 4}}"""


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_stored_values_are_read_as_by_json(zarr_format: int) -> None:
    store = hs.MemoryStore()
    hs.create_group(store, zarr_format=zarr_format)  # type: ignore[arg-type]
    document = f'{{"zarr_format": 3, "node_type": "group", "attributes": {STORED}}}'
    key, text = (".zattrs", STORED) if zarr_format == 2 else ("zarr.json", document)
    store.set(key, text.encode())
    found, wanted = hs.open_group(store, mode="r").attrs.asdict(), json.loads(STORED)
    # The text distinguishes integers from floats, and the signs of zeros. It shows the order of names.
    assert json.dumps(found) == json.dumps(wanted)
    assert found["rows"] == wanted["rows"] and type(found["int"][3]) is int


def test_integers_are_as_long_as_python_allows() -> None:
    store = hs.MemoryStore()
    hs.create_group(store, zarr_format=2)
    text = '{"long": ' + "1" * 5000 + "}"
    store.set(".zattrs", text.encode())
    attrs = hs.open_group(store, mode="r").attrs
    with pytest.raises(ValueError) as wanted:
        json.loads(text)
    for read in (attrs.asdict, lambda: attrs["long"]):
        with pytest.raises(ValueError) as found:
            read()
        assert str(found.value) == str(wanted.value)


def test_attributes_are_made_once_until_they_change() -> None:
    store = hs.MemoryStore()
    g = hs.create_group(store, attributes={"a": [1]})
    other = hs.open_group(store)
    seen = g.attrs._dict()
    assert g.attrs["a"] == [1] and len(g.attrs) == 1 and "a" in g.attrs and g.attrs._dict() is seen
    g.attrs["b"] = 2
    changed = g.attrs._dict()
    assert changed is not seen and changed == {"a": [1], "b": 2} and g.attrs._dict() is changed
    other.attrs["c"] = 3
    assert g.attrs._dict() is changed
    g.refresh()
    assert g.attrs.asdict() == {"a": [1], "b": 2, "c": 3}


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
