//! Threads, memory and settings that requests run on. Knows nothing of arrays.

pub(crate) mod memory;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod recycler;
pub mod settings;
