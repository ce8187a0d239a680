//! Descriptors of locked files, which forked children must not keep.
//!
//! A forked child has copies of its parent's descriptors. A flock(2) lock belongs to the open file,
//! not to the process, so a copy in the child would keep the lock when the parent is killed. This
//! module therefore lists the descriptors of locked files, and a child replaces its copies with
//! `/dev/null` before it does anything else. The child does not close them: their numbers must stay
//! taken in case it returns to the code that owned them.

use crate::fork;
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::retry_on_intr;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// One block of the descriptor table.
struct Slots {
    slots: [AtomicI32; SLOTS],
    next: AtomicPtr<Slots>,
}

const SLOTS: usize = 64;
const FREE: RawFd = -1;

impl Slots {
    const fn new() -> Self {
        Slots { slots: [const { AtomicI32::new(FREE) }; SLOTS], next: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn next(&self) -> Option<&'static Slots> {
        // SAFETY: null, or leaked by `list`.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }
}

// No lock: a child reads the table right after the fork.
static FIRST: Slots = Slots::new();

/// Adds a descriptor to the table and returns its slot.
fn list(file: RawFd) -> &'static AtomicI32 {
    let mut block = &FIRST;
    loop {
        let take = |slot: &&AtomicI32| {
            slot.compare_exchange(FREE, file, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        if let Some(slot) = block.slots.iter().find(take) {
            return slot;
        }
        block = match block.next() {
            Some(next) => next,
            None => {
                let new: *mut Slots = Box::leak(Box::new(Slots::new()));
                let null = std::ptr::null_mut();
                match block.next.compare_exchange(null, new, Ordering::AcqRel, Ordering::Acquire) {
                    // SAFETY: leaked above.
                    Ok(_) => unsafe { &*new },
                    // SAFETY: leaked by another thread, which was faster. Our block is lost, at
                    // most once per 64 locks held at the same time.
                    Err(other) => unsafe { &*other },
                }
            }
        };
    }
}

/// A file that is locked, or will be. Dropping it unlocks it.
#[derive(Debug)]
pub(crate) struct Lockable {
    file: OwnedFd,
    place: &'static AtomicI32,
}

/// How often a file is reopened because a fork happened at the same time.
const MAX_ATTEMPTS: usize = 1000;

impl Lockable {
    /// Opens a file so that no child forked meanwhile has a copy of it.
    pub(crate) fn open(open: impl Fn() -> rustix::io::Result<OwnedFd>) -> rustix::io::Result<Self> {
        for _ in 0..MAX_ATTEMPTS {
            let before = fork::forks();
            let file = retry_on_intr(&open)?;
            let place = list(file.as_raw_fd());
            let opened = Lockable { file, place };
            // Odd: a fork is running.
            if before.is_multiple_of(2) && fork::forks() == before {
                return Ok(opened);
            }
            drop(opened);
            std::thread::yield_now();
        }
        // Someone forks without pause, so a child may have a copy. The explicit unlock in `drop`
        // frees the lock even then.
        let file = retry_on_intr(&open)?;
        let place = list(file.as_raw_fd());
        Ok(Lockable { file, place })
    }
}

impl AsFd for Lockable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Lockable {
    fn drop(&mut self) {
        // Unlock explicitly: a child forked from here on may have a copy.
        let _ = retry_on_intr(|| flock(&self.file, FlockOperation::Unlock));
        self.place.store(FREE, Ordering::Release);
    }
}

/// Replaces the copied descriptors in a child that was just forked.
///
/// Calls only functions that are safe there.
pub(crate) fn forget_in_child() {
    let mut null = None;
    let mut block = Some(&FIRST);
    while let Some(here) = block {
        for slot in &here.slots {
            let file = slot.swap(FREE, Ordering::Relaxed);
            if file == FREE {
                continue;
            }
            if null.is_none() {
                null = rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok();
            }
            // SAFETY: the descriptor was listed by its owner, which does not run in this process;
            // nothing closes it here.
            let mut copy = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(file) });
            match &null {
                Some(null) => {
                    let _ = rustix::io::dup2(null, &mut copy);
                }
                // SAFETY: as above. If the owner's code ever resumes, it closes a number that is
                // free.
                None => unsafe { rustix::io::close(file) },
            }
        }
        block = here.next();
    }
}
