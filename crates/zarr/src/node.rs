//! Finds, reads and writes the metadata of nodes.

use crate::attributes::Attributes;
use crate::consolidated::{self, Apart};
use crate::documents::{Documents, MAX_DOCUMENT, Names, read_text};
pub(crate) use crate::documents::{ZARR_JSON, ZARRAY, ZATTRS, ZGROUP, ZMETADATA};
use crate::error::{Problem, unexpected_value};
use crate::format::repair::{self, Repaired};
use crate::format::{v2, v3};
use crate::json::{Json, JsonError};
use crate::metadata::Metadata;
use crate::metadata_cache::{self, Texts};
use crate::path::{join, normalize_path};
use crate::{Array, Consolidation, Format, Group, Result, ZarrError, kinds, origin, remembered};
use hyperslab_codec::registry;
use hyperslab_store::{Identity, Key, Store};
use std::sync::Arc;

/// The indentation of metadata, as in zarr-python.
const INDENT: Option<usize> = Some(2);

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// An array.
    Array,
    /// A group.
    Group,
}

impl NodeKind {
    /// "array", "group".
    pub fn name(self) -> &'static str {
        match self {
            NodeKind::Array => "array",
            NodeKind::Group => "group",
        }
    }

    pub(crate) fn with_article(self) -> &'static str {
        match self {
            NodeKind::Array => "an array",
            NodeKind::Group => "a group",
        }
    }
}

/// An array or a group.
#[derive(Clone, Debug)]
pub enum Node {
    /// An array.
    Array(Array),
    /// A group.
    Group(Group),
}

/// A node to open, as far as the caller knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only a node of this format. `None`: of either; v3 is tried first.
    pub format: Option<Format>,
    /// The kind that the caller expects. A node of the other kind is opened, too, but a far store
    /// may take longer to find it.
    pub kind: Option<NodeKind>,
    /// The use of consolidated metadata.
    pub consolidation: Consolidation,
    /// The caller will not be surprised if there is no node. A far store is then asked for
    /// everything at once: a second round of requests would take as long as the first.
    pub may_be_missing: bool,
    /// The store is a directory of the local disk. If the node has no directory, no document is
    /// looked for.
    pub in_directory: bool,
}

impl Wanted {
    pub(crate) fn array(format: Option<Format>) -> Self {
        Wanted { format, kind: Some(NodeKind::Array), ..Wanted::default() }
    }

    pub(crate) fn group(format: Option<Format>, consolidation: Consolidation) -> Self {
        Wanted { format, kind: Some(NodeKind::Group), consolidation, ..Wanted::default() }
    }

    /// The documents to ask for first, and the documents that there may be.
    fn names(self, store: &Arc<dyn Store>, path: &str) -> (Names, Names) {
        let consolidated = self.consolidation != Consolidation::Ignore;
        let all = Names { format: self.format, consolidated, ..Names::default() };
        match self.format.or_else(|| remembered::format(&**store, path)) {
            Some(format) if !self.may_be_missing => {
                (Names { format: Some(format), kind: self.kind, ..all }, all)
            }
            _ => (all, all),
        }
    }
}

/// Opens the node at `path` (`""`: the root).
///
/// Without a `format`, v3 is tried first. A group uses its consolidated metadata if it has any.
pub fn open(store: &Arc<dyn Store>, path: &str, format: Option<Format>) -> Result<Node> {
    open_with(store, path, Wanted { format, ..Wanted::default() })
}

/// Like [`open`], for a caller who knows more about the node.
pub fn open_with(store: &Arc<dyn Store>, path: &str, wanted: Wanted) -> Result<Node> {
    let what = wanted.kind.map_or("array or group", NodeKind::name);
    node_of(store, open_any(store, path, wanted, what)?, wanted.consolidation)
}

/// Opens a node whose metadata has been found.
pub(crate) fn open_as_found(store: &Arc<dyn Store>, path: String, found: FoundNode) -> Result<Node> {
    node_of(store, open_found(store, path, found, None)?, Consolidation::Auto)
}

fn node_of(
    store: &Arc<dyn Store>,
    opened: Result<Array, (String, StoredNode)>,
    consolidation: Consolidation,
) -> Result<Node> {
    match opened {
        Ok(array) => Ok(Node::Array(array)),
        Err((path, stored)) => {
            Group::from_stored(store.clone(), path, stored, consolidation).map(Node::Group)
        }
    }
}

/// Opens an array. Fails with [`ZarrError::NotFound`] or [`ZarrError::WrongNode`].
pub(crate) fn open_array(store: &Arc<dyn Store>, path: &str, format: Option<Format>) -> Result<Array> {
    match open_any(store, path, Wanted::array(format), "array")? {
        Ok(array) => Ok(array),
        // Fails, because this is no array.
        Err((path, stored)) => Array::from_stored(store.clone(), path, stored, false, None),
    }
}

/// Opens the array at a path, or returns another node's path and parsed metadata.
///
/// The path is normalized. `what` names the wanted kind of node in messages.
fn open_any(
    store: &Arc<dyn Store>,
    path: &str,
    wanted: Wanted,
    what: &'static str,
) -> Result<Result<Array, (String, StoredNode)>> {
    let path = normalize_path(path)?;
    let identity = origin::current_identity(store, &path);
    let is_absent = wanted.in_directory && identity.is_none();
    let Some(found) = (if is_absent { None } else { find(store, &path, wanted)? }) else {
        return Err(ZarrError::NotFound { what, url: store.url(), path });
    };
    open_found(store, path, found, identity)
}

/// Opens the array whose metadata has been found.
///
/// If it is another node, returns the node's path and parsed metadata.
fn open_found(
    store: &Arc<dyn Store>,
    path: String,
    found: FoundNode,
    identity: Option<Identity>,
) -> Result<Result<Array, (String, StoredNode)>> {
    // Only the metadata of arrays is cached.
    if let Some(metadata) = metadata_cache::find(&found.texts) {
        return Array::bind(store.clone(), path, metadata, &found.key, false, identity).map(Ok);
    }
    let codecs = registry::finder_count();
    let stored = found.parse(store, &path)?;
    if stored.kind != NodeKind::Array {
        return Ok(Err((path, stored)));
    }
    let array = Array::from_stored(store.clone(), path, stored, false, identity)?;
    // A codec in another language may mean something else next time.
    if registry::finder_count() == codecs {
        metadata_cache::keep(found.texts, array.metadata());
    }
    Ok(Ok(array))
}

/// The metadata of a node as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredNode {
    pub(crate) format: Format,
    pub(crate) kind: NodeKind,
    /// The key of `document`.
    pub(crate) key: String,
    /// `zarr.json`, `.zarray` or `.zgroup`. Shared with the arrays made from it.
    pub(crate) document: Arc<Json>,
    /// v2: `.zattrs`. In v3 attributes are inside the document.
    pub(crate) attributes: Option<Arc<Json>>,
    /// v2: `.zmetadata`, if it was read together with the rest.
    pub(crate) consolidated: Option<Option<Vec<u8>>>,
    /// v3: the nodes of consolidated metadata, which `document` lacks. `None`: it has them.
    pub(crate) apart: Option<Apart>,
}

impl StoredNode {
    /// The metadata of an array.
    pub(crate) fn array(&self, store: &Arc<dyn Store>) -> Result<Metadata> {
        let Repaired { document, moves_chunks } = repair::repair(self);
        let parsed = match self.format {
            Format::V2 => self.stored_attributes().checked().and_then(|found| v2::parse(&document, found)),
            Format::V3 => v3::parse(&document),
        };
        let parsed = parsed.map(|metadata| Metadata { moves_chunks, ..metadata });
        parsed.map_err(|problem| problem.at(&store.url(), &self.key))
    }

    /// The attributes of a group.
    pub(crate) fn group(&self, url: &str) -> Result<Attributes> {
        let parsed = match self.format {
            Format::V2 => v2::check_format(&self.document).and_then(|()| self.stored_attributes().checked()),
            Format::V3 => v3::parse_group(&self.document),
        };
        parsed.map_err(|problem| problem.at(url, &self.key))
    }

    /// The attributes as they are stored, not checked.
    pub(crate) fn stored_attributes(&self) -> Attributes {
        match self.format {
            Format::V2 => Attributes::Alone(self.attributes.clone()),
            Format::V3 => Attributes::Within(self.document.clone()),
        }
    }

    /// Applies `change` to the attributes of the node at `path`. Stores nothing.
    ///
    /// Returns whether the attributes differ from the old ones, and the result of `change`.
    pub(crate) fn change_attributes<R>(
        &mut self,
        store: &Arc<dyn Store>,
        path: &str,
        change: impl FnOnce(&mut Json) -> R,
    ) -> Result<(bool, R)> {
        let old =
            self.stored_attributes().checked().map_err(|problem| problem.at(&store.url(), &self.key))?;
        let mut new = old.json().clone();
        let result = change(&mut new);
        check_attributes(path, &new)?;
        let changed = new != *old.json();
        // Attributes may be large: the document is changed, not a copy of it.
        drop(old);
        match self.format {
            _ if !changed => {}
            Format::V2 => self.attributes = Some(Arc::new(new)),
            Format::V3 => Arc::make_mut(&mut self.document).set("attributes", new),
        }
        Ok((changed, result))
    }
}

/// The metadata of a node as it is stored, not parsed.
#[derive(Clone, Debug)]
pub(crate) struct FoundNode {
    /// The key of the document.
    key: String,
    /// The kind, if the object's name gives it (v2). In v3 it is in the document.
    kind: Option<NodeKind>,
    texts: Texts,
    /// v2: `.zmetadata`, if it was read together with the rest.
    consolidated: Option<Option<Vec<u8>>>,
}

impl FoundNode {
    /// The node's metadata. Nodes of consolidated metadata stay text.
    pub(crate) fn parse(&self, store: &Arc<dyn Store>, path: &str) -> Result<StoredNode> {
        if self.texts.format == Format::V2 {
            return self.parse_whole(store, path);
        }
        let parsed = consolidated::parse(&self.texts.document, Format::V3);
        let (document, apart) = parsed.map_err(|error| not_json(store, &self.key, &error))?;
        self.stored(store, path, document, Some(apart))
    }

    /// Like [`FoundNode::parse`], for a caller who writes the document again.
    pub(crate) fn parse_whole(&self, store: &Arc<dyn Store>, path: &str) -> Result<StoredNode> {
        let document = parse_document(store, &self.key, &self.texts.document)?;
        self.stored(store, path, document, None)
    }

    fn stored(
        &self,
        store: &Arc<dyn Store>,
        path: &str,
        document: Json,
        apart: Option<Apart>,
    ) -> Result<StoredNode> {
        let kind = self.kind_of(store, &document)?;
        let attributes = match &self.texts.attributes {
            Some(text) => Some(parse_document(store, &join(path, ZATTRS), text)?.into()),
            None => None,
        };
        let (format, key, consolidated) = (self.texts.format, self.key.clone(), self.consolidated.clone());
        Ok(StoredNode { format, kind, key, document: document.into(), attributes, consolidated, apart })
    }

    /// Bytes of the node's metadata.
    pub(crate) fn len(&self) -> usize {
        self.texts.len() + self.consolidated.as_ref().and_then(|text| text.as_ref()).map_or(0, Vec::len)
    }

    /// The kind of the node.
    pub(crate) fn kind(&self, store: &Arc<dyn Store>) -> Result<NodeKind> {
        match self.kind {
            Some(kind) => Ok(kind),
            None => v3_kind(store, &self.key, &self.texts.document),
        }
    }

    fn kind_of(&self, store: &Arc<dyn Store>, document: &Json) -> Result<NodeKind> {
        match self.kind {
            Some(kind) => Ok(kind),
            None => kind_of_v3(store, &self.key, document),
        }
    }
}

/// The kind of the node with this v3 document.
fn kind_of_v3(store: &Arc<dyn Store>, key: &str, document: &Json) -> Result<NodeKind> {
    let is_array = v3::is_array(document).map_err(|problem| problem.at(&store.url(), key))?;
    Ok(if is_array { NodeKind::Array } else { NodeKind::Group })
}

/// Like [`kind_of_v3`], for the document's text.
pub(crate) fn v3_kind(store: &Arc<dyn Store>, key: &str, text: &[u8]) -> Result<NodeKind> {
    let outline = consolidated::outline(text, Format::V3).map_err(|error| not_json(store, key, &error))?;
    kind_of_v3(store, key, &outline)
}

/// Finds the metadata at a path.
fn find(store: &Arc<dyn Store>, path: &str, wanted: Wanted) -> Result<Option<FoundNode>> {
    let mut documents = Documents::default();
    if !store.cost().prefers_rounds() {
        let names = Names { format: wanted.format, ..Names::default() };
        return find_in(&mut documents, store, path, names);
    }
    let (first, all) = wanted.names(store, path);
    documents.add(store, [path], first, None)?;
    let mut found = find_in(&mut documents, store, path, first)?;
    if found.is_none() && first != all {
        documents.add(store, [path], all, None)?;
        found = find_in(&mut documents, store, path, all)?;
    }
    remembered::keep(&**store, path, found.as_ref().map(|found| found.texts.format));
    Ok(found)
}

/// Finds metadata under these names. Some documents are already read.
pub(crate) fn find_in(
    documents: &mut Documents,
    store: &Arc<dyn Store>,
    path: &str,
    names: Names,
) -> Result<Option<FoundNode>> {
    if names.format != Some(Format::V2) {
        let key = join(path, ZARR_JSON);
        if let Some(document) = documents.take(store, &key)? {
            let texts = Texts { format: Format::V3, document, attributes: None };
            return Ok(Some(FoundNode { key, kind: None, texts, consolidated: None }));
        }
    }
    if names.format != Some(Format::V3) {
        for (name, kind) in names.of_v2() {
            let key = join(path, name);
            if let Some(document) = documents.take(store, &key)? {
                let attributes = documents.take(store, &join(path, ZATTRS))?;
                let consolidated = match kind {
                    NodeKind::Array => None,
                    NodeKind::Group => documents.take_known(&join(path, ZMETADATA)).transpose()?,
                };
                let texts = Texts { format: Format::V2, document, attributes };
                return Ok(Some(FoundNode { key, kind: Some(kind), texts, consolidated }));
            }
        }
    }
    Ok(None)
}

/// Reads the metadata at a path.
pub(crate) fn read(store: &Arc<dyn Store>, path: &str, wanted: Wanted) -> Result<Option<StoredNode>> {
    find(store, path, wanted)?.map(|found| found.parse(store, path)).transpose()
}

/// Like [`read`], for a caller who writes the document again.
pub(crate) fn read_whole(store: &Arc<dyn Store>, path: &str, wanted: Wanted) -> Result<Option<StoredNode>> {
    find(store, path, wanted)?.map(|found| found.parse_whole(store, path)).transpose()
}

/// The kind of node of this format at a path. Reads no more than necessary.
pub(crate) fn kind(store: &Arc<dyn Store>, path: &str, format: Format) -> Result<Option<NodeKind>> {
    match format {
        Format::V3 => kinds::kind(store, path),
        Format::V2 => {
            for (name, kind) in [(ZARRAY, NodeKind::Array), (ZGROUP, NodeKind::Group)] {
                if store.exists(Key::new(&join(path, name))?)? {
                    return Ok(Some(kind));
                }
            }
            Ok(None)
        }
    }
}

/// Like [`kind`], with some documents that are already read.
pub(crate) fn kind_in(
    documents: &mut Documents,
    store: &Arc<dyn Store>,
    path: &str,
    format: Format,
) -> Result<Option<NodeKind>> {
    let names = Names { format: Some(format), ..Names::default() };
    if format == Format::V3 {
        return find_in(documents, store, path, names)?.map(|found| found.kind(store)).transpose();
    }
    for (name, kind) in names.of_v2() {
        if documents.take(store, &join(path, name))?.is_some() {
            return Ok(Some(kind));
        }
    }
    Ok(None)
}

pub(crate) fn parse_document(store: &Arc<dyn Store>, key: &str, text: &[u8]) -> Result<Json> {
    Json::parse(text).map_err(|error| not_json(store, key, &error))
}

/// The error for an object that is not JSON.
pub(crate) fn not_json(store: &Arc<dyn Store>, key: &str, error: &JsonError) -> ZarrError {
    ZarrError::Metadata { url: store.url(), key: key.to_owned(), why: error.to_string() }
}

/// Reads and parses a metadata object. Returns `None` if it does not exist.
pub(crate) fn read_document(store: &Arc<dyn Store>, key: &str) -> Result<Option<Json>> {
    read_text(store, key)?.map(|text| parse_document(store, key, &text)).transpose()
}

/// The text of a metadata object.
pub(crate) fn document_text(document: &Json) -> String {
    document.to_text(INDENT)
}

/// Writes a metadata object. Fails without any change if it could not be read again.
pub(crate) fn write_document(store: &Arc<dyn Store>, key: &str, document: &Json) -> Result<()> {
    let text = check_document(key, document)?;
    Ok(store.write(Key::new(key)?, &[text.as_bytes()])?)
}

/// The text of a metadata object. Fails if it could not be read again.
///
/// The reader's limits hold for the writer.
pub(crate) fn check_document(key: &str, document: &Json) -> Result<String> {
    let refuse = |why: String| {
        let path = key.rsplit_once('/').map_or("", |(path, _)| path).to_owned();
        let name = key.rsplit('/').next().unwrap_or(key);
        ZarrError::Invalid { path, why: format!("the new {name} could not be read again: {why}") }
    };
    document.check_bounds().map_err(refuse)?;
    let text = document_text(document);
    if text.len() > MAX_DOCUMENT {
        return Err(refuse(format!("it has {} bytes, at most {MAX_DOCUMENT} are read", text.len())));
    }
    Ok(text)
}

/// Checks attributes from a caller.
pub(crate) fn check_attributes(path: &str, attributes: &Json) -> Result<()> {
    let checked: Result<(), Problem> = match attributes {
        Json::Object(_) => Ok(()),
        other => unexpected_value("attributes", "an object", other),
    };
    checked.map_err(|problem| ZarrError::Invalid { path: path.to_owned(), why: problem.text() })
}
