//! The place of a new file: unchanged, or a complete file.
//!
//! The file is made under no name, or under a temporary name in the same directory. It gets its name
//! in one step when it is complete. A kill leaves the old file, or none.

use crate::copy::place::resolve_links;
use crate::{Error, Key, Result};
use hyperslab_hdf5::File;
use hyperslab_store::{Expected, LocalOptions, LocalStore, Replacement, Store};
use std::fs;
use std::path::{Path, PathBuf};

/// Endings of the names of HDF5 files.
const ENDINGS: [&str; 3] = ["h5", "hdf5", "he5"];

/// Returns `true` if a copy to a path is an HDF5 file: its name says so, and no directory is there.
pub(super) fn is_file_name(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str())) && !path.is_dir()
}

/// A place for a new file.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    store: LocalStore,
    name: String,
    overwrite: bool,
}

impl Place {
    /// `source`: the path of the source, if it is on this machine.
    pub(super) fn prepare(path: &Path, source: Option<&Path>, overwrite: bool, fsync: bool) -> Result<Place> {
        let refuse = |why: &str| Error::Destination { path: path.to_owned(), why: why.to_owned() };
        let absolute = std::path::absolute(path).map_err(|source| Error::Io {
            what: "make",
            path: path.to_owned(),
            source,
        })?;
        let absolute: PathBuf = absolute.components().collect();
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(refuse("it is not the name of a new file"));
        };
        let name = name.to_str().ok_or_else(|| refuse("its name is not UTF-8"))?.to_owned();
        if let Some(source) = source {
            let (source, target) = (resolve_links(source), resolve_links(&absolute));
            if source == target {
                return Err(refuse("it is the source"));
            } else if target.starts_with(&source) {
                return Err(refuse("it lies inside the source"));
            }
        }
        let store = LocalStore::unseen(parent, LocalOptions { fsync, ..LocalOptions::default() })?;
        match fs::symlink_metadata(&absolute) {
            Err(_) => {}
            Ok(_) if !overwrite => return Err(refuse("it exists already; set overwrite to replace it")),
            // Otherwise a typo could replace a file of another kind.
            Ok(_) if !File::is_hdf5(&store, &name)? => {
                return Err(refuse("it exists and is no HDF5 file; it is not replaced"));
            }
            Ok(_) => {}
        }
        Ok(Place { path: absolute, store, name, overwrite })
    }

    /// Begins the file.
    pub(super) fn begin(&self) -> Result<Box<dyn Replacement + '_>> {
        Ok(self.store.replace(Key::new(&self.name)?)?)
    }

    /// Gives the complete file its name.
    pub(super) fn commit(&self, file: Box<dyn Replacement + '_>) -> Result<()> {
        if self.overwrite {
            return Ok(file.commit()?);
        }
        match file.commit_over(Expected::Absent, None)? {
            true => Ok(()),
            false => Err(Error::Destination {
                path: self.path.clone(),
                why: "somebody else has put something there meanwhile".into(),
            }),
        }
    }
}
