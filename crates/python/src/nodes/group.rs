//! The base class of `hyperslab.Group`.

use crate::errors::OrRaise;
use crate::gil::engine;
use crate::hdf5::Link;
use crate::hdf5::attributes::{self, AttributeHandle};
use crate::hdf5::references;
use crate::nodes::attributes::StoredAttributes;
use crate::nodes::handles::{ArrayHandle, GroupHandle, NodeHandle};
use crate::nodes::slot::Slot;
use hyperslab::{Error, Group, hdf5, netcdf, zarr};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The native part of a group.
#[pyclass(frozen, subclass, module = "hyperslab._native")]
pub(crate) struct GroupBase {
    slot: Arc<Slot<Group>>,
    read_only: bool,
}

impl GroupBase {
    pub(crate) fn group(&self, py: Python<'_>) -> PyResult<Arc<Group>> {
        self.slot.get(py)
    }

    fn writable(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.writable(py, self.read_only)
    }

    fn ask<R: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&Group) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let group = self.slot.get(py)?;
        py.detach(|| question(&group)).or_raise(py)
    }
}

/// Path, kind, and either the node or the error of opening it.
type OpenedBelow = (String, &'static str, Option<NodeHandle>, Option<PyErr>);

#[pymethods]
impl GroupBase {
    #[new]
    #[pyo3(signature = (handle, read_only=false))]
    fn new(handle: &GroupHandle, read_only: bool) -> Self {
        GroupBase { slot: handle.slot.clone(), read_only }
    }

    /// A handle that shares this group's state.
    #[getter]
    fn _handle(&self) -> GroupHandle {
        GroupHandle { slot: self.slot.clone() }
    }

    /// True if changes are refused.
    #[getter]
    fn read_only(&self) -> bool {
        self.read_only
    }

    /// The path in the store. Empty for the root.
    #[getter]
    fn path(&self) -> &str {
        self.slot.path()
    }

    /// Raises an error if changes are refused.
    fn _check_writable(&self, py: Python<'_>) -> PyResult<()> {
        self.writable(py)
    }

    #[getter]
    fn _zarr_format(&self, py: Python<'_>) -> PyResult<u32> {
        let group = self.slot.get(py)?;
        group.as_zarr().map(|group| group.format().number()).ok_or_else(|| {
            PyAttributeError::new_err(format!(
                "group '{}': only Zarr groups have this, not those of HDF5",
                group.name()
            ))
        })
    }

    #[getter]
    fn _is_consolidated(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.slot.get(py)?.is_consolidated())
    }

    /// The attributes as stored.
    #[getter]
    fn _stored_attributes(&self) -> StoredAttributes {
        StoredAttributes::of(&self.slot, self.read_only)
    }

    /// Paths and kinds of the nodes below, at most `depth` levels (1: the direct children).
    #[pyo3(signature = (depth=None))]
    fn _walk(&self, py: Python<'_>, depth: Option<usize>) -> PyResult<Vec<(String, &'static str)>> {
        let group = self.slot.get(py)?;
        let nodes = engine::run(py, |ask| group.below(depth, Some(ask)))?;
        Ok(nodes.into_iter().map(|below| (below.path, below.kind.name())).collect())
    }

    /// True if requests of the store take so long that several are made at once.
    #[getter]
    fn _is_far(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.slot.get(py)?.as_zarr().is_some_and(|group| group.store().cost().prefers_rounds()))
    }

    /// Like `_walk`, with each node opened as it was found, or the error of opening it.
    #[pyo3(signature = (depth=None))]
    fn _opened(&self, py: Python<'_>, depth: Option<usize>) -> PyResult<Vec<OpenedBelow>> {
        let group = self.slot.get(py)?;
        let nodes = engine::run(py, |ask| group.below(depth, Some(ask)))?;
        let opened = nodes.into_iter().map(|below| {
            let kind = below.kind.name();
            match NodeHandle::open_found(py, || group.open_below(&below)) {
                Ok(node) => (below.path, kind, Some(node), None),
                Err(error) => (below.path, kind, None, Some(error)),
            }
        });
        Ok(opened.collect())
    }

    fn _child(&self, py: Python<'_>, path: &str) -> PyResult<NodeHandle> {
        let group = self.slot.get(py)?;
        NodeHandle::open_found(py, || group.object(path))
    }

    /// "array", "group" or `None`.
    fn _child_kind(&self, py: Python<'_>, path: &str) -> PyResult<Option<&'static str>> {
        self.ask(py, |group| Ok(group.child_kind(path)?.map(|kind| kind.name())))
    }

    fn _delete_child(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.writable(py)?;
        self.slot.change(py, |group, ask| Ok(group.as_zarr_mut()?.delete_child(path, Some(ask))?))
    }

    fn _consolidate(&self, py: Python<'_>) -> PyResult<()> {
        self.writable(py)?;
        self.slot.change(py, |group, ask| Ok(group.as_zarr_mut()?.consolidate(Some(ask))?))
    }

    /// Shows appended rows in the consolidated metadata. Each is a path, an axis, the first new index, and
    /// the longer array.
    ///
    /// Returns `None` if there is no consolidated metadata, else the path of an array whose earlier rows are
    /// not shown yet, or an empty path.
    fn _publish(
        &self,
        py: Python<'_>,
        appended: Vec<(String, usize, u64, PyRef<'_, ArrayHandle>)>,
    ) -> PyResult<Option<String>> {
        let group = self.slot.get(py)?;
        let Some(group) = group.as_zarr() else { return Ok(None) };
        let mut all = Vec::new();
        for (path, axis, first, array) in appended {
            let array = array.slot.get(py)?;
            if let Some(longer) = array.as_zarr() {
                all.push(zarr::Appended { path, axis, first, longer: longer.clone() });
            }
        }
        let published = engine::run(py, |ask| Ok::<_, Error>(group.publish(&all, Some(ask))?))?;
        Ok(match published {
            zarr::Published::Done => Some(String::new()),
            zarr::Published::NotConsolidated => None,
            zarr::Published::Waits(path) => Some(path),
        })
    }

    /// Returns whether another writer has reserved rows before `first`, and has not published them.
    fn _has_unpublished(&self, py: Python<'_>, path: &str, axis: usize, first: u64) -> PyResult<bool> {
        let group = self.slot.get(py)?;
        let Some(group) = group.as_zarr() else { return Ok(false) };
        engine::run(py, |ask| Ok::<_, Error>(group.has_unpublished(path, axis, first, Some(ask))?))
    }

    /// Makes an array as long as the consolidated metadata says, if a writer was killed after it had
    /// published rows.
    fn _catch_up(&self, py: Python<'_>, path: &str, axis: usize) -> PyResult<()> {
        let group = self.slot.get(py)?;
        let Some(group) = group.as_zarr() else { return Ok(()) };
        engine::run(py, |ask| Ok::<_, Error>(group.catch_up(path, axis, Some(ask))?))
    }

    /// If the group has consolidated metadata, adds a new node below it. With `array`, also follows
    /// its later changes.
    #[pyo3(signature = (path, array=None))]
    fn _notice(&self, py: Python<'_>, path: &str, array: Option<&ArrayHandle>) -> PyResult<()> {
        let group = self.slot.get(py)?;
        let Some(group) = group.as_zarr().filter(|group| group.is_consolidated()) else { return Ok(()) };
        match array {
            None => py.detach(|| group.notice(path)).or_raise(py),
            Some(array) => array.slot.change(py, |array, _| Ok(group.adopt(array.as_zarr_mut()?)?)),
        }
    }

    /// Reads the metadata again.
    fn _refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.change(py, |group, _| Ok(group.refresh()?))
    }

    /// The attributes if they are in a file.
    fn _file_attributes(&self, py: Python<'_>) -> PyResult<Vec<AttributeHandle>> {
        attributes::attributes_of_group(py, &*self.slot.get(py)?)
    }

    /// One attribute if it is in a file.
    fn _file_attribute(&self, py: Python<'_>, name: &str) -> PyResult<Option<AttributeHandle>> {
        attributes::attribute_of_group(py, &*self.slot.get(py)?, name)
    }

    /// Returns `true` if the attribute is in a file.
    fn _has_file_attribute(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        attributes::group_has_attribute(py, &*self.slot.get(py)?, name)
    }

    /// The links of a group in a file: names and targets.
    fn _file_links(&self, py: Python<'_>) -> PyResult<Vec<(String, Link)>> {
        let links = self.ask(py, Group::links)?;
        Ok(links.into_iter().map(|(name, target)| (name, Link::from(target))).collect())
    }

    /// The link with this name in a group in a file.
    fn _file_link(&self, py: Python<'_>, name: &str) -> PyResult<Option<Link>> {
        Ok(self.ask(py, |group| group.link(name))?.map(Link::from))
    }

    /// The target of a hard link directly below. Takes its address in the file and its name.
    fn _file_object(&self, py: Python<'_>, address: u64, name: &str) -> PyResult<NodeHandle> {
        let group = self.slot.get(py)?;
        NodeHandle::open_found(py, || group.object_by_id(address, name))
    }

    /// True if an HDF5 group keeps the order of its links.
    fn _tracks_links(&self, py: Python<'_>) -> PyResult<bool> {
        self.ask(py, |group| match group.as_hdf5() {
            Some(group) => Ok(group.tracks_links()?),
            None => Ok(false),
        })
    }

    /// The names that netCDF-C gives to axes of datasets without dimensions, by path.
    ///
    /// Covers the whole file.
    fn _phony_dimensions(&self, py: Python<'_>) -> PyResult<BTreeMap<String, Vec<String>>> {
        self.ask(py, |group| match group.as_hdf5() {
            Some(group) => Ok(netcdf::phony_dimension_names(group.file())?),
            None => Ok(BTreeMap::new()),
        })
    }

    /// A reference to an HDF5 group.
    fn _reference<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        references::to_group(py, &*self.slot.get(py)?)
    }

    /// Bytes of the user block before the HDF5 file.
    fn _user_block(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.slot.get(py)?.as_hdf5().map_or(0, |group| group.file().source().base()))
    }

    /// Address of the object header of an HDF5 group.
    fn _hdf5_address(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.slot.get(py)?.as_hdf5().map(hdf5::Group::address))
    }
}
