//! A complete archive, as an object of another store: reads its directory and its bytes.

use super::directory::{Found, Records, TAIL, find};
use super::error::ZipError;
use super::members::Members;
use crate::{HeldObject, Key, Opened, Operation, RangeRead, Result, Stamp, Store, StoreError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// The longest directory to read: about ten million members.
const MOST_DIRECTORY: u64 = if cfg!(test) { 1 << 20 } else { 1 << 30 };

/// An archive. Reads see its contents from when its directory was read.
#[derive(Debug)]
pub(super) struct Archive {
    store: Arc<dyn Store>,
    key: String,
    size: u64,
    stamp: Option<Stamp>,
    /// The stamp, if it vouches for everything read while it stays the same.
    vouched: Option<Stamp>,
    /// Offset of the directory.
    end: u64,
    /// Length of the last local header's extra fields, minus their length in the directory.
    ///
    /// Modulo 65536.
    longer: AtomicU16,
}

/// How to read bytes of an archive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access<'a> {
    pub(super) archive: &'a Archive,
    /// Opened for several members, with bytes possibly in flight. `None`: the archive is opened for
    /// each read.
    pub(super) opened: Option<&'a dyn Opened>,
}

impl Access<'_> {
    /// Fills ranges of the archive.
    pub(super) fn read(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        match self.opened {
            Some(opened) => opened.read_ranges(ranges),
            None => self.archive.open()?.read_ranges(ranges),
        }
    }
}

/// An archive and the contents of its directory.
pub(super) struct Loaded {
    pub(super) archive: Archive,
    pub(super) members: Members,
    /// To continue the archive: the directory's location and bytes.
    pub(super) found: Found,
    pub(super) directory: Vec<u8>,
}

impl Archive {
    /// Reads the directory of an archive. `None` if there is no such object.
    pub(super) fn load(store: &Arc<dyn Store>, key: Key<'_>) -> Result<Option<Loaded>> {
        let held: Option<HeldObject> = store.hold(key)?;
        let (store, name) = held.unwrap_or_else(|| (store.clone(), key.as_str().to_owned()));
        let key = Key::new(&name)?;
        let fail = |source| StoreError::zip(&*store, &name, source);
        let none = || StoreError::io(&*store, Operation::Read, &name, ErrorKind::OutOfMemory);
        let Some(opened) = store.open(key, None)? else { return Ok(None) };
        let (size, stamp, vouched) = (opened.size(), opened.stamp(), opened.vouched());
        let tail_len = size.min(TAIL as u64);
        let tail = read(&*opened, none, size - tail_len, tail_len)?;
        let found = find(&tail, size).map_err(fail)?;
        if found.len > MOST_DIRECTORY {
            return Err(fail(ZipError::LongDirectory { size: found.len, limit: MOST_DIRECTORY }));
        }
        let in_tail = found.offset.checked_sub(size - tail_len);
        let in_tail = in_tail.and_then(|at| usize::try_from(at).ok()).zip(usize::try_from(found.len).ok());
        let in_tail = in_tail.and_then(|(at, len)| tail.get(at..at.checked_add(len)?));
        let directory = match in_tail {
            Some(directory) => directory.to_vec(),
            None => read(&*opened, none, found.offset, found.len)?,
        };
        let mut members = Members::default();
        let mut records = Records::new(&found, &directory);
        while let Some(record) = records.next().map_err(fail)? {
            members.add(&record);
        }
        drop(opened);
        let (end, longer) = (found.offset, AtomicU16::new(0));
        let archive = Archive { store, key: name, size, stamp, vouched, end, longer };
        Ok(Some(Loaded { archive, members, found, directory }))
    }

    /// Opens the archive if it is still the same.
    pub(super) fn open(&self) -> Result<Box<dyn Opened + '_>> {
        let same = |opened: &dyn Opened| match (opened.stamp(), self.stamp) {
            (Some(now), Some(then)) => opened.size() == self.size && now.same_write(&then),
            _ => opened.size() == self.size,
        };
        let opened = self.store.open(Key::new(&self.key)?, None)?;
        let changed = || StoreError::zip(&*self.store, &self.key, ZipError::Changed);
        opened.filter(|opened| same(&**opened)).ok_or_else(changed)
    }

    /// Offset of the directory. All members are before it.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Returns whether the archive's name still leads to it.
    pub(super) fn is_current(&self) -> bool {
        self.store.is_current() && self.open().is_ok()
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The likely length of a member's extra fields in its local header.
    ///
    /// `extra_len` is their length in the directory.
    pub(super) fn guess(&self, extra_len: u16) -> u16 {
        extra_len.wrapping_add(self.longer.load(Ordering::Relaxed))
    }

    /// Notes the actual length.
    pub(super) fn learn(&self, extra_len: u16, found: u64) {
        let found = u16::try_from(found).unwrap_or(extra_len);
        self.longer.store(found.wrapping_sub(extra_len), Ordering::Relaxed);
    }

    /// The stamp of the member with this header offset, from when the directory was read.
    pub(super) fn member_stamp(&self, header: u64) -> Option<Stamp> {
        self.stamp.map(|stamp| mixed(stamp, header))
    }

    /// The member's current stamp.
    pub(super) fn member_stamp_now(&self, header: u64) -> Result<Option<Stamp>> {
        let stamp = self.store.stamp(Key::new(&self.key)?)?;
        Ok(stamp.map(|stamp| mixed(stamp, header)))
    }

    /// The stamp under which everything read from the member may be kept.
    pub(super) fn member_vouched(&self, header: u64) -> Option<Stamp> {
        let stamp = self.open().ok()?.stamp().filter(|now| Some(*now) == self.vouched)?;
        Some(mixed(stamp, header))
    }
}

/// The stamp of the member with this header offset in an archive with this stamp.
fn mixed(stamp: Stamp, header: u64) -> Stamp {
    let hash = |number: u64| {
        let mut hasher = DefaultHasher::new();
        (number, stamp, header).hash(&mut hasher);
        hasher.finish()
    };
    // A stamp has no room for the offset in addition. 192 bits of hash do not collide by accident.
    Stamp::new([Stamp::IN_ARCHIVE, hash(0), hash(1), hash(2), header, 0, 0])
}

/// Reads a range of an open object.
fn read(opened: &dyn Opened, none: impl Fn() -> StoreError, offset: u64, len: u64) -> Result<Vec<u8>> {
    // The caller has bounded `len`.
    let (mut bytes, len) = (Vec::new(), usize::try_from(len).unwrap_or(0));
    bytes.try_reserve_exact(len).map_err(|_| none())?;
    bytes.resize(len, 0);
    opened.read_ranges(&mut [RangeRead { offset, buf: &mut bytes }])?;
    Ok(bytes)
}
