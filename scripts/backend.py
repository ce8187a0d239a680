"""The build backend of the package (PEP 517): maturin, called twice.

One call of maturin builds either an extension module or a program, and the wheel has both. This
module first has maturin build the command in a wheel of its own, and unpacks it into
`build/command`. From there maturin takes it into the wheel of the package (`data` in
pyproject.toml). Installers then place it beside the environment's Python.

    python scripts/backend.py ARGUMENT...    builds only the command; takes arguments of `maturin build`
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

COMMAND = Path("build/command/scripts/hyperslab")
PROFILES = ("--release", "-r", "--profile")


def build_command(arguments: list[str]) -> None:
    """Builds the command, with these arguments for `maturin build`."""
    without_command()
    with tempfile.TemporaryDirectory() as folder:
        options = ["--bindings", "bin", "--manifest-path", "crates/cli/Cargo.toml", "--out", folder]
        subprocess.run(["maturin", "build", *options, *arguments], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as built:
            (name,) = (name for name in built.namelist() if name.endswith(".data/scripts/hyperslab"))
            COMMAND.write_bytes(built.read(name))
    COMMAND.chmod(0o755)


def without_command() -> None:
    """Makes the folder of the command, without a command. maturin requires the folder."""
    COMMAND.parent.mkdir(parents=True, exist_ok=True)
    COMMAND.unlink(missing_ok=True)


def _build_command(settings: Mapping[str, Any] | None) -> None:
    """Builds the command as maturin's own hooks build the extension module."""
    arguments = maturin.get_maturin_pep517_args(settings)
    if not any(argument.startswith(PROFILES) for argument in arguments):
        arguments = ["--release", *arguments]
    build_command(["--compatibility", "off", *arguments])


def build_wheel(
    directory: str, settings: Mapping[str, Any] | None = None, metadata: str | None = None
) -> str:
    """Builds the wheel."""
    _build_command(settings)
    name: str = maturin.build_wheel(directory, settings, metadata)
    return name


def build_editable(
    directory: str, settings: Mapping[str, Any] | None = None, metadata: str | None = None
) -> str:
    """Builds a wheel that leads to the working tree."""
    _build_command(settings)
    name: str = maturin.build_editable(directory, settings, metadata)
    return name


def build_sdist(directory: str, settings: Mapping[str, Any] | None = None) -> str:
    """Builds the source distribution."""
    without_command()
    name: str = maturin.build_sdist(directory, settings)
    return name


def prepare_metadata_for_build_wheel(directory: str, settings: Mapping[str, Any] | None = None) -> str:
    """Writes the metadata of the wheel."""
    without_command()
    name: str = maturin.prepare_metadata_for_build_wheel(directory, settings)
    return name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


if __name__ == "__main__":
    build_command(sys.argv[1:])
