//! Settings of the engine, for the whole process. Options of a call win over them.

use crate::costs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

static THREADS: AtomicUsize = AtomicUsize::new(0);
static RECYCLER: AtomicUsize = AtomicUsize::new(256 << 20);
static VERIFY: AtomicBool = AtomicBool::new(true);
static EMPTY: AtomicBool = AtomicBool::new(false);
static IN_FLIGHT: AtomicUsize = AtomicUsize::new(8);
static PARTIAL_READ: AtomicBool = AtomicBool::new(true);
static PARTIAL_DECODE: AtomicBool = AtomicBool::new(true);
static FILE_LOCKS: AtomicBool = AtomicBool::new(true);
static INDEXES: AtomicUsize = AtomicUsize::new(64 << 20);

/// How many threads work on one request, the caller's included. At least 1.
pub fn threads() -> usize {
    match THREADS.load(Relaxed) {
        0 => cores(),
        n => n,
    }
}

/// How many threads read from a store that makes them wait ([`hyperslab_store::Store::waits`]):
/// more than cores, so that these have something to do meanwhile; but not where [`set_threads`] has
/// set a number.
pub(crate) fn waiting_readers() -> usize {
    match THREADS.load(Relaxed) {
        0 => cores() * costs::WAITING_PER_CORE,
        n => n,
    }
}

/// The same for a write: `at_once` at least.
pub(crate) fn waiting_writers(at_once: usize) -> usize {
    match THREADS.load(Relaxed) {
        0 => at_once.max(cores() * costs::WRITING_PER_CORE),
        n => n,
    }
}

/// Sets [`threads`]; 0: one per core that the process may use.
pub fn set_threads(n: usize) {
    THREADS.store(n.min(1024), Relaxed);
}

/// Cores this process may use; asked of the system once.
pub(crate) fn cores() -> usize {
    static CORES: hyperslab_store::fork::Lazy<usize> = hyperslab_store::fork::Lazy::new();
    *CORES.get_or_make(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// The most bytes of memory kept for results to come. Default 256 MiB.
pub fn recycler_bound() -> usize {
    RECYCLER.load(Relaxed)
}

/// Keeps the number; [`set_recycler_bound`](crate::runtime::recycler::set_recycler_bound) also acts
/// on it.
pub(crate) fn keep_recycler_bound(bytes: usize) {
    RECYCLER.store(bytes, Relaxed);
}

/// Whether checksums are verified on reading. Default yes.
pub fn verify_checksums() -> bool {
    VERIFY.load(Relaxed)
}

/// Sets [`verify_checksums`].
pub fn set_verify_checksums(on: bool) {
    VERIFY.store(on, Relaxed);
}

/// Whether chunks that hold nothing but the fill value are stored. Default no: they are left out,
/// and deleted where there are any.
pub fn write_empty_chunks() -> bool {
    EMPTY.load(Relaxed)
}

/// Sets [`write_empty_chunks`].
pub fn set_write_empty_chunks(on: bool) {
    EMPTY.store(on, Relaxed);
}

/// The most inner chunks of shards that are decoded or encoded at a time, each with buffers of its
/// own: a bound on memory, apart from the number of threads. Default 8, at least 1.
pub fn decodes_in_flight() -> usize {
    IN_FLIGHT.load(Relaxed)
}

/// Sets [`decodes_in_flight`]; 0 counts as 1.
pub fn set_decodes_in_flight(n: usize) {
    IN_FLIGHT.store(n.max(1), Relaxed);
}

/// Whether of a shard only the inner chunks are read that are wanted, instead of all of it. Default
/// yes.
pub fn partial_reads() -> bool {
    PARTIAL_READ.load(Relaxed)
}

/// Sets [`partial_reads`].
pub fn set_partial_reads(on: bool) {
    PARTIAL_READ.store(on, Relaxed);
}

/// Whether of a compressed chunk only the part is decoded that is wanted, where its codec can do
/// so. Checksums of the codec's own (not those that are codecs) are not verified for such a part.
/// Default yes.
pub fn partial_decode() -> bool {
    PARTIAL_DECODE.load(Relaxed)
}

/// Sets [`partial_decode`].
pub fn set_partial_decode(on: bool) {
    PARTIAL_DECODE.store(on, Relaxed);
}

/// The most bytes of shards' indexes that are kept. Default 64 MiB.
pub fn shard_index_bound() -> usize {
    INDEXES.load(Relaxed)
}

/// Bytes to which a chunk of elements of variable length may decode whatever its stored size is:
/// see [`set_vlen_chunk_bound`].
pub fn vlen_chunk_bound() -> usize {
    hyperslab_codec::vlen_chunk_bound()
}

/// Sets [`vlen_chunk_bound`]. What decodes to at most 1032 times its stored bytes is read in any
/// case.
pub fn set_vlen_chunk_bound(bytes: usize) {
    hyperslab_codec::set_vlen_chunk_bound(bytes);
}

/// Sets [`shard_index_bound`]; 0 keeps none from now on.
pub fn set_shard_index_bound(bytes: usize) {
    INDEXES.store(bytes, Relaxed);
}

/// Whether local stores lock files against other processes
/// ([`hyperslab_store::LocalOptions::file_locks`]). For front ends: it holds for stores that they
/// open from now on. Default yes.
pub fn file_locks() -> bool {
    FILE_LOCKS.load(Relaxed)
}

/// Sets [`file_locks`].
pub fn set_file_locks(on: bool) {
    FILE_LOCKS.store(on, Relaxed);
}
