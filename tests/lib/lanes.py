"""The lanes of tests: markers that the everyday loop leaves out, and the tests that have them.

`pytest` runs tests without these markers; `make test` runs all. A new test needs no entry here unless
it takes more than a second, needs its usual number of generated cases, kills processes, forks, starts
a real server, or compares with other software at length.
"""

from __future__ import annotations

from pathlib import Path

LANES: dict[str, list[str]] = {
    "kill": [
        "copy/test_copy_crash.py",
        "copy/test_plan_copy_kills.py",
        "copy/test_plan_copy_scheduler.py",
        "copy/test_plan_copy_trials.py",
        "dask/test_dask_cluster.py",
        "dask/test_dask_icechunk.py",
        "dask/test_dask_kills.py",
        "groups/test_metadata_kill.py",
        "hdf5/test_hdf5_kills.py",
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
        "hdf5/test_hdf5_write.py::test_generated_files",
        "shards/test_shards_differential.py",
        "xarray/test_meaning.py",
        "zarr/test_differential_large.py",
        "zarr/test_differential_tensorstore.py",
        "zarr/test_differential_zarr.py",
        "zarr/test_zarr_programs.py",
        "zarr/test_zarr_suite.py",
    ],
    "slow": [
        "array/test_allocations.py::test_folders_of_references_for_millions_of_rows",
        "array/test_allocations.py::test_small_integers_of_zfp",
        "array/test_cache.py::test_a_cached_chunk_takes_one_system_call",
        "array/test_cache.py::test_a_reader_is_never_behind_another_process",
        "array/test_cache.py::test_every_kind_of_change_shows",
        "array/test_cache.py::test_forks_while_threads_use_the_cache",
        "array/test_cache.py::test_other_metadata_for_the_same_chunks",
        "array/test_cache.py::test_resize",
        "array/test_racing_memory.py::test_chunks_written_from_changing_memory_decode",
        "array/test_shown.py::test_what_a_web_server_does_not_list_is_not_known",
        "array/test_sparse.py::test_changes_show_at_once",
        "array/test_sparse.py::test_values_now_and_later",
        "array/test_stale_handles.py::test_many_writers_lose_nothing",
        "array/test_stale_handles.py::test_rounds_at_the_edge",
        "array/test_stream.py::test_a_writer_left_open_at_exit",
        "array/test_stream.py::test_memory_is_bounded",
        "array/test_syscalls.py::test_per_chunk",
        "array/test_threads.py::test_large_chunks_are_never_torn",
        "cli/test_cli.py",
        "compute/test_map_chunks.py::test_executors",
        "compute/test_tasks.py::test_lost_workers_of_a_pool",
        "compute/test_tasks.py::test_lost_workers_of_dask",
        "compute/test_tasks.py::test_results",
        "compute/test_tasks.py::test_retries",
        "copy/test_plan_copy.py::test_errors_of_tasks",
        "copy/test_plan_copy.py::test_killed_between_the_last_steps",
        "copy/test_plan_copy.py::test_processes",
        "copy/test_plan_copy_checks.py::test_a_bar_on_standard_error",
        "copy/test_plan_copy_checks.py::test_a_byte_that_was_flipped_is_written_anew",
        "copy/test_plan_copy_checks.py::test_copies_are_compared_by_tasks",
        "copy/test_plan_copy_cli.py",
        "copy/test_plan_copy_fence.py::test_a_server_without_conditions",
        "copy/test_plan_copy_late.py::test_a_run_is_stopped_while_it_moves_the_copy",
        "copy/test_plan_copy_regions.py::test_values_and_counts_as_planned",
        "copy/test_plan_copy_size.py",
        "dask/test_dask.py::test_threads_of_dask_and_of_the_engine_do_not_multiply",
        "elements/test_masked.py::test_large_results_of_every_strategy",
        "elements/test_masked.py::test_what_equals_the_fill_value_is_masked",
        "groups/test_large_groups.py",
        "hdf5/test_hdf5_api.py::test_what_cannot_be_read_does_not_hide_the_rest",
        "hdf5/test_hdf5_bad.py",
        "hdf5/test_hdf5_corners.py::test_long_work_hears_ctrl_c",
        "hdf5/test_hdf5_interrupts.py::test_commands",
        "hdf5/test_hdf5_interrupts.py::test_keyboard_interrupt",
        "hdf5/test_hdf5_interrupts.py::test_the_file_takes_many_reads",
        "hdf5/test_hdf5_lookup.py",
        "hdf5/test_hdf5_nested.py::test_very_many",
        "hdf5/test_hdf5_netcdf.py::test_files_of_other_projects",
        "hdf5/test_hdf5_netcdf.py::test_phony_dimensions",
        "hdf5/test_hdf5_netcdf.py::test_what_netcdf_writes",
        "hdf5/test_hdf5_threads.py",
        "hdf5/test_vlen_hdf5.py::test_damaged_heaps",
        "hdf5/test_vlen_hdf5.py::test_reads_of_a_heap",
        "hdf5/test_vlen_hdf5.py::test_very_many",
        "hostile/test_absurd_sizes.py::test_copies_of_deep_groups_cost_what_they_are_deep",
        "hostile/test_absurd_sizes.py::test_deep_hdf5_groups",
        "hostile/test_limits.py::test_more_files_than_descriptors",
        "packaging/test_gallery.py::test_the_gallery_runs",
        "packaging/test_support_table.py::test_each_row",
        "remote/test_remote_appends.py::test_each_row_is_there_once",
        "remote/test_remote_cache.py::test_many_processes_and_one_small_folder",
        "remote/test_remote_changes.py::test_changes_of_all_processes_stay",
        "remote/test_remote_credentials.py::test_credentials_are_renewed_before_they_end",
        "remote/test_remote_credentials.py::test_moto_takes_the_signatures",
        "remote/test_remote_faults.py::test_writers_lose_nothing",
        "remote/test_remote_s3.py::test_processes_that_write_to_one_chunk_lose_nothing",
        "shards/test_shards_concurrent.py::test_processes_lose_nothing",
        "shards/test_shards_memory.py::test_a_shard_is_never_in_memory",
        "shards/test_shards_syscalls.py::test_48_of_64_inner_chunks",
        "stores/test_mapping_stores.py::test_fork_while_other_threads_read",
        "stores/test_mapping_stores.py::test_memory_urls",
        "stores/test_zip.py::test_a_killed_writer_leaves_an_archive",
        "stores/test_zip.py::test_archives_of_others",
        "stores/test_zip.py::test_processes_append_one_after_the_other",
        "stores/test_zip.py::test_the_command_line",
        "xarray/test_anndata.py::test_copies_are_equal",
        "xarray/test_meaning_odd.py::test_refusals_say_how_to_go_on",
        "xarray/test_xarray_replace.py::test_a_cluster_writes_to_a_server",
        "xarray/test_xarray_replace.py::test_killed",
        "xarray/test_xarray_replace.py::test_workers_of_a_cluster_write_beside",
        "xarray/test_xarray_write.py::test_cluster",
        "xarray/test_xarray_write.py::test_many_variables_on_a_server",
        "zarr/test_zarr_functions.py::test_groups_are_listed_in_one_pass",
    ],
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
