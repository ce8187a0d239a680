//! Replaces everything below a prefix in one step.
//!
//! Staged members are already in the new archive. The commit adds them to its directory.

use super::{ZipError, ZipStore};
use crate::{Ask, Key, Operation, Result, Staged, Store, StoreError};
use std::sync::Arc;

/// Staged members, still invisible.
#[derive(Debug)]
pub(super) struct StagedMembers<'s> {
    store: &'s ZipStore,
    prefix: Option<String>,
    new: Arc<ZipStore>,
}

impl ZipStore {
    pub(super) fn stage_below(&self, prefix: Option<Key<'_>>) -> StagedMembers<'_> {
        let prefix = prefix.map(|prefix| prefix.as_str().to_owned());
        StagedMembers { store: self, prefix, new: Arc::new(self.staging()) }
    }
}

impl StagedMembers<'_> {
    /// Puts the staged members in place. `false` if there are members and they must stay (`keep`).
    fn put(&self, keep: bool) -> Result<bool> {
        let store = self.store;
        let new = self.new.view.read().clone();
        let prefix = self.prefix.as_deref().map(Key::unchecked);
        let name = prefix.map_or("", Key::as_str);
        store.check_writable(Operation::Write, prefix)?;
        store.shared.change(false, |session| {
            let mut view = store.view.write();
            if let Some(prefix) = prefix {
                let checked = view.members.check_above(&format!("{prefix}/"));
                checked.map_err(|kind| StoreError::io(store, Operation::Write, name, kind))?;
            }
            let doomed = view.members.below(prefix, usize::MAX);
            if keep && !doomed.is_empty() {
                return Ok(false);
            }
            if new.session != 0 && new.session != session.number {
                return Err(StoreError::zip(store, name, ZipError::Finished));
            }
            let members = Arc::make_mut(&mut view.members);
            doomed.iter().for_each(|key| {
                members.remove(key);
            });
            for (key, member) in new.members.iter() {
                let key = prefix.map_or_else(|| key.clone(), |prefix| format!("{prefix}/{key}"));
                members.insert(key, member.clone());
            }
            drop(view);
            store.mark(session);
            Ok(true)
        })
    }
}

impl Staged for StagedMembers<'_> {
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
