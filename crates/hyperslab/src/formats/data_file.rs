//! Objects that hold a whole hierarchy, whatever their format: HDF5, NetCDF.

use crate::formats::{hdf5_file, netcdf_file};
use crate::nodes::interface::{FileNode, Object};
use crate::{Error, Format, Node, Result};
use hyperslab_store::{Key, RangeRead, Store, StoreError};
use std::path::Path;
use std::sync::Arc;

/// Opens an object if it has one particular format.
type Opener = fn(&Arc<dyn Store>, &str) -> Result<Option<DataFile>>;

/// The formats. Formats identified by the first bytes come before those with a searched signature.
const FORMATS: [Opener; 2] = [netcdf_file::open, hdf5_file::open];

/// An open file: a local file, or an object of any other store.
/// Cheap to clone; many threads may use it at once.
#[derive(Clone, Debug)]
pub struct DataFile(Arc<dyn FileNode>);

impl<F: FileNode + 'static> From<F> for DataFile {
    fn from(file: F) -> Self {
        DataFile(Arc::new(file))
    }
}

impl DataFile {
    /// Opens an object. `None`: it is neither HDF5 nor NetCDF, or does not exist.
    pub fn open_object(store: &Arc<dyn Store>, key: &str) -> Result<Option<DataFile>> {
        for open in FORMATS {
            if let Some(file) = open(store, key)? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// Finds the file that contains a path in a store, and the path inside the file.
    /// `None`: no object is there, or it has another format.
    pub fn find(store: &Arc<dyn Store>, path: &str) -> Result<Option<(DataFile, String)>> {
        if path.is_empty() {
            let Some((store, key)) = store.hold_root()? else { return Ok(None) };
            return Ok(Self::open_object(&store, &key)?.map(|file| (file, String::new())));
        }
        let mut above = path;
        while !above.is_empty() {
            // A path that is no valid key has no object.
            if let Ok(key) = Key::new(above)
                && store.exists(key)?
            {
                let inside = path.get(above.len()..).unwrap_or_default().trim_start_matches('/');
                let held = store.hold(key)?;
                let (store, key) = held.as_ref().map_or((store, above), |(store, key)| (store, key));
                return Ok(Self::open_object(store, key)?.map(|file| (file, inside.to_owned())));
            }
            above = above.rsplit_once('/').map_or("", |(above, _)| above);
        }
        Ok(None)
    }

    /// The error for an object of another format; shows its first bytes.
    pub(crate) fn not_data(store: &Arc<dyn Store>, key: &str, name: &Path) -> Result<Error> {
        let key = Key::new(key)?;
        let mut bytes = vec![0; store.size(key)?.unwrap_or_default().min(8) as usize];
        store.read_ranges(key, None, &mut [RangeRead { offset: 0, buf: &mut bytes }])?;
        let why = match bytes.is_empty() {
            true => "it is empty".into(),
            false => format!("it begins with \"{}\", and has no signature farther on", bytes.escape_ascii()),
        };
        Ok(Error::NotData { path: name.to_owned(), why })
    }

    /// The store of the file.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.0.store()
    }

    /// The file's key in its store.
    pub fn key(&self) -> &str {
        self.0.key()
    }

    /// The file's URL. (The URL of the store is the directory's.)
    pub fn url(&self) -> String {
        format!("{}/{}", self.store().url().trim_end_matches('/'), self.key())
    }

    /// Makes changes permanent, and visible to other programs.
    pub fn flush(&self) -> Result<()> {
        self.0.flush()
    }

    /// Flushes, gives back unused space at the end of the file, and closes it. After an error it is
    /// open.
    pub fn finish(&self) -> Result<()> {
        self.0.finish()
    }

    /// Closes the file. Afterwards its arrays and groups cannot be read. Changes since the last flush
    /// are lost.
    pub fn close(&self) {
        self.0.close();
    }

    /// Returns `true` if the file has not been closed.
    pub fn is_open(&self) -> bool {
        self.store().is_open()
    }

    /// Fails if the file has been closed.
    pub fn check_open(&self) -> Result<()> {
        if self.is_open() {
            return Ok(());
        }
        let (key, url) = (self.key().to_owned(), self.store().url());
        Err(StoreError::Closed { key, url }.into())
    }

    /// Returns `true` if the file is being changed.
    pub fn is_edited(&self) -> bool {
        self.0.is_edited()
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.0.format()
    }

    /// The HDF5 file. `None` for other formats.
    pub fn as_hdf5(&self) -> Option<&hyperslab_hdf5::File> {
        self.0.as_hdf5()
    }

    /// Returns `true` if both are the same open file.
    pub fn is(&self, other: &DataFile) -> bool {
        self.format() == other.format() && self.0.id() == other.0.id()
    }

    /// Opens the node at a path (`""`: the root). Follows links.
    pub fn open(&self, path: &str) -> Result<Node> {
        self.object(path)?.into_node()
    }

    /// Opens the node at an address of an HDF5 file. In other files, opens the one at its path.
    pub fn open_at(&self, address: u64, path: &str) -> Result<Node> {
        self.check_open()?;
        match self.as_hdf5() {
            Some(file) => Object::of_hdf5(file, file.object_at(address, path)?)?.into_node(),
            None => self.open(path),
        }
    }

    /// Like [`DataFile::open`], but also finds committed datatypes.
    pub fn object(&self, path: &str) -> Result<Object> {
        self.check_open()?;
        self.0.object(path.trim_matches('/'))
    }

    /// The file in its current state, forgetting everything read so far.
    /// Returns the same open file if it has not been replaced, otherwise [`DataFile::reopened`].
    pub fn refreshed(&self) -> Result<DataFile> {
        if self.store().is_current() && self.0.forget()? {
            return Ok(self.clone());
        }
        self.reopened()
    }

    /// Opens the file again, forgetting everything read so far.
    pub fn reopened(&self) -> Result<DataFile> {
        if let Some((store, key)) = self.store().hold(Key::new(self.key())?)?
            && let Some(file) = Self::open_object(&store, &key)?
        {
            return Ok(file);
        }
        match Self::open_object(self.store(), self.key())? {
            Some(file) => Ok(file),
            None => Err(Self::not_data(self.store(), self.key(), Path::new(self.key()))?),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::stores::reach_path;

    #[test]
    fn files_of_other_formats() {
        let root = tempfile::tempdir().unwrap();
        for (name, bytes, why) in
            [("a.txt", "hello, world", "\"hello, w\""), ("b.h5", "", "it is empty"), ("c", "ab", "\"ab\"")]
        {
            let path = root.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            for path in [path.clone(), path.join("x/y")] {
                let error = reach_path(&path, Default::default()).unwrap().file().unwrap_err().to_string();
                assert!(error.contains(why) && error.contains("neither HDF5 nor NetCDF"), "{error}");
            }
        }
        let none = reach_path(&root.path().join("none"), Default::default()).unwrap();
        assert!(none.file().unwrap().is_none());
    }
}
