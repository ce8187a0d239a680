//! Python's lock: work without it, code under it, threads of an ending interpreter.

pub(crate) mod attach;
pub(crate) mod engine;
pub(crate) mod gil_dropped;
pub(crate) mod once;
#[cfg(wraps_personality)]
pub(crate) mod shutdown;
pub(crate) mod stop;
