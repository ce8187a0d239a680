//! Variables in the words of Zarr: those that xarray reads and writes.
//!
//! Zarr v2 has one place for two things: elements that nobody has written are `fill_value`, and
//! elements that equal it are missing. A variable without missing elements has `null` there. Zarr v3
//! has both: `fill_value`, and the attribute `_FillValue`.

use super::{DIMENSIONS, FILL_VALUE, MissingValue, NCZARR, Variable};
use crate::{Array, Json, zarr};
use hyperslab_codec::VlenKind;

/// What a document of Zarr says of a variable.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) attributes: Json,
    pub(crate) dimension_names: Option<Vec<Option<String>>>,
    /// Of Zarr v2, `None` is `null`; of v3, the default of the element type.
    pub(crate) fill: Option<Vec<u8>>,
    /// Whether the missing value is left out, because xarray cannot read it back.
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
            zarr::Format::V3 => match variable.missing.to_v3(array) {
                Some(json) => words.attributes.set(FILL_VALUE, json),
                None => words.loses_missing = variable.missing != MissingValue::None,
            },
        }
        words
    }
}

/// Whether an element is a number or text, as those of NetCDF.
fn has_plain_elements(array: &Array) -> bool {
    let vlen = array.vlen();
    array.structure().is_none() && array.optional().is_none() && vlen.is_none_or(|kind| kind == VlenKind::Text)
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
        let said = attributes.remove(FILL_VALUE);
        missing = match (array.format(), array.fill(), said) {
            (zarr::Format::V2, Some(fill), _) if has_plain_elements(&node) => MissingValue::Value(fill.to_vec()),
            (zarr::Format::V2, _, Some(json)) => MissingValue::of_json(&node, &json),
            (zarr::Format::V3, _, Some(json)) => MissingValue::of_v3(&node, &json),
            (_, _, None) => MissingValue::None,
        };
        dimension_names.get_or_insert_default();
        if array.format() == zarr::Format::V2
            && let Json::Object(members) = &mut attributes
        {
            members.retain(|(name, _)| name != DIMENSIONS && !is_of_nczarr(name));
        }
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

/// The names of all axes: those of Zarr, or those of NCZarr.
pub(super) fn names(array: &zarr::Array) -> Option<Vec<Option<String>>> {
    let names = match array.dimension_names() {
        Some(names) => names.to_vec(),
        None if array.format() == zarr::Format::V2 => nczarr_names(array)?,
        None => return None,
    };
    names.iter().all(Option::is_some).then_some(names)
}

/// The last parts of the paths of dimensions, which NCZarr keeps in the document or in an attribute
/// ([NCZarr](https://docs.unidata.ucar.edu/nug/current/nczarr_head.html)).
fn nczarr_names(array: &zarr::Array) -> Option<Vec<Option<String>>> {
    let said = array.to_json().get("_NCZARR_ARRAY").or_else(|| array.attributes().get("_nczarr_array"))?;
    let paths = said.get("dimrefs").or_else(|| said.get("dimension_references"))?.as_array()?;
    let name = |path: &Json| Some(Some(path.as_str()?.rsplit('/').next()?.to_owned()));
    let names: Vec<Option<String>> = paths.iter().map(name).collect::<Option<_>>()?;
    (names.len() == array.layout().shape().len()).then_some(names)
}

fn is_of_nczarr(attribute: &str) -> bool {
    attribute.get(..NCZARR.len()).is_some_and(|start| start.eq_ignore_ascii_case(NCZARR))
}
