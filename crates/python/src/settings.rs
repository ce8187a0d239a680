//! The engine's settings, set by `hyperslab.config`.

use hyperslab::settings;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static READ_MISSING: AtomicBool = AtomicBool::new(true);

/// True: missing chunks are read as fill value, unless the array says otherwise.
pub(crate) fn read_missing_chunks() -> bool {
    READ_MISSING.load(Relaxed)
}

/// Sets [`read_missing_chunks`].
#[pyfunction]
pub(crate) fn set_read_missing_chunks(on: bool) {
    READ_MISSING.store(on, Relaxed);
}

/// Functions that pass a value to the engine without the GIL, because freeing pages takes long.
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
    /// Sets the number of threads for one request. 0: one per core.
    set_threads(count: usize);
    /// Sets the largest number of bytes kept for later results.
    set_recycler_bound(bytes: usize);
    /// Turns verification of checksums on or off.
    set_verify_checksums(on: bool);
    /// Turns storing of chunks that hold only the fill value on or off.
    set_write_empty_chunks(on: bool);
    /// Turns file locks against other processes on or off, for local stores opened from now on.
    set_file_locks(on: bool);
    /// Sets the largest number of inner chunks of shards that are decoded at a time.
    set_decodes_in_flight(count: usize);
    /// Turns reading of only the wanted ranges of shards on or off.
    set_partial_reads(on: bool);
    /// Turns decoding of only the wanted part of chunks on or off.
    set_partial_decode(on: bool);
    /// Sets the largest number of bytes of cached shard indexes.
    set_shard_index_bound(bytes: usize);
    /// Sets the bytes to which any chunk of variable-length elements may decode, however small.
    set_vlen_chunk_bound(bytes: usize);
}

/// Sets the policy for other files that a file refers to.
#[pyfunction]
pub(crate) fn set_external_files(policy: &str) -> PyResult<()> {
    settings::set_external_files(policy.parse().map_err(PyValueError::new_err)?);
    Ok(())
}

/// Sets the largest number of requests per second to each host. `None`: no limit.
#[pyfunction]
#[pyo3(signature = (most))]
pub(crate) fn set_requests_per_second(most: Option<f64>) {
    hyperslab::remote::set_requests_per_second(most);
}

/// Number of bytes that wait for reuse.
#[pyfunction]
pub(crate) fn recycled_bytes() -> usize {
    hyperslab::array::recycled_bytes()
}
