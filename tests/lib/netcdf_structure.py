"""The structure of an HDF5 file, for comparison of writers of NetCDF-4.

`structure` describes each object of a file, in the order in which they were made: its attributes with
their stored types and shapes, types of elements, shapes and their limits, fill values, filters.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5t

Described = dict[str, dict[str, Any]]


def _type(one: Any) -> str:
    kind = one.get_class()
    if kind == h5t.STRING:
        size = "vlen" if one.is_variable_str() else one.get_size()
        return f"text {size} charset {one.get_cset()} padding {one.get_strpad()}"
    if kind == h5t.VLEN:
        return f"vlen of {_type(one.get_super())}"
    if kind == h5t.COMPOUND:
        members = [
            f"{one.get_member_name(i).decode()} at {one.get_member_offset(i)}: "
            f"{_type(one.get_member_type(i))}"
            for i in range(one.get_nmembers())
        ]
        return f"compound of {one.get_size()} ({', '.join(members)})"
    if kind == h5t.ENUM:
        names = [one.get_member_name(i).decode() for i in range(one.get_nmembers())]
        values = [one.get_member_value(i) for i in range(one.get_nmembers())]
        return f"enum of {_type(one.get_super())} {dict(zip(names, values, strict=True))}"
    if kind == h5t.INTEGER:
        sign = "int" if one.get_sign() else "uint"
        return f"{sign}{8 * one.get_size()} order {one.get_order()}"
    if kind == h5t.FLOAT:
        return f"float{8 * one.get_size()} order {one.get_order()}"
    if kind == h5t.OPAQUE:
        return f"opaque of {one.get_size()}"
    return type(one).__name__


def _value(file: h5py.File, name: str, value: Any) -> Any:
    if name == "DIMENSION_LIST":
        return [[file[reference].name for reference in axis] for axis in value]
    if name == "REFERENCE_LIST":
        return sorted((file[row[0]].name, int(row[1])) for row in value)
    if isinstance(value, h5py.Empty):
        return "empty"
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def _attributes(file: h5py.File, node: Any) -> dict[str, Any]:
    found = {}
    for number in range(h5a.get_num_attrs(node.id)):
        one = h5a.open(node.id, index=number, index_type=h5py.h5.INDEX_CRT_ORDER)
        name = one.name.decode()
        space = one.get_space()
        kinds = {h5py.h5s.SCALAR: "scalar", h5py.h5s.NULL: "null"}
        extent = kinds.get(space.get_simple_extent_type()) or str(space.get_simple_extent_dims())
        found[name] = (_type(one.get_type()), extent, _value(file, name, node.attrs[name]))
    return found


def structure(path: Any) -> Described:
    """Return what each object of a file is, by path, in the order in which they were made."""
    found: Described = {}
    with h5py.File(path, "r") as file:

        def visit(node: Any) -> None:
            one: dict[str, Any] = {"attributes": _attributes(file, node)}
            found[node.name] = one
            if isinstance(node, h5py.Group):
                properties = node.id.get_create_plist()
                one["kind"] = "group"
                one["orders"] = (
                    properties.get_link_creation_order(),
                    properties.get_attr_creation_order(),
                )
                names: list[str] = []
                node.id.links.iterate(
                    lambda name: names.append(name.decode()), idx_type=h5py.h5.INDEX_CRT_ORDER
                )
                for name in names:
                    visit(node[name])
            elif isinstance(node, h5py.Dataset):
                properties = node.id.get_create_plist()
                one["kind"] = "dataset"
                one["type"] = _type(node.id.get_type())
                one["shape"], one["limits"] = node.shape, node.maxshape
                one["chunks"] = node.chunks
                one["filters"] = [
                    properties.get_filter(number)[0] for number in range(properties.get_nfilters())
                ]
                one["fill time"] = properties.get_fill_time()
                one["order"] = properties.get_attr_creation_order()
                if node.dtype.kind != "O":
                    fill = np.zeros((), node.dtype)
                    properties.get_fill_value(fill)
                    one["fill"] = fill.tolist()
            else:
                one["kind"], one["type"] = "type", _type(node.id)

        visit(file["/"])
    return found


def differences(ours: Described, theirs: Described, allowed: Any = ()) -> list[str]:
    """Return what two descriptions say differently. ``allowed``: keys, and names of attributes, to skip."""
    found = []
    if list(ours) != list(theirs):
        found.append(f"objects: {list(ours)} instead of {list(theirs)}")
    for path in [path for path in theirs if path in ours]:
        mine, other = ours[path], theirs[path]
        for key in other:
            if key == "attributes" or key in allowed:
                continue
            if mine.get(key) != other[key]:
                found.append(f"{path} {key}: {mine.get(key)} instead of {other[key]}")
        names = [[name for name in one["attributes"] if name not in allowed] for one in (mine, other)]
        if names[0] != names[1]:
            found.append(f"{path} attributes: {names[0]} instead of {names[1]}")
        for name in set(names[0]) & set(names[1]):
            if mine["attributes"][name] != other["attributes"][name]:
                found.append(
                    f"{path} @{name}: {mine['attributes'][name]} instead of {other['attributes'][name]}"
                )
    return found
