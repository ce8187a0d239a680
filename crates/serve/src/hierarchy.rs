//! A hierarchy of any format: its objects as Zarr v3, and its nodes.

use crate::answer::{Asset, Source};
use crate::body::Readable;
use bytes::Bytes;
use hyperslab::present::{PresentOptions, PresentedFile, PresentedNode, PresentedZarr, ZarrObject};
use hyperslab::store::{Entry, Operation, RangeRead, Stamp, StoreError};
use hyperslab::zarr::join;
use hyperslab::{Array, Group, Json, Key, Node, Result, Store};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// The name of the document of a node.
pub(crate) const DOCUMENT: &str = "zarr.json";
const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// A group with more nodes below is served without consolidated metadata: its document would be
/// megabytes long, and nobody waits for it.
const MOST_CONSOLIDATED: usize = 2000;

/// A hierarchy.
#[derive(Debug)]
pub(crate) struct Hierarchy {
    shown: Arc<Shown>,
    /// A number that changes with the file that holds all of it. `None`: objects change on their own,
    /// or nobody knows.
    version: Option<u64>,
}

#[derive(Debug)]
enum Shown {
    File(Arc<PresentedFile>),
    Zarr(PresentedZarr),
}

impl Hierarchy {
    pub(crate) fn of_file(root: &Group, version: Option<u64>) -> Result<Hierarchy> {
        let options = PresentOptions { standard: true, ..PresentOptions::default() };
        let shown = Shown::File(Arc::new(PresentedFile::new(root, options)?));
        Ok(Hierarchy { shown: Arc::new(shown), version })
    }

    pub(crate) fn of_zarr(store: Arc<dyn Store>, base: &str, version: Option<u64>) -> Hierarchy {
        Hierarchy { shown: Arc::new(Shown::Zarr(PresentedZarr::new(store, base))), version }
    }

    /// Finds an object of Zarr v3. `None`: there is none. `is_known`: the client has the object with
    /// this tag, and wants no bytes if it is the same.
    pub(crate) fn object(&self, key: &str, is_known: &dyn Fn(&str) -> bool) -> Result<Option<Asset>> {
        let is_document = key == DOCUMENT || key.ends_with("/zarr.json");
        match &*self.shown {
            _ if is_document => {
                let Some(document) = self.document(key)? else { return Ok(None) };
                let document = self.consolidated(key, document)?;
                Ok(Some(made(document.into_bytes().into(), JSON)))
            }
            Shown::File(file) => {
                // Other files that this one refers to change on their own.
                let version = if file.is_within(key)? { self.version } else { None };
                let tag = version.map(|version| tag(&(version, key)));
                if file.is_range(key)? {
                    let Some(len) = file.size(key)? else { return Ok(None) };
                    return Ok(Some(Asset {
                        len,
                        tag,
                        media: BYTES,
                        source: Source::Stored(self.readable(key, len, None)),
                    }));
                }
                if tag.as_deref().is_some_and(is_known) {
                    // The client has the bytes: they need not be encoded.
                    return Ok(Some(Asset { tag, ..made(Bytes::new(), BYTES) }));
                }
                let Some(bytes) = file.get(key, 0, None)? else { return Ok(None) };
                let found = made(bytes.into(), BYTES);
                Ok(Some(Asset { tag: tag.or(found.tag.clone()), ..found }))
            }
            Shown::Zarr(zarr) => match zarr.find(key)? {
                None => Ok(None),
                Some(ZarrObject::Document(text)) => Ok(Some(made(text.into_bytes().into(), JSON))),
                Some(ZarrObject::Encoded(array, place)) => {
                    Ok(Some(made(array.encode(&place)?.into(), BYTES)))
                }
                Some(ZarrObject::Stored(stored)) => {
                    let key = Key::new(&stored)?;
                    let stamp = zarr.store().stamp(key)?;
                    let Some(len) = zarr.store().size(key)? else { return Ok(None) };
                    let own = stamp.map(|stamp| tag(&stamp));
                    let tag = own.or_else(|| self.version.map(|version| tag(&(version, &stored))));
                    let stamp = stamp.filter(|_| zarr.store().cost().looks_are_cheap());
                    Ok(Some(Asset {
                        len,
                        tag,
                        media: BYTES,
                        source: Source::Stored(self.readable(&stored, len, stamp)),
                    }))
                }
            },
        }
    }

    fn readable(&self, key: &str, len: u64, stamp: Option<Stamp>) -> Arc<dyn Readable> {
        Arc::new(StoredObject { shown: self.shown.clone(), key: key.to_owned(), len, stamp })
    }

    /// A text that changes when the file, or the documents of the node at a path, change.
    pub(crate) fn version(&self, path: &str) -> Result<String> {
        let stamps = match &*self.shown {
            Shown::File(_) => None,
            Shown::Zarr(zarr) => zarr.version(path)?,
        };
        Ok(match (&stamps, self.version) {
            // Nobody knows when an object on a server changed: its document says what it is now.
            (None, None) => tag(&self.document(&join(path, DOCUMENT))?),
            known => tag(&known),
        })
    }

    /// The text of a document. `None`: there is none.
    fn document(&self, key: &str) -> Result<Option<String>> {
        match &*self.shown {
            Shown::File(file) => {
                Ok(file.get(key, 0, None)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
            }
            Shown::Zarr(zarr) => Ok(match zarr.find(key)? {
                Some(ZarrObject::Document(text)) => Some(text),
                _ => None,
            }),
        }
    }

    /// Adds consolidated metadata to the document of a group.
    fn consolidated(&self, key: &str, document: String) -> Result<String> {
        let mut json = Json::parse(document.as_bytes())?;
        if json.get("node_type") != Some(&"group".into()) {
            return Ok(document);
        }
        let path = key.strip_suffix(DOCUMENT).unwrap_or_default().trim_end_matches('/');
        let mut found = Vec::new();
        let mut waiting = vec![String::new()];
        while let Some(group) = waiting.pop() {
            for name in self.children(&join(path, &group))? {
                let below = join(&group, &name);
                // A node that cannot be read is left out: its own document says why.
                let Ok(Some(text)) = self.document(&join(&join(path, &below), DOCUMENT)) else { continue };
                let Ok(node) = Json::parse(text.as_bytes()) else { continue };
                if node.get("node_type") == Some(&"group".into()) {
                    waiting.push(below.clone());
                }
                found.push((below, node));
                if found.len() > MOST_CONSOLIDATED {
                    return Ok(document);
                }
            }
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        let members =
            [("kind", "inline".into()), ("must_understand", false.into()), ("metadata", Json::Object(found))];
        json.set("consolidated_metadata", Json::from(members));
        Ok(json.to_text(None))
    }

    /// The names of the nodes directly below a group, in its order.
    pub(crate) fn children(&self, path: &str) -> Result<Vec<String>> {
        if !matches!(self.node(path)?, Some(Node::Group(_))) {
            return Ok(Vec::new());
        }
        let names = self.names(path)?.into_iter();
        Ok(names.filter(|entry| entry.is_prefix).map(|entry| entry.name).collect())
    }

    /// The names of objects and folders directly below a path, as in Zarr v3.
    pub(crate) fn names(&self, path: &str) -> Result<Vec<Entry>> {
        match &*self.shown {
            Shown::File(file) => file.names(path),
            Shown::Zarr(zarr) => zarr.names(path),
        }
    }

    /// The array at a path as Zarr has it: a variable of a file has its whole shape.
    pub(crate) fn as_zarr(&self, path: &str) -> Result<Option<Array>> {
        match &*self.shown {
            Shown::File(file) => {
                let store: Arc<dyn Store> = file.clone();
                Ok(Some(hyperslab::zarr::Array::open(&store, path, None)?.into()))
            }
            Shown::Zarr(zarr) => match zarr.node(path)? {
                Some(Node::Array(array)) => Ok(Some(array)),
                _ => Ok(None),
            },
        }
    }

    /// The node at a path, in its own format. `None`: there is none.
    pub(crate) fn node(&self, path: &str) -> Result<Option<Node>> {
        match &*self.shown {
            Shown::File(file) => Ok(file.node(path)?.map(|node| match node {
                PresentedNode::Group(group) => Node::Group(group),
                PresentedNode::Array(array) => Node::Array(array.array().clone()),
            })),
            Shown::Zarr(zarr) => zarr.node(path),
        }
    }
}

impl Shown {
    fn read(&self, key: &str, offset: u64, len: u64) -> Result<Bytes> {
        let (found, url) = match self {
            Shown::File(file) => {
                let start = i64::try_from(offset).unwrap_or(i64::MAX);
                (file.get(key, start, Some(offset.saturating_add(len)))?, file.url())
            }
            Shown::Zarr(zarr) => {
                let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
                let mut range = [RangeRead { offset, buf: &mut bytes }];
                let found = zarr.store().read_ranges(Key::new(key)?, None, &mut range)?;
                (found.then_some(bytes), zarr.store().url())
            }
        };
        match found.filter(|bytes| bytes.len() as u64 == len) {
            Some(bytes) => Ok(bytes.into()),
            // Changed since the request began.
            None => Err(changed(key, url)),
        }
    }
}

/// An object that is read while it is sent.
struct StoredObject {
    shown: Arc<Shown>,
    key: String,
    len: u64,
    /// Each piece must be of the object with this stamp.
    stamp: Option<Stamp>,
}

impl Readable for StoredObject {
    fn read(&self, offset: u64, len: u64) -> Result<Bytes> {
        let bytes = self.shown.read(&self.key, offset, len.min(self.len.saturating_sub(offset)))?;
        if let (Some(_), Shown::Zarr(zarr)) = (self.stamp, &*self.shown) {
            let store = zarr.store();
            if store.stamp(Key::new(&self.key)?)? != self.stamp {
                return Err(changed(&self.key, store.url()));
            }
        }
        Ok(bytes)
    }
}

/// The object has changed since the request began.
fn changed(key: &str, url: String) -> hyperslab::Error {
    let source = io::Error::new(ErrorKind::UnexpectedEof, "it has changed");
    StoreError::Io { operation: Operation::Read, key: key.to_owned(), url, source }.into()
}

/// Bytes in memory, whose tag is of these bytes.
fn made(bytes: Bytes, media: &'static str) -> Asset {
    Asset { len: bytes.len() as u64, tag: Some(tag(&&bytes[..])), media, source: Source::Memory(bytes) }
}

pub(crate) fn tag(of: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    // Another version of the server may describe the same data in other words.
    (env!("CARGO_PKG_VERSION"), of).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
