"""The published wheels load on the machines that their names promise.

No wheel is built here. The build script must request what the documentation promises, and the check
script must refuse a wheel that promises too much.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import hyperslab._native
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    """Returns `scripts/check_package.py` and `scripts/shared_library.py`."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.delitem(sys.modules, "check_package", raising=False)
    import check_package
    import shared_library

    return check_package, shared_library


def test_promise() -> None:
    script = (ROOT / "scripts" / "release-wheel.sh").read_text()
    # manylinux2014 is glibc 2.17: https://peps.python.org/pep-0599/
    assert "--compatibility manylinux2014" in script
    assert "--auditwheel check" in script
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    for machine in ("x86_64", "aarch64"):
        assert f"machine: {machine}" in workflow
    for page in ("README.md", "docs/releases.md"):
        text = (ROOT / page).read_text()
        assert "glibc 2.17" in text and "x86_64" in text and "aarch64" in text, page


def test_what_a_library_needs_is_what_readelf_says(scripts: tuple[ModuleType, ModuleType]) -> None:
    if not shutil.which("readelf"):
        pytest.skip("readelf is not installed: binutils")
    path = Path(hyperslab._native.__file__)
    if path.read_bytes()[:4] != b"\x7fELF":
        pytest.skip("not a Linux library")
    library = scripts[1].read(path.read_bytes())

    def readelf(option: str) -> str:
        return subprocess.run(
            ["readelf", "--wide", option, path], check=True, capture_output=True, text=True
        ).stdout

    assert library.libraries == re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic"))
    needs = readelf("--version-info").partition(".gnu.version_r")[2]
    theirs: dict[str, set[str]] = {}
    for file, name in re.findall(r"File: (\S+)|Name: (\S+)", needs):
        if file:
            versions = theirs.setdefault(file, set())
        else:
            versions.add(name)
    assert library.versions == theirs
    assert "libc.so.6" in theirs


@pytest.mark.parametrize("damage", [b"", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(60), bytes(100)])
def test_other_files_are_refused(scripts: tuple[ModuleType, ModuleType], damage: bytes) -> None:
    with pytest.raises(ValueError, match="not a 64-bit little-endian ELF file"):
        scripts[1].read(damage)


@pytest.mark.parametrize(
    ("tags", "machine", "libraries", "versions", "problem"),
    [
        (
            "manylinux_2_17_x86_64",
            "x86_64",
            ["libgcc_s.so.1", "libc.so.6"],
            {"GLIBC_2.9", "GLIBC_2.17"},
            None,
        ),
        (
            "manylinux2014_x86_64.manylinux_2_17_x86_64",
            "x86_64",
            ["libgcc_s.so.1", "libm.so.6"],
            {"GLIBC_2.2.5"},
            None,
        ),
        (
            "manylinux_2_17_x86_64",
            "x86_64",
            ["libgcc_s.so.1", "libc.so.6"],
            {"GLIBC_2.9", "GLIBC_2.18"},
            "needs glibc 2.18",
        ),
        (
            "manylinux_2_17_x86_64",
            "aarch64",
            ["libgcc_s.so.1", "libc.so.6"],
            {"GLIBC_2.17"},
            "built for aarch64",
        ),
        ("manylinux_2_17_x86_64", "x86_64", ["libc.so.6"], {"GLIBC_2.17"}, "the machine's libgcc_s.so.1"),
        (
            "manylinux_2_17_aarch64",
            "aarch64",
            ["libgcc_s.so.1", "libssl.so.3"],
            {"GLIBC_2.17"},
            "libssl.so.3",
        ),
    ],
)
def test_a_wheel_that_promises_too_much_is_a_problem(
    scripts: tuple[ModuleType, ModuleType],
    tags: str,
    machine: str,
    libraries: list[str],
    versions: set[str],
    problem: str | None,
) -> None:
    check_package, shared_library = scripts
    library = shared_library.SharedLibrary(machine, libraries, {"libc.so.6": versions})
    check_package.check_library(Path(f"hyperslab-0.1.0-cp311-abi3-{tags}.whl"), library)
    if problem is None:
        assert check_package.problems == []
    else:
        (found,) = check_package.problems
        assert problem in found
