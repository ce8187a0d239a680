//! The meaning of the datasets of a file, for Python.

use crate::errors::OrRaise;
use crate::hdf5::attributes::{AttributeHandle, attributes_of_array, attributes_of_group};
use crate::nodes::array::ArrayBase;
use crate::nodes::group::GroupBase;
use crate::nodes::handles::ArrayHandle;
use crate::values::json;
use hyperslab::zarr::Format;
use hyperslab::{DataFile, Json, meaning};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

/// The meaning of a file's datasets for programs that use variables.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct FileMeaning {
    file: DataFile,
    inner: hyperslab::FileMeaning,
}

/// Returns the user's attributes of a Zarr array, including `_FillValue`.
///
/// They are as programs that use variables see them.
#[pyfunction]
pub(crate) fn user_attributes<'py>(py: Python<'py>, array: &ArrayBase) -> PyResult<Bound<'py, PyDict>> {
    let array = array.array(py)?;
    json::dict(py, &array.as_zarr().map_or_else(Json::object, hyperslab::user_attributes))
}

/// Returns the attributes for a copy of this array. The copy is a Zarr array with named axes.
#[pyfunction]
pub(crate) fn carried_attributes<'py>(
    py: Python<'py>,
    array: &ArrayHandle,
    zarr_format: u32,
) -> PyResult<Bound<'py, PyDict>> {
    let format = crate::nodes::create::format(Some(zarr_format))?.unwrap_or(Format::V3);
    let array = array.slot.get(py)?;
    let found = py.detach(|| hyperslab::carried_attributes(&array, format)).or_raise(py)?;
    json::dict(py, &found)
}

/// The names of attributes that turn stored numbers into values. ``packing``: only the attributes of packed numbers.
#[pyfunction]
pub(crate) fn number_attributes(packing: bool) -> Vec<&'static str> {
    match packing {
        true => meaning::OF_PACKING.to_vec(),
        false => meaning::of_numbers().collect(),
    }
}

/// A variable: names of its axes, shape, attributes, and attributes that tell how it was stored.
type Variable<'py> = (Bound<'py, PyTuple>, Bound<'py, PyTuple>, Vec<AttributeHandle>, Vec<AttributeHandle>);

#[pymethods]
impl FileMeaning {
    /// Describes the file of a group.
    ///
    /// With `all`, every dataset is a variable, as in netCDF-C. Otherwise, datasets are variables
    /// if netCDF wrote the file or it has dimension scales.
    #[new]
    fn new(py: Python<'_>, group: &GroupBase, all: bool) -> PyResult<Self> {
        let group = group.group(py)?;
        let file = group.file().ok_or_else(|| {
            pyo3::exceptions::PyTypeError::new_err("expected a group of a file of HDF5 or NetCDF")
        })?;
        let read = || match all {
            true => hyperslab::FileMeaning::of_variables(&file),
            false => hyperslab::FileMeaning::of(&file),
        };
        let inner = py.detach(read).or_raise(py)?;
        Ok(FileMeaning { file, inner })
    }

    /// The array as a variable. ``None``: the dataset only represents a dimension.
    fn variable<'py>(&self, py: Python<'py>, array: &ArrayBase) -> PyResult<Option<Variable<'py>>> {
        let array = array.array(py)?;
        let Some(found) = py.detach(|| self.inner.variable(&array)).or_raise(py)? else { return Ok(None) };
        let names = PyTuple::new(py, found.dimension_names.unwrap_or_default())?;
        let shape = PyTuple::new(py, &*found.shape)?;
        let mut attributes = attributes_of_array(py, &array)?;
        attributes.retain(|attribute| self.inner.is_of_user(attribute.name()));
        let (encoding, attributes) =
            attributes.into_iter().partition(|attribute| self.inner.is_encoding(attribute.name()));
        Ok(Some((names, shape, attributes, encoding)))
    }

    /// The value of a variable's elements beyond the end of its array: one element, or UTF-8 text.
    /// ``None``: the array has all elements.
    fn rest<'py>(&self, py: Python<'py>, array: &ArrayBase) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let array = array.array(py)?;
        let read = || match self.inner.variable(&array)? {
            Some(variable) => variable.rest(&array),
            None => Ok(None),
        };
        Ok(py.detach(read).or_raise(py)?.map(|value| PyBytes::new(py, &value)))
    }

    /// The attributes of a group that users have written.
    fn group_attributes(&self, py: Python<'_>, group: &GroupBase) -> PyResult<Vec<AttributeHandle>> {
        let mut attributes = attributes_of_group(py, &*group.group(py)?)?;
        attributes.retain(|attribute| self.inner.is_of_user(attribute.name()));
        Ok(attributes)
    }

    /// The unlimited dimensions that the group at a path defines.
    fn unlimited(&self, py: Python<'_>, path: &str) -> PyResult<Vec<String>> {
        py.detach(|| self.inner.unlimited(&self.file, path)).or_raise(py)
    }

    /// The name of a variable for the name of its dataset.
    fn variable_name(&self, dataset: &str) -> String {
        self.inner.variable_path(dataset)
    }
}
