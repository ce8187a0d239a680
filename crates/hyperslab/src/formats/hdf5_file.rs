//! HDF5 files.

use crate::formats::local_files;
use crate::nodes::interface::{FileNode, Object};
use crate::{DataFile, Error, Format, Result, settings, stores};
use hyperslab_hdf5::edit::NewFile;
use hyperslab_hdf5::{self as hdf5, File, FileOptions, Libver};
use hyperslab_store::{EditedFile, EditedOptions, FileStore, Store};
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

    /// Makes a new HDF5 file at a path or `file://` URL. It gets its name at its first flush. Fails if
    /// there is a file of this name.
    pub(crate) fn create_hdf5_at(location: &str) -> Result<DataFile> {
        let path = stores::local_path(location)?.ok_or_else(|| Error::Location {
            location: location.to_owned(),
            why: "HDF5 files are made on local disks: make the file there, and upload it".into(),
        })?;
        Self::create_hdf5(EditedFile::create(&path, false, edited_options())?, NewFile::default())
    }

    /// Opens the HDF5 file at a path or `file://` URL to change it. `None`: it is no HDF5 file on a
    /// local disk.
    pub(crate) fn edit_hdf5_at(location: &str) -> Result<Option<DataFile>> {
        let Some(path) = stores::local_path(location)? else { return Ok(None) };
        let Some(store) = FileStore::open(&path)? else { return Ok(None) };
        if !File::is_hdf5(&store, store.key())? {
            return Ok(None);
        }
        let Some(bytes) = EditedFile::open(&path, edited_options())? else { return Ok(None) };
        Self::edit_hdf5(bytes, Libver::default()).map(Some)
    }

    /// Opens an HDF5 file to change it. New objects are for readers from this version on.
    pub fn edit_hdf5(bytes: EditedFile, libver: Libver) -> Result<DataFile> {
        let options = options_around(&bytes);
        Ok(File::edit(Arc::new(bytes), libver, options)?.into())
    }
}

fn edited_options() -> EditedOptions {
    EditedOptions { locks: settings::file_locks(), ..EditedOptions::default() }
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

    fn is_edited(&self) -> bool {
        self.editing().is_some()
    }

    fn forget(&self) -> Result<bool> {
        Ok(self.refresh()?)
    }

    fn flush(&self) -> Result<()> {
        Ok(self.editing().map_or(Ok(()), |editing| editing.flush())?)
    }

    fn finish(&self) -> Result<()> {
        if let Some(editing) = self.editing() {
            editing.close()?;
        }
        File::close(self);
        Ok(())
    }

    fn close(&self) {
        File::close(self);
    }
}
