//! Metadata objects of nodes, as text.
//!
//! In a store that answers at once, each object is read when it is known to be needed. A far store
//! is asked for everything that may be needed at once: the answer that an object does not exist
//! comes with the others, and a second round would take as long as the first.

use crate::path::join;
use crate::{Format, NodeKind, Result, ZarrError};
use hyperslab_store::{Ask, Key, Next, Opened, Opening, Operation, RangeRead, Store, StoreError};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The largest metadata object that is read. Consolidated metadata of large hierarchies takes tens
/// of megabytes.
pub(crate) const MAX_DOCUMENT: usize = 256 << 20;

/// Most metadata is shorter. With this much room, it is read without asking for its size.
const USUAL_DOCUMENT: usize = 4 << 10;

/// Bytes of a metadata object that the first request reads; longer objects take another request.
/// Not more, because an object of this name may have any size.
const FIRST: u64 = 4 << 20;

pub(crate) const ZARR_JSON: &str = "zarr.json";
pub(crate) const ZARRAY: &str = ".zarray";
pub(crate) const ZGROUP: &str = ".zgroup";
pub(crate) const ZATTRS: &str = ".zattrs";
pub(crate) const ZMETADATA: &str = ".zmetadata";

type Text = Result<Option<Vec<u8>>, StoreError>;

/// The names of documents that a node may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// Restricts the names to one format.
    pub(crate) format: Option<Format>,
    /// Restricts them to one kind of node, if a name tells the kind.
    pub(crate) kind: Option<NodeKind>,
    /// Adds consolidated metadata, which a group may have.
    pub(crate) consolidated: bool,
    /// Leaves out attributes and consolidated metadata, which do not tell the kind.
    pub(crate) kind_only: bool,
}

impl Names {
    fn list(self) -> Vec<&'static str> {
        let mut names = Vec::new();
        if self.format != Some(Format::V2) {
            names.push(ZARR_JSON);
        }
        if self.format != Some(Format::V3) {
            names.extend(self.of_v2().map(|(name, _)| name));
            names.extend((!self.kind_only).then_some(ZATTRS));
            let consolidated = self.consolidated && !self.kind_only && self.kind != Some(NodeKind::Array);
            names.extend(consolidated.then_some(ZMETADATA));
        }
        names
    }

    /// The name that is looked for first in any case.
    fn first(self) -> Vec<&'static str> {
        self.list().into_iter().take(1).collect()
    }

    /// The names that tell that there is a v2 node of some kind. An array counts before a group.
    pub(crate) fn of_v2(self) -> impl Iterator<Item = (&'static str, NodeKind)> {
        let all = [(ZARRAY, NodeKind::Array), (ZGROUP, NodeKind::Group)];
        all.into_iter().filter(move |(_, kind)| self.kind.is_none_or(|wanted| wanted == *kind))
    }
}

/// Metadata objects. Some have been read already.
#[derive(Default)]
pub(crate) struct Documents {
    read: BTreeMap<String, Text>,
}

impl Documents {
    /// The documents of nodes at these paths. `ask` is called between requests.
    pub(crate) fn of<'p>(
        store: &Arc<dyn Store>,
        paths: impl IntoIterator<Item = &'p str>,
        names: Names,
        ask: Option<Ask<'_>>,
    ) -> Result<Self> {
        let mut documents = Documents::default();
        documents.add(store, paths, names, ask)?;
        Ok(documents)
    }

    /// Reads documents of nodes at these paths, except for those that have been read.
    ///
    /// Does nothing if the store answers at once.
    pub(crate) fn add<'p>(
        &mut self,
        store: &Arc<dyn Store>,
        paths: impl IntoIterator<Item = &'p str>,
        names: Names,
        ask: Option<Ask<'_>>,
    ) -> Result<()> {
        if !store.cost().prefers_rounds() {
            return Ok(());
        }
        let guessing = store.cost().worth_guessing();
        let names = if guessing { names.list() } else { names.first() };
        let keys = paths.into_iter().flat_map(|path| names.iter().map(move |name| join(path, name)));
        let keys = keys.filter(|key| !self.read.contains_key(key)).collect();
        self.read.extend(read_all(store, keys, None, ask)?);
        Ok(())
    }

    /// Returns `true` if documents that were read show a node of some kind at a path.
    pub(crate) fn has_node(&self, path: &str) -> bool {
        let names = Names { kind_only: true, ..Names::default() }.list();
        names.iter().any(|name| matches!(self.read.get(&join(path, name)), Some(Ok(Some(_)) | Err(_))))
    }

    /// Notes which documents of a node do not exist. `keys` are all keys below the node's path.
    pub(crate) fn note_absent(&mut self, path: &str, keys: &[String]) {
        let all = Names { consolidated: true, ..Names::default() };
        for name in all.list() {
            let key = join(path, name);
            if !keys.contains(&key) {
                self.read.insert(key, Ok(None));
            }
        }
    }

    /// The documents of a node, and the state of its object `key` when it was read.
    ///
    /// The state is `None` if the object did not exist.
    pub(crate) fn read_with_state<'s>(
        store: &'s Arc<dyn Store>,
        path: &str,
        names: Names,
        key: &str,
        ask: Option<Ask<'_>>,
    ) -> Result<(Self, Option<Box<dyn Opened + 's>>)> {
        let mut keys: Vec<String> = names.list().iter().map(|name| join(path, name)).collect();
        if !keys.iter().any(|other| other == key) {
            keys.push(key.to_owned());
        }
        let mut was = None;
        let read = read_all(store, keys, Some((key, &mut was)), ask)?;
        Ok((Documents { read }, was))
    }

    /// The objects with these keys. The caller needs all of them. Reads nothing if the store answers
    /// at once.
    pub(crate) fn of_keys(store: &Arc<dyn Store>, keys: Vec<String>, ask: Option<Ask<'_>>) -> Result<Self> {
        let far = store.cost().prefers_rounds();
        Ok(Documents { read: if far { read_all(store, keys, None, ask)? } else { BTreeMap::new() } })
    }

    /// One object, and its state when it was read.
    pub(crate) fn read_one_with_state<'s>(
        store: &'s Arc<dyn Store>,
        key: &str,
        ask: Option<Ask<'_>>,
    ) -> Result<(Self, Option<Box<dyn Opened + 's>>)> {
        let mut was = None;
        let read = read_all(store, vec![key.to_owned()], Some((key, &mut was)), ask)?;
        Ok((Documents { read }, was))
    }

    /// The text of an object, or `None` if it does not exist. An object is not read twice to learn
    /// that it does not exist.
    pub(crate) fn take(&mut self, store: &Arc<dyn Store>, key: &str) -> Result<Option<Vec<u8>>> {
        match self.read.get(key) {
            Some(Ok(None)) => Ok(None),
            Some(_) => Ok(self.read.remove(key).transpose()?.flatten()),
            None => read_text(store, key),
        }
    }

    /// The text of an object, if it was read together with others.
    pub(crate) fn take_known(&mut self, key: &str) -> Option<Text> {
        self.read.remove(key)
    }
}

/// Reads a metadata object. Returns `None` if it does not exist.
pub(crate) fn read_text(store: &Arc<dyn Store>, key: &str) -> Result<Option<Vec<u8>>> {
    let mut text = Vec::with_capacity(USUAL_DOCUMENT);
    Ok(store.read_all(Key::new(key)?, &mut text, MAX_DOCUMENT)?.then_some(text))
}

/// The key of an object whose state at the read is kept, and where to keep it.
type Keep<'k, 's> = (&'k str, &'k mut Option<Box<dyn Opened + 's>>);

/// Reads objects, as many at once as the store likes.
fn read_all<'s>(
    store: &'s Arc<dyn Store>,
    keys: Vec<String>,
    mut keep: Option<Keep<'_, 's>>,
    ask: Option<Ask<'_>>,
) -> Result<BTreeMap<String, Text>> {
    let mut read = BTreeMap::new();
    for keys in keys.chunks(store.cost().requests_at_once()) {
        if ask.is_some_and(|ask| ask()) {
            return Err(ZarrError::Interrupted);
        }
        let wanted: Vec<Opening<'_>> = keys
            .iter()
            .map(|key| Ok(Opening { key: Key::new(key)?, next: Next::Start(FIRST) }))
            .collect::<Result<_, StoreError>>()?;
        store.open_all(&wanted, &mut |n, opened| {
            if let Some(key) = keys.get(n) {
                let text = opened.and_then(|opened| {
                    let text = opened.as_deref().map(|opened| text_of(store, key, opened)).transpose();
                    if let Some((_, was)) = keep.as_mut().filter(|(kept, _)| kept == key) {
                        **was = opened;
                    }
                    text
                });
                read.insert(key.clone(), text);
            }
        });
    }
    Ok(read)
}

fn text_of(store: &Arc<dyn Store>, key: &str, opened: &dyn Opened) -> Result<Vec<u8>, StoreError> {
    let size = usize::try_from(opened.size()).unwrap_or(usize::MAX);
    if size > MAX_DOCUMENT {
        let (key, url) = (key.to_owned(), store.url());
        return Err(StoreError::TooLarge { key, url, limit: MAX_DOCUMENT as u64 });
    }
    let mut text = Vec::new();
    if text.try_reserve_exact(size).is_err() {
        let (key, url, source) = (key.to_owned(), store.url(), io::ErrorKind::OutOfMemory.into());
        return Err(StoreError::Io { operation: Operation::Read, key, url, source });
    }
    text.resize(size, 0);
    opened.read_ranges(&mut [RangeRead { offset: 0, buf: &mut text }])?;
    Ok(text)
}
