//! Parses the directory of an archive from bytes.
//!
//! 1. [`find`] searches the last bytes of the archive for the end of the directory. It searches
//!    backwards for a record whose comment ends exactly where the archive does. This skips bytes
//!    that only look like such a record, in a comment or in a member's data. It also skips a record
//!    followed by what a killed writer left.
//! 2. If a locator precedes the record, the archive is a zip64 archive, and the zip64 end record
//!    has the numbers.
//! 3. All offsets are relative to the start of the archive. The file may start earlier, if
//!    something precedes the archive (a self-extracting program). The directory ends where its end
//!    record begins, which gives the difference.
//! 4. [`Records`] walks the directory.
//!
//! Section numbers refer to the specification, PKWARE's APPNOTE.TXT 6.3.10.

use super::bytes::{slice_at, u16_at, u32_at, u64_at};
use super::error::ZipError;
use super::member::HEADER;

/// Maximum size of the end records: the zip64 end record, its locator, the end record, a comment.
pub(super) const TAIL: usize = END64 + LOCATOR + END + 0xFFFF;

const END: usize = 22;
const LOCATOR: usize = 20;
const END64: usize = 56;
const RECORD: usize = 46;

pub(super) const END_NAME: u32 = 0x0605_4b50;
pub(super) const LOCATOR_NAME: u32 = 0x0706_4b50;
pub(super) const END64_NAME: u32 = 0x0606_4b50;
pub(super) const RECORD_NAME: u32 = 0x0201_4b50;
const SIGNATURE_NAME: u32 = 0x0505_4b50;

/// The extra field for numbers that need 64 bits (4.5.3).
pub(super) const ZIP64_FIELD: u16 = 1;

/// Location of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Offset of the first byte in the file.
    pub(super) offset: u64,
    /// Length in bytes.
    pub(super) len: u64,
    /// Bytes in front of the archive, to be added to all offsets in it.
    pub(super) before: u64,
    /// The comment of the archive.
    pub(super) comment: Vec<u8>,
    /// The number of records according to the end record.
    count: Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    /// Modulo 65536: some writers exceed the field without zip64.
    Low(u16),
    All(u64),
}

/// Finds the directory of a file of `size` bytes from its last [`TAIL`] bytes, or from all.
pub(super) fn find(tail: &[u8], size: u64) -> Result<Found, ZipError> {
    let start = size.saturating_sub(tail.len() as u64);
    let mut at = tail.len().checked_sub(END);
    let mut wrong = ZipError::NoEnd { searched: tail.len() as u64 };
    while let Some(place) = at {
        if u32_at(tail, place) == Some(END_NAME) && ends_here(tail, place) {
            match found_at(tail, start, place) {
                Ok(found) => return Ok(found),
                // It may be part of a comment. The first record found determines the error.
                Err(error) => {
                    if matches!(wrong, ZipError::NoEnd { .. }) {
                        wrong = error;
                    }
                }
            }
        }
        at = place.checked_sub(1);
    }
    Err(wrong)
}

/// Returns whether the comment of an end record ends at the end of the file.
fn ends_here(tail: &[u8], place: usize) -> bool {
    u16_at(tail, place + 20).is_some_and(|len| place + END + usize::from(len) == tail.len())
}

/// Reads the end record at a position of the tail.
fn found_at(tail: &[u8], start: u64, place: usize) -> Result<Found, ZipError> {
    let fail = |why| ZipError::Directory { offset: start + place as u64, why };
    let short = || fail("the end of the directory is cut off");
    let disks = (u16_at(tail, place + 4).ok_or_else(short)?, u16_at(tail, place + 6).ok_or_else(short)?);
    let count = u16_at(tail, place + 10).ok_or_else(short)?;
    let on_this = u16_at(tail, place + 8).ok_or_else(short)?;
    let len = u32_at(tail, place + 12).ok_or_else(short)?;
    let offset = u32_at(tail, place + 16).ok_or_else(short)?;
    let comment = tail.get(place + END..).unwrap_or_default().to_vec();
    if let Some((end, len, offset, count)) = zip64_before(tail, start, place)? {
        let before = starts_before(end, len, offset).ok_or_else(|| fail("the directory overlaps its end"))?;
        let count = Count::All(count);
        return Ok(Found { offset: offset.saturating_add(before), len, before, comment, count });
    }
    if disks != (0, 0) || on_this != count {
        return Err(ZipError::Disks);
    }
    let (len, offset) = (u64::from(len), u64::from(offset));
    let before = starts_before(start + place as u64, len, offset)
        .ok_or_else(|| fail("the directory overlaps its end"))?;
    Ok(Found { offset: offset + before, len, before, comment, count: Count::Low(count) })
}

/// Bytes in front of an archive whose directory of `len` bytes at `offset` ends at `end`.
fn starts_before(end: u64, len: u64, offset: u64) -> Option<u64> {
    end.checked_sub(len)?.checked_sub(offset)
}

/// Reads the zip64 end record, if there is one (4.3.14, 4.3.15).
///
/// Returns its position, and the directory's length, offset and number of records.
fn zip64_before(tail: &[u8], start: u64, place: usize) -> Result<Option<(u64, u64, u64, u64)>, ZipError> {
    let Some(locator) = place.checked_sub(LOCATOR) else { return Ok(None) };
    if u32_at(tail, locator) != Some(LOCATOR_NAME) {
        return Ok(None);
    }
    let fail = |why| ZipError::Directory { offset: start + locator as u64, why };
    let short = || fail("the end of the directory is cut off");
    if u32_at(tail, locator + 4) != Some(0) || u32_at(tail, locator + 16).is_none_or(|disks| disks > 1) {
        return Err(ZipError::Disks);
    }
    let stated = u64_at(tail, locator + 8).ok_or_else(short)?;
    // At the stated offset or, if something precedes the archive, directly before the locator.
    let stated = stated.checked_sub(start).and_then(|at| usize::try_from(at).ok());
    let right_before = locator.checked_sub(END64);
    let here = |at: &usize| u32_at(tail, *at) == Some(END64_NAME) && *at < locator;
    let Some(end) = stated.filter(here).or(right_before.filter(here)) else {
        return Err(fail("there is no end record of zip64 where its locator says"));
    };
    let disks = (u32_at(tail, end + 16).ok_or_else(short)?, u32_at(tail, end + 20).ok_or_else(short)?);
    let (on_this, count) =
        (u64_at(tail, end + 24).ok_or_else(short)?, u64_at(tail, end + 32).ok_or_else(short)?);
    if disks != (0, 0) || on_this != count {
        return Err(ZipError::Disks);
    }
    let len = u64_at(tail, end + 40).ok_or_else(short)?;
    let offset = u64_at(tail, end + 48).ok_or_else(short)?;
    Ok(Some((start + end as u64, len, offset, count)))
}

/// One record of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record<'d> {
    /// The whole record.
    pub(super) bytes: &'d [u8],
    /// The name as stored.
    name: &'d [u8],
    pub(super) flags: u16,
    pub(super) method: u16,
    pub(super) crc: u32,
    /// Stored size in bytes.
    pub(super) stored: u64,
    /// Size of the member in bytes.
    pub(super) size: u64,
    /// Offset of its local header in the file.
    pub(super) header: u64,
    pub(super) name_len: u16,
    pub(super) extra_len: u16,
}

impl Record<'_> {
    /// Flag 11: the name is UTF-8 (4.4.4).
    pub(super) const UTF8: u16 = 1 << 11;

    /// The member's key. `None` for a directory or a name that is not a key.
    ///
    /// A name is not a key if it is absolute, contains `..` or a backslash, or is not UTF-8
    /// although the flag says so.
    pub(super) fn key(&self) -> Option<String> {
        let name = if self.flags & Self::UTF8 != 0 || self.name.is_ascii() {
            std::str::from_utf8(self.name).ok()?.to_owned()
        } else {
            super::cp437::decode(self.name)
        };
        crate::Key::new(&name).is_ok().then_some(name)
    }
}

/// The records of a directory.
#[derive(Debug)]
pub(super) struct Records<'d> {
    found: &'d Found,
    bytes: &'d [u8],
    at: usize,
    seen: u64,
}

impl<'d> Records<'d> {
    /// The records of a directory with these bytes.
    pub(super) fn new(found: &'d Found, bytes: &'d [u8]) -> Self {
        Records { found, bytes, at: 0, seen: 0 }
    }

    /// The next record. `None` at the end, if the number of records is as stated.
    pub(super) fn next(&mut self) -> Result<Option<Record<'d>>, ZipError> {
        let at = self.at;
        let fail = |why| ZipError::Directory { offset: self.found.offset.saturating_add(at as u64), why };
        let name = u32_at(self.bytes, at);
        if at == self.bytes.len() || name == Some(SIGNATURE_NAME) {
            let complete = match self.found.count {
                Count::Low(low) => self.seen & 0xFFFF == u64::from(low),
                Count::All(count) => self.seen == count,
            };
            return if complete {
                Ok(None)
            } else {
                Err(fail("there are more or fewer members than it says"))
            };
        }
        if name != Some(RECORD_NAME) {
            return Err(fail("a record of a member is expected"));
        }
        let record = parse(self.bytes, at).ok_or_else(|| fail("the record of a member is cut off"))?;
        let (mut record, disk) = record.map_err(fail)?;
        if disk != 0 {
            return Err(ZipError::Disks);
        }
        // All members and their headers must be before the directory. This check stops any size
        // larger than the archive.
        let around = HEADER as u64 + u64::from(record.name_len);
        let header = record.header.checked_add(self.found.before);
        let end = header.and_then(|header| header.checked_add(around)?.checked_add(record.stored));
        match header.zip(end) {
            Some((header, end)) if end <= self.found.offset => record.header = header,
            _ => return Err(fail("the member lies outside of the archive")),
        }
        self.at += record.bytes.len();
        self.seen += 1;
        Ok(Some(record))
    }
}

/// Parses a record with its offset as stored, and its disk. `None` if it is cut off.
fn parse(bytes: &[u8], at: usize) -> Option<Result<(Record<'_>, u32), &'static str>> {
    let (name_len, extra_len) = (u16_at(bytes, at + 28)?, u16_at(bytes, at + 30)?);
    let (name_at, comment_len) = (at + RECORD, u16_at(bytes, at + 32)?);
    let (extra_at, extra_size) = (name_at + usize::from(name_len), usize::from(extra_len));
    let len = RECORD + usize::from(name_len) + extra_size + usize::from(comment_len);
    let mut record = Record {
        bytes: slice_at(bytes, at, len)?,
        name: slice_at(bytes, name_at, usize::from(name_len))?,
        flags: u16_at(bytes, at + 8)?,
        method: u16_at(bytes, at + 10)?,
        crc: u32_at(bytes, at + 16)?,
        stored: u64::from(u32_at(bytes, at + 20)?),
        size: u64::from(u32_at(bytes, at + 24)?),
        header: u64::from(u32_at(bytes, at + 42)?),
        name_len,
        extra_len,
    };
    let mut disk = u32::from(u16_at(bytes, at + 34)?);
    // Numbers that do not fit are in the extra field, in this order (4.5.3).
    let mut wide = wide_numbers(slice_at(bytes, extra_at, extra_size)?);
    for number in [&mut record.size, &mut record.stored, &mut record.header] {
        if *number == u64::from(u32::MAX) {
            match wide {
                // Without a zip64 field, the number itself is this large.
                None => {}
                Some(field) => {
                    let Some((first, rest)) = field.split_first_chunk::<8>() else {
                        return Some(Err("the numbers of zip64 are cut off"));
                    };
                    (*number, wide) = (u64::from_le_bytes(*first), Some(rest));
                }
            }
        }
    }
    if disk == u32::from(u16::MAX) {
        disk = wide.and_then(|field| u32_at(field, 0)).unwrap_or(disk);
    }
    Some(Ok((record, disk)))
}

/// The zip64 extra field. A field that is cut off ends the search.
fn wide_numbers(extra: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    loop {
        let (name, len) = (u16_at(extra, at)?, usize::from(u16_at(extra, at + 2)?));
        let field = slice_at(extra, at + 4, len)?;
        if name == ZIP64_FIELD {
            return Some(field);
        }
        at += 4 + len;
    }
}
