//! Floats as NumPy prints them: with the fewest digits that tell floats of their size apart, and at
//! most eight after the point.
//!
//! Source: `FloatingFormat` in
//! <https://github.com/numpy/numpy/blob/v2.4.0/numpy/_core/arrayprint.py>

use half::f16;

/// Most digits after the point.
const PRECISION: usize = 8;

/// How the floats of an array are printed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FloatFormat {
    size: usize,
    /// Shows `+` before numbers that are not negative.
    plus: bool,
    /// Digits after the point, and of the exponent.
    exponential: Option<(usize, usize)>,
    left: usize,
    right: usize,
}

impl FloatFormat {
    /// `size`: bytes of a float.
    pub(super) fn of(values: impl Iterator<Item = f64> + Clone, size: usize, plus: bool) -> FloatFormat {
        let finite = || values.clone().filter(|value| value.is_finite());
        let sizes = finite().map(f64::abs).filter(|size| *size != 0.0);
        let (least, most) =
            sizes.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), one| (low.min(one), high.max(one)));
        let largest = match size {
            2 => 1e3,
            4 => 1e6,
            _ => 1e8,
        };
        let mut found = FloatFormat { size, plus, exponential: None, left: 0, right: 0 };
        if most > 0.0 && (most >= largest || least < 1e-4 || most / least > 1000.0) {
            let (mut digits, mut exponent) = (0, 0);
            for value in finite() {
                let (whole, fraction, power) = scientific(value, size);
                found.left = found.left.max(found.sign(value).len() + whole.len());
                digits = digits.max(fraction.len());
                exponent = exponent.max(power.unsigned_abs().to_string().len().max(2));
            }
            found.exponential = Some((digits, exponent));
            found.right = exponent + 2 + digits;
        } else {
            for value in finite() {
                let (whole, fraction) = positional(value, size);
                found.left = found.left.max(found.sign(value).len() + whole.len());
                found.right = found.right.max(fraction.len());
            }
        }
        let others = values.clone().filter(|value| !value.is_finite());
        let widest = others.map(|value| self::other(value, plus).len()).max().unwrap_or(0);
        // NumPy leaves room for "inf" if there is any number that is not finite.
        found.left =
            found.left.max(widest.max(if widest > 0 { 3 } else { 0 }).saturating_sub(found.right + 1));
        found
    }

    fn sign(&self, value: f64) -> &'static str {
        match value.is_sign_negative() {
            true => "-",
            false if self.plus => "+",
            false => "",
        }
    }

    /// Characters of a number.
    pub(super) fn width(&self) -> usize {
        self.left + self.right + 1
    }

    /// The number as text.
    pub(super) fn text(&self, value: f64) -> String {
        if !value.is_finite() {
            return format!("{:>width$}", other(value, self.plus), width = self.width());
        }
        let sign = self.sign(value);
        if let Some((digits, exponent)) = self.exponential {
            let (whole, fraction, power) = scientific(value, self.size);
            let front = format!("{sign}{whole}");
            let power_sign = if power < 0 { '-' } else { '+' };
            let power = power.unsigned_abs();
            return format!(
                "{front:>left$}.{fraction:0<digits$}e{power_sign}{power:0>exponent$}",
                left = self.left
            );
        }
        let (whole, fraction) = positional(value, self.size);
        let front = format!("{sign}{whole}");
        format!("{front:>left$}.{fraction:<right$}", left = self.left, right = self.right)
    }
}

/// NaN and infinities.
fn other(value: f64, plus: bool) -> String {
    match value {
        value if value.is_nan() => if plus { "+nan" } else { "nan" }.into(),
        value if value < 0.0 => "-inf".into(),
        _ => if plus { "+inf" } else { "inf" }.into(),
    }
}

/// The fewest digits that tell a float from others of its size, and the power of ten of the first one.
fn shortest(value: f64, size: usize) -> (String, i32) {
    let text = match size {
        2 => {
            let own = f16::from_f64(value);
            let found = (0..8).map(|digits| format!("{value:.digits$e}"));
            let is_own = |text: &String| text.parse().is_ok_and(|near| f16::from_f64(near) == own);
            found.into_iter().find(is_own).unwrap_or_else(|| format!("{value:e}"))
        }
        4 => format!("{:e}", value as f32),
        _ => format!("{value:e}"),
    };
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    (digits.replace('.', ""), power.parse().unwrap_or(0))
}

/// Digits before and after the point, without trailing zeros and without the sign.
fn positional(value: f64, size: usize) -> (String, String) {
    let (digits, power) = shortest(value.abs(), size);
    let after = digits.len() as i32 - 1 - power;
    if after > PRECISION as i32 {
        let text = format!("{:.PRECISION$}", value.abs());
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        return (whole.to_owned(), fraction.trim_end_matches('0').to_owned());
    }
    if power < 0 {
        let zeros = "0".repeat((-power - 1) as usize);
        return ("0".into(), format!("{zeros}{digits}").trim_end_matches('0').to_owned());
    }
    let whole = power as usize + 1;
    match digits.len() > whole {
        true => (digits[..whole].to_owned(), digits[whole..].trim_end_matches('0').to_owned()),
        false => (format!("{digits:0<whole$}"), String::new()),
    }
}

/// The digit before the point, the digits after it, and the power of ten, without the sign.
fn scientific(value: f64, size: usize) -> (String, String, i32) {
    let (digits, power) = shortest(value.abs(), size);
    if digits.len() > PRECISION + 1 {
        let text = format!("{:.PRECISION$e}", value.abs());
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let fraction = fraction.trim_end_matches('0').to_owned();
        return (whole.to_owned(), fraction, power.parse().unwrap_or(0));
    }
    (digits[..1].to_owned(), digits[1..].trim_end_matches('0').to_owned(), power)
}

/// One float by itself, as `str` shows it.
pub(super) fn scalar(value: f64, size: usize) -> String {
    if !value.is_finite() {
        return other(value, false);
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value == 0.0 {
        return format!("{sign}0.0");
    }
    let (digits, power) = shortest(value.abs(), size);
    if (-4..16).contains(&power) {
        let (whole, fraction) = match power {
            power if power < 0 => ("0".to_owned(), format!("{}{digits}", "0".repeat((-power - 1) as usize))),
            power if digits.len() > power as usize + 1 => {
                (digits[..power as usize + 1].to_owned(), digits[power as usize + 1..].to_owned())
            }
            power => (format!("{digits:0<width$}", width = power as usize + 1), "0".to_owned()),
        };
        return format!("{sign}{whole}.{fraction}");
    }
    let fraction = digits[1..].trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let power_sign = if power < 0 { '-' } else { '+' };
    format!("{sign}{}{point}{fraction}e{power_sign}{:02}", &digits[..1], power.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(values: &[f64], size: usize) -> Vec<String> {
        let format = FloatFormat::of(values.iter().copied(), size, false);
        values.iter().map(|value| format.text(*value)).collect()
    }

    #[test]
    fn floats_of_numpy() {
        // Expected texts come from NumPy 2.4.
        let nan = f64::NAN;
        assert_eq!(texts(&[1.0, 2.5, 10.0], 8), [" 1. ", " 2.5", "10. "]);
        assert_eq!(texts(&[1.0, nan, -1.5], 8), [" 1. ", " nan", "-1.5"]);
        assert_eq!(texts(&[nan, f64::NEG_INFINITY], 8), [" nan", "-inf"]);
        assert_eq!(texts(&[1.0 / 3.0, 100.0], 8), ["  0.33333333", "100.        "]);
        assert_eq!(texts(&[0.1_f32.into(), 1.0], 4), ["0.1", "1. "]);
        assert_eq!(texts(&[1e-5, 1.0], 8), ["1.e-05", "1.e+00"]);
        assert_eq!(texts(&[1.25e10, -3.0], 8), [" 1.25e+10", "-3.00e+00"]);
        assert_eq!(texts(&[1e300, 2e-300], 8), ["1.e+300", "2.e-300"]);
        assert_eq!(texts(&[1234567.0, 1.0], 8), ["1.234567e+06", "1.000000e+00"]);
        assert_eq!(texts(&[0.0, -0.0], 8), [" 0.", "-0."]);
        assert_eq!(texts(&[0.0999755859375, 1.0], 2), ["0.1", "1. "]);
        assert_eq!(texts(&[2e6, 1.5e6], 4), ["2.0e+06", "1.5e+06"]);
    }

    #[test]
    fn single_floats_of_numpy() {
        for (value, size, text) in [
            (1.0, 8, "1.0"),
            (1e-5, 8, "1e-05"),
            (-1.5e300, 8, "-1.5e+300"),
            (0.1_f32.into(), 4, "0.1"),
            (123456789.0, 8, "123456789.0"),
            (0.00012, 8, "0.00012"),
            (1e16, 8, "1e+16"),
            (-0.0, 8, "-0.0"),
            (f64::NAN, 4, "nan"),
        ] {
            assert_eq!(scalar(value, size), text);
        }
    }
}
