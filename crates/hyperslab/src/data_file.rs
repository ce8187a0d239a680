//! Files that hold a whole hierarchy, of either format.

use crate::{Error, Format, Group, Node, hdf5_group};
use hyperslab_hdf5 as hdf5;
use hyperslab_netcdf as netcdf;
use hyperslab_store::{Store, StoreError};
use std::sync::Arc;

/// An open file. Cheap to clone; may be used by many threads at once.
#[derive(Clone, Debug)]
pub enum DataFile {
    /// HDF5, also NetCDF-4.
    Hdf5(hdf5::File),
    /// NetCDF-3.
    NetCdf3(netcdf::File),
}

impl From<hdf5::File> for DataFile {
    fn from(file: hdf5::File) -> Self {
        DataFile::Hdf5(file)
    }
}

impl From<netcdf::File> for DataFile {
    fn from(file: netcdf::File) -> Self {
        DataFile::NetCdf3(file)
    }
}

impl DataFile {
    /// The store that it is in.
    pub fn store(&self) -> &Arc<dyn Store> {
        match self {
            DataFile::Hdf5(file) => file.source().store(),
            DataFile::NetCdf3(file) => file.store(),
        }
    }

    /// Its key there.
    pub fn key(&self) -> &str {
        match self {
            DataFile::Hdf5(file) => file.source().key(),
            DataFile::NetCdf3(file) => file.key(),
        }
    }

    /// Its URL. (The store has that of the directory.)
    pub fn url(&self) -> String {
        format!("{}/{}", self.store().url().trim_end_matches('/'), self.key())
    }

    /// Gives back what it holds open. Arrays and groups in it cannot be read any more.
    pub fn close(&self) {
        match self {
            DataFile::Hdf5(file) => file.close(),
            DataFile::NetCdf3(file) => file.store().close(),
        }
    }

    /// Whether it was not closed.
    pub fn is_open(&self) -> bool {
        self.store().is_open()
    }

    /// Errors where it was closed.
    pub fn check_open(&self) -> Result<(), Error> {
        if self.is_open() {
            return Ok(());
        }
        let (key, url) = (self.key().to_owned(), self.store().url());
        Err(StoreError::Closed { key, url }.into())
    }

    /// The format.
    pub fn format(&self) -> Format {
        match self {
            DataFile::Hdf5(_) => Format::Hdf5,
            DataFile::NetCdf3(_) => Format::NetCdf3,
        }
    }

    /// Whether both are one open file.
    pub fn is(&self, other: &DataFile) -> bool {
        match (self, other) {
            (DataFile::Hdf5(file), DataFile::Hdf5(other)) => file.is(other),
            (DataFile::NetCdf3(file), DataFile::NetCdf3(other)) => file.is(other),
            _ => false,
        }
    }

    /// Opens what is at a path (`""`: the root). Links are followed.
    pub fn open(&self, path: &str) -> Result<Node, Error> {
        let path = path.trim_matches('/');
        match self {
            DataFile::Hdf5(file) if path.is_empty() => Ok(Node::Group(file.root()?.into())),
            DataFile::Hdf5(file) => hdf5_group::node(file, file.node(path)?),
            DataFile::NetCdf3(file) => {
                let root = Group::from(file.clone());
                if path.is_empty() { Ok(Node::Group(root)) } else { root.child(path) }
            }
        }
    }
}
