//! Deletes objects and prefixes, and the directories left empty.

use super::attempts::Attempts;
use super::{LocalStore, PathBytes};
use crate::{Ask, Expected, Key};
use rustix::fs::FileType;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

impl LocalStore {
    pub(super) fn delete_object(&self, key: Key<'_>) -> io::Result<bool> {
        let mut bytes = PathBytes::new();
        let path = self.path(key.as_str(), &mut bytes)?;
        // Check first: unlink would remove a link to a directory, and on some systems a directory.
        let deleted = match rustix::fs::stat(path) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile => self.unlink(path),
            Ok(_) => return Ok(false),
            Err(error) => Err(error.into()),
        };
        match deleted {
            Ok(()) => {}
            Err(error) if is_missing(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        self.prune_and_flush(key)?;
        Ok(true)
    }

    /// Deletes an object if it is still the expected one.
    pub(super) fn delete_expected(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        ask: Option<Ask<'_>>,
    ) -> io::Result<bool> {
        let mut bytes = PathBytes::new();
        let path = self.path(key.as_str(), &mut bytes)?;
        let unlink = || ignore_missing(self.unlink(path));
        let deleted = match expected {
            Expected::Any => return self.delete_object(key).map(|_| true),
            // Nothing to delete.
            Expected::Absent => return Ok(true),
            Expected::Same(former) => self.if_same(path, former, false, ask, unlink)?,
            Expected::Locked(former) => self.if_same(path, former, true, ask, unlink)?,
        };
        if deleted {
            self.prune_and_flush(key)?;
        }
        Ok(deleted)
    }

    pub(super) fn delete_below(&self, prefix: Option<Key<'_>>) -> io::Result<()> {
        let Some(prefix) = prefix else { return self.delete_everything() };
        let directory = self.root.join(prefix.as_str());
        let found = match fs::symlink_metadata(&directory) {
            Ok(found) => found,
            Err(error) if is_missing(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        if found.is_dir() {
            remove_tree(&directory)?;
        } else if found.is_symlink() && directory.is_dir() {
            ignore_missing(fs::remove_file(&directory))?;
        } else {
            return Ok(());
        }
        self.prune_and_flush(prefix)
    }

    fn delete_everything(&self) -> io::Result<()> {
        let Some(entries) = list(&self.root)? else { return Ok(()) };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                remove_tree(&entry.path())?;
            } else {
                ignore_missing(fs::remove_file(entry.path()))?;
            }
        }
        if self.options.fsync { Self::flush_directory(&self.root) } else { Ok(()) }
    }

    /// Removes empty directories above `key`, except the root. Returns the lowest that remains.
    ///
    /// A directory that cannot be removed stays, which is untidy but not wrong.
    pub(super) fn prune(&self, key: Key<'_>) -> PathBuf {
        let mut directory = self.root.join(key.as_str());
        directory.pop();
        while directory != self.root {
            match fs::remove_dir(&directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => break,
                _ => directory.pop(),
            };
        }
        directory
    }

    fn prune_and_flush(&self, key: Key<'_>) -> io::Result<()> {
        let left = self.prune(key);
        if self.options.fsync { ignore_missing(Self::flush_directory(&left)) } else { Ok(()) }
    }
}

/// Removes a directory and its contents. Links inside are removed, not followed.
fn remove_tree(directory: &Path) -> io::Result<()> {
    let mut attempts = Attempts::default();
    loop {
        match fs::remove_dir_all(directory) {
            // Writers added objects in the meantime.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && attempts.again() => {}
            answer => return ignore_missing(answer),
        }
    }
}

/// Returns whether the path does not exist, or leads through a file.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The entries of a directory. `None` if there is no such directory.
pub(super) fn list(directory: &Path) -> io::Result<Option<fs::ReadDir>> {
    match fs::read_dir(directory) {
        Err(error) if is_missing(&error) => Ok(None),
        entries => entries.map(Some),
    }
}

pub(super) fn ignore_missing(answer: io::Result<()>) -> io::Result<()> {
    answer.or_else(|error| if is_missing(&error) { Ok(()) } else { Err(error) })
}
