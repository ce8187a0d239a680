//! HDF5 files.

use crate::formats::local_files;
use crate::nodes::interface::{FileNode, Object};
use crate::{DataFile, Format, Result, settings};
use hyperslab_hdf5::{self as hdf5, File, FileOptions};
use hyperslab_store::Store;
use std::sync::Arc;

/// Opens an object if it is HDF5. If it is a local file, the files it refers to can be opened.
pub(crate) fn open(store: &Arc<dyn Store>, key: &str) -> Result<Option<DataFile>> {
    if !File::is_hdf5(&**store, key)? {
        return Ok(None);
    }
    let others = local_files::around(&**store, key);
    let options = FileOptions { verify: settings::verify_checksums(), others };
    Ok(Some(File::open(store.clone(), key, options)?.into()))
}

impl FileNode for File {
    fn store(&self) -> &Arc<dyn Store> {
        self.source().store()
    }

    fn key(&self) -> &str {
        self.source().key()
    }

    fn format(&self) -> Format {
        Format::Hdf5
    }

    fn id(&self) -> usize {
        // All handles of an open file share one source.
        std::ptr::from_ref(self.source()).addr()
    }

    fn object(&self, path: &str) -> Result<Object> {
        let found = if path.is_empty() { hdf5::Node::Group(self.root()?) } else { self.node(path)? };
        Object::of_hdf5(self, found)
    }

    fn forget(&self) -> Result<bool> {
        Ok(self.refresh()?)
    }

    fn close(&self) {
        File::close(self);
    }
}
