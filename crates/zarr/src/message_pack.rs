//! Fill values of `msgpack2`: single MessagePack values, written as JSON in metadata.
//!
//! Specification: <https://github.com/msgpack/msgpack/blob/master/spec.md>. Lists and maps are not
//! supported: no array has them as fill value. (For chunks see `msgpack2` in the codecs.)

use crate::json::Json;

/// `null`.
pub(crate) const NIL: &[u8] = &[0xc0];

/// The bytes that the package msgpack makes from a value.
///
/// Returns `None` for lists, maps, and integers of more than 64 bits.
pub(crate) fn from_json(json: &Json) -> Option<Vec<u8>> {
    let with = |first: u8, bytes: &[u8]| Some([&[first], bytes].concat());
    match json {
        Json::Null => Some(NIL.to_vec()),
        Json::Bool(value) => Some(vec![if *value { 0xc3 } else { 0xc2 }]),
        Json::String(text) => {
            let bytes = text.as_bytes();
            match bytes.len() {
                len @ 0..=31 => with(0xa0 | u8::try_from(len).ok()?, bytes),
                len @ 32..=0xff => with(0xd9, &[&[u8::try_from(len).ok()?], bytes].concat()),
                len @ 0x100..=0xffff => {
                    with(0xda, &[&u16::try_from(len).ok()?.to_be_bytes()[..], bytes].concat())
                }
                len => with(0xdb, &[&u32::try_from(len).ok()?.to_be_bytes()[..], bytes].concat()),
            }
        }
        Json::Number(text) if text.contains(['.', 'e', 'E', 'N', 'I']) => {
            let number: f64 = match &**text {
                "NaN" => f64::NAN,
                "Infinity" => f64::INFINITY,
                "-Infinity" => f64::NEG_INFINITY,
                text => text.parse().ok()?,
            };
            with(0xcb, &number.to_be_bytes())
        }
        Json::Number(text) => match (text.parse::<u64>(), text.parse::<i64>()) {
            (Ok(number), _) => match number {
                0..=0x7f => Some(vec![u8::try_from(number).ok()?]),
                0x80..=0xff => with(0xcc, &[u8::try_from(number).ok()?]),
                0x100..=0xffff => with(0xcd, &u16::try_from(number).ok()?.to_be_bytes()),
                0x1_0000..=0xffff_ffff => with(0xce, &u32::try_from(number).ok()?.to_be_bytes()),
                _ => with(0xcf, &number.to_be_bytes()),
            },
            (_, Ok(number)) => match number {
                -0x20.. => with(i8::try_from(number).ok()?.to_be_bytes()[0], &[]),
                -0x80.. => with(0xd0, &i8::try_from(number).ok()?.to_be_bytes()),
                -0x8000.. => with(0xd1, &i16::try_from(number).ok()?.to_be_bytes()),
                -0x8000_0000.. => with(0xd2, &i32::try_from(number).ok()?.to_be_bytes()),
                _ => with(0xd3, &number.to_be_bytes()),
            },
            _ => None,
        },
        Json::Array(_) | Json::Object(_) => None,
    }
}

/// The JSON of a value, or `None` if there is no JSON for it or `bytes` are several values.
pub(crate) fn to_json(bytes: &[u8]) -> Option<Json> {
    let (first, rest) = bytes.split_first()?;
    let unsigned = || rest.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    // Negative numbers in fewer bytes need leading ones.
    let signed = |bits: u32| (unsigned() << (64 - bits)).cast_signed() >> (64 - bits);
    let text = |skipped: usize, len: usize| {
        let text = rest.get(skipped..).filter(|text| text.len() == len)?;
        Some(Json::String(std::str::from_utf8(text).ok()?.to_owned()))
    };
    let number = |rest: &[u8]| rest.iter().fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
    match (first, rest.len()) {
        (0xc0, 0) => Some(Json::Null),
        (0xc2 | 0xc3, 0) => Some(Json::Bool(*first == 0xc3)),
        (0x00..=0x7f, 0) => Some(u64::from(*first).into()),
        (0xe0..=0xff, 0) => Some(i64::from(first.cast_signed()).into()),
        (0xcc, 1) | (0xcd, 2) | (0xce, 4) | (0xcf, 8) => Some(unsigned().into()),
        (0xd0, 1) => Some(signed(8).into()),
        (0xd1, 2) => Some(signed(16).into()),
        (0xd2, 4) => Some(signed(32).into()),
        (0xd3, 8) => Some(signed(64).into()),
        (0xca, 4) => Some(Json::float(f64::from(f32::from_be_bytes(rest.try_into().ok()?)))),
        (0xcb, 8) => Some(Json::float(f64::from_be_bytes(rest.try_into().ok()?))),
        (0xa0..=0xbf, _) => text(0, usize::from(first & 0x1f)),
        (0xd9, _) => text(1, number(rest.get(..1)?)),
        (0xda, _) => text(2, number(rest.get(..2)?)),
        (0xdb, _) => text(4, number(rest.get(..4)?)),
        _ => None,
    }
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
