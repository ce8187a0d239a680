//! Stores that lead nowhere else.

use hyperslab::store::{
    Ask, Cost, Entry, Facts, HeldObject, Holds, Identity, Many, OnDisk, Opened, Operation, RangeRead, Result,
    Stamp, StoreError,
};
use hyperslab::{Key, Store};
#[cfg(target_os = "linux")]
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
#[cfg(target_os = "linux")]
use rustix::io::Errno;
use std::collections::HashMap;
use std::io::ErrorKind;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// A directory of this machine, without links that lead out of it.
///
/// The links of a path are resolved before each access. Linux does so in one call if no link is absolute.
/// Otherwise, and elsewhere, that takes about 10 µs (five folders deep, on the build machine). A link
/// that somebody puts there between the check and the access is followed: serve no directory in which
/// people write whom you do not trust.
#[derive(Debug)]
pub(crate) struct Confined {
    inner: Arc<dyn Store>,
    /// The directory, with links resolved.
    root: PathBuf,
    /// The open directory. `None`: it cannot be opened.
    #[cfg(target_os = "linux")]
    open: Option<OwnedFd>,
}

impl Confined {
    pub(crate) fn new(inner: Arc<dyn Store>, root: PathBuf) -> Confined {
        #[cfg(target_os = "linux")]
        let open = openat(CWD, &root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok();
        Confined {
            inner,
            root,
            #[cfg(target_os = "linux")]
            open,
        }
    }

    fn is_inside(&self, key: Option<Key<'_>>) -> bool {
        if key.is_some_and(|key| self.is_beneath(key.as_str())) {
            return true;
        }
        let Some(path) = self.inner.local_path(key) else { return true };
        // An object without a path is missing, and the store says so.
        path.canonicalize().map_or(true, |real| real.starts_with(&self.root))
    }

    /// Returns `true` if the system finds a path without leaving the directory, or finds nothing. `false`:
    /// not known.
    #[cfg(target_os = "linux")]
    fn is_beneath(&self, path: &str) -> bool {
        let Some(open) = &self.open else { return false };
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match openat2(open, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how) {
            Ok(_) => true,
            Err(error) => error == Errno::NOENT,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn is_beneath(&self, _: &str) -> bool {
        false
    }

    /// Leaves out the keys of folders that are reached by links that lead out.
    fn keep_inside<T>(&self, all: &mut Vec<T>, key: impl Fn(&T) -> &str) {
        let mut folders: HashMap<String, bool> = HashMap::new();
        all.retain(|one| {
            let folder = key(one).rsplit_once('/').map_or("", |(folder, _)| folder);
            if let Some(inside) = folders.get(folder) {
                return *inside;
            }
            let inside = folder.is_empty() || Key::new(folder).is_ok_and(|key| self.is_inside(Some(key)));
            folders.insert(folder.to_owned(), inside);
            inside
        });
    }

    fn check(&self, operation: Operation, key: Key<'_>) -> Result<()> {
        match self.is_inside(Some(key)) {
            true => Ok(()),
            false => Err(StoreError::io(self, operation, key.as_str(), ErrorKind::PermissionDenied)),
        }
    }
}

impl Store for Confined {
    fn url(&self) -> String {
        self.inner.url()
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        self.inner.lock_id(key)
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        self.check(Operation::Size, key)?;
        self.inner.size(key)
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        self.check(Operation::Read, key)?;
        self.inner.open(key, size)
    }

    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        self.check(Operation::Read, key)?;
        self.inner.read_ranges(key, size, ranges)
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        self.check(Operation::Read, key)?;
        self.inner.read_all(key, buf, limit)
    }

    fn exists(&self, key: Key<'_>) -> Result<bool> {
        self.check(Operation::Size, key)?;
        self.inner.exists(key)
    }

    fn stamp(&self, key: Key<'_>) -> Result<Option<Stamp>> {
        self.check(Operation::Size, key)?;
        self.inner.stamp(key)
    }

    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        let mut keys = self.inner.list(prefix)?;
        self.keep_inside(&mut keys, |key| key);
        Ok(keys)
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        if let Some(key) = prefix {
            self.check(Operation::List, key)?;
        }
        self.inner.list_dir(prefix)
    }

    fn facts(&self) -> Facts {
        Facts { is_writable: false, ..self.inner.facts() }
    }

    fn cost(&self) -> Cost {
        self.inner.cost()
    }

    fn many(&self) -> Option<&dyn Many> {
        Some(self)
    }

    fn on_disk(&self) -> Option<&dyn OnDisk> {
        Some(self)
    }

    fn holds(&self) -> Option<&dyn Holds> {
        Some(self)
    }
}

/// Links are resolved once for each folder: a map of a million chunks asks for a million sizes. The size of
/// a linked file outside is told, its bytes are not.
impl Many for Confined {
    fn list_asking(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<String>> {
        let mut keys = self.inner.list_asking(prefix, ask)?;
        self.keep_inside(&mut keys, |key| key);
        Ok(keys)
    }

    fn list_sizes(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<(String, u64)>> {
        let mut sizes = self.inner.list_sizes(prefix, ask)?;
        self.keep_inside(&mut sizes, |(key, _)| key);
        Ok(sizes)
    }
}

impl OnDisk for Confined {
    fn local_path(&self, key: Option<Key<'_>>) -> Option<PathBuf> {
        self.inner.local_path(key)
    }

    fn identity(&self, prefix: Option<Key<'_>>) -> Result<Option<Identity>> {
        match self.is_inside(prefix) {
            true => self.inner.identity(prefix),
            false => Ok(None),
        }
    }
}

impl Holds for Confined {
    fn hold(&self, key: Key<'_>) -> Result<Option<HeldObject>> {
        self.check(Operation::Read, key)?;
        self.inner.hold(key)
    }
}

/// One file. It is not known to be on a disk, so it has no files around it to refer to.
#[derive(Debug)]
pub(crate) struct Alone(pub(crate) Arc<dyn Store>);

impl Store for Alone {
    fn url(&self) -> String {
        self.0.url()
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        self.0.lock_id(key)
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        self.0.size(key)
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        self.0.open(key, size)
    }

    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        self.0.read_ranges(key, size, ranges)
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        self.0.read_all(key, buf, limit)
    }

    fn stamp(&self, key: Key<'_>) -> Result<Option<Stamp>> {
        self.0.stamp(key)
    }

    fn facts(&self) -> Facts {
        Facts { is_writable: false, ..self.0.facts() }
    }

    fn cost(&self) -> Cost {
        self.0.cost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab::{LocalOptions, LocalStore};
    use std::fs;
    use std::os::unix::fs::symlink;

    fn refused<T: std::fmt::Debug>(found: Result<T>) -> bool {
        found.is_err_and(|error| error.io_kind() == Some(ErrorKind::PermissionDenied))
    }

    #[test]
    fn links_stay_inside() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("secret"), b"secret").unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/own"), b"own").unwrap();
        symlink(other.path().join("secret"), dir.path().join("file")).unwrap();
        symlink(other.path(), dir.path().join("folder")).unwrap();
        symlink(dir.path().join("a"), dir.path().join("inside")).unwrap();
        let inner: Arc<dyn Store> = Arc::new(LocalStore::open(dir.path(), LocalOptions::default()).unwrap());
        let store: Arc<dyn Store> = Arc::new(Confined::new(inner, dir.path().canonicalize().unwrap()));
        let key = |text: &'static str| Key::new(text).unwrap();
        let read = |text: &'static str| {
            let mut bytes = Vec::new();
            store.read_all(key(text), &mut bytes, 99).map(|_| bytes)
        };
        assert_eq!(read("a/own").unwrap(), b"own");
        assert_eq!(read("inside/own").unwrap(), b"own");
        assert_eq!(read("missing").unwrap(), b"");
        for text in ["file", "folder/secret"] {
            assert!(
                refused(read(text)) && refused(store.size(key(text))) && refused(store.exists(key(text)))
            );
            assert!(refused(store.open(key(text), None).map(|_| ())) && refused(store.stamp(key(text))));
            assert!(refused(store.hold(key(text)).map(|_| ())));
        }
        assert!(refused(store.list_dir(Some(key("folder")))));
        let listed = store.list(None).unwrap();
        assert!(
            listed.contains(&"a/own".to_owned()) && !listed.contains(&"folder/secret".to_owned()),
            "{listed:?}"
        );
        let sizes = store.list_sizes(None, None).unwrap();
        assert!(sizes.contains(&("a/own".to_owned(), 3)), "{sizes:?}");
        assert!(sizes.iter().all(|(key, _)| !key.starts_with("folder/")), "{sizes:?}");
        assert!(!store.facts().is_writable && store.write(key("new"), &[b"x"]).is_err());
    }
}
