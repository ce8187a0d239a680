"""HDF5 files on a distant server: the values, and how many requests follow one another."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server

h5py = pytest.importorskip("h5py")

# Seconds. Long enough that independent requests overlap even on a busy machine.
LATENCY = 0.15
COUNT = 30
SIDE = 128

# How the files are written. Data follows each variable, so that metadata is spread over the file.
KINDS: dict[str, dict[str, Any]] = {
    "old": {"libver": "earliest"},
    "v108": {"libver": ("earliest", "v108")},
    "late": {"libver": "latest"},
    "tracked": {"libver": "latest", "track_order": True},
    "paged": {"libver": "latest", "fs_strategy": "page", "fs_page_size": 1 << 18},
    "old-paged": {"fs_strategy": "page", "fs_page_size": 1 << 18},
}

# Maximum rounds for: all attributes and then a plane of one variable; only that plane; the names of
# all dimensions. Each is one more than was counted, for busy machines. One request after the other,
# the first took 13 to 40 rounds, and 4 to 6 if metadata has pages of its own.
ROUNDS = {
    "old": (5, 6, 4),
    "v108": (5, 6, 4),
    "late": (6, 7, 5),
    "tracked": (6, 7, 5),
    "paged": (4, 3, 3),
    "old-paged": (4, 3, 3),
}


def write(path: Path, groups: int = 0, **how: Any) -> None:
    """Writes chunked variables with attributes and dimension scales.

    Every third variable has more attributes.
    """
    planes = 4
    with h5py.File(path, "w", **how) as file:
        for name, size in (("t", planes), ("y", SIDE), ("x", SIDE)):
            file.create_dataset(name, data=np.arange(size, dtype="f8")).make_scale(name)
        for n in range(COUNT):
            group = file.require_group(f"g{n % groups}") if groups else file
            values = np.arange(planes * SIDE * SIDE, dtype="f4").reshape(planes, SIDE, SIDE) + n
            variable = group.create_dataset(
                f"v{n:02}", data=values, chunks=(1, SIDE, SIDE), maxshape=(None, SIDE, SIDE)
            )
            variable.attrs["unit"], variable.attrs["range"] = f"K{n}", [n, n + 1]
            for more in range(12 if n % 3 == 0 else 0):
                variable.attrs[f"more{more}"] = "text" * more
            for axis, name in enumerate("tyx"):
                variable.dims[axis].attach_scale(file[name])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for kind, how in KINDS.items():
        write(folder / f"{kind}.h5", **how)
    write(folder / "groups.h5", groups=10)
    write(folder / "groups-late.h5", groups=10, libver="latest")
    (folder / "no ending").write_bytes((folder / "old.h5").read_bytes())
    (folder / "text").write_bytes(b"no file of HDF5")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with Server() as server:
        server.control(serve={"files": str(folder)})
        yield server


def asked(server: Server, work: Callable[[], Any]) -> tuple[int, Any]:
    """Returns the number of rounds, and the result of the work."""
    server.control(latency=LATENCY)
    server.reset()
    made = work()
    rounds = server.rounds()
    server.control(latency=0)
    return rounds, made


def plain(attributes: Any) -> dict[str, Any]:
    """Returns the attributes that `write` has written."""
    names = ("unit", "range", *(f"more{n}" for n in range(12)))
    return {name: np.asarray(attributes[name]).tolist() for name in names if name in attributes}


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_of_many_variables(server: Server, folder: Path, kind: str) -> None:
    url, options = f"s3://files/{kind}.h5", server.s3_options
    most = ROUNDS[kind]
    with h5py.File(folder / f"{kind}.h5") as file:
        attributes = {name: plain(each.attrs) for name, each in file.items()}
        plane = file["v17"][2]

    def opened() -> Any:
        return hs.open_group(url, mode="r", storage_options=options)

    def all_attributes_and_a_plane() -> tuple[dict[str, Any], Any]:
        found = opened()
        return {name: plain(array.attrs) for name, array in found.arrays()}, found["v17"][2]

    rounds, found = asked(server, all_attributes_and_a_plane)
    assert found[0] == attributes and np.array_equal(found[1], plane)
    assert rounds <= most[0], server.requests()

    rounds, found = asked(server, lambda: opened()["v17"][2])
    assert np.array_equal(found, plane)
    assert rounds <= most[1], server.requests()

    def dimensions() -> list[Any]:
        return [array.dimension_names for name, array in opened().arrays() if name.startswith("v")]

    rounds, found = asked(server, dimensions)
    assert found == [("t", "y", "x")] * COUNT
    assert rounds <= most[2], server.requests()


@pytest.mark.parametrize("kind", ["groups", "groups-late"])
def test_hierarchies_take_rounds_for_levels(server: Server, folder: Path, kind: str) -> None:
    url, options = f"s3://files/{kind}.h5", server.s3_options
    expected: dict[str, Any] = {}
    with h5py.File(folder / f"{kind}.h5") as file:
        file.visititems(lambda name, node: expected.update({name: plain(node.attrs)}))

    def walk() -> dict[str, Any]:
        found = hs.open_group(url, mode="r", storage_options=options)
        return {name: plain(node.attrs) for name, node in found.members(max_depth=None)}

    rounds, found = asked(server, walk)
    assert found == expected and len(found) == 3 + 10 + COUNT
    # One request after the other, there were more than 40 rounds.
    assert rounds <= 9, server.requests()


@pytest.mark.parametrize(
    ("libver", "maxshape"), [("earliest", None), ("latest", None), ("latest", 4000 * 1024)]
)
def test_chunk_indexes_come_level_by_level(
    server: Server, tmp_path: Path, libver: str, maxshape: int | None
) -> None:
    """One round reads all nodes of a tree level, or all blocks of an array.

    There are 4000 chunks.
    """
    size, chunk = 4000 * 1024, 1024
    values = np.arange(size, dtype="i4")
    with h5py.File(tmp_path / "x.h5", "w", libver=libver) as file:
        file.create_dataset("a", data=values, chunks=(chunk,), maxshape=(maxshape,))
    server.put("bucket", "x.h5", (tmp_path / "x.h5").read_bytes())
    options, some = server.s3_options, slice(5, size, 400_000)
    rounds, found = asked(
        server, lambda: hs.open_array("s3://bucket/x.h5/a", mode="r", storage_options=options)[some]
    )
    assert np.array_equal(found, values[some])
    # Open, two or three levels, data.
    assert rounds <= 6, server.requests()


def test_files_whose_names_end_in_any_way(server: Server) -> None:
    options = server.s3_options
    rounds, file = asked(server, lambda: hs.open("s3://files/no ending", mode="r", storage_options=options))
    # The documents that a Zarr node could have, and the object.
    assert rounds <= 3
    assert file["v03"].attrs["unit"] == "K3" and file.store.url == "s3://files/no ending"
    with hs.config.set(pickle_credentials=True):
        copy = pickle.loads(pickle.dumps(file["v03"]))
    assert copy[2, 3, 4] == file["v03"][2, 3, 4] == 2 * SIDE * SIDE + 3 * SIDE + 4 + 3
    for name in ("text", "nothing"):
        with pytest.raises(hs.errors.NodeNotFoundError):
            hs.open(f"s3://files/{name}", mode="r", storage_options=options)


@pytest.mark.parametrize(
    "how", [{}, {"compression": "gzip", "compression_opts": 1}, {"dtype": ">i4"}, {"shuffle": True}]
)
@pytest.mark.parametrize("width", [10_000, 300_000])
def test_many_chunks_come_together(server: Server, tmp_path: Path, width: int, how: dict[str, Any]) -> None:
    """Small and large chunks, read whole or in part."""
    values = np.arange(20 * width, dtype="i4").reshape(20, width) * 7
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=(1, width), **{"dtype": "i4", **how})
    server.put("bucket", "x.h5", (tmp_path / "x.h5").read_bytes())
    array = hs.open_array("s3://bucket/x.h5/a", mode="r", storage_options=server.s3_options)
    # Read the index.
    assert array[0, 0] == 0
    size = (tmp_path / "x.h5").stat().st_size
    selections: list[Any] = [np.s_[:, 77], np.s_[::3, 5:5000:9], np.s_[::-1]]
    for selection in selections:
        rounds, found = asked(server, partial(array.__getitem__, selection))
        assert np.array_equal(found, values[selection])
        # The first request may be alone, because it opens the connection.
        assert rounds <= 2, server.requests()
        assert sum(each["sent"] for each in server.log()) <= size + 1000
