//! Groups: nodes that hold arrays and other groups.

use crate::attributes::Attributes;
use crate::consolidated::{self, View};
use crate::create::{self, Creation};
use crate::json::Json;
use crate::node::{self, Node, NodeKind, StoredNode, Wanted, ZARR_JSON, ZATTRS};
use crate::node_lock;
use crate::path::{join, normalize_path, parents};
use crate::{Array, Format, Listed, Result, ZarrError, walk};
use hyperslab_store::{Ask, Store};
use std::fmt;
use std::sync::Arc;

/// The use of consolidated metadata when a group is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Consolidation {
    /// Use it if the group has any.
    #[default]
    Auto,
    /// Never use it, and read the metadata stored with each node.
    Ignore,
    /// Always use it. A group without it is an error.
    Require,
}

/// A group.
///
/// A group opened with consolidated metadata shows its content: the same nodes are listed and
/// opened, with the consolidated metadata, without reading the store.
///
/// Changes through this group, its clones, and nodes reached from it are visible at once, also in
/// nodes opened later. Other changes are visible after [`Group::refresh`], if the group was
/// consolidated again. The *stored* consolidated metadata changes only by [`Group::consolidate`],
/// and when nodes are deleted ([`Group::delete_child`]).
#[derive(Clone)]
pub struct Group {
    store: Arc<dyn Store>,
    path: String,
    format: Format,
    attributes: Attributes,
    consolidated: Option<View>,
}

impl Group {
    /// Opens a group. Without a `format`, v3 is tried first.
    pub fn open(
        store: &Arc<dyn Store>,
        path: &str,
        format: Option<Format>,
        consolidation: Consolidation,
    ) -> Result<Self> {
        let path = normalize_path(path)?;
        match node::read(store, &path, Wanted::group(format, consolidation))? {
            None => Err(ZarrError::NotFound { what: "group", url: store.url(), path }),
            Some(stored) => Self::from_stored(store.clone(), path, stored, consolidation),
        }
    }

    /// Creates a group, and missing groups above it.
    ///
    /// With `overwrite`, the group replaces everything stored at `path` and below, which is deleted
    /// once the group exists. Without `overwrite`, an existing array or group is an error.
    pub fn create(
        store: Arc<dyn Store>,
        path: &str,
        format: Format,
        attributes: Json,
        overwrite: bool,
    ) -> Result<Self> {
        let how = if overwrite { Creation::Replace } else { Creation::New };
        Self::create_with(store, path, format, attributes, how, None)
    }

    /// Like [`Group::create`]. `ask` is called while this waits for others or deletes; `true` gives
    /// up.
    pub fn create_with(
        store: Arc<dyn Store>,
        path: &str,
        format: Format,
        attributes: Json,
        how: Creation,
        ask: Option<Ask<'_>>,
    ) -> Result<Self> {
        let group = Self::plan_new(store, path, format, attributes)?;
        let documents = create::group(format, group.attributes().clone());
        create::node(&group.store, &group.path, format, &documents, how, None, ask)?;
        Ok(group)
    }

    /// Creates a group with its members and replaces everything stored at `path` and below.
    ///
    /// [`Array::replace_with`] does the same for an array. `fill` gets the new group, at the root
    /// of its own store, and creates the members.
    pub fn replace_with<E: From<ZarrError>>(
        store: Arc<dyn Store>,
        path: &str,
        format: Format,
        attributes: Json,
        ask: Option<Ask<'_>>,
        fill: impl FnOnce(&Group) -> Result<(), E>,
    ) -> Result<Self, E> {
        let group = Self::plan_new(store, path, format, attributes)?;
        let documents = create::group(format, group.attributes().clone());
        create::replacing(&group.store, &group.path, format, &documents, ask, |new| {
            fill(&Group { store: new.clone(), path: String::new(), ..group.clone() })
        })?;
        Ok(group)
    }

    /// A group that is not stored yet.
    fn plan_new(store: Arc<dyn Store>, path: &str, format: Format, attributes: Json) -> Result<Self> {
        let path = normalize_path(path)?;
        node::check_attributes(&path, &attributes)?;
        let attributes = Attributes::new(attributes);
        Ok(Group { store, path, format, attributes, consolidated: None })
    }

    pub(crate) fn from_stored(
        store: Arc<dyn Store>,
        path: String,
        mut stored: StoredNode,
        consolidation: Consolidation,
    ) -> Result<Self> {
        let all = match consolidation {
            Consolidation::Require if !store.facts().consolidates => {
                let why = consolidated::refusal_message(&store);
                return Err(ZarrError::Invalid { path, why });
            }
            Consolidation::Ignore => None,
            _ if !store.facts().consolidates => None,
            _ => consolidated::read(&store, &path, &mut stored)?,
        };
        if all.is_none() && consolidation == Consolidation::Require {
            return Err(ZarrError::NotFound { what: "consolidated metadata", url: store.url(), path });
        }
        let view = all.map(|all| View::new(&path, all));
        Self::with_view(store, path, &stored, view)
    }

    fn with_view(
        store: Arc<dyn Store>,
        path: String,
        stored: &StoredNode,
        consolidated: Option<View>,
    ) -> Result<Self> {
        let url = store.url();
        if stored.kind == NodeKind::Array {
            return Err(ZarrError::WrongNode { url, path, expected: "a group", found: "an array" });
        }
        let attributes = stored.group(&url)?;
        Ok(Group { store, path, format: stored.format, attributes, consolidated })
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The path in the store; `""` for the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// `/` and the path.
    pub fn name(&self) -> String {
        format!("/{}", self.path)
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The user's attributes, as an object.
    pub fn attributes(&self) -> &Json {
        self.attributes.json()
    }

    /// `true` if children are listed from consolidated metadata.
    pub fn is_consolidated(&self) -> bool {
        self.consolidated.is_some()
    }

    /// Replaces the attributes atomically.
    ///
    /// Also updates consolidated metadata stored with this group, but not with groups above.
    pub fn set_attributes(&mut self, attributes: Json) -> Result<()> {
        self.change_attributes(None, |all| *all = attributes.clone())
    }

    /// Changes the attributes as they are stored now, without losing another writer's change.
    ///
    /// `change` is called again if another writer was faster. `ask` is called while this waits for
    /// others; `true` gives up.
    pub fn change_attributes<R>(
        &mut self,
        ask: Option<Ask<'_>>,
        mut change: impl FnMut(&mut Json) -> R,
    ) -> Result<R> {
        let (store, path) = (self.store.clone(), self.path.clone());
        let lock = node_lock::lock(&store, &path, ask)?;
        let name = if self.format == Format::V2 { ZATTRS } else { ZARR_JSON };
        loop {
            walk::check(ask)?;
            let (stored, version) = lock.read(&store, &path, self.format, NodeKind::Group, name, ask)?;
            let mut stored = stored.ok_or_else(|| self.not_found())?;
            let (changed, result) = stored.change_attributes(&store, &path, &mut change)?;
            let put = match (self.format, &stored.attributes) {
                (Format::V2, Some(attributes)) if changed => {
                    // Fail before anything is changed.
                    let known = stored.consolidated.take();
                    consolidated::check_own_attributes(&store, &path, attributes, known)?;
                    let put = version.replace(attributes, ask)?;
                    if put {
                        consolidated::put_own_attributes(&lock, &store, &path, ask)?;
                    }
                    put
                }
                (Format::V3, _) if changed => version.replace(&stored.document, ask)?,
                _ => true,
            };
            if !put {
                continue;
            }
            if self.format == Format::V3 {
                // The group's own nodes are not part of its attributes.
                Arc::make_mut(&mut stored.document).remove(consolidated::MEMBER);
            }
            self.attributes = stored.stored_attributes();
            if let Some(view) = &self.consolidated {
                view.put("", stored);
            }
            return Ok(result);
        }
    }

    /// Reads the group's metadata again.
    pub fn refresh(&mut self) -> Result<()> {
        let consolidation = if self.is_consolidated() { Consolidation::Auto } else { Consolidation::Ignore };
        self.reopen(consolidation)
    }

    /// The nodes directly below, sorted by name.
    pub fn children(&self) -> Result<Vec<(String, NodeKind)>> {
        self.walk(Some(1), None)
    }

    /// All nodes below, with paths relative to this group.
    ///
    /// Each group is followed by its members, down to `max_depth` levels (1: only the direct
    /// children).
    ///
    /// If a symbolic link leads back to a group, the group is listed there, but its members are not
    /// listed again. A node whose document cannot be read is listed as an array. `ask` is called
    /// between nodes; `true` gives up with [`ZarrError::Interrupted`].
    pub fn walk(&self, max_depth: Option<usize>, ask: Option<Ask<'_>>) -> Result<Vec<(String, NodeKind)>> {
        Ok(self.listed(max_depth, ask)?.into_iter().map(|node| (node.path, node.kind)).collect())
    }

    /// Like [`Group::walk`], with the data that [`Group::open_listed`] needs.
    pub fn listed(&self, max_depth: Option<usize>, ask: Option<Ask<'_>>) -> Result<Vec<Listed>> {
        let Some(view) = &self.consolidated else { return walk::stored_nodes(self, max_depth, ask) };
        let mut nodes = view.nodes_below();
        nodes.retain(|(path, _)| max_depth.is_none_or(|depth| path.matches('/').count() < depth));
        // Compares components: "a/b" comes before "a-b".
        nodes.sort_by(|(a, _), (b, _)| a.split('/').cmp(b.split('/')));
        Ok(nodes.into_iter().map(|(path, kind)| Listed::new(path, kind)).collect())
    }

    /// Opens a node that [`Group::listed`] found, with metadata from the listing if possible.
    pub fn open_listed(&self, listed: &Listed) -> Result<Node> {
        match &listed.found {
            Some(found) => {
                node::open_as_found(&self.store, join(&self.path, &listed.path), found.as_ref().clone())
            }
            None => self.child(&listed.path),
        }
    }

    /// Opens a node below this group, by its name or by a path relative to the group.
    pub fn child(&self, name: &str) -> Result<Node> {
        let relative = normalize_path(name)?;
        let path = join(&self.path, &relative);
        if relative.is_empty() {
            return Ok(Node::Group(self.clone()));
        }
        if let Some(view) = &self.consolidated {
            let store = self.store.clone();
            return match view.get(&relative, &store.url())? {
                None => Err(ZarrError::NotFound { what: "array or group", url: store.url(), path }),
                Some(stored) if stored.kind == NodeKind::Array => {
                    Array::from_copy(store, path, stored, view.copy(&relative)).map(Node::Array)
                }
                Some(stored) => {
                    Self::with_view(store, path, &stored, Some(view.of(&relative))).map(Node::Group)
                }
            };
        }
        node::open(&self.store, &path, Some(self.format))
    }

    /// The kind of a node below this group, or `None` if there is no node.
    ///
    /// A node whose document cannot be read counts as an array, as in a listing.
    pub fn child_kind(&self, name: &str) -> Result<Option<NodeKind>> {
        let relative = normalize_path(name)?;
        match &self.consolidated {
            Some(_) if relative.is_empty() => return Ok(Some(NodeKind::Group)),
            Some(view) => return Ok(view.kind(&relative)),
            None => {}
        }
        walk::listed_kind(&self.store, &join(&self.path, &relative), self.format)
    }

    /// Updates the consolidated metadata in memory with a node below, as it is stored now.
    ///
    /// Missing groups on the way are added too. For callers that have just created the node. Does
    /// nothing if the group was opened without consolidated metadata.
    pub fn notice(&self, name: &str) -> Result<()> {
        let Some(view) = &self.consolidated else { return Ok(()) };
        let relative = normalize_path(name)?;
        view.forget(&relative);
        for path in parents(&relative).skip(1).chain([relative.as_str()]).filter(|path| !path.is_empty()) {
            if path != relative && view.kind(path).is_some() {
                continue;
            }
            let wanted = Wanted { format: Some(self.format), ..Wanted::default() };
            if let Some(stored) = node::read(&self.store, &join(&self.path, path), wanted)? {
                view.put(path, stored);
            }
        }
        Ok(())
    }

    /// Like [`Group::notice`], for a new array whose later changes should be visible, too.
    pub fn adopt(&self, array: &mut Array) -> Result<()> {
        let Some(view) = &self.consolidated else { return Ok(()) };
        let inside = if self.path.is_empty() { Some(array.path()) } else { None };
        let below = format!("{}/", self.path);
        let Some(relative) = inside.or_else(|| array.path().strip_prefix(&below)).map(str::to_owned) else {
            return Ok(());
        };
        self.notice(&relative)?;
        array.keep_up(view.copy(&relative));
        Ok(())
    }

    /// Deletes a node below this group, and all nodes below that node.
    ///
    /// If this group was opened with consolidated metadata, the node is also removed from that
    /// metadata, in memory and in the store. `ask` is called while this waits for others or
    /// deletes; `true` gives up.
    pub fn delete_child(&mut self, name: &str, ask: Option<Ask<'_>>) -> Result<()> {
        let relative = normalize_path(name)?;
        let path = join(&self.path, &relative);
        if relative.is_empty() || self.child_kind(&relative)?.is_none() {
            return Err(ZarrError::NotFound { what: "array or group", url: self.store.url(), path });
        }
        create::remove(&self.store, &path, ask)?;
        if let Some(view) = &self.consolidated {
            view.forget(&relative);
            let place = view.place(&relative);
            consolidated::write_without(&self.store, view.owner(), self.format, &place, ask)?;
        }
        Ok(())
    }

    /// Deletes the group and all nodes below. For the root, deletes everything in the store.
    pub fn delete(self) -> Result<()> {
        create::remove(&self.store, &self.path, None)
    }

    /// Stores the present metadata of all nodes below with this group, and uses it from now on.
    ///
    /// `ask` is called while this waits for others; `true` gives up.
    pub fn consolidate(&mut self, ask: Option<Ask<'_>>) -> Result<()> {
        consolidated::write(self, ask)?;
        self.reopen(Consolidation::Require)
    }

    fn reopen(&mut self, consolidation: Consolidation) -> Result<()> {
        let mut now = Self::open(&self.store, &self.path, Some(self.format), consolidation)?;
        now.consolidated = match (self.consolidated.take(), now.consolidated.take()) {
            (Some(old), Some(new)) => Some(old.refresh(new)),
            (_, new) => new,
        };
        *self = now;
        Ok(())
    }

    pub(crate) fn not_found(&self) -> ZarrError {
        ZarrError::NotFound { what: "group", url: self.store.url(), path: self.path.clone() }
    }
}

/// Omits the store's contents.
impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("url", &self.store.url())
            .field("path", &self.path)
            .field("consolidated", &self.is_consolidated())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
