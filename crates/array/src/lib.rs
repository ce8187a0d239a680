//! The engine: selection → plan → execute. The only place that moves elements.
//!
//! A format describes one array by an [`ArrayLayout`]: shape, element type, chunk grid, codecs,
//! fill value, and where chunks are. [`read()`] and [`write()`] do the rest, for every format
//! alike:
//!
//! 1. A [`Selection`] holds the indices in one normal form: per axis a strided range, or points
//!    that are picked one by one.
//! 2. A [`Plan`] cuts the selection along the chunk grid into tasks. There is one for each touched
//!    chunk, without an allocation per chunk.
//! 3. Each task is executed by the cheapest [`Strategy`] that is right for it, on the caller's
//!    thread and the pool's.
//!
//! [`explain_read`] and [`explain_write`] show what a request would do.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod copy;
mod costs;
mod dims;
mod error;
mod execute;
mod explain;
mod layout;
mod plan;
mod ragged;
mod read;
mod runtime;
mod select;
mod shard;
mod write;

pub use copy::prefetch::prefetch;
pub use dims::{Dims, MAX_RANK, Strides, c_strides, element_count};
pub use error::{ArrayError, LocateError};
pub use explain::{Explain, ExplainTask, explain_read, explain_read_cached, explain_write};
pub use layout::ArrayLayout;
pub use layout::encoding::ChunkEncoding;
pub use layout::fill::FillValue;
pub use layout::grid::ChunkGrid;
pub use layout::locate::{ChunkList, ChunkLocator, Found, Location};
pub use layout::mosaic::{ConvertElements, Mosaic, MosaicSource, Piece, SourceArray};
pub use layout::origin::{Origin, OriginState};
pub use layout::part::ElementPart;
pub use layout::pattern::{Blocks, Pattern};
pub use layout::shapes::MakeEncoding;
pub use layout::shard_index::IndexEncoding;
pub use layout::sharding::{ShardLevel, Sharding};
pub use layout::sink::{ChunkSink, Reading, SinkWrite, WholeChunk};
pub use plan::Plan;
pub use plan::strategy::Strategy;
pub use plan::task::Task;
pub use ragged::Ragged;
pub use ragged::batches::{Batch, in_batches};
pub use ragged::packed::{Packed, PackedPiece, TakeValues};
pub use ragged::parts::each_part;
pub use ragged::read::read_ragged;
pub use ragged::write::{write_packed, write_ragged};
pub use read::cache::ChunkCache;
pub use read::mask::read_masked;
pub use read::missing_objects::check_stored;
pub use read::mosaic::convert::{can_convert, convert_elements, convert_nan};
pub use read::options::ReadOptions;
pub use read::stream::{Row, Stream, StreamOptions};
pub use read::{read, read_into};
pub use runtime::memory::Memory;
pub use runtime::pool::is_worker;
pub use runtime::recycler::recycled_bytes;
pub use select::view::{Source, Target};
pub use select::{Index, Selection};
pub use shard::inspect::{BrokenShard, InnerChunk, ShardContents, inspect_shard, inspected_levels};
pub use write::barrier::{Settled, settle, settle_all, settle_below};
pub use write::compact::{compact, compact_asking, drop_inner_chunks};
pub use write::shard_parts::{ShardParts, write_shard_in_parts};
pub use write::sink::encode_on_threads;
pub use write::write_behind::{Writer, WriterOptions};
pub use write::{WriteOptions, write};

/// Settings of the engine, for the whole process. Options of a call win over them.
pub mod settings {
    pub use crate::runtime::recycler::set_recycler_bound;
    pub use crate::runtime::settings::*;
}

#[cfg(test)]
mod tests;
