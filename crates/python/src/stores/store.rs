//! Stores, held by the Python class `Store` and its subclasses.

use crate::errors::{self, OrRaise};
use crate::hdf5::editor::Editor;
use crate::jobs::copy::Source as Node;
use crate::nodes::slot::Origin;
use crate::stores::mapping::MappingStore;
use crate::stores::zarr::{Traits, ZarrStore};
use hyperslab::open::Place;
use hyperslab::store::{
    Key, LocalOptions, LocalStore, MemoryStore, RangeRead, Store, StoreError, ZipMode, ZipStore,
};
use hyperslab::stores::{self, StoreOptions};
use hyperslab::{DataFile, remote, settings};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;

/// Largest object in bytes that Python gets as a whole.
const LARGEST: usize = 1 << 30;

/// A store.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct StoreHandle {
    pub(crate) store: Arc<dyn Store>,
    /// The file, if the store is a single file.
    file: Option<DataFile>,
    /// The location from which the store was opened, if it contains a secret.
    secret: Option<String>,
}

impl StoreHandle {
    pub(crate) fn of(store: Arc<dyn Store>) -> Self {
        StoreHandle { store, file: None, secret: None }
    }

    pub(crate) fn of_file(file: DataFile) -> Self {
        StoreHandle { store: file.store().clone(), file: Some(file), secret: None }
    }

    /// The handle of a place's store. `given`: the location from which it was opened.
    pub(crate) fn of_place(place: &Place, given: Option<&str>) -> Self {
        let handle = match &place.file {
            Some(file) => Self::of_file(file.clone()),
            None => Self::of(place.store.clone()),
        };
        let secret = given.filter(|location| remote::has_secret(location)).map(str::to_owned);
        StoreHandle { secret, ..handle }
    }

    /// The file, if the store is a single file.
    pub(crate) fn file(&self) -> Option<&DataFile> {
        self.file.as_ref()
    }

    /// The place at a path in this store.
    pub(crate) fn place(&self, path: &str, read_only: bool) -> Place {
        match &self.file {
            Some(file) => Place::in_file(file.clone(), path),
            None => Place::in_store(self.store.clone(), path, read_only),
        }
    }

    /// The place to open nodes from.
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
        py.detach(|| work(&*self.store)).or_raise(py)
    }
}

#[pymethods]
impl StoreHandle {
    /// True if the location of the store contains a user or a signature.
    #[getter]
    fn has_secret_url(&self) -> bool {
        self.secret.is_some()
    }

    /// The URL with its secrets: a user, a signature.
    #[getter]
    fn secret_url(&self) -> String {
        let url = self.url();
        self.secret.as_ref().map_or_else(|| url.clone(), |given| remote::with_secret_of(&url, given))
    }

    /// The HDF5 or NetCDF file at or above a path in this store, and the path in that file.
    fn file_at(&self, py: Python<'_>, path: &str) -> PyResult<Option<(Self, String)>> {
        if self.file.is_some() {
            return Ok(None);
        }
        prepare_files();
        let found = py.detach(|| DataFile::find(&self.store, path)).or_raise(py)?;
        Ok(found.map(|(file, path)| (Self::of_file(file), path)))
    }

    /// Files below the directory of a path or `file://` URL.
    #[staticmethod]
    fn local(py: Python<'_>, location: &Bound<'_, PyAny>, fsync: bool) -> PyResult<Self> {
        let path = match location.extract::<String>() {
            Ok(text) => stores::local_path(&text).or_raise(py)?,
            Err(_) => Some(location.extract()?),
        };
        let Some(path) = path else {
            let message = "a LocalStore is a directory: give a path or a file:// URL";
            return Err(errors::exception(py, "UnsupportedError", message));
        };
        let options = LocalOptions { fsync, file_locks: settings::file_locks() };
        let store = py.detach(|| LocalStore::open(path, options)).or_raise(py)?;
        Ok(Self::of(Arc::new(store)))
    }

    /// The zip archive at a path or URL. `storage`: credentials and settings of a server.
    #[staticmethod]
    #[pyo3(signature = (location, mode, fsync, storage=Vec::new()))]
    fn zip(
        py: Python<'_>,
        location: &Bound<'_, PyAny>,
        mode: &str,
        fsync: bool,
        storage: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let mode = match mode {
            "w" => ZipMode::Write,
            "a" => ZipMode::Append,
            "x" => ZipMode::Create,
            _ => ZipMode::Read,
        };
        let path = match location.extract::<String>() {
            Ok(text) => stores::archive_path(&text).or_raise(py)?.ok_or(text),
            Err(_) => Ok(location.extract()?),
        };
        let path = match path {
            Ok(path) => path,
            Err(_) if mode != ZipMode::Read => {
                let message = "archives are written on the local disk only: give a path or a file:// URL";
                return Err(errors::exception(py, "UnsupportedError", message));
            }
            Err(text) => {
                let text = if text.starts_with("zip://") { text } else { format!("zip://::{text}") };
                let options = StoreOptions { storage: &storage, ..StoreOptions::default() };
                let found = py.detach(|| stores::reach(&text, options)).or_raise(py)?;
                let secret = Some(text).filter(|text| remote::has_secret(text));
                return Ok(StoreHandle { secret, ..Self::of(found.store) });
            }
        };
        if !storage.is_empty() {
            let message = "storage_options are for archives on servers";
            return Err(errors::exception(py, "UnsupportedError", message));
        }
        let options = LocalOptions { fsync, file_locks: settings::file_locks() };
        let store = py.detach(|| ZipStore::local(path, mode, options)).or_raise(py)?;
        Ok(Self::of(Arc::new(store)))
    }

    /// The path of a zip archive on the local disk.
    #[getter]
    fn archive_path(&self) -> Option<PathBuf> {
        stores::archive_path(&self.store.url()).ok().flatten()
    }

    /// True if the store accepts changes.
    #[getter]
    fn is_writable(&self) -> bool {
        self.store.facts().is_writable
    }

    /// Objects in memory.
    #[staticmethod]
    fn memory() -> Self {
        Self::of(Arc::new(MemoryStore::new()))
    }

    /// The objects of a Python mapping. Mappings with the same URL are the same store.
    #[staticmethod]
    #[pyo3(signature = (mapping, url=None))]
    fn mapping(mapping: &Bound<'_, PyAny>, url: Option<String>) -> Self {
        Self::of(Arc::new(MappingStore::new(mapping, url)))
    }

    /// The objects of a zarr-python store. `requests` runs its coroutines. Stores with the same URL
    /// are the same store.
    #[staticmethod]
    fn zarr(
        requests: &Bound<'_, PyAny>,
        url: String,
        lists: bool,
        consolidates: bool,
        checks_chunks: bool,
        at_once: usize,
    ) -> Self {
        let traits = Traits { lists, consolidates, checks_chunks, at_once };
        Self::of(Arc::new(ZarrStore::new(requests, url, traits)))
    }

    /// True if the store is the file in which a node was found.
    fn is_file_of(&self, node: Node<'_>) -> bool {
        let found = match &node {
            Node::Array(handle) => handle.slot.file(),
            Node::Group(handle) => handle.slot.file(),
        };
        self.file.as_ref().zip(found).is_some_and(|(file, found)| file.is(found))
    }

    /// True if both are handles of the same open file.
    fn is_same_file(&self, other: &StoreHandle) -> bool {
        self.file.as_ref().zip(other.file.as_ref()).is_some_and(|(file, other)| file.is(other))
    }

    /// The number of links to an object of an HDF5 file, and its times: of the last access, modification
    /// and change, and of its birth.
    fn links_and_times(&self, py: Python<'_>, address: u64) -> PyResult<Option<(u32, [u32; 4])>> {
        let Some(file) = self.file.as_ref().and_then(|file| file.as_hdf5()) else { return Ok(None) };
        py.detach(|| file.links_and_times(address)).or_raise(py).map(Some)
    }

    /// The changes of a file. ``None``: it was opened for reading.
    fn editor(&self, py: Python<'_>) -> PyResult<Option<Editor>> {
        let Some(file) = &self.file else { return Ok(None) };
        file.check_open().or_raise(py)?;
        Ok(Editor::of(file))
    }

    /// True if the file is being changed.
    #[getter]
    fn is_edited(&self) -> bool {
        self.file.as_ref().is_some_and(DataFile::is_edited)
    }

    /// Bytes before the superblock of an HDF5 file.
    #[getter]
    fn user_block(&self) -> u64 {
        self.file.as_ref().and_then(DataFile::as_hdf5).map_or(0, |file| file.source().base())
    }

    /// Makes all writes visible to other processes.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |store| store.flush())
    }

    /// Closes the store's open file or archive. Its contents cannot be read afterwards.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| match &self.file {
            Some(file) => {
                file.close();
                Ok(())
            }
            None => {
                let flushed = if self.store.is_open() { self.store.flush() } else { Ok(()) };
                self.store.close();
                flushed
            }
        })
        .or_raise(py)
    }

    /// True if the store was not closed.
    #[getter]
    fn is_open(&self) -> bool {
        self.file.as_ref().map_or_else(|| self.store.is_open(), DataFile::is_open)
    }

    /// Raises an error if the store was closed.
    fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        let checked = self.file.as_ref().map_or(Ok(()), DataFile::check_open);
        checked.or_raise(py)
    }

    /// The path of the file.
    #[getter]
    fn file_path(&self) -> Option<PathBuf> {
        let file = self.file.as_ref()?;
        file.store().local_path(Some(Key::new(file.key()).ok()?))
    }

    /// The format of the file.
    #[getter]
    fn file_format(&self) -> Option<String> {
        self.file.as_ref().map(|file| file.format().to_string())
    }

    /// True if the store is a single HDF5 or NetCDF file.
    #[getter]
    fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// The URL of the store.
    #[getter]
    pub(crate) fn url(&self) -> String {
        self.file.as_ref().map_or_else(|| self.store.url(), DataFile::url)
    }

    /// True if the store is a directory on a local disk. Opening an array asks this, because `root`
    /// would make a path object each time.
    #[getter]
    fn is_local(&self) -> bool {
        self.file.is_none() && self.store.local_path(None).is_some()
    }

    /// The directory of a local store.
    #[getter]
    fn root(&self) -> Option<PathBuf> {
        self.store.local_path(None).filter(|_| self.file.is_none())
    }

    /// True if both stores reach the same objects.
    fn same(&self, other: &StoreHandle) -> bool {
        Arc::ptr_eq(&self.store, &other.store)
            || self.file.is_some() == other.file.is_some()
                && self.url() == other.url()
                // Buckets of different servers may have the same URL.
                && Key::new("x").is_ok_and(|key| self.store.lock_id(key) == other.store.lock_id(key))
    }

    /// True if the store is on a server.
    fn is_far(&self, py: Python<'_>) -> PyResult<bool> {
        self.run(py, |store| Ok(store.cost().is_far() && store.facts().is_shared))
    }

    /// Raises an error unless nothing is stored at a path or below.
    fn check_empty(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        let place = self.place(path, false);
        py.detach(|| place.check_empty()).or_raise(py)
    }

    /// True if nothing is stored below a path.
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

    /// Bytes of an object from `start` up to `stop`, which is excluded (`None`: to the end).
    /// Clamped to the object. A negative `start` counts from the end.
    fn part<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        start: i64,
        stop: Option<u64>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut bytes = Vec::new();
        let found = self.run(py, |store| {
            let Some(object) = store.open(Key::new(key)?, None)? else { return Ok(false) };
            let size = object.size();
            let from = match u64::try_from(start) {
                Ok(start) => start.min(size),
                Err(_) => size.saturating_sub(start.unsigned_abs()),
            };
            let len = stop.unwrap_or(size).min(size).saturating_sub(from);
            bytes.resize(usize::try_from(len).unwrap_or(usize::MAX).min(LARGEST), 0);
            object.read_ranges(&mut [RangeRead { offset: from, buf: &mut bytes }])?;
            Ok(true)
        })?;
        Ok(found.then(|| PyBytes::new(py, &bytes)))
    }

    /// Size of an object in bytes. `None`: it does not exist.
    fn size(&self, py: Python<'_>, key: &str) -> PyResult<Option<u64>> {
        self.run(py, |store| store.size(Key::new(key)?))
    }

    /// The entries directly below a prefix: names, and true if more is stored below the name.
    fn list_dir(&self, py: Python<'_>, prefix: &str) -> PyResult<Vec<(String, bool)>> {
        let found = self.run(py, |store| {
            store.list_dir(if prefix.is_empty() { None } else { Some(Key::new(prefix)?) })
        })?;
        Ok(found.into_iter().map(|entry| (entry.name, entry.is_prefix)).collect())
    }

    /// Creates or replaces an object.
    fn set(&self, py: Python<'_>, key: &str, value: &[u8]) -> PyResult<()> {
        self.run(py, |store| store.write(Key::new(key)?, &[value]))
    }

    /// Creates an object. `False`: it exists already, and is not changed.
    fn set_new(&self, py: Python<'_>, key: &str, value: &[u8]) -> PyResult<bool> {
        self.run(py, |store| store.write_new(Key::new(key)?, &[value]))
    }

    /// Deletes an object.
    fn delete(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        self.run(py, |store| store.delete(Key::new(key)?))
    }
}

/// Completes all zip archives before the process ends. Python does not drop every object.
#[pyfunction]
pub(crate) fn finish_archives(py: Python<'_>) -> PyResult<()> {
    py.detach(ZipStore::flush_all).or_raise(py)
}

/// Prepares for opening a file.
pub(crate) fn prepare_files() {
    // Read the environment now, while no other Python thread can change it.
    settings::external_prefixes();
    hyperslab::hdf5::ask_with(crate::gil::engine::ask_in_file);
}

/// True if a path or URL has a scheme that takes storage options.
#[pyfunction]
pub(crate) fn takes_storage_options(location: &str) -> bool {
    stores::takes_options(location)
}

/// True if a copy to a URL of a server becomes an HDF5 file.
#[pyfunction]
pub(crate) fn is_file_url(location: &str) -> bool {
    hyperslab::copy::is_file_url(location)
}

/// True if the value of a storage option must be kept secret.
#[pyfunction]
pub(crate) fn is_secret_option(name: &str) -> bool {
    remote::is_secret(name)
}

/// Returns a path or URL for display: without user, password or signature.
#[pyfunction]
pub(crate) fn shown(location: &str) -> String {
    if stores::takes_options(location) { remote::shown(location) } else { location.to_owned() }
}

/// Connects callbacks of remote stores to Python: Ctrl-C while they wait, and warnings.
pub(crate) fn prepare_remote() {
    hyperslab::store::waiting::ask_with(crate::gil::engine::ask_in_file);
    remote::on_unconditional(warn);
    remote::on_cache_failure(warn);
}

/// Issues a `RuntimeWarning`.
fn warn(text: &str) {
    Python::attach(|py| {
        let Ok(text) = CString::new(text) else { return };
        let category = py.get_type::<PyRuntimeWarning>();
        if let Err(error) = PyErr::warn(py, &category, &text, 1) {
            error.write_unraisable(py, None);
        }
    });
}
