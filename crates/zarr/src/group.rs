//! Groups: nodes that hold arrays and other groups.

use crate::consolidated::{self, Consolidated};
use crate::json::Json;
use crate::node::{self, Node, NodeKind, Stored, ZARR_JSON, ZATTRS};
use crate::path::{join, normalize_path};
use crate::{Array, Format, ZarrError, walk};
use hyperslab_store::{Ask, Store};
use std::fmt;
use std::sync::Arc;

/// Whether a group is opened from consolidated metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Consolidation {
    /// If the group has any.
    #[default]
    Auto,
    /// Never: what is stored with each node counts.
    Ignore,
    /// Only so; a group that has none is an error.
    Require,
}

/// A group.
///
/// A group opened with consolidated metadata lists its children from there. [`Group::child`] looks there first, then in the store.
#[derive(Clone)]
pub struct Group {
    store: Arc<dyn Store>,
    path: String,
    format: Format,
    attributes: Json,
    consolidated: Option<View>,
}

/// The part of consolidated metadata that is a group's.
#[derive(Clone)]
struct View {
    all: Arc<Consolidated>,
    /// The group's path, relative to the group that `all` is stored with.
    base: String,
}

impl Group {
    /// Opens a group. Without a `format`, v3 is looked for first.
    pub fn open(
        store: &Arc<dyn Store>,
        path: &str,
        format: Option<Format>,
        consolidation: Consolidation,
    ) -> Result<Self, ZarrError> {
        let path = normalize_path(path)?;
        match node::read(store, &path, format)? {
            None => Err(ZarrError::NotFound { what: "group", url: store.url(), path }),
            Some(stored) => Self::from_stored(store.clone(), path, stored, consolidation),
        }
    }

    /// Creates a group, and missing groups above it. With `overwrite`, whatever is stored at `path` and below is deleted first; otherwise
    /// an array or group there is an error.
    pub fn create(
        store: Arc<dyn Store>,
        path: &str,
        format: Format,
        attributes: Json,
        overwrite: bool,
    ) -> Result<Self, ZarrError> {
        let path = normalize_path(path)?;
        node::check_attributes(&path, &attributes)?;
        node::make_room(&store, &path, format, overwrite)?;
        node::write_group(&store, &path, format, &attributes)?;
        Ok(Group { store, path, format, attributes, consolidated: None })
    }

    pub(crate) fn from_stored(
        store: Arc<dyn Store>,
        path: String,
        mut stored: Stored,
        consolidation: Consolidation,
    ) -> Result<Self, ZarrError> {
        let all = match consolidation {
            Consolidation::Ignore => None,
            _ => Consolidated::read(&store, &path, &mut stored)?,
        };
        if all.is_none() && consolidation == Consolidation::Require {
            return Err(ZarrError::NotFound { what: "consolidated metadata", url: store.url(), path });
        }
        let view = all.map(|all| View { all: Arc::new(all), base: String::new() });
        Self::with_view(store, path, &stored, view)
    }

    fn with_view(
        store: Arc<dyn Store>,
        path: String,
        stored: &Stored,
        consolidated: Option<View>,
    ) -> Result<Self, ZarrError> {
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

    /// The user's attributes, an object.
    pub fn attributes(&self) -> &Json {
        &self.attributes
    }

    /// Whether children are listed from consolidated metadata.
    pub fn is_consolidated(&self) -> bool {
        self.consolidated.is_some()
    }

    /// Replaces the attributes, atomically. Consolidated metadata stored with this group keeps up; that of groups above does not.
    pub fn set_attributes(&mut self, attributes: Json) -> Result<(), ZarrError> {
        node::check_attributes(&self.path, &attributes)?;
        match self.format {
            Format::V2 => {
                node::write_document(&self.store, &join(&self.path, ZATTRS), &attributes)?;
                consolidated::write_own_attributes(self, &attributes)?;
            }
            Format::V3 => {
                let key = join(&self.path, ZARR_JSON);
                let mut document = node::read_document(&self.store, &key)?.ok_or_else(|| self.not_found())?;
                document.set("attributes", attributes.clone());
                node::write_document(&self.store, &key, &document)?;
            }
        }
        self.attributes = attributes;
        Ok(())
    }

    /// Reads the group's metadata again.
    pub fn refresh(&mut self) -> Result<(), ZarrError> {
        let consolidation = if self.is_consolidated() { Consolidation::Auto } else { Consolidation::Ignore };
        *self = Self::open(&self.store, &self.path, Some(self.format), consolidation)?;
        Ok(())
    }

    /// The nodes directly below, sorted by name.
    pub fn children(&self) -> Result<Vec<(String, NodeKind)>, ZarrError> {
        self.walk(Some(1))
    }

    /// All nodes below, with their paths relative to this group: each group is followed by what is in it; at most `max_depth` levels (1: the
    /// direct children).
    ///
    /// A group that a symbolic link leads back to is listed, but what is in it is not listed again. A node whose document cannot be
    /// read is listed as an array.
    pub fn walk(&self, max_depth: Option<usize>) -> Result<Vec<(String, NodeKind)>, ZarrError> {
        self.walk_asking(max_depth, None)
    }

    /// As [`Group::walk`]; `ask` is asked between nodes, `true` gives up with [`ZarrError::Interrupted`].
    pub fn walk_asking(
        &self,
        max_depth: Option<usize>,
        ask: Option<Ask<'_>>,
    ) -> Result<Vec<(String, NodeKind)>, ZarrError> {
        let Some(view) = &self.consolidated else { return walk::stored_nodes(self, max_depth, ask) };
        let mut nodes: Vec<(String, NodeKind)> = view
            .all
            .below(&view.base)
            .filter(|(path, _)| max_depth.is_none_or(|depth| path.matches('/').count() < depth))
            .map(|(path, kind)| (path.to_owned(), kind))
            .collect();
        // By components: "a/b" comes before "a-b".
        nodes.sort_by(|(a, _), (b, _)| a.split('/').cmp(b.split('/')));
        Ok(nodes)
    }

    /// Opens a node below this group, by its name or by a path relative to the group.
    pub fn child(&self, name: &str) -> Result<Node, ZarrError> {
        let relative = normalize_path(name)?;
        let path = join(&self.path, &relative);
        if relative.is_empty() {
            return Ok(Node::Group(self.clone()));
        }
        if let Some(view) = &self.consolidated {
            let base = join(&view.base, &relative);
            if let Some(stored) = view.all.get(&base) {
                return match stored.kind {
                    NodeKind::Array => {
                        Array::from_stored(self.store.clone(), path, stored.clone(), true).map(Node::Array)
                    }
                    NodeKind::Group => {
                        let view = View { all: view.all.clone(), base };
                        Self::with_view(self.store.clone(), path, stored, Some(view)).map(Node::Group)
                    }
                };
            }
        }
        node::open_with(&self.store, &path, Some(self.format), Consolidation::Auto)
    }

    /// Whether there is a node below this group, and what it is.
    pub fn child_kind(&self, name: &str) -> Result<Option<NodeKind>, ZarrError> {
        let relative = normalize_path(name)?;
        if let Some(view) = &self.consolidated
            && let Some(stored) = view.all.get(&join(&view.base, &relative))
        {
            return Ok(Some(stored.kind));
        }
        node::kind(&self.store, &join(&self.path, &relative), self.format)
    }

    /// Deletes a node below this group, and all below that. Consolidated metadata stored with this group forgets it.
    pub fn delete_child(&mut self, name: &str) -> Result<(), ZarrError> {
        let relative = normalize_path(name)?;
        let path = join(&self.path, &relative);
        if relative.is_empty() || self.child_kind(&relative)?.is_none() {
            return Err(ZarrError::NotFound { what: "array or group", url: self.store.url(), path });
        }
        node::remove(&self.store, &path)?;
        if let Some(view) = &mut self.consolidated {
            Arc::make_mut(&mut view.all).forget(&join(&view.base, &relative));
            if view.base.is_empty() {
                consolidated::write_without(self, &relative)?;
            }
        }
        Ok(())
    }

    /// Deletes the group and all below it; the group of the root: everything in the store.
    pub fn delete(self) -> Result<(), ZarrError> {
        node::remove(&self.store, &self.path)
    }

    /// Stores the metadata of all nodes below with this group, as it is in the store now, and uses it from here on.
    pub fn consolidate(&mut self) -> Result<(), ZarrError> {
        self.consolidate_asking(None)
    }

    /// As [`Group::consolidate`]; `ask` is asked between nodes, `true` gives up with [`ZarrError::Interrupted`] before anything is
    /// written.
    pub fn consolidate_asking(&mut self, ask: Option<Ask<'_>>) -> Result<(), ZarrError> {
        consolidated::write(self, ask)?;
        *self = Self::open(&self.store, &self.path, Some(self.format), Consolidation::Require)?;
        Ok(())
    }

    pub(crate) fn not_found(&self) -> ZarrError {
        ZarrError::NotFound { what: "group", url: self.store.url(), path: self.path.clone() }
    }
}

/// Without the store's contents.
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
