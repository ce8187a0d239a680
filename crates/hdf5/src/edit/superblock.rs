//! The superblock of a file that is being changed: which of its bytes are rewritten.

use super::FileSpace;
use crate::checksum::lookup3;
use crate::compact::pages;
use crate::error::Built;
use crate::superblock::{GROUP_K, LEAF_K, NEW_LEN, OLD_LEN, build_new, build_old};
use crate::{Libver, Source};
use hyperslab_store::EditedFile;

/// Children of a B-tree node of chunks, at most twice as many: the library's number.
const CHUNK_K: u16 = 32;

/// Reads the end of the file, an address, as it is now.
pub(super) fn read_end(bytes: &EditedFile, base: u64, place: &Place) -> crate::Result<u64> {
    let at = place.end_at();
    let mut end = [0; 8];
    bytes.read_at(base.saturating_add(at as u64), &mut end)?;
    Ok(u64::from_le_bytes(end).saturating_sub(place.base()))
}

/// Builds the superblock's extension of a new file.
pub(super) fn recorded(space: FileSpace, libver: Libver) -> Built<Vec<u8>> {
    let version = if libver == Libver::Earliest { 1 } else { 2 };
    // The size of pages counts for files with pages only. This is the library's usual one.
    pages::extension(version, space.strategy, space.threshold, 4096)
}

/// A superblock in a file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    bytes: Vec<u8>,
}

impl Place {
    /// Makes the superblock of a new file. `recorded`: its extension, or nothing.
    pub fn new(base: u64, root: u64, libver: Libver, recorded: &[u8]) -> Place {
        let bytes = match libver {
            Libver::Earliest if recorded.is_empty() => build_old(base, 0, root, None),
            _ => build_new(base, 0, root),
        };
        let mut place = Place { bytes };
        if !recorded.is_empty() {
            // HDF5 1.8 reads version 2. The checksum follows with the end of the file.
            place.put(8, &[if libver == Libver::Earliest { 2 } else { 3 }]);
            place.put(20, &(NEW_LEN as u64).to_le_bytes());
            place.bytes.extend_from_slice(recorded);
        }
        place
    }

    /// Reads the superblock at address 0. `Err`: files with its features cannot be changed.
    pub fn read(source: &Source) -> crate::Result<Result<Place, String>> {
        let len = source.end().min(OLD_LEN as u64);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(OLD_LEN)];
        source.read_into("superblock", [(0, &mut bytes[..])])?;
        let place = Place { bytes };
        Ok(place.check().map(|()| place))
    }

    /// Refuses features that a change would damage.
    fn check(&self) -> Result<(), String> {
        let number = |at: usize| u16::from_le_bytes([self.byte(at), self.byte(at + 1)]);
        let sizes =
            if self.is_old() { [self.byte(13), self.byte(14)] } else { [self.byte(9), self.byte(10)] };
        if sizes != [8, 8] {
            return Err(format!(
                "a file with addresses of {} bytes and lengths of {} bytes",
                sizes[0], sizes[1]
            ));
        }
        if self.is_old() && (number(16), number(18)) != (LEAF_K, GROUP_K) {
            return Err(format!(
                "a file with groups of other nodes (leaf k {}, group k {})",
                number(16),
                number(18)
            ));
        }
        if self.byte(8) == 1 && number(24) != CHUNK_K {
            return Err(format!("a file with chunk indexes of other nodes (k {})", number(24)));
        }
        Ok(())
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or_default()
    }

    fn is_old(&self) -> bool {
        self.byte(8) < 2
    }

    /// Offset of the end of the file.
    fn end_at(&self) -> usize {
        match self.byte(8) {
            0 => 40,
            1 => 44,
            _ => 28,
        }
    }

    /// Address 0 in the file, by the superblock.
    fn base(&self) -> u64 {
        let at = self.end_at() - 16;
        let base = self.bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        base.map_or(0, u64::from_le_bytes)
    }

    /// Sets the end of the file, an address. Returns the bytes to write, and where: at most 20 bytes
    /// inside one line of 64.
    pub fn set_end(&mut self, end: u64) -> (u64, Vec<u8>) {
        let at = self.end_at();
        self.put(at, &self.base().saturating_add(end).to_le_bytes());
        let mut last = at + 8;
        if !self.is_old() {
            last = NEW_LEN;
            let checksum = lookup3(self.bytes.get(..NEW_LEN - 4).unwrap_or_default());
            self.put(NEW_LEN - 4, &checksum.to_le_bytes());
        }
        (at as u64, self.bytes.get(at..last).unwrap_or_default().to_vec())
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// All bytes of a new superblock, with its extension.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cursor;
    use crate::superblock::Superblock;
    use crate::testing::SIZES;

    #[test]
    fn the_end_is_set_in_place() {
        for libver in [Libver::Earliest, Libver::V110] {
            let mut place = Place::new(512, 96, libver, &[]);
            let mut bytes = place.bytes().to_vec();
            let (at, new) = place.set_end(5000);
            bytes[at as usize..at as usize + new.len()].copy_from_slice(&new);
            assert_eq!(bytes, place.bytes());
            assert!(at / 64 == (at + new.len() as u64 - 1) / 64 && new.len() <= 20);
            let found = Superblock::parse(&mut Cursor::whole(&bytes, 0, SIZES)).unwrap();
            assert_eq!((found.base, found.end, found.root), (512, Some(5512), 96));
        }
    }
}
