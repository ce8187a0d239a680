//! The value that marks missing elements, and its representation in attributes.

use crate::{Array, Json, zarr};
use hyperslab_codec::{ByteOrder, DataType, Kind, VlenKind};

/// The value of `_FillValue`.
#[derive(Clone, Debug, PartialEq)]
pub enum MissingValue {
    /// No element is missing.
    None,
    /// The bytes of one element in memory; for text of any length, in UTF-8.
    Value(Vec<u8>),
    /// A value that is not of the element type, as in the attribute.
    Other(Json),
}

impl MissingValue {
    /// Reads the attribute of a file or of Zarr v2: a number, text, or a list of one of these.
    pub(crate) fn of_json(array: &Array, json: &Json) -> MissingValue {
        let one = match json.as_array() {
            Some([one]) if !matches!(array.dtype().kind(), Kind::Complex) => one,
            _ => json,
        };
        element(array, one).map_or_else(|| MissingValue::Other(json.clone()), MissingValue::Value)
    }

    /// Reads the attribute of Zarr v3 as xarray writes it.
    /// Floats are base 64 of a little-endian 64-bit float. A plain number is itself.
    pub(crate) fn of_v3(array: &Array, json: &Json) -> MissingValue {
        let (dtype, vlen) = (array.dtype(), array.vlen());
        let decoded = match (dtype.kind(), json) {
            _ if vlen.is_some() => None,
            (Kind::Float, Json::String(text)) => double(text).and_then(|value| {
                let json = Json::float(value);
                zarr::fill_from_json(dtype, &json)
            }),
            (Kind::Complex, Json::Array(parts)) => {
                let part = |json: &Json| json.as_str().and_then(double).map(Json::float);
                let parts: Option<Vec<Json>> = parts.iter().map(part).collect();
                parts.and_then(|parts| zarr::fill_from_json(dtype, &Json::Array(parts)))
            }
            (Kind::Bytes, Json::String(text)) => {
                zarr::from_base64(text).and_then(|bytes| pad_to_element(dtype, bytes))
            }
            _ => None,
        };
        decoded.map_or_else(|| Self::of_json(array, json), MissingValue::Value)
    }

    /// Makes the attribute of Zarr v3.
    /// `None`: left out, because xarray refuses arrays of this type that have the attribute.
    pub(crate) fn to_v3(&self, array: &Array) -> Option<Json> {
        let (dtype, bytes) = match self {
            MissingValue::None => return None,
            MissingValue::Other(json) => {
                let is_integer = matches!(array.dtype().kind(), Kind::Int | Kind::UInt);
                return (is_integer && is_whole(json)).then(|| json.clone());
            }
            MissingValue::Value(bytes) => (array.dtype(), bytes),
        };
        if array.vlen().is_some() {
            return None;
        }
        let json = || zarr::fill_to_json(dtype, bytes);
        match dtype.kind() {
            Kind::Bool | Kind::Int | Kind::UInt => json(),
            Kind::Float => Some(encode_base64(value(dtype, bytes)?)),
            Kind::Complex => {
                let half = dtype.number_size();
                let part = DataType::new(Kind::Float, half, dtype.order())?;
                let parts = bytes.chunks_exact(half).map(|bytes| value(part, bytes).map(encode_base64));
                Some(Json::Array(parts.collect::<Option<_>>()?))
            }
            _ => None,
        }
    }

    /// The value as text, if elements are text of any length or UTF-32.
    pub(crate) fn text(&self, array: &Array) -> Option<String> {
        let MissingValue::Value(bytes) = self else { return None };
        match (array.vlen(), array.dtype().kind()) {
            (Some(VlenKind::Text), _) => String::from_utf8(bytes.clone()).ok(),
            (None, Kind::Text) => zarr::fill_to_json(array.dtype(), bytes)?.as_str().map(str::to_owned),
            _ => None,
        }
    }

    /// The value in words. All NaNs look the same.
    pub(crate) fn describe(&self, array: &Array) -> String {
        let dtype = array.dtype();
        match self {
            MissingValue::None => "none".into(),
            MissingValue::Other(json) => json.to_text(None),
            MissingValue::Value(bytes) if array.vlen().is_some() => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            MissingValue::Value(bytes) => match value(dtype, bytes) {
                Some(number) if dtype.kind() == Kind::Float => number.to_string(),
                _ => zarr::fill_to_json(dtype, bytes).map_or_else(String::new, |json| json.to_text(None)),
            },
        }
    }

    /// The attribute's value, if it is not of the element type.
    pub(crate) fn other(&self) -> Option<&Json> {
        match self {
            MissingValue::Other(json) => Some(json),
            _ => None,
        }
    }
}

/// Converts a value to an element of the array.
fn element(array: &Array, json: &Json) -> Option<Vec<u8>> {
    match array.vlen() {
        Some(VlenKind::Text) => return json.as_str().map(|text| text.as_bytes().to_vec()),
        Some(_) => return None,
        None => {}
    }
    let dtype = array.dtype();
    match (dtype.kind(), json) {
        _ if is_structure(array) => None,
        (Kind::Bytes, Json::String(text)) => pad_to_element(dtype, text.as_bytes().to_vec()),
        (Kind::Bytes, Json::Array(list)) => {
            let bytes: Option<Vec<u8>> = list.iter().map(Json::as_integer).collect();
            pad_to_element(dtype, bytes?)
        }
        (Kind::Bytes, _) => None,
        _ => zarr::fill_from_json(dtype, json),
    }
}

/// Returns `true` if a value is a whole number.
/// xarray converts the fill value of an integer array to an integer. It refuses the array if that
/// fails, and truncates fractions, which changes the value.
fn is_whole(json: &Json) -> bool {
    let Json::Number(text) = json else { return false };
    text.parse::<f64>().is_ok_and(|number| number.is_finite() && number.fract() == 0.0)
}

fn is_structure(array: &Array) -> bool {
    array.structure().is_some() || matches!(array.dtype().kind(), Kind::Raw)
}

/// Pads bytes to one element; `None`: there are too many bytes.
fn pad_to_element(dtype: DataType, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    if bytes.len() > dtype.size() {
        return None;
    }
    bytes.resize(dtype.size(), 0);
    Some(bytes)
}

/// Reads one element as a float.
fn value(dtype: DataType, bytes: &[u8]) -> Option<f64> {
    let swaps = dtype.order() == ByteOrder::Big;
    let mut little = bytes.to_vec();
    if swaps {
        little.reverse();
    }
    Some(match *little.as_slice() {
        [a, b] => half::f16::from_le_bytes([a, b]).to_f64(),
        [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).into(),
        _ => f64::from_le_bytes(little.try_into().ok()?),
    })
}

fn encode_base64(value: f64) -> Json {
    zarr::base64(&value.to_le_bytes()).as_str().into()
}

fn double(text: &str) -> Option<f64> {
    let bytes = zarr::from_base64(text)?;
    Some(f64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab_store::MemoryStore;
    use hyperslab_zarr::{ArraySpec, Format};
    use std::sync::Arc;

    fn array(dtype: &str) -> Array {
        let spec = match dtype {
            "text" => ArraySpec::of_vlen(Format::V3, &[2], VlenKind::Text),
            _ => ArraySpec::new(Format::V2, &[2], dtype.parse().unwrap()),
        };
        zarr::Array::create(Arc::new(MemoryStore::new()), "a", spec, false).unwrap().into()
    }

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn attributes_of_zarr_v3_are_those_of_xarray() {
        // Expected results come from `xarray.backends.zarr.FillValueCoder.encode`.
        for (dtype, said, written) in [
            ("<f8", "-9999.0", r#""AAAAAICHw8A=""#),
            ("<f4", "0.10000000149011612", r#""AAAAoJmZuT8=""#),
            (">f4", "NaN", r#""AAAAAAAA+H8=""#),
            ("<f2", "2.5", r#""AAAAAAAABEA=""#),
            (">i2", "-32767", "-32767"),
            ("|u1", "[255]", "255"),
            ("|b1", "true", "true"),
            ("<c16", "[1.0, -2.0]", r#"["AAAAAAAA8D8=", "AAAAAAAAAMA="]"#),
        ] {
            let array = array(dtype);
            let missing = MissingValue::of_json(&array, &json(said));
            assert!(matches!(missing, MissingValue::Value(_)), "{dtype} {missing:?}");
            let found = missing.to_v3(&array).unwrap();
            assert_eq!(found.to_text(None), written, "{dtype}");
            assert_eq!(
                MissingValue::of_v3(&array, &found).describe(&array),
                missing.describe(&array),
                "{dtype}"
            );
        }
        // xarray cannot read these values back.
        let text = array("text");
        let missing = MissingValue::of_json(&text, &json(r#""none""#));
        assert_eq!((&missing, missing.to_v3(&text)), (&MissingValue::Value(b"none".to_vec()), None));
        let text = array("|S3");
        let missing = MissingValue::of_json(&text, &json(r#""ab""#));
        assert_eq!((&missing, missing.to_v3(&text)), (&MissingValue::Value(b"ab\0".to_vec()), None));
    }

    #[test]
    fn values_of_other_types_stay_what_they_are() {
        for (dtype, said) in [("|u1", "300"), ("<i2", "0.5"), ("<f4", r#""none""#), ("|S1", r#""ab""#)] {
            let array = array(dtype);
            let missing = MissingValue::of_json(&array, &json(said));
            assert_eq!(missing.other(), Some(&json(said)), "{dtype}");
            // Integer arrays may have any whole number.
            assert_eq!(missing.to_v3(&array), missing.other().cloned().filter(|_| said == "300"));
        }
        let shorts = array("<i2");
        for (said, is_kept) in
            [("NaN", false), ("Infinity", false), ("-Infinity", false), ("1.5", false), ("-9e9", true)]
        {
            let missing = MissingValue::of_json(&shorts, &json(said));
            assert_eq!(missing.to_v3(&shorts).is_some(), is_kept, "{said}");
        }
        // A number in place of base 64, as earlier versions of this package wrote it.
        let array = array("<f8");
        assert_eq!(MissingValue::of_v3(&array, &json("-9.0")).describe(&array), "-9");
    }
}
