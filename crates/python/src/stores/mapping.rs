//! A Python mapping as a store. Keys are text, values are bytes, and the caller's object holds
//! them.
//!
//! Each request takes the GIL, so requests do not run in parallel. Bytes of the mapping's results
//! are copied without the GIL. A listing goes through all keys.
//!
//! A mapping with a method `ranges(key, [(offset, length), …])` reads parts of objects, and
//! `size_of(key)` returns their sizes. The results are a list of bytes, an integer, or `KeyError`.
//! Other mappings read whole objects.

use crate::gil::attach::try_attach;
use crate::gil::gil_dropped::GilDropped;
use hyperslab::store::{Entry, Key, Opened, Operation, RangeRead, Store, StoreError};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// A mapping used as a store.
#[derive(Debug)]
pub(crate) struct MappingStore {
    mapping: GilDropped<Py<PyAny>>,
    /// Identifies the place of the objects. Mappings with the same URL hold the same objects.
    url: String,
    /// `true` if the mapping reads parts of objects.
    ranged: bool,
}

impl MappingStore {
    /// Without a URL, the address identifies the mapping.
    pub(crate) fn new(mapping: &Bound<'_, PyAny>, url: Option<String>) -> Self {
        let url = url.unwrap_or_else(|| format!("memory://mapping-{:x}", mapping.as_ptr().addr()));
        let ranged = mapping.hasattr("ranges").unwrap_or(false);
        let mapping = GilDropped::new(mapping.clone().unbind());
        MappingStore { mapping, url, ranged }
    }

    /// Calls the mapping. An exception becomes the source of the error.
    fn ask<T>(
        &self,
        operation: Operation,
        key: &str,
        question: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T> {
        let asked = try_attach(|py| {
            question(self.mapping.bind(py)).map_err(|raised| io::Error::other(GilDropped::new(raised)))
        });
        asked
            .unwrap_or_else(|| Err(io::Error::other("the interpreter is ending")))
            .map_err(|source| StoreError::Io { operation, key: key.to_owned(), url: self.url(), source })
    }

    /// Reads the bytes under a key.
    fn get(&self, key: Key<'_>) -> Result<Option<GilDropped<PyBackedBytes>>> {
        self.ask(Operation::Read, key.as_str(), |mapping| match mapping.get_item(key.as_str()) {
            Ok(found) => bytes_of(&found).map(|bytes| Some(GilDropped::new(bytes))),
            Err(error) if error.is_instance_of::<PyKeyError>(mapping.py()) => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// Reads the bytes under a key. Fails if their number is not `size`.
    fn get_sized(&self, key: Key<'_>, size: Option<u64>) -> Result<Option<GilDropped<PyBackedBytes>>> {
        let Some(bytes) = self.get(key)? else { return Ok(None) };
        match size {
            Some(expected) if expected != bytes.len() as u64 => Err(StoreError::WrongSize {
                key: key.as_str().to_owned(),
                url: self.url(),
                expected,
                found: bytes.len() as u64,
            }),
            _ => Ok(Some(bytes)),
        }
    }

    /// Reads parts of an object of a ranged mapping. `false`: the object does not exist.
    fn get_ranges(&self, key: &str, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        let wanted: Vec<(u64, usize)> = ranges.iter().map(|range| (range.offset, range.buf.len())).collect();
        let found =
            self.ask(Operation::Read, key, |mapping| match mapping.call_method1("ranges", (key, wanted)) {
                Ok(found) => {
                    let parts = found.try_iter()?.map(|part| bytes_of(&part?));
                    parts.collect::<PyResult<Vec<_>>>().map(|parts| Some(GilDropped::new(parts)))
                }
                Err(error) if error.is_instance_of::<PyKeyError>(mapping.py()) => Ok(None),
                Err(error) => Err(error),
            })?;
        let Some(found) = found else { return Ok(false) };
        let mut parts = found.iter();
        for RangeRead { offset, buf } in ranges {
            let part = parts.next().map_or(&[][..], |part| &part[..]);
            if part.len() != buf.len() {
                return Err(StoreError::OutOfRange {
                    key: key.to_owned(),
                    url: self.url(),
                    offset: *offset,
                    len: buf.len() as u64,
                    size: offset.saturating_add(part.len() as u64),
                });
            }
            buf.copy_from_slice(part);
        }
        Ok(true)
    }

    /// Returns the size of an object of a ranged mapping.
    fn size_of(&self, key: &str) -> Result<Option<u64>> {
        self.ask(Operation::Read, key, |mapping| match mapping.call_method1("size_of", (key,)) {
            Ok(found) => found.extract().map(Some),
            Err(error) if error.is_instance_of::<PyKeyError>(mapping.py()) => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn copy_ranges(&self, key: &str, bytes: &[u8], ranges: &mut [RangeRead<'_>]) -> Result<()> {
        for RangeRead { offset, buf } in ranges.iter_mut().filter(|range| !range.buf.is_empty()) {
            let (start, len) = (usize::try_from(*offset).unwrap_or(usize::MAX), buf.len());
            let found =
                bytes.get(start..start.saturating_add(len)).ok_or_else(|| StoreError::OutOfRange {
                    key: key.to_owned(),
                    url: self.url(),
                    offset: *offset,
                    len: len as u64,
                    size: bytes.len() as u64,
                })?;
            buf.copy_from_slice(found);
        }
        Ok(())
    }
}

/// Converts a mapping's result to bytes: `bytes`, objects with a buffer (`bytearray`, NumPy
/// arrays), or a buffer of zarr-python.
fn bytes_of(found: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    if let Ok(bytes) = found.extract::<PyBackedBytes>() {
        return Ok(bytes);
    }
    let py = found.py();
    if found.hasattr("as_numpy_array")? {
        return Ok(found.call_method0("to_bytes")?.extract::<PyBackedBytes>()?);
    }
    let memory = py.import("builtins")?.getattr("memoryview")?.call1((found,))?;
    Ok(memory.call_method0("tobytes")?.extract::<PyBackedBytes>()?)
}

/// An object with its contents at the time of opening.
#[derive(Debug)]
struct OpenBytes<'s> {
    store: &'s MappingStore,
    key: String,
    bytes: GilDropped<PyBackedBytes>,
}

impl Opened for OpenBytes<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.store.copy_ranges(&self.key, &self.bytes, ranges)
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// An object of a ranged mapping. Parts are read on demand.
#[derive(Debug)]
struct OpenRanges<'s> {
    store: &'s MappingStore,
    key: String,
    size: u64,
}

impl Opened for OpenRanges<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        if self.store.get_ranges(&self.key, ranges)? {
            return Ok(());
        }
        let source = io::Error::new(io::ErrorKind::NotFound, "deleted while it was read");
        let (key, url) = (self.key.clone(), self.store.url());
        Err(StoreError::Io { operation: Operation::Read, key, url, source })
    }

    fn size(&self) -> u64 {
        self.size
    }
}

impl Store for MappingStore {
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        if self.ranged && size.is_none() {
            return self.get_ranges(key.as_str(), ranges);
        }
        let Some(bytes) = self.get_sized(key, size)? else { return Ok(false) };
        self.copy_ranges(key.as_str(), &bytes, ranges)?;
        Ok(true)
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        if self.ranged && size.is_none() {
            let Some(size) = self.size_of(key.as_str())? else { return Ok(None) };
            return Ok(Some(Box::new(OpenRanges { store: self, key: key.as_str().to_owned(), size })));
        }
        let Some(bytes) = self.get_sized(key, size)? else { return Ok(None) };
        Ok(Some(Box::new(OpenBytes { store: self, key: key.as_str().to_owned(), bytes })))
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        buf.clear();
        let Some(bytes) = self.get(key)? else { return Ok(false) };
        if bytes.len() > limit {
            let (key, url) = (key.as_str().to_owned(), self.url());
            return Err(StoreError::TooLarge { key, url, limit: limit as u64 });
        }
        buf.extend_from_slice(&bytes);
        Ok(true)
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        if self.ranged {
            return self.size_of(key.as_str());
        }
        Ok(self.get(key)?.map(|bytes| bytes.len() as u64))
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<()> {
        self.ask(Operation::Write, key.as_str(), |mapping| {
            let len = parts.iter().map(|part| part.len()).sum();
            let bytes = PyBytes::new_with(mapping.py(), len, |mut to| {
                for part in parts {
                    let (here, behind) = to.split_at_mut(part.len());
                    here.copy_from_slice(part);
                    to = behind;
                }
                Ok(())
            })?;
            mapping.set_item(key.as_str(), bytes)
        })
    }

    fn delete(&self, key: Key<'_>) -> Result<bool> {
        self.ask(Operation::Delete, key.as_str(), |mapping| match mapping.del_item(key.as_str()) {
            Ok(()) => Ok(true),
            Err(error) if error.is_instance_of::<PyKeyError>(mapping.py()) => Ok(false),
            Err(error) => Err(error),
        })
    }

    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> Result<()> {
        for key in self.list(prefix)? {
            self.delete(Key::new(&key)?)?;
        }
        Ok(())
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        let skip = prefix.map_or(0, |prefix| prefix.as_str().len() + 1);
        let keys = self.list(prefix)?;
        let children: BTreeSet<Entry> = keys
            .iter()
            .filter_map(|key| key.get(skip..))
            .map(|rest| match rest.split_once('/') {
                None => Entry { name: rest.to_owned(), is_prefix: false },
                Some((name, _)) => Entry { name: name.to_owned(), is_prefix: true },
            })
            .collect();
        Ok(children.into_iter().collect())
    }

    /// Skips keys that are not valid object keys. They have another use in the mapping.
    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        let start = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        let name = prefix.map_or("", |prefix| prefix.as_str());
        let mut keys = self.ask(Operation::List, name, |mapping| {
            // Copy the keys in one step, because other threads may change a dictionary.
            let list = mapping.py().get_type::<PyList>().call1((mapping,))?;
            let mut found = Vec::new();
            for key in list.try_iter()? {
                if let Ok(key) = key?.extract::<String>()
                    && key.starts_with(&start)
                    && Key::new(&key).is_ok()
                {
                    found.push(key);
                }
            }
            Ok(found)
        })?;
        keys.sort_unstable();
        Ok(keys)
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.url, key.as_str()).hash(&mut hasher);
        hasher.finish()
    }

    fn url(&self) -> String {
        self.url.clone()
    }
}
