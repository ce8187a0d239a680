//! Elements of one type as elements of another, as HDF5 converts them: what a type cannot hold becomes its nearest value, fractions are cut off, NaN becomes 0.

use hyperslab_codec::{ByteOrder, DataType, Kind};

/// Whether there is a conversion: between numbers, and between complex numbers.
pub(super) fn is_possible(from: DataType, to: DataType) -> bool {
    let real = |kind| matches!(kind, Kind::Int | Kind::UInt | Kind::Float);
    from == to
        || real(from.kind()) && real(to.kind())
        || from.kind() == Kind::Complex && to.kind() == Kind::Complex
}

/// Converts all elements of `src` to `dst`, which has room for as many. For types of which [`is_possible`] is true.
pub(super) fn elements(from: DataType, src: &[u8], to: DataType, dst: &mut [u8]) {
    if from == to {
        dst.copy_from_slice(src);
        return;
    }
    let (part, whole) = (from.number_size(), to.number_size());
    for (src, dst) in src.chunks_exact(part).zip(dst.chunks_exact_mut(whole)) {
        store(to, load(from, src), dst);
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
        // The distance between neighbours here: 2^-24 for the smallest, then 1/1024 of the power of two below. The quotient is exact, and rounding it up to
        // the next power of two gives the first of the next exponent.
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
    }

    #[test]
    fn integers_are_clamped_and_bytes_reordered() {
        let all = [i64::MIN, -129, -128, -1, 0, 127, 128, 255, 256, i64::MAX];
        let src: Vec<u8> = all.iter().flat_map(|number| number.to_be_bytes()).collect();
        let bytes: Vec<u8> = all.iter().map(|number| (*number).clamp(-128, 127) as i8 as u8).collect();
        assert_eq!(convert(">i8", &src, "|i1"), bytes);
        let unsigned: Vec<u8> = all.iter().flat_map(|number| (*number).max(0).to_le_bytes()).collect();
        assert_eq!(convert(">i8", &src, "<u8"), unsigned);
        let doubles: Vec<u8> = all.iter().flat_map(|number| (*number as f64).to_le_bytes()).collect();
        assert_eq!(convert(">i8", &src, "<f8"), doubles);
        assert_eq!(convert("<u8", &[0xff; 8], "<i8"), i64::MAX.to_le_bytes());
        assert_eq!(convert("<u8", &[0xff; 8], "<f4"), (u64::MAX as f32).to_le_bytes());
        assert_eq!(
            convert("<c8", &[0, 0, 128, 63, 0, 0, 0, 192], ">c16"),
            [0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0]
        );
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
        let possible = |from, to| is_possible(dtype(from), dtype(to));
        assert!(
            possible("<f8", ">i2")
                && possible("<c8", ">c16")
                && possible("|S3", "|S3")
                && possible("|V9", "|V9")
        );
        for (from, to) in [("|S3", "|S4"), ("<f4", "<c8"), ("|b1", "|u1"), ("<M8[s]", "<i8"), ("|V4", "<f4")]
        {
            assert!(!possible(from, to), "{from} to {to}");
        }
    }
}
