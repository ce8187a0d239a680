//! Names, texts and numbers of CDL, as `ncdump` writes them.

use crate::{DataType, Kind};

/// Digits of a number, as C's `%.{digits}g`.
pub(super) fn general(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.into();
    }
    let text = format!("{value:.*e}", digits.saturating_sub(1));
    let (number, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if power < -4 || power >= digits as i32 {
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(number), power.unsigned_abs());
    }
    trimmed(&format!("{value:.*}", (digits as i32 - 1 - power).max(0) as usize))
}

/// A float in a list of values. `size`: its bytes.
pub(super) fn float(value: f64, size: usize) -> String {
    let suffix = if size == 8 { "" } else { "f" };
    match value {
        value if value.is_nan() => format!("NaN{suffix}"),
        value if value.is_infinite() => {
            format!("{}Infinity{suffix}", if value < 0.0 { "-" } else { "" })
        }
        value => general(value, if size == 8 { 15 } else { 7 }),
    }
}

/// A float of an attribute: with a point, and a letter for its type.
pub(super) fn attribute_float(value: f64, size: usize) -> String {
    let text = float(value, size);
    if !value.is_finite() {
        return text;
    }
    let suffix = if size == 8 { "" } else { "f" };
    let (number, power) = match text.split_once('e') {
        Some((number, power)) => (number.to_owned(), format!("e{power}")),
        None => (text, String::new()),
    };
    let point = if number.contains('.') { "" } else { "." };
    format!("{number}{point}{power}{suffix}")
}

/// The letters after an integer of an attribute.
pub(super) fn suffix(dtype: DataType) -> &'static str {
    match (dtype.kind(), dtype.size()) {
        (Kind::Int, 1) => "b",
        (Kind::Int, 2) => "s",
        (Kind::Int, 8) => "LL",
        (Kind::UInt, 1) => "UB",
        (Kind::UInt, 2) => "US",
        (Kind::UInt, 4) => "U",
        (Kind::UInt, 8) => "ULL",
        _ => "",
    }
}

/// The name of a type. `None`: CDL lacks the type.
pub(super) fn type_name(dtype: DataType) -> Option<&'static str> {
    Some(match (dtype.kind(), dtype.size()) {
        (Kind::Int, 1) => "byte",
        (Kind::Int, 2) => "short",
        (Kind::Int, 4) => "int",
        (Kind::Int, 8) => "int64",
        (Kind::UInt, 1) => "ubyte",
        (Kind::UInt, 2) => "ushort",
        (Kind::UInt, 4) => "uint",
        (Kind::UInt, 8) => "uint64",
        (Kind::Float, 4) => "float",
        (Kind::Float, 8) => "double",
        (Kind::Bytes, 1) => "char",
        (Kind::Bytes | Kind::Text, _) => "string",
        _ => return None,
    })
}

/// A name, with backslashes before special characters.
pub(super) fn name(text: &str) -> String {
    let mut out = String::new();
    for (n, c) in text.chars().enumerate() {
        match c {
            c if c.is_control() => out.push_str(&format!("\\%{:02x}", u32::from(c))),
            c if n == 0 && c.is_ascii_digit() => out.extend(['\\', c]),
            c if c.is_alphanumeric() || "_-+.@".contains(c) || !c.is_ascii() => out.push(c),
            c => out.extend(['\\', c]),
        }
    }
    out
}

/// Text in quotes.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Text of a classic file in quotes: a line of CDL for each line of the text. `indent`: before further
/// lines.
pub(super) fn quoted_lines(text: &str, indent: &str) -> String {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(quoted).collect();
    if lines.is_empty() {
        lines.push("\"\"".into());
    }
    lines.join(&format!(",\n{indent}\t\t\t"))
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c if u32::from(c) < 0x80 && c.is_control() => out.push_str(&format!("\\{:03o}", u32::from(c))),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_ncdump_writes_them() {
        for (value, size, data, attribute) in [
            (0.1, 8, "0.1", "0.1"),
            (1.0, 4, "1", "1.f"),
            (1e20, 4, "1e+20", "1.e+20f"),
            (1.0 / 3.0, 4, "0.3333333", "0.3333333f"),
            (2.0 / 3.0, 8, "0.666666666666667", "0.666666666666667"),
            (123456789.0, 4, "1.234568e+08", "1.234568e+08f"),
            (123456.0, 8, "123456", "123456."),
            (1e-5, 8, "1e-05", "1.e-05"),
            (9999999.6, 4, "1e+07", "1.e+07f"),
            (f64::NAN, 4, "NaNf", "NaNf"),
            (f64::NEG_INFINITY, 8, "-Infinity", "-Infinity"),
            (-0.0, 8, "-0", "-0."),
        ] {
            assert_eq!((float(value, size), attribute_float(value, size)), (data.into(), attribute.into()));
        }
    }

    #[test]
    fn names_and_texts() {
        assert_eq!(name("deep name"), "deep\\ name");
        assert_eq!(name("2m_temp:a"), "\\2m_temp\\:a");
        assert_eq!(name("Größe"), "Größe");
        assert_eq!(quoted("a \"b\"\n\\\t\u{1}"), "\"a \\\"b\\\"\\n\\\\\\t\\001\"");
        assert_eq!(quoted_lines("a\nb", ""), "\"a\\n\",\n\t\t\t\"b\"");
        assert_eq!(quoted_lines("a\n", ""), "\"a\\n\"");
        assert_eq!(quoted_lines("", ""), "\"\"");
    }
}
