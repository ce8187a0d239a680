//! The quarantine: a folder beside a store, with everything that repairs replaced, and a journal.
//!
//! `x.zarr.quarantine/1/journal.json` says what the first repair does. It is on the disk before the
//! first change. Undoing a repair needs only the journal and the files beside it, at whatever moment the
//! repair was killed.

use crate::{Error, Json, Result};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The name of a journal.
const JOURNAL: &str = "journal.json";

/// A change that a repair makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Bytes of the file at an offset.
    Bytes { offset: u64, old: Vec<u8>, new: Vec<u8> },
    /// The length of the file.
    Length { old: u64, new: u64 },
    /// The file with this path below the store: `saved` is the name of its old state in the quarantine.
    Object { key: String, saved: String },
}

/// The quarantine of one repair.
#[derive(Debug)]
pub(super) struct Quarantine {
    folder: PathBuf,
}

fn failed(what: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { what, path: path.clone(), source }
}

/// The folder with all quarantines of a store or file.
pub(super) fn folder(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".quarantine");
    path.with_file_name(name)
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
        let next = numbers(&all)?.last().map_or(1, |last| last.saturating_add(1));
        let folder = all.join(next.to_string());
        fs::create_dir_all(&all).map_err(failed("create", &all))?;
        // Fails if another repair has just made it.
        fs::create_dir(&folder).map_err(failed("create", &folder))?;
        Ok(Quarantine { folder })
    }

    /// The last quarantine of a store or file. `None`: nothing was repaired.
    pub fn last(path: &Path) -> Result<Option<Quarantine>> {
        let all = folder(path);
        for number in numbers(&all)?.into_iter().rev() {
            let folder = all.join(number.to_string());
            if folder.join(JOURNAL).is_file() {
                return Ok(Some(Quarantine { folder }));
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
            Change::Object { key, saved } => Json::from([
                ("change", "object".into()),
                ("key", key.as_str().into()),
                ("saved", saved.as_str().into()),
            ]),
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
        let parsed = Json::parse(&text).ok();
        let changes = parsed.as_ref().and_then(|json| json.get("changes")?.as_array());
        let parse = |json: &Json| {
            let text = |name: &str| json.get(name)?.as_str().map(str::to_owned);
            let number = |name: &str| json.get(name)?.as_integer::<u64>();
            Some(match json.get("change")?.as_str()? {
                "bytes" => Change::Bytes {
                    offset: number("offset")?,
                    old: unhex(&text("old")?)?,
                    new: unhex(&text("new")?)?,
                },
                "length" => Change::Length { old: number("old")?, new: number("new")? },
                "object" => Change::Object { key: text("key")?, saved: text("saved")? },
                _ => return None,
            })
        };
        let changes = changes.and_then(|changes| changes.iter().map(parse).collect::<Option<Vec<_>>>());
        changes.ok_or_else(|| {
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
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
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
        let second = Quarantine::create(&path).unwrap();
        assert!(second.folder.ends_with("2"));
        // The second repair was killed before it had a journal.
        let last = Quarantine::last(&path).unwrap().unwrap();
        assert!(last.folder.ends_with("1") && !second.folder.exists());
        assert_eq!(last.read().unwrap(), changes);
        last.remove().unwrap();
        assert!(!folder(&path).exists());
    }
}
