//! Variables in the words of Zarr, as xarray reads and writes them.
//!
//! Zarr v2 has one place for two things: unwritten elements are `fill_value`, and elements that
//! equal it are missing. A variable without missing elements has `null` there. Zarr v3 has both:
//! `fill_value`, and the attribute `_FillValue`.

use super::{DIMENSIONS, FILL_VALUE, MISSING_VALUE, MissingValue, NCZARR, Variable};
use crate::{Array, Json, zarr};
use hyperslab_codec::VlenKind;

/// A variable, as a document of Zarr describes it.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) attributes: Json,
    pub(crate) dimension_names: Option<Vec<Option<String>>>,
    /// `None` is `null` in Zarr v2, and the default of the element type in v3.
    pub(crate) fill: Option<Vec<u8>>,
    /// `true` if the missing value is left out, because xarray cannot read it back.
    pub(crate) loses_missing: bool,
}

impl Words {
    pub(super) fn of(
        variable: &Variable,
        array: &Array,
        absent: Option<Vec<u8>>,
        format: zarr::Format,
    ) -> Words {
        let mut words = Words {
            attributes: variable.attributes.clone(),
            dimension_names: variable.dimension_names.clone(),
            fill: absent,
            loses_missing: false,
        };
        if !variable.is_variable {
            return words;
        }
        match format {
            zarr::Format::V2 => {
                if has_plain_elements(array) {
                    words.fill = match &variable.missing {
                        MissingValue::Value(bytes) => Some(bytes.clone()),
                        MissingValue::None | MissingValue::Other(_) => None,
                    };
                }
                if let Some(json) = variable.missing.other() {
                    words.attributes.set(FILL_VALUE, json.clone());
                }
            }
            zarr::Format::V3 => match (variable.missing.to_v3(array), variable.missing.text(array)) {
                (Some(json), _) => words.attributes.set(FILL_VALUE, json),
                // xarray refuses text in `_FillValue`, and takes it here.
                (None, Some(text)) if words.attributes.get(MISSING_VALUE).is_none() => {
                    words.attributes.set(MISSING_VALUE, text.into());
                }
                (None, _) => words.loses_missing = variable.missing != MissingValue::None,
            },
        }
        words
    }
}

/// Returns `true` if elements are numbers or text, as in NetCDF.
fn has_plain_elements(array: &Array) -> bool {
    let vlen = array.vlen();
    array.structure().is_none()
        && array.optional().is_none()
        && vlen.is_none_or(|kind| kind == VlenKind::Text)
}

/// An array of Zarr as a variable. `scalars`: whether those without words for names of axes are
/// variables, too.
pub(super) fn variable(array: &zarr::Array, scalars: bool) -> Variable {
    let names = names(array);
    let is_variable = names.is_some() || scalars && array.layout().shape().is_empty();
    let mut attributes = array.attributes().clone();
    let node = Array::from(array.clone());
    let (mut missing, mut dimension_names) = (MissingValue::None, names);
    if is_variable {
        attributes = user_attributes(array);
        let said = attributes.remove(FILL_VALUE);
        missing = match (array.format(), array.fill(), said) {
            (zarr::Format::V2, Some(fill), _) if has_plain_elements(&node) => {
                MissingValue::Value(fill.to_vec())
            }
            (zarr::Format::V2, _, Some(json)) => MissingValue::of_json(&node, &json),
            (zarr::Format::V3, _, Some(json)) => MissingValue::of_v3(&node, &json),
            (_, _, None) => MissingValue::None,
        };
        dimension_names.get_or_insert_default();
    } else {
        dimension_names = array.dimension_names().map(<[_]>::to_vec);
    }
    Variable {
        is_variable,
        dimension_names,
        shape: array.layout().shape().into(),
        attributes,
        missing,
        unreadable: Vec::new(),
    }
}

/// The names of all axes.
pub(super) fn names(array: &zarr::Array) -> Option<Vec<Option<String>>> {
    array.dimension_names().filter(|names| names.iter().all(Option::is_some)).map(<[_]>::to_vec)
}

/// Returns `true` if a user has written an attribute of an array of Zarr v2 that has names of axes.
fn is_of_user(attribute: &str) -> bool {
    let start = attribute.get(..NCZARR.len());
    attribute != DIMENSIONS && !start.is_some_and(|start| start.eq_ignore_ascii_case(NCZARR))
}

/// The attributes of a variable that users have written, and `_FillValue`.
pub fn user_attributes(array: &zarr::Array) -> Json {
    let mut attributes = array.attributes().clone();
    if array.format() == zarr::Format::V2
        && let Json::Object(members) = &mut attributes
    {
        members.retain(|(name, _)| is_of_user(name));
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab_store::MemoryStore;
    use hyperslab_zarr::{ArraySpec, Format};
    use std::sync::Arc;

    fn array(format: Format, names: Option<&[&str]>, attributes: &str, fill: Option<i32>) -> zarr::Array {
        let shape = vec![3; names.map_or(1, <[_]>::len)];
        let mut spec = ArraySpec::new(format, &shape, "<i4".parse().unwrap());
        spec.dimension_names = names.map(|names| names.iter().map(|name| Some((*name).into())).collect());
        spec.attributes = Json::parse(attributes.as_bytes()).unwrap();
        spec.fill = fill.map(|fill| fill.to_le_bytes().to_vec());
        zarr::Array::create(Arc::new(MemoryStore::new()), "a", spec, false).unwrap()
    }

    fn words(array: &zarr::Array, format: Format) -> (String, Option<i32>) {
        let variable = variable(array, true);
        let words = variable.words(&array.clone().into(), array.fill().map(<[u8]>::to_vec), format);
        let fill = words.fill.map(|fill| i32::from_le_bytes(fill.try_into().unwrap()));
        (words.attributes.to_text(None), fill)
    }

    #[test]
    fn fill_values_of_v2_are_missing_values() {
        let v2 = array(Format::V2, Some(&["x"]), r#"{"units": "m", "_NCProperties": "x"}"#, Some(-9));
        assert_eq!(words(&v2, Format::V3), (r#"{"units": "m", "_FillValue": -9}"#.into(), Some(-9)));
        let none = array(Format::V2, Some(&["x"]), "{}", None);
        assert_eq!(words(&none, Format::V3), ("{}".into(), None));
        // A value in both places: the fill value counts, as for xarray.
        let both = array(Format::V2, Some(&["x"]), r#"{"_FillValue": 1}"#, Some(2));
        assert_eq!(words(&both, Format::V3), (r#"{"_FillValue": 2}"#.into(), Some(2)));
        let said = array(Format::V2, Some(&["x"]), r#"{"_FillValue": 1}"#, None);
        assert_eq!(words(&said, Format::V3), (r#"{"_FillValue": 1}"#.into(), None));
    }

    #[test]
    fn fill_values_of_v3_are_none() {
        let v3 = array(Format::V3, Some(&["x"]), "{}", Some(7));
        assert_eq!(words(&v3, Format::V2), ("{}".into(), None));
        let said = array(Format::V3, Some(&["x"]), r#"{"_FillValue": 5}"#, Some(7));
        assert_eq!(words(&said, Format::V2), ("{}".into(), Some(5)));
        let scalar = array(Format::V3, Some(&[]), r#"{"_FillValue": 0.5}"#, Some(0));
        assert_eq!(words(&scalar, Format::V2), (r#"{"_FillValue": 0.5}"#.into(), None));
        assert_eq!(variable(&scalar, false).dimension_names, Some(Vec::new()));
    }

    #[test]
    fn plain_arrays_are_passed_on() {
        for format in [Format::V2, Format::V3] {
            let plain = array(format, None, r#"{"_FillValue": 5, "_nc": 1}"#, Some(7));
            for to in [Format::V2, Format::V3] {
                assert_eq!(words(&plain, to), (r#"{"_FillValue": 5, "_nc": 1}"#.into(), Some(7)));
            }
        }
    }
}
