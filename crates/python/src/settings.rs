//! The engine's settings, set by `hyperslab.config`.

use hyperslab::settings;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static FORTRAN: AtomicBool = AtomicBool::new(false);
static READ_MISSING: AtomicBool = AtomicBool::new(true);

/// Whether results of Zarr v3 arrays have their first axis fastest, where the array says nothing
/// else.
pub(crate) fn fortran_results() -> bool {
    FORTRAN.load(Relaxed)
}

/// Whether missing chunks are read as fill values, where the array says nothing else.
pub(crate) fn read_missing_chunks() -> bool {
    READ_MISSING.load(Relaxed)
}

/// Sets [`fortran_results`].
#[pyfunction]
pub(crate) fn set_fortran_results(on: bool) {
    FORTRAN.store(on, Relaxed);
}

/// Sets [`read_missing_chunks`].
#[pyfunction]
pub(crate) fn set_read_missing_chunks(on: bool) {
    READ_MISSING.store(on, Relaxed);
}

/// Threads for one request; 0: one per core.
#[pyfunction]
pub(crate) fn set_threads(count: usize) {
    settings::set_threads(count);
}

/// The most bytes kept for results to come.
#[pyfunction]
pub(crate) fn set_recycler_bound(py: Python<'_>, bytes: usize) {
    // Giving pages back takes long.
    py.detach(|| settings::set_recycler_bound(bytes));
}

/// Whether checksums are verified.
#[pyfunction]
pub(crate) fn set_verify_checksums(on: bool) {
    settings::set_verify_checksums(on);
}

/// Whether chunks of nothing but fill value are stored.
#[pyfunction]
pub(crate) fn set_write_empty_chunks(on: bool) {
    settings::set_write_empty_chunks(on);
}

/// Whether local stores opened from now on lock files against other processes.
#[pyfunction]
pub(crate) fn set_file_locks(on: bool) {
    settings::set_file_locks(on);
}

/// How many inner chunks of shards are decoded at a time.
#[pyfunction]
pub(crate) fn set_decodes_in_flight(count: usize) {
    settings::set_decodes_in_flight(count);
}

/// Whether only the wanted ranges of shards are read.
#[pyfunction]
pub(crate) fn set_partial_reads(on: bool) {
    settings::set_partial_reads(on);
}

/// Whether chunks are decoded only as far as they are wanted.
#[pyfunction]
pub(crate) fn set_partial_decode(on: bool) {
    settings::set_partial_decode(on);
}

/// The most bytes of indexes of shards that are kept.
#[pyfunction]
pub(crate) fn set_shard_index_bound(py: Python<'_>, bytes: usize) {
    py.detach(|| settings::set_shard_index_bound(bytes));
}

/// Bytes to which a chunk of elements of variable length may decode whatever its stored size is.
#[pyfunction]
pub(crate) fn set_vlen_chunk_bound(bytes: usize) {
    settings::set_vlen_chunk_bound(bytes);
}

/// Which other files a file may lead to.
#[pyfunction]
pub(crate) fn set_external_files(policy: &str) -> PyResult<()> {
    settings::set_external_files(policy.parse().map_err(PyValueError::new_err)?);
    Ok(())
}

/// Bytes waiting to be used again.
#[pyfunction]
pub(crate) fn recycled_bytes() -> usize {
    hyperslab::array::recycled_bytes()
}
