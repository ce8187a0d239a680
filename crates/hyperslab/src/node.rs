//! What is stored at a place.

use crate::{Array, DataFile, Error, Format, Group, Json, local_files, local_path, store_at};
use hyperslab_store::Store;
use hyperslab_zarr as zarr;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

/// What a name in a group stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeKind {
    /// An array.
    Array,
    /// A group.
    Group,
    /// A committed datatype of HDF5: an element type with a name.
    Datatype,
    /// A link of HDF5, and where it leads: a path, or for another file `file:path`.
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

/// Opens what is stored at a path or `file://` URL, which may also lead to a node inside a
/// hierarchy: `ocean.zarr/sst`, `ocean.h5/forcing/wind`.
///
/// A regular file is looked at: it may be HDF5 or NetCDF. It stays open as long as any node of it
/// lives.
pub fn open(location: &str) -> Result<Node, Error> {
    match file_at(location)? {
        Some((file, path)) => file.open(&path),
        None => open_node(&store_at(location)?, "", None),
    }
}

/// The HDF5 or NetCDF file that a path or `file://` URL leads to or into, and the path in it.
/// `None`: something else is there, or nothing.
pub fn file_at(location: &str) -> Result<Option<(DataFile, String)>, Error> {
    file_at_path(&local_path(location)?)
}

/// As [`file_at`], of a path.
pub fn file_at_path(path: &Path) -> Result<Option<(DataFile, String)>, Error> {
    local_files::find(path)
}

/// Opens the Zarr node that is stored at `path` (`""`: the root) in a store. Without a `format`, it
/// is recognised from what is stored.
pub fn open_node(store: &Arc<dyn Store>, path: &str, format: Option<Format>) -> Result<Node, Error> {
    let format = format.map(Format::zarr).transpose()?;
    Ok(zarr::open(store, path, format)?.into())
}

impl Node {
    /// The array. Errors with [`Error::NodeKind`] if it is a group.
    pub fn into_array(self) -> Result<Array, Error> {
        match self {
            Node::Array(array) => Ok(array),
            Node::Group(group) => Err(Error::NodeKind {
                name: group.name(),
                url: group.url(),
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
                url: array.url(),
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

    /// Where the store is, or the file.
    pub fn url(&self) -> String {
        match self {
            Node::Array(array) => array.url(),
            Node::Group(group) => group.url(),
        }
    }

    /// The path in the store, or in the file; `""` for the root.
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
    pub fn attributes(&self) -> Result<Cow<'_, Json>, Error> {
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
