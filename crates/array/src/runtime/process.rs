//! What is shared within one process, and not with its children: threads, recycled memory, indexes
//! of shards, the background writers that are alive.
//!
//! A forked child inherits memory but no threads, and mutexes in whatever state other threads held
//! them. Using the parent's pool or locks there would hang for ever. So a child must find out that
//! it is one, before it touches any of this. The parent's value is left alone (leaked in the child:
//! freeing it could need a lock that nobody will release).
//!
//! Every request asks, so the answer must be cheap. Where the system can do it (Linux 4.14), the
//! pointer to the value lies in a page that the kernel wipes in every child: a child finds no value
//! and makes its own. Elsewhere the process id is compared, a system call. (A handler of
//! `pthread_atfork` would miss children made by other means.)

use std::sync::atomic::{AtomicPtr, Ordering};

/// A value of which each process has its own, made on first use.
pub(crate) struct PerProcess<T: 'static> {
    /// Where the address of the value is, null before the first use. Never changes after that:
    /// children inherit it.
    place: AtomicPtr<Anchor<T>>,
    /// The place where the system wipes none.
    kept: Anchor<T>,
}

/// Where a value's address is, null before the first use. Is itself in the page that is wiped, if
/// there is such a page.
type Anchor<T> = AtomicPtr<Owned<T>>;

/// The value of one process.
struct Owned<T> {
    /// Where forks are found by it: the id of the process.
    id: Option<u32>,
    value: T,
}

impl<T: Default> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        PerProcess { place: AtomicPtr::new(std::ptr::null_mut()), kept: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The value of this process.
    pub(crate) fn get(&'static self) -> &'static T {
        // SAFETY: null, or from `first_place`, whose result lives for ever.
        match unsafe { self.place.load(Ordering::Acquire).as_ref() } {
            Some(place) => self.at(place),
            None => self.at(self.first_place()),
        }
    }

    /// The value of this process, whose address is at `place`.
    fn at(&'static self, place: &'static Anchor<T>) -> &'static T {
        let found = place.load(Ordering::Acquire);
        // SAFETY: what is there is null or came from Box::leak in `make`, and is never freed.
        match unsafe { found.as_ref() } {
            Some(owned) if owned.id.is_none_or(|id| id == std::process::id()) => &owned.value,
            _ => self.make(place, found),
        }
    }

    #[cold]
    fn make(&'static self, place: &'static Anchor<T>, old: *mut Owned<T>) -> &'static T {
        let id = std::ptr::eq(place, &self.kept).then(std::process::id);
        let new: *mut Owned<T> = Box::leak(Box::new(Owned { id, value: T::default() }));
        match place.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: `new` was leaked above.
            Ok(_) => unsafe { &(*new).value },
            // SAFETY: another thread of this process was first; what it stored was leaked too. Ours
            // holds no threads yet: leaking it once is the price of never freeing anything shared.
            Err(other) => unsafe { &(*other).value },
        }
    }

    #[cold]
    fn first_place(&'static self) -> &'static Anchor<T> {
        let new: *mut Anchor<T> = wiped_place().unwrap_or(&self.kept) as *const Anchor<T> as *mut Anchor<T>;
        match self.place.compare_exchange(std::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: `new` is a static or in a page that is never unmapped.
            Ok(_) => unsafe { &*new },
            // SAFETY: as above; another thread was first. Our page is leaked, once.
            Err(other) => unsafe { &*other },
        }
    }
}

/// A null pointer in a page that reads as zeros in every child process. `None` where the system has
/// no such pages.
#[cfg(target_os = "linux")]
fn wiped_place<T>() -> Option<&'static Anchor<T>> {
    use std::ffi::{c_int, c_void};
    unsafe extern "C" {
        fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    }
    /// The same number on every architecture that Rust has Linux for.
    const MADV_WIPEONFORK: c_int = 18;
    let mut page = memmap2::MmapMut::map_anon(size_of::<Anchor<T>>()).ok()?;
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
    Some(unsafe { &*address.cast::<Anchor<T>>() })
}

#[cfg(not(target_os = "linux"))]
fn wiped_place<T>() -> Option<&'static Anchor<T>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has an address of its own.
    #[derive(Default)]
    struct Value(#[allow(dead_code)] u8);

    #[test]
    fn one_value_per_process_at_either_place() {
        static VALUE: PerProcess<Value> = PerProcess::new();
        assert!(std::ptr::eq(VALUE.get(), VALUE.get()));
        let kept = VALUE.at(&VALUE.kept);
        assert!(std::ptr::eq(VALUE.at(&VALUE.kept), kept));
        if let Some(wiped) = wiped_place() {
            assert!(std::ptr::eq(VALUE.at(wiped), VALUE.at(wiped)));
            assert!(!std::ptr::eq(VALUE.at(wiped), kept));
        }
    }

    /// As a child finds it where nothing is wiped.
    #[test]
    fn the_value_of_another_process_is_not_used() {
        static VALUE: PerProcess<Value> = PerProcess::new();
        let parents: *mut Owned<Value> = Box::leak(Box::new(Owned { id: Some(0), value: Value(1) }));
        VALUE.kept.store(parents, Ordering::Release);
        let own = VALUE.at(&VALUE.kept);
        assert_eq!(own.0, 0);
        assert!(std::ptr::eq(VALUE.at(&VALUE.kept), own));
    }
}
