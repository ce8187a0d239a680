//! Reads, changes and writes back metadata.
//!
//! If the lock of a node excludes other processes, nothing happens in between. A server has no such
//! locks. There an object is replaced only if it is unchanged since it was read; otherwise the
//! caller starts again. No change of another machine is lost.

use crate::documents::{Documents, Names};
use crate::json::Json;
use crate::node::{self, StoredNode};
use crate::node_lock::NodeLock;
use crate::path::join;
use crate::{Consolidation, Format, NodeKind, Result, Wanted};
use hyperslab_store::{Ask, Expected, Key, Mark, Opened, Store, Version};
use std::sync::Arc;

/// A metadata object in the state in which it was read with the node.
pub(crate) struct DocumentState<'s> {
    store: &'s Arc<dyn Store>,
    key: String,
    /// `None` if nobody else can change the object. `Some(None)` if the object did not exist.
    was: Option<Option<Box<dyn Opened + 's>>>,
}

impl<'s> NodeLock<'s> {
    /// Reads the node at `path`, if it exists, and notes the state of its object `name`.
    ///
    /// The object will be replaced. On a server the node must be of this kind.
    pub(crate) fn read(
        &self,
        store: &'s Arc<dyn Store>,
        path: &str,
        format: Format,
        kind: NodeKind,
        name: &str,
        ask: Option<Ask<'_>>,
    ) -> Result<(Option<StoredNode>, DocumentState<'s>)> {
        let key = join(path, name);
        if let Some(state) = self.unchanged_document(store, path, name) {
            let (format, kind, consolidation) = (Some(format), Some(kind), Consolidation::Ignore);
            let wanted = Wanted { format, kind, consolidation, ..Wanted::default() };
            return Ok((node::read_whole(store, path, wanted)?, state));
        }
        let consolidated = store.facts().consolidates;
        let names = Names { format: Some(format), kind: Some(kind), consolidated, ..Names::default() };
        let (mut documents, was) = Documents::read_with_state(store, path, names, &key, ask)?;
        let found = node::find_in(&mut documents, store, path, names)?;
        let stored = found.map(|found| found.parse_whole(store, path)).transpose()?;
        Ok((stored, DocumentState { store, key, was: Some(was) }))
    }

    /// The state of an object that nobody else can change while this lock is held.
    ///
    /// Nothing is read. Returns `None` if others can change the object.
    pub(crate) fn unchanged_document(
        &self,
        store: &'s Arc<dyn Store>,
        path: &str,
        name: &str,
    ) -> Option<DocumentState<'s>> {
        let alone = self.excludes_processes() || !store.facts().is_shared;
        alone.then(|| DocumentState { store, key: join(path, name), was: None })
    }

    /// Reads an object of the node at `path` that will be replaced.
    pub(crate) fn read_document(
        &self,
        store: &'s Arc<dyn Store>,
        path: &str,
        name: &str,
        ask: Option<Ask<'_>>,
    ) -> Result<(Option<Json>, DocumentState<'s>)> {
        let key = join(path, name);
        if let Some(state) = self.unchanged_document(store, path, name) {
            return Ok((node::read_document(store, &key)?, state));
        }
        let (mut documents, was) = Documents::read_one_with_state(store, &key, ask)?;
        let text = documents.take(store, &key)?;
        let document = text.map(|text| node::parse_document(store, &key, &text)).transpose()?;
        Ok((document, DocumentState { store, key, was: Some(was) }))
    }
}

impl DocumentState<'_> {
    /// Returns `true` if nobody else can change the object meanwhile.
    pub(crate) fn is_locked(&self) -> bool {
        self.was.is_none()
    }

    /// Replaces the object by a document. Returns `false` if the object has changed.
    ///
    /// Then nothing is written. Fails if the document could not be read again. `ask` is called
    /// while this waits; `true` gives up.
    pub(crate) fn replace(&self, document: &Json, ask: Option<Ask<'_>>) -> Result<bool> {
        self.replace_marked(document, Mark::fresh(), ask)
    }

    /// Like [`DocumentState::replace`]; the new object gets this mark ([`DocumentState::is_of`]).
    pub(crate) fn replace_marked(&self, document: &Json, mark: Mark, ask: Option<Ask<'_>>) -> Result<bool> {
        let expected = match &self.was {
            None => return node::write_document(self.store, &self.key, document).map(|()| true),
            Some(None) => Expected::Absent,
            Some(Some(was)) => Expected::Same(&**was),
        };
        let text = node::check_document(&self.key, document)?;
        Ok(self.store.swap_marked(Key::new(&self.key)?, expected, mark, &[text.as_bytes()], ask)?)
    }

    fn version(&self) -> Option<Version<'_>> {
        self.was.as_ref()?.as_ref()?.version()
    }

    /// Tells whether the replacement with this mark stored the object as it was seen.
    ///
    /// Returns `None` if the object has no mark.
    pub(crate) fn is_of(&self, mark: Mark) -> Option<bool> {
        self.version()?.is_of(mark)
    }

    /// Returns `true` if the replacement with this mark led to the object as it was seen.
    pub(crate) fn follows(&self, mark: Mark) -> bool {
        self.version().and_then(|version| version.follows(mark)).unwrap_or(false)
    }

    /// Returns `true` if the object is unchanged, or if the store cannot tell.
    pub(crate) fn is_current(&self) -> Result<bool> {
        let Some(was) = &self.was else { return Ok(true) };
        let now = self.store.open(Key::new(&self.key)?, None)?;
        Ok(match (was, &now) {
            (None, None) => true,
            (Some(was), Some(now)) => match (was.version(), now.version()) {
                (Some(was), Some(now)) => was == now,
                _ => true,
            },
            _ => false,
        })
    }
}

#[cfg(test)]
#[path = "document_state_tests.rs"]
mod tests;
