//! The value of elements that were never written.

use smallvec::SmallVec;

/// The bytes of one element, in the array's in-memory byte order.
///
/// Compared by bits: -0.0 is not 0.0, and a NaN equals only a NaN of the same payload. Leaving out
/// chunks of fill value therefore never changes a bit of the elements read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillValue {
    bytes: SmallVec<[u8; 16]>,
    zero: bool,
}

impl FillValue {
    /// A fill value of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        FillValue { zero: bytes.iter().all(|b| *b == 0), bytes: SmallVec::from_slice(bytes) }
    }

    /// All bits zero.
    pub fn zero(size: usize) -> Self {
        FillValue { bytes: SmallVec::from_elem(0, size), zero: true }
    }

    /// The bytes of one element.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns `true` if all bits are zero.
    pub fn is_zero(&self) -> bool {
        self.zero
    }
}
