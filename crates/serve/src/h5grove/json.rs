//! Values as orjson writes them: `null` for numbers that JSON does not have, lists for structures and
//! complex numbers.

use hyperslab::hdf5::Value;
use hyperslab::hdf5::element::{Element, ElementKind};
use hyperslab::look::Cell;
use hyperslab::{Json, Kind};

/// Returns `true` for floats of at most 32 bits. They are written with the fewest digits that tell
/// them from other floats of that size.
pub(super) fn is_short(element: &Element) -> bool {
    matches!(&element.kind, ElementKind::Plain(dtype) if dtype.kind() == Kind::Float && dtype.size() <= 4)
}

/// A float. `short`: it has 32 bits.
pub(super) fn float(value: f64, short: bool) -> Json {
    match value.is_finite() {
        false => Json::Null,
        true if short => Json::Number(format!("{:?}", value as f32).into()),
        true => Json::float(value),
    }
}

/// A value of HDF5. `short`: its floats have 32 bits.
pub(super) fn of_value(value: Value, short: bool) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(on) => on.into(),
        Value::Int(int) => int.into(),
        Value::Float(value) => float(value, short),
        Value::Text(text) => text.as_str().into(),
        Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).as_ref().into(),
        Value::List(list) => Json::Array(list.into_iter().map(|one| of_value(one, short)).collect()),
        Value::Record(fields) => {
            Json::Array(fields.into_iter().map(|(_, value)| of_value(value, false)).collect())
        }
        Value::Complex(real, imaginary) => Json::Array(vec![float(real, false), float(imaginary, false)]),
    }
}

/// A value of any format.
pub(super) fn of_cell(cell: &Cell) -> Json {
    match cell {
        Cell::Missing => Json::Null,
        Cell::Bool(on) => (*on).into(),
        Cell::Int(int) => (*int).into(),
        Cell::Float(value) => float(*value, false),
        Cell::Complex(real, imaginary) => Json::Array(vec![float(*real, false), float(*imaginary, false)]),
        Cell::Time(text) | Cell::Text(text) => text.as_str().into(),
        Cell::Other(text) => match Json::parse(text.as_bytes()) {
            Ok(json) => listed(finite(json)),
            Err(_) => text.as_str().into(),
        },
    }
}

/// Replaces numbers that JSON does not have by `null`.
pub(super) fn finite(json: Json) -> Json {
    match json {
        Json::Number(text) if matches!(&*text, "NaN" | "Infinity" | "-Infinity") => Json::Null,
        Json::Array(list) => Json::Array(list.into_iter().map(finite).collect()),
        Json::Object(members) => {
            Json::Object(members.into_iter().map(|(name, value)| (name, finite(value))).collect())
        }
        other => other,
    }
}

/// Structures as lists of their fields.
fn listed(json: Json) -> Json {
    match json {
        Json::Array(list) => Json::Array(list.into_iter().map(listed).collect()),
        Json::Object(members) => Json::Array(members.into_iter().map(|(_, value)| listed(value)).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_orjson_writes_them() {
        let text = |json: Json| json.to_text(None);
        assert_eq!(text(float(f64::from(0.1_f32), true)), "0.1");
        assert_eq!(text(float(f64::from(0.1_f32), false)), "0.10000000149011612");
        assert_eq!(text(float(f64::NEG_INFINITY, false)), "null");
        let record =
            Value::Record(vec![("a".into(), Value::Int(1)), ("b".into(), Value::Complex(0.5, f64::NAN))]);
        assert_eq!(text(of_value(record, true)), "[1, [0.5, null]]");
        assert_eq!(text(of_value(Value::Bytes(b"a\xff".to_vec()), false)), r#""a\ufffd""#);
        assert_eq!(text(of_cell(&Cell::Other(r#"{"a": NaN, "b": [1, 2]}"#.into()))), "[null, [1, 2]]");
    }
}
