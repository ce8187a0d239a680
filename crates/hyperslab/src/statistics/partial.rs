//! Statistics of some elements, and joining them with the statistics of others.
//!
//! Counts, smallest and largest values and sums of integers are exact. Sums of floats, and squared
//! deviations of all numbers, are computed with 64 bits per piece of a few thousand elements. They
//! are joined with about 106 bits ([`Double`]), so that the order in which pieces are joined does
//! not change the digits of a 64-bit result.

use crate::meaning::Packing;
use std::ops::{Add, Mul, Sub};

/// A number as the sum of two floats: about 106 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Double {
    /// The number, rounded.
    pub high: f64,
    /// The rounding error.
    pub low: f64,
}

impl Double {
    /// Converts an integer; beyond 2¹⁰⁶ it is rounded.
    pub fn of_int(n: i128) -> Self {
        let high = n as f64;
        // The conversion back only saturates for the largest numbers, whose rest is lost anyway.
        Double { high, low: n.wrapping_sub(high as i128) as f64 }
    }

    /// The nearest 64-bit float.
    pub fn value(self) -> f64 {
        self.high + self.low
    }

    /// `high + low`, where either may be the larger. Infinite and undefined sums have no rest.
    fn sum_of(high: f64, low: f64) -> Self {
        let sum = high + low;
        if !sum.is_finite() {
            return Double { high: sum, low: 0.0 };
        }
        let part = sum - high;
        Double { high: sum, low: (high - (sum - part)) + (low - part) }
    }

    /// Divides by a whole number.
    pub fn over(self, n: u64) -> Self {
        let divisor = Double::of_int(i128::from(n));
        let first = self.high / divisor.high;
        if !first.is_finite() {
            return Double { high: first, low: 0.0 };
        }
        let rest = self - divisor * Double { high: first, low: 0.0 };
        Double::sum_of(first, rest.value() / divisor.high)
    }
}

impl From<f64> for Double {
    fn from(high: f64) -> Self {
        Double { high, low: 0.0 }
    }
}

impl Add for Double {
    type Output = Double;

    fn add(self, other: Double) -> Double {
        let high = Double::sum_of(self.high, other.high);
        let low = Double::sum_of(self.low, other.low);
        let both = Double::sum_of(high.high, high.low + low.high);
        Double::sum_of(both.high, both.low + low.low)
    }
}

impl Sub for Double {
    type Output = Double;

    fn sub(self, other: Double) -> Double {
        self + Double { high: -other.high, low: -other.low }
    }
}

impl Mul for Double {
    type Output = Double;

    fn mul(self, other: Double) -> Double {
        let product = self.high * other.high;
        if !product.is_finite() {
            return Double { high: product, low: 0.0 };
        }
        let rest = self.high.mul_add(other.high, -product);
        Double::sum_of(product, rest + (self.high * other.low + self.low * other.high))
    }
}

/// The statistics of some elements.
/// Integers, dates and bools use the fields `…_int`, floats the others.
#[derive(Clone, Debug, PartialEq)]
pub struct PartialStatistics {
    /// Number of elements that are not missing.
    pub count: u64,
    /// Number of missing elements.
    pub missing: u64,
    /// The smallest integer; without elements, the largest possible one.
    pub min_int: i128,
    /// The largest integer; without elements, the smallest possible one.
    pub max_int: i128,
    /// The exact sum of integers.
    pub sum_int: i128,
    /// The smallest float; without elements, infinity.
    pub min: f64,
    /// The largest float; without elements, minus infinity.
    pub max: f64,
    /// The sum of floats.
    pub sum: Double,
    /// The sum of squared deviations from the mean.
    pub squares: Double,
    /// Number of elements per bin.
    pub bins: Vec<u64>,
}

impl Default for PartialStatistics {
    fn default() -> Self {
        PartialStatistics {
            count: 0,
            missing: 0,
            min_int: i128::MAX,
            max_int: i128::MIN,
            sum_int: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sum: Double::default(),
            squares: Double::default(),
            bins: Vec::new(),
        }
    }
}

impl PartialStatistics {
    /// The mean; `None`: there are no elements.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.middle().value())
    }

    /// The population standard deviation (NumPy's with `ddof=0`); `None`: there are no elements.
    pub fn std(&self) -> Option<f64> {
        (self.count > 0).then(|| self.squares.over(self.count).value().max(0.0).sqrt()).map(|std| {
            // `max` hides NaN.
            if self.squares.high.is_nan() { f64::NAN } else { std }
        })
    }

    fn middle(&self) -> Double {
        (self.sum + Double::of_int(self.sum_int)).over(self.count)
    }

    /// Converts statistics of packed numbers to statistics of the unpacked numbers: floats.
    pub(super) fn unpacked(self, packing: &Packing) -> PartialStatistics {
        if self.count == 0 {
            return self;
        }
        let ends = match self.min_int <= self.max_int {
            true => [self.min_int as f64, self.max_int as f64],
            false => [self.min, self.max],
        };
        let [one, other] = ends.map(|end| packing.unpacked(end));
        let scale = Double::from(packing.scale.unwrap_or(1.0));
        let offset = Double::from(packing.offset.unwrap_or(0.0));
        let sum = self.sum + Double::of_int(self.sum_int);
        PartialStatistics {
            count: self.count,
            missing: self.missing,
            min: one.min(other),
            max: one.max(other),
            sum: sum * scale + offset * Double::of_int(i128::from(self.count)),
            squares: self.squares * scale * scale,
            ..PartialStatistics::default()
        }
    }

    /// Adds the statistics of other elements of the same array.
    pub fn join(&mut self, other: &PartialStatistics) {
        if self.count > 0 && other.count > 0 {
            let count = u128::from(self.count) + u128::from(other.count);
            let between = other.middle() - self.middle();
            let weight =
                Double::of_int(i128::from(self.count)).over(u64::try_from(count).unwrap_or(u64::MAX));
            let weight = weight * Double::of_int(i128::from(other.count));
            self.squares = self.squares + other.squares + between * between * weight;
        } else if other.count > 0 {
            self.squares = other.squares;
        }
        self.count = self.count.saturating_add(other.count);
        self.missing = self.missing.saturating_add(other.missing);
        self.min_int = self.min_int.min(other.min_int);
        self.max_int = self.max_int.max(other.max_int);
        self.sum_int = self.sum_int.saturating_add(other.sum_int);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum = self.sum + other.sum;
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), 0);
        }
        self.bins.iter_mut().zip(&other.bins).for_each(|(here, there)| *here += there);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(values: &[i128]) -> PartialStatistics {
        let mut all = PartialStatistics::default();
        for value in values {
            let (min_int, max_int, sum_int) = (*value, *value, *value);
            all.join(&PartialStatistics {
                count: 1,
                min_int,
                max_int,
                sum_int,
                ..PartialStatistics::default()
            });
        }
        all
    }

    #[test]
    fn doubles_have_twice_the_digits() {
        let third = Double::from(1.0).over(3);
        assert_eq!(third.high, 1.0 / 3.0);
        let rest = Double::from(1.0) - third * Double::from(3.0);
        assert!(rest.value().abs() < 1e-31, "{rest:?}");
        assert_eq!(Double::of_int((1 << 100) + 1) - Double::of_int(1 << 100), Double::from(1.0));
        assert_eq!((Double::from(f64::INFINITY) + Double::from(1.0)).value(), f64::INFINITY);
    }

    #[test]
    fn deviations_of_large_numbers_are_those_of_small_ones() {
        let small = part(&[1, 2, 4, 9]);
        let large = part(&[1, 2, 4, 9].map(|n| n + (1 << 90)));
        assert_eq!(small.std(), large.std());
        assert_eq!(small.std(), Some(9.5_f64.sqrt()));
        assert_eq!((small.mean(), small.sum_int, small.min_int, small.max_int), (Some(4.0), 16, 1, 9));
    }

    #[test]
    fn nothing_has_no_mean() {
        let mut none = PartialStatistics::default();
        none.join(&PartialStatistics { missing: 3, ..PartialStatistics::default() });
        assert_eq!((none.mean(), none.std(), none.missing), (None, None, 3));
        let mut one = part(&[5]);
        one.join(&none);
        none.join(&part(&[5]));
        assert_eq!(one, none);
    }

    #[test]
    fn order_does_not_show() {
        let values: Vec<f64> = (0..1000).map(|n| f64::from(n * 7919 % 1000) * 1e-3 + 1e9).collect();
        let joined = |values: &mut dyn Iterator<Item = &f64>| {
            let mut all = PartialStatistics::default();
            for value in values {
                all.join(&PartialStatistics {
                    count: 1,
                    sum: Double::from(*value),
                    ..PartialStatistics::default()
                });
            }
            (all.mean(), all.std())
        };
        assert_eq!(joined(&mut values.iter()), joined(&mut values.iter().rev()));
    }
}
