//! The reference of times: the date in "days since 1970-01-01 00:00:00".

use super::calendar::Date;

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instant {
    pub(super) date: Date,
    /// Nanoseconds since midnight in UTC. With a zone, they may be negative or more than a day.
    pub(super) nanoseconds: i64,
}

/// Parses a reference: `Y-M-D`, a time of day (`h`, `h:m`, `h:m:s.f`) and a zone (`Z`, `UTC`,
/// `+h`, `+hh:mm`, `+hhmm`). Only the date is required; of a year of four digits, only the year.
pub(super) fn reference(text: &str) -> Option<Instant> {
    let mut rest = text;
    let sign = match take(&mut rest, &["-", "+"]) {
        Some("-") => -1,
        _ => 1,
    };
    let (year, digits) = number(&mut rest, 9)?;
    let mut date = Date { year: sign * year, month: 1, day: 1 };
    if take(&mut rest, &["-"]).is_some() {
        date.month = small(&mut rest)?;
        if take(&mut rest, &["-"]).is_some() {
            date.day = small(&mut rest)?;
        } else if digits < 4 || !rest.is_empty() {
            return None;
        }
    } else if digits == 8 && sign == 1 {
        date = Date { year: year / 10_000, month: (year / 100 % 100) as u32, day: (year % 100) as u32 };
    } else if digits != 4 || !rest.is_empty() {
        return None;
    }
    let mut seconds = 0;
    let mut fraction = 0;
    let is_separated = matches!(rest.as_bytes(), [b'T' | b't' | b' ', ..]);
    let clock = rest.trim_start_matches(['T', 't', ' ']);
    if is_separated && clock.starts_with(|first: char| first.is_ascii_digit()) {
        rest = clock;
        let hour = i64::from(small(&mut rest)?);
        let (mut minute, mut second) = (0, 0);
        if take(&mut rest, &[":"]).is_some() {
            minute = i64::from(small(&mut rest)?);
            if take(&mut rest, &[":"]).is_some() {
                second = i64::from(small(&mut rest)?);
                if take(&mut rest, &["."]).is_some() {
                    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
                    let (digits, after) = rest.split_at_checked(count)?;
                    let nine: String = digits.chars().chain("000000000".chars()).take(9).collect();
                    fraction = nine.parse::<i64>().ok()?;
                    rest = after;
                }
            }
        }
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        seconds = hour * 3600 + minute * 60 + second;
    }
    seconds -= zone(rest.trim())? * 60;
    Some(Instant { date, nanoseconds: seconds * 1_000_000_000 + fraction })
}

/// Minutes that a zone is ahead of UTC.
fn zone(text: &str) -> Option<i64> {
    if matches!(text.to_ascii_uppercase().as_str(), "" | "Z" | "UTC" | "GMT") {
        return Some(0);
    }
    let mut rest = text;
    let sign = match take(&mut rest, &["-", "+"]) {
        Some("-") => -1,
        Some(_) => 1,
        None => 0,
    };
    let (mut hours, digits) = number(&mut rest, 4)?;
    let mut minutes = 0;
    if digits > 2 {
        (hours, minutes) = (hours / 100, hours % 100);
    } else if take(&mut rest, &[":"]).is_some() {
        minutes = number(&mut rest, 2)?.0;
    }
    let is_valid = rest.is_empty() && hours <= 23 && minutes <= 59;
    // Without a sign, only UTC is unambiguous.
    (is_valid && (sign != 0 || hours + minutes == 0)).then_some(sign * (hours * 60 + minutes))
}

/// Takes the first of `parts` that the text starts with.
fn take<'p>(text: &mut &str, parts: &[&'p str]) -> Option<&'p str> {
    let found = parts.iter().find(|part| text.starts_with(**part))?;
    *text = text.get(found.len()..)?;
    Some(found)
}

/// Takes a number of at most `most` digits. Returns the number of digits, too.
fn number(text: &mut &str, most: usize) -> Option<(i64, usize)> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at_checked(count)?;
    if count == 0 || count > most {
        return None;
    }
    *text = rest;
    Some((digits.parse().ok()?, count))
}

/// Takes a number of one or two digits.
fn small(text: &mut &str) -> Option<u32> {
    u32::try_from(number(text, 2)?.0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        let hour = 3_600_000_000_000;
        for (text, (year, month, day), nanoseconds) in [
            ("1970-01-01", (1970, 1, 1), 0),
            ("1-1-1", (1, 1, 1), 0),
            ("-4713-11-24 12:00:00", (-4713, 11, 24), 12 * hour),
            ("2000", (2000, 1, 1), 0),
            ("2000-02", (2000, 2, 1), 0),
            ("20000203", (2000, 2, 3), 0),
            ("2000-1-1 0:0:0", (2000, 1, 1), 0),
            ("2000-01-01 12", (2000, 1, 1), 12 * hour),
            ("2000-01-01T06:30", (2000, 1, 1), 6 * hour + hour / 2),
            ("2000-01-01 00:00:01.25", (2000, 1, 1), 1_250_000_000),
            ("2000-01-01 00:00:00.1234567891", (2000, 1, 1), 123_456_789),
            ("2000-01-01T12:00:00Z", (2000, 1, 1), 12 * hour),
            ("2000-01-01 12:00 UTC", (2000, 1, 1), 12 * hour),
            ("2000-01-01 00:00:00 -6:00", (2000, 1, 1), 6 * hour),
            ("2000-01-01 00:00:00+0130", (2000, 1, 1), -hour - hour / 2),
            ("2000-01-01 00:00:00 +5", (2000, 1, 1), -5 * hour),
            ("2000-01-01 00:00:00 0:00", (2000, 1, 1), 0),
        ] {
            assert_eq!(
                reference(text),
                Some(Instant { date: Date { year, month, day }, nanoseconds }),
                "{text}"
            );
        }
    }

    #[test]
    fn other_text() {
        for text in [
            "",
            "-",
            "birth",
            "01-Jan-2000",
            "2000/01/01",
            "2000-01-01x",
            "2000-01-01 25:00",
            "2000-01-01 1:60",
            "2000-01-01 00:00:00 5:00",
            "2000-01-01 00:00:00 +25:00",
            "1-1",
            "20",
            "2000-001-01",
            "2000-01-01 00:",
            "99999999999999999999-01-01",
            "2000-01-01 é",
            "2000-01-01 0:0:0.é",
        ] {
            assert_eq!(reference(text), None, "{text}");
        }
    }
}
