//! What tests share.

use crate::{ArraySpec, Format, Json};
use hyperslab_codec::DataType;
use hyperslab_store::{Key, MemoryStore, Store};
use std::sync::Arc;

/// An empty store.
pub(crate) fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// Writes an object.
pub(crate) fn put(store: &Arc<dyn Store>, key: &str, text: &str) {
    store.write(Key::new(key).unwrap(), &[text.as_bytes()]).unwrap();
}

/// Reads an object; `None`: there is none.
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

/// An array of this element type and these chunks.
pub(crate) fn spec_of(format: Format, shape: &[u64], chunks: &[u64], name: &str) -> ArraySpec {
    let mut spec = ArraySpec::new(format, shape, dtype(name));
    spec.chunks = Some(chunks.into());
    spec
}

/// The rows of a table: a line each, of cells with ` | ` between them.
pub(crate) fn cases<const N: usize>(table: &'static str) -> Vec<[&'static str; N]> {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.split(" | ").collect::<Vec<_>>().try_into().expect(line)).collect()
}
