//! Stores for Python.

pub(crate) mod mapping;
pub(crate) mod store;
