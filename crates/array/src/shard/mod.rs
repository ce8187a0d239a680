//! Shards: objects that hold many chunks, and an index of where each chunk is.
//!
//! The engine works on the **inner chunks**: they are the chunks of the layout's grid, the layout's
//! encoding is theirs, and a plan has one task for each. A shard holds their bytes. Its index
//! (Zarr's `sharding_indexed`) gives a byte range for each inner chunk.
//!
//! Shards may be nested: the inner chunk of one is then a shard itself, with an index of its own.
//! [`Sharding`] lists the levels from the object inwards.
//!
//! Shards may have different shapes (a rectilinear grid of objects). Inner chunks divide each of
//! them, so all inner chunks have one shape and lie in a regular grid. Only the number of inner
//! chunks in the outermost level depends on the shape of the shard ([`open_shard::Shard::level`]).
//!
//! Source: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html>

pub(crate) mod cache;
pub(crate) mod find;
pub(crate) mod inspect;
pub(crate) mod memory;
pub(crate) mod open_shard;
pub(crate) mod plan;
