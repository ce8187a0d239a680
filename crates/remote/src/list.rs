//! Listings.
//!
//! A bucket has names, not directories. Some software marks directories with empty objects whose
//! names end in a slash; these are not listed. Names that cannot be keys are not listed either.

use crate::client::Client;
use crate::failure::Failure;
use crate::runtime::Running;
use crate::store::RemoteStore;
use futures_util::StreamExt;
use hyperslab_store::{EachListed, Entry, Key, Operation, StoreError};
use object_store::path::Path;

/// A running listing: names, with sizes for objects.
type Listing = Running<Result<Vec<(Path, Option<u64>)>, Failure>>;

/// Listings that are started together. Further ones wait for these and for their memory.
const LISTINGS: usize = 1024;

impl RemoteStore {
    /// The keys below a prefix, sorted, with the sizes of the objects. `None` if there are more
    /// than `most`.
    pub(crate) fn keys(
        &self,
        prefix: Option<Key<'_>>,
        most: usize,
    ) -> Result<Option<Vec<(String, u64)>>, StoreError> {
        let name = prefix.map_or("", |prefix| prefix.as_str()).to_owned();
        let root = self.0.prefix.clone();
        let path = self.prefix_path(prefix)?;
        let listed = self.run(&name, move |client| async move {
            client.retry_truncated(|| below(&client, &root, path.as_ref(), most)).await
        })?;
        match listed {
            Ok(keys) => Ok(keys.map(without_marks)),
            Err(Failure::Missing) => Ok(Some(Vec::new())),
            Err(failure) => Err(self.listing_error(&name, failure)),
        }
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

/// The keys below a prefix, relative to `root`, and their sizes. `None` if there are more than
/// `most`.
async fn below(
    client: &Client,
    root: &str,
    prefix: Option<&Path>,
    most: usize,
) -> Result<Option<Vec<(String, u64)>>, Failure> {
    let mut found = client.list(prefix);
    let mut keys: Vec<(String, u64)> = Vec::new();
    while let Some(meta) = client.request(0, async { found.next().await.transpose() }).await? {
        if prefix == Some(&meta.location) {
            continue;
        }
        keys.extend(behind(root, &meta.location).map(|key| (key.to_owned(), meta.size)));
        if keys.len() > most {
            return Ok(None);
        }
    }
    keys.sort_unstable();
    // Pages may overlap.
    keys.dedup_by(|one, other| one.0 == other.0);
    Ok(Some(keys))
}

/// The keys without directory marks, which are empty objects above others.
fn without_marks(keys: Vec<(String, u64)>) -> Vec<(String, u64)> {
    let names: Vec<&str> = keys.iter().map(|(name, _)| name.as_str()).collect();
    let is_mark = |name: &str| {
        let below = format!("{name}/");
        let next = names.partition_point(|other| *other < below.as_str());
        names.get(next).is_some_and(|other| other.starts_with(&below))
    };
    keys.iter().filter(|(name, size)| *size > 0 || !is_mark(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::without_marks;

    #[test]
    fn marks_of_directories_are_not_listed() {
        let keys = [("a", 0), ("a!", 0), ("a/b", 0), ("c", 1), ("c/d", 0), ("e", 0)];
        let keys = keys.map(|(name, size)| (name.to_owned(), size)).to_vec();
        let names: Vec<String> = without_marks(keys).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a!", "a/b", "c", "c/d", "e"]);
    }
}
