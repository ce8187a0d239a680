//! NetCDF-3 files. Each file is also its only group.

use crate::formats::netcdf_array::attributes;
use crate::nodes::interface::{Below, FileNode, GroupNode, Object, StoredNode, stored_in_file};
use crate::{Array, DataFile, Error, Format, Group, Json, NodeKind, Result};
use hyperslab_hdf5::LinkTarget;
use hyperslab_netcdf::{File, NewFile, Variable};
use hyperslab_store::{Ask, EditedFile, Store};
use std::borrow::Cow;
use std::sync::Arc;

/// Opens an object if it is NetCDF-3.
pub(crate) fn open(store: &Arc<dyn Store>, key: &str) -> Result<Option<DataFile>> {
    match File::is_netcdf3(&**store, key)? {
        true => Ok(Some(File::open(store.clone(), key)?.into())),
        false => Ok(None),
    }
}

impl DataFile {
    /// Makes a new classic file. It gets its name at its first flush.
    pub fn create_netcdf3(bytes: EditedFile, new: &NewFile) -> Result<DataFile> {
        Ok(File::create(bytes, new)?.into())
    }

    /// Opens a classic file to change its elements, and to add records.
    pub fn edit_netcdf3(bytes: EditedFile) -> Result<DataFile> {
        Ok(File::edit(bytes)?.into())
    }
}

impl FileNode for File {
    fn store(&self) -> &Arc<dyn Store> {
        File::store(self)
    }

    fn key(&self) -> &str {
        File::key(self)
    }

    fn format(&self) -> Format {
        Format::NetCdf3
    }

    fn id(&self) -> usize {
        // All handles of an open file share its state, and with it the address of the store.
        std::ptr::from_ref(File::store(self)).addr()
    }

    fn is_edited(&self) -> bool {
        File::is_edited(self)
    }

    fn flush(&self) -> Result<()> {
        if self.is_edited() { Ok(File::flush(self)?) } else { Ok(()) }
    }

    fn finish(&self) -> Result<()> {
        if self.is_edited() {
            File::finish(self)?;
        }
        self.close();
        Ok(())
    }

    fn object(&self, path: &str) -> Result<Object> {
        if path.is_empty() {
            Ok(Object::Group(Group::from(self.clone())))
        } else {
            GroupNode::object(self, path)
        }
    }
}

stored_in_file!(File, |file|
    file: file,
    path: "",
    attributes: attributes(File::attributes(file)));

impl GroupNode for File {
    fn walk(&self, max_depth: Option<usize>, _: Option<Ask<'_>>) -> Result<Vec<Below>> {
        let below = |(variable, id): (Variable, u64)| Below {
            path: variable.name().to_owned(),
            kind: NodeKind::Array,
            id: Some(id),
            listed: None,
        };
        Ok(match max_depth {
            Some(0) => Vec::new(),
            _ => self.variables().zip(0..).map(below).collect(),
        })
    }

    fn object(&self, path: &str) -> Result<Object> {
        match self.variable(path.trim_start_matches('/')) {
            Some(variable) => Ok(Object::Array(Array::try_from(variable)?)),
            None => {
                Err(Error::NoVariable { file: DataFile::from(self.clone()).url(), name: path.to_owned() })
            }
        }
    }

    fn child_kind(&self, path: &str) -> Result<Option<NodeKind>> {
        Ok(self.variable(path.trim_matches('/')).map(|_| NodeKind::Array))
    }

    /// Presents variables like HDF5: a hard link to each variable's number.
    fn links(&self) -> Result<Vec<(String, LinkTarget)>> {
        let links = self.variables().zip(0..);
        Ok(links.map(|(variable, id)| (variable.name().to_owned(), LinkTarget::Hard(id))).collect())
    }
}
