//! Numbers as the elements of a type that classic files have. The value stays, or this fails.

use crate::netcdf::External;
use hyperslab_codec::{ByteOrder, Codec, CodecError, DataType, Kind, Result, Scratch};

/// Makes big-endian numbers of one type of numbers of another: of integers, or of floats of 16 bits.
#[derive(Clone, Debug)]
pub(super) struct Cast {
    pub(super) from: DataType,
    pub(super) to: External,
}

/// Reads an integer of at most eight bytes.
fn whole(bytes: &[u8], dtype: DataType) -> i128 {
    let digit = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    let bits = match dtype.order() {
        ByteOrder::Big => bytes.iter().fold(0, digit),
        ByteOrder::Little => bytes.iter().rev().fold(0, digit),
    };
    match dtype.kind() {
        Kind::Int => {
            let unused = 64 - 8 * bytes.len().min(8) as u32;
            (bits.checked_shl(unused).unwrap_or(0).cast_signed() >> unused).into()
        }
        _ => bits.into(),
    }
}

/// The lowest bytes of an integer, in an order. `None`: the type has no such number.
pub(super) fn of_whole(number: i128, dtype: DataType) -> Option<Vec<u8>> {
    let bits = 8 * dtype.size() as u32;
    let range = match dtype.kind() {
        Kind::Int => -(1i128 << (bits - 1))..1i128 << (bits - 1),
        _ => 0..1i128 << bits,
    };
    let bytes = range.contains(&number).then(|| number.to_be_bytes())?;
    let mut low = bytes.get(bytes.len() - dtype.size()..)?.to_vec();
    if dtype.order() == ByteOrder::Little {
        low.reverse();
    }
    Some(low)
}

/// One element of memory as it is stored. `None`: the stored type has no such number.
pub(super) fn stored(bytes: &[u8], dtype: DataType, external: External) -> Option<Vec<u8>> {
    if dtype.kind() == Kind::Bool || External::of_elements(dtype) == Some(external) {
        let mut bytes = bytes.to_vec();
        if dtype.order() == ByteOrder::Little {
            bytes.reverse();
        }
        return Some(bytes);
    }
    let cast = Cast { from: dtype, to: external };
    let mut stored = Vec::new();
    cast.encode(bytes, &mut stored, &mut Scratch::default()).ok()?;
    Some(stored)
}

impl Codec for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let (from, to) = (self.to.dtype(), self.from);
        let elements = src.chunks_exact(from.size()).zip(dst.chunks_exact_mut(to.size()));
        let mut len = 0;
        for (element, out) in elements {
            let bytes = match from.kind() {
                Kind::Float => {
                    let float = f32::from_be_bytes(element.try_into().unwrap_or_default());
                    let half = half::f16::from_f32(float);
                    Some(match to.order() {
                        ByteOrder::Big => half.to_be_bytes().to_vec(),
                        ByteOrder::Little => half.to_le_bytes().to_vec(),
                    })
                }
                // A fill value may be a number that only the stored type has.
                _ => of_whole(whole(element, from), to),
            };
            match bytes {
                Some(bytes) => out.copy_from_slice(&bytes),
                None => out.fill(0),
            }
            len += to.size();
        }
        Ok(len)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        let (from, to) = (self.from, self.to.dtype());
        dst.clear();
        dst.reserve(src.len() / from.size() * to.size());
        for element in src.chunks_exact(from.size()) {
            if from.kind() == Kind::Float {
                let bytes = element.try_into().unwrap_or_default();
                let half = match from.order() {
                    ByteOrder::Big => half::f16::from_be_bytes(bytes),
                    ByteOrder::Little => half::f16::from_le_bytes(bytes),
                };
                dst.extend(half.to_f32().to_be_bytes());
                continue;
            }
            let number = whole(element, from);
            match of_whole(number, to) {
                Some(bytes) => dst.extend(bytes),
                None => {
                    let why = format!(
                        "its elements of type {from} become {}, which has no {number}; choose netcdf3_64bit_data or \
                         netcdf4",
                        self.to.name()
                    );
                    return Err(CodecError::Encode { codec: self.name(), why });
                }
            }
        }
        Ok(())
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        (decoded / self.from.size().max(1)).saturating_mul(self.to.dtype().size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(from: &str, to: External, bytes: &[u8]) -> Result<Vec<u8>> {
        let cast = Cast { from: from.parse().unwrap(), to };
        let mut out = Vec::new();
        cast.encode(bytes, &mut out, &mut Scratch::default())?;
        let mut back = vec![0; bytes.len()];
        assert_eq!(cast.decode(&out, &mut back, &mut Scratch::default()).unwrap(), bytes.len());
        assert_eq!(back, bytes);
        Ok(out)
    }

    #[test]
    fn values_stay() {
        assert_eq!(encoded("<i8", External::Int, &(-3i64).to_le_bytes()).unwrap(), (-3i32).to_be_bytes());
        assert_eq!(
            encoded(">i8", External::Int, &i64::from(i32::MIN).to_be_bytes()).unwrap(),
            [0x80, 0, 0, 0]
        );
        assert_eq!(encoded("<u4", External::Int, &7u32.to_le_bytes()).unwrap(), [0, 0, 0, 7]);
        assert_eq!(encoded("|u1", External::Byte, &[0, 127]).unwrap(), [0, 127]);
        assert_eq!(encoded("<f2", External::Float, &[0, 0x41]).unwrap(), 2.5f32.to_be_bytes());
    }

    #[test]
    fn one_element() {
        let of = |dtype: &str, bytes: &[u8], external| stored(bytes, dtype.parse().unwrap(), external);
        assert_eq!(of("<f4", &[1, 0, 0xc0, 0x7f], External::Float), Some(vec![0x7f, 0xc0, 0, 1]));
        assert_eq!(of(">i2", &[1, 2], External::Short), Some(vec![1, 2]));
        assert_eq!(of("<i8", &[7, 0, 0, 0, 0, 0, 0, 0], External::Int), Some(vec![0, 0, 0, 7]));
        assert_eq!(of("<i8", &[0, 0, 0, 0, 1, 0, 0, 0], External::Int), None);
        assert_eq!(of("|b1", &[1], External::Byte), Some(vec![1]));
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        for (from, to, bytes) in [
            ("<i8", External::Int, &(1i64 << 31).to_le_bytes()[..]),
            ("<u8", External::Int, &u64::MAX.to_le_bytes()),
            ("<u4", External::Int, &u32::MAX.to_le_bytes()),
            ("<u2", External::Short, &[0, 0x80]),
            ("|u1", External::Byte, &[128]),
        ] {
            let why = encoded(from, to, bytes).unwrap_err().to_string();
            assert!(why.contains(&format!("become {}, which has no ", to.name())), "{why}");
        }
    }
}
