//! Numbers smaller than NumPy's own: floats of 4 to 16 bits, integers of 2 and 4 bits, and complex
//! numbers of two halves.
//!
//! Each is a line of [`SMALL`]. In memory a number takes whole bytes, as in the Python package
//! ml_dtypes. The lines hold enough for fill values; elements are only moved.
//! (<https://github.com/zarr-developers/zarr-extensions/tree/main/data-types>,
//! <https://github.com/jax-ml/ml_dtypes#specifications-of-implemented-floating-point-formats>)

/// A number smaller than NumPy's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SmallNumber {
    /// Its name in Zarr v3.
    pub name: &'static str,
    /// Its name in the Python package ml_dtypes.
    pub python: &'static str,
    /// Numbers in one element: 1, or 2 for complex numbers.
    pub parts: usize,
    /// The meaning of a number's bits.
    pub bits: SmallBits,
}

/// The meaning of a small number's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SmallBits {
    /// An unsigned integer with this many bits. The other bits of its byte mean nothing.
    UInt(u32),
    /// A signed integer with this many bits.
    Int(u32),
    /// A float: bits of the exponent and of the mantissa, the exponent's bias, and special values.
    Float(u32, u32, i32, Special),
}

/// Which bits of a small float are not a finite number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// As in IEEE 754: the largest exponent means infinity and NaNs.
    Ieee,
    /// All bits set (except the sign) is NaN. No infinity.
    OnesNan,
    /// Only the sign bit set is NaN. No infinity, no negative zero.
    SignNan,
    /// No special values.
    Finite,
    /// All bits set is NaN. The number is only an exponent, without sign and zero.
    Unsigned,
}

/// All small numbers.
pub static SMALL: [SmallNumber; 18] = [
    number("bfloat16", 8, 7, 127, Special::Ieee),
    number("float8_e3m4", 3, 4, 3, Special::Ieee),
    number("float8_e4m3", 4, 3, 7, Special::Ieee),
    number("float8_e4m3b11fnuz", 4, 3, 11, Special::SignNan),
    number("float8_e4m3fn", 4, 3, 7, Special::OnesNan),
    number("float8_e4m3fnuz", 4, 3, 8, Special::SignNan),
    number("float8_e5m2", 5, 2, 15, Special::Ieee),
    number("float8_e5m2fnuz", 5, 2, 16, Special::SignNan),
    number("float8_e8m0fnu", 8, 0, 127, Special::Unsigned),
    number("float6_e2m3fn", 2, 3, 1, Special::Finite),
    number("float6_e3m2fn", 3, 2, 3, Special::Finite),
    number("float4_e2m1fn", 2, 1, 1, Special::Finite),
    SmallNumber { bits: SmallBits::Int(2), ..number("int2", 0, 0, 0, Special::Finite) },
    SmallNumber { bits: SmallBits::Int(4), ..number("int4", 0, 0, 0, Special::Finite) },
    SmallNumber { bits: SmallBits::UInt(2), ..number("uint2", 0, 0, 0, Special::Finite) },
    SmallNumber { bits: SmallBits::UInt(4), ..number("uint4", 0, 0, 0, Special::Finite) },
    complex("complex_bfloat16", "bcomplex32", number("", 8, 7, 127, Special::Ieee)),
    complex("complex_float16", "complex32", number("", 5, 10, 15, Special::Ieee)),
];

const fn number(
    name: &'static str,
    exponent: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
) -> SmallNumber {
    SmallNumber { name, python: name, parts: 1, bits: SmallBits::Float(exponent, mantissa, bias, special) }
}

const fn complex(name: &'static str, python: &'static str, part: SmallNumber) -> SmallNumber {
    SmallNumber { name, python, parts: 2, bits: part.bits }
}

impl SmallNumber {
    /// Bytes of one number in memory.
    pub fn part_size(&self) -> usize {
        match self.bits {
            SmallBits::Float(exponent, mantissa, _, special) => {
                1 + usize::from(exponent + mantissa + u32::from(special != Special::Unsigned) > 8)
            }
            SmallBits::Int(_) | SmallBits::UInt(_) => 1,
        }
    }

    /// Bytes of one element in memory.
    pub fn size(&self) -> usize {
        self.parts * self.part_size()
    }
}

impl SmallBits {
    /// IEEE 754 half precision.
    pub const HALF: SmallBits = SmallBits::Float(5, 10, 15, Special::Ieee);

    /// The value of a float's bits.
    pub fn to_f64(self, bits: u16) -> f64 {
        let SmallBits::Float(exponent_bits, mantissa_bits, bias, special) = self else { return f64::NAN };
        let bits = i32::from(bits);
        let (mantissa, most) = (bits & ((1 << mantissa_bits) - 1), (1 << exponent_bits) - 1);
        let exponent = bits >> mantissa_bits & most;
        let negative = bits >> (mantissa_bits + exponent_bits) & 1 == 1;
        let ones = exponent == most && mantissa == (1 << mantissa_bits) - 1;
        let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
        let magnitude = match special {
            Special::Ieee if exponent == most && mantissa == 0 => f64::INFINITY,
            Special::Ieee if exponent == most => f64::NAN,
            Special::OnesNan | Special::Unsigned if ones => f64::NAN,
            Special::SignNan if negative && exponent == 0 && mantissa == 0 => f64::NAN,
            Special::Unsigned => 2f64.powi(exponent - bias),
            _ if exponent == 0 => fraction * 2f64.powi(1 - bias),
            _ => (1.0 + fraction) * 2f64.powi(exponent - bias),
        };
        if negative { -magnitude } else { magnitude }
    }

    /// The bits of the nearest float, ties to even. NaN becomes a NaN without payload.
    ///
    /// Returns `None` if the type has no such value: too large without infinity, no NaN, no sign,
    /// or no zero.
    pub fn from_f64(self, value: f64) -> Option<u16> {
        let SmallBits::Float(exponent, mantissa, _, special) = self else { return None };
        let (sign, ones) = (1u16 << (exponent + mantissa), (1u32 << (exponent + mantissa)) - 1);
        let ones = u16::try_from(ones).ok()?;
        let infinity = ones >> mantissa << mantissa;
        if value.is_nan() {
            return match special {
                Special::Ieee => Some(infinity | 1 << (mantissa - 1)),
                Special::OnesNan | Special::Unsigned => Some(ones),
                Special::SignNan => Some(sign),
                Special::Finite => None,
            };
        }
        // Without their sign, bits sort like their numbers.
        let most = match special {
            Special::Ieee => infinity - 1,
            Special::OnesNan | Special::Unsigned => ones - 1,
            Special::SignNan | Special::Finite => ones,
        };
        let magnitude = value.abs();
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.to_f64(middle) <= magnitude { low = middle } else { high = middle - 1 }
        }
        let below = self.to_f64(low);
        // After the largest number, `next` is the number that would follow it. Values that round up
        // to it are too large.
        let next = if low == most { below + (below - self.to_f64(low - 1)) } else { self.to_f64(low + 1) };
        let up =
            magnitude - below > next - magnitude || magnitude - below == next - magnitude && low & 1 == 1;
        let bits = match (up, low == most) {
            (false, _) => low,
            (true, false) => low + 1,
            (true, true) if special == Special::Ieee => infinity,
            (true, true) => return None,
        };
        match special {
            Special::Unsigned if value.is_sign_negative() || magnitude < below / 2.0 => None,
            Special::SignNan if bits == 0 => Some(0),
            _ => Some(if value.is_sign_negative() { bits | sign } else { bits }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(name: &str) -> SmallBits {
        SMALL.iter().find(|small| small.name == name).unwrap().bits
    }

    /// Every number is its own nearest number; midpoints go to the even one.
    #[test]
    fn numbers_round_trip() {
        for small in &SMALL {
            let SmallBits::Float(exponent, mantissa, _, special) = small.bits else { continue };
            let signed = u32::from(special != Special::Unsigned);
            let all = u16::try_from((1u32 << (exponent + mantissa + signed)) - 1).unwrap();
            let mut last = f64::NAN;
            for n in 0..=all {
                let value = small.bits.to_f64(n);
                if value.is_nan() {
                    last = f64::NAN;
                    continue;
                }
                assert_eq!(small.bits.from_f64(value), Some(n), "{} of {}", value, small.name);
                let middle = f64::midpoint(last, value);
                if middle.is_finite() && value != 0.0 && (last < 0.0) == (value < 0.0) {
                    let even = if n & 1 == 0 { n } else { n - 1 };
                    assert_eq!(small.bits.from_f64(middle), Some(even), "{middle} in {}", small.name);
                }
                last = value;
            }
            let nan = small.bits.from_f64(f64::NAN);
            assert_eq!(nan.is_none(), special == Special::Finite, "{}", small.name);
            assert!(nan.is_none_or(|nan| small.bits.to_f64(nan).is_nan()), "{}", small.name);
        }
    }

    /// Values according to ml_dtypes 0.6.
    #[test]
    fn values() {
        for (name, n, value) in [
            ("bfloat16", 0x3f80, 1.0),
            ("bfloat16", 0xff80, f64::NEG_INFINITY),
            ("float8_e3m4", 0x6f, 15.5),
            ("float8_e4m3", 0x77, 240.0),
            ("float8_e4m3b11fnuz", 0x7f, 30.0),
            ("float8_e4m3fn", 0x7e, 448.0),
            ("float8_e4m3fnuz", 0x7f, 240.0),
            ("float8_e5m2", 0x7b, 57344.0),
            ("float8_e5m2fnuz", 0x7f, 57344.0),
            ("float8_e8m0fnu", 0xfe, 2f64.powi(127)),
            ("float6_e2m3fn", 0x1f, 7.5),
            ("float6_e3m2fn", 0x1f, 28.0),
            ("float4_e2m1fn", 0x7, 6.0),
            ("complex_float16", 0x7bff, 65504.0),
        ] {
            assert_eq!(bits(name).to_f64(n), value, "{name}");
        }
        assert_eq!(bits("float8_e4m3fn").from_f64(500.0), None);
        assert_eq!(bits("float8_e5m2").from_f64(1e9), Some(0x7c));
        assert_eq!(bits("float8_e8m0fnu").from_f64(-1.0), None);
        assert_eq!(bits("float8_e8m0fnu").from_f64(0.0), None);
        let sizes = SMALL.map(|small| small.size());
        assert_eq!(sizes, [2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 4]);
    }
}
