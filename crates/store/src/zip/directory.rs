//! The directory of an archive, parsed from bytes.
//!
//! 1. [`find`] looks in the last bytes of the archive for the end of the directory: from the back,
//!    for a record whose comment ends exactly where the archive does. Bytes that only look like
//!    such a record, in a comment or in the data of a member, are passed over, and so is a record
//!    behind which a killed writer left something else.
//! 2. Where a locator stands before it, the archive is one of zip64, and its own end record has the
//!    numbers.
//! 3. All offsets count from where the archive begins, which is later than the file where something
//!    stands before it (a self-extracting program). The directory ends where its end record
//!    begins, so that the difference is known.
//! 4. [`Records`] walks the directory.
//!
//! The specification: PKWARE's APPNOTE.TXT 6.3.10; sections are cited from there.

use super::bytes::{slice_at, u16_at, u32_at, u64_at};
use super::error::ZipError;
use super::member::HEADER;

/// The most bytes at the end of an archive that its end records take: zip64's, its locator, the
/// end of the directory, a comment.
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

/// The extra field of numbers that need 64 bits (4.5.3).
pub(super) const ZIP64_FIELD: u16 = 1;

/// Where the directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The first byte, from the start of the file.
    pub(super) offset: u64,
    /// Bytes.
    pub(super) len: u64,
    /// Bytes before the archive: they are added to all offsets in it.
    pub(super) before: u64,
    /// The comment of the archive.
    pub(super) comment: Vec<u8>,
    /// How many records it says there are, as far as the end record has room for that.
    count: Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    /// Modulo 65536: some writers go on without zip64.
    Low(u16),
    All(u64),
}

/// Finds the directory of a file of `size` bytes by its last bytes, [`TAIL`] or all.
pub(super) fn find(tail: &[u8], size: u64) -> Result<Found, ZipError> {
    let start = size.saturating_sub(tail.len() as u64);
    let mut at = tail.len().checked_sub(END);
    let mut wrong = ZipError::NoEnd { searched: tail.len() as u64 };
    while let Some(place) = at {
        if u32_at(tail, place) == Some(END_NAME) && ends_here(tail, place) {
            match found_at(tail, start, place) {
                Ok(found) => return Ok(found),
                // It may be a piece of a comment. The first one seen tells what is wrong.
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

/// Whether the comment of an end record ends with the file.
fn ends_here(tail: &[u8], place: usize) -> bool {
    u16_at(tail, place + 20).is_some_and(|len| place + END + usize::from(len) == tail.len())
}

/// What an end record at a place of the tail says.
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

/// How many bytes are before an archive whose directory of `len` bytes at `offset` ends at `end`.
fn starts_before(end: u64, len: u64, offset: u64) -> Option<u64> {
    end.checked_sub(len)?.checked_sub(offset)
}

/// What the end record of zip64 says, if there is one: where it begins, length, offset and number
/// of records of the directory (4.3.14, 4.3.15).
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
    // Where it says, or, if something stands before the archive, right before.
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
    /// All of it.
    pub(super) bytes: &'d [u8],
    /// The name as it is stored.
    name: &'d [u8],
    pub(super) flags: u16,
    pub(super) method: u16,
    pub(super) crc: u32,
    /// Bytes that are stored.
    pub(super) stored: u64,
    /// Bytes of the member.
    pub(super) size: u64,
    /// Where its local header is, from the start of the file.
    pub(super) header: u64,
    pub(super) name_len: u16,
    pub(super) extra_len: u16,
}

impl Record<'_> {
    /// Flag 11: the name is UTF-8 (4.4.4).
    pub(super) const UTF8: u16 = 1 << 11;

    /// The member's key; `None`: a directory, or a name that is no key: absolute, with `..`, with a
    /// backslash, not UTF-8 though it says so.
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
    /// Of a directory, and its bytes.
    pub(super) fn new(found: &'d Found, bytes: &'d [u8]) -> Self {
        Records { found, bytes, at: 0, seen: 0 }
    }

    /// The next record; `None` at the end, if there are as many as there should be.
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
        // All members lie before the directory, with their headers: no size that is larger than the
        // archive goes on from here.
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

/// A record with its offset as stored, and its disk. `None`: cut off.
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
    // Those that do not fit stand in the extra field, in this order (4.5.3).
    let mut wide = wide_numbers(slice_at(bytes, extra_at, extra_size)?);
    for number in [&mut record.size, &mut record.stored, &mut record.header] {
        if *number == u64::from(u32::MAX) {
            match wide {
                // Without a field of zip64 it is just this large.
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

/// The extra field of zip64. Fields that are cut off end the search.
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
