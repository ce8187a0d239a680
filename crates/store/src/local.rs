//! Objects as files below a directory.
//!
//! An object is a regular file. Its key is its path below the root. A write takes these steps:
//!
//! 1. Create a temporary file in the object's directory, under a name that no key can have. Writing
//!    in place would show readers half an object. From another directory, the rename could cross
//!    file systems.
//! 2. If the directory is missing, create it and start again. Checking first would cost every write
//!    a system call.
//! 3. Write all parts. A full disk shows here, while the old object is untouched.
//! 4. With `fsync`: flush the file. Otherwise a power failure after the rename may leave an empty
//!    file under the key.
//! 5. Close the file and check the result: network file systems and quotas report a full disk only
//!    here.
//! 6. Rename the file over the object. Readers that opened the old file keep it.
//! 7. With `fsync`: flush the directory, and the directories that step 2 created. Otherwise the
//!    rename itself may be lost.
//!
//! If a step fails, the temporary file is removed. A killed writer leaves it behind. No key names
//! it and no listing shows it; [`Store::delete_prefix`] removes it. An object written in pieces
//! ([`Store::replace`]) takes the same steps, with step 3 repeated. Processes that read an object
//! and replace it exclude each other with [locks](lock). A writer that others may end creates its
//! files in a [folder](through), and others end it by removing the folder.
//!
//! A read of a whole object opens, reads and closes:
//!
//! 1. Open without blocking: a pipe in place of an object must not hang the reader.
//! 2. Read the expected bytes **and one more** in one call. Otherwise a longer object, written with
//!    other metadata, would pass for a valid one. Querying the size would cost a system call per
//!    chunk.
//! 3. If a regular file returns fewer bytes than requested, it has ended. No second read is needed.
//!
//! A read of ranges queries the size first, because the bytes do not show where the file ends. In
//! the steady state neither kind of read allocates: paths are built on the stack.
//!
//! **Symbolic links.** Keys cannot leave the root: [`Key`] has no `..` and no absolute paths. Reads
//! and listings follow links below the root, wherever they lead. A key through a link to a
//! directory is written and deleted in that directory. If the object itself is a link, a write
//! replaces the link and a deletion removes it. [`Store::delete_prefix`] removes links, never their
//! targets. A directory that contains itself through a link is listed once. Two keys that reach one
//! object through links have two lock numbers.
//!
//! **Not objects:** directories and dangling links count as missing. Pipes, sockets and devices are
//! errors: reading one could block forever, and such a chunk must not pass for an absent one. Files
//! whose names cannot be keys (not UTF-8, or with a backslash) are not listed. Directories that
//! become empty through deletions are removed, but never the root.

mod attempts;
mod byte_lock;
mod delete;
mod edited;
mod exchange;
mod file;
mod held;
mod kernel;
mod list;
mod listing;
mod lock;
mod parts;
mod present;
mod read;
pub(crate) mod replace;
mod stamp;
mod sweep;
mod through;
mod write;
mod write_out;

pub(crate) use edited::{ChangeLock, EditedDisk};
pub use exchange::{is_dead_stage, move_dead_stage, replace_directory};
pub use file::FileStore;
pub use parts::{part_beside, remove_parts};

use crate::fork::Lazy;
use crate::turns::Refused;
use crate::{
    Ask, Cost, Entry, Expected, Facts, HeldObject, Holds, Identity, Key, Listing, Many, ObjectLock, OnDisk,
    Opened, Operation, RangeRead, Replacement, Result, Staged, Stamp, Stamped, Store, StoreError, Writers,
    hash,
};
use read::object_size;
use rustix::fs::FileType;
use rustix::io::Errno;
use smallvec::SmallVec;
use stamp::{stamp_of, stamped};
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use through::Folder;

/// Settings of a [`LocalStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalOptions {
    /// Flush every write and deletion to disk before returning, to survive a power failure.
    ///
    /// Off by default: it makes writes many times slower. Without it a killed process still never
    /// leaves a torn object.
    pub fsync: bool,
    /// Lock files against other processes during read-modify-writes.
    ///
    /// Parts of chunks and shards, and metadata documents, are changed this way. On by default.
    /// When off, processes that change parts of one chunk at the same time lose each other's
    /// changes. Other software does not take part in the locking.
    pub file_locks: bool,
}

impl Default for LocalOptions {
    fn default() -> Self {
        LocalOptions { fsync: false, file_locks: true }
    }
}

/// Objects as files below a directory.
///
/// The system calls per object are open, read and close for a read, and open, write, close and
/// rename for a write. Cheap to clone; a clone is the same store.
#[derive(Clone, Debug)]
pub struct LocalStore {
    /// Absolute, without a trailing slash.
    root: PathBuf,
    /// Hash of the canonical root and a slash, which [`Store::lock_id`] continues with the key.
    /// Computed on first use: it takes a system call per component of the root, and readers do not
    /// need it. The first result stays, so that a link that changes later does not give one object
    /// two lock numbers.
    lock_seed: Lazy<u64>,
    options: LocalOptions,
    /// Set once unnamed temporary files turned out to be impossible here.
    named_only: Lazy<()>,
    replacing: Replacing,
    /// The folder that changes go through, if others may end this writer.
    folder: Option<Folder>,
}

/// Remembers whether recent writes replaced existing objects.
///
/// Decides which of two system calls a write tries first. A wrong guess costs one call.
#[derive(Debug, Default)]
struct Replacing(AtomicU64);

impl Replacing {
    /// How many writes after one that found an object expect another. A larger value would slow
    /// down the first writes of new objects after a replacement, a smaller one would slow down
    /// replacing.
    const LASTS: u64 = 15;

    /// Returns whether this write should expect an object.
    fn guess(&self) -> bool {
        // In one step: a thread that is late must not set back what another one has just found.
        let counted = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        counted.is_ok()
    }

    /// Like `guess`, without counting a write.
    fn expects(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Records that a write found an object.
    fn found(&self) {
        self.0.store(Self::LASTS, Ordering::Relaxed);
    }
}

impl Clone for Replacing {
    fn clone(&self) -> Self {
        Replacing::default()
    }
}

/// A path on the stack. Linux refuses longer paths, so no working path spills to the heap.
type PathBytes = SmallVec<[u8; 4096]>;

/// Most bytes moved by one system call. Linux truncates calls just below 2 GiB, macOS refuses
/// larger ones. Unit tests use a small limit, so that they reach it.
const MAX_TRANSFER: usize = if cfg!(test) { 1500 } else { 1 << 30 };

/// Most buffers that one system call fills or writes. Their descriptors are on the stack.
const MAX_BATCH: usize = 64;

/// Measured on ranges of 4 to 64 KiB of a file in the page cache (Linux 6.18, x86): a separate read
/// takes as long as reading 16 to 32 KiB more. On a disk a larger value would pay. The cost of one
/// more range is an estimate.
const COST: Cost = Cost { request: 16 << 10, range: 4 << 10, at_once: 1, frugal: false };

impl LocalStore {
    /// Opens the store of the objects below `root`.
    ///
    /// The directory need not exist: the first write creates it. Fails if `root` exists but is not
    /// a directory, or cannot be reached.
    pub fn open(root: impl AsRef<Path>, options: LocalOptions) -> Result<LocalStore> {
        let store = Self::unseen(root, options)?;
        match fs::metadata(&store.root) {
            Ok(found) if !found.is_dir() => Err(refuse(&store.root, Errno::NOTDIR.into())),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(refuse(&store.root, error)),
            _ => Ok(store),
        }
    }

    /// Like [`LocalStore::open`], without checking `root`, for callers that read at once.
    ///
    /// If the caller finds no object, it calls [`LocalStore::open`], which reports any problem with
    /// `root`.
    pub fn unseen(root: impl AsRef<Path>, options: LocalOptions) -> Result<LocalStore> {
        let given = root.as_ref();
        if given.as_os_str().as_bytes().contains(&0) {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "the path contains a NUL");
            return Err(refuse(given, source));
        }
        let root = if is_normal(given.as_os_str().as_bytes()) {
            given.to_owned()
        } else {
            std::path::absolute(given).map_err(|error| refuse(given, error))?.components().collect()
        };
        Ok(Self::at(root, options))
    }

    /// Creates the store of an absolute root.
    fn at(root: PathBuf, options: LocalOptions) -> LocalStore {
        let (lock_seed, named_only) = (Lazy::new(), Lazy::new());
        LocalStore { root, lock_seed, options, named_only, replacing: Replacing::default(), folder: None }
    }

    /// Free space in bytes, even before the directory exists. `None` if the system does not say.
    pub fn room(&self) -> Option<u64> {
        let found = self.root.ancestors().find_map(|folder| rustix::fs::statvfs(folder).ok())?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// The directory that holds the objects, as an absolute path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes the path of `key` into `bytes`, for system calls.
    fn path<'p>(&self, key: &str, bytes: &'p mut PathBytes) -> rustix::io::Result<&'p CStr> {
        bytes.clear();
        bytes.extend_from_slice(base(&self.root));
        bytes.push(b'/');
        bytes.extend_from_slice(key.as_bytes());
        bytes.push(0);
        CStr::from_bytes_with_nul(bytes).map_err(|_| Errno::INVAL)
    }

    fn error(&self, operation: Operation, key: &str, source: impl Into<io::Error>) -> StoreError {
        if matches!(operation, Operation::Write | Operation::Delete) && self.is_ended() {
            return StoreError::superseded(self, operation, key);
        }
        StoreError::io(self, operation, key, source)
    }

    /// Converts an error of work that stops with [`io::ErrorKind::Interrupted`] if `ask` says so.
    fn stopped(&self, operation: Operation, key: &str, error: io::Error) -> StoreError {
        match error.kind() {
            io::ErrorKind::Interrupted => StoreError::refused(Refused::Stopped, self, key),
            _ => self.error(operation, key, error),
        }
    }

    /// With `fsync`, flushes the parent directory of a new file or directory.
    fn flush_above(&self, path: &Path) -> io::Result<()> {
        path.parent().filter(|_| self.options.fsync).map_or(Ok(()), Self::flush_directory)
    }

    /// Flushes a directory, so that renamed, new and deleted entries survive a power failure.
    fn flush_directory(directory: &Path) -> io::Result<()> {
        fs::File::open(directory)?.sync_all()
    }
}

fn refuse(root: &Path, source: io::Error) -> StoreError {
    StoreError::Io { operation: Operation::Size, key: String::new(), url: file_url(root), source }
}

/// Returns whether a path is absolute, without `.` and without doubled or trailing slashes. A fast
/// check for the usual case.
fn is_normal(path: &[u8]) -> bool {
    let mut components = path.split(|byte| *byte == b'/');
    components.next() == Some(b"") && components.all(|component| !matches!(component, b"" | b"."))
}

/// The path before `/key`.
fn base(root: &Path) -> &[u8] {
    match root.as_os_str().as_bytes() {
        b"/" => b"",
        bytes => bytes,
    }
}

/// Resolves the links in `root` as far as it exists.
///
/// Two paths to one directory thus give the same lock numbers.
pub(crate) fn canonical(root: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut components = root.components();
    let mut path = loop {
        if let Ok(existing) = components.as_path().canonicalize() {
            break existing;
        }
        match components.next_back() {
            Some(last) => missing.push(last),
            None => break PathBuf::from("/"),
        }
    };
    for component in missing.into_iter().rev() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    path
}

pub(crate) fn file_url(path: &Path) -> String {
    let mut url = String::with_capacity("file://".len() + path.as_os_str().len());
    url.push_str("file://");
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(byte);
    for run in path.as_os_str().as_bytes().chunk_by(|a, b| plain(a) == plain(b)) {
        match std::str::from_utf8(run) {
            Ok(text) if run.first().is_some_and(plain) => url.push_str(text),
            _ => run.iter().for_each(|byte| url.push_str(&format!("%{byte:02X}"))),
        }
    }
    url
}

impl Store for LocalStore {
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        let Some(file) = self.open_object(key)? else { return Ok(false) };
        self.read_ranges_of_file(key, file.as_fd(), size, ranges)
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        Ok(self.open_file(key, size)?.map(|file| Box::new(file.keep(self)) as Box<dyn Opened + 's>))
    }

    fn with_open(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        work: &mut dyn FnMut(Option<&dyn Opened>),
    ) -> Result<()> {
        let opened = self.open_file(key, size)?;
        work(opened.as_ref().map(|file| file as &dyn Opened));
        Ok(())
    }

    fn read_exact(&self, key: Key<'_>, buf: &mut [u8]) -> Result<bool> {
        self.read_exact_of(key, buf)
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        buf.clear();
        let Some(file) = self.open_object(key)? else { return Ok(false) };
        self.read_all_of_file(key, file.as_fd(), buf, limit)
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        let Some(found) = self.stat(key)? else { return Ok(None) };
        object_size(&found).map_err(|error| self.error(Operation::Size, key.as_str(), error))
    }

    fn stamp(&self, key: Key<'_>) -> Result<Option<Stamp>> {
        Ok(self.stat(key)?.as_ref().and_then(stamp_of))
    }

    fn read_all_stamped(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<Stamped> {
        buf.clear();
        let Some(file) = self.open_object(key)? else { return Ok((false, None)) };
        stamped(file.as_fd(), || self.read_all_of_file(key, file.as_fd(), buf, limit))
    }

    fn read_ranges_stamped(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<Stamped> {
        let Some(file) = self.open_object(key)? else { return Ok((false, None)) };
        stamped(file.as_fd(), || self.read_ranges_of_file(key, file.as_fd(), size, ranges))
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<()> {
        self.swap(key, Expected::Any, parts, None).map(|_| ())
    }

    fn write_new(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<bool> {
        self.swap(key, Expected::Absent, parts, None)
    }

    fn swap(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        parts: &[&[u8]],
        ask: Option<Ask<'_>>,
    ) -> Result<bool> {
        let put = self.write_object(key, expected, parts, ask);
        put.map_err(|error| self.stopped(Operation::Write, key.as_str(), error))
    }

    fn swap_out(&self, key: Key<'_>, expected: Expected<'_>, ask: Option<Ask<'_>>) -> Result<bool> {
        let deleted = self.delete_expected(key, expected, ask);
        deleted.map_err(|error| self.stopped(Operation::Delete, key.as_str(), error))
    }

    fn replace<'s>(&'s self, key: Key<'_>) -> Result<Box<dyn Replacement + 's>> {
        let new = self.replace_object(key);
        let new = new.map_err(|error| self.error(Operation::Write, key.as_str(), error))?;
        Ok(Box::new(new))
    }

    fn lock<'s>(&'s self, key: Key<'_>, ask: Option<Ask<'_>>) -> Result<ObjectLock<'s>> {
        self.lock_path(key.as_str(), FileType::RegularFile, ask)
    }

    fn delete(&self, key: Key<'_>) -> Result<bool> {
        self.delete_object(key).map_err(|error| self.error(Operation::Delete, key.as_str(), error))
    }

    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> Result<()> {
        let name = prefix.map_or("", Key::as_str);
        let deleted = self.check_ended().and_then(|()| self.delete_below(prefix));
        deleted.map_err(|error| self.error(Operation::Delete, name, error))
    }

    fn stage<'s>(&'s self, prefix: Option<Key<'_>>) -> Result<Box<dyn Staged + 's>> {
        Ok(Box::new(self.stage_below(prefix)?))
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        let name = prefix.map_or("", Key::as_str);
        self.children(name, None).map_err(|error| self.error(Operation::List, name, error))
    }

    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        self.list_asking(prefix, None)
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        let find = || hash::fnv1a(hash::fnv1a(hash::EMPTY, base(&canonical(&self.root))), b"/");
        hash::fnv1a(*self.lock_seed.get_or_make(find), key.as_str().as_bytes())
    }

    fn cost(&self) -> Cost {
        COST
    }

    /// Writers wait for the disk: ext4 writes a new file out when it replaces another one.
    ///
    /// Otherwise a power failure could leave neither.
    fn facts(&self) -> Facts {
        Facts { is_shared: self.options.file_locks, waits: true, ..Facts::default() }
    }

    fn many(&self) -> Option<&dyn Many> {
        Some(self)
    }

    fn writers(&self) -> Option<&dyn Writers> {
        Some(self)
    }

    fn on_disk(&self) -> Option<&dyn OnDisk> {
        Some(self)
    }

    fn holds(&self) -> Option<&dyn Holds> {
        Some(self)
    }

    fn url(&self) -> String {
        file_url(&self.root)
    }
}

impl Many for LocalStore {
    fn list_asking(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<String>> {
        let name = prefix.map_or("", Key::as_str);
        self.keys_below(name, ask).map_err(|error| self.stopped(Operation::List, name, error))
    }

    fn list_all(&self, prefix: Option<Key<'_>>, threads: usize, ask: Option<Ask<'_>>) -> Result<Listing> {
        let name = prefix.map_or("", Key::as_str);
        self.all_below(name, threads, ask).map_err(|error| self.stopped(Operation::List, name, error))
    }

    fn present(&self, prefix: Option<Key<'_>>, most: usize) -> Option<Vec<String>> {
        self.present_below(prefix.map_or("", Key::as_str), most)
    }
}

impl Writers for LocalStore {
    fn sweep(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<u64> {
        let name = prefix.map_or("", Key::as_str);
        self.sweep_below(prefix, ask).map_err(|error| self.stopped(Operation::Delete, name, error))
    }

    fn leftovers(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<String>> {
        let name = prefix.map_or("", Key::as_str);
        self.leftovers_below(prefix, ask).map_err(|error| self.stopped(Operation::List, name, error))
    }

    fn lock_prefix<'s>(&'s self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<ObjectLock<'s>> {
        self.lock_path(prefix.map_or("", Key::as_str), FileType::Directory, ask)
    }

    fn through(&self, folder: &Path) -> Result<Option<Arc<dyn Store>>> {
        let store = self.with_folder(folder).map_err(|error| self.error(Operation::Write, "", error))?;
        Ok(Some(Arc::new(store)))
    }
}

impl OnDisk for LocalStore {
    fn identity(&self, prefix: Option<Key<'_>>) -> Result<Option<Identity>> {
        let name = prefix.map_or("", Key::as_str);
        self.identity_of(name).map_err(|error| self.error(Operation::List, name, error))
    }

    fn local_path(&self, key: Option<Key<'_>>) -> Option<PathBuf> {
        Some(key.map_or_else(|| self.root.clone(), |key| self.root.join(key.as_str())))
    }
}

impl Holds for LocalStore {
    fn hold(&self, key: Key<'_>) -> Result<Option<HeldObject>> {
        FileStore::hold_at(&self.root.join(key.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::{LocalOptions, LocalStore, file_url};
    use crate::{Key, Store, contract};
    use std::cell::Cell;
    use std::path::Path;

    fn lock(root: &Path, key: &str) -> u64 {
        LocalStore::open(root, LocalOptions::default()).unwrap().lock_id(Key::new(key).unwrap())
    }

    #[test]
    fn the_contract_holds_for_objects_that_need_many_transfers() {
        let dir = tempfile::tempdir().unwrap();
        let count = Cell::new(0);
        contract::check(|| {
            count.set(count.get() + 1);
            let root = dir.path().join(count.get().to_string());
            Box::new(LocalStore::open(root, LocalOptions::default()).unwrap())
        });
    }

    #[test]
    fn urls_are_percent_encoded() {
        assert_eq!(file_url(Path::new("/data/run 1/ü%#?.zarr")), "file:///data/run%201/%C3%BC%25%23%3F.zarr");
    }

    #[test]
    fn the_root_is_absolute_and_need_not_exist() {
        let store = LocalStore::open("no/such//directory/", LocalOptions::default()).unwrap();
        assert_eq!(store.root(), std::env::current_dir().unwrap().join("no/such/directory"));
        assert!(LocalStore::open("a\0b", LocalOptions::default()).is_err());
        let root = LocalStore::open("/", LocalOptions::default()).unwrap();
        assert_eq!((root.root(), root.url()), (Path::new("/"), "file:///".to_owned()));
    }

    #[test]
    fn lock_numbers_agree_across_roots_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(real.join("a/b")).unwrap();
        std::os::unix::fs::symlink(real.join("a"), real.join("link")).unwrap();
        let expected = lock(&real, "a/b/c/0");
        assert_eq!(lock(&real.join("a"), "b/c/0"), expected);
        assert_eq!(lock(&real.join("link/b"), "c/0"), expected);
        assert_eq!(lock(&real.join("link/../a/b/c"), "0"), expected, "the root does not exist yet");
        assert_eq!(lock(Path::new("/"), &format!("{}/a/b/c/0", &real.to_str().unwrap()[1..])), expected);
        assert_ne!(lock(&real, "a/b/c/1"), expected);
    }
}
