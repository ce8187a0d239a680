//! Removes what killed writers left behind.
//!
//! New files have no name until they are complete. A killed writer therefore leaves something only
//! if it dies between two system calls, or on file systems that cannot create unnamed files.

use super::delete::{is_missing, list};
use super::exchange::sweep_stages;
use super::parts::{PART, remove_part};
use super::stamp::age;
use super::write::{COMPLETE, DEAD_AFTER};
use super::{LocalStore, base};
use crate::key::TEMPORARY_SUFFIX;
use crate::{Ask, Key};
use rustix::fs::FileType;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Age at which a named unfinished file counts as left over.
///
/// File systems without unnamed files have such files, and a living writer keeps writing to its
/// file. If the writer is alive after all, it gets an error, and the object stays as it was.
pub(super) const NAMED_DEAD_AFTER: Duration = Duration::from_secs(600);

/// Directory entries between calls of `ask`.
const ENTRIES: u32 = 256;

struct Sweep<'a> {
    ask: Option<Ask<'a>>,
    removed: u64,
    entries: u32,
    /// Complete files that may be about to be renamed.
    young: Vec<PathBuf>,
}

impl LocalStore {
    pub(super) fn sweep_below(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> io::Result<u64> {
        let mut sweep = Sweep { ask, removed: 0, entries: 0, young: Vec::new() };
        let root = Path::new(std::ffi::OsStr::from_bytes(match base(&self.root) {
            b"" => b"/",
            root => root,
        }));
        let begun = Instant::now();
        sweep.visit(prefix.map_or_else(|| root.to_owned(), |prefix| root.join(prefix.as_str())))?;
        // Living writers rename theirs within microseconds.
        while !sweep.young.is_empty() && begun.elapsed() < 2 * DEAD_AFTER {
            std::thread::sleep(Duration::from_millis(20));
            sweep.asked()?;
            for path in std::mem::take(&mut sweep.young) {
                sweep.remove_complete(path)?;
            }
        }
        Ok(sweep.removed)
    }
}

impl LocalStore {
    /// The names that a sweep would look at, as paths below the root. Does not follow links.
    pub(super) fn leftovers_below(
        &self,
        prefix: Option<Key<'_>>,
        ask: Option<Ask<'_>>,
    ) -> io::Result<Vec<String>> {
        let root = Path::new(std::ffi::OsStr::from_bytes(match base(&self.root) {
            b"" => b"/",
            root => root,
        }));
        let (mut found, mut entries) = (Vec::new(), 0_u32);
        let mut left = vec![prefix.map_or_else(|| root.to_owned(), |prefix| root.join(prefix.as_str()))];
        while let Some(directory) = left.pop() {
            for entry in list(&directory)?.into_iter().flatten() {
                let entry = entry?;
                entries = entries.wrapping_add(1);
                if entries.is_multiple_of(ENTRIES) && ask.is_some_and(|ask| ask()) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                let path = entry.path();
                if is_temporary(entry.file_name().as_bytes()) {
                    let below = path.strip_prefix(root).unwrap_or(&path);
                    found.push(below.to_string_lossy().into_owned());
                } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    left.push(path);
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}

/// Returns `true` for a name that only unfinished objects have.
pub(super) fn is_temporary(name: &[u8]) -> bool {
    name.starts_with(b".") && name.ends_with(TEMPORARY_SUFFIX.as_bytes())
}

impl Sweep<'_> {
    fn asked(&self) -> io::Result<()> {
        match self.ask {
            Some(ask) if ask() => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(()),
        }
    }

    /// Sweeps a directory and those below it. Does not follow links.
    fn visit(&mut self, start: PathBuf) -> io::Result<()> {
        let mut left = vec![start];
        while let Some(directory) = left.pop() {
            self.asked()?;
            let mut stages = false;
            for entry in list(&directory)?.into_iter().flatten() {
                let entry = entry?;
                self.entries = self.entries.wrapping_add(1);
                if self.entries.is_multiple_of(ENTRIES) {
                    self.asked()?;
                }
                let name = entry.file_name();
                let name = name.as_bytes();
                let temporary = is_temporary(name);
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() && temporary => stages = true,
                    Ok(kind) if kind.is_dir() => left.push(entry.path()),
                    Ok(kind) if kind.is_file() && name.starts_with(COMPLETE.as_bytes()) && temporary => {
                        self.remove_complete(entry.path())?;
                    }
                    Ok(kind) if kind.is_file() && name.starts_with(PART.as_bytes()) && temporary => {
                        self.removed += u64::from(remove_part(&entry.path()));
                    }
                    Ok(kind) if kind.is_file() && temporary => {
                        self.remove_if(&entry.path(), NAMED_DEAD_AFTER)?
                    }
                    Ok(_) => {}
                    Err(error) if is_missing(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            if stages {
                self.removed += sweep_stages(&directory)?;
            }
        }
        Ok(())
    }

    fn remove_complete(&mut self, path: PathBuf) -> io::Result<()> {
        self.remove_if(&path, DEAD_AFTER)?;
        if fs::symlink_metadata(&path).is_ok() {
            self.young.push(path);
        }
        Ok(())
    }

    fn remove_if(&mut self, path: &Path, dead_after: Duration) -> io::Result<()> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        let Ok(found) = rustix::fs::lstat(&*name) else { return Ok(()) };
        let old = age(&found, SystemTime::now()).is_some_and(|age| age > dead_after);
        if old && FileType::from_raw_mode(found.st_mode) == FileType::RegularFile {
            match rustix::fs::unlink(&*name) {
                Ok(()) => self.removed += 1,
                Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_named_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("a/c")).unwrap();
        fs::create_dir_all(at("a/.stage.1.0.hyperslab-tmp/c")).unwrap();
        for name in ["a/c/0", "a/c/.5.0.hyperslab-tmp", ".hidden", "a/.stage.1.0.hyperslab-tmp/c/0"] {
            fs::write(at(name), b"x").unwrap();
        }
        let store = LocalStore::open(directory.path(), crate::LocalOptions::default()).unwrap();
        let all = store.leftovers_below(None, None).unwrap();
        assert_eq!(all, ["a/.stage.1.0.hyperslab-tmp", "a/c/.5.0.hyperslab-tmp"]);
        let below = store.leftovers_below(Some(Key::new("a/c").unwrap()), None).unwrap();
        assert_eq!(below, ["a/c/.5.0.hyperslab-tmp"]);
        assert_eq!(store.leftovers_below(Some(Key::new("b").unwrap()), None).unwrap(), [""; 0]);
        assert!(at("a/c/.5.0.hyperslab-tmp").exists());
    }
}
