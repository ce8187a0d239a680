//! Options of a read.

use crate::execute::tasks::Interrupt;
use crate::read::cache::ChunkCache;
use std::collections::HashSet;

/// Options of one read.
#[derive(Clone, Copy, Default)]
pub struct ReadOptions<'a> {
    /// Number of threads that may work on the read, including the caller's.
    ///
    /// `None`: [`crate::settings::threads`].
    pub threads: Option<usize>,
    /// Verifies checksums. `None`: [`crate::settings::verify_checksums`].
    pub verify: Option<bool>,
    /// Makes [`crate::read()`] return Fortran order: the first axis is the fastest, not the last.
    pub fortran: bool,
    /// Called between chunks on the calling thread. Return `true` to stop the read.
    pub interrupt: Option<Interrupt<'a>>,
    /// Cache to look up and keep decoded chunks in. `None`: no cache.
    pub cache: Option<&'a ChunkCache>,
    /// The keys of all objects that exist, if the caller has listed them. No others are requested.
    ///
    /// The read shows the array as it was when they were listed, as far as absent objects go.
    pub present: Option<&'a HashSet<String>>,
}
