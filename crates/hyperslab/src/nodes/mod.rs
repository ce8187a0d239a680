//! Arrays and groups of any format: the public types, and the interface that formats implement.

mod append;
pub(crate) mod array;
pub(crate) mod chunk_map;
pub(crate) mod element;
pub(crate) mod explained;
pub(crate) mod group;
pub(crate) mod index_text;
pub(crate) mod info;
pub(crate) mod interface;
pub(crate) mod node;
pub(crate) mod ragged;
pub(crate) mod words;
