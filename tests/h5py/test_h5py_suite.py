"""h5py's own tests with hyperslab doing the reading. docs/h5py.md has a table of failing tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

ROOT = Path(__file__).resolve().parents[2]
# Modules that read something. Tests of aligned writes take too long.
MODULES = """
    test_attribute_create test_attrs test_attrs_data test_base test_big_endian_file
    test_completions test_dataset test_dataset_getitem test_dataset_swmr test_datatype
    test_dimension_scales test_dims_dimensionproxy test_dtype test_file test_file2
    test_file_image test_filters test_group test_h5d_direct_chunk test_h5f test_native_complex
    test_npystrings test_selections test_slicing test_vds
""".split()


def expected() -> set[str]:
    """Returns the names of tests in the table of the documentation."""
    section = (ROOT / "docs/h5py.md").read_text().partition("## h5py's own tests")[2]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="once is enough: on the newest Python")
@pytest.mark.skipif(
    not h5py.__version__.startswith("3.16."), reason="the table is about the tests of h5py 3.16"
)
def test_h5py_suite(tmp_path: Path) -> None:
    pytest.importorskip("h5py.tests")
    report = tmp_path / "report.json"
    paths = os.pathsep.join([str(ROOT / "tests" / "lib"), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "--tb=short",
                "-p",
                "no:cacheprovider",
                "-p",
                "h5py_judge",
            ),
            # Superusers may write anywhere.
            *("-k", "not TestMPI and not test_append_permissions"),
            *("--pyargs", *(f"h5py.tests.{module}" for module in MODULES)),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths, "H5PY_JUDGE": str(report)},
        capture_output=True,
        text=True,
    )
    assert report.exists(), done.stdout + done.stderr
    found = json.loads(report.read_text())
    failed = {
        name.partition("::")[2].partition("[")[0]
        for name, outcome in found["outcomes"].items()
        if outcome == "failed"
    }
    assert failed == expected(), done.stdout[-10000:]
    assert sum(outcome == "passed" for outcome in found["outcomes"].values()) > 700
    assert found["read"] > 1000
