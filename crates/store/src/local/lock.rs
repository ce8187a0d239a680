//! Locks between processes: flock(2) on the files themselves.
//!
//! The lock of an object is a flock on its own file; the lock of a prefix is one on its directory.
//! A lock thus leaves nothing behind and shows in no listing. Objects are replaced, not modified,
//! so the locked file may no longer be the object:
//!
//! 1. Open the object's file. If there is none, lock nothing: if two writers both try to create the
//!    object, one wins ([`Expected::Absent`](crate::Expected)) and the other starts again.
//! 2. Wait for an exclusive flock on the file. The kernel releases the lock when its holder dies.
//! 3. If the name no longer leads to the locked file, the object was replaced or deleted meanwhile:
//!    start again.
//! 4. Hold the lock until the object is replaced. Step 3 sends all waiters back, so the replacement
//!    must be the last step under the lock.
//!
//! Long work between reading and replacing needs no lock. Open the object, lock it when the new one
//! is ready, and check that the name still leads to the open file
//! ([`Expected::Same`](crate::Expected)). While the file is open, its inode number is not reused.
//!
//! Writers that replace an object without reading it take no lock. If such a writer renames in the
//! few microseconds between our check and our rename, its object is overwritten.
//!
//! A forked child does not keep its parent's locks: see `descriptors.rs`. If files cannot be locked
//! (some network and FUSE file systems), nothing is locked.

use super::{LocalStore, PathBytes};
use crate::descriptors::Lockable;
use crate::{Ask, Key, ObjectLock, Operation, Result};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// How often a waiter is sent back before it fails. On a file system that gives one file different
/// inode numbers, it would be sent back forever.
const MAX_ATTEMPTS: usize = 1 << 16;

/// Results of flock(2), except for a lock held by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Locked,
    /// The file has to be open for writing (NFS).
    ToWrite,
    /// Files cannot be locked here.
    Impossible,
}

impl LocalStore {
    /// Locks a file or a directory. If it does not exist, locks nothing.
    pub(super) fn lock_path(
        &self,
        name: &str,
        kind: FileType,
        ask: Option<Ask<'_>>,
    ) -> Result<ObjectLock<'_>> {
        if !self.options.file_locks {
            return Ok(ObjectLock::free());
        }
        self.try_lock(name, kind, ask).map_err(|error| self.stopped(Operation::Lock, name, error))
    }

    /// Locks an object if nobody else has the lock. Otherwise returns `None`.
    pub(crate) fn lock_now(&self, key: Key<'_>) -> Result<Option<ObjectLock<'static>>> {
        if !self.options.file_locks {
            return Ok(Some(ObjectLock::free()));
        }
        match self.try_lock(key.as_str(), FileType::RegularFile, Some(&|| true)) {
            Ok(lock) => Ok(Some(lock)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(self.error(Operation::Lock, key.as_str(), error)),
        }
    }

    fn try_lock(&self, name: &str, kind: FileType, ask: Option<Ask<'_>>) -> io::Result<ObjectLock<'static>> {
        let mut path = PathBytes::new();
        let path = self.path(name, &mut path)?;
        for _ in 0..MAX_ATTEMPTS {
            let Some(mut file) = open(path, OFlags::RDONLY)? else { return Ok(ObjectLock::free()) };
            let found = rustix::fs::fstat(&file)?;
            if FileType::from_raw_mode(found.st_mode) != kind {
                return Ok(ObjectLock::free());
            }
            let mut answer = wait_for(file.as_fd(), ask)?;
            if answer == Answer::ToWrite && kind == FileType::RegularFile {
                let Some(again) = open(path, OFlags::RDWR)? else { continue };
                file = again;
                answer = wait_for(file.as_fd(), ask)?;
            }
            if answer != Answer::Locked {
                return Ok(ObjectLock::free());
            }
            if leads_to(path, file.as_fd()) {
                return Ok(ObjectLock::new(file));
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// Opens a file to lock it. `None` if there is none.
fn open(path: &CStr, access: OFlags) -> io::Result<Option<Lockable>> {
    let flags = access | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    match Lockable::open(|| rustix::fs::open(path, flags, Mode::empty())) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Runs `work` while others are locked out of an open file.
///
/// `work` receives whether `path` still leads to the file.
pub(super) fn while_locked<T>(
    path: &CStr,
    file: BorrowedFd<'_>,
    ask: Option<Ask<'_>>,
    work: impl FnOnce(bool) -> io::Result<T>,
) -> io::Result<T> {
    match wait_for(file, ask)? {
        Answer::Locked => {
            let done = work(leads_to(path, file));
            // Unlock explicitly: the file may stay open for long, and a forked child may have a
            // copy of the descriptor.
            let _ = retry_on_intr(|| flock(file, FlockOperation::Unlock));
            done
        }
        Answer::Impossible => work(leads_to(path, file)),
        Answer::ToWrite => {
            let Some(again) = open(path, OFlags::RDWR)? else { return work(false) };
            wait_for(again.as_fd(), ask)?;
            work(leads_to(path, file))
        }
    }
}

/// Waits until a file is locked. Fails with `Interrupted` if `ask` returns `true`.
///
/// Polls, with pauses of 0.05 to 5 ms. A wait in the kernel would end only on a signal that happens
/// to reach this thread.
fn wait_for(file: BorrowedFd<'_>, ask: Option<Ask<'_>>) -> io::Result<Answer> {
    let mut pause = Duration::from_micros(50);
    loop {
        match retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => return Ok(Answer::Locked),
            Err(Errno::WOULDBLOCK) => {}
            Err(Errno::BADF) => return Ok(Answer::ToWrite),
            Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                return Ok(Answer::Impossible);
            }
            Err(error) => return Err(error.into()),
        }
        if ask.is_some_and(|ask| ask()) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// Returns whether a path leads to this open file.
pub(super) fn leads_to(path: impl Arg, file: BorrowedFd<'_>) -> bool {
    let (named, opened) = (rustix::fs::stat(path), rustix::fs::fstat(file));
    named.is_ok_and(|named| {
        opened.is_ok_and(|opened| (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino))
    })
}
