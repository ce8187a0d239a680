//! Represents variables in Zarr, as xarray reads and writes them.
//!
//! Zarr v2 has one place for two things: `fill_value` is the value of unwritten elements, and also
//! marks missing elements. For a variable without missing elements it is `null`. Zarr v3 has both:
//! `fill_value`, and the attribute `_FillValue`.

use super::{DIMENSIONS, FILL_VALUE, MISSING_VALUE, MissingValue, NCZARR, NCZARR_GROUP, Variable};
use crate::{Array, Format, Json, zarr};
use hyperslab_codec::VlenKind;

/// A variable as a Zarr document describes it.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) attributes: Json,
    pub(crate) dimension_names: Option<Vec<Option<String>>>,
    /// `None`: `null` in Zarr v2, the default of the element type in v3.
    pub(crate) fill: Option<Vec<u8>>,
    /// `true`: the missing value is left out, because xarray cannot read it back.
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
                words.fill = match &variable.missing {
                    MissingValue::Value(bytes) => Some(bytes.clone()),
                    MissingValue::None | MissingValue::Other(_) => None,
                };
                if let Some(json) = variable.missing.other() {
                    words.attributes.set(FILL_VALUE, json.clone());
                }
            }
            zarr::Format::V3 => match (variable.missing.to_v3(array), variable.missing.text(array)) {
                (Some(json), _) => words.attributes.set(FILL_VALUE, json),
                // xarray refuses text in `_FillValue`, but accepts it here.
                (None, Some(text)) if is_free(&words.attributes, &text) => {
                    words.attributes.set(MISSING_VALUE, text.as_str().into());
                }
                (None, _) => words.loses_missing = variable.missing != MissingValue::None,
            },
        }
        words
    }
}

/// Returns `true` if the attributes give no other value for missing text.
fn is_free(attributes: &Json, text: &str) -> bool {
    attributes.get(MISSING_VALUE).is_none_or(|said| said.as_str() == Some(text))
}

/// Returns `true` if elements are numbers or text, as in NetCDF.
fn has_plain_elements(array: &Array) -> bool {
    let vlen = array.vlen();
    array.structure().is_none()
        && array.optional().is_none()
        && vlen.is_none_or(|kind| kind == VlenKind::Text)
}

/// Returns `true` if scalars without axis names are variables.
/// They are if another array has axis names. xarray writes no names for scalars of Zarr v3, so a
/// hierarchy with nothing but such scalars has variables. If other arrays have no axis names, as in
/// anndata, scalars are plain.
pub(super) fn scalars_are_variables<'a>(arrays: impl Iterator<Item = &'a Array>) -> bool {
    let (mut any, mut only_scalars) = (false, true);
    for array in arrays.filter_map(Array::as_zarr) {
        if names(array).is_some() {
            return true;
        }
        any = true;
        only_scalars &= array.format() == zarr::Format::V3 && array.layout().shape().is_empty();
    }
    any && only_scalars
}

/// A Zarr array as a variable. `scalars`: scalars without axis names are variables, too.
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

/// The axis names, if all axes have one.
pub(super) fn names(array: &zarr::Array) -> Option<Vec<Option<String>>> {
    array.dimension_names().filter(|names| names.iter().all(Option::is_some)).map(<[_]>::to_vec)
}

/// Returns `true` if programs see this attribute of a Zarr v2 array with axis names.
fn is_of_user(attribute: &str) -> bool {
    let start = attribute.get(..NCZARR.len());
    attribute != DIMENSIONS && !start.is_some_and(|start| start.eq_ignore_ascii_case(NCZARR))
}

/// The user's attributes of a variable, and `_FillValue`.
pub fn user_attributes(array: &zarr::Array) -> Json {
    of_user(array.attributes().clone(), array.format().into())
}

/// The attributes that programs see of an array with axis names in a format.
pub(super) fn of_user(mut attributes: Json, format: Format) -> Json {
    if let (Format::ZarrV2, Json::Object(members)) = (format, &mut attributes) {
        members.retain(|(name, _)| is_of_user(name));
    }
    attributes
}

/// The attributes of a group for its copy.
/// In Zarr v2, NCZarr describes the group's documents in attributes (`_nczarr_group`,
/// `_nczarr_superblock`). A copy in another format does not have these documents.
pub(crate) fn of_copied_group(mut attributes: Json, from: Format, to: Format) -> Json {
    if let (Format::ZarrV2, Format::ZarrV3, Json::Object(members)) = (from, to, &mut attributes) {
        members.retain(|(name, _)| !name.to_ascii_lowercase().starts_with(NCZARR_GROUP));
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
        array_of(spec)
    }

    fn scalar_spec() -> ArraySpec {
        ArraySpec::new(Format::V3, &[], "<i4".parse().unwrap())
    }

    fn array_of(spec: ArraySpec) -> zarr::Array {
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
        // A value in both places: the fill value counts, as in xarray.
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
    fn scalars_of_v3_alone_are_variables() {
        let scalar = |format| array_of(ArraySpec { format, ..scalar_spec() });
        let plain = |format| array(format, None, "{}", None);
        let named = |format| array(format, Some(&["x"]), "{}", None);
        let are = |arrays: Vec<zarr::Array>| {
            let arrays: Vec<Array> = arrays.into_iter().map(Array::from).collect();
            scalars_are_variables(arrays.iter())
        };
        let (v2, v3) = (Format::V2, Format::V3);
        assert!(are(vec![scalar(v3)]) && are(vec![scalar(v3), scalar(v3)]));
        assert!(!are(vec![scalar(v2)]) && !are(vec![scalar(v3), plain(v3)]) && !are(vec![]));
        assert!(are(vec![scalar(v2), named(v2)]) && are(vec![scalar(v3), plain(v3), named(v3)]));
        let filled = array_of(ArraySpec { fill: Some(vec![7, 0, 0, 0]), ..scalar_spec() });
        assert_eq!(words(&filled, Format::V2), ("{}".into(), None));
    }

    #[test]
    fn fill_values_of_structures_and_bytes_mark_nothing_in_v2() {
        for kind in [VlenKind::Bytes, VlenKind::Text] {
            let mut spec = ArraySpec::of_vlen(Format::V3, &[3], kind);
            spec.dimension_names = Some(vec![Some("x".into())]);
            assert_eq!(words(&array_of(spec), Format::V2), ("{}".into(), None), "{kind:?}");
        }
        let pair = r#"{"zarr_format": 3, "node_type": "array", "shape": [3], "data_type": {"name": "structured",
            "configuration": {"fields": [["a", "int16"], ["b", "int16"]]}}, "fill_value": "AAAAAA==",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
            "chunk_key_encoding": {"name": "default"}, "dimension_names": ["x"],
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}"#;
        let store = Arc::new(MemoryStore::new());
        let pair = zarr::Array::of_document(store, "", Format::V3, pair.as_bytes()).unwrap();
        assert_eq!(pair.fill(), Some(&[0; 4][..]));
        assert_eq!(words(&pair, Format::V2), ("{}".into(), None));
    }

    #[test]
    fn missing_text_is_another_attribute_in_v3() {
        let mut spec = ArraySpec::new(Format::V2, &[3], "<U2".parse().unwrap());
        spec.dimension_names = Some(vec![Some("x".into())]);
        spec.fill = Some([b'n', 0, 0, 0, b'o', 0, 0, 0].to_vec());
        let text = array_of(spec);
        let found = variable(&text, false).words(&text.clone().into(), None, Format::V3);
        assert_eq!(found.attributes.to_text(None), r#"{"missing_value": "no"}"#);
        assert!(!found.loses_missing);
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
