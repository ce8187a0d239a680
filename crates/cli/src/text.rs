//! Formats facts as text.

use hyperslab::{Array, Json};
use std::time::Duration;

/// A number of bytes: `5 bytes`, `1.5 KiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return if bytes == 1 { "1 byte".into() } else { format!("{bytes} bytes") };
    }
    let mut value = bytes as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    // 1023.95 and more would be shown as 1024.0.
    while value >= 1023.95
        && let Some(next) = units.next()
    {
        value /= 1024.0;
        unit = Some(next);
    }
    format!("{value:.1} {}", unit.unwrap_or(&""))
}

/// A duration: `0.42 s`, `12.3 s`, `3 min 20 s`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 10.0 => format!("{s:.2} s"),
        s if s < 100.0 => format!("{s:.1} s"),
        _ => format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60),
    }
}

/// `1 array`, `2 arrays`.
pub(crate) fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// A shape as Python writes it: `(24, 180, 360)`, `(7,)`, `()`.
pub(crate) fn shape(shape: &[u64]) -> String {
    let numbers: Vec<String> = shape.iter().map(u64::to_string).collect();
    if shape.len() == 1 { format!("({},)", numbers.join("")) } else { format!("({})", numbers.join(", ")) }
}

/// The element type of an array.
pub(crate) fn element_type(array: &Array) -> String {
    sanitize(&array.type_words())
}

/// A codec as in the metadata: `zstd(level=3, checksum=false)`.
pub(crate) fn codec(json: &Json) -> String {
    let name = codec_name(json);
    let settings = match json.get("configuration") {
        Some(configuration) => configuration.as_object().unwrap_or_default(),
        None => json.as_object().unwrap_or_default(),
    };
    let settings: Vec<String> = settings
        .iter()
        .filter(|(member, _)| member != "id" && member != "name")
        .map(|(member, value)| {
            format!("{member}={}", value.as_str().map_or_else(|| value.brief(), str::to_owned))
        })
        .collect();
    if settings.is_empty() { name } else { format!("{name}({})", settings.join(", ")) }
}

/// The codec's name.
pub(crate) fn codec_name(json: &Json) -> String {
    let name = json.get("name").or(json.get("id")).and_then(Json::as_str).or(json.as_str());
    name.map_or_else(|| json.brief(), str::to_owned)
}

/// Untrusted text without characters that would control a terminal.
pub(crate) fn sanitize(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A JSON value on one line, of at most `longest` characters.
///
/// Unlike in JSON, text is shown literally.
pub(crate) fn value(json: &Json, longest: usize) -> String {
    let text = match json {
        Json::String(text) => format!("\"{}\"", sanitize(text)),
        other => other.to_text(None),
    };
    shorten(&text, longest)
}

/// A text of at most `longest` characters. A longer text is cut and ends in an ellipsis.
pub(crate) fn shorten(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some(_) => text.chars().take(longest.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// Axes with their names and lengths: `(time: 12, y: 90)`; lengths alone if no axis has a name.
pub(crate) fn axes(shape: &[u64], names: Option<&[Option<String>]>) -> String {
    let name = |axis: usize| names.and_then(|names| names.get(axis)).cloned().flatten();
    if (0..shape.len()).all(|axis| name(axis).is_none()) {
        return self::shape(shape);
    }
    let one = |(axis, len): (usize, &u64)| format!("{}: {len}", name(axis).unwrap_or_else(|| "-".into()));
    sanitize(&format!("({})", shape.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")))
}

/// Characters per line: as the shell says (`COLUMNS`), of the terminal, or 80.
pub(crate) fn line_width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let columns = columns.filter(|columns| *columns > 0);
    columns.or_else(|| terminal_size().map(|(columns, _)| columns)).unwrap_or(80)
}

/// Columns and lines of the terminal that standard output is. `None`: it is none.
pub(crate) fn terminal_size() -> Option<(usize, usize)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request writes one `winsize`, which the pointer leads to.
    let done = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (done == 0 && size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes() {
        for (number, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn shapes_and_times() {
        assert_eq!([shape(&[]), shape(&[7]), shape(&[2, 3])], ["()", "(7,)", "(2, 3)"]);
        assert_eq!(duration(Duration::from_millis(421)), "0.42 s");
        assert_eq!(duration(Duration::from_secs(200)), "3 min 20 s");
    }

    #[test]
    fn axes_with_names() {
        let names = [Some("time".to_owned()), None];
        assert_eq!(axes(&[2, 3], Some(&names)), "(time: 2, -: 3)");
        assert_eq!((axes(&[2, 3], None), axes(&[], None)), ("(2, 3)".into(), "()".into()));
    }

    #[test]
    fn text_from_outside() {
        assert_eq!(sanitize("a\x1b[2Jb\n°"), "a\u{fffd}[2Jb\u{fffd}°");
        assert_eq!(value(&"°C".into(), 10), "\"°C\"");
        assert_eq!(value(&Json::Array(vec![1u64.into(); 100]), 10), "[1, 1, 1,…");
    }

    #[test]
    fn codecs() {
        for (json, text) in [
            (
                r#"{"name": "zstd", "configuration": {"level": 3, "checksum": false}}"#,
                "zstd(level=3, checksum=false)",
            ),
            (r#"{"id": "blosc", "cname": "lz4", "clevel": 5}"#, "blosc(cname=lz4, clevel=5)"),
            (r#"{"name": "crc32c"}"#, "crc32c"),
            (r#""crc32c""#, "crc32c"),
            (r#"{"name": "transpose", "configuration": {"order": [1, 0]}}"#, "transpose(order=[1, 0])"),
        ] {
            assert_eq!(codec(&Json::parse(json.as_bytes()).unwrap()), text);
        }
    }
}
