//! Stores whose objects are files of this machine.

use crate::{Key, Result, Store};
use std::path::PathBuf;

/// Distinguishes a prefix from all others ([`OnDisk::identity`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its device.
    pub device: u64,
    /// Its inode number on the device. A later prefix may get the same number.
    pub number: u64,
    /// Its creation time in seconds and nanoseconds, if the system knows it.
    pub born: (i64, u32),
}

/// A store whose objects are files of this machine ([`Store::on_disk`]).
pub trait OnDisk: Store {
    /// The local path of an object, a prefix or the root (`None`), whether or not it exists.
    ///
    /// For the few tasks that need local files: other files next to it, or a copy that replaces it
    /// in one step. Returns `None`, the default, if it is not on a local disk.
    fn local_path(&self, key: Option<Key<'_>>) -> Option<PathBuf> {
        let _ = key;
        None
    }

    /// Distinguishes a prefix (`None`: the root) from all others, whatever path leads to it.
    ///
    /// Also distinguishes it from earlier and later prefixes at the same place. Walks of a
    /// hierarchy use it to find cycles, and readers to notice that the prefix was replaced. Returns
    /// `None` if there is no such prefix, or if the store cannot tell.
    fn identity(&self, prefix: Option<Key<'_>>) -> Result<Option<Identity>> {
        let _ = prefix;
        Ok(None)
    }
}

/// The defaults, for stores without the capability.
impl OnDisk for dyn Store + '_ {}

/// The methods of [`OnDisk`], for callers that do not care whether a store has the capability.
impl dyn Store + '_ {
    /// See [`OnDisk::local_path`].
    pub fn local_path(&self, key: Option<Key<'_>>) -> Option<PathBuf> {
        match self.on_disk() {
            Some(able) => able.local_path(key),
            None => OnDisk::local_path(self, key),
        }
    }

    /// See [`OnDisk::identity`].
    pub fn identity(&self, prefix: Option<Key<'_>>) -> Result<Option<Identity>> {
        match self.on_disk() {
            Some(able) => able.identity(prefix),
            None => OnDisk::identity(self, prefix),
        }
    }
}
