//! Helpers for tests.

use crate::{ArraySpec, Format, Json};
use hyperslab_codec::DataType;
use hyperslab_store::{
    Begun, Cost, EachListed, Entry, Key, Many, MemoryStore, Note, Opened, Opening, RangeRead, Result, Store,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An empty store.
pub(crate) fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// A store that is far away and counts how often its callers wait.
#[derive(Debug, Default)]
pub(crate) struct Far {
    inner: MemoryStore,
    /// Requests that follow one another.
    pub(crate) rounds: AtomicUsize,
    /// Documents asked for.
    pub(crate) asked: AtomicUsize,
    note: Note,
}

impl Far {
    fn wait(&self) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
    }
}

impl Store for Far {
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        self.wait();
        self.inner.read_ranges(key, size, ranges)
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        self.wait();
        self.inner.open(key, size)
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        self.wait();
        self.inner.read_all(key, buf, limit)
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        self.wait();
        self.inner.size(key)
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<()> {
        self.inner.write(key, parts)
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        self.wait();
        self.inner.list_dir(prefix)
    }

    fn cost(&self) -> Cost {
        Cost { request: 1 << 20, range: 4096, at_once: 64, frugal: false }
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        self.inner.lock_id(key)
    }

    fn note(&self) -> Option<&Note> {
        Some(&self.note)
    }

    fn many(&self) -> Option<&dyn Many> {
        Some(self)
    }

    fn url(&self) -> String {
        self.inner.url()
    }
}

impl Many for Far {
    fn begin<'s>(&'s self, wanted: &[Opening<'_>]) -> Vec<Box<dyn Begun<'s> + 's>> {
        self.wait();
        self.asked.fetch_add(wanted.len(), Ordering::Relaxed);
        self.inner.begin(wanted)
    }

    fn list_dirs(&self, prefixes: &[Option<Key<'_>>], each: EachListed<'_>) {
        self.wait();
        prefixes.iter().enumerate().for_each(|(n, prefix)| each(n, self.inner.list_dir(*prefix)));
    }
}

/// Writes an object.
pub(crate) fn put(store: &Arc<dyn Store>, key: &str, text: &str) {
    store.write(Key::new(key).unwrap(), &[text.as_bytes()]).unwrap();
}

/// Reads an object. Returns `None` if it does not exist.
pub(crate) fn get(store: &Arc<dyn Store>, key: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let found = store.read_all(Key::new(key).unwrap(), &mut bytes, 1 << 20).unwrap();
    found.then(|| String::from_utf8(bytes).unwrap())
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

pub(crate) fn dtype(name: &str) -> DataType {
    name.parse().unwrap()
}

/// An array with this element type and these chunks.
pub(crate) fn spec_of(format: Format, shape: &[u64], chunks: &[u64], name: &str) -> ArraySpec {
    let mut spec = ArraySpec::new(format, shape, dtype(name));
    spec.chunks = Some(chunks.into());
    spec
}

/// The rows of a table: one line each, with cells separated by ` | `.
pub(crate) fn cases<const N: usize>(table: &'static str) -> Vec<[&'static str; N]> {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.split(" | ").collect::<Vec<_>>().try_into().expect(line)).collect()
}
