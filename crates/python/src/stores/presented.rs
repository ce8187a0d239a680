//! Files that are presented as Zarr, for Python.

use crate::errors::{self, OrRaise};
use crate::nodes::group::GroupBase;
use crate::stores::store::StoreHandle;
use hyperslab::present::{self, PresentOptions, PresentedArray, PresentedNode};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// The objects that an HDF5 or NetCDF file would have as a Zarr v3 directory.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct PresentedFile {
    inner: Arc<present::PresentedFile>,
}

/// Columns of chunks: numbers in C order, offsets and bytes in the file, and whether the bytes are a
/// chunk of Zarr.
type Columns<'py> = (
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<bool>>,
);

impl PresentedFile {
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&present::PresentedFile) -> hyperslab::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| question(&self.inner)).or_raise(py)
    }

    fn array(&self, py: Python<'_>, path: &str) -> PyResult<Arc<PresentedArray>> {
        match self.ask(py, |file| file.node(path))? {
            Some(PresentedNode::Array(array)) => Ok(array),
            _ => Err(errors::exception(py, "ArrayNotFoundError", format!("no array {path:?}"))),
        }
    }
}

#[pymethods]
impl PresentedFile {
    /// `cut`: cut data without chunks into strips. `all`: give all axes names, as netCDF does.
    #[new]
    #[pyo3(signature = (group, *, cut=true, all=false))]
    fn new(py: Python<'_>, group: &GroupBase, cut: bool, all: bool) -> PyResult<Self> {
        let group = group.group(py)?;
        let options = PresentOptions { cut, all_variables: all, ..PresentOptions::default() };
        let inner = py.detach(|| present::PresentedFile::new(&group, options)).or_raise(py)?;
        Ok(PresentedFile { inner: Arc::new(inner) })
    }

    /// The same objects as a store.
    #[getter]
    fn store(&self) -> StoreHandle {
        StoreHandle::of(self.inner.clone())
    }

    /// Bytes of an object from `start` up to `stop`, which is excluded (`None`: to the end).
    /// Clamped to the object. A negative `start` counts from the end.
    fn part<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        start: i64,
        stop: Option<u64>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.ask(py, |file| file.get(key, start, stop))?;
        Ok(found.map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// Size of an object in bytes. `None`: it does not exist.
    fn size(&self, py: Python<'_>, key: &str) -> PyResult<Option<u64>> {
        self.ask(py, |file| file.size(key))
    }

    /// All keys below a path, sorted.
    fn keys(&self, py: Python<'_>, path: &str) -> PyResult<Vec<String>> {
        self.ask(py, |file| file.keys(path))
    }

    /// The names directly below a path, in the order of the file.
    fn names(&self, py: Python<'_>, path: &str) -> PyResult<Vec<String>> {
        let found = self.ask(py, |file| file.names(path))?;
        Ok(found.into_iter().map(|entry| entry.name).collect())
    }

    /// True if the node at a path is an array, false if it is a group. `None`: there is no node.
    fn is_array(&self, py: Python<'_>, path: &str) -> PyResult<Option<bool>> {
        let node = self.ask(py, |file| file.node(path))?;
        Ok(node.map(|node| matches!(node, PresentedNode::Array(_))))
    }

    /// Bytes of all elements of an array.
    fn nbytes(&self, py: Python<'_>, path: &str) -> PyResult<u64> {
        Ok(self.array(py, path)?.nbytes())
    }

    /// The chunks of an array that have bytes. `None`: all of its chunks must be encoded.
    fn chunks<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Option<Columns<'py>>> {
        let array = self.array(py, path)?;
        let found = py.detach(|| array.chunks()).or_raise(py)?;
        let Some(found) = found else { return Ok(None) };
        let place =
            |place: Option<present::FileRange>| place.map_or((0, 0), |place| (place.offset, place.len));
        let rows = || found.iter().copied();
        Ok(Some((
            PyArray1::from_iter(py, rows().map(|(number, _)| number)),
            PyArray1::from_iter(py, rows().map(|(_, found)| place(found).0)),
            PyArray1::from_iter(py, rows().map(|(_, found)| place(found).1)),
            PyArray1::from_iter(py, rows().map(|(_, found)| found.is_some())),
        )))
    }
}
