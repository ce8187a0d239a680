//! Replaces everything below a prefix in one step.

use super::{MemoryStore, Objects, below};
use crate::staged::Staged;
use crate::{Ask, Key, Result, Store};
use std::sync::Arc;

/// New objects in a separate store.
#[derive(Debug)]
pub(super) struct StagedObjects<'s> {
    store: &'s MemoryStore,
    prefix: Option<String>,
    new: Arc<MemoryStore>,
}

impl MemoryStore {
    pub(super) fn stage_below(&self, prefix: Option<Key<'_>>) -> StagedObjects<'_> {
        let prefix = prefix.map(|prefix| prefix.as_str().to_owned());
        StagedObjects { store: self, prefix, new: Arc::default() }
    }
}

impl StagedObjects<'_> {
    /// Puts the new objects in place. `false` if there are objects and they must stay (`keep`).
    fn put(&self, keep: bool) -> Result<bool> {
        let new = self.new.objects.read().clone();
        let prefix = self.prefix.as_deref().map(Key::unchecked);
        let mut old = Objects::new();
        {
            let mut objects = self.store.objects.write();
            if let Some(prefix) = prefix {
                self.store.check_above(&objects, prefix, &format!("{prefix}/"))?;
            }
            let doomed: Vec<String> = below(&objects, prefix).cloned().collect();
            if keep && !doomed.is_empty() {
                return Ok(false);
            }
            old.extend(doomed.into_iter().filter_map(|key| objects.remove_entry(&key)));
            for (name, object) in new {
                objects
                    .insert(prefix.map_or_else(|| name.clone(), |prefix| format!("{prefix}/{name}")), object);
            }
        }
        // Freed without the lock.
        drop(old);
        Ok(true)
    }
}

impl Staged for StagedObjects<'_> {
    fn store(&self) -> Arc<dyn Store> {
        self.new.clone()
    }

    fn commit(self: Box<Self>, _ask: Option<Ask<'_>>) -> Result<()> {
        self.put(false).map(|_| ())
    }

    fn commit_new(self: Box<Self>) -> Result<bool> {
        self.put(true)
    }
}
