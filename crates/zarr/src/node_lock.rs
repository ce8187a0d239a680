//! The lock of a node.
//!
//! A writer of the node's metadata reads it again, changes it, and writes it back, while nobody
//! else can do so.
//!
//! Threads take turns by the node's own number (not an object's: stores use those turns
//! themselves). Processes lock the node's directory, which leaves no file behind. A node without a
//! directory cannot be locked: if several processes create it, one wins ([`Store::write_new`]).

use crate::Result;
use crate::path::join;
use hyperslab_store::{Ask, Key, ObjectLock, Store, turn, turns::Turn};
use std::sync::Arc;

/// Never the name of an object.
const NODE: &str = ".node.zarr.json";

/// Holds the lock of a node until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is let go at once"]
pub(crate) struct NodeLock<'s> {
    // Released in the reverse order of locking.
    processes: ObjectLock<'s>,
    _threads: Turn,
}

impl NodeLock<'_> {
    /// Returns `true` if other processes are excluded. A node without a directory has nothing to
    /// lock.
    pub(crate) fn excludes_processes(&self) -> bool {
        self.processes.is_held()
    }
}

/// Waits for the lock of the node at `path`.
///
/// A thread that already holds the lock (a signal handler) gets
/// [`StoreError::Busy`](hyperslab_store::StoreError::Busy). `ask` is called while this waits;
/// `true` gives up.
pub(crate) fn lock<'s>(store: &'s Arc<dyn Store>, path: &str, ask: Option<Ask<'_>>) -> Result<NodeLock<'s>> {
    let key = join(path, NODE);
    let threads = turn(&**store, Key::new(&key)?, ask)?;
    let processes = store.lock_prefix(prefix(path)?, ask)?;
    Ok(NodeLock { processes, _threads: threads })
}

/// The prefix of all keys of a node, or `None` for the root.
pub(crate) fn prefix(path: &str) -> Result<Option<Key<'_>>> {
    Ok(if path.is_empty() { None } else { Some(Key::new(path)?) })
}
