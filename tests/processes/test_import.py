"""Importing the package and its command: missing modules, and Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
