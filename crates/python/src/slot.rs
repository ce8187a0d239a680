//! A node that is opened when it is first needed, and shared by all its Python objects.

use crate::errors;
use hyperslab::store::Store;
use hyperslab::zarr::{Format, Json};
use hyperslab::{DataFile, Error};
use pyo3::prelude::*;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Where nodes are opened from.
#[derive(Clone)]
pub(crate) enum Origin {
    /// A hierarchy of Zarr.
    Store(Arc<dyn Store>),
    /// An open file.
    File(DataFile),
}

/// Something that is stored at a path.
pub(crate) trait Stored: Clone + Send + Sync {
    /// What messages call it.
    const KIND: &str;

    fn open(origin: &Origin, path: &str, format: Option<Format>) -> Result<Self, Error>;

    fn attributes(&self) -> Result<Cow<'_, Json>, Error>;

    fn set_attributes(&mut self, attributes: Json) -> Result<(), Error>;
}

/// An unpickled object opens its node on first use, so that sending many costs nothing. Changes (a resize) replace the
/// node whole: reads under way go on with the one that they began with.
pub(crate) struct Slot<T> {
    origin: Origin,
    path: String,
    format: Option<Format>,
    node: RwLock<Option<Arc<T>>>,
    changing: Mutex<()>,
}

impl<T: Stored> Slot<T> {
    /// An open node.
    pub(crate) fn open(origin: Origin, path: String, format: Option<Format>, node: T) -> Arc<Self> {
        let node = RwLock::new(Some(Arc::new(node)));
        Arc::new(Slot { origin, path, format, node, changing: Mutex::new(()) })
    }

    /// A node to be opened later.
    pub(crate) fn deferred(origin: Origin, path: String, format: Option<Format>) -> Arc<Self> {
        Arc::new(Slot { origin, path, format, node: RwLock::new(None), changing: Mutex::new(()) })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The open file that it is in; `None`: it is of Zarr.
    pub(crate) fn file(&self) -> Option<&DataFile> {
        match &self.origin {
            Origin::Store(_) => None,
            Origin::File(file) => Some(file),
        }
    }

    /// Refuses changes of what was opened for reading.
    pub(crate) fn writable(&self, py: Python<'_>, read_only: bool) -> PyResult<()> {
        if !read_only {
            return Ok(());
        }
        let (kind, path) = (T::KIND, &self.path);
        let message = match self.file() {
            None => {
                format!("{kind} '/{path}': store was opened in read-only mode and does not support writing")
            }
            Some(file) => format!("{kind} '/{path}': {} files are read only so far", file.format()),
        };
        Err(errors::exception(py, "ReadOnlyError", message))
    }

    fn current(&self) -> Option<Arc<T>> {
        self.node.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Refuses what is in a file that was closed.
    fn check_open(&self) -> Result<(), Error> {
        self.file().map_or(Ok(()), DataFile::check_open)
    }

    fn get_or_open(&self) -> Result<Arc<T>, Error> {
        self.check_open()?;
        match self.current() {
            Some(node) => Ok(node),
            None => {
                let opened = Arc::new(T::open(&self.origin, &self.path, self.format)?);
                // Where another thread was faster, its node stays: it may have been changed since.
                let mut node = self.node.write().unwrap_or_else(PoisonError::into_inner);
                Ok(node.get_or_insert(opened).clone())
            }
        }
    }

    /// The node, opened now if it is not yet.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Arc<T>> {
        self.check_open().map_err(|error| errors::any(py, &error))?;
        match self.current() {
            Some(node) => Ok(node),
            None => py.detach(|| self.get_or_open()).map_err(|error| errors::any(py, &error)),
        }
    }

    /// Changes the node; where that fails it stays as it was. Without the GIL: no lock here is ever held while waiting for that.
    pub(crate) fn change<R: Send>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut T) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        py.detach(|| {
            let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
            let mut node = T::clone(&*self.get_or_open()?);
            let result = change(&mut node)?;
            *self.node.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(node));
            Ok(result)
        })
        .map_err(|error: Error| errors::any(py, &error))
    }
}
