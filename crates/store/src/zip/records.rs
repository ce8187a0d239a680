//! Builds the records of written members: stored, not compressed.

use super::directory::{END_NAME, END64_NAME, LOCATOR_NAME, RECORD_NAME, Record, ZIP64_FIELD};
use super::error::ZipError;
use super::member::{HEADER_NAME, Member};

/// Version 2.0 is the oldest that readers know. Version 4.5 means zip64 (4.4.3).
const VERSION: u16 = 20;
const VERSION64: u16 = 45;

/// The attributes are Unix attributes (4.4.2).
const UNIX: u16 = 3 << 8;

/// A regular file that its owner can write and others can read.
const ATTRIBUTES: u32 = 0o100_644 << 16;

/// 1 January 1980, the start of zip's time. With the time of writing, equal data would give
/// different archives.
const DATE: u16 = 1 << 5 | 1;

/// Numbers from this value on are stored in the extra field.
const WIDE: u64 = u32::MAX as u64;

/// An archive without members.
pub(super) fn empty() -> Vec<u8> {
    end(0, 0, 0, &[])
}

fn flags(name: &str) -> u16 {
    if name.is_ascii() { 0 } else { Record::UTF8 }
}

fn name_len(name: &str) -> Result<u16, ZipError> {
    u16::try_from(name.len()).map_err(|_| ZipError::LongName(name.len()))
}

/// A number as stored in 32 bits. Larger ones are appended to `wide`.
fn narrow(number: u64, wide: &mut Vec<u8>) -> u32 {
    match u32::try_from(number) {
        Ok(small) if number < WIDE => small,
        _ => {
            wide.extend_from_slice(&number.to_le_bytes());
            u32::MAX
        }
    }
}

/// The zip64 extra field for these numbers, if there are any.
fn extra(wide: &[u8]) -> Vec<u8> {
    match u16::try_from(wide.len()) {
        Ok(len) if len > 0 => [&ZIP64_FIELD.to_le_bytes(), &len.to_le_bytes(), wide].concat(),
        _ => Vec::new(),
    }
}

fn version(extra: &[u8]) -> u16 {
    if extra.is_empty() { VERSION } else { VERSION64 }
}

/// The local header of a member (4.3.7).
pub(super) fn header(name: &str, size: u64, crc: u32) -> Result<Vec<u8>, ZipError> {
    let mut wide = Vec::new();
    let small = narrow(size, &mut wide);
    if !wide.is_empty() {
        wide.extend_from_slice(&size.to_le_bytes());
    }
    let extra = extra(&wide);
    let mut bytes = Vec::with_capacity(30 + name.len() + extra.len());
    bytes.extend_from_slice(&HEADER_NAME.to_le_bytes());
    for number in [version(&extra), flags(name), 0, 0, DATE] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for number in [crc, small, small] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&name_len(name)?.to_le_bytes());
    // At most 20 bytes.
    bytes.extend_from_slice(&u16::try_from(extra.len()).unwrap_or(0).to_le_bytes());
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(&extra);
    Ok(bytes)
}

/// Appends the directory record of a member (4.3.12).
///
/// `before` is the number of bytes in front of the archive.
pub(super) fn record(bytes: &mut Vec<u8>, name: &str, member: &Member, before: u64) -> Result<(), ZipError> {
    let mut wide = Vec::new();
    let size = narrow(member.size, &mut wide);
    let stored = narrow(member.stored, &mut wide);
    let offset = narrow(member.header.saturating_sub(before), &mut wide);
    let extra = extra(&wide);
    bytes.extend_from_slice(&RECORD_NAME.to_le_bytes());
    for number in [UNIX | version(&extra), version(&extra), flags(name), 0, 0, DATE] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for number in [member.crc, stored, size] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    // At most 28 bytes. No comment, disk 0, no internal attributes.
    for number in [name_len(name)?, u16::try_from(extra.len()).unwrap_or(0), 0, 0, 0] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&ATTRIBUTES.to_le_bytes());
    bytes.extend_from_slice(&offset.to_le_bytes());
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(&extra);
    Ok(())
}

/// The end of an archive (4.3.14 to 4.3.16).
///
/// The directory of `len` bytes has `count` records and begins at `offset`.
pub(super) fn end(count: u64, len: u64, offset: u64, comment: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut wide = Vec::new();
    let (small_len, small_offset) = (narrow(len, &mut wide), narrow(offset, &mut wide));
    let small_count = u16::try_from(count).unwrap_or(u16::MAX);
    if !wide.is_empty() || small_count == u16::MAX {
        bytes.extend_from_slice(&END64_NAME.to_le_bytes());
        // The number of bytes that follow.
        bytes.extend_from_slice(&44u64.to_le_bytes());
        for number in [UNIX | VERSION64, VERSION64, 0, 0, 0, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [count, count, len, offset] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&LOCATOR_NAME.to_le_bytes());
        bytes.extend_from_slice(&0u32.to_le_bytes());
        // Offset of the zip64 end record, directly after the directory.
        bytes.extend_from_slice(&offset.saturating_add(len).to_le_bytes());
        bytes.extend_from_slice(&1u32.to_le_bytes());
    }
    bytes.extend_from_slice(&END_NAME.to_le_bytes());
    for number in [0, 0, small_count, small_count] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&small_len.to_le_bytes());
    bytes.extend_from_slice(&small_offset.to_le_bytes());
    // It was read from a field of this width.
    bytes.extend_from_slice(&u16::try_from(comment.len()).unwrap_or(0).to_le_bytes());
    bytes.extend_from_slice(comment);
    bytes
}
