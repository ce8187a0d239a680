//! New versions of files that several processes write before they replace the old ones.
//!
//! A part has a name beside the file, by which other processes open it, and each of them locks it. A
//! killed program leaves its part behind. Locks tell that no program has it open any more.

use super::delete::list;
use super::edited::{Held, hold};
use super::stamp::age;
use super::sweep::NAMED_DEAD_AFTER;
use super::write::DEAD_AFTER;
use crate::key::TEMPORARY_SUFFIX;
use crate::{Operation, Result, StoreError, hash};
use rustix::fs::FileType;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Name prefix of parts.
pub(super) const PART: &str = ".part.";

/// Returns a new name for a part of a file: `.part.<hash of its name>.<random>.hyperslab-tmp`.
///
/// The name of the file itself may be as long as names can be.
pub fn part_beside(path: &Path) -> PathBuf {
    let random = RandomState::new().hash_one(path);
    path.with_file_name(format!("{}{random:x}{TEMPORARY_SUFFIX}", start_of(path)))
}

/// Removes the parts of a file that no program has open. Returns how many.
pub fn remove_parts(path: &Path) -> Result<u64> {
    let failed = |source| StoreError::Io {
        operation: Operation::Delete,
        key: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        url: super::file_url(path.parent().unwrap_or(path)),
        source,
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (start, mut removed) = (start_of(path), 0);
    for entry in list(parent).map_err(failed)?.into_iter().flatten() {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let is_part = name.as_bytes().starts_with(start.as_bytes())
            && name.as_bytes().ends_with(TEMPORARY_SUFFIX.as_bytes());
        removed += u64::from(is_part && remove_part(&entry.path()));
    }
    Ok(removed)
}

/// The start of the names of a file's parts.
fn start_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().as_bytes();
    format!("{PART}{:x}.", hash::fnv1a(hash::EMPTY, name))
}

/// Removes a part if no program has it open.
pub(super) fn remove_part(path: &Path) -> bool {
    let Ok(found) = rustix::fs::lstat(path) else { return false };
    let age = age(&found, SystemTime::now()).unwrap_or_default();
    // A new file gets its name just before its lock.
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || age <= DEAD_AFTER {
        return false;
    }
    match hold(path) {
        Ok(Held::ByNobody(locked)) => {
            let removed = fs::remove_file(path).is_ok();
            drop(locked);
            removed
        }
        Ok(Held::Unknown) => age > NAMED_DEAD_AFTER && fs::remove_file(path).is_ok(),
        Ok(Held::ByWriter) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EditedFile, EditedOptions};

    #[test]
    fn parts_that_nobody_has_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nc");
        let part = |_| {
            let part = part_beside(&path);
            let file = EditedFile::create(&part, false, EditedOptions::default()).unwrap();
            file.write_at(0, b"abc").unwrap();
            file.publish().unwrap();
            (part, file)
        };
        let [(left, one), (held, other)] = [0, 1].map(part);
        let stranger = part_beside(&folder.path().join("b.nc"));
        fs::write(&stranger, b"").unwrap();
        drop(one);
        assert_eq!(remove_parts(&path).unwrap(), 0);
        std::thread::sleep(DEAD_AFTER + std::time::Duration::from_millis(100));
        assert_eq!(remove_parts(&path).unwrap(), 1);
        assert!(!left.exists() && held.exists() && stranger.exists());
        drop(other);
        assert_eq!(remove_parts(&path).unwrap(), 1);
        assert!(!held.exists());
        assert_eq!(remove_parts(&folder.path().join("none/a.nc")).unwrap(), 0);
        // A sweep of the directory removes parts of all files.
        let store = crate::LocalStore::open(folder.path(), crate::LocalOptions::default()).unwrap();
        assert_eq!(store.sweep_below(None, None).unwrap(), 1);
        assert!(!stranger.exists());
    }
}
