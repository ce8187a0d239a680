//! A file on disk that is changed in place.
//!
//! A new file has no name until it is published: another program finds the old file, or none,
//! until the new one is whole.
//!
//! An open file is locked in three ways, all on a descriptor of its own, which a forked child does
//! not keep:
//!
//! * a shared flock(2), as the HDF5 library takes for reading. It refuses that library's writers,
//!   and admits its readers.
//! * a shared lock of one byte far behind the end, which only this project takes. It tells writers
//!   of each other. A program that is about to replace the file has it exclusively.
//! * an exclusive lock of another such byte, for as long as a change of the file's state takes
//!   ([`EditedDisk::lock_changes`]). A third byte tells of appended steps that are not flushed.
//!
//! Readers of this project lock a fourth byte ([`FileStore`](super::FileStore)). A writer that finds
//! it locked leaves alone the space that an older state of the file used.

use super::byte_lock::{APPENDED, CHANGES, Kind, PRESENT, READERS, is_byte_locked, lock_byte};
use super::write::Unnamed;
use super::{LocalOptions, LocalStore, file_url, refuse};
use crate::descriptors::Lockable;
use crate::fork::{self, Mutex, RwLock};
use crate::{Operation, Result, StoreError, turns, waiting};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pauses of a program that waits for another one: the first, and the longest.
const PAUSE: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(2);

/// How long it waits. Others hold the lock for milliseconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Attempts to open a file that others replace meanwhile.
const ATTEMPTS: usize = 10;

/// Bytes of a file on disk.
#[derive(Debug)]
pub(crate) struct EditedDisk {
    path: PathBuf,
    /// Gated. `None`: it was closed. A call that is under way keeps it open.
    file: RwLock<Option<Arc<File>>>,
    /// The process that opened the file. A forked child does not write.
    generation: u64,
    locks: bool,
    fsync: bool,
    /// `true` if nobody else had the file open when it was opened.
    pub(crate) was_alone: bool,
    /// Gated.
    name: Mutex<Name>,
    /// Gated. The number of holders of the lock for changes, all of this process.
    holders: Mutex<usize>,
    /// Turn of the thread that waits for this lock.
    locking: u64,
    /// `true` while the lock is held since the file was opened.
    is_opening: AtomicBool,
}

/// The name of the file, and its locks.
#[derive(Debug)]
enum Name {
    /// It is not published yet. `replaces`: another file may have its name. That file is locked: its
    /// writer must not lose changes.
    Unpublished { new: Unnamed, replaces: bool, old: Option<Locked> },
    /// Another thread publishes it.
    Publishing,
    /// It has its name. The locks, if there are any.
    Published { locked: Option<Arc<Locked>> },
}

/// A locked file.
#[derive(Debug)]
pub(super) struct Locked(Lockable);

/// The answer of locks to the question whether a writer has a file open.
#[derive(Debug)]
pub(super) enum Held {
    /// No writer has it, and none opens it until the lock is dropped.
    ByNobody(Locked),
    ByWriter,
    /// Files cannot be locked here.
    Unknown,
}

/// Locks a file that no writer has open.
pub(super) fn hold(path: &Path) -> io::Result<Held> {
    match Locked::new(path, Kind::Exclusive) {
        Ok((Some(locked), _)) => Ok(Held::ByNobody(locked)),
        Ok((None, _)) => Ok(Held::Unknown),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Held::ByWriter),
        Err(error) => Err(error),
    }
}

/// Excludes other programs that change the file, until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is released at once"]
pub(crate) struct ChangeLock<'f>(&'f EditedDisk);

impl Drop for ChangeLock<'_> {
    fn drop(&mut self) {
        self.0.unlock_changes();
    }
}

impl EditedDisk {
    /// Creates a file without a name. `replaces`: publishing it may replace another file.
    pub(crate) fn create(path: &Path, replaces: bool, locks: bool, fsync: bool) -> Result<EditedDisk> {
        let failed = |error: io::Error| error_of(path, Operation::Write, error);
        let path = std::path::absolute(path).map_err(failed)?;
        if !replaces && path.symlink_metadata().is_ok() {
            return Err(failed(Errno::EXIST.into()));
        }
        // The file behind a link is replaced, not the link.
        let path = path.canonicalize().unwrap_or(path);
        let old = path.metadata().ok();
        if let Some(old) = &old {
            if old.is_dir() {
                return Err(failed(Errno::ISDIR.into()));
            }
            if !old.is_file() {
                return Err(failed(io::Error::other("it is not a regular file")));
            }
        }
        let locked = match &old {
            Some(_) if locks => Locked::new(&path, Kind::Exclusive).map_err(failed)?.0,
            _ => None,
        };
        let parent = path.parent().unwrap_or(&path);
        let directory = LocalStore::unseen(parent, LocalOptions::default())?;
        let new = directory.create_beside(&c_path(&path).map_err(failed)?).map_err(failed)?;
        let file = new.file().and_then(File::try_clone).map_err(failed)?;
        if let Some(old) = old {
            file.set_permissions(old.permissions()).map_err(failed)?;
        }
        let name = Name::Unpublished { new, replaces, old: locked };
        Ok(EditedDisk::new(path, file, (locks, fsync), true, name))
    }

    /// Opens a file. `None`: there is none.
    pub(crate) fn open(path: &Path, locks: bool, fsync: bool) -> Result<Option<EditedDisk>> {
        let failed = |error: io::Error| error_of(path, Operation::Write, error);
        let path = std::path::absolute(path).map_err(failed)?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let mut attempts = 0;
        let (file, locked, was_alone) = loop {
            let file = match retry_on_intr(|| rustix::fs::open(&path, flags, Mode::empty())) {
                Ok(file) => File::from(file),
                Err(Errno::NOENT) => return Ok(None),
                Err(error) => return Err(failed(error.into())),
            };
            if !file.metadata().map_err(failed)?.is_file() {
                return Err(refuse(&path, io::Error::other("it is not a regular file")));
            }
            let (locked, was_alone) = match locks {
                true => Locked::new(&path, Kind::Shared).map_err(failed)?,
                false => (None, false),
            };
            // Another file may have taken the name between the two calls. Changes of the old one would
            // be lost.
            match &locked {
                Some(locked) if !is_same_file(&file, &locked.0).map_err(failed)? => {}
                _ => break (file, locked, was_alone),
            }
            attempts += 1;
            if attempts == ATTEMPTS {
                let why = "unable to lock file: other programs replace it again and again";
                return Err(failed(io::Error::new(io::ErrorKind::WouldBlock, why)));
            }
        };
        let is_locked = locked.is_some();
        let disk = EditedDisk::new(
            path,
            file,
            (locks, fsync),
            was_alone,
            Name::Published { locked: locked.map(Arc::new) },
        );
        // The lock for changes is held until the file is read.
        *disk.holders.lock() = is_locked.into();
        disk.is_opening.store(is_locked, Ordering::Release);
        Ok(Some(disk))
    }

    fn new(
        path: PathBuf,
        file: File,
        (locks, fsync): (bool, bool),
        was_alone: bool,
        name: Name,
    ) -> EditedDisk {
        EditedDisk {
            path,
            file: RwLock::new(Some(Arc::new(file))),
            generation: fork::generation(),
            locks,
            fsync,
            was_alone,
            name: Mutex::new(name),
            holders: Mutex::new(0),
            locking: turns::number(),
            is_opening: AtomicBool::new(false),
        }
    }

    fn locked(&self) -> Option<Arc<Locked>> {
        match &*self.name.lock() {
            Name::Published { locked } => locked.clone(),
            _ => None,
        }
    }

    /// Waits until no other program changes the state of the file, and excludes others.
    ///
    /// The threads of this process share the lock. Does nothing if the file has no name yet, or is
    /// not locked. Fails with the kind [`io::ErrorKind::Interrupted`] if the wait was interrupted.
    pub(crate) fn lock_changes(&self) -> io::Result<ChangeLock<'_>> {
        // One thread waits. The others get the lock with it.
        let _turn = turns::take(self.locking, None).ok();
        let has_lock = {
            let mut holders = self.holders.lock();
            if *holders > 0 {
                *holders += 1;
            }
            *holders > 0
        };
        if !has_lock {
            if let Some(locked) = self.locked() {
                locked.wait_for_changes()?;
            }
            *self.holders.lock() += 1;
        }
        Ok(ChangeLock(self))
    }

    fn unlock_changes(&self) {
        // Released inside the gate: another thread must not find no holder and a held lock.
        let locked = self.locked();
        let mut holders = self.holders.lock();
        *holders = holders.saturating_sub(1);
        if *holders == 0
            && let Some(locked) = locked
        {
            let _ = lock_byte(&locked.0, CHANGES, Kind::None);
        }
    }

    /// Lets others change the file, once it was read after its opening.
    pub(crate) fn end_opening(&self) {
        if self.is_opening.swap(false, Ordering::AcqRel) {
            self.unlock_changes();
        }
    }

    /// Tells other writers that this one does not change the file any more.
    pub(crate) fn leave(&self) {
        if let Some(locked) = self.locked() {
            let _ = lock_byte(&locked.0, PRESENT, Kind::None);
        }
    }

    /// Tells other writers whether this one has appended something that the file does not have yet.
    pub(crate) fn mark_appended(&self, has_appended: bool) -> io::Result<()> {
        let kind = if has_appended { Kind::Shared } else { Kind::None };
        match self.locked() {
            Some(locked) => Ok(lock_byte(&locked.0, APPENDED, kind)?),
            None => Ok(()),
        }
    }

    /// Returns `true` if another writer has appended something that the file does not have yet.
    pub(crate) fn others_appended(&self) -> bool {
        self.locked().is_some_and(|locked| is_byte_locked(&locked.0, APPENDED))
    }

    /// Returns `true` if the file is locked with other writers.
    pub(crate) fn is_locked(&self) -> bool {
        self.locked().is_some()
    }

    /// Returns `true` if another writer of ours has the file open.
    pub(crate) fn has_others(&self) -> bool {
        self.locked().is_some_and(|locked| is_byte_locked(&locked.0, PRESENT))
    }

    /// Returns `true` if nobody else has the file open, as far as locks tell.
    ///
    /// Takes the HDF5 library's lock exclusively for a moment, so only for a writer that leaves. An
    /// error means that a writer of that library has it now: do not write any more.
    pub(crate) fn is_alone(&self) -> io::Result<bool> {
        let Some(locked) = self.locked() else { return Ok(!self.locks) };
        let is_alone = !is_byte_locked(&locked.0, PRESENT) && is_not_read(&locked.0);
        retry_on_intr(|| flock(&locked.0, FlockOperation::NonBlockingLockShared))?;
        Ok(is_alone)
    }

    /// The URL of the directory, to which the key is added.
    pub(crate) fn url(&self) -> String {
        file_url(self.path.parent().unwrap_or(&self.path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.file()?.metadata()?.len())
    }

    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file()?.read_exact_at(buf, offset)
    }

    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        fork::check_writer(self.generation)?;
        self.file()?.write_all_at(bytes, offset)
    }

    pub(crate) fn set_len(&self, len: u64) -> io::Result<()> {
        fork::check_writer(self.generation)?;
        self.file()?.set_len(len)
    }

    /// Waits until everything is on the disk, if the file was opened so.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if self.fsync { self.file()?.sync_data() } else { Ok(()) }
    }

    fn file(&self) -> io::Result<Arc<File>> {
        self.file.read().clone().ok_or_else(|| Errno::BADF.into())
    }

    /// Closes the file, and lets other programs change it.
    pub(crate) fn close(&self) {
        let file = self.file.write().take();
        drop(file);
        let mut name = self.name.lock();
        let (locked, old) = match &mut *name {
            Name::Published { locked } => (locked.take(), None),
            // Nobody gets the new file. Others may change the one that it was to replace.
            Name::Unpublished { old, .. } => (None, old.take()),
            Name::Publishing => (None, None),
        };
        // The descriptors are closed outside the gate.
        drop(name);
        drop((locked, old));
    }

    pub(crate) fn is_published(&self) -> bool {
        matches!(*self.name.lock(), Name::Published { .. })
    }

    /// Gives a new file its name.
    pub(crate) fn publish(&self) -> io::Result<()> {
        fork::check_writer(self.generation)?;
        let name = {
            let mut name = self.name.lock();
            match *name {
                Name::Unpublished { .. } => std::mem::replace(&mut *name, Name::Publishing),
                _ => return Ok(()),
            }
        };
        let Name::Unpublished { mut new, replaces, old } = name else { return Ok(()) };
        let done = self.put(&mut new, replaces).and_then(|()| match self.locks {
            true => Locked::new(&self.path, Kind::Shared).map(|(locked, _)| locked),
            false => Ok(None),
        });
        let (name, answer) = match done {
            Ok(locked) => {
                if let Some(locked) = locked.as_ref().filter(|_| *self.holders.lock() == 0) {
                    let _ = lock_byte(&locked.0, CHANGES, Kind::None);
                }
                (Name::Published { locked: locked.map(Arc::new) }, Ok(()))
            }
            Err(error) => (Name::Unpublished { new, replaces, old }, Err(error)),
        };
        let old = std::mem::replace(&mut *self.name.lock(), name);
        drop(old);
        answer
    }

    fn put(&self, new: &mut Unnamed, replaces: bool) -> io::Result<()> {
        let target = c_path(&self.path)?;
        if self.fsync {
            self.file()?.sync_all()?;
        }
        match new.put_first(&target) {
            Err(Errno::EXIST) if replaces => new.replace(&target)?,
            Err(error) => return Err(error.into()),
            Ok(()) => {}
        }
        if self.fsync
            && let Some(parent) = self.path.parent()
        {
            File::open(parent)?.sync_all()?;
        }
        Ok(())
    }
}

/// Returns an error about a file that is changed: the URL names the file.
fn error_of(path: &Path, operation: Operation, source: io::Error) -> StoreError {
    let key = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match source.kind() {
        io::ErrorKind::Interrupted => StoreError::Interrupted { key, url: file_url(path) },
        _ => StoreError::Io { operation, key, url: file_url(path), source },
    }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL.into())
}

/// Returns `true` if nobody reads a file. Readers of this project lock a byte. Readers of the HDF5
/// library hold a shared flock: the descriptor has it exclusively after this call, if it can.
fn is_not_read(file: &Lockable) -> bool {
    !is_byte_locked(file, READERS)
        && retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive)).is_ok()
}

/// Returns `true` if two descriptors are of the same file.
fn is_same_file(one: impl AsFd, other: impl AsFd) -> io::Result<bool> {
    let (one, other) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

impl Locked {
    /// Locks a file, and the byte of its writers in this way. `None`: its file system has no locks.
    /// Returns also whether nobody else had locked it.
    ///
    /// A file that is locked with others is locked for changes, too.
    fn new(path: &Path, kind: Kind) -> io::Result<(Option<Locked>, bool)> {
        for _ in 0..ATTEMPTS {
            let found = Locked::once(path, kind)?;
            let Some(locked) = &found.0 else { return Ok(found) };
            // The name may belong to another file since the descriptor was opened.
            let (has, named) = (rustix::fs::fstat(&locked.0)?, rustix::fs::stat(path)?);
            if (has.st_dev, has.st_ino) == (named.st_dev, named.st_ino) {
                return Ok(found);
            }
        }
        let why = "unable to lock file: other programs replace it again and again";
        Err(io::Error::new(io::ErrorKind::WouldBlock, why))
    }

    fn once(path: &Path, kind: Kind) -> io::Result<(Option<Locked>, bool)> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let locked = Locked(Lockable::open(|| rustix::fs::open(path, flags, Mode::empty()))?);
        let file = &locked.0;
        // Programs that open the file come one after the other. A program that replaces it has to
        // hold this lock only until others find it.
        match locked.wait_for_changes() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok((None, false)),
            Err(error) => return Err(error),
        }
        let was_alone = is_not_read(file);
        match retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockShared)) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    "unable to lock file: another program has it open for writing",
                ));
            }
            Err(Errno::NOSYS | Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL) => return Ok((None, false)),
            Err(error) => return Err(error.into()),
        }
        match lock_byte(file, PRESENT, kind) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK | Errno::ACCESS) => {
                let why = match kind {
                    Kind::Exclusive => "unable to lock file: it is already open for writing",
                    _ => "unable to lock file: another program replaces it",
                };
                return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
            }
            Err(error) => return Err(error.into()),
        }
        if kind == Kind::Exclusive {
            lock_byte(file, CHANGES, Kind::None)?;
        }
        Ok((Some(locked), was_alone))
    }

    /// Waits for the lock for changes. Fails with the kind [`io::ErrorKind::Unsupported`] if there are
    /// no such locks here.
    ///
    /// Polls: a wait in the kernel would end only on a signal that happens to reach this thread.
    fn wait_for_changes(&self) -> io::Result<()> {
        let (mut pause, begun) = (PAUSE, Instant::now());
        loop {
            match lock_byte(&self.0, CHANGES, Kind::Exclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK | Errno::ACCESS) => {}
                Err(Errno::NOSYS | Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL) => {
                    return Err(io::ErrorKind::Unsupported.into());
                }
                Err(error) => return Err(error.into()),
            }
            if waiting::is_over() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if begun.elapsed() > PATIENCE {
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    "unable to lock file: another program changes it for minutes, or was suspended meanwhile",
                ));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST);
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // A child forked from here on may have a copy of the descriptor.
        for byte in [CHANGES, PRESENT, APPENDED] {
            let _ = lock_byte(&self.0, byte, Kind::None);
        }
    }
}
