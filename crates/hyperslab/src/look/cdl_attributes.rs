//! Attributes of all formats as CDL, with their types.

use super::cdl_words::{attribute_float, name, quoted, quoted_lines, suffix};
use crate::meaning::{Decoding, Number};
use crate::nodes::element::swap_bytes;
use crate::{Array, ByteOrder, DataType, Group, Json, Kind, Result};
use hyperslab_hdf5 as hdf5;
use hyperslab_hdf5::element::ElementKind;
use hyperslab_hdf5::value::Value;
use hyperslab_netcdf as netcdf;

/// An attribute.
pub(super) struct CdlAttribute {
    pub(super) name: String,
    /// `string `, or empty.
    prefix: &'static str,
    value: EntryValue,
}

enum EntryValue {
    /// Characters.
    Text(String),
    /// Values as they are written.
    Words(Vec<String>),
}

impl CdlAttribute {
    /// The line of the attribute. `owner`: the variable; empty for a group. `indent`: of the group.
    pub(super) fn line(&self, owner: &str, indent: &str, is_classic: bool) -> String {
        let value = match &self.value {
            EntryValue::Text(text) if is_classic => quoted_lines(text, indent),
            EntryValue::Text(text) => quoted(text),
            EntryValue::Words(words) => words.join(", "),
        };
        format!("{indent}\t\t{}{owner}:{} = {value} ;", self.prefix, name(&self.name))
    }

    fn numbers(name: &str, bytes: &[u8], dtype: DataType) -> CdlAttribute {
        let mut bytes = bytes.to_vec();
        if dtype.order() != ByteOrder::NATIVE {
            swap_bytes(&mut bytes, dtype.number_size());
        }
        let numbers = Decoding::stored(dtype).numbers(&bytes);
        let word = |at| match numbers.get(at) {
            Number::Int(int) => format!("{int}{}", suffix(dtype)),
            Number::Float(float) => attribute_float(float, dtype.size()),
            Number::Missing => attribute_float(f64::NAN, dtype.size()),
        };
        let words = (0..numbers.len()).map(word).collect();
        CdlAttribute { name: name.into(), prefix: "", value: EntryValue::Words(words) }
    }

    fn text(name: &str, text: &str) -> CdlAttribute {
        CdlAttribute { name: name.into(), prefix: "", value: EntryValue::Text(text.into()) }
    }

    fn strings(name: &str, texts: &[String]) -> CdlAttribute {
        let words = texts.iter().map(|text| quoted(text)).collect();
        CdlAttribute { name: name.into(), prefix: "string ", value: EntryValue::Words(words) }
    }

    /// JSON has one type of numbers: whole numbers become `int` or `int64`, others `double`.
    pub(super) fn of_json(name: &str, json: &Json) -> CdlAttribute {
        let all = json.as_array().unwrap_or(std::slice::from_ref(json));
        let ints: Option<Vec<i64>> = all.iter().map(Json::as_integer).collect();
        if let Some(ints) = ints.filter(|ints| !ints.is_empty()) {
            let is_small = ints.iter().all(|int| i32::try_from(*int).is_ok());
            let words = ints.iter().map(|int| format!("{int}{}", if is_small { "" } else { "LL" }));
            return CdlAttribute { name: name.into(), prefix: "", value: EntryValue::Words(words.collect()) };
        }
        let float = |json: &Json| match json {
            Json::Number(text) => text.parse::<f64>().ok(),
            _ => None,
        };
        if let Some(floats) =
            all.iter().map(float).collect::<Option<Vec<f64>>>().filter(|all| !all.is_empty())
        {
            let words = floats.iter().map(|value| attribute_float(*value, 8)).collect();
            return CdlAttribute { name: name.into(), prefix: "", value: EntryValue::Words(words) };
        }
        let texts: Option<Vec<String>> = all.iter().map(|one| one.as_str().map(str::to_owned)).collect();
        match (json, texts) {
            (Json::String(text), _) => CdlAttribute::text(name, text),
            (Json::Array(_), Some(texts)) if !texts.is_empty() => CdlAttribute::strings(name, &texts),
            (other, _) => CdlAttribute::text(name, &other.to_text(None)),
        }
    }

    fn of_hdf5(attribute: &hdf5::Attribute) -> Result<CdlAttribute> {
        let name = attribute.name.as_str();
        let Ok(element) = attribute.element() else {
            return Ok(CdlAttribute::text(name, "(its type cannot be read)"));
        };
        match &element.kind {
            ElementKind::Plain(dtype) if is_number(*dtype) => {
                Ok(CdlAttribute::numbers(name, &attribute.values()?, *dtype))
            }
            ElementKind::Enum { base, .. } => Ok(CdlAttribute::numbers(name, &attribute.values()?, *base)),
            kind => {
                let value = attribute.value()?;
                let is_vlen = matches!(kind, ElementKind::VlenString { .. });
                let list = match value {
                    Value::List(list) => list,
                    Value::Null => Vec::new(),
                    one => vec![one],
                };
                let text = |value: &Value| match value {
                    Value::Text(text) => text.clone(),
                    Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    other => crate::formats::hdf5_json::value(other.clone()).to_text(None),
                };
                let texts: Vec<String> = list.iter().map(text).collect();
                Ok(match texts.as_slice() {
                    texts if is_vlen && !texts.is_empty() => CdlAttribute::strings(name, texts),
                    [] => CdlAttribute::text(name, ""),
                    [one] => CdlAttribute::text(name, one),
                    texts => CdlAttribute::strings(name, texts),
                })
            }
        }
    }

    fn of_classic(attribute: &netcdf::Attribute) -> CdlAttribute {
        match attribute.text() {
            Some(text) => CdlAttribute::text(&attribute.name, text.trim_end_matches('\0')),
            None => CdlAttribute::numbers(
                &attribute.name,
                &attribute.bytes,
                attribute.external.dtype().with_order(ByteOrder::Big),
            ),
        }
    }
}

fn is_number(dtype: DataType) -> bool {
    matches!(dtype.kind(), Kind::Int | Kind::UInt | Kind::Float)
}

/// The attributes of a group.
pub(super) fn of_group(group: &Group, is_user: &dyn Fn(&str) -> bool) -> Result<Vec<CdlAttribute>> {
    if let Some(found) = group.as_hdf5() {
        let all = found.attributes()?;
        return all.iter().filter(|one| is_user(&one.name)).map(CdlAttribute::of_hdf5).collect();
    }
    if let Some(file) = group.as_netcdf3() {
        return Ok(file.attributes().iter().map(CdlAttribute::of_classic).collect());
    }
    let mut attributes = group.attributes()?.into_owned();
    if let Json::Object(members) = &mut attributes {
        // NCZarr keeps its own description of the group here.
        members.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("_nc"));
    }
    Ok(of_members(&attributes))
}

/// The attributes of an array.
pub(super) fn of_array(
    array: &Array,
    shown: &Json,
    is_user: &dyn Fn(&str) -> bool,
) -> Result<Vec<CdlAttribute>> {
    if let Some(found) = array.as_hdf5() {
        let all = found.attributes()?;
        return all.iter().filter(|one| is_user(&one.name)).map(CdlAttribute::of_hdf5).collect();
    }
    if let Some(variable) = array.as_netcdf3() {
        return Ok(variable.attributes().iter().map(CdlAttribute::of_classic).collect());
    }
    Ok(of_members(shown))
}

/// The value of missing elements as an attribute, for formats that keep it elsewhere.
pub(super) fn of_fill(array: &Array, bytes: &[u8]) -> Option<CdlAttribute> {
    is_number(array.dtype()).then(|| CdlAttribute::numbers("_FillValue", bytes, array.dtype()))
}

fn of_members(json: &Json) -> Vec<CdlAttribute> {
    let members = json.as_object().unwrap_or_default();
    members.iter().map(|(name, value)| CdlAttribute::of_json(name, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_attributes() {
        let line = |name: &str, text: &str| {
            CdlAttribute::of_json(name, &Json::parse(text.as_bytes()).unwrap()).line("sst", "", false)
        };
        assert_eq!(line("units", "\"K\""), "\t\tsst:units = \"K\" ;");
        assert_eq!(line("valid range", "[1, 2]"), "\t\tsst:valid\\ range = 1, 2 ;");
        assert_eq!(line("n", "5000000000"), "\t\tsst:n = 5000000000LL ;");
        assert_eq!(line("x", "[1, 2.5]"), "\t\tsst:x = 1., 2.5 ;");
        assert_eq!(line("s", "[\"a\", \"b\"]"), "\t\tstring sst:s = \"a\", \"b\" ;");
        assert_eq!(line("o", "{\"a\": [1]}"), "\t\tsst:o = \"{\\\"a\\\": [1]}\" ;");
        let shorts = CdlAttribute::numbers("f", &[0xff, 0xfe, 0, 1], ">i2".parse().unwrap());
        assert_eq!(shorts.line("", "  ", true), "  \t\t:f = -2s, 1s ;");
    }
}
