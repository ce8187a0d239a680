//! A store of one local file that stays open.
//!
//! Formats that keep a hierarchy in one file read it many times, a little each time. Opening the
//! file for each read would cost more than the read. If another file replaces it, this store keeps
//! reading the old contents. If the file is changed in place, the store shows the change, and the
//! file's [`Stamp`] changes too. Reads are positional and nothing is mapped: if the file has
//! shrunk, a read fails with [`StoreError::OutOfRange`]. If very many files are open, some are
//! closed, and reopened when they are read: see [`held`](super::held).
//!
//! The store in `segments.rs` has one key too, but nothing else in common with this one. It passes
//! ranges on to other stores.

use super::held::{HeldFile, NotOpen};
use super::stamp::{Seen, stamped};
use super::{LocalOptions, LocalStore};
use crate::{
    Cost, Facts, HeldObject, Holds, Key, OnDisk, Opened, Operation, RangeRead, Result, Stamp, Stamped, Store,
};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// One local file, held open. Its only key is the file's name.
///
/// Read-only. A clone shares the open file.
#[derive(Clone, Debug)]
pub struct FileStore {
    /// The file's directory, for names and lock numbers only: it never opens anything.
    directory: LocalStore,
    key: String,
    path: PathBuf,
    /// The first descriptor, reachable without a lock. Dead once it is closed. Running reads keep
    /// it alive until they are done.
    file: Weak<OwnedFd>,
    /// Keeps the file open, for all clones of a store.
    held: Arc<HeldFile>,
}

impl FileStore {
    /// Opens the file at `path`. `None` if there is none, or if it is not a regular file.
    pub fn open(path: &Path) -> Result<Option<FileStore>> {
        let refuse = |error: io::Error| super::refuse(path, error);
        let absolute = std::path::absolute(path).map_err(refuse)?;
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else { return Ok(None) };
        let bytes = CString::new(absolute.as_os_str().as_bytes()).map_err(|_| refuse(Errno::INVAL.into()))?;
        let Some((held, file)) = HeldFile::open(bytes).map_err(refuse)? else { return Ok(None) };
        let directory = LocalStore::unseen(parent, LocalOptions::default())?;
        let (key, weak) = (key_of(&name.to_string_lossy()), Arc::downgrade(&file));
        let store = FileStore { directory, key, path: absolute.clone(), file: weak, held };
        let is_object = store.size(store.own())?.is_some();
        Ok(is_object.then_some(store))
    }

    /// Like [`Holds::hold`], for the file at `path`.
    pub(super) fn hold_at(path: &Path) -> Result<Option<HeldObject>> {
        let Some(store) = FileStore::open(path)? else { return Ok(None) };
        let key = store.key.clone();
        Ok(Some((Arc::new(store), key)))
    }

    /// The only key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The open file.
    fn file(&self) -> Result<Arc<OwnedFd>> {
        let file = match self.file.upgrade() {
            _ if !self.is_open() => Err(NotOpen::Closed),
            Some(file) => {
                self.held.mark();
                Ok(file)
            }
            None => self.held.file(),
        };
        file.map_err(|why| why.named(&self.key, self.url()))
    }

    fn own(&self) -> Key<'_> {
        Key::unchecked(&self.key)
    }

    fn has(&self, key: Key<'_>) -> bool {
        key.as_str() == self.key
    }
}

/// The key for a file name. Invalid names are adapted: they may contain backslashes, for example.
fn key_of(name: &str) -> String {
    match Key::new(name) {
        Ok(_) => name.to_owned(),
        Err(_) => format!("_{}", name.replace(['\\', '\0', '/'], "_")),
    }
}

impl Store for FileStore {
    fn only(&self) -> Option<&str> {
        Some(&self.key)
    }

    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        let file = self.file()?;
        Ok(self.has(key) && self.directory.read_ranges_of_file(key, file.as_fd(), size, ranges)?)
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        if !self.has(key) {
            return Ok(None);
        }
        let opened = self.directory.look_at(self.own(), self.file()?, size, Some(&self.held.closed))?;
        Ok(opened.map(|file| Box::new(file) as Box<dyn Opened + 's>))
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        buf.clear();
        Ok(self.has(key) && self.directory.read_all_of_file(key, self.file()?.as_fd(), buf, limit)?)
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        if !self.has(key) {
            return Ok(None);
        }
        self.directory.size_of_file(key, self.file()?.as_fd())
    }

    fn stamp(&self, key: Key<'_>) -> Result<Option<Stamp>> {
        if !self.has(key) {
            return Ok(None);
        }
        let seen = Seen::of(self.file()?.as_fd());
        let seen = seen.map_err(|error| self.directory.error(Operation::Size, key.as_str(), error))?;
        Ok(seen.map(|seen| seen.stamp))
    }

    fn read_all_stamped(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<Stamped> {
        let file = self.file()?;
        stamped(file.as_fd(), || self.read_all(key, buf, limit))
    }

    fn read_ranges_stamped(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<Stamped> {
        let file = self.file()?;
        stamped(file.as_fd(), || self.read_ranges(key, size, ranges))
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        self.directory.lock_id(key)
    }

    fn cost(&self) -> Cost {
        self.directory.cost()
    }

    fn facts(&self) -> Facts {
        Facts { is_writable: false, waits: self.directory.facts().waits, ..Facts::default() }
    }

    fn on_disk(&self) -> Option<&dyn OnDisk> {
        Some(self)
    }

    fn holds(&self) -> Option<&dyn Holds> {
        Some(self)
    }

    fn url(&self) -> String {
        self.directory.url()
    }
}

impl OnDisk for FileStore {
    fn local_path(&self, key: Option<Key<'_>>) -> Option<PathBuf> {
        match key {
            None => Some(self.directory.root().to_owned()),
            Some(key) => self.has(key).then(|| self.path.clone()),
        }
    }
}

impl Holds for FileStore {
    fn close(&self) {
        self.held.close();
    }

    fn lock_for_reading(&self) {
        self.held.lock_for_reading();
    }

    fn is_open(&self) -> bool {
        !self.held.closed.load(Ordering::Relaxed)
    }

    fn is_current(&self) -> bool {
        self.held.is_current()
    }

    /// Opens the file that is now at the path.
    fn hold(&self, key: Key<'_>) -> Result<Option<HeldObject>> {
        if self.has(key) { Self::hold_at(&self.path) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreError;
    use crate::contract::{self, key};
    use std::fs::{self, OpenOptions};

    /// A file with these bytes in a new directory, and its store.
    fn held(bytes: &[u8]) -> (tempfile::TempDir, PathBuf, FileStore) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, bytes).unwrap();
        let store = FileStore::open(&path).unwrap().unwrap();
        (dir, path, store)
    }

    #[test]
    fn the_contract_of_reading_holds() {
        let dir = tempfile::tempdir().unwrap();
        contract::check_reading(|name, bytes| {
            let path = dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            Box::new(FileStore::open(&path).unwrap().unwrap())
        });
    }

    #[test]
    fn what_is_no_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["none", ".", "none/none"] {
            assert!(FileStore::open(&dir.path().join(name)).unwrap().is_none(), "{name}");
        }
        assert!(FileStore::open(Path::new("/")).unwrap().is_none());
        assert!(FileStore::open(Path::new("a\0b")).is_err());
        let odd = dir.path().join("a\\b");
        fs::write(&odd, b"1").unwrap();
        let store = FileStore::open(&odd).unwrap().unwrap();
        assert_eq!((store.key(), store.size(key("_a_b")).unwrap()), ("_a_b", Some(1)));
    }

    #[test]
    fn the_file_stays_open() {
        let (dir, path, store) = held(b"0123456789");
        let local = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
        assert_eq!(store.lock_id(key("x")), local.lock_id(key("x")));
        assert_eq!(store.stamp(key("x")).unwrap(), local.stamp(key("x")).unwrap());
        assert!(store.is_current());
        assert_eq!(store.local_path(Some(key("x"))), Some(path.clone()));
        assert_eq!(store.local_path(None).as_deref(), Some(dir.path()));
        // After a replacement, reads still see the old file.
        fs::write(dir.path().join("new"), b"abc").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert!(!store.is_current());
        let mut buf = Vec::new();
        assert!(store.read_all(key("x"), &mut buf, 100).unwrap());
        assert_eq!(buf, b"0123456789");
        // Another `hold` opens the new file, from either store.
        for store in [&store as &dyn Store, &local] {
            let (held, name) = store.hold(key("x")).unwrap().unwrap();
            assert_eq!((name.as_str(), held.size(key("x")).unwrap()), ("x", Some(3)));
        }
        assert!(local.hold(key("none")).unwrap().is_none());
        fs::remove_file(&path).unwrap();
        assert_eq!(store.size(key("x")).unwrap(), Some(10));
        assert_ne!(store.stamp(key("x")).unwrap(), local.stamp(key("x")).unwrap());
    }

    #[test]
    fn a_closed_file_is_read_no_more() {
        let (_dir, _, store) = held(b"0123456789");
        let clone = store.clone();
        let opened = clone.open(key("x"), None).unwrap().unwrap();
        assert!(clone.is_open());
        store.close();
        store.close();
        assert!(!clone.is_open());
        // An object opened earlier keeps its descriptor, but can no longer be read.
        assert!(opened.file().is_some());
        drop(opened);
        assert!(store.file.upgrade().is_none(), "the descriptor is closed");
        let closed = |error| matches!(error, StoreError::Closed { .. });
        let mut buf = vec![0; 3];
        assert!(closed(clone.read_exact(key("x"), &mut buf).unwrap_err()));
        assert!(closed(clone.read_all(key("x"), &mut buf, 9).unwrap_err()));
        assert!(closed(clone.size(key("x")).unwrap_err()));
        assert!(closed(clone.stamp(key("x")).unwrap_err()));
        let error = clone.open(key("x"), None).unwrap_err();
        assert!(error.to_string().contains("'x' in file:///") && error.to_string().contains("is closed"));
        assert!(clone.url().starts_with("file:///"));
    }

    #[test]
    fn a_file_that_shrinks_is_out_of_range() {
        let (_dir, path, store) = held(&[7; 5000]);
        let opened = store.open(key("x"), None).unwrap().unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
        let mut buf = vec![0; 200];
        let ranges = &mut [RangeRead { offset: 0, buf: &mut buf }];
        let missing = |error| matches!(error, StoreError::OutOfRange { size: 100, len: 200, offset: 0, .. });
        assert!(missing(store.read_ranges(key("x"), None, ranges).unwrap_err()));
        assert!(missing(opened.read_ranges(ranges).unwrap_err()));
        assert_eq!(opened.vouched(), None);
        assert_eq!(store.size(key("x")).unwrap(), Some(100));
    }
}
