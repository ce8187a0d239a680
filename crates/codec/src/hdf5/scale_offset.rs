//! `scaleoffset`, filter 6: differences from the chunk's minimum, in as few bits as the largest
//! needs.
//!
//! Floats are first scaled by a power of ten and rounded.
//!
//! * Specification: HDF5 file format, IV.A.2.l, filter 6; the stored form is the one in the
//!   library's `H5Zscaleoffset.c`
//! * Client data, 20 numbers: method (0: floats by a power of ten, 1: floats by a power of two,
//!   which no library writes, 2: integers); the power of ten, or bits per integer (0: as few as
//!   suffice); elements per chunk; class (0: integer, 1: float); bytes per element; sign (0: none,
//!   1: two's complement); byte order (0: little, 1: big); whether there is a fill value (0, 1);
//!   the fill value, low word first
//!
//! A chunk is the number of bits per element (4 bytes, little-endian), the size of the minimum (1
//! byte, 8), the minimum (little-endian), padding up to byte 21, then the elements' bits, the
//! highest first. Elements equal to the fill value have all bits set. Full width means that the
//! elements are stored unchanged; zero bits mean that all elements equal the minimum. If the client
//! data ask for full width, there is no header either.

use super::bits::Bits;
use super::{byte_order, exact_client_data};
use crate::numbers::low_bits::low32;
use crate::{ByteOrder, Codec, CodecError, Result, Scratch, copy_front, front};

const NAME: &str = "scaleoffset";
const HEADER: usize = 21;

/// The `scaleoffset` filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ScaleOffset {
    kind: Kind,
    elements: usize,
    /// Bytes per element.
    size: usize,
    order: ByteOrder,
    /// The bits of the fill value, as a number.
    fill: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Stored unchanged.
    AsTheyAre,
    /// Signed or unsigned: addition is the same.
    Integer,
    /// Four-byte floats, divided by this.
    Single(f32),
    /// Eight-byte floats, divided by this.
    Double(f64),
}

impl ScaleOffset {
    pub(super) fn new(client_data: &[u32]) -> Result<Self> {
        let &[method, scale, elements, class, size, sign, order, has_fill, low, high, ..] =
            exact_client_data::<20>(NAME, client_data)?;
        let (scale, size) = (scale as i32, size as usize);
        let kind = match (method, class, size) {
            (0, 1, 4) => Kind::Single(10f32.powf(scale as f32)),
            (0, 1, 8) => Kind::Double(10f64.powf(f64::from(scale))),
            (2, 0, 1 | 2 | 4 | 8) => match i64::from(scale) {
                bits if bits == 8 * size as i64 => Kind::AsTheyAre,
                bits if bits < 8 * size as i64 => Kind::Integer,
                bits => {
                    return Err(CodecError::config(
                        NAME,
                        format!(
                            "expected at most {} bits for elements of {size} bytes, found {bits}",
                            size.saturating_mul(8)
                        ),
                    ));
                }
            },
            _ => {
                let why =
                    format!("method {method} does not encode elements of class {class} and {size} bytes");
                return Err(CodecError::config(NAME, why));
            }
        };
        if class == 0 && sign > 1 {
            return Err(CodecError::config(NAME, format!("expected sign 0 or 1, found {sign}")));
        }
        let order = byte_order(NAME, order)?;
        let fill = match has_fill {
            0 => None,
            1 => Some(u64::from(high) << 32 | u64::from(low)),
            other => {
                return Err(CodecError::config(
                    NAME,
                    format!("expected 0 (no fill value) or 1 (a fill value), found {other}"),
                ));
            }
        };
        Ok(ScaleOffset { kind, elements: elements as usize, size, order, fill })
    }

    /// Unpacks elements of `N` bytes. `value` makes an element from its bits.
    fn unpack<const N: usize>(&self, bits: u32, packed: &[u8], dst: &mut [u8], value: impl Fn(u64) -> u64) {
        let mut packed = Bits::new(packed);
        let filled = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        for out in dst.as_chunks_mut::<N>().0 {
            // `decode` made sure that there are enough bits.
            let raw = packed.read_long(bits).unwrap_or_default();
            let value = match self.fill {
                Some(fill) if raw == filled => fill,
                _ => value(raw),
            };
            let eight = match self.order {
                ByteOrder::Little => value.to_le_bytes(),
                ByteOrder::Big => (value << (64 - 8 * N)).to_be_bytes(),
            };
            if let Some(low) = eight.first_chunk() {
                *out = *low;
            }
        }
    }
}

impl Codec for ScaleOffset {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        if self.kind == Kind::AsTheyAre {
            return copy_front(NAME, src, dst);
        }
        let decoded = self.elements.saturating_mul(self.size);
        let dst = front(NAME, dst, decoded)?;
        let truncated = |needed: u64| {
            CodecError::corrupt(
                NAME,
                format!("truncated: expected at least {needed} bytes, found {}", src.len()),
            )
        };
        let Some((header, packed)) = src.split_first_chunk::<HEADER>() else {
            return Err(truncated(HEADER as u64));
        };
        let &[b0, b1, b2, b3, minimum_size, m0, m1, m2, m3, m4, m5, m6, m7, ..] = header;
        let bits = u32::from_le_bytes([b0, b1, b2, b3]);
        if bits as usize > 8 * self.size {
            let why = format!(
                "expected at most {} bits for elements of {} bytes, found {bits}",
                8 * self.size,
                self.size
            );
            return Err(CodecError::corrupt(NAME, why));
        }
        let needed = (self.elements as u64 * u64::from(bits)).div_ceil(8);
        if (packed.len() as u64) < needed {
            return Err(truncated(HEADER as u64 + needed));
        }
        let mut minimum = u64::from_le_bytes([m0, m1, m2, m3, m4, m5, m6, m7]);
        if minimum_size < 8 {
            minimum &= (1 << (8 * minimum_size)) - 1;
        }
        if bits as usize == 8 * self.size {
            // In the byte order of the writer's memory, which is not recorded. Today's machines are
            // all little-endian.
            for (out, element) in dst.chunks_exact_mut(self.size).zip(packed.chunks_exact(self.size)) {
                out.copy_from_slice(element);
                if self.order == ByteOrder::Big {
                    out.reverse();
                }
            }
            return Ok(decoded);
        }
        let integer = |raw: u64| raw.wrapping_add(minimum);
        match (self.kind, self.size) {
            (Kind::Single(divisor), _) => {
                let minimum = f32::from_bits(low32(minimum));
                let value = |raw| u64::from((low32(raw).cast_signed() as f32 / divisor + minimum).to_bits());
                self.unpack::<4>(bits, packed, dst, value);
            }
            (Kind::Double(divisor), _) => {
                let minimum = f64::from_bits(minimum);
                self.unpack::<8>(bits, packed, dst, |raw| (raw as i64 as f64 / divisor + minimum).to_bits());
            }
            (_, 1) => self.unpack::<1>(bits, packed, dst, integer),
            (_, 2) => self.unpack::<2>(bits, packed, dst, integer),
            (_, 4) => self.unpack::<4>(bits, packed, dst, integer),
            (_, _) => self.unpack::<8>(bits, packed, dst, integer),
        }
        Ok(decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::decode;

    /// Client data of two-byte unsigned integers, with some numbers changed.
    fn client_data(changes: &[(usize, u32)]) -> Vec<u32> {
        let mut data = vec![2, 0, 3, 0, 2, 0, 0, 0];
        data.resize(20, 0);
        changes.iter().for_each(|(at, value)| data[*at] = *value);
        data
    }

    /// A chunk with the header of `bits` and `minimum`.
    fn chunk(bits: u32, minimum: u64, packed: &[u8]) -> Vec<u8> {
        [&bits.to_le_bytes()[..], &[8], &minimum.to_le_bytes(), &[0; 8], packed].concat()
    }

    #[test]
    fn values() {
        let decode = |changes: &[(usize, u32)], stored: &[u8]| {
            decode(&ScaleOffset::new(&client_data(changes)).unwrap(), stored, 6).unwrap()
        };
        assert_eq!(decode(&[], &chunk(0, 258, &[])), [2, 1, 2, 1, 2, 1]);
        assert_eq!(decode(&[(6, 1)], &chunk(4, 258, &[0x01, 0xf0])), [1, 2, 1, 3, 1, 17]);
        assert_eq!(
            decode(&[(7, 1), (8, 7)], &chunk(4, 258, &[0x01, 0xf0])),
            [2, 1, 3, 1, 7, 0],
            "a fill value"
        );
        assert_eq!(
            decode(&[(7, 1), (8, 7)], &chunk(0, 258, &[])),
            [7, 0, 7, 0, 7, 0],
            "all bits of none are set"
        );
        assert_eq!(
            decode(&[], &chunk(4, u64::MAX, &[0x01, 0x20])),
            [255, 255, 0, 0, 1, 0],
            "a negative minimum"
        );
        assert_eq!(decode(&[(6, 1)], &chunk(16, 9, b"badcfe")), *b"abcdef");
        assert_eq!(decode(&[(1, 16)], b"abcdef"), *b"abcdef", "no header");
        let mut short = chunk(4, 258, &[0x01, 0x20]);
        short[4] = 1;
        assert_eq!(decode(&[], &short), [2, 0, 3, 0, 4, 0], "one byte of the minimum counts");
    }

    #[test]
    fn what_is_wrong() {
        let codec = ScaleOffset::new(&client_data(&[])).unwrap();
        let message = |stored: &[u8]| decode(&codec, stored, 6).unwrap_err().to_string();
        assert_eq!(message(&[0; 20]), "scaleoffset: truncated: expected at least 21 bytes, found 20");
        assert_eq!(
            message(&chunk(4, 0, &[0])),
            "scaleoffset: truncated: expected at least 23 bytes, found 22"
        );
        assert_eq!(
            message(&chunk(17, 0, &[0; 30])),
            "scaleoffset: expected at most 16 bits for elements of 2 bytes, found 17"
        );
        let many = ScaleOffset::new(&client_data(&[(2, u32::MAX)])).unwrap();
        assert!(matches!(decode(&many, &chunk(0, 0, &[]), 6), Err(CodecError::Size { .. })));
    }

    #[test]
    fn parameters() {
        let refused = |changes: &[(usize, u32)]| ScaleOffset::new(&client_data(changes)).is_err();
        assert!(ScaleOffset::new(&client_data(&[])[..19]).is_err());
        assert!(!refused(&[(1, -3i32 as u32)]), "as few bits as do");
        assert!(!refused(&[(0, 0), (3, 1), (4, 8)]));
        for changes in [
            &[(0, 0)][..],
            &[(0, 3)],
            &[(1, 17)],
            &[(3, 1)],
            &[(4, 3)],
            &[(4, 16)],
            &[(5, 2)],
            &[(6, 2)],
            &[(7, 2)],
            &[(0, 1), (3, 1), (4, 4)],
            &[(0, 0), (3, 1), (4, 2)],
        ] {
            assert!(refused(changes), "{changes:?}");
        }
    }
}
