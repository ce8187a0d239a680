//! The engine's settings, set by `hyperslab.config`.

use hyperslab::array::settings;
use pyo3::prelude::*;

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

/// Bytes waiting to be used again.
#[pyfunction]
pub(crate) fn recycled_bytes() -> usize {
    hyperslab::array::recycled_bytes()
}
