//! Replaces objects: temporary file, write, close, rename. The parent module explains each step.

use super::attempts::Attempts;
use super::lock::{leads_to, while_locked};
use super::stamp::age;
use super::through;
use super::write_out::{WriteOut, write_parts};
use super::{LocalStore, PathBytes};
use crate::descriptors::Lockable;
use crate::fork::{self, Lazy};
use crate::{Ask, Expected, Key, Opened, hash, key::TEMPORARY_SUFFIX};
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
use rustix::fs::RenameFlags;
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, flock};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::DecInt;
use smallvec::SmallVec;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Age at which a complete file with a temporary name counts as left by a dead writer.
///
/// A live writer gives the file the object's name at once. A writer that is merely slow finds the
/// file gone, and starts again.
pub(super) const DEAD_AFTER: Duration = Duration::from_secs(2);

/// Name prefix of complete files.
pub(super) const COMPLETE: &str = ".new.";

impl LocalStore {
    pub(super) fn write_object(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        parts: &[&[u8]],
        ask: Option<Ask<'_>>,
    ) -> io::Result<bool> {
        let mut target = PathBytes::new();
        let target = self.path(key.as_str(), &mut target)?;
        let written = self.with_parents(key, target, || {
            let mut new = self.create_beside(target)?;
            write_parts(new.file()?.as_fd(), parts, &mut self.write_out())?;
            self.put(&mut new, target, expected, ask)
        });
        written.map(|(put, _)| put)
    }

    /// Runs `attempt`, which creates a file in the directory of `target`, the path of `key`.
    ///
    /// If the directory is missing, creates it and tries again. Also tries again if the file name
    /// is taken. Returns whether directories were created. On failure they are removed.
    pub(super) fn with_parents<T>(
        &self,
        key: Key<'_>,
        target: &CStr,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> io::Result<(T, bool)> {
        let mut made_parents = false;
        let mut attempts = Attempts::default();
        let error = loop {
            let error = match attempt() {
                Ok(done) => return Ok((done, made_parents)),
                Err(error) => error,
            };
            // Pause before creating directories: others may be removing empty ones.
            let again = attempts.again();
            match error.kind() {
                io::ErrorKind::NotFound if self.is_ended() => break error,
                io::ErrorKind::NotFound if again => {
                    match self.create_parents(as_path(target), &mut made_parents) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => break error,
                        _ => {}
                    }
                }
                io::ErrorKind::AlreadyExists if again => {}
                _ => break error,
            }
        };
        if made_parents {
            self.prune(key);
        }
        Err(error)
    }

    /// Creates a new file in the directory of `target`, without a name if the file system can.
    ///
    /// A writer that others may end creates it in its folder.
    pub(super) fn create_beside(&self, target: &CStr) -> io::Result<Unnamed> {
        if let Some(folder) = &self.folder {
            return through::create(folder, target);
        }
        if self.named_only.get().is_none() {
            let mut directory = PathBytes::new();
            match create_unnamed(beside(target, b".", &mut directory)?) {
                Some(Ok(file)) => return Ok(Unnamed::new(file, None)),
                // The file system cannot create unnamed files.
                None | Some(Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS)) => {
                    self.named_only.put(());
                }
                // ext4 also returns this if the directory was just deleted. `create_named`
                // distinguishes the two cases.
                Some(Err(Errno::PERM)) => {}
                Some(Err(error)) => return Err(error.into()),
            }
        }
        create_named(target)
    }

    /// How a new file is sent to the disk.
    pub(super) fn write_out(&self) -> WriteOut {
        WriteOut::new(self.options.fsync, self.replacing.expects())
    }

    /// Puts a complete file in place of `target`, if its current state is as expected.
    ///
    /// On failure nothing of the file remains.
    pub(super) fn put(
        &self,
        new: &mut Unnamed,
        target: &CStr,
        expected: Expected<'_>,
        ask: Option<Ask<'_>>,
    ) -> io::Result<bool> {
        if self.options.fsync {
            new.file()?.sync_all()?;
        }
        let put = match self.put_as_expected(new, target, expected, ask) {
            Err(error)
                if self.folder.is_some() && error.raw_os_error() == Some(Errno::XDEV.raw_os_error()) =>
            {
                new.move_beside(target, self.options.fsync)?;
                self.check_ended()?;
                self.put_as_expected(new, target, expected, ask)
            }
            put => put,
        }?;
        if put {
            self.flush_above(as_path(target))?;
        }
        Ok(put)
    }

    fn put_as_expected(
        &self,
        new: &mut Unnamed,
        target: &CStr,
        expected: Expected<'_>,
        ask: Option<Ask<'_>>,
    ) -> io::Result<bool> {
        // The file gets its name only after all waiting, so a process killed while it waits leaves
        // nothing behind.
        match expected {
            Expected::Same(former) => self.if_same(target, former, false, ask, || new.replace(target)),
            Expected::Locked(former) => self.if_same(target, former, true, ask, || new.replace(target)),
            Expected::Any => self.put_new(new, target, true),
            Expected::Absent => self.put_new(new, target, false),
        }
    }

    /// Runs `work`, which replaces or deletes `path`, if `path` is still the object `former`.
    ///
    /// `locked` means that the caller holds its lock.
    pub(super) fn if_same(
        &self,
        path: &CStr,
        former: &dyn Opened,
        locked: bool,
        ask: Option<Ask<'_>>,
        work: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<bool> {
        let work = |same| if same { work().map(|()| true) } else { Ok(false) };
        match former.file() {
            Some(file) if locked => work(leads_to(path, file)),
            Some(file) if self.options.file_locks => while_locked(path, file, ask, work),
            _ => work(true),
        }
    }

    /// Gives a file the name `target` if it is free. With `replace`, also replaces an existing
    /// object.
    fn put_new(&self, new: &mut Unnamed, target: &CStr, replace: bool) -> io::Result<bool> {
        if replace {
            if new.name.is_none() && !self.replacing.guess() {
                match link(new.file()?, target) {
                    Ok(()) => return Ok(true),
                    Err(Errno::EXIST) => self.replacing.found(),
                    Err(error) => return Err(error.into()),
                }
            }
            new.replace(target)?;
            return Ok(true);
        }
        match new.put_first(target) {
            Ok(()) => return Ok(true),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        match rustix::fs::stat(target) {
            Ok(found) => match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => Ok(false),
                // These are not objects, and waiting does not make them go away.
                FileType::Directory => Err(Errno::ISDIR.into()),
                _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "its name is that of no file")),
            },
            // It was just deleted, and the caller may try again; or it is a dangling link.
            Err(Errno::NOENT) => replace_dangling(new, target),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the directories above `object`. Sets `made` if any is new.
    pub(super) fn create_parents(&self, object: &Path, made: &mut bool) -> io::Result<()> {
        let missing: Vec<&Path> =
            object.ancestors().skip(1).take_while(|directory| !directory.is_dir()).collect();
        for directory in missing.into_iter().rev() {
            match fs::create_dir(directory) {
                Ok(()) => *made = true,
                // Another writer was faster. Or it is a file, and the write will report that.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            self.flush_above(directory)?;
        }
        Ok(())
    }
}

fn as_path(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

/// Replaces a dangling link, which occupies a name but is no object. `false` if it is gone.
///
/// A link cannot be replaced conditionally, so the writer locks the directory and checks again:
/// while the link is there, others cannot put an object in its place.
fn replace_dangling(new: &mut Unnamed, target: &CStr) -> io::Result<bool> {
    let is_link = || {
        rustix::fs::lstat(target)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
    };
    if !is_link() {
        return Ok(false);
    }
    let mut directory = PathBytes::new();
    let directory = beside(target, b".", &mut directory)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = Lockable::open(|| rustix::fs::open(directory, flags, Mode::empty()))?;
    // Not forever: the caller itself may hold this lock, as the lock of a node.
    let mut attempts = Attempts::default();
    while flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err() && attempts.again() {}
    let dangles = is_link() && matches!(rustix::fs::stat(target), Err(Errno::NOENT));
    if dangles {
        new.replace(target)?;
    }
    Ok(dangles)
}

/// Creates a new file with a unique name in the directory of `target`.
pub(super) fn create_named(target: &CStr) -> io::Result<Unnamed> {
    let mut name = PathBytes::new();
    let name = temporary_beside(target, &mut name)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = retry_on_intr(|| rustix::fs::open(name, flags, Mode::from_raw_mode(0o666)))?;
    Ok(Unnamed::new(file, Some(name.to_owned())))
}

/// A new file. If it has no name, it disappears when it is closed, however its writer ends.
#[derive(Debug)]
pub(super) struct Unnamed {
    /// `None` once it is complete and closed.
    file: Option<File>,
    /// Set if the file system cannot create unnamed files.
    name: Option<CString>,
    generation: u64,
}

impl Unnamed {
    fn new(file: OwnedFd, name: Option<CString>) -> Self {
        Unnamed { file: Some(file.into()), name, generation: fork::generation() }
    }

    pub(super) fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| Errno::BADF.into())
    }

    /// Moves a file from the writer's folder to the directory of `target`, on another disk.
    fn move_beside(&mut self, target: &CStr, fsync: bool) -> io::Result<()> {
        let Some(name) = &self.name else { return Ok(()) };
        let new = through::copied(name, target)?;
        if fsync {
            new.file()?.sync_all()?;
        }
        self.name = None;
        *self = new;
        Ok(())
    }

    /// Gives the file a name if the name is free. Otherwise fails with `EXIST`.
    pub(super) fn put_first(&mut self, target: &CStr) -> rustix::io::Result<()> {
        match (&self.name, &self.file) {
            (Some(name), _) => {
                rename_new(name, target)?;
                self.name = None;
                Ok(())
            }
            (None, Some(file)) => link(file, target),
            (None, None) => Err(Errno::BADF),
        }
    }

    /// Puts the file in place of `target`. An unnamed file briefly gets a temporary name first.
    pub(super) fn replace(&mut self, target: &CStr) -> io::Result<()> {
        let Some(name) = &self.name else {
            let mut bytes = PathBytes::new();
            let name = link_beside(self.file()?, target, &mut bytes)?;
            let renamed = rustix::fs::rename(name, target);
            if renamed.is_err() {
                let _ = rustix::fs::unlink(name);
            }
            return Ok(renamed?);
        };
        // Network file systems and quotas report a full disk only at the close.
        self.file.take().map_or(Ok(()), close)?;
        rustix::fs::rename(&**name, target)?;
        self.name = None;
        Ok(())
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        // In a forked child, the file belongs to the parent.
        if let Some(name) = self.name.take()
            && self.generation == fork::generation()
        {
            // If this fails too, nothing more can be done. The name stays invisible.
            let _ = rustix::fs::unlink(&*name);
        }
    }
}

/// Creates an unnamed file in a directory. `None` if the system cannot, or could not name it later.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn create_unnamed(directory: &CStr) -> Option<rustix::io::Result<OwnedFd>> {
    static NAMEABLE: Lazy<bool> = Lazy::new();
    if !*NAMEABLE.get_or_make(|| rustix::fs::stat(c"/proc/self/fd").is_ok()) {
        return None;
    }
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    Some(retry_on_intr(|| rustix::fs::open(directory, flags, Mode::from_raw_mode(0o666))))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn create_unnamed(_: &CStr) -> Option<rustix::io::Result<OwnedFd>> {
    None
}

/// Gives an unnamed file a name if the name is free.
///
/// Links the descriptor, which new kernels and privileged processes allow. Otherwise links its path
/// in /proc, which takes a few microseconds longer.
fn link(file: &File, path: &CStr) -> rustix::io::Result<()> {
    static BY_PATH: AtomicBool = AtomicBool::new(false);
    if !BY_PATH.load(Ordering::Relaxed) {
        match retry_on_intr(|| rustix::fs::linkat(file, c"", CWD, path, AtFlags::EMPTY_PATH)) {
            // Not permitted, or the directory is missing. Linking by path tells which.
            Err(Errno::NOENT | Errno::INVAL | Errno::PERM) => {}
            answer => return answer,
        }
    }
    let mut source = SmallVec::<[u8; 32]>::from_slice(b"/proc/self/fd/");
    source.extend_from_slice(DecInt::from_fd(file).as_bytes_with_nul());
    let source = CStr::from_bytes_with_nul(&source).map_err(|_| Errno::INVAL)?;
    let linked = retry_on_intr(|| rustix::fs::linkat(CWD, source, CWD, path, AtFlags::SYMLINK_FOLLOW));
    if linked.is_ok() {
        BY_PATH.store(true, Ordering::Relaxed);
    }
    linked
}

/// Renames a file to a name if the name is free.
fn rename_new(name: &CStr, target: &CStr) -> rustix::io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    match rustix::fs::renameat_with(CWD, name, CWD, target, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        answer => return answer,
    }
    match rustix::fs::link(name, target) {
        Ok(()) => rustix::fs::unlink(name),
        // Without hard links, two writers that arrive at the same time do not notice each other.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            match rustix::fs::lstat(target) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => rustix::fs::rename(name, target),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Gives a complete file a name beside `target`: `.new.<hash of the name>.<slot>.hyperslab-tmp`.
///
/// The first slot is nearly always free. If it is taken, another writer of the same object is about
/// to rename its file, or was killed there; the file of a killed writer is removed.
fn link_beside<'p>(file: &File, target: &CStr, bytes: &'p mut PathBytes) -> io::Result<&'p CStr> {
    let object = target.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let id = hash::fnv1a(hash::EMPTY, object);
    for slot in 0..MAX_SLOTS {
        let path = beside(target, &numbered(COMPLETE, id, slot), bytes)?;
        let linked = match link(file, path) {
            Err(Errno::EXIST) if is_dead(path) && rustix::fs::unlink(path).is_ok() => link(file, path),
            answer => answer,
        };
        match linked {
            // Borrow again, because the borrow above must end here for the loop.
            Ok(()) => return Ok(CStr::from_bytes_with_nul(bytes).map_err(|_| Errno::INVAL)?),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::BUSY.into())
}

/// Upper bound for writers of one object that are between two system calls at the same time.
const MAX_SLOTS: u64 = 1 << 12;

/// Returns whether a file was last changed so long ago that its writer cannot be alive.
fn is_dead(path: &CStr) -> bool {
    rustix::fs::lstat(path)
        .is_ok_and(|found| age(&found, SystemTime::now()).is_some_and(|age| age > DEAD_AFTER))
}

/// Writes a unique path in the directory of `target` to `bytes`:
/// `.<counter>.<random>.hyperslab-tmp`.
///
/// The numbers are hexadecimal. The random number is drawn once per process; process IDs would
/// repeat between containers that share a directory. A forked child repeats its parent's numbers,
/// but exclusive creation notices that, and the next number is tried. The length has a bound that
/// does not depend on the key, because the key's last component may have the maximum length of a
/// name.
pub(super) fn temporary_beside<'p>(target: &CStr, bytes: &'p mut PathBytes) -> io::Result<&'p CStr> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    static RANDOM: Lazy<u64> = Lazy::new();
    let random = *RANDOM.get_or_make(|| RandomState::new().hash_one(0));
    let counter = COUNTER.fetch_add(1, Ordering::Relaxed);

    beside(target, &numbered(".", counter, random), bytes)
}

/// Makes a name from two hexadecimal numbers.
///
/// `write!` takes several times as long, which is noticeable in writes of small objects.
fn numbered(start: &str, one: u64, two: u64) -> SmallVec<[u8; 64]> {
    let mut name = SmallVec::from_slice(start.as_bytes());
    for (number, end) in [(one, "."), (two, TEMPORARY_SUFFIX)] {
        let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            let value = (number >> (4 * digit) & 15) as u8;
            name.push(if value < 10 { b'0' + value } else { b'a' + value - 10 });
        }
        name.extend_from_slice(end.as_bytes());
    }
    name
}

/// Writes the path of `name` in the directory of `target` to `bytes`.
pub(super) fn beside<'p>(target: &CStr, name: &[u8], bytes: &'p mut PathBytes) -> io::Result<&'p CStr> {
    bytes.clear();
    bytes.extend_from_slice(target.to_bytes());
    bytes.truncate(target.to_bytes().iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1));
    bytes.extend_from_slice(name);
    bytes.push(0);
    Ok(CStr::from_bytes_with_nul(bytes).map_err(|_| Errno::INVAL)?)
}

/// Closes a file and returns the system's result, which a drop would discard.
fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor is open, and `into_raw_fd` has made this the only owner.
    match unsafe { rustix::io::try_close(file.into_raw_fd()) } {
        // The descriptor is closed anyway (Linux, macOS). Another try could close a different file.
        Ok(()) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{PathBytes, temporary_beside};
    use crate::Key;
    use std::collections::HashSet;

    #[test]
    fn temporary_names_are_new_short_and_no_keys() {
        let mut seen = HashSet::new();
        let long = std::ffi::CString::new(format!("/root/a/{}", "x".repeat(255))).unwrap();
        for _ in 0..1000 {
            let mut bytes = PathBytes::new();
            let path = temporary_beside(&long, &mut bytes).unwrap().to_str().unwrap().to_owned();
            let name = path.strip_prefix("/root/a/").unwrap();
            assert!(name.len() <= 64 && !name.contains('/'), "{name}");
            assert!(Key::new(name).is_err(), "{name}");
            assert!(seen.insert(path));
        }
    }
}
