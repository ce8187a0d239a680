//! The files that a file refers to: who finds them, and those that are open.

use crate::{File, Hdf5Error, Result, Source};
use hyperslab_store::Store;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

/// How many other files are kept open.
const FILES: usize = 128;

/// A store, and the key of a file in it.
pub type FoundFile = (Arc<dyn Store>, String);

/// Why another file is wanted. The HDF5 library looks in other places for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// An external link leads there.
    Link,
    /// It has a part of a virtual dataset.
    Virtual,
    /// It has the elements of a dataset, as they are (external raw data).
    RawData,
    /// It is a part of this file.
    Member,
}

/// Finds the files that a file refers to (see [`Purpose`]).
pub trait OtherFiles: Debug + Send + Sync {
    /// Finds the file `name` for a purpose. `None`: there is none. Fails with
    /// [`Hdf5Error::Refused`].
    fn find(&self, name: &str, purpose: Purpose) -> Result<Option<FoundFile>>;

    /// Finds the files that `found` refers to. `None`: use this finder.
    fn around(&self, found: &FoundFile) -> Option<Arc<dyn OtherFiles>> {
        let _ = found;
        None
    }
}

/// How a file is opened.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// Whether to verify checksums, and to refuse files that their writer did not close.
    pub verify: bool,
    /// Finds other files; `None`: they are refused.
    pub others: Option<Arc<dyn OtherFiles>>,
}

impl FileOptions {
    /// The place of the file that is called `name` in `file`, which was opened so.
    pub(crate) fn find(&self, file: &Source, name: &str, purpose: Purpose) -> Result<Option<FoundFile>> {
        let Some(others) = &self.others else {
            let part = if purpose == Purpose::Member { "is another member of this file, which " } else { "" };
            let why = format!("it {part}was opened without leave to open others");
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
    /// The file that is called `name` in this one; `None`: there is none. It is opened once.
    pub fn other(&self, name: &str, purpose: Purpose) -> Result<Option<File>> {
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
        // The lock is free before files are closed.
        drop((others, dropped, replaced));
        Ok(Some(file))
    }
}
