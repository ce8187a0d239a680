//! Free space between sessions.
//!
//! Structures and chunks that a flush replaces are not used again at once: readers may have the
//! file open as it was before. When the file is closed, a list of them is written, and the slot
//! before the end of the file leads there. Free space at the end of the file is cut off instead, if
//! nobody else has the file open then.
//!
//! A writer uses the list if nobody else had the file open when it was opened. It removes the list
//! first: a writer that is killed loses the space, and nothing else.
//!
//! Another program that changes the file does not know the list, and adds behind the end of the
//! file. Then the slot is not before the end any more, and the space stays unused until the file is
//! compacted.

use super::redo::{self, RecordPlace, SLOT, Slot};
use super::{Editing, object};
use crate::data_layout::{self, DataLayout};
use crate::output::{NEW_SIZES, Output};
use crate::{Cursor, Hdf5Error, LinkTarget, Parsed, Result, Source};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

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

/// Returns the ranges in the list before the end of the file, and of the list itself: address and length.
pub(crate) fn listed(source: &Source, end: u64) -> Result<Vec<(u64, u64)>> {
    let slot = redo::read_slot(source, end)?;
    let Some(slot) = slot else { return Ok(Vec::new()) };
    let mut ranges = slot.free.map_or_else(|| Ok(Vec::new()), |place| read(source, place, end))?;
    ranges.push((end.saturating_sub(SLOT), SLOT));
    Ok(ranges)
}

/// Reads a list of free space, and the place of the list itself. All of it lies before `end`.
pub(super) fn read(source: &Source, place: RecordPlace, end: u64) -> Result<Vec<(u64, u64)>> {
    let ranges = redo::read_record(source, place)?.and_then(|list| parse(&list, end).ok());
    let mut ranges = ranges.unwrap_or_default();
    ranges.push((place.address, place.len.into()));
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
                    // A new group that was deleted has members, too.
                    object.links_to == 0 && object.had_name && !released.contains(&object.address)
                };
                objects.values().filter(is_deleted).map(|object| object.address).collect()
            };
            if deleted.is_empty() {
                return Ok(());
            }
            for address in deleted {
                released.insert(address);
                match self.release(address) {
                    Ok(()) => {}
                    Err(error @ (Hdf5Error::Store(_) | Hdf5Error::Interrupted { .. })) => return Err(error),
                    // A damaged object keeps its space. The other changes must not be lost.
                    Err(_) => {}
                }
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
                let table = self.chunk_table(address)?;
                let places = table.places();
                let stored = places.iter().map(|(_, place)| (place.address, place.size));
                self.edits.freed.lock().extend(stored.chain(table.index_places()));
            }
            _ => {}
        }
        Ok(())
    }

    /// Gives the part of this writer back, and leaves the file to others. The last writer cuts the
    /// file off behind its contents. The caller excludes other writers.
    ///
    /// Writes nothing if the file ends there already.
    pub(super) fn leave(&self) -> Result<()> {
        let bytes = &self.edits.bytes;
        let is_last = !bytes.has_others();
        let has_part = self.edits.has_part.load(Ordering::Acquire);
        // The writers that left before have not cut it off.
        let is_open = || -> Result<bool> {
            let state = self.state()?;
            Ok(state.slot.is_some_and(|slot| slot.used < state.end))
        };
        if has_part || is_last && is_open()? {
            self.give_back(is_last)?;
            self.edits.has_part.store(false, Ordering::Release);
        }
        bytes.leave();
        Ok(())
    }

    /// Returns `true` if there is enough free space for a list.
    pub(super) fn has_free_space(&self) -> bool {
        let ranges = self.edits.space.lock().free_ranges();
        let freed = self.edits.freed.lock().iter().map(|(_, len)| len).sum::<u64>();
        ranges.iter().map(|(_, len)| len).sum::<u64>().saturating_add(freed) >= LEAST
    }

    fn give_back(&self, is_last: bool) -> Result<()> {
        let bytes = &self.edits.bytes;
        let state = self.state()?;
        let old = state.slot.unwrap_or(Slot { used: state.used(), ..Slot::default() });
        let mut ranges = std::mem::take(&mut *self.edits.freed.lock());
        let (used, clean_from, limit) = {
            let mut space = self.edits.space.lock();
            ranges.extend(space.free_ranges());
            let (clean_from, limit) = (space.clean_from(), space.limit());
            (space.end_part(), clean_from, limit)
        };
        let mut end = old.used;
        if limit == old.used {
            // Bytes that others take next must be zero, unless the file is cut off before.
            end = if is_last { used } else { clean_from };
            ranges.push((used, end.saturating_sub(used)));
        } else {
            ranges.push((used, limit.saturating_sub(used)));
        }
        if let Some(list) = old.free {
            ranges.extend(read(self.file().source(), list, state.end)?);
        }
        let mut ranges = joined(ranges);
        // Readers may have a state open that has these bytes: what others append must not lie there.
        let may_cut = match is_last.then(|| bytes.is_alone()).transpose() {
            Ok(is_alone) => is_alone == Some(true),
            // A writer of the HDF5 library was faster. The space is lost until the file is compacted.
            Err(_) => return Ok(()),
        };
        while let Some((start, _)) = ranges.pop_if(|(start, len)| may_cut && *start + *len == end) {
            end = start;
        }
        let list = match ranges {
            ranges if ranges.iter().map(|(_, len)| len).sum::<u64>() >= LEAST => build(&ranges),
            _ => Vec::new(),
        };
        let (mut slot, mut state) = (Slot { free: None, ..old }, state);
        if !list.is_empty() {
            let address = end.next_multiple_of(8);
            let len = u32::try_from(list.len()).unwrap_or_default();
            end = address.saturating_add(len.into()).next_multiple_of(SLOT);
            if is_last {
                end = end.saturating_add(SLOT);
            }
            // Taken before it is written: others may find the file if this writer is killed.
            slot.used = end.max(old.used);
            self.write_state(state, Slot { free: old.free, ..slot })?;
            state = self.state()?;
            self.file().source().grow(end);
            self.write(address, &[&list])?;
            bytes.sync()?;
            slot.free = Some(RecordPlace { address, len, checksum: redo::checksum(&list) });
        }
        slot.used = end;
        if !is_last {
            return self.write_state(state, slot);
        }
        if slot.free.is_some() && state.end != end {
            let line = redo::build_slot(slot);
            bytes.write_at(self.base().saturating_add(end - SLOT), &line)?;
        }
        self.cut_off(end)
    }

    /// Ends the file at an address.
    fn cut_off(&self, end: u64) -> Result<()> {
        let bytes = &self.edits.bytes;
        bytes.sync()?;
        self.write_superblock(end)?;
        // The file must not be shorter than its superblock says, also after a power failure.
        bytes.sync()?;
        bytes.set_len(self.base().saturating_add(end))?;
        Ok(bytes.sync()?)
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
