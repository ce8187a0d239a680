//! The calendars of the CF conventions: dates as numbers of days, and back.
//!
//! Day 0 is 1970-01-01, which is the Julian 1969-12-19. The sources are section 4.4.2 of the
//! conventions, and cftime. cftime has no year zero in the standard and the Julian calendar.

/// A calendar that the attribute `calendar` can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calendar {
    /// Julian before 1582-10-15, Gregorian from then on.
    Standard,
    /// Gregorian at all times, with a year zero, as in ISO 8601 and in NumPy.
    ProlepticGregorian,
    /// Every fourth year is a leap year.
    Julian,
    /// No leap years.
    NoLeap,
    /// Only leap years.
    AllLeap,
    /// Twelve months of 30 days.
    Days360,
    /// International atomic time, with Gregorian dates.
    Tai,
}

/// A day of a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date {
    pub(super) year: i64,
    pub(super) month: u32,
    pub(super) day: u32,
}

/// 1582-10-15, the first Gregorian day of the standard calendar.
pub(super) const REFORM: i64 = -141_427;
/// Days from 0000-03-01 to 1970-01-01, Gregorian. Years start in March, so that the leap day is
/// the last day of a year.
const GREGORIAN_START: i64 = 719_468;
/// The same, Julian.
const JULIAN_START: i64 = 719_470;
/// Larger years do not occur. The limit keeps products of days within 64 bits.
const MOST_YEARS: i64 = 10_000_000;
const MONTHS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

impl Calendar {
    /// Finds a calendar by its name in attributes, in any case.
    pub fn parse(name: &str) -> Option<Calendar> {
        Some(match name.to_ascii_lowercase().as_str() {
            "standard" | "gregorian" => Calendar::Standard,
            "proleptic_gregorian" => Calendar::ProlepticGregorian,
            "julian" => Calendar::Julian,
            "noleap" | "365_day" => Calendar::NoLeap,
            "all_leap" | "366_day" => Calendar::AllLeap,
            "360_day" => Calendar::Days360,
            "tai" => Calendar::Tai,
            _ => return None,
        })
    }

    /// The name of the calendar.
    pub fn name(self) -> &'static str {
        match self {
            Calendar::Standard => "standard",
            Calendar::ProlepticGregorian => "proleptic_gregorian",
            Calendar::Julian => "julian",
            Calendar::NoLeap => "noleap",
            Calendar::AllLeap => "all_leap",
            Calendar::Days360 => "360_day",
            Calendar::Tai => "tai",
        }
    }

    /// Returns `true` if NumPy's `datetime64` can have its dates (the standard calendar: from the
    /// Gregorian reform on).
    pub fn has_numpy_dates(self) -> bool {
        matches!(self, Calendar::Standard | Calendar::ProlepticGregorian)
    }

    /// The number of a day. `None`: the calendar has no such day.
    pub(super) fn number(self, date: Date) -> Option<i64> {
        let Date { year, month, day } = date;
        let place = usize::try_from(month).ok()?.checked_sub(1)?;
        let length = *MONTHS.get(place)?;
        if !(-MOST_YEARS..=MOST_YEARS).contains(&year) || !(1..=31).contains(&day) {
            return None;
        }
        match self {
            Calendar::Days360 => {
                return (day <= 30)
                    .then(|| (year - 1970) * 360 + i64::from(month - 1) * 30 + i64::from(day - 1));
            }
            Calendar::NoLeap | Calendar::AllLeap => {
                let leap = u32::from(self == Calendar::AllLeap);
                let before: u32 = MONTHS.iter().take(place).sum::<u32>() + if place > 1 { leap } else { 0 };
                let length = length + if place == 1 { leap } else { 0 };
                let days = i64::from(365 + leap);
                return (day <= length).then(|| (year - 1970) * days + i64::from(before + day - 1));
            }
            _ => {}
        }
        let number = match self {
            Calendar::Julian => julian_number(julian_year(year)?, month, day),
            Calendar::Standard => {
                let number = gregorian_number(year, month, day);
                if number >= REFORM && year > 0 {
                    number
                } else {
                    julian_number(julian_year(year)?, month, day)
                }
            }
            _ => gregorian_number(year, month, day),
        };
        // A day that the month does not have has become a day of the next month.
        (self.date(number) == date).then_some(number)
    }

    /// The day with a number.
    pub(super) fn date(self, number: i64) -> Date {
        match self {
            Calendar::Days360 => {
                let (year, rest) = (number.div_euclid(360), number.rem_euclid(360) as u32);
                Date { year: year + 1970, month: rest / 30 + 1, day: rest % 30 + 1 }
            }
            Calendar::NoLeap | Calendar::AllLeap => {
                let leap = u32::from(self == Calendar::AllLeap);
                let days = i64::from(365 + leap);
                let (year, mut rest) = (number.div_euclid(days) + 1970, number.rem_euclid(days) as u32);
                let mut month = 1;
                for (place, length) in MONTHS.iter().enumerate() {
                    let length = length + if place == 1 { leap } else { 0 };
                    if rest < length {
                        break;
                    }
                    (rest, month) = (rest - length, month + 1);
                }
                Date { year, month, day: rest + 1 }
            }
            Calendar::Julian => julian_date(number),
            Calendar::Standard if number < REFORM => julian_date(number),
            _ => {
                let days = number + GREGORIAN_START;
                let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
                let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
                from_march(era * 400 + year, day - (365 * year + year / 4 - year / 100))
            }
        }
    }
}

/// Years in the sense of astronomers: the year before 1 is 0. `None`: there is no year zero.
fn julian_year(year: i64) -> Option<i64> {
    match year {
        0 => None,
        year if year < 0 => Some(year + 1),
        year => Some(year),
    }
}

/// The year that starts in March, and the number of the day in it.
fn to_march(year: i64, month: u32, day: u32) -> (i64, i64) {
    let (month, day) = (i64::from(month), i64::from(day));
    let months = if month > 2 { month - 3 } else { month + 9 };
    (year - i64::from(month <= 2), (153 * months + 2) / 5 + day - 1)
}

fn from_march(year: i64, number: i64) -> Date {
    let months = (5 * number + 2) / 153;
    let day = (number - (153 * months + 2) / 5 + 1) as u32;
    let month = (if months < 10 { months + 3 } else { months - 9 }) as u32;
    Date { year: year + i64::from(month <= 2), month, day }
}

fn gregorian_number(year: i64, month: u32, day: u32) -> i64 {
    let (year, day) = to_march(year, month, day);
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    era * 146_097 + year * 365 + year / 4 - year / 100 + day - GREGORIAN_START
}

fn julian_number(year: i64, month: u32, day: u32) -> i64 {
    let (year, day) = to_march(year, month, day);
    year.div_euclid(4) * 1461 + year.rem_euclid(4) * 365 + day - JULIAN_START
}

fn julian_date(number: i64) -> Date {
    let days = number + JULIAN_START;
    let (era, day) = (days.div_euclid(1461), days.rem_euclid(1461));
    let year = (day - day / 1460) / 365;
    let found = from_march(era * 4 + year, day - 365 * year);
    Date { year: if found.year <= 0 { found.year - 1 } else { found.year }, ..found }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Calendar; 7] = {
        use Calendar::*;
        [Standard, ProlepticGregorian, Julian, NoLeap, AllLeap, Days360, Tai]
    };

    fn number(calendar: Calendar, year: i64, month: u32, day: u32) -> Option<i64> {
        calendar.number(Date { year, month, day })
    }

    #[test]
    fn known_days() {
        use Calendar::*;
        // Expected results come from `cftime.date2num(…, "days since 1970-01-01", calendar)`. It
        // counts Julian days from another day 0, 13 days later.
        for (calendar, (year, month, day), expected) in [
            (Standard, (2000, 3, 1), Some(11_017)),
            (Standard, (1582, 10, 15), Some(REFORM)),
            (Standard, (1582, 10, 4), Some(REFORM - 1)),
            (Standard, (1582, 10, 10), None),
            (Standard, (1, 1, 1), Some(-719_164)),
            (Standard, (-1, 12, 31), Some(-719_165)),
            (Standard, (0, 1, 1), None),
            (ProlepticGregorian, (1, 1, 1), Some(-719_162)),
            (ProlepticGregorian, (0, 2, 29), Some(-719_469)),
            (Julian, (1969, 12, 19), Some(0)),
            (Julian, (1900, 2, 29), Some(-25_496)),
            (ProlepticGregorian, (1900, 2, 29), None),
            (NoLeap, (2000, 3, 1), Some(30 * 365 + 59)),
            (NoLeap, (2000, 2, 29), None),
            (AllLeap, (1971, 2, 29), Some(366 + 59)),
            (AllLeap, (1971, 3, 1), Some(366 + 60)),
            (Days360, (1970, 2, 30), Some(59)),
            (Days360, (1970, 1, 31), None),
        ] {
            assert_eq!(number(calendar, year, month, day), expected, "{calendar:?} {year}-{month}-{day}");
        }
    }

    #[test]
    fn days_and_dates_are_inverse() {
        for calendar in ALL {
            let mut before = calendar.date(-800_001);
            for day in -800_000..40_000 {
                let date = calendar.date(day);
                assert_eq!(calendar.number(date), Some(day), "{calendar:?} {date:?}");
                let order = |date: Date| (date.year, date.month, date.day);
                assert!(order(date) > order(before), "{calendar:?} {date:?}");
                before = date;
            }
        }
    }

    #[test]
    fn names() {
        for calendar in ALL {
            assert_eq!(Calendar::parse(&calendar.name().to_uppercase()), Some(calendar));
        }
        assert_eq!(Calendar::parse("gregorian"), Some(Calendar::Standard));
        assert_eq!(Calendar::parse("lunar"), None);
    }

    #[test]
    fn hostile_dates() {
        for (year, month, day) in
            [(i64::MAX, 1, 1), (i64::MIN, 1, 1), (2000, 0, 1), (2000, 13, 1), (2000, 1, 0)]
        {
            for calendar in ALL {
                assert_eq!(number(calendar, year, month, day), None);
                assert_eq!(number(calendar, 2000, 1, u32::MAX), None);
            }
        }
    }
}
