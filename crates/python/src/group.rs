//! The base class of `hyperslab.Group`.

use crate::array::ArrayHandle;
use crate::create;
use crate::errors;
use crate::slot::{Slot, Stored};
use crate::store::StoreHandle;
use hyperslab::store::Store;
use hyperslab::zarr::{Consolidation, Format, Group, Node, ZarrError};
use pyo3::prelude::*;
use std::sync::Arc;

impl Stored for Group {
    fn open(store: &Arc<dyn Store>, path: &str, format: Option<Format>) -> Result<Self, ZarrError> {
        Group::open(store, path, format, Consolidation::Auto)
    }
}

/// A group to make a `GroupBase` of; perhaps not open yet.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct GroupHandle {
    pub(crate) slot: Arc<Slot<Group>>,
}

impl GroupHandle {
    pub(crate) fn new(group: Group) -> Self {
        let (store, path, format) = (group.store().clone(), group.path().to_owned(), group.format());
        GroupHandle { slot: Slot::open(store, path, format, group) }
    }
}

#[pymethods]
impl GroupHandle {
    /// A group to be opened when it is first used.
    #[staticmethod]
    fn deferred(store: &StoreHandle, path: String, zarr_format: Option<u32>) -> PyResult<Self> {
        let format = create::format(zarr_format)?;
        Ok(GroupHandle { slot: Slot::deferred(store.store.clone(), path, format) })
    }
}

/// A node as a handle of its kind.
#[derive(IntoPyObject)]
pub(crate) enum NodeHandle {
    Array(ArrayHandle),
    Group(GroupHandle),
}

impl From<Node> for NodeHandle {
    fn from(node: Node) -> Self {
        match node {
            Node::Array(array) => NodeHandle::Array(ArrayHandle::new(array)),
            Node::Group(group) => NodeHandle::Group(GroupHandle::new(group)),
        }
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
            let message = format!(
                "group '/{}': store was opened in read-only mode and does not support writing",
                self.slot.path()
            );
            return Err(errors::exception(py, "ReadOnlyError", message));
        }
        Ok(())
    }

    fn ask<R: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&Group) -> Result<R, ZarrError> + Send,
    ) -> PyResult<R> {
        let group = self.slot.get(py)?;
        py.detach(|| question(&group)).map_err(|error| errors::zarr(py, &error))
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
        Ok(self.slot.get(py)?.format().number())
    }

    #[getter]
    fn _is_consolidated(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.slot.get(py)?.is_consolidated())
    }

    /// The attributes, as JSON text.
    #[getter]
    fn _attributes(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.slot.get(py)?.attributes().to_text(None))
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
        self.slot.change(py, |group| group.set_attributes(create::merged(group.attributes(), new)))
    }

    /// Removes an attribute; returns whether there was one.
    fn _delete_attribute(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.writable(py)?;
        self.slot.change(py, |group| {
            let mut attributes = group.attributes().clone();
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
        self.ask(py, |group| group.child(path)).map(NodeHandle::from)
    }

    /// "array", "group" or nothing.
    fn _child_kind(&self, py: Python<'_>, path: &str) -> PyResult<Option<&'static str>> {
        Ok(self.ask(py, |group| group.child_kind(path))?.map(|kind| kind.name()))
    }

    fn _delete_child(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.writable(py)?;
        self.slot.change(py, |group| group.delete_child(path))
    }

    fn _consolidate(&self, py: Python<'_>) -> PyResult<()> {
        self.writable(py)?;
        self.slot.change(py, Group::consolidate)
    }

    /// Reads the metadata again.
    fn _refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.change(py, Group::refresh)
    }
}
