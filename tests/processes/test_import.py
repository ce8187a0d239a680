"""Importing the package and its command: loaded modules, missing modules, and Ctrl-C."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import hyperslab as hs
import numpy as np
import pytest

# Acts when a module is imported. Python runs this before everything else.
HOOK = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            {action}

sys.meta_path.insert(0, Finder())
"""

# The script that installers write.
SCRIPT = """
import sys
from hyperslab._cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""


def run(folder: Path, name: str, action: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Runs Python. The import of module `name` runs `action`."""
    folder.joinpath("sitecustomize.py").write_text(HOOK.format(name=name, action=action))
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, *args], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_without_numpy_the_message_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "try: import hyperslab\nexcept ImportError as error: print(type(error).__name__, error.name, error)"
    )
    missing = "raise ModuleNotFoundError('No module named numpy', name='numpy')"
    done = run(tmp_path, "numpy", missing, "-c", code)
    assert done.stderr == "" and done.returncode == 0
    assert done.stdout == (
        "ModuleNotFoundError numpy hyperslab needs NumPy, which is not installed: pip install numpy\n"
    )


def test_a_broken_numpy_speaks_for_itself(tmp_path: Path) -> None:
    code = "try: import hyperslab\nexcept ImportError as error: print(error.name, error)"
    missing = "raise ModuleNotFoundError('No module named secret', name='secret')"
    done = run(tmp_path, "numpy", missing, "-c", code)
    assert (done.stdout, done.stderr) == ("secret No module named secret\n", "")


@pytest.mark.parametrize(
    "module", ["numpy", "hyperslab._native", "hyperslab._core.array", "hyperslab._cli.main"]
)
@pytest.mark.parametrize("how", ["module", "joined", "script"])
def test_an_interrupt_while_the_command_is_imported(tmp_path: Path, how: str, module: str) -> None:
    script = tmp_path / "hyperslab"
    script.write_text(SCRIPT)
    # Python searches the script's folder first. There a file without a suffix is no module.
    called = {"module": ["-m", "hyperslab"], "joined": ["-mhyperslab"], "script": [str(script)]}[how]
    done = run(tmp_path, module, "os.kill(os.getpid(), signal.SIGINT)", *called, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "hyperslab: interrupted\n")


def test_programs_keep_their_handler(tmp_path: Path) -> None:
    """Only the command ends this way. In a program an interrupt remains an exception."""
    code = "try: import hyperslab\nexcept KeyboardInterrupt: print('caught')"
    done = run(tmp_path, "hyperslab._core.array", "os.kill(os.getpid(), signal.SIGINT)", "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "caught\n", "")


def test_the_command_starts_with_the_handler_of_python(tmp_path: Path) -> None:
    """Once the command has started, it handles interrupts itself."""
    code = (
        "import signal, sys; sys.argv[0] = 'hyperslab'\n"
        "from hyperslab import _native; from hyperslab._cli.main import main\n"
        "seen = lambda args: print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
        "_native.planned_copy = lambda args: seen(args); _native.run_cli = lambda args: 0; main()"
    )
    done = run(tmp_path, "", "pass", "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


# ---- loaded modules


# The rooms and modules of the package that load on first use.
LATE = (
    "_aio _base.awaiting _base.debug _base.tasks _cli _codecs.numcodecs _compute _copy _create.advise "
    "_create.convenience _create.hierarchy _create.new_like _dask.blocks _display _hdf5 _stores.file_objects "
    "_stores.foreign _stores.remote _stores.zarr _stores.zip _xarray _zarr dask h5 storage xarray zarr"
)
# Modules that take long to import. NumPy may import some of them itself.
LONG = (
    "_ssl asyncio concurrent.futures ctypes decimal email fractions hashlib html http importlib.metadata "
    "importlib.resources logging multiprocessing numcodecs pprint queue random shutil socket ssl subprocess "
    "tempfile traceback unittest urllib uuid zipfile"
)


def loaded(code: str) -> set[str]:
    """Modules that code imports, without the ones that NumPy imports."""
    before = "import json, sys, numpy; known = {*sys.modules} - {'json'}"
    after = "print(json.dumps([*({*sys.modules} - known)]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{before}\n{code}\n{after}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_import_loads_the_core_only() -> None:
    """Counts modules: their number hardly varies between machines, and seconds do."""
    found = loaded("import hyperslab")
    late = tuple(f"hyperslab.{name}" for name in LATE.split())
    assert [
        name for name in found if name in late or name.startswith(tuple(f"{each}." for each in late))
    ] == []
    # Before Python 3.12 `pathlib` imports `urllib.parse`.
    long = {*LONG.split()} - ({"urllib"} if sys.version_info < (3, 12) else set())
    assert found.isdisjoint(long)
    ours = {name for name in found if name.partition(".")[0] == "hyperslab"}
    assert "hyperslab._core.array" in ours
    assert len(ours) <= 50 and len(found - ours) <= (24 if sys.version_info >= (3, 12) else 32)


def test_rust_calls_no_module_by_name() -> None:
    """Modules give the engine the classes and functions that it calls. It imports the exceptions."""
    source = Path(__file__).parents[2] / "crates/python/src"
    texts = [path.read_text() for path in source.rglob("*.rs")]
    assert len(texts) > 40
    named = {name for text in texts for name in re.findall(r'"(hyperslab\.[\w.]+)"', text)}
    # PyO3 takes the names of the modules that classes belong to.
    assert named == {"hyperslab.errors", "hyperslab._native"}


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("hs.h5.File", "hyperslab._hdf5.file"),
        ("hs.codecs.Zlib", "hyperslab._codecs.numcodecs"),
        ("hs.copy", "hyperslab._copy.copy"),
        ("hs.AsyncArray", "hyperslab._aio.nodes"),
        ("hs.zeros", "hyperslab._create.convenience"),
        ("hs.statistics", "hyperslab._compute.statistics"),
        ("hs.storage.ZipStore", "hyperslab._stores.zip"),
    ],
)
def test_the_first_access_loads_a_module(code: str, wanted: str) -> None:
    assert wanted in loaded(f"import hyperslab as hs; {code}")


def test_threads_load_modules_at_the_same_time() -> None:
    code = """
import h5py
import hyperslab as hs
import numpy as np
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
names = [name for name in hs.__all__ if name not in vars(hs)] * 2
start = Barrier(len(names))
def get(name):
    start.wait()
    return getattr(hs, name)
with ThreadPoolExecutor(len(names)) as executor:
    assert len(names) > 70
    assert all(found is vars(hs)[name] for name, found in zip(names, executor.map(get, names)))
"""
    assert "hyperslab._hdf5.file" in loaded(code)


def test_a_fork_waits_for_imports_of_other_threads(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(3)
    code = f"""
import os, signal, sys, threading, time
import h5py
import hyperslab as hs
import numpy as np
begun = threading.Event()
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "hyperslab._hdf5.ids":
            begun.set()
            time.sleep(0.5)
sys.meta_path.insert(0, Finder())
read = lambda: int(hs.File({str(path)!r})["a"][:].sum())
thread = threading.Thread(target=read)
thread.start()
begun.wait()
assert not hasattr(sys.modules["hyperslab._hdf5.array"], "FileArray")
child = os.fork()
if child == 0:
    signal.alarm(20)
    os._exit(read())
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
thread.join()
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_fork_of_one_thread_loads_nothing() -> None:
    found = loaded("import hyperslab, os; child = os.fork(); child or os._exit(0); os.waitpid(child, 0)")
    assert found == loaded("import hyperslab")


def test_all_names_are_there_before_their_modules() -> None:
    code = """
import hyperslab as hs, inspect
assert {*hs.__all__} <= {*dir(hs)} and {*hs.codecs.__all__} == {*dir(hs.codecs)}
assert {name for name, _ in inspect.getmembers(hs)} == {*dir(hs)}
from hyperslab import *
from hyperslab.codecs import *
assert copy is hs.copy and Zlib is hs.codecs.Zlib and h5 is hs.h5
assert h5.File is File and vars(hs)["File"] is File
for module in (hs, hs.codecs):
    try:
        module.nothing
    except AttributeError as error:
        assert str(error) == f"module {module.__name__!r} has no attribute 'nothing'"
    else:
        assert False
"""
    assert "hyperslab.h5" in loaded(code)


def told(path: Path) -> dict[str, str]:
    """Names that a module imports for type checkers only, and their modules."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.If):
            for each in node.body:
                assert isinstance(each, ast.ImportFrom)
                found |= {alias.name: str(each.module) for alias in each.names}
    return found


def test_type_checkers_see_the_names_that_load_late() -> None:
    path = Path(hs.__file__)
    names = {name: f"hyperslab.{module}" for name, module in hs._MODULE_OF.items()}
    assert told(path) == {**names, "h5": "hyperslab", "storage": "hyperslab", "testing": "hyperslab"}
    of_numcodecs = told(path.with_name("codecs.py"))
    assert len(of_numcodecs) == 19 and set(of_numcodecs) <= set(hs.codecs.__all__)
    for name, module in {**names, **of_numcodecs}.items():
        if name not in ("h5", "storage", "testing"):
            owner = hs.codecs if name in of_numcodecs else hs
            assert getattr(owner, name) is getattr(importlib.import_module(module), name)
