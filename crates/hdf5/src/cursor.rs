//! Reads numbers from bytes and checks each step.

use crate::checksum::lookup3;
use crate::{ParseError, Parsed};

/// Bytes of addresses and lengths ("Size of Offsets", "Size of Lengths"): 2, 4 or 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sizes {
    /// Bytes of an address.
    pub offset: u8,
    /// Bytes of a length.
    pub length: u8,
}

/// Returns the known versions as text for error messages: "0, 1".
pub(crate) fn join_known<T: ToString>(known: &[T]) -> String {
    known.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// Reads a little-endian number of any size. `None`: it does not fit into 64 bits.
#[inline]
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    if let Ok(bytes) = bytes.try_into() {
        return Some(u64::from_le_bytes(bytes));
    }
    let (low, high) = bytes.split_at(bytes.len().min(8));
    let fits = high.iter().all(|byte| *byte == 0);
    fits.then(|| low.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Reads an address like [`number`]. `Some(None)` is the undefined address (all bits set).
#[inline]
pub(crate) fn address(bytes: &[u8]) -> Option<Option<u64>> {
    if bytes.iter().all(|byte| *byte == 0xff) { Some(None) } else { number(bytes).map(Some) }
}

/// Converts a number to an index or a count. Numbers that do not fit become `usize::MAX`.
#[inline]
pub(crate) fn to_usize(number: impl TryInto<usize>) -> usize {
    number.try_into().unwrap_or(usize::MAX)
}

/// A position in some of a file's bytes. All numbers are little-endian.
///
/// If bytes are missing at the end of a cursor over a structure's first bytes, it asks for more
/// ([`ParseError::Need`]). If the cursor has all bytes ([`Cursor::whole`], [`Cursor::part`]), the
/// structure is damaged.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Address of the first byte.
    address: u64,
    /// `true` if these are all bytes of the structure.
    whole: bool,
    sizes: Sizes,
    verify: bool,
}

impl<'a> Cursor<'a> {
    /// Reads the first bytes of a structure. There may be more.
    pub fn new(bytes: &'a [u8], address: u64, sizes: Sizes) -> Self {
        Cursor { bytes, at: 0, address, whole: false, sizes, verify: true }
    }

    /// Reads all bytes of a structure.
    pub fn whole(bytes: &'a [u8], address: u64, sizes: Sizes) -> Self {
        Cursor { whole: true, ..Cursor::new(bytes, address, sizes) }
    }

    /// Verifies checksums (the default), or skips them.
    pub(crate) fn verifying(self, verify: bool) -> Self {
        Cursor { verify, ..self }
    }

    /// Returns the sizes of addresses and lengths.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Sets the sizes of addresses and lengths from here on. The superblock needs it: it stores the
    /// sizes itself.
    pub fn set_sizes(&mut self, sizes: Sizes) {
        self.sizes = sizes;
    }

    /// Address of the next byte.
    pub fn address(&self) -> u64 {
        self.address.saturating_add(self.at as u64)
    }

    /// Bytes read since the start.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Number of bytes in memory not yet read.
    pub fn remaining_len(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns `true` if all bytes in memory have been read.
    pub fn is_empty(&self) -> bool {
        self.remaining_len() == 0
    }

    /// Returns an error about the next byte.
    pub fn corrupt(&self, why: impl Into<String>) -> ParseError {
        ParseError::Corrupt { at: self.address(), why: why.into() }
    }

    /// Takes the next `len` bytes.
    pub fn take(&mut self, len: usize) -> Parsed<&'a [u8]> {
        let end = self.at.checked_add(len);
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None if self.whole => {
                Err(self.corrupt(format!("expected {len} bytes, found only {}", self.remaining_len())))
            }
            None => Err(ParseError::Need((self.at as u64).saturating_add(len as u64))),
        }
    }

    /// Takes the next `len` bytes, like [`Cursor::take`]. `len` comes from the file.
    pub fn take_u64(&mut self, len: u64) -> Parsed<&'a [u8]> {
        match usize::try_from(len) {
            Ok(len) => self.take(len),
            Err(_) => Err(self.corrupt(format!("a length of {len} bytes is larger than the address space"))),
        }
    }

    /// Skips `len` bytes.
    pub fn skip(&mut self, len: usize) -> Parsed<()> {
        self.take(len).map(|_| ())
    }

    /// Takes the next `len` bytes as a separate cursor that cannot read beyond them.
    pub fn part(&mut self, len: usize) -> Parsed<Cursor<'a>> {
        let address = self.address();
        Ok(Cursor { bytes: self.take(len)?, at: 0, address, whole: true, ..*self })
    }

    /// Returns the bytes from `start` (a [`Cursor::position`]) up to here.
    pub fn bytes_since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    /// Takes all bytes that are left.
    pub fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.bytes.len();
        rest
    }

    /// Skips bytes up to a multiple of `to`, counted from the start.
    pub fn align(&mut self, to: usize) -> Parsed<()> {
        self.skip(self.at.next_multiple_of(to.max(1)) - self.at)
    }

    /// One byte.
    pub fn u8(&mut self) -> Parsed<u8> {
        Ok(self.take(1)?.first().copied().unwrap_or_default())
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Parsed<u16> {
        Ok(u16::try_from(self.uint(2)?).unwrap_or_default())
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Parsed<u32> {
        Ok(u32::try_from(self.uint(4)?).unwrap_or_default())
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Parsed<u64> {
        self.uint(8)
    }

    /// Reads a number of `len` bytes. All bytes after the eighth must be zero.
    pub fn uint(&mut self, len: usize) -> Parsed<u64> {
        let at = self.address();
        number(self.take(len)?).ok_or_else(|| {
            let why = format!("a number of {len} bytes does not fit into 64 bits");
            ParseError::Corrupt { at, why }
        })
    }

    /// Reads a length. It has as many bytes as lengths have in this file.
    pub fn length(&mut self) -> Parsed<u64> {
        self.uint(usize::from(self.sizes.length))
    }

    /// Reads an address. `None` is the undefined address (all bits set).
    pub fn offset(&mut self) -> Parsed<Option<u64>> {
        let (at, len) = (self.address(), self.sizes.offset);
        address(self.take(usize::from(len))?).ok_or_else(|| {
            let why = format!("an address of {len} bytes does not fit into 64 bits");
            ParseError::Corrupt { at, why }
        })
    }

    /// Reads an address that must be defined. The error message says what it is the address of:
    /// `what`.
    pub fn defined_address(&mut self, what: &str) -> Parsed<u64> {
        let at = self.clone();
        self.offset()?.ok_or_else(|| at.corrupt(format!("the address of {what} is undefined")))
    }

    /// Checks the four bytes at the start of a structure.
    pub fn signature(&mut self, expected: &[u8; 4]) -> Parsed<()> {
        let at = self.clone();
        let found = self.take(4)?;
        if found == expected {
            return Ok(());
        }
        let (expected, found) = (expected.escape_ascii(), found.escape_ascii());
        Err(at.corrupt(format!("expected the signature '{expected}', found '{found}'")))
    }

    /// Reads a version number, which must be one of `known`. Other versions are refused.
    pub fn version(&mut self, what: &str, known: &[u8]) -> Parsed<u8> {
        let version = self.u8()?;
        match known.contains(&version) {
            true => Ok(version),
            false => Err(ParseError::Unsupported(format!(
                "version {version} of the {what} (known: {})",
                join_known(known)
            ))),
        }
    }

    /// Checks the checksum of the bytes from `start` up to here (lookup3, "Disk Format: Appendix
    /// A").
    pub fn checksum(&mut self, start: usize) -> Parsed<()> {
        let at = self.address();
        let bytes = self.bytes_since(start);
        let found = self.u32()?;
        if !self.verify {
            return Ok(());
        }
        let expected = lookup3(bytes);
        if expected == found { Ok(()) } else { Err(ParseError::Checksum { at, expected, found }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { offset: 8, length: 4 };

    #[test]
    fn numbers_addresses_and_needs() {
        let bytes = [1, 2, 3, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 9];
        let mut cursor = Cursor::new(&bytes, 100, SIZES);
        assert_eq!(cursor.length().unwrap(), 0x0403_0201);
        assert_eq!(cursor.offset().unwrap(), None);
        assert_eq!(cursor.address(), 112);
        assert_eq!(cursor.u16().unwrap_err(), ParseError::Need(14));
        let mut part = Cursor::new(&bytes, 100, SIZES).part(3).unwrap();
        assert_eq!(part.uint(3).unwrap(), 0x03_0201);
        assert!(matches!(part.u8().unwrap_err(), ParseError::Corrupt { at: 103, .. }));
        let wide = [1, 0, 0, 0, 0, 0, 0, 0, 0, 7];
        assert_eq!(Cursor::whole(&wide, 0, SIZES).uint(9).unwrap(), 1);
        assert!(Cursor::whole(&wide, 0, SIZES).uint(10).is_err());
    }

    #[test]
    fn checksums() {
        let mut bytes = b"OHDR some bytes".to_vec();
        bytes.extend(lookup3(&bytes).to_le_bytes());
        let check = |bytes: &[u8], verify| {
            let mut cursor = Cursor::new(bytes, 0, SIZES).verifying(verify);
            cursor.skip(15).unwrap();
            cursor.checksum(0)
        };
        check(&bytes, true).unwrap();
        bytes[5] ^= 1;
        assert!(matches!(check(&bytes, true), Err(ParseError::Checksum { at: 15, .. })));
        check(&bytes, false).unwrap();
    }
}
