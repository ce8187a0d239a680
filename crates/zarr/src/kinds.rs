//! Kinds of v3 nodes whose documents are long.
//!
//! The document of a group with consolidated metadata has the documents of all nodes below. To
//! create a node, only the kinds of the groups above are needed. The kind of a long document is kept
//! with the stamp of the object, so that the next look costs one query to the system, not a read.

use crate::Result;
use crate::documents::{MAX_DOCUMENT, ZARR_JSON, read_text};
use crate::node::{self, NodeKind};
use crate::path::join;
use hyperslab_store::fork::Mutex;
use hyperslab_store::{Key, Stamp, Store};
use std::sync::Arc;

/// How many kinds are kept.
const ENTRIES: usize = 32;

/// Shorter documents are read: that takes as long as a query.
const LONG: usize = 64 << 10;

/// The oldest first. Gated.
static KEPT: Mutex<Vec<(Stamp, NodeKind)>> = Mutex::new(Vec::new());

/// The kind of the v3 node at a path, or `None` if there is none. Reads no more than necessary.
pub(crate) fn kind(store: &Arc<dyn Store>, path: &str) -> Result<Option<NodeKind>> {
    let name = join(path, ZARR_JSON);
    let key = Key::new(&name)?;
    if let Some(kind) = find(store, key)? {
        return Ok(Some(kind));
    }
    let Some(mut text) = read_text(store, &name)? else { return Ok(None) };
    let mut stamp = None;
    if text.len() >= LONG {
        let (is_there, found) = store.read_all_stamped(key, &mut text, MAX_DOCUMENT)?;
        if !is_there {
            return Ok(None);
        }
        stamp = found;
    }
    let kind = node::v3_kind(store, &name, &text)?;
    if let Some(stamp) = stamp {
        keep(stamp, kind);
    }
    Ok(Some(kind))
}

fn find(store: &Arc<dyn Store>, key: Key<'_>) -> Result<Option<NodeKind>> {
    if KEPT.lock().is_empty() {
        return Ok(None);
    }
    let Some(stamp) = store.stamp(key)? else { return Ok(None) };
    Ok(KEPT.lock().iter().find(|(cached, _)| *cached == stamp).map(|(_, kind)| *kind))
}

fn keep(stamp: Stamp, kind: NodeKind) {
    let mut cached = KEPT.lock();
    if cached.len() == ENTRIES {
        cached.rotate_left(1);
        cached.pop();
    }
    cached.push((stamp, kind));
}
