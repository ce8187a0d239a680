//! The base class of `hyperslab.Group`.

use crate::array::ArrayHandle;
use crate::create;
use crate::errors;
use crate::hdf5::{self as file, AttributeHandle, DatatypeHandle, Link};
use crate::slot::{Origin, Slot, Stored};
use crate::store::StoreHandle;
use hyperslab::zarr::{self, Consolidation, Format};
use hyperslab::{Array, Error, Group, hdf5};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use std::sync::Arc;

impl Stored for Group {
    fn open(origin: &Origin, path: &str, format: Option<Format>) -> Result<Self, Error> {
        match origin {
            Origin::Store(store) => Ok(zarr::Group::open(store, path, format, Consolidation::Auto)?.into()),
            Origin::Hdf5(file) => hyperslab::open_in_file(file, path)?.into_group(),
        }
    }
}

/// A group to make a `GroupBase` of; perhaps not open yet.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct GroupHandle {
    pub(crate) slot: Arc<Slot<Group>>,
}

impl GroupHandle {
    pub(crate) fn new(group: Group) -> Self {
        let origin = match group.as_hdf5() {
            None => Origin::Store(group.store().clone()),
            Some(group) => Origin::Hdf5(group.file().clone()),
        };
        let format = group.as_zarr().map(zarr::Group::format);
        GroupHandle { slot: Slot::open(origin, group.path().to_owned(), format, group) }
    }
}

#[pymethods]
impl GroupHandle {
    /// A group to be opened when it is first used.
    #[staticmethod]
    fn deferred(store: &StoreHandle, path: String, zarr_format: Option<u32>) -> PyResult<Self> {
        let format = create::format(zarr_format)?;
        Ok(GroupHandle { slot: Slot::deferred(store.origin(), path, format) })
    }

    /// The file that it is in; `None`: it is of Zarr.
    #[getter]
    fn file(&self) -> Option<StoreHandle> {
        self.slot.file().cloned().map(StoreHandle::of_file)
    }
}

/// A node as a handle of its kind.
#[derive(IntoPyObject)]
pub(crate) enum NodeHandle {
    Array(ArrayHandle),
    Group(GroupHandle),
    Datatype(DatatypeHandle),
}

impl From<zarr::Node> for NodeHandle {
    fn from(node: zarr::Node) -> Self {
        match node {
            zarr::Node::Array(array) => NodeHandle::Array(ArrayHandle::new(array.into())),
            zarr::Node::Group(group) => NodeHandle::Group(GroupHandle::new(group.into())),
        }
    }
}

impl NodeHandle {
    /// What is at a path in a file.
    pub(crate) fn in_file(py: Python<'_>, file: &hdf5::File, path: &str) -> PyResult<Self> {
        Self::found(py, file, || match path.trim_matches('/') {
            "" => file.root().map(hdf5::Node::Group),
            path => file.node(path),
        })
    }

    /// What a search in a file finds.
    pub(crate) fn found(
        py: Python<'_>,
        file: &hdf5::File,
        find: impl FnOnce() -> Result<hdf5::Node, hdf5::Hdf5Error> + Send,
    ) -> PyResult<Self> {
        let found = py.detach(|| match find()? {
            hdf5::Node::Group(group) => Ok(NodeHandle::Group(GroupHandle::new(group.into()))),
            hdf5::Node::Dataset(dataset) => {
                Ok(NodeHandle::Array(ArrayHandle::new(Array::try_from(dataset)?)))
            }
            hdf5::Node::Datatype(datatype) => {
                Ok(NodeHandle::Datatype(DatatypeHandle { file: file.clone(), datatype }))
            }
        });
        found.map_err(|error: Error| errors::any(py, &error))
    }
}

/// What Rust does for a group.
#[pyclass(frozen, subclass, module = "hyperslab._native")]
pub(crate) struct GroupBase {
    slot: Arc<Slot<Group>>,
    read_only: bool,
}

impl GroupBase {
    fn writable(&self, py: Python<'_>) -> PyResult<()> {
        if self.read_only {
            let path = self.slot.path();
            let message = match self.slot.file() {
                None => format!(
                    "group '/{path}': store was opened in read-only mode and does not support writing"
                ),
                Some(_) => format!("group '/{path}': HDF5 files are read only so far"),
            };
            return Err(errors::exception(py, "ReadOnlyError", message));
        }
        Ok(())
    }

    fn ask<R: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&Group) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let group = self.slot.get(py)?;
        py.detach(|| question(&group)).map_err(|error| errors::any(py, &error))
    }
}

#[pymethods]
impl GroupBase {
    #[new]
    #[pyo3(signature = (handle, read_only=false))]
    fn new(handle: &GroupHandle, read_only: bool) -> Self {
        GroupBase { slot: handle.slot.clone(), read_only }
    }

    /// What shares this group's state.
    #[getter]
    fn _handle(&self) -> GroupHandle {
        GroupHandle { slot: self.slot.clone() }
    }

    /// Whether changes are refused.
    #[getter]
    fn read_only(&self) -> bool {
        self.read_only
    }

    /// The path in the store; empty for the root.
    #[getter]
    fn path(&self) -> &str {
        self.slot.path()
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
        Ok(self.slot.get(py)?.as_zarr().is_some_and(zarr::Group::is_consolidated))
    }

    /// The attributes, as JSON text.
    #[getter]
    fn _attributes(&self, py: Python<'_>) -> PyResult<String> {
        let group = self.slot.get(py)?;
        let attributes = group.attributes().map_err(|error| errors::any(py, &error))?;
        Ok(attributes.to_text(None))
    }

    /// Replaces all attributes by those of a JSON text.
    fn _set_attributes(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        self.writable(py)?;
        let attributes = create::json(py, "attributes", text)?;
        self.slot.change(py, |group| group.set_attributes(attributes))
    }

    /// Adds or replaces the attributes of a JSON text. The others keep the form in which somebody wrote them.
    fn _update_attributes(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        self.writable(py)?;
        let new = create::json(py, "attributes", text)?;
        self.slot.change(py, |group| {
            let merged = create::merged(&*group.attributes()?, new);
            group.set_attributes(merged)
        })
    }

    /// Removes an attribute; returns whether there was one.
    fn _delete_attribute(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.writable(py)?;
        self.slot.change(py, |group| {
            let mut attributes = group.attributes()?.into_owned();
            let found = attributes.remove(name).is_some();
            if found {
                group.set_attributes(attributes)?;
            }
            Ok(found)
        })
    }

    /// Paths and kinds of the nodes below, at most `depth` levels (1: the direct children).
    #[pyo3(signature = (depth=None))]
    fn _walk(&self, py: Python<'_>, depth: Option<usize>) -> PyResult<Vec<(String, &'static str)>> {
        let nodes = self.ask(py, |group| group.walk(depth))?;
        Ok(nodes.into_iter().map(|(path, kind)| (path, kind.name())).collect())
    }

    fn _child(&self, py: Python<'_>, path: &str) -> PyResult<NodeHandle> {
        let group = self.slot.get(py)?;
        match (group.as_zarr(), group.as_hdf5()) {
            (Some(group), _) => py
                .detach(|| group.child(path))
                .map(NodeHandle::from)
                .map_err(|error| errors::zarr(py, &error)),
            (None, Some(group)) => NodeHandle::found(py, group.file(), || group.child(path)),
            (None, None) => Err(errors::exception(py, "NodeNotFoundError", path)),
        }
    }

    /// "array", "group" or nothing.
    fn _child_kind(&self, py: Python<'_>, path: &str) -> PyResult<Option<&'static str>> {
        self.ask(py, |group| match group.as_zarr() {
            Some(group) => Ok(group.child_kind(path)?.map(|kind| kind.name())),
            None => Ok(None),
        })
    }

    fn _delete_child(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.writable(py)?;
        self.slot.change(py, |group| Ok(group.as_zarr_mut()?.delete_child(path)?))
    }

    fn _consolidate(&self, py: Python<'_>) -> PyResult<()> {
        self.writable(py)?;
        self.slot.change(py, |group| Ok(group.as_zarr_mut()?.consolidate()?))
    }

    /// Reads the metadata again.
    fn _refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.change(py, |group| match group.as_hdf5() {
            None => Ok(group.as_zarr_mut()?.refresh()?),
            Some(found) => {
                let file = hyperslab::reopened(found.file())?;
                *group = hyperslab::open_in_file(&file, found.path())?.into_group()?;
                Ok(())
            }
        })
    }

    /// The attributes of an HDF5 group.
    fn _hdf5_attributes(&self, py: Python<'_>) -> PyResult<Vec<AttributeHandle>> {
        let group = self.slot.get(py)?;
        let Some(group) = group.as_hdf5() else { return Ok(Vec::new()) };
        file::attributes(py, || group.attributes())
    }

    /// The links of an HDF5 group: names, and where they lead.
    fn _hdf5_links(&self, py: Python<'_>) -> PyResult<Vec<(String, Link)>> {
        let links = self.ask(py, |group| match group.as_hdf5() {
            Some(group) => Ok(group.links()?),
            None => Ok(Vec::new()),
        })?;
        Ok(links.into_iter().map(|link| (link.name, Link::from(link.target))).collect())
    }

    /// The link of this name in an HDF5 group.
    fn _hdf5_link(&self, py: Python<'_>, name: &str) -> PyResult<Option<Link>> {
        let link = self.ask(py, |group| match group.as_hdf5() {
            Some(group) => Ok(group.link(name)?),
            None => Ok(None),
        })?;
        Ok(link.map(|link| Link::from(link.target)))
    }

    /// What lies at an address of the file, which a hard link of this name in the group leads to.
    fn _hdf5_object(&self, py: Python<'_>, address: u64, path: &str) -> PyResult<NodeHandle> {
        let group = self.slot.get(py)?;
        match group.as_hdf5() {
            Some(group) => NodeHandle::found(py, group.file(), || group.file().object_at(address, path)),
            None => Err(errors::exception(py, "NodeNotFoundError", path)),
        }
    }

    /// Address of the object header of an HDF5 group.
    fn _hdf5_address(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.slot.get(py)?.as_hdf5().map(hdf5::Group::address))
    }
}
