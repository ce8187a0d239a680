//! What the engine shares within one process: threads, recycled memory, chunk locks.
//!
//! A forked child inherits memory but no threads, and mutexes in whatever state other threads held them. Using the parent's pool or locks
//! there would hang for ever. So this state is keyed by process id: a child finds that its id differs and starts with state of its own. The
//! parent's is left alone (leaked in the child: freeing it could need a lock that nobody will release).

use crate::locks::ChunkLocks;
use crate::pool::Pool;
use crate::recycler::Recycler;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The engine's state of one process.
pub(crate) struct Process {
    id: u32,
    pub(crate) pool: Pool,
    pub(crate) recycler: Recycler,
    pub(crate) locks: ChunkLocks,
}

static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

/// The state of this process, made on first use.
pub(crate) fn current() -> &'static Process {
    let id = std::process::id();
    let found = CURRENT.load(Ordering::Acquire);
    // SAFETY: CURRENT is null or came from Box::leak below and is never freed.
    match unsafe { found.as_ref() } {
        Some(process) if process.id == id => process,
        _ => make(id, found),
    }
}

#[cold]
fn make(id: u32, old: *mut Process) -> &'static Process {
    let new: *mut Process = Box::leak(Box::new(Process {
        id,
        pool: Pool::default(),
        recycler: Recycler::default(),
        locks: ChunkLocks::default(),
    }));
    match CURRENT.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: `new` was leaked above.
        Ok(_) => unsafe { &*new },
        // SAFETY: another thread of this process was first; what it stored was leaked too. Ours holds no threads yet: leaking it
        // once is the price of never freeing anything shared.
        Err(other) => unsafe { &*other },
    }
}
