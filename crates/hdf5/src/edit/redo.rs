//! The redo record: how several objects change together, also if their writer is killed.
//!
//! Each object is switched by a write of its own. Before the first of them, a flush writes all
//! switches to a record, and then says in the slot that the record counts. After a kill, a reader
//! finds the slot and completes the switches in its memory; a writer completes them in the file.
//! Programs that do not know the slot find some objects as before and the others as after.
//!
//! A kill can also cut a single write at the border of a page. A header of another writer may lie
//! across one, so its switch has a record, too.
//!
//! A slot may also lead to a list of free space ([`free_space`](super::free_space)), and it tells the
//! writers of the file how much of it is taken ([`shared`](super::shared)).
//!
//! The slot is the last line of 64 bytes before the end of the file in the superblock. A closed file
//! is as long as its superblock says, and has no record.

use crate::Source;
use crate::checksum::lookup3;
use crate::output::{NEW_SIZES, Output};
use crate::{Bytes, Cursor, Hdf5Error, Parsed, Result};
use hyperslab_store::StoreError;

/// Bytes of the slot.
pub(crate) const SLOT: u64 = 64;

const SLOT_SIGNATURE: &[u8; 8] = b"HSLAB\x02sl";
const RECORD_SIGNATURE: &[u8; 8] = b"HSLAB\x01re";

/// A write inside a page is whole after a kill.
const PAGE: u64 = 4096;

/// More switches than a record has.
const MOST: u32 = 1 << 24;

/// The write that switches an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    pub address: u64,
    pub old: Vec<u8>,
    pub new: Vec<u8>,
}

/// The state of a file that writers share, in its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Counts flushes of objects. A writer that finds another number reads the objects again.
    pub generation: u32,
    /// The end of the part of the file that writers have taken, an address.
    pub used: u64,
    /// Switches that may have to be completed.
    pub pending: Option<RecordPlace>,
    /// A list of free space.
    pub free: Option<RecordPlace>,
}

impl Switch {
    /// Returns `true` if the write lies across the border of a page. `base`: the offset of address 0.
    pub(super) fn crosses_page(&self, base: u64) -> bool {
        let start = base.saturating_add(self.address);
        let last = start.saturating_add(self.new.len() as u64).saturating_sub(1);
        start / PAGE != last / PAGE
    }

    /// Returns `true` if these bytes are old or new in each page: the write has happened, or not, or
    /// was cut.
    fn has_begun_from(&self, base: u64, found: &[u8]) -> bool {
        let start = base.saturating_add(self.address);
        let pages = (start..).map(|at| at / PAGE);
        let bytes = found.iter().zip(&self.old).zip(&self.new).zip(pages);
        // For each page in turn: whether its bytes may be the old ones, and the new ones.
        let (mut page, mut is_old, mut is_new) = (start / PAGE, true, true);
        for (((byte, old), new), this) in bytes {
            if this != page {
                (page, is_old, is_new) = (this, true, true);
            }
            is_old &= byte == old;
            is_new &= byte == new;
            if !is_old && !is_new {
                return false;
            }
        }
        true
    }
}

/// The place of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    pub address: u64,
    pub len: u32,
    pub checksum: u32,
}

/// Builds a record. All switches have as many new bytes as old ones.
pub(super) fn build_record(switches: &[Switch]) -> Vec<u8> {
    let mut out = Output::new();
    out.bytes(RECORD_SIGNATURE).u32(u32::try_from(switches.len()).unwrap_or(u32::MAX));
    for Switch { address, old, new } in switches {
        out.u64(*address).u16(u16::try_from(new.len()).unwrap_or(u16::MAX)).bytes(old).bytes(new);
    }
    out.take()
}

fn parse_record(cursor: &mut Cursor<'_>) -> Parsed<Vec<Switch>> {
    if cursor.take(8)? != RECORD_SIGNATURE {
        return Err(cursor.corrupt("expected a redo record, found other bytes"));
    }
    let count = cursor.u32()?;
    if count > MOST {
        return Err(cursor.corrupt(format!("expected at most {MOST} switches, found {count}")));
    }
    let mut switches = Vec::new();
    for _ in 0..count {
        let (address, len) = (cursor.u64()?, usize::from(cursor.u16()?));
        switches.push(Switch { address, old: cursor.take(len)?.to_vec(), new: cursor.take(len)?.to_vec() });
    }
    Ok(switches)
}

/// Parses bytes as a record and as a slot, for a fuzz target.
#[cfg(fuzzing)]
pub(crate) fn parse_anything(bytes: &[u8]) {
    let _ = parse_record(&mut Cursor::whole(bytes, 0, NEW_SIZES));
    let _ = parse_slot(bytes);
}

/// The checksum of a record.
pub(super) fn checksum(record: &[u8]) -> u32 {
    lookup3(record)
}

/// Builds the slot.
pub(super) fn build_slot(slot: Slot) -> Vec<u8> {
    let mut out = Output::new();
    out.bytes(SLOT_SIGNATURE).u32(slot.generation).u64(slot.used);
    for place in [slot.pending, slot.free] {
        let RecordPlace { address, len, checksum } = place.unwrap_or_default();
        out.u64(address).u32(len).u32(checksum);
    }
    out.fill(60).checksum().take()
}

/// Parses a slot. `None`: there is none.
pub(crate) fn parse_slot(bytes: &[u8]) -> Option<Slot> {
    let mut cursor = Cursor::whole(bytes, 0, NEW_SIZES);
    let stored = u32::from_le_bytes(bytes.get(60..64)?.try_into().ok()?);
    if cursor.take(8).ok()? != SLOT_SIGNATURE || lookup3(bytes.get(..60)?) != stored {
        return None;
    }
    let (generation, used) = (cursor.u32().ok()?, cursor.u64().ok()?);
    let mut place = || {
        let place = RecordPlace {
            address: cursor.u64().ok()?,
            len: cursor.u32().ok()?,
            checksum: cursor.u32().ok()?,
        };
        Some((place.len > 0).then_some(place))
    };
    Some(Slot { generation, used, pending: place()?, free: place()? })
}

/// Reads the slot before the end of the file. `None`: there is none.
pub(crate) fn read_slot(source: &Source, end: u64) -> Result<Option<Slot>> {
    let Some(slot) = end.checked_sub(SLOT).filter(|at| at % SLOT == 0 && end <= source.end()) else {
        return Ok(None);
    };
    let mut bytes = vec![0; 64];
    match source.read_into("slot", [(slot, &mut bytes[..])]) {
        // The last writer has cut the file off since this reader learned its size: a closed file has no slot
        // there. The structures of its last state lie before the cut.
        Err(Hdf5Error::Store(StoreError::OutOfRange { .. })) => Ok(None),
        read => read.map(|()| parse_slot(&bytes)),
    }
}

/// Reads what a slot leads to. `None`: the bytes are not as they were written.
pub(super) fn read_record(source: &Source, place: RecordPlace) -> Result<Option<Bytes>> {
    let ends_inside = place.address.checked_add(place.len.into()).is_some_and(|end| end <= source.end());
    if !ends_inside {
        return Ok(None);
    }
    let record = source.read("record", place.address, place.len.into())?;
    Ok((checksum(&record) == place.checksum).then_some(record))
}

/// Returns the switches that a killed writer has not completed. `end`: the end of the file in its
/// superblock, an address.
///
/// A record counts only if each of its places has the old or the new bytes, page by page. Otherwise
/// another program has changed the file since.
pub(crate) fn pending(source: &Source, end: u64) -> Result<Vec<Switch>> {
    // A closed file ends where its superblock says.
    if source.end() <= end {
        return Ok(Vec::new());
    }
    let slot = read_slot(source, end)?;
    let Some(place) = slot.and_then(|slot| slot.pending) else { return Ok(Vec::new()) };
    let Some(record) = read_record(source, place)? else { return Ok(Vec::new()) };
    let Ok(switches) = parse_record(&mut Cursor::whole(&record, place.address, NEW_SIZES)) else {
        return Ok(Vec::new());
    };
    for switch in &switches {
        let mut found = vec![0; switch.new.len()];
        let end = switch.address.checked_add(found.len() as u64);
        if end.is_none_or(|end| end > source.end()) {
            return Ok(Vec::new());
        }
        source.read_into("object header", [(switch.address, &mut found[..])])?;
        if !switch.has_begun_from(source.base(), &found) {
            return Ok(Vec::new());
        }
    }
    Ok(switches)
}

/// The bytes that readers see in place of the ones in the file.
pub(crate) fn instead(switches: Vec<Switch>) -> Vec<(u64, Bytes)> {
    switches.into_iter().map(|switch| (switch.address, Bytes::from(switch.new))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::source;
    use hyperslab_store::FileStore;
    use std::fs::{self, OpenOptions};
    use std::sync::Arc;

    /// The last writer ends between a reader's look at the size and its read of the slot.
    #[test]
    fn a_file_that_was_cut_off_has_no_slot() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.h5");
        fs::write(&path, [0; 4096]).unwrap();
        let store = FileStore::open(&path).unwrap().unwrap();
        let key = store.key().to_owned();
        let reader = Source::new(Arc::new(store), &key, 0).unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(1024).unwrap();
        assert_eq!(reader.end(), 4096);
        assert!(read_slot(&reader, 2048).unwrap().is_none());
        assert!(reader.read("header", 1984, 64).is_err());
    }

    fn file(slot: &[u8], record: &[u8]) -> Vec<u8> {
        let mut bytes = vec![7; 256];
        bytes[100..100 + record.len()].copy_from_slice(record);
        bytes[128 + 64..].copy_from_slice(slot);
        bytes.push(0);
        bytes
    }

    #[test]
    fn a_cut_write_is_old_or_new_in_each_page() {
        let switch = Switch { address: 4090, old: vec![1; 10], new: vec![2; 10] };
        let cut = |first: u8, rest: u8| [vec![first; 6], vec![rest; 4]].concat();
        assert!(switch.crosses_page(0) && !switch.crosses_page(512));
        for (first, rest) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            assert!(switch.has_begun_from(0, &cut(first, rest)));
        }
        assert!(!switch.has_begun_from(512, &cut(1, 2)));
        assert!(
            !switch.has_begun_from(0, &cut(1, 3))
                && !switch.has_begun_from(0, &[1, 2, 1, 1, 1, 1, 1, 1, 1, 1])
        );
    }

    #[test]
    fn a_slot_is_one_line() {
        let place = |n| RecordPlace { address: n, len: 7, checksum: 9 };
        for slot in [
            Slot::default(),
            Slot { generation: 5, used: u64::MAX, pending: Some(place(3)), free: Some(place(4)) },
            Slot { free: Some(place(4)), ..Slot::default() },
        ] {
            let bytes = build_slot(slot);
            assert_eq!((bytes.len() as u64, parse_slot(&bytes)), (SLOT, Some(slot)));
        }
        assert_eq!(parse_slot(&[0; 64]), None);
    }

    #[test]
    fn a_record_counts_if_its_places_are_as_expected() {
        let switches = vec![
            Switch { address: 3, old: vec![7; 2], new: vec![8; 2] },
            Switch { address: 50, old: vec![1], new: vec![7] },
        ];
        let record = build_record(&switches);
        let place = RecordPlace { address: 100, len: record.len() as u32, checksum: checksum(&record) };
        let slot = build_slot(Slot { pending: Some(place), ..Slot::default() });
        let found = |bytes: &[u8]| pending(&source(bytes), 256).unwrap();
        let bytes = file(&slot, &record);
        assert_eq!(found(&bytes), switches);
        for at in [3, 4, 50, 100, 110, 192, 200, 255] {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert_eq!(found(&wrong), [], "byte {at}");
        }
        assert_eq!(found(&bytes[..256]), [], "the file was closed");
        assert_eq!(found(&file(&build_slot(Slot::default()), &record)), []);
        let outside = RecordPlace { address: u64::MAX, ..place };
        assert_eq!(
            found(&file(&build_slot(Slot { pending: Some(outside), ..Slot::default() }), &record)),
            []
        );
    }
}
