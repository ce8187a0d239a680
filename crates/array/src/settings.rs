//! Settings of the engine, for the whole process. Options of a call win over them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

static THREADS: AtomicUsize = AtomicUsize::new(0);
static RECYCLER: AtomicUsize = AtomicUsize::new(256 << 20);
static VERIFY: AtomicBool = AtomicBool::new(true);
static EMPTY: AtomicBool = AtomicBool::new(false);
static DECODES: AtomicUsize = AtomicUsize::new(8);
static PARTIAL_READS: AtomicBool = AtomicBool::new(true);
static PARTIAL_DECODE: AtomicBool = AtomicBool::new(true);
static INDEXES: AtomicUsize = AtomicUsize::new(64 << 20);

/// How many threads work on one request, the caller's included. At least 1.
pub fn threads() -> usize {
    match THREADS.load(Relaxed) {
        0 => cores(),
        n => n,
    }
}

/// How many threads work with a store that makes them wait ([`hyperslab_store::Store::waits`]): more than cores, so that
/// these have something to do meanwhile; but not where [`set_threads`] has set a number.
pub(crate) fn waiting_threads() -> usize {
    match THREADS.load(Relaxed) {
        0 => cores() * WAITING_PER_CORE,
        n => n,
    }
}

/// Each waiting thread has buffers of its own, so there is a price to more.
const WAITING_PER_CORE: usize = 4;

/// Sets [`threads`]; 0: one per core that the process may use.
pub fn set_threads(n: usize) {
    THREADS.store(n.min(1024), Relaxed);
}

/// Cores this process may use; asked of the system once.
pub(crate) fn cores() -> usize {
    static CORES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// The most bytes of memory kept for results to come. Default 256 MiB.
pub fn recycler_bound() -> usize {
    RECYCLER.load(Relaxed)
}

/// Sets [`recycler_bound`]; 0 turns recycling off. What is kept beyond the new bound is freed now.
pub fn set_recycler_bound(bytes: usize) {
    RECYCLER.store(bytes, Relaxed);
    crate::process::current().recycler.trim(bytes);
}

/// Whether checksums are verified on reading. Default yes.
pub fn verify_checksums() -> bool {
    VERIFY.load(Relaxed)
}

/// Sets [`verify_checksums`].
pub fn set_verify_checksums(on: bool) {
    VERIFY.store(on, Relaxed);
}

/// Whether chunks that hold nothing but the fill value are stored. Default no: they are left out, and deleted where there are any.
pub fn write_empty_chunks() -> bool {
    EMPTY.load(Relaxed)
}

/// Sets [`write_empty_chunks`].
pub fn set_write_empty_chunks(on: bool) {
    EMPTY.store(on, Relaxed);
}

/// How many inner chunks of shards are decoded at a time. At least 1; default 8.
pub fn decodes_in_flight() -> usize {
    DECODES.load(Relaxed)
}

/// Sets [`decodes_in_flight`].
pub fn set_decodes_in_flight(n: usize) {
    DECODES.store(n.max(1), Relaxed);
}

/// Whether only the wanted ranges of shards are read. Default yes.
pub fn partial_reads() -> bool {
    PARTIAL_READS.load(Relaxed)
}

/// Sets [`partial_reads`].
pub fn set_partial_reads(on: bool) {
    PARTIAL_READS.store(on, Relaxed);
}

/// Whether chunks are decoded only as far as they are wanted. Default yes.
pub fn partial_decode() -> bool {
    PARTIAL_DECODE.load(Relaxed)
}

/// Sets [`partial_decode`].
pub fn set_partial_decode(on: bool) {
    PARTIAL_DECODE.store(on, Relaxed);
}

/// The most bytes of memory for indexes of shards that are kept. Default 64 MiB.
pub fn shard_index_bound() -> usize {
    INDEXES.load(Relaxed)
}

/// Sets [`shard_index_bound`].
pub fn set_shard_index_bound(bytes: usize) {
    INDEXES.store(bytes, Relaxed);
}
