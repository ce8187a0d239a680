//! The engine: selection → plan → execute. The only place that moves elements.
//!
//! A format describes one array by an [`ArrayLayout`]: shape, element type, chunk grid, codecs,
//! fill value, and where chunks are. [`read()`] and [`write()`] do the rest, for every format
//! alike:
//!
//! 1. a [`Selection`] is the indices in one normal form: per axis a strided range, or points that
//!    are picked one by one;
//! 2. a [`Plan`] cuts it along the chunk grid into tasks, one per touched chunk, with no allocation
//!    per chunk;
//! 3. each task is executed by the cheapest [`Strategy`] that is right for it, on the caller's
//!    thread and the pool's.
//!
//! [`explain_read`] and [`explain_write`] show what a request would do.

mod barrier;
mod batch;
mod cache;
mod dims;
mod encoding;
mod error;
mod execute;
mod explain;
mod fetch;
mod fill;
mod gather;
mod grid;
mod layout;
mod memory;
mod missing;
mod mosaic;
mod origin;
mod pieces;
mod plan;
mod point_plan;
mod points;
mod pool;
mod prefetch;
mod process;
mod ragged;
mod read;
mod recycler;
mod runs;
mod scratch;
mod selection;
pub mod settings;
mod shard;
mod small;
mod strategy;
mod stream;
mod strided;
mod swap;
mod transpose;
mod view;
mod write;
mod writer;

pub use barrier::{Settled, settle, settle_all, settle_below};
pub use cache::ChunkCache;
pub use dims::{Dims, MAX_RANK, Strides, c_strides, element_count};
pub use encoding::ChunkEncoding;
pub use error::ArrayError;
pub use explain::{Explain, ExplainTask, explain_read, explain_read_cached, explain_write};
pub use fill::FillValue;
pub use grid::ChunkGrid;
pub use layout::{ArrayLayout, ChunkLocator, LocateError, Location};
pub use memory::Memory;
pub use missing::check_stored;
pub use mosaic::convert::{can_convert, convert_elements, convert_nan};
pub use mosaic::{Blocks, ConvertElements, Mosaic, MosaicSource, Pattern, Piece, SourceArray};
pub use origin::{Origin, Seen};
pub use plan::{Plan, Task};
pub use prefetch::prefetch;
pub use ragged::{Batch, Ragged, each_part, in_batches, read_ragged, write_ragged};
pub use read::{ReadOptions, read, read_into};
pub use recycler::recycled_bytes;
pub(crate) use selection::AxisSelection;
pub use selection::{Index, Selection};
pub use shard::{IndexEncoding, ShardLevel, Sharding, compact, compact_asking};
pub use strategy::Strategy;
pub use stream::{Row, Stream, StreamOptions};
pub use view::{Source, Target};
pub use write::{WriteOptions, write};
pub use writer::{Writer, WriterOptions};

#[cfg(test)]
mod tests;
