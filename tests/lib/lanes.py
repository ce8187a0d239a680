"""The lanes of tests: markers that the everyday loop leaves out, and the tests that have them.

`pytest` runs tests without these markers; `make test` runs all. A new test needs no entry here unless
it takes more than about two seconds, kills processes, forks, starts a real server, or compares with
other software at length.
"""

from __future__ import annotations

from pathlib import Path

LANES: dict[str, list[str]] = {
    "kill": [
        "copy/test_copy_crash.py",
        "copy/test_plan_copy_kills.py",
        "copy/test_plan_copy_scheduler.py",
        "dask/test_dask_cluster.py",
        "groups/test_metadata_kill.py",
        "shards/test_shards_kill.py",
    ],
    "fork": [
        "cli/test_cli_signals.py",
        "groups/test_metadata_races.py",
        "hdf5/test_fork_hdf5.py",
        "processes/test_exit.py",
        "processes/test_fork.py",
        "processes/test_fork_storm.py",
        "processes/test_handlers.py",
        "processes/test_processes.py",
    ],
    "servers": [
        "remote/test_remote_servers.py",
        "remote/test_servers.py",
    ],
    "differential": [
        "h5py/test_h5_programs.py",
        "h5py/test_h5py_suite.py",
        "hdf5/test_hdf5_corpus.py",
        "hdf5/test_hdf5_sweep.py",
        "shards/test_shards_differential.py",
        "xarray/test_meaning.py",
        "zarr/test_differential_large.py",
        "zarr/test_differential_tensorstore.py",
        "zarr/test_differential_zarr.py",
        "zarr/test_zarr_programs.py",
        "zarr/test_zarr_suite.py",
    ],
    "slow": [],
}
"""Marker → files, or ``file::test``, below `tests/`."""

TESTS = Path(__file__).parents[1]


def markers_of(path: Path, name: str) -> list[str]:
    """Returns the markers of a test, by its file and the name of its function."""
    file = path.relative_to(TESTS).as_posix()
    return [lane for lane, entries in LANES.items() if file in entries or f"{file}::{name}" in entries]


def missing() -> list[str]:
    """Returns the entries that name no test."""
    found = []
    for entry in (entry for entries in LANES.values() for entry in entries):
        file, _, name = entry.partition("::")
        path = TESTS / file
        if not path.exists() or f"def {name or 'test_'}" not in path.read_text():
            found.append(entry)
    return found
