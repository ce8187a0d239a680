"""Describes the machine of the measurements."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("hyperslab", "zarr", "zarrs", "zarrista", "tensorstore", "numcodecs", "numpy")


def one_line() -> str:
    """Returns processor and kernel."""
    return f"{os.cpu_count()} × {processor()}, {os.uname().sysname} {os.uname().release}"


def describe(directory: Path) -> dict[str, Any]:
    """Describes the machine, the system and the file system of the data in `directory`."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "usable cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / (1 << 30):.1f} GiB",
        "system": f"{os.uname().sysname} {os.uname().release} {os.uname().machine}",
        "file system": file_system(directory),
        "load at start": f"{os.getloadavg()[0]:.2f}",
        "Python": platform.python_version(),
        "versions": {name: installed(name) for name in PACKAGES},
    }


def processor() -> str:
    """Returns the model of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def installed(package: str) -> str:
    """Returns the version of a package, or that it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def file_system(directory: Path) -> str:
    """Returns the type of the file system that holds a directory."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "unknown"
    place = directory.resolve()
    best, kind = -1, "unknown"
    for line in mounts.read_text().splitlines():
        _, where, type_, *_ = line.split(" ")
        # The longest mount point above the directory. If several are equal, the last one hides the
        # others.
        if place.is_relative_to(where) and len(where) >= best:
            best, kind = len(where), type_
    return kind


def markdown(described: dict[str, Any]) -> str:
    """Formats the description as a paragraph."""
    versions = ", ".join(f"{name} {number}" for name, number in described["versions"].items())
    return (
        f"{described['cores']} × {described['processor']}, {described['memory']}, {described['system']}, "
        f"{described['file system']}; Python {described['Python']}, {versions}. "
        f"memcpy: {described['memcpy']}. Load at the start: {described['load at start']}."
    )
