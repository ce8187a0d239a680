//! Metadata cache images. When the HDF5 library closes a file, it may leave metadata in one block
//! instead of writing each structure to its place.
//!
//! A message of the superblock extension says where the block is. The block holds entries: an
//! address in the file and the bytes that belong there. Until somebody opens the file for writing,
//! the bytes at those addresses are stale, so the entries are read instead.

use crate::object_header::ObjectHeader;
use crate::source::Source;
use crate::{Bytes, Cursor, Parsed, Result};

pub const KIND: u16 = 0x18;

const IMAGE: &str = "metadata cache image";

/// Smallest entry in bytes: kind, flags, ring, age, three counts of relatives, and its rank.
const LEAST: u64 = 4 + 3 * 2 + 4;

/// Reads the image that a superblock extension names, if any. Returns addresses and bytes.
pub(crate) fn read(source: &Source, extension: &ObjectHeader) -> Result<Vec<(u64, Bytes)>> {
    let Some(message) = extension.message(KIND) else { return Ok(Vec::new()) };
    let place = place(source.cursor(&message.data, message.address));
    let place =
        place.map_err(|why| source.structure_error("metadata cache image message", message.address, why))?;
    let Some((address, len)) = place else { return Ok(Vec::new()) };
    let bytes = source.read(IMAGE, address, len)?;
    entries(&bytes, source.cursor(&bytes, address)).map_err(|why| source.structure_error(IMAGE, address, why))
}

/// Returns address and length of the image. `None`: there is no image.
fn place(mut cursor: Cursor<'_>) -> Parsed<Option<(u64, u64)>> {
    cursor.version("metadata cache image message", &[0])?;
    let (address, len) = (cursor.offset()?, cursor.length()?);
    Ok(address.map(|address| (address, len)))
}

/// Parses the entries of an image. `cursor` is over the image's `bytes`.
fn entries(bytes: &Bytes, mut cursor: Cursor<'_>) -> Parsed<Vec<(u64, Bytes)>> {
    cursor.signature(b"MDCI")?;
    cursor.version(IMAGE, &[0])?;
    cursor.skip(1)?;
    cursor.length()?;
    let at = cursor.clone();
    let count = u64::from(cursor.u32()?);
    if count.saturating_mul(LEAST) > bytes.len() as u64 {
        return Err(at.corrupt(format!(
            "expected at least {} bytes for {count} entries, found {} bytes",
            count.saturating_mul(LEAST),
            bytes.len()
        )));
    }
    let mut found = Vec::new();
    for _ in 0..count {
        // Kind, flags, ring and age; number of children; number of dirty children.
        cursor.skip(4 + 2 * 2)?;
        let parents = usize::from(cursor.u16()?);
        cursor.skip(4)?;
        let (place, len) = (cursor.defined_address("an entry")?, cursor.length()?);
        cursor.skip(parents.saturating_mul(usize::from(cursor.sizes().offset)))?;
        let start = cursor.position();
        cursor.take_u64(len)?;
        found.push((place, bytes.slice(start..cursor.position())));
    }
    cursor.checksum(0)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SIZES, append_checksum, changes, structure};

    fn image(count: u32) -> Vec<u8> {
        let mut bytes = structure!(b"MDCI\0\0", 100u64, count);
        for (parents, address, data) in [(0u16, 48u64, &b"first"[..]), (2, 5000, b"second")] {
            let head = structure!([17, 5, 1, 0, 1, 0, 1, 0], parents, [0xff; 4], address, data.len() as u64);
            bytes.extend(structure!(head, vec![9; 8 * usize::from(parents)], data));
        }
        append_checksum(bytes)
    }

    fn parsed(bytes: &[u8], verify: bool) -> Parsed<Vec<(u64, Bytes)>> {
        entries(&bytes.to_vec().into(), Cursor::whole(bytes, 0, SIZES).verifying(verify))
    }

    #[test]
    fn entries_with_their_addresses() {
        let found = parsed(&image(2), true).unwrap();
        let found: Vec<(u64, &[u8])> = found.iter().map(|(address, bytes)| (*address, &bytes[..])).collect();
        assert_eq!(found, [(48, &b"first"[..]), (5000, &b"second"[..])]);
    }

    #[test]
    fn what_cannot_be_right() {
        for count in [0, 1, 3, 1 << 30] {
            assert!(parsed(&image(count), true).is_err(), "{count}");
        }
        let good = image(2);
        for (at, bad) in changes(&good, |byte| [byte ^ 0x55]) {
            assert!(parsed(&bad, true).is_err(), "byte {at}");
            let _ = parsed(&bad, false);
            assert!(parsed(&good[..at], false).is_err());
        }
    }
}
