//! Changes of an archive, from the first one until they become visible.
//!
//! 1. The first change locks the archive's file. Anybody else who tries to write meanwhile is
//!    refused. If there is no file, an empty archive is created to be locked.
//! 2. If the file is no longer the one whose directory was read, the change fails: it could undo
//!    changes of another process.
//! 3. A new file beside it starts with everything before the old directory. The file system shares
//!    these bytes with the old file if it can (reflink), otherwise the kernel copies them.
//! 4. Members are appended. Nobody else sees the new file; readers in this process read from it.
//! 5. To finish, the new directory is appended, and the new file is renamed over the old one.
//!
//! Writing in place would save the copy. But the directory of a zip archive is found from the end
//! of the file. As soon as 64 KiB follow the old directory, nobody finds it, and a writer that is
//! killed then leaves no archive at all. This way there is always the old archive or the new one.
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

/// Incomplete changes of an archive.
#[derive(Debug)]
pub(super) struct Session {
    directory: LocalStore,
    key: String,
    /// Unique among the sessions of this process.
    pub(super) number: u64,
    /// The process that began the session.
    generation: u64,
    /// Lock of the file to be replaced.
    _lock: ObjectLock<'static>,
    /// The old archive to start with. `None`: start empty.
    base: Option<Arc<Archive>>,
    new: Option<NewArchive>,
    /// True if there are changes to complete.
    pub(super) changed: bool,
}

/// The new file.
#[derive(Debug)]
struct NewArchive {
    new: Box<NewFile<'static>>,
    reader: Arc<File>,
    /// Location and bytes of the old archive's directory, if its members are kept.
    kept: Option<(Found, Vec<u8>)>,
}

impl Session {
    /// Locks the archive `key` in a directory.
    ///
    /// `base` is the archive as far as the caller knows. With `make`, the archive must not exist.
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

    /// Returns whether this process began the session.
    pub(super) fn is_own(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Returns whether the session contains anything, even if only staged.
    pub(super) fn is_used(&self) -> bool {
        self.changed || self.new.is_some()
    }

    /// Leaves the session to the process that began it.
    pub(super) fn leave(self) {
        // Dropping it would remove the other process's file. The descriptors stay open.
        std::mem::forget(self);
    }

    /// Starts from an empty archive, unless something has already been appended.
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

    /// Creates the new file, with what it keeps of the old one.
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
        // Written at once, because readers in this process read it from the file.
        archive.new.write(&parts)?;
        let serial = SERIALS.fetch_add(1, Ordering::Relaxed);
        let pending = Pending { file: archive.reader.clone(), serial };
        Ok(Member::written(start, data, size, crc, pending))
    }

    /// Completes the archive with these members, and puts it in place.
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

/// The records of all members, and their number.
///
/// Old records come first, unchanged, including those whose names are not keys (directories). The
/// new ones follow in the order of their data.
fn directory(
    members: &Members,
    kept: Option<&(Found, Vec<u8>)>,
    before: u64,
) -> std::result::Result<(u64, Vec<u8>), ZipError> {
    let (mut count, mut bytes) = (0u64, Vec::new());
    if let Some((found, old)) = kept {
        let mut records = Records::new(found, old);
        while let Some(record) = records.next()? {
            // Skip members that were deleted or replaced, also by a later record with the same
            // name.
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
