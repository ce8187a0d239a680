//! Values that are shared within one process, but not with its children.
//!
//! Threads, recycled memory, indexes of shards and live background writers are such values.
//!
//! A forked child inherits memory but no threads, and mutexes in whatever state other threads held
//! them. Using the parent's pool or locks there would hang for ever. A child must therefore find
//! out that it is one before it touches any of this. The parent's value is left alone. It leaks in
//! the child: freeing it could need a lock that nobody will release.
//!
//! Every request checks for a fork, so the check must be cheap. If the system can do it (Linux
//! 4.14), the pointer to the value is in a page that the kernel wipes in every child. A child then
//! finds no value and makes its own. Elsewhere the process id is compared, which takes a system
//! call. (A handler of `pthread_atfork` would miss children made by other means.)

use std::sync::atomic::{AtomicPtr, Ordering};

/// A value that each process has for itself, made on first use.
pub(crate) struct PerProcess<T: 'static> {
    /// Refers to the address of the value; null before the first use. Never changes after that, as
    /// children inherit it.
    place: AtomicPtr<Anchor<T>>,
    /// The place of the address if the system has no pages that it wipes.
    kept: Anchor<T>,
}

/// The address of a value, null before the first use. Stored in the page that is wiped, if there is
/// one.
type Anchor<T> = AtomicPtr<Owned<T>>;

/// The value of one process.
struct Owned<T> {
    /// The id of the process, if forks are detected by it.
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

    /// The value of this process. Its address is at `place`.
    fn at(&'static self, place: &'static Anchor<T>) -> &'static T {
        let found = place.load(Ordering::Acquire);
        // SAFETY: the pointer is null or came from Box::leak in `make`, and is never freed.
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
            // SAFETY: another thread of this process was first; its value was leaked too. Ours
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

/// A null pointer in a page that reads as zeros in every child process. `None` if the system has no
/// such pages.
#[cfg(target_os = "linux")]
fn wiped_place<T>() -> Option<&'static Anchor<T>> {
    use std::ffi::{c_int, c_void};
    unsafe extern "C" {
        fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    }
    /// The same number on every architecture on which Rust supports Linux.
    const MADV_WIPEONFORK: c_int = 18;
    let mut page = memmap2::MmapMut::map_anon(size_of::<Anchor<T>>()).ok()?;
    let address = page.as_mut_ptr();
    // SAFETY: the range is a private anonymous mapping that nobody else knows, and the advice
    // changes nothing in this process. The system rounds the length up to whole pages, as it did
    // for the mapping.
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

    /// Not of size zero, so that each has an address of its own.
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

    /// As in a child on a system that wipes no pages.
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
