//! The nodes of consolidated metadata in memory.
//!
//! A hierarchy may have hundreds of thousands of nodes, and a program opens few of them. Documents
//! therefore stay text, without white space. A document is parsed when its node is opened. Equal
//! documents of neighbours are kept once.

use super::apart::{Apart, Kind};
use crate::error::{Problem, invalid, unexpected_value};
use crate::format::v3;
use crate::json::Json;
use crate::node::{NodeKind, StoredNode, ZARRAY, ZATTRS, ZGROUP};
use crate::{Format, Result};
use hyperslab_store::Key;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The metadata of all nodes below a group, by path relative to the group.
#[derive(Debug)]
pub(crate) struct Nodes {
    format: Format,
    /// The key of the consolidated metadata.
    key: Arc<str>,
    /// Documents and attributes.
    texts: Vec<Arc<str>>,
    /// Sorted by path.
    entries: Vec<NodeEntry>,
    /// Nodes that have changed. `None`: removed.
    changed: BTreeMap<String, Option<StoredNode>>,
}

#[derive(Debug)]
struct NodeEntry {
    path: Box<str>,
    kind: NodeKind,
    /// Numbers of texts.
    document: usize,
    attributes: Option<usize>,
}

/// The metadata of one node.
pub(super) enum Found {
    Changed(Box<StoredNode>),
    Text { format: Format, kind: NodeKind, key: Arc<str>, document: Arc<str>, attributes: Option<Arc<str>> },
}

impl Found {
    /// Parses the metadata of the node at this path. `url` is the store's.
    pub(super) fn parse(self, path: &str, url: &str) -> Result<StoredNode> {
        let (format, kind, object, document, attributes) = match self {
            Found::Changed(stored) => return Ok(*stored),
            Found::Text { format, kind, key, document, attributes } => {
                (format, kind, key, document, attributes)
            }
        };
        // Errors about this document name its place in the object.
        let key = format!("{object}: {path}");
        let parse = |text: Arc<str>| {
            let parsed = Json::parse(text.as_bytes()).map(Arc::new);
            parsed.map_err(|error| Problem::Invalid(error.to_string()).at(url, &key))
        };
        let (document, attributes) = (parse(document)?, attributes.map(parse).transpose()?);
        Ok(StoredNode { format, kind, key, document, attributes, consolidated: None, apart: None })
    }
}

/// The name of a member of v2's metadata: the path of a node, and the rank of the document there.
///
/// If an array and a group share a path, the array wins, as when objects are read separately.
const RANKS: [(&str, u8); 3] = [(ZARRAY, 0), (ZGROUP, 1), (ZATTRS, 2)];

impl Nodes {
    /// The nodes in the member of a v3 group's document.
    ///
    /// `member` lacks the nodes, which are in `apart`. Returns `None` if the metadata is of an
    /// unknown kind.
    pub(super) fn from_v3(mut member: Json, apart: Apart, key: &str) -> Result<Option<Nodes>, Problem> {
        if member.get("kind").and_then(Json::as_str) != Some("inline") {
            return Ok(None);
        }
        check_members(&member.remove("metadata").unwrap_or(Json::Null))?;
        let Apart { mut names, kinds, texts } = apart;
        keep_last(&mut names);
        let mut entries = Vec::with_capacity(names.len());
        for (path, document) in names {
            check_path(&path)?;
            let kind = match kinds.get(document) {
                Some(Kind::Known(kind)) => *kind,
                _ => v3_kind(texts.get(document).map_or("", |text| text)).map_err(|problem| {
                    Problem::Invalid(format!("consolidated metadata: {path}: {}", problem.text()))
                })?,
            };
            entries.push(NodeEntry { path: path.into(), kind, document, attributes: None });
        }
        let (format, key, changed) = (Format::V3, key.into(), BTreeMap::new());
        Ok(Some(Nodes { format, key, texts, entries, changed }))
    }

    /// The nodes in a v2 group's `.zmetadata`, which lacks the nodes: they are in `apart`.
    pub(super) fn from_v2(mut document: Json, apart: Apart, key: &str) -> Result<Nodes, Problem> {
        match document.get("zarr_consolidated_format") {
            Some(format) if format.as_integer() == Some(1u8) => {}
            Some(other) => {
                return unexpected_value("zarr_consolidated_format", "1", other);
            }
            None => return invalid!("zarr_consolidated_format is missing"),
        }
        check_members(&document.remove("metadata").unwrap_or(Json::Null))?;
        let Apart { names, texts, .. } = apart;
        let mut documents = Vec::with_capacity(names.len());
        for (name, text) in names {
            let (path, file) = name.rsplit_once('/').unwrap_or(("", &name));
            check_path(path)?;
            let Some((_, rank)) = RANKS.iter().find(|(name, _)| *name == file) else {
                return invalid!(
                    "consolidated metadata: expected the path of a .zarray, .zgroup or .zattrs, found {}",
                    Json::from(name.as_str()).brief()
                );
            };
            documents.push(((path.to_owned(), *rank), text));
        }
        keep_last(&mut documents);
        let mut entries: Vec<NodeEntry> = Vec::with_capacity(documents.len() / 2);
        // The last rank comes first, so the attributes of a node are known before the node.
        documents.sort_by(|((a, one), _), ((b, other), _)| (a, Reverse(one)).cmp(&(b, Reverse(other))));
        let mut attributes = None;
        for ((path, rank), text) in documents {
            let kind = match rank {
                0 => NodeKind::Array,
                1 => NodeKind::Group,
                _ => {
                    attributes = Some((path, text));
                    continue;
                }
            };
            if path.is_empty() {
                continue;
            }
            let attributes = attributes.as_ref().filter(|(of, _)| *of == path).map(|(_, text)| *text);
            let entry = NodeEntry { path: path.into(), kind, document: text, attributes };
            match entries.last_mut().filter(|last| last.path == entry.path) {
                Some(group) => *group = entry,
                None => entries.push(entry),
            }
        }
        let (format, key, changed) = (Format::V2, key.into(), BTreeMap::new());
        Ok(Nodes { format, key, texts, entries, changed })
    }

    fn entry(&self, path: &str) -> Option<&NodeEntry> {
        let at = self.entries.binary_search_by(|entry| (*entry.path).cmp(path)).ok()?;
        self.entries.get(at)
    }

    /// The stored nodes below `prefix`, which is `""` or ends with a slash.
    fn entries_below(&self, prefix: &str) -> &[NodeEntry] {
        let start = self.entries.partition_point(|entry| *entry.path < *prefix);
        let from = self.entries.get(start..).unwrap_or_default();
        from.get(..from.partition_point(|entry| entry.path.starts_with(prefix))).unwrap_or_default()
    }

    pub(super) fn kind(&self, path: &str) -> Option<NodeKind> {
        match self.changed.get(path) {
            Some(changed) => changed.as_ref().map(|stored| stored.kind),
            None => self.entry(path).map(|entry| entry.kind),
        }
    }

    pub(super) fn get(&self, path: &str) -> Option<Found> {
        if let Some(changed) = self.changed.get(path) {
            return changed.clone().map(|stored| Found::Changed(Box::new(stored)));
        }
        let entry = self.entry(path)?;
        let text = |number: usize| self.texts.get(number).cloned();
        Some(Found::Text {
            format: self.format,
            kind: entry.kind,
            key: self.key.clone(),
            document: text(entry.document)?,
            attributes: entry.attributes.and_then(text),
        })
    }

    pub(super) fn put(&mut self, path: String, stored: StoredNode) {
        self.changed.insert(path, Some(StoredNode { apart: None, ..stored }));
    }

    /// Forgets a node, and all nodes below it.
    pub(super) fn forget(&mut self, path: &str) {
        let prefix = format!("{path}/");
        let below = |other: &&String| other.starts_with(&prefix);
        let changed = self.changed.range(prefix.clone()..).map(|(other, _)| other);
        let mut gone: Vec<String> = changed.take_while(below).cloned().collect();
        gone.push(path.to_owned());
        for other in gone {
            self.changed.remove(&other);
        }
        let stored = self.entry(path).into_iter().chain(self.entries_below(&prefix));
        let stored: Vec<_> = stored.map(|entry| (String::from(&*entry.path), None)).collect();
        self.changed.extend(stored);
    }

    /// All nodes below `base` (`""`: all nodes), sorted by path, with paths relative to `base`.
    pub(super) fn below(&self, base: &str) -> Vec<(String, NodeKind)> {
        let prefix = if base.is_empty() { String::new() } else { format!("{base}/") };
        let stored = self.entries_below(&prefix).iter();
        let stored = stored.filter_map(|entry| Some((entry.path.strip_prefix(&prefix)?, entry.kind)));
        let mut changed = self.changed.range(prefix.clone()..).peekable();
        if changed.peek().is_none() {
            return stored.map(|(path, kind)| (path.to_owned(), kind)).collect();
        }
        let mut all: BTreeMap<&str, NodeKind> = stored.collect();
        for (path, stored) in changed {
            let Some(path) = path.strip_prefix(&prefix) else { break };
            match stored {
                Some(stored) => all.insert(path, stored.kind),
                None => all.remove(path),
            };
        }
        all.into_iter().map(|(path, kind)| (path.to_owned(), kind)).collect()
    }
}

/// Sorts by name. If members share a name, the last one counts.
fn keep_last<K: Ord>(members: &mut Vec<(K, usize)>) {
    // The sort is stable, and fast if the members are sorted.
    members.sort_by(|(one, _), (other, _)| one.cmp(other));
    members.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1 = later.1;
        }
        same
    });
}

fn check_members(metadata: &Json) -> Result<(), Problem> {
    match metadata {
        Json::Object(_) => Ok(()),
        other => {
            invalid!("consolidated metadata: metadata: expected an object, found {}", other.brief())
        }
    }
}

/// Checks that a path is plain: keys come from outside.
fn check_path(path: &str) -> Result<(), Problem> {
    if path.is_empty() || Key::new(path).is_ok() {
        return Ok(());
    }
    invalid!("consolidated metadata: expected the path of a node, found {}", Json::from(path).brief())
}

fn v3_kind(document: &str) -> Result<NodeKind, Problem> {
    let document = Json::parse(document.as_bytes()).map_err(|error| Problem::Invalid(error.to_string()))?;
    Ok(if v3::is_array(&document)? { NodeKind::Array } else { NodeKind::Group })
}
