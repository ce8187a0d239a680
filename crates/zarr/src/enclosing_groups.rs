//! The groups above a node whose consolidated metadata contains the node.
//!
//! Consolidated metadata is a copy that readers trust. When a node is replaced, an outdated copy is
//! worse than none: readers decode new chunks with the old metadata. [`EnclosingGroups::forget`]
//! removes the node before it is replaced. [`EnclosingGroups::renew`] consolidates the groups again.
//! If the process is killed in between, readers of consolidated metadata do not see the node.

use crate::consolidated::{self, document, is_stored};
use crate::documents::Documents;
use crate::path::parents;
use crate::{Consolidation, Format, Group, Result, ZarrError};
use hyperslab_store::{Ask, Store};
use std::sync::Arc;

/// The groups above a node that have consolidated metadata.
#[derive(Debug, Default)]
pub struct EnclosingGroups {
    groups: Vec<Owner>,
}

/// A group with consolidated metadata.
#[derive(Debug)]
struct Owner {
    store: Arc<dyn Store>,
    path: String,
    format: Format,
    /// The path of the node, relative to the group.
    place: String,
}

impl EnclosingGroups {
    /// The groups above a path in a store.
    pub fn in_store(store: &Arc<dyn Store>, path: &str) -> Result<EnclosingGroups> {
        let place = |parent: &str| path.get(parent.len()..).unwrap_or_default().trim_start_matches('/');
        let groups: Vec<_> = parents(path).map(|parent| (parent, place(parent).to_owned())).collect();
        let mut above = EnclosingGroups::default();
        above.look(store, &groups).map(|()| above)
    }

    /// Adds the groups that have consolidated metadata, out of these: their paths, and the node's
    /// path in each.
    ///
    /// Fails if a document cannot be read, after it has looked at the others.
    pub fn look(&mut self, store: &Arc<dyn Store>, groups: &[(&str, String)]) -> Result<()> {
        if !store.facts().consolidates {
            return Ok(());
        }
        const FORMATS: [Format; 2] = [Format::V2, Format::V3];
        let keys = groups.iter().flat_map(|(path, _)| FORMATS.map(|format| document(path, format)));
        let mut read = Documents::of_keys(store, keys.collect(), None)?;
        let mut looked = Ok(());
        for (path, place) in groups {
            for format in FORMATS {
                match is_stored(store, &mut read, path, format) {
                    Ok(true) => {
                        let (store, path, place) = (store.clone(), (*path).to_owned(), place.clone());
                        self.groups.push(Owner { store, path, format, place });
                    }
                    Ok(false) => {}
                    Err(error) => looked = looked.and(Err(error)),
                }
            }
        }
        looked
    }

    /// Removes the node, and all nodes below it, from the consolidated metadata of these groups.
    pub fn forget(&self, ask: Option<Ask<'_>>) -> Result<()> {
        self.groups.iter().try_for_each(|Owner { store, path, format, place }| {
            consolidated::write_without(store, path, *format, place, ask)
        })
    }

    /// Consolidates these groups again.
    pub fn renew(&self, ask: Option<Ask<'_>>) -> Result<()> {
        self.groups.iter().try_for_each(|Owner { store, path, format, .. }| {
            match Group::open(store, path, Some(*format), Consolidation::Ignore) {
                // The group was deleted meanwhile.
                Err(ZarrError::NotFound { .. }) => Ok(()),
                group => consolidated::write(&group?, ask),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Array, ArraySpec, Json, Node};
    use hyperslab_store::MemoryStore;

    fn array(store: &Arc<dyn Store>, path: &str, format: Format, dtype: &str) {
        let spec = ArraySpec::new(format, &[2], dtype.parse().unwrap());
        Array::create(store.clone(), path, spec, true).unwrap();
    }

    /// The element type of an array according to a group's consolidated metadata.
    fn seen(store: &Arc<dyn Store>, group: &str, name: &str, format: Format) -> Option<String> {
        let group = Group::open(store, group, Some(format), Consolidation::Require).unwrap();
        match group.child(name) {
            Ok(Node::Array(array)) => Some(array.layout().dtype().to_string()),
            _ => None,
        }
    }

    #[test]
    fn groups_above_are_renewed() {
        for format in [Format::V2, Format::V3] {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            for path in ["", "x", "y"] {
                Group::create(store.clone(), path, format, Json::object(), false).unwrap();
            }
            array(&store, "x/a", format, "<i4");
            array(&store, "x/ab", format, "<i4");
            for path in ["", "x"] {
                Group::open(&store, path, Some(format), Consolidation::Ignore)
                    .unwrap()
                    .consolidate(None)
                    .unwrap();
            }
            let above = EnclosingGroups::in_store(&store, "x/a").unwrap();
            assert_eq!(above.groups.len(), 2);
            above.forget(None).unwrap();
            for (group, prefix) in [("", "x/"), ("x", "")] {
                assert_eq!(seen(&store, group, &format!("{prefix}a"), format), None);
                assert_eq!(seen(&store, group, &format!("{prefix}ab"), format).as_deref(), Some("<i4"));
            }
            array(&store, "x/a", format, "<f4");
            above.renew(None).unwrap();
            for (group, name) in [("", "x/a"), ("x", "a")] {
                assert_eq!(seen(&store, group, name, format).as_deref(), Some("<f4"));
            }
            // A group without consolidated metadata stays so.
            assert!(
                EnclosingGroups::in_store(&store, "y/a")
                    .unwrap()
                    .groups
                    .iter()
                    .all(|owner| owner.path.is_empty())
            );
            assert!(EnclosingGroups::in_store(&store, "").unwrap().groups.is_empty());
        }
    }
}
