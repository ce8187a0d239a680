//! Compares numbers: of one type as they are stored, of different types by what they represent.

use super::blocks::{Region, index_in};
use super::tally::{Distance, InBlock, Rules, element};
use crate::meaning::{Decoding, Number, Packing, Times};
use crate::{Array, ByteOrder, DataType, Error, Json, Kind, Result, statistics};
use bytemuck::Pod;
use half::f16;

/// Elements that are compared at once, first as bytes. Their bytes stay in the L1 cache.
const PIECE: usize = 1024;

/// A type of stored numbers.
pub(super) trait Plain: Pod + PartialEq {
    const IS_FLOAT: bool;

    fn number(self) -> Number;

    /// The difference of two numbers, exact for integers up to 2⁵³.
    fn distance(self, other: Self) -> f64;

    /// The distance from zero.
    fn magnitude(self) -> f64;

    /// The units in the last place between two numbers; for integers, their difference.
    fn ulps(self, other: Self) -> u64;

    fn is_nan(self) -> bool;

    fn is_finite(self) -> bool;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Plain for $type {
            const IS_FLOAT: bool = false;
            fn number(self) -> Number {
                Number::Int(self.into())
            }
            fn distance(self, other: Self) -> f64 {
                self.abs_diff(other) as f64
            }
            fn magnitude(self) -> f64 {
                i128::from(self).unsigned_abs() as f64
            }
            fn ulps(self, other: Self) -> u64 {
                self.abs_diff(other).into()
            }
            fn is_nan(self) -> bool {
                false
            }
            fn is_finite(self) -> bool {
                true
            }
        }
    )*};
}
integers!(i8 i16 i32 i64 u8 u16 u32 u64);

macro_rules! floats {
    ($($type:ty: $bits:ty, $double:expr;)*) => {$(
        impl Plain for $type {
            const IS_FLOAT: bool = true;
            fn number(self) -> Number {
                Number::Float($double(self))
            }
            fn distance(self, other: Self) -> f64 {
                ($double(self) - $double(other)).abs()
            }
            fn magnitude(self) -> f64 {
                $double(self).abs()
            }
            fn ulps(self, other: Self) -> u64 {
                // Bits in the order of the numbers; both zeros are 0.
                let ordered = |float: Self| {
                    let bits = i128::from(float.to_bits() as $bits);
                    if bits < 0 { i128::from(<$bits>::MIN) - bits } else { bits }
                };
                ordered(self).abs_diff(ordered(other)) as u64
            }
            fn is_nan(self) -> bool {
                <$type>::is_nan(self)
            }
            fn is_finite(self) -> bool {
                <$type>::is_finite(self)
            }
        }
    )*};
}
floats! {
    f16: i16, f16::to_f64;
    f32: i32, f64::from;
    f64: i64, std::convert::identity::<f64>;
}

/// Calls a generic function with the Rust type of stored numbers.
macro_rules! with_plain {
    ($dtype:expr, $none:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match ($dtype.kind(), $dtype.size()) {
            (Kind::Int, 1) => $function::<i8>($($argument),*),
            (Kind::Int, 2) => $function::<i16>($($argument),*),
            (Kind::Int, 4) => $function::<i32>($($argument),*),
            (Kind::Int | Kind::DateTime(_) | Kind::TimeDelta(_), 8) => $function::<i64>($($argument),*),
            (Kind::UInt | Kind::Bool, 1) => $function::<u8>($($argument),*),
            (Kind::UInt, 2) => $function::<u16>($($argument),*),
            (Kind::UInt, 4) => $function::<u32>($($argument),*),
            (Kind::UInt, 8) => $function::<u64>($($argument),*),
            (Kind::Float, 2) => $function::<f16>($($argument),*),
            (Kind::Float, 4) => $function::<f32>($($argument),*),
            (Kind::Float, 8) => $function::<f64>($($argument),*),
            _ => $none,
        }
    };
}

/// The numbers of an array: how they are stored, and what they represent.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    /// The type of stored numbers, in the machine's byte order.
    pub(super) stored: DataType,
    pub(super) packing: Packing,
    /// Computes values. `None`: values are the stored numbers.
    decoding: Option<Decoding>,
    /// The value type of elements that may be missing, as in memory.
    optional: Option<DataType>,
    pub(super) times: Option<Times>,
    /// Converts times to the units of the other array.
    target: Option<Times>,
}

impl Numbers {
    /// Finds the numbers of an array; `None`: its elements are no numbers.
    /// `raw`: attributes mean nothing.
    pub(super) fn of(array: &Array, raw: bool) -> Result<Option<Numbers>> {
        let Some(dtype) = statistics::number_type(array) else { return Ok(None) };
        let mut packing = if raw { Packing::default() } else { Packing::of(array)? };
        let stored = packing.number_type(dtype).with_order(ByteOrder::NATIVE);
        let (mut times, mut decoding) = (None, None);
        if !raw {
            // Units without a meaning are no reason not to compare the numbers.
            let found = Decoding::of(array).ok();
            times = found.as_ref().and_then(|found| found.times.clone());
            decoding = found.filter(|found| found.packing.scales());
            if packing.scales() && decoding.is_none() {
                return Err(Error::Options(format!(
                    "array '{}': its attributes cannot be understood; compare stored numbers: raw",
                    array.layout().name()
                )));
            }
        }
        if let Kind::DateTime(unit) | Kind::TimeDelta(unit) = stored.kind() {
            packing.missing.push(i64::MIN.to_ne_bytes().to_vec());
            let is_date = matches!(stored.kind(), Kind::DateTime(_));
            times = Some(unit).filter(|unit| unit.scale == 1 && is_date).and_then(|unit| of_numpy(unit.unit));
        }
        Ok(Some(Numbers { stored, packing, decoding, optional: array.optional(), times, target: None }))
    }

    /// Shows numbers as times in the units of the other array, if both are dates of one calendar.
    pub(super) fn convert_to(&mut self, other: &Numbers) {
        if let (Some(own), Some(its)) = (&self.times, &other.times)
            && own.calendar().is_some()
            && own.calendar() == its.calendar()
            && own.units != its.units
        {
            self.target = Some(its.clone());
        }
    }

    /// Returns `true` if equal stored bytes of both arrays represent equal numbers, and others may
    /// be compared as they are stored.
    pub(super) fn are_alike(&self, other: &Numbers) -> bool {
        (self.stored, &self.packing, self.optional) == (other.stored, &other.packing, other.optional)
            && self.target.is_none()
            && other.target.is_none()
    }

    /// Returns `true` if no number is computed: stored numbers are compared, except missing ones.
    pub(super) fn are_plain(&self) -> bool {
        self.decoding.is_none() && self.optional.is_none() && self.target.is_none()
    }

    /// Returns `true` if a number may be NaN.
    pub(super) fn may_be_nan(&self) -> bool {
        self.stored.kind() == Kind::Float
    }

    /// The unit of differences: `degC`, `days`.
    pub(super) fn time_unit(&self) -> Option<&str> {
        self.times.as_ref().and_then(|times| times.units.split_whitespace().next())
    }

    /// The numbers that elements represent. `bytes`: in the machine's byte order, except optional ones.
    fn read(&self, bytes: &[u8]) -> Vec<Number> {
        let mut found = match (&self.decoding, self.optional) {
            (Some(decoding), _) => {
                let numbers = decoding.numbers(bytes);
                (0..numbers.len()).map(|at| numbers.get(at)).collect()
            }
            (None, Some(dtype)) => {
                bytes.chunks_exact(dtype.size() + 1).map(|one| optional(one, dtype)).collect()
            }
            (None, None) => with_plain!(self.stored, Vec::new(), known(bytes, &self.packing.missing)),
        };
        if let (Some(from), Some(to)) = (&self.times, &self.target) {
            found.iter_mut().for_each(|number| *number = converted(*number, from, to));
        }
        found
    }

    /// The numbers as 64-bit floats. Missing ones are NaN.
    pub(super) fn doubles(&self, bytes: &[u8]) -> Vec<f64> {
        let double = |number| match number {
            Number::Missing => f64::NAN,
            Number::Int(int) => int as f64,
            Number::Float(float) => float,
        };
        self.read(bytes).into_iter().map(double).collect()
    }

    /// The number of one element, as [`Numbers::json`] shows it.
    pub(super) fn show(&self, bytes: &[u8]) -> Json {
        self.json(self.read(bytes).first().copied().unwrap_or(Number::Missing))
    }

    /// A number for the report: a date, a number, or null.
    pub(super) fn json(&self, number: Number) -> Json {
        let times = self.target.as_ref().or(self.times.as_ref());
        if let Some(text) = times.and_then(|times| times.text(number)) {
            return text.as_str().into();
        }
        let is_single =
            self.decoding.is_none() && self.stored.kind() == Kind::Float && self.stored.size() == 4;
        match number {
            Number::Missing => Json::Null,
            Number::Int(int) if self.stored.kind() == Kind::Bool => (int != 0).into(),
            Number::Int(int) => int.into(),
            // The shortest text of a 32-bit float.
            Number::Float(float) if is_single && float.is_finite() => {
                Json::float((float as f32).to_string().parse().unwrap_or(float))
            }
            Number::Float(float) => Json::float(float),
        }
    }

    /// Size in bytes of the floats that values are; `None`: integers.
    fn float_size(&self) -> Option<usize> {
        match &self.decoding {
            Some(_) => Some(8),
            None => (self.stored.kind() == Kind::Float).then_some(self.stored.size()),
        }
    }
}

/// NumPy's dates as times since 1970. `None`: a unit without a fixed length.
fn of_numpy(unit: &str) -> Option<Times> {
    let name = match unit {
        "D" => "days",
        "h" => "hours",
        "m" => "minutes",
        "s" => "seconds",
        "ms" => "milliseconds",
        "us" => "microseconds",
        "ns" => "nanoseconds",
        _ => return None,
    };
    let units = format!("{name} since 1970-01-01");
    let attributes =
        Json::from([("units", units.as_str().into()), ("calendar", "proleptic_gregorian".into())]);
    Times::parse(&attributes).ok().flatten()
}

fn known<T: Plain>(bytes: &[u8], missing: &[Vec<u8>]) -> Vec<Number> {
    let missing = missing_of::<T>(missing);
    let has_nan = missing.iter().any(|one| one.is_nan());
    let all = bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>);
    all.map(|one| match missing.contains(&one) || has_nan && one.is_nan() {
        true => Number::Missing,
        false => one.number(),
    })
    .collect()
}

fn missing_of<T: Plain>(missing: &[Vec<u8>]) -> Vec<T> {
    let fits = missing.iter().filter(|one| one.len() == size_of::<T>());
    fits.map(|one| bytemuck::pod_read_unaligned(one)).collect()
}

/// An element of a value and a byte that says whether it is present.
fn optional(element: &[u8], dtype: DataType) -> Number {
    match element.split_last() {
        Some((1, value)) => plain(value, dtype),
        _ => Number::Missing,
    }
}

/// The number that an element of a plain type is.
pub(super) fn plain(element: &[u8], dtype: DataType) -> Number {
    let mut value = element.to_vec();
    if dtype.order() != ByteOrder::NATIVE {
        value.reverse();
    }
    let nothing: &[Vec<u8>] = &[];
    let found = with_plain!(dtype, Vec::new(), known(&value, nothing));
    found.first().copied().unwrap_or(Number::Missing)
}

/// A time in the units of `to`.
fn converted(number: Number, from: &Times, to: &Times) -> Number {
    match (from.nanoseconds(number), to.nanoseconds(Number::Int(0))) {
        (Some(time), Some(reference)) => {
            let (since, unit) = (time - reference, i128::from(to.unit()));
            match since % unit {
                0 => Number::Int(since / unit),
                _ => Number::Float(since as f64 / unit as f64),
            }
        }
        _ => Number::Missing,
    }
}

/// Compares the numbers of a block. `elements`: of both arrays, in the machine's byte order.
pub(super) fn compare(
    sides: [&Numbers; 2],
    elements: [&[u8]; 2],
    block: &Region,
    rules: &Rules,
    found: &mut InBlock<'_>,
) {
    let [a, b] = sides;
    if a.stored == b.stored && a.are_plain() && b.are_plain() {
        with_plain!(a.stored, (), compare_stored(sides, elements, block, rules, found));
        return;
    }
    let size = |side: &Numbers| side.optional.map_or(side.stored.size(), |dtype| dtype.size() + 1);
    let (own, its) = (size(a), size(b));
    // Count units in the last place in the shorter of two types.
    let ulp_size = a.float_size().into_iter().chain(b.float_size()).min();
    let pieces = elements[0].chunks(PIECE * own).zip(elements[1].chunks(PIECE * its));
    for (number, (one, other)) in pieces.enumerate() {
        if a.are_alike(b) && one == other && (rules.equal_nan || !a.may_be_nan()) {
            continue;
        }
        for (n, (x, y)) in a.read(one).into_iter().zip(b.read(other)).enumerate() {
            let show = || element(index_in(block, number * PIECE + n), a.json(x), b.json(y));
            match differ(x, y, ulp_size, rules) {
                None => {}
                Some(Unequal::Missing(side)) => found.missing(side, show),
                Some(Unequal::By(distance)) => found.differ(distance, show),
            }
        }
    }
}

/// How two numbers differ.
#[derive(Debug)]
pub(super) enum Unequal {
    /// The number is missing in this array only.
    Missing(usize),
    By(Distance),
}

/// Compares two numbers. `None`: they count as equal.
pub(super) fn differ(a: Number, b: Number, ulp_size: Option<usize>, rules: &Rules) -> Option<Unequal> {
    let is_nan = |number: Number| matches!(number, Number::Float(float) if float.is_nan());
    match (a, b) {
        (Number::Missing, Number::Missing) => return None,
        (Number::Missing, other) | (other, Number::Missing) if is_nan(other) && rules.equal_nan => {
            return None;
        }
        (Number::Missing, _) => return Some(Unequal::Missing(0)),
        (_, Number::Missing) => return Some(Unequal::Missing(1)),
        _ if is_nan(a) && is_nan(b) && rules.equal_nan => return None,
        _ => {}
    }
    let double = |number: Number| match number {
        Number::Missing => f64::NAN,
        Number::Int(int) => int as f64,
        Number::Float(float) => float,
    };
    let (x, y) = (double(a), double(b));
    let (is_equal, distance) = match (a, b) {
        (Number::Int(a), Number::Int(b)) => (a == b, a.abs_diff(b) as f64),
        // A 64-bit integer may lie between two floats.
        (Number::Int(int), Number::Float(float)) | (Number::Float(float), Number::Int(int)) => {
            let is_whole = float.is_finite() && float.fract() == 0.0 && float.abs() < 1e30;
            match is_whole {
                true => (int == float as i128, int.abs_diff(float as i128) as f64),
                false => (false, (x - y).abs()),
            }
        }
        _ => (x == y, (x - y).abs()),
    };
    let ulps = || match ulp_size {
        Some(2) => f16::from_f64(x).ulps(f16::from_f64(y)),
        Some(4) => (x as f32).ulps(y as f32),
        Some(_) => x.ulps(y),
        None => distance as u64,
    };
    let is_close = || x.is_finite() && y.is_finite() && rules.allows(distance, y.abs(), ulps);
    match is_equal || is_close() {
        true => None,
        false => Some(Unequal::By(Distance::new(distance, y.abs()))),
    }
}

fn compare_stored<T: Plain>(
    [a, b]: [&Numbers; 2],
    elements: [&[u8]; 2],
    block: &Region,
    rules: &Rules,
    found: &mut InBlock<'_>,
) {
    let missing = [missing_of::<T>(&a.packing.missing), missing_of::<T>(&b.packing.missing)];
    let has_nan = missing.each_ref().map(|missing| missing.iter().any(|one| one.is_nan()));
    let is_missing = |side: usize, one: T| {
        !missing[side].is_empty() && (missing[side].contains(&one) || has_nan[side] && one.is_nan())
    };
    let bytes_decide = missing[0] == missing[1] && (!T::IS_FLOAT || rules.equal_nan);
    let size = PIECE * size_of::<T>();
    for (number, (one, other)) in elements[0].chunks(size).zip(elements[1].chunks(size)).enumerate() {
        if bytes_decide && one == other {
            continue;
        }
        let (one, other): (&[T], &[T]) = (bytemuck::cast_slice(one), bytemuck::cast_slice(other));
        for (n, (x, y)) in one.iter().copied().zip(other.iter().copied()).enumerate() {
            let show = || {
                let shown = |side: usize, numbers: &Numbers, one: T| match is_missing(side, one) {
                    true => Json::Null,
                    false => numbers.json(one.number()),
                };
                element(index_in(block, number * PIECE + n), shown(0, a, x), shown(1, b, y))
            };
            match (is_missing(0, x), is_missing(1, y)) {
                (true, true) => continue,
                (true, false) if y.is_nan() && rules.equal_nan => continue,
                (false, true) if x.is_nan() && rules.equal_nan => continue,
                (true, false) => found.missing(0, show),
                (false, true) => found.missing(1, show),
                (false, false) => {
                    if x == y || rules.equal_nan && x.is_nan() && y.is_nan() {
                        continue;
                    }
                    let (distance, reference) = (x.distance(y), y.magnitude());
                    let is_finite = x.is_finite() && y.is_finite();
                    if is_finite && !rules.are_exact() && rules.allows(distance, reference, || x.ulps(y)) {
                        continue;
                    }
                    found.differ(Distance::new(distance, reference), show);
                }
            }
        }
    }
}

/// Compares complex numbers: pairs of floats of half the size, in the machine's byte order.
pub(super) fn compare_complex(
    sizes: [usize; 2],
    elements: [&[u8]; 2],
    block: &Region,
    rules: &Rules,
    found: &mut InBlock<'_>,
) {
    let part = |bytes: &[u8]| match bytes.len() {
        4 => f64::from(bytemuck::pod_read_unaligned::<f32>(bytes)),
        _ => bytemuck::pod_read_unaligned::<f64>(bytes),
    };
    let value = |bytes: &[u8]| {
        let (real, imaginary) = bytes.split_at(bytes.len() / 2);
        (part(real), part(imaginary))
    };
    let pairs = elements[0].chunks_exact(sizes[0]).zip(elements[1].chunks_exact(sizes[1]));
    let is_nan = |(real, imaginary): (f64, f64)| real.is_nan() || imaginary.is_nan();
    for (n, (x, y)) in pairs.enumerate() {
        let (x, y) = (value(x), value(y));
        if x == y || rules.equal_nan && is_nan(x) && is_nan(y) {
            continue;
        }
        let (distance, reference) = ((x.0 - y.0).hypot(x.1 - y.1), y.0.hypot(y.1));
        let ulps = || match sizes.contains(&8) {
            true => (x.0 as f32).ulps(y.0 as f32).max((x.1 as f32).ulps(y.1 as f32)),
            false => x.0.ulps(y.0).max(x.1.ulps(y.1)),
        };
        let is_finite = [x.0, x.1, y.0, y.1].iter().all(|part| part.is_finite());
        if is_finite && rules.allows(distance, reference, ulps) {
            continue;
        }
        let shown = |(real, imaginary)| Json::Array(vec![Json::float(real), Json::float(imaginary)]);
        found.differ(Distance::new(distance, reference), || element(index_in(block, n), shown(x), shown(y)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Rules = Rules { rtol: 0.0, atol: 0.0, ulp: 0, equal_nan: true, most: 9 };

    #[test]
    fn units_in_the_last_place() {
        assert_eq!(1.0_f64.ulps(1.0 + f64::EPSILON), 1);
        assert_eq!((0.0_f32.ulps(-0.0), f32::from_bits(1).ulps(-f32::from_bits(1))), (0, 2));
        assert_eq!(f16::from_f32(1.0).ulps(f16::from_f32(2.0)), 1024);
        assert_eq!((3_i8.ulps(-3), u64::MAX.ulps(0)), (6, u64::MAX));
        assert_eq!(f64::MAX.ulps(f64::MIN), 2 * 0x7fef_ffff_ffff_ffff);
    }

    #[test]
    fn integers_and_floats_are_compared_exactly() {
        let large = 1_i128 << 53;
        let equal =
            |int: i128, float: f64| differ(Number::Int(int), Number::Float(float), None, &EXACT).is_none();
        assert!(equal(large, large as f64) && !equal(large + 1, large as f64) && !equal(0, 0.5));
        assert!(!equal(1, f64::INFINITY) && !equal(1, f64::NAN));
        let infinite = Number::Float(f64::INFINITY);
        assert!(differ(infinite, infinite, None, &EXACT).is_none());
        let loose = Rules { rtol: 1.0, ..EXACT };
        assert!(differ(Number::Float(1.0), infinite, None, &loose).is_some());
    }

    #[test]
    fn nan_counts_as_missing_unless_it_differs_from_itself() {
        let (nan, strict) = (Number::Float(f64::NAN), Rules { equal_nan: false, ..EXACT });
        assert!(differ(nan, nan, None, &EXACT).is_none() && differ(nan, nan, None, &strict).is_some());
        assert!(differ(nan, Number::Missing, None, &EXACT).is_none());
        assert!(matches!(differ(nan, Number::Missing, None, &strict), Some(Unequal::Missing(1))));
        assert!(matches!(differ(Number::Missing, Number::Int(1), None, &EXACT), Some(Unequal::Missing(0))));
    }
}
