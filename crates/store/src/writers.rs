//! Stores that other processes write too.

use crate::{Ask, Expected, Key, Mark, ObjectLock, Result, Store, WriteNotes};
#[cfg(doc)]
use crate::{StoreError, Version, turn};
use std::path::Path;
use std::sync::Arc;

/// Fails if others have ended this writer ([`Writers::write_while`]).
pub type Still<'a> = &'a (dyn Fn(Look) -> Result<()> + Sync);

/// How old the answer of [`Still`] may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A check from a short time ago, or one that is running now. For writes that replace nothing.
    Recent,
    /// A check that started after the call.
    New,
}

/// A store that other processes write too ([`Store::writers`]).
///
/// The methods that every chunk needs are in [`Store`]: [`Store::swap`], [`Store::lock`] and their
/// neighbours. The defaults are for objects that no other process can reach.
pub trait Writers: Store {
    /// Like [`Store::swap`], and marks the new contents if the store keeps marks.
    ///
    /// The next open of the object tells which replacements led to it ([`Version::marks`]). A
    /// caller that does not know whether its own replacement succeeded finds out that way too. The
    /// default keeps no marks.
    fn swap_marked(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        mark: Mark,
        parts: &[&[u8]],
        ask: Option<Ask<'_>>,
    ) -> Result<bool> {
        let _ = mark;
        self.swap(key, expected, parts, ask)
    }

    /// Replaces an object unconditionally, for a writer that others may end.
    ///
    /// If `still` fails, the writer has been ended: nothing is written, and the error is returned.
    /// A store on a server looks at the object, then calls `still`, and replaces only the contents
    /// it saw. Contents that arrived after the writer was ended stay. The new contents get `mark` if
    /// the store keeps marks. The default keeps none, calls `still`, and writes.
    fn write_while(&self, key: Key<'_>, bytes: &mut Vec<u8>, mark: Mark, still: Still<'_>) -> Result<()> {
        let _ = mark;
        still(Look::New)?;
        self.swap_owned(key, Expected::Any, bytes, None).map(|_| ())
    }

    /// Deletes objects that are still as this writer created them. Returns how many there were.
    ///
    /// For a writer that finds out that it was ended while it created objects. The mark of each
    /// object tells whether this writer created it, and whether somebody has replaced it since.
    /// Objects that already existed when this writer wrote them stay. The default keeps no marks,
    /// and deletes nothing.
    fn take_back(&self, created: &[(Key<'_>, Mark)]) -> Result<usize> {
        let _ = created;
        Ok(0)
    }

    /// Like [`Store::lock`], for the prefix itself (`None`: the root).
    ///
    /// For changes directly below the prefix, such as metadata documents. Independent of locks on
    /// objects and on other prefixes.
    fn lock_prefix<'s>(&'s self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<ObjectLock<'s>> {
        let _ = (prefix, ask);
        Ok(ObjectLock::free())
    }

    /// Removes leftovers of dead writers below `prefix` (`None`: everywhere). Returns how many
    /// there were.
    ///
    /// May wait some seconds to see whether a writer is alive. `ask` is as in [`Store::swap`]. The
    /// default does nothing, for stores whose writers leave nothing behind.
    fn sweep(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<u64> {
        let _ = (prefix, ask);
        Ok(0)
    }

    /// Names what dead writers may have left below `prefix` (`None`: everywhere), as paths below the
    /// root. Changes nothing.
    ///
    /// A living writer's temporary files have such names, too. The default finds nothing, for stores
    /// whose writers leave nothing behind.
    fn leftovers(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<String>> {
        let _ = (prefix, ask);
        Ok(Vec::new())
    }

    /// The same store for a writer that others may end by removing `folder`.
    ///
    /// Changes go through `folder`, a directory on the same disk. Once the folder is gone, no
    /// change of this writer takes effect, not even one in progress: changes fail with
    /// [`StoreError::Superseded`]. Returns `None`, the default, if the store is not on a local
    /// disk; see [`Writers::write_while`].
    fn through(&self, folder: &Path) -> Result<Option<Arc<dyn Store>>> {
        let _ = folder;
        Ok(None)
    }

    /// The same store, which also notes the changes that go through it.
    ///
    /// Returns `None`, the default, if the answer to a write tells nothing about the object. Ask
    /// for its [`Store::stamp`] then.
    fn noting(&self, notes: &Arc<WriteNotes>) -> Option<Arc<dyn Store>> {
        let _ = notes;
        None
    }
}

/// The defaults, for stores without the capability.
impl Writers for dyn Store + '_ {}

/// The methods of [`Writers`], for callers that do not care whether a store has the capability.
impl dyn Store + '_ {
    /// See [`Writers::swap_marked`].
    pub fn swap_marked(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        mark: Mark,
        parts: &[&[u8]],
        ask: Option<Ask<'_>>,
    ) -> Result<bool> {
        match self.writers() {
            Some(able) => able.swap_marked(key, expected, mark, parts, ask),
            None => Writers::swap_marked(self, key, expected, mark, parts, ask),
        }
    }

    /// See [`Writers::write_while`].
    pub fn write_while(&self, key: Key<'_>, bytes: &mut Vec<u8>, mark: Mark, still: Still<'_>) -> Result<()> {
        match self.writers() {
            Some(able) => able.write_while(key, bytes, mark, still),
            None => Writers::write_while(self, key, bytes, mark, still),
        }
    }

    /// See [`Writers::take_back`].
    pub fn take_back(&self, created: &[(Key<'_>, Mark)]) -> Result<usize> {
        match self.writers() {
            Some(able) => able.take_back(created),
            None => Writers::take_back(self, created),
        }
    }

    /// See [`Writers::lock_prefix`].
    pub fn lock_prefix<'s>(
        &'s self,
        prefix: Option<Key<'_>>,
        ask: Option<Ask<'_>>,
    ) -> Result<ObjectLock<'s>> {
        match self.writers() {
            Some(able) => able.lock_prefix(prefix, ask),
            None => Writers::lock_prefix(self, prefix, ask),
        }
    }

    /// See [`Writers::sweep`].
    pub fn sweep(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<u64> {
        match self.writers() {
            Some(able) => able.sweep(prefix, ask),
            None => Writers::sweep(self, prefix, ask),
        }
    }

    /// See [`Writers::leftovers`].
    pub fn leftovers(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<String>> {
        match self.writers() {
            Some(able) => able.leftovers(prefix, ask),
            None => Writers::leftovers(self, prefix, ask),
        }
    }

    /// See [`Writers::through`].
    pub fn through(&self, folder: &Path) -> Result<Option<Arc<dyn Store>>> {
        match self.writers() {
            Some(able) => able.through(folder),
            None => Writers::through(self, folder),
        }
    }

    /// See [`Writers::noting`].
    pub fn noting(&self, notes: &Arc<WriteNotes>) -> Option<Arc<dyn Store>> {
        match self.writers() {
            Some(able) => able.noting(notes),
            None => Writers::noting(self, notes),
        }
    }
}
