"""The command is a native program, and gives the same results as ``python -m hyperslab``."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hyperslab._base import config
from object_server_client import Server

CODEC = """
class Flip:
    codec_id = "t-flip-program"

    def encode(self, buf):
        return bytes(255 - byte for byte in bytes(buf))

    def decode(self, buf, out=None):
        return bytes(255 - byte for byte in bytes(buf))
"""


@pytest.fixture(scope="module")
def program() -> str:
    """Returns the command beside the interpreter."""
    found = shutil.which("hyperslab", path=sysconfig.get_path("scripts"))
    assert found is not None, "the command is not installed"
    return found


@pytest.fixture
def alone(program: str, tmp_path: Path) -> str:
    """Returns a copy of the command in a folder without Python."""
    folder = tmp_path / "alone"
    folder.mkdir()
    return shutil.copy(program, folder)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Returns an environment in which the package finds a codec of another package."""
    folder = tmp_path / "site"
    info = folder / "t_flip-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "t_flip_program.py").write_text(CODEC)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: t-flip\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[numcodecs.codecs]\nt-flip-program = t_flip_program:Flip\n")
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1"}


def run(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=120, check=False, **options
    )


def in_python(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "hyperslab", *arguments, **options)


def outcome(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


def test_no_python_is_started(program: str, alone: str, tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", data=np.arange(12).reshape(3, 4), chunks=(2, 2))
    assert Path(program).read_bytes()[:2] != b"#!", "the command is a script"
    for arguments in (["tree"], ["info"], ["info", "--json"], ["explain"], ["stats"]):
        expected = outcome(in_python(*arguments, tmp_path / "a", env={**os.environ, "NO_COLOR": "1"}))
        assert expected[0] == 0, expected
        # There is no program at all in this environment.
        assert outcome(run(alone, *arguments, tmp_path / "a", env={"PATH": "", "NO_COLOR": "1"})) == expected
    if shutil.which("strace"):
        trace = tmp_path / "trace"
        run("strace", "-f", "-o", trace, "-e", "trace=execve,clone3,vfork", program, "tree", tmp_path / "a")
        assert trace.read_text().count("execve(") == 1


def test_without_the_package(alone: str, tmp_path: Path, environment: dict[str, str]) -> None:
    """Another Python on the PATH is no help, and does no harm."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    path = os.pathsep.join([str(bare / "bin"), "/usr/bin", "/bin"])
    create(tmp_path / "a", environment)
    for found in ("", path):
        bare_environment = {"PATH": found, "NO_COLOR": "1"}
        cluster = ["--scheduler", "tcp://127.0.0.1:1"]
        done = run(alone, "copy", tmp_path / "a", tmp_path / "b", *cluster, env=bare_environment)
        assert done.returncode == 2 and "pip install hyperslab" in done.stderr, done
        for more in ([], ["--resume"]):
            done = run(alone, "copy", tmp_path / "a", tmp_path / "b", *more, env=bare_environment)
            assert done.returncode == 1 and "t-flip-program" in done.stderr, done
    assert not (tmp_path / "b").exists()


def create(place: Path, environment: dict[str, str]) -> None:
    """Creates an array with the codec of the other package."""
    program = f"""
import hyperslab as hs, numpy as np
hs.create_array({str(place)!r}, data=np.arange(100, dtype="i4"), chunks=(10,), zarr_format=2,
    compressors={{"id": "t-flip-program"}})
"""
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_codecs_in_python(program: str, tmp_path: Path, environment: dict[str, str]) -> None:
    hs.create_group(tmp_path / "g")
    create(tmp_path / "g/a", environment)
    hs.create_array(tmp_path / "plain", data=np.arange(100, dtype="i4"), chunks=(10,))
    for arguments in (
        ["tree", tmp_path / "g"],
        ["info", "--json", tmp_path / "g/a"],
        ["stats", tmp_path / "g/a"],
    ):
        expected = in_python(*arguments, env=environment)
        assert expected.returncode == 0 and "unreadable" not in expected.stdout, expected
        assert outcome(run(program, *arguments, env=environment)) == outcome(expected)
    # Read, written, and written anew.
    codec = json.dumps({"name": "numcodecs.t-flip-program", "configuration": {}})
    copies = [
        ("g/a", "b", []),
        ("plain", "c", ["--codec", codec]),
        ("c", "d", ["--codec", "zstd", "--resume"]),
    ]
    for source, place, more in copies:
        done = run(program, "copy", tmp_path / source, tmp_path / place, "--verify", *more, env=environment)
        assert done.returncode == 0, done
    assert np.array_equal(hs.open_array(tmp_path / "d")[:], np.arange(100))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"site", "g", "plain", "b", "c", "d"}, "no half of a copy is left"


def test_copies_in_tasks(program: str, tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", data=np.arange(1000), chunks=(10,))
    done = run(program, "copy", tmp_path / "a", tmp_path / "b", "--resume", "--chunks", "100")
    assert done.returncode == 0 and done.stdout.startswith("copied 1 array: 7.8 KiB in "), done
    assert np.array_equal(hs.open_array(tmp_path / "b")[:], np.arange(1000))
    arguments = ["copy", tmp_path / "a", tmp_path / "b", "--resume", "--max-memory", "1"]
    assert outcome(run(program, *arguments)) == outcome(in_python(*arguments))


def test_settings_in_the_environment(program: str, tmp_path: Path) -> None:
    """The package reads them, and says which values it ignores."""
    hs.create_array(tmp_path / "a", data=np.arange(4))
    variables = {*config._ENVIRONMENT.values(), *config._ZARR_ENVIRONMENT.values()}
    others = {name: value for name, value in os.environ.items() if name not in variables}

    def warned(name: str) -> bool:
        done = run(program, "info", tmp_path / "a", env={**others, name: "nonsense"})
        return done.returncode == 0 and f"environment variable {name} is ignored" in done.stderr

    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(sorted(variables), pool.map(warned, sorted(variables)), strict=True))
    assert all(found.values()), found


def test_folders_of_the_user_are_not_searched_for_modules(program: str, tmp_path: Path) -> None:
    (tmp_path / "hyperslab").mkdir()
    (tmp_path / "hyperslab/__init__.py").write_text("raise SystemExit('wrong package')")
    (tmp_path / "numpy.py").write_text("raise SystemExit('wrong NumPy')")
    hs.create_array(tmp_path / "a", data=np.arange(4))
    done = run(program, "copy", "a", "b", "--resume", "--quiet", cwd=tmp_path)
    assert outcome(done) == (0, "", "")


def test_waiting_for_a_server_ends_with_a_signal(program: str) -> None:
    with Server(latency=50) as server:
        server_options = {
            "AWS_ENDPOINT_URL": server.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        process = subprocess.Popen(
            [program, "info", "s3://bucket/a"], env={**os.environ, **server_options}, stderr=subprocess.PIPE
        )
        end = time.monotonic() + 30
        while not server.log() and time.monotonic() < end:
            time.sleep(0.01)
        assert process.poll() is None and server.log()
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert time.monotonic() - begun < 30, "far less than the server takes"
        assert (process.returncode, said) == (130, b"hyperslab: interrupted\n")
