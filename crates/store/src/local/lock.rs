//! Locks of objects between processes, by flock(2) on lock files that live as long as they are held.
//!
//! The lock of an object is a file beside it, whose name is made of that of the object and cannot be a key. (The object's own
//! file will not do: there may be none yet, and the one that replaces it is another file, which nobody holds. Nor will the
//! directory: all objects in it would wait for each other.)
//!
//! 1. Open the lock file, or create it.
//! 2. Wait for an exclusive flock on it. The kernel lets go when the holder dies, however it dies.
//! 3. Look whether its name still leads to the file that is locked. If not, its holder has removed it while this one waited,
//!    and the next may have made, and locked, a new one: start again.
//! 4. The lock is held. Whoever comes meets the same file in step 1, and waits in step 2.
//! 5. Letting go removes the file **before** its lock: whoever waits is sent back by step 3. The other way round, one who
//!    waited could lock the file and find it named in step 3, and then lose the name to this removal: the next one would hold
//!    a new file at the same time.
//!
//! So at any time only who locks the file that has the name holds the lock, and only the holder takes the name away.
//!
//! A killed holder leaves the file, empty and invisible; who locks the object next finds it unlocked, uses it and removes it.
//! [`Store::delete_prefix`](crate::Store::delete_prefix) takes lock files away with all else, and so lets others in while
//! somebody holds a lock there; that one, when it lets go, leaves a lock file alone that is not its own.
//!
//! A process forked while another thread holds a lock has a copy of the descriptor. Unlocking in so many words frees the
//! lock for all copies; but if the parent is killed before that, the child keeps it locked until it ends.
//!
//! Where files cannot be locked (some file systems of the network and FUSE), nothing is.

use super::write::beside;
use super::{LocalStore, PathBytes};
use crate::key::TEMPORARY_SUFFIX;
use crate::turns::Refused;
use crate::{Ask, Key, Operation, StoreError, hash};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::{CStr, CString};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// How often a waiter is sent back. So unlucky nobody is: the file system gives one file different numbers.
const MAX_ATTEMPTS: usize = 1 << 16;

/// A lock that is held.
#[derive(Debug)]
pub(super) struct LockFile<'s> {
    store: &'s LocalStore,
    key: String,
    path: CString,
    file: OwnedFd,
}

impl LocalStore {
    /// `None`: files cannot be locked here.
    pub(super) fn lock_object(
        &self,
        key: Key<'_>,
        ask: Option<Ask<'_>>,
    ) -> Result<Option<LockFile<'_>>, StoreError> {
        self.try_lock(key, ask).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => StoreError::refused(Refused::Stopped, self, key.as_str()),
            _ => self.error(Operation::Lock, key.as_str(), error),
        })
    }

    /// The lock of a directory, which is a flock on it. `None`: there is no such directory, or it cannot be locked.
    pub(super) fn lock_directory(
        &self,
        prefix: Option<Key<'_>>,
        ask: Option<Ask<'_>>,
    ) -> Result<Option<LockedDirectory>, StoreError> {
        let name = prefix.map_or("", Key::as_str);
        self.try_lock_directory(name, ask).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => StoreError::refused(Refused::Stopped, self, name),
            _ => self.error(Operation::Lock, name, error),
        })
    }

    fn try_lock_directory(&self, name: &str, ask: Option<Ask<'_>>) -> io::Result<Option<LockedDirectory>> {
        let mut path = PathBytes::new();
        let path = self.path(name, &mut path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for _ in 0..MAX_ATTEMPTS {
            let file = match retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty())) {
                Ok(file) => file,
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            match wait_for(&file, ask)? {
                Some(true) => {}
                Some(false) | None => return Ok(None),
            }
            // Another may have taken its place while this waited.
            let (named, opened) = (rustix::fs::stat(path), rustix::fs::fstat(&file));
            if named.is_ok_and(|named| {
                opened.is_ok_and(|opened| (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino))
            }) {
                return Ok(Some(LockedDirectory { file }));
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn try_lock(&self, key: Key<'_>, ask: Option<Ask<'_>>) -> io::Result<Option<LockFile<'_>>> {
        let (mut target, mut path) = (PathBytes::new(), PathBytes::new());
        let target = self.path(key.as_str(), &mut target)?;
        let path = lock_path(target, &mut path)?;
        for _ in 0..MAX_ATTEMPTS {
            let (file, _) = self.with_parents(key, target, || open_and_lock(path, ask))?;
            let Some(file) = file else {
                let _ = rustix::fs::unlink(path);
                self.prune(key);
                return Ok(None);
            };
            if leads_to(path, file.as_fd()) {
                let (key, path) = (key.as_str().to_owned(), path.to_owned());
                return Ok(Some(LockFile { store: self, key, path, file }));
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Drop for LockFile<'_> {
    fn drop(&mut self) {
        if leads_to(&self.path, self.file.as_fd()) {
            // If this fails the file stays, unlocked: the next one uses it.
            let _ = rustix::fs::unlink(&*self.path);
            if let Ok(key) = Key::new(&self.key) {
                self.store.prune(key);
            }
        }
        let _ = retry_on_intr(|| flock(&self.file, FlockOperation::Unlock));
    }
}

/// `.lock.<hash of the name>.hyperslab-tmp` in the directory of `target`. Two objects of a directory whose names have the
/// same hash share a lock.
fn lock_path<'p>(target: &CStr, bytes: &'p mut PathBytes) -> io::Result<&'p CStr> {
    let name = target.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let mut lock = Vec::with_capacity(64);
    write!(lock, ".lock.{:016x}{TEMPORARY_SUFFIX}", hash::fnv1a(hash::EMPTY, name))?;
    beside(target, &lock, bytes)
}

/// Opens a lock file, which is made if it is missing, and waits until it is locked. `None`: that is impossible.
fn open_and_lock(path: &CStr, ask: Option<Ask<'_>>) -> io::Result<Option<OwnedFd>> {
    // Never through a link, and without waiting for a pipe, that somebody put there.
    let flags = OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    // Reading is permitted to more users than writing, and enough, except on NFS, which says so (BADF).
    for access in [OFlags::RDONLY, OFlags::RDWR] {
        let mode = Mode::from_raw_mode(0o666);
        let file = retry_on_intr(|| rustix::fs::open(path, flags | access, mode))?;
        match wait_for(&file, ask)? {
            Some(true) => return Ok(Some(file)),
            Some(false) => {}
            None => return Ok(None),
        }
    }
    Ok(None)
}

/// Waits until a file is locked. `false`: it would have to be open for writing. `None`: files cannot be locked here. An error of the
/// kind `Interrupted`: `ask` answered `true`.
///
/// It looks again and again, with pauses of 0.05 to 5 ms, instead of waiting in the kernel: there, only a signal that happens to reach
/// this very thread would end it.
fn wait_for(file: &OwnedFd, ask: Option<Ask<'_>>) -> io::Result<Option<bool>> {
    let mut pause = Duration::from_micros(50);
    loop {
        match retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => return Ok(Some(true)),
            Err(Errno::WOULDBLOCK) => {}
            Err(Errno::BADF) => return Ok(Some(false)),
            Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        if ask.is_some_and(|ask| ask()) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// A directory that is locked.
#[derive(Debug)]
pub(super) struct LockedDirectory {
    file: OwnedFd,
}

impl Drop for LockedDirectory {
    fn drop(&mut self) {
        // In so many words: closing would not do where a forked child has a copy.
        let _ = retry_on_intr(|| flock(&self.file, FlockOperation::Unlock));
    }
}

/// Whether a path leads to this open file.
pub(super) fn leads_to(path: &CStr, file: BorrowedFd<'_>) -> bool {
    let (named, opened) = (rustix::fs::lstat(path), rustix::fs::fstat(file));
    named.is_ok_and(|named| {
        opened.is_ok_and(|opened| (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino))
    })
}

#[cfg(test)]
mod tests {
    use super::lock_path;
    use crate::local::PathBytes;
    use crate::{Key, LocalOptions, LocalStore, Store};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn lock_files_are_named_after_objects_and_no_keys() {
        let name = |target: &str| {
            let (target, mut bytes) = (std::ffi::CString::new(target).unwrap(), PathBytes::new());
            lock_path(&target, &mut bytes).unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(name("/r/c/a"), "/r/c/.lock.af63dc4c8601ec8c.hyperslab-tmp");
        assert_eq!(name("/r/c/foobar"), "/r/c/.lock.85944171f73967e8.hyperslab-tmp");
        assert_eq!(name("/a"), "/.lock.af63dc4c8601ec8c.hyperslab-tmp");
        assert!(Key::new("c/.lock.af63dc4c8601ec8c.hyperslab-tmp").is_err());
    }

    /// As a forked child has one.
    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
        let key = Key::new("a/x").unwrap();
        let held = store.lock_object(key, None).unwrap().unwrap();
        let copy = rustix::io::dup(&held.file).unwrap();
        thread::scope(|scope| {
            let (got, answer) = mpsc::channel();
            let store = &store;
            scope.spawn(move || {
                drop(store.lock(key, None).unwrap());
                got.send(()).unwrap();
            });
            // Long enough, most times, for the other to wait.
            assert_eq!(answer.recv_timeout(Duration::from_millis(50)), Err(mpsc::RecvTimeoutError::Timeout));
            drop(held);
            answer.recv().unwrap();
        });
        drop(copy);
    }
}
