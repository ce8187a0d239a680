//! The other direction: elements in memory become stored elements, as the HDF5 library converts them.
//!
//! Integers that are too large become the largest stored one, floats are rounded to the nearest.
//! Stored bytes that no element in memory has (padding, gaps between members) become zeros.

use super::{Conversion, MemberStep, NAME, Step};
use crate::datatype::Padding;
use crate::number::{FloatType, Integer, stored_integer};
use hyperslab_codec::{ByteOrder, CodecError, DataType, Kind};

impl Conversion {
    /// Returns what cannot be stored, if anything.
    pub fn unstorable(&self) -> Option<String> {
        self.step.unstorable()
    }

    /// Converts elements in memory to stored ones.
    pub(super) fn to_stored(&self, src: &[u8], dst: &mut Vec<u8>) -> Result<(), CodecError> {
        if let Some(what) = self.unstorable() {
            return Err(CodecError::Encode { codec: NAME, why: format!("{what} cannot be written") });
        }
        if !src.len().is_multiple_of(self.memory) {
            let why = format!("expected elements of {} bytes, found {} bytes", self.memory, src.len());
            return Err(CodecError::Encode { codec: NAME, why });
        }
        let len = (src.len() / self.memory).checked_mul(self.stored);
        let no_memory = || CodecError::Encode { codec: NAME, why: "there is not enough memory".into() };
        let len = len.ok_or_else(no_memory)?;
        dst.clear();
        dst.try_reserve_exact(len).map_err(|_| no_memory())?;
        dst.resize(len, 0);
        self.step.put(src, self.memory, dst, self.stored);
        Ok(())
    }
}

impl Step {
    fn unstorable(&self) -> Option<String> {
        match self {
            Step::Float { from, to, .. } if !from.can_store(*to) => {
                Some("a floating-point number whose leading bit is stored".into())
            }
            Step::Members(parts) => parts.iter().find_map(|part| part.step.unstorable()),
            Step::Repeat { step, .. } => step.unstorable(),
            _ => None,
        }
    }

    /// Converts elements that are `memory` bytes apart in `src` and `stored` bytes apart in `dst`,
    /// which is zero.
    fn put(&self, src: &[u8], memory: usize, dst: &mut [u8], stored: usize) {
        let pairs = src.chunks(memory).zip(dst.chunks_mut(stored));
        match self {
            Step::Copy(size) => each(pairs, *size, *size, |src, dst| dst.copy_from_slice(src)),
            Step::Integer { from, to } => {
                let memory = integer_of(*to);
                each(pairs, to.size(), from.size, |src, dst| from.put(memory.value(src), dst));
            }
            Step::Bool(from) => {
                each(pairs, 1, from.size, |src, dst| from.put(i128::from(*src != [0]), dst));
            }
            Step::Float { from, to, order } => {
                let order: ByteOrder = *order;
                let to: FloatType = *to;
                each(pairs, to.size, from.size, |src, dst| from.put(src, to, order, dst));
            }
            Step::Text { size, padding } => {
                each(pairs, *size, *size, |src, dst| put_text(src, *padding, dst))
            }
            Step::Members(parts) => {
                for MemberStep { stored: place, memory: field, step } in parts {
                    let src = src.get(field.start..).unwrap_or_default();
                    let dst = dst.get_mut(place.start..).unwrap_or_default();
                    step.put(src, memory, dst, stored);
                }
            }
            Step::Repeat { stored: inner, memory: outer, array, step } => {
                let count = array / inner;
                each(pairs, count * outer, *array, |src, dst| step.put(src, *outer, dst, *inner));
            }
        }
    }
}

/// Converts the first `from` bytes of each element in memory to the first `to` stored bytes.
fn each<'s, 'd>(
    pairs: impl Iterator<Item = (&'s [u8], &'d mut [u8])>,
    from: usize,
    to: usize,
    convert: impl Fn(&[u8], &mut [u8]),
) {
    for (src, dst) in pairs {
        if let (Some(src), Some(dst)) = (src.get(..from), dst.get_mut(..to)) {
            convert(src, dst);
        }
    }
}

/// An integer in memory as a stored one.
fn integer_of(memory: DataType) -> Integer {
    stored_integer(memory.size(), memory.order(), memory.kind() == Kind::Int)
}

/// Stores a text that ends at its first NUL.
///
/// A text that fills all bytes has no NUL at its end, even if the type promises one: PyTables and netCDF
/// store such texts. They pass through here when another element of their chunk is written, and must
/// stay as they are.
fn put_text(src: &[u8], padding: Padding, dst: &mut [u8]) {
    let len = src.iter().position(|byte| *byte == 0).unwrap_or(src.len());
    let (text, rest) = dst.split_at_mut(len.min(dst.len()));
    text.copy_from_slice(src.get(..text.len()).unwrap_or_default());
    rest.fill(if padding == Padding::SpacePadded { b' ' } else { 0 });
}

#[cfg(test)]
mod tests {
    use super::super::{Conversion, NAME};
    use crate::testing::element;
    use hyperslab_codec::{Codec, Scratch};
    use proptest::prelude::*;

    fn conversion(hex: &str) -> Conversion {
        let (datatype, element) = element(hex);
        Conversion::new(&datatype, &element).unwrap()
    }

    fn encode(hex: &str, memory: &[u8]) -> Vec<u8> {
        let mut stored = b"old".to_vec();
        conversion(hex).encode(memory, &mut stored, &mut Scratch::default()).unwrap();
        stored
    }

    /// Stored elements that decode to themselves after a round trip through memory.
    fn comes_back(hex: &str, stored: &[u8]) -> bool {
        let codec = conversion(hex);
        let mut memory = vec![0; stored.len() / codec.stored * codec.memory];
        codec.decode(stored, &mut memory, &mut Scratch::default()).unwrap();
        let mut again = Vec::new();
        codec.encode(&memory, &mut again, &mut Scratch::default()).unwrap();
        again == stored
    }

    const THREE: &str = "100800000300000000001800";
    const BIG_FIVE: &str = "100100000500000000002800";
    const INSIDE: &str = "100800000400000005001100";

    #[test]
    fn integers_are_clipped() {
        let memory = [1_i32, -1, 0x7f_ffff, 0x80_0000, i32::MIN].map(i32::to_le_bytes).concat();
        let expected = [[1, 0, 0], [255; 3], [255, 255, 127], [255, 255, 127], [0, 0, 128]].concat();
        assert_eq!(encode(THREE, &memory), expected);
        let memory = [1_u64, u64::MAX].map(u64::to_be_bytes).concat();
        assert_eq!(encode(BIG_FIVE, &memory), [0, 0, 0, 0, 1, 255, 255, 255, 255, 255]);
        assert_eq!(encode(INSIDE, &(-1_i32).to_le_bytes()), 0x003f_ffe0_u32.to_le_bytes());
    }

    #[test]
    fn texts_are_padded() {
        let memory = b"ab\0\0\0abcdea\0x\0\0";
        assert_eq!(encode("1300000005000000", memory), b"ab\0\0\0abcdea\0\0\0\0");
        assert_eq!(encode("1302000005000000", memory), b"ab   abcdea    ");
    }

    #[test]
    fn booleans_and_gaps() {
        let boolean =
            "1802000004000000 1008000004000000 00002000 46414c5345000000 5452554500000000 00000000 01000000";
        let boolean = boolean.replace(' ', "");
        assert_eq!(encode(&boolean, &[0, 1]), [0, 0, 0, 0, 1, 0, 0, 0]);
        let hex = format!("360100000c000000620004{boolean}");
        assert_eq!(encode(&hex, &[9, 9, 9, 9, 1, 9, 9, 9, 9, 9, 9, 9]), [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert!(conversion(&hex).unstorable().is_none());
        assert!(conversion(&hex).encode(&[0; 5], &mut Vec::new(), &mut Scratch::default()).is_err());
        assert_eq!(conversion(&hex).name(), NAME);
    }

    proptest! {
        #[test]
        fn stored_integers_come_back(bits in any::<u64>()) {
            prop_assert!(comes_back(THREE, &bits.to_le_bytes()[..3]));
            prop_assert!(comes_back(BIG_FIVE, &bits.to_le_bytes()[..5]));
        }
    }
}
