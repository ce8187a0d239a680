//! Arrays and groups: handles, creation, metadata.

pub(crate) mod array;
pub(crate) mod attributes;
pub(crate) mod cache;
pub(crate) mod create;
pub(crate) mod decoding;
pub(crate) mod explain;
pub(crate) mod grid;
pub(crate) mod group;
pub(crate) mod handles;
pub(crate) mod meaning;
pub(crate) mod open;
pub(crate) mod slot;
