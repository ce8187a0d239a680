//! Writers that others may end: all their changes go through a folder.
//!
//! A writer may be suspended in the middle of a write, wake up hours later, and continue with the
//! next system call. No check and no lock before that call helps: the writer may have been
//! suspended after it. The call itself has to fail:
//!
//! 1. The starter of the writer creates a folder for it alone, on the disk of the objects.
//! 2. The writer creates each new file in the folder. The last step of a write renames the file
//!    from the folder into place. A deletion renames the object into the folder.
//! 3. Others end the writer by removing the folder. From then on both renames fail, because one of
//!    their two names is gone. The kernel serialises renames, so each one happens before the
//!    removal, or never.
//!
//! Nothing waits. A write takes only one more system call, which checks the object's directory
//! before the bytes are written: the rename would notice a missing directory only afterwards.
//!
//! **Other disks.** If a link below the root leads to another file system, a file cannot be renamed
//! to there. It is then copied, and renamed there after a check of the folder. A writer that is
//! suspended exactly between this check and the rename is not stopped.

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

/// The folder of a writer, with a trailing slash.
#[derive(Clone, Debug)]
pub(super) struct Folder(Arc<CStr>);

impl Folder {
    fn new(path: &Path) -> io::Result<Folder> {
        let mut bytes = path.as_os_str().as_bytes().to_vec();
        bytes.push(b'/');
        Ok(Folder(CString::new(bytes)?.into()))
    }

    /// Returns whether somebody has removed the folder.
    fn is_gone(&self) -> bool {
        matches!(rustix::fs::stat(&*self.0), Err(Errno::NOENT | Errno::STALE | Errno::NOTDIR))
    }
}

impl LocalStore {
    /// The same store with all changes going through a folder.
    pub(super) fn with_folder(&self, folder: &Path) -> io::Result<LocalStore> {
        Ok(LocalStore { folder: Some(Folder::new(folder)?), ..self.clone() })
    }

    /// Returns whether others have ended this writer.
    pub(super) fn is_ended(&self) -> bool {
        self.folder.as_ref().is_some_and(Folder::is_gone)
    }

    /// Fails if others have ended this writer.
    pub(super) fn check_ended(&self) -> io::Result<()> {
        // No other step returns this error number for something missing.
        if self.is_ended() { Err(Errno::STALE.into()) } else { Ok(()) }
    }

    /// Removes the name of an object.
    pub(super) fn unlink(&self, path: &CStr) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(rustix::fs::unlink(path)?) };
        let mut aside = PathBytes::new();
        let aside = temporary_beside(&folder.0, &mut aside)?;
        match rustix::fs::rename(path, aside) {
            Ok(()) => {
                // If this fails, the file is removed with the folder.
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

/// Creates a new file for `target` in a folder.
///
/// Fails with `NOENT` if the folder or the directory of `target` is missing.
pub(super) fn create(folder: &Folder, target: &CStr) -> io::Result<Unnamed> {
    let mut path = PathBytes::new();
    rustix::fs::access(beside(target, b".", &mut path)?, Access::EXISTS)?;
    create_named(&folder.0)
}

/// A copy of a file beside `target`, with its name.
pub(super) fn copied(from: &CStr, target: &CStr) -> io::Result<Unnamed> {
    let path = |name: &CStr| Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())).to_owned();
    let new = create_named(target)?;
    io::copy(&mut File::open(path(from))?, &mut new.file()?)?;
    // If this fails, the file is removed with the folder.
    let _ = fs::remove_file(path(from));
    Ok(new)
}

#[cfg(test)]
mod tests {
    use crate::{Expected, Key, LocalOptions, LocalStore, Result, Store, StoreError, Writers, contract};
    use std::cell::Cell;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    fn key(name: &str) -> Key<'_> {
        Key::new(name).unwrap()
    }

    fn open(root: &Path) -> LocalStore {
        LocalStore::open(root, LocalOptions::default()).unwrap()
    }

    fn read(store: &dyn Store, name: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        store.read_all(key(name), &mut bytes, usize::MAX).unwrap().then_some(bytes)
    }

    fn is_superseded<T>(found: Result<T>) -> bool {
        matches!(found, Err(StoreError::Superseded { .. }))
    }

    /// A store, and the same store through a folder beside it.
    fn both(root: &Path) -> (LocalStore, Arc<dyn Store>, PathBuf) {
        let folder = root.join("folder");
        std::fs::create_dir_all(&folder).unwrap();
        let store = open(&root.join("objects"));
        let through = store.through(&folder).unwrap().unwrap();
        (store, through, folder)
    }

    #[test]
    fn the_contract_holds_through_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let count = Cell::new(0);
        contract::check(|| {
            count.set(count.get() + 1);
            let root = dir.path().join(count.get().to_string());
            let (store, _, folder) = both(&root);
            Box::new(store.with_folder(&folder).unwrap())
        });
        // Nothing is left in the folders.
        for n in 1..=count.get() {
            let left = std::fs::read_dir(dir.path().join(n.to_string()).join("folder")).unwrap();
            assert_eq!(left.count(), 0);
        }
    }

    #[test]
    fn without_the_folder_nothing_is_changed() {
        let dir = tempfile::tempdir().unwrap();
        let (store, through, folder) = both(dir.path());
        through.write(key("a/b"), &[b"old"]).unwrap();
        let mut begun = through.replace(key("a/b")).unwrap();
        begun.append(&[b"late"]).unwrap();
        let mut new = through.replace(key("a/new")).unwrap();
        new.append(&[b"late"]).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        store.write(key("a/b"), &[b"user"]).unwrap();
        let opened = store.open(key("a/b"), None).unwrap().unwrap();
        assert!(is_superseded(begun.commit()));
        assert!(is_superseded(new.commit_over(Expected::Absent, None)));
        assert!(is_superseded(through.write(key("a/b"), &[b"late"])));
        assert!(is_superseded(through.write_new(key("a/new"), &[b"late"])));
        assert!(is_superseded(through.swap(key("a/b"), Expected::Same(&*opened), &[b"late"], None)));
        assert!(is_superseded(through.swap_out(key("a/b"), Expected::Same(&*opened), None)));
        assert!(is_superseded(through.delete(key("a/b"))));
        assert!(is_superseded(through.delete_prefix(Some(key("a")))));
        assert!(is_superseded(through.write(key("new/directory/x"), &[b"late"])));
        assert_eq!(read(&store, "a/b").unwrap(), b"user");
        assert_eq!(store.list(None).unwrap(), ["a/b"]);
        assert!(!dir.path().join("objects/new").exists() && !folder.exists());
    }

    /// The writer is suspended when its file is complete and only the rename is left.
    #[test]
    fn a_folder_that_is_renamed_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (store, through, folder) = both(dir.path());
        let mut begun = through.replace(key("a")).unwrap();
        begun.append(&[&[1; 100_000]]).unwrap();
        std::fs::rename(&folder, dir.path().join("ended")).unwrap();
        assert!(is_superseded(begun.commit()));
        assert_eq!(read(&store, "a"), None);
    }

    #[test]
    fn the_directory_of_an_object_is_made_before_its_bytes_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let (store, through, _) = both(dir.path());
        let begun = through.replace(key("x/y/z")).unwrap();
        assert!(dir.path().join("objects/x/y").is_dir());
        drop(begun);
        assert!(!dir.path().join("objects/x").exists());
        through.write(key("x/y/z"), &[b"1", b"23"]).unwrap();
        assert_eq!(read(&store, "x/y/z").unwrap(), b"123");
    }

    /// The objects are on a different file system from the folder.
    #[test]
    fn objects_on_another_disk() {
        let [one, other] = ["/tmp", "/dev/shm"].map(|place| tempfile::tempdir_in(place).ok());
        let (Some(one), Some(other)) = (one, other) else { return };
        let device = |path: &Path| std::os::unix::fs::MetadataExt::dev(&path.metadata().unwrap());
        if device(one.path()) == device(other.path()) {
            return;
        }
        let (store, through, folder) = both(one.path());
        std::fs::create_dir(one.path().join("objects")).unwrap();
        std::os::unix::fs::symlink(other.path(), one.path().join("objects/far")).unwrap();
        for value in [&b"1"[..], b"2"] {
            through.write(key("far/x"), &[value]).unwrap();
            assert_eq!(read(&store, "far/x").unwrap(), value);
        }
        assert!(through.write_new(key("far/new"), &[b"3"]).unwrap());
        assert!(through.delete(key("far/new")).unwrap());
        let mut begun = through.replace(key("far/x")).unwrap();
        begun.append(&[b"late"]).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(is_superseded(begun.commit()));
        assert!(is_superseded(through.delete(key("far/x"))));
        assert_eq!(read(&store, "far/x").unwrap(), b"2");
        assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 1);
    }
}
