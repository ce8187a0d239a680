//! The superblock (specification II.A), its search, and driver information (II.B, "Driver Info").
//!
//! A file may begin with a user block of 512, 1024, 2048, … bytes. We search for the superblock at
//! 0 and at these offsets. Addresses count from the place where it is found, regardless of the base
//! address that it names. The HDF5 library does the same: other bytes may have been put before such
//! a file later.

use crate::messages::link::SymbolTable;
use crate::output::Output;
use crate::{Cursor, Parsed, Result, Sizes};
use hyperslab_store::{Key, RangeRead, Store};

pub const DRIVER_INFO_KIND: u16 = 0x14;

const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    pub sizes: Sizes,
    /// The stored base address. Only used for the end of the file.
    pub base: u64,
    /// End of the file, counted from byte 0 of the file when it was written. `None`: unknown.
    pub end: Option<u64>,
    /// Address of the root group's object header.
    pub root: u64,
    /// Address of the object header of the superblock extension (versions 2 and 3).
    pub extension: Option<u64>,
    /// Address of the driver information block (versions 0 and 1).
    pub driver: Option<u64>,
    /// `true` if a writer has the file open, or was killed while it wrote (version 3).
    pub writing: bool,
    /// `true` if that writer lets others read (single writer, multiple readers).
    pub swmr: bool,
}

impl Superblock {
    pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<Superblock> {
        let start = cursor.position();
        if cursor.take(SIGNATURE.len())? != SIGNATURE {
            return Err(cursor.corrupt("expected the signature of a superblock, found other bytes"));
        }
        match cursor.version("superblock", &[0, 1, 2, 3])? {
            version @ (0 | 1) => Self::parse_old(cursor, version),
            version => Self::parse_new(cursor, version, start),
        }
    }

    fn parse_old(cursor: &mut Cursor<'_>, version: u8) -> Parsed<Superblock> {
        // Versions of free space, of the root group's entry and, after a reserved byte, of shared
        // headers.
        cursor.version("free space information", &[0])?;
        cursor.version("root group's symbol table entry", &[0])?;
        cursor.skip(1)?;
        cursor.version("shared object headers", &[0])?;
        let sizes = size_bytes(cursor)?;
        // Reserved; two sizes of symbol tables; flags; version 1: size of B-trees, reserved.
        cursor.skip(1 + 2 + 2 + 4 + if version == 1 { 4 } else { 0 })?;
        let base = cursor.defined_address("the base")?;
        cursor.offset()?;
        let end = cursor.offset()?;
        let driver = cursor.offset()?;
        // The symbol table entry of the root group begins with its name offset, a length.
        cursor.length()?;
        let root = cursor.defined_address("the root group")?;
        Ok(Superblock { sizes, base, end, root, extension: None, driver, writing: false, swmr: false })
    }

    fn parse_new(cursor: &mut Cursor<'_>, version: u8, start: usize) -> Parsed<Superblock> {
        let sizes = size_bytes(cursor)?;
        let flags = cursor.u8()?;
        let base = cursor.defined_address("the base")?;
        let extension = cursor.offset()?;
        let end = cursor.offset()?;
        let root = cursor.defined_address("the root group")?;
        cursor.checksum(start)?;
        let (writing, swmr) = (version == 3 && flags & 1 != 0, version == 3 && flags & 4 != 0);
        Ok(Superblock { sizes, base, end, root, extension, driver: None, writing, swmr })
    }

    /// Returns the expected end of the file if its superblock is at `found`. It may have been
    /// written elsewhere.
    pub fn end_from(&self, found: u64) -> Option<u64> {
        Some(self.end?.saturating_sub(self.base).saturating_add(found))
    }
}

/// Entries of a symbol table node: at most twice as many.
pub(crate) const LEAF_K: u16 = 4;

/// Children of a B-tree node of links: at most twice as many.
pub(crate) const GROUP_K: u16 = 16;

/// Bytes of a superblock of version 0, and of version 3.
pub(crate) const OLD_LEN: usize = 96;
pub(crate) const NEW_LEN: usize = 48;

/// Builds a superblock of version 0, which HDF5 1.0 to 2.0 read. `base`: its offset in the file.
/// `end`: the end of the file as an address. `table`: the links of the root group, if it is an old
/// group.
pub(crate) fn build_old(base: u64, end: u64, root: u64, table: Option<SymbolTable>) -> Vec<u8> {
    let mut out = Output::new();
    // Versions: superblock, free space, root group, reserved, shared headers. Sizes; reserved.
    out.bytes(SIGNATURE).zeros(5).u8(8).u8(8).zeros(1);
    out.u16(LEAF_K).u16(GROUP_K).u32(0);
    // Base, free space, end, driver information.
    out.u64(base).address(None).u64(base.saturating_add(end)).address(None);
    // The root group's entry: name, header, kind of its cache, reserved.
    out.u64(0).u64(root).u32(table.is_some().into()).u32(0);
    match table {
        Some(table) => out.bytes(&table.build()),
        None => out.zeros(16),
    };
    out.take()
}

/// Builds a superblock of version 3, which HDF5 1.10 and later read. `base` and `end`: as in
/// [`build_old`].
pub(crate) fn build_new(base: u64, end: u64, root: u64) -> Vec<u8> {
    let mut out = Output::new();
    out.bytes(SIGNATURE).u8(3).u8(8).u8(8).u8(0);
    out.u64(base).address(None).u64(base.saturating_add(end)).u64(root).checksum().take()
}

fn size_bytes(cursor: &mut Cursor<'_>) -> Parsed<Sizes> {
    let at = cursor.clone();
    let (offset, length) = (cursor.u8()?, cursor.u8()?);
    if [offset, length].iter().all(|size| matches!(size, 2 | 4 | 8)) {
        let sizes = Sizes { offset, length };
        cursor.set_sizes(sizes);
        return Ok(sizes);
    }
    Err(at.corrupt(format!(
        "expected addresses and lengths of 2, 4 or 8 bytes, found addresses of {offset} bytes and lengths \
         of {length} bytes"
    )))
}

/// Describes a file that is split into several files.
///
/// It is a block (II.B) or, in newer files, a message (IV.A.2.u).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// Name of the driver: `NCSAfami`, `NCSAmult`.
    pub id: String,
    /// The driver's information, not parsed yet.
    pub data: Vec<u8>,
}

impl DriverInfo {
    /// Parses the block after the superblock.
    pub fn parse_block(cursor: &mut Cursor<'_>) -> Parsed<DriverInfo> {
        cursor.version("driver information block", &[0])?;
        cursor.skip(3)?;
        let len = cursor.u32()?;
        let id = cursor.take(8)?.escape_ascii().to_string();
        Ok(DriverInfo { id, data: cursor.take_u64(len.into())?.to_vec() })
    }

    pub fn parse_message(cursor: &mut Cursor<'_>) -> Parsed<DriverInfo> {
        cursor.version("driver information message", &[0])?;
        let id = cursor.take(8)?.escape_ascii().to_string();
        let len = cursor.u16()?;
        Ok(DriverInfo { id, data: cursor.take(len.into())?.to_vec() })
    }
}

/// Returns the offset of the superblock in a file of `size` bytes. `None`: it has no superblock.
pub fn find(store: &dyn Store, key: &str, size: u64) -> Result<Option<u64>> {
    let mut at = 0;
    while at + SIGNATURE.len() as u64 <= size {
        let mut found = [0; 8];
        let mut range = [RangeRead { offset: at, buf: &mut found }];
        if store.read_ranges(Key::new(key)?, None, &mut range)? && found == *SIGNATURE {
            return Ok(Some(at));
        }
        at = if at == 0 { 512 } else { at.saturating_mul(2) };
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SIZES, append_checksum, changes, needs_all, structure};
    use proptest::prelude::*;

    fn parsed(bytes: &[u8]) -> Parsed<Superblock> {
        Superblock::parse(&mut Cursor::whole(bytes, 0, SIZES))
    }

    #[test]
    fn old_versions_and_sizes() {
        let mut one = SIGNATURE.to_vec();
        one.extend([1, 0, 0, 0, 0, 4, 2, 0, 4, 0, 16, 0, 0, 0, 0, 0, 32, 0, 0, 0]);
        one.extend(structure!(512_u32, u32::MAX, 4096_u32, 96_u32, [0, 0, 32, 3, 0, 0]));
        let expected = Superblock {
            sizes: Sizes { offset: 4, length: 2 },
            base: 512,
            end: Some(4096),
            root: 800,
            extension: None,
            driver: Some(96),
            writing: false,
            swmr: false,
        };
        assert_eq!(parsed(&one), Ok(expected.clone()));
        // The superblock is found at another offset than where it was written.
        assert_eq!((expected.end_from(512), expected.end_from(0)), (Some(4096), Some(3584)));
        let mut zero = one.clone();
        zero[8] = 0;
        zero.drain(24..28);
        assert_eq!(parsed(&zero), Ok(expected));
        for (at, value) in [(0, 0), (8, 4), (9, 1), (10, 1), (12, 1), (13, 3), (14, 16)] {
            let mut wrong = one.clone();
            wrong[at] = value;
            assert!(parsed(&wrong).is_err(), "byte {at}");
        }
        needs_all(&one, parsed);
    }

    #[test]
    fn new_versions() {
        let bytes = append_checksum(structure!(SIGNATURE, [3, 8, 8, 5], 0_u64, u64::MAX, 4096_u64, 48_u64));
        let found = parsed(&bytes).unwrap();
        assert_eq!((found.root, found.end, found.extension), (48, Some(4096), None));
        assert!(found.writing && found.swmr);
        changes(&bytes, |byte| [byte ^ 4])
            .for_each(|(at, wrong)| assert!(parsed(&wrong).is_err(), "byte {at}"));
    }

    #[test]
    fn driver_information() {
        type Parser = fn(&mut Cursor<'_>) -> Parsed<DriverInfo>;
        let parse = |parse: Parser, bytes: &[u8]| {
            parse(&mut Cursor::whole(bytes, 0, SIZES)).map(|info| (info.id, info.data))
        };
        let expected = || Ok(("NCSAfami".into(), vec![1, 2]));
        assert_eq!(parse(DriverInfo::parse_block, b"\0\0\0\0\x02\0\0\0NCSAfami\x01\x02"), expected());
        assert_eq!(parse(DriverInfo::parse_message, b"\0NCSAfami\x02\0\x01\x02"), expected());
        assert!(parse(DriverInfo::parse_block, b"\0\0\0\0\xff\xff\xff\xffNCSAfami\x01\x02").is_err());
    }

    proptest! {
        #[test]
        fn what_is_built_is_parsed(end in 0..u64::MAX, root in 0..u64::MAX, old_root in any::<bool>()) {
            let expected = Superblock {
                sizes: SIZES,
                base: 0,
                end: Some(end),
                root,
                extension: None,
                driver: None,
                writing: false,
                swmr: false,
            };
            let old = build_old(0, end, root, old_root.then_some(SymbolTable { btree: 1, heap: 2 }));
            prop_assert_eq!(old.len(), OLD_LEN);
            let mut cursor = Cursor::whole(&old, 0, SIZES);
            prop_assert_eq!(Superblock::parse(&mut cursor), Ok(expected.clone()));
            // The rest of the root group's entry.
            prop_assert_eq!(cursor.remaining_len(), 24);
            let new = build_new(0, end, root);
            prop_assert_eq!(new.len(), NEW_LEN);
            prop_assert_eq!(parsed(&new), Ok(expected));
        }
    }
}
