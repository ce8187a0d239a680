//! The superblock of a copy, and the bytes before it.

use crate::checksum::lookup3;
use crate::messages::link::SymbolTable;
use crate::superblock::{GROUP_K, LEAF_K, NEW_LEN, OLD_LEN, build_new};
use crate::{File, Hdf5Error, Result};
use hyperslab_store::{EditedFile, Key, RangeRead};

/// Children of a B-tree node of chunks, at most twice as many: the library's number.
pub(super) const CHUNK_K: u16 = 32;

/// Bytes of the user block that are copied at once.
const PIECE: u64 = 1 << 20;

/// Offset of the flags in a superblock of version 2 or 3.
pub(crate) const FLAGS: usize = 11;

fn byte(superblock: &[u8], at: usize) -> u8 {
    superblock.get(at).copied().unwrap_or_default()
}

/// Bytes of a superblock.
pub(super) fn len(superblock: &[u8]) -> u64 {
    match byte(superblock, 8) {
        0 => OLD_LEN as u64,
        1 => OLD_LEN as u64 + 4,
        _ => NEW_LEN as u64,
    }
}

/// Reads the superblock of a file. Refuses files that cannot be copied as they are.
pub(super) fn read(file: &File) -> Result<Vec<u8>> {
    if file.is_being_written() && file.inner.superblock.driver.is_none() {
        return Err(Hdf5Error::Unclosed { file: file.source().name() });
    }
    read_unclosed(file)
}

/// Reads the superblock of a file, which its writer may have left open. The result says that it is
/// closed.
pub(crate) fn read_unclosed(file: &File) -> Result<Vec<u8>> {
    let source = file.source();
    let refuse = |what: &str| Err(source.unsupported(format!("compacting {what}")));
    let found = &file.inner.superblock;
    if found.driver.is_some() {
        return refuse("a file that is split into several files");
    }
    let sizes = file.sizes();
    if (sizes.offset, sizes.length) != (8, 8) {
        let (offset, length) = (sizes.offset, sizes.length);
        return refuse(&format!("a file with addresses of {offset} bytes and lengths of {length} bytes"));
    }
    let most = source.end().min(OLD_LEN as u64 + 4);
    let mut bytes = vec![0; usize::try_from(most).unwrap_or(OLD_LEN)];
    source.read_into("superblock", [(0, &mut bytes[..])])?;
    bytes.truncate(usize::try_from(len(&bytes)).unwrap_or(NEW_LEN));
    let number = |at: usize| u16::from_le_bytes([byte(&bytes, at), byte(&bytes, at + 1)]);
    if byte(&bytes, 8) < 2 && (number(16), number(18)) != (LEAF_K, GROUP_K) {
        let (leaf, group) = (number(16), number(18));
        return refuse(&format!("a file with groups of other nodes (leaf k {leaf}, group k {group})"));
    }
    if byte(&bytes, 8) == 1 && number(24) != CHUNK_K {
        return refuse(&format!("a file with chunk indexes of other nodes (k {})", number(24)));
    }
    if byte(&bytes, 8) >= 2
        && let Some(flags) = bytes.get_mut(FLAGS)
    {
        *flags = 0;
    }
    Ok(bytes)
}

/// Returns a superblock that can have an extension: of version 2 or later.
pub(super) fn with_extension(superblock: &[u8]) -> Vec<u8> {
    if byte(superblock, 8) >= 2 {
        return superblock.to_vec();
    }
    let mut new = build_new(0, 0, 0);
    if let Some(version) = new.get_mut(8) {
        // HDF5 1.8 reads it.
        *version = 2;
    }
    new
}

/// Returns the superblock of the copy. `base`: its offset. `end`, `root`, `extension`: addresses.
/// `table`: the links of the root group, if it is an old group.
pub(super) fn moved(
    old: &[u8],
    base: u64,
    end: u64,
    root: u64,
    table: Option<&SymbolTable>,
    extension: Option<u64>,
) -> Vec<u8> {
    let mut new = old.to_vec();
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(place) = new.get_mut(at..at.saturating_add(bytes.len())) {
            place.copy_from_slice(bytes);
        }
    };
    let end = base.saturating_add(end).to_le_bytes();
    let (base, root) = (base.to_le_bytes(), root.to_le_bytes());
    let undefined = [0xff; 8];
    let version = byte(old, 8);
    if version < 2 {
        // Base, free space, end, driver information; then the root group's entry.
        let at = if version == 0 { 24 } else { 28 };
        put(at, &base);
        put(at + 8, &undefined);
        put(at + 16, &end);
        put(at + 24, &undefined);
        put(at + 40, &root);
        // The entry has the addresses of B-tree and heap again.
        put(at + 48, &u32::from(table.is_some()).to_le_bytes());
        put(at + 56, &table.map_or_else(|| vec![0; 16], SymbolTable::build));
        return new;
    }
    put(12, &base);
    put(20, &extension.map_or(undefined, u64::to_le_bytes));
    put(28, &end);
    put(36, &root);
    let checksum = lookup3(new.get(..NEW_LEN - 4).unwrap_or_default());
    if let Some(place) = new.get_mut(NEW_LEN - 4..NEW_LEN) {
        place.copy_from_slice(&checksum.to_le_bytes());
    }
    new
}

/// Copies the bytes before the superblock.
pub(super) fn copy_user_block(file: &File, into: &EditedFile) -> Result<()> {
    let source = file.source();
    let mut at = 0;
    while at < source.base() {
        let len = PIECE.min(source.base() - at);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let mut range = [RangeRead { offset: at, buf: &mut bytes }];
        source.store().read_ranges(Key::new(source.key())?, None, &mut range)?;
        into.write_at(at, &bytes)?;
        at += len;
    }
    Ok(())
}
