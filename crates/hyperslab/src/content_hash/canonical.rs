//! Canonical JSON: one text for each value.
//!
//! The same as Python's `json.dumps(value, sort_keys=True, separators=(",", ":"),
//! ensure_ascii=False)` of what `json.loads` makes of the value.

use crate::Json;
use std::fmt::Write;

/// The canonical text of a value.
pub(super) fn text(json: &Json) -> String {
    let mut out = String::new();
    write(json, &mut out);
    out
}

fn write(json: &Json, out: &mut String) {
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(text) => number(text, out),
        Json::String(text) => string(text, out),
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                write(item, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            // UTF-8 sorts as Unicode does.
            members.sort_by(|a, b| a.0.cmp(&b.0));
            out.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                string(name, out);
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
    }
}

/// Integers as they are, floats as the shortest text of the same 64-bit float.
fn number(text: &str, out: &mut String) {
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        out.push_str(if text == "-0" { "0" } else { text });
    } else if let Ok(value) = text.parse() {
        if let Json::Number(text) = Json::float(value) {
            out.push_str(&text);
        }
    } else {
        out.push_str(text);
    }
}

fn string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            other if other < ' ' => {
                // A string takes every text.
                let _ = write!(out, "\\u{:04x}", u32::from(other));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_python() {
        for (json, canonical) in [
            (r#"{"b": [1, -0, 2.50], "a": {}}"#, r#"{"a":{},"b":[1,0,2.5]}"#),
            (
                r#"[1e3, 1E-7, 1e16, NaN, -Infinity, 1e400, -0.0]"#,
                "[1000.0,1e-07,1e+16,NaN,-Infinity,Infinity,-0.0]",
            ),
            (r#""\u00e9\"\\\/\u0001\n\t""#, "\"é\\\"\\\\/\\u0001\\n\\t\""),
            (
                "[true, false, null, 123456789012345678901234567890]",
                "[true,false,null,123456789012345678901234567890]",
            ),
            (r#"{"é": 1, "z": 2, "Z": 3}"#, r#"{"Z":3,"z":2,"é":1}"#),
        ] {
            assert_eq!(text(&Json::parse(json.as_bytes()).unwrap()), canonical);
        }
    }
}
