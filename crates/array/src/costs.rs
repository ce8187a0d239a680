//! Constants that trade one cost against another.
//!
//! They are estimates from what they stand for, on x86-64 with files in the page cache. Beside most
//! stands a row of `benches/` in which a change should show: `make bench ROW=…`, before and after.
//! What one more request or range costs is the store's to say ([`hyperslab_store::Store::cost`]).
//! Unit tests have smaller bounds where these would keep them from a strategy.

// Requests and ranges

/// Rows at least this long are read straight into the output, one range each: below, a system call
/// costs more than copying the bytes once more. Row: `hdf5-read/contiguous [i]`,
/// `strided/[::-1]`.
pub(crate) const DIRECT_ROW: usize = 4096;

/// Bites (bytes around points) of one window, at most. Row: `hdf5-points/plain points`.
pub(crate) const MOST_BITES: usize = if cfg!(test) { 7 } else { 2048 };

/// Bytes of one window, at most, unless a bite alone is longer; without what lies between bites.
pub(crate) const WINDOW: usize = if cfg!(test) { 512 } else { 1 << 20 };

/// Where fewer bytes than this need not be decoded, all are: codecs work by blocks, those of zstd
/// have 128 KiB. Row: `shard-front`.
pub(crate) const WORTH_A_PART: usize = if cfg!(test) { 300 } else { 128 << 10 };

/// Outputs of this size and more are looked at for absent chunks first. Row: `sparse`.
pub(crate) const SPARSE_FROM: u64 = 4 << 20;

/// Chunks far away that have this many bytes in all are decoded by several threads.
pub(crate) const SPREAD_FROM: u64 = 8 << 20;

/// Runs are no longer than this, so that memory is bounded, unless a chunk alone is. Row:
/// `hdf5-read/chunks all`, `shard-cube/all`.
pub(crate) const LONGEST_RUN: u64 = 1 << 20;

/// Runs are not made shorter than this for the sake of more threads. Row: `shard-cube/[i]`.
pub(crate) const SHORTEST_RUN: u64 = 128 << 10;

/// Decoded bytes of a lot of small chunks. Row: `hdf5-read/chunks all`.
pub(crate) const LOT: usize = 256 << 10;

/// The fewest and the most chunks of a lot: a lot asks the system for more than its bytes, and has
/// a table of its chunks.
pub(crate) const CHUNKS_OF_A_LOT: (usize, usize) = (32, 1024);

/// Of chunks that a store far away is asked for together, a gap is read if it is this part of what is
/// read in the time of a request. Row: `HDF5, 100 variables` of `benches/cloud.py`.
pub(crate) const GAPS_FAR_AWAY: u64 = 64;

/// How many shards of a request are open at a time: a process may have only so many open files.
/// Row: `shard-time/a row`.
pub(crate) const OPEN_SHARDS: usize = 16;

/// The most shards that are opened by one call, of a store that takes several: each holds what the
/// store fetched with it.
pub(crate) const SHARDS_AT_ONCE: usize = 256;

/// Bytes of indexes of shards within one shard that are read at once, unless one alone is larger.
/// Unit tests have a bound of two or three small ones.
pub(crate) const INDEXES_AT_ONCE: usize = if cfg!(test) { 150 } else { 16 << 20 };

/// What locating the chunks of a shard costs, in bytes that could be moved instead.
pub(crate) const LOCATE_WORK: u64 = 64 << 10;

// Work and threads

/// Below this much work (in bytes to move; decoding counts several times) a request stays on the
/// caller's thread: waking another costs more than it saves. Row: `multi-2d/none`.
pub(crate) const INLINE_WORK: u64 = 512 << 10;

/// Requests of less work than this (a few milliseconds) leave the workers to others where threads
/// are busy with requests of their own. Row: `threads`.
pub(crate) const SMALL_WORK: u64 = 16 << 20;

/// What opening an object costs, in bytes that could be moved instead.
pub(crate) const TASK_WORK: u64 = 16 << 10;

/// Decoding or encoding a byte takes about so many times as long as moving it. Row:
/// `multi-2d/zstd-3`, `multi-2d/gzip-5`.
pub(crate) const CODEC_FACTOR: u64 = 4;

/// What opening the array of a piece costs, in bytes that could be moved instead.
pub(crate) const PIECE_WORK: u64 = 64 << 10;

/// What finding a cell's bytes costs, in bytes that could be copied instead.
pub(crate) const CELL_WORK: u64 = 32;

/// Shares for each thread that copies.
pub(crate) const TURNS: usize = 4;

/// Threads for each core where readers wait for a disk. Each has buffers of its own, so there is a
/// price to more.
pub(crate) const WAITING_PER_CORE: usize = 4;

/// The same of writers, which wait less: mostly the system takes what they write into memory.
/// Measured with 1 to 4 per core, for chunks of 64 KiB to 8 MB: with 2, writes take 0.83 to 1.01 of
/// the time with 1, and 4 are no faster.
pub(crate) const WRITING_PER_CORE: usize = 2;

/// A task that waited for at least this part of its time (one in so many) waits for a disk: then
/// more threads than cores are worth their caches. Measured: chunks of numbers wait for 0.25 to 0.6
/// of their time when they are written. Chunks of text wait for 0.07; with 2 threads per core they
/// take 1.2 times the time.
pub(crate) const WAITED_SHARE: u32 = 6;

/// Chunks without codecs are cut into parts of about this many bytes: large enough to be worth a
/// thread's while, small enough for a core's own cache. Row: `scan-plain/v3 8 MiB`.
pub(crate) const PART: usize = if cfg!(test) { 96 } else { 512 << 10 };

/// A chunk is cut into at most so many.
pub(crate) const MOST_PARTS: u64 = 64;

/// Chunks that do not exist are filled so many at a time.
pub(crate) const FILLED: usize = 16;

/// Only so many waiting jobs are looked at for one that may start: the search stays short where
/// thousands wait for one chunk. Row: `stream-write/40 KB`.
pub(crate) const LOOK_AT: usize = 32;

/// How often a change of a part of a chunk is made in vain before it excludes other processes from
/// the beginning.
pub(crate) const PATIENCE: usize = 3;

/// Shards of fewer chunks than this per thread are written by one thread each, where there are
/// several; larger ones by all threads, one after the other. Row: `shard-write`.
pub(crate) const FEW_SHARDS: usize = 8;

/// So many shards per thread, or more, are written by one thread each, however large they are.
/// Where there are fewer, that depends on how well they divide among the threads. Row:
/// `shard-write`.
pub(crate) const MANY_SHARDS: usize = 4;

/// Blocks of at least this many bytes are worth a hand-off each. Row: `stream-read/40 KB`,
/// `stream-read/1 MiB`.
pub(crate) const WORTH_A_HAND_OFF: u64 = 512 << 10;

/// Where the rows of one chunk have more bytes than this, blocks are smaller, and chunks decoded
/// more than once: memory stays bounded.
pub(crate) const LARGEST_BLOCK: u64 = 256 << 20;

// Memory

/// From here on memory comes in pages from the recycler: allocators hand pages of that size back to
/// the system when they are freed. Row: `scan-plain/v3 256 KiB`.
pub(crate) const PAGES_FROM: usize = 64 << 10;

/// From here on fresh pages are asked for in huge units, which cuts the number of page faults by
/// 512. Row: `scan-plain/v3 8 MiB`.
pub(crate) const HUGE_FROM: usize = 4 << 20;

/// A thread keeps no more than this between requests, in each buffer; what is larger goes back
/// (decoded chunks to the recycler).
pub(crate) const KEEP_SCRATCH: usize = 16 << 20;

/// Destinations of this extent do not stay in a cache until they are used. Row: `scan-plain/v3
/// 32 MiB`, `layout`.
pub(crate) const LARGE_COPY: usize = 16 << 20;

/// Bytes that a batch should have in its heap. Row: `ragged-text/arrow`.
pub(crate) const PAYLOAD: u64 = 24 << 20;

/// The most cells of a batch, unless a chunk has more.
pub(crate) const MOST_CELLS: u64 = 512 << 10;

/// Elements of chunks that the first batch touches, of which nothing is known yet. Row:
/// `ragged-gzip`.
pub(crate) const FIRST_BATCH: u64 = 64 << 10;

/// A batch may be so many times larger than the one before.
pub(crate) const GROWTH: u64 = 8;

/// A copy of more than this asks in between whether to stop: some 20 ms.
pub(crate) const COPIED_AT_ONCE: u64 = 64 << 20;

/// So much less is asked for at first, see [`crate::read::flight::Window`]. Row: `whole array` of
/// `benches/cloud.py`.
pub(crate) const FIRST_PART: usize = 4;

/// Bytes of chunks that one thread asks a store far away for at once: some tens of 8 MiB.
pub(crate) const WAITING_BYTES: usize = 256 << 20;
