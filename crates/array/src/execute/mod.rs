//! Tasks on threads, what a thread keeps between them, and errors with their context.

pub(crate) mod gate;
pub(crate) mod scratch;
pub(crate) mod tasks;
