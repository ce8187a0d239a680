//! Replaces a whole directory: builds the new one beside it, then exchanges their names.
//!
//! 1. Make a **stage**: a directory `.stage.<hash of the target>.<n>.hyperslab-tmp`, locked with
//!    flock while its process lives. It is placed beside the root of the store, where other
//!    software does not list it as part of a group. If that is impossible (another file system, no
//!    permission), it is placed beside the target, or inside it.
//! 2. Build everything below `new` in the stage.
//! 3. Exchange the names `new` and target with one system call (`RENAME_EXCHANGE`).
//! 4. Delete the stage, which now holds the old directory.
//!
//! If the system cannot exchange names (some file systems, other systems), move the old directory
//! into the stage, then the new one into place. In between, nothing is there. If the target cannot
//! be renamed at all (a mount point), move its entries one by one. Old documents leave first and
//! new documents arrive last, so that no document describes the wrong contents.
//!
//! A killed process leaves its stage behind, unlocked. The next process that stages the same
//! target, or sweeps, removes it.

use super::attempts::Attempts;
use super::delete::{ignore_missing, is_missing, list};
use super::lock::leads_to;
use super::{LocalStore, base, canonical};
use crate::descriptors::Lockable;
use crate::staged::Staged;
use crate::{Ask, Key, Operation, Result, Store, StoreError, fork, hash, key::TEMPORARY_SUFFIX};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name prefix of stages.
const STAGE: &str = ".stage.";

/// Maximum number of concurrent stages for one target.
const MAX_STAGES: usize = 256;

/// Files that mark a directory as part of a hierarchy, where other software would list a stage.
const DOCUMENTS: [&str; 2] = ["zarr.json", ".zgroup"];

/// A directory that is locked while its process lives.
#[derive(Debug)]
struct Stage {
    path: PathBuf,
    /// Holds the lock. A forked child does not inherit it; otherwise the stage of a killed process
    /// would seem alive while one of its children lives.
    _file: Lockable,
    /// True if the stage is left to be swept.
    left: bool,
    /// The process that made the stage. A forked child must not remove it.
    generation: u64,
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.left && self.generation == fork::generation() {
            // If the removal fails, the stage is swept later.
            let _ = remove_asking(&self.path, None);
        }
    }
}

/// A directory under construction.
#[derive(Debug)]
pub(super) struct StagedDirectory<'s> {
    store: &'s LocalStore,
    prefix: Option<String>,
    /// The directory to replace. If the root is a link, the link's target.
    target: PathBuf,
    stage: Stage,
    /// True if the stage is inside the target, because the target cannot be renamed.
    within: bool,
    new: Arc<LocalStore>,
}

impl LocalStore {
    pub(super) fn stage_below(&self, prefix: Option<Key<'_>>) -> Result<StagedDirectory<'_>> {
        let name = prefix.map_or("", Key::as_str);
        self.try_stage(prefix).map_err(|error| self.error(Operation::Write, name, error))
    }

    fn try_stage(&self, prefix: Option<Key<'_>>) -> io::Result<StagedDirectory<'_>> {
        let root = canonical(&self.root);
        let target = prefix.map_or_else(|| root.clone(), |prefix| root.join(prefix.as_str()));
        let there = existing(&target);
        let mut places = Vec::new();
        if let Some(above) = root.parent() {
            let above = existing(above);
            let outside = above.ancestors().find(|path| !is_node(path)).unwrap_or(&above);
            places.extend([outside.to_owned(), above.clone()]);
        }
        if prefix.is_some()
            && let Some(above) = target.parent()
        {
            places.push(existing(above));
        }
        let mut failed = None;
        let (stage, within) = 'found: {
            // Replacing the directory would leave this process with a deleted working directory.
            let inside = std::env::current_dir().is_ok_and(|current| current.starts_with(&target));
            if inside {
                places.clear();
            }
            for place in places.into_iter().filter(|place| same_mount(place, &there)) {
                match Stage::make(&place, &target) {
                    Ok(stage) => break 'found (stage, false),
                    Err(error) => failed = Some(error),
                }
            }
            match Stage::make(&target, &target) {
                Ok(stage) => (stage, true),
                Err(error) => return Err(failed.unwrap_or(error)),
            }
        };
        let new = stage.path.join("new");
        fs::create_dir(&new)?;
        let new = LocalStore { named_only: self.named_only.clone(), ..LocalStore::at(new, self.options) };
        let prefix = prefix.map(|prefix| prefix.as_str().to_owned());
        Ok(StagedDirectory { store: self, prefix, target, stage, within, new: Arc::new(new) })
    }
}

/// Replaces the directory `target` with the directory `new`.
///
/// Uses one system call if the system can exchange names; then the old directory is at `new`.
/// Otherwise the old directory is moved to `aside` first.
pub fn replace_directory(new: &Path, target: &Path, aside: &Path) -> io::Result<()> {
    // Keep the permissions. If that fails, the new directory keeps its own.
    if let Ok(found) = fs::metadata(target) {
        let _ = fs::set_permissions(new, fs::Permissions::from_mode(found.mode() & 0o7777));
    }
    match exchange(new, target) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        done => return Ok(done?),
    }
    fs::rename(target, aside)?;
    fs::rename(new, target).inspect_err(|_| {
        // Put the old directory back.
        let _ = fs::rename(aside, target);
    })
}

impl Stage {
    fn of(path: PathBuf, file: Lockable) -> Stage {
        Stage { path, _file: file, left: false, generation: fork::generation() }
    }

    /// Makes a stage for `target` in the directory `place`.
    ///
    /// Removes the contents that a dead process left under the same name.
    fn make(place: &Path, target: &Path) -> io::Result<Stage> {
        let id = hash::fnv1a(hash::EMPTY, base(target));
        for number in 0..MAX_STAGES {
            let path = place.join(format!("{STAGE}{id:016x}.{number}{TEMPORARY_SUFFIX}"));
            let mut attempts = Attempts::default();
            while attempts.again() {
                match fs::DirBuilder::new().mode(0o700).create(&path) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    made => {
                        let Some(file) = open_dead(&path, made.is_ok())? else { break };
                        if !leads_to(&*path, file.as_fd()) {
                            continue;
                        }
                        for entry in fs::read_dir(&path)? {
                            remove_asking(&entry?.path(), None)?;
                        }
                        return Ok(Stage::of(path, file));
                    }
                }
            }
        }
        Err(Errno::BUSY.into())
    }
}

/// Opens and locks a stage. `None` if a live process has it, or if that is unknown.
///
/// A `new` stage is accepted even if files cannot be locked.
fn open_dead(path: &Path, new: bool) -> io::Result<Option<Lockable>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match Lockable::open(|| rustix::fs::open(path, flags, Mode::empty())) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::ACCESS | Errno::PERM | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Ok(Some(file)),
        // Either it is in use, or a sweeper took a new stage for a dead one.
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(_) if new => Ok(Some(file)),
        Err(_) => Ok(None),
    }
}

/// Takes hold of the stage of a dead process. `None`: it is no stage, or a living process has it.
fn held_stage(path: &Path) -> io::Result<Option<Lockable>> {
    let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
    if !name.starts_with(STAGE.as_bytes()) || !name.ends_with(TEMPORARY_SUFFIX.as_bytes()) {
        return Ok(None);
    }
    Ok(open_dead(path, false)?.filter(|file| leads_to(path, file.as_fd())))
}

/// Returns `true` for the stage of a dead process: a folder in which it had made a new directory.
pub fn is_dead_stage(path: &Path) -> io::Result<bool> {
    Ok(held_stage(path)?.is_some())
}

/// Moves the stage of a dead process to another place on the same disk. `false`: it is not one.
pub fn move_dead_stage(path: &Path, to: &Path) -> io::Result<bool> {
    // Held meanwhile: a new process would reuse it.
    let Some(_held) = held_stage(path)? else { return Ok(false) };
    rustix::fs::rename(path, to)?;
    Ok(true)
}

/// Removes stages of dead processes directly in a directory. Returns their number.
pub(super) fn sweep_stages(directory: &Path) -> io::Result<u64> {
    let mut removed = 0;
    for entry in list(directory)?.into_iter().flatten() {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_bytes();
        if name.starts_with(STAGE.as_bytes())
            && name.ends_with(TEMPORARY_SUFFIX.as_bytes())
            && let Ok(Some(file)) = open_dead(&entry.path(), false)
            && leads_to(&*entry.path(), file.as_fd())
        {
            drop(Stage::of(entry.path(), file));
            removed += 1;
        }
    }
    Ok(removed)
}

impl StagedDirectory<'_> {
    fn error(&self, source: io::Error) -> StoreError {
        self.store.error(Operation::Write, self.prefix.as_deref().unwrap_or_default(), source)
    }

    /// Puts the new directory in place. `false` if something is there and must stay (`keep`).
    fn put(&self, keep: bool) -> io::Result<bool> {
        self.check_process()?;
        let (new, fsync) = (self.new.root.as_path(), self.store.options.fsync);
        match fs::symlink_metadata(&self.target) {
            Ok(found) if found.is_dir() => {
                // Keep the directory's permissions. If that fails, the new directory keeps its own.
                let _ = fs::set_permissions(new, fs::Permissions::from_mode(found.mode() & 0o7777));
            }
            Ok(found) if found.is_symlink() && self.target.is_dir() => {}
            Ok(_) => return Err(Errno::NOTDIR.into()),
            Err(_) => {}
        }
        if fsync {
            LocalStore::flush_directory(new)?;
        }
        let put = if self.within { self.put_entries(keep)? } else { self.put_whole(keep)? };
        if put && fsync {
            self.store.flush_above(&self.target)?;
            LocalStore::flush_directory(&self.stage.path)?;
        }
        Ok(put)
    }

    fn put_whole(&self, keep: bool) -> io::Result<bool> {
        let (new, target) = (self.new.root.as_path(), self.target.as_path());
        let mut attempts = Attempts::default();
        while attempts.again() {
            // Works if the target is missing or an empty directory.
            match rustix::fs::rename(new, target) {
                Ok(()) => return Ok(true),
                Err(Errno::NOENT) => match self.store.create_parents(target, &mut false) {
                    Err(error) if !is_missing(&error) => return Err(error),
                    _ => continue,
                },
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) if !keep => {}
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            match exchange(new, target) {
                Ok(()) => return Ok(true),
                Err(Errno::NOENT) => continue,
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error.into()),
            }
            let old = self.stage.path.join("old");
            match rustix::fs::rename(target, &old) {
                Err(Errno::NOENT) => continue,
                moved => moved?,
            }
            if let Err(error) = rustix::fs::rename(new, target) {
                // Put the old directory back.
                let _ = rustix::fs::rename(&old, target);
                return Err(error.into());
            }
            return Ok(true);
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Moves the entries one by one.
    fn put_entries(&self, keep: bool) -> io::Result<bool> {
        let old = self.stage.path.join("old");
        fs::create_dir(&old)?;
        let stage = self.stage.path.file_name().unwrap_or_default();
        let old_entries = entries(&self.target, stage)?;
        if keep && !old_entries.is_empty() {
            return Ok(false);
        }
        // Most recently written files go first: documents are written last.
        for (_, _, name) in old_entries.iter().rev() {
            match fs::rename(self.target.join(name), old.join(name)) {
                Err(error) if !is_missing(&error) => return Err(error),
                _ => {}
            }
        }
        for (_, _, name) in entries(&self.new.root, OsStr::new(""))? {
            fs::rename(self.new.root.join(&name), self.target.join(&name))?;
        }
        Ok(true)
    }

    /// Fails in a forked child, whose parent still writes to the stage.
    fn check_process(&self) -> io::Result<()> {
        if self.stage.generation == fork::generation() {
            return Ok(());
        }
        Err(io::Error::other("only the process that began to build it can put it in its place"))
    }

    /// Moves the target into the stage and puts nothing in its place.
    fn take_away(&self) -> io::Result<()> {
        self.check_process()?;
        match fs::symlink_metadata(&self.target) {
            Ok(found) if found.is_dir() || found.is_symlink() && self.target.is_dir() => {}
            Err(error) if !is_missing(&error) => return Err(error),
            // An object with the prefix's name is not below the prefix.
            _ => return Ok(()),
        }
        ignore_missing(fs::rename(&self.target, self.stage.path.join("old")))?;
        let left = self.prefix.as_deref().map(|prefix| self.store.prune(Key::unchecked(prefix)));
        match left {
            Some(left) if self.store.options.fsync => ignore_missing(LocalStore::flush_directory(&left)),
            _ => Ok(()),
        }
    }
}

impl Staged for StagedDirectory<'_> {
    fn store(&self) -> Arc<dyn Store> {
        self.new.clone()
    }

    fn commit(mut self: Box<Self>, ask: Option<Ask<'_>>) -> Result<()> {
        let is_empty = fs::read_dir(&self.new.root).is_ok_and(|mut entries| entries.next().is_none());
        let done = if is_empty && !self.within && self.prefix.is_some() {
            self.take_away()
        } else {
            self.put(false).map(|_| ())
        };
        done.map_err(|error| self.error(error))?;
        if let Ok(false) = remove_asking(&self.stage.path, ask) {
            self.stage.left = true;
        }
        Ok(())
    }

    fn commit_new(self: Box<Self>) -> Result<bool> {
        self.put(true).map_err(|error| self.error(error))
    }
}

/// Exchanges two names atomically.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn exchange(one: &Path, other: &Path) -> rustix::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn exchange(_one: &Path, _other: &Path) -> rustix::io::Result<()> {
    Err(Errno::NOSYS)
}

/// Directories first, then files, each in the order of their last write.
type Listed = Vec<(bool, (i64, i64), std::ffi::OsString)>;

fn entries(directory: &Path, without: &OsStr) -> io::Result<Listed> {
    let mut found = Listed::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name() != without {
            let about = entry.metadata()?;
            found.push((!about.is_dir(), (about.mtime(), about.mtime_nsec()), entry.file_name()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The path, or the nearest existing directory above it.
fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn is_node(directory: &Path) -> bool {
    DOCUMENTS.iter().any(|name| directory.join(name).exists())
}

/// Returns whether entries can be renamed from one directory to the other.
///
/// They must be on the same file system and, because of bind mounts, on the same mount.
fn same_mount(one: &Path, other: &Path) -> bool {
    let devices = (fs::metadata(one), fs::metadata(other));
    let (Ok(one_found), Ok(other_found)) = devices else { return false };
    one_found.dev() == other_found.dev() && mount(one) == mount(other)
}

/// The number of the mount. `None` if the system does not tell.
#[cfg(target_os = "linux")]
fn mount(path: &Path) -> Option<u64> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

#[cfg(not(target_os = "linux"))]
fn mount(_: &Path) -> Option<u64> {
    None
}

/// Removes whatever is at a path. Calls `ask` before each entry; if it returns `true`, stops and
/// returns `false`.
///
/// Links are removed, not followed.
fn remove_asking(path: &Path, ask: Option<Ask<'_>>) -> io::Result<bool> {
    if ask.is_none() {
        let removed = match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(error) => Err(error),
        };
        return ignore_missing(removed).map(|()| true);
    }
    for entry in list(path)?.into_iter().flatten() {
        let entry = entry?;
        if ask.is_some_and(|ask| ask()) {
            return Ok(false);
        }
        if entry.file_type()?.is_dir() {
            if !remove_asking(&entry.path(), ask)? {
                return Ok(false);
            }
        } else {
            ignore_missing(fs::remove_file(entry.path()))?;
        }
    }
    ignore_missing(fs::remove_dir(path)).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::{STAGE, Stage, sweep_stages};
    use crate::contract::{get, key, put};
    use crate::{LocalOptions, LocalStore, Store};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    fn store(root: &Path) -> LocalStore {
        LocalStore::open(root, LocalOptions::default()).unwrap()
    }

    fn stages(directory: &Path) -> usize {
        let entries = fs::read_dir(directory).unwrap();
        entries
            .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with(STAGE))
            .count()
    }

    #[test]
    fn stages_lie_beside_the_root_and_are_gone_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir.path().join("s"));
        put(&store, "g/a/c/0", b"old");
        put(&store, "g/b", b"stays");
        fs::set_permissions(store.root().join("g/a"), fs::Permissions::from_mode(0o750)).unwrap();
        let staged = store.stage(Some(key("g/a"))).unwrap();
        put(&*staged.store(), "zarr.json", b"new");
        assert_eq!(stages(dir.path()), 1);
        assert_eq!(get(&store, "g/a/c/0").as_deref(), Some(&b"old"[..]));
        staged.commit(None).unwrap();
        assert_eq!(store.list(None).unwrap(), ["g/a/zarr.json", "g/b"]);
        assert_eq!(stages(dir.path()), 0);
        let mode = fs::metadata(store.root().join("g/a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
    }

    #[test]
    fn directories_take_each_others_place() {
        let dir = tempfile::tempdir().unwrap();
        let [new, old, aside] = ["new", "old", "aside"].map(|name| dir.path().join(name));
        assert!(super::replace_directory(&new, &old, &aside).is_err());
        for (at, text) in [(&new, "1"), (&old, "2")] {
            fs::create_dir(at).unwrap();
            fs::write(at.join("x"), text).unwrap();
        }
        fs::set_permissions(&old, fs::Permissions::from_mode(0o750)).unwrap();
        super::replace_directory(&new, &old, &aside).unwrap();
        assert_eq!(fs::read_to_string(old.join("x")).unwrap(), "1");
        assert_eq!(fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o750);
        let left = if aside.exists() { aside } else { new };
        assert_eq!(fs::read_to_string(left.join("x")).unwrap(), "2");
    }

    #[test]
    fn a_root_that_is_a_link_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("real")).unwrap();
        symlink(dir.path().join("real"), dir.path().join("link")).unwrap();
        let store = store(&dir.path().join("link"));
        put(&store, "old", b"1");
        let staged = store.stage(None).unwrap();
        put(&*staged.store(), "new", b"2");
        staged.commit(None).unwrap();
        assert!(dir.path().join("link").is_symlink());
        assert_eq!(fs::read(dir.path().join("real/new")).unwrap(), b"2");
        assert_eq!(store.list(None).unwrap(), ["new"]);
    }

    #[test]
    fn where_the_root_cannot_be_renamed_its_entries_are() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        put(&store, "zarr.json", b"old");
        put(&store, "c/0", b"old");
        let mut staged = store.stage_below(None).unwrap();
        staged.stage = Stage::make(dir.path(), dir.path()).unwrap();
        staged.within = true;
        staged.new = std::sync::Arc::new(
            LocalStore::open(staged.stage.path.join("new"), LocalOptions::default()).unwrap(),
        );
        put(&*staged.new, "c/1", b"new");
        put(&*staged.new, "zarr.json", b"new");
        assert!(!staged.put(true).unwrap());
        fs::remove_dir(staged.stage.path.join("old")).unwrap();
        crate::Staged::commit(Box::new(staged), None).unwrap();
        assert_eq!(store.list(None).unwrap(), ["c/1", "zarr.json"]);
        assert_eq!(stages(dir.path()), 0);
    }

    #[test]
    fn stages_of_the_dead_are_swept_and_those_of_the_living_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir.path().join("s"));
        let prefix = key("a");
        let alive = store.stage(Some(prefix)).unwrap();
        let mut dead = store.stage_below(Some(prefix)).unwrap();
        dead.stage.left = true;
        put(&*dead.new, "x", b"1");
        drop(dead);
        assert_eq!(stages(dir.path()), 2);
        // The next writer that stages the same prefix reuses the stage.
        let again = store.stage(Some(prefix)).unwrap();
        assert_eq!(stages(dir.path()), 2);
        assert!(again.store().list(None).unwrap().is_empty());
        drop(again);
        let mut dead = store.stage_below(Some(prefix)).unwrap();
        dead.stage.left = true;
        drop(dead);
        assert_eq!(sweep_stages(dir.path()).unwrap(), 1);
        assert_eq!(stages(dir.path()), 1);
        put(&*alive.store(), "y", b"2");
        alive.commit(None).unwrap();
        assert_eq!(get(&store, "a/y").as_deref(), Some(&b"2"[..]));
        assert_eq!(sweep_stages(dir.path()).unwrap(), 0);
    }

    #[test]
    fn hierarchies_above_the_root_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("g")).unwrap();
        fs::write(dir.path().join("g/zarr.json"), b"{}").unwrap();
        let store = store(&dir.path().join("g/a"));
        let staged = store.stage(None).unwrap();
        assert_eq!((stages(dir.path()), stages(&dir.path().join("g"))), (1, 0));
        drop(staged);
        assert_eq!(stages(dir.path()), 0);
    }
}
