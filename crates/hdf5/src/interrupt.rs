//! Stops long work. The check for an interrupt runs between structures of metadata.
//!
//! The engine, which knows no files, reads indexes, groups and attributes far below the call that
//! needs them. The check therefore applies to the whole process.

use hyperslab_store::fork::Lazy;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static ASK: Lazy<fn() -> bool> = Lazy::new();

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Stops work in the whole process, or allows it again. Signal handlers may call this.
pub fn stop(stop: bool) {
    STOPPED.store(stop, Relaxed);
}

/// Sets the check for interrupts. Only the first call counts.
///
/// The reading thread runs the check very often, so it has to be quick. `true` ends the work with
/// [`Hdf5Error::Interrupted`](crate::Hdf5Error::Interrupted). The check may run foreign code: apart
/// from a turn, no lock is held meanwhile.
pub fn ask_with(ask: fn() -> bool) {
    ASK.put(ask);
}

pub(crate) fn is_wanted() -> bool {
    STOPPED.load(Relaxed) || ASK.get().is_some_and(|ask| ask())
}
