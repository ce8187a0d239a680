//! Tasks on threads, the buffers that a thread keeps between them, and errors with their context.

pub(crate) mod gate;
pub(crate) mod scratch;
pub(crate) mod tasks;
