//! Reads numbers from the bytes of a header, and checks each step. All numbers are big-endian.

use crate::HeaderError;

/// A place in the first bytes of a file.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// `true` if counts have eight bytes instead of four (`CDF\x05`).
    pub(crate) wide: bool,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0, wide: false }
    }

    /// Number of bytes read so far: the position of the next byte in the file.
    pub(crate) fn position(&self) -> u64 {
        self.at as u64
    }

    pub(crate) fn corrupt(&self, why: impl Into<String>) -> HeaderError {
        HeaderError::Corrupt { at: self.position(), why: why.into() }
    }

    pub(crate) fn take(&mut self, len: u64) -> Result<&'a [u8], HeaderError> {
        let end = self
            .position()
            .checked_add(len)
            .ok_or_else(|| self.corrupt(format!("a length of {len} bytes ends after byte 2⁶⁴")))?;
        let found = usize::try_from(end).ok().and_then(|end| Some((end, self.bytes.get(self.at..end)?)));
        let Some((end, bytes)) = found else { return Err(HeaderError::Need(end)) };
        self.at = end;
        Ok(bytes)
    }

    /// Returns the next `len` bytes. Skips padding to a multiple of four, which may hold anything.
    pub(crate) fn take_padded(&mut self, len: u64) -> Result<&'a [u8], HeaderError> {
        let bytes = self.take(len)?;
        self.take(len.next_multiple_of(4) - len)?;
        Ok(bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, HeaderError> {
        Ok(u32::try_from(self.uint(4)?).unwrap_or_default())
    }

    /// A number of `len` bytes, at most eight.
    pub(crate) fn uint(&mut self, len: u64) -> Result<u64, HeaderError> {
        Ok(self.take(len)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A number as wide as this format's counts.
    pub(crate) fn count(&mut self) -> Result<u64, HeaderError> {
        self.uint(if self.wide { 8 } else { 4 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_padding_and_needs() {
        let bytes = [0, 0, 1, 2, 7, 8, 9, 1, 0, 0, 0, 0, 0, 0, 0, 5];
        let mut cursor = Cursor::new(&bytes);
        assert_eq!(cursor.count(), Ok(0x102));
        assert_eq!(cursor.take_padded(3), Ok(&[7, 8, 9][..]));
        cursor.wide = true;
        assert_eq!(cursor.count(), Ok(5));
        assert_eq!(cursor.take(0), Ok(&[][..]));
        assert_eq!(cursor.u32(), Err(HeaderError::Need(20)));
        assert_eq!(cursor.take(1 << 40), Err(HeaderError::Need((1 << 40) + 16)));
        assert!(matches!(cursor.take(u64::MAX), Err(HeaderError::Corrupt { at: 16, .. })));
        assert!(matches!(Cursor::new(&bytes).take_padded(u64::MAX), Err(HeaderError::Need(u64::MAX))));
    }
}
