//! Abilities of the store beyond the core: requests for many objects at once, writers that are not
//! alone, held objects.

use crate::store::{Fetching, RemoteStore};
use hyperslab_store::{
    Ask, Begun, EachListed, Expected, HeldObject, Holds, Key, Many, Mark, Opened, Opening, Result,
    SharedStamp, Still, Store, WriteNotes, Writers, waiting,
};
use object_store::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An object that is being opened.
pub(crate) struct Beginning<'s> {
    pub(crate) store: &'s RemoteStore,
    pub(crate) key: String,
    pub(crate) path: Path,
    pub(crate) fetching: Fetching,
}

impl<'s> Begun<'s> for Beginning<'s> {
    fn is_here(&self) -> bool {
        self.fetching.is_over()
    }

    fn wait(&self, most: Duration) -> bool {
        self.fetching.wait_at_most(most)
    }

    fn finish(self: Box<Self>) -> Result<Option<Box<dyn Opened + 's>>> {
        let Beginning { store, key, path, fetching } = *self;
        let opened = store.opened(Key::new(&key)?, path, fetching, None)?;
        Ok(opened.map(|opened| Box::new(opened) as Box<dyn Opened + 's>))
    }
}

impl Many for RemoteStore {
    fn begin<'s>(&'s self, wanted: &[Opening<'_>]) -> Vec<Box<dyn Begun<'s> + 's>> {
        let begin = |opening: &Opening<'_>| self.begin_one(Ok(opening.key.as_str().into()), opening.next);
        wanted.iter().map(begin).collect()
    }

    fn list_dirs(&self, prefixes: &[Option<Key<'_>>], each: EachListed<'_>) {
        self.children_of_all(prefixes, each);
    }

    fn list_asking(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<String>> {
        self.check_ask(prefix.map_or("", |prefix| prefix.as_str()), ask)?;
        match ask {
            Some(ask) => waiting::with_ask(ask, || self.list(prefix)),
            None => self.list(prefix),
        }
    }

    fn list_sizes(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<(String, u64)>> {
        self.check_ask(prefix.map_or("", |prefix| prefix.as_str()), ask)?;
        let list = || self.keys(prefix, usize::MAX);
        let listed = match ask {
            Some(ask) => waiting::with_ask(ask, list),
            None => list(),
        };
        Ok(listed?.unwrap_or_default())
    }

    fn present(&self, prefix: Option<Key<'_>>, most: usize) -> Option<Vec<String>> {
        self.present_keys(prefix, most)
    }

    fn existing<'k>(&self, keys: &[Key<'k>], ask: Option<Ask<'_>>) -> Result<Vec<Key<'k>>> {
        self.check_ask(keys.first().map_or("", |key| key.as_str()), ask)?;
        match ask {
            Some(ask) => waiting::with_ask(ask, || self.existing_keys(keys)),
            None => self.existing_keys(keys),
        }
    }

    fn list_stamps(
        &self,
        prefix: Option<Key<'_>>,
        most: usize,
        ask: Option<Ask<'_>>,
    ) -> Result<Option<Vec<(String, SharedStamp)>>> {
        self.check_ask(prefix.map_or("", |prefix| prefix.as_str()), ask)?;
        match ask {
            Some(ask) => waiting::with_ask(ask, || self.stamps(prefix, most)),
            None => self.stamps(prefix, most),
        }
    }
}

impl Writers for RemoteStore {
    fn swap_marked(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        mark: Mark,
        parts: &[&[u8]],
        ask: Option<Ask<'_>>,
    ) -> Result<bool> {
        self.put_asking(key, expected, mark, self.payload(key, parts)?, ask)
    }

    fn write_while(&self, key: Key<'_>, bytes: &mut Vec<u8>, mark: Mark, still: Still<'_>) -> Result<()> {
        self.put_while(key, self.owned(key, bytes)?, mark, still)
    }

    fn take_back(&self, created: &[(Key<'_>, Mark)]) -> Result<usize> {
        self.remove_created(created)
    }

    fn noting(&self, notes: &Arc<WriteNotes>) -> Option<Arc<dyn Store>> {
        // Without tags that tell bytes apart, the answers are worth nothing.
        self.abilities().exact_tags.then(|| Arc::new(RemoteStore(self.0.clone(), Some(notes.clone()))) as _)
    }
}

impl Holds for RemoteStore {
    fn hold(&self, key: Key<'_>) -> Result<Option<HeldObject>> {
        crate::block_reader::hold(self, key)
    }

    fn hold_root(&self) -> Result<Option<HeldObject>> {
        let Some((above, name)) = self.above() else { return Ok(None) };
        // A name that cannot be a key cannot be an object.
        Key::new(name).map_or(Ok(None), |key| crate::block_reader::hold(&above, key))
    }
}
