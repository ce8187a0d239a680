//! Writers that others may end: all their changes go through a folder.
//!
//! A writer may be suspended in the middle of a write, wake up hours later, and go on with the next
//! system call. No look and no lock before that call helps: it may have been suspended behind them.
//! So the call itself has to fail:
//!
//! 1. Whoever starts the writer makes a folder for it alone, on the disk of the objects.
//! 2. The writer makes each new file in the folder. The last step of a write renames the file from
//!    the folder to its place. A deletion renames the object into the folder.
//! 3. Whoever ends the writer removes the folder. From then on both renames fail: one of their two
//!    names is gone. The kernel does renames one after the other, so each is done before, or never.
//!
//! Nothing waits, and a write takes no more system calls than one look at the directory of the
//! object. That look comes before the bytes: a rename would find a missing directory only after
//! they are written.
//!
//! **Other disks.** Where a link below the root leads to another file system, a file cannot be
//! renamed to there. Then it is copied, and renamed there after a look at the folder. A writer that is
//! suspended exactly between this look and the rename is not stopped.

use super::write::{Unnamed, beside, create_named, temporary_beside};
use super::{LocalStore, PathBytes};
use rustix::fs::Access;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The folder of a writer, with a slash at its end.
#[derive(Clone, Debug)]
pub(super) struct Folder(Arc<CStr>);

impl Folder {
    fn new(path: &Path) -> io::Result<Folder> {
        let mut bytes = path.as_os_str().as_bytes().to_vec();
        bytes.push(b'/');
        Ok(Folder(CString::new(bytes)?.into()))
    }

    /// Whether somebody has removed it.
    fn is_gone(&self) -> bool {
        matches!(rustix::fs::stat(&*self.0), Err(Errno::NOENT | Errno::STALE | Errno::NOTDIR))
    }
}

impl LocalStore {
    /// The same store, whose changes go through a folder.
    pub(super) fn with_folder(&self, folder: &Path) -> io::Result<LocalStore> {
        Ok(LocalStore { folder: Some(Folder::new(folder)?), ..self.clone() })
    }

    /// Whether others have ended this writer.
    pub(super) fn is_ended(&self) -> bool {
        self.folder.as_ref().is_some_and(Folder::is_gone)
    }

    /// An error if others have ended this writer.
    pub(super) fn check_ended(&self) -> io::Result<()> {
        // No other step fails with this number because something is missing.
        if self.is_ended() { Err(Errno::STALE.into()) } else { Ok(()) }
    }

    /// Removes the name of an object.
    pub(super) fn unlink(&self, path: &CStr) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(rustix::fs::unlink(path)?) };
        let mut aside = PathBytes::new();
        let aside = temporary_beside(&folder.0, &mut aside)?;
        match rustix::fs::rename(path, aside) {
            Ok(()) => {
                // What is left is removed with the folder.
                let _ = rustix::fs::unlink(aside);
                Ok(())
            }
            Err(Errno::XDEV) => {
                self.check_ended()?;
                Ok(rustix::fs::unlink(path)?)
            }
            Err(error) => {
                self.check_ended()?;
                Err(error.into())
            }
        }
    }
}

/// Makes a new file for `target` in a folder. `NOENT`: the folder or the directory of `target` is
/// missing.
pub(super) fn create(folder: &Folder, target: &CStr) -> io::Result<Unnamed> {
    let mut path = PathBytes::new();
    rustix::fs::access(beside(target, b".", &mut path)?, Access::EXISTS)?;
    create_named(&folder.0)
}

/// A copy of a file beside `target`, and its name.
pub(super) fn copied(from: &CStr, target: &CStr) -> io::Result<Unnamed> {
    let path = |name: &CStr| Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())).to_owned();
    let new = create_named(target)?;
    io::copy(&mut File::open(path(from))?, &mut new.file()?)?;
    // The copy stays where this fails: the folder goes with what is in it.
    let _ = fs::remove_file(path(from));
    Ok(new)
}
