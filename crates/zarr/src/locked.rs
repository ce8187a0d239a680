//! The lock of a node: a writer of its metadata reads it again, changes it, and puts it back, while
//! nobody else does.
//!
//! Threads take turns by a number of the node's own (not an object's: stores take those turns
//! themselves). Processes take a lock of the node's directory, which leaves no file behind. A node
//! without a directory cannot be locked: if several processes create it, one wins
//! ([`Store::write_new`]).

use crate::Result;
use crate::path::join;
use hyperslab_store::{Ask, Key, ObjectLock, Store, turn, turns::Turn};
use std::sync::Arc;

/// Never the name of an object.
const NODE: &str = ".node.zarr.json";

/// Holds the lock of a node until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is let go at once"]
pub(crate) struct Locked<'s> {
    // Let go in the reverse order of taking.
    processes: ObjectLock<'s>,
    _threads: Turn,
}

impl Locked<'_> {
    /// Whether other processes are excluded. A node without a directory has nothing to lock.
    pub(crate) fn excludes_processes(&self) -> bool {
        self.processes.is_held()
    }
}

/// Waits for the lock of the node at `path`. A thread that has it already (a signal handler) gets
/// [`StoreError::Busy`](hyperslab_store::StoreError::Busy). `ask` is asked while this waits; `true`
/// gives up.
pub(crate) fn lock<'s>(store: &'s Arc<dyn Store>, path: &str, ask: Option<Ask<'_>>) -> Result<Locked<'s>> {
    let key = join(path, NODE);
    let threads = turn(&**store, Key::new(&key)?, ask)?;
    let processes = store.lock_prefix(prefix(path)?, ask)?;
    Ok(Locked { processes, _threads: threads })
}

/// What everything of a node lies below; `None`: it is the root.
pub(crate) fn prefix(path: &str) -> Result<Option<Key<'_>>> {
    Ok(if path.is_empty() { None } else { Some(Key::new(path)?) })
}
