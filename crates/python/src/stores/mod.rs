//! Stores for Python.

pub(crate) mod answers;
pub(crate) mod mapping;
pub(crate) mod presented;
pub(crate) mod store;
pub(crate) mod zarr;
