//! Attributes of arrays and groups in files.

use super::ElementHandle;
use super::stored_types::StoredType;
use crate::errors::OrRaise;
use hyperslab::hdf5::dataspace::Dataspace;
use hyperslab::hdf5::{Attribute, Hdf5Error};
use hyperslab::{Array, Group, netcdf};
use numpy::{PyArray1, PyArrayDescr};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// An attribute in a file.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct AttributeHandle(InFile);

enum InFile {
    Hdf5(Attribute),
    NetCdf3(netcdf::Attribute),
}

/// Returns the attributes of an array in a file.
pub(crate) fn attributes_of_array(py: Python<'_>, array: &Array) -> PyResult<Vec<AttributeHandle>> {
    let classic = array.as_netcdf3().map(|variable| variable.attributes());
    attributes(py, classic, || array.as_hdf5().map(|dataset| dataset.attributes()))
}

/// Returns the attributes of a group in a file.
pub(crate) fn attributes_of_group(py: Python<'_>, group: &Group) -> PyResult<Vec<AttributeHandle>> {
    let classic = group.as_netcdf3().map(|file| file.attributes());
    attributes(py, classic, || group.as_hdf5().map(|group| group.attributes()))
}

/// Returns the given attributes of a NetCDF-3 node, or else those from `read`.
pub(super) fn attributes(
    py: Python<'_>,
    classic: Option<&[netcdf::Attribute]>,
    read: impl FnOnce() -> Option<Result<Vec<Attribute>, Hdf5Error>> + Send,
) -> PyResult<Vec<AttributeHandle>> {
    if let Some(found) = classic {
        return Ok(found.iter().map(|found| AttributeHandle(InFile::NetCdf3(found.clone()))).collect());
    }
    let found = py.detach(read).transpose().or_raise(py)?;
    Ok(found.into_iter().flatten().map(InFile::Hdf5).map(AttributeHandle).collect())
}

/// Returns one attribute of an array in a file.
pub(crate) fn attribute_of_array(
    py: Python<'_>,
    array: &Array,
    name: &str,
) -> PyResult<Option<AttributeHandle>> {
    let classic = array.as_netcdf3().map(|variable| variable.attributes());
    attribute(py, classic, name, || array.as_hdf5().map(|dataset| dataset.attribute(name)))
}

/// Returns one attribute of a group in a file.
pub(crate) fn attribute_of_group(
    py: Python<'_>,
    group: &Group,
    name: &str,
) -> PyResult<Option<AttributeHandle>> {
    let classic = group.as_netcdf3().map(|file| file.attributes());
    attribute(py, classic, name, || group.as_hdf5().map(|group| group.attribute(name)))
}

/// Returns `true` if an array in a file has an attribute.
pub(crate) fn array_has_attribute(py: Python<'_>, array: &Array, name: &str) -> PyResult<bool> {
    let classic = array.as_netcdf3().map(|variable| variable.attributes());
    has_attribute(py, classic, name, || array.as_hdf5().map(|dataset| dataset.has_attribute(name)))
}

/// Returns `true` if a group in a file has an attribute.
pub(crate) fn group_has_attribute(py: Python<'_>, group: &Group, name: &str) -> PyResult<bool> {
    let classic = group.as_netcdf3().map(|file| file.attributes());
    has_attribute(py, classic, name, || group.as_hdf5().map(|group| group.has_attribute(name)))
}

/// Finds a name in the attributes of a NetCDF-3 node, or else the attribute from `read`.
fn attribute(
    py: Python<'_>,
    classic: Option<&[netcdf::Attribute]>,
    name: &str,
    read: impl FnOnce() -> Option<Result<Option<Attribute>, Hdf5Error>> + Send,
) -> PyResult<Option<AttributeHandle>> {
    if let Some(all) = classic {
        let found = all.iter().find(|attribute| attribute.name == name);
        return Ok(found.map(|found| AttributeHandle(InFile::NetCdf3(found.clone()))));
    }
    let found = py.detach(read).transpose().or_raise(py)?.flatten();
    Ok(found.map(|found| AttributeHandle(InFile::Hdf5(found))))
}

/// Looks for a name in the attributes of a NetCDF-3 node, or else asks `read`.
fn has_attribute(
    py: Python<'_>,
    classic: Option<&[netcdf::Attribute]>,
    name: &str,
    read: impl FnOnce() -> Option<Result<bool, Hdf5Error>> + Send,
) -> PyResult<bool> {
    match classic {
        Some(all) => Ok(all.iter().any(|attribute| attribute.name == name)),
        None => Ok(py.detach(read).transpose().or_raise(py)?.unwrap_or_default()),
    }
}

#[pymethods]
impl AttributeHandle {
    #[getter]
    pub(crate) fn name(&self) -> &str {
        match &self.0 {
            InFile::Hdf5(attribute) => &attribute.name,
            InFile::NetCdf3(attribute) => &attribute.name,
        }
    }

    /// Elements per axis. ``None``: the attribute has no value. In NetCDF-3 a single number has no
    /// axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match &self.0 {
            InFile::Hdf5(attribute) => match &attribute.dataspace {
                Dataspace::Null => Ok(None),
                dataspace => PyTuple::new(py, dataspace.shape()).map(Some),
            },
            InFile::NetCdf3(attribute) => {
                let count = attribute.bytes.len() / attribute.external.dtype().size().max(1);
                PyTuple::new(py, (count != 1).then_some(count)).map(Some)
            }
        }
    }

    /// The text of a NetCDF-3 attribute.
    #[getter]
    fn text(&self) -> Option<String> {
        match &self.0 {
            InFile::Hdf5(_) => None,
            InFile::NetCdf3(attribute) => Some(attribute.text()?.trim_end_matches('\0').to_owned()),
        }
    }

    /// The element type in HDF5.
    #[getter]
    fn element(&self, py: Python<'_>) -> PyResult<Option<ElementHandle>> {
        let InFile::Hdf5(attribute) = &self.0 else { return Ok(None) };
        let element = attribute.element().or_raise(py)?;
        let (file, name) = (attribute.file.clone(), Some(attribute.name.as_str().into()));
        Ok(Some(ElementHandle { file, element, path: None, attribute: name }))
    }

    /// The stored type of the elements in HDF5.
    #[getter]
    fn stored_type(&self) -> Option<StoredType> {
        match &self.0 {
            InFile::Hdf5(attribute) => {
                Some(StoredType::of(&attribute.file, attribute.datatype.clone(), attribute.committed))
            }
            InFile::NetCdf3(_) => None,
        }
    }

    /// The element type in NetCDF-3.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArrayDescr>>> {
        match &self.0 {
            InFile::Hdf5(_) => Ok(None),
            InFile::NetCdf3(attribute) => PyArrayDescr::new(py, attribute.external.dtype().numpy()).map(Some),
        }
    }

    /// The elements in memory.
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let values = match &self.0 {
            InFile::Hdf5(attribute) => attribute.values().or_raise(py)?,
            InFile::NetCdf3(attribute) => attribute.bytes.clone(),
        };
        Ok(PyArray1::from_vec(py, values))
    }
}
