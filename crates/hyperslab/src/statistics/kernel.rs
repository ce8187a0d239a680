//! Statistics of elements in memory, in pieces that stay in the caches for a second pass.
//!
//! 1. Elements with a missing value are removed. Packed numbers are processed as stored, and the
//!    results of each piece are scaled.
//! 2. One pass adds the elements and finds the smallest and the largest. For floats it adds the
//!    differences from a pivot, the first element of the piece, and their squares.
//! 3. Integers take two passes. Floats also do, if some are NaN or infinite, or if the pivot is so
//!    far from the mean that digits were lost. The second pass adds the squared differences from
//!    the mean.
//! 4. If there are bins, another pass counts.

use super::histogram::Bins;
use super::partial::{Double, PartialStatistics};
use crate::meaning::Packing;
use bytemuck::Pod;
use half::f16;

/// Elements of a piece: 128 KiB of the largest numbers, which fit the second-level cache.
/// The sum of a piece of 32-bit integers fits 64 bits.
const PIECE: usize = 1 << 14;
/// Number of parallel sums: enough that the processor need not wait for an addition.
const LANES: usize = 16;

/// Largest share of the squares around a pivot that may come from its distance to the mean.
/// At nine tenths, one digit of sixteen is lost.
const MOST_LOST: f64 = 0.9;

/// A type of number in an array.
pub(super) trait Number: Pod + PartialEq {
    /// Computes the statistics of a piece with at most [`PIECE`] numbers.
    fn part(piece: &[Self]) -> PartialStatistics;
    /// The value, rounded to a 64-bit float.
    fn value(self) -> f64;
}

/// How to interpret stored numbers.
pub(super) struct NumberRules<'a, T> {
    /// Stored numbers that count as missing.
    pub(super) missing: Vec<T>,
    /// The packing, if values are computed from stored numbers.
    pub(super) scale: Option<&'a Packing>,
    pub(super) bins: Option<&'a Bins>,
}

/// Adds the statistics of stored numbers to `all`.
pub(super) fn add<T: Number>(values: &[T], rules: &NumberRules<'_, T>, all: &mut PartialStatistics) {
    let NumberRules { missing, scale, bins } = rules;
    let mut kept = Vec::new();
    for piece in values.chunks(PIECE) {
        let mut left = piece;
        if !missing.is_empty() {
            kept.clear();
            // NaN is missing in any case.
            kept.extend(piece.iter().filter(|value| !missing.contains(value)));
            left = &kept;
        }
        let mut part = T::part(left);
        part.missing += (piece.len() - left.len()) as u64;
        if let Some(packing) = scale {
            part = part.unpacked(packing);
        }
        if let Some(bins) = bins {
            part.bins = vec![0; bins.len()];
            let value = |value: &T| scale.map_or(value.value(), |packing| packing.unpacked(value.value()));
            left.iter().for_each(|each| bins.count(value(each), &mut part.bins));
        }
        all.join(&part);
    }
}

/// Calls `add` with the lane and the value of each element.
#[inline(always)]
fn in_lanes<T: Copy>(piece: &[T], mut add: impl FnMut(usize, T)) {
    let lanes = piece.chunks_exact(LANES);
    let rest = lanes.remainder();
    for values in lanes {
        for (lane, value) in values.iter().enumerate() {
            add(lane, *value);
        }
    }
    rest.iter().enumerate().for_each(|(lane, value)| add(lane, *value));
}

/// The sum of squared deviations from `mean`.
/// `deviation`: the deviation of one value; `None`: the value is missing.
fn squared_deviations<T: Copy>(piece: &[T], count: u64, deviation: impl Fn(T) -> Option<f64>) -> Double {
    let (mut sums, mut squares) = ([0.0; LANES], [0.0; LANES]);
    in_lanes(piece, |lane, value| {
        let deviation = deviation(value).unwrap_or(0.0);
        sums[lane] += deviation;
        squares[lane] += deviation * deviation;
    });
    // Correct for the rounding of the mean.
    let (sum, squares) = (sums.iter().sum::<f64>(), squares.iter().sum::<f64>());
    Double::from(squares) - (Double::from(sum) * Double::from(sum)).over(count)
}

macro_rules! floats {
    ($($type:ty: $to:expr, $compared:ty: $exact:expr;)*) => {$(
        impl Number for $type {
            fn part(piece: &[Self]) -> PartialStatistics {
                let to = $to;
                let exact = $exact;
                // Fast path: most pieces have no NaN and no infinity.
                let pivot = piece.first().map_or(0.0, |value| to(*value));
                let (mut sums, mut squares) = ([0.0_f64; LANES], [0.0_f64; LANES]);
                let (mut least, mut most) = ([<$compared>::INFINITY; LANES], [<$compared>::NEG_INFINITY; LANES]);
                in_lanes(piece, |lane, value: Self| {
                    let difference = to(value) - pivot;
                    sums[lane] += difference;
                    squares[lane] += difference * difference;
                    let value: $compared = exact(value);
                    least[lane] = if value < least[lane] { value } else { least[lane] };
                    most[lane] = if value > most[lane] { value } else { most[lane] };
                });
                let (sum, square) = (sums.iter().sum::<f64>(), squares.iter().sum::<f64>());
                let count = piece.len() as u64;
                let lost = sum * (sum / count as f64);
                if !piece.is_empty() && square.is_finite() && lost <= square * MOST_LOST {
                    return PartialStatistics {
                        count,
                        min: least.into_iter().fold(<$compared>::INFINITY, <$compared>::min).into(),
                        max: most.into_iter().fold(<$compared>::NEG_INFINITY, <$compared>::max).into(),
                        sum: Double::from(pivot) * Double::of_int(i128::from(count)) + Double::from(sum),
                        squares: Double::from(square) - Double::from(lost),
                        ..PartialStatistics::default()
                    };
                }
                let (mut sums, mut counts) = ([0.0_f64; LANES], [0_u64; LANES]);
                let (mut least, mut most) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
                in_lanes(piece, |lane, value: Self| {
                    let value: f64 = to(value);
                    // Comparisons with NaN are false.
                    let known = value == value;
                    sums[lane] += if known { value } else { 0.0 };
                    counts[lane] += u64::from(known);
                    least[lane] = if value < least[lane] { value } else { least[lane] };
                    most[lane] = if value > most[lane] { value } else { most[lane] };
                });
                let count: u64 = counts.iter().sum();
                let missing = piece.len() as u64 - count;
                if count == 0 {
                    return PartialStatistics { missing, ..PartialStatistics::default() };
                }
                let sum: f64 = sums.iter().sum();
                let mean = sum / count as f64;
                let squares = squared_deviations(piece, count, |value| {
                    let value: f64 = to(value);
                    (value == value).then_some(value - mean)
                });
                PartialStatistics {
                    count,
                    missing,
                    min: least.into_iter().fold(f64::INFINITY, f64::min),
                    max: most.into_iter().fold(f64::NEG_INFINITY, f64::max),
                    sum: sum.into(),
                    squares,
                    ..PartialStatistics::default()
                }
            }

            fn value(self) -> f64 {
                $to(self)
            }
        }
    )*};
}
floats! {
    f16: f16::to_f64, f32: f16::to_f32;
    f32: f64::from, f32: std::convert::identity::<f32>;
    f64: std::convert::identity::<f64>, f64: std::convert::identity::<f64>;
}

macro_rules! small_integers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn part(piece: &[Self]) -> PartialStatistics {
                let (Some(min), Some(max)) = (piece.iter().min(), piece.iter().max()) else {
                    return PartialStatistics::default();
                };
                let sum: i64 = piece.iter().map(|value| i64::from(*value)).sum();
                let count = piece.len() as u64;
                let mean = sum as f64 / count as f64;
                PartialStatistics {
                    count,
                    min_int: (*min).into(),
                    max_int: (*max).into(),
                    sum_int: sum.into(),
                    squares: squared_deviations(piece, count, |value| Some(f64::from(value) - mean)),
                    ..PartialStatistics::default()
                }
            }

            fn value(self) -> f64 {
                self.into()
            }
        }
    )*};
}
small_integers!(i8, u8, i16, u16, i32, u32);

macro_rules! large_integers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn part(piece: &[Self]) -> PartialStatistics {
                let (Some(min), Some(max)) = (piece.iter().min(), piece.iter().max()) else {
                    return PartialStatistics::default();
                };
                // Sum the 32-bit halves separately: their sums fit 64 bits.
                let high: i64 = piece.iter().map(|value| (*value >> 32) as i64).sum();
                let low: i64 = piece.iter().map(|value| i64::from(*value as u32)).sum();
                let sum = (i128::from(high) << 32) + i128::from(low);
                let count = piece.len() as u64;
                // Subtract as integers: as floats, large numbers that are close to each other may
                // be equal.
                let middle = sum.div_euclid(i128::from(count));
                let narrow = i128::from(*max) - i128::from(*min) <= i128::from(i64::MAX);
                let squares = match narrow {
                    true => squared_deviations(piece, count, |value| Some(value.wrapping_sub(middle as $type) as i64 as f64)),
                    false => squared_deviations(piece, count, |value| Some((i128::from(value) - middle) as f64)),
                };
                let (min_int, max_int) = ((*min).into(), (*max).into());
                PartialStatistics { count, min_int, max_int, sum_int: sum, squares, ..PartialStatistics::default() }
            }

            fn value(self) -> f64 {
                self as f64
            }
        }
    )*};
}
large_integers!(i64, u64);

/// A date or time difference. The smallest integer is NaT.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(transparent)]
pub(super) struct Time(i64);

impl Number for Time {
    fn part(piece: &[Self]) -> PartialStatistics {
        let times: Vec<i64> = piece.iter().map(|time| time.0).filter(|time| *time != i64::MIN).collect();
        let missing = (piece.len() - times.len()) as u64;
        PartialStatistics { missing, ..i64::part(&times) }
    }

    fn value(self) -> f64 {
        if self.0 == i64::MIN { f64::NAN } else { self.0 as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known<T: Number>(values: &[T], missing: &[T]) -> PartialStatistics {
        let mut all = PartialStatistics::default();
        let rules = NumberRules { missing: missing.to_vec(), scale: None, bins: None };
        add(values, &rules, &mut all);
        all
    }

    #[test]
    fn floats() {
        let values: Vec<f32> = (0..140_000u32).map(|n| n as f32).chain([f32::NAN]).collect();
        let all = known(&values, &[3.0, f32::NAN]);
        assert_eq!((all.count, all.missing, all.min), (values.len() as u64 - 2, 2, 0.0));
        assert_eq!(all.max, (values.len() - 2) as f64);
        let n = (values.len() - 1) as f64;
        assert_eq!(all.sum.value(), n * (n - 1.0) / 2.0 - 3.0);
        let one = known(&[f64::INFINITY, 1.0], &[]);
        assert_eq!((one.mean(), one.std().map(f64::is_nan)), (Some(f64::INFINITY), Some(true)));
        assert_eq!(known(&[f16::from_f32(1.5)], &[]).mean(), Some(1.5));
    }

    #[test]
    fn integers() {
        let all = known(&[i64::MAX, i64::MIN, i64::MAX], &[]);
        assert_eq!(all.sum_int, i128::from(i64::MAX) * 2 + i128::from(i64::MIN));
        assert_eq!((all.min_int, all.max_int), (i64::MIN.into(), i64::MAX.into()));
        let near = known(&[u64::MAX, u64::MAX - 2], &[]);
        assert_eq!((near.std(), near.sum_int), (Some(1.0), 2 * i128::from(u64::MAX) - 2));
        assert_eq!(known(&[-3i8, 5, 7], &[7]).mean(), Some(1.0));
        assert_eq!(known::<u8>(&[], &[]), PartialStatistics::default());
    }

    #[test]
    fn packed_numbers() {
        let packing = Packing { scale: Some(-0.5), offset: Some(10.0), ..Packing::default() };
        let bins = Bins::even(8.0, 10.0, 2).unwrap();
        let rules = NumberRules { missing: vec![-99_i16], scale: Some(&packing), bins: Some(&bins) };
        let mut all = PartialStatistics::default();
        add(&[1, 2, -99, 3], &rules, &mut all);
        assert_eq!((all.count, all.missing, all.min, all.max), (3, 1, 8.5, 9.5));
        assert_eq!((all.mean(), all.std(), all.sum.value()), (Some(9.0), Some((1.0_f64 / 6.0).sqrt()), 27.0));
        assert_eq!(all.bins, [1, 2]);
        // Without elements, there are no results.
        let rules = NumberRules { missing: vec![1.0_f32], scale: Some(&packing), bins: None };
        let mut none = PartialStatistics::default();
        add(&[1.0, f32::NAN], &rules, &mut none);
        assert_eq!(none, PartialStatistics { missing: 2, ..PartialStatistics::default() });
    }

    #[test]
    fn times() {
        let all = known(&[Time(i64::MIN), Time(4), Time(8)], &[]);
        assert_eq!((all.count, all.missing, all.mean(), all.min_int), (2, 1, Some(6.0), 4));
    }
}
