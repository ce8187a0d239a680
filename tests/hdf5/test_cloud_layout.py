"""HDF5 files for readers far away: all metadata in front, in pages, beside h5py."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server
from servers import INSTALLED

h5py = pytest.importorskip("h5py")

# Names of the strategies by HDF5's numbers.
STRATEGIES = ("fsm", "page", "aggregate", "none")


def strategy_of(file: Any) -> tuple[str, int, int]:
    """Returns strategy, threshold and size of pages, as h5py tells them."""
    made = file.id.get_create_plist()
    strategy, persists, threshold = made.get_file_space_strategy()
    assert not persists
    return STRATEGIES[strategy], threshold, made.get_file_space_page_size()


def write(file: Any) -> None:
    """Writes many objects of all kinds of structures."""
    rng = np.random.default_rng(3)
    for number in range(60):
        group = file.require_group(f"g{number % 7}/deep")
        array = group.create_dataset(
            f"v{number}",
            data=rng.integers(0, 99, (200, 30)),
            chunks=(3, 5),
            compression="gzip",
            maxshape=(None, 30),
        )
        for name in range(number % 15):
            array.attrs[f"attribute {name}"] = "text" * name
    file["names"] = ["Rhône", "Rhein", "x" * 5000]
    file.create_dataset("many", data=np.arange(50_000), chunks=(10,))
    file["plain"] = np.arange(1000.0)
    file["empty"] = hs.Empty("f4") if isinstance(file, hs.File) else h5py.Empty("f4")
    file["link"] = (hs.h5 if isinstance(file, hs.File) else h5py).SoftLink("/plain")
    file.attrs["to"] = file["plain"].ref


def contents(file: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def visit(name: str, node: Any) -> None:
        found[name + "@"] = {key: str(value) for key, value in node.attrs.items()}
        if hasattr(node, "shape") and node.shape is not None:
            found[name] = node[()].tolist()

    file.visititems(visit)
    found["to"] = file[file.attrs["to"]].name
    found["link"] = file["link"][3]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for libver in ("earliest", "latest"):
        with h5py.File(folder / f"{libver}.h5", "w", libver=libver) as file:
            write(file)
    return folder


@pytest.mark.parametrize(
    "size, userblock", [(None, 0), (None, 512), (512, 0), (4096, 512), (1 << 16, 0), (1 << 20, 0)]
)
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_pages(tmp_path: Path, size: int | None, libver: str, userblock: int) -> None:
    path = tmp_path / "a.h5"
    how = {} if size is None else {"fs_page_size": size}
    with hs.File(path, "w", fs_strategy="page", libver=libver, userblock_size=userblock, **how) as file:
        write(file)
        file.flush()
        # Until it is closed, it is a file without pages.
        with h5py.File(path) as seen:
            assert strategy_of(seen)[0] == "fsm"
    with hs.File(path) as file:
        expected = contents(file)
    with h5py.File(path) as file:
        strategy, _, page = strategy_of(file)
        # A page has room for the index of each dataset.
        assert strategy == "page" and (page == (size or 4096) or page <= 1 << 17)
        assert contents(file) == expected
    for pages in (1, 4, 1000):
        with h5py.File(path, page_buf_size=pages * page) as file:
            assert contents(file) == expected
    # No metadata is behind the first chunk.
    with h5py.File(path) as file:
        firsts = [file[f"g{n % 7}/deep/v{n}"].id.get_chunk_info(0).byte_offset for n in range(60)]
        headers = [h5py.h5o.get_info(file[f"g{n % 7}/deep/v{n}"].id).addr for n in range(60)]
        assert max(headers) < min(firsts) - userblock
        many = file["many"].id
        offsets = [many.get_chunk_info(n).byte_offset for n in range(many.get_num_chunks())]
        assert offsets == sorted(offsets)


def test_h5py_changes_a_file_with_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with hs.File(path, "w", fs_strategy="page", fs_page_size=1 << 16) as file:
        write(file)
    with h5py.File(path, "r+", page_buf_size=1 << 20) as file:
        del file["g1"]
        file["more"] = np.arange(20_000)
        file["g0/deep/v0"].resize(300, axis=0)
        file["g0/deep/v0"][250:] = 5
        file["many"][:5] = 7
    with h5py.File(path, page_buf_size=1 << 16) as file:
        expected = contents(file)
        assert file["more"][19_999] == 19_999 and (file["g0/deep/v0"][250:] == 5).all()
    with hs.File(path) as file:
        assert contents(file) == expected
    report = hs.compact(path)
    assert report.after < report.before
    with h5py.File(path, page_buf_size=1 << 16) as file:
        assert strategy_of(file) == ("page", 1, 1 << 16) and contents(file) == expected


@pytest.mark.parametrize("writer", [h5py, hs])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_a_file_with_pages_is_changed(tmp_path: Path, libver: str, writer: Any) -> None:
    path = tmp_path / "a.h5"
    with writer.File(path, "w", fs_strategy="page", fs_page_size=8192, libver=libver) as file:
        write(file)
    with hs.File(path, "r+"):
        pass
    with hs.File(path, "r+") as file:
        del file["g1"]
        file["more"] = np.arange(20_000)
        file["many"][:5] = 7
        file.flush()
        # Structures cross the borders of pages now, and no program may think otherwise.
        with h5py.File(path) as seen:
            assert strategy_of(seen)[0] == "fsm" and seen["more"][19_999] == 19_999
        file.attrs["last"] = 1
    with hs.File(path) as file:
        expected = contents(file)
        assert expected["many"][:6] == [7] * 5 + [5] and file.attrs["last"] == 1
    for pages in (1, 100):
        with h5py.File(path) as file:
            page = strategy_of(file)[2]
        with h5py.File(path, page_buf_size=pages * page) as file:
            assert strategy_of(file)[0] == "page" and contents(file) == expected
    image = io.BytesIO(path.read_bytes())
    with hs.File(image, "r+") as file:
        file["late"] = 1
    with h5py.File(image) as file:
        assert strategy_of(file)[0] == "page" and file["late"][()] == 1


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("strategy", [None, "fsm", "aggregate", "none"])
@pytest.mark.parametrize("threshold", [1, 5])
def test_other_strategies_are_recorded(
    tmp_path: Path, strategy: str | None, threshold: int, libver: str
) -> None:
    ours, theirs = tmp_path / "ours.h5", tmp_path / "theirs.h5"
    how: dict[str, Any] = {"fs_strategy": strategy, "libver": libver}
    if threshold != 1:
        how["fs_threshold"] = threshold
    for module, path in ((hs, ours), (h5py, theirs)):
        with module.File(path, "w", **how) as file:
            file["a"] = np.arange(10)
    with h5py.File(ours) as file, h5py.File(theirs) as other:
        assert strategy_of(file) == strategy_of(other)
        assert file["a"][:].tolist() == list(range(10))
    # The file can be changed, here and there.
    with hs.File(ours, "r+") as file:
        file["b"] = [1]
    with h5py.File(ours, "r+") as file:
        file["c"] = [2]
    with hs.File(ours) as file:
        assert [file[name][0] for name in "abc"] == [0, 1, 2]


@pytest.mark.parametrize("size", [100, 1 << 31])
def test_impossible_pages(tmp_path: Path, size: int) -> None:
    with pytest.raises(ValueError, match="Unable to set file space page size"):
        hs.File(tmp_path / "a.h5", "w", fs_strategy="page", fs_page_size=size)
    assert not list(tmp_path.iterdir())


def test_pages_in_memory_and_in_file_objects() -> None:
    sink = io.BytesIO()
    with hs.File(sink, "w", fs_strategy="page", fs_page_size=8192) as file:
        write(file)
    with hs.File.in_memory(fs_strategy="page", fs_page_size=8192) as file:
        write(file)
        image = file.image()
    assert image == sink.getvalue()
    with h5py.File(sink, page_buf_size=1 << 20) as file:
        assert strategy_of(file)[0] == "page" and file["plain"][7] == 7


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_copies_for_readers_far_away(folder: Path, tmp_path: Path, libver: str) -> None:
    source, target = folder / f"{libver}.h5", tmp_path / "cloud.h5"
    how: Any = {"layout": "cloud", "libver": "earliest" if libver == "earliest" else "v110"}
    report = hs.copy(source, target, verify=True, **how)
    assert report.arrays == 63 and report.seconds_verified is not None
    with h5py.File(source) as file:
        expected = contents(file)
    with h5py.File(target) as file:
        strategy, _, page = strategy_of(file)
        assert strategy == "page" and contents(file) == expected
    with h5py.File(target, page_buf_size=page) as file:
        assert contents(file) == expected
    with pytest.raises(FileExistsError):
        hs.copy(source, target, **how)
    assert [each.name for each in tmp_path.iterdir()] == ["cloud.h5"]
    hs.copy(source, target, overwrite=True, **how)
    if (stat := shutil.which("h5stat") or str(INSTALLED / "bin" / "h5stat")) and Path(stat).exists():
        told = subprocess.run([stat, "-S", str(target)], capture_output=True, text=True, check=True).stdout
        assert "FSPACE_STRATEGY_PAGE" in told and f"page size: {page} bytes" in told


def test_the_layout_is_for_new_hdf5_files(folder: Path, tmp_path: Path) -> None:
    for target in (tmp_path / "a.zarr", hs.MemoryStore()):
        with pytest.raises(ValueError, match="only a new HDF5 file has one"):
            hs.copy(folder / "latest.h5", target, layout="cloud")
    with pytest.raises(ValueError, match="expected 'plain' or 'cloud'"):
        hs.copy(folder / "latest.h5", tmp_path / "a.h5", layout="fast")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_the_command(folder: Path, tmp_path: Path) -> None:
    run = [sys.executable, "-m", "hyperslab", "copy", str(folder / "earliest.h5")]
    target = tmp_path / "a.h5"
    subprocess.run([*run, str(target), "--layout", "cloud", "--verify", "-q"], check=True)
    with h5py.File(target) as file:
        assert strategy_of(file)[0] == "page"
    refused = subprocess.run(
        [*run, str(tmp_path / "a.zarr"), "--layout", "cloud"], capture_output=True, text=True
    )
    assert refused.returncode == 2 and "a name that ends in .h5" in refused.stderr


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with Server() as server:
        server.control(serve={"files": str(folder)})
        yield server


def test_all_metadata_take_few_requests(server: Server, folder: Path) -> None:
    for libver in ("earliest", "latest"):
        hs.copy(folder / f"{libver}.h5", folder / f"{libver}-cloud.h5", layout="cloud", overwrite=True)

    def read(name: str) -> tuple[int, int]:
        server.reset()
        url = f"s3://files/{name}.h5"
        with hs.File(url, storage_options=server.s3_options) as file:
            names: list[str] = []
            file.visititems(lambda name, node: names.append(f"{name} {dict(node.attrs)}"))
            return len(server.log()), len(names)

    for libver in ("earliest", "latest"):
        server.control(serve={"files": str(folder)})
        (plain, objects), (cloud, found) = read(libver), read(f"{libver}-cloud")
        assert objects == found == 60 + 7 * 2 + 4
        assert cloud <= 4 and cloud * 3 < plain, (libver, cloud, plain)


def test_a_pipe(tmp_path: Path) -> None:
    program = """
import sys
import hyperslab as hs
with hs.File(sys.stdout.buffer, "w") as file:
    file["a"] = [1, 2, 3]
    file.flush()
    file["b"] = file["a"][:] * 2
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    with h5py.File(io.BytesIO(done.stdout)) as file:
        assert (file["a"][:].tolist(), file["b"][:].tolist()) == ([1, 2, 3], [2, 4, 6])


class Stream:
    """Only takes bytes, and not all of them at once."""

    def __init__(self) -> None:
        self.bytes = b""

    def write(self, data: Any) -> int:
        self.bytes += bytes(data[:1000])
        return min(len(data), 1000)


@pytest.mark.parametrize("how", [{}, {"fs_strategy": "page"}])
def test_an_object_that_is_only_written(how: dict[str, Any]) -> None:
    stream = Stream()
    with hs.File(stream, "w", **how) as file:
        write(file)
        file.flush()
        assert not stream.bytes and file["plain"][5] == 5
    with h5py.File(io.BytesIO(stream.bytes)) as file:
        assert file["plain"][7] == 7 and strategy_of(file)[0] == how.get("fs_strategy", "fsm")
    with pytest.raises(TypeError):
        hs.File(stream, "r+")
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(TypeError, match="text"), os.fdopen(writing, "w") as text:
        hs.File(text, "w")
