//! Messages that several objects share, and the table of their places.
//!
//! Specification IV.A.2, "Shared Message", versions 1 to 3; IV.A.2.p, "The Shared Message Table
//! Message"; III.H, "Disk Format: Level 1H".
//!
//! A shared message is in the header of another object (a committed datatype), or in one of the
//! file's heaps of shared messages. A heap id gives its place in the heap. The table's own indexes
//! are not needed for reading: writers use them to find equal messages.

use crate::output::Output;
use crate::{Cursor, Parsed};

pub const TABLE_KIND: u16 = 0x0f;

/// Place of a shared message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shared {
    /// The message of the same kind in the object header at this address.
    Header(u64),
    /// The message with this id, in the heap of its kind.
    Heap(Vec<u8>),
}

impl Shared {
    /// Parses the reference that replaces a shared message.
    pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<Shared> {
        let version = cursor.version("shared message", &[1, 2, 3])?;
        let kind = cursor.u8()?;
        if version == 1 {
            // Reserved bytes, then the name offset of a symbol table entry, which is unused.
            cursor.skip(6)?;
            cursor.length()?;
        }
        match (version, kind) {
            (3, 1) => Ok(Shared::Heap(cursor.take(8)?.to_vec())),
            // Before version 3 the kind was not always written.
            (1 | 2, _) | (3, 2) => Ok(Shared::Header(cursor.defined_address("a shared message")?)),
            _ => Err(cursor.corrupt(format!("expected a shared message of type 1 or 2, found type {kind}"))),
        }
    }
}

/// Builds the reference to a message in the header of a committed datatype.
pub(crate) fn build(header: u64) -> Vec<u8> {
    Output::new().u8(2).u8(2).u64(header).take()
}

/// Parses the message of the superblock extension. Returns the table's address and number of
/// indexes.
pub fn table_place(cursor: &mut Cursor<'_>) -> Parsed<(u64, u8)> {
    cursor.version("shared message table message", &[0])?;
    Ok((cursor.defined_address("the shared message table")?, cursor.u8()?))
}

/// The heaps of shared messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Kinds of messages (bit `i`: type `i`), and the address of their heap, if any.
    heaps: Vec<(u16, Option<u64>)>,
}

impl Table {
    pub fn parse(cursor: &mut Cursor<'_>, indexes: u8) -> Parsed<Table> {
        let start = cursor.position();
        cursor.signature(b"SMTB")?;
        let mut heaps = Vec::new();
        for _ in 0..indexes {
            cursor.version("shared message list", &[0])?;
            // Skipped: index type, smallest size, two limits, number of messages, index.
            cursor.skip(1)?;
            let kinds = cursor.u16()?;
            cursor.skip(4 + 2 + 2 + 2)?;
            cursor.offset()?;
            heaps.push((kinds, cursor.offset()?));
        }
        cursor.checksum(start)?;
        Ok(Table { heaps })
    }

    /// Returns the address of the heap of messages of a kind.
    pub fn heap(&self, kind: u16) -> Option<u64> {
        let bit = 1_u16.checked_shl(kind.into())?;
        self.heaps.iter().find(|(kinds, _)| kinds & bit != 0)?.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sizes;
    use crate::testing::{append_checksum, changes, needs_all, structure};

    const SIZES: Sizes = Sizes { offset: 4, length: 8 };

    fn shared(bytes: &[u8]) -> Parsed<Shared> {
        Shared::parse(&mut Cursor::whole(bytes, 0, SIZES))
    }

    #[test]
    fn all_versions() {
        let old = structure!([1, 0, 0, 0, 0, 0, 0, 0], [9; 8], 256_u32);
        assert_eq!(shared(&old), Ok(Shared::Header(256)));
        assert_eq!(shared(&[2, 0, 7, 0, 0, 0]), Ok(Shared::Header(7)));
        assert_eq!(shared(&[3, 2, 7, 0, 0, 0]), Ok(Shared::Header(7)));
        assert_eq!(shared(&[3, 1, 1, 2, 3, 4, 5, 6, 7, 8]), Ok(Shared::Heap(vec![1, 2, 3, 4, 5, 6, 7, 8])));
        let sizes = Sizes { offset: 8, length: 8 };
        assert_eq!(Shared::parse(&mut Cursor::whole(&build(99), 0, sizes)), Ok(Shared::Header(99)));
        assert!(shared(&[3, 3, 7, 0, 0, 0]).is_err());
        assert!(shared(&[3, 2, 0xff, 0xff, 0xff, 0xff]).is_err());
        assert_eq!(
            shared(&[4, 2]),
            Err(crate::ParseError::Unsupported("version 4 of the shared message (known: 1, 2, 3)".into()))
        );
    }

    #[test]
    fn tables() {
        let mut bytes = b"SMTB".to_vec();
        for (kinds, heap) in [(0x0002_u16, 0x1234_u32), (0x1008, u32::MAX)] {
            bytes.extend(structure!([0, 0], kinds, [0; 10], 5_u32, heap));
        }
        let bytes = append_checksum(bytes);
        let parse = |bytes: &[u8]| Table::parse(&mut Cursor::whole(bytes, 0, SIZES), 2);
        let table = parse(&bytes).unwrap();
        let heaps: Vec<_> = [0, 1, 3, 12, 16, 900].iter().map(|kind| table.heap(*kind)).collect();
        assert_eq!(heaps, [None, Some(0x1234), None, None, None, None]);
        needs_all(&bytes, parse);
        for (at, wrong) in changes(&bytes, |byte| [byte ^ 0x10]) {
            assert!(parse(&wrong).is_err(), "byte {at}");
        }
    }
}
