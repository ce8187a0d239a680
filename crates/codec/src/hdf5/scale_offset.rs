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
    /// The power of ten, or bits per integer. 0: as few as suffice.
    scale: i32,
    signed: bool,
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
        let (elements, signed) = (elements as usize, sign == 1);
        Ok(ScaleOffset { kind, elements, size, order, fill, scale, signed })
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

/// The content of a chunk. Its elements are numbers of `bits` bits.
struct Packed {
    bits: u32,
    minimum: u64,
    numbers: Vec<u64>,
}

impl ScaleOffset {
    /// Bits of an element.
    fn width(&self) -> u32 {
        low32(8 * self.size as u64)
    }

    /// The differences of integers from their minimum.
    fn integers(&self, elements: &[u64]) -> Packed {
        let width = self.width();
        // Order of signed numbers: the sign moves to where it counts as the highest bit.
        let sign = if self.signed { 1 << (width - 1) } else { 0 };
        let mask = u64::MAX >> (64 - width);
        let filled = |element: u64| self.fill.is_some_and(|fill| fill & mask == element);
        let mut extent: Option<(u64, u64)> = None;
        for element in elements.iter().filter(|element| !filled(**element)) {
            let key = element ^ sign;
            extent = Some(extent.map_or((key, key), |(low, high)| (low.min(key), high.max(key))));
        }
        let (low, high) = extent.unwrap_or((sign, sign));
        let wanted = u32::try_from(self.scale).unwrap_or(0);
        // The library keeps two numbers free: one for fill values.
        if wanted == 0 && high - low > mask - 2 {
            return Packed { bits: width, minimum: 0, numbers: elements.to_vec() };
        }
        let bits = match wanted {
            0 => bits_of(high - low + 1 + u64::from(self.fill.is_some())),
            bits => bits,
        };
        let minimum = signed_of(low ^ sign, width, self.signed);
        let number = |element: u64| match filled(element) {
            true => (1 << bits) - 1,
            false => element.wrapping_sub(minimum) & mask,
        };
        let numbers = match bits == width {
            true => elements.to_vec(),
            false => elements.iter().map(|element| number(*element)).collect(),
        };
        Packed { bits, minimum, numbers }
    }

    /// The scaled differences of floats from their minimum. Floats are as near to the fill value as
    /// rounding makes equal count as the fill value.
    fn floats<F: Float>(&self, elements: &[u64], scale: F, near: F) -> Packed {
        let width = self.width();
        let fill = self.fill.map(F::of_bits);
        let filled = |element: F| fill.is_some_and(|fill| element.minus(fill).absolute() < near);
        let mut extent: Option<(F, F)> = None;
        for element in elements.iter().map(|bits| F::of_bits(*bits)).filter(|element| !filled(*element)) {
            let (low, high) = extent.unwrap_or((element, element));
            extent = Some((
                if element < low { element } else { low },
                if element > high { element } else { high },
            ));
        }
        let (low, high) = extent.unwrap_or((F::of_bits(0), F::of_bits(0)));
        let span = high.times(scale).minus(low.times(scale));
        // The library makes the minimum of elements that are not finite numbers. Here, and if differences
        // are too large, a chunk keeps its elements as they are.
        let is_finite = |bits: &u64| F::of_bits(*bits).double().is_finite();
        let fits = span.double() <= 2_f64.powi(width as i32 - 1);
        if !fits || !elements.iter().all(is_finite) {
            return Packed { bits: width, minimum: 0, numbers: elements.to_vec() };
        }
        let bits = bits_of((span.rounded() as u64).wrapping_add(1 + u64::from(fill.is_some())));
        if bits >= width {
            return Packed { bits: width, minimum: low.bits(), numbers: elements.to_vec() };
        }
        let number = |bits_of_element: &u64| {
            let element = F::of_bits(*bits_of_element);
            match filled(element) {
                true => (1 << bits) - 1,
                false => element.times(scale).minus(low.times(scale)).rounded() as u64 & ((1 << bits) - 1),
            }
        };
        Packed { bits, minimum: low.bits(), numbers: elements.iter().map(number).collect() }
    }
}

/// Returns how many bits the library takes to tell this many numbers apart.
fn bits_of(numbers: u64) -> u32 {
    match numbers {
        0 | 1 => 0,
        numbers => 64 - (numbers - 1).leading_zeros(),
    }
}

/// A number of `width` bits in 64 bits.
fn signed_of(number: u64, width: u32, signed: bool) -> u64 {
    match signed {
        true => ((number << (64 - width)) as i64 >> (64 - width)) as u64,
        false => number,
    }
}

/// Floats of either width, computed with in their own precision, as in the library.
trait Float: Copy + PartialOrd {
    fn of_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn times(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn absolute(self) -> Self;
    fn rounded(self) -> i64;
    fn double(self) -> f64;
}

macro_rules! float {
    ($float:ty, $of_bits:expr) => {
        impl Float for $float {
            fn of_bits(bits: u64) -> Self {
                $of_bits(bits)
            }
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
            fn minus(self, other: Self) -> Self {
                self - other
            }
            fn absolute(self) -> Self {
                self.abs()
            }
            #[allow(clippy::cast_possible_truncation, reason = "it saturates")]
            fn rounded(self) -> i64 {
                self.round() as i64
            }
            fn double(self) -> f64 {
                self.into()
            }
        }
    };
}

float!(f32, |bits| f32::from_bits(low32(bits)));
float!(f64, f64::from_bits);

/// The low eight bits.
fn lowest(word: u128) -> u8 {
    word.to_le_bytes()[0]
}

/// Appends numbers of `bits` bits, the highest bit first.
fn pack(numbers: &[u64], bits: u32, dst: &mut Vec<u8>) {
    let (mut word, mut ready) = (0_u128, 0);
    for number in numbers {
        word = word << bits | u128::from(*number) & ((1 << bits) - 1);
        ready += bits;
        while ready >= 8 {
            ready -= 8;
            dst.push(lowest(word >> ready));
        }
    }
    if ready > 0 {
        dst.push(lowest(word << (8 - ready)));
    }
}

impl Codec for ScaleOffset {
    fn name(&self) -> &'static str {
        NAME
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        dst.clear();
        if self.kind == Kind::AsTheyAre {
            dst.extend_from_slice(src);
            return Ok(());
        }
        if src.len() != self.elements.saturating_mul(self.size) {
            let why = format!(
                "expected {} elements of {} bytes, found {} bytes",
                self.elements,
                self.size,
                src.len()
            );
            return Err(CodecError::encode(NAME, why));
        }
        let element = |bytes: &[u8]| {
            let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
            match self.order {
                ByteOrder::Little => bytes.iter().rev().fold(0, add),
                ByteOrder::Big => bytes.iter().fold(0, add),
            }
        };
        let elements: Vec<u64> = src.chunks_exact(self.size.max(1)).map(element).collect();
        let Packed { bits, minimum, numbers } = match self.kind {
            Kind::Single(scale) => self.floats(&elements, scale, 10f32.powf(-(self.scale as f32))),
            Kind::Double(scale) => self.floats(&elements, scale, 10f64.powf(-f64::from(self.scale))),
            _ => self.integers(&elements),
        };
        dst.extend_from_slice(&bits.to_le_bytes());
        dst.push(8);
        dst.extend_from_slice(&minimum.to_le_bytes());
        dst.extend_from_slice(&[0; 8]);
        if bits as usize == 8 * self.size {
            // In the byte order of little-endian machines.
            numbers.iter().for_each(|number| {
                dst.extend_from_slice(number.to_le_bytes().get(..self.size).unwrap_or_default())
            });
            return Ok(());
        }
        let start = dst.len();
        pack(&numbers, bits, dst);
        // The library counts a byte more than whole bytes need.
        let len = self.elements.saturating_mul(bits as usize) / 8 + 1;
        dst.resize(start.saturating_add(len), 0);
        Ok(())
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

    fn encoded(changes: &[(usize, u32)], elements: &[u8]) -> Vec<u8> {
        let codec = ScaleOffset::new(&client_data(changes)).unwrap();
        let mut stored = Vec::new();
        codec.encode(elements, &mut stored, &mut Scratch::default()).unwrap();
        let decoded = decode(&codec, &stored, elements.len()).unwrap();
        if codec.kind == Kind::Integer && codec.scale == 0 {
            assert_eq!(decoded, elements);
        }
        stored
    }

    #[test]
    fn values_are_encoded() {
        let three = [2, 1, 3, 1, 17, 1];
        // 258, 259, 273: differences 0, 1, 15. The fifth byte of elements is never needed.
        assert_eq!(encoded(&[], &three), chunk(4, 258, &[0x01, 0xf0]));
        assert_eq!(encoded(&[(6, 1)], &[1, 2, 1, 3, 1, 17]), chunk(4, 258, &[0x01, 0xf0]));
        // A fill value takes a number of its own.
        assert_eq!(encoded(&[(7, 1), (8, 7)], &[2, 1, 3, 1, 7, 0]), chunk(2, 258, &[0b0001_1100]));
        assert_eq!(encoded(&[], &[9, 0, 9, 0, 9, 0]), chunk(0, 9, &[0]));
        assert_eq!(encoded(&[(1, 3)], &three), chunk(3, 258, &[0b0000_0111, 0b1000_0000]), "cut");
        assert_eq!(encoded(&[(1, 16)], &three), three, "no header");
        assert_eq!(encoded(&[], &[0, 0, 255, 255, 1, 0]), chunk(16, 0, &[0, 0, 255, 255, 1, 0]));
        assert_eq!(encoded(&[(5, 1)], &[0, 0, 255, 255, 1, 0]), chunk(2, u64::MAX, &[0b0100_1000]));
    }

    #[test]
    fn floats_are_rounded() {
        let data = [(0, 0), (1, 1), (2, 3), (3, 1), (4, 8)];
        let codec = ScaleOffset::new(&client_data(&data)).unwrap();
        let bytes = |values: [f64; 3]| values.map(f64::to_le_bytes).concat();
        for (values, found) in [
            ([1.0, 1.26, -3.5], [1.0, 1.3, -3.5]),
            ([1e300, -1e300, 0.123], [1e300, -1e300, 0.123]),
            ([1.26, f64::INFINITY, 0.123], [1.26, f64::INFINITY, 0.123]),
        ] {
            let mut stored = Vec::new();
            codec.encode(&bytes(values), &mut stored, &mut Scratch::default()).unwrap();
            let decoded = decode(&codec, &stored, 24).unwrap();
            for (one, expected) in decoded.as_chunks::<8>().0.iter().zip(found) {
                let one = f64::from_le_bytes(*one);
                assert!(one == expected || (one - expected).abs() < 1e-9, "{one} {expected}");
            }
        }
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
