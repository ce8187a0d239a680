//! Half-precision floats (IEEE 754 binary16), which Rust does not have yet.
//!
//! The crate `half` does not serve here. It rounds an `f64` twice, it changes the payload of NaNs,
//! and its conversions of single numbers are not vectorised.

#![expect(clippy::cast_possible_truncation, reason = "the bits that are cut off are zero")]

/// A half-precision float, as its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Half(
    /// The bits.
    pub u16,
);

/// The exponent bits of infinity, and the sign.
const INFINITY: u16 = 0x7c00;
const SIGN: u16 = 0x8000;

impl Half {
    /// The same number as `f32`.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        let magnitude = u32::from(self.0 & !SIGN) << 13;
        // The exponent's bias is 15 instead of 127. A multiplication corrects it, also for a
        // subnormal half.
        let scaled = f32::from_bits(magnitude) * 2f32.powi(127 - 15);
        let finite = self.0 & INFINITY != INFINITY;
        let bits = if finite { scaled.to_bits() } else { magnitude | 0x7f80_0000 };
        f32::from_bits(bits | u32::from(self.0 & SIGN) << 16)
    }

    /// The nearest half, ties to even.
    #[inline(always)]
    pub fn from_f32(value: f32) -> Half {
        let bits = value.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        // Rounds away the 13 bits that a half does not have; a carry moves into the exponent.
        let rebased = magnitude.wrapping_sub((127 - 15) << 23);
        let normal = (rebased.wrapping_add(0xfff + (rebased >> 13 & 1)) >> 13) as u16;
        // The last bit of 0.5 has the unit of subnormal halves, so adding 0.5 rounds.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits()) as u16;
        let nan = INFINITY | (magnitude >> 13) as u16 & 0x3ff;
        let half = if magnitude > 0x7f80_0000 {
            if nan == INFINITY { INFINITY | 1 } else { nan }
        } else if magnitude >= 0x4780_0000 {
            INFINITY
        } else if magnitude >= 0x3880_0000 {
            normal
        } else {
            subnormal
        };
        Half(half | (bits >> 16) as u16 & SIGN)
    }

    /// The nearest half, ties to even.
    #[inline(always)]
    pub fn from_f64(value: f64) -> Half {
        let near = value as f32;
        let back = f64::from(near);
        if back == value || value.is_nan() {
            return Half::from_f32(near);
        }
        // Rounding twice could give another result. The first rounding therefore goes towards zero,
        // and sets the last bit, far below the bits of a half, to mark the number as inexact.
        let bits = near.to_bits() - u32::from(back.abs() > value.abs());
        Half::from_f32(f32::from_bits(bits | 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SmallBits;

    #[test]
    fn every_half() {
        for bits in 0..=u16::MAX {
            let (half, value) = (Half(bits), SmallBits::HALF.to_f64(bits));
            if value.is_nan() {
                assert!(half.to_f32().is_nan());
                assert_eq!(Half::from_f32(half.to_f32()), half, "the payload stays");
                continue;
            }
            assert_eq!(f64::from(half.to_f32()).to_bits(), value.to_bits());
            assert_eq!(Half::from_f32(half.to_f32()), half);
            assert_eq!(Half::from_f64(value), half);
        }
    }

    #[test]
    fn numbers_between_halves() {
        for bits in 0..0x7bffu16 {
            let (low, high) = (SmallBits::HALF.to_f64(bits), SmallBits::HALF.to_f64(bits + 1));
            let middle = f64::midpoint(low, high);
            let even = Half(bits + (bits & 1));
            for (value, expected) in [
                (middle, even),
                (middle.next_down(), Half(bits)),
                (middle.next_up(), Half(bits + 1)),
                (low.next_up(), Half(bits)),
                (high.next_down(), Half(bits + 1)),
            ] {
                assert_eq!(Half::from_f64(value), expected, "{value}");
                assert_eq!(Half::from_f64(-value).0, expected.0 | SIGN);
            }
            assert_eq!(Half::from_f32(middle as f32), even);
            assert_eq!(Half::from_f32((middle as f32).next_up()), Half(bits + 1));
            assert_eq!(Half::from_f32((middle as f32).next_down()), Half(bits));
        }
    }

    #[test]
    fn the_ends() {
        for (value, bits) in [
            (65519.99, 0x7bff),
            (65520.0, INFINITY),
            (1e300, INFINITY),
            (f64::INFINITY, INFINITY),
            (-1e39, INFINITY | SIGN),
            (-0.0, SIGN),
            (2f64.powi(-25), 0),
            (2f64.powi(-25).next_up(), 1),
            (5e-324, 0),
        ] {
            assert_eq!(Half::from_f64(value), Half(bits), "{value}");
        }
        assert!(Half::from_f64(f64::NAN).to_f32().is_nan());
        assert!(Half::from_f32(f32::from_bits(0x7f80_0001)).to_f32().is_nan());
    }
}
