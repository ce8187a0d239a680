"""h5py's and h5netcdf's own tests, with hyperslab in place of h5py or reading alone.

docs/h5py.md has tables of failing tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import pytest

ROOT = Path(__file__).resolve().parents[2]
# Modules that read something.
READING = """
    test_attribute_create test_attrs test_attrs_data test_base test_big_endian_file
    test_completions test_dataset test_dataset_getitem test_dataset_swmr test_datatype
    test_dimension_scales test_dims_dimensionproxy test_dtype test_file test_file2
    test_file_image test_filters test_group test_h5d_direct_chunk test_h5f test_native_complex
    test_npystrings test_slicing test_vds
""".split()
OTHERS = "test_errors test_file_alignment test_h5 test_h5o test_h5s test_h5t test_h5z".split()

pytestmark = [
    pytest.mark.skipif(sys.version_info < (3, 12), reason="once is enough: on the newest Python"),
    pytest.mark.skipif(
        not h5py.__version__.startswith("3.16."), reason="the table is about the tests of h5py 3.16"
    ),
]


def expected(run: str, whose: str = "h5py") -> set[str]:
    """Returns the names of tests in the table of the documentation that fail in a run."""
    section = (
        (ROOT / "docs/h5py.md").read_text().partition(f"## {whose}'s own tests")[2].partition("\n## ")[0]
    )
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    return {name for names, runs in rows if run in runs for name in re.findall(r"`([^`]+)`", names)}


# Superusers may write anywhere.
WHICH = "not TestMPI and not test_append_permissions"


def outcomes(folder: Path, plugin: str, modules: list[str], which: str = WHICH) -> tuple[dict[str, Any], str]:
    """Runs tests of other packages with a plugin. Returns what the plugin reports, and the output."""
    report = folder / "report.json"
    paths = os.pathsep.join([str(ROOT / "tests" / "lib"), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", plugin),
            *("-k", which, "--pyargs", *modules),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "H5PY_JUDGE": str(report)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert report.exists(), done.stdout + done.stderr
    return json.loads(report.read_text()), done.stdout[-10000:]


def failed(found: dict[str, Any]) -> set[str]:
    return {
        name.partition("::")[2].partition("[")[0]
        for name, outcome in found["outcomes"].items()
        if outcome == "failed"
    }


def passed(found: dict[str, Any]) -> int:
    return sum(outcome == "passed" for outcome in found["outcomes"].values())


def test_in_place_of_h5py(tmp_path: Path) -> None:
    pytest.importorskip("h5py.tests")
    modules = [f"h5py.tests.{module}" for module in READING + OTHERS]
    found, output = outcomes(tmp_path, "h5py_suite_judge", modules)
    assert failed(found) == expected("P"), output
    assert passed(found) > 740
    assert found["compared"] > 700


def test_reading(tmp_path: Path) -> None:
    pytest.importorskip("h5py.tests")
    modules = [f"h5py.tests.{module}" for module in [*READING, "test_selections"]]
    found, output = outcomes(tmp_path, "h5py_judge", modules)
    assert failed(found) == expected("R"), output
    assert passed(found) > 700
    assert found["read"] > 1000


def test_h5netcdf_in_place_of_h5py(tmp_path: Path) -> None:
    """h5netcdf writes and reads through hyperslab. netCDF4-python reads and writes the same files."""
    pytest.importorskip("h5netcdf.tests")
    pytest.importorskip("netCDF4")
    # One test needs netCDF's own tools. Tests of pyfive are not about writing.
    which = "not pyfive and not ros3 and not test_is_classic"
    found, output = outcomes(tmp_path, "h5py_suite_judge", ["h5netcdf.tests.test_h5netcdf"], which)
    assert failed(found) == expected("P", "h5netcdf"), output
    assert passed(found) > 200
    assert found["compared"] > 50
