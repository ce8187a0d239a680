//! Fill values of `msgpack2`: single MessagePack values, written as JSON in metadata.
//!
//! Specification: <https://github.com/msgpack/msgpack/blob/master/spec.md>. Lists and maps are not
//! supported: no array has them as fill value. (For chunks see `msgpack2` in the codecs.)

use crate::json::Json;
use hyperslab_codec::message_pack::Head;

/// `null`.
pub(crate) const NIL: &[u8] = &[0xc0];

/// The bytes that the package msgpack makes from a value.
///
/// Returns `None` for lists, maps, and integers of more than 64 bits.
pub(crate) fn from_json(json: &Json) -> Option<Vec<u8>> {
    let head = match json {
        Json::Null => Head::Nil,
        Json::Bool(value) => Head::Bool(*value),
        Json::String(text) => Head::Text(text.len().try_into().ok()?),
        Json::Number(text) if text.contains(['.', 'e', 'E', 'N', 'I']) => Head::Double(match &**text {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            text => text.parse().ok()?,
        }),
        Json::Number(text) => match text.parse() {
            Ok(number) => Head::Unsigned(number),
            Err(_) => Head::Signed(text.parse().ok()?),
        },
        Json::Array(_) | Json::Object(_) => return None,
    };
    let mut bytes = Vec::new();
    head.write(&mut bytes);
    bytes.extend_from_slice(json.as_str().unwrap_or_default().as_bytes());
    Some(bytes)
}

/// The JSON of a value, or `None` if there is no JSON for it or `bytes` are several values.
pub(crate) fn to_json(bytes: &[u8]) -> Option<Json> {
    let mut left = bytes;
    let json = match Head::read(&mut left).ok()? {
        Head::Nil => Json::Null,
        Head::Bool(value) => Json::Bool(value),
        Head::Unsigned(number) => number.into(),
        Head::Signed(number) => number.into(),
        Head::Single(number) => Json::float(number.into()),
        Head::Double(number) => Json::float(number),
        Head::Text(len) => {
            let (text, behind) = left.split_at_checked(len as usize)?;
            left = behind;
            std::str::from_utf8(text).ok()?.into()
        }
        Head::Bytes(_) | Head::Extension { .. } | Head::Array(_) | Head::Map(_) => return None,
    };
    left.is_empty().then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;

    #[test]
    fn single_values() {
        for (text, bytes) in [
            ("null", &b"\xc0"[..]),
            ("true", b"\xc3"),
            ("0", b"\x00"),
            ("127", b"\x7f"),
            ("128", b"\xcc\x80"),
            ("256", b"\xcd\x01\x00"),
            ("65536", b"\xce\x00\x01\x00\x00"),
            ("18446744073709551615", b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
            ("-1", b"\xff"),
            ("-33", b"\xd0\xdf"),
            ("-129", b"\xd1\xff\x7f"),
            ("-32769", b"\xd2\xff\xff\x7f\xff"),
            ("-2147483649", b"\xd3\xff\xff\xff\xff\x7f\xff\xff\xff"),
            ("1.5", b"\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00"),
            ("Infinity", b"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00"),
            (r#""""#, b"\xa0"),
            (r#""ab""#, b"\xa2ab"),
        ] {
            let value = json(text);
            assert_eq!(from_json(&value).unwrap(), bytes, "{text}");
            assert_eq!(to_json(bytes).unwrap(), value, "{text}");
            assert!(to_json(&[bytes, b"\xc0"].concat()).is_none(), "{text}");
            assert!((0..bytes.len()).all(|end| to_json(&bytes[..end]).is_none()), "{text}");
        }
        for len in [31, 32, 255, 256, 65535, 65536] {
            let value = Json::String("x".repeat(len));
            assert_eq!(to_json(&from_json(&value).unwrap()).unwrap(), value);
        }
        assert_eq!(to_json(b"\xca\x3f\xc0\x00\x00").unwrap(), json("1.5"));
        for text in ["[]", "{}", "18446744073709551616"] {
            assert!(from_json(&json(text)).is_none(), "{text}");
        }
        for bytes in [&b"\x90"[..], b"\x80", b"\xc4\x00", b"\xd4\x01a", b"\xa1\xff", b"\xc1"] {
            assert!(to_json(bytes).is_none(), "{bytes:?}");
        }
    }
}
