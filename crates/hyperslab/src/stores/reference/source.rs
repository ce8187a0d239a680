//! The source of references: a document, or a folder of Parquet files.

use super::records::Records;
use super::refs::{Ref, Refs};
use hyperslab_store::{Entry, Result};
use std::sync::Arc;

/// References by key.
#[derive(Debug)]
pub(super) enum Source {
    Document(Refs),
    Folder(Records),
}

impl Source {
    pub(super) fn get(&self, key: &str) -> Result<Option<Ref<'_>>> {
        match self {
            Source::Document(refs) => Ok(refs.get(key)),
            Source::Folder(records) => records.get(key),
        }
    }

    /// Announces the keys that are read next.
    pub(super) fn prepare<'k>(&self, keys: impl Iterator<Item = &'k str>) {
        if let Source::Folder(records) = self {
            records.prepare(keys);
        }
    }

    /// The URL of a target, as written.
    pub(super) fn url(&self, target: u32) -> Arc<str> {
        match self {
            Source::Document(refs) => refs.url(target).into(),
            Source::Folder(records) => records.url_of(target),
        }
    }

    /// The URL of some target.
    pub(super) fn some_url(&self) -> Option<Arc<str>> {
        match self {
            Source::Document(refs) => (refs.targets() > 0).then(|| refs.url(0).into()),
            Source::Folder(records) => records.some_url(),
        }
    }

    /// The keys that begin with `start`, sorted.
    pub(super) fn beginning(&self, start: &str) -> Result<Vec<String>> {
        match self {
            Source::Document(refs) => Ok(refs.beginning(start).map(str::to_owned).collect()),
            Source::Folder(records) => records.beginning(start),
        }
    }

    /// Like [`Source::beginning`], if this needs no reading and finds at most `most` keys.
    pub(super) fn present(&self, start: &str, most: usize) -> Option<Vec<String>> {
        let Source::Document(refs) = self else { return None };
        let keys = refs.beginning(start);
        (keys.len() <= most).then(|| keys.map(str::to_owned).collect())
    }

    /// The entries directly below a prefix, which ends with a slash or is empty.
    /// They are unordered and may repeat.
    pub(super) fn children(&self, start: &str) -> Result<Vec<Entry>> {
        let mut children: Vec<Entry> = Vec::new();
        let mut add = |name: &str, is_prefix: bool| {
            if children.last().is_none_or(|last| last.name != name || last.is_prefix != is_prefix) {
                children.push(Entry { name: name.to_owned(), is_prefix });
            }
        };
        match self {
            Source::Document(refs) => {
                for key in refs.beginning(start) {
                    let name = key.get(start.len()..).unwrap_or_default();
                    let (name, is_prefix) =
                        name.split_once('/').map_or((name, false), |(name, _)| (name, true));
                    add(name, is_prefix);
                }
            }
            Source::Folder(records) => {
                records.children(start)?.iter().for_each(|(name, is_prefix)| add(name, *is_prefix));
            }
        }
        Ok(children)
    }
}
