//! Other files that an HDF5 file refers to: a trait that finds them, and a cache of open ones.

use crate::{File, Hdf5Error, Result, Source};
use hyperslab_store::Store;
use std::collections::HashMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

/// Largest number of other files in the cache.
const FILES: usize = 128;

/// A store, and the key of a file in it.
pub type FoundFile = (Arc<dyn Store>, String);

/// The reason to open another file. For each, the HDF5 library looks in other places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// An external link points to it.
    Link,
    /// It holds a part of a virtual dataset.
    Virtual,
    /// It holds the raw elements of a dataset (external raw data).
    RawData,
    /// It is a member of this file.
    Member,
}

/// Finds the files that a file refers to (see [`Purpose`]).
pub trait OtherFiles: Debug + Send + Sync {
    /// Finds the file `name` for a purpose. `None`: it does not exist. Fails with
    /// [`Hdf5Error::Refused`] if it may not be opened.
    fn find(&self, name: &str, purpose: Purpose) -> Result<Option<FoundFile>>;

    /// Returns the path of the file `name`, which need not exist. `None`: there is no path.
    fn place(&self, name: &str, purpose: Purpose) -> Result<Option<PathBuf>> {
        let _ = (name, purpose);
        Ok(None)
    }

    /// Returns the finder for the files that `found` refers to. `None`: use this finder.
    fn around(&self, found: &FoundFile) -> Option<Arc<dyn OtherFiles>> {
        let _ = found;
        None
    }
}

/// Options for opening a file.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// Verify checksums, and refuse files that their writer did not close.
    pub verify: bool,
    /// Finds other files. `None`: other files are refused.
    pub others: Option<Arc<dyn OtherFiles>>,
}

impl FileOptions {
    /// Finds the file called `name` in `file`, which was opened with these options.
    pub(crate) fn find(&self, file: &Source, name: &str, purpose: Purpose) -> Result<Option<FoundFile>> {
        let Some(others) = &self.others else {
            let part =
                if purpose == Purpose::Member { "it is another member of this file, and " } else { "" };
            let why = format!("{part}this file was opened without permission to open other files");
            return Err(Hdf5Error::Refused { file: file.name(), object: None, target: name.into(), why });
        };
        others.find(name, purpose)
    }
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions { verify: true, others: None }
    }
}

impl File {
    /// Returns the path of the file called `name` in this file. It need not exist. `None`: this file is
    /// not on the disk.
    pub fn place_of_other(&self, name: &str, purpose: Purpose) -> Result<Option<PathBuf>> {
        self.options().others.as_ref().map_or(Ok(None), |others| others.place(name, purpose))
    }

    /// Opens the file called `name` in this file, once. `None`: it does not exist.
    pub fn open_other(&self, name: &str, purpose: Purpose) -> Result<Option<File>> {
        let lock = || self.inner.others.lock();
        let key = (name.to_owned(), purpose);
        if let Some(file) = lock().get(&key) {
            return Ok(Some(file.clone()));
        }
        let mut options = self.options().clone();
        let Some(found) = options.find(self.source(), name, purpose)? else { return Ok(None) };
        let around = options.others.as_ref().and_then(|others| others.around(&found));
        options.others = around.or(options.others);
        let file = File::open(found.0, &found.1, options)?;
        let mut others = lock();
        let dropped = if others.len() >= FILES { std::mem::take(&mut *others) } else { HashMap::new() };
        let replaced = others.insert(key, file.clone());
        // Release the lock before files are closed.
        drop((others, dropped, replaced));
        Ok(Some(file))
    }
}
