//! The engine's settings, set by `hyperslab.config`.

use hyperslab::settings;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static READ_MISSING: AtomicBool = AtomicBool::new(true);

/// Whether missing chunks are read as fill values, where the array says nothing else.
pub(crate) fn read_missing_chunks() -> bool {
    READ_MISSING.load(Relaxed)
}

/// Sets [`read_missing_chunks`].
#[pyfunction]
pub(crate) fn set_read_missing_chunks(on: bool) {
    READ_MISSING.store(on, Relaxed);
}

/// Functions that pass a value on to the engine, without the GIL: giving pages back takes long.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($value:ident: $type:ty);)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            pub(crate) fn $name(py: Python<'_>, $value: $type) {
                py.detach(|| settings::$name($value));
            }
        )*
    };
}
setters! {
    /// Threads for one request; 0: one per core.
    set_threads(count: usize);
    /// The most bytes kept for results to come.
    set_recycler_bound(bytes: usize);
    /// Whether checksums are verified.
    set_verify_checksums(on: bool);
    /// Whether chunks of nothing but fill value are stored.
    set_write_empty_chunks(on: bool);
    /// Whether local stores opened from now on lock files against other processes.
    set_file_locks(on: bool);
    /// How many inner chunks of shards are decoded at a time.
    set_decodes_in_flight(count: usize);
    /// Whether only the wanted ranges of shards are read.
    set_partial_reads(on: bool);
    /// Whether chunks are decoded only as far as they are wanted.
    set_partial_decode(on: bool);
    /// The most bytes of indexes of shards that are kept.
    set_shard_index_bound(bytes: usize);
    /// Bytes to which any chunk of elements of variable length may decode, however few are stored.
    set_vlen_chunk_bound(bytes: usize);
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
