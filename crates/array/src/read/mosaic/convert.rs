//! Elements of one type as elements of another, as HDF5 converts them: what a type cannot hold
//! becomes its nearest value, fractions are cut off, texts end at their first NUL and are cut or
//! padded with NULs.
//!
//! NaN as an integer is 0. Only, the HDF5 library leaves conversions between numbers in the
//! machine's byte order to the processor, and x86 makes of NaN the least number of 32 and of 64
//! bits: so it is here.
//!
//! Integers of one size in the other byte order have their bytes turned around by the library, and
//! nothing else, signed or not: -2 of 16 bits becomes 65534. So they do here.
//!
//! One answer of the library is not followed: where one of the two numbers is not in the machine's
//! byte order it makes the least integer of a fraction between -0.5 and 0. That is 0 here.
//!
//! The library trusts the processor as well with halves in integers that have room for every finite
//! half: negative halves wrap in integers without a sign, and infinities become what the
//! processor makes of them.

#![expect(
    clippy::indexing_slicing,
    reason = "buffers have the sizes of the types, which were checked before"
)]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use hyperslab_codec::{ByteOrder, DataType, Kind};

/// Whether there is a conversion: between numbers, from Booleans to numbers and from integers to
/// Booleans, between complex numbers, and between texts of fixed length.
pub fn can_convert(from: DataType, to: DataType) -> bool {
    let real = |kind| matches!(kind, Kind::Int | Kind::UInt | Kind::Float);
    let whole = |kind| matches!(kind, Kind::Int | Kind::UInt | Kind::Bool);
    from == to
        || real(from.kind()) && real(to.kind())
        || whole(from.kind()) && to.kind() == Kind::Bool
        || from.kind() == Kind::Bool && real(to.kind())
        || from.kind() == Kind::Bytes && to.kind() == Kind::Bytes && from.size() > 0 && to.size() > 0
        || from.kind() == Kind::Complex && to.kind() == Kind::Complex
}

/// Converts all elements of `src` to `dst`, which has room for as many. For types of which
/// [`can_convert`] is true.
pub(super) fn elements(from: DataType, src: &[u8], to: DataType, dst: &mut [u8]) {
    if from == to {
        dst.copy_from_slice(src);
        return;
    }
    if to.kind() == Kind::Bytes {
        for (src, dst) in src.chunks_exact(from.size()).zip(dst.chunks_exact_mut(to.size())) {
            let text = src.iter().position(|byte| *byte == 0).unwrap_or(src.len());
            let len = text.min(dst.len());
            dst[..len].copy_from_slice(&src[..len]);
            dst[len..].fill(0);
        }
        return;
    }
    let (part, whole) = (from.number_size(), to.number_size());
    if is_swapped(from, to) {
        for (src, dst) in src.chunks_exact(part).zip(dst.chunks_exact_mut(whole)) {
            dst.copy_from_slice(src);
            dst.reverse();
        }
        return;
    }
    let by_processor = from.order() == ByteOrder::NATIVE && to.order() == ByteOrder::NATIVE;
    let nan = if by_processor { convert_nan(to) } else { 0 };
    let unchecked = by_processor && is_unchecked(from, to);
    for (src, dst) in src.chunks_exact(part).zip(dst.chunks_exact_mut(whole)) {
        let number = match load(from, src) {
            Number::Float(number) if number.is_nan() && matches!(to.kind(), Kind::Int | Kind::UInt) => {
                Number::Int(nan)
            }
            Number::Float(number) if by_processor && is_limit(number, from, to) => Number::Int(limit(to)),
            Number::Float(number) if unchecked => Number::Int(half_by_processor(number, to)),
            number => number,
        };
        store(to, number, dst);
    }
}

/// As `elements`, for users of other crates. `false`: there is no conversion, or the lengths do not
/// fit together; nothing is written then.
pub fn convert_elements(from: DataType, src: &[u8], to: DataType, dst: &mut [u8]) -> bool {
    let count = |bytes: usize, dtype: DataType| {
        let size = dtype.size();
        if size > 0 && bytes.is_multiple_of(size) { Some(bytes / size) } else { None }
    };
    let fits = count(src.len(), from).is_some() && count(src.len(), from) == count(dst.len(), to);
    if fits && can_convert(from, to) {
        elements(from, src, to, dst);
        return true;
    }
    false
}

/// Whether the HDF5 library only turns bytes around: integers of one size in the other order, also
/// where one has a sign and the other none. So -2 becomes 65534 there.
fn is_swapped(from: DataType, to: DataType) -> bool {
    let whole = |dtype: DataType| matches!(dtype.kind(), Kind::Int | Kind::UInt);
    whole(from) && whole(to) && from.size() == to.size() && from.size() > 1 && from.order() != to.order()
}

/// Whether the HDF5 library converts from one type to another without a look at the values: halves
/// to integers that have room for every finite half. (x86 only; others do as they like.)
fn is_unchecked(from: DataType, to: DataType) -> bool {
    let roomy = match to.kind() {
        Kind::Int => to.size() >= 4,
        Kind::UInt => to.size() >= 2,
        _ => false,
    };
    cfg!(target_arch = "x86_64") && from.kind() == Kind::Float && from.size() == 2 && roomy
}

/// Whether a number is one more than the largest of an integer type, and the HDF5 library takes it
/// for the largest: it compares with that in the type of the number, which rounds it up.
fn is_limit(number: f64, from: DataType, to: DataType) -> bool {
    let bits = match to.kind() {
        Kind::Int => 8 * to.size() as i32 - 1,
        Kind::UInt => 8 * to.size() as i32,
        _ => return false,
    };
    let exact = if from.size() == 4 { 24 } else { 53 };
    cfg!(target_arch = "x86_64") && from.size() >= 4 && bits > exact && number == 2f64.powi(bits)
}

/// What x86 makes of that.
fn limit(to: DataType) -> i128 {
    match (to.kind(), to.size()) {
        (Kind::Int, 4) => i32::MIN.into(),
        (Kind::Int, _) => i64::MIN.into(),
        _ => 0,
    }
}

/// What x86 makes of a half as an integer: a signed one of 32 or 64 bits, of which the lowest
/// bits count. What has no such integer is the least of 64 bits, of 32 in the smaller integers.
fn half_by_processor(number: f64, to: DataType) -> i128 {
    if number.is_finite() {
        let bits = number as i64;
        return match (to.kind(), to.size()) {
            (Kind::UInt, 2) => i128::from(bits as u16),
            (Kind::UInt, 4) => i128::from(bits as u32),
            (Kind::UInt, _) => i128::from(bits as u64),
            _ => bits.into(),
        };
    }
    match (to.kind(), to.size()) {
        (Kind::Int, 4) => i32::MIN.into(),
        (Kind::Int, _) => i64::MIN.into(),
        // Above 2⁶³ the compiler takes 2⁶³ off and puts it back as the highest bit.
        (Kind::UInt, 8) if number < 0.0 => 1 << 63,
        _ => 0,
    }
}

/// What the HDF5 library makes of NaN as an integer, where both numbers are in this machine's byte
/// order: what the processor makes of it.
pub fn convert_nan(to: DataType) -> i128 {
    match (to.kind(), to.size()) {
        _ if !cfg!(any(target_arch = "x86_64", target_arch = "x86")) => 0,
        (Kind::Int, 4) => i32::MIN.into(),
        (Kind::Int, 8) => i64::MIN.into(),
        (Kind::UInt, 8) => 1 << 63,
        _ => 0,
    }
}

/// Any number.
#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

/// The bytes in the order of this machine's integers, the lowest first.
fn lowest_first(order: ByteOrder, bytes: &[u8]) -> [u8; 8] {
    let mut sorted = [0; 8];
    sorted[..bytes.len()].copy_from_slice(bytes);
    if order == ByteOrder::Big {
        sorted[..bytes.len()].reverse();
    }
    sorted
}

fn load(dtype: DataType, bytes: &[u8]) -> Number {
    let bits = u64::from_le_bytes(lowest_first(dtype.order(), bytes));
    let unused = 64 - 8 * bytes.len() as u32;
    match (dtype.kind(), bytes.len()) {
        (Kind::UInt, _) => Number::Int(bits.into()),
        (Kind::Bool, _) => Number::Int((bits != 0).into()),
        (Kind::Int, _) => Number::Int(((bits << unused) as i64 >> unused).into()),
        (_, 2) => Number::Float(from_half(bits as u16)),
        (_, 4) => Number::Float(f32::from_bits(bits as u32).into()),
        _ => Number::Float(f64::from_bits(bits)),
    }
}

fn store(dtype: DataType, number: Number, bytes: &mut [u8]) {
    let len = bytes.len();
    let integer = |low: i128, high: i128| match number {
        Number::Int(number) => number.clamp(low, high),
        // Saturates, and NaN becomes 0; beyond 64 bits nothing is exact that could be in range.
        Number::Float(number) => (number as i128).clamp(low, high),
    };
    let bits = match (dtype.kind(), len) {
        (Kind::Bool, _) => u64::from(integer(-1, 1) != 0),
        (Kind::UInt, _) => integer(0, i128::from(u64::MAX >> (64 - 8 * len))) as u64,
        (Kind::Int, _) => {
            let high = i128::from(i64::MAX >> (64 - 8 * len));
            integer(-high - 1, high) as u64
        }
        (_, 2) => match number {
            Number::Int(number) => to_half(number as f64),
            Number::Float(number) => to_half(number),
        }
        .into(),
        (_, 4) => match number {
            Number::Int(number) => number as f32,
            Number::Float(number) => number as f32,
        }
        .to_bits()
        .into(),
        _ => match number {
            Number::Int(number) => number as f64,
            Number::Float(number) => number,
        }
        .to_bits(),
    };
    bytes.copy_from_slice(&bits.to_le_bytes()[..len]);
    if dtype.order() == ByteOrder::Big {
        bytes.reverse();
    }
}

/// A number of 16 bits: 1 of sign, 5 of exponent, 10 of fraction.
fn from_half(bits: u16) -> f64 {
    let (exponent, fraction) = (bits >> 10 & 31, f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(i32::from(exponent) - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// The nearest number of 16 bits, of two the even one.
fn to_half(number: f64) -> u16 {
    let sign = if number.is_sign_negative() { 0x8000 } else { 0 };
    let size = number.abs();
    let bits = if size.is_nan() {
        0x7e00
    } else if size >= 65520.0 {
        0x7c00
    } else {
        // The distance between neighbours here: 2^-24 for the smallest, then 1/1024 of the power of
        // two below. The quotient is exact, and rounding it up to the next power of two gives the
        // first of the next exponent.
        let exponent = (size.to_bits() >> 52) as i32 - 1023;
        let exponent = exponent.max(-14);
        let steps = (size * 2f64.powi(10 - exponent)).round_ties_even();
        (steps as i32 + ((exponent + 14) << 10)) as u16
    };
    sign | bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dtype(name: &str) -> DataType {
        name.parse().unwrap()
    }

    fn convert(from: &str, src: &[u8], to: &str) -> Vec<u8> {
        let mut dst = vec![0xEE; src.len() / dtype(from).size() * dtype(to).size()];
        elements(dtype(from), src, dtype(to), &mut dst);
        dst
    }

    /// What the HDF5 library gives for these (h5py 3.16 with HDF5 2.0).
    #[test]
    fn as_the_library_does() {
        let numbers = [
            -1.5,
            0.0,
            300.0,
            1e9,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1.9,
            1e300,
            -1e300,
            255.9,
            -0.9,
        ];
        let src: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(convert("<f8", &src, "|u1"), [0, 0, 255, 255, 0, 255, 0, 1, 255, 0, 255, 0]);
        let shorts: Vec<u8> = [-1i16, 0, 300, 32767, 0, 32767, -32768, 1, 32767, -32768, 255, 0]
            .iter()
            .flat_map(|number| number.to_be_bytes())
            .collect();
        assert_eq!(convert("<f8", &src, ">i2"), shorts);
        let floats: Vec<u8> = numbers.iter().flat_map(|number| (*number as f32).to_le_bytes()).collect();
        assert_eq!(convert("<f8", &src, "<f4"), floats);
        let nan = f64::NAN.to_le_bytes();
        if cfg!(all(target_arch = "x86_64", target_endian = "little")) {
            assert_eq!(convert("<f8", &nan, "<i4"), i32::MIN.to_le_bytes());
            assert_eq!(convert("<f8", &nan, "<i8"), i64::MIN.to_le_bytes());
            assert_eq!(convert("<f8", &nan, "<u8"), (1u64 << 63).to_le_bytes());
        }
        assert_eq!(convert("<f8", &nan, "<u4"), [0; 4]);
        assert_eq!(convert("<f8", &nan, ">i4"), [0; 4]);
        assert_eq!(convert(">f8", &f64::NAN.to_be_bytes(), "<i8"), [0; 8]);
    }

    #[test]
    fn integers_are_clamped_and_bytes_reordered() {
        let all = [i64::MIN, -129, -128, -1, 0, 127, 128, 255, 256, i64::MAX];
        let src: Vec<u8> = all.iter().flat_map(|number| number.to_be_bytes()).collect();
        let bytes: Vec<u8> = all.iter().map(|number| (*number).clamp(-128, 127) as i8 as u8).collect();
        assert_eq!(convert(">i8", &src, "|i1"), bytes);
        let unsigned: Vec<u8> = all.iter().flat_map(|number| (*number).max(0).to_be_bytes()).collect();
        assert_eq!(convert(">i8", &src, ">u8"), unsigned);
        let doubles: Vec<u8> = all.iter().flat_map(|number| (*number as f64).to_le_bytes()).collect();
        assert_eq!(convert(">i8", &src, "<f8"), doubles);
        assert_eq!(convert("<u8", &[0xff; 8], "<i8"), i64::MAX.to_le_bytes());
        // Of one size in the other order, bytes are turned around and nothing else (h5py 3.16).
        assert_eq!(convert("<i2", &[0xfe, 0xff], ">u2"), [0xff, 0xfe]);
        assert_eq!(convert(">u4", &[0xff; 4], "<i4"), [0xff; 4]);
        assert_eq!(convert(">i4", &[0xff; 4], "<u2"), [0; 2]);
        assert_eq!(convert("<u8", &[0xff; 8], "<f4"), (u64::MAX as f32).to_le_bytes());
        assert_eq!(
            convert("<c8", &[0, 0, 128, 63, 0, 0, 0, 192], ">c16"),
            [0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn booleans_and_texts() {
        assert_eq!(convert("|b1", &[0, 1, 1], ">i2"), [0, 0, 0, 1, 0, 1]);
        assert_eq!(convert("|b1", &[1, 0], "<f4"), [0, 0, 128, 63, 0, 0, 0, 0]);
        assert_eq!(convert("<i2", &[0, 0, 0xff, 0xff, 0, 1], "|b1"), [0, 1, 1]);
        assert_eq!(convert("|S3", b"ab\0abc", "|S5"), *b"ab\0\0\0abc\0\0");
        assert_eq!(convert("|S3", b"ab\0abc", "|S2"), *b"abab");
        assert_eq!(convert("|S3", b"a\0b\0xy", "|S4"), *b"a\0\0\0\0\0\0\0");
    }

    /// What the HDF5 library gives for these on x86 (h5py 3.16 with HDF5 2.0).
    #[test]
    #[cfg(all(target_arch = "x86_64", target_endian = "little"))]
    fn halves_are_left_to_the_processor() {
        let halves: Vec<u8> = [0xc000_u16, 0xfb53, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x5cb0]
            .iter()
            .flat_map(|half| half.to_le_bytes())
            .collect();
        let list = |numbers: &[i128], size: usize| -> Vec<u8> {
            numbers.iter().flat_map(|number| number.to_le_bytes()[..size].to_vec()).collect()
        };
        let (low, lower) = (i128::from(i32::MIN), i128::from(i64::MIN));
        let (half, wide) = (1 << 63, 1 << 64);
        assert_eq!(convert("<f2", &halves, "<u2"), list(&[65534, 5536, 65504, 0, 0, 0, 300], 2));
        let words = [4294967294, 4294907296, 65504, 0, 0, 0, 300];
        assert_eq!(convert("<f2", &halves, "<u4"), list(&words, 4));
        let longs = [wide - 2, wide - 60000, 65504, 0, half, half, 300];
        assert_eq!(convert("<f2", &halves, "<u8"), list(&longs, 8));
        assert_eq!(convert("<f2", &halves, "<i4"), list(&[-2, -60000, 65504, low, low, low, 300], 4));
        let signed = [-2, -60000, 65504, lower, lower, lower, 300];
        assert_eq!(convert("<f2", &halves, "<i8"), list(&signed, 8));
        // Those without room are looked at.
        assert_eq!(convert("<f2", &halves, "|u1"), [0, 0, 255, 255, 0, 0, 255]);
    }

    /// As above: the library compares with the largest integer as a float.
    #[test]
    #[cfg(all(target_arch = "x86_64", target_endian = "little"))]
    fn one_more_than_the_largest() {
        let single = |power: i32| 2f32.powi(power).to_le_bytes();
        assert_eq!(convert("<f4", &single(31), "<i4"), i32::MIN.to_le_bytes());
        assert_eq!(convert("<f4", &single(32), "<u4"), [0; 4]);
        assert_eq!(convert("<f4", &single(63), "<i8"), i64::MIN.to_le_bytes());
        assert_eq!(convert("<f4", &single(64), "<u8"), [0; 8]);
        assert_eq!(convert("<f4", &single(31), ">i4"), i32::MAX.to_be_bytes());
        assert_eq!(convert("<f4", &single(15), "<i2"), i16::MAX.to_le_bytes());
        let double = |power: i32| 2f64.powi(power).to_le_bytes();
        assert_eq!(convert("<f8", &double(31), "<i4"), i32::MAX.to_le_bytes());
        assert_eq!(convert("<f8", &double(63), "<i8"), i64::MIN.to_le_bytes());
        assert_eq!(convert("<f8", &double(64), "<u8"), [0; 8]);
    }

    #[test]
    fn lengths_are_checked() {
        let convert = |src: &[u8], dst: &mut [u8]| convert_elements(dtype("<i2"), src, dtype("|u1"), dst);
        let mut dst = [7; 2];
        assert!(!convert(&[1; 3], &mut dst) && !convert(&[1; 6], &mut dst) && dst == [7; 2]);
        assert!(convert(&[1, 0, 0xff, 0xff], &mut dst) && dst == [1, 0]);
        assert!(!convert_elements(dtype("<c8"), &[0; 8], dtype("<f4"), &mut [0; 4]));
    }

    #[test]
    fn half_precision() {
        for bits in 0..=u16::MAX {
            let number = from_half(bits);
            let back = if number.is_nan() { bits & 0x8000 | 0x7e00 } else { bits };
            assert_eq!(to_half(number), back, "{bits:#06x}, {number}");
            // Between two neighbours the even one is nearest to the middle.
            let next = from_half(bits.wrapping_add(1));
            if bits & 0x7fff < 0x7bff {
                let middle = (number + next) / 2.0;
                assert_eq!(to_half(middle), (bits + 1) & !1, "{middle}");
                let (below, above) = (middle.next_down().abs(), middle.next_up().abs());
                assert_eq!(to_half(below.min(above)), bits & 0x7fff);
                assert_eq!(to_half(below.max(above)), (bits & 0x7fff) + 1);
            }
        }
        assert_eq!(
            [to_half(65519.9), to_half(65520.0), to_half(1e-9), to_half(-1e-9)],
            [0x7bff, 0x7c00, 0, 0x8000]
        );
        assert_eq!((from_half(0x3555), from_half(1)), (0.333251953125, 5.960464477539063e-8));
    }

    #[test]
    fn what_is_converted() {
        let possible = |from, to| can_convert(dtype(from), dtype(to));
        assert!(
            possible("<f8", ">i2")
                && possible("<c8", ">c16")
                && possible("|S3", "|S3")
                && possible("|V9", "|V9")
        );
        assert!(possible("|S3", "|S4") && possible("|b1", "|u1") && possible(">i4", "|b1"));
        for (from, to) in [
            ("<f4", "<c8"),
            ("<c8", "<f4"),
            ("<f4", "|b1"),
            ("<M8[s]", "<i8"),
            ("|V4", "<f4"),
            ("|S3", "|V3"),
        ] {
            assert!(!possible(from, to), "{from} to {to}");
        }
    }
}
