//! Creating and removing nodes.

use crate::concurrency::run_concurrently;
use crate::documents::Names;
use crate::in_turn;
use crate::json::Json;
use crate::node::{self, NodeKind, ZARR_JSON, ZATTRS, ZGROUP};
use crate::node_lock::{self, NodeLock};
use crate::path::{check_node_name, join, normalize_path, parents};
use crate::{Format, Result, ZarrError, documents, remembered};
use hyperslab_array as engine;
use hyperslab_store::{Ask, Key, Store, waiting};
use std::sync::Arc;

/// A document of a node, with its name.
pub(crate) type Document = (&'static str, Json);

/// A node's documents in the order of writing: the node exists once the last is written.
pub(crate) type Documents = [Document];

/// How to create a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// With missing groups above it. An existing array or group is an error.
    New,
    /// With missing groups above it. Replaces an existing node, and everything below.
    Replace,
    /// In a group that the caller has just made. An existing array or group is an error. The groups
    /// above are not checked: that would be all of them for every node of a deep hierarchy.
    Inside,
    /// In a store that nobody else knows yet, with nothing at the path and existing groups above.
    /// Nothing is checked, because that would take most of the time in a hierarchy of many nodes.
    Unseen,
}

/// Creates a node. Changes nothing if the node cannot exist.
///
/// If several processes create one node at once, one wins; the others get the error that it exists.
///
/// `found` is the result of [`look`], and a function that empties the node's place. The function is
/// called once it is certain that no other node exists.
pub(crate) fn node(
    store: &Arc<dyn Store>,
    path: &str,
    format: Format,
    documents: &Documents,
    how: Creation,
    found: Option<(There<'_>, &dyn Fn() -> Result<()>)>,
    ask: Option<Ask<'_>>,
) -> Result<()> {
    check(path, documents)?;
    if how == Creation::Replace {
        return replace(store, path, format, documents, ask, |_| Ok(()));
    }
    if how == Creation::Unseen {
        return documents
            .iter()
            .try_for_each(|(name, document)| node::write_document(store, &join(path, name), document));
    }
    if !store.facts().is_shared {
        in_turn::node(store, path, format, documents, how, ask)?;
        remembered::keep(&**store, path, Some(format));
        return Ok(());
    }
    let new = how == Creation::New;
    let (mut there, empty) = match found {
        Some((there, empty)) => (there, Some(empty)),
        None => (look(store, path, format, how, ask)?, None),
    };
    let missing = if new { missing_parents(&mut there, path, format)? } else { Vec::new() };
    refuse_existing(&mut there, path)?;
    empty.map_or(Ok(()), |empty| empty())?;
    make_parents(&mut there, missing, format, ask)?;
    let lock = node_lock::lock(store, path, ask)?;
    // Far away another check takes long and proves nothing, because others are not excluded.
    if new && store.cost().looks_are_cheap() {
        refuse_existing(&mut there, path)?;
    }
    if put_new(&mut there, path, documents, &lock, ask)? {
        remembered::keep(&**store, path, Some(format));
        return Ok(());
    }
    refuse_existing(&mut There::look(store, [path], ask)?, path)?;
    // It existed and has been deleted.
    Err(ZarrError::NotFound { what: "array or group", url: store.url(), path: path.to_owned() })
}

/// Replaces a node, with all nodes below, by a new one, in one step if the store can do that.
///
/// The node is built beside the old one. `fill` gets a store with the new node at its root, and
/// writes the rest of the node: chunks of an array, members of a group. Nobody else sees that
/// store. Then the new node replaces the old one. If `fill` fails, or the process is killed, the
/// old node is unchanged. No lock is held while `fill` runs, so it may run for hours, and may run
/// foreign code.
pub(crate) fn replacing<E: From<ZarrError>>(
    store: &Arc<dyn Store>,
    path: &str,
    format: Format,
    documents: &Documents,
    ask: Option<Ask<'_>>,
    fill: impl FnOnce(&Arc<dyn Store>) -> Result<(), E>,
) -> Result<(), E> {
    check(path, documents)?;
    let above: Vec<&str> = parents(path).collect();
    missing_parents(&mut There::groups(store, &above, format, ask)?, path, format)?;
    replace(store, path, format, documents, ask, fill)
}

/// Like [`replacing`], for a node whose documents and place have been checked, or whose `fill` does
/// little.
fn replace<E: From<ZarrError>>(
    store: &Arc<dyn Store>,
    path: &str,
    format: Format,
    documents: &Documents,
    ask: Option<Ask<'_>>,
    fill: impl FnOnce(&Arc<dyn Store>) -> Result<(), E>,
) -> Result<(), E> {
    let staged = store.stage(node_lock::prefix(path)?).map_err(ZarrError::from)?;
    let new = staged.store();
    for (name, document) in documents {
        node::write_document(&new, name, document)?;
    }
    fill(&new)?;
    // The groups above may have changed meanwhile.
    if store.facts().is_shared {
        let above: Vec<&str> = parents(path).collect();
        let mut there = There::groups(store, &above, format, ask)?;
        let missing = missing_parents(&mut there, path, format)?;
        make_parents(&mut there, missing, format, ask)?;
    }
    let _lock = node_lock::lock(store, path, ask)?;
    // Writers store their queued data for the old arrays, and queue nothing until this is done.
    let _settled = engine::settle_below(&**store, path, ask).map_err(ZarrError::from)?;
    let turn = in_turn::turn_of_creations(store, ask)?;
    if turn.is_some() {
        in_turn::make_parents(store, path, format)?;
    }
    staged.commit(ask).map_err(ZarrError::from)?;
    remembered::keep(&**store, path, Some(format));
    Ok(())
}

/// Checks the documents and the node's name.
fn check(path: &str, documents: &Documents) -> Result<()> {
    for (name, document) in documents {
        node::check_document(&join(path, name), document)?;
    }
    check_name(path)
}

pub(crate) fn check_name(path: &str) -> Result<()> {
    match path.rsplit('/').next() {
        None | Some("") => Ok(()),
        Some(name) => check_node_name(name),
    }
}

/// Creates groups, outermost first.
fn make_parents(
    there: &mut There<'_>,
    missing: Vec<&str>,
    format: Format,
    ask: Option<Ask<'_>>,
) -> Result<()> {
    let store = there.store;
    for parent in missing {
        let lock = node_lock::lock(store, parent, ask)?;
        // Another writer may have been faster. Only a group can hold the node.
        if !put_new(there, parent, &group(format, Json::object()), &lock, ask)?
            && node::kind(store, parent, format)? != Some(NodeKind::Group)
        {
            return Err(in_the_way(store, parent));
        }
    }
    Ok(())
}

/// The documents of a new group. Attributes come first, so that the group is complete once visible.
pub(crate) fn group(format: Format, attributes: Json) -> Vec<Document> {
    match format {
        Format::V2 => vec![(ZATTRS, attributes), (ZGROUP, Json::from([("zarr_format", 2u32.into())]))],
        Format::V3 => {
            let document = Json::from([
                ("attributes", attributes),
                ("zarr_format", 3u32.into()),
                ("node_type", "group".into()),
            ]);
            vec![(ZARR_JSON, document)]
        }
    }
}

/// Removes all objects below a path (`""`: everything in the store), even if no node is there.
///
/// This is one step if the store can do that; otherwise documents are deleted first. `ask` is
/// called while this waits for others or deletes; `true` gives up.
pub fn remove(store: &Arc<dyn Store>, path: &str, ask: Option<Ask<'_>>) -> Result<()> {
    let path = &normalize_path(path)?;
    let _lock = node_lock::lock(store, path, ask)?;
    let _settled = engine::settle_below(&**store, path, ask)?;
    remembered::keep(&**store, path, None);
    let _turn = in_turn::turn_of_creations(store, ask)?;
    // Commits an empty replacement.
    Ok(store.stage(node_lock::prefix(path)?)?.commit(ask)?)
}

/// Writes documents unless the last one exists. Runs under the node's lock. Returns `false` if it
/// exists.
fn put_new(
    there: &mut There<'_>,
    path: &str,
    documents: &Documents,
    lock: &NodeLock<'_>,
    ask: Option<Ask<'_>>,
) -> Result<bool> {
    let store = there.store;
    let Some(((name, last), before)) = documents.split_last() else { return Ok(true) };
    let (key, text) = (join(path, name), node::document_text(last));
    let key = Key::new(&key)?;
    if store.facts().is_shared && !store.cost().looks_are_cheap() {
        for (name, document) in before {
            // Not at once with the last document: every reader of the node must see its attributes.
            let before = join(path, name);
            let none = matches!(there.documents.take_known(&before), Some(Ok(None)));
            if none && document.as_object().is_some_and(<[_]>::is_empty) {
                // Empty attributes need no document.
                continue;
            }
            let put = none && {
                let text = node::document_text(document);
                store.write_new(Key::new(&before)?, &[text.as_bytes()])?
            };
            if !put {
                // A leftover, or another writer creates the node, too.
                if store.exists(key)? {
                    return Ok(false);
                }
                node::write_document(store, &before, document)?;
            }
        }
        return Ok(store.write_new(key, &[text.as_bytes()])?);
    }
    let mut later = None;
    // Two processes that create one node must not mix their documents. A single document alone
    // decides who was first.
    if !before.is_empty() && store.facts().is_shared && !lock.excludes_processes() {
        // There is no directory to lock. Make it appear with all documents in it.
        let staged = store.stage(node_lock::prefix(path)?)?;
        for (name, document) in documents {
            node::write_document(&staged.store(), name, document)?;
        }
        if staged.commit_new()? {
            return Ok(true);
        }
        // Now there is a directory.
        later = Some(store.lock_prefix(node_lock::prefix(path)?, ask)?);
    }
    // If the last document exists, nothing else is written.
    if store.exists(key)? {
        return Ok(false);
    }
    for (name, document) in before {
        node::write_document(store, &join(path, name), document)?;
    }
    let put = store.write_new(key, &[text.as_bytes()])?;
    drop(later);
    Ok(put)
}

/// The longest listing of a new node's place. These keys fit in one answer of a server, together
/// with one more key, which would say that there are more.
const LISTED: usize = 999;

/// Looks up everything that a new node depends on: its place, and the groups above it.
///
/// A far store lists its keys below the path, at the same time as it reads the groups above.
pub(crate) fn look<'s>(
    store: &'s Arc<dyn Store>,
    path: &str,
    format: Format,
    how: Creation,
    ask: Option<Ask<'_>>,
) -> Result<There<'s>> {
    if !store.cost().prefers_rounds() {
        return Ok(There::unseen(store));
    }
    let above: Vec<&str> = if how == Creation::New { parents(path).collect() } else { Vec::new() };
    let prefix = node_lock::prefix(path)?;
    let list = || store.present(prefix, LISTED);
    let (below, there) = match ask {
        _ if !above.is_empty() => {
            run_concurrently(|_| list(), || There::groups(store, &above, format, ask), ask)
        }
        Some(ask) => (waiting::with_ask(ask, list), Ok(There::unseen(store))),
        None => (list(), Ok(There::unseen(store))),
    };
    let mut there = there?;
    match &below {
        Some(keys) => there.documents.note_absent(path, keys),
        // There are many keys, or the server does not list them.
        None => there.documents.add(store, [path], Names::default(), ask)?,
    }
    Ok(There { below, ..there })
}

/// Documents at some paths. A far store is asked for all of them at once.
pub(crate) struct There<'s> {
    store: &'s Arc<dyn Store>,
    documents: documents::Documents,
    /// All keys below the path of the new node. `None`: not known.
    below: Option<Vec<String>>,
}

impl<'s> There<'s> {
    fn unseen(store: &'s Arc<dyn Store>) -> Self {
        There { store, documents: documents::Documents::default(), below: None }
    }

    fn look<'p>(
        store: &'s Arc<dyn Store>,
        paths: impl IntoIterator<Item = &'p str>,
        ask: Option<Ask<'_>>,
    ) -> Result<Self> {
        let documents = documents::Documents::of(store, paths, Names::default(), ask)?;
        Ok(There { documents, ..There::unseen(store) })
    }

    /// The groups above a new node of this format.
    ///
    /// If they probably have this format too, the other one is asked for only if one is missing.
    fn groups(
        store: &'s Arc<dyn Store>,
        above: &[&str],
        format: Format,
        ask: Option<Ask<'_>>,
    ) -> Result<Self> {
        let mut there = There::unseen(store);
        if remembered::root(&**store) == Some(format) {
            let names = Names { format: Some(format), kind_only: true, ..Names::default() };
            there.documents.add(store, above.iter().copied(), names, ask)?;
            if above.iter().all(|path| there.documents.has_node(path)) {
                return Ok(there);
            }
        }
        there.documents.add(store, above.iter().copied(), Names::default(), ask)?;
        Ok(there)
    }

    /// All keys below the path of the new node, if the store has told them.
    pub(crate) fn below(&self) -> Option<&[String]> {
        self.below.as_deref()
    }

    /// The kind of node of this format at a path. In a far store, a second call takes another
    /// request.
    fn kind(&mut self, path: &str, format: Format) -> Result<Option<NodeKind>> {
        if self.store.cost().looks_are_cheap() {
            return node::kind(self.store, path, format);
        }
        node::kind_in(&mut self.documents, self.store, path, format)
    }
}

fn refuse_existing(there: &mut There<'_>, path: &str) -> Result<()> {
    for format in [Format::V3, Format::V2] {
        if let Some(kind) = there.kind(path, format)? {
            let url = there.store.url();
            return Err(ZarrError::Exists { what: kind.name(), url, path: path.to_owned() });
        }
    }
    Ok(())
}

pub(crate) fn in_the_way(store: &Arc<dyn Store>, parent: &str) -> ZarrError {
    ZarrError::WrongNode { url: store.url(), path: parent.to_owned(), expected: "a group", found: "an array" }
}

/// The error for a node below a node of the other format.
pub(crate) fn other_format(path: &str, format: Format, parent: &str, found: (Format, NodeKind)) -> ZarrError {
    let why = format!(
        "the parent '{parent}' is a Zarr v{} {}; a Zarr v{} node cannot be in it",
        found.0.number(),
        found.1.name(),
        format.number()
    );
    ZarrError::Invalid { path: path.to_owned(), why }
}

/// The missing groups above a node, outermost first.
///
/// Fails if an existing node cannot hold the new one, or if a group cannot have such a name.
fn missing_parents<'p>(there: &mut There<'_>, path: &'p str, format: Format) -> Result<Vec<&'p str>> {
    let mut missing = Vec::new();
    for parent in parents(path) {
        match there.kind(parent, format)? {
            Some(NodeKind::Group) => continue,
            Some(NodeKind::Array) => return Err(in_the_way(there.store, parent)),
            None => {}
        }
        let other = if format == Format::V2 { Format::V3 } else { Format::V2 };
        if let Some(kind) = there.kind(parent, other)? {
            return Err(other_format(path, format, parent, (other, kind)));
        }
        check_name(parent)?;
        missing.push(parent);
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use crate::{Array, ArraySpec, Format, Group, Json, Result, ZarrError};
    use hyperslab_array::{self as engine, ReadOptions, Selection, Source, WriteOptions};
    use hyperslab_store::{LocalOptions, LocalStore, MemoryStore, Store};
    use std::sync::Arc;

    fn stores() -> (tempfile::TempDir, [Arc<dyn Store>; 2]) {
        let directory = tempfile::tempdir().unwrap();
        let local = LocalStore::open(directory.path().join("s"), LocalOptions::default()).unwrap();
        (directory, [Arc::new(local), Arc::new(MemoryStore::new())])
    }

    fn spec(format: Format) -> ArraySpec {
        let mut spec = ArraySpec::new(format, &[5], "|u1".parse().unwrap());
        spec.chunks = Some([2].as_slice().into());
        spec
    }

    fn all(array: &Array) -> Selection {
        Selection::all(array.layout().shape())
    }

    fn write(array: &Array, value: u8) -> Result<()> {
        let values = [value; 5];
        let source = Source::dense(&values, &[5], 1).unwrap();
        Ok(engine::write(array.layout(), &all(array), &source, WriteOptions::default())?)
    }

    fn read(array: &Array) -> Vec<u8> {
        engine::read(array.layout(), &all(array), ReadOptions::default()).unwrap().as_slice().to_vec()
    }

    #[test]
    fn an_array_is_replaced_when_its_data_is_there() {
        for format in [Format::V2, Format::V3] {
            let (directory, stores) = stores();
            for store in stores {
                let old = Array::create(store.clone(), "g/a", spec(format), false).unwrap();
                write(&old, 1).unwrap();
                let before = store.list(None).unwrap();
                // An error in the middle.
                let failed = Array::replace_with(store.clone(), "g/a", spec(format), None, |new| {
                    write(new, 2)?;
                    Err(ZarrError::Invalid { path: String::new(), why: "enough".into() })
                });
                assert!(failed.unwrap_err().to_string().contains("enough"));
                assert_eq!((store.list(None).unwrap(), read(&old)), (before, vec![1; 5]));

                let new = Array::replace_with(store.clone(), "g/a", spec(format), None, |new| {
                    assert_eq!(new.layout().name(), "/g/a", "messages say what the caller says");
                    write(new, 2)?;
                    // Nobody sees the new one; the old one can be read.
                    assert_eq!(read(&Array::open(&store, "g/a", None)?), [1; 5]);
                    Ok::<_, ZarrError>(())
                });
                let new = new.unwrap();
                assert_eq!((new.path(), new.store().url()), ("g/a", store.url()));
                write(&new, 3).unwrap();
                assert_eq!(read(&Array::open(&store, "g/a", Some(format)).unwrap()), [3; 5]);
            }
            let entries = std::fs::read_dir(directory.path()).unwrap();
            assert_eq!(entries.count(), 1, "nothing is left beside the store");
        }
    }

    #[test]
    fn a_group_is_replaced_with_its_members() {
        let (_directory, stores) = stores();
        for store in stores {
            let old = Array::create(store.clone(), "g/old", spec(Format::V3), false).unwrap();
            write(&old, 1).unwrap();
            let made = Group::replace_with(store.clone(), "g", Format::V3, Json::object(), None, |new| {
                let member = Array::create(new.store().clone(), "sub/new", spec(Format::V3), false)?;
                write(&member, read(&old)[0] + 1)
            });
            assert_eq!(made.unwrap().path(), "g");
            assert_eq!(read(&Array::open(&store, "g/sub/new", None).unwrap()), [2; 5]);
            assert!(store.list(None).unwrap().iter().all(|key| !key.contains("old")));
        }
    }
}
