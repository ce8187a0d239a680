//! Products of a number of units, rounded to whole microseconds as in cftime.

/// Microseconds in `float` units of `unit` nanoseconds: rounded down, to the nearest, and up.
///
/// cftime multiplies 80-bit floats, so the exact product is first rounded to 64 bits.
pub(super) fn rounded_product(float: f64, unit: i64) -> (i128, i128, i128) {
    let factor = i128::from(unit / 1000);
    // Nanoseconds are no unit of cftime.
    let float = if factor == 0 { float / 1000.0 } else { float };
    let factor = factor.max(1);
    let bits = float.abs().to_bits();
    let exponent = ((bits >> 52) as i32).max(1) - 1075;
    let mantissa = (bits & ((1 << 52) - 1)) | if bits >> 52 == 0 { 0 } else { 1 << 52 };
    let mut product = i128::from(mantissa) * factor;
    let mut exponent = exponent;
    let surplus = (128 - product.leading_zeros() as i32) - 64;
    if surplus > 0 {
        product = shifted(product, surplus as u32).1;
        exponent += surplus;
    }
    let sign = if float < 0.0 { -1 } else { 1 };
    if exponent >= 0 {
        let value = match product.leading_zeros() as i32 > exponent + 1 {
            true => product << exponent,
            false => i128::MAX,
        };
        return (sign * value, sign * value, sign * value);
    }
    let (low, near, high) = shifted(product, exponent.unsigned_abs());
    if sign < 0 { (-high, -near, -low) } else { (low, near, high) }
}

/// `value` / 2^`bits`, rounded down, to the nearest (ties to even) and up. `value` is not negative.
fn shifted(value: i128, bits: u32) -> (i128, i128, i128) {
    if bits >= 127 {
        return (0, 0, i128::from(value > 0));
    }
    let low = value >> bits;
    let rest = value - (low << bits);
    let half = (1_i128 << bits) / 2;
    let up = rest > half || (rest == half && bits > 0 && low % 2 == 1);
    (low, low + i128::from(up), low + i128::from(rest > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products() {
        assert_eq!(rounded_product(2.5, 1000), (2, 2, 3));
        assert_eq!(rounded_product(-2.5, 1000), (-3, -2, -2));
        assert_eq!(rounded_product(0.0, 1000), (0, 0, 0));
        assert_eq!(rounded_product(5e-324, 1000), (0, 0, 1));
        assert_eq!(rounded_product(f64::MAX, 1000).1, i128::MAX);
        assert_eq!(rounded_product(1.5, 1), (0, 0, 1));
        // 0.1 is 0.1000…00555; 64 bits do not hold the digits that its product has.
        assert_eq!(rounded_product(0.1, 86_400_000_000_000), (8_640_000_000, 8_640_000_000, 8_640_000_001));
    }
}
