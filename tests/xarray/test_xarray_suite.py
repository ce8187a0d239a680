"""xarray's own tests of the engines netcdf4 and h5netcdf, with `to_netcdf` as writer.

docs/xarray.md has a table of failing tests.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

xr = pytest.importorskip("xarray")

ROOT = Path(__file__).resolve().parents[2]
MODULES = ["xarray.tests.test_backends", "xarray.tests.test_backends_datatree"]
CLASSES = (
    "TestNetCDF4Data TestNetCDF4ViaDaskData TestH5NetCDFData TestH5NetCDFViaDaskData TestDataArrayToNetCDF "
    "TestEncodingInvalid TestValidateAttrs TestNetCDF4DatatreeIO TestH5NetCDFDatatreeIO"
).split()
WHICH = f"({' or '.join(CLASSES)}) and not Ros3"

pytestmark = [
    # Not imported: its marks are not known here.
    pytest.mark.skipif(importlib.util.find_spec("xarray.tests") is None, reason="xarray without its tests"),
    pytest.mark.skipif(sys.version_info < (3, 12), reason="once is enough: on the newest Python"),
    pytest.mark.skipif(
        not xr.__version__.startswith("2026.9."), reason="the table is about the tests of xarray 2026.9"
    ),
]


def expected(run: str) -> set[str]:
    """Returns the names of tests in the table of the documentation that fail in a run."""
    section = (
        (ROOT / "docs/xarray.md").read_text().partition("## xarray's own tests")[2].partition("\n## ")[0]
    )
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    return {
        name
        for names, runs in rows
        if run in [each.strip() for each in runs.split(",")]
        for name in re.findall(r"`([^`]+)`", names)
    }


@pytest.mark.parametrize("run", ["W", "RW"])
def test_in_place_of_the_engines(run: str, tmp_path: Path) -> None:
    paths = os.pathsep.join([str(ROOT / "tests" / "lib"), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"),
            *("-p", "xarray_suite_judge", "-k", WHICH, "--pyargs", *MODULES),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths, "HYPERSLAB_XARRAY_RUN": run},
        capture_output=True,
        text=True,
        timeout=900,
    )
    report = tmp_path / "report.json"
    assert report.exists(), done.stdout + done.stderr
    outcomes = json.loads(report.read_text())
    names = {name for name, outcome in outcomes.items() if outcome == "failed"}
    failed = {name.partition("[")[0].rpartition(".")[2] for name in names}
    assert failed == expected(run), done.stdout[-10000:]
    assert sum(outcome == "passed" for outcome in outcomes.values()) > 400
