//! Takes back the repair of a store.

use super::quarantine::{Change, Quarantine, replace};
use crate::content_hash::Digest;
use crate::{Error, Result};
use hyperslab_store::{Expected, Key, Opened, RangeRead, Store};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The file of the quarantine with the digest of an object's new state. Empty: the object is gone. Without
/// this file, the repair has not changed the object.
pub(super) fn told(saved: &str) -> String {
    format!("{saved}.told")
}

/// The time of a file's last change.
pub(super) fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// An object to give back.
struct Saved<'s> {
    key: &'s str,
    old: Vec<u8>,
    /// The digest of the new state; empty: the object is gone. `None`: the repair has not changed it.
    new: Option<String>,
    modified: Option<SystemTime>,
}

impl Saved<'_> {
    /// Fails for a state that is neither the old one nor the repair's. `true`: it is the old one.
    fn is_old(&self, now: Option<&[u8]>) -> Result<bool> {
        let is_old = now == Some(&self.old[..]);
        let digest = now.map(|bytes| Digest::of(bytes).to_string()).unwrap_or_default();
        match is_old || self.new.as_ref() == Some(&digest) {
            true => Ok(is_old),
            false => Err(changed(self.key)),
        }
    }

    /// Gives the old state back, unless another writer has changed the object meanwhile.
    fn put(&self, store: &dyn Store, root: &Path) -> Result<()> {
        let file = root.join(self.key);
        let Ok(key) = Key::new(self.key) else {
            // A leftover is no object: no writer has its name.
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder).map_err(failed("create", folder))?;
            }
            return replace(&file, &self.old, self.modified);
        };
        let opened = store.open(key, None)?;
        let now = opened.as_deref().map(bytes_of).transpose()?;
        if self.is_old(now.as_deref())? {
            return Ok(());
        }
        let expected = opened.as_deref().map_or(Expected::Absent, Expected::Same);
        if !store.swap(key, expected, &[&self.old[..]], None)? {
            return Err(changed(self.key));
        }
        // The time counts for those who compare times. It is set only on the file that has these bytes.
        if let Some(modified) = self.modified {
            let set = || {
                let mut file = File::options().read(true).write(true).open(&file)?;
                let mut found = Vec::new();
                file.read_to_end(&mut found)?;
                if found == self.old { file.set_modified(modified) } else { Ok(()) }
            };
            set().map_err(failed("write", &file))?;
        }
        Ok(())
    }
}

fn bytes_of(opened: &dyn Opened) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(opened.size()).unwrap_or_default()];
    opened.read_ranges(&mut [RangeRead { offset: 0, buf: &mut bytes }])?;
    Ok(bytes)
}

fn changed(key: &str) -> Error {
    Error::Options(format!("'{key}' was changed after it was repaired: undo would lose that"))
}

fn failed(what: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { what, path: path.clone(), source }
}

/// Takes back the changes of a store. Changes nothing if one of the objects was changed since. Each object
/// is exchanged by the store, which excludes other writers meanwhile.
pub(super) fn undo(
    store: &dyn Store,
    root: &Path,
    quarantine: &Quarantine,
    changes: &[Change],
) -> Result<()> {
    let (mut put, mut folders): (Vec<Saved<'_>>, Vec<(PathBuf, PathBuf)>) = (Vec::new(), Vec::new());
    for change in changes {
        match change {
            Change::Object { key, saved } => {
                let path = quarantine.path(saved);
                let old = fs::read(&path).map_err(failed("read", &path))?;
                let new = fs::read_to_string(quarantine.path(&told(saved))).ok();
                let saved = Saved { key, old, new, modified: modified(&path) };
                // Without a digest the repair has not changed it. Others may have.
                if saved.new.is_some() && !saved.is_old(fs::read(root.join(key)).ok().as_deref())? {
                    put.push(saved);
                }
            }
            Change::Folder { key, saved } => {
                let (from, to) = (quarantine.path(saved), root.join(key));
                // Without it, the repair was killed before it moved the folder.
                if from.exists() {
                    if to.exists() {
                        return Err(changed(key));
                    }
                    folders.push((from, to));
                }
            }
            Change::Bytes { .. } | Change::Length { .. } => {}
        }
    }
    put.iter().try_for_each(|saved| saved.put(store, root))?;
    for (from, to) in folders {
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
        }
        fs::rename(&from, &to).map_err(failed("move", &to))?;
    }
    Ok(())
}
