//! Names of element types in metadata.
//!
//! [`crate::vlen`] knows the names of elements of variable length.
//!
//! v3: the core names (`int8` … `complex128`, `r<bits>`), the extensions that zarr-python writes
//! (`numpy.datetime64`, `numpy.timedelta64`, `fixed_length_utf32`, `null_terminated_bytes`,
//! `raw_bytes`), and the names of [`hyperslab_codec::SMALL`]
//! (<https://github.com/zarr-developers/zarr-extensions/tree/main/data-types>). v2: NumPy's type
//! strings.

use crate::error::{Problem, invalid, unexpected_value, unsupported};
use crate::format::extension::Extension;
use crate::json::Json;
use hyperslab_codec::{ByteOrder, DataType, Kind, SMALL, TimeUnit};

/// The largest element, in bytes. One element is kept in memory as the fill value: metadata of a
/// few bytes must not allocate gigabytes.
pub const MAX_ELEMENT: usize = 16 << 20;

/// The v3 names of types without a configuration. A new type is a line here.
const PLAIN: [(&str, Kind, usize); 14] = [
    ("bool", Kind::Bool, 1),
    ("int8", Kind::Int, 1),
    ("int16", Kind::Int, 2),
    ("int32", Kind::Int, 4),
    ("int64", Kind::Int, 8),
    ("uint8", Kind::UInt, 1),
    ("uint16", Kind::UInt, 2),
    ("uint32", Kind::UInt, 4),
    ("uint64", Kind::UInt, 8),
    ("float16", Kind::Float, 2),
    ("float32", Kind::Float, 4),
    ("float64", Kind::Float, 8),
    ("complex64", Kind::Complex, 8),
    ("complex128", Kind::Complex, 16),
];

/// The other v3 names, for messages.
const OTHERS: &str = "r<bits>, numpy.datetime64, numpy.timedelta64, fixed_length_utf32, null_terminated_bytes, raw_bytes, string, variable_length_bytes";

/// The element type of a v3 `data_type`. In memory it has the machine's byte order: in v3 the
/// codecs decide the stored order.
pub(crate) fn from_v3(json: &Json) -> Result<DataType, Problem> {
    let extension = Extension::parse("data_type", json)?;
    let name = extension.name;
    if SMALL.iter().any(|small| small.name == name) {
        extension.allow_only(&[])?;
        return name.parse().map_err(Problem::Invalid);
    }
    let plain = PLAIN.iter().find(|(plain, ..)| *plain == name);
    let (kind, size) = match (plain, name) {
        (Some((_, kind, size)), _) => {
            extension.allow_only(&[])?;
            (*kind, *size)
        }
        (_, "numpy.datetime64" | "numpy.timedelta64") => {
            let unit = time_unit(&extension)?;
            (if name == "numpy.datetime64" { Kind::DateTime(unit) } else { Kind::TimeDelta(unit) }, 8)
        }
        (_, "fixed_length_utf32") => (Kind::Text, length(&extension)?),
        (_, "null_terminated_bytes") => (Kind::Bytes, length(&extension)?),
        (_, "raw_bytes") => (Kind::Raw, length(&extension)?),
        _ => match name
            .strip_prefix('r')
            .filter(|bits| !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()))
        {
            Some(bits) => match bits.parse::<usize>() {
                Ok(bits) if bits > 0 && bits % 8 == 0 => {
                    extension.allow_only(&[])?;
                    (Kind::Raw, bits / 8)
                }
                _ => return invalid!("data_type: expected raw bits in a multiple of 8, found \"{name}\""),
            },
            None => {
                let (plain, small) =
                    (PLAIN.map(|plain| plain.0).join(", "), SMALL.map(|small| small.name).join(", "));
                return unsupported!(
                    "data type \"{name}\" is not supported (supported: {plain}, {OTHERS}, {small})"
                );
            }
        },
    };
    DataType::new(kind, size, ByteOrder::NATIVE)
        .ok_or_else(|| Problem::Invalid(format!("data_type: {name} of {size} bytes is not an element type")))
        .and_then(|dtype| check_size("data_type", dtype))
}

fn time_unit(extension: &Extension<'_>) -> Result<TimeUnit, Problem> {
    extension.allow_only(&["unit", "scale_factor"])?;
    let unit = match extension.require("unit")? {
        // Two Unicode letters for "micro" are in use.
        Json::String(unit) if unit == "μs" || unit == "µs" => "us",
        Json::String(unit) => unit,
        other => return invalid!("data_type: unit: expected text, found {}", other.brief()),
    };
    let scale = extension.require("scale_factor")?;
    scale.as_integer().and_then(|scale| TimeUnit::new(unit, scale)).ok_or_else(|| {
        Problem::Invalid(format!(
            "data_type: expected one of the units {} and a scale_factor from 1 to 2147483647, found {} and {}",
            TimeUnit::NAMES.join(", "),
            Json::from(unit).brief(),
            scale.brief()
        ))
    })
}

fn length(extension: &Extension<'_>) -> Result<usize, Problem> {
    extension.allow_only(&["length_bytes"])?;
    let length = extension.require("length_bytes")?;
    match length.as_integer::<usize>() {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => invalid!("data_type: length_bytes: expected a positive integer, found {}", length.brief()),
    }
}

/// The v3 `data_type` of a type.
pub(crate) fn to_v3(dtype: DataType) -> Json {
    let length = |name: &str| Json::named(name, [("length_bytes", dtype.size().into())]);
    let time = |name: &str, unit: TimeUnit| {
        Json::named(name, [("unit", unit.unit.into()), ("scale_factor", unit.scale.into())])
    };
    match dtype.kind() {
        kind @ (Kind::Bool | Kind::Int | Kind::UInt | Kind::Float | Kind::Complex) => {
            let plain = PLAIN.iter().find(|(_, plain, size)| (*plain, *size) == (kind, dtype.size()));
            plain.map_or_else(|| Json::String(dtype.to_string()), |(name, ..)| (*name).into())
        }
        Kind::Bytes => length("null_terminated_bytes"),
        Kind::Text => length("fixed_length_utf32"),
        Kind::Raw => length("raw_bytes"),
        Kind::DateTime(unit) => time("numpy.datetime64", unit),
        Kind::TimeDelta(unit) => time("numpy.timedelta64", unit),
        Kind::Small(small) => small.name.into(),
    }
}

/// The element type of a v2 `dtype`. In memory it has the stored byte order, as in zarr-python.
pub(crate) fn from_v2(json: &Json) -> Result<DataType, Problem> {
    let name = match json {
        Json::String(name) => name,
        Json::Array(_) => {
            return unsupported!("structured data type {} is not supported here", json.brief());
        }
        other => return unexpected_value("dtype", "NumPy's type string", other),
    };
    if SMALL.iter().any(|small| small.name == name) {
        return unsupported!("data type \"{name}\" does not exist in Zarr v2; use Zarr v3");
    }
    let mut chars = name.chars();
    let (order, code) = (chars.next(), chars.next());
    if name == "|O" || name == "O" {
        return Err(Problem::Unsupported("object data type \"|O\" is not supported here".into()));
    }
    let dtype = name.parse::<DataType>().map_err(|why| match (order, code) {
        (Some('<' | '>' | '|'), Some('O' | 't' | 'a' | 'c' | 'f' | 'i' | 'u')) => {
            Problem::Unsupported(format!("data type \"{name}\" is not supported"))
        }
        _ => Problem::Invalid(format!("dtype: {why}")),
    })?;
    let explicit = if dtype.has_order() { "<>" } else { "<>|" };
    if !order.is_some_and(|order| explicit.contains(order)) {
        return invalid!("dtype: expected a byte order ('<' or '>') in front, found \"{name}\"");
    }
    check_size("dtype", dtype)
}

/// Refuses elements without bytes, and absurdly large ones.
pub(crate) fn check_size(field: &str, dtype: DataType) -> Result<DataType, Problem> {
    match dtype.size() {
        0 => invalid!("{field}: expected elements of at least 1 byte, found \"{dtype}\""),
        1..=MAX_ELEMENT => Ok(dtype),
        size => unsupported!("{field}: elements of {size} bytes are not supported (at most {MAX_ELEMENT})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cases, json};

    #[test]
    fn v3_names_round_trip() {
        for [text, numpy] in cases(
            r#"
            "bool" | |b1
            "int8" | |i1
            "uint64" | <u8
            "float16" | <f2
            "complex64" | <c8
            "complex128" | <c16
            {"name": "numpy.datetime64", "configuration": {"unit": "us", "scale_factor": 10}} | <M8[10us]
            {"name": "numpy.timedelta64", "configuration": {"unit": "generic", "scale_factor": 1}} | <m8
            {"name": "fixed_length_utf32", "configuration": {"length_bytes": 12}} | <U3
            {"name": "null_terminated_bytes", "configuration": {"length_bytes": 5}} | |S5
            {"name": "raw_bytes", "configuration": {"length_bytes": 7}} | |V7
        "#,
        ) {
            let dtype = from_v3(&json(text)).unwrap();
            assert_eq!(dtype, numpy.parse::<DataType>().unwrap().with_order(ByteOrder::NATIVE));
            assert_eq!(to_v3(dtype).to_text(None), text);
        }
        assert_eq!(from_v3(&json(r#"{"name": "int16"}"#)).unwrap().size(), 2);
        assert_eq!(from_v3(&json(r#""r24""#)).unwrap().to_string(), "|V3");
        let micro = r#"{"name": "numpy.datetime64", "configuration": {"unit": "μs", "scale_factor": 1}}"#;
        assert_eq!(to_v3(from_v3(&json(micro)).unwrap()).to_text(None), micro.replace('μ', "u"));
    }

    #[test]
    fn v3_refusals() {
        for [text, want] in cases(
            r#"
            "float128" | data type "float128" is not supported
            {"name": "struct", "configuration": {"fields": []}} | data type "struct" is not supported
            "r7" | raw bits in a multiple of 8
            "r0" | raw bits in a multiple of 8
            "r99999999999999999999999" | raw bits in a multiple of 8
            "r34359738368" | not an element type
            "r134217736" | elements of 16777217 bytes are not supported
            {"name": "int8", "configuration": {"x": 1}} | "x"
            {"name": "fixed_length_utf32", "configuration": {"length_bytes": 13}} | not an element type
            {"name": "fixed_length_utf32", "configuration": {"length_bytes": -4}} | positive integer, found -4
            {"name": "raw_bytes", "configuration": {"length_bytes": 0}} | positive integer, found 0
            "raw_bytes" | length_bytes
            {"name": "numpy.datetime64", "configuration": {"unit": "week", "scale_factor": 1}} | expected one of the units
            {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 0}} | found "s" and 0
            {"name": "numpy.datetime64", "configuration": {"unit": 3, "scale_factor": 0}} | found 3
            3 | data_type
            {} | name
        "#,
        ) {
            let text_of = from_v3(&json(text)).unwrap_err().text();
            assert!(text_of.contains(want), "{text}: {text_of}");
        }
    }

    #[test]
    fn v2_names() {
        for name in "|b1 |i1 >i2 <u8 <f2 >f8 >c16 |S5 <U3 >U3 |V7 <M8[ns] >m8[10us]".split(' ') {
            assert_eq!(from_v2(&name.into()).unwrap().numpy(), name);
        }
        for [text, want] in cases(
            r#"
            "|O" | object data type
            [["a", "<i4"]] | structured data type
            "<f16" | data type "<f16" is not supported
            "f4" | byte order
            "|f4" | byte order
            "=f4" | byte order
            "|S0" | elements of at least 1 byte
            "|V2147483647" | elements of 2147483647 bytes are not supported
            "" | dtype
            "<M8[parsec]" | dtype
            null | found null
            4 | found 4
        "#,
        ) {
            let text_of = from_v2(&json(text)).unwrap_err().text();
            assert!(text_of.contains(want), "{text}: {text_of}");
        }
    }
}
