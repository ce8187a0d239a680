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
use hyperslab_netcdf::NetcdfError;
use hyperslab_store::{
    Destination, EditedFile, EditedOptions, Expected, LocalOptions, LocalStore, Replacement, Store,
    StoreError,
};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stores::spool;

const OTHER_FILE: &str = "it exists and is no HDF5 file and no NetCDF file; it is not replaced";

/// Returns `true` if an object is a file that a copy may replace.
fn is_data_file(store: &dyn Store, key: &str) -> Result<bool> {
    Ok(File::is_hdf5(store, key)? || hyperslab_netcdf::File::is_netcdf3(store, key)?)
}

/// A place for a new file.
#[derive(Debug)]
pub(in crate::copy) enum Place {
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
    pub(in crate::copy) fn prepare_far(location: &str, options: &CopyOptions<'_>) -> Result<Place> {
        let (store, to) = stores::new_object(location, &options.storage, !options.overwrite)?;
        let refuse = |why: &str| Error::Destination { path: location.into(), why: why.to_owned() };
        if options.overwrite
            && store.size(Key::new(to.key())?)?.is_some()
            && !is_data_file(&*store, to.key())?
        {
            return Err(refuse(OTHER_FILE));
        }
        Ok(Place::Far { location: location.to_owned(), to })
    }

    /// `source`: the path of the source, if it is on this machine.
    pub(in crate::copy) fn prepare(
        path: &Path,
        source: Option<&Path>,
        overwrite: bool,
        fsync: bool,
    ) -> Result<Place> {
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
            Ok(_) if !is_data_file(&store, &name)? => return Err(refuse(OTHER_FILE)),
            Ok(_) => {}
        }
        Ok(Place::Local { path: absolute, store, name, overwrite, fsync })
    }

    /// The directory beside which there is room for temporary arrays.
    pub(in crate::copy) fn beside(&self) -> PathBuf {
        match self {
            Place::Local { path, .. } => path.clone(),
            Place::Far { .. } => std::env::temp_dir().join("hyperslab-copy"),
        }
    }

    /// The name of the file in messages.
    pub(in crate::copy) fn shown(&self) -> String {
        match self {
            Place::Local { path, .. } => path.display().to_string(),
            Place::Far { location, .. } => location.clone(),
        }
    }

    /// Begins the file. `is_draft`: only a file that [`Place::begin_final`] begins gets the name.
    pub(in crate::copy) fn begin(&self, is_draft: bool) -> Result<Box<dyn Replacement + '_>> {
        Ok(match self {
            Place::Local { store, name, .. } => store.replace(Key::new(name)?)?,
            Place::Far { to, .. } => {
                Box::new(Unfinished::new(EditedFile::spooled(spool()?, Some(to.clone()), is_draft)))
            }
        })
    }

    /// Begins the file that a draft becomes.
    pub(in crate::copy) fn begin_final(&self) -> Result<EditedFile> {
        Ok(match self {
            Place::Local { path, overwrite, fsync, .. } => {
                let options = EditedOptions { locks: settings::file_locks(), fsync: *fsync };
                EditedFile::create(path, *overwrite, options)?
            }
            Place::Far { to, .. } => EditedFile::spooled(spool()?, Some(to.clone()), false),
        })
    }

    /// Gives the complete file its name.
    pub(in crate::copy) fn commit(&self, file: Box<dyn Replacement + '_>) -> Result<()> {
        self.finish(|| match self {
            Place::Local { overwrite: true, .. } => Ok(file.commit()?),
            _ => match file.commit_over(Expected::Absent, None)? {
                true => Ok(()),
                false => Err(self.taken()),
            },
        })
    }

    /// Calls the last step of a file, and explains its error.
    pub(in crate::copy) fn finish(&self, commit: impl FnOnce() -> Result<()>) -> Result<()> {
        let io = |error: &Error| match error {
            Error::Store(StoreError::Io { source, .. })
            | Error::Netcdf(NetcdfError::Store(StoreError::Io { source, .. })) => {
                source.kind() == ErrorKind::AlreadyExists
            }
            _ => false,
        };
        let replaces = matches!(self, Place::Local { overwrite: true, .. });
        commit().map_err(|error| if !replaces && io(&error) { self.taken() } else { error })
    }

    fn taken(&self) -> Error {
        Error::Destination {
            path: self.shown().into(),
            why: "somebody else has put something there meanwhile".into(),
        }
    }
}
