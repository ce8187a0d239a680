"""Reads from a Linux shared library what it needs to load.

Only 64-bit little-endian ELF: x86_64 and aarch64.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

MACHINES = {62: "x86_64", 183: "aarch64"}
"""`e_machine` of the ELF header, and the machine's name in the tag of a wheel."""

DYNAMIC, VERSION_NEEDS = 6, 0x6FFFFFFE
"""`sh_type` of the parsed sections."""

NEEDED = 1
"""`d_tag` of a library to load first."""


@dataclass
class SharedLibrary:
    """The requirements of one library."""

    machine: str
    """x86_64 or aarch64."""
    libraries: list[str]
    """Names of the libraries to load first."""
    versions: dict[str, set[str]]
    """Required symbol versions by library: `GLIBC_2.17`."""

    def glibc(self) -> tuple[int, int]:
        """Returns the oldest glibc that has all these symbols."""
        found = [
            (int(match[1]), int(match[2]))
            for versions in self.versions.values()
            for version in versions
            if (match := re.match(r"GLIBC_(\d+)\.(\d+)", version))
        ]
        return max(found, default=(0, 0))


def text(strings: bytes, offset: int) -> str:
    """Returns the string that begins at `offset`."""
    return strings[offset : strings.index(b"\0", offset)].decode()


def read(elf: bytes) -> SharedLibrary:
    """Reads the sections that the loader uses. Raises `ValueError` for any other kind of file."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    machine = struct.unpack_from("<H", elf, 18)[0]
    if machine not in MACHINES:
        raise ValueError(f"ELF machine {machine}: expected one of {MACHINES}")
    start = struct.unpack_from("<Q", elf, 40)[0]
    size, count = struct.unpack_from("<HH", elf, 58)
    # Each section: type, offset, size in bytes, linked section.
    sections = [struct.unpack_from("<4xI16xQQI", elf, start + size * number) for number in range(count)]
    library = SharedLibrary(MACHINES[machine], [], {})
    for kind, offset, length, link in sections:
        if kind not in (DYNAMIC, VERSION_NEEDS):
            continue
        strings = elf[sections[link][1] : sections[link][1] + sections[link][2]]
        if kind == DYNAMIC:
            for tag, value in struct.iter_unpack("<QQ", elf[offset : offset + length]):
                if tag == NEEDED:
                    library.libraries.append(text(strings, value))
            continue
        while True:
            names, name, first, following = struct.unpack_from("<2xHIII", elf, offset)
            versions = library.versions.setdefault(text(strings, name), set())
            one = offset + first
            for _ in range(names):
                version, another = struct.unpack_from("<8xII", elf, one)
                versions.add(text(strings, version))
                one += another
            if not following:
                break
            offset += following
    return library
