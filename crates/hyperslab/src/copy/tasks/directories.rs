//! Directories of copies on a disk: locked, told apart, and deleted.

use crate::{Error, Result};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a directory is deleted again in which a run that has ended still makes files.
const ATTEMPTS: usize = 20;

/// The lock of a directory, until it is dropped.
#[derive(Debug)]
pub(crate) struct DirectoryLock(Option<File>);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Unlock explicitly: a child that was forked meanwhile has the same open file.
        if let Some(file) = &self.0 {
            let _ = file.unlock();
        }
    }
}

impl DirectoryLock {
    /// No lock: there is no directory, or it cannot be locked.
    pub(super) const NONE: DirectoryLock = DirectoryLock(None);

    pub(super) fn is_held(&self) -> bool {
        self.0.is_some()
    }
}

/// Locks a directory. Makes it first, if `make` is set.
///
/// Fails with `busy` if another run has the lock for longer than `wait`.
pub(crate) fn lock(
    directory: &Path,
    make: bool,
    wait: Duration,
    busy: impl FnOnce() -> Error,
) -> Result<DirectoryLock> {
    let begun = Instant::now();
    loop {
        if make {
            // If this fails, writing the journal fails too, with an error that says why.
            let _ = fs::create_dir_all(directory);
        }
        let Ok(file) = File::open(directory) else { return Ok(DirectoryLock::NONE) };
        match file.try_lock() {
            Ok(()) => {
                let is_same = file.metadata().is_ok_and(|found| Some(identity(&found)) == inode(directory));
                if is_same {
                    return Ok(DirectoryLock(Some(file)));
                }
                // The previous holder of the lock has deleted the directory.
            }
            Err(TryLockError::WouldBlock) => {
                if hyperslab_store::waiting::is_over() {
                    return Err(Error::Interrupted);
                }
                if begun.elapsed() > wait {
                    return Err(busy());
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            // A shared file system that cannot lock directories.
            Err(TryLockError::Error(_)) => return Ok(DirectoryLock::NONE),
        }
    }
}

/// An identity of a directory that does not depend on its name.
pub(super) fn inode(directory: &Path) -> Option<Vec<u8>> {
    directory.metadata().ok().map(|found| identity(&found))
}

fn identity(found: &fs::Metadata) -> Vec<u8> {
    format!("{}:{}", found.dev(), found.ino()).into_bytes()
}

/// Makes the names in a directory permanent.
pub(super) fn flush(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Deletes a directory and everything in it, as far as possible.
pub(super) fn remove_tree(directory: &Path) {
    for _ in 0..ATTEMPTS {
        match fs::remove_dir_all(directory) {
            Ok(()) => return,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            // A run that has ended has just made a file there. On NFS, other machines may reach the
            // directory by its number until it is deleted.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(_) => return remove_rest(directory),
        }
    }
}

/// Deletes everything below a directory that can be deleted, and the directory if it is empty then.
fn remove_rest(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => remove_rest(&entry.path()),
            false => drop(fs::remove_file(entry.path())),
        }
    }
    let _ = fs::remove_dir(directory);
}
