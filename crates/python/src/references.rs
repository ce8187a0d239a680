//! References of HDF5 files: to objects, and to elements of datasets.

use crate::errors::{self, OrRaise};
use crate::handles::NodeHandle;
use crate::hdf5::selection;
use hyperslab::hdf5::reference::{Part, Reference as Referred};
use hyperslab::hdf5::selection::Selection;
use hyperslab::hdf5::{self, Purpose};
use hyperslab::{DataFile, Object};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A reference to an object of an HDF5 file; false where it leads nowhere. ``file[reference]`` is
/// the object.
#[pyclass(frozen, subclass, module = "hyperslab")]
pub(crate) struct Reference {
    pub(crate) file: hdf5::File,
    pub(crate) target: Option<Referred>,
}

#[pymethods]
impl Reference {
    fn __bool__(&self) -> bool {
        self.target.is_some()
    }

    /// The path of the object from the root; ``None``: it leads nowhere, into another file, or no
    /// link leads to it.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let Some(target) = &self.target else { return Ok(None) };
        py.detach(|| target.path(&self.file)).or_raise(py)
    }

    /// The other file that it leads into, as it is called there.
    #[getter]
    fn filename(&self) -> Option<&str> {
        self.target.as_ref()?.file.as_deref()
    }

    /// The attribute that it leads to.
    #[getter]
    fn attribute(&self) -> Option<&str> {
        match &self.target.as_ref()?.part {
            Part::Attribute(name) => Some(name),
            _ => None,
        }
    }

    /// The object.
    fn _open(&self, py: Python<'_>) -> PyResult<NodeHandle> {
        let Some(target) = &self.target else {
            return Err(PyValueError::new_err("the reference leads nowhere"));
        };
        let file = match &target.file {
            None => self.file.clone(),
            Some(name) => {
                py.detach(|| self.file.other(name, Purpose::Link)).or_raise(py)?.ok_or_else(|| {
                    errors::exception(py, "NodeNotFoundError", format!("there is no file '{name}'"))
                })?
            }
        };
        NodeHandle::found(py, || {
            DataFile::from(file.clone()).check_open()?;
            let path = file.path_of(target.address)?;
            Object::of_hdf5(&file, file.object_at(target.address, path.as_deref().unwrap_or(""))?)
        })
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Reference>().is_ok_and(|other| {
            let other = other.get();
            self.target == other.target && (self.target.is_none() || self.file.is(&other.file))
        })
    }

    fn __hash__(&self) -> u64 {
        self.target.as_ref().map_or(0, |target| target.address)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let name = self.name(py).ok().flatten();
        match (&self.target, name) {
            (None, _) => "<Reference to nothing>".into(),
            (Some(_), Some(name)) => format!("<Reference to {name:?}>"),
            (Some(target), None) => format!("<Reference to the object at {}>", target.address),
        }
    }
}

/// A reference to elements of a dataset of an HDF5 file. ``file[reference]`` is the dataset,
/// ``dataset[reference]`` the elements.
#[pyclass(frozen, extends = Reference, module = "hyperslab")]
pub(crate) struct RegionReference;

#[pymethods]
impl RegionReference {
    /// The elements: ``("none",)``, ``("all",)``, ``("slabs", [(start, stride, count, block), …])``
    /// with one for each axis, ``("points", [[…], …])``, or ``("blocks", [(first, last), …])``.
    fn _selection<'py>(this: PyRef<'_, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match this.as_super().target.as_ref().map(|target| &target.part) {
            None | Some(Part::Attribute(_)) => selection(py, &Selection::None),
            Some(Part::Whole) => selection(py, &Selection::All),
            Some(Part::Region(found)) => selection(py, found),
        }
    }
}
