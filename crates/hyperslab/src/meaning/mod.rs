//! The meaning of arrays and groups to people: one description for all formats.
//!
//! Programs like xarray see *variables*: arrays with named axes, attributes, and a value that marks
//! missing elements (`_FillValue`). Each format expresses this differently:
//!
//! | | axes | missing value | scalars |
//! |---|---|---|---|
//! | NetCDF-3 | dimensions in the header | attribute `_FillValue` | – |
//! | NetCDF-4 | dimension scales ([`netcdf4`](hyperslab_netcdf::netcdf4)) | attribute `_FillValue` | – |
//! | Zarr v2 | attribute `_ARRAY_DIMENSIONS`, or the lists of NCZarr | `fill_value`, unless it is `null` | `_ARRAY_DIMENSIONS: []` |
//! | Zarr v3 | `dimension_names` | attribute `_FillValue`, floats in base 64; of text `missing_value` | – |
//!
//! `Meaning::variable` reads these representations. `Variable::words` writes them, by [xarray's
//! conventions](https://docs.xarray.dev/en/stable/internals/zarr-encoding-spec.html). Copies,
//! references, stores for other packages and xarray's engine all use this module.
//!
//! An HDF5 file without dimension scales and a Zarr array without axis names are *plain*: their
//! attributes and fill values are only passed on.

mod attributes;
mod axis;
mod beyond_end;
mod calendar;
mod coordinate;
mod decoding;
mod file;
mod joining;
mod levels;
mod limits;
mod missing;
pub(crate) mod ome;
mod packed;
mod reference;
mod related;
mod retiming;
mod rounding;
mod times;
mod unpack;
mod words;

pub use attributes::{OF_PACKING, OF_TIMES, of_numbers};
pub use axis::{Axis, AxisKind, axes, plane, points_north};
pub(crate) use beyond_end::{Side, value_beyond_end};
pub use calendar::Calendar;
pub use coordinate::coordinate;
pub use decoding::{Decoding, Numbers, ValueType};
pub use file::FileMeaning;
pub use levels::{ImageAxis, Level, Pyramid};
pub use limits::Limits;
pub use missing::MissingValue;
pub use packed::{FactorType, Marks, Packing, number_element};
pub(crate) use related::{names_without_variable, needed_variables};
pub(crate) use retiming::{Retiming, time_scale};
pub use times::{Number, NumpyTimes, Resolution, TimeKind, TimeNumbers, Times};
pub use unpack::Float;
pub(crate) use words::Words;
pub(crate) use words::of_copied_group;
pub use words::user_attributes;

use crate::joined::Joined;
use crate::{Array, Dims, Error, Group, Json, Node, NodeKind, Result, zarr};
use hyperslab_store::Ask;
use std::sync::Arc;

/// xarray's attribute for axis names, for formats that have no other place for them.
pub(crate) const DIMENSIONS: &str = "_ARRAY_DIMENSIONS";
/// NetCDF's attribute for the value that marks missing elements.
pub(crate) const FILL_VALUE: &str = "_FillValue";
/// The older attribute for the same purpose, which xarray also knows.
const MISSING_VALUE: &str = "missing_value";
/// The prefix of attribute names that NCZarr reserves, in any case.
const NCZARR: &str = "_nc";
/// The prefix of group attribute names that NCZarr reserves.
const NCZARR_GROUP: &str = "_nczarr_";

/// The facts that all arrays of a hierarchy share.
#[derive(Debug)]
pub(crate) enum Meaning {
    /// An HDF5 or NetCDF file.
    File(FileMeaning),
    /// A Zarr hierarchy. `scalars`: scalars without axis names are variables.
    Zarr { scalars: bool },
    /// Joined sources.
    Joined(Arc<Joined>),
}

/// An array as seen by programs that know variables.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// `true`: axes have names, so the array is a variable and not plain.
    pub is_variable: bool,
    /// The axis names. A variable names all axes.
    pub dimension_names: Option<Vec<Option<String>>>,
    /// Elements per axis.
    /// In its file a variable may be shorter than its unlimited dimensions; the rest is fill value.
    pub shape: Dims,
    /// The user's attributes, as a JSON object. A variable's attributes omit `_FillValue`.
    pub attributes: Json,
    /// The value that marks missing elements of a variable.
    pub missing: MissingValue,
    /// Names of attributes that cannot be read or cannot be expressed in JSON.
    pub unreadable: Vec<String>,
}

/// A hierarchy as programs see it that know variables.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Variables {
    /// The arrays at and below a node, by their paths, as variables.
    pub variables: Vec<(String, Array, Variable)>,
    /// The attributes of the groups, by their paths.
    pub groups: Vec<(String, Json)>,
}

impl Variables {
    /// Opens all arrays and groups of a hierarchy. Datasets that only stand for dimensions are left out.
    pub fn of(root: &Node, ask: Option<Ask<'_>>) -> Result<Variables> {
        let (meaning, nodes) = Meaning::of_all(root, ask)?;
        let (mut variables, mut groups) = (Vec::new(), Vec::new());
        for (path, node) in nodes {
            match node {
                Node::Group(group) => groups.push((path, meaning.group_attributes(&group)?.0)),
                Node::Array(array) => {
                    if let Some(variable) = meaning.variable(&array)? {
                        variables.push((meaning.path(&path), array, variable));
                    }
                }
            }
        }
        Ok(Variables { variables, groups })
    }
}

impl Meaning {
    /// Reads the meaning of a hierarchy. `arrays`: its arrays, for Zarr.
    pub(crate) fn of<'a>(node: &Node, arrays: impl Iterator<Item = &'a Array>) -> Result<Meaning> {
        if let Some(joined) = node.as_joined() {
            return Ok(Meaning::Joined(joined.clone()));
        }
        match node.file() {
            Some(file) => Ok(Meaning::File(FileMeaning::of(&file)?)),
            None => Ok(Meaning::Zarr { scalars: words::scalars_are_variables(arrays) }),
        }
    }

    /// Opens all arrays and groups of a hierarchy, by their paths, and reads their meaning. First the
    /// node itself, whose path is empty.
    pub(crate) fn of_all(root: &Node, ask: Option<Ask<'_>>) -> Result<(Meaning, Vec<(String, Node)>)> {
        let mut nodes = vec![(String::new(), root.clone())];
        if let Node::Group(group) = root {
            for below in group.below(None, ask)? {
                if ask.is_some_and(|ask| ask()) {
                    return Err(Error::Interrupted);
                }
                if matches!(below.kind, NodeKind::Array | NodeKind::Group) {
                    let node = group.open_below(&below)?.into_node()?;
                    nodes.push((below.path, node));
                }
            }
        }
        let arrays = nodes.iter().filter_map(|(_, node)| match node {
            Node::Array(array) => Some(array),
            Node::Group(_) => None,
        });
        let meaning = Meaning::of(root, arrays)?;
        Ok((meaning, nodes))
    }

    /// The meaning of a copy of these variables.
    pub(crate) fn of_copy<'a>(mut variables: impl Iterator<Item = &'a Variable>) -> Meaning {
        Meaning::Zarr { scalars: variables.any(|variable| variable.is_variable) }
    }

    /// The array as a variable. `None`: a dataset that only represents a dimension, without values.
    pub(crate) fn variable(&self, array: &Array) -> Result<Option<Variable>> {
        match (self, array.as_zarr()) {
            (Meaning::File(file), _) => file.variable(array),
            (Meaning::Joined(joined), _) => Ok(joined.variable(array.path()).cloned()),
            (Meaning::Zarr { scalars }, Some(zarr)) => Ok(Some(words::variable(zarr, *scalars))),
            (Meaning::Zarr { .. }, None) => Err(crate::Error::Options("an array of another format".into())),
        }
    }

    /// The attributes of a group, and the names of unreadable ones.
    pub(crate) fn group_attributes(&self, group: &Group) -> Result<(Json, Vec<String>)> {
        match self {
            Meaning::File(file) => file.group_attributes(group),
            Meaning::Zarr { .. } | Meaning::Joined(_) => Ok((group.attributes()?.into_owned(), Vec::new())),
        }
    }

    /// The path of a variable, given the path of its dataset.
    pub(crate) fn path(&self, path: &str) -> String {
        match self {
            Meaning::File(file) => file.variable_path(path),
            Meaning::Zarr { .. } | Meaning::Joined(_) => path.to_owned(),
        }
    }
}

/// The attributes for a Zarr array with named axes that is derived from this array.
/// An example is a level of a pyramid. The caller sets the fill value: in Zarr v2 it is the missing
/// value.
pub fn carried_attributes(array: &Array, format: zarr::Format) -> Result<Json> {
    let found = match array.file() {
        Some(file) => FileMeaning::of(&file)?.variable(array)?,
        None => Meaning::Zarr { scalars: false }.variable(array)?,
    };
    let Some(mut variable) = found else { return Ok(Json::object()) };
    if !variable.is_variable {
        variable.is_variable = true;
        if let Some(said) = variable.attributes.remove(FILL_VALUE) {
            variable.missing = match array.format() {
                crate::Format::ZarrV3 => MissingValue::of_v3(array, &said),
                _ => MissingValue::of_json(array, &said),
            };
        }
    }
    Ok(variable.words(array, None, format).attributes)
}

/// Describes the first difference between the expected attributes and a copy's.
pub(crate) fn differing_attributes(expected: &Json, found: &Json) -> Option<String> {
    let members = |json: &Json| json.as_object().unwrap_or_default().len();
    let mut own = expected.as_object().unwrap_or_default().iter();
    if let Some((name, _)) = own.find(|(name, value)| found.get(name) != Some(value)) {
        return Some(format!("attribute {name:?} has another value, or is lost"));
    }
    let has_more = members(found) != members(expected);
    has_more.then(|| "it has attributes that the source does not have".into())
}

impl Variable {
    /// Describes how a copy differs, if it means something else.
    pub(crate) fn difference(&self, array: &Array, copy: &Variable, copied: &Array) -> Option<String> {
        if !self.is_variable {
            return None;
        }
        if self.dimension_names != copy.dimension_names {
            let named = |variable: &Variable| {
                let names = variable.dimension_names.iter().flatten().map(|name| name.as_deref());
                names.map(|name| name.unwrap_or("?").to_owned()).collect::<Vec<_>>().join(", ")
            };
            return Some(format!("its axes are ({}), expected ({})", named(copy), named(self)));
        }
        let expected = self.shown_attributes(array, copied);
        if let Some(differs) = differing_attributes(&expected, &copy.attributes) {
            return Some(differs);
        }
        let is_kept = copied.format() != crate::Format::ZarrV3 || self.missing.to_v3(array).is_some();
        let (own, found) = (self.missing.describe(array), copy.missing.describe(copied));
        (is_kept && own != found).then(|| format!("the value of missing elements is {found}, expected {own}"))
    }

    /// The attributes of a copy that programs see, without `_FillValue`.
    fn shown_attributes(&self, array: &Array, copied: &Array) -> Json {
        let mut attributes = match copied.as_zarr() {
            Some(zarr) if copied.format() != array.format() => {
                self.words(array, None, zarr.format()).attributes
            }
            _ => self.attributes.clone(),
        };
        attributes.remove(FILL_VALUE);
        words::of_user(attributes, copied.format())
    }

    /// Expresses the variable in a format. `absent`: the value of unwritten elements.
    pub(crate) fn words(&self, array: &Array, absent: Option<Vec<u8>>, format: zarr::Format) -> Words {
        Words::of(self, array, absent, format)
    }
}
