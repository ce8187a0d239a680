"""Runs zarr-python's own tests with our codec pipeline and its default one. Lists differences:

    python tests/lib/zarr_judge.py DIRECTORY [arguments of pytest]

The directory is the source distribution of zarr, unpacked (``pip download --no-deps --no-binary zarr zarr``).
This file is also the pytest plugin that writes the outcome of each test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# Makes the name in ``ZARR_CODEC_PIPELINE__PATH`` known if the package is not installed.
import hyperslab.zarr

OURS = "hyperslab.zarr.CodecPipeline"
DEFAULT = "zarr.core.codec_pipeline.BatchedCodecPipeline"
# Tests that read and write chunks.
MODULES = """
    test_codecs test_array.py test_indexing.py test_resize.py test_v2.py test_buffer.py test_config.py
    test_codec_pipeline.py test_codec_pipeline_suite.py test_pipeline_parity.py test_fastpath_equivalence.py
    test_regression test_unified_chunk_grid.py test_codec_entrypoints.py test_group.py test_api.py
""".split()

outcomes: dict[str, str] = {}


def pytest_runtest_logreport(report: Any) -> None:
    name = report.nodeid
    if report.failed or (report.when == "call" and outcomes.get(name) != "failed"):
        outcomes[name] = report.outcome


def pytest_sessionfinish() -> None:
    found = {"outcomes": outcomes, "fallbacks": [each.reason for each in hyperslab.zarr.fallbacks()]}
    Path(os.environ["ZARR_JUDGE"]).write_text(json.dumps(found))


def run(source: Path, pipeline: str, arguments: list[str]) -> dict[str, Any]:
    """Runs tests. Returns the outcome of each."""
    with tempfile.TemporaryDirectory() as place:
        # Spawned processes find the pipeline as if the package were installed.
        entry = Path(place) / "judge-0.dist-info"
        entry.mkdir()
        (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: judge\nVersion: 0\n")
        (entry / "entry_points.txt").write_text(
            f"[zarr.codec_pipeline]\nours = {OURS.replace('.Codec', ':Codec')}\n"
        )
        report = Path(place) / "report.json"
        packages = Path(hyperslab.__file__).resolve().parents[1]
        paths = [str(Path(__file__).resolve().parent), place, str(packages)]
        done = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "pytest",
                    "-q",
                    "--tb=short",
                    "-o",
                    "addopts=",
                    "--hypothesis-seed=0",
                ),
                *("-p", "no:cacheprovider", "-p", "zarr_judge", *arguments),
            ],
            cwd=source,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "ZARR_JUDGE": str(report),
                "ZARR_CODEC_PIPELINE__PATH": pipeline,
            },
            capture_output=True,
            text=True,
        )
        assert report.exists(), done.stdout + done.stderr
        found: dict[str, Any] = json.loads(report.read_text())
    return {**found, "output": done.stdout}


def main() -> None:
    source, *arguments = sys.argv[1:]
    tests = arguments or [f"tests/{name}" for name in MODULES]
    both = [run(Path(source), pipeline, tests)["outcomes"] for pipeline in (DEFAULT, OURS)]
    print(f"{len(both[0])} tests with the default pipeline, {len(both[1])} with ours")
    for name in sorted(both[0].keys() | both[1].keys()):
        default, ours = (found.get(name) for found in both)
        if default != ours:
            print(f"{name}: {default} by default, {ours} with ours")


if __name__ == "__main__":
    main()
