//! Replacing objects: temporary file, write, close, rename. The module above says why each step is there.

use super::{LocalStore, MAX_BATCH, MAX_TRANSFER, PathBytes};
use crate::{Key, key::TEMPORARY_SUFFIX};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr, writev};
use smallvec::SmallVec;
use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a write starts again because somebody else removed its directory meanwhile, or took its
/// temporary name.
const MAX_ATTEMPTS: usize = 64;

impl LocalStore {
    pub(super) fn write_object(&self, key: Key<'_>, parts: &[&[u8]]) -> io::Result<()> {
        let (mut target, mut temporary) = (PathBytes::new(), PathBytes::new());
        let target = self.path(key.as_str(), &mut target)?;
        let written = self.with_parents(key, target, || {
            let (file, temporary) = create_beside(target, &mut temporary)?;
            self.put(temporary, target, || {
                write_parts(file.as_fd(), parts)?;
                Ok(file)
            })
        });
        written.map(|_| ())
    }

    /// Does `attempt`, which makes a file in the directory of `target`, the path of `key`; where that is missing, makes it
    /// and starts again, and also where somebody else has the name. Whether directories are new is told too; they are gone
    /// if it fails.
    pub(super) fn with_parents<T>(
        &self,
        key: Key<'_>,
        target: &CStr,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> io::Result<(T, bool)> {
        let mut made_parents = false;
        let mut attempts = 0;
        let error = loop {
            let error = match attempt() {
                Ok(done) => return Ok((done, made_parents)),
                Err(error) => error,
            };
            attempts += 1;
            if attempts == MAX_ATTEMPTS {
                break error;
            }
            match error.kind() {
                io::ErrorKind::NotFound => match self.create_parents(target, &mut made_parents) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => break error,
                    _ => {}
                },
                io::ErrorKind::AlreadyExists => {}
                _ => break error,
            }
        };
        if made_parents {
            self.prune(key);
        }
        Err(error)
    }

    /// Puts the file `temporary`, which `complete` fills and gives, in the place of `target`. If anything fails, it is removed.
    pub(super) fn put(
        &self,
        temporary: &CStr,
        target: &CStr,
        complete: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<()> {
        let put = complete().and_then(|file| {
            if self.options.fsync {
                file.sync_all()?;
            }
            close(file)?;
            rustix::fs::rename(temporary, target)?;
            Ok(())
        });
        if put.is_err() {
            // Nothing more can be done if this fails too; the name stays invisible.
            let _ = rustix::fs::unlink(temporary);
        } else if self.options.fsync
            && let Some(directory) = as_path(target).parent()
        {
            Self::flush_directory(directory)?;
        }
        put
    }

    /// Makes the directories above `object`; `made` becomes true if any is new.
    fn create_parents(&self, object: &CStr, made: &mut bool) -> io::Result<()> {
        let missing: Vec<&Path> =
            as_path(object).ancestors().skip(1).take_while(|directory| !directory.is_dir()).collect();
        for directory in missing.into_iter().rev() {
            match fs::create_dir(directory) {
                Ok(()) => *made = true,
                // Another writer was faster; or it is a file, and the write will say so.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            if self.options.fsync
                && let Some(above) = directory.parent()
            {
                Self::flush_directory(above)?;
            }
        }
        Ok(())
    }
}

fn as_path(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

/// Makes a temporary file in the directory of `target`; its path is written to `bytes`.
pub(super) fn create_beside<'p>(target: &CStr, bytes: &'p mut PathBytes) -> io::Result<(File, &'p CStr)> {
    let temporary = temporary_beside(target, bytes)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOCTTY;
    let mode = Mode::from_raw_mode(0o666);
    let file = retry_on_intr(|| rustix::fs::open(temporary, flags, mode))?;
    Ok((File::from(file), temporary))
}

/// Writes to `bytes` a path in the directory of `target` that no other writer has:
/// `.<counter>.<random>.hyperslab-tmp`, in hexadecimal.
///
/// The random number is drawn once per process; process numbers would repeat between containers that share a
/// directory. A forked child repeats its parent's numbers, which exclusive creation then finds: the next
/// number is tried. The length has a bound that does not depend on the key, whose last component may be as
/// long as names can be.
fn temporary_beside<'p>(target: &CStr, bytes: &'p mut PathBytes) -> io::Result<&'p CStr> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    static RANDOM: OnceLock<u64> = OnceLock::new();
    let random = *RANDOM.get_or_init(|| RandomState::new().hash_one(0));
    let counter = COUNTER.fetch_add(1, Ordering::Relaxed);

    let mut name = [0u8; 64];
    let mut rest = name.as_mut_slice();
    write!(rest, ".{counter:x}.{random:016x}{TEMPORARY_SUFFIX}")?;
    let unused = rest.len();
    let name = name.split_at(name.len() - unused).0;

    beside(target, name, bytes)
}

/// Writes to `bytes` the path of `name` in the directory of `target`.
pub(super) fn beside<'p>(target: &CStr, name: &[u8], bytes: &'p mut PathBytes) -> io::Result<&'p CStr> {
    bytes.clear();
    bytes.extend_from_slice(target.to_bytes());
    bytes.truncate(target.to_bytes().iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1));
    bytes.extend_from_slice(name);
    bytes.push(0);
    Ok(CStr::from_bytes_with_nul(bytes).map_err(|_| Errno::INVAL)?)
}

/// Writes all bytes of all parts, in one call if the system allows.
pub(super) fn write_parts(file: BorrowedFd<'_>, parts: &[&[u8]]) -> io::Result<()> {
    let mut pending = parts.iter().flat_map(|part| part.chunks(MAX_TRANSFER)).peekable();
    while pending.peek().is_some() {
        let mut batch: SmallVec<[IoSlice<'_>; MAX_BATCH]> = SmallVec::new();
        let mut room = MAX_TRANSFER;
        while batch.len() < MAX_BATCH
            && let Some(part) = pending.next_if(|part| part.len() <= room)
        {
            room -= part.len();
            batch.push(IoSlice::new(part));
        }
        let mut left = batch.as_mut_slice();
        while !left.is_empty() {
            match retry_on_intr(|| writev(file, left))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => IoSlice::advance_slices(&mut left, written),
            }
        }
    }
    Ok(())
}

/// Closes a file and returns what the system says, which dropping it would throw away.
fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor is open, and `into_raw_fd` has made this the only owner.
    match unsafe { rustix::io::try_close(file.into_raw_fd()) } {
        // The descriptor is closed all the same (Linux, macOS): trying again could close somebody else's.
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
