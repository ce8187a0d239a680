//! Puts numbers into bytes: the mirror of [`Cursor`](crate::Cursor).
//!
//! New files have addresses and lengths of eight bytes.

use crate::Sizes;
use crate::checksum::lookup3;
use crate::error::{BuildError, Built};

/// Sizes of addresses and lengths in new files.
pub(crate) const NEW_SIZES: Sizes = Sizes { offset: 8, length: 8 };

/// The undefined address: all bits set.
const UNDEFINED: u64 = u64::MAX;

/// The bytes of a structure under construction. All numbers are little-endian.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output(Vec<u8>);

impl Output {
    pub fn new() -> Output {
        Output::default()
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn u8(&mut self, number: u8) -> &mut Self {
        self.bytes(&[number])
    }

    pub fn u16(&mut self, number: u16) -> &mut Self {
        self.bytes(&number.to_le_bytes())
    }

    pub fn u32(&mut self, number: u32) -> &mut Self {
        self.bytes(&number.to_le_bytes())
    }

    /// An address that is defined, or a length.
    pub fn u64(&mut self, number: u64) -> &mut Self {
        self.bytes(&number.to_le_bytes())
    }

    /// An address. `None` is the undefined address.
    pub fn address(&mut self, address: Option<u64>) -> &mut Self {
        self.u64(address.unwrap_or(UNDEFINED))
    }

    /// The lowest `width` bytes of a number. The caller makes sure that the number fits.
    pub fn uint(&mut self, number: u64, width: usize) -> &mut Self {
        let bytes = number.to_le_bytes();
        self.bytes(bytes.get(..width).unwrap_or(&bytes))
    }

    /// Zeros.
    pub fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len().saturating_add(count), 0);
        self
    }

    /// Zeros up to a multiple of `to` bytes from the start.
    pub fn align(&mut self, to: usize) -> &mut Self {
        self.0.resize(self.0.len().next_multiple_of(to.max(1)), 0);
        self
    }

    /// Zeros up to `len` bytes.
    pub fn fill(&mut self, len: usize) -> &mut Self {
        self.0.resize(self.0.len().max(len), 0);
        self
    }

    /// The checksum of all bytes so far.
    pub fn checksum(&mut self) -> &mut Self {
        let checksum = lookup3(&self.0);
        self.u32(checksum)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Number of bytes that hold a number: at least one.
pub(crate) fn width(number: u64) -> u8 {
    (1..8).find(|width| number >> (8 * u32::from(*width)) == 0).unwrap_or(8)
}

/// Converts a number for a field of the format. `what` says what there is too much of.
pub(crate) fn fit<T: TryFrom<u64>>(number: impl TryInto<u64>, what: &str) -> Built<T> {
    let number = number.try_into().unwrap_or(u64::MAX);
    T::try_from(number).map_err(|_| {
        let most = (1_u128 << (8 * size_of::<T>())) - 1;
        BuildError(format!("{what}: found {number}, at most {most} are possible in HDF5"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let mut out = Output::new();
        out.u8(1).u16(2).u32(3).uint(0x01_0203, 3).align(4).address(None).fill(22).zeros(1);
        let expected = b"\x01\x02\0\x03\0\0\0\x03\x02\x01\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0";
        assert_eq!(out.take(), expected);
        assert_eq!([0, 255, 256, 65_535, 65_536, 1 << 56].map(width), [1, 1, 2, 2, 3, 8]);
        assert_eq!(fit::<u16>(65_535_u64, "names").unwrap(), 65_535);
        let error = fit::<u16>(65_536_u64, "bytes of a name").unwrap_err().to_string();
        assert_eq!(error, "bytes of a name: found 65536, at most 65535 are possible in HDF5");
    }
}
