//! Groups: nodes that hold arrays and other groups.

use crate::{Array, Error, Format, GroupInfo, Json, Node, store_at};
use hyperslab_store::Store;
use hyperslab_zarr::{self as zarr, ArraySpec, NodeKind};
use std::sync::Arc;

/// A group in a store.
#[derive(Clone, Debug)]
pub struct Group(zarr::Group);

impl From<zarr::Group> for Group {
    fn from(group: zarr::Group) -> Self {
        Group(group)
    }
}

impl Group {
    /// Opens the group at a path or `file://` URL.
    pub fn open(location: &str) -> Result<Group, Error> {
        crate::open(location)?.into_group()
    }

    /// Creates a group at a path or `file://` URL. An array or group that is there is an error.
    pub fn create(location: &str, format: Format) -> Result<Group, Error> {
        let store = store_at(location)?;
        Ok(Group(zarr::Group::create(store, "", format.into(), Json::object(), false)?))
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.0.store()
    }

    /// The path in the store; `""` for the root.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// `/` and the path.
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.0.format().into()
    }

    /// The user's attributes, an object.
    pub fn attributes(&self) -> &Json {
        self.0.attributes()
    }

    /// Replaces the attributes, atomically.
    pub fn set_attributes(&mut self, attributes: Json) -> Result<(), Error> {
        Ok(self.0.set_attributes(attributes)?)
    }

    /// The names of the nodes directly below, sorted, and what they are.
    pub fn children(&self) -> Result<Vec<(String, NodeKind)>, Error> {
        Ok(self.0.children()?)
    }

    /// The paths (relative to this group) of all nodes below, down to `max_depth` levels, and what they are. A group is followed by what is in it.
    pub fn walk(&self, max_depth: Option<usize>) -> Result<Vec<(String, NodeKind)>, Error> {
        Ok(self.0.walk(max_depth)?)
    }

    /// The node of this name or relative path.
    pub fn child(&self, name: &str) -> Result<Node, Error> {
        Ok(self.0.child(name)?.into())
    }

    /// The array of this name or relative path.
    pub fn array(&self, name: &str) -> Result<Array, Error> {
        self.child(name)?.into_array()
    }

    /// The group of this name or relative path.
    pub fn group(&self, name: &str) -> Result<Group, Error> {
        self.child(name)?.into_group()
    }

    /// Creates a group below this one, of the same format. An array or group of that name is an error.
    pub fn create_group(&self, name: &str, attributes: Json) -> Result<Group, Error> {
        let path = self.below(name)?;
        Ok(Group(zarr::Group::create(self.store().clone(), &path, self.0.format(), attributes, false)?))
    }

    /// Creates an array below this group. An array or group of that name is an error.
    pub fn create_array(&self, name: &str, spec: &ArraySpec) -> Result<Array, Error> {
        let path = self.below(name)?;
        Ok(zarr::Array::create(self.store().clone(), &path, spec.clone(), false)?.into())
    }

    /// All facts about the group. Visits all nodes below it and counts their chunks, which lists the store.
    pub fn info(&self) -> Result<GroupInfo, Error> {
        GroupInfo::new(self)
    }

    /// The group as its format sees it.
    pub fn as_zarr(&self) -> &zarr::Group {
        &self.0
    }

    /// The group as its format sees it, to be changed.
    pub fn as_zarr_mut(&mut self) -> &mut zarr::Group {
        &mut self.0
    }

    fn below(&self, name: &str) -> Result<String, Error> {
        let relative = zarr::normalize_path(name)?;
        Ok(if self.path().is_empty() { relative } else { format!("{}/{relative}", self.path()) })
    }
}
