//! A node that is opened on first use and shared by all its Python objects.

use crate::errors::{self, Failed, OrRaise};
use crate::gil::engine;
use hyperslab::store::fork::RwLock;
use hyperslab::store::turns::{self, Refused};
use hyperslab::store::{Ask, Store, StoreError};
use hyperslab::zarr::{Format, Json};
use hyperslab::{DataFile, Error};
use pyo3::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;

/// The place to open nodes from.
#[derive(Clone)]
pub(crate) enum Origin {
    /// A Zarr hierarchy.
    Store(Arc<dyn Store>),
    /// An open file.
    File(DataFile),
    /// The object at an address of an open HDF5 file.
    Object(DataFile, u64),
}

/// A node that is stored at a path.
pub(crate) trait SlotNode: Clone + Send + Sync {
    /// Kind of the node in messages.
    const KIND: &str;

    fn open(origin: &Origin, path: &str, format: Option<Format>) -> Result<Self, Error>;

    fn attributes(&self) -> Result<Cow<'_, Json>, Error>;

    /// Counts changes of the node in a file that is being changed. A node that was opened at
    /// another number has to be opened again.
    fn edition(&self) -> u64 {
        0
    }

    /// Opens the node again, in a file that is being changed.
    fn open_again(&self) -> Result<Self, Error> {
        Ok(self.clone())
    }

    /// Changes the stored attributes.
    fn change_attributes<R>(
        &mut self,
        ask: Option<Ask<'_>>,
        change: impl FnMut(&mut Json) -> R,
    ) -> Result<R, Error>;
}

/// A node that is opened on first use.
///
/// An unpickled object opens its node on first use, so sending many objects costs nothing. A change
/// (such as a resize) replaces the whole node. Reads that have already begun continue with the old
/// node.
pub(crate) struct Slot<T> {
    origin: Origin,
    path: String,
    format: Option<Format>,
    /// Gated.
    node: RwLock<Option<Held<T>>>,
    /// Number of a turn. Changes are made and published one after the other.
    changing: u64,
}

/// The present state of a node.
struct Held<T> {
    node: Arc<T>,
    /// Counts the states, from 1. Two reads with the same number saw the same node.
    version: u64,
    /// The node's [`SlotNode::edition`] before it was opened.
    edition: u64,
}

impl<T: SlotNode> Held<T> {
    fn new(node: Arc<T>, version: u64) -> Self {
        let edition = node.edition();
        Held { node, version, edition }
    }

    fn first(node: Arc<T>) -> Self {
        Held::new(node, 1)
    }

    /// Returns `true` if the node has changed in its file since it was opened.
    fn is_stale(&self) -> bool {
        self.edition != self.node.edition()
    }
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Self {
        Held { node: self.node.clone(), version: self.version, edition: self.edition }
    }
}

impl<T: SlotNode> Slot<T> {
    /// Holds an open node.
    pub(crate) fn open(origin: Origin, path: String, format: Option<Format>, node: T) -> Arc<Self> {
        let node = RwLock::new(Some(Held::first(Arc::new(node))));
        Arc::new(Slot { origin, path, format, node, changing: turns::number() })
    }

    /// Describes a node that is opened later.
    pub(crate) fn deferred(origin: Origin, path: String, format: Option<Format>) -> Arc<Self> {
        Arc::new(Slot { origin, path, format, node: RwLock::new(None), changing: turns::number() })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The open file that contains the node. `None`: it is a Zarr node.
    pub(crate) fn file(&self) -> Option<&DataFile> {
        match &self.origin {
            Origin::Store(_) => None,
            Origin::File(file) | Origin::Object(file, _) => Some(file),
        }
    }

    /// Refuses changes of a node that was opened for reading.
    pub(crate) fn writable(&self, py: Python<'_>, read_only: bool) -> PyResult<()> {
        if !read_only {
            return Ok(());
        }
        let (kind, path) = (T::KIND, &self.path);
        let message = match self.file() {
            None => {
                format!("{kind} '/{path}': store was opened in read-only mode and does not support writing")
            }
            Some(file) => format!(
                "{kind} '/{path}': {} was opened for reading (no write intent on file): open HDF5 files with \
                 hyperslab.File(path, 'r+')",
                file.url()
            ),
        };
        Err(errors::exception(py, "ReadOnlyError", message))
    }

    /// The file and the address of an object, if they are known without opening the node. Fails if
    /// the file was closed.
    pub(crate) fn object(&self, py: Python<'_>) -> PyResult<Option<(&DataFile, u64)>> {
        let Origin::Object(file, address) = &self.origin else { return Ok(None) };
        file.check_open().or_raise(py)?;
        Ok(Some((file, *address)))
    }

    fn current(&self) -> Option<Held<T>> {
        self.node.read().clone()
    }

    /// Fails if the node is in a file that was closed.
    fn check_open(&self) -> Result<(), Error> {
        self.file().map_or(Ok(()), DataFile::check_open)
    }

    fn get_or_open(&self) -> Result<Held<T>, Error> {
        self.check_open()?;
        match self.current() {
            Some(held) if !held.is_stale() => Ok(held),
            Some(held) => {
                // Asked before the node is opened: a change in between makes it stale again.
                let edition = held.node.edition();
                let node = Arc::new(held.node.open_again()?);
                let new = Held { node, version: held.version + 1, edition };
                // An unused node is freed after the lock.
                let old = self.node.write().replace(new.clone());
                drop(old);
                Ok(new)
            }
            None => {
                let opened = Arc::new(T::open(&self.origin, &self.path, self.format)?);
                // If another thread was faster, its node stays, because it may have been changed
                // since. An unused `opened` is freed after the lock.
                let mut node = self.node.write();
                Ok(node.get_or_insert_with(|| Held::first(opened.clone())).clone())
            }
        }
    }

    /// Returns the node. Opens it on first use.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Arc<T>> {
        self.get_versioned(py).map(|(node, _)| node)
    }

    /// Returns the node and the number of its state. The number changes with the node.
    pub(crate) fn get_versioned(&self, py: Python<'_>) -> PyResult<(Arc<T>, u64)> {
        self.check_open().or_raise(py)?;
        let Held { node, version, .. } = match self.current() {
            Some(held) if !held.is_stale() => held,
            _ => py.detach(|| self.get_or_open()).or_raise(py)?,
        };
        Ok((node, version))
    }

    /// Changes the node without the GIL. After an error, the node stays as `change` left it.
    ///
    /// `change` gets a function that returns `true` if it must stop, and calls it while it waits
    /// for others. A signal handler gets an error if its own thread is already changing the node.
    pub(crate) fn change<R: Send>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut T, Ask<'_>) -> Result<R, Failed> + Send,
    ) -> PyResult<R> {
        let work = |ask: Ask<'_>| {
            let turn = turns::take(self.changing, Some(ask));
            let _turn = turn.map_err(|refused| self.refused_error(refused))?;
            let Held { node, version, .. } = self.get_or_open()?;
            let mut node = T::clone(&*node);
            let result = change(&mut node, ask);
            let new = Held::new(Arc::new(node), version + 1);
            let old = self.node.write().replace(new);
            // Free it after the lock is released.
            drop(old);
            result
        };
        engine::run(py, work)
    }

    fn refused_error(&self, refused: Refused) -> Error {
        let url = match &self.origin {
            Origin::Store(store) => store.url(),
            Origin::File(file) | Origin::Object(file, _) => file.url(),
        };
        let key = self.path.clone();
        Error::Store(match refused {
            Refused::Own => StoreError::Busy { key, url },
            Refused::Stopped => StoreError::Interrupted { key, url },
            Refused::Abandoned => StoreError::Abandoned { key, url },
        })
    }
}
