"""Runs some of zarr-python's own tests with our pipeline.

A table in docs/zarr-python.md lists the tests that fail. The tests are in the source distribution
of zarr: `scripts/zarr-tests.sh` unpacks it in ``build/zarr-tests``, or ``ZARR_TESTS`` names a
directory with one. `zarr_judge.py` compares more tests with the default pipeline.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import zarr
import zarr_judge

ROOT = Path(__file__).resolve().parents[2]
# Tests that take less than two minutes.
PARTS = """
    test_codecs/test_sharding.py test_codecs/test_scale_offset.py test_codecs/test_codecs.py
    test_codecs/test_transpose.py test_codecs/test_vlen.py test_codecs/test_bytes.py test_v2.py
    test_pipeline_parity.py test_codec_pipeline.py test_unified_chunk_grid.py test_config.py
    test_array.py test_indexing.py
""".split()


def expected() -> set[str]:
    """Returns the names of tests in the table of the documentation, with their parameters."""
    section = (ROOT / "docs/zarr-python.md").read_text().partition("## zarr-python's tests")[2]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def directory() -> Path:
    """Returns the folder with zarr-python's tests."""
    if not zarr.__version__.startswith("3.4."):
        pytest.skip(f"the table is about zarr-python 3.4; here is {zarr.__version__}")
    given = os.environ.get("ZARR_TESTS")
    found = Path(given) if given else ROOT / f"build/zarr-tests/zarr-{zarr.__version__}"
    if not (found / "tests").is_dir():
        reason = f"no tests of zarr-python {zarr.__version__} in {found}: scripts/zarr-tests.sh"
        if os.environ.get("HYPERSLAB_NEED_SERVERS"):
            pytest.fail(reason)
        pytest.skip(reason)
    if zarr.__version__ not in found.resolve().name:
        pytest.skip(f"{found} is not of zarr-python {zarr.__version__}")
    return found


# Takes two minutes on an idle machine.
@pytest.mark.timeout(1800)
def test_zarr_suite() -> None:
    found = zarr_judge.run(directory(), zarr_judge.OURS, [f"tests/{name}" for name in PARTS])
    failed = {name.rpartition("::")[2] for name, outcome in found["outcomes"].items() if outcome == "failed"}
    # For a test with many parameters, the table has only the name.
    assert {name if name in expected() else name.partition("[")[0] for name in failed} == expected(), found[
        "output"
    ][-10000:]
    assert sum(outcome == "passed" for outcome in found["outcomes"].values()) > 4000
