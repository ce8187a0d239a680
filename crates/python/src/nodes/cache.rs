//! The base class of `hyperslab.Cache`.

use hyperslab::array::ChunkCache;
use pyo3::prelude::*;
use std::sync::Arc;

/// A cache of decoded chunks. Its lock is held only briefly, never while waiting for the GIL.
#[pyclass(frozen, subclass, module = "hyperslab._native")]
pub(crate) struct CacheBase {
    pub(crate) cache: Arc<ChunkCache>,
}

#[pymethods]
impl CacheBase {
    #[new]
    fn new(limit: usize) -> Self {
        CacheBase { cache: Arc::new(ChunkCache::new(limit)) }
    }

    /// The largest number of bytes in the cache.
    #[getter]
    fn limit(&self) -> usize {
        self.cache.limit()
    }

    /// The number of bytes in the cache.
    #[getter]
    fn nbytes(&self) -> usize {
        self.cache.bytes()
    }

    /// The number of times that a chunk was found unchanged.
    #[getter]
    fn hits(&self) -> u64 {
        self.cache.hits_and_misses().0
    }

    /// The number of times that a chunk was not found, or had changed.
    #[getter]
    fn misses(&self) -> u64 {
        self.cache.hits_and_misses().1
    }

    /// Drop all chunks. The counts stay.
    fn clear(&self, py: Python<'_>) {
        // Freeing pages takes long.
        py.detach(|| self.cache.clear());
    }
}
