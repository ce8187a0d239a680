//! Stores, held by the Python classes `LocalStore` and `MemoryStore`.

use crate::copy::Source as Node;
use crate::errors;
use crate::slot::Origin;
use hyperslab::DataFile;
use hyperslab::store::{Key, LocalOptions, LocalStore, MemoryStore, Store, StoreError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Arc;

/// The largest object that is handed to Python as a whole.
const LARGEST: usize = 1 << 30;

/// A store.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct StoreHandle {
    pub(crate) store: Arc<dyn Store>,
    root: Option<PathBuf>,
    /// The file, if that is all the store has.
    file: Option<DataFile>,
}

impl StoreHandle {
    pub(crate) fn of(store: LocalStore) -> Self {
        StoreHandle { root: Some(store.root().to_owned()), store: Arc::new(store), file: None }
    }

    /// A store of what is under construction.
    pub(crate) fn beside(store: Arc<dyn Store>) -> Self {
        StoreHandle { root: None, store, file: None }
    }

    pub(crate) fn of_file(file: DataFile) -> Self {
        StoreHandle { root: None, store: file.store().clone(), file: Some(file) }
    }

    /// Where nodes are opened from.
    pub(crate) fn origin(&self) -> Origin {
        match &self.file {
            None => Origin::Store(self.store.clone()),
            Some(file) => Origin::File(file.clone()),
        }
    }

    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send,
    ) -> PyResult<T> {
        py.detach(|| work(&*self.store)).map_err(|error| errors::store(py, &error))
    }
}

/// The path that a path or `file://` URL means.
fn path_at(location: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    match location.extract::<String>() {
        Ok(text) => hyperslab::local_path(&text).map_err(|error| errors::any(location.py(), &error)),
        // A path that is not UTF-8 is no URL.
        Err(_) => location.extract(),
    }
}

#[pymethods]
impl StoreHandle {
    /// Files below the directory of a path or `file://` URL.
    #[staticmethod]
    fn at(py: Python<'_>, location: &Bound<'_, PyAny>, fsync: bool) -> PyResult<Self> {
        Self::local(py, path_at(location)?, fsync)
    }

    /// Refuses a name that ends as those of files do, unless there is such a directory.
    #[staticmethod]
    fn refuse_file_name(py: Python<'_>, root: PathBuf) -> PyResult<()> {
        hyperslab::refuse_file_name(&root)
            .map_err(|error| errors::exception(py, "InvalidArgumentError", error.to_string()))
    }

    /// Files below a directory.
    #[staticmethod]
    fn local(py: Python<'_>, root: PathBuf, fsync: bool) -> PyResult<Self> {
        let store = py
            .detach(|| {
                LocalStore::open(&root, LocalOptions { fsync, file_locks: hyperslab::settings::file_locks() })
            })
            .map_err(|error| errors::store(py, &error))?;
        Ok(Self::of(store))
    }

    /// Objects in memory.
    #[staticmethod]
    fn memory() -> Self {
        Self::beside(Arc::new(MemoryStore::new()))
    }

    /// The file of HDF5 or NetCDF at a path or `file://` URL, or above it, and the path in it.
    /// `None`: there is none.
    #[staticmethod]
    fn of_file_at(py: Python<'_>, location: &Bound<'_, PyAny>) -> PyResult<Option<(Self, String)>> {
        let path = path_at(location)?;
        // The environment is read while no other Python thread can change it.
        hyperslab::settings::external_prefixes();
        hyperslab::hdf5::ask_with(crate::engine::ask_in_file);
        let found = py.detach(|| hyperslab::file_at_path(&path)).map_err(|error| errors::any(py, &error))?;
        Ok(found.map(|(file, path)| (Self::of_file(file), path)))
    }

    /// Whether it is the very file that a node was found in.
    fn is_file_of(&self, node: Node<'_>) -> bool {
        let found = match &node {
            Node::Array(handle) => handle.slot.file(),
            Node::Group(handle) => handle.slot.file(),
        };
        self.file.as_ref().zip(found).is_some_and(|(file, found)| file.is(found))
    }

    /// Closes the file, if that is all the store has: what is in it cannot be read any more.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.file.iter().for_each(DataFile::close));
    }

    /// Whether it was not closed.
    #[getter]
    fn is_open(&self) -> bool {
        self.file.as_ref().is_none_or(DataFile::is_open)
    }

    /// Errors where it was closed.
    fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        let checked = self.file.as_ref().map_or(Ok(()), DataFile::check_open);
        checked.map_err(|error| errors::any(py, &error))
    }

    /// The path of the file.
    #[getter]
    fn file_path(&self) -> Option<PathBuf> {
        let file = self.file.as_ref()?;
        Some(hyperslab::local_path(&file.store().url()).ok()?.join(file.key()))
    }

    /// The format of the file.
    #[getter]
    fn file_format(&self) -> Option<String> {
        self.file.as_ref().map(|file| file.format().to_string())
    }

    /// Whether it is one file of HDF5 or NetCDF.
    #[getter]
    fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Where it is.
    #[getter]
    pub(crate) fn url(&self) -> String {
        self.file.as_ref().map_or_else(|| self.store.url(), DataFile::url)
    }

    /// The directory of a local store.
    #[getter]
    fn root(&self) -> Option<PathBuf> {
        self.root.clone()
    }

    /// Whether both reach the same objects.
    fn same(&self, other: &StoreHandle) -> bool {
        Arc::ptr_eq(&self.store, &other.store)
            || self.root.is_some() && self.root == other.root
            || self.file.is_some() && other.file.is_some() && self.url() == other.url()
    }

    /// Whether nothing is stored below a path.
    fn is_empty(&self, py: Python<'_>, path: &str) -> PyResult<bool> {
        self.run(py, |store| {
            let prefix = if path.is_empty() { None } else { Some(Key::new(path)?) };
            Ok(store.list_dir(prefix)?.is_empty())
        })
    }

    /// All keys below a prefix.
    fn list(&self, py: Python<'_>, prefix: &str) -> PyResult<Vec<String>> {
        self.run(py, |store| store.list(if prefix.is_empty() { None } else { Some(Key::new(prefix)?) }))
    }

    /// The bytes of an object.
    fn get<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut bytes = Vec::new();
        let found = self.run(py, |store| store.read_all(Key::new(key)?, &mut bytes, LARGEST))?;
        Ok(found.then(|| PyBytes::new(py, &bytes)))
    }

    /// Creates or replaces an object.
    fn set(&self, py: Python<'_>, key: &str, value: &[u8]) -> PyResult<()> {
        self.run(py, |store| store.write(Key::new(key)?, &[value]))
    }

    /// Deletes an object.
    fn delete(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        self.run(py, |store| store.delete(Key::new(key)?))
    }
}
