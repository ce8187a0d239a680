//! Constants that trade one cost against another.
//!
//! They are estimated from the costs that they stand for, on x86-64 with files in the page cache.
//! Most name a row of `benches/` in which a change should show: run `make bench ROW=…` before and
//! after. The store says how much one more request or range costs
//! ([`hyperslab_store::Store::cost`]). Unit tests have smaller bounds where these would keep them
//! from a strategy.

// Requests and ranges

/// Rows at least this long are read straight into the output, one range each.
///
/// For shorter rows, a system call costs more than copying the bytes once more. Row:
/// `hdf5-read/contiguous [i]`, `strided/[::-1]`.
pub(crate) const DIRECT_ROW: usize = 4096;

/// The most bites (bytes around points) in one window. Row: `hdf5-points/plain points`.
pub(crate) const MOST_BITES: usize = if cfg!(test) { 7 } else { 2048 };

/// The most bytes in one window, unless a single bite is longer. Bytes between bites do not count.
pub(crate) const WINDOW: usize = if cfg!(test) { 512 } else { 1 << 20 };

/// A chunk is decoded in part only if at least this many bytes need not be decoded.
///
/// Codecs work in blocks, and a block of zstd has 128 KiB. Row: `shard-front`.
pub(crate) const WORTH_A_PART: usize = if cfg!(test) { 300 } else { 128 << 10 };

/// Outputs of at least this size are first checked for absent chunks. Row: `sparse`.
pub(crate) const SPARSE_FROM: u64 = 4 << 20;

/// The same for outputs of at least this many chunks that are objects or far away. In a store far
/// away the sample is one round more. With 64 requests at a time this is one in fifty.
pub(crate) const SPARSE_CHUNKS: usize = 3000;

/// Writes of at least this many chunks list the objects of a near store before they delete chunks.
/// Row: `sparse`.
pub(crate) const LISTED_FROM: usize = if cfg!(test) { 12 } else { 1000 };

/// Bytes that are compared with fill value in the time of a visit to a chunk (a microsecond).
pub(crate) const SCANNED_PER_TASK: u64 = 4096;

/// A listing of a near store is given up if it has more than this part of the objects (1 in 4). It
/// has then cost a small part of the time of looking at each.
pub(crate) const LISTED_SHARE: usize = 4;

/// The most bytes in a run, unless a single chunk is longer. Bounds the memory. Row:
/// `hdf5-read/chunks all`, `shard-cube/all`.
pub(crate) const LONGEST_RUN: u64 = 1 << 20;

/// Runs are not made shorter than this to occupy more threads. Row: `shard-cube/[i]`.
pub(crate) const SHORTEST_RUN: u64 = 128 << 10;

/// Decoded bytes in a lot of small chunks. Row: `hdf5-read/chunks all`.
pub(crate) const LOT: usize = 256 << 10;

/// The fewest and the most chunks in a lot.
///
/// A lot makes system calls besides those for its bytes, and has a table of its chunks.
pub(crate) const CHUNKS_OF_A_LOT: (usize, usize) = (32, 1024);

/// Divisor for the longest gap to read between chunks requested together from a store far away.
///
/// It divides the bytes that are read in the time of one request. Row: `HDF5, 100 variables` of
/// `benches/cloud.py`.
pub(crate) const GAPS_FAR_AWAY: u64 = 64;

/// The same between parts of chunks without codecs, which are read in place: there may be one in
/// each of many neighbours, and each request has its price.
pub(crate) const GAPS_BETWEEN_PARTS: u64 = 8;

/// How many shards of a request are open at a time: a process may open only a limited number of
/// files. Row: `shard-time/a row`.
pub(crate) const OPEN_SHARDS: usize = 16;

/// The most shards that one call opens, in a store that takes several. Each shard holds the bytes
/// that the store fetched with it.
pub(crate) const SHARDS_AT_ONCE: usize = 256;

/// Bytes of shard indexes within one shard that are read at once, unless a single index is larger.
/// Unit tests have a bound of two or three small indexes.
pub(crate) const INDEXES_AT_ONCE: usize = if cfg!(test) { 150 } else { 16 << 20 };

/// The cost of locating the chunks of a shard, in bytes that could be moved instead.
pub(crate) const LOCATE_WORK: u64 = 64 << 10;

// Work and threads

/// With less work than this, a request stays on the caller's thread.
///
/// Waking another thread would cost more than it saves. Work is counted in bytes to move; decoding
/// counts several times. Row: `multi-2d/none`.
pub(crate) const INLINE_WORK: u64 = 512 << 10;

/// Requests of less work than this (a few milliseconds) leave workers to other threads that are
/// busy with requests of their own. Row: `threads`.
pub(crate) const SMALL_WORK: u64 = 16 << 20;

/// The cost of opening an object, in bytes that could be moved instead.
pub(crate) const TASK_WORK: u64 = 16 << 10;

/// Decoding or encoding a byte takes about this many times as long as moving it. Row:
/// `multi-2d/zstd-3`, `multi-2d/gzip-5`.
pub(crate) const CODEC_FACTOR: u64 = 4;

/// The cost of opening the array of a piece, in bytes that could be moved instead.
pub(crate) const PIECE_WORK: u64 = 64 << 10;

/// The cost of finding a cell's bytes, in bytes that could be copied instead.
pub(crate) const CELL_WORK: u64 = 32;

/// Pieces for each thread that copies the bytes of cells.
pub(crate) const TURNS: usize = 4;

/// Threads per core if readers wait for a disk. More threads have a price, as each has buffers of
/// its own.
pub(crate) const WAITING_PER_CORE: usize = 4;

/// Threads per core if writers wait for a disk.
///
/// Writers wait less than readers: mostly the system takes their bytes into memory. Measured with 1
/// to 4 threads per core, for chunks of 64 KiB to 8 MB. With 2, writes take 0.83 to 1.01 of the
/// time with 1, and 4 are no faster.
pub(crate) const WRITING_PER_CORE: usize = 2;

/// A task that waits for at least this part of its time (1 in 6) is taken to wait for a disk.
///
/// More threads than cores are then worth their caches. Measured: chunks of numbers wait for 0.25
/// to 0.6 of their time when they are written. Chunks of text wait for 0.07; with 2 threads per
/// core they take 1.2 times the time.
pub(crate) const WAITED_SHARE: u32 = 6;

/// Chunks without codecs are cut into parts of about this many bytes.
///
/// This is large enough to be worth a thread's while, and small enough for a core's own cache. Row:
/// `scan-plain/v3 8 MiB`.
pub(crate) const PART: usize = if cfg!(test) { 96 } else { 512 << 10 };

/// The most parts that a chunk is cut into.
pub(crate) const MOST_PARTS: u64 = 64;

/// Absent chunks that one step fills.
pub(crate) const FILLED: usize = 16;

/// Waiting jobs that are checked for one that may start. The search stays short even if thousands
/// wait for one chunk. Row: `stream-write/40 KB`.
pub(crate) const LOOK_AT: usize = 32;

/// Attempts to change a part of a chunk before other processes are excluded from the beginning.
pub(crate) const PATIENCE: usize = 3;

/// Shards with fewer chunks than this per thread are written by one thread each, if there are
/// several shards. Larger shards are written by all threads, one after the other. Row:
/// `shard-write`.
pub(crate) const FEW_SHARDS: usize = 8;

/// With at least this many shards per thread, each is written by one thread, however large it is.
/// With fewer, that depends on how well they divide among the threads. Row: `shard-write`.
pub(crate) const MANY_SHARDS: usize = 4;

/// Blocks of at least this many bytes are worth a hand-off each. Row: `stream-read/40 KB`,
/// `stream-read/1 MiB`.
pub(crate) const WORTH_A_HAND_OFF: u64 = 512 << 10;

/// If the rows of one chunk have more bytes than this, blocks are smaller. Chunks are then decoded
/// more than once, but memory stays bounded.
pub(crate) const LARGEST_BLOCK: u64 = 256 << 20;

// Memory

/// From this size on, memory comes in pages from the recycler. Allocators would return pages of
/// that size to the system when they are freed. Row: `scan-plain/v3 256 KiB`.
pub(crate) const PAGES_FROM: usize = 64 << 10;

/// From this size on, fresh pages are requested in huge units: 512 times fewer page faults. Row:
/// `scan-plain/v3 8 MiB`.
pub(crate) const HUGE_FROM: usize = 4 << 20;

/// The most bytes that a thread keeps in each buffer between requests. Larger buffers are given
/// back (decoded chunks to the recycler).
pub(crate) const KEEP_SCRATCH: usize = 16 << 20;

/// Destinations that extend over this many bytes do not stay in a cache until they are used. Row:
/// `scan-plain/v3 32 MiB`, `layout`.
pub(crate) const LARGE_COPY: usize = 16 << 20;

/// Bytes that a batch should have in its heap. Row: `ragged-text/arrow`.
pub(crate) const PAYLOAD: u64 = 24 << 20;

/// The most cells in a batch, unless a chunk has more.
pub(crate) const MOST_CELLS: u64 = 512 << 10;

/// Elements in the chunks that the first batch touches, while their size is not known yet. Row:
/// `ragged-gzip`.
pub(crate) const FIRST_BATCH: u64 = 64 << 10;

/// How many times larger than the one before a batch may be.
pub(crate) const GROWTH: u64 = 8;

/// A larger copy asks after each part of this size, some 20 ms, whether to stop.
pub(crate) const COPIED_AT_ONCE: u64 = 64 << 20;

/// Divides the number of chunks that are requested at first, see [`crate::read::flight::Window`].
/// Row: `whole array` of `benches/cloud.py`.
pub(crate) const FIRST_PART: usize = 4;

/// Bytes that objects on their way from a store far away may have, for each thread: some tens of 8
/// MiB. Their sizes are not known before they arrive, so each counts as the longest possible one.
pub(crate) const WAITING_BYTES: usize = 256 << 20;

/// Bytes of ranges on their way from a store far away, for each thread.
pub(crate) const COMING_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 256 << 20 };
