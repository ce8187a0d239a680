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

/// Number of threads that work on one request, including the caller's. At least 1.
pub fn threads() -> usize {
    match THREADS.load(Relaxed) {
        0 => cores(),
        n => n,
    }
}

/// Number of threads that read from a store that makes them wait
/// ([`hyperslab_store::Facts::waits`]).
///
/// More than there are cores, so that cores have work meanwhile, unless [`set_threads`] has set a
/// number.
pub(crate) fn waiting_readers() -> usize {
    match THREADS.load(Relaxed) {
        0 => cores() * costs::WAITING_PER_CORE,
        n => n,
    }
}

/// The same for a write: at least `at_once`, unless [`set_threads`] has set a number.
pub fn waiting_writers(at_once: usize) -> usize {
    match THREADS.load(Relaxed) {
        0 => at_once.max(cores() * costs::WRITING_PER_CORE),
        n => n,
    }
}

/// Sets [`threads`]; 0 means one per core that the process may use.
pub fn set_threads(n: usize) {
    THREADS.store(n.min(1024), Relaxed);
}

/// Number of cores that this process may use. The system is asked once.
pub(crate) fn cores() -> usize {
    static CORES: hyperslab_store::fork::Lazy<usize> = hyperslab_store::fork::Lazy::new();
    *CORES.get_or_make(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// The most bytes of memory kept for later results. Default 256 MiB.
pub fn recycler_bound() -> usize {
    RECYCLER.load(Relaxed)
}

/// Stores the number; [`set_recycler_bound`](crate::runtime::recycler::set_recycler_bound) also
/// acts on it.
pub(crate) fn keep_recycler_bound(bytes: usize) {
    RECYCLER.store(bytes, Relaxed);
}

/// Returns whether checksums are verified on reading. Default yes.
pub fn verify_checksums() -> bool {
    VERIFY.load(Relaxed)
}

/// Sets [`verify_checksums`].
pub fn set_verify_checksums(on: bool) {
    VERIFY.store(on, Relaxed);
}

/// Returns whether chunks that hold only the fill value are stored.
///
/// Default no: they are left out, and deleted if they were stored before.
pub fn write_empty_chunks() -> bool {
    EMPTY.load(Relaxed)
}

/// Sets [`write_empty_chunks`].
pub fn set_write_empty_chunks(on: bool) {
    EMPTY.store(on, Relaxed);
}

/// The most inner chunks of shards that are decoded or encoded at a time.
///
/// Each has buffers of its own, so this bounds memory, whatever the number of threads. Default 8,
/// at least 1.
pub fn decodes_in_flight() -> usize {
    IN_FLIGHT.load(Relaxed)
}

/// Sets [`decodes_in_flight`]; 0 counts as 1.
pub fn set_decodes_in_flight(n: usize) {
    IN_FLIGHT.store(n.max(1), Relaxed);
}

/// Returns whether only the wanted inner chunks of a shard are read, instead of the whole shard.
/// Default yes.
pub fn partial_reads() -> bool {
    PARTIAL_READ.load(Relaxed)
}

/// Sets [`partial_reads`].
pub fn set_partial_reads(on: bool) {
    PARTIAL_READ.store(on, Relaxed);
}

/// Returns whether only the wanted part of a compressed chunk is decoded, if its codec can do so.
///
/// A compressor's own checksums are then not verified; checksums that are codecs are. Default yes.
pub fn partial_decode() -> bool {
    PARTIAL_DECODE.load(Relaxed)
}

/// Sets [`partial_decode`].
pub fn set_partial_decode(on: bool) {
    PARTIAL_DECODE.store(on, Relaxed);
}

/// The most bytes of shard indexes that are kept. Default 64 MiB.
pub fn shard_index_bound() -> usize {
    INDEXES.load(Relaxed)
}

/// Bytes to which a chunk of variable-length elements may decode whatever its stored size is: see
/// [`set_vlen_chunk_bound`].
pub fn vlen_chunk_bound() -> usize {
    hyperslab_codec::vlen_chunk_bound()
}

/// Sets [`vlen_chunk_bound`]. A chunk that decodes to at most 1032 times its stored bytes is always
/// read.
pub fn set_vlen_chunk_bound(bytes: usize) {
    hyperslab_codec::set_vlen_chunk_bound(bytes);
}

/// Sets [`shard_index_bound`]; 0 keeps none from now on.
pub fn set_shard_index_bound(bytes: usize) {
    INDEXES.store(bytes, Relaxed);
}

/// Returns whether local stores lock files against other processes
/// ([`hyperslab_store::LocalOptions::file_locks`]). Default yes.
///
/// For front ends: applies to stores that they open from now on.
pub fn file_locks() -> bool {
    FILE_LOCKS.load(Relaxed)
}

/// Sets [`file_locks`].
pub fn set_file_locks(on: bool) {
    FILE_LOCKS.store(on, Relaxed);
}
