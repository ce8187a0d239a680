//! The place of a new file: unchanged, or a complete file.
//!
//! The file is made under no name, or under a temporary name in the same directory. It gets its name
//! in one step when it is complete. A kill leaves the old file, or none. A file on a server is made in
//! a local file without a name.

use super::unfinished::Unfinished;
use crate::copy::CopyOptions;
use crate::copy::place::resolve_links;
use crate::{Error, Key, Result, settings, stores};
use hyperslab_hdf5::File;
use hyperslab_store::{
    Destination, EditedFile, EditedOptions, Expected, LocalOptions, LocalStore, Replacement, Store,
    StoreError,
};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stores::spool;

/// A place for a new file.
#[derive(Debug)]
pub(super) enum Place {
    Local {
        path: PathBuf,
        store: LocalStore,
        name: String,
        overwrite: bool,
        fsync: bool,
    },
    /// On a server. The file is written here first.
    Far {
        location: String,
        to: Arc<dyn Destination>,
    },
}

impl Place {
    /// Finds the place on a server. `overwrite`: an HDF5 file that is there is replaced.
    pub(super) fn prepare_far(location: &str, options: &CopyOptions<'_>) -> Result<Place> {
        let (store, to) = stores::new_object(location, &options.storage, !options.overwrite)?;
        let refuse = |why: &str| Error::Destination { path: location.into(), why: why.to_owned() };
        if options.overwrite
            && store.size(Key::new(to.key())?)?.is_some()
            && !File::is_hdf5(&*store, to.key())?
        {
            return Err(refuse("it exists and is no HDF5 file; it is not replaced"));
        }
        Ok(Place::Far { location: location.to_owned(), to })
    }

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
        Ok(Place::Local { path: absolute, store, name, overwrite, fsync })
    }

    /// The directory beside which there is room for temporary arrays.
    pub(super) fn beside(&self) -> PathBuf {
        match self {
            Place::Local { path, .. } => path.clone(),
            Place::Far { .. } => std::env::temp_dir().join("hyperslab-copy"),
        }
    }

    /// The name of the file in messages.
    pub(super) fn shown(&self) -> String {
        match self {
            Place::Local { path, .. } => path.display().to_string(),
            Place::Far { location, .. } => location.clone(),
        }
    }

    /// Begins the file. `is_draft`: only a file that [`Place::begin_final`] begins gets the name.
    pub(super) fn begin(&self, is_draft: bool) -> Result<Box<dyn Replacement + '_>> {
        Ok(match self {
            Place::Local { store, name, .. } => store.replace(Key::new(name)?)?,
            Place::Far { to, .. } => {
                Box::new(Unfinished::new(EditedFile::spooled(spool()?, Some(to.clone()), is_draft)))
            }
        })
    }

    /// Begins the file that a draft becomes.
    pub(super) fn begin_final(&self) -> Result<EditedFile> {
        Ok(match self {
            Place::Local { path, overwrite, fsync, .. } => {
                let options = EditedOptions { locks: settings::file_locks(), fsync: *fsync };
                EditedFile::create(path, *overwrite, options)?
            }
            Place::Far { to, .. } => EditedFile::spooled(spool()?, Some(to.clone()), false),
        })
    }

    /// Gives the complete file its name.
    pub(super) fn commit(&self, file: Box<dyn Replacement + '_>) -> Result<()> {
        let refuse = || Error::Destination {
            path: self.shown().into(),
            why: "somebody else has put something there meanwhile".into(),
        };
        match self {
            Place::Local { overwrite: true, .. } => Ok(file.commit()?),
            _ => match file.commit_over(Expected::Absent, None) {
                Ok(true) => Ok(()),
                Ok(false) => Err(refuse()),
                Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
                    Err(refuse())
                }
                Err(error) => Err(error.into()),
            },
        }
    }
}
