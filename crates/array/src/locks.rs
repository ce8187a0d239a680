//! One writer at a time per chunk.
//!
//! A partial write reads a chunk, overlays it and replaces it. Two threads doing so at once would each put back the other's old
//! elements. Writes of whole chunks take the lock too: one that landed between another's read and its replace would be undone.
//!
//! Locks are striped: a number chosen by the store ([`hyperslab_store::Store::lock_id`]) picks one of a fixed set, so that they need no memory per chunk and
//! arrays opened twice share them. A task holds one lock only, so striping cannot deadlock.

use std::sync::{Mutex, MutexGuard, PoisonError};

const STRIPES: usize = 1024;

/// The locks of this process.
pub(crate) struct ChunkLocks(Box<[Mutex<()>]>);

impl Default for ChunkLocks {
    fn default() -> Self {
        ChunkLocks((0..STRIPES).map(|_| Mutex::new(())).collect())
    }
}

impl ChunkLocks {
    /// Waits for the chunk of this number.
    pub(crate) fn lock(&self, id: u64) -> MutexGuard<'_, ()> {
        // Spread: stores may number objects consecutively or in strides.
        let mixed = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        // A panic under the lock leaves no broken state behind: the lock guards files, and those are replaced atomically.
        self.0[mixed as usize % STRIPES].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
