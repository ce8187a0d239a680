//! The cache in a folder, shared by any number of processes.
//!
//! Each object has a directory, named by its ID. A file in it is an entry: a range of one version.
//! The file name tells the version and the range, but only as a hint: the entry itself is checked
//! ([`entry`]).
//!
//! A file appears complete, by renaming a temporary file beside it, and never changes. Readers
//! therefore need no lock, and a file that is deleted during a read stays until the read is done.

use super::{Id, entry, pick, resolve_range};
use crate::client::{Contents, Fetched, Wanted};
use bytes::Bytes;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The folder is swept once per 1/16 of its limit written, counted over all processes.
const SWEEPS: u64 = 16;

/// A use is recorded if the last record is older than this: recording costs a system call.
const NOTED: Duration = Duration::from_secs(60);

/// A temporary file unchanged for this long belongs to a dead process.
const DEAD: Duration = Duration::from_secs(3600);

/// A folder of entries.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    /// Limit of all entries in bytes.
    limit: u64,
}

/// The contents of an entry's name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    /// Hash of the entity tag and the version number.
    version: u64,
    size: u64,
    range: Range<u64>,
}

impl Name {
    fn of(contents: &Contents, range: &Range<u64>) -> Name {
        let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
        for text in [&contents.tag, &contents.number] {
            let text = text.as_deref().unwrap_or_default();
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        let hash = hash.finish();
        let version = hash.as_ref().first_chunk().copied().map_or(0, u64::from_le_bytes);
        Name { version, size: contents.size, range: range.clone() }
    }

    fn parse(text: &str) -> Option<Name> {
        let mut parts = text.split('-').map(|part| u64::from_str_radix(part, 16).ok());
        let mut next = || parts.next().flatten();
        let name = Name { version: next()?, size: next()?, range: next()?..next()? };
        (name.to_text() == text && !name.range.is_empty()).then_some(name)
    }

    fn to_text(&self) -> String {
        format!("{:016x}-{:x}-{:x}-{:x}", self.version, self.size, self.range.start, self.range.end)
    }

    fn is_version(&self, other: &Name) -> bool {
        (self.version, self.size) == (other.version, other.size)
    }
}

impl Folder {
    pub(super) fn new(root: PathBuf, limit: u64) -> Self {
        Folder { root, limit }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// The object's directory. Its first two letters are a level of their own, to keep listings
    /// short.
    fn directory(&self, id: &Id) -> PathBuf {
        let mut hex = String::new();
        for byte in id {
            let _ = write!(hex, "{byte:02x}");
        }
        let (first, rest) = hex.split_at_checked(2).unwrap_or_default();
        self.root.join(first).join(rest)
    }

    /// The wanted bytes of an object, if all of them are here. They are of the contents `of`, if
    /// given.
    pub(super) fn find(&self, id: &Id, wanted: &Wanted, of: Option<&Contents>) -> Option<Fetched> {
        let directory = self.directory(id);
        if let Some(of) = of {
            // Usually exactly this range was read before.
            let range = resolve_range(wanted, of.size)?;
            let name = Name::of(of, &range);
            if let Some(found) = put_together(&directory, id, &range, &[name], Some(of)) {
                return Some(found);
            }
        }
        versions(&directory).into_values().find_map(|names| {
            let range = resolve_range(wanted, names.first()?.size)?;
            put_together(&directory, id, &range, &names, of)
        })
    }

    /// The cached description of an object's contents.
    pub(super) fn contents(&self, id: &Id) -> Option<Contents> {
        let directory = self.directory(id);
        let names: Vec<Name> = versions(&directory).into_values().flatten().collect();
        names.iter().find_map(|name| {
            let file = open_entry(&directory.join(name.to_text())).ok()?;
            entry::head(&file, id).map(|head| head.contents)
        })
    }

    /// Keeps bytes of an object. Replaces entries of its other versions.
    pub(super) fn put(&self, id: &Id, fetched: &Fetched) -> io::Result<()> {
        let directory = self.directory(id);
        let name = Name::of(&fetched.contents, &fetched.range);
        let write = || {
            // The folder may hold data that not every user of this machine may see.
            DirBuilder::new().recursive(true).mode(0o700).create(&self.root)?;
            fs::create_dir_all(&directory)?;
            place(&directory, id, &name, fetched)
        };
        match write() {
            // Somebody just removed the empty directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => write(),
            done => done,
        }?;
        for other in versions(&directory).into_values().flatten() {
            let within = other.range.start >= name.range.start && other.range.end <= name.range.end;
            if other != name && (within || !other.is_version(&name)) {
                let _ = fs::remove_file(directory.join(other.to_text()));
            }
        }
        // No process knows what others write. Each therefore sweeps at random, more often the more
        // it writes: all together sweep once per part of the limit.
        let len = (fetched.range.end - fetched.range.start).max(1);
        let part = (self.limit / SWEEPS).max(1);
        if RandomState::new().hash_one(std::process::id()) % part < len {
            self.sweep();
        }
        Ok(())
    }

    /// Drops everything kept of an object.
    pub(super) fn forget(&self, id: &Id) -> io::Result<()> {
        let directory = self.directory(id);
        for name in versions(&directory).into_values().flatten() {
            match fs::remove_file(directory.join(name.to_text())) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes the least recently used entries until the folder is within its limit.
    ///
    /// Files that do not belong to the cache stay and do not count.
    fn sweep(&self) {
        let now = SystemTime::now();
        let mut found: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        let objects = children(&self.root).filter(|path| is_hex(path, 2)).flat_map(|path| children(&path));
        for object in objects.filter(|path| is_hex(path, 62)) {
            let mut files = 0;
            for path in children(&object) {
                files += 1;
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let Ok(meta) = fs::symlink_metadata(&path) else { continue };
                let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let is_entry = Name::parse(name).is_some();
                if !is_entry && is_temporary(name) && now.duration_since(used).is_ok_and(|age| age > DEAD) {
                    let _ = fs::remove_file(&path);
                } else if is_entry {
                    found.push((used, meta.len(), path));
                }
            }
            if files == 0 {
                let _ = fs::remove_dir(&object);
            }
        }
        let mut total = found.iter().map(|(_, len, _)| *len).fold(0, u64::saturating_add);
        if total <= self.limit {
            return;
        }
        found.sort();
        // Remove a little more, so that the next entry fits.
        let enough = self.limit - self.limit / SWEEPS;
        for (_, len, path) in found {
            if total <= enough {
                return;
            }
            match fs::remove_file(&path) {
                // Another process may be sweeping too. A file that it removed no longer counts here
                // either.
                Ok(()) => total -= len,
                Err(error) if error.kind() == io::ErrorKind::NotFound => total -= len,
                Err(_) => {}
            }
        }
    }
}

/// The entries of a directory, by version.
fn versions(directory: &Path) -> BTreeMap<(u64, u64), Vec<Name>> {
    let mut versions: BTreeMap<_, Vec<Name>> = BTreeMap::new();
    for path in children(directory) {
        if let Some(name) = path.file_name().and_then(|name| name.to_str()).and_then(Name::parse) {
            versions.entry((name.version, name.size)).or_default().push(name);
        }
    }
    versions
}

/// Assembles a range from entries of one version. Removes bad entries.
fn put_together(
    directory: &Path,
    id: &Id,
    range: &Range<u64>,
    names: &[Name],
    of: Option<&Contents>,
) -> Option<Fetched> {
    let ranges: Vec<Range<u64>> = names.iter().map(|name| name.range.clone()).collect();
    let mut contents: Option<Contents> = of.cloned();
    let mut pieces: Vec<Bytes> = Vec::new();
    for (n, part) in pick(range, &ranges)? {
        let name = names.get(n)?;
        let path = directory.join(name.to_text());
        let file = match open_entry(&path) {
            Ok(file) => Some(file),
            // Somebody removed it, or this process is out of descriptors.
            Err(error) if error.kind() != io::ErrorKind::InvalidData => return None,
            Err(_) => None,
        };
        let read = file.and_then(|file| {
            let head = entry::head(&file, id).filter(|head| head.range == name.range)?;
            let bytes = entry::read(&file, &head, &part)?;
            Some((file, head, bytes))
        });
        let Some((file, head, bytes)) = read else {
            let _ = fs::remove_file(&path);
            return None;
        };
        match &contents {
            Some(contents) if !contents.is(&head.contents) => return None,
            Some(_) => {}
            None => contents = Some(head.contents),
        }
        pieces.push(bytes);
        note_use(&file);
    }
    Some(Fetched { contents: contents?, range: range.clone(), pieces })
}

/// Opens an entry. Fails with [`io::ErrorKind::InvalidData`] if it is not a regular file.
///
/// The cache has no such files. Never blocks: a pipe may have no other end.
fn open_entry(path: &Path) -> io::Result<File> {
    let foreign = || io::Error::from(io::ErrorKind::InvalidData);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty())) {
        Ok(file) => File::from(file),
        // A link, a socket, or a device without a driver.
        Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => return Err(foreign()),
        Err(error) => return Err(error.into()),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(foreign()) }
}

/// Records that an entry is in use. (The system itself records access only once a day.)
fn note_use(file: &File) {
    let now = SystemTime::now();
    let used = file.metadata().and_then(|meta| meta.modified());
    if used.is_ok_and(|used| now.duration_since(used).is_ok_and(|age| age > NOTED)) {
        let _ = file.set_modified(now);
    }
}

/// Writes an entry to a temporary file and renames it into place.
fn place(directory: &Path, id: &Id, name: &Name, fetched: &Fetched) -> io::Result<()> {
    // Unique to this process and call: `RandomState` differs from call to call.
    let number = RandomState::new().hash_one(SystemTime::now());
    let temporary = directory.join(format!("tmp-{:x}-{number:016x}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    let written = (|| {
        let mut file = BufWriter::new(file);
        entry::write(&mut file, id, &fetched.contents, &fetched.range, &fetched.pieces)?;
        file.flush()?;
        fs::rename(&temporary, directory.join(name.to_text()))
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn is_temporary(name: &str) -> bool {
    name.starts_with("tmp-")
}

fn is_hex(path: &Path, len: usize) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.len() == len && name.bytes().all(|b| b.is_ascii_hexdigit())
}

fn children(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::{Folder, Name, children, versions};
    use crate::cache::Id;
    use crate::client::{Contents, Fetched, Wanted};
    use bytes::Bytes;
    use std::fs::{self, File};
    use std::process::Command;
    use std::time::{Duration, SystemTime};

    fn contents(tag: &str, size: u64) -> Contents {
        Contents { size, tag: Some(tag.to_owned()), number: None, modified: 1, marks: None }
    }

    fn fetched(tag: &str, size: u64, start: u64, bytes: &[u8]) -> Fetched {
        let range = start..start + bytes.len() as u64;
        Fetched { contents: contents(tag, size), range, pieces: vec![Bytes::copy_from_slice(bytes)] }
    }

    fn joined(fetched: Option<Fetched>) -> Option<Vec<u8>> {
        fetched.map(|fetched| fetched.pieces.concat())
    }

    fn entries(folder: &Folder, id: &Id) -> usize {
        children(&folder.directory(id)).count()
    }

    const ID: Id = [3; 32];

    #[test]
    fn ranges_are_put_together_and_versions_kept_apart() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::new(directory.path().join("new"), 1 << 30);
        assert!(folder.find(&ID, &Wanted::All, None).is_none());
        folder.put(&ID, &fetched("a", 10, 0, b"0123")).unwrap();
        folder.put(&ID, &fetched("a", 10, 3, b"3456")).unwrap();
        folder.put(&ID, &fetched("a", 10, 8, b"89")).unwrap();
        let find = |wanted, of: Option<&Contents>| joined(folder.find(&ID, &wanted, of));
        assert_eq!(find(Wanted::Bounded(1..7), None).unwrap(), b"123456");
        assert_eq!(find(Wanted::Suffix(2), None).unwrap(), b"89");
        assert_eq!(find(Wanted::Bounded(8..99), Some(&contents("a", 10))).unwrap(), b"89");
        assert_eq!(find(Wanted::Bounded(1..7), Some(&contents("b", 10))), None);
        assert_eq!(find(Wanted::All, None), None);
        assert_eq!(folder.contents(&ID).unwrap(), contents("a", 10));
        // Entries within a longer one are removed.
        folder.put(&ID, &fetched("a", 10, 0, b"0123456789")).unwrap();
        assert_eq!((find(Wanted::All, None).unwrap(), entries(&folder, &ID)), (b"0123456789".to_vec(), 1));
        assert_eq!(find(Wanted::AtMost(9), None), None);
        assert_eq!(find(Wanted::AtMost(10), None).unwrap(), b"0123456789");
        // Other versions are removed too.
        folder.put(&ID, &fetched("b", 10, 4, b"xy")).unwrap();
        assert_eq!((find(Wanted::All, None), entries(&folder, &ID)), (None, 1));
        assert!(folder.find(&[4; 32], &Wanted::Bounded(4..6), None).is_none());
        folder.forget(&ID).unwrap();
        folder.forget(&ID).unwrap();
        assert_eq!(entries(&folder, &ID), 0);
    }

    #[test]
    fn bad_files_are_removed_and_foreign_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::new(directory.path().into(), 1 << 30);
        folder.put(&ID, &fetched("a", 4, 0, b"0123")).unwrap();
        let at = folder.directory(&ID);
        let name = versions(&at).into_values().flatten().next().unwrap();
        let path = at.join(name.to_text());
        fs::write(at.join("notes.txt"), "mine").unwrap();
        // An entry of another object under this object's name.
        let mut other = Vec::new();
        super::entry::write(&mut other, &[9; 32], &contents("a", 4), &(0..4), &[Bytes::from_static(b"9999")])
            .unwrap();
        for bad in [&b""[..], b"0123", &other] {
            fs::write(&path, bad).unwrap();
            assert!(folder.find(&ID, &Wanted::All, None).is_none());
            assert!(!path.exists());
        }
        // Nobody writes to the pipe, and the link leads out of the folder.
        let outside = directory.path().join("outside");
        fs::write(&outside, "theirs").unwrap();
        let pipe = || assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let link = || std::os::unix::fs::symlink(&outside, &path).unwrap();
        for make in [&pipe as &dyn Fn(), &link] {
            make();
            assert!(folder.find(&ID, &Wanted::All, Some(&contents("a", 4))).is_none());
            assert!(folder.contents(&ID).is_none());
            assert!(!fs::exists(&path).unwrap() && path.symlink_metadata().is_err());
            folder.put(&ID, &fetched("a", 4, 0, b"0123")).unwrap();
            assert_eq!(joined(folder.find(&ID, &Wanted::All, None)).unwrap(), b"0123");
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(fs::read(&outside).unwrap(), b"theirs");
        // A directory stays, and nothing is kept in its place.
        fs::create_dir(&path).unwrap();
        assert!(folder.find(&ID, &Wanted::All, None).is_none());
        assert!(folder.put(&ID, &fetched("a", 4, 0, b"0123")).is_err());
        fs::remove_dir(&path).unwrap();
        folder.sweep();
        assert_eq!(fs::read(at.join("notes.txt")).unwrap(), b"mine");
        for text in ["", "a", "0-1-2-3", "0000000000000001-a-5-5", "0000000000000001-a-0-5-6", "notes.txt"] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
        let range = 1..u64::MAX;
        let name = Name::of(&contents("a", u64::MAX), &range);
        assert_eq!(Name::parse(&name.to_text()), Some(name));
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::new(directory.path().into(), 100_000);
        let id = |n: u8| [n; 32];
        let hours = |n: u64| SystemTime::now() - Duration::from_secs(3600 * n);
        for n in 0..9 {
            folder.put(&id(n), &fetched("a", 10_000, 0, &[n; 10_000])).unwrap();
            let name = versions(&folder.directory(&id(n))).into_values().flatten().next().unwrap();
            let file = File::open(folder.directory(&id(n)).join(name.to_text())).unwrap();
            file.set_modified(hours(20 - u64::from(n))).unwrap();
        }
        let dead = folder.directory(&id(8)).join("tmp-1-2");
        fs::write(&dead, "half").unwrap();
        File::open(&dead).unwrap().set_modified(hours(2)).unwrap();
        // Use the oldest entry.
        assert!(folder.find(&id(0), &Wanted::All, None).is_some());
        folder.put(&id(9), &fetched("a", 10_000, 0, &[9; 10_000])).unwrap();
        folder.put(&id(10), &fetched("a", 10_000, 0, &[10; 10_000])).unwrap();
        folder.sweep();
        let here: Vec<u8> = (0..11).filter(|n| folder.find(&id(*n), &Wanted::All, None).is_some()).collect();
        assert_eq!(here, [0, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert!(!dead.exists());
        folder.sweep();
        assert!(!folder.directory(&id(1)).exists(), "an empty directory");
    }
}
