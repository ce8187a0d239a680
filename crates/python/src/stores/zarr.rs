//! A store of zarr-python as a store.
//!
//! Python starts the requests on zarr-python's event loop (`_stores/zarr.py`), many with one call.
//! Threads wait for the answers without the GIL. Other processes are not excluded: locks only work
//! within this process.

use crate::gil::attach::try_attach;
use crate::gil::gil_dropped::GilDropped;
use crate::gil::once::interned;
use crate::stores::answers::{Awaited, Bytes, Expected, Lost, Value};
use hyperslab::store::{
    Ask, Begun, Cost, EachListed, Entry, Expected as Contents, Facts, Key, Lent, Many, Next, Opened, Opening,
    Operation, RangeRead, Store, StoreError,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;
use std::time::Duration;

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Gaps up to this length are read: as zarr-python does (`max_gap_bytes`).
const GAP: u64 = 1 << 20;

/// The size of an object whose end was read. The requests say how far from the end a part is.
const UNKNOWN: u64 = 1 << 62;

/// Objects deleted with one call: between two calls, the caller may stop.
const DELETED_AT_ONCE: usize = 256;

/// Names of metadata objects. A listing shows them in most directories.
const DOCUMENTS: [&str; 5] = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"];

/// A store of zarr-python.
#[derive(Debug)]
pub(crate) struct ZarrStore {
    /// An object of the Python class `_Requests`.
    requests: GilDropped<Py<PyAny>>,
    url: String,
    facts: Facts,
    at_once: usize,
}

/// Properties that a zarr-python store declares.
#[derive(Clone, Copy)]
pub(crate) struct Traits {
    pub(crate) lists: bool,
    pub(crate) consolidates: bool,
    pub(crate) checks_chunks: bool,
    /// Requests that may run at the same time.
    pub(crate) at_once: usize,
}

/// A request: a method of `_Requests` with its arguments.
enum Call<'c> {
    Get(&'c str),
    /// Offset and length.
    Range(&'c str, u64, u64),
    /// This many bytes at the end.
    End(&'c str, u64),
    Set(&'c str, &'c [&'c [u8]]),
    Exists(&'c str),
    Size(&'c str),
    Delete(&'c str),
    /// Deletes, and returns whether there was an object.
    Remove(&'c str),
    DeleteDir(&'c str),
    List(&'c str),
    ListDir(&'c str),
}

impl Call<'_> {
    fn key(&self) -> &str {
        match *self {
            Call::Get(key)
            | Call::Range(key, ..)
            | Call::End(key, _)
            | Call::Set(key, _)
            | Call::Exists(key)
            | Call::Size(key)
            | Call::Delete(key)
            | Call::Remove(key)
            | Call::DeleteDir(key)
            | Call::List(key)
            | Call::ListDir(key) => key,
        }
    }

    fn operation(&self) -> Operation {
        match self {
            Call::Get(_) | Call::Range(..) | Call::End(..) | Call::Exists(_) | Call::Size(_) => {
                Operation::Read
            }
            Call::Set(..) => Operation::Write,
            Call::Delete(_) | Call::Remove(_) | Call::DeleteDir(_) => Operation::Delete,
            Call::List(_) | Call::ListDir(_) => Operation::List,
        }
    }

    fn expected(&self) -> Expected {
        match self {
            Call::Get(_) | Call::Range(..) | Call::End(..) => Expected::Bytes,
            Call::Set(..) | Call::Delete(_) | Call::DeleteDir(_) => Expected::Nothing,
            Call::Exists(_) | Call::Remove(_) => Expected::Flag,
            Call::Size(_) => Expected::Size,
            Call::List(_) | Call::ListDir(_) => Expected::Names,
        }
    }

    /// The name of the method.
    fn method<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        match self {
            Call::Get(_) => interned!(py, "get"),
            Call::Range(..) => interned!(py, "range"),
            Call::End(..) => interned!(py, "end"),
            Call::Set(..) => interned!(py, "set"),
            Call::Exists(_) => interned!(py, "exists"),
            Call::Size(_) => interned!(py, "size"),
            Call::Delete(_) => interned!(py, "delete"),
            Call::Remove(_) => interned!(py, "remove"),
            Call::DeleteDir(_) => interned!(py, "delete_dir"),
            Call::List(_) => interned!(py, "list"),
            Call::ListDir(_) => interned!(py, "list_dir"),
        }
        .into_any()
    }

    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match *self {
            Call::Range(key, offset, len) => (key, offset, offset.saturating_add(len)).into_pyobject(py),
            Call::End(key, len) => (key, len).into_pyobject(py),
            Call::Set(key, parts) => {
                let len = parts.iter().map(|part| part.len()).sum();
                let bytes = PyBytes::new_with(py, len, |mut to| {
                    for part in parts {
                        let (here, behind) = to.split_at_mut(part.len());
                        here.copy_from_slice(part);
                        to = behind;
                    }
                    Ok(())
                })?;
                (key, bytes).into_pyobject(py)
            }
            _ => (self.key(),).into_pyobject(py),
        }
    }
}

/// A request that is under way.
struct Pending {
    awaited: Awaited,
    operation: Operation,
    key: String,
}

impl ZarrStore {
    pub(crate) fn new(requests: &Bound<'_, PyAny>, url: String, traits: Traits) -> Self {
        let Traits { lists, consolidates, checks_chunks, at_once } = traits;
        let facts = Facts { lists, consolidates, checks_chunks, waits: true, ..Facts::default() };
        let requests = GilDropped::new(requests.clone().unbind());
        ZarrStore { requests, url, facts, at_once: at_once.max(2) }
    }

    fn io(&self, operation: Operation, key: &str, source: io::Error) -> StoreError {
        StoreError::Io { operation, key: key.to_owned(), url: self.url.clone(), source }
    }

    /// Starts requests, all with one call of Python.
    fn start(&self, calls: &[Call<'_>]) -> Result<Vec<Pending>> {
        let started = try_attach(|py| {
            let mut pending = Vec::with_capacity(calls.len());
            let list = PyList::empty(py);
            for call in calls {
                let (answer, awaited) = Awaited::new(call.expected());
                list.append((answer, call.method(py), call.arguments(py)?))?;
                let (operation, key) = (call.operation(), call.key().to_owned());
                pending.push(Pending { awaited, operation, key });
            }
            self.requests.bind(py).call_method1(interned!(py, "start"), (list,))?;
            Ok(pending)
        });
        let first = calls.first().map_or((Operation::Read, ""), |call| (call.operation(), call.key()));
        let ended = || io::Error::other("the interpreter is ending");
        match started {
            Some(Ok(pending)) => Ok(pending),
            Some(Err(raised)) => {
                let raised: PyErr = raised;
                Err(self.io(first.0, first.1, io::Error::other(GilDropped::new(raised))))
            }
            None => Err(self.io(first.0, first.1, ended())),
        }
    }

    fn finish(&self, Pending { awaited, operation, key }: Pending) -> Result<Value> {
        match awaited.wait() {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(raised)) => Err(self.io(operation, &key, io::Error::other(raised))),
            Err(Lost::Stopped) => Err(StoreError::Interrupted { key, url: self.url.clone() }),
            Err(Lost::Dead) => {
                let why = "its event loop belongs to the parent process, or is ending";
                Err(self.io(operation, &key, io::Error::other(why)))
            }
        }
    }

    fn ask(&self, call: Call<'_>) -> Result<Value> {
        match self.start(&[call])?.pop() {
            Some(pending) => self.finish(pending),
            None => Ok(Value::None),
        }
    }

    fn bytes(&self, call: Call<'_>) -> Result<Option<Bytes>> {
        Ok(match self.ask(call)? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        })
    }

    fn names(&self, call: Call<'_>) -> Result<Vec<String>> {
        Ok(match self.ask(call)? {
            Value::Names(names) => names,
            _ => Vec::new(),
        })
    }

    fn out_of_range(&self, key: &str, range: &RangeRead<'_>, size: u64) -> StoreError {
        let (key, url) = (key.to_owned(), self.url.clone());
        StoreError::OutOfRange { key, url, offset: range.offset, len: range.buf.len() as u64, size }
    }

    /// Copies ranges from the bytes of an object that start at `at`.
    fn copy(&self, key: &str, bytes: &[u8], ranges: &mut [RangeRead<'_>]) -> Result<()> {
        for range in ranges.iter_mut().filter(|range| !range.buf.is_empty()) {
            let Some(found) = part_of(bytes, range.offset, range.buf.len() as u64) else {
                return Err(self.out_of_range(key, range, bytes.len() as u64));
            };
            range.buf.copy_from_slice(found);
        }
        Ok(())
    }

    /// Reads ranges of an object, each with a request. `false`: the object does not exist.
    ///
    /// Offsets near [`UNKNOWN`] count from the end.
    fn request_ranges(&self, key: &str, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        let call = |range: &RangeRead<'_>| match range.offset {
            offset if offset > UNKNOWN / 2 => Call::End(key, UNKNOWN.saturating_sub(offset)),
            offset => Call::Range(key, offset, range.buf.len() as u64),
        };
        let mut wanted: Vec<&mut RangeRead<'_>> =
            ranges.iter_mut().filter(|range| !range.buf.is_empty()).collect();
        if wanted.is_empty() {
            return self.exists(Key::new(key)?);
        }
        let calls: Vec<Call<'_>> = wanted.iter().map(|range| call(range)).collect();
        for (range, pending) in wanted.iter_mut().zip(self.start(&calls)?) {
            let Value::Bytes(found) = self.finish(pending)? else { return Ok(false) };
            let Some(found) = part_of(found.as_ref(), 0, range.buf.len() as u64) else {
                let size = range.offset.saturating_add(found.as_ref().len() as u64);
                return Err(self.out_of_range(key, range, size));
            };
            range.buf.copy_from_slice(found);
        }
        Ok(true)
    }

    /// The request that opens an object, if `next` is read next.
    fn opening<'k>(&self, key: &'k str, next: Next) -> Call<'k> {
        match next {
            Next::End(len) if len > 0 => Call::End(key, len),
            // A start is mostly followed by the rest. Some stores refuse a range past the end.
            _ => Call::Get(key),
        }
    }

    /// The object that `found` is a part of, as requested by [`ZarrStore::opening`].
    fn opened(&self, key: String, next: Next, found: Value) -> Option<Box<dyn Opened + '_>> {
        let Value::Bytes(bytes) = found else { return None };
        let len = bytes.as_ref().len() as u64;
        let (at, size) = match next {
            // Shorter than requested: it is all of the object.
            Next::End(wanted) if wanted > 0 && len >= wanted => (UNKNOWN - len, UNKNOWN),
            _ => (0, len),
        };
        Some(Box::new(OpenObject { store: self, key, size, at, bytes: Arc::new(bytes) }))
    }

    fn entries(&self, names: Vec<String>) -> Vec<Entry> {
        let entry = |name: &String| {
            let name = name.strip_suffix('/').unwrap_or(name);
            let is_prefix = !DOCUMENTS.contains(&name);
            Key::new(name).is_ok().then(|| Entry { name: name.to_owned(), is_prefix })
        };
        names.iter().filter_map(entry).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// A part of some bytes.
fn part_of(bytes: &[u8], offset: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(len).ok()?)?;
    bytes.get(start..end)
}

/// A path as zarr-python's methods for directories expect it.
fn directory(prefix: Option<Key<'_>>) -> String {
    prefix.map_or_else(String::new, |prefix| prefix.as_str().to_owned())
}

/// An object that has been read in part.
#[derive(Debug)]
struct OpenObject<'s> {
    store: &'s ZarrStore,
    key: String,
    size: u64,
    /// Offset of `bytes` in the object.
    at: u64,
    bytes: Arc<Bytes>,
}

impl OpenObject<'_> {
    /// Bytes that have been read.
    fn read(&self, offset: u64, len: u64) -> Option<&[u8]> {
        part_of((*self.bytes).as_ref(), offset.checked_sub(self.at)?, len)
    }
}

impl Opened for OpenObject<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        if self.size != UNKNOWN {
            return self.store.copy(&self.key, (*self.bytes).as_ref(), ranges);
        }
        let mut missing: Vec<RangeRead<'_>> = Vec::new();
        for RangeRead { offset, buf } in ranges {
            match self.read(*offset, buf.len() as u64) {
                Some(found) => buf.copy_from_slice(found),
                None => missing.push(RangeRead { offset: *offset, buf }),
            }
        }
        if missing.is_empty() || self.store.request_ranges(&self.key, &mut missing)? {
            return Ok(());
        }
        let source = io::Error::new(io::ErrorKind::NotFound, "deleted while it was read");
        Err(self.store.io(Operation::Read, &self.key, source))
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn lend(&self, offset: u64, len: u64) -> Result<Option<Lent>> {
        let Some(start) = self.read(offset, len).and(offset.checked_sub(self.at)) else { return Ok(None) };
        let bytes = self.bytes.clone();
        Ok(Some(Arc::new(LentPart { bytes, start, len })))
    }
}

/// A part of bytes that have been read.
struct LentPart {
    bytes: Arc<Bytes>,
    start: u64,
    len: u64,
}

impl AsRef<[u8]> for LentPart {
    fn as_ref(&self) -> &[u8] {
        part_of((*self.bytes).as_ref(), self.start, self.len).unwrap_or_default()
    }
}

/// An object that is being opened.
struct Arriving<'s> {
    store: &'s ZarrStore,
    next: Next,
    pending: Pending,
}

impl<'s> Begun<'s> for Arriving<'s> {
    fn is_here(&self) -> bool {
        self.pending.awaited.is_here()
    }

    fn wait(&self, most: Duration) -> bool {
        self.pending.awaited.wait_at_most(most)
    }

    fn finish(self: Box<Self>) -> Result<Option<Box<dyn Opened + 's>>> {
        let Arriving { store, next, pending } = *self;
        let key = pending.key.clone();
        Ok(store.opened(key, next, store.finish(pending)?))
    }
}

impl Store for ZarrStore {
    fn url(&self) -> String {
        self.url.clone()
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.url, key.as_str()).hash(&mut hasher);
        hasher.finish()
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        Ok(match self.ask(Call::Size(key.as_str()))? {
            Value::Size(size) => Some(size),
            _ => None,
        })
    }

    fn exists(&self, key: Key<'_>) -> Result<bool> {
        Ok(matches!(self.ask(Call::Exists(key.as_str()))?, Value::Flag(true)))
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        let found = self.ask(Call::Get(key.as_str()))?;
        let opened = self.opened(key.as_str().to_owned(), Next::All, found);
        match (size, opened.as_ref().map(|opened| opened.size())) {
            (Some(expected), Some(found)) if expected != found => {
                let (key, url) = (key.as_str().to_owned(), self.url.clone());
                Err(StoreError::WrongSize { key, url, expected, found })
            }
            _ => Ok(opened),
        }
    }

    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        if size.is_none() {
            return self.request_ranges(key.as_str(), ranges);
        }
        // The size can only be checked by reading the whole object.
        let Some(opened) = self.open(key, size)? else { return Ok(false) };
        opened.read_ranges(ranges).map(|()| true)
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        buf.clear();
        let Some(bytes) = self.bytes(Call::Get(key.as_str()))? else { return Ok(false) };
        let bytes = bytes.as_ref();
        if bytes.len() > limit {
            let (key, url) = (key.as_str().to_owned(), self.url.clone());
            return Err(StoreError::TooLarge { key, url, limit: limit as u64 });
        }
        buf.extend_from_slice(bytes);
        Ok(true)
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<()> {
        self.ask(Call::Set(key.as_str(), parts)).map(drop)
    }

    fn delete(&self, key: Key<'_>) -> Result<bool> {
        Ok(matches!(self.ask(Call::Remove(key.as_str()))?, Value::Flag(true)))
    }

    fn swap_out(&self, key: Key<'_>, expected: Contents<'_>, ask: Option<Ask<'_>>) -> Result<bool> {
        let _ = (expected, ask);
        self.ask(Call::Delete(key.as_str())).map(|_| true)
    }

    fn delete_all(&self, keys: &[Key<'_>], ask: Option<Ask<'_>>) -> Result<()> {
        for keys in keys.chunks(DELETED_AT_ONCE) {
            if ask.is_some_and(|ask| ask()) {
                let key = keys.first().map_or_else(String::new, |key| key.as_str().to_owned());
                return Err(StoreError::Interrupted { key, url: self.url.clone() });
            }
            let calls: Vec<Call<'_>> = keys.iter().map(|key| Call::Delete(key.as_str())).collect();
            self.start(&calls)?.into_iter().try_for_each(|pending| self.finish(pending).map(drop))?;
        }
        Ok(())
    }

    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> Result<()> {
        self.ask(Call::DeleteDir(&directory(prefix))).map(drop)
    }

    /// Skips keys that are not valid object keys.
    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        let start = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        let mut keys = self.names(Call::List(&start))?;
        keys.retain(|key| key.starts_with(&start) && Key::new(key).is_ok());
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        // zarr-python's own listing of a directory does not tell objects from prefixes.
        let skip = prefix.map_or(0, |prefix| prefix.as_str().len() + 1);
        let entry = |key: &String| {
            let rest = key.get(skip..)?;
            Some(match rest.split_once('/') {
                None => Entry { name: rest.to_owned(), is_prefix: false },
                Some((name, _)) => Entry { name: name.to_owned(), is_prefix: true },
            })
        };
        let found: BTreeSet<Entry> = self.list(prefix)?.iter().filter_map(entry).collect();
        Ok(found.into_iter().collect())
    }

    fn facts(&self) -> Facts {
        self.facts
    }

    fn cost(&self) -> Cost {
        Cost { request: GAP, range: GAP, at_once: self.at_once, frugal: true }
    }

    fn many(&self) -> Option<&dyn Many> {
        Some(self)
    }
}

impl Many for ZarrStore {
    fn begin<'s>(&'s self, wanted: &[Opening<'_>]) -> Vec<Box<dyn Begun<'s> + 's>> {
        let calls: Vec<Call<'_>> =
            wanted.iter().map(|Opening { key, next }| self.opening(key.as_str(), *next)).collect();
        match self.start(&calls) {
            Ok(pending) => {
                let begun = pending.into_iter().zip(wanted).map(|(pending, opening)| {
                    Box::new(Arriving { store: self, next: opening.next, pending }) as Box<dyn Begun<'s> + 's>
                });
                begun.collect()
            }
            Err(first) => {
                // Each of them tells the same.
                let why = first.to_string();
                let failed = |opening: &Opening<'_>| {
                    let (key, why) = (opening.key.as_str().to_owned(), why.clone());
                    let fail = move || Err(self.io(Operation::Read, &key, io::Error::other(why)));
                    Box::new(fail) as Box<dyn Begun<'s> + 's>
                };
                wanted.iter().map(failed).collect()
            }
        }
    }

    /// Without reading the keys further below. An object that is no document appears as a prefix.
    fn list_dirs(&self, prefixes: &[Option<Key<'_>>], each: EachListed<'_>) {
        let paths: Vec<String> = prefixes.iter().map(|prefix| directory(*prefix)).collect();
        let calls: Vec<Call<'_>> = paths.iter().map(|path| Call::ListDir(path)).collect();
        match self.start(&calls) {
            Ok(pending) => {
                for (n, pending) in pending.into_iter().enumerate() {
                    let names = self.finish(pending).map(|found| match found {
                        Value::Names(names) => self.entries(names),
                        _ => Vec::new(),
                    });
                    each(n, names);
                }
            }
            Err(error) => each(0, Err(error)),
        }
    }

    fn list_sizes(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for keys in self.list_asking(prefix, ask)?.chunks(DELETED_AT_ONCE) {
            if ask.is_some_and(|ask| ask()) {
                return Err(StoreError::Interrupted { key: directory(prefix), url: self.url.clone() });
            }
            let calls: Vec<Call<'_>> = keys.iter().map(|key| Call::Size(key)).collect();
            for (key, pending) in keys.iter().zip(self.start(&calls)?) {
                // Skip objects deleted since the listing.
                if let Value::Size(size) = self.finish(pending)? {
                    found.push((key.clone(), size));
                }
            }
        }
        Ok(found)
    }
}
