//! What is stored at a place.

use crate::{Array, Error, Format, Group, Json, store_at};
use hyperslab_store::Store;
use hyperslab_zarr as zarr;
use std::sync::Arc;

/// An array or a group.
#[derive(Clone, Debug)]
pub enum Node {
    /// An array.
    Array(Array),
    /// A group.
    Group(Group),
}

/// Opens what is stored at a path or `file://` URL, which may also lead to a node inside a hierarchy.
pub fn open(location: &str) -> Result<Node, Error> {
    open_node(&store_at(location)?, "", None)
}

/// Opens what is stored at `path` (`""`: the root) in a store. Without a `format`, it is recognised from what is stored.
pub fn open_node(store: &Arc<dyn Store>, path: &str, format: Option<Format>) -> Result<Node, Error> {
    Ok(zarr::open(store, path, format.map(Into::into))?.into())
}

impl Node {
    /// The array. Errors with [`Error::NodeKind`] if it is a group.
    pub fn into_array(self) -> Result<Array, Error> {
        match self {
            Node::Array(array) => Ok(array),
            Node::Group(group) => Err(Error::NodeKind {
                name: group.name(),
                url: group.store().url(),
                found: "a group",
                wanted: "an array",
            }),
        }
    }

    /// The group. Errors with [`Error::NodeKind`] if it is an array.
    pub fn into_group(self) -> Result<Group, Error> {
        match self {
            Node::Group(group) => Ok(group),
            Node::Array(array) => Err(Error::NodeKind {
                name: array.name(),
                url: array.store().url(),
                found: "an array",
                wanted: "a group",
            }),
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        match self {
            Node::Array(array) => array.store(),
            Node::Group(group) => group.store(),
        }
    }

    /// The path in the store; `""` for the root.
    pub fn path(&self) -> &str {
        match self {
            Node::Array(array) => array.path(),
            Node::Group(group) => group.path(),
        }
    }

    /// The format.
    pub fn format(&self) -> Format {
        match self {
            Node::Array(array) => array.format(),
            Node::Group(group) => group.format(),
        }
    }

    /// The user's attributes, an object.
    pub fn attributes(&self) -> &Json {
        match self {
            Node::Array(array) => array.attributes(),
            Node::Group(group) => group.attributes(),
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
