"""New HDF5 files on servers: written here, and there when they are closed."""

from __future__ import annotations

import http.server
import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server
from servers import Running, started

h5py = pytest.importorskip("h5py")

URL = "s3://bucket/dir/new.h5"
KEY = "dir/new.h5"
# The smallest parts that S3 takes.
PART = 5 << 20


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def server(shared: Server) -> Server:
    shared.clear()
    return shared


def options(server: Server, **more: Any) -> dict[str, Any]:
    return {**server.s3_options, "part_size": PART, **more}


def stored(server: Server) -> bytes | None:
    """Returns the bytes of the object."""
    status, _, body = server.request(
        "GET", f"/bucket/{KEY}", authorization="AWS4-HMAC-SHA256 Credential=key/"
    )
    return body if status == 200 else None


def uploads(server: Server, method: str) -> int:
    """Counts requests about parts."""
    return sum(each["method"] == method and "uploadId" in str(each) for each in server.log())


def values(count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(count).integers(0, 1 << 60, count)


@pytest.mark.parametrize("count", [100, 6_000_000], ids=["one request", "parts"])
@pytest.mark.parametrize("how", [{}, {"libver": "latest", "track_order": True}, {"fs_strategy": "page"}])
def test_a_file_appears_when_it_is_closed(server: Server, count: int, how: dict[str, Any]) -> None:
    expected = values(count)
    with hs.File(URL, "w", storage_options=options(server), **how) as file:
        file.create_dataset("chunked", data=expected, chunks=(10_000,), maxshape=(None,))
        run = file.create_dataset("run", (count,), "i8")
        for start in range(0, count, 1 << 18):
            run[start : start + (1 << 18)] = expected[start : start + (1 << 18)]
        file.flush()
        assert stored(server) is None
        # Flushed elements change again: their parts are sent once more.
        run[: count // 2] = 7
        file["chunked"][:5] = 9
        file["names"] = ["Rhône", "Rhein"]
        file.attrs["title"] = "new"
        assert file["run"][0] == 7 and file["chunked"][4] == 9 and file["chunked"][5] == expected[5]
        assert (file.mode, file.driver, file.filename) == ("r+", "ros3", URL)
    image = stored(server)
    assert image is not None
    with h5py.File(io.BytesIO(image)) as file:
        assert np.array_equal(file["chunked"][5:], expected[5:]) and file["chunked"][:5].tolist() == [9] * 5
        assert np.array_equal(file["run"][count // 2 :], expected[count // 2 :])
        assert (file["run"][: count // 2] == 7).all()
        assert file["names"].asstr()[:].tolist() == ["Rhône", "Rhein"] and file.attrs["title"] == "new"
    with hs.File(URL, storage_options=options(server)) as file:
        assert np.array_equal(file["chunked"][5:], expected[5:])


def test_parts_are_sent_while_the_file_is_written(server: Server) -> None:
    with hs.File(URL, "w", storage_options=options(server)) as file:
        rows = file.create_dataset("rows", (0, 1 << 17), "f8", maxshape=(None, 1 << 17), chunks=(1, 1 << 17))
        for number in range(40):
            rows.resize(number + 1, axis=0)
            rows[number] = number
        file.flush()
        assert rows[3, 5] == 3
    methods = [(each["method"], each.get("query", "")) for each in server.log()]
    assert sum(method == "PUT" for method, _ in methods) >= 8
    with hs.File(URL, storage_options=options(server)) as file:
        assert file["rows"][:, 0].tolist() == list(range(40))


def test_an_exception_in_the_block_keeps_the_changes_so_far(server: Server) -> None:
    with pytest.raises(ZeroDivisionError), hs.File(URL, "w", storage_options=options(server)) as file:
        file["a"] = [1, 2]
        _ = 1 // 0
    with hs.File(URL, storage_options=options(server)) as file:
        assert file["a"][:].tolist() == [1, 2]


@pytest.mark.parametrize("count", [10, 3_000_000])
def test_new_files_do_not_replace_others(server: Server, count: int) -> None:
    for mode in ("w-", "x", "a"):
        with hs.File(URL, mode, storage_options=options(server)) as file:
            file["mode"] = mode
        for again in ("w-", "x"):
            with pytest.raises(FileExistsError):
                hs.File(URL, again, storage_options=options(server))
        for again in ("a", "r+"):
            with pytest.raises(hs.errors.UnsupportedError, match="copy the file to a local disk"):
                hs.File(URL, again, storage_options=options(server))
        server.clear()
    # Somebody else is faster.
    file = hs.File(URL, "x", storage_options=options(server))
    file["late"] = np.zeros(count)
    with hs.File(URL, "w", storage_options=options(server)) as other:
        other["early"] = 1
    with pytest.raises(FileExistsError):
        file.close()
    with hs.File(URL, storage_options=options(server)) as found:
        assert list(found) == ["early"]
    server.request("DELETE", f"/bucket/{KEY}", authorization="AWS4-HMAC-SHA256 Credential=key/")
    file.close()
    with hs.File(URL, storage_options=options(server)) as found:
        assert list(found) == ["late"] and len(found["late"]) == count


@pytest.mark.parametrize("fault", ["PUT", "POST"])
@pytest.mark.parametrize("count", [10, 3_000_000])
def test_a_failed_upload_leaves_the_old_object(server: Server, fault: str, count: int) -> None:
    with hs.File(URL, "w", storage_options=options(server)) as file:
        file["old"] = 1
    file = hs.File(URL, "w", storage_options=options(server, max_retries=0))
    file["new"] = values(count)
    server.fault("status", method=fault, status=403, times=-1)
    if fault == "POST" and count == 10:
        # One request suffices.
        file.close()
    else:
        with pytest.raises(OSError, match="403"):
            file.close()
        with hs.File(URL, storage_options=options(server)) as found:
            assert list(found) == ["old"]
        # The file is still open. When the server works again, it is closed.
        assert np.array_equal(file["new"][:], values(count))
        server.control(faults=[])
        file.close()
    with hs.File(URL, storage_options=options(server)) as found:
        assert list(found) == ["new"] and np.array_equal(found["new"][:], values(count))


@pytest.mark.parametrize("conditional", ["yes", "no"])
def test_the_last_request_has_a_condition(server: Server, conditional: str) -> None:
    file = hs.File(URL, "x", storage_options=options(server))
    file["late"] = np.zeros(3_000_000)
    file.flush()
    while not any(each["method"] == "POST" for each in server.log()):
        time.sleep(0.01)
    server.control(conditional_puts=conditional)
    if conditional == "yes":
        server.fault("stall", method="POST", seconds=1.0)
        with ThreadPoolExecutor(1) as pool:
            closing = pool.submit(file.close)
            while not any("uploadId" in each["query"] and each["method"] == "POST" for each in server.log()):
                time.sleep(0.01)
            # Somebody makes the object after the last look.
            server.put("bucket", KEY, b"faster")
            with pytest.raises(FileExistsError):
                closing.result()
        assert stored(server) == b"faster"
        # The server forgets everything.
        server.clear()
    file.close()
    server.control(conditional_puts="yes")
    with hs.File(URL, storage_options=options(server)) as found:
        assert list(found) == ["late"] and not found["late"][:].any()


def test_a_forgotten_upload_begins_again(server: Server) -> None:
    file = hs.File(URL, "w", storage_options=options(server))
    file["a"] = values(3_000_000)
    file.flush()
    while not any(each["method"] == "PUT" for each in server.log()):
        time.sleep(0.01)
    server.clear()
    file.close()
    with hs.File(URL, storage_options=options(server)) as found:
        assert np.array_equal(found["a"][:], values(3_000_000))


@pytest.mark.parametrize("late", [False, True])
def test_lost_answers(server: Server, late: bool) -> None:
    server.fault("reset", method="PUT|POST", chance=0.3, times=30, late=late)
    with hs.File(URL, "w", storage_options=options(server)) as file:
        file["a"] = values(4_000_000)
    server.control(faults=[])
    with hs.File(URL, storage_options=options(server)) as file:
        assert np.array_equal(file["a"][:], values(4_000_000))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_writer_leaves_no_object(server: Server, number: signal.Signals) -> None:
    program = f"""
        import time
        import hyperslab as hs, numpy as np
        file = hs.File({URL!r}, "w", storage_options={options(server)!r})
        file["a"] = np.arange(4_000_000)
        file.flush()
        print("written", flush=True)
        time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "written\n"
        process.send_signal(number)
        process.wait()
    assert stored(server) is None


def test_copies(server: Server, tmp_path: Path) -> None:
    group = hs.open_group(tmp_path / "a.zarr", mode="w", attributes={"title": "a"})
    group.create_array("x", data=values(2_000_000), chunks=(100_000,))
    group["deep/y"] = np.arange(12.0).reshape(3, 4)
    for layout in ("plain", "cloud"):
        report = hs.copy(
            tmp_path / "a.zarr",
            URL,
            verify=True,
            layout=layout,
            storage_options=options(server),
            overwrite=True,
        )
        assert report.arrays == 2 and report.seconds_verified is not None
        image = stored(server)
        assert image is not None
        with h5py.File(io.BytesIO(image)) as file:
            assert np.array_equal(file["x"][:], values(2_000_000)) and file["deep/y"][2, 3] == 11
            assert file.attrs["title"] == "a"
            pages = file.id.get_create_plist().get_file_space_strategy()[0] == 1
            assert pages == (layout == "cloud")
    with pytest.raises(FileExistsError):
        hs.copy(tmp_path / "a.zarr", URL, storage_options=options(server))
    assert stored(server) == image


@pytest.mark.parametrize("how", ["copy", "file"])
def test_a_netcdf_file(server: Server, tmp_path: Path, how: str) -> None:
    url, place = "s3://bucket/dir/new.nc", "/bucket/dir/new.nc"
    if how == "copy":
        group = hs.open_group(tmp_path / "a.zarr", mode="w")
        group.create_array("t", data=np.arange(6.0).reshape(2, 3), dimension_names=["time", "x"])
        hs.copy(group, url, layout="cloud", verify=True, storage_options=options(server))
    else:
        with hs.File(url, "w", netcdf=True, storage_options=options(server)) as file:
            file.create_dimension("time")
            file.create_dimension("x", 3)
            file.create_variable("t", ("time", "x"), "f8", np.arange(6.0).reshape(2, 3))
    status, _, image = server.request("GET", place, authorization="AWS4-HMAC-SHA256 Credential=key/")
    assert status == 200
    path = tmp_path / "new.nc"
    path.write_bytes(image)
    netCDF4 = pytest.importorskip("netCDF4")
    with netCDF4.Dataset(path, "a") as found:
        assert {name: len(one) for name, one in found.dimensions.items()} == {"time": 2, "x": 3}
        assert found["t"][:].tolist() == [[0, 1, 2], [3, 4, 5]]
        found.createVariable("x", "i4", ("x",))[:] = [1, 2, 3]


def test_the_command_copies(server: Server, tmp_path: Path) -> None:
    group = hs.open_group(tmp_path / "a.zarr", mode="w", attributes={"title": "a"})
    group.create_array("x", data=values(300_000), chunks=(50_000,))
    names = {"endpoint": "AWS_ENDPOINT_URL", "region": "AWS_REGION", "allow_http": "AWS_ALLOW_HTTP"}
    names |= {name: f"AWS_{name.upper()}" for name in ("access_key_id", "secret_access_key")}
    given = {names[name]: value for name, value in server.s3_options.items() if name in names}
    command = [sys.executable, "-m", "hyperslab", "copy", "--layout", "cloud", "--verify"]
    command += [str(tmp_path / "a.zarr"), URL]
    environment = {**os.environ, "AWS_ENDPOINT_URL": server.url, **given}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    image = stored(server)
    assert image is not None
    with h5py.File(io.BytesIO(image)) as file:
        assert np.array_equal(file["x"][:], values(300_000)) and file.attrs["title"] == "a"
        assert file.id.get_create_plist().get_file_space_strategy()[0] == 1
    again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert again.returncode != 0 and "new.h5" in again.stderr
    assert stored(server) == image


@pytest.mark.servers
@pytest.mark.parametrize("kind", ["moto", "azurite", "fake-gcs-server"])
def test_real_servers(start: Callable[[str], Running], kind: str) -> None:
    server = start(kind)
    scheme = {"moto": "s3", "azurite": "az", "fake-gcs-server": "gs"}[kind]
    for count in (10, 2_500_000):
        url = f"{scheme}://bucket/new/{count}.h5"
        expected = values(count)
        with hs.File(url, "x", storage_options={**server.options, "part_size": PART}) as file:
            run = file.create_dataset("a", (count,), "i8")
            for at in range(0, count, 1 << 18):
                run[at : at + (1 << 18)] = expected[at : at + (1 << 18)]
            file.flush()
            run[0] = 5
        with hs.File(url, storage_options=server.options) as file:
            assert file["a"][0] == 5 and np.array_equal(file["a"][1:], expected[1:])
        with pytest.raises(FileExistsError):
            hs.File(url, "x", storage_options=server.options)
        with hs.File(url, "w", storage_options=server.options) as file:
            file["b"] = 1
        with hs.File(url, storage_options=server.options) as file:
            assert list(file) == ["b"]


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[[str], Running]]:
    with started() as start:
        yield start


def test_a_server_that_takes_whole_files() -> None:
    """A server of HTTP without parts gets the file with one PUT."""
    files: dict[str, bytes] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None: ...

        def answer(self, status: int, length: int = 0) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.send_header("Last-Modified", "Sat, 28 Nov 2026 00:00:00 GMT")
            self.send_header("ETag", '"1"')
            self.end_headers()

        def do_HEAD(self) -> None:
            found = files.get(self.path)
            self.answer(404 if found is None else 200, len(found or b""))

        def do_PUT(self) -> None:
            files[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(201)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with hs.File(f"http://127.0.0.1:{server.server_port}/a.h5", "w") as file:
            file["x"] = values(1000)
            file.flush()
            assert not files
        server.shutdown()
    with h5py.File(io.BytesIO(files["/a.h5"])) as file:
        np.testing.assert_array_equal(file["x"][...], values(1000))
