//! Python's lock: work without it, code under it, threads of an ending interpreter.

pub(crate) mod attach;
#[cfg(wraps_personality)]
pub(crate) mod ending;
pub(crate) mod engine;
pub(crate) mod held;
pub(crate) mod once;
pub(crate) mod stop;
