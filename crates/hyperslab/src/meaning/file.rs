//! HDF5 datasets and NetCDF variables as [`Variable`]s.

use super::{DIMENSIONS, FILL_VALUE, MissingValue, Variable};
use crate::formats::hdf5_json;
use crate::{Array, DataFile, Dims, Group, Json, Node, Result, netcdf};
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::element::ElementKind;
use hyperslab_hdf5::value::Value;
use hyperslab_hdf5::{self as hdf5, Attribute, Hdf5Error};
use hyperslab_netcdf::netcdf4::{self, Dimension, Scale};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The attribute that [`FileMeaning::is_encoding`] recognises.
const LEAST_DIGIT: &str = "least_significant_digit";

/// The meaning of a file's datasets (HDF5 or NetCDF) to programs that know variables.
/// Programs like xarray see names of axes, lengths and attributes. Caches the facts found in the
/// file.
#[derive(Debug)]
pub struct FileMeaning {
    /// `true`: datasets are variables, because the file is NetCDF or has dimension scales.
    has_variables: bool,
    /// The root group, for HDF5.
    root: Option<hdf5::Group>,
    /// The dimensions of each group, by group path.
    dimensions: Mutex<HashMap<String, Arc<Vec<Dimension>>>>,
    /// Axis names by dataset path, for datasets without scales.
    phony: OnceLock<BTreeMap<String, Vec<String>>>,
}

impl FileMeaning {
    /// Reads the meaning of a file.
    /// An HDF5 file has variables if netCDF wrote it, or if it has a dimension scale anywhere.
    pub fn of(file: &DataFile) -> Result<FileMeaning> {
        let mut meaning = Self::of_variables(file)?;
        if let Some(root) = &meaning.root {
            meaning.has_variables = netcdf4::is_netcdf4(root.file())? || netcdf4::has_scales(root.file())?;
        }
        Ok(meaning)
    }

    /// Treats all datasets as variables, as netCDF-C does.
    pub fn of_variables(file: &DataFile) -> Result<FileMeaning> {
        let root = match file.open("")? {
            Node::Group(group) => group.as_hdf5().cloned(),
            Node::Array(_) => None,
        };
        Ok(FileMeaning { has_variables: true, root, dimensions: Mutex::default(), phony: OnceLock::new() })
    }

    /// The array as a variable. `None`: a dataset that only represents a dimension, without values.
    pub fn variable(&self, array: &Array) -> Result<Option<Variable>> {
        if let Some(variable) = array.as_netcdf3() {
            return self.of_classic(array, variable).map(Some);
        }
        let Some(dataset) = array.as_hdf5() else {
            return Err(crate::Error::Options("an array of another format".into()));
        };
        let found = dataset.attributes()?;
        let scale = Scale::of(&found)?;
        if self.has_variables && scale.is_some_and(|scale| scale.without_variable) {
            return Ok(None);
        }
        let (mut attributes, unreadable) = self.attributes(&found)?;
        let mut variable = Variable {
            is_variable: self.has_variables,
            dimension_names: netcdf4::dimension_names(dataset)?,
            shape: array.shape().into(),
            attributes: Json::object(),
            missing: MissingValue::None,
            unreadable,
        };
        if self.has_variables {
            let names = self.names(dataset, variable.dimension_names.take())?;
            variable.shape = self.shape(dataset, &names)?;
            variable.dimension_names = Some(names.into_iter().map(Some).collect());
            attributes.remove(LEAST_DIGIT);
            if let Some(json) = attributes.remove(FILL_VALUE) {
                variable.missing = MissingValue::of_json(array, &json);
            }
        }
        variable.attributes = attributes;
        Ok(Some(variable))
    }

    fn of_classic(&self, array: &Array, variable: &netcdf::Variable) -> Result<Variable> {
        let mut attributes = array.attributes()?.into_owned();
        attributes.remove(LEAST_DIGIT);
        let missing = match attributes.remove(FILL_VALUE) {
            Some(json) => MissingValue::of_json(array, &json),
            None => MissingValue::None,
        };
        Ok(Variable {
            is_variable: true,
            dimension_names: Some(
                variable.dimensions().map(|dimension| Some(dimension.name.clone())).collect(),
            ),
            shape: array.shape().into(),
            attributes,
            missing,
            unreadable: Vec::new(),
        })
    }

    /// Returns `true` if datasets are variables, as in NetCDF.
    pub fn has_variables(&self) -> bool {
        self.has_variables
    }

    /// Returns `true` if an attribute of a variable only describes how the variable was stored.
    /// netCDF4-python writes the number of digits that quantization keeps. xarray treats it as
    /// encoding and does not copy it.
    pub fn is_encoding(&self, attribute: &str) -> bool {
        self.has_variables && attribute == LEAST_DIGIT
    }

    /// Returns `true` if this attribute of a node comes from a user.
    pub fn is_of_user(&self, attribute: &str) -> bool {
        match attribute {
            "CLASS" | "NAME" => !self.has_variables,
            // netCDF-C reserves this name for Zarr and does not show it.
            DIMENSIONS => !self.has_variables,
            _ => !netcdf4::is_reserved(attribute),
        }
    }

    /// The names of the unlimited dimensions that the group at a path defines.
    pub fn unlimited(&self, file: &DataFile, path: &str) -> Result<Vec<String>> {
        if self.root.is_some() {
            let found = self.dimensions(path.trim_matches('/'))?;
            let unlimited = found.iter().filter(|dimension| dimension.unlimited && !dimension.is_scalar);
            return Ok(unlimited.map(|dimension| dimension.name.clone()).collect());
        }
        let Node::Group(root) = file.open("")? else { return Ok(Vec::new()) };
        let dimensions = root.as_netcdf3().map(netcdf::File::dimensions).unwrap_or_default();
        Ok(dimensions.iter().filter(|each| each.unlimited).map(|each| each.name.clone()).collect())
    }

    pub(crate) fn group_attributes(&self, group: &Group) -> Result<(Json, Vec<String>)> {
        match group.as_hdf5() {
            Some(group) => self.attributes(&group.attributes()?),
            None => Ok((group.attributes()?.into_owned(), Vec::new())),
        }
    }

    /// The path of a variable, given the path of its dataset.
    pub fn variable_path(&self, path: &str) -> String {
        if !self.has_variables {
            return path.to_owned();
        }
        let (group, name) = path.rsplit_once('/').map_or((None, path), |(group, name)| (Some(group), name));
        let name = netcdf4::variable_name(name);
        group.map_or_else(|| name.to_owned(), |group| format!("{group}/{name}"))
    }

    /// The possible dataset names of a variable. If several exist, the first one counts.
    pub fn dataset_names(&self, variable: &str) -> Vec<String> {
        match self.has_variables {
            true => netcdf4::dataset_names(variable).to_vec(),
            false => vec![variable.to_owned()],
        }
    }

    /// The user's attributes, and the names of unreadable ones.
    /// In NetCDF, a list of one value is the value.
    fn attributes(&self, found: &[Attribute]) -> Result<(Json, Vec<String>)> {
        let (mut json, mut unreadable) = (Json::object(), Vec::new());
        for attribute in found {
            let name = attribute.name.as_str();
            if !self.is_of_user(name) {
                continue;
            }
            match attribute.value() {
                Ok(Value::List(mut list)) if self.has_variables && list.len() == 1 => {
                    let one = list.pop().unwrap_or(Value::Null);
                    let is_shown = name != FILL_VALUE && is_text(attribute)?;
                    json.set(name, hdf5_json::value(if is_shown { decode_text(one) } else { one }));
                }
                // In NetCDF every attribute has a value: here empty text, or an empty list of
                // numbers.
                Ok(Value::Null) if self.has_variables && attribute.dataspace == Dataspace::Null => {
                    json.set(name, if is_text(attribute)? { "".into() } else { Json::Array(Vec::new()) });
                }
                // NetCDF programs show text in other encodings like this. A missing value stays
                // bytes, because elements are compared with it.
                Ok(value) if self.has_variables && name != FILL_VALUE && is_text(attribute)? => {
                    json.set(name, hdf5_json::value(decode_text(value)));
                }
                Ok(value) => json.set(name, hdf5_json::value(value)),
                Err(Hdf5Error::Unsupported { .. }) => unreadable.push(name.to_owned()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((json, unreadable))
    }

    /// The names of all axes.
    /// An axis without a scale, or with a scalar as its scale, has the name that netCDF-C gives it.
    fn names(&self, dataset: &hdf5::Dataset, known: Option<Vec<Option<String>>>) -> Result<Vec<String>> {
        let shape = dataset.dataspace().shape();
        let mut names = known.unwrap_or_else(|| vec![None; shape.len()]);
        for name in &mut names {
            let found =
                name.as_deref().map(|name| self.dimension(dataset.path(), name)).transpose()?.flatten();
            if found.is_some_and(|dimension| dimension.is_scalar) {
                *name = None;
            }
        }
        if !names.contains(&None) {
            return Ok(names.into_iter().flatten().collect());
        }
        if self.phony.get().is_none() {
            let _ = self.phony.set(netcdf::phony_dimension_names(dataset.file())?);
        }
        let phony = self.phony.get().and_then(|phony| phony.get(dataset.path()));
        let phony = phony.filter(|names| names.len() == shape.len()).cloned();
        let phony = phony.unwrap_or_else(|| by_length(shape));
        Ok(names.into_iter().zip(phony).map(|(name, phony)| name.unwrap_or(phony)).collect())
    }

    /// Elements per axis. Along an unlimited dimension, as many as its longest variable has.
    fn shape(&self, dataset: &hdf5::Dataset, names: &[String]) -> Result<Dims> {
        let Dataspace::Simple { shape, max_shape } = dataset.dataspace() else { return Ok(Dims::new()) };
        let axes = shape.iter().zip(max_shape).zip(names);
        let lengths = axes.map(|((len, most), name)| match most {
            Some(_) => Ok(*len),
            None => {
                let dimension = self.dimension(dataset.path(), name)?;
                Ok((*len).max(dimension.map_or(0, |dimension| dimension.len)))
            }
        });
        lengths.collect()
    }

    /// The dimension that a dataset means by a name: in its own group, or the nearest group above.
    fn dimension(&self, dataset: &str, name: &str) -> Result<Option<Dimension>> {
        let mut path = dataset;
        loop {
            path = path.rsplit_once('/').map_or("", |(group, _)| group);
            let found = self.dimensions(path)?;
            if let Some(dimension) = found.iter().find(|dimension| dimension.name == name) {
                return Ok(Some(dimension.clone()));
            }
            if path.is_empty() {
                return Ok(None);
            }
        }
    }

    /// The path of the group that defines the dimension that a dataset means by a name.
    pub(crate) fn dimension_group(&self, dataset: &str, name: &str) -> Result<Option<String>> {
        let mut path = dataset;
        while !path.is_empty() {
            path = path.rsplit_once('/').map_or("", |(group, _)| group);
            if self.dimensions(path)?.iter().any(|dimension| dimension.name == name) {
                return Ok(Some(path.to_owned()));
            }
        }
        Ok(None)
    }

    /// The dimensions of the group at a path, in the order of their numbers.
    pub(crate) fn dimensions_of(&self, path: &str) -> Result<Arc<Vec<Dimension>>> {
        self.dimensions(path)
    }

    /// The dimensions of the group at a path.
    fn dimensions(&self, path: &str) -> Result<Arc<Vec<Dimension>>> {
        let known =
            |this: &Self| this.dimensions.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some(known) = known(self) {
            return Ok(known);
        }
        let mut found = Vec::new();
        if let Some(root) = &self.root {
            let group = match path {
                "" => Some(root.clone()),
                _ => match root.child(path)? {
                    hdf5::Node::Group(group) => Some(group),
                    _ => None,
                },
            };
            found = group.map(|group| netcdf4::dimensions(&group)).transpose()?.unwrap_or_default();
        }
        let found = Arc::new(found);
        let mut all = self.dimensions.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(all.entry(path.to_owned()).or_insert(found).clone())
    }
}

fn is_text(attribute: &Attribute) -> Result<bool> {
    let kind = attribute.element()?.kind;
    Ok(matches!(kind, ElementKind::FixedString { .. } | ElementKind::VlenString { .. }))
}

/// Decodes text as netCDF4-python and xarray do: bytes that are not UTF-8 become U+FFFD.
fn decode_text(value: Value) -> Value {
    match value {
        Value::Bytes(bytes) => Value::Text(String::from_utf8_lossy(&bytes).into_owned()),
        Value::List(list) => Value::List(list.into_iter().map(decode_text).collect()),
        value => value,
    }
}

/// Axis names for arrays whose element type NetCDF does not have.
/// Axes of equal length share a name, but not within one array.
fn by_length(shape: &[u64]) -> Vec<String> {
    let name = |(axis, len): (usize, &u64)| {
        let before = shape.iter().take(axis).filter(|other| *other == len).count();
        if before == 0 { format!("phony_dim_of_{len}") } else { format!("phony_dim_of_{len}_{before}") }
    };
    shape.iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_become_readable() {
        let list = Value::List(vec![Value::Bytes(b"\xb0C".to_vec()), Value::Text("\u{e9}".into())]);
        assert_eq!(
            decode_text(list),
            Value::List(vec![Value::Text("\u{fffd}C".into()), Value::Text("\u{e9}".into())])
        );
        assert_eq!(decode_text(Value::Int(3)), Value::Int(3));
    }

    #[test]
    fn axes_of_one_length_share_a_name() {
        assert_eq!(by_length(&[3, 4, 3]), ["phony_dim_of_3", "phony_dim_of_4", "phony_dim_of_3_1"]);
        assert!(by_length(&[]).is_empty());
    }
}
