"""Which programs read what `hyperslab.h5` writes: the table in docs/hdf5-writing.md.

`HYPERSLAB_WRITE_TABLES=1` writes the table anew.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import hyperslab as hs
import numpy as np
import pytest
from hdf5_same import same_values
from hyperslab import h5
from servers import tool

PAGE = Path(__file__).parents[2] / "docs" / "hdf5-writing.md"
BEGIN, END = "<!-- readers: tests/h5py/test_h5_readers.py -->\n", "<!-- end of readers -->\n"

_NUMBERS = np.arange(600.0).reshape(20, 30)
_PAIRS = np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])


def _chunked(**options: Any) -> Callable[[Any, Any], None]:
    def make(m: Any, file: Any) -> None:
        file.create_dataset("a", data=_NUMBERS, chunks=(7, 10), **options)

    return make


def _assigned(value: Any) -> Callable[[Any, Any], None]:
    def make(m: Any, file: Any) -> None:
        file["a"] = value

    return make


def _texts(m: Any, file: Any) -> None:
    file.create_dataset("a", data=["été", "", "abc"], dtype=m.string_dtype())


def _enumeration(m: Any, file: Any) -> None:
    file.create_dataset("a", data=[0, 1, 1], dtype=m.enum_dtype({"no": 0, "yes": 1}, basetype="i1"))


def _sequences(m: Any, file: Any) -> None:
    array = file.create_dataset("a", (3,), dtype=m.vlen_dtype("i4"))
    for number in range(3):
        array[number] = np.arange(number)


def _references(m: Any, file: Any) -> None:
    file["b"] = 1
    file.create_dataset("a", data=[file["b"].ref, file.ref], dtype=m.ref_dtype)


def _attributes(m: Any, file: Any) -> None:
    file["a"] = 1
    for number in range(50):
        file["a"].attrs[f"n{number}"] = number


def _links(m: Any, file: Any) -> None:
    for number in range(1000):
        file.create_group(f"many/g{number}")
    file["many/g7/a"] = _NUMBERS
    file["a"] = m.SoftLink("/many/g7/a")


def _external_link(m: Any, file: Any) -> None:
    with m.File(Path(file.filename).with_name("other.h5"), "w") as other:
        other["b"] = _NUMBERS
    file["a"] = m.ExternalLink("other.h5", "/b")


def _virtual(m: Any, file: Any) -> None:
    file["b"] = _NUMBERS
    layout = m.VirtualLayout((20, 30), "f8")
    layout[...] = m.VirtualSource(".", "b", (20, 30))
    file.create_virtual_dataset("a", layout)


def _committed(m: Any, file: Any) -> None:
    file["type"] = _PAIRS.dtype
    file.create_dataset("a", data=_PAIRS, dtype=file["type"])


def _appended(axes: int) -> Callable[[Any, Any], None]:
    def make(m: Any, file: Any) -> None:
        most = (None, 30) if axes == 1 else (None, None)
        array = file.create_dataset("a", (0, 30), "f8", maxshape=most, chunks=(2, 10), compression="gzip")
        for row in range(20):
            array.resize((row + 1, 30))
            array[row] = _NUMBERS[row]

    return make


def _changed(m: Any, file: Any) -> None:
    file["b"], file["a"] = 1, np.zeros((20, 30))
    file.flush()
    file["a"][...] = _NUMBERS
    file["a"].attrs["units"] = "K"
    del file["b"]


def _scaled(m: Any, file: Any) -> None:
    file.create_dataset("a", data=_NUMBERS.astype("i4"), chunks=(7, 10), scaleoffset=0)


def _external_elements(m: Any, file: Any) -> None:
    raw = Path(file.filename).with_suffix(".raw")
    file.create_dataset("a", data=_NUMBERS, external=[(str(raw), 0, m.h5f.UNLIMITED)])


# Each makes the dataset "a".
FEATURES: dict[str, Callable[[Any, Any], None]] = {
    "numbers, one run of bytes": _assigned(_NUMBERS),
    "big-endian numbers": _assigned(_NUMBERS.astype(">f4")),
    "complex numbers": _assigned(_NUMBERS + 1j),
    "booleans": _assigned(np.array([True, False])),
    "enumerations": _enumeration,
    "text of fixed length": _assigned(np.array([b"ab", b"c"])),
    "text of variable length": _texts,
    "compounds": _assigned(_PAIRS),
    "sequences of variable length": _sequences,
    "references to objects": _references,
    "committed types": _committed,
    "chunks": _chunked(),
    "gzip and shuffle": _chunked(compression="gzip", shuffle=True),
    "fletcher32": _chunked(fletcher32=True),
    "lzf": _chunked(compression="lzf"),
    "scale-offset": _scaled,
    "zstd": _chunked(**hdf5plugin.Zstd()),
    "blosc": _chunked(**hdf5plugin.Blosc()),
    "rows appended along one axis": _appended(1),
    "along one of two axes that grow": _appended(2),
    "50 attributes": _attributes,
    "1000 links in a group, a soft link": _links,
    "external links": _external_link,
    "elements in other files": _external_elements,
    "virtual datasets": _virtual,
    "objects changed after a flush": _changed,
}


def _by_h5py(path: Path, expected: Path) -> bool:
    with h5py.File(path) as file, h5py.File(expected) as real:
        same_values(file["a"][()], real["a"][()], "a")
        return dict(file["a"].attrs) == dict(real["a"].attrs)


def _by_h5dump(path: Path, expected: Path) -> bool:
    found = []
    for one in (path, expected):
        command = [tool("h5dump"), "-d", "/a", str(one)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
        # The name of the file, and the addresses of referred objects differ.
        shown = re.sub(r"(GROUP|DATASET) \d+ ", r"\1 ", done.stdout.partition("\n")[2])
        found.append((shown, done.returncode))
    return found[0] == found[1] and found[0][1] == 0 and "error" not in found[0][0].lower()


def _values(found: Any, path: Path) -> bool:
    with h5py.File(path) as real:
        wanted = real["a"]
        if h5py.check_ref_dtype(wanted.dtype) is not None:
            # The addresses differ.
            return np.shape(found) == wanted.shape
        if h5py.check_string_dtype(wanted.dtype) and wanted.dtype == object:
            wanted = wanted.asstr()
        expected = np.asarray(wanted[()])
    found = np.asarray(found)
    if expected.dtype == object:
        text = (
            (lambda one: one.decode() if isinstance(one, bytes) else one) if found.dtype != object else None
        )
        values = [text(one) if text else one for one in found.ravel()]
        return [np.asarray(one).tolist() for one in values] == [
            np.asarray(one).tolist() for one in expected.ravel()
        ]
    if found.dtype.names is None and expected.dtype.names is None:
        found = found.astype(expected.dtype)
    return found.tolist() == expected.tolist()


def _by_netcdf(path: Path, expected: Path) -> bool:
    netCDF4 = pytest.importorskip("netCDF4")
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        attributes = len(file["a"].ncattrs())
        with h5py.File(expected) as real:
            return attributes == len(real["a"].attrs) and _values(file["a"][...], expected)


def _by_pytables(path: Path, expected: Path) -> bool:
    tables = pytest.importorskip("tables")
    with tables.open_file(str(path)) as file:
        node = file.get_node("/a")
        node = node.dereference() if isinstance(node, tables.link.SoftLink) else node
        return _values(node.read(), expected)


def _by_pyfive(path: Path, expected: Path) -> bool:
    pyfive = pytest.importorskip("pyfive")
    with pyfive.File(path) as file, h5py.File(expected) as real:
        node = file["a"]
        return len(node.attrs) == len(real["a"].attrs) and _values(node[()], expected)


def _by_us(path: Path, expected: Path) -> bool:
    with hs.File(path) as file, h5py.File(expected) as real:
        same_values(file["a"][()], real["a"][()], "a")
        return len(file["a"].attrs) == len(real["a"].attrs)


READERS = {
    "h5py": _by_h5py,
    "h5dump": _by_h5dump,
    "netCDF4": _by_netcdf,
    "PyTables": _by_pytables,
    "pyfive": _by_pyfive,
    "hyperslab": _by_us,
}


def _answers(reader: Callable[[Path, Path], bool], path: Path, expected: Path) -> bool:
    """Returns true if a program reads the values of h5py's file from a file."""
    try:
        return reader(path, expected)
    except pytest.skip.Exception:
        raise
    except Exception:
        return False


def _heads() -> dict[str, str]:
    netCDF4, tables, pyfive = (pytest.importorskip(name) for name in ("netCDF4", "tables", "pyfive"))
    version = subprocess.run([tool("h5dump"), "--version"], capture_output=True, text=True, check=True)
    return {
        "h5py": f"h5py {h5py.__version__} (HDF5 {h5py.version.hdf5_version})",
        "h5dump": f"h5dump {version.stdout.split()[-1]}",
        "netCDF4": f"netCDF4 {netCDF4.__version__} (netCDF-C {netCDF4.__netcdf4libversion__})",
        "PyTables": f"PyTables {tables.__version__}",
        "pyfive": f"pyfive {pyfive.__version__}",
        "hyperslab": "hyperslab",
    }


def test_the_table_of_readers(tmp_path: Path) -> None:
    heads = _heads()
    lines = [["written", *heads.values()], ["---"] * (len(heads) + 1)]
    worse = []
    for name, make in FEATURES.items():
        cells = []
        for libver in ("earliest", "v110"):
            folder = tmp_path / libver
            folder.mkdir(exist_ok=True)
            ours, theirs = folder / "ours.h5", folder / "theirs.h5"
            # netCDF reads groups that keep the order of their members.
            for m, path in ((h5, ours), (h5py, theirs)):
                with m.File(path, "w", libver=(libver, "v110"), track_order=True) as file:
                    make(m, file)
            cells.append({reader: _answers(read, ours, theirs) for reader, read in READERS.items()})
            for reader, read in READERS.items():
                if _answers(read, theirs, theirs) and not cells[-1][reader]:
                    worse.append((name, libver, reader))
        words = {(True, True): "yes", (False, False): "no", (True, False): "earliest", (False, True): "v110"}
        lines.append([name, *(words[cells[0][reader], cells[1][reader]] for reader in READERS)])
    table = (
        "".join("| " + " | ".join(line) + " |\n" for line in lines)
        .replace("| --- ", "|---")
        .replace("---| |", "---|")
    )
    # Nobody reads less of our files than of h5py's.
    assert not worse, "; ".join(map(str, worse))
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    old, _, after = rest.partition(END)
    if os.environ.get("HYPERSLAB_WRITE_TABLES") == "1":
        PAGE.write_text(f"{before}{BEGIN}{table}{END}{after}", encoding="utf-8")
    else:
        assert old == table, "HYPERSLAB_WRITE_TABLES=1 writes the table anew"
