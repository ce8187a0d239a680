//! Numbers in memory become stored ones.

use super::{F80, Float, FloatType, Integer, mask, stored_order};
use crate::datatype::Order;
use hyperslab_codec::ByteOrder;

/// An integer in memory, described as a stored one.
pub(crate) fn stored_integer(size: usize, order: ByteOrder, signed: bool) -> Integer {
    let precision = u16::try_from(size.saturating_mul(8)).unwrap_or(64);
    Integer { size, order: stored_order(order), signed, offset: 0, precision }
}

impl Integer {
    /// Stores a value, or the nearest one that there is. Bits without meaning become zeros.
    pub fn put(&self, value: i128, stored: &mut [u8]) {
        let precision = u8::try_from(self.precision.min(127)).unwrap_or(127);
        let (low, high) = match self.signed {
            true => {
                let high = mask(precision.saturating_sub(1)).cast_signed();
                (-high - 1, high)
            }
            false => (0, mask(precision).cast_signed()),
        };
        let bits = value.clamp(low, high).cast_unsigned() & mask(precision);
        put_bits(bits.checked_shl(self.offset.into()).unwrap_or(0), self.order, stored);
    }
}

impl Float {
    /// Returns `true` if numbers of a type in memory can be stored.
    pub fn can_store(&self, from: FloatType) -> bool {
        from.is(&self.layout) || self.layout.normalization == 2
    }

    /// Stores a float, rounded to the nearest one that there is.
    pub fn put(&self, memory: &[u8], from: FloatType, order: ByteOrder, stored: &mut [u8]) {
        let source = Float { size: from.size, layout: from.layout(stored_order(order)) };
        let layout = &self.layout;
        if from.is(layout) {
            let bits = super::load(memory, stored_order(order));
            let all = mask(from.mantissa_bits() + from.exponent_bits + 1);
            return put_bits(bits & all, layout.order, stored);
        }
        let (sign, exponent, mantissa) = source.fields(memory);
        let (width, largest) = (layout.mantissa_bits, mask(layout.exponent_bits));
        let infinity = largest << width;
        let magnitude = if u128::from(exponent) == mask(from.exponent_bits) {
            let payload = mantissa & (u64::MAX >> (64 - from.fraction_bits.clamp(1, 64)));
            // A NaN stays one: its highest bits, and the bit that makes it quiet.
            let quiet = if payload == 0 { 0 } else { 1_u128 << width.saturating_sub(1) };
            infinity | quiet | super::shift(payload.into(), i64::from(width) - i64::from(from.fraction_bits))
        } else {
            let scale = i64::try_from(exponent.max(1)).unwrap_or_default() - from.bias();
            let scale = scale - i64::from(from.fraction_bits);
            let leading = u128::from(from != F80 && exponent > 0) << from.fraction_bits;
            self.rounded(u128::from(mantissa) | leading, scale).min(infinity)
        };
        let mantissa = magnitude & mask(width);
        let fields = [
            (u128::from(sign), layout.sign),
            (magnitude >> width, layout.exponent_at),
            (mantissa, layout.mantissa_at),
        ];
        let bits =
            fields.into_iter().fold(0, |bits, (field, at)| bits | field.checked_shl(at.into()).unwrap_or(0));
        put_bits(bits, layout.order, stored);
    }

    /// Returns exponent and mantissa, one after the other, of `mantissa × 2^exponent`.
    fn rounded(&self, mantissa: u128, exponent: i64) -> u128 {
        let Some(top) = mantissa.checked_ilog2() else { return 0 };
        let (width, bias) = (i64::from(self.layout.mantissa_bits), i64::from(self.layout.bias));
        let field = (exponent + i64::from(top) + bias).max(0);
        // Bits of the mantissa that are cut off. Below the smallest normal number they are more.
        let unit = field.max(1) - bias - width;
        let cut = unit - exponent;
        let kept = if cut <= 0 {
            super::shift(mantissa, -cut)
        } else {
            let kept = super::shift(mantissa, -cut);
            let rest = mantissa & mask(u8::try_from(cut.min(128)).unwrap_or(128));
            let half = 1_u128.checked_shl(u32::try_from(cut - 1).unwrap_or(u32::MAX)).unwrap_or(0);
            let up = half != 0 && (rest > half || rest == half && kept & 1 == 1);
            kept + u128::from(up)
        };
        // A mantissa that became too long by rounding raises the exponent.
        let implied = if field > 0 { 1_u128 << width } else { 0 };
        let field = u128::try_from(field).unwrap_or_default();
        (field << width).saturating_add(kept.saturating_sub(implied))
    }
}

/// Stores the low bits of a number.
fn put_bits(bits: u128, order: Order, stored: &mut [u8]) {
    stored.fill(0);
    let bytes = bits.to_le_bytes();
    match order {
        Order::Little => super::copy(stored, bytes.iter()),
        Order::Big => stored.iter_mut().rev().zip(bytes).for_each(|(to, from)| *to = from),
        Order::Vax => stored.rchunks_mut(2).flatten().zip(bytes).for_each(|(to, from)| *to = from),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{F32, F64, FloatLayout};
    use super::*;
    use proptest::prelude::*;

    fn layout(
        [sign, exponent_at, exponent_bits, mantissa_at, mantissa_bits]: [u8; 5],
        bias: u32,
    ) -> FloatLayout {
        FloatLayout {
            order: Order::Little,
            offset: 0,
            precision: u16::from(sign) + 1,
            sign,
            exponent_at,
            exponent_bits,
            mantissa_at,
            mantissa_bits,
            bias,
            normalization: 2,
        }
    }

    const BFLOAT: [u8; 5] = [15, 7, 8, 0, 7];

    fn stored(float: Float, value: f32) -> Vec<u8> {
        let mut stored = vec![0xa5; float.size];
        float.put(&value.to_le_bytes(), F32, ByteOrder::Little, &mut stored);
        stored
    }

    /// The upper half of a single, rounded to even.
    fn bfloat(value: f32) -> u16 {
        let bits = value.to_bits();
        if value.is_nan() {
            return (bits >> 16) as u16 | 0x40;
        }
        ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
    }

    proptest! {
        #[test]
        fn singles_become_bfloats(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            let float = Float { size: 2, layout: layout(BFLOAT, 127) };
            prop_assert_eq!(stored(float, value), bfloat(value).to_le_bytes());
        }

        #[test]
        fn doubles_become_singles(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            let float = Float { size: 4, layout: layout([31, 23, 8, 0, 23], 127) };
            let mut found = [0; 4];
            float.put(&value.to_le_bytes(), F64, ByteOrder::Little, &mut found);
            let found = f32::from_le_bytes(found);
            prop_assert!(found.to_bits() == (value as f32).to_bits() || found.is_nan() && value.is_nan());
        }

        #[test]
        fn wider_layouts_keep_every_single(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            for order in [Order::Little, Order::Big, Order::Vax] {
                let layout = FloatLayout { order, ..layout([50, 40, 8, 3, 23], 127) };
                let float = Float { size: 8, layout };
                let stored = stored(float, value);
                let back = float.convert(&stored, F32) as u32;
                prop_assert!(back == bits || value.is_nan() && f32::from_bits(back).is_nan());
            }
        }
    }

    #[test]
    fn eighty_bits_stay() {
        let x87 = FloatLayout { normalization: 0, ..layout([79, 64, 15, 0, 64], 16383) };
        let float = Float { size: 10, layout: x87 };
        let one = [0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f, 7, 7, 7, 7, 7, 7];
        let mut stored = [0xa5; 10];
        float.put(&one, F80, ByteOrder::Little, &mut stored);
        assert_eq!(stored, one[..10]);
        // A double from 80 bits.
        let double = Float { size: 8, layout: layout([63, 52, 11, 0, 52], 1023) };
        let mut stored = [0xa5; 8];
        double.put(&one, F80, ByteOrder::Little, &mut stored);
        assert_eq!(f64::from_le_bytes(stored), 1.0);
        assert!(float.can_store(F80) && !float.can_store(F64) && double.can_store(F80));
    }
}
