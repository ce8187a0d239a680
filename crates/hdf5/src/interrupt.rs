//! Stopping long work: whether somebody wants that is asked between structures of metadata.
//!
//! Indexes, groups and attributes are read far below the calls that need them, by an engine that
//! knows no files. So the question is one of the whole process.

use hyperslab_store::fork::Lazy;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static ASK: Lazy<fn() -> bool> = Lazy::new();

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Stops such work in the whole process, or allows it again. Signal handlers may call this.
pub fn stop(stop: bool) {
    STOPPED.store(stop, Relaxed);
}

/// Sets the check for interrupts. The reading thread calls it very often, so it has to be quick;
/// `true` ends the work with [`Hdf5Error::Interrupted`](crate::Hdf5Error::Interrupted). It may run
/// foreign code: no lock but a turn is held meanwhile. Only the first call of this method counts.
pub fn ask_with(ask: fn() -> bool) {
    ASK.put(ask);
}

pub(crate) fn is_wanted() -> bool {
    STOPPED.load(Relaxed) || ASK.get().is_some_and(|ask| ask())
}
