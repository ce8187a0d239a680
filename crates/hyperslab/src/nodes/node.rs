//! Nodes: arrays or groups at a place.

use crate::joined::Joined;
use crate::nodes::interface::{StoredNode, node_methods};
use crate::open::{self, Location, Mode, Opening, Place};
use crate::{Array, DataFile, Error, Format, Group, Json, Result};
use hyperslab_store::Store;
use hyperslab_zarr as zarr;
use std::borrow::Cow;
use std::sync::Arc;

/// The kind of object that a name in a group leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeKind {
    /// An array.
    Array,
    /// A group.
    Group,
    /// A committed datatype of HDF5: an element type with a name.
    Datatype,
    /// A link of HDF5, with its target: a path, or `file:path` for another file.
    Link(String),
}

impl NodeKind {
    /// "array", "group", "datatype", "link".
    pub fn name(&self) -> &'static str {
        match self {
            NodeKind::Array => "array",
            NodeKind::Group => "group",
            NodeKind::Datatype => "datatype",
            NodeKind::Link(_) => "link",
        }
    }
}

impl From<zarr::NodeKind> for NodeKind {
    fn from(kind: zarr::NodeKind) -> Self {
        match kind {
            zarr::NodeKind::Array => NodeKind::Array,
            zarr::NodeKind::Group => NodeKind::Group,
        }
    }
}

/// An array or a group.
#[derive(Clone, Debug)]
pub enum Node {
    /// An array.
    Array(Array),
    /// A group.
    Group(Group),
}

/// Opens the node at a path or URL.
///
/// The path may lead to a node inside a hierarchy: `ocean.zarr/sst`, `ocean.h5/forcing/wind`. An
/// object may be an HDF5 or NetCDF file. It stays open as long as any of its nodes lives.
pub fn open(location: &str) -> Result<Node> {
    let opening = Opening { mode: Some(Mode::Read), ..Opening::default() };
    open::open(Location::Text(location), &opening)?.into_node()
}

/// Opens the node at `path` (`""`: the root) in a store.
/// The node may be a Zarr node, an object that is an HDF5 or NetCDF file, or a node inside such a
/// file. With a `format`, only opens nodes of that Zarr format.
pub fn open_node(store: &Arc<dyn Store>, path: &str, format: Option<Format>) -> Result<Node> {
    let format = format.map(Format::zarr).transpose()?;
    let opening = Opening { mode: Some(Mode::Read), path, format, ..Opening::default() };
    open::open_in(Place::in_store(store.clone(), "", false), &opening)?.into_node()
}

node_methods!(Node, as_stored_node);

impl Node {
    /// Returns the array. Fails with [`Error::NodeKind`] for a group.
    pub fn into_array(self) -> Result<Array> {
        match self {
            Node::Array(array) => Ok(array),
            ref node => Err(node.not_the_kind("a group", "an array")),
        }
    }

    /// Returns the group. Fails with [`Error::NodeKind`] for an array.
    pub fn into_group(self) -> Result<Group> {
        match self {
            Node::Group(group) => Ok(group),
            ref node => Err(node.not_the_kind("an array", "a group")),
        }
    }

    /// The sources that were joined to this node, if it is a joined one.
    pub(crate) fn as_joined(&self) -> Option<&Arc<Joined>> {
        match self {
            Node::Array(array) => array.as_joined(),
            Node::Group(group) => group.as_joined(),
        }
    }

    fn not_the_kind(&self, found: &'static str, wanted: &'static str) -> Error {
        Error::NodeKind { name: self.name(), url: self.url(), found, wanted }
    }

    /// The common interface of both kinds.
    fn as_stored_node(&self) -> &dyn StoredNode {
        match self {
            Node::Array(array) => array.node(),
            Node::Group(group) => group.node(),
        }
    }
}

impl From<zarr::Node> for Node {
    fn from(node: zarr::Node) -> Self {
        match node {
            zarr::Node::Array(array) => Node::Array(array.into()),
            zarr::Node::Group(group) => Node::Group(group.into()),
        }
    }
}
