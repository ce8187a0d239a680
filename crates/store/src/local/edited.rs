//! A file on disk that is changed in place.
//!
//! A new file has no name until it is published: another program finds the old file, or none,
//! until the new one is whole.
//!
//! An open file is locked in two ways, both on a descriptor of its own, which a forked child does
//! not keep:
//!
//! * a shared flock(2), as the HDF5 library takes for reading. It refuses that library's writers,
//!   and admits its readers.
//! * an exclusive lock of one byte far behind the end, which only this project takes. It refuses
//!   a second writer of ours.

use super::write::Unnamed;
use super::{LocalOptions, LocalStore, file_url, refuse};
use crate::descriptors::Lockable;
use crate::fork::{self, Mutex};
use crate::{Operation, Result, StoreError};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The byte that writers lock. No file is as long.
#[cfg(any(target_os = "linux", target_os = "android"))]
const WRITER: i64 = 1 << 62;

/// Bytes of a file on disk.
#[derive(Debug)]
pub(crate) struct EditedDisk {
    path: PathBuf,
    file: File,
    /// The process that opened the file. A forked child does not write.
    generation: u64,
    locks: bool,
    fsync: bool,
    /// `true` if nobody else had the file open when it was opened.
    pub(crate) was_alone: bool,
    /// Gated.
    name: Mutex<Name>,
}

/// The name of the file, and its locks.
#[derive(Debug)]
enum Name {
    /// It is not published yet. `replaces`: another file may have its name. That file is locked: its
    /// writer must not lose changes.
    Unpublished { new: Unnamed, replaces: bool, _old: Option<Locked> },
    /// Another thread publishes it.
    Publishing,
    /// It has its name. The locks, if there are any.
    Published { locked: Option<Locked> },
}

/// A locked file.
#[derive(Debug)]
struct Locked(Lockable);

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
            Some(_) if locks => Locked::new(&path).map_err(failed)?.0,
            _ => None,
        };
        let parent = path.parent().unwrap_or(&path);
        let directory = LocalStore::unseen(parent, LocalOptions::default())?;
        let new = directory.create_beside(&c_path(&path).map_err(failed)?).map_err(failed)?;
        let file = new.file().and_then(File::try_clone).map_err(failed)?;
        if let Some(old) = old {
            file.set_permissions(old.permissions()).map_err(failed)?;
        }
        let name = Mutex::new(Name::Unpublished { new, replaces, _old: locked });
        let generation = fork::generation();
        Ok(EditedDisk { path, file, generation, locks, fsync, was_alone: true, name })
    }

    /// Opens a file. `None`: there is none.
    pub(crate) fn open(path: &Path, locks: bool, fsync: bool) -> Result<Option<EditedDisk>> {
        let failed = |error: io::Error| error_of(path, Operation::Write, error);
        let path = std::path::absolute(path).map_err(failed)?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = match retry_on_intr(|| rustix::fs::open(&path, flags, Mode::empty())) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(failed(error.into())),
        };
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(refuse(&path, io::Error::other("it is not a regular file")));
        }
        let (locked, was_alone) = if locks { Locked::new(&path).map_err(failed)? } else { (None, false) };
        let name = Mutex::new(Name::Published { locked });
        let generation = fork::generation();
        Ok(Some(EditedDisk { path, file, generation, locks, fsync, was_alone, name }))
    }

    /// The URL of the directory, to which the key is added.
    pub(crate) fn url(&self) -> String {
        file_url(self.path.parent().unwrap_or(&self.path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check_process()?;
        self.file.write_all_at(bytes, offset)
    }

    pub(crate) fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_process()?;
        self.file.set_len(len)
    }

    /// Waits until everything is on the disk, if the file was opened so.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if self.fsync { self.file.sync_data() } else { Ok(()) }
    }

    /// Lets other programs change the file.
    pub(crate) fn unlock(&self) {
        let mut name = self.name.lock();
        let locked = match &mut *name {
            Name::Published { locked } => locked.take(),
            _ => None,
        };
        // The descriptor is closed after the lock is released.
        drop(name);
        drop(locked);
    }

    pub(crate) fn is_published(&self) -> bool {
        matches!(*self.name.lock(), Name::Published { .. })
    }

    /// Gives a new file its name.
    pub(crate) fn publish(&self) -> io::Result<()> {
        self.check_process()?;
        let name = {
            let mut name = self.name.lock();
            match *name {
                Name::Unpublished { .. } => std::mem::replace(&mut *name, Name::Publishing),
                _ => return Ok(()),
            }
        };
        let Name::Unpublished { mut new, replaces, _old } = name else { return Ok(()) };
        let done = self.put(&mut new, replaces).and_then(|()| match self.locks {
            true => Locked::new(&self.path).map(|(locked, _)| locked),
            false => Ok(None),
        });
        let (name, answer) = match done {
            Ok(locked) => (Name::Published { locked }, Ok(())),
            Err(error) => (Name::Unpublished { new, replaces, _old }, Err(error)),
        };
        let old = std::mem::replace(&mut *self.name.lock(), name);
        drop(old);
        answer
    }

    fn put(&self, new: &mut Unnamed, replaces: bool) -> io::Result<()> {
        let target = c_path(&self.path)?;
        if self.fsync {
            self.file.sync_all()?;
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

    /// Refuses changes by a forked child, which shares the file with its parent.
    fn check_process(&self) -> io::Result<()> {
        if self.generation == fork::generation() {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the file was opened for writing by the parent process: open it again in this process",
        ))
    }
}

/// Returns an error about a file that is changed. It has the key ``""``: the URL names the file.
fn error_of(path: &Path, operation: Operation, source: io::Error) -> StoreError {
    let key = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    StoreError::Io { operation, key, url: file_url(path), source }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL.into())
}

impl Locked {
    /// Locks a file. `None`: its file system has no locks. Returns also whether nobody else had
    /// locked it.
    fn new(path: &Path) -> io::Result<(Option<Locked>, bool)> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = Lockable::open(|| rustix::fs::open(path, flags, Mode::empty()))?;
        // Readers of the HDF5 library hold a shared lock.
        let was_alone = retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)).is_ok();
        match retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockShared)) {
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
        let locked = Locked(file);
        match lock_writer(&locked.0, true) {
            Ok(()) => Ok((Some(locked), was_alone)),
            Err(Errno::WOULDBLOCK | Errno::ACCESS) => Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "unable to lock file: it is already open for writing",
            )),
            Err(Errno::NOSYS | Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL) => Ok((Some(locked), false)),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // A child forked from here on may have a copy of the descriptor.
        let _ = lock_writer(&self.0, false);
    }
}

/// Locks or unlocks the writers' byte for this open file, without waiting.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn lock_writer(file: impl AsFd, lock: bool) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd;
    #[allow(clippy::cast_possible_truncation, reason = "the constants are small")]
    let kind = if lock { libc::F_WRLCK } else { libc::F_UNLCK } as libc::c_short;
    // SAFETY: all bytes of the structure may be zero.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind;
    #[allow(clippy::cast_possible_truncation, reason = "the constant is small")]
    let from_start = libc::SEEK_SET as libc::c_short;
    range.l_whence = from_start;
    range.l_start = WRITER;
    range.l_len = 1;
    // SAFETY: the descriptor is open, and the structure outlives the call.
    let answer = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &raw mut range) };
    if answer == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn lock_writer(_: impl AsFd, _: bool) -> rustix::io::Result<()> {
    Err(Errno::NOSYS)
}
