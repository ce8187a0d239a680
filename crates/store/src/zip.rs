//! The members of a zip archive, as a store.
//!
//! The archive is an object of another store: a local file or a remote object. One read of its end
//! finds the directory ([`directory`]), which is kept. After that, an uncompressed member is read
//! by range, straight into the caller's memory ([`member`]). A deflated member is decoded as a
//! whole. Other members (bzip2, Zstandard, encrypted) are listed, but reading them fails.
//!
//! Names that are not keys (absolute, with `..` or a backslash) and directories (`a/`) are skipped.
//! If several members have the same name, the last one counts.
//!
//! **Changes of the archive.** Reads always see the archive whose directory was read. If another
//! file takes the name of a local archive, this store keeps reading the old one; opening the path
//! again finds the new one. If the archive is changed in place, reads fail ([`ZipError::Changed`]).
//!
//! **Writing** works for archives on the local disk ([`session`]). New members are not compressed.
//! They are visible in this process at once, and elsewhere when the changes are completed: at
//! [`Holds::flush`], [`Holds::close`], or when the last store that wrote is dropped. A process that
//! dies earlier leaves the old archive. Replaced and deleted members remain as dead space; a copy
//! into another archive leaves it out.

mod archive;
mod bytes;
mod cp437;
mod directory;
mod error;
mod member;
mod members;
mod opened;
mod records;
mod session;
mod shared;
mod staged;

pub use error::ZipError;

use crate::fork::{Lazy, RwLock};
use crate::{
    Begun, Cost, Entry, Facts, Holds, Key, LocalOptions, Many, Next, Opened, Opening, Operation, RangeRead,
    Result, Staged, Stamp, Stamped, Store, StoreError, check_size, hash,
};
use member::Failure;
use opened::{Found, OpenMember, copy_ranges};
use session::Session;
use shared::{Shared, View};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a zip archive is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZipMode {
    /// For reading. It must exist.
    Read,
    /// For reading and writing. It need not exist: the first write creates it.
    Append,
    /// For writing. Existing members disappear with the first flush.
    Write,
    /// For writing. It must not exist.
    Create,
}

/// The members of a zip archive.
#[derive(Debug)]
pub struct ZipStore {
    shared: Arc<Shared>,
    /// The members that this store shows: all of them, or the staged ones. Gated.
    view: Arc<RwLock<View>>,
    /// True if the store refuses changes.
    only_reads: bool,
    /// True if it shows staged members, which do not change the archive.
    is_staged: bool,
    /// True if this store has changed the archive.
    is_writer: AtomicBool,
    closed: AtomicBool,
}

impl ZipStore {
    /// Opens an archive in another store for reading.
    ///
    /// Fails with [`StoreError::Zip`] if the object is no archive, and with [`StoreError::Io`] if
    /// there is no object.
    pub fn open(store: Arc<dyn Store>, key: Key<'_>) -> Result<ZipStore> {
        Ok(Self::of(Shared::of_object(store, key)?, true))
    }

    /// Opens an archive on the local disk. Fails like [`ZipStore::open`].
    ///
    /// With [`ZipMode::Write`] and [`ZipMode::Create`], it also fails if another process is writing
    /// the archive.
    pub fn local(path: impl AsRef<Path>, mode: ZipMode, options: LocalOptions) -> Result<ZipStore> {
        let shared = Shared::of_path(path.as_ref(), options)?;
        let store = Self::of(shared, mode == ZipMode::Read);
        match mode {
            ZipMode::Read if !store.is_there() => {
                let (inner, key) = store.shared.place();
                return Err(StoreError::io(inner, Operation::Read, key.as_str(), io::ErrorKind::NotFound));
            }
            ZipMode::Read | ZipMode::Append => {}
            ZipMode::Write => store.clear(false)?,
            ZipMode::Create => store.clear(true)?,
        }
        Ok(store)
    }

    /// Returns whether a member is compressed, so that reading any part costs reading all of it.
    pub fn is_compressed(&self, key: Key<'_>) -> Result<bool> {
        Ok(self.find(key)?.is_some_and(|found| !found.member.is_stored()))
    }

    /// Completes the changes of all archives of this process. Returns the first error.
    ///
    /// For the end of a program, which does not drop objects in use.
    pub fn flush_all() -> Result<()> {
        Shared::all().into_iter().map(|shared| shared.finish()).fold(Ok(()), Result::and)
    }

    fn of(shared: Arc<Shared>, only_reads: bool) -> ZipStore {
        let view = shared.view.clone();
        let (is_writer, closed) = (AtomicBool::new(false), AtomicBool::new(false));
        ZipStore { shared, view, only_reads, is_staged: false, is_writer, closed }
    }

    /// A store of the same archive, for staged members.
    fn staging(&self) -> ZipStore {
        let mut store = Self::of(self.shared.clone(), self.only_reads);
        store.view = Arc::new(RwLock::new(View::default()));
        store.is_staged = true;
        store
    }

    /// Notes that the archive changes.
    fn mark(&self, session: &mut Session) {
        if !self.is_staged {
            session.changed = true;
            if !self.is_writer.swap(true, Ordering::Relaxed) {
                self.shared.add_writer();
            }
        }
    }

    /// Completes the changes if no other store that made some is left.
    fn release(&self) -> Result<()> {
        if self.is_writer.swap(false, Ordering::Relaxed) && self.shared.remove_writer() {
            return self.shared.finish();
        }
        Ok(())
    }

    /// Returns whether there is an archive, or changes that will create one.
    fn is_there(&self) -> bool {
        let view = self.view.read();
        view.archive.is_some() || view.session != 0
    }

    /// Removes all members. With `make`, the archive must not exist.
    fn clear(&self, make: bool) -> Result<()> {
        if make && self.is_there() {
            let (inner, key) = self.shared.place();
            return Err(StoreError::io(inner, Operation::Write, key.as_str(), io::ErrorKind::AlreadyExists));
        }
        self.shared.change(make, |session| {
            session.clear();
            self.mark(session);
            let old = std::mem::take(&mut self.view.write().members);
            // Freed without the lock.
            drop(old);
            Ok(())
        })
    }

    fn check_open(&self, key: &str) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(StoreError::Closed { key: key.to_owned(), url: self.url() });
        }
        Ok(())
    }

    fn check_writable(&self, operation: Operation, key: Option<Key<'_>>) -> Result<()> {
        self.check_open(key.map_or("", Key::as_str))?;
        if self.only_reads || !self.shared.is_local() {
            return Err(StoreError::read_only(self, operation, key));
        }
        Ok(())
    }

    fn find(&self, key: Key<'_>) -> Result<Option<Found>> {
        self.check_open(key.as_str())?;
        let view = self.view.read();
        let Some(member) = view.members.get(key.as_str()).cloned() else { return Ok(None) };
        let archive = view.archive.clone().filter(|_| member.pending.is_none());
        Ok(Some(Found { member, archive }))
    }

    /// A readable member with the expected size.
    fn find_sized(&self, key: Key<'_>, size: Option<u64>) -> Result<Option<Found>> {
        let Some(found) = self.find(key)? else { return Ok(None) };
        check_size(self, key, size, found.member.size)?;
        found.member.check().map_err(|source| StoreError::zip(self, key.as_str(), source))?;
        Ok(Some(found))
    }

    fn opened<'s>(
        &'s self,
        key: String,
        found: Found,
        opened: Option<Arc<dyn Opened + 's>>,
    ) -> Box<dyn Opened + 's> {
        Box::new(OpenMember { store: self, key, found, opened, decoded: Lazy::new() })
    }

    fn failed(&self, key: &str, failure: Failure) -> StoreError {
        match failure {
            Failure::Zip(source) => StoreError::zip(self, key, source),
            Failure::Io(source) => StoreError::io(self, Operation::Read, key, source),
            Failure::Store(error) => error,
        }
    }

    fn read_found(&self, key: Key<'_>, found: &Found, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        found.check_ranges(self, key.as_str(), ranges)?;
        if ranges.iter().all(|range| range.buf.is_empty()) {
            return Ok(());
        }
        let Found { member, .. } = found;
        let read = if member.is_stored() {
            member.read_stored(key.as_str(), found.access(), ranges)
        } else {
            let mut bytes = Vec::new();
            let read = member.read_whole(key.as_str(), found.access(), &mut bytes);
            read.map(|()| copy_ranges(&bytes, ranges))
        };
        read.map_err(|failure| self.failed(key.as_str(), failure))
    }

    /// Puts a member. If one exists, replaces it, or keeps it and returns `false`.
    fn put(&self, key: Key<'_>, parts: &[&[u8]], replace: bool) -> Result<bool> {
        self.check_writable(Operation::Write, Some(key))?;
        let mut crc = libdeflater::Crc::new();
        parts.iter().for_each(|part| crc.update(part));
        self.shared.change(false, |session| {
            {
                let view = self.view.read();
                // Members staged in a session that is over are in no archive.
                if view.session != 0 && view.session != session.number {
                    return Err(StoreError::zip(self, key.as_str(), ZipError::Finished));
                }
                let place = view.members.check_place(key);
                place.map_err(|kind| StoreError::io(self, Operation::Write, key.as_str(), kind))?;
                if !replace && view.members.get(key.as_str()).is_some() {
                    return Ok(false);
                }
            }
            self.mark(session);
            let member = Arc::new(session.append(key.as_str(), parts, crc.sum())?);
            let mut view = self.view.write();
            view.session = session.number;
            Arc::make_mut(&mut view.members).insert(key.as_str().to_owned(), member);
            Ok(true)
        })
    }

    fn remove(&self, keys: impl FnOnce(&View) -> Vec<String>) -> Result<bool> {
        self.shared.change(false, |session| {
            self.mark(session);
            let mut view = self.view.write();
            let doomed = keys(&view);
            let members = Arc::make_mut(&mut view.members);
            let mut any = false;
            for key in doomed {
                any |= members.remove(&key);
            }
            Ok(any)
        })
    }
}

impl Store for ZipStore {
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        let Some(found) = self.find_sized(key, size)? else { return Ok(false) };
        self.read_found(key, &found, ranges)?;
        Ok(true)
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        let found = self.find_sized(key, size)?;
        Ok(found.map(|found| self.opened(key.as_str().to_owned(), found, None)))
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        Ok(self.read_all_stamped(key, buf, limit)?.0)
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        Ok(self.find(key)?.map(|found| found.member.size))
    }

    fn stamp(&self, key: Key<'_>) -> Result<Option<Stamp>> {
        let Some(found) = self.find(key)? else { return Ok(None) };
        match found.archive() {
            Some(archive) => archive.member_stamp_now(found.member.header),
            None => Ok(found.stamp()),
        }
    }

    fn read_all_stamped(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<Stamped> {
        buf.clear();
        let Some(found) = self.find_sized(key, None)? else { return Ok((false, None)) };
        if found.member.size > limit as u64 {
            return Err(StoreError::too_large(self, key.as_str(), limit));
        }
        let read = found.member.read_whole(key.as_str(), found.access(), buf);
        read.map_err(|failure| self.failed(key.as_str(), failure))?;
        Ok((true, found.vouched()))
    }

    fn read_ranges_stamped(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<Stamped> {
        let Some(found) = self.find_sized(key, size)? else { return Ok((false, None)) };
        self.read_found(key, &found, ranges)?;
        Ok((true, found.vouched()))
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<()> {
        self.put(key, parts, true).map(|_| ())
    }

    fn write_new(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<bool> {
        self.put(key, parts, false)
    }

    fn delete(&self, key: Key<'_>) -> Result<bool> {
        self.check_writable(Operation::Delete, Some(key))?;
        // Starts no session if there is nothing to delete.
        Ok(self.find(key)?.is_some() && self.remove(|_| vec![key.as_str().to_owned()])?)
    }

    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> Result<()> {
        self.check_writable(Operation::Delete, prefix)?;
        let members = self.view.read().members.clone();
        if !members.below(prefix, 1).is_empty() {
            drop(members);
            self.remove(|view| view.members.below(prefix, usize::MAX))?;
        }
        Ok(())
    }

    fn stage<'s>(&'s self, prefix: Option<Key<'_>>) -> Result<Box<dyn Staged + 's>> {
        self.check_writable(Operation::Write, prefix)?;
        Ok(Box::new(self.stage_below(prefix)))
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        self.check_open(prefix.map_or("", Key::as_str))?;
        let members = self.view.read().members.clone();
        Ok(members.children(prefix))
    }

    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        self.check_open(prefix.map_or("", Key::as_str))?;
        let members = self.view.read().members.clone();
        Ok(members.below(prefix, usize::MAX))
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        let (store, archive) = self.shared.place();
        hash::fnv1a(hash::fnv1a(store.lock_id(archive), b"/"), key.as_str().as_bytes())
    }

    fn cost(&self) -> Cost {
        self.shared.place().0.cost()
    }

    fn facts(&self) -> Facts {
        let Facts { waits, reads_ranges, .. } = self.shared.place().0.facts();
        let is_writable = !self.only_reads && self.shared.is_local();
        let reads_ranges = reads_ranges && !self.view.read().members.any_deflated();
        Facts { is_writable, waits, reads_ranges, ..Facts::default() }
    }

    fn many(&self) -> Option<&dyn Many> {
        Some(self)
    }

    fn holds(&self) -> Option<&dyn Holds> {
        Some(self)
    }

    /// fsspec's form: `zip://PATH::` followed by the archive's location. Here the path is empty.
    fn url(&self) -> String {
        let (store, key) = self.shared.place();
        format!("zip://::{}/{}", store.url(), escaped(key.as_str()))
    }
}

impl Many for ZipStore {
    /// Members of an archive on a server are ranges of one object, so all are announced together.
    fn begin<'s>(&'s self, wanted: &[Opening<'_>]) -> Vec<Box<dyn Begun<'s> + 's>> {
        let archive = self.shared.fixed.as_deref().filter(|_| self.cost().prefers_rounds());
        // If the archive cannot be opened, reading a member reports why.
        let opened: Option<Arc<dyn Opened + 's>> = archive.and_then(|it| it.open().ok()).map(Arc::from);
        let found: Vec<_> = wanted.iter().map(|opening| self.find_sized(opening.key, None)).collect();
        if let (Some(archive), Some(opened)) = (archive, &opened) {
            let mut places = Vec::new();
            for (found, opening) in found.iter().zip(wanted) {
                if let Ok(Some(Found { member, .. })) = found {
                    places.extend(member.places(archive, part(opening.next, member.size)));
                }
            }
            opened.announce(&places, self.cost().at_once);
        }
        let later = |(found, opening): (Result<Option<Found>>, &Opening<'_>)| {
            let (key, opened) = (opening.key.as_str().to_owned(), opened.clone());
            let open = move || Ok(found?.map(|found| self.opened(key, found, opened)));
            Box::new(open) as Box<dyn Begun<'s> + 's>
        };
        found.into_iter().zip(wanted).map(later).collect()
    }

    fn present(&self, prefix: Option<Key<'_>>, most: usize) -> Option<Vec<String>> {
        let members = self.view.read().members.clone();
        let keys = members.below(prefix, most.saturating_add(1));
        (keys.len() <= most).then_some(keys)
    }
}

impl Holds for ZipStore {
    fn flush(&self) -> Result<()> {
        self.check_open("")?;
        self.shared.finish()
    }

    /// Completes this store's changes, if it made any. Only [`Holds::flush`] reports failures.
    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        if self.is_writer.swap(false, Ordering::Relaxed) {
            self.shared.remove_writer();
            let _ = self.shared.finish();
        }
    }

    fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }

    fn is_current(&self) -> bool {
        let archive = self.view.read().archive.clone();
        archive.is_none_or(|archive| archive.is_current())
    }
}

impl Drop for ZipStore {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            // There is no caller left to report to.
            eprintln!("hyperslab: what was written last is lost: {error}");
        }
    }
}

/// The range of an object of `size` bytes for `next`.
fn part(next: Next, size: u64) -> (u64, u64) {
    let (start, len) = match next {
        Next::Start(len) => (0, len),
        Next::End(len) => (size.saturating_sub(len), len),
        Next::Part(start, len) => (start.min(size), len),
        Next::All => (0, size),
    };
    (start, len.min(size - start))
}

/// A key as part of a URL.
fn escaped(key: &str) -> String {
    crate::local::file_url(Path::new(key)).trim_start_matches("file://").to_owned()
}
