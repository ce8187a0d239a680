//! Lists everything below a prefix: keys, sizes and leftovers, each directory once, on several threads.

use super::list::{ASKED_EVERY, MAX_VISITS, identified_fd};
use super::sweep::is_temporary;
use super::{LocalStore, base};
use crate::{Ask, Identity, Key, Listing};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::{Errno, retry_on_intr};
use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Directories that one thread visits alone: starting the others takes as long as 30 directories.
const ALONE: usize = 64;

/// The pause after which a thread without a directory asks again.
const ASKED_WHILE_WAITING: Duration = Duration::from_millis(20);

/// Bytes of the longest path.
const LONGEST: usize = 1 << 16;

/// A directory on the path from the start to another one.
#[derive(Debug)]
struct Above {
    identity: Identity,
    above: Option<Arc<Above>>,
}

impl Above {
    fn contains(&self, identity: &Identity) -> bool {
        let mut at = Some(self);
        while let Some(here) = at {
            if here.identity == *identity {
                return true;
            }
            at = here.above.as_deref();
        }
        false
    }
}

/// A directory to visit.
#[derive(Debug)]
struct Folder {
    /// Below the root; empty: the root.
    path: Vec<u8>,
    /// `true` if the names on its path are parts of keys.
    keyed: bool,
    /// `true` if it was reached through a link.
    linked: bool,
    above: Option<Arc<Above>>,
}

/// The directories that were not visited.
#[derive(Debug)]
struct Left {
    waiting: Vec<Folder>,
    /// Directories that wait or are visited now. 0: all were visited.
    open: usize,
}

/// The state that threads share.
struct Walk<'w> {
    root: &'w [u8],
    left: Mutex<Left>,
    /// Told when directories are added, and in the end.
    changed: Condvar,
    stopped: AtomicBool,
    visits: Mutex<HashMap<Identity, u32>>,
}

impl LocalStore {
    /// All keys below a prefix (empty: the root) with their sizes, and the leftovers, sorted.
    ///
    /// Follows links for keys, not for leftovers. Fails with [`io::ErrorKind::Interrupted`] if `ask`, which
    /// is called on this thread, returns `true`.
    pub(super) fn all_below(
        &self,
        prefix: &str,
        threads: usize,
        ask: Option<Ask<'_>>,
    ) -> io::Result<Listing> {
        let start = Folder { path: prefix.into(), keyed: true, linked: false, above: None };
        let walk = Walk {
            root: base(&self.root),
            left: Mutex::new(Left { waiting: vec![start], open: 1 }),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            visits: Mutex::default(),
        };
        let mut found = Listing::default();
        let ask = || ask.is_some_and(|ask| ask());
        if walk.run(&mut found, ALONE, &ask)? && threads > 1 {
            let helper = || {
                let mut found = Listing::default();
                walk.run(&mut found, usize::MAX, &|| false).map(|_| found)
            };
            std::thread::scope(|scope| {
                // Without more threads, the running ones do the work.
                let start = |_| std::thread::Builder::new().spawn_scoped(scope, helper).ok();
                let others: Vec<_> = (1..threads).map_while(start).collect();
                let mut outcome = walk.run(&mut found, usize::MAX, &ask).map(drop);
                for other in others {
                    match other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                        Ok(more) => {
                            found.keys.extend(more.keys);
                            found.leftovers.extend(more.leftovers);
                        }
                        Err(error) => outcome = outcome.and(Err(error)),
                    }
                }
                outcome
            })?;
        } else {
            walk.run(&mut found, usize::MAX, &ask)?;
        }
        found.keys.sort_unstable();
        // Some file systems list a name twice if it is renamed during the listing.
        found.keys.dedup_by(|a, b| a.0 == b.0);
        found.leftovers.sort_unstable();
        Ok(found)
    }
}

/// Stops the other threads after an error or a panic of this one.
struct StopOthers<'a, 'w> {
    walk: &'a Walk<'w>,
    is_needed: bool,
}

impl Drop for StopOthers<'_, '_> {
    fn drop(&mut self) {
        if self.is_needed {
            self.walk.stopped.store(true, Relaxed);
            self.walk.changed.notify_all();
        }
    }
}

impl Walk<'_> {
    fn lock(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next directory. `None`: all were visited, or an error stopped the threads.
    fn next(&self, ask: Ask<'_>) -> io::Result<Option<Folder>> {
        let mut left = self.lock();
        loop {
            if self.stopped.load(Relaxed) || left.open == 0 {
                return Ok(None);
            }
            if let Some(next) = left.waiting.pop() {
                return Ok(Some(next));
            }
            // Another thread may find more.
            drop(self.changed.wait_timeout(left, ASKED_WHILE_WAITING));
            // Not under the lock: `ask` may wait for Python.
            if ask() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            left = self.lock();
        }
    }

    /// Visits directories until none are left, at most `most`. Returns `true` if some are left. An error
    /// stops all threads.
    fn run(&self, found: &mut Listing, most: usize, ask: Ask<'_>) -> io::Result<bool> {
        let mut stop = StopOthers { walk: self, is_needed: true };
        let outcome = self.visit_all(found, most, ask);
        stop.is_needed = outcome.is_err();
        outcome
    }

    fn visit_all(&self, found: &mut Listing, most: usize, ask: Ask<'_>) -> io::Result<bool> {
        for _ in 0..most {
            let Some(next) = self.next(ask)? else { return Ok(false) };
            if ask() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let below = self.visit(&next, found, ask)?;
            let mut left = self.lock();
            left.open = left.open.saturating_add(below.len()).saturating_sub(1);
            let tell = left.open == 0 || below.len() > 1;
            left.waiting.extend(below);
            drop(left);
            if tell {
                self.changed.notify_all();
            }
        }
        Ok(self.lock().open > 0)
    }

    /// Notes the entries of a directory. Returns the directories in it.
    fn visit(&self, folder: &Folder, found: &mut Listing, ask: Ask<'_>) -> io::Result<Vec<Folder>> {
        let mut path = self.root.to_vec();
        if path.is_empty() || !folder.path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(&folder.path);
        if path.len() > LONGEST {
            return Err(Errno::NAMETOOLONG.into());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match retry_on_intr(|| openat(CWD, path.as_slice(), flags, Mode::empty())) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Vec::new()),
            opened => opened?,
        };
        let identity = identified_fd(opened.as_fd())?;
        if folder.above.as_ref().is_some_and(|above| above.contains(&identity)) {
            return Ok(Vec::new());
        }
        if folder.linked {
            let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
            let visits = visits.entry(identity).or_default();
            *visits += 1;
            if *visits > MAX_VISITS {
                return Err(Errno::LOOP.into());
            }
        }
        let mut opened = Dir::new(opened)?;
        let mut entries = Vec::new();
        while let Some(entry) = opened.read() {
            entries.push(entry?);
            if entries.len() % ASKED_EVERY == 0 && ask() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        let at = opened.fd()?;
        let above = Arc::new(Above { identity, above: folder.above.clone() });
        let mut below = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            if number % ASKED_EVERY == ASKED_EVERY - 1 && ask() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let mut path = folder.path.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
            if is_temporary(name.to_bytes()) {
                if !folder.linked {
                    found.leftovers.push(String::from_utf8_lossy(&path).into_owned());
                }
                continue;
            }
            let keyed = folder.keyed && name.to_str().is_ok_and(|name| Key::new(name).is_ok());
            match About::of(at, name, entry.file_type(), keyed)? {
                About::Folder { linked } if keyed || !linked && !folder.linked => {
                    let (linked, above) = (linked || folder.linked, Some(above.clone()));
                    below.push(Folder { path, keyed, linked, above });
                }
                About::File(size) if keyed => {
                    // The names on the path are UTF-8.
                    found.keys.extend(String::from_utf8(path).ok().map(|key| (key, size)));
                }
                _ => {}
            }
        }
        Ok(below)
    }
}

/// A directory's entry.
enum About {
    Folder { linked: bool },
    File(u64),
    Other,
}

impl About {
    /// `wants_size`: ask for the size of a file.
    fn of(folder: impl AsFd, name: &CStr, kind: FileType, wants_size: bool) -> io::Result<About> {
        let is_link = match kind {
            FileType::Directory => return Ok(About::Folder { linked: false }),
            FileType::RegularFile if !wants_size => return Ok(About::File(0)),
            FileType::RegularFile => false,
            FileType::Symlink => true,
            FileType::Unknown => match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => FileType::from_raw_mode(found.st_mode) == FileType::Symlink,
                Err(Errno::NOENT) => return Ok(About::Other),
                Err(error) => return Err(error.into()),
            },
            _ => return Ok(About::Other),
        };
        // Deleted meanwhile, or a dangling link.
        let found = match statat(&folder, name, AtFlags::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(About::Other),
            found => found?,
        };
        Ok(match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => About::Folder { linked: is_link },
            FileType::RegularFile => About::File(u64::try_from(found.st_size).unwrap_or(0)),
            _ => About::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalOptions, Many, Writers};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn all_is_what_the_other_listings_find() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for n in 0..200 {
            fs::create_dir_all(at(&format!("a/c/{n}/0"))).unwrap();
            fs::write(at(&format!("a/c/{n}/0/7")), vec![0; n]).unwrap();
        }
        fs::create_dir_all(at("a/.stage.1.0.hyperslab-tmp/c")).unwrap();
        fs::create_dir_all(at("a/\u{1}b")).unwrap();
        for name in ["zarr.json", "a/c/5/.5.0.hyperslab-tmp", ".hidden", "a/.stage.1.0.hyperslab-tmp/c/0"] {
            fs::write(at(name), b"x").unwrap();
        }
        // A circle, a dangling link, a file, and a directory with a leftover.
        symlink(at("a"), at("a/c/9/again")).unwrap();
        symlink(at("nowhere"), at("a/dangling")).unwrap();
        symlink(at("a/c/7/0/7"), at("link")).unwrap();
        symlink(at("a/c/5"), at("other")).unwrap();
        let store = LocalStore::open(directory.path(), LocalOptions::default()).unwrap();
        for prefix in [None, Some("a"), Some("a/c/5"), Some("b"), Some("zarr.json")] {
            let prefix = prefix.map(|prefix| Key::new(prefix).unwrap());
            let (keys, leftovers) =
                (store.list_sizes(prefix, None).unwrap(), store.leftovers(prefix, None).unwrap());
            for threads in [1, 4] {
                let all = store.list_all(prefix, threads, None).unwrap();
                assert_eq!((&all.keys, &all.leftovers), (&keys, &leftovers), "{prefix:?} {threads}");
            }
        }
        assert!(store.list_all(None, 4, None).unwrap().keys.contains(&("link".to_owned(), 7)));
    }
}
