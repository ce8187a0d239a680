//! Free space between sessions.
//!
//! Structures and chunks that a flush replaces are not used again at once: readers may have the
//! file open as it was before. When the file is closed, a list of them is written, and the slot
//! before the end of the file leads there. The next writer uses them if nobody else has the file
//! open. It removes the list first: a writer that is killed loses the space, and nothing else.
//!
//! Another program that changes the file does not know the list, and adds behind the end of the
//! file. Then the slot is not before the end any more, and the space stays unused until the file is
//! compacted.

use super::redo::{self, RecordPlace, SLOT, Slot};
use super::{Editing, object};
use crate::data_layout::{self, DataLayout};
use crate::output::{NEW_SIZES, Output};
use crate::{Cursor, LinkTarget, Parsed, Result, Source};
use hyperslab_store::EditedFile;
use std::collections::BTreeSet;

/// Ranges shorter than this are not worth an entry.
const SHORTEST: u64 = 32;

/// Less free space than this is not worth a list.
const LEAST: u64 = 4096;

/// More ranges than a list has. The longest ones stay.
const MOST: usize = 1 << 20;

/// Joins adjacent ranges. Each is a start and a length.
fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (start, len) in ranges {
        match joined.last_mut() {
            Some((before, size)) if before.saturating_add(*size) >= start => {
                *size = (*size).max(start.saturating_add(len).saturating_sub(*before));
            }
            _ => joined.push((start, len)),
        }
    }
    joined.retain(|(_, len)| *len >= SHORTEST);
    if joined.len() > MOST {
        joined.sort_unstable_by_key(|(_, len)| std::cmp::Reverse(*len));
        joined.truncate(MOST);
        joined.sort_unstable();
    }
    joined
}

fn build(ranges: &[(u64, u64)]) -> Vec<u8> {
    let mut out = Output::new();
    for (start, len) in ranges {
        out.u64(*start).u64(*len);
    }
    out.take()
}

/// Parses a list. Each range begins behind the end of the one before.
fn parse(bytes: &[u8], end: u64) -> Parsed<Vec<(u64, u64)>> {
    let mut cursor = Cursor::whole(bytes, 0, NEW_SIZES);
    let (mut ranges, mut last) = (Vec::new(), 0);
    while !cursor.is_empty() {
        let (start, len) = (cursor.u64()?, cursor.u64()?);
        let next = start.checked_add(len).filter(|next| start >= last && *next <= end && len > 0);
        last = next.ok_or_else(|| cursor.corrupt("expected ranges one after the other, found others"))?;
        ranges.push((start, len));
    }
    Ok(ranges)
}

/// Takes the list of free space of a closed file, which nobody else has open. The list is gone
/// then.
pub(super) fn take(bytes: &EditedFile, source: &Source, end: u64) -> Result<Vec<(u64, u64)>> {
    let Some(Slot::Free(place)) = redo::read_slot(source, end)? else { return Ok(Vec::new()) };
    let ranges = redo::read_record(source, place)?.and_then(|list| parse(&list, end - SLOT).ok());
    let slot = source.base().saturating_add(end).saturating_sub(SLOT);
    bytes.write_at(slot, &redo::build_slot(Slot::Clean))?;
    bytes.sync()?;
    let mut ranges = ranges.unwrap_or_default();
    // The list and the slot are not needed any more.
    ranges.extend([(place.address, place.len), (end - SLOT, SLOT)]);
    Ok(joined(ranges))
}

impl Editing {
    /// Lets go of everything that only deleted objects refer to. Only for the last flush: until
    /// then, a deleted object may get a new name.
    pub(super) fn release_deleted(&self) -> Result<()> {
        let mut released = BTreeSet::new();
        loop {
            let deleted: Vec<u64> = {
                let objects = self.edits.objects.lock();
                let is_deleted = |object: &&object::Object| {
                    object.links_to == 0
                        && object.stored != object::Stored::New
                        && !released.contains(&object.address)
                };
                objects.values().filter(is_deleted).map(|object| object.address).collect()
            };
            if deleted.is_empty() {
                return Ok(());
            }
            for address in deleted {
                released.insert(address);
                self.release(address)?;
            }
        }
    }

    fn release(&self, address: u64) -> Result<()> {
        if self.with(address, |object| object.is_group())? {
            self.load_links(address)?;
            let links = self.edits.links(address).map_or_else(Vec::new, |links| links.all());
            for link in links {
                if let LinkTarget::Hard(target) = link.target {
                    self.count_links(target, -1)?;
                }
            }
            return Ok(());
        }
        let layout = self.with(address, |object| {
            object.message(data_layout::KIND).map(|message| object::parsed(message, DataLayout::parse))
        })?;
        let mut freed = self.edits.freed.lock();
        match layout {
            Some(Ok(DataLayout::Contiguous { address: Some(at), size: Some(size) })) => {
                freed.push((at, size))
            }
            Some(Ok(DataLayout::Chunked(_))) => {
                drop(freed);
                let places = self.chunk_table(address)?.places();
                let stored = places.iter().map(|(_, place)| (place.address, place.size));
                self.edits.freed.lock().extend(stored);
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes the list of free space behind everything else. Returns the end of the file.
    pub(super) fn write_free_space(&self) -> Result<u64> {
        let freed = std::mem::take(&mut *self.edits.freed.lock());
        let unused = self.edits.space.lock().free_ranges();
        let ranges = joined([freed, unused].concat());
        let end = self.edits.space.lock().used();
        if ranges.iter().map(|(_, len)| len).sum::<u64>() < LEAST {
            return Ok(end);
        }
        let list = build(&ranges);
        let address = end.next_multiple_of(8);
        let len = list.len() as u64;
        let end = address.saturating_add(len).next_multiple_of(SLOT).saturating_add(SLOT);
        self.file().source().grow(end);
        self.write(address, &[&list])?;
        let place = RecordPlace { address, len, checksum: redo::checksum(&list) };
        self.write(end - SLOT, &[&redo::build_slot(Slot::Free(place))])?;
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined() {
        let ranges = vec![(100, 50), (500, 8), (150, 10), (200, 40), (120, 10)];
        assert_eq!(joined(ranges), [(100, 60), (200, 40)]);
        assert_eq!(parse(&build(&[(100, 60), (200, 40)]), 240), Ok(vec![(100, 60), (200, 40)]));
        for (wrong, end) in [(vec![(100, 60), (150, 40)], 999), (vec![(1, 60)], 60), (vec![(1, 0)], 60)] {
            assert!(parse(&build(&wrong), end).is_err());
        }
    }
}
