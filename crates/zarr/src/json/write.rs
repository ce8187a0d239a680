//! Writes values as text, like Python's `json.dumps`.

use super::Json;
use std::fmt::Write;

/// Appends the text of `value`; stops soon after `limit` bytes.
pub(super) fn write(value: &Json, indent: Option<usize>, limit: usize, out: &mut String) {
    level(value, indent, 0, limit, out);
}

fn level(value: &Json, indent: Option<usize>, depth: usize, limit: usize, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::Number(text) => out.push_str(text),
        Json::String(text) => string(text, limit, out),
        Json::Array(items) if items.is_empty() => out.push_str("[]"),
        Json::Object(members) if members.is_empty() => out.push_str("{}"),
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                separate(at, indent, depth + 1, out);
                level(item, indent, depth + 1, limit, out);
                if out.len() > limit {
                    return;
                }
            }
            line(indent, depth, out);
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                separate(at, indent, depth + 1, out);
                string(name, limit, out);
                out.push_str(": ");
                level(member, indent, depth + 1, limit, out);
                if out.len() > limit {
                    return;
                }
            }
            line(indent, depth, out);
            out.push('}');
        }
    }
}

fn separate(at: usize, indent: Option<usize>, depth: usize, out: &mut String) {
    if at > 0 {
        out.push_str(if indent.is_some() { "," } else { ", " });
    }
    line(indent, depth, out);
}

fn line(indent: Option<usize>, depth: usize, out: &mut String) {
    if let Some(width) = indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', width.saturating_mul(depth)));
    }
}

fn string(text: &str, limit: usize, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => {
                let mut units = [0u16; 2];
                for unit in c.encode_utf16(&mut units) {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
        if out.len() > limit {
            return;
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab_codec::python_float;
    use proptest::prelude::*;

    #[test]
    fn floats_as_python_writes_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (123456789.0, "123456789.0"),
            (1e15, "1000000000000000.0"),
            (9999999999999998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (1.5e22, "1.5e+22"),
            (1e300, "1e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(python_float(value), text);
        }
    }

    #[test]
    fn text_as_python_writes_it() {
        let text = r#"{"a": [1, {"b": []}], "c": {}, "d": "\u00e9\ud83d\ude00\n\u007f\"\\/"}"#;
        let json = Json::parse(text.as_bytes()).unwrap();
        assert_eq!(json.to_text(None), text);
        assert_eq!(
            Json::parse(br#"{"a": [1, {"b": []}], "c": {}}"#).unwrap().to_text(Some(2)),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}"
        );
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let scalar = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            any::<i128>().prop_map(Json::from),
            any::<f64>().prop_map(Json::float),
            "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,4})?"
                .prop_map(|n| Json::Number(n.into())),
            any::<String>().prop_map(Json::String),
        ];
        scalar.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
                proptest::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn round_trip(json in any_json(), indent in proptest::option::of(0usize..5)) {
            let text = json.to_text(indent);
            prop_assert!(text.is_ascii());
            prop_assert_eq!(Json::parse(text.as_bytes()).unwrap(), json);
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(json) = Json::parse(&bytes) {
                prop_assert_eq!(Json::parse(json.to_text(None).as_bytes()).unwrap(), json);
            }
        }

        #[test]
        fn json_like_text_is_parsed_or_refused(text in "[\\[\\]{}:,\"\\\\0-9eEu.+\\- aNI]{0,24}") {
            let _ = Json::parse(text.as_bytes());
        }

        #[test]
        fn floats_read_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            if value.is_finite() {
                prop_assert_eq!(python_float(value).parse::<f64>().unwrap().to_bits(), bits);
            }
        }
    }
}
