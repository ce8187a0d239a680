//! Converts elements of one type to another, as HDF5 does.
//!
//! A value that a type cannot hold becomes its nearest value. Fractions are cut off. Texts end at
//! their first NUL, and are cut or padded with NULs.
//!
//! NaN becomes the integer 0. However, the HDF5 library leaves conversions between numbers in the
//! machine's byte order to the processor. There, x86 turns NaN into the least number of 32 or 64
//! bits, and so does this module.
//!
//! For integers of one size in the other byte order, signed or not, the library only reverses the
//! bytes: -2 of 16 bits becomes 65534. This module does the same.
//!
//! One result of the library is not copied. If one of the two numbers is not in the machine's byte
//! order, the library turns a fraction between -0.5 and 0 into the least integer. Here it becomes
//! 0.
//!
//! The library also leaves halves to the processor if the integer type has room for every finite
//! half. Negative halves then wrap in unsigned integers, and infinities become whatever the
//! processor makes of them.

#![expect(
    clippy::indexing_slicing,
    reason = "buffers have the sizes of the types, which were checked before"
)]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use hyperslab_codec::{ByteOrder, DataType, Half, Kind};

/// Returns `true` if there is a conversion between two types.
///
/// There is one between numbers, from Booleans to numbers and from integers to Booleans, between
/// complex numbers, and between texts of fixed length.
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

/// Converts all elements of `src` to `dst`, which has room for exactly as many.
///
/// [`can_convert`] must be true for the types.
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

/// Like `elements`, for other crates.
///
/// Returns `false` and writes nothing if there is no conversion, or if the lengths do not match.
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

/// Returns `true` if the HDF5 library only reverses bytes.
///
/// It does so for integers of one size in the other byte order, even if one is signed and the other
/// is not. Then -2 becomes 65534.
fn is_swapped(from: DataType, to: DataType) -> bool {
    let whole = |dtype: DataType| matches!(dtype.kind(), Kind::Int | Kind::UInt);
    whole(from) && whole(to) && from.size() == to.size() && from.size() > 1 && from.order() != to.order()
}

/// Returns `true` if the HDF5 library converts without a look at the values.
///
/// It does so for halves to integers that have room for every finite half. (x86 only; other
/// processors have results of their own.)
fn is_unchecked(from: DataType, to: DataType) -> bool {
    let roomy = match to.kind() {
        Kind::Int => to.size() >= 4,
        Kind::UInt => to.size() >= 2,
        _ => false,
    };
    cfg!(target_arch = "x86_64") && from.kind() == Kind::Float && from.size() == 2 && roomy
}

/// Returns `true` if a number exceeds the largest integer by one, but passes for the largest.
///
/// The HDF5 library compares it with the largest integer in the type of the number, which rounds
/// that integer up.
fn is_limit(number: f64, from: DataType, to: DataType) -> bool {
    let bits = match to.kind() {
        Kind::Int => 8 * to.size() as i32 - 1,
        Kind::UInt => 8 * to.size() as i32,
        _ => return false,
    };
    let exact = if from.size() == 4 { 24 } else { 53 };
    cfg!(target_arch = "x86_64") && from.size() >= 4 && bits > exact && number == 2f64.powi(bits)
}

/// The integer that x86 makes of one more than the largest integer of a type.
fn limit(to: DataType) -> i128 {
    match (to.kind(), to.size()) {
        (Kind::Int, 4) => i32::MIN.into(),
        (Kind::Int, _) => i64::MIN.into(),
        _ => 0,
    }
}

/// Converts a half to an integer as x86 does.
///
/// The half becomes a signed integer of 32 or 64 bits, and the lowest bits of it are taken. A half
/// without such an integer becomes the least of 64 bits, or of 32 bits for smaller integers.
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
        // Above 2⁶³ the compiler subtracts 2⁶³ and puts it back as the highest bit.
        (Kind::UInt, 8) if number < 0.0 => 1 << 63,
        _ => 0,
    }
}

/// The integer that the HDF5 library makes of NaN.
///
/// It leaves this to the processor if both numbers are in this machine's byte order, which this
/// function assumes.
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

/// The bytes of a number in `order`, the lowest first.
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
        // The cast saturates, and NaN becomes 0. Numbers beyond 64 bits are out of range anyway.
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

/// The number of a half. NaN loses its payload.
fn from_half(bits: u16) -> f64 {
    let number = f64::from(Half(bits).to_f32());
    if number.is_nan() { f64::NAN.copysign(number) } else { number }
}

/// The nearest half, ties to even. NaN loses its payload.
fn to_half(number: f64) -> u16 {
    let number = if number.is_nan() { f64::NAN.copysign(number) } else { number };
    Half::from_f64(number).0
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

    /// Expected values come from the HDF5 library (h5py 3.16 with HDF5 2.0).
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
        // For one size in the other byte order, only the bytes are reversed (h5py 3.16).
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

    /// Expected values come from the HDF5 library on x86 (h5py 3.16 with HDF5 2.0).
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
        // Values are checked for integers without room for every half.
        assert_eq!(convert("<f2", &halves, "|u1"), [0, 0, 255, 255, 0, 0, 255]);
    }

    /// The library compares with the largest integer as a float (versions as above).
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
            // The middle between two neighbours rounds to the even one.
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
