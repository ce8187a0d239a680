//! Settings of the engine, for the whole process. Options of a call win over them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

static THREADS: AtomicUsize = AtomicUsize::new(0);
static RECYCLER: AtomicUsize = AtomicUsize::new(256 << 20);
static VERIFY: AtomicBool = AtomicBool::new(true);
static EMPTY: AtomicBool = AtomicBool::new(false);

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
