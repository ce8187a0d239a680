//! Constants that trade one cost against another, and how each was measured.
//!
//! Unless a line says otherwise: x86-64, two cores, files in the page cache, the median of paired
//! runs. What a request or a range costs is the store's to say ([`hyperslab_store::Store::gap`]);
//! what stands here holds for memory and threads.

/// What one more byte range of a call costs, in bytes that could be read instead. Chunks that decode
/// to no more are read together with their neighbours.
pub(crate) const RANGE: u64 = 4096;

/// Runs are no longer than this, so that memory is bounded, unless a chunk alone is.
pub(crate) const LONGEST_RUN: u64 = 1 << 20;

/// Runs are not made shorter than this for the sake of more threads.
pub(crate) const SHORTEST_RUN: u64 = 128 << 10;

/// Decoded bytes of a lot of small chunks.
pub(crate) const LOT: usize = 256 << 10;

/// The fewest and the most chunks of a lot: a lot asks the system for more than its bytes, and has
/// a table of its chunks.
pub(crate) const CHUNKS_OF_A_LOT: (usize, usize) = (32, 1024);

/// How many shards of a request are open at a time: a process may have only so many open files.
pub(crate) const OPEN_SHARDS: usize = 16;

/// What locating the chunks of a shard costs, in bytes that could be moved instead.
pub(crate) const LOCATE_WORK: u64 = 64 << 10;
