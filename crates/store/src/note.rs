//! A note that callers keep with a handle of a store.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// A number that a caller keeps with a handle of a store ([`Store::note`](crate::Store::note)).
///
/// The store does not use it. A format notes what it has learned about the store, to send fewer
/// requests next time. The note may be out of date, so it may only decide what to ask first.
#[derive(Debug, Default)]
pub struct Note(AtomicU8);

impl Note {
    /// The number. 0 until one is set.
    pub fn get(&self) -> u8 {
        self.0.load(Relaxed)
    }

    /// Replaces the number.
    pub fn set(&self, number: u8) {
        self.0.store(number, Relaxed);
    }
}
