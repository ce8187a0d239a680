//! Attributes of a classic file: text, and lists of numbers of one type.
//!
//! | JSON | in the file |
//! |---|---|
//! | text | char, in UTF-8 |
//! | numbers | the type that they have in the source, if the file has it; otherwise int, int64 or double |
//! | `valid_range`, `missing_value` and the like | the type of the variable, as CF asks |
//! | true, false | byte |
//! | lists of text, lists in lists, objects | JSON text |
//! | null | left out |

use crate::netcdf::{Attribute, External, Version};
use crate::{Array, Group, Json, Result};
use hyperslab_codec::Kind;
use hyperslab_hdf5::element::ElementKind;
use std::collections::HashMap;

const AS_TEXT: &str = "attributes stored as JSON text, because NetCDF classic files have no such values";
const NULL: &str = "attributes left out, which are null: NetCDF classic files have no such value";
const AS_DOUBLE: &str =
    "integers in attributes became floats of 64 bits, because NetCDF classic files have none so large";

/// Attributes that have the type of their variable.
const OF_VARIABLE: [&str; 9] = [
    "_FillValue",
    "missing_value",
    "valid_min",
    "valid_max",
    "valid_range",
    "actual_range",
    "flag_values",
    "flag_masks",
    "flag_value",
];

/// The attributes of a node in a source that has types for them.
#[derive(Debug, Default)]
pub(super) struct Typed {
    /// The types of numbers.
    numbers: HashMap<String, External>,
    /// Attributes of a classic file, which stay as they are.
    classic: Vec<Attribute>,
}

impl Typed {
    pub(super) fn of_array(array: &Array) -> Result<Typed> {
        if let Some(variable) = array.as_netcdf3() {
            return Ok(Typed { classic: variable.attributes().to_vec(), ..Typed::default() });
        }
        array.as_hdf5().map_or_else(|| Ok(Typed::default()), |dataset| Self::of_hdf5(&dataset.attributes()?))
    }

    pub(super) fn of_group(group: &Group) -> Result<Typed> {
        if let Some(file) = group.as_netcdf3() {
            return Ok(Typed { classic: file.attributes().to_vec(), ..Typed::default() });
        }
        group.as_hdf5().map_or_else(|| Ok(Typed::default()), |group| Self::of_hdf5(&group.attributes()?))
    }

    /// The place of an attribute of a classic file.
    pub(super) fn place(&self, name: &str) -> usize {
        self.classic.iter().position(|own| own.name == name).unwrap_or(0)
    }

    fn of_hdf5(attributes: &[hyperslab_hdf5::Attribute]) -> Result<Typed> {
        let mut typed = Typed::default();
        for attribute in attributes {
            // Types that cannot be read have no numbers.
            let Ok(element) = attribute.element() else { continue };
            let ElementKind::Plain(dtype) = element.kind else { continue };
            let external = match (dtype.kind(), dtype.size()) {
                (Kind::Float, 2) => Some(External::Float),
                _ => External::of_elements(dtype),
            };
            if let Some(external) = external {
                typed.numbers.insert(attribute.name.clone(), external);
            }
        }
        Ok(typed)
    }
}

/// An attribute from JSON, and a note if it has another value for some programs. `element`: the type of
/// its variable.
pub(super) fn of_json(
    name: &str,
    json: &Json,
    typed: &Typed,
    element: Option<External>,
    version: Version,
) -> Result<(Option<Attribute>, Option<&'static str>), String> {
    // The bytes of text in other encodings stay.
    if let Some(own) = typed.classic.iter().find(|own| own.name == name && version.has(own.external)) {
        return Ok((Some(own.clone()), None));
    }
    let made = |external, bytes| Some(Attribute { name: name.to_owned(), external, bytes });
    let text = |text: &str| made(External::Char, text.as_bytes().to_vec());
    let list: &[Json] = match json {
        Json::Null => return Ok((None, Some(NULL))),
        Json::String(one) => return Ok((text(one), None)),
        Json::Array(list) => match &list[..] {
            [Json::String(one)] => return Ok((text(one), None)),
            list => list,
        },
        one => std::slice::from_ref(one),
    };
    if !list.is_empty() && list.iter().all(|one| matches!(one, Json::Bool(_))) {
        let bytes = list.iter().map(|one| u8::from(matches!(one, Json::Bool(true)))).collect();
        return Ok((made(External::Byte, bytes), None));
    }
    if !list.iter().all(|one| matches!(one, Json::Number(_))) {
        return Ok((text(&json.to_text(None)), Some(AS_TEXT)));
    }
    let of_variable = element.filter(|_| OF_VARIABLE.contains(&name));
    let classic = typed.classic.iter().find(|own| own.name == name).map(|own| own.external);
    let own = typed.numbers.get(name).copied().or(classic);
    let smaller = own.and_then(|own| match own {
        External::UByte => Some(External::Byte),
        External::UShort => Some(External::Short),
        _ => None,
    });
    let all = [External::Int, External::Int64, External::UInt64, External::Double];
    let wanted = [own, of_variable, smaller].into_iter().flatten().chain(all);
    for external in wanted.filter(|external| version.has(*external)) {
        let elements: Option<Vec<Vec<u8>>> = list.iter().map(|one| element_of(external, one)).collect();
        let Some(elements) = elements else { continue };
        let is_whole = list.iter().all(|one| one.as_integer::<i128>().is_some());
        let note =
            (external == External::Double && is_whole && !list.is_empty() && own != Some(External::Double))
                .then_some(AS_DOUBLE);
        return Ok((made(external, elements.concat()), note));
    }
    Err(format!(
        "attribute {name:?} has the value {}, which no number of {} is exactly; choose NETCDF3_64BIT_DATA or NETCDF4",
        json.brief(),
        version.name()
    ))
}

/// One stored element. `None`: the type has no such number.
fn element_of(external: External, json: &Json) -> Option<Vec<u8>> {
    let Json::Number(text) = json else { return None };
    let dtype = external.dtype();
    match dtype.kind() {
        Kind::Float => {
            let float: f64 = parse(text)?;
            if let Some(whole) = json.as_integer::<i128>()
                && (float as i128 != whole || float.abs() > 1e30)
            {
                return None;
            }
            if external == External::Double {
                return Some(float.to_be_bytes().to_vec());
            }
            let small = float as f32;
            (f64::from(small) == float || float.is_nan()).then(|| small.to_be_bytes().to_vec())
        }
        Kind::Int | Kind::UInt => {
            let whole = json.as_integer::<i128>()?;
            super::cast::of_whole(whole, dtype)
        }
        _ => None,
    }
}

/// A number as JSON of Python writes it.
fn parse(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        text => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(
        json: &str,
        typed: &Typed,
        element: Option<External>,
        version: Version,
    ) -> (External, Vec<u8>, bool) {
        let json = Json::parse(json.as_bytes()).unwrap();
        let (attribute, note) = of_json("valid_range", &json, typed, element, version).unwrap();
        let attribute = attribute.unwrap();
        (attribute.external, attribute.bytes, note.is_some())
    }

    #[test]
    fn values() {
        let (none, classic) = (Typed::default(), Version::Classic);
        let plain = |json: &str| made(json, &none, None, classic);
        assert_eq!(plain("\"é\""), (External::Char, "é".as_bytes().to_vec(), false));
        assert_eq!(plain("[\"a\"]"), (External::Char, b"a".to_vec(), false));
        assert_eq!(plain("[\"a\", \"b\"]"), (External::Char, b"[\"a\", \"b\"]".to_vec(), true));
        assert_eq!(plain("[1, -2]"), (External::Int, [[0, 0, 0, 1], (-2i32).to_be_bytes()].concat(), false));
        assert_eq!(plain("[true, false]"), (External::Byte, vec![1, 0], false));
        assert_eq!(plain("2.5"), (External::Double, 2.5f64.to_be_bytes().to_vec(), false));
        assert_eq!(plain("NaN"), (External::Double, f64::NAN.to_be_bytes().to_vec(), false));
        assert_eq!(plain("[]"), (External::Int, vec![], false));
        assert_eq!(plain("4294967296"), (External::Double, 4294967296f64.to_be_bytes().to_vec(), true));
        let wide = made("4294967296", &none, None, Version::Data64);
        assert_eq!(wide, (External::Int64, 4294967296i64.to_be_bytes().to_vec(), false));
        let unsigned = made("18446744073709551615", &none, None, Version::Data64);
        assert_eq!(unsigned, (External::UInt64, u64::MAX.to_be_bytes().to_vec(), false));
        let large = Json::parse(b"9007199254740993").unwrap();
        let error = of_json("a", &large, &none, None, classic).unwrap_err();
        assert!(error.contains("9007199254740993") && error.contains("NETCDF4"), "{error}");
    }

    #[test]
    fn types_of_the_source_and_of_the_variable() {
        let none = Typed::default();
        let short = Some(External::Short);
        assert_eq!(
            made("[0, 7]", &none, short, Version::Classic),
            (External::Short, vec![0, 0, 0, 7], false)
        );
        assert_eq!(made("70000", &none, short, Version::Classic).0, External::Int);
        let numbers =
            |external| Typed { numbers: [("valid_range".to_owned(), external)].into(), classic: vec![] };
        let float = made("0.5", &numbers(External::Float), None, Version::Classic);
        assert_eq!(float, (External::Float, 0.5f32.to_be_bytes().to_vec(), false));
        let bytes = numbers(External::UByte);
        assert_eq!(made("7", &bytes, None, Version::Classic), (External::Byte, vec![7], false));
        assert_eq!(made("200", &bytes, None, Version::Classic).0, External::Int);
        assert_eq!(made("200", &bytes, None, Version::Data64), (External::UByte, vec![200], false));
        let own =
            Attribute { name: "valid_range".into(), external: External::Char, bytes: b"\xb0C\0".to_vec() };
        let typed = Typed { numbers: HashMap::new(), classic: vec![own] };
        assert_eq!(
            made("\"?\"", &typed, None, Version::Classic),
            (External::Char, b"\xb0C\0".to_vec(), false)
        );
    }
}
