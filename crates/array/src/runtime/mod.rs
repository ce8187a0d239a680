//! What requests run on: threads, memory, settings. Knows no array.

pub(crate) mod memory;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod recycler;
pub mod settings;
