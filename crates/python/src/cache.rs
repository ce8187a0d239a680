//! The base class of `hyperslab.Cache`.

use hyperslab::array::ChunkCache;
use pyo3::prelude::*;
use std::sync::Arc;

/// Decoded chunks that are kept. Its lock is held for moments and never while waiting for the GIL.
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

    /// The most bytes that it keeps.
    #[getter]
    fn limit(&self) -> usize {
        self.cache.limit()
    }

    /// Bytes kept now.
    #[getter]
    fn nbytes(&self) -> usize {
        self.cache.bytes()
    }

    /// How often a chunk was found in it, unchanged.
    #[getter]
    fn hits(&self) -> u64 {
        self.cache.hits_and_misses().0
    }

    /// How often a chunk was not found, or had changed.
    #[getter]
    fn misses(&self) -> u64 {
        self.cache.hits_and_misses().1
    }

    /// Drop all chunks; the counts stay.
    fn clear(&self, py: Python<'_>) {
        // Giving pages back takes long.
        py.detach(|| self.cache.clear());
    }
}
