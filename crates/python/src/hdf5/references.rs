//! References of HDF5 files: to objects, and to elements of datasets.

use crate::errors::{self, OrRaise};
use crate::hdf5::selection;
use crate::nodes::handles::NodeHandle;
use hyperslab::hdf5::reference::{Reference as Referred, ReferencedPart};
use hyperslab::hdf5::selection::{Selection, Slab};
use hyperslab::hdf5::{self, Hdf5Error, Purpose};
use hyperslab::{Array, DataFile, Group, Object};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A reference to an object of an HDF5 file. It is false if it leads nowhere. ``file[reference]``
/// is the object.
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

    /// The path of the object from the root. ``None``: the reference leads nowhere or into another
    /// file, or no link leads to the object.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let Some(target) = &self.target else { return Ok(None) };
        py.detach(|| target.path(&self.file)).or_raise(py)
    }

    /// Name of the other file that the reference leads into, as stored.
    #[getter]
    fn filename(&self) -> Option<&str> {
        self.target.as_ref()?.file.as_deref()
    }

    /// The attribute that the reference leads to.
    #[getter]
    fn attribute(&self) -> Option<&str> {
        match &self.target.as_ref()?.part {
            ReferencedPart::Attribute(name) => Some(name),
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
                py.detach(|| self.file.open_other(name, Purpose::Link)).or_raise(py)?.ok_or_else(|| {
                    errors::exception(py, "NodeNotFoundError", format!("there is no file '{name}'"))
                })?
            }
        };
        opened(py, &file, target.address)
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

/// Opens the object at an address. Fails if it was deleted.
pub(crate) fn opened(py: Python<'_>, file: &hdf5::File, address: u64) -> PyResult<NodeHandle> {
    NodeHandle::open_found(py, || {
        DataFile::from(file.clone()).check_open()?;
        let path = file.path_of(address)?;
        // Some writers count no links at all.
        if path.is_none() && file.is_deleted(address)? {
            let why = Some("the reference leads to an object that was deleted".to_owned());
            let (file, path) = (file.source().name(), format!("address {address}"));
            return Err(Hdf5Error::NotFound { file, path, why }.into());
        }
        Object::of_hdf5(file, file.object_at(address, path.as_deref().unwrap_or(""))?)
    })
}

/// A reference to elements of an HDF5 dataset.
/// ``file[reference]`` is the dataset, ``dataset[reference]`` the elements.
#[pyclass(frozen, extends = Reference, module = "hyperslab")]
pub(crate) struct RegionReference;

#[pymethods]
impl RegionReference {
    /// The elements: ``("none",)``, ``("all",)``, ``("slabs", [(start, stride, count, block), …])``
    /// with one slab per axis, ``("points", [[…], …])``, or ``("blocks", [(first, last), …])``.
    fn _selection<'py>(this: PyRef<'_, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match this.as_super().target.as_ref().map(|target| &target.part) {
            None | Some(ReferencedPart::Attribute(_)) => selection(py, &Selection::None),
            Some(ReferencedPart::Whole) => selection(py, &Selection::All),
            Some(ReferencedPart::Region(found)) => selection(py, found),
        }
    }
}

/// Returns a reference to a dataset, or to some of its elements.
pub(crate) fn to_array<'py>(
    py: Python<'py>,
    array: &Array,
    region: Option<Selection>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(dataset) = array.as_hdf5() else { return Err(no_references(py)) };
    to_object(py, dataset.file().clone(), dataset.address(), region)
}

/// Returns a reference to a group.
pub(crate) fn to_group<'py>(py: Python<'py>, group: &Group) -> PyResult<Bound<'py, PyAny>> {
    let Some(group) = group.as_hdf5() else { return Err(no_references(py)) };
    to_object(py, group.file().clone(), group.address(), None)
}

fn no_references(py: Python<'_>) -> PyErr {
    errors::exception(py, "UnsupportedError", "there are no references in NetCDF-3")
}

/// Returns a reference to the object at an address, or to some elements of it.
pub(crate) fn to_object(
    py: Python<'_>,
    file: hdf5::File,
    address: u64,
    region: Option<Selection>,
) -> PyResult<Bound<'_, PyAny>> {
    let is_region = region.is_some();
    let part = region.map_or(ReferencedPart::Whole, ReferencedPart::Region);
    let reference = Reference { file, target: Some(Referred { file: None, address, part }) };
    if !is_region {
        return Ok(Bound::new(py, reference)?.into_any());
    }
    Ok(Bound::new(py, PyClassInitializer::from(reference).add_subclass(RegionReference))?.into_any())
}

/// Returns a selection for a region from Python.
///
/// Uses `slabs` (start, stride, count and block of each axis), else `points`, else `blocks` (first
/// and last element). If all are empty, it has no elements.
pub(crate) fn region_of(
    rank: usize,
    slabs: Vec<(u64, u64, u64, u64)>,
    points: Vec<Vec<u64>>,
    blocks: Vec<(Vec<u64>, Vec<u64>)>,
) -> Selection {
    if !slabs.is_empty() {
        let slab = |(start, stride, count, block): (u64, u64, u64, u64)| Slab {
            start,
            stride: stride.max(1),
            count: Some(count.max(1)),
            block: Some(block.max(1)),
        };
        return Selection::Regular(slabs.into_iter().map(slab).collect());
    }
    if !points.is_empty() {
        return Selection::Points { rank, coordinates: points.into_iter().flatten().collect() };
    }
    if !blocks.is_empty() {
        let corners = blocks.into_iter().flat_map(|(first, last)| first.into_iter().chain(last)).collect();
        return Selection::Blocks { rank, corners };
    }
    // A dataset without axes has one element.
    if rank == 0 { Selection::All } else { Selection::None }
}
