"""What all tests share.

Generated tests choose other cases on every run, from a seed that the header tells: ``HYPERSLAB_SEED=…`` with
that number repeats a run. Beside each failure stands what repeats that case alone.
``HYPERSLAB_EXAMPLES=5000`` runs so many cases of each test instead of the usual few.

Files that other projects wrote are read from ``HYPERSLAB_CORPORA`` (default: ``shared/corpora`` beside the
project).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

# Before netCDF4, which has HDF5 filters of its own under the same numbers.
import hdf5plugin  # noqa: F401
import hyperslab as hs
import hypothesis
import hypothesis.core
import numpy as np
import pytest
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

# zarr-python warns of element types whose v3 names may change; that is theirs to know, and ours to
# read.
warnings.filterwarnings("ignore", module="zarr")


def pytest_report_header(config: pytest.Config) -> str:
    return f"generated tests: HYPERSLAB_SEED={SEED} repeats this run"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # The header is not shown by `pytest -q`.
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"generated tests: HYPERSLAB_SEED={SEED} repeats this run")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hypothesis-seed", None) is None:
        hypothesis.core.global_force_seed = SEED
    for category in ("UnstableSpecificationWarning", "ZarrUserWarning"):
        config.addinivalue_line("filterwarnings", f"ignore::zarr.errors.{category}")
    # Bits that mean NaN, on purpose.
    config.addinivalue_line("filterwarnings", "ignore:invalid value encountered:RuntimeWarning")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of files that other projects wrote."""
    if not CORPORA.is_dir():
        pytest.skip(f"there is no {CORPORA}: set HYPERSLAB_CORPORA to the folder of other projects' files")
    return CORPORA


@pytest.fixture(autouse=True)
def settings_as_they_were() -> Iterator[None]:
    """A test that changes settings changes them for itself only."""
    before = hs.config.to_dict()
    yield
    hs.config.set(before)


@pytest.fixture
def seed() -> int:
    """Another number on every run, unless HYPERSLAB_SEED is set."""
    return SEED


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240229)
