//! Conversions between 80-bit floats and other numbers.

use super::{F80, Float, FloatType, Integer, extended_value, load, mask, store, stored_order};
use hyperslab_array::{convert_elements, convert_nan};
use hyperslab_codec::{ByteOrder, DataType, Kind};

/// A number in memory, possibly an 80-bit float.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extended {
    /// An 80-bit x87 float in 16 bytes.
    Wide(ByteOrder),
    /// An integer, a Boolean or a float.
    Plain(DataType),
}

impl Extended {
    /// Converts one number as the HDF5 library does. At least one of the two types is an 80-bit
    /// float.
    pub fn convert(self, src: &[u8], to: Extended, dst: &mut [u8]) {
        match (self, to) {
            (Extended::Wide(from), Extended::Wide(to)) => store(load(src, stored_order(from)), to, dst),
            (Extended::Plain(from), Extended::Wide(to)) => store(widened(from, src), to, dst),
            (Extended::Wide(from), Extended::Plain(to)) => {
                narrow(load(src, stored_order(from)), from, to, dst)
            }
            (Extended::Plain(from), Extended::Plain(to)) => {
                convert_elements(from, src, to, dst);
            }
        }
    }
}

/// Widens a number to an 80-bit float, which holds it exactly.
fn widened(from: DataType, src: &[u8]) -> u128 {
    let order = stored_order(from.order());
    if from.kind() == Kind::Float {
        let float = FloatType::of(from.size());
        return Float { size: float.size, layout: float.layout(order) }.convert(src, F80);
    }
    let signed = from.kind() == Kind::Int;
    let precision = u16::try_from(src.len() * 8).unwrap_or(64);
    let value = Integer { size: src.len(), order, signed, offset: 0, precision }.value(src);
    u128::from(value < 0) << 79 | F80.bits(value.unsigned_abs(), 0)
}

/// Narrows an 80-bit float to a number that may be less precise.
fn narrow(bits: u128, from: ByteOrder, to: DataType, dst: &mut [u8]) {
    let value = extended_value(bits);
    if to.kind() == Kind::Float {
        // Avoid double rounding: the lowest bit of the double tells whether bits were lost.
        let value = if to.size() < 8 { rounded_to_odd(bits) } else { value };
        if let Some(double) = DataType::new(Kind::Float, 8, ByteOrder::NATIVE) {
            convert_elements(double, &value.to_ne_bytes(), to, dst);
        }
        return;
    }
    let by_processor = from == ByteOrder::NATIVE && to.order() == ByteOrder::NATIVE;
    let whole = match value {
        value if value.is_nan() && by_processor => convert_nan(to),
        value if value.is_nan() => 0,
        _ => {
            let mantissa = i128::from(u64::try_from(bits & mask(64)).unwrap_or_default());
            let exponent = i64::try_from(bits >> 64 & mask(15)).unwrap_or_default() - 16383 - 63;
            let size = match u32::try_from(exponent.unsigned_abs()).unwrap_or(u32::MAX) {
                count if exponent <= 0 => mantissa.checked_shr(count).unwrap_or_default(),
                count if count < 63 => mantissa << count,
                _ => i128::MAX,
            };
            if bits >> 79 & 1 == 0 { size } else { -size }
        }
    };
    let signed = to.kind() == Kind::Int;
    let width = u32::try_from(to.size() * 8).unwrap_or(64) - u32::from(signed);
    let high = (1_i128 << width) - 1;
    let low = if signed { -high - 1 } else { 0 };
    store(whole.clamp(low, high).cast_unsigned(), to.order(), dst);
}

/// Returns a double whose last bit is set if bits were lost, so that rounding it again is exact.
fn rounded_to_odd(bits: u128) -> f64 {
    const LOST: u128 = (1 << 11) - 1;
    let sticky = if bits & LOST == 0 { 0 } else { 1 << 11 };
    extended_value(bits & !LOST | sticky)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(src: &[u8], to: &str) -> Vec<u8> {
        let to: DataType = to.parse().unwrap();
        let mut dst = vec![0; to.size()];
        Extended::Wide(ByteOrder::Little).convert(src, Extended::Plain(to), &mut dst);
        dst
    }

    fn widen(src: &[u8], from: &str) -> Vec<u8> {
        let mut dst = vec![0; 16];
        Extended::Plain(from.parse().unwrap()).convert(src, Extended::Wide(ByteOrder::Little), &mut dst);
        dst
    }

    #[test]
    fn whole_numbers_are_exact() {
        let wide = widen(&u64::MAX.to_le_bytes(), "<u8");
        assert_eq!(wide[..10], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3e, 0x40]);
        assert_eq!(convert(&wide, "<u8"), u64::MAX.to_le_bytes());
        assert_eq!(convert(&wide, "<i8"), i64::MAX.to_le_bytes());
        let odd = (1_i64 << 53) + 1;
        assert_eq!(convert(&widen(&(-odd).to_le_bytes(), "<i8"), "<i8"), (-odd).to_le_bytes());
        assert_eq!(convert(&widen(&i64::MIN.to_le_bytes(), "<i8"), ">i8"), i64::MIN.to_be_bytes());
        assert_eq!(convert(&widen(&[0xfb], "|i1"), "|u1"), [0]);
    }

    #[test]
    fn fractions_are_cut_off_and_rounded_once() {
        for number in [1.9, -1.9, 0.3, 1e30, -1e30, f64::INFINITY, f64::NEG_INFINITY, 1e-300] {
            let wide = widen(&number.to_le_bytes(), "<f8");
            assert_eq!(convert(&wide, "<f8"), number.to_le_bytes());
            assert_eq!(convert(&wide, "<f4"), (number as f32).to_le_bytes());
            assert_eq!(convert(&wide, "<i2"), (number as i16).to_le_bytes());
            assert_eq!(convert(&wide, "<u8"), (number as u64).to_le_bytes());
        }
        // Just above the midpoint between 1 and the next single. The nearest double is exactly that
        // midpoint.
        let mut above = [0_u8; 16];
        above[..10].copy_from_slice(&[1, 0, 0, 0x00, 0x80, 0, 0, 0x80, 0xff, 0x3f]);
        assert_eq!(convert(&above, "<f4"), (1.0_f32 + f32::EPSILON).to_le_bytes());
    }
}
