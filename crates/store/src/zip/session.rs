//! Changes of an archive, from the first one to their appearance.
//!
//! 1. The first change locks the archive's file: somebody else who tries to write meanwhile is
//!    refused. Where there is no file, an empty archive is put there to be locked.
//! 2. If the file is not the one whose directory was read, the change is refused: it could undo
//!    what another process did.
//! 3. A new file begins beside it with all that is before the old directory: shared with the old
//!    file where the file system can do that (reflink), else copied by the kernel.
//! 4. Members are appended. Nobody else sees the new file, readers of this process read from it.
//! 5. To finish, the new directory is appended, and the new file takes the name of the old one.
//!
//! To write in place would save the copy. But the directory of a zip archive is found from the end
//! of the file: as soon as 64 KiB follow the old directory, nobody finds it any more, and a writer
//! that is killed then leaves no archive at all. This way there is the old archive at every
//! moment, or the new one.
//!
//! A forked child leaves its parent's session alone.

use super::archive::Archive;
use super::directory::{Found, Records};
use super::error::ZipError;
use super::member::{Member, Pending};
use super::members::Members;
use super::records;
use crate::fork;
use crate::local::replace::NewFile;
use crate::{Key, LocalStore, ObjectLock, Operation, Replacement, Result, Store, StoreError};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Changes that are not complete.
#[derive(Debug)]
pub(super) struct Session {
    directory: LocalStore,
    key: String,
    /// Another one for every session of this process.
    pub(super) number: u64,
    /// The process that began it.
    generation: u64,
    /// Of the file that will be replaced.
    _lock: ObjectLock<'static>,
    /// What it begins with; `None`: nothing.
    base: Option<Arc<Archive>>,
    new: Option<NewArchive>,
    /// Whether there is anything to finish.
    pub(super) changed: bool,
}

/// The new file.
#[derive(Debug)]
struct NewArchive {
    new: Box<NewFile<'static>>,
    reader: Arc<File>,
    /// What it keeps of the old archive: where the directory was, and its bytes.
    kept: Option<(Found, Vec<u8>)>,
}

impl Session {
    /// Locks the archive `key` in a directory, which is `base` as far as the caller knows. `make`:
    /// there must be none.
    pub(super) fn start(
        directory: LocalStore,
        key: Key<'_>,
        base: Option<Arc<Archive>>,
        make: bool,
    ) -> Result<Session> {
        static SESSIONS: AtomicU64 = AtomicU64::new(1);
        let fail = |source| StoreError::zip(&directory, key.as_str(), source);
        let mut made = false;
        if base.is_none() || make {
            made = directory.write_new(key, &[&records::empty()])?;
        }
        if make && !made {
            return Err(StoreError::io(
                &directory,
                Operation::Write,
                key.as_str(),
                io::ErrorKind::AlreadyExists,
            ));
        }
        let lock = directory.lock_now(key)?.ok_or_else(|| fail(ZipError::Locked))?;
        let known = match &base {
            Some(base) => base.is_current(),
            None => made,
        };
        if !known {
            return Err(fail(ZipError::Changed));
        }
        Ok(Session {
            key: key.as_str().to_owned(),
            number: SESSIONS.fetch_add(1, Ordering::Relaxed),
            generation: fork::generation(),
            _lock: lock,
            base,
            new: None,
            changed: false,
            directory,
        })
    }

    /// Whether this process began it.
    pub(super) fn is_own(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Whether there is anything in it, be it only staged.
    pub(super) fn is_used(&self) -> bool {
        self.changed || self.new.is_some()
    }

    /// Leaves it to the process that began it.
    pub(super) fn leave(self) {
        // To drop it would remove what the other process made. Its descriptors stay open.
        std::mem::forget(self);
    }

    /// Nothing of the old archive is kept, if nothing has been appended yet.
    pub(super) fn clear(&mut self) {
        if self.new.is_none() {
            self.base = None;
        }
    }

    fn fail(&self, source: ZipError) -> StoreError {
        StoreError::zip(&self.directory, &self.key, source)
    }

    fn new_archive(&mut self) -> Result<&mut NewArchive> {
        if self.new.is_none() {
            self.new = Some(self.begin()?);
        }
        match &mut self.new {
            Some(new) => Ok(new),
            None => unreachable!("it was set just now"),
        }
    }

    /// The new file, with what it keeps of the old one.
    fn begin(&self) -> Result<NewArchive> {
        let key = Key::new(&self.key)?;
        let failed = |error| StoreError::io(&self.directory, Operation::Write, &self.key, error);
        let mut new = self.directory.replace_object(key).map_err(failed)?.keep();
        let mut kept = None;
        if let Some(base) = &self.base {
            let store: Arc<dyn Store> = base.store().clone();
            let loaded = Archive::load(&store, Key::new(base.key())?)?;
            let loaded = loaded.ok_or_else(|| self.fail(ZipError::Changed))?;
            let old = base.open()?;
            if new.share(&*old)? {
                new.cut(base.end())?;
            } else {
                new.copy(&*old, 0, base.end())?;
            }
            kept = Some((loaded.found, loaded.directory));
        }
        let reader = Arc::new(new.reader()?);
        Ok(NewArchive { new: Box::new(new), reader, kept })
    }

    /// Appends a member.
    pub(super) fn append(&mut self, name: &str, parts: &[&[u8]], crc: u32) -> Result<Member> {
        static SERIALS: AtomicU64 = AtomicU64::new(0);
        let size = parts.iter().map(|part| part.len() as u64).sum();
        let header = records::header(name, size, crc).map_err(|source| self.fail(source))?;
        let archive = self.new_archive()?;
        let start = archive.new.len();
        let data = start.saturating_add(header.len() as u64);
        let parts: Vec<&[u8]> = std::iter::once(&*header).chain(parts.iter().copied()).collect();
        // Readers of this process look for it in the file.
        archive.new.write(&parts)?;
        let serial = SERIALS.fetch_add(1, Ordering::Relaxed);
        let pending = Pending { file: archive.reader.clone(), serial };
        Ok(Member::written(start, data, size, crc, pending))
    }

    /// Completes the archive, which has these members, and puts it in its place.
    pub(super) fn finish(mut self, members: &Members) -> Result<()> {
        if !self.changed {
            return Ok(());
        }
        self.new_archive()?;
        let Some(NewArchive { mut new, kept, .. }) = self.new.take() else { return Ok(()) };
        let offset = new.len();
        let before = kept.as_ref().map_or(0, |(found, _)| found.before);
        let (count, directory) =
            directory(members, kept.as_ref(), before).map_err(|source| self.fail(source))?;
        let comment = kept.as_ref().map_or(&[][..], |(found, _)| &found.comment);
        let end = records::end(count, directory.len() as u64, offset.saturating_sub(before), comment);
        new.append(&[&directory, &end])?;
        new.commit()
    }
}

/// The records of all members, and how many they are: those that were there as they were, also of
/// what is no key (directories), then the new ones as they lie in the file.
fn directory(
    members: &Members,
    kept: Option<&(Found, Vec<u8>)>,
    before: u64,
) -> std::result::Result<(u64, Vec<u8>), ZipError> {
    let (mut count, mut bytes) = (0u64, Vec::new());
    if let Some((found, old)) = kept {
        let mut records = Records::new(found, old);
        while let Some(record) = records.next()? {
            // Not those that were deleted or replaced, also by another of the same name.
            let stays = record.key().is_none_or(|key| {
                members
                    .get(&key)
                    .is_some_and(|member| member.pending.is_none() && member.header == record.header)
            });
            if stays {
                bytes.extend_from_slice(record.bytes);
                count += 1;
            }
        }
    }
    let mut new: Vec<_> = members.iter().filter(|(_, member)| member.pending.is_some()).collect();
    new.sort_by_key(|(_, member)| member.header);
    for (name, member) in new {
        records::record(&mut bytes, name, member, before)?;
        count += 1;
    }
    Ok((count, bytes))
}
