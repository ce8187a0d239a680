//! Lists directories as prefixes.

use super::delete::{is_missing, list};
use super::{LocalStore, PathBytes};
use crate::{Ask, Entry, Identity, Key};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CStr;
use std::fs;
use std::io;

/// How often one listing may reach one directory through different links. A few directories full of
/// links to each other have more paths than anyone could list.
pub(super) const MAX_VISITS: u32 = 2000;

/// Entries between calls of `ask`: about a millisecond.
pub(super) const ASKED_EVERY: usize = 1024;

impl LocalStore {
    /// The identity of a prefix's directory (empty: the root's). `None` if there is none.
    pub(super) fn identity_of(&self, prefix: &str) -> io::Result<Option<Identity>> {
        let mut path = PathBytes::new();
        let path = self.path(prefix, &mut path)?;
        match identified(path) {
            Ok(found) => Ok(found),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The children of a prefix (empty: the root), sorted. `ask` as in [`LocalStore::keys_below`].
    pub(super) fn children(&self, prefix: &str, ask: Option<Ask<'_>>) -> io::Result<Vec<Entry>> {
        let mut children = Vec::new();
        for (number, item) in list(&self.root.join(prefix))?.into_iter().flatten().enumerate() {
            if number % ASKED_EVERY == ASKED_EVERY - 1 && ask.is_some_and(|ask| ask()) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let item = item?;
            let Ok(name) = item.file_name().into_string() else { continue };
            if Key::new(&name).is_err() {
                continue;
            }
            let kind = match item.file_type() {
                Ok(kind) if kind.is_symlink() => fs::metadata(item.path()).map(|target| target.file_type()),
                answer => answer,
            };
            match kind {
                Ok(kind) if kind.is_dir() => children.push(Entry { name, is_prefix: true }),
                Ok(kind) if kind.is_file() => children.push(Entry { name, is_prefix: false }),
                Ok(_) => {}
                // Deleted meanwhile, or a dangling link.
                Err(error) if is_missing(&error) || is_link_loop(&error) => {}
                Err(error) => return Err(error),
            }
        }
        children.sort_unstable();
        // Some file systems list a name twice if it is renamed during the listing.
        children.dedup();
        Ok(children)
    }

    /// Every key below a prefix (empty: the root), sorted.
    ///
    /// Fails with [`io::ErrorKind::Interrupted`] if `ask` returns `true`.
    pub(super) fn keys_below(&self, prefix: &str, ask: Option<Ask<'_>>) -> io::Result<Vec<String>> {
        let mut walk = Walk { store: self, ask, keys: Vec::new(), above: Vec::new(), visits: HashMap::new() };
        walk.visit(prefix)?;
        walk.keys.sort_unstable();
        Ok(walk.keys)
    }
}

struct Walk<'a> {
    store: &'a LocalStore,
    ask: Option<Ask<'a>>,
    keys: Vec<String>,
    /// The directories on the path from the start to here.
    above: Vec<Identity>,
    visits: HashMap<Identity, u32>,
}

impl Walk<'_> {
    /// Visits a directory. The recursion depth is bounded by the system's limit on path components.
    fn visit(&mut self, prefix: &str) -> io::Result<()> {
        let Some(identity) = self.store.identity_of(prefix)? else { return Ok(()) };
        if self.above.contains(&identity) {
            return Ok(());
        }
        let visits = self.visits.entry(identity).or_default();
        *visits += 1;
        if *visits > MAX_VISITS {
            return Err(Errno::LOOP.into());
        }
        if self.ask.is_some_and(|ask| ask()) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.above.push(identity);
        for Entry { name, is_prefix } in self.store.children(prefix, self.ask)? {
            let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            if is_prefix {
                self.visit(&path)?;
            } else {
                self.keys.push(path);
            }
        }
        self.above.pop();
        Ok(())
    }
}

/// The identity of a directory. `None` if the path is not a directory.
///
/// The creation time distinguishes it from an earlier directory with the same inode number. If the
/// system does not know creation times, the numbers must do.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn identified(path: &CStr) -> rustix::io::Result<Option<Identity>> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::BTIME;
    match statx(CWD, path, AtFlags::empty(), wanted) {
        Ok(found) => {
            let is_directory = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory;
            let born = found.stx_btime;
            Ok(is_directory.then_some(Identity {
                device: u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
                number: found.stx_ino,
                born: (born.tv_sec, born.tv_nsec),
            }))
        }
        Err(Errno::NOSYS) => numbered(path),
        Err(error) => Err(error),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn identified(path: &CStr) -> rustix::io::Result<Option<Identity>> {
    numbered(path)
}

/// The identity of an open directory.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn identified_fd(directory: std::os::fd::BorrowedFd<'_>) -> io::Result<Identity> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    match statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME) {
        Ok(found) => Ok(Identity {
            device: u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
            number: found.stx_ino,
            born: (found.stx_btime.tv_sec, found.stx_btime.tv_nsec),
        }),
        Err(Errno::NOSYS) => numbered_fd(directory),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn identified_fd(directory: std::os::fd::BorrowedFd<'_>) -> io::Result<Identity> {
    numbered_fd(directory)
}

#[allow(clippy::unnecessary_cast, reason = "the types of the fields differ between systems")]
fn numbered_fd(directory: std::os::fd::BorrowedFd<'_>) -> io::Result<Identity> {
    let found = rustix::fs::fstat(directory)?;
    Ok(Identity { device: found.st_dev as u64, number: found.st_ino as u64, born: (0, 0) })
}

#[allow(clippy::unnecessary_cast, reason = "the types of the fields differ between systems")]
fn numbered(path: &CStr) -> rustix::io::Result<Option<Identity>> {
    let found = rustix::fs::stat(path)?;
    let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    let (device, number) = (found.st_dev as u64, found.st_ino as u64);
    Ok(is_directory.then_some(Identity { device, number, born: (0, 0) }))
}

fn is_link_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}
