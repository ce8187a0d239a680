//! Walks a hierarchy in a store.
//!
//! * Hierarchies may have millions of nodes. Between nodes, the caller is asked whether to go on.
//! * Symbolic links may make circles. A group that is reached again below itself is listed, but not
//!   entered. A group that is linked at several places without a circle is listed at each of them.
//! * In a far store, each level is listed at once, and then its documents are read at once.
//!   Requests that can run together never wait for each other. Opening a node then needs no
//!   request.
//! * A node whose document cannot be read is listed as an array: opening it reports the fault. The
//!   other nodes can be used all the same.

use crate::documents::{Documents, Names};
use crate::node::{self, FoundNode, NodeKind, StoredNode};
use crate::path::join;
use crate::{Consolidation, Format, Group, Result, Wanted, ZarrError, node_lock};
use hyperslab_store::{Ask, Identity, Key, Store, StoreError};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// How often one group may be entered through different links. A few groups full of links to each
/// other have more paths than could ever be listed.
const MOST_VISITS: u32 = 2000;

/// A node below the group that is walked.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The node's path, relative to that group.
    pub path: String,
    /// The kind of the node.
    pub kind: NodeKind,
    /// The node's metadata, if the listing read it.
    pub(crate) found: Option<Arc<FoundNode>>,
}

impl Listed {
    /// A node with only its kind known.
    pub(crate) fn new(path: String, kind: NodeKind) -> Self {
        Listed { path, kind, found: None }
    }

    /// The node's parsed metadata, or `None` if it no longer exists.
    pub(crate) fn read_node(&self, group: &Group) -> Result<Option<StoredNode>> {
        let path = join(group.path(), &self.path);
        match &self.found {
            Some(found) => found.parse(group.store(), &path).map(Some),
            None => {
                let (format, kind) = (Some(group.format()), Some(self.kind));
                let consolidation = Consolidation::Ignore;
                node::read(group.store(), &path, Wanted { format, kind, consolidation, ..Wanted::default() })
            }
        }
    }
}

/// Bytes of metadata that are kept for opening nodes. Beyond that, metadata is read again.
const KEPT: usize = 256 << 20;

/// Fails with [`ZarrError::Interrupted`] if `ask` returns `true`.
pub(crate) fn check(ask: Option<Ask<'_>>) -> Result<()> {
    if ask.is_some_and(|ask| ask()) { Err(ZarrError::Interrupted) } else { Ok(()) }
}

/// Converts the error of an interrupted listing to [`ZarrError::Interrupted`].
pub(crate) fn interrupted_error(error: StoreError) -> ZarrError {
    match error {
        StoreError::Interrupted { .. } => ZarrError::Interrupted,
        error => error.into(),
    }
}

/// A group being walked, and its nodes still to be visited, the next one last.
struct Level {
    identity: Option<Identity>,
    pending: Vec<Listed>,
}

/// All nodes below a group, in the order of [`Group::walk`], by listing the store.
pub(crate) fn stored_nodes(
    group: &Group,
    max_depth: Option<usize>,
    ask: Option<Ask<'_>>,
) -> Result<Vec<Listed>> {
    if group.store().cost().prefers_rounds() {
        return nodes_by_level(group, max_depth, ask);
    }
    let mut walk = Walk { group, ask, visits: HashMap::new() };
    let mut found = Vec::new();
    let mut levels = Vec::new();
    if max_depth != Some(0) {
        levels.extend(walk.enter("", &levels)?);
    }
    while let Some(level) = levels.last_mut() {
        let Some(node) = level.pending.pop() else {
            levels.pop();
            continue;
        };
        if node.kind == NodeKind::Group && max_depth.is_none_or(|most| levels.len() < most) {
            levels.extend(walk.enter(&node.path, &levels)?);
        }
        found.push(node);
    }
    Ok(found)
}

/// Like [`stored_nodes`], with two rounds of requests for each level.
///
/// The first round lists the level's groups, the second reads the documents found. (Such stores
/// have no links, so there are no circles.)
fn nodes_by_level(group: &Group, max_depth: Option<usize>, ask: Option<Ask<'_>>) -> Result<Vec<Listed>> {
    let (store, format) = (group.store(), group.format());
    let (mut found, mut groups, mut kept) = (Vec::new(), vec![String::new()], 0);
    let mut depth = 0;
    while !groups.is_empty() && max_depth.is_none_or(|most| depth < most) {
        depth += 1;
        check(ask)?;
        let places: Vec<String> = groups.iter().map(|below| join(group.path(), below)).collect();
        let prefixes = places.iter().map(|path| node_lock::prefix(path)).collect::<Result<Vec<_>>>()?;
        let mut listed = groups.iter().map(|_| Ok(Vec::new())).collect::<Vec<_>>();
        store.list_dirs(&prefixes, &mut |n, entries| {
            if let Some(slot) = listed.get_mut(n) {
                *slot = entries;
            }
        });
        let mut below = Vec::new();
        for (parent, entries) in groups.iter().zip(listed) {
            let children = entries?.into_iter().filter(|entry| entry.is_prefix);
            below.extend(children.map(|entry| join(parent, &entry.name)));
        }
        // An entry's name may be an invalid key; then it is no node.
        let paths: Vec<String> = below.iter().map(|path| join(group.path(), path)).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let is_node: Vec<bool> = paths.iter().map(|path| Key::new(path).is_ok()).collect();
        let wanted = paths.iter().zip(&is_node).filter(|(_, is_node)| **is_node).map(|(path, _)| *path);
        let names = Names { format: Some(format), ..Names::default() };
        let mut documents = Documents::of(store, wanted, names, ask)?;
        groups.clear();
        for ((relative, path), _) in below.into_iter().zip(paths).zip(is_node).filter(|(_, is_node)| *is_node)
        {
            let found_node = node::find_in(&mut documents, store, path, names)
                .and_then(|node| node.map(|node| Ok((node.kind(store)?, node))).transpose());
            let (kind, node) = match found_node {
                Ok(Some((kind, node))) => (kind, Some(node)),
                Ok(None) => continue,
                // Opening it reports the fault.
                Err(error) if is_unreadable(&error) => (NodeKind::Array, None),
                Err(error) => return Err(error),
            };
            if kind == NodeKind::Group {
                groups.push(relative.clone());
            }
            let node = node.filter(|node| {
                kept += node.len();
                kept <= KEPT
            });
            found.push(Listed { path: relative, kind, found: node.map(Arc::new) });
        }
    }
    // Compares components: "a/b" comes before "a-b".
    found.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
    Ok(found)
}

struct Walk<'a> {
    group: &'a Group,
    ask: Option<Ask<'a>>,
    visits: HashMap<Identity, u32>,
}

impl Walk<'_> {
    /// Lists a group. Returns `None` if it is one of the groups above it.
    fn enter(&mut self, below: &str, above: &[Level]) -> Result<Option<Level>> {
        check(self.ask)?;
        let parent = join(self.group.path(), below);
        let prefix = node_lock::prefix(&parent)?;
        let store = self.group.store();
        let identity = store.identity(prefix)?;
        if let Some(identity) = identity {
            if above.iter().any(|level| level.identity == Some(identity)) {
                return Ok(None);
            }
            let visits = self.visits.entry(identity).or_default();
            *visits += 1;
            if *visits > MOST_VISITS {
                let why = format!(
                    "symbolic links lead to this group in more than {MOST_VISITS} ways; remove some of the links, or list fewer levels"
                );
                return Err(ZarrError::Invalid { path: parent, why });
            }
        }
        let mut pending = Vec::new();
        for entry in store.list_dir(prefix)? {
            check(self.ask)?;
            let path = join(&parent, &entry.name);
            // A file's name may be an invalid key; then it is no node.
            if !entry.is_prefix || Key::new(&path).is_err() {
                continue;
            }
            let kind = listed_kind(store, &path, self.group.format())?;
            pending.extend(kind.map(|kind| Listed::new(join(below, &entry.name), kind)));
        }
        pending.reverse();
        Ok(Some(Level { identity, pending }))
    }
}

/// The kind that a listing shows for a node: an array if the document cannot be read.
pub(crate) fn listed_kind(store: &Arc<dyn Store>, path: &str, format: Format) -> Result<Option<NodeKind>> {
    match node::kind(store, path, format) {
        Err(error) if is_unreadable(&error) => Ok(Some(NodeKind::Array)),
        kind => kind,
    }
}

/// Returns `true` if an error concerns one node and not the others.
fn is_unreadable(error: &ZarrError) -> bool {
    match error {
        ZarrError::Metadata { .. } | ZarrError::Unsupported { .. } => true,
        ZarrError::Store(StoreError::TooLarge { .. }) => true,
        ZarrError::Store(error) => error.io_kind() == Some(io::ErrorKind::PermissionDenied),
        _ => false,
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
