//! The quarantine: a folder beside a store, with everything that repairs replaced, and a journal.
//!
//! `x.zarr.quarantine/1/journal.json` says what the first repair does. It is on the disk before the
//! first change. Undoing a repair needs only the journal and the files beside it, at whatever moment the
//! repair was killed.

use crate::content_hash::Digest;
use crate::copy::tasks::{DirectoryLock, lock_directory};
use crate::{Error, Json, Result};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The name of a journal.
const JOURNAL: &str = "journal.json";

/// Documents of groups and arrays: a folder with one is part of a store.
const DOCUMENTS: [&str; 3] = ["zarr.json", ".zgroup", ".zarray"];

/// Bytes of the longest name of a folder. File systems take 255.
const LONGEST: usize = 200;

/// A change that a repair makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Bytes of the file at an offset.
    Bytes { offset: u64, old: Vec<u8>, new: Vec<u8> },
    /// The length of the file.
    Length { old: u64, new: u64 },
    /// The file with this path below the store: `saved` is the name of its old state in the quarantine.
    Object { key: String, saved: String },
    /// The folder with this path below the store, which is moved to `saved` in the quarantine.
    Folder { key: String, saved: String },
}

/// The quarantine of one repair.
#[derive(Debug)]
pub(super) struct Quarantine {
    folder: PathBuf,
    /// Keeps other repairs, and undo, out.
    _alone: DirectoryLock,
}

fn alone(all: &Path, make: bool) -> Result<DirectoryLock> {
    let busy =
        || Error::Options(format!("another repair or undo works in '{}': wait until it ends", all.display()));
    lock_directory(all, make, Duration::ZERO, busy)
}

fn failed(what: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { what, path: path.clone(), source }
}

/// The folder with all quarantines of a store or file.
///
/// It lies beside the root of the store, also for a group below: files of a quarantine in a store would be
/// keys that no array owns.
pub(super) fn folder(path: &Path) -> PathBuf {
    let root = if path.is_dir() { root_of(path) } else { path };
    let mut name = root.file_name().unwrap_or_default().to_owned();
    name.push(".quarantine");
    let all = root.with_file_name(name);
    match path.strip_prefix(root) {
        Ok(below) if !below.as_os_str().is_empty() => all.join(flat(below)),
        _ => all,
    }
}

/// Returns `true` if a folder can be moved to the quarantine of `path`: both are on one disk.
pub(super) fn is_near(path: &Path, moved: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let disk = |path: &Path| fs::metadata(path).ok().map(|about| about.dev());
    let beside = root_of(path).parent().unwrap_or(path);
    disk(moved).is_some_and(|own| disk(beside) == Some(own))
}

fn is_flat(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.as_bytes().starts_with(b"%"))
        && folder.parent().is_some_and(|all| all.extension().is_some_and(|name| name == "quarantine"))
}

/// The outermost folder of the store that has a folder.
fn root_of(path: &Path) -> &Path {
    let is_node = |folder: &Path| DOCUMENTS.iter().any(|name| folder.join(name).is_file());
    path.ancestors().skip(1).take_while(|folder| is_node(folder)).last().unwrap_or(path)
}

/// A path as one name. It begins with `%`: quarantines of the root have names that are numbers.
fn flat(path: &Path) -> String {
    let text: String =
        path.components().map(|part| format!("/{}", part.as_os_str().to_string_lossy())).collect();
    let name = text.replace('%', "%25").replace('/', "%2F");
    if name.len() <= LONGEST { name } else { format!("%{}", Digest::of(path.as_os_str().as_bytes())) }
}

/// The numbers of quarantines, ascending.
fn numbers(folder: &Path) -> Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed("list", folder))?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed("list", folder))?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

impl Quarantine {
    /// Makes a quarantine for a store or file.
    pub fn create(path: &Path) -> Result<Quarantine> {
        let all = folder(path);
        let _alone = alone(&all, true)?;
        let next = numbers(&all)?.last().map_or(1, |last| last.saturating_add(1));
        let folder = all.join(next.to_string());
        fs::create_dir_all(&all).map_err(failed("create", &all))?;
        // Fails if another repair has just made it.
        fs::create_dir(&folder).map_err(failed("create", &folder))?;
        Ok(Quarantine { folder, _alone })
    }

    /// The last quarantine of a store or file. `None`: nothing was repaired.
    pub fn last(path: &Path) -> Result<Option<Quarantine>> {
        let all = folder(path);
        let _alone = alone(&all, false)?;
        for number in numbers(&all)?.into_iter().rev() {
            let folder = all.join(number.to_string());
            if folder.join(JOURNAL).is_file() {
                return Ok(Some(Quarantine { folder, _alone }));
            }
            // Its repair was killed before it changed anything.
            fs::remove_dir_all(&folder).map_err(failed("remove", &folder))?;
        }
        Ok(None)
    }

    /// The path of a file in the quarantine.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes the journal, and waits for the disk.
    pub fn write(&self, hash: &str, changes: &[Change]) -> Result<()> {
        let change = |change: &Change| match change {
            Change::Bytes { offset, old, new } => Json::from([
                ("change", "bytes".into()),
                ("offset", (*offset).into()),
                ("old", hex(old).as_str().into()),
                ("new", hex(new).as_str().into()),
            ]),
            Change::Length { old, new } => {
                Json::from([("change", "length".into()), ("old", (*old).into()), ("new", (*new).into())])
            }
            Change::Object { key, saved } | Change::Folder { key, saved } => {
                let is_folder = matches!(change, Change::Folder { .. });
                Json::from([
                    ("change", if is_folder { "folder" } else { "object" }.into()),
                    ("key", key.as_str().into()),
                    ("saved", saved.as_str().into()),
                ])
            }
        };
        let journal = Json::from([
            ("version", 1_u64.into()),
            ("plan", hash.into()),
            ("changes", Json::Array(changes.iter().map(change).collect())),
        ]);
        let path = self.path(JOURNAL);
        replace(&path, journal.to_text(Some(1)).as_bytes(), None)?;
        if let Some(all) = self.folder.parent() {
            File::open(all).and_then(|all| all.sync_all()).map_err(failed("write", all))?;
        }
        Ok(())
    }

    /// Saves the old state of an object and the time of its last change, and waits for the disk.
    pub fn save(&self, name: &str, bytes: &[u8], modified: Option<SystemTime>) -> Result<()> {
        replace(&self.path(name), bytes, modified)
    }

    /// Reads the journal.
    pub fn read(&self) -> Result<Vec<Change>> {
        let path = self.path(JOURNAL);
        let text = fs::read(&path).map_err(failed("read", &path))?;
        parse(&text).ok_or_else(|| {
            let why = "it is no journal of a repair: put the files beside it back by hand";
            Error::Options(format!("cannot read '{}': {why}", path.display()))
        })
    }

    /// Removes the quarantine.
    pub fn remove(self) -> Result<()> {
        // A kill may leave the folder. Without its journal it is nothing to undo.
        let journal = self.path(JOURNAL);
        fs::remove_file(&journal).map_err(failed("remove", &journal))?;
        fs::remove_dir_all(&self.folder).map_err(failed("remove", &self.folder))?;
        if let Some(all) = self.folder.parent() {
            // Other repairs may have quarantines there.
            let _ = fs::remove_dir(all);
            if let Some(above) = all.parent().filter(|_| is_flat(all)) {
                let _ = fs::remove_dir(above);
            }
        }
        Ok(())
    }
}

/// Writes a file in one step, and waits for the disk. `modified`: the time of its last change.
pub(super) fn replace(path: &Path, bytes: &[u8], modified: Option<SystemTime>) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let write = || {
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        if let Some(modified) = modified {
            file.set_modified(modified)?;
        }
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(failed("write", path))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// The changes in the text of a journal. `None`: it is no journal, or names files that are elsewhere.
pub(crate) fn parse(text: &[u8]) -> Option<Vec<Change>> {
    let parsed = Json::parse(text).ok()?;
    parsed.get("changes")?.as_array()?.iter().map(change).collect()
}

fn change(json: &Json) -> Option<Change> {
    let text = |name: &str| json.get(name)?.as_str().map(str::to_owned);
    let number = |name: &str| json.get(name)?.as_integer::<u64>();
    Some(match json.get("change")?.as_str()? {
        "bytes" => {
            let (old, new) = (unhex(&text("old")?)?, unhex(&text("new")?)?);
            let offset = number("offset")?;
            // Both states are as long, and end within a file.
            let ends = offset.checked_add(old.len() as u64)?;
            if old.len() != new.len() || i64::try_from(ends).is_err() {
                return None;
            }
            Change::Bytes { offset, old, new }
        }
        "length" => Change::Length { old: number("old")?, new: number("new")? },
        name @ ("object" | "folder") => {
            let (key, saved) = (text("key")?, text("saved")?);
            // A forged journal must not make `undo` read or write another file.
            if !is_below(&key) || !is_below(&saved) || saved.contains('/') {
                return None;
            }
            if name == "folder" { Change::Folder { key, saved } } else { Change::Object { key, saved } }
        }
        _ => return None,
    })
}

/// Returns `true` for a path that stays below the folder that it is joined to.
fn is_below(path: &str) -> bool {
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    !path.is_empty() && !path.contains('\0') && Path::new(path).components().all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_are_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.h5");
        assert!(Quarantine::last(&path).unwrap().is_none());
        let first = Quarantine::create(&path).unwrap();
        let changes = vec![
            Change::Bytes { offset: 3, old: vec![0, 255], new: vec![16, 1] },
            Change::Length { old: 5, new: 9 },
            Change::Object { key: "a/c/0".into(), saved: "0".into() },
        ];
        first.write("0a", &changes).unwrap();
        let busy = Quarantine::create(&path).unwrap_err().to_string();
        assert!(busy.contains("another repair or undo"), "{busy}");
        drop(first);
        let second = Quarantine::create(&path).unwrap().folder.clone();
        assert!(second.ends_with("2"));
        // The second repair was killed before it had a journal.
        let last = Quarantine::last(&path).unwrap().unwrap();
        assert!(last.folder.ends_with("1") && !second.exists());
        assert_eq!(last.read().unwrap(), changes);
        last.remove().unwrap();
        assert!(!folder(&path).exists());
    }

    #[test]
    fn quarantines_lie_beside_the_root_of_their_store() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("x.zarr");
        let group = root.join("a/1");
        fs::create_dir_all(&group).unwrap();
        for node in [&root, &root.join("a"), &group] {
            fs::write(node.join("zarr.json"), "{}").unwrap();
        }
        let all = directory.path().join("x.zarr.quarantine");
        assert_eq!(folder(&root), all);
        assert_eq!(folder(&group), all.join("%2Fa%2F1"));
        fs::create_dir_all(root.join("a/b%c")).unwrap();
        assert_eq!(folder(&root.join("a/b%c")), all.join("%2Fa%2Fb%25c"));
        let long = root.join("a").join("n".repeat(210));
        fs::create_dir_all(&long).unwrap();
        assert!(folder(&long).file_name().unwrap().len() < 70);
        // The root does not find the repair of the group.
        let own = Quarantine::create(&group).unwrap();
        own.write("0", &[]).unwrap();
        assert!(Quarantine::last(&root).unwrap().is_none());
        own.remove().unwrap();
        assert!(!all.exists() && root.exists());
    }

    #[test]
    fn forged_journals_are_refused() {
        let object =
            |key: &str, saved: &str| format!(r#"{{"change": "object", "key": "{key}", "saved": "{saved}"}}"#);
        let bytes = |old: &str, new: &str| {
            format!(r#"{{"change": "bytes", "offset": 1, "old": "{old}", "new": "{new}"}}"#)
        };
        let journal = |change: &str| parse(format!(r#"{{"changes": [{change}]}}"#).as_bytes());
        let whole = Change::Object { key: "a/.1.hyperslab-tmp".into(), saved: "0".into() };
        assert_eq!(journal(&object("a/.1.hyperslab-tmp", "0")), Some(vec![whole]));
        assert_eq!(
            journal(&bytes("0a", "FF")),
            Some(vec![Change::Bytes { offset: 1, old: vec![10], new: vec![255] }])
        );
        for (key, saved) in [
            ("../a", "0"),
            ("/etc/passwd", "0"),
            ("a/../../b", "0"),
            ("", "0"),
            ("a", "../0"),
            ("a", "b/0"),
            ("a", ""),
        ] {
            assert_eq!(journal(&object(key, saved)), None, "{key} {saved}");
        }
        for (old, new) in [("0a", "0a0b"), ("+a", "00"), ("0", "00"), ("é", "00")] {
            assert_eq!(journal(&bytes(old, new)), None, "{old} {new}");
        }
        assert_eq!(parse(b"{}"), None);
    }
}
