//! Shards: objects that hold many chunks, and an index of where each lies.
//!
//! The engine works on the **inner chunks**: they are the chunks of the layout's grid, its encoding
//! is theirs, and a plan has one task for each. A shard is where their bytes are: the index (Zarr's
//! `sharding_indexed`) names a byte range for each inner chunk.
//!
//! Shards may lie in shards: then the inner chunk of one is a shard itself, with an index of its
//! own. [`Sharding`] lists the levels from the object inwards.
//!
//! Shards may have different shapes (a rectilinear grid of objects). Inner chunks divide each of
//! them, so they have one shape and lie in a regular grid. Only the outermost level differs from
//! shape to shape: how many inner chunks it has ([`one::Shard::level`]).
//!
//! Source: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html>

pub(crate) mod cache;
pub(crate) mod find;
pub(crate) mod memory;
pub(crate) mod one;
pub(crate) mod plan;
