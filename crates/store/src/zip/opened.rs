//! Open members.

use super::ZipStore;
use super::archive::{Access, Archive};
use super::member::Member;
use crate::fork::Lazy;
use crate::{Opened, RangeRead, Result, Stamp, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// A member as it was when it was opened.
#[derive(Debug)]
pub(super) struct OpenMember<'s> {
    pub(super) store: &'s ZipStore,
    pub(super) key: String,
    pub(super) found: Found,
    /// The open archive, if several members were opened together.
    pub(super) opened: Option<Arc<dyn Opened + 's>>,
    /// The decoded bytes of a compressed member, once needed.
    pub(super) decoded: Lazy<Vec<u8>>,
}

/// A member and its archive.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) member: Arc<Member>,
    /// `None` if it is in no complete archive yet.
    pub(super) archive: Option<Arc<Archive>>,
}

impl Found {
    pub(super) fn archive(&self) -> Option<&Archive> {
        self.archive.as_deref()
    }

    /// Access for one read, which opens the archive.
    pub(super) fn access(&self) -> Option<Access<'_>> {
        self.archive().map(|archive| Access { archive, opened: None })
    }

    /// The stamp from when the directory was read.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        match &self.member.pending {
            Some(pending) => Some(pending.stamp()),
            None => self.archive()?.member_stamp(self.member.header),
        }
    }

    /// The stamp under which everything read from the member may be kept.
    pub(super) fn vouched(&self) -> Option<Stamp> {
        match &self.member.pending {
            Some(pending) => Some(pending.stamp()),
            None => self.archive()?.member_vouched(self.member.header),
        }
    }

    /// Fails if a range goes past the end.
    pub(super) fn check_ranges(&self, store: &ZipStore, key: &str, ranges: &[RangeRead<'_>]) -> Result<()> {
        let size = self.member.size;
        for RangeRead { offset, buf } in ranges.iter().filter(|range| !range.buf.is_empty()) {
            let len = buf.len() as u64;
            if offset.checked_add(len).is_none_or(|end| end > size) {
                return Err(StoreError::out_of_range(store, key, *offset, len, size));
            }
        }
        Ok(())
    }
}

impl OpenMember<'_> {
    fn access(&self) -> Option<Access<'_>> {
        Some(Access { opened: self.opened.as_deref(), ..self.found.access()? })
    }
}

impl Opened for OpenMember<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.store.check_open(&self.key)?;
        self.found.check_ranges(self.store, &self.key, ranges)?;
        if ranges.iter().all(|range| range.buf.is_empty()) {
            return Ok(());
        }
        if self.found.member.is_stored() {
            let read = self.found.member.read_stored(&self.key, self.access(), ranges);
            return read.map_err(|failure| self.store.failed(&self.key, failure));
        }
        let decoded = self.decoded.get_or_try_make(|| {
            let mut bytes = Vec::new();
            let read = self.found.member.read_whole(&self.key, self.access(), &mut bytes);
            read.map(|()| bytes).map_err(|failure| self.store.failed(&self.key, failure))
        })?;
        copy_ranges(decoded, ranges);
        Ok(())
    }

    fn announce(&self, ranges: &[(u64, u64)], requests: usize) {
        let (Some(opened), Some(archive)) = (&self.opened, self.found.archive()) else { return };
        let member = &self.found.member;
        if self.decoded.get().is_some() {
            return;
        }
        let inside = |(at, len): &&(u64, u64)| at.checked_add(*len).is_some_and(|end| end <= member.size);
        let places = ranges.iter().filter(inside).flat_map(|range| member.places(archive, *range));
        opened.announce(&places.collect::<Vec<_>>(), requests);
    }

    fn has_arrived(&self, offset: u64, len: u64, most: Duration) -> bool {
        let (Some(opened), Some(archive)) = (&self.opened, self.found.archive()) else { return true };
        let places = || self.found.member.places(archive, (offset, len));
        self.decoded.get().is_some() || places().iter().all(|(at, len)| opened.has_arrived(*at, *len, most))
    }

    fn size(&self) -> u64 {
        self.found.member.size
    }

    fn stamp(&self) -> Option<Stamp> {
        self.found.stamp()
    }

    fn vouched(&self) -> Option<Stamp> {
        self.found.vouched()
    }
}

/// Fills ranges from `bytes`, which contains them.
pub(super) fn copy_ranges(bytes: &[u8], ranges: &mut [RangeRead<'_>]) {
    for RangeRead { offset, buf } in ranges {
        let start = usize::try_from(*offset).unwrap_or(usize::MAX);
        if let Some(from) = bytes.get(start..start.saturating_add(buf.len())) {
            buf.copy_from_slice(from);
        }
    }
}
