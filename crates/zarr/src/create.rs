//! Creating and removing nodes.

use crate::json::Json;
use crate::locked::{self, Locked};
use crate::node::{self, NodeKind, ZARR_JSON, ZATTRS, ZGROUP};
use crate::path::{check_node_name, join, parents};
use crate::{Format, ZarrError};
use hyperslab_store::{Ask, Key, Store};
use std::sync::Arc;

/// Documents of a node and their names, in the order in which they are written: the node is there
/// with the last.
pub(crate) type Documents = [(&'static str, Json)];

/// Creates a node, and missing groups above it, as zarr-python does. Nothing is changed where the
/// node cannot be.
///
/// Of several who create one node at once, one wins; for the others it exists. With `overwrite`, it
/// is built beside what is there and takes its place with all that is below, in one step where the
/// store can do that.
pub(crate) fn node(
    store: &Arc<dyn Store>,
    path: &str,
    format: Format,
    documents: &Documents,
    overwrite: bool,
    ask: Option<Ask<'_>>,
) -> Result<(), ZarrError> {
    for (name, document) in documents {
        node::check_document(&join(path, name), document)?;
    }
    let missing = missing_parents(store, path, format)?;
    for new in missing.iter().copied().chain([path]).filter(|new| !new.is_empty()) {
        check_node_name(new.rsplit('/').next().unwrap_or(new), format)?;
    }
    if !overwrite {
        refuse_existing(store, path)?;
    }
    for parent in missing {
        let lock = locked::lock(store, parent, ask)?;
        // Where somebody else was faster, it is a group as well: whatever else cannot be below it.
        if !put_new(store, parent, &group(format, Json::object()), &lock, ask)?
            && node::kind(store, parent, format)? != Some(NodeKind::Group)
        {
            return Err(in_the_way(store, parent));
        }
    }
    let lock = locked::lock(store, path, ask)?;
    if overwrite {
        let staged = store.stage(locked::prefix(path)?)?;
        for (name, document) in documents {
            node::write_document(&staged.store(), name, document)?;
        }
        return Ok(staged.commit(ask)?);
    }
    refuse_existing(store, path)?;
    if put_new(store, path, documents, &lock, ask)? {
        return Ok(());
    }
    refuse_existing(store, path)?;
    // It was there and is gone.
    Err(ZarrError::NotFound { what: "array or group", url: store.url(), path: path.to_owned() })
}

/// Creates a node in a store that nobody else knows yet, where nothing is at `path` and the groups
/// above it are there already. Nothing is looked at: of a hierarchy of many nodes, or a deep one,
/// that would take most of the time.
pub(crate) fn unseen(
    store: &Arc<dyn Store>,
    path: &str,
    format: Format,
    documents: &Documents,
) -> Result<(), ZarrError> {
    if let Some(name) = path.rsplit('/').next().filter(|name| !name.is_empty()) {
        check_node_name(name, format)?;
    }
    for (name, document) in documents {
        node::check_document(&join(path, name), document)?;
        node::write_document(store, &join(path, name), document)?;
    }
    Ok(())
}

/// Creates a node in a group that the caller has just made: the groups above are not looked at,
/// which would be all of them for every node of a deep hierarchy.
pub(crate) fn inside(
    store: &Arc<dyn Store>,
    path: &str,
    format: Format,
    documents: &Documents,
    ask: Option<Ask<'_>>,
) -> Result<(), ZarrError> {
    for (name, document) in documents {
        node::check_document(&join(path, name), document)?;
    }
    check_node_name(path.rsplit('/').next().unwrap_or(path), format)?;
    refuse_existing(store, path)?;
    let lock = locked::lock(store, path, ask)?;
    if put_new(store, path, documents, &lock, ask)? {
        return Ok(());
    }
    refuse_existing(store, path)
}

/// The documents of a new group. Attributes first: the group appears when it is complete.
pub(crate) fn group(format: Format, attributes: Json) -> Vec<(&'static str, Json)> {
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

/// Removes a node and all below it, in one step where the store can do that.
pub(crate) fn remove(store: &Arc<dyn Store>, path: &str, ask: Option<Ask<'_>>) -> Result<(), ZarrError> {
    let _lock = locked::lock(store, path, ask)?;
    // Nothing takes its place.
    Ok(store.stage(locked::prefix(path)?)?.commit(ask)?)
}

/// Writes documents where the last one is not there yet, under the node's lock. `false`: it is.
fn put_new(
    store: &Arc<dyn Store>,
    path: &str,
    documents: &Documents,
    lock: &Locked<'_>,
    ask: Option<Ask<'_>>,
) -> Result<bool, ZarrError> {
    let Some(((name, last), before)) = documents.split_last() else { return Ok(true) };
    let mut later = None;
    // Two processes that create one node must not mix their documents. One document decides by
    // itself who was first.
    if !before.is_empty() && store.is_shared() && !lock.excludes_processes() {
        // There is no directory to lock: it comes into being with all documents in it.
        let staged = store.stage(locked::prefix(path)?)?;
        for (name, document) in documents {
            node::write_document(&staged.store(), name, document)?;
        }
        if staged.commit_new()? {
            return Ok(true);
        }
        // Now there is one.
        later = Some(store.lock_prefix(locked::prefix(path)?, ask)?);
    }
    let key = join(path, name);
    let key = Key::new(&key)?;
    if store.exists(key)? {
        return Ok(false);
    }
    for (name, document) in before {
        node::write_document(store, &join(path, name), document)?;
    }
    let put = store.write_new(key, &[node::document_text(last).as_bytes()])?;
    drop(later);
    Ok(put)
}

fn refuse_existing(store: &Arc<dyn Store>, path: &str) -> Result<(), ZarrError> {
    for format in [Format::V3, Format::V2] {
        if let Some(kind) = node::kind(store, path, format)? {
            return Err(ZarrError::Exists { what: kind.name(), url: store.url(), path: path.to_owned() });
        }
    }
    Ok(())
}

fn in_the_way(store: &Arc<dyn Store>, parent: &str) -> ZarrError {
    ZarrError::WrongNode { url: store.url(), path: parent.to_owned(), expected: "a group", found: "an array" }
}

/// The groups above a node that are not there, outermost first. Errors where what is there cannot
/// hold the node.
fn missing_parents<'p>(
    store: &Arc<dyn Store>,
    path: &'p str,
    format: Format,
) -> Result<Vec<&'p str>, ZarrError> {
    let mut missing = Vec::new();
    for parent in parents(path) {
        match node::kind(store, parent, format)? {
            Some(NodeKind::Group) => continue,
            Some(NodeKind::Array) => return Err(in_the_way(store, parent)),
            None => {}
        }
        let other = if format == Format::V2 { Format::V3 } else { Format::V2 };
        if let Some(kind) = node::kind(store, parent, other)? {
            let why = format!(
                "the parent '{parent}' is a Zarr v{} {}; a Zarr v{} node cannot be in it",
                other.number(),
                kind.name(),
                format.number()
            );
            return Err(ZarrError::Invalid { path: path.to_owned(), why });
        }
        missing.push(parent);
    }
    Ok(missing)
}
