//! Dimensions and variables of NetCDF-4 files.

use crate::errors::{self, OrRaise};
use crate::hdf5::editor::Editor;
use crate::nodes::handles::GroupHandle;
use hyperslab::hdf5::Group;
use hyperslab::netcdf::netcdf4::{self, Definitions, LiveDimension, written};
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The dimensions and variables of a NetCDF-4 file that is being changed.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct NetcdfDefinitions {
    definitions: Definitions,
}

fn hdf5_group(py: Python<'_>, group: &GroupHandle) -> PyResult<Group> {
    let found = group.slot.get(py)?;
    let no_file = || errors::invalid(py, "the group is not in an HDF5 file".to_owned());
    found.as_hdf5().cloned().ok_or_else(no_file)
}

/// A dimension: path of its group, name, address, length, whether it is unlimited, and whether a variable
/// has its coordinates.
type Found = (String, String, u64, u64, bool, bool);

fn found(dimension: &LiveDimension) -> Found {
    let LiveDimension { group, name, address, len, unlimited, without_variable, .. } = dimension.clone();
    (group, name, address, len, unlimited, !without_variable)
}

#[pymethods]
impl NetcdfDefinitions {
    /// ``begin``: the file is new, and becomes a NetCDF-4 file.
    #[new]
    fn new(py: Python<'_>, editor: &Editor, begin: bool) -> PyResult<Self> {
        let definitions = Definitions::of(editor.editing().clone());
        if begin {
            py.detach(|| definitions.begin()).or_raise(py)?;
        }
        Ok(NetcdfDefinitions { definitions })
    }

    /// Makes a dimension. ``size``: ``None`` for an unlimited one.
    fn create_dimension(
        &self,
        py: Python<'_>,
        group: &GroupHandle,
        name: &str,
        size: Option<u64>,
    ) -> PyResult<()> {
        let group = hdf5_group(py, group)?;
        py.detach(|| self.definitions.create_dimension(&group, name, size)).or_raise(py)
    }

    /// The dimension of a name in a group or in a group above. ``None``: there is none.
    fn find(&self, py: Python<'_>, group: &GroupHandle, name: &str) -> PyResult<Option<Found>> {
        let group = hdf5_group(py, group)?;
        let dimension = py.detach(|| self.definitions.find(&group, name)).or_raise(py)?;
        Ok(dimension.as_ref().map(found))
    }

    /// Gives a dataset without a name its place as a variable. Returns the name of its dataset.
    fn define(
        &self,
        py: Python<'_>,
        group: &GroupHandle,
        name: &str,
        dataset: u64,
        dimensions: Vec<String>,
    ) -> PyResult<String> {
        let group = hdf5_group(py, group)?;
        py.detach(|| self.definitions.define(&group, name, dataset, &dimensions)).or_raise(py)
    }

    /// The addresses of the variables along a dimension, and their axes; not its coordinate variable.
    fn users(&self, py: Python<'_>, group: &GroupHandle, name: &str) -> PyResult<Vec<(u64, u32)>> {
        let group = hdf5_group(py, group)?;
        let work = || match self.definitions.find(&group, name)? {
            Some(dimension) => self.definitions.users(&dimension),
            None => Ok(Vec::new()),
        };
        py.detach(work).or_raise(py)
    }

    /// The length of the dimension of each axis of a variable. ``None``: the axis has no scale.
    fn lengths(&self, py: Python<'_>, variable: u64) -> PyResult<Vec<Option<u64>>> {
        py.detach(|| self.definitions.lengths(variable)).or_raise(py)
    }

    /// Notes the length of an unlimited dimension whose variables have changed theirs.
    fn note_length(&self, py: Python<'_>, group: &GroupHandle, name: &str, len: u64) -> PyResult<()> {
        let group = hdf5_group(py, group)?;
        let work = || {
            if let Some(dimension) = self.definitions.find(&group, name)? {
                self.definitions.note_length(&dimension, len);
            }
            Ok(())
        };
        let done: Result<(), hyperslab::hdf5::Hdf5Error> = py.detach(work);
        done.or_raise(py)
    }
}

/// The dimensions of a group, in the order of their numbers: name, length, whether it is unlimited.
#[pyfunction]
pub(crate) fn netcdf_dimensions(py: Python<'_>, group: &GroupHandle) -> PyResult<Vec<(String, u64, bool)>> {
    if let Some(classic) = group.slot.get(py)?.as_netcdf3() {
        let dimensions = classic.dimensions().iter();
        return Ok(dimensions.map(|one| (one.name.clone(), one.len, one.unlimited)).collect());
    }
    let group = hdf5_group(py, group)?;
    let found = py.detach(|| netcdf4::dimensions(&group)).or_raise(py)?;
    let found = found.into_iter().filter(|dimension| !dimension.is_scalar);
    Ok(found.map(|dimension| (dimension.name, dimension.len, dimension.unlimited)).collect())
}

/// True if netCDF wrote the file of a group.
#[pyfunction]
pub(crate) fn is_netcdf4(py: Python<'_>, group: &GroupHandle) -> PyResult<bool> {
    let group = hdf5_group(py, group)?;
    py.detach(|| netcdf4::is_netcdf4(group.file())).or_raise(py)
}

/// The bytes of netCDF's default fill value for elements. ``None``: no numbers or text.
#[pyfunction]
pub(crate) fn netcdf_fill<'py>(
    py: Python<'py>,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    if dtype.has_fields() || dtype.has_subarray() {
        return Ok(None);
    }
    let name: String = dtype.getattr("str")?.extract()?;
    let known = name.parse().ok().and_then(written::default_fill);
    Ok(known.map(|bytes| PyBytes::new(py, &bytes)))
}

/// The chunks that netCDF-C gives a variable. ``axes``: lengths, ``None`` for unlimited dimensions.
#[pyfunction]
pub(crate) fn netcdf_chunks(axes: Vec<Option<u64>>, size: u64) -> Vec<u64> {
    written::default_chunks(&axes, size)
}
