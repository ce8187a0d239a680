//! A prefix under construction: built separately, then put in place at once.

use crate::{Ask, Key, MemoryStore, Result, Store};
use std::fmt::{self, Debug};
use std::sync::Arc;

/// New contents of a prefix ([`Store::stage`]), invisible until [`Staged::commit`].
///
/// Dropping it without a commit leaves no trace, and the old contents stay.
pub trait Staged: Send + Debug {
    /// An empty store for the new contents. Its object `x` becomes `prefix/x`.
    ///
    /// Do not write to it after the commit.
    fn store(&self) -> Arc<dyn Store>;

    /// Returns whether nothing was below the prefix at the beginning. `None`: unknown.
    fn began_empty(&self) -> Option<bool> {
        None
    }

    /// Bytes of the objects in the store so far, without documents (directly below the prefix, and
    /// metadata of nodes). `None`: only a listing tells.
    fn bytes_written(&self) -> Option<u64> {
        None
    }

    /// Replaces everything below the prefix with the contents of the store.
    ///
    /// A killed process leaves the old contents or the new ones, never a mixture. Fails if an
    /// object has exactly the prefix's name.
    ///
    /// The old contents are deleted afterwards. `ask` is called meanwhile; if it returns `true`,
    /// the rest stays hidden until the next sweep. That is not an error: the new contents are in
    /// place.
    fn commit(self: Box<Self>, ask: Option<Ask<'_>>) -> Result<()>;

    /// Like [`Staged::commit`], but requires that nothing is below the prefix.
    ///
    /// Otherwise returns `false`: the old contents stay, and the new ones are discarded.
    fn commit_new(self: Box<Self>) -> Result<bool>;
}

/// For stores without renaming: gathers the contents in memory, and writes them on commit.
///
/// A killed process can leave part of the new contents. Objects directly below the prefix
/// (documents) are deleted first and written last.
pub(crate) struct Gathered<'s, S: ?Sized> {
    store: &'s S,
    prefix: Option<String>,
    new: Arc<MemoryStore>,
}

impl<'s, S: Store + ?Sized> Gathered<'s, S> {
    pub(crate) fn new(store: &'s S, prefix: Option<Key<'_>>) -> Self {
        Gathered { store, prefix: prefix.map(|prefix| prefix.as_str().to_owned()), new: Arc::default() }
    }

    fn prefix(&self) -> Option<Key<'_>> {
        self.prefix.as_deref().map(Key::unchecked)
    }

    fn put(&self) -> Result<()> {
        let mut keys = self.new.list(None)?;
        keys.sort_by_key(|key| !key.contains('/'));
        self.delete_documents(&keys)?;
        self.store.delete_prefix(self.prefix())?;
        let mut bytes = Vec::new();
        for key in keys {
            if self.new.read_all(Key::new(&key)?, &mut bytes, usize::MAX)? {
                self.store.write(Key::new(&self.key(&key))?, &[&bytes])?;
            }
        }
        Ok(())
    }

    /// Deletes the documents of the old contents: a reader then finds no array rather than an array
    /// without its chunks.
    ///
    /// `new` are the names of the new contents. If a listing costs more than deletions, documents of
    /// the same names are deleted unseen.
    fn delete_documents(&self, new: &[String]) -> Result<()> {
        // A store that checks chunks (Icechunk) publishes all changes together.
        if self.store.facts().checks_chunks {
            return Ok(());
        }
        let names: Vec<String> = match self.store.cost().worth_guessing() {
            true => {
                let listed = self.store.list_dir(self.prefix())?;
                listed.into_iter().filter(|entry| !entry.is_prefix).map(|entry| entry.name).collect()
            }
            false => new.iter().filter(|name| !name.contains('/')).cloned().collect(),
        };
        let keys: Vec<String> = names.iter().map(|name| self.key(name)).collect();
        let keys = keys.iter().map(|key| Key::new(key)).collect::<Result<Vec<_>>>()?;
        self.store.delete_all(&keys, None)
    }

    fn key(&self, name: &str) -> String {
        self.prefix.as_ref().map_or_else(|| name.to_owned(), |prefix| format!("{prefix}/{name}"))
    }
}

impl<S: ?Sized> Debug for Gathered<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathered").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl<S: Store + ?Sized> Staged for Gathered<'_, S> {
    fn store(&self) -> Arc<dyn Store> {
        self.new.clone()
    }

    fn commit(self: Box<Self>, _ask: Option<Ask<'_>>) -> Result<()> {
        self.put()
    }

    fn commit_new(self: Box<Self>) -> Result<bool> {
        if !self.store.list_dir(self.prefix())?.is_empty() {
            return Ok(false);
        }
        self.put().map(|()| true)
    }
}
