"""Which requests opening, creating and changing nodes send to a server. Exact counts.

A store's handle remembers which format the root has. A call is *told* the format by `zarr_format`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal

import hyperslab as hs
import numpy as np
import pytest
from hyperslab.storage import RemoteStore
from object_server_client import Server

URL = "s3://bucket/g.zarr"
Format = Literal[2, 3]
Kind = Literal["array", "group"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def made(server: Server, zarr_format: Format) -> None:
    """Make a group with an array ``a`` and a group ``g``."""
    server.clear()
    root = hs.create_group(URL, zarr_format=zarr_format, storage_options=server.s3_options)
    root.create_array("a", shape=(0,), dtype="i4", chunks=(4,))
    root.create_group("g")


def sent(server: Server, work: Callable[[], Any]) -> str:
    """The requests of some work, as ``GET 2 LIST 1 PUT 1``."""
    server.reset()
    work()
    # A listing asks for no key.
    methods = Counter("LIST" if not key else method for method, key in server.requests())
    return " ".join(f"{method} {methods[method]}" for method in sorted(methods))


def opener(kind: Kind) -> tuple[Callable[..., Any], str]:
    return (hs.open_array, "a") if kind == "array" else (hs.open_group, "g")


OPENED = {
    # Documents of both formats at once: zarr.json, .zarray, .zgroup, .zattrs, .zmetadata.
    ("unknown", "array", 2): "GET 5",
    ("unknown", "array", 3): "GET 5",
    ("unknown", "group", 2): "GET 5",
    ("unknown", "group", 3): "GET 5",
    ("told", "array", 2): "GET 2",
    ("told", "array", 3): "GET 1",
    # A group may have consolidated metadata, which is an object of its own.
    ("told", "group", 2): "GET 3",
    ("told", "group", 3): "GET 1",
    ("remembered", "array", 2): "GET 2",
    ("remembered", "array", 3): "GET 1",
    ("remembered", "group", 2): "GET 3",
    ("remembered", "group", 3): "GET 1",
}


@pytest.mark.parametrize(("known", "kind", "zarr_format"), OPENED)
def test_open(server: Server, known: str, kind: Kind, zarr_format: Format) -> None:
    made(server, zarr_format)
    function, name = opener(kind)
    store = RemoteStore(URL, storage_options=server.s3_options)
    told: Any = {"zarr_format": zarr_format} if known == "told" else {}
    if known == "remembered":
        hs.open_group(store, mode="r")
    assert (
        sent(server, lambda: function(store, path=name, mode="r", **told)) == OPENED[known, kind, zarr_format]
    )
    rounds, _, _ = server.asked(lambda: function(store, path=name, mode="r", **told), 1)
    assert rounds == 1


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_members(server: Server, zarr_format: Format) -> None:
    """A group's members have its format. Whether they are arrays or groups is not known."""
    made(server, zarr_format)
    root = hs.open_group(URL, mode="r", storage_options=server.s3_options)
    assert sent(server, lambda: root["a"]) == ("GET 4" if zarr_format == 2 else "GET 1")
    store = RemoteStore(URL, storage_options=server.s3_options)
    hs.open_group(store, mode="r")
    assert sent(server, lambda: hs.open(store, path="a", mode="r")) == (
        "GET 4" if zarr_format == 2 else "GET 1"
    )


CREATED = {
    # A listing tells whether the place is empty, then conditional requests create the objects.
    ("told", "array", 2): ("LIST 1 PUT 1", "LIST 1 PUT 2"),
    ("told", "array", 3): ("LIST 1 PUT 1", "LIST 1 PUT 2"),
    ("told", "group", 2): ("LIST 1 PUT 1", None),
    ("told", "group", 3): ("LIST 1 PUT 1", None),
    # The group above must exist.
    ("remembered", "array", 2): ("GET 2 LIST 1 PUT 1", "GET 2 LIST 1 PUT 2"),
    ("remembered", "array", 3): ("GET 1 LIST 1 PUT 1", "GET 1 LIST 1 PUT 2"),
    ("remembered", "group", 2): ("GET 2 LIST 1 PUT 1", None),
    ("remembered", "group", 3): ("GET 1 LIST 1 PUT 1", None),
    # Nothing is known of the group above: it may have either format, or be missing.
    ("unknown", "array", 2): ("GET 4 LIST 1 PUT 1", "GET 4 LIST 1 PUT 2"),
    ("unknown", "array", 3): ("GET 4 LIST 1 PUT 1", "GET 4 LIST 1 PUT 2"),
    ("unknown", "group", 2): ("GET 4 LIST 1 PUT 1", None),
    ("unknown", "group", 3): ("GET 4 LIST 1 PUT 1", None),
}


@pytest.mark.parametrize(("known", "kind", "zarr_format"), CREATED)
def test_create(server: Server, known: str, kind: Kind, zarr_format: Format) -> None:
    """`told`: at the root of a store. Otherwise in a group."""
    made(server, zarr_format)
    options = server.s3_options
    store = RemoteStore(URL, storage_options=options)
    if known == "remembered":
        hs.open_group(store, mode="r")
    how: Any = {"zarr_format": zarr_format}

    def create(name: str, **more: Any) -> None:
        if known == "told":
            place: Any = RemoteStore(f"s3://bucket/{name}.zarr", storage_options=options)
            where: Any = {}
        else:
            place, where = store, {"name" if kind == "array" else "path": name}
        if known == "unknown":
            place = RemoteStore(URL, storage_options=options)
        (hs.create_array if kind == "array" else hs.create_group)(place, **where, **how, **more)

    shape: Any = {"shape": (4,), "dtype": "i4"} if kind == "array" else {}
    only, written = CREATED[known, kind, zarr_format]
    assert sent(server, lambda: create("new", **shape)) == only
    if written is not None:
        assert sent(server, lambda: create("full", data=np.arange(4))) == written


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_create_in_a_group(server: Server, zarr_format: Format) -> None:
    made(server, zarr_format)
    root = hs.open_group(URL, mode="r+", storage_options=server.s3_options)
    group = "GET 2" if zarr_format == 2 else "GET 1"
    assert sent(server, lambda: root.create_array("n", data=np.arange(4))) == f"{group} LIST 1 PUT 2"
    assert sent(server, lambda: root.create_group("h")) == f"{group} LIST 1 PUT 1"


CHANGED = {
    # Documents, then the document that reserves the rows, and the chunk.
    ("append", "array", 2): "GET 2 PUT 2",
    ("append", "array", 3): "GET 1 PUT 2",
    ("attrs", "array", 2): "GET 2 PUT 1",
    ("attrs", "array", 3): "GET 1 PUT 1",
    # Consolidated metadata, before and after.
    ("attrs", "group", 2): "GET 4 PUT 1",
    ("attrs", "group", 3): "GET 1 PUT 1",
}


@pytest.mark.parametrize(("what", "kind", "zarr_format"), CHANGED)
def test_change(server: Server, what: str, kind: Kind, zarr_format: Format) -> None:
    made(server, zarr_format)
    function, name = opener(kind)
    node = function(f"{URL}/{name}", mode="r+", storage_options=server.s3_options)

    def change() -> None:
        if what == "append":
            node.append(np.arange(4))
        else:
            node.attrs["k"] = 1

    assert sent(server, change) == CHANGED[what, kind, zarr_format]


def test_what_is_remembered_may_be_wrong(server: Server) -> None:
    """Other clients replace the hierarchy by one of the other format."""
    formats: list[tuple[Format, Format]] = [(2, 3), (3, 2)]
    for before, after in formats:
        made(server, before)
        store = RemoteStore(URL, storage_options=server.s3_options)
        assert hs.open_group(store, mode="r").zarr_format == before
        made(server, after)
        hs.create_group(f"{URL}/g", overwrite=True, zarr_format=after, storage_options=server.s3_options)
        array = hs.open_array(store, path="a", mode="r+")
        assert array.metadata.zarr_format == after
        group = hs.open_group(store, path="g", mode="r+")
        assert group.zarr_format == after
        root = hs.open_group(store, mode="r+")
        assert root.zarr_format == after and sorted(root) == ["a", "g"]
        # Now the handle remembers the new format.
        assert sent(server, lambda store=store: hs.open_array(store, path="a", mode="r")) == (
            "GET 2" if after == 2 else "GET 1"
        )
        with pytest.raises(hs.errors.ArrayNotFoundError):
            hs.open_array(store, path="none", mode="r")
        with pytest.raises(hs.errors.NodeTypeValidationError):
            hs.open_array(store, path="g", mode="r")
        with pytest.raises(hs.errors.ContainsArrayError):
            hs.open_group(store, path="a", mode="r")


def test_a_root_that_was_converted_is_v3(server: Server) -> None:
    """Some software stores documents of v3 beside documents of v2."""
    made(server, 2)
    store = RemoteStore(URL, storage_options=server.s3_options)
    assert hs.open_group(store, mode="r").zarr_format == 2
    document = b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'
    server.put("bucket", "g.zarr/zarr.json", document)
    assert hs.open_group(store, mode="r").zarr_format == 3


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_nothing_is_created_below_what_the_root_has_become(server: Server, zarr_format: Format) -> None:
    options = server.s3_options
    made(server, zarr_format)
    store = RemoteStore(URL, storage_options=options)
    root = hs.open_group(store, mode="r+")
    hs.create_array(
        URL, shape=(4,), dtype="i4", zarr_format=zarr_format, overwrite=True, storage_options=options
    )
    with pytest.raises(hs.errors.ContainsArrayError):
        root.create_array("n", shape=(4,), dtype="i4")
    assert not server.list("bucket", "g.zarr/n/")
    # A root that was deleted is made again.
    server.clear()
    root.create_array("n", shape=(4,), dtype="i4")
    document = "zarr.json" if zarr_format == 3 else ".zgroup"
    assert f"g.zarr/{document}" in server.list("bucket", "g.zarr/")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_nothing_is_overwritten(server: Server, zarr_format: Format) -> None:
    """Nodes of both formats are seen, also among more objects than one listing tells."""
    options = server.s3_options
    for there in (2, 3):
        made(server, there)  # type: ignore[arg-type]
        for chunk in range(1001):
            server.put("bucket", f"g.zarr/a/{chunk}", b"x")
        for name in ("a", "g"):
            place = f"{URL}/{name}"
            for create in (
                lambda place=place: hs.create_array(
                    place, shape=(4,), dtype="i4", zarr_format=zarr_format, storage_options=options
                ),
                lambda place=place: hs.create_group(place, zarr_format=zarr_format, storage_options=options),
            ):
                with pytest.raises((hs.errors.ContainsArrayError, hs.errors.ContainsGroupError)):
                    create()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_many_leftovers_go(server: Server, zarr_format: Format) -> None:
    """More leftovers than one listing tells are not read as chunks either."""
    server.clear()
    prefix = "x.zarr/c/" if zarr_format == 3 else "x.zarr/"
    for chunk in range(1001):
        server.put("bucket", f"{prefix}{chunk}", b"left")
    array = hs.create_array(
        "s3://bucket/x.zarr",
        shape=(2000,),
        chunks=(1,),
        dtype="i4",
        compressors=None,
        zarr_format=zarr_format,
        storage_options=server.s3_options,
    )
    assert array[:].sum() == 0
    assert len(server.list("bucket", "x.zarr/")) == 1
