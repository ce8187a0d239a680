//! What the engine shares within one process: threads, recycled memory, indexes of shards, the
//! writers that are alive.
//!
//! A forked child inherits memory but no threads, and mutexes in whatever state other threads held
//! them. Using the parent's pool or locks there would hang for ever. So a child must find out that
//! it is one, before it touches any of this. The parent's state is left alone (leaked in the child:
//! freeing it could need a lock that nobody will release).
//!
//! Every request asks, so the answer must be cheap. Where the system can do it (Linux 4.14), the
//! pointer to the state lies in a page that the kernel wipes in every child: a child finds no state
//! and makes its own. Elsewhere the process id is compared, a system call. (A handler of
//! `pthread_atfork` would miss children made by other means.)

use crate::runtime::pool::Pool;
use crate::runtime::recycler::Recycler;
use crate::shard::cache::IndexCache;
use crate::write::barrier::Writers;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The engine's state of one process.
pub(crate) struct Process {
    /// Where forks are found by it: the id of the process that this is the state of.
    id: Option<u32>,
    pub(crate) pool: Pool,
    pub(crate) recycler: Recycler,
    pub(crate) writers: Writers,
    pub(crate) indexes: IndexCache,
}

/// Where the state's address is, null before the first use. Is itself in the page that is wiped, if
/// there is such a page.
type Place = AtomicPtr<Process>;

/// The place, null before the first use. Never changes after that: children inherit it.
static PLACE: AtomicPtr<Place> = AtomicPtr::new(std::ptr::null_mut());

/// The place where the system wipes none.
static KEPT: Place = AtomicPtr::new(std::ptr::null_mut());

/// The state of this process, made on first use.
pub(crate) fn current() -> &'static Process {
    // SAFETY: PLACE is null or came from `first_place`, whose result lives for ever.
    match unsafe { PLACE.load(Ordering::Acquire).as_ref() } {
        Some(place) => at(place),
        None => at(first_place()),
    }
}

/// The state of this process, whose address is at `place`.
fn at(place: &'static Place) -> &'static Process {
    let found = place.load(Ordering::Acquire);
    // SAFETY: what is there is null or came from Box::leak in `make`, and is never freed.
    match unsafe { found.as_ref() } {
        Some(process) if process.id.is_none_or(|id| id == std::process::id()) => process,
        _ => make(place, found),
    }
}

#[cold]
fn make(place: &'static Place, old: *mut Process) -> &'static Process {
    let new: *mut Process = Box::leak(Box::new(Process {
        id: std::ptr::eq(place, &KEPT).then(std::process::id),
        pool: Pool::default(),
        recycler: Recycler::default(),
        writers: Writers::default(),
        indexes: IndexCache::default(),
    }));
    match place.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: `new` was leaked above.
        Ok(_) => unsafe { &*new },
        // SAFETY: another thread of this process was first; what it stored was leaked too. Ours
        // holds no threads yet: leaking it once is the price of never freeing anything shared.
        Err(other) => unsafe { &*other },
    }
}

#[cold]
fn first_place() -> &'static Place {
    let new: *mut Place = wiped_place().unwrap_or(&KEPT) as *const Place as *mut Place;
    match PLACE.compare_exchange(std::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: `new` is a static or in a page that is never unmapped.
        Ok(_) => unsafe { &*new },
        // SAFETY: as above; another thread was first. Our page is leaked, once.
        Err(other) => unsafe { &*other },
    }
}

/// A null pointer in a page that reads as zeros in every child process. `None` where the system has
/// no such pages.
#[cfg(target_os = "linux")]
fn wiped_place() -> Option<&'static Place> {
    use std::ffi::{c_int, c_void};
    unsafe extern "C" {
        fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    }
    /// The same number on every architecture that Rust has Linux for.
    const MADV_WIPEONFORK: c_int = 18;
    let mut page = memmap2::MmapMut::map_anon(size_of::<Place>()).ok()?;
    let address = page.as_mut_ptr();
    // SAFETY: the range is a private anonymous mapping that nobody else knows; the advice changes
    // nothing of it in this process. The system rounds the length up to whole pages, as the mapping
    // was.
    if unsafe { madvise(address.cast(), page.len(), MADV_WIPEONFORK) } != 0 {
        return None;
    }
    // Never unmapped.
    std::mem::forget(page);
    // SAFETY: the page is zeroed, which is a null pointer, aligned for anything, and lives for
    // ever. It is only ever accessed through this atomic.
    Some(unsafe { &*address.cast::<Place>() })
}

#[cfg(not(target_os = "linux"))]
fn wiped_place() -> Option<&'static Place> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_state_per_process_at_either_place() {
        assert!(std::ptr::eq(current(), current()));
        let kept = at(&KEPT);
        assert_eq!(kept.id, Some(std::process::id()));
        assert!(std::ptr::eq(at(&KEPT), kept));
        if let Some(wiped) = wiped_place() {
            assert_eq!(at(wiped).id, None);
            assert!(std::ptr::eq(at(wiped), at(wiped)));
        }
    }

    /// As a child finds it where nothing is wiped.
    #[test]
    fn the_state_of_another_process_is_not_used() {
        let parents = Process {
            id: Some(0),
            pool: Pool::default(),
            recycler: Recycler::default(),
            writers: Writers::default(),
            indexes: IndexCache::default(),
        };
        let parents: *mut Process = Box::leak(Box::new(parents));
        let place: &'static Place = Box::leak(Box::new(AtomicPtr::new(parents)));
        let own = at(place);
        assert!(!std::ptr::eq(own, parents));
        assert!(std::ptr::eq(at(place), own));
    }
}
