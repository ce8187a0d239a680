//! Times that are stored as numbers: "days since 1970-01-01", or "days" with a `timedelta64` type.
//!
//! | attribute | means |
//! |---|---|
//! | `units` | `<unit> since <reference>`: dates. Units and zones are spelled as in cftime |
//! | `calendar` | the calendar of the dates; without it, `standard` |
//! | `dtype` | `timedelta64[…]` beside a plural unit in `units`: time differences, as xarray writes them |
//!
//! Dates have NumPy's type where that has the same dates: in the calendar `proleptic_gregorian`,
//! and in `standard` since 1582-10-15. Fractions are rounded as in xarray. xarray takes one way for
//! references and units that pandas understands and another one, by cftime, for others.

use super::calendar::{Calendar, REFORM};
use super::reference::{Instant, reference};
use super::rounding::rounded_product;
use crate::Json;

const MICRO: i128 = 1_000;
const DAY: i128 = 86_400_000_000_000;
/// The first and the last nanosecond that NumPy's `datetime64[ns]` has.
const NUMPY: std::ops::RangeInclusive<i128> = -(i64::MAX as i128)..=i64::MAX as i128;

/// The meaning of stored numbers as times.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Dates or time differences.
    pub kind: TimeKind,
    /// The attribute `units`.
    pub units: String,
    /// Nanoseconds of one unit.
    unit: i64,
    /// `true`: the unit is spelled out, so pandas knows it.
    is_plain: bool,
}

/// The meaning of numbers as times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeKind {
    /// Dates of a calendar.
    Dates {
        /// The calendar.
        calendar: Calendar,
        /// Nanoseconds from day 0 of the calendar to the reference.
        reference: i128,
    },
    /// Time differences, in this resolution or a finer one.
    Differences(Resolution),
}

/// The units of NumPy's times that xarray uses, the finest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resolution {
    /// Nanoseconds.
    Nano,
    /// Microseconds.
    Micro,
    /// Milliseconds.
    Milli,
    /// Seconds.
    Second,
}

/// A number that stands for a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A missing element.
    Missing,
    /// A whole number.
    Int(i128),
    /// A number with a fraction.
    Float(f64),
}

/// Times in NumPy's form. The smallest integer is not-a-time.
#[derive(Clone, Debug, PartialEq)]
pub struct NumpyTimes {
    /// The unit of `values`.
    pub resolution: Resolution,
    /// Dates since 1970, or time differences.
    pub values: Vec<i64>,
}

/// Numbers for times.
#[derive(Clone, Debug, PartialEq)]
pub enum TimeNumbers {
    /// Whole numbers. The smallest one stands for not-a-time.
    Ints(Vec<i64>),
    /// NaN stands for not-a-time.
    Floats(Vec<f64>),
}

impl Resolution {
    const ALL: [Resolution; 4] = [Resolution::Nano, Resolution::Micro, Resolution::Milli, Resolution::Second];

    /// The name in NumPy's types.
    pub fn name(self) -> &'static str {
        match self {
            Resolution::Nano => "ns",
            Resolution::Micro => "us",
            Resolution::Milli => "ms",
            Resolution::Second => "s",
        }
    }

    /// Finds a unit by its name in NumPy's types. Units that pandas lacks become the nearest one.
    fn nearest(name: &str) -> Option<Resolution> {
        Some(match name {
            "ns" | "ps" | "fs" | "as" => Resolution::Nano,
            "us" => Resolution::Micro,
            "ms" => Resolution::Milli,
            "s" | "m" | "h" | "D" | "W" => Resolution::Second,
            _ => return None,
        })
    }

    /// Nanoseconds of one unit.
    pub fn nanoseconds(self) -> i64 {
        match self {
            Resolution::Nano => 1,
            Resolution::Micro => 1_000,
            Resolution::Milli => 1_000_000,
            Resolution::Second => 1_000_000_000,
        }
    }
}

/// Nanoseconds of a unit, and `true` if pandas knows its name.
fn unit(name: &str, calendar: Calendar) -> Option<(i64, bool)> {
    let name = name.to_ascii_lowercase();
    let (seconds, nanoseconds) = match name.as_str() {
        "nanoseconds" | "nanosecond" => (0, 1),
        "microseconds" | "microsecond" | "microsec" | "microsecs" => (0, 1_000),
        "milliseconds" | "millisecond" | "millisec" | "millisecs" | "msec" | "msecs" | "ms" => (0, 1_000_000),
        "seconds" | "second" | "sec" | "secs" | "s" => (1, 0),
        "minutes" | "minute" | "min" | "mins" => (60, 0),
        "hours" | "hour" | "hr" | "hrs" | "h" => (3600, 0),
        "days" | "day" | "d" => (86_400, 0),
        "months" | "month" if calendar == Calendar::Days360 => (30 * 86_400, 0),
        "common_years" | "common_year" if calendar == Calendar::NoLeap => (365 * 86_400, 0),
        _ => return None,
    };
    let plain = name.trim_end_matches('s');
    let is_plain = matches!(plain, "second" | "minute" | "hour" | "day") || name.contains("second");
    Some((seconds * 1_000_000_000 + nanoseconds, is_plain))
}

impl Times {
    /// Reads the meaning of numbers from `attributes`. `None`: they are not times.
    ///
    /// Fails with a message that names the attribute that cannot be understood.
    pub fn parse(attributes: &Json) -> Result<Option<Times>, String> {
        let text = |name: &str| match attributes.get(name)? {
            Json::String(text) => Some(text.as_str()),
            other => other.as_array().and_then(|list| match list {
                [Json::String(text)] => Some(text.as_str()),
                _ => None,
            }),
        };
        let Some(units) = text("units") else { return Ok(None) };
        if !units.contains("since") {
            let Some(found) = text("dtype").and_then(|dtype| dtype.strip_prefix("timedelta64")) else {
                return Ok(None);
            };
            let name = found.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or("ns");
            let is_plural = units.ends_with('s') && units.chars().all(|each| each.is_ascii_lowercase());
            return match (unit(units, Calendar::Standard), Resolution::nearest(name)) {
                (Some((unit, true)), Some(resolution)) if is_plural => {
                    let kind = TimeKind::Differences(resolution);
                    Ok(Some(Times { kind, units: units.into(), unit, is_plain: true }))
                }
                _ => Ok(None),
            };
        }
        let wrong = |why: String| format!("its attribute units is '{units}': {why}");
        let calendar = match text("calendar") {
            None => Calendar::Standard,
            Some(name) => Calendar::parse(name).ok_or_else(|| {
                format!(
                    "its attribute calendar is '{name}': expected standard, gregorian, proleptic_gregorian, \
                     noleap, 365_day, all_leap, 366_day, 360_day, julian or tai"
                )
            })?,
        };
        let (name, from) =
            units.split_once(" since ").ok_or_else(|| wrong("expected '<unit> since <date>'".into()))?;
        let name = name.trim();
        let (unit, is_plain) = unit(name, calendar).ok_or_else(|| {
            wrong(format!("no unit of time in calendar {} is called '{name}'", calendar.name()))
        })?;
        let Instant { date, nanoseconds } = reference(from.trim())
            .ok_or_else(|| wrong(format!("'{}' is not a date like 1970-01-01 00:00:00", from.trim())))?;
        let day = calendar
            .number(date)
            .ok_or_else(|| wrong(format!("calendar {} has no such day", calendar.name())))?;
        let reference = i128::from(day) * DAY + i128::from(nanoseconds);
        Ok(Some(Times { kind: TimeKind::Dates { calendar, reference }, units: units.into(), unit, is_plain }))
    }

    /// Nanoseconds of one unit.
    pub(super) fn unit_nanoseconds(&self) -> i64 {
        self.unit
    }

    /// The calendar of dates. `None`: time differences.
    pub fn calendar(&self) -> Option<Calendar> {
        match self.kind {
            TimeKind::Dates { calendar, .. } => Some(calendar),
            TimeKind::Differences(_) => None,
        }
    }

    /// Nanoseconds of one unit.
    pub fn unit(&self) -> i64 {
        self.unit
    }

    /// The resolution in NumPy's form, unless elements need another one.
    pub fn resolution(&self) -> Resolution {
        match self.kind {
            TimeKind::Dates { .. } => Resolution::Nano,
            TimeKind::Differences(resolution) => resolution,
        }
    }

    /// Converts numbers to NumPy's times. `None`: NumPy does not have some of these dates.
    ///
    /// Dates are in nanoseconds, or in the finest unit that has all of them. Fails with a message if
    /// a number is infinite or too large.
    pub fn decode(
        &self,
        count: usize,
        number: &dyn Fn(usize) -> Number,
    ) -> Result<Option<NumpyTimes>, String> {
        let infinite = (0..count).find_map(|at| match number(at) {
            Number::Float(float) if float.is_infinite() => Some(float),
            _ => None,
        });
        if let Some(float) = infinite {
            return Err(format!("one of its elements is {float}, which is not a time in '{}'", self.units));
        }
        match self.kind {
            TimeKind::Dates { calendar, .. } if !calendar.has_numpy_dates() => Ok(None),
            TimeKind::Dates { calendar, .. } => self.decode_dates(calendar, count, number),
            TimeKind::Differences(least) => self.decode_differences(least, count, number).map(Some),
        }
    }

    fn decode_dates(
        &self,
        calendar: Calendar,
        count: usize,
        number: &dyn Fn(usize) -> Number,
    ) -> Result<Option<NumpyTimes>, String> {
        let border = i128::from(REFORM) * DAY;
        let earliest = if calendar == Calendar::Standard { border } else { i128::MIN };
        let TimeKind::Dates { reference, .. } = self.kind else { return Ok(None) };
        let by_pandas = self.is_plain && NUMPY.contains(&reference) && reference >= earliest;
        for resolution in Resolution::ALL {
            let step = i128::from(resolution.nanoseconds());
            // If one element does not fit, xarray leaves all of them to cftime.
            let whole = !by_pandas || resolution != Resolution::Nano;
            let mut values = Vec::with_capacity(count);
            for at in 0..count {
                let Some(time) = self.date(number(at), whole) else {
                    values.push(i64::MIN);
                    continue;
                };
                if time < earliest {
                    return Ok(None);
                }
                match i64::try_from(time.div_euclid(step)) {
                    Ok(value) if value != i64::MIN => values.push(value),
                    _ => break,
                }
            }
            if values.len() == count {
                return Ok(Some(NumpyTimes { resolution, values }));
            }
        }
        Err(format!("one of its elements is too large for a date in '{}'", self.units))
    }

    /// Nanoseconds from day 0 to the date that a number stands for. `None`: a missing element.
    /// `whole`: round to microseconds, as cftime does.
    fn date(&self, number: Number, whole: bool) -> Option<i128> {
        let TimeKind::Dates { reference, .. } = self.kind else { return None };
        Some(match number {
            Number::Missing => return None,
            // NumPy's not-a-time.
            Number::Int(int) if int == i128::from(i64::MIN) => return None,
            Number::Float(float) if float.is_nan() => return None,
            Number::Int(int) => reference.saturating_add(int.saturating_mul(self.unit.into())),
            Number::Float(float) if whole => {
                reference.div_euclid(MICRO).saturating_add(self.microseconds(float)).saturating_mul(MICRO)
            }
            Number::Float(float) => reference.saturating_add((float * self.unit as f64) as i128),
        })
    }

    /// Microseconds in a number of units, rounded as by cftime: one microsecond beside a second
    /// counts as an error of rounding if the unit is a second or longer.
    fn microseconds(&self, float: f64) -> i128 {
        let (low, near, high) = rounded_product(float, self.unit);
        if self.unit < 1_000_000_000 {
            return near;
        }
        match near.rem_euclid(1_000_000) {
            1 => low,
            999_999 => high,
            _ => near,
        }
    }

    fn decode_differences(
        &self,
        least: Resolution,
        count: usize,
        number: &dyn Fn(usize) -> Number,
    ) -> Result<NumpyTimes, String> {
        let too_large =
            || format!("one of its elements is too large for a time difference in '{}'", self.units);
        let finer = |resolution: Resolution| {
            Resolution::ALL.into_iter().rev().find(|each| *each < resolution).unwrap_or(Resolution::Nano)
        };
        let start = Resolution::ALL.into_iter().rev().find(|each| each.nanoseconds() <= self.unit);
        let start = start.unwrap_or(Resolution::Nano);
        // Step by step, because xarray rounds the product of each step.
        let scaled = |float: f64, resolution: Resolution| {
            let (mut float, mut reached) = (float * (self.unit / start.nanoseconds()) as f64, start);
            while reached != resolution {
                (float, reached) = (float * 1000.0, finer(reached));
            }
            float
        };
        let has_fraction = |resolution: Resolution| {
            (0..count).any(|at| match number(at) {
                Number::Float(float) => !float.is_nan() && scaled(float, resolution).fract() != 0.0,
                _ => false,
            })
        };
        let mut own = start;
        while own != Resolution::Nano && has_fraction(own) {
            own = finer(own);
        }
        let resolution = own.min(least);
        let more = i128::from(own.nanoseconds() / resolution.nanoseconds());
        let one = |at| {
            let value = match number(at) {
                Number::Missing => return Ok(i64::MIN),
                Number::Int(int) if int == i128::from(i64::MIN) => return Ok(i64::MIN),
                Number::Float(float) if float.is_nan() => return Ok(i64::MIN),
                Number::Int(int) => int.saturating_mul((self.unit / own.nanoseconds()).into()),
                Number::Float(float) => scaled(float, own) as i128,
            };
            i64::try_from(value.saturating_mul(more))
                .ok()
                .filter(|value| *value != i64::MIN)
                .ok_or_else(too_large)
        };
        Ok(NumpyTimes { resolution, values: (0..count).map(one).collect::<Result<_, _>>()? })
    }

    /// Converts NumPy's times to numbers. `whole`: to whole numbers, exactly.
    /// `nanoseconds`: dates since 1970, or time differences; `None`: not-a-time.
    ///
    /// Fails with the place of the time that cannot be converted, and the reason.
    pub fn encode(
        &self,
        count: usize,
        nanoseconds: &dyn Fn(usize) -> Option<i128>,
        whole: bool,
    ) -> Result<TimeNumbers, (usize, String)> {
        let unit = i128::from(self.unit);
        let (reference, earliest) = match self.kind {
            TimeKind::Dates { calendar: Calendar::Standard, reference } => {
                (reference, i128::from(REFORM) * DAY)
            }
            TimeKind::Dates { reference, .. } => (reference, i128::MIN),
            TimeKind::Differences(_) => (0, i128::MIN),
        };
        let delta = |at: usize, time: i128| match time < earliest {
            true => Err((
                at,
                "dates before 1582-10-15 differ in calendar standard: pass dates of cftime".to_owned(),
            )),
            false => Ok(time - reference),
        };
        if whole {
            let one = |at| match nanoseconds(at) {
                None => Ok(i64::MIN),
                Some(time) => {
                    let delta = delta(at, time)?;
                    let fits = (delta % unit == 0).then(|| i64::try_from(delta / unit).ok()).flatten();
                    fits.filter(|value| *value != i64::MIN)
                        .ok_or_else(|| (at, format!("'{}' has no whole number for it", self.units)))
                }
            };
            return Ok(TimeNumbers::Ints((0..count).map(one).collect::<Result<_, _>>()?));
        }
        let one = |at| match nanoseconds(at) {
            None => Ok(f64::NAN),
            Some(time) => {
                let delta = delta(at, time)?;
                Ok(if delta % unit == 0 { (delta / unit) as f64 } else { delta as f64 / self.unit as f64 })
            }
        };
        Ok(TimeNumbers::Floats((0..count).map(one).collect::<Result<_, _>>()?))
    }

    /// Nanoseconds from day 0 of the calendar to the date that a number stands for.
    /// `None`: a missing element, or a time difference.
    pub(crate) fn nanoseconds(&self, number: Number) -> Option<i128> {
        self.date(number, true)
    }

    /// The time that a number stands for, as text, in any calendar. `None`: the number is not a date.
    pub fn text(&self, number: Number) -> Option<String> {
        let calendar = self.calendar()?;
        let time = self.date(number, true)?;
        let day = i64::try_from(time.div_euclid(DAY)).ok().filter(|day| day.abs() < 1 << 40)?;
        let date = calendar.date(day);
        let mut text = format!("{:04}-{:02}-{:02}", date.year, date.month, date.day);
        let rest = time.rem_euclid(DAY) as i64;
        if rest != 0 {
            let (seconds, fraction) = (rest / 1_000_000_000, rest % 1_000_000_000);
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            text += &format!("T{hours:02}:{minutes:02}:{:02}", seconds % 60);
            if fraction != 0 {
                text += format!(".{fraction:09}").trim_end_matches('0');
            }
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meaning::calendar::Date;

    fn parsed(attributes: &str) -> Result<Option<Times>, String> {
        Times::parse(&Json::parse(attributes.as_bytes()).unwrap())
    }

    fn dates(units: &str, calendar: &str) -> Times {
        parsed(&format!(r#"{{"units": "{units}", "calendar": "{calendar}"}}"#)).unwrap().unwrap()
    }

    fn decoded(times: &Times, numbers: &[Number]) -> Option<(Resolution, Vec<i64>)> {
        let found = times.decode(numbers.len(), &|at| numbers[at]).unwrap()?;
        Some((found.resolution, found.values))
    }

    #[test]
    fn dates_in_nanoseconds() {
        let days = dates("days since 1970-01-02", "standard");
        let day = 86_400_000_000_000;
        assert_eq!(
            decoded(&days, &[Number::Int(1), Number::Float(0.5), Number::Missing, Number::Float(f64::NAN)]),
            Some((Resolution::Nano, vec![2 * day, day + day / 2, i64::MIN, i64::MIN]))
        );
        let hours = dates("hr since 1970-01-01 01:00 +01:00", "gregorian");
        assert_eq!(decoded(&hours, &[Number::Int(-1)]), Some((Resolution::Nano, vec![-3_600_000_000_000])));
        // Julian reference, Gregorian date.
        let old = dates("days since 1-1-1", "standard");
        assert_eq!(decoded(&old, &[Number::Int(719_164)]), Some((Resolution::Nano, vec![0])));
        let iso = dates("days since 0001-01-01", "proleptic_gregorian");
        assert_eq!(decoded(&iso, &[Number::Int(719_162)]), Some((Resolution::Nano, vec![0])));
    }

    #[test]
    fn dates_that_nanoseconds_do_not_have() {
        let day = 86_400_000_000;
        let days = dates("days since 1970-01-01", "standard");
        let far = [Number::Int(300_000), Number::Float(1.5)];
        assert_eq!(decoded(&days, &far), Some((Resolution::Micro, vec![300_000 * day, day + day / 2])));
        assert_eq!(decoded(&days, &[Number::Int(-200_000)]), None);
        let iso = dates("days since 1970-01-01", "proleptic_gregorian");
        assert_eq!(decoded(&iso, &[Number::Int(-200_000)]), Some((Resolution::Micro, vec![-200_000 * day])));
        assert_eq!(decoded(&dates("days since 2000-01-01", "noleap"), &[Number::Int(1)]), None);
        let largest = decoded(&days, &[Number::Int(1 << 40)]);
        assert_eq!(largest, Some((Resolution::Second, vec![86_400 << 40])));
        assert!(days.decode(1, &|_| Number::Float(1e300)).unwrap_err().contains("too large"));
        assert!(days.decode(1, &|_| Number::Float(f64::INFINITY)).unwrap_err().contains("inf"));
    }

    #[test]
    fn microseconds_are_rounded_as_in_cftime() {
        // Expected results come from cftime.num2date.
        let days = dates("d since 1970-01-01", "standard");
        for (float, expected) in [
            (0.1, 8_640_000_000),
            (1.0 / 3.0, 28_800_000_000),
            (1e-12, 0),
            (-0.1, -8_640_000_000),
            (2.0_f64.powi(30), 86_400_000_000 << 30),
        ] {
            assert_eq!(days.microseconds(float), expected, "{float}");
        }
    }

    #[test]
    fn differences() {
        let of = |units: &str, dtype: &str| {
            parsed(&format!(r#"{{"units": "{units}", "dtype": "timedelta64[{dtype}]"}}"#)).unwrap()
        };
        let days = of("days", "s").unwrap();
        assert_eq!(days.kind, TimeKind::Differences(Resolution::Second));
        assert_eq!(decoded(&days, &[Number::Int(2)]), Some((Resolution::Second, vec![172_800])));
        let half = [Number::Float(0.5 / 86_400.0), Number::Missing];
        assert_eq!(decoded(&days, &half), Some((Resolution::Milli, vec![500, i64::MIN])));
        let fine = of("seconds", "ns").unwrap();
        assert_eq!(decoded(&fine, &[Number::Int(-1)]), Some((Resolution::Nano, vec![-1_000_000_000])));
        assert!(fine.decode(1, &|_| Number::Int(1 << 70)).unwrap_err().contains("too large"));
        assert_eq!(of("days", "D").unwrap().kind, TimeKind::Differences(Resolution::Second));
        assert_eq!(of("day", "ns"), None);
        assert_eq!(of("metres", "ns"), None);
        assert_eq!(parsed(r#"{"units": "days"}"#), Ok(None));
    }

    #[test]
    fn numbers_of_times() {
        let days = dates("days since 1970-01-02", "standard");
        let of = |nanoseconds: &[Option<i128>], whole: bool| {
            days.encode(nanoseconds.len(), &|at| nanoseconds[at], whole)
        };
        assert_eq!(of(&[Some(3 * DAY), None], true), Ok(TimeNumbers::Ints(vec![2, i64::MIN])));
        assert_eq!(of(&[Some(DAY / 2)], false), Ok(TimeNumbers::Floats(vec![-0.5])));
        let (at, why) = of(&[None, Some(DAY / 2)], true).unwrap_err();
        assert_eq!((at, why.as_str()), (1, "'days since 1970-01-02' has no whole number for it"));
        let old = of(&[Some(i128::from(REFORM) * DAY - 1)], false).unwrap_err();
        assert!(old.1.contains("cftime"), "{old:?}");
    }

    #[test]
    fn texts() {
        let text = |calendar: &str, number: f64| {
            dates("days since 1970-01-01", calendar).text(Number::Float(number))
        };
        assert_eq!(text("standard", 0.5).unwrap(), "1970-01-01T12:00:00");
        assert_eq!(text("noleap", 59.0 + 2.0 * 365.0).unwrap(), "1972-03-01");
        assert_eq!(text("360_day", 59.0).unwrap(), "1970-02-30");
        assert_eq!(text("standard", 0.25 / 86_400.0).unwrap(), "1970-01-01T00:00:00.25");
        assert_eq!((text("standard", f64::NAN), text("standard", 1e30)), (None, None));
        let first = dates("days since 1582-10-15", "standard");
        assert_eq!(first.text(Number::Int(-1)).unwrap(), "1582-10-04");
        assert_eq!(Calendar::Standard.number(Date { year: 1582, month: 10, day: 15 }), Some(REFORM));
    }

    #[test]
    fn attributes_that_are_no_times() {
        for (attributes, words) in [
            (r#"{"units": "days since birth"}"#, "'birth' is not a date"),
            (r#"{"units": "months since 2000-01-01"}"#, "no unit of time in calendar standard"),
            (r#"{"units": "days since 2001-02-29"}"#, "calendar standard has no such day"),
            (r#"{"units": "days since 2000-01-01", "calendar": "lunar"}"#, "calendar is 'lunar'"),
            (r#"{"units": "since"}"#, "expected '<unit> since <date>'"),
        ] {
            let why = parsed(attributes).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
        for attributes in ["{}", r#"{"units": 5}"#, r#"{"units": "K"}"#] {
            assert_eq!(parsed(attributes), Ok(None));
        }
        assert!(
            parsed(r#"{"units": ["months since 2000-01-01"], "calendar": ["360_day"]}"#).unwrap().is_some()
        );
    }
}
