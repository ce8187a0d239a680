//! Creates nodes in a store that no other process writes.
//!
//! Threads of this process take turns, so nothing needs to be checked twice: the places of the node
//! and of the groups above it are looked at, and then written.

use crate::create::{self, Creation, Documents};
use crate::documents::{ZARR_JSON, ZARRAY, ZGROUP};
use crate::json::Json;
use crate::node::{self, NodeKind};
use crate::path::{join, parents};
use crate::{Format, Result, ZarrError, node_lock};
use hyperslab_store::{Ask, Key, Store, turn, turns::Turn};
use std::sync::Arc;

/// Never the name of an object.
const CREATIONS: &str = ".creations.zarr.json";

/// The turn of everybody who creates or removes nodes. `None` in a store that other processes
/// write, too.
///
/// Its holder waits for no other lock. A node's own lock is therefore taken first.
pub(crate) fn turn_of_creations(store: &Arc<dyn Store>, ask: Option<Ask<'_>>) -> Result<Option<Turn>> {
    if store.facts().is_shared {
        return Ok(None);
    }
    Ok(Some(turn(&**store, Key::new(CREATIONS)?, ask)?))
}

/// Creates a node: see [`create::node`].
pub(crate) fn node(
    store: &Arc<dyn Store>,
    path: &str,
    format: Format,
    documents: &Documents,
    how: Creation,
    ask: Option<Ask<'_>>,
) -> Result<()> {
    let _lock = node_lock::lock(store, path, ask)?;
    let _turn = turn_of_creations(store, ask)?;
    let mut places = Places { store, nothing_below: false };
    let missing = if how == Creation::New { places.missing_parents(path, format)? } else { Vec::new() };
    if let Some((_, kind)) = places.find(path, "")? {
        return Err(ZarrError::Exists { what: kind.name(), url: store.url(), path: path.to_owned() });
    }
    write_groups(store, &missing, format)?;
    write(store, path, documents)
}

/// Creates the missing groups above a node, in a turn of creations.
pub(crate) fn make_parents(store: &Arc<dyn Store>, path: &str, format: Format) -> Result<()> {
    let missing = Places { store, nothing_below: false }.missing_parents(path, format)?;
    write_groups(store, &missing, format)
}

fn write_groups(store: &Arc<dyn Store>, paths: &[&str], format: Format) -> Result<()> {
    paths.iter().try_for_each(|path| write(store, path, &create::group(format, Json::object())))
}

fn write(store: &Arc<dyn Store>, path: &str, documents: &Documents) -> Result<()> {
    let mut all = documents.iter();
    all.try_for_each(|(name, document)| node::write_document(store, &join(path, name), document))
}

/// Places of nodes, looked at from the root towards the new node.
struct Places<'s> {
    store: &'s Arc<dyn Store>,
    /// A listing has shown that nothing is stored further in.
    nothing_below: bool,
}

impl Places<'_> {
    /// The missing groups above a node, outermost first.
    ///
    /// Fails if an existing node cannot hold the new one, or if a group cannot have such a name.
    fn missing_parents<'p>(&mut self, path: &'p str, format: Format) -> Result<Vec<&'p str>> {
        let mut missing = Vec::new();
        for parent in parents(path) {
            match self.find_parent(parent, path, format)? {
                Some((found, NodeKind::Group)) if found == format => {}
                Some((found, NodeKind::Array)) if found == format => {
                    return Err(create::in_the_way(self.store, parent));
                }
                Some(found) => return Err(create::other_format(path, format, parent, found)),
                None => {
                    create::check_name(parent)?;
                    missing.push(parent);
                }
            }
        }
        Ok(missing)
    }

    /// The node at `parent`, above `path`. Mostly it is a group of this format.
    fn find_parent(
        &mut self,
        parent: &str,
        path: &str,
        format: Format,
    ) -> Result<Option<(Format, NodeKind)>> {
        if self.nothing_below {
            return Ok(None);
        }
        if let Some(kind) = node::kind(self.store, parent, format)? {
            return Ok(Some((format, kind)));
        }
        let below = path.get(parent.len()..).unwrap_or_default().trim_start_matches('/');
        self.find(parent, below.split('/').next().unwrap_or_default())
    }

    /// The node of any format at `path`. `next` is the name below at which the next look goes.
    fn find(&mut self, path: &str, next: &str) -> Result<Option<(Format, NodeKind)>> {
        if self.nothing_below {
            return Ok(None);
        }
        let kind = |format| Ok(node::kind(self.store, path, format)?.map(|kind| (format, kind)));
        if self.store.cost().worth_guessing() || !self.store.facts().lists {
            let found = kind(Format::V3)?;
            return if found.is_some() { Ok(found) } else { kind(Format::V2) };
        }
        // One request instead of one for each document. Mostly nothing is there.
        let mut listed = Ok(Vec::new());
        self.store.list_dirs(&[node_lock::prefix(path)?], &mut |_, entries| listed = entries);
        let listed = listed?;
        let has = |name: &str| listed.iter().any(|entry| entry.name == name);
        let found = match () {
            () if has(ZARR_JSON) => kind(Format::V3)?,
            () if has(ZARRAY) => Some((Format::V2, NodeKind::Array)),
            () if has(ZGROUP) => Some((Format::V2, NodeKind::Group)),
            () => None,
        };
        self.nothing_below = !has(next);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Array, ArraySpec, Format, Group, Json, ZarrError};
    use hyperslab_store::{Key, MemoryStore, Store};
    use std::sync::Arc;

    fn array(store: &Arc<dyn Store>, path: &str, format: Format) -> crate::Result<Array> {
        Array::create(store.clone(), path, ArraySpec::new(format, &[2], "|u1".parse().unwrap()), false)
    }

    #[test]
    fn nothing_is_stored_if_a_node_is_in_the_way() {
        for format in [Format::V2, Format::V3] {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            // A node below a missing group.
            array(&store, "x/y", format).unwrap();
            for key in ["zarr.json", ".zgroup", ".zattrs", "x/zarr.json", "x/.zgroup", "x/.zattrs"] {
                store.delete(Key::new(key).unwrap()).unwrap();
            }
            let before = store.list(None).unwrap();
            let error = array(&store, "x/y", format).unwrap_err();
            assert!(matches!(error, ZarrError::Exists { .. }), "{error}");
            let error = Group::create(store.clone(), "x/y/z", format, Json::object(), false).unwrap_err();
            assert!(matches!(error, ZarrError::WrongNode { .. }), "{error}");
            let other = if format == Format::V2 { Format::V3 } else { Format::V2 };
            let error = array(&store, "x/y/z", other).unwrap_err();
            assert!(error.to_string().contains("cannot be in it"), "{error}");
            assert_eq!(store.list(None).unwrap(), before);
            array(&store, "x/z", format).unwrap();
            assert_eq!(Group::open(&store, "", None, crate::Consolidation::Auto).unwrap().format(), format);
        }
    }

    #[test]
    fn of_several_threads_one_creates_a_node() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let made = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| array(&store, "x/y/a", Format::V3).is_ok())).collect();
            threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum::<usize>()
        });
        assert_eq!(made, 1);
    }
}
