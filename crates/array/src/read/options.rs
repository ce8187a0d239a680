//! Options of a read.

use crate::execute::tasks::Interrupt;
use crate::read::cache::ChunkCache;

/// Options of one read.
#[derive(Clone, Copy, Default)]
pub struct ReadOptions<'a> {
    /// How many threads may work on it, the caller's included; `None`:
    /// [`crate::settings::threads`].
    pub threads: Option<usize>,
    /// Whether checksums are verified; `None`: [`crate::settings::verify_checksums`].
    pub verify: Option<bool>,
    /// Whether [`crate::read()`] makes the first axis of its result the fastest (Fortran's order)
    /// instead of the last.
    pub fortran: bool,
    /// Asked by the calling thread between chunks; `true` stops the read.
    pub interrupt: Option<Interrupt<'a>>,
    /// Where decoded chunks are kept, and looked for first; `None`: nowhere.
    pub cache: Option<&'a ChunkCache>,
}
