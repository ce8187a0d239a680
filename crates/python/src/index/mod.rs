//! Python indices, as the engine takes them.

pub(crate) mod fancy;
pub(crate) mod fields;
pub(crate) mod kind;
pub(crate) mod slices;
