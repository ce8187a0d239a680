//! Stores for Python.

pub(crate) mod mapping;
pub(crate) mod presented;
pub(crate) mod store;
