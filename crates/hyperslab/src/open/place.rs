//! Places: where a node is, or will be.

use crate::open::Mode;
use crate::stores::{self, Reached, StoreOptions};
use crate::{DataFile, Error, Key, Result};
use hyperslab_store::Store;
use std::path::Path;
use std::sync::Arc;

/// A path or URL, as the user wrote it.
#[derive(Clone, Copy, Debug)]
pub enum Location<'l> {
    /// A path or URL.
    Text(&'l str),
    /// A local path that may not be UTF-8.
    Path(&'l Path),
}

impl Location<'_> {
    /// Returns `true` if the location is a local path, and not by its name in an archive or in
    /// references.
    pub(super) fn may_be_directory(self) -> bool {
        match self {
            Location::Text(text) => !text.contains("://") && !stores::names_container(Path::new(text)),
            Location::Path(path) => !stores::names_container(path),
        }
    }

    pub(super) fn reach(self, options: StoreOptions<'_>) -> Result<Reached> {
        match self {
            Location::Text(location) => stores::reach(location, options),
            Location::Path(path) => stores::reach_path(path, options),
        }
    }
}

/// A path in a store, or in an HDF5 or NetCDF file.
#[derive(Clone, Debug)]
pub struct Place {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The file that holds the node, if the place leads into one.
    pub file: Option<DataFile>,
    /// The path in the store or file; `""`: the root.
    pub path: String,
    /// The place accepts no changes.
    pub read_only: bool,
}

impl Place {
    /// The place in a store. `read_only`: the caller wants no changes.
    pub fn in_store(store: Arc<dyn Store>, path: &str, read_only: bool) -> Self {
        let read_only = read_only || !store.facts().is_writable;
        Place { store, file: None, path: plain(path), read_only }
    }

    /// The place in a file.
    pub fn in_file(file: DataFile, path: &str) -> Self {
        Place { store: file.store().clone(), file: Some(file), path: plain(path), read_only: true }
    }

    /// The place that a path or URL leads to.
    ///
    /// With a mode that creates nodes, fails if a file is in the way, or if the name is usual for
    /// files.
    pub fn reach(location: Location<'_>, mode: Option<Mode>, options: StoreOptions<'_>) -> Result<Self> {
        let creates = mode.is_some_and(Mode::creates);
        let reached = location.reach(options)?;
        let file = match reached.file() {
            Err(error @ Error::NotData { .. }) if creates => {
                return Err(Error::FileInTheWay(Box::new(error)));
            }
            file => file?,
        };
        let place = match file {
            Some((file, path)) => Place::in_file(file, &path),
            None => Place::in_store(reached.store, &reached.path, false),
        };
        if creates
            && place.file.is_none()
            && let Some(root) = place.store.local_path(None)
        {
            stores::refuse_file_name(&root).map_err(|error| match error {
                Error::Location { location, why } => Error::FileName { location, why },
                error => error,
            })?;
        }
        Ok(place)
    }

    /// The place at a path below. Fails if the mode does not fit.
    pub fn below(mut self, path: &str, mode: Option<Mode>) -> Result<Self> {
        self.check(mode)?;
        let path = plain(path);
        if !path.is_empty() {
            self.path = if self.path.is_empty() { path } else { format!("{}/{path}", self.path) };
        }
        self.read_only |= mode == Some(Mode::Read);
        Ok(self)
    }

    /// Fails if the mode needs changes and the place accepts none.
    fn check(&self, mode: Option<Mode>) -> Result<()> {
        let Some(mode) = mode.filter(|mode| self.read_only && *mode != Mode::Read) else { return Ok(()) };
        Err(match &self.file {
            Some(file) => Error::FileMode { url: file.url(), format: file.format(), mode },
            None => Error::ReadOnlyStore { mode },
        })
    }

    /// The URL of the store or file.
    pub fn url(&self) -> String {
        self.file.as_ref().map_or_else(|| self.store.url(), DataFile::url)
    }

    /// Fails with [`Error::Occupied`] unless nothing is stored at the place or below.
    pub fn check_empty(&self) -> Result<()> {
        let prefix = if self.path.is_empty() { None } else { Some(Key::new(&self.path)?) };
        match self.store.list_dir(prefix)?.is_empty() {
            true => Ok(()),
            false => Err(Error::Occupied { path: self.path.clone(), url: self.url() }),
        }
    }
}

/// A path without empty components.
fn plain(path: &str) -> String {
    path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}
