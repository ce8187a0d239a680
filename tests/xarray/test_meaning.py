"""A dataset means the same to xarray after copies, references and stores, also there and back.

For every kind of file, xarray's own engine and ours open the copy. The result is compared with the
source.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import pytest
from hyperslab import _native
from support import examples

xr = pytest.importorskip("xarray")
pytest.importorskip("netCDF4")
pytest.importorskip("h5netcdf")
pytest.importorskip("zarr")
# Only the newest Python has all judges.
pytest.importorskip("kerchunk")

import hyperslab.zarr  # noqa: E402
from hyperslab.xarray import BackendEntrypoint as Engine  # noqa: E402
from meaning_cases import SOURCES, Source  # noqa: E402
from meaning_judge import Seen, bookkeeping, differences  # noqa: E402

# The formats of copies. Each copy is made from the one before.
CHAINS = ((2,), (3,), (2, 3), (3, 2))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Silences other libraries' warnings about formats and consolidated metadata."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def groups(place: Any, source: Source) -> dict[str, Seen]:
    """Returns all groups of the source, opened by xarray's own engine."""
    if not source.groups:
        return {"": Seen(place, source.engine)}
    # Not as a tree: there, coordinates of inner and outer groups would have to be equal.
    found = xr.open_groups(place, engine=source.engine)
    paths = [group.lstrip("/") for group in found]
    for each in found.values():
        each.close()
    return {path: Seen(place, source.engine, group=path or None) for path in paths}


def faults(
    want: dict[str, Seen], place: Any, engine: Any, version: int, what: str, **options: Any
) -> list[str]:
    """Describes how a dataset opened by an engine differs from the source."""
    told = []
    for path, seen in want.items():
        names = [*seen.variables, *seen.failures]
        try:
            found = Seen(place, engine, names, group=path or None, **options)
            told += [f"/{path}: {line}" for line in differences(seen, found, version)]
        except Exception as error:
            told.append(f"/{path}: {type(error).__name__}: {error}"[:300])
    return [f"{what}: {line}" for line in told]


def copies(
    place: Any, want: dict[str, Seen], folder: Path, chains: tuple[tuple[int, ...], ...] = CHAINS
) -> list[str]:
    """Describes the faults of copies to both formats, and of copies of the copies."""
    made: dict[tuple[int, ...], Any] = {(): place}
    told = []
    for chain in chains:
        target = folder / ("to-" + "-".join(f"v{version}" for version in chain) + ".zarr")
        what = " → ".join(f"v{version}" for version in chain)
        if chain[:-1] not in made:
            continue
        try:
            hs.copy(made[chain[:-1]], target, zarr_format=chain[-1], verify=True)
        except Exception as error:
            told.append(f"{what}: {type(error).__name__}: {error}"[:300])
            continue
        made[chain] = target
        told += [f"{what}: {line}" for line in bookkeeping(target)]
        for engine in ("zarr", Engine):
            name = engine if isinstance(engine, str) else "hyperslab"
            told += faults(want, target, engine, chain[-1], f"{what} by {name}")
    return told


def indexed(path: Path, folder: Path) -> Path:
    """Writes references to a file in kerchunk's format."""
    document = folder / "refs.json"
    code = _native.run_cli(["hyperslab", "index", str(path), "-o", str(document)])
    assert code == 0, f"hyperslab index: {code}"
    return document


def every_fault(place: Path, source: Source, folder: Path) -> list[str]:
    want = groups(place, source)
    told = faults(want, place, Engine, 3, "itself by hyperslab")
    told += copies(place, want, folder)
    if source.is_file:
        options = {"consolidated": False}
        told += faults(want, hyperslab.zarr.Store(place), "zarr", 3, "Store by zarr", **options)
        try:
            document = indexed(place, folder)
        except (Exception, AssertionError) as error:
            return [*told, f"references: {error}"]
        told += faults(want, str(document), "kerchunk", 2, "references by kerchunk")
        told += faults(want, document, Engine, 2, "references by hyperslab")
        told += copies(document, want, folder / "of-references")
    return told


def reported(told: list[str], what: str) -> None:
    more = len(told) - 60
    lines = [*told[:60], *([f"… and {more} more"] if more > 0 else [])]
    assert not told, "\n  ".join([f"{what}:", *lines])


@pytest.mark.parametrize("name", SOURCES)
def test_copies_mean_what_their_source_means(name: str, seed: int, tmp_path: Path) -> None:
    source = SOURCES[name]
    for number in range(examples(1)):
        folder = tmp_path / str(number)
        (folder / "of-references").mkdir(parents=True)
        place = folder / f"source{source.suffix}"
        source.write(place, seed + number)
        reported(every_fault(place, source, folder), f"{name}, seed {seed + number}")


# netCDF-C files that xarray's netCDF4 engine cannot open: netCDF4-python lacks their types.
NOT_OPENED = {"ref_tst_compounds.nc", "ref_tst_xplatform2_1.nc", "ref_tst_xplatform2_2.nc"}

PLAIN = "HDF5 without dimension scales: axes get no names of the library's making"
COMPOUND = "JSON has objects for compounds"
# File, part of a message about its copies, and the reason why the difference is right.
EXCEPTIONS = [
    ("ref_groups.h5", "is missing the", PLAIN),
    ("ref_groups.h5", "has no dimension names", PLAIN),
    ("ref_szip.h5", "is missing the", PLAIN),
    ("ref_szip.h5", "has no dimension names", PLAIN),
    ("tdset.h5", "is missing the", PLAIN),
    ("tdset.h5", "has no dimension names", PLAIN),
    ("ref_tst_h_compounds.h5", "is missing the", PLAIN),
    ("ref_tst_h_compounds.h5", "has no dimension names", PLAIN),
    ("ref_tst_compounds2.nc", "No Zarr data type found", "zarr-python has no arrays in fields"),
    ("ref_tst_compounds2.nc", 'field "y" is an array', "Zarr v3 has no arrays in fields"),
    ("ref_tst_compounds4.nc", "attribute 'a1' is [{'s1': {'x': 1.0, 'y': -2.0}}]", COMPOUND),
    ("ref_tst_h_compounds2.h5", "attribute 'The_Nutmeg_of_Consolation' is [{'s1'", COMPOUND),
]


def test_files_of_netcdf_c(corpora: Path, tmp_path: Path) -> None:
    told: list[str] = []
    refused = set()
    for path in sorted((corpora / "hdf5/netcdf-c").iterdir()):
        source = Source(lambda place, seed: None, path.suffix, "netcdf4", groups=True)
        try:
            want = groups(path, source)
        except Exception:
            refused.add(path.name)
            continue
        folder = tmp_path / path.stem
        folder.mkdir()
        found = copies(path, want, folder, ((2,), (3,)))
        found += faults(want, path, Engine, 3, "itself by hyperslab")
        told += [f"{path.name}: {line}" for line in found]
    assert refused == NOT_OPENED

    def is_excepted(line: str) -> bool:
        return any(line.startswith(f"{file}:") and part in line for file, part, _ in EXCEPTIONS)

    reported([line for line in told if not is_excepted(line)], "files of netCDF-C")
    for file, part, _ in EXCEPTIONS:
        assert any(line.startswith(f"{file}:") and part in line for line in told), (
            f"is not told: {file}, {part}"
        )
