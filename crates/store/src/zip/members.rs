//! The members of an archive by key, as a directory tree.

use super::directory::Record;
use super::member::Member;
use crate::{Entry, Key};
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

/// Members by key.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    by_key: BTreeMap<String, Arc<Member>>,
    /// Number of compressed members.
    deflated: usize,
}

/// The first text after everything below `prefix/`: `0` follows `/`.
fn behind(prefix: &str) -> String {
    format!("{prefix}0")
}

impl Members {
    /// Adds a member from its directory record.
    ///
    /// If several have the same name, the last one counts, as in Python's zipfile and in `unzip`.
    pub(super) fn add(&mut self, record: &Record<'_>) {
        if let Some(key) = record.key() {
            self.insert(key, Arc::new(Member::of(record)));
        }
    }

    pub(super) fn insert(&mut self, key: String, member: Arc<Member>) {
        self.deflated += usize::from(!member.is_stored());
        let old = self.by_key.insert(key, member);
        self.deflated -= usize::from(old.is_some_and(|old| !old.is_stored()));
    }

    pub(super) fn remove(&mut self, key: &str) -> bool {
        let old = self.by_key.remove(key);
        self.deflated -= usize::from(old.as_ref().is_some_and(|old| !old.is_stored()));
        old.is_some()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Arc<Member>> {
        self.by_key.get(key)
    }

    pub(super) fn any_deflated(&self) -> bool {
        self.deflated > 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Arc<Member>)> {
        self.by_key.iter()
    }

    /// Up to `most` keys below a prefix (`None`: all).
    pub(super) fn below(&self, prefix: Option<Key<'_>>, most: usize) -> Vec<String> {
        let start = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        let range = self.by_key.range::<str, _>((Bound::Included(start.as_str()), Bound::Unbounded));
        range.map(|(key, _)| key).take_while(|key| key.starts_with(&start)).take(most).cloned().collect()
    }

    /// The children of a prefix. Skips everything below each child.
    pub(super) fn children(&self, prefix: Option<Key<'_>>) -> Vec<Entry> {
        let start = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        let mut children = Vec::new();
        let mut from = Bound::Included(start.clone());
        while let Some((key, _)) = self.by_key.range((from, Bound::Unbounded)).next() {
            let Some(name) = key.strip_prefix(&start) else { break };
            match name.split_once('/') {
                Some((name, _)) => {
                    children.push(Entry { name: name.to_owned(), is_prefix: true });
                    from = Bound::Included(behind(&format!("{start}{name}")));
                }
                None => {
                    children.push(Entry { name: name.to_owned(), is_prefix: false });
                    from = Bound::Excluded(key.clone());
                }
            }
        }
        children.sort_unstable();
        children
    }

    /// Fails if there are objects above or below `key`.
    pub(super) fn check_place(&self, key: Key<'_>) -> Result<(), io::ErrorKind> {
        self.check_above(key.as_str())?;
        if self.below(Some(key), 1).is_empty() { Ok(()) } else { Err(io::ErrorKind::IsADirectory) }
    }

    /// Fails if there is an object above `name`.
    pub(super) fn check_above(&self, mut name: &str) -> Result<(), io::ErrorKind> {
        while let Some((parent, _)) = name.rsplit_once('/') {
            if self.by_key.contains_key(parent) {
                return Err(io::ErrorKind::NotADirectory);
            }
            name = parent;
        }
        Ok(())
    }
}
