//! HDF5 files.

use crate::formats::local_files;
use crate::nodes::interface::{FileNode, Object};
use crate::{DataFile, Format, Result, settings};
use hyperslab_hdf5::edit::NewFile;
use hyperslab_hdf5::{self as hdf5, File, FileOptions, Libver};
use hyperslab_store::{EditedFile, Store};
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

impl DataFile {
    /// Makes a new HDF5 file. It gets its name at its first flush.
    pub fn create_hdf5(bytes: EditedFile, new: NewFile) -> Result<DataFile> {
        let options = options_around(&bytes);
        Ok(File::create(Arc::new(bytes), new, options)?.into())
    }

    /// Opens an HDF5 file to change it. New objects are for readers from this version on.
    pub fn edit_hdf5(bytes: EditedFile, libver: Libver) -> Result<DataFile> {
        let options = options_around(&bytes);
        Ok(File::edit(Arc::new(bytes), libver, options)?.into())
    }
}

fn options_around(bytes: &EditedFile) -> FileOptions {
    let others = bytes.path().and_then(local_files::around_path);
    FileOptions { verify: settings::verify_checksums(), others }
}

impl FileNode for File {
    fn as_hdf5(&self) -> Option<&File> {
        Some(self)
    }

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
