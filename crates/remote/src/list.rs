//! Listings.
//!
//! A bucket has names, not directories. Some software marks directories with empty objects whose
//! names end in a slash; these are not listed. Names that cannot be keys are not listed either.

use crate::client::Client;
use crate::failure::Failure;
use crate::runtime::Running;
use crate::store::RemoteStore;
use futures_util::StreamExt;
use futures_util::future::join_all;
use hyperslab_store::{EachListed, Entry, Key, Operation, SharedStamp, StoreError, common_folder};
use object_store::path::Path;
use std::collections::HashSet;

/// A running listing: names, with sizes for objects.
type Listing = Running<Result<Vec<(Path, Option<u64>)>, Failure>>;

/// Listings that are started together. Further ones wait for these and for their memory.
const LISTINGS: usize = 1024;

/// Objects that servers list with one request.
const PAGE: usize = 1000;

/// For fewer objects than this, separate requests are faster than a listing.
const FEW: usize = 32;

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    key: String,
    size: u64,
    /// Only if tags were requested.
    tag: Option<Box<str>>,
}

impl RemoteStore {
    /// The keys below a prefix, sorted, with the sizes of the objects. `None` if there are more
    /// than `most`.
    pub(crate) fn keys(
        &self,
        prefix: Option<Key<'_>>,
        most: usize,
    ) -> Result<Option<Vec<(String, u64)>>, StoreError> {
        let listed = self.list_below(prefix, most, false)?;
        Ok(listed.map(|listed| listed.into_iter().map(|object| (object.key, object.size)).collect()))
    }

    /// The objects below a prefix, sorted by key. `None` if there are more than `most`.
    fn list_below(
        &self,
        prefix: Option<Key<'_>>,
        most: usize,
        tags: bool,
    ) -> Result<Option<Vec<Listed>>, StoreError> {
        let name = prefix.map_or("", |prefix| prefix.as_str()).to_owned();
        let root = self.0.prefix.clone();
        let path = self.prefix_path(prefix)?;
        let listed = self.run(&name, move |client| async move {
            client.retry_truncated(|| below(&client, &root, path.as_ref(), most, tags)).await
        })?;
        match listed {
            Ok(keys) => Ok(keys.map(without_marks)),
            Err(Failure::Missing) => Ok(Some(Vec::new())),
            Err(failure) => Err(self.listing_error(&name, failure)),
        }
    }

    /// The keys below a prefix, if a listing is faster than separate requests for `most` objects.
    pub(crate) fn present_keys(&self, prefix: Option<Key<'_>>, most: usize) -> Option<Vec<String>> {
        if !self.abilities().lists || most < FEW {
            return None;
        }
        let keys = self.keys(prefix, most.max(PAGE)).ok().flatten()?;
        Some(keys.into_iter().map(|(key, _)| key).collect())
    }

    /// The keys of objects that exist, out of these.
    pub(crate) fn existing_keys<'k>(&self, keys: &[Key<'k>]) -> Result<Vec<Key<'k>>, StoreError> {
        let folder = common_folder(keys.iter().map(|key| key.as_str()));
        let prefix = if folder.is_empty() { None } else { Some(Key::new(folder)?) };
        // If others share the folder, and there are more objects than a listing pays for, ask for
        // each.
        if let Some(listed) = self.present_keys(prefix, keys.len()) {
            let listed: HashSet<String> = listed.into_iter().collect();
            return Ok(keys.iter().filter(|key| listed.contains(key.as_str())).copied().collect());
        }
        let mut found = Vec::new();
        for keys in keys.chunks(self.settings().concurrency.max(1)) {
            let Some(first) = keys.first() else { break };
            let paths = keys.iter().map(|key| self.path(*key)).collect::<Result<Vec<_>, _>>()?;
            let heads = self.run(first.as_str(), move |client| async move {
                Ok(join_all(paths.iter().map(|path| client.head(path))).await)
            })?;
            let heads = heads.map_err(|failure| self.error(Operation::Size, first.as_str(), &failure))?;
            for (key, head) in keys.iter().zip(heads) {
                match head {
                    Ok(_) => found.push(*key),
                    Err(Failure::Missing) => {}
                    Err(failure) => return Err(self.error(Operation::Size, key.as_str(), &failure)),
                }
            }
        }
        Ok(found)
    }

    /// The keys below a prefix with their stamps. `None` if a listing does not tell the stamps, or
    /// if there are more than `most` keys.
    pub(crate) fn stamps(
        &self,
        prefix: Option<Key<'_>>,
        most: usize,
    ) -> Result<Option<Vec<(String, SharedStamp)>>, StoreError> {
        if !self.abilities().lists {
            return Ok(None);
        }
        let Some(listed) = self.list_below(prefix, most, true)? else { return Ok(None) };
        let stamp = |object: Listed| {
            let stamp = self.shared_stamp(&object.key, object.tag.as_deref()?, object.size)?;
            Some((object.key, stamp))
        };
        Ok(listed.into_iter().map(stamp).collect())
    }

    /// The direct children of a prefix.
    pub(crate) fn children(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>, StoreError> {
        self.entries(prefix, &self.start_listing(prefix)?)
    }

    /// The direct children of several prefixes, listed concurrently.
    pub(crate) fn children_of_all(&self, prefixes: &[Option<Key<'_>>], each: EachListed<'_>) {
        for (page, prefixes) in prefixes.chunks(LISTINGS).enumerate() {
            let listings: Vec<_> = prefixes.iter().map(|prefix| self.start_listing(*prefix)).collect();
            for (n, (prefix, listing)) in prefixes.iter().zip(listings).enumerate() {
                each(page * LISTINGS + n, listing.and_then(|listing| self.entries(*prefix, &listing)));
            }
        }
    }

    /// Begins to list the direct children of a prefix.
    fn start_listing(&self, prefix: Option<Key<'_>>) -> Result<Listing, StoreError> {
        /// Long listings take many requests.
        const LISTING: u64 = 1 << 30;
        let path = self.prefix_path(prefix)?;
        Ok(self.start(move |client| async move {
            let list = || client.request(LISTING, client.list_direct(path.as_ref()));
            let (prefixes, objects) = client.retry_truncated(list).await?;
            let objects = objects.into_iter().map(|meta| (meta.location, Some(meta.size)));
            Ok(prefixes.into_iter().map(|path| (path, None)).chain(objects).collect::<Vec<_>>())
        }))
    }

    /// The entries that a listing found.
    fn entries(&self, prefix: Option<Key<'_>>, listing: &Listing) -> Result<Vec<Entry>, StoreError> {
        let name = prefix.map_or("", |prefix| prefix.as_str());
        let below = self.prefix_path(prefix)?.map_or_else(String::new, |path| path.as_ref().to_owned());
        let found = match listing.wait().map_err(|lost| self.lost(lost, name))? {
            Ok(found) => found,
            Err(Failure::Missing) => return Ok(Vec::new()),
            Err(failure) => return Err(self.listing_error(name, failure.clone())),
        };
        let mut entries: Vec<(Entry, u64)> = found
            .iter()
            .filter_map(|(path, size)| {
                let name = behind(&below, path).filter(|name| !name.contains('/'))?.to_owned();
                Some((Entry { name, is_prefix: size.is_none() }, size.unwrap_or(0)))
            })
            .collect();
        entries.sort_unstable();
        entries.dedup();
        // An empty object next to a prefix with the same name marks the directory.
        let prefixes: Vec<String> = entries
            .iter()
            .filter(|(entry, _)| entry.is_prefix)
            .map(|(entry, _)| entry.name.clone())
            .collect();
        let marks = |(entry, size): &(Entry, u64)| {
            !entry.is_prefix && *size == 0 && prefixes.binary_search(&entry.name).is_ok()
        };
        entries.retain(|entry| !marks(entry));
        Ok(entries.into_iter().map(|(entry, _)| entry).collect())
    }

    fn listing_error(&self, prefix: &str, failure: Failure) -> StoreError {
        let failure = match failure {
            Failure::Unsupported(mut cause) | Failure::Other(mut cause) if !self.abilities().lists => {
                cause.why = "the server does not list what it has".into();
                cause.advice = Some(
                    "Name arrays and groups by their whole URLs, or open a group with consolidated metadata"
                        .into(),
                );
                Failure::Unsupported(cause)
            }
            failure => failure,
        };
        self.error(Operation::List, prefix, &failure)
    }
}

/// The part of a name after the prefix `below`. All of it if `below` is empty.
fn behind<'n>(below: &str, path: &'n Path) -> Option<&'n str> {
    let name = path.as_ref();
    let name = match below {
        "" => name,
        below => name.strip_prefix(below)?.strip_prefix('/')?,
    };
    Key::new(name).is_ok().then_some(name)
}

/// The objects below a prefix, with keys relative to `root`. `None` if there are more than `most`.
async fn below(
    client: &Client,
    root: &str,
    prefix: Option<&Path>,
    most: usize,
    tags: bool,
) -> Result<Option<Vec<Listed>>, Failure> {
    let mut found = client.list(prefix);
    let mut keys: Vec<Listed> = Vec::new();
    while let Some(meta) = client.request(0, async { found.next().await.transpose() }).await? {
        if prefix == Some(&meta.location) {
            continue;
        }
        keys.extend(behind(root, &meta.location).map(|key| Listed {
            key: key.to_owned(),
            size: meta.size,
            tag: meta.e_tag.as_deref().filter(|_| tags).map(Box::from),
        }));
        if keys.len() > most {
            return Ok(None);
        }
    }
    keys.sort_unstable_by(|one, other| one.key.cmp(&other.key));
    // Pages may overlap.
    keys.dedup_by(|one, other| one.key == other.key);
    Ok(Some(keys))
}

/// The objects without directory marks, which are empty objects above others.
fn without_marks(mut objects: Vec<Listed>) -> Vec<Listed> {
    let is_mark = |name: &str| {
        let below = format!("{name}/");
        let next = objects.partition_point(|other| other.key < below);
        objects.get(next).is_some_and(|other| other.key.starts_with(&below))
    };
    let marks: HashSet<String> = (objects.iter())
        .filter(|object| object.size == 0 && is_mark(&object.key))
        .map(|object| object.key.clone())
        .collect();
    objects.retain(|object| !marks.contains(&object.key));
    objects
}

#[cfg(test)]
mod tests {
    use super::{Listed, without_marks};

    #[test]
    fn marks_of_directories_are_not_listed() {
        let keys = [("a", 0), ("a!", 0), ("a/b", 0), ("c", 1), ("c/d", 0), ("e", 0)];
        let keys = keys.map(|(key, size)| Listed { key: key.to_owned(), size, tag: None }).to_vec();
        let names: Vec<String> = without_marks(keys).into_iter().map(|object| object.key).collect();
        assert_eq!(names, ["a!", "a/b", "c", "c/d", "e"]);
    }
}
