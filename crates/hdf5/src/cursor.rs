//! Reading numbers from bytes, each step checked.

use crate::checksum::lookup3;
use crate::{ParseError, Parsed};

/// Bytes of addresses and lengths ("Size of Offsets", "Size of Lengths"): 2, 4 or 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sizes {
    /// Of an address.
    pub offset: u8,
    /// Of a length.
    pub length: u8,
}

/// A little-endian number, unchecked but for size. `None`: it does not fit into 64 bits.
#[inline]
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    if let Ok(bytes) = bytes.try_into() {
        return Some(u64::from_le_bytes(bytes));
    }
    let (low, high) = bytes.split_at(bytes.len().min(8));
    let fits = high.iter().all(|byte| *byte == 0);
    fits.then(|| low.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// An address as [`number`]; `Some(None)` is the undefined one (all bits set).
#[inline]
pub(crate) fn address(bytes: &[u8]) -> Option<Option<u64>> {
    if bytes.iter().all(|byte| *byte == 0xff) { Some(None) } else { number(bytes).map(Some) }
}

/// A number as an index or a count; one that does not fit becomes the largest, which no memory has.
#[inline]
pub(crate) fn to_usize(number: impl TryInto<usize>) -> usize {
    number.try_into().unwrap_or(usize::MAX)
}

/// A place in some of a file's bytes. All numbers are little-endian.
///
/// If bytes are missing, a structure that is being fetched asks for more ([`ParseError::Need`]).
/// One whose bytes are all there ([`Cursor::whole`], [`Cursor::part`]) is damaged.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Address of the first byte.
    address: u64,
    /// Whether there are no more bytes than these.
    whole: bool,
    sizes: Sizes,
    verify: bool,
}

impl<'a> Cursor<'a> {
    /// The first bytes of a structure. There may be more.
    pub fn new(bytes: &'a [u8], address: u64, sizes: Sizes) -> Self {
        Cursor { bytes, at: 0, address, whole: false, sizes, verify: true }
    }

    /// All bytes of a structure.
    pub fn whole(bytes: &'a [u8], address: u64, sizes: Sizes) -> Self {
        Cursor { whole: true, ..Cursor::new(bytes, address, sizes) }
    }

    /// Verifies checksums (the default), or passes over them.
    pub(crate) fn verifying(self, verify: bool) -> Self {
        Cursor { verify, ..self }
    }

    /// How long addresses and lengths are.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Addresses and lengths from here on are of these sizes (only the superblock says so itself).
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

    /// Bytes left (of those that are there).
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Whether every byte has been read.
    pub fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// An error about the next byte.
    pub fn corrupt(&self, why: impl Into<String>) -> ParseError {
        ParseError::Corrupt { at: self.address(), why: why.into() }
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Parsed<&'a [u8]> {
        let end = self.at.checked_add(len);
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None if self.whole => {
                Err(self.corrupt(format!("{len} bytes are expected, only {} are there", self.left())))
            }
            None => Err(ParseError::Need((self.at as u64).saturating_add(len as u64))),
        }
    }

    /// As [`Cursor::take`], for a length from the file.
    pub fn take_u64(&mut self, len: u64) -> Parsed<&'a [u8]> {
        match usize::try_from(len) {
            Ok(len) => self.take(len),
            Err(_) => Err(self.corrupt(format!("a length of {len} bytes"))),
        }
    }

    /// Passes over `len` bytes.
    pub fn skip(&mut self, len: usize) -> Parsed<()> {
        self.take(len).map(|_| ())
    }

    /// Takes the next `len` bytes as a cursor of their own, which reads no further.
    pub fn part(&mut self, len: usize) -> Parsed<Cursor<'a>> {
        let address = self.address();
        Ok(Cursor { bytes: self.take(len)?, at: 0, address, whole: true, ..*self })
    }

    /// The bytes from `start` (a [`Cursor::position`]) up to here.
    pub fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.bytes.len();
        rest
    }

    /// Passes over bytes up to a multiple of `to`, counted from the start.
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

    /// A number of `len` bytes. Those beyond the eighth must be zero.
    pub fn uint(&mut self, len: usize) -> Parsed<u64> {
        let at = self.address();
        number(self.take(len)?).ok_or_else(|| {
            let why = format!("a number of {len} bytes that does not fit into 64 bits");
            ParseError::Corrupt { at, why }
        })
    }

    /// A length, of as many bytes as the file's lengths have.
    pub fn length(&mut self) -> Parsed<u64> {
        self.uint(usize::from(self.sizes.length))
    }

    /// An address; `None` is the undefined one (all bits set).
    pub fn offset(&mut self) -> Parsed<Option<u64>> {
        let (at, len) = (self.address(), self.sizes.offset);
        address(self.take(usize::from(len))?).ok_or_else(|| {
            let why = format!("an address of {len} bytes that does not fit into 64 bits");
            ParseError::Corrupt { at, why }
        })
    }

    /// An address that must be defined; `what` it is of, for the message.
    pub fn defined(&mut self, what: &str) -> Parsed<u64> {
        let at = self.clone();
        self.offset()?.ok_or_else(|| at.corrupt(format!("the address of {what} is undefined")))
    }

    /// The four bytes that a structure begins with.
    pub fn signature(&mut self, expected: &[u8; 4]) -> Parsed<()> {
        let at = self.clone();
        let found = self.take(4)?;
        if found == expected {
            return Ok(());
        }
        let (expected, found) = (expected.escape_ascii(), found.escape_ascii());
        Err(at.corrupt(format!("the signature '{expected}' is expected, found '{found}'")))
    }

    /// A version number, which must be one of `known`. Others are refused, not guessed at.
    pub fn version(&mut self, what: &str, known: &[u8]) -> Parsed<u8> {
        let version = self.u8()?;
        match known.contains(&version) {
            true => Ok(version),
            false => Err(ParseError::Unsupported(format!("version {version} of the {what}"))),
        }
    }

    /// Reads the checksum (lookup3, "Disk Format: Appendix A") of the bytes from `start` up to
    /// here.
    pub fn checksum(&mut self, start: usize) -> Parsed<()> {
        let at = self.address();
        let bytes = self.since(start);
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
