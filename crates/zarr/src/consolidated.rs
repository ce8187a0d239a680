//! Consolidated metadata: a whole hierarchy's metadata in one object.
//!
//! Opening the hierarchy then takes one read.
//!
//! v2, `.zmetadata` in the group: `{"zarr_consolidated_format": 1, "metadata": {"a/.zarray": {…},
//! "a/.zattrs": {…}, …}}`. v3, in the group's `zarr.json`: `{"consolidated_metadata": {"kind":
//! "inline", "must_understand": false, "metadata": {"a": {…}, …}}, …}`.
//!
//! It is a copy, and goes stale when nodes below change without it. As with zarr-python, the writer
//! has to consolidate again.
//!
//! A group opened with consolidated metadata keeps it in memory ([`Shared`]), shared with all nodes
//! reached from the group. Changes by these nodes also change the copy in memory; other changes are
//! not seen.

mod apart;
pub(crate) mod compare;
mod nodes;

pub(crate) use apart::{Apart, outline, parse};

use crate::documents::{Documents, read_text};
use crate::error::{Result, ZarrError};
use crate::json::Json;
use crate::node::{self, NodeKind, StoredNode, ZARR_JSON, ZARRAY, ZATTRS, ZGROUP, ZMETADATA};
use crate::node_lock::{self, NodeLock};
use crate::path::join;
use crate::{Format, Group, walk};
use hyperslab_store::fork::RwLock;
use hyperslab_store::{Ask, Store};
use nodes::Nodes;
use std::sync::{Arc, Weak};

/// The member of a v3 group's document.
pub(crate) const MEMBER: &str = "consolidated_metadata";

/// Reads the consolidated metadata of a group; removes v3's from the document.
///
/// Returns `None` if there is none of a known kind.
pub(crate) fn read(store: &Arc<dyn Store>, path: &str, stored: &mut StoredNode) -> Result<Option<Nodes>> {
    let (key, parsed) = match stored.format {
        Format::V3 => {
            let member = Arc::make_mut(&mut stored.document).remove(MEMBER).unwrap_or(Json::Null);
            let apart = stored.apart.take().unwrap_or_default();
            (stored.key.clone(), Nodes::from_v3(member, apart, &stored.key))
        }
        Format::V2 => {
            let key = join(path, ZMETADATA);
            let text = match stored.consolidated.take() {
                Some(text) => text,
                None => read_text(store, &key)?,
            };
            let Some(text) = text else { return Ok(None) };
            let (document, apart) =
                parse(&text, Format::V2).map_err(|error| node::not_json(store, &key, &error))?;
            drop(text);
            let parsed = Nodes::from_v2(document, apart, &key).map(Some);
            (key, parsed)
        }
    };
    parsed.map_err(|problem| problem.at(&store.url(), &key))
}

/// A v2 group's consolidated metadata. `known`: its text, if it has been read.
fn read_v2(store: &Arc<dyn Store>, key: &str, known: Option<Option<Vec<u8>>>) -> Result<Option<Json>> {
    match known {
        Some(text) => text.map(|text| node::parse_document(store, key, &text)).transpose(),
        None => node::read_document(store, key),
    }
}

/// A group's consolidated metadata, shared by the group and the nodes reached from it.
pub(crate) struct Shared {
    /// The path of the group that stores the metadata.
    owner: String,
    /// Gated.
    nodes: RwLock<Nodes>,
}

/// The part of consolidated metadata that belongs to one group.
#[derive(Clone)]
pub(crate) struct View {
    all: Arc<Shared>,
    /// The group's path, relative to the owner.
    base: String,
}

/// A group's copy of an array's metadata in memory, as long as anything uses the group.
#[derive(Clone)]
pub(crate) struct Copied {
    all: Weak<Shared>,
    /// The array's path, relative to the owner.
    path: String,
}

impl Copied {
    pub(crate) fn put(&self, stored: StoredNode) {
        if let Some(all) = self.all.upgrade() {
            all.nodes.write().put(self.path.clone(), stored);
        }
    }
}

impl View {
    pub(crate) fn new(owner: &str, nodes: Nodes) -> Self {
        let nodes = RwLock::new(nodes);
        View { all: Arc::new(Shared { owner: owner.to_owned(), nodes }), base: String::new() }
    }

    /// This view with the content of `new`, if both belong to the group that stores the metadata.
    ///
    /// Nodes reached from either view then see the new content.
    pub(crate) fn refresh(self, new: View) -> View {
        if !self.base.is_empty() || !new.base.is_empty() || self.all.owner != new.all.owner {
            return new;
        }
        std::mem::swap(&mut *self.all.nodes.write(), &mut *new.all.nodes.write());
        self
    }

    /// The path of the group that stores the metadata.
    pub(crate) fn owner(&self) -> &str {
        &self.all.owner
    }

    /// The path of a node below this view's group, relative to the owner.
    pub(crate) fn place(&self, relative: &str) -> String {
        join(&self.base, relative)
    }

    /// The view of a group below.
    pub(crate) fn of(&self, relative: &str) -> View {
        View { all: self.all.clone(), base: self.place(relative) }
    }

    /// The metadata of a node below. `url` is the store's.
    pub(crate) fn get(&self, relative: &str, url: &str) -> Result<Option<StoredNode>> {
        let place = self.place(relative);
        let found = self.all.nodes.read().get(&place);
        found.map(|found| found.parse(&place, url)).transpose()
    }

    pub(crate) fn kind(&self, relative: &str) -> Option<NodeKind> {
        self.all.nodes.read().kind(&self.place(relative))
    }

    /// Paths of all nodes below, relative to this view's group.
    pub(crate) fn nodes_below(&self) -> Vec<(String, NodeKind)> {
        self.all.nodes.read().below(&self.base)
    }

    /// The copy of an array below.
    pub(crate) fn copy(&self, relative: &str) -> Copied {
        Copied { all: Arc::downgrade(&self.all), path: self.place(relative) }
    }

    /// Replaces the known metadata of a node below. Ignores the owner itself.
    pub(crate) fn put(&self, relative: &str, mut stored: StoredNode) {
        let place = self.place(relative);
        if place.is_empty() {
            return;
        }
        if stored.kind == NodeKind::Group && stored.format == Format::V3 {
            Arc::make_mut(&mut stored.document).remove(MEMBER);
        }
        self.all.nodes.write().put(place, stored);
    }

    /// Forgets a node below, and all nodes below that node.
    pub(crate) fn forget(&self, relative: &str) {
        let place = self.place(relative);
        self.all.nodes.write().forget(&place);
    }
}

/// Returns `true` if `path` is `other` or below it.
fn is_within(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The message for a store that must have consolidated metadata but does not.
pub(crate) fn refusal_message(store: &Arc<dyn Store>) -> String {
    format!("the store {} has no consolidated metadata; open the group without it", store.url())
}

/// Collects the metadata of all nodes below a group and stores it with the group.
pub(crate) fn write(group: &Group, ask: Option<Ask<'_>>) -> Result<()> {
    let (store, base) = (group.store(), group.path());
    if !store.facts().consolidates {
        return Err(ZarrError::Consolidated { path: base.to_owned(), why: refusal_message(store) });
    }
    let mut nodes = Vec::new();
    for listed in walk::stored_nodes(group, None, ask)? {
        walk::check(ask)?;
        // Nodes that vanished meanwhile are left out.
        if let Some(stored) = listed.read_node(group)? {
            let path = listed.path;
            nodes.push((path, stored));
        }
    }
    // Outer nodes first, then by name: zarr-python's order.
    nodes.sort_by_cached_key(|(path, _)| (path.matches('/').count(), path.to_lowercase()));
    let inline = |nodes| {
        Json::from([
            ("kind", "inline".into()),
            ("must_understand", false.into()),
            ("metadata", Json::Object(nodes)),
        ])
    };
    let mut members = Vec::new();
    for (path, mut stored) in nodes {
        match group.format() {
            Format::V3 => {
                if stored.kind == NodeKind::Group {
                    Arc::make_mut(&mut stored.document).set(MEMBER, inline(Vec::new()));
                }
                members.push((path, Arc::unwrap_or_clone(stored.document)));
            }
            Format::V2 => members.extend(v2_documents(&path, stored)),
        }
    }
    // Read the group's own document under the lock, so that nobody else changes it.
    let lock = node_lock::lock(store, base, ask)?;
    let name = if group.format() == Format::V3 { ZARR_JSON } else { ZMETADATA };
    loop {
        walk::check(ask)?;
        let (own, state) = lock.read(store, base, group.format(), NodeKind::Group, name, ask)?;
        let own = own.ok_or_else(|| group.not_found())?;
        let document = match group.format() {
            Format::V3 => {
                let mut document = Arc::unwrap_or_clone(own.document);
                document.set(MEMBER, inline(members.clone()));
                document
            }
            Format::V2 => {
                let metadata = v2_documents("", own).into_iter().chain(members.iter().cloned()).collect();
                Json::from([("metadata", Json::Object(metadata)), ("zarr_consolidated_format", 1u32.into())])
            }
        };
        if state.replace(&document, ask)? {
            return Ok(());
        }
    }
}

/// The documents of a v2 node, by their keys.
fn v2_documents(path: &str, stored: StoredNode) -> [(String, Json); 2] {
    let file = if stored.kind == NodeKind::Array { ZARRAY } else { ZGROUP };
    let attributes = stored.attributes.map_or_else(Json::object, Arc::unwrap_or_clone);
    [(join(path, file), Arc::unwrap_or_clone(stored.document)), (join(path, ZATTRS), attributes)]
}

/// The key of the document that holds the consolidated metadata of the group at a path.
pub(crate) fn document(path: &str, format: Format) -> String {
    join(path, if format == Format::V3 { ZARR_JSON } else { ZMETADATA })
}

/// Returns `true` if the group at a path has consolidated metadata.
///
/// An unreadable document counts as none.
///
/// `read` are documents that have been read together.
pub(crate) fn is_stored(
    store: &Arc<dyn Store>,
    read: &mut Documents,
    path: &str,
    format: Format,
) -> Result<bool> {
    let Some(text) = read.take(store, &document(path, format))? else { return Ok(false) };
    Ok(outline(&text, format).is_ok_and(|document| match format {
        Format::V3 => document.get(MEMBER).is_some_and(|found| found.as_object().is_some()),
        Format::V2 => document.get("metadata").is_some(),
    }))
}

/// Removes a deleted node from the consolidated metadata of the group at `owner`.
pub(crate) fn write_without(
    store: &Arc<dyn Store>,
    owner: &str,
    format: Format,
    path: &str,
    ask: Option<Ask<'_>>,
) -> Result<()> {
    let lock = node_lock::lock(store, owner, ask)?;
    let name = if format == Format::V3 { ZARR_JSON } else { ZMETADATA };
    let within = |name: &str| match format {
        Format::V3 => is_within(name, path),
        Format::V2 => name.rsplit_once('/').is_some_and(|(node, _)| is_within(node, path)),
    };
    loop {
        walk::check(ask)?;
        let (document, state) = lock.read_document(store, owner, name, ask)?;
        let Some(mut document) = document else { return Ok(()) };
        let found = match format {
            Format::V3 => document.get_mut(MEMBER).and_then(|member| member.get_mut("metadata")),
            Format::V2 => document.get_mut("metadata"),
        };
        match found {
            Some(Json::Object(nodes)) => {
                let before = nodes.len();
                nodes.retain(|(name, _)| !within(name));
                if nodes.len() == before {
                    return Ok(());
                }
            }
            _ => return Ok(()),
        }
        if state.replace(&document, ask)? {
            return Ok(());
        }
    }
}

/// Checks that a v2 group's consolidated metadata, if any, can hold these attributes of the group.
///
/// (v3's has no copy of them.)
pub(crate) fn check_own_attributes(
    store: &Arc<dyn Store>,
    path: &str,
    attributes: &Json,
    known: Option<Option<Vec<u8>>>,
) -> Result<()> {
    let key = join(path, ZMETADATA);
    let Some(mut document) = read_v2(store, &key, known)? else { return Ok(()) };
    set_own_attributes(&mut document, attributes.clone());
    node::check_document(&key, &document).map(drop)
}

/// Updates a v2 group's own attributes in its consolidated metadata, if there is any.
pub(crate) fn put_own_attributes<'s>(
    lock: &NodeLock<'s>,
    store: &'s Arc<dyn Store>,
    path: &str,
    ask: Option<Ask<'_>>,
) -> Result<()> {
    loop {
        walk::check(ask)?;
        let (document, state) = lock.read_document(store, path, ZMETADATA, ask)?;
        let Some(mut document) = document else { return Ok(()) };
        let Some(attributes) = node::read_document(store, &join(path, ZATTRS))? else { return Ok(()) };
        if !set_own_attributes(&mut document, attributes) || state.replace(&document, ask)? {
            return Ok(());
        }
    }
}

fn set_own_attributes(document: &mut Json, attributes: Json) -> bool {
    let Some(metadata) = document.get_mut("metadata") else { return false };
    metadata.set(ZATTRS, attributes);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Problem;
    use crate::testing::cases;

    /// The nodes, or an error message.
    type Listed<T> = Result<T, String>;

    fn v2(text: &str) -> Listed<Vec<(String, NodeKind)>> {
        let (document, apart) = parse(text.as_bytes(), Format::V2).unwrap();
        Nodes::from_v2(document, apart, ".zmetadata").map(|nodes| nodes.below("")).map_err(Problem::text)
    }

    fn v3_nodes(member: &str) -> Listed<Option<Nodes>> {
        let text = format!(r#"{{"{MEMBER}": {member}}}"#);
        let (mut document, apart) = parse(text.as_bytes(), Format::V3).unwrap();
        Nodes::from_v3(document.remove(MEMBER).unwrap(), apart, "zarr.json").map_err(Problem::text)
    }

    fn v3(member: &str) -> Listed<Option<Vec<(String, NodeKind)>>> {
        v3_nodes(member).map(|nodes| nodes.map(|nodes| nodes.below("")))
    }

    #[test]
    fn v2_documents() {
        let group = r#"{"zarr_format": 2}"#;
        let text = format!(
            r#"{{"metadata": {{".zgroup": {group}, ".zattrs": {{"t": 1}}, "x/.zattrs": {{}}, "x/.zgroup": {group}, "x/a/.zarray": {{}}}}, "zarr_consolidated_format": 1}}"#
        );
        assert_eq!(v2(&text), Ok(vec![("x".into(), NodeKind::Group), ("x/a".into(), NodeKind::Array)]));
        for [text, want] in cases(
            r#"
            {"metadata": {}} | zarr_consolidated_format is missing
            {"metadata": {}, "zarr_consolidated_format": 2} | expected 1, found 2
            {"zarr_consolidated_format": 1} | metadata: expected an object, found null
            {"metadata": {"../x/.zgroup": {}}, "zarr_consolidated_format": 1} | found "../x"
            {"metadata": {"/x/.zgroup": {}}, "zarr_consolidated_format": 1} | found "/x"
            {"metadata": {"x/zarr.json": {}}, "zarr_consolidated_format": 1} | found "x/zarr.json"
            [] | zarr_consolidated_format is missing
        "#,
        ) {
            let error = v2(text).unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn v3_documents() {
        let node = |kind: &str| format!(r#"{{"zarr_format": 3, "node_type": "{kind}"}}"#);
        let text = format!(
            r#"{{"kind": "inline", "metadata": {{"x/a": {}, "x": {}, "x-y": {}}}}}"#,
            node("array"),
            node("group"),
            node("group")
        );
        let found = v3(&text).unwrap().unwrap();
        assert_eq!(found.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), ["x", "x-y", "x/a"]);
        assert_eq!(v3("null"), Ok(None));
        assert_eq!(v3(r#"{"kind": "elsewhere", "metadata": 3}"#), Ok(None));
        for [text, want] in cases(
            r#"
            {"kind": "inline"} | expected an object, found null
            {"kind": "inline", "metadata": {"a": {"zarr_format": 2}}} | a: zarr_format: expected 3, found 2
            {"kind": "inline", "metadata": {"a/../b": {}}} | found "a/../b"
            {"kind": "inline", "metadata": {"a": 3}} | a: expected an object, found 3
        "#,
        ) {
            let error = v3(text).unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_below() {
        let group = r#"{"zarr_format": 3, "node_type": "group"}"#;
        let names = ["a", "a-b", "a-b/c", "a/b", "a/b/c", "a.b", "ab"];
        let members: Vec<String> = names.iter().map(|name| format!("\"{name}\": {group}")).collect();
        let text = format!(r#"{{"kind": "inline", "metadata": {{{}}}}}"#, members.join(", "));
        let nodes = v3_nodes(&text).unwrap().unwrap();
        let all = View::new("", nodes);
        let names = |base: &str| -> Vec<String> {
            all.of(base).nodes_below().into_iter().map(|(path, _)| path).collect()
        };
        assert_eq!(names("a"), ["b", "b/c"]);
        assert_eq!(names("").len(), 7);
        all.forget("a");
        assert_eq!(names(""), ["a-b", "a-b/c", "a.b", "ab"]);
        assert!(all.get("a", "").unwrap().is_none() && all.get("ab", "").unwrap().is_some());
    }
}
