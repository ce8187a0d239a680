"""Checks the packages before publication: check_package.py WHEEL SDIST.

The wheel must work on every CPython from 3.11 on and on every machine that its name promises. It
must contain its licences, its types and the command, and nothing else. The sdist must contain everything
that a build from source needs.
"""

import re
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import shared_library

MOST_BYTES = 30_000_000
"""Largest size of a wheel. A notebook on a slow connection waits for every byte."""

EVERYWHERE = r"(libc|libm|libdl|libpthread|librt|libgcc_s)\.so\.\d+|ld-linux-[\w-]+\.so\.\d"
"""Libraries that every machine with glibc has."""

UNWINDER = "libgcc_s.so.1"
"""Unwinds stacks, also when glibc ends a thread."""

problems: list[str] = []


def expect(condition: bool, problem: str) -> None:
    """Records a problem. All problems are printed at the end."""
    if not condition:
        problems.append(problem)


def check_metadata(text: str, where: str) -> None:
    """Checks the metadata that indexes and installers read."""
    metadata = Parser().parsestr(text)
    expect(metadata["Name"] == "hyperslab", f"{where}: name is {metadata['Name']!r}")
    expect(
        bool(re.fullmatch(r"\d+\.\d+\.\d+", metadata["Version"])),
        f"{where}: version is {metadata['Version']!r}",
    )
    expect(
        metadata["Requires-Python"] == ">=3.11", f"{where}: requires Python {metadata['Requires-Python']!r}"
    )
    expect(metadata["License-Expression"] == "MIT OR Apache-2.0", f"{where}: no licence expression")
    expect(
        metadata.get_all("Requires-Dist") == ["numpy>=2.0"], f"{where}: {metadata.get_all('Requires-Dist')}"
    )
    expect("Typing :: Typed" in metadata.get_all("Classifier", []), f"{where}: classifiers are missing")
    expect(bool(metadata.get_payload()), f"{where}: no long description")


def check_wheel(path: Path) -> None:
    """Checks the contents of the wheel."""
    where = path.name
    expect("-cp311-abi3-" in where, f"{where}: not a stable-ABI wheel for CPython 3.11 and newer")
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        info = next(name.split("/")[0] for name in names if name.endswith(".dist-info/METADATA"))
        check_metadata(wheel.read(f"{info}/METADATA").decode(), where)
        programs = [wheel.getinfo(name) for name in names if name.endswith(".data/scripts/hyperslab")]
    expect(len(programs) == 1, f"{where}: commands: {programs}")
    for program in programs:
        expect(bool(program.external_attr >> 16 & 0o111), f"{where}: the command is not executable")
    package = {
        p.relative_to("python").as_posix() for p in Path("python").rglob("*") if p.suffix in (".py", ".pyi")
    }
    package.add("hyperslab/py.typed")
    for name in sorted(package - set(names)):
        expect(False, f"{where}: lacks {name}")
    native = [name for name in names if name.startswith("hyperslab/_native") and name.endswith(".so")]
    expect(len(native) == 1, f"{where}: native modules: {native}")
    if "linux" in path.stem.split("-")[-1]:
        with zipfile.ZipFile(path) as wheel:
            for name in [*native, *(program.filename for program in programs)]:
                check_library(path, shared_library.read(wheel.read(name)))
    size = path.stat().st_size
    expect(size <= MOST_BYTES, f"{where}: {size / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f} MB")
    for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
        expect(any(name.endswith(licence) for name in names), f"{where}: lacks {licence}")
    places = ("hyperslab/", f"{info}/", *(program.filename for program in programs))
    strays = [name for name in names if not name.startswith(places) or "__pycache__" in name]
    expect(not strays, f"{where}: strays: {strays}")


def check_library(wheel: Path, library: shared_library.SharedLibrary) -> None:
    """Checks that native code loads on every machine that the wheel's name promises."""
    where = wheel.name
    for tag in wheel.stem.split("-")[-1].split("."):
        expect(tag.endswith(f"_{library.machine}"), f"{where}: {tag}, but built for {library.machine}")
        if match := re.match(r"manylinux_(\d+)_(\d+)_", tag):
            promised = int(match[1]), int(match[2])
            needed = library.glibc()
            expect(needed <= promised, f"{where}: {tag}, but needs glibc {needed[0]}.{needed[1]}")
    # A module with its own unwinder crashes if a thread ends with the interpreter. (A program would not.)
    expect(UNWINDER in library.libraries, f"{where}: does not use the machine's {UNWINDER}")
    strange = [name for name in library.libraries if not re.fullmatch(EVERYWHERE, name)]
    expect(not strange, f"{where}: needs libraries that not every machine has: {strange}")


def check_sdist(path: Path) -> None:
    """Checks the contents of the source distribution."""
    with tarfile.open(path) as sdist:
        root = path.name.removesuffix(".tar.gz")
        names = {name.removeprefix(f"{root}/") for name in sdist.getnames()}
        metadata = sdist.extractfile(f"{root}/PKG-INFO")
        assert metadata is not None
        check_metadata(metadata.read().decode(), path.name)
    needed = {
        "Cargo.toml",
        "Cargo.lock",
        "pyproject.toml",
        "scripts/backend.py",
        "README.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
    }
    needed |= {p.as_posix() for p in Path("crates").glob("*/src/**/*.rs")}
    needed |= {p.as_posix() for p in Path("python").rglob("*") if p.suffix in (".py", ".pyi", ".typed")}
    for name in sorted(needed - names):
        expect(False, f"{path.name}: lacks {name}")
    strays = [
        name
        for name in names
        if name.startswith(("target/", "build/", ".venv", "dist/")) or name.endswith(".so")
    ]
    expect(not strays, f"{path.name}: strays: {strays}")


def main() -> None:
    """Checks both files named on the command line."""
    wheel, sdist = (Path(argument) for argument in sys.argv[1:])
    check_wheel(wheel)
    check_sdist(sdist)
    for problem in problems:
        print(f"    {problem}", file=sys.stderr)
    if problems:
        sys.exit(1)
    for path in (wheel, sdist):
        print(f"    {path.name}  {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
