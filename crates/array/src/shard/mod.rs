//! Shards: objects that hold many chunks, and an index of where each lies.
//!
//! The engine works on the **inner chunks**: they are the chunks of the layout's grid, its encoding
//! is theirs, and a plan has one task for each. A shard is where their bytes are: the index (Zarr's
//! `sharding_indexed`) names a byte range for each inner chunk.
//!
//! Shards may lie in shards: then the inner chunk of one is a shard itself, with an index of its
//! own. [`Sharding`] lists the levels from the object inwards.
//!
//! Source: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html>

mod cache;
mod compact;
mod find;
mod index;
mod level;
mod memory;
mod output;
mod plan;
mod read;
mod write;

pub(crate) use cache::IndexCache;
pub use compact::{compact, compact_asking};
pub(crate) use find::locate;
pub use index::IndexEncoding;
pub use level::{ShardLevel, Sharding};
pub(crate) use memory::InMemory;
pub(crate) use plan::ShardPlan;
pub(crate) use read::Request;
pub(crate) use write::WriteRequest;
