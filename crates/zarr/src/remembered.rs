//! The format of a store's root, as its handle remembers it.
//!
//! A group and its members have one format. A far store is therefore asked for the documents of
//! the remembered format first, and for the others only if there is no such node.
//!
//! Only a root is remembered: a bucket may hold hierarchies of both formats. Where both formats
//! describe one node, v3 counts; the root is therefore always asked for v3.

use crate::Format;
use hyperslab_store::Store;

/// The format that the root had when it was last seen.
pub(crate) fn root(store: &dyn Store) -> Option<Format> {
    match store.note()?.get() {
        2 => Some(Format::V2),
        3 => Some(Format::V3),
        _ => None,
    }
}

/// The format to ask for first at a path.
pub(crate) fn format(store: &dyn Store, path: &str) -> Option<Format> {
    root(store).filter(|format| *format == Format::V3 || !path.is_empty())
}

/// Remembers the format of a node that was found or created, if it is the root.
/// `None`: there is no node.
pub(crate) fn keep(store: &dyn Store, path: &str, format: Option<Format>) {
    if path.is_empty()
        && let Some(note) = store.note()
    {
        note.set(match format {
            None => 0,
            Some(Format::V2) => 2,
            Some(Format::V3) => 3,
        });
    }
}
