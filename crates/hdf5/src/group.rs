//! Groups: links by name.

use crate::{Attribute, File, Hdf5Error, Node};

/// Where a link leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkTarget {
    /// To the object header at this address.
    Hard(u64),
    /// To this path.
    Soft(String),
    /// To a path in another file.
    External {
        /// The file's name.
        file: String,
        /// The path in it.
        path: String,
    },
    /// Of a kind that only its writer knows (link type 65 to 255).
    UserDefined(u8),
}

/// A link of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Where it leads.
    pub target: LinkTarget,
    /// When it was made, among the links of its group, if the group keeps that.
    pub creation_order: Option<i64>,
}

/// A group of an open file.
#[derive(Clone, Debug)]
pub struct Group {
    file: File,
    path: String,
    address: u64,
}

impl Group {
    /// The file that it is in (another than the one that was opened, behind an external link).
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The path by which it was reached, without the leading `/`; empty for the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Address of its object header: equal for two names of the same group.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its links, sorted by name; by creation order where the group says that it keeps an index of that (as h5py).
    pub fn links(&self) -> Result<Vec<Link>, Hdf5Error> {
        Ok(Vec::new())
    }

    /// The link of this name.
    pub fn link(&self, name: &str) -> Result<Option<Link>, Hdf5Error> {
        Ok(self.links()?.into_iter().find(|link| link.name == name))
    }

    /// The object at a path relative to this group (from the root if it begins with `/`); links are followed. Errors with [`Hdf5Error::NotFound`] where
    /// nothing is there or a link leads nowhere, and where links lead in a circle.
    pub fn child(&self, path: &str) -> Result<Node, Hdf5Error> {
        Err(Hdf5Error::NotFound { file: self.file.source().name(), path: path.into(), why: None })
    }

    /// Its attributes, sorted by name (by creation order where that is indexed).
    pub fn attributes(&self) -> Result<Vec<Attribute>, Hdf5Error> {
        Ok(Vec::new())
    }
}
