//! Files that stay open, a limited number at a time.
//!
//! A process may have only 256 or 1024 open files, and a data set may have thousands. At most
//! [`MOST`] files are therefore held open. Opening one more closes the least recently used. When
//! the closed file is read again, it is reopened by its path, provided the path still leads to the
//! same contents:
//!
//! * A file that was unlinked, or whose name leads to another file, is not closed, because nothing
//!   could reopen it. It does not count.
//! * If the path of a closed file later leads to other contents, reads fail with
//!   [`StoreError::Stale`].
//!
//! A running read keeps its descriptor until it is done. Reads are positional, so forked children
//! can share descriptors.

use super::byte_lock::{Kind, READERS, lock_byte};
use super::lock::leads_to;
use super::read::open_path;
use super::stamp::{Seen, stamp_of};
use crate::fork::Mutex;
use crate::{Operation, Stamp, StoreError};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Most files to hold open. xarray uses the same limit, which leaves half of the 256 descriptors
/// that macOS gives a process to others.
pub(super) const MOST: usize = 128;

/// The files that are held open and may be closed. Gated.
static OPEN: Mutex<Vec<OpenEntry>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct OpenEntry {
    held: Weak<HeldFile>,
    used: Arc<AtomicU64>,
}

/// Counts openings. A used file notes the current count, which shows the least recently used. A
/// counter of reads would be one more cache line that all threads write to.
static OPENINGS: AtomicU64 = AtomicU64::new(0);

/// A file that is open, or will be reopened when it is read.
#[derive(Debug)]
pub(super) struct HeldFile {
    path: CString,
    /// Gated.
    state: Mutex<State>,
    /// The value of [`OPENINGS`] at the last use.
    used: Arc<AtomicU64>,
    /// True if its user closed the file.
    pub(super) closed: AtomicBool,
    /// True if programs that change the file in place must know of this reader.
    is_locked: AtomicBool,
}

#[derive(Debug)]
enum State {
    Open(Arc<OwnedFd>),
    /// Closed to save descriptors. Holds the file's stamp.
    Away(Stamp),
    /// Closed by its user.
    Closed,
}

/// Why a file has no descriptor.
#[derive(Debug)]
pub(super) enum NotOpen {
    /// Its user closed it.
    Closed,
    /// The path leads to other contents.
    Stale,
    /// The system refused.
    Io(io::Error),
}

impl NotOpen {
    pub(super) fn named(self, key: &str, url: String) -> StoreError {
        let key = key.to_owned();
        match self {
            NotOpen::Closed => StoreError::Closed { key, url },
            NotOpen::Stale => StoreError::Stale { key, url },
            NotOpen::Io(source) => StoreError::Io { operation: Operation::Read, key, url, source },
        }
    }
}

impl HeldFile {
    /// Opens a file. `None` if there is none.
    pub(super) fn open(path: CString) -> io::Result<Option<(Arc<HeldFile>, Arc<OwnedFd>)>> {
        let Some(file) = open_path(&path)?.map(Arc::new) else { return Ok(None) };
        let state = Mutex::new(State::Open(file.clone()));
        let (used, closed, is_locked) = (Arc::default(), AtomicBool::new(false), AtomicBool::new(false));
        let held = Arc::new(HeldFile { path, state, used, closed, is_locked });
        held.count();
        Ok(Some((held, file)))
    }

    /// Tells writers of the file that it is read. File systems without locks do nothing.
    pub(super) fn lock_for_reading(&self) {
        self.is_locked.store(true, Ordering::Relaxed);
        let file = match &*self.state.lock() {
            State::Open(file) => file.clone(),
            State::Away(_) | State::Closed => return,
        };
        let _ = lock_byte(&file, READERS, Kind::Shared);
    }

    /// Notes that the file is in use now.
    pub(super) fn mark(&self) {
        let now = OPENINGS.load(Ordering::Relaxed);
        if self.used.load(Ordering::Relaxed) != now {
            self.used.store(now, Ordering::Relaxed);
        }
    }

    /// The descriptor. Reopens the file if it was put away.
    pub(super) fn file(self: &Arc<Self>) -> Result<Arc<OwnedFd>, NotOpen> {
        self.mark();
        let stamp = match &*self.state.lock() {
            State::Open(file) => return Ok(file.clone()),
            State::Away(stamp) => *stamp,
            State::Closed => return Err(NotOpen::Closed),
        };
        let file = open_path(&self.path).map_err(NotOpen::Io)?.ok_or(NotOpen::Stale)?;
        if self.is_locked.load(Ordering::Relaxed) {
            // Before the comparison: a writer that comes later knows of this reader.
            let _ = lock_byte(&file, READERS, Kind::Shared);
        }
        let seen = Seen::of(file.as_fd()).map_err(|error| NotOpen::Io(error.into()))?;
        if !seen.is_some_and(|seen| seen.stamp.same_write(&stamp)) {
            return Err(NotOpen::Stale);
        }
        let file = Arc::new(file);
        {
            let mut state = self.state.lock();
            match &*state {
                // Another thread was faster.
                State::Open(other) => return Ok(other.clone()),
                State::Closed => return Err(NotOpen::Closed),
                State::Away(_) => *state = State::Open(file.clone()),
            }
        }
        self.count();
        Ok(file)
    }

    /// Closes the file for good, once running reads are done.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        OPEN.lock().retain(|entry| entry.held.as_ptr() != std::ptr::from_ref(self));
        let old = std::mem::replace(&mut *self.state.lock(), State::Closed);
        // Release the lock before calling the system.
        drop(old);
    }

    /// Returns whether the path still leads to the file.
    pub(super) fn is_current(&self) -> bool {
        let (file, stamp) = match &*self.state.lock() {
            State::Open(file) => (Some(file.clone()), None),
            State::Away(stamp) => (None, Some(*stamp)),
            State::Closed => return false,
        };
        let path = &*self.path;
        let now = || rustix::fs::stat(path).ok().as_ref().and_then(stamp_of);
        file.is_some_and(|file| leads_to(path, file.as_fd()))
            || stamp.is_some_and(|stamp| now().is_some_and(|now| now.same_write(&stamp)))
    }

    /// Adds the file to the open ones, and closes others if there are too many.
    fn count(self: &Arc<Self>) {
        self.used.store(OPENINGS.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        OPEN.lock().push(OpenEntry { held: Arc::downgrade(self), used: self.used.clone() });
        while put_one_away(MOST) {}
    }

    /// Closes the descriptor, unless nothing could reopen the file.
    fn put_away(&self) {
        let file = match &*self.state.lock() {
            State::Open(file) => file.clone(),
            State::Away(_) | State::Closed => return,
        };
        if !leads_to(&*self.path, file.as_fd()) {
            return;
        }
        let Ok(Some(seen)) = Seen::of(file.as_fd()) else { return };
        let mut state = self.state.lock();
        let old = match &*state {
            State::Open(now) if Arc::ptr_eq(now, &file) => {
                std::mem::replace(&mut *state, State::Away(seen.stamp))
            }
            _ => return,
        };
        drop(state);
        drop((old, file));
    }
}

/// Closes the least recently used file if more than `most` are open. Otherwise returns `false`.
fn put_one_away(most: usize) -> bool {
    let victim = {
        let mut open = OPEN.lock();
        if open.len() > most {
            open.retain(|entry| entry.held.strong_count() > 0);
        }
        if open.len() <= most {
            return false;
        }
        let used = |(_, entry): &(usize, &OpenEntry)| entry.used.load(Ordering::Relaxed);
        let oldest = open.iter().enumerate().min_by_key(used).map(|(n, _)| n);
        oldest.map(|n| open.swap_remove(n))
    };
    // Without the lock: this calls the system, and may drop the last owner.
    if let Some(held) = victim.and_then(|entry| entry.held.upgrade()) {
        held.put_away();
    }
    true
}

/// Closes one held file, for a process without free descriptors. Returns `false` if there is none.
pub(super) fn free_one() -> bool {
    put_one_away(0)
}

/// Returns whether the process or the system is out of descriptors.
pub(super) fn is_out_of_descriptors(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE)
}
