"""Shared by all tests.

Generated tests draw new cases on every run, from a seed shown in the header. ``HYPERSLAB_SEED=…``
with that number repeats a run. Each failure shows how to repeat that case alone.
``HYPERSLAB_EXAMPLES=5000`` runs 5000 cases of each test instead of the usual few, and
``HYPERSLAB_EXAMPLES=25%`` a quarter of the usual number.
``HYPERSLAB_SHARE=2/3`` runs the tests of each third file, beginning with the second.

Files of other projects are read from ``HYPERSLAB_CORPORA`` (default: ``shared/corpora`` beside the
project).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

# Before netCDF4, which has its own HDF5 filters under the same numbers.
import hdf5plugin  # noqa: F401
import hyperslab as hs
import hypothesis
import hypothesis.core
import numpy as np
import pytest
from lanes import LANES, markers_of, missing
from seeds import SEED

CORPORA = Path(os.environ.get("HYPERSLAB_CORPORA") or Path(__file__).parents[2] / "shared" / "corpora")

hypothesis.settings.register_profile(
    "default",
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.data_too_large,
        hypothesis.HealthCheck.filter_too_much,
    ],
)
hypothesis.settings.load_profile("default")

# zarr-python warns about element types whose v3 names may change. The warning is not about our
# code.
warnings.filterwarnings("ignore", module="zarr")


def pytest_report_header(config: pytest.Config) -> str:
    return f"generated tests: HYPERSLAB_SEED={SEED} repeats this run"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # The header is not shown by `pytest -q`.
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"generated tests: HYPERSLAB_SEED={SEED} repeats this run")


def pytest_configure(config: pytest.Config) -> None:
    for lane in LANES:
        config.addinivalue_line("markers", f"{lane}: left out by default; see tests/lib/lanes.py")
    if unknown := missing():
        raise pytest.UsageError(f"tests/lib/lanes.py names tests that do not exist: {unknown}")
    if config.getoption("--hypothesis-seed", None) is None:
        hypothesis.core.global_force_seed = SEED
    for category in ("UnstableSpecificationWarning", "ZarrUserWarning"):
        config.addinivalue_line("filterwarnings", f"ignore::zarr.errors.{category}")
    # NaN bit patterns on purpose.
    config.addinivalue_line("filterwarnings", "ignore:invalid value encountered:RuntimeWarning")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        function = getattr(item, "originalname", None) or item.name
        for marker in markers_of(item.path, function):
            item.add_marker(marker)
    if share := os.environ.get("HYPERSLAB_SHARE"):
        number, shares = map(int, share.split("/"))
        # Fixtures of a file serve all its tests, so that files stay whole.
        files = set(sorted({item.path for item in items})[number - 1 :: shares])
        config.hook.pytest_deselected(items=[item for item in items if item.path not in files])
        items[:] = [item for item in items if item.path in files]


@pytest.fixture(scope="session")
def corpora() -> Path:
    """Returns the folder of other projects' files."""
    if not CORPORA.is_dir():
        pytest.skip(f"there is no {CORPORA}: set HYPERSLAB_CORPORA to the folder of other projects' files")
    return CORPORA


@pytest.fixture(autouse=True)
def settings_as_they_were() -> Iterator[None]:
    """Restores the settings that a test has changed."""
    before = hs.config.to_dict()
    yield
    hs.config.set(before)


@pytest.fixture
def seed() -> int:
    """Returns another number on every run, unless HYPERSLAB_SEED is set."""
    return SEED


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240229)
