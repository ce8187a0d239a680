//! Fill values in metadata: JSON ⇄ the bytes of one element.
//!
//! | type | v3 | v2 |
//! |---|---|---|
//! | bool, integers | `true`, `-3` | same |
//! | floats | `0.5`, `"NaN"`, `"-Infinity"`, any NaN by its bits: `"0x7fc00001"` | `0.5`, `"NaN"`, `"-Infinity"` |
//! | complex | `[1.0, "NaN"]` | same |
//! | dates, differences | the count (`"NaT"` is read too) | same |
//! | `S`, `V` | base 64 (raw: also a list of integers 0 to 255) | base 64 |
//! | `U` | text | text |
//! | none | – | `null`: the type's default |
//!
//! Also read, because writers have written them: the bare tokens `NaN` and `Infinity`, integers as
//! floats and text (`0.0`, `"0"`), numbers as text, 0 and 1 for booleans, `0` for v2 text and
//! bytes. A number too large for a float type becomes infinite, as in NumPy. v2 has only one NaN:
//! every NaN is written as `"NaN"`, and read back as the quiet NaN without payload.

use crate::error::{Problem, invalid};
use crate::json::Json;
use crate::{Format, base64};
use hyperslab_codec::{ByteOrder, DataType, Kind, SmallBits, SmallNumber, python_float};
use std::ops::Range;

/// The default fill value: zero, empty, or "not a time" for dates and differences, as in
/// zarr-python.
pub(crate) fn default(dtype: DataType) -> Vec<u8> {
    match dtype.kind() {
        Kind::DateTime(_) | Kind::TimeDelta(_) => number(dtype, &i64::MIN.to_le_bytes()),
        _ => vec![0; dtype.size()],
    }
}

/// The bytes of a fill value, in the type's byte order.
pub(crate) fn parse(dtype: DataType, json: &Json, format: Format) -> Result<Vec<u8>, Problem> {
    let parsed = match dtype.kind() {
        Kind::Bool => match json {
            Json::Bool(value) => Some(vec![u8::from(*value)]),
            other => integer(other).and_then(|n| u8::try_from(n).ok()).filter(|n| *n <= 1).map(|n| vec![n]),
        },
        Kind::Int | Kind::UInt => integer_bytes(dtype, json),
        Kind::Float => float(dtype.size(), json, format).map(|bytes| number(dtype, &bytes)),
        Kind::Complex => complex(dtype, json, format),
        Kind::DateTime(_) | Kind::TimeDelta(_) => match json {
            Json::String(text) if text == "NaT" => Some(default(dtype)),
            other => integer_bytes(dtype, other),
        },
        Kind::Bytes | Kind::Raw => bytes(dtype, json, format),
        Kind::Text => text(dtype, json, format),
        Kind::Small(small) => small_number(dtype, small, json, format),
    };
    match parsed {
        Some(bytes) if bytes.len() == dtype.size() => Ok(bytes),
        _ => invalid!("fill_value: expected {}, found {}", describe_expected(dtype, format), json.brief()),
    }
}

/// The bytes of an attribute or fill value, in the type's byte order.
///
/// Returns `None` if it is no value of this type.
pub fn fill_from_json(dtype: DataType, json: &Json) -> Option<Vec<u8>> {
    parse(dtype, json, Format::V3).ok()
}

/// The JSON of one element in the type's byte order: numbers become numbers.
///
/// Returns `None` if `bytes` are not one element.
pub fn fill_to_json(dtype: DataType, bytes: &[u8]) -> Option<Json> {
    write(dtype, bytes, Format::V3).ok()
}

/// Describes the valid fill values of this type, for messages.
fn describe_expected(dtype: DataType, format: Format) -> String {
    match dtype.kind() {
        Kind::Bool => "true or false".into(),
        Kind::Int | Kind::UInt => format!("an integer within the range of {dtype}"),
        Kind::Float if format == Format::V2 => "a number, \"NaN\", \"Infinity\" or \"-Infinity\"".into(),
        Kind::Float => {
            format!(
                "a number, \"NaN\", \"Infinity\", \"-Infinity\" or {} hexadecimal digits \"0x…\"",
                dtype.size() * 2
            )
        }
        Kind::Complex => "a list of two numbers".into(),
        Kind::DateTime(_) | Kind::TimeDelta(_) => "a 64-bit integer or \"NaT\"".into(),
        Kind::Bytes => format!("base 64 text of at most {} bytes", dtype.size()),
        Kind::Raw => format!("base 64 text of {} bytes", dtype.size()),
        Kind::Text => format!("text of at most {} characters", dtype.size() / 4),
        Kind::Small(small) => match (small.bits, small.parts) {
            (SmallBits::Int(_) | SmallBits::UInt(_), _) => format!("an integer within the range of {dtype}"),
            (_, 1) => format!("a number within the range of {dtype}, or its bits \"0x…\""),
            _ => "a list of two numbers".into(),
        },
    }
}

/// Puts a number's little-endian bytes in the type's order.
fn number(dtype: DataType, little: &[u8]) -> Vec<u8> {
    let mut bytes = little.to_vec();
    if dtype.order() == ByteOrder::Big {
        bytes.reverse();
    }
    bytes
}

fn integer(json: &Json) -> Option<i128> {
    let whole = |text: &str| {
        text.parse::<i128>().ok().or_else(|| {
            let value: f64 = text.parse().ok()?;
            // 2⁶⁴ covers every type.
            #[expect(clippy::cast_possible_truncation, reason = "whole numbers up to 2⁶⁴ are exact")]
            (value.fract() == 0.0 && value.abs() <= 18446744073709551616.0).then_some(value as i128)
        })
    };
    match json {
        Json::Number(text) => whole(text),
        Json::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// The bytes of an integer, or `None` if it is out of the type's range.
fn integer_bytes(dtype: DataType, json: &Json) -> Option<Vec<u8>> {
    let (value, bits) = (integer(json)?, dtype.size() * 8);
    let range = match dtype.kind() {
        Kind::UInt => 0..1i128 << bits,
        _ => -(1i128 << (bits - 1))..1i128 << (bits - 1),
    };
    let little = value.to_le_bytes();
    range.contains(&value).then(|| number(dtype, little.get(..dtype.size()).unwrap_or_default()))
}

/// The form of a float in JSON.
enum Given {
    Bits(u64),
    Number(f64),
}

/// A float of `size` bytes in JSON.
fn given_float(size: usize, json: &Json, format: Format) -> Option<Given> {
    let text = match json {
        Json::Number(text) => text,
        Json::String(text) => text.as_str(),
        _ => return None,
    };
    if let Some(digits) = text.strip_prefix("0x") {
        if format == Format::V2 || digits.len() != size * 2 || !digits.bytes().all(|b| b.is_ascii_hexdigit())
        {
            return None;
        }
        return u64::from_str_radix(digits, 16).ok().map(Given::Bits);
    }
    // Rust's parser also accepts every spelling of "nan", "inf" and "infinity". A NaN's sign has no
    // meaning.
    let value: f64 = text.parse().ok()?;
    Some(Given::Number(if value.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { value }))
}

/// The little-endian bytes of a float of `size` bytes.
fn float(size: usize, json: &Json, format: Format) -> Option<Vec<u8>> {
    let value = match given_float(size, json, format)? {
        Given::Bits(bits) => return bits.to_le_bytes().get(..size).map(<[u8]>::to_vec),
        Given::Number(value) => value,
    };
    Some(match size {
        2 => SmallBits::HALF.from_f64(value)?.to_le_bytes().to_vec(),
        4 if value.is_nan() => 0x7fc0_0000u32.to_le_bytes().to_vec(),
        #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest, as NumPy does")]
        4 => (value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    })
}

fn small_number(dtype: DataType, small: &SmallNumber, json: &Json, format: Format) -> Option<Vec<u8>> {
    let size = small.part_size();
    let part = |json: &Json| {
        // The unused bits of an integer's byte are zero, as in ml_dtypes.
        let low = |range: Range<i128>, bits: u32| {
            let value = integer(json).filter(|value| range.contains(value))?;
            u16::try_from(value & ((1 << bits) - 1)).ok()
        };
        let number_bits = match small.bits {
            SmallBits::Int(bits) => low(-(1 << (bits - 1))..1 << (bits - 1), bits)?,
            SmallBits::UInt(bits) => low(0..1 << bits, bits)?,
            SmallBits::Float(..) => match given_float(size, json, format)? {
                Given::Bits(bits) => u16::try_from(bits).ok()?,
                Given::Number(value) => small.bits.from_f64(value)?,
            },
        };
        Some(number(dtype, number_bits.to_le_bytes().get(..size)?))
    };
    if small.parts == 1 { part(json) } else { pair(size, json, &part) }
}

fn complex(dtype: DataType, json: &Json, format: Format) -> Option<Vec<u8>> {
    let half = dtype.number_size();
    pair(half, json, &|json| float(half, json, format).map(|bytes| number(dtype, &bytes)))
}

/// A complex number of two parts of `half` bytes.
fn pair(half: usize, json: &Json, part: &dyn Fn(&Json) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let (real, imaginary) = match json.as_array() {
        Some([real, imaginary]) => (part(real)?, part(imaginary)?),
        Some(_) => return None,
        // A real number.
        None => (part(json)?, vec![0; half]),
    };
    Some([real, imaginary].concat())
}

fn bytes(dtype: DataType, json: &Json, format: Format) -> Option<Vec<u8>> {
    let mut bytes = match json {
        Json::String(text) => base64::decode(text)?,
        Json::Array(items) if dtype.kind() == Kind::Raw && items.len() == dtype.size() => {
            items.iter().map(Json::as_integer).collect::<Option<Vec<u8>>>()?
        }
        Json::Number(text) if format == Format::V2 && &**text == "0" => return Some(vec![0; dtype.size()]),
        _ => return None,
    };
    // Trailing NULs are padding. An empty raw value stands for zeros.
    if dtype.kind() == Kind::Bytes || bytes.is_empty() {
        while bytes.len() > dtype.size() && bytes.last() == Some(&0) {
            bytes.pop();
        }
        if bytes.len() < dtype.size() {
            bytes.resize(dtype.size(), 0);
        }
    }
    Some(bytes)
}

fn text(dtype: DataType, json: &Json, format: Format) -> Option<Vec<u8>> {
    let text = match json {
        Json::String(text) => text.trim_end_matches('\0'),
        Json::Number(text) if format == Format::V2 && &**text == "0" => "",
        _ => return None,
    };
    let mut bytes = Vec::with_capacity(dtype.size());
    for c in text.chars() {
        if bytes.len() == dtype.size() {
            return None;
        }
        bytes.extend(number(dtype, &u32::from(c).to_le_bytes()));
    }
    bytes.resize(dtype.size(), 0);
    Some(bytes)
}

/// The JSON of a fill value. `bytes` is one element in the type's byte order.
pub(crate) fn write(dtype: DataType, bytes: &[u8], format: Format) -> Result<Json, Problem> {
    if bytes.len() != dtype.size() {
        return invalid!("fill_value: expected {} bytes of {dtype}, found {}", dtype.size(), bytes.len());
    }
    let little = |part: &[u8]| {
        let mut buffer = [0; 8];
        for (to, from) in buffer.iter_mut().zip(number(dtype, part)) {
            *to = from;
        }
        u64::from_le_bytes(buffer)
    };
    let bits = dtype.size() * 8;
    Ok(match dtype.kind() {
        Kind::Bool => Json::Bool(bytes != [0]),
        Kind::UInt => little(bytes).into(),
        Kind::Int | Kind::DateTime(_) | Kind::TimeDelta(_) => {
            let shift = 64 - bits;
            ((little(bytes) << shift) as i64 >> shift).into()
        }
        Kind::Float => write_float(dtype.size(), little(bytes), format),
        Kind::Small(small) => match small.bits {
            SmallBits::Int(bits) => ((little(bytes) << (64 - bits)) as i64 >> (64 - bits)).into(),
            SmallBits::UInt(bits) => (little(bytes) & ((1 << bits) - 1)).into(),
            SmallBits::Float(..) => {
                let part = |part: &[u8]| write_small(*small, little(part));
                let mut parts: Vec<Json> = bytes.chunks(small.part_size()).map(part).collect();
                if small.parts == 1 { parts.swap_remove(0) } else { Json::Array(parts) }
            }
        },
        Kind::Complex => {
            let half = dtype.number_size();
            Json::Array(bytes.chunks(half).map(|part| write_float(half, little(part), format)).collect())
        }
        Kind::Raw => Json::String(base64::encode(bytes)),
        Kind::Bytes => {
            let length = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
            Json::String(base64::encode(bytes.get(..length).unwrap_or_default()))
        }
        Kind::Text => {
            let mut text = String::new();
            for code in bytes.chunks(4).map(little) {
                match u32::try_from(code).ok().and_then(char::from_u32) {
                    Some(c) => text.push(c),
                    None => return invalid!("fill_value: {code:#x} is not a Unicode character"),
                }
            }
            text.truncate(text.trim_end_matches('\0').len());
            Json::String(text)
        }
    })
}

#[expect(clippy::cast_possible_truncation, reason = "`bits` are those of a part")]
fn write_small(small: SmallNumber, bits: u64) -> Json {
    let value = small.bits.to_f64(bits as u16);
    match small.bits.from_f64(value) {
        Some(same) if u64::from(same) == bits && value.is_finite() => Json::float(value),
        Some(same) if u64::from(same) == bits => Json::String(python_float(value)),
        // A NaN with a payload, or bits outside of the number.
        _ => Json::String(format!("{bits:#0width$x}", width = small.part_size() * 2 + 2)),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "`bits` are those of a float of `size` bytes")]
fn write_float(size: usize, bits: u64, format: Format) -> Json {
    let (value, plain_nan) = match size {
        2 => (SmallBits::HALF.to_f64(bits as u16), bits == 0x7e00),
        4 => (f64::from(f32::from_bits(bits as u32)), bits == 0x7fc0_0000),
        _ => (f64::from_bits(bits), bits == 0x7ff8_0000_0000_0000),
    };
    if value.is_nan() && !plain_nan && format == Format::V3 {
        return Json::String(format!("{bits:#0width$x}", width = size * 2 + 2));
    }
    if value.is_finite() { Json::float(value) } else { Json::String(python_float(value)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{dtype, json};
    use proptest::prelude::*;

    #[test]
    fn what_zarr_python_writes() {
        for (name, text, bytes) in [
            ("|b1", "true", &[1u8][..]),
            ("|i1", "-3", &[0xfd]),
            ("<i8", "-3", &(-3i64).to_le_bytes()),
            (">i2", "-2", &[0xff, 0xfe]),
            ("<u8", "18446744073709551615", &[0xff; 8]),
            ("<f4", "0.10000000149011612", &0.1f32.to_le_bytes()),
            (">f4", "0.10000000149011612", &0.1f32.to_be_bytes()),
            ("<f2", "0.0999755859375", &[0x66, 0x2e]),
            ("<f8", "1e+300", &1e300f64.to_le_bytes()),
            ("<f8", "-0.0", &(-0.0f64).to_le_bytes()),
            ("<f4", "\"NaN\"", &[0, 0, 0xc0, 0x7f]),
            ("<f4", "\"-Infinity\"", &f32::NEG_INFINITY.to_le_bytes()),
            ("<c8", "[1.5, \"NaN\"]", &[0, 0, 0xc0, 0x3f, 0, 0, 0xc0, 0x7f]),
            (">c8", "[1.5, -2.0]", &[0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0]),
            ("<M8[s]", "-9223372036854775808", &i64::MIN.to_le_bytes()),
            (">m8[s]", "5", &5i64.to_be_bytes()),
            ("|S5", "\"YWI=\"", b"ab\0\0\0"),
            ("|S5", "\"\"", &[0; 5]),
            ("|V3", "\"YWJj\"", b"abc"),
            ("<U3", "\"a\\u00e9\"", b"a\0\0\0\xe9\0\0\0\0\0\0\0"),
            (">U2", "\"\\ud83d\\ude00\"", b"\0\x01\xf6\0\0\0\0\0"),
        ] {
            for format in [Format::V2, Format::V3] {
                assert_eq!(parse(dtype(name), &json(text), format).unwrap(), bytes, "{name} {text}");
                assert_eq!(write(dtype(name), bytes, format).unwrap().to_text(None), text, "{name}");
            }
        }
    }

    #[test]
    fn other_forms_that_are_read() {
        for (name, text, bytes) in [
            ("|b1", "0", &[0u8][..]),
            ("|b1", "1.0", &[1]),
            ("|i1", "3.0", &[3]),
            ("|u1", "\"7\"", &[7]),
            ("<f4", "1", &1f32.to_le_bytes()),
            ("<f4", "NaN", &[0, 0, 0xc0, 0x7f]),
            ("<f4", "-Infinity", &f32::NEG_INFINITY.to_le_bytes()),
            ("<f4", "\"nan\"", &[0, 0, 0xc0, 0x7f]),
            ("<f4", "\"2.5\"", &2.5f32.to_le_bytes()),
            ("<f4", "1e300", &f32::INFINITY.to_le_bytes()),
            // Just above the midpoint of two halves. As a single it would be the midpoint.
            ("<f2", "1.000488281250001", &[0x01, 0x3c]),
            ("<c8", "0", &[0; 8]),
            ("<M8[s]", "\"NaT\"", &i64::MIN.to_le_bytes()),
            ("|S2", "\"YWIAAA==\"", b"ab"),
            ("|V3", "\"\"", &[0; 3]),
            ("|V3", "[1, 255, 0]", &[1, 255, 0]),
        ] {
            for format in [Format::V2, Format::V3] {
                assert_eq!(parse(dtype(name), &json(text), format).unwrap(), bytes, "{name} {text}");
            }
        }
        for name in ["|S3", "|V3", "<U1"] {
            assert_eq!(parse(dtype(name), &json("0"), Format::V2).unwrap(), vec![0; dtype(name).size()]);
        }
        let bits = |name: &str, text: &str| parse(dtype(name), &json(text), Format::V3).unwrap();
        assert_eq!(bits("<f4", "\"0x7fc00001\""), 0x7fc0_0001u32.to_le_bytes());
        assert_eq!(bits(">f2", "\"0xFE01\""), [0xfe, 0x01]);
        assert_eq!(bits("<f8", "\"0xfff0000000000001\""), 0xfff0_0000_0000_0001u64.to_le_bytes());
        assert_eq!(bits("<f4", "\"0x3f800000\""), 1f32.to_le_bytes());
    }

    #[test]
    fn small_numbers() {
        for (name, text, bytes) in [
            ("bfloat16", "1.5", &[0xc0u8, 0x3f][..]),
            ("bfloat16", "\"NaN\"", &[0xc0, 0x7f]),
            ("bfloat16", "\"-Infinity\"", &[0x80, 0xff]),
            ("bfloat16", "\"0x7fc1\"", &[0xc1, 0x7f]),
            ("float8_e4m3fn", "448.0", &[0x7e]),
            ("float8_e4m3fnuz", "\"NaN\"", &[0x80]),
            ("float8_e5m2", "-0.0", &[0x80]),
            ("float4_e2m1fn", "6.0", &[7]),
            ("float4_e2m1fn", "\"0xf7\"", &[0xf7]),
            ("int4", "-8", &[0x08]),
            ("uint2", "3", &[3]),
            ("complex_bfloat16", "[1.5, \"NaN\"]", &[0xc0, 0x3f, 0xc0, 0x7f]),
            ("complex_float16", "[1.0, -2.0]", &[0, 0x3c, 0, 0xc0]),
        ] {
            assert_eq!(parse(dtype(name), &json(text), Format::V3).unwrap(), bytes, "{name} {text}");
            assert_eq!(write(dtype(name), bytes, Format::V3).unwrap().to_text(None), text, "{name}");
        }
        for (name, text) in [
            ("int4", "8"),
            ("int4", "0.5"),
            ("uint2", "-1"),
            ("float8_e4m3fn", "500"),
            ("float8_e4m3fn", "\"Infinity\""),
            ("float4_e2m1fn", "\"NaN\""),
            ("float8_e5m2", "\"0x123\""),
            ("complex_bfloat16", "[1.0]"),
        ] {
            let error = parse(dtype(name), &json(text), Format::V3).unwrap_err().text();
            assert!(error.starts_with("fill_value: expected "), "{name} {text}: {error}");
        }
    }

    #[test]
    fn forms_that_are_refused() {
        // A type, and forms that its fill value must not have.
        let table = r#"
            |b1 | 2 | "true"
            |i1 | 128 | -129
            |u1 | -1
            <i8 | 9223372036854775808
            <u8 | 18446744073709551616 | 1e400
            <i4 | 0.5 | NaN | true | null | [1] | 340282366920938463463374607431768211456
            <f4 | "0x7fc0" | "0x7ff8000000000000" | "0x+fc00001" | "x" | true
            <c8 | [1.0] | [1.0, 2.0, 3.0] | [1.0, null] | {}
            <M8[s] | "1970-01-01" | 9223372036854775808
            |S2 | "YWJj" | "a" | 3
            |V3 | "YWI=" | [1, 2] | [1, 2, 256] | [1, 2, -1]
            <U1 | "ab" | 1
        "#;
        for line in table.trim().lines() {
            let (name, texts) = line.trim().split_once(" | ").unwrap();
            for (text, format) in texts.split(" | ").flat_map(|text| [(text, Format::V2), (text, Format::V3)])
            {
                let error = parse(dtype(name), &json(text), format).unwrap_err().text();
                assert!(error.starts_with("fill_value: expected "), "{name} {text}: {error}");
            }
        }
        assert!(parse(dtype("<f4"), &json("\"0x7fc00001\""), Format::V2).is_err());
        assert!(write(dtype("<U1"), &0xd800u32.to_le_bytes(), Format::V3).is_err());
        assert!(write(dtype("<U1"), &[0; 3], Format::V3).is_err());
    }

    #[test]
    fn default_values() {
        assert_eq!(default(dtype(">M8[s]")), i64::MIN.to_be_bytes());
        assert_eq!(default(dtype("<m8")), i64::MIN.to_le_bytes());
        assert_eq!(default(dtype("<c16")), [0; 16]);
    }

    const NAMES: &str = "|i1 |u1 <i2 >u2 <i4 >i4 <u8 >i8 <f2 >f2 <f4 >f4 <f8 >f8 <c8 >c8 <c16 >c16 <M8[ns] >m8[10us] |V5 |V16";

    proptest! {
        #[test]
        fn any_bits_round_trip_in_v3(name in proptest::sample::select(NAMES.split(' ').collect::<Vec<_>>()), bits in any::<[u8; 16]>(), nan in any::<bool>()) {
            let dtype = dtype(name);
            let mut bits = bits[..dtype.size()].to_vec();
            if nan && matches!(dtype.kind(), Kind::Float | Kind::Complex) {
                for part in bits.chunks_mut(dtype.number_size()) {
                    // All exponent bits set: infinity, or a NaN with some sign and payload.
                    let high = if dtype.order() == ByteOrder::Big { [0, 1] } else { [part.len() - 1, part.len() - 2] };
                    part[high[0]] |= 0x7f;
                    part[high[1]] |= 0xf0;
                }
            }
            let written = write(dtype, &bits, Format::V3).unwrap();
            let reparsed = Json::parse(written.to_text(None).as_bytes()).unwrap();
            prop_assert_eq!(parse(dtype, &reparsed, Format::V3).unwrap(), bits.clone());
            let has_nan = matches!(dtype.kind(), Kind::Float | Kind::Complex) && written.to_text(None).contains("0x");
            if !has_nan {
                prop_assert_eq!(write(dtype, &bits, Format::V2).unwrap(), written.clone());
                prop_assert_eq!(parse(dtype, &written, Format::V2).unwrap(), bits);
            }
        }

        #[test]
        fn texts_round_trip(text in "[^\0]{0,6}", big in any::<bool>()) {
            let dtype = dtype(if big { ">U6" } else { "<U6" });
            let bytes = parse(dtype, &Json::String(text.clone()), Format::V2).unwrap();
            prop_assert_eq!(write(dtype, &bytes, Format::V3).unwrap(), Json::String(text));
        }
    }
}
