//! Arithmetic as NumPy does it: integers wrap, floats are rounded to their type at each step.
//!
//! `as` is used on purpose: it takes the low bits.

#![expect(clippy::cast_possible_truncation, reason = "integers wrap")]

use crate::numbers::half::Half;
use crate::numbers::number::Number;

/// An integer.
pub(crate) trait Whole: Number {
    /// The integer with the same low bits.
    fn from_low_bits(value: i128) -> Self;
    /// The same integer.
    fn wide(self) -> i128;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! wholes {
    ($($type:ident)*) => {$(
        impl Whole for $type {
            #[inline(always)]
            fn from_low_bits(value: i128) -> Self {
                value as $type
            }

            #[inline(always)]
            fn wide(self) -> i128 {
                self.into()
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
    )*};
}

wholes!(i8 u8 i16 u16 i32 u32 i64 u64);

/// Expands to `$run!(type)` with the Rust type of an integer type.
///
/// For other [`NumberType`](crate::numbers::number::NumberType)s, `type` is `u8`.
macro_rules! with_whole {
    ($kind:expr, $run:ident) => {
        match $kind {
            $crate::numbers::number::NumberType::I8 => $run!(i8),
            $crate::numbers::number::NumberType::I16 => $run!(i16),
            $crate::numbers::number::NumberType::U16 => $run!(u16),
            $crate::numbers::number::NumberType::I32 => $run!(i32),
            $crate::numbers::number::NumberType::U32 => $run!(u32),
            $crate::numbers::number::NumberType::I64 => $run!(i64),
            $crate::numbers::number::NumberType::U64 => $run!(u64),
            _ => $run!(u8),
        }
    };
}
pub(crate) use with_whole;

/// One of NumPy's floats.
pub(crate) trait Real: Number {
    /// The nearest number of this type.
    fn from_f64(value: f64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn divide(self, other: Self) -> Self;
    /// Rounds to the nearest whole number, ties to even. Keeps the sign of zero.
    fn round_half_even(self) -> Self;
    fn is_finite(self) -> bool;
}

macro_rules! reals {
    ($($type:ident $no_fraction:literal $near:expr;)*) => {$(
        impl Real for $type {
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                $near(value)
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn divide(self, other: Self) -> Self {
                self / other
            }

            // Without SSE 4.1, `round_ties_even` compiles to a call for each number. Every number
            // of at least `$no_fraction` is whole, so adding `$no_fraction` rounds.
            #[inline(always)]
            fn round_half_even(self) -> Self {
                let magnitude = self.abs();
                let rounded = (magnitude + $no_fraction) - $no_fraction;
                let whole = if magnitude < $no_fraction { rounded } else { magnitude };
                whole.copysign(self)
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                $type::is_finite(self)
            }
        }
    )*};
}

reals! {
    f32 8_388_608.0 |value: f64| value.f32();
    f64 4_503_599_627_370_496.0 |value: f64| value;
}

impl Real for Half {
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        Half::from_f64(value)
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Half::from_f32(self.to_f32() + other.to_f32())
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Half::from_f32(self.to_f32() - other.to_f32())
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Half::from_f32(self.to_f32() * other.to_f32())
    }

    #[inline(always)]
    fn divide(self, other: Self) -> Self {
        Half::from_f32(self.to_f32() / other.to_f32())
    }

    #[inline(always)]
    fn round_half_even(self) -> Self {
        Half::from_f32(Real::round_half_even(self.to_f32()))
    }

    #[inline(always)]
    fn is_finite(self) -> bool {
        self.to_f32().is_finite()
    }
}

/// Expands to `$run!(type)` with the Rust type of a float type.
///
/// For other [`NumberType`](crate::numbers::number::NumberType)s, `type` is `f64`.
macro_rules! with_real {
    ($kind:expr, $run:ident) => {
        match $kind {
            $crate::numbers::number::NumberType::F16 => $run!(Half),
            $crate::numbers::number::NumberType::F32 => $run!(f32),
            _ => $run!(f64),
        }
    };
}
pub(crate) use with_real;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        for value in "0.5 1.5 2.5 -0.5 -0.4 0.49999999999999994 8388607.5 4503599627370495.5 1e300".split(' ')
        {
            let (double, single): (f64, f32) = (value.parse().unwrap(), value.parse().unwrap());
            assert_eq!(
                Real::round_half_even(double).to_bits(),
                double.round_ties_even().to_bits(),
                "{value}"
            );
            assert_eq!(
                Real::round_half_even(single).to_bits(),
                single.round_ties_even().to_bits(),
                "{value}"
            );
        }
        assert!(Real::round_half_even(f64::NAN).is_nan());
        assert_eq!(Real::round_half_even(f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert_eq!(Half::from_f64(2.5).round_half_even().to_f32(), 2.0);
    }
}
