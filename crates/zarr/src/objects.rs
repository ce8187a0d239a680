//! Finds the stored objects (chunks, or shards) of an array.
//!
//! The cost depends on the stored objects, not on the possible ones: a grid may have 2⁶⁰ chunks,
//! and one object.

use crate::path::join;
use crate::{Array, Result, walk};
use hyperslab_array::{ArrayError, Dims};
use hyperslab_store::{Ask, Key, StoreError, waiting};
use std::collections::HashSet;

/// At most this many objects are looked up by name. For more, the store is listed.
const BY_NAME: u64 = 1000;

/// The wanted objects: an index of at least `from` along any axis, and below `to` along all.
pub(crate) struct Beyond {
    /// `None` if no index of this axis is wanted.
    pub(crate) from: Vec<Option<u64>>,
    pub(crate) to: Vec<u64>,
}

/// Called with the key and index of an object.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(Key<'_>, &[u64]) -> Result<()>;

impl Beyond {
    fn is_beyond(&self, axis: usize, index: u64) -> bool {
        self.from.get(axis).copied().flatten().is_some_and(|from| index >= from)
    }

    fn is_within(&self, axis: usize, index: u64) -> bool {
        self.to.get(axis).is_some_and(|to| index < *to)
    }

    fn has(&self, chunk: &[u64]) -> bool {
        let mut axes = chunk.iter().enumerate();
        axes.clone().all(|(axis, index)| self.is_within(axis, *index))
            && axes.any(|(axis, index)| self.is_beyond(axis, *index))
    }

    /// The first wanted index along each axis.
    fn inner(&self) -> Vec<u64> {
        self.from.iter().zip(&self.to).map(|(from, to)| from.unwrap_or(*to).min(*to)).collect()
    }

    /// The number of possible objects, or `None` if it exceeds 64 bits.
    fn count(&self) -> Option<u64> {
        let product = |counts: &[u64]| counts.iter().try_fold(1u64, |n, count| n.checked_mul(*count));
        Some(product(&self.to)? - product(&self.inner())?)
    }
}

impl Array {
    /// Calls `visit` with the key and index of each wanted object that may be stored.
    ///
    /// That is every stored one, and perhaps others. `ask` is called before each; `true` stops with
    /// [`ArrayError::Interrupted`].
    pub(crate) fn each_beyond(&self, beyond: &Beyond, ask: Option<Ask<'_>>, visit: Visit<'_>) -> Result<()> {
        let mut asking = |key: &str, chunk: &[u64]| {
            self.go_on(ask)?;
            visit(Key::new(key)?, chunk)
        };
        if beyond.from.iter().all(Option::is_none) {
            return Ok(());
        }
        if beyond.count().is_some_and(|count| count <= BY_NAME) {
            let cost = self.store().cost();
            if cost.prefers_rounds() && cost.worth_guessing() {
                return self.each_present(beyond, ask, &mut asking);
            }
            let mut key = String::new();
            return for_each_lost(&beyond.to, &beyond.inner(), &mut |chunk| {
                key.clear();
                self.layout().locate(chunk, &mut key)?;
                asking(&key, chunk)
            });
        }
        for (key, chunk) in self.stored_beyond(beyond, ask)? {
            asking(&key, &chunk)?;
        }
        Ok(())
    }

    /// Like [`Array::each_beyond`], for callers that expect few such objects or none.
    pub(crate) fn each_unexpected(
        &self,
        beyond: &Beyond,
        ask: Option<Ask<'_>>,
        visit: Visit<'_>,
    ) -> Result<()> {
        if self.store().cost().worth_guessing() || !self.store().facts().lists {
            return self.each_beyond(beyond, ask, visit);
        }
        // One request, instead of one for each possible object.
        let found = if beyond.from.iter().all(Option::is_none) {
            Vec::new()
        } else {
            self.stored_beyond(beyond, ask)?
        };
        found.iter().try_for_each(|(key, chunk)| visit(Key::new(key)?, chunk))
    }

    /// Like [`Array::each_beyond`], by name, for stores where each look-up takes long.
    ///
    /// All objects are looked up at once, or listed.
    fn each_present(
        &self,
        beyond: &Beyond,
        ask: Option<Ask<'_>>,
        visit: &mut dyn FnMut(&str, &[u64]) -> Result<()>,
    ) -> Result<()> {
        let mut looked_for = Vec::new();
        for_each_lost(&beyond.to, &beyond.inner(), &mut |chunk| {
            let mut key = String::new();
            self.layout().locate(chunk, &mut key)?;
            looked_for.push((key, Dims::from(chunk)));
            Ok(())
        })?;
        let keys = looked_for.iter().map(|(key, _)| Key::new(key));
        let keys = keys.collect::<Result<Vec<_>, StoreError>>()?;
        let found = self.store().existing(&keys, ask).map_err(walk::interrupted_error)?;
        let found: HashSet<&str> = found.iter().map(|key| key.as_str()).collect();
        for (key, chunk) in looked_for.iter().filter(|(key, _)| found.contains(key.as_str())) {
            visit(key, chunk)?;
        }
        Ok(())
    }

    /// Fails with [`ArrayError::Interrupted`] if `ask` says so.
    pub(crate) fn go_on(&self, ask: Option<Ask<'_>>) -> Result<()> {
        match ask {
            Some(ask) if ask() => {
                Err(ArrayError::Interrupted { array: self.layout().name().to_owned() }.into())
            }
            _ => Ok(()),
        }
    }

    /// The folder that contains all objects, and the bytes of a key before the chunk's own part.
    fn folder(&self) -> (String, usize) {
        let folder = join(self.path(), self.metadata().keys.folder());
        (folder, if self.path().is_empty() { 0 } else { self.path().len() + 1 })
    }

    /// The wanted objects that are stored. Lists only directories that may contain some.
    fn stored_beyond(&self, beyond: &Beyond, ask: Option<Ask<'_>>) -> Result<Vec<(String, Dims)>> {
        let (folder, start) = self.folder();
        let (rank, keys) = (self.layout().shape().len(), &self.metadata().keys);
        let mut found = Vec::new();
        // Far away, listing everything once is faster than listing each directory.
        if self.store().cost().prefers_one_listing() || !keys.is_nested() && !keys.is_flat() {
            found = self.chunk_keys(ask)?;
            found.retain(|(_, chunk)| beyond.has(chunk));
            return Ok(found);
        }
        if keys.is_flat() {
            for entry in self.children(&folder)? {
                let key = join(&folder, &entry.name);
                if let Some(chunk) = key.get(start..).and_then(|name| keys.parse(name))
                    && beyond.has(&chunk)
                {
                    found.push((key, chunk));
                }
            }
            return Ok(found);
        }
        // Directories still to be listed, with their indices.
        let mut pending = vec![(folder, Dims::new())];
        while let Some((directory, indices)) = pending.pop() {
            self.go_on(ask)?;
            let axis = indices.len();
            for entry in self.children(&directory)? {
                let Some(index) = parse_index(&entry.name).filter(|index| beyond.is_within(axis, *index))
                else {
                    continue;
                };
                let mut chunk = indices.clone();
                chunk.push(index);
                let key = join(&directory, &entry.name);
                if chunk.len() == rank {
                    if !entry.is_prefix && beyond.has(&chunk) {
                        found.push((key, chunk));
                    }
                } else if entry.is_prefix {
                    let later =
                        (chunk.len()..rank).any(|axis| beyond.from.get(axis).is_some_and(Option::is_some));
                    if later
                        || (0..chunk.len())
                            .any(|axis| chunk.get(axis).is_some_and(|index| beyond.is_beyond(axis, *index)))
                    {
                        pending.push((key, chunk));
                    }
                }
            }
        }
        Ok(found)
    }

    fn children(&self, folder: &str) -> Result<Vec<hyperslab_store::Entry>> {
        Ok(self.store().list_dir(crate::node_lock::prefix(folder)?)?)
    }

    /// Returns `true` if a key in the store is named like a chunk (or shard) of this array.
    pub(crate) fn is_chunk_key(&self, key: &str) -> bool {
        let (_, start) = self.folder();
        key.get(start..).is_some_and(|name| self.metadata().keys.parse(name).is_some())
    }

    /// All stored objects with names of chunks (or shards) of this array, also outside its grid.
    pub(crate) fn chunk_keys(&self, ask: Option<Ask<'_>>) -> Result<Vec<(String, Dims)>> {
        let (folder, start) = self.folder();
        let keys = self
            .store()
            .list_asking(crate::node_lock::prefix(&folder)?, ask)
            .map_err(walk::interrupted_error)?;
        Ok(keys
            .into_iter()
            .filter_map(|key| {
                let chunk = self.metadata().keys.parse(key.get(start..)?)?;
                Some((key, chunk))
            })
            .collect())
    }

    /// The same objects, with their sizes instead of keys.
    pub(crate) fn chunk_sizes(&self, ask: Option<Ask<'_>>) -> Result<Vec<(u64, Dims)>> {
        let (folder, start) = self.folder();
        let found = self
            .store()
            .list_sizes(crate::node_lock::prefix(&folder)?, ask)
            .map_err(walk::interrupted_error)?;
        let chunk = |key: &str| self.metadata().keys.parse(key.get(start..)?);
        Ok(found.into_iter().filter_map(|(key, size)| Some((size, chunk(&key)?))).collect())
    }

    /// The indices of the stored chunks (or shards, if there are any). Lists the store.
    pub fn stored_places(&self, ask: Option<Ask<'_>>) -> Result<Vec<Dims>> {
        let counts = self.layout().object_grid().counts(self.layout().shape());
        let places = self.chunk_keys(ask)?.into_iter().map(|(_, place)| place);
        Ok(places.filter(|place| place.iter().zip(&counts).all(|(at, count)| at < count)).collect())
    }

    /// The same, if a listing is fast and there are at most `most` objects.
    pub fn stored_places_at_most(&self, most: usize, ask: Option<Ask<'_>>) -> Result<Option<Vec<Dims>>> {
        self.go_on(ask)?;
        let (folder, start) = self.folder();
        let prefix = crate::node_lock::prefix(&folder)?;
        let list = || self.store().present(prefix, most);
        let keys = match ask {
            Some(ask) => waiting::with_ask(ask, list),
            None => list(),
        };
        self.go_on(ask)?;
        let Some(keys) = keys else { return Ok(None) };
        let counts = self.layout().object_grid().counts(self.layout().shape());
        let places = keys.iter().filter_map(|key| self.metadata().keys.parse(key.get(start..)?));
        Ok(Some(places.filter(|place| place.iter().zip(&counts).all(|(at, count)| at < count)).collect()))
    }
}

/// Parses an index as written in keys.
fn parse_index(name: &str) -> Option<u64> {
    let canonical = name == "0" || (!name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit()));
    if canonical { name.parse().ok() } else { None }
}

/// Calls `visit` for each chunk that is lost when a grid of `old` chunks shrinks to `new` per axis.
///
/// For each shrinking axis, this is the box of chunks that it loses, without the chunks that an
/// earlier axis loses.
pub(crate) fn for_each_lost(
    old: &[u64],
    new: &[u64],
    visit: &mut dyn FnMut(&[u64]) -> Result<()>,
) -> Result<()> {
    for lost in 0..old.len() {
        let ranges: Vec<(u64, u64)> = (old.iter().zip(new).enumerate())
            .map(|(axis, (old, new))| match axis.cmp(&lost) {
                std::cmp::Ordering::Less => (0, *old.min(new)),
                std::cmp::Ordering::Equal => (*old.min(new), *old),
                std::cmp::Ordering::Greater => (0, *old),
            })
            .collect();
        if ranges.iter().any(|(from, to)| from >= to) {
            continue;
        }
        let mut chunk: Vec<u64> = ranges.iter().map(|(from, _)| *from).collect();
        'chunks: loop {
            visit(&chunk)?;
            for (index, (from, to)) in chunk.iter_mut().zip(&ranges).rev() {
                *index += 1;
                if *index < *to {
                    continue 'chunks;
                }
                *index = *from;
            }
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, Format, KeyEncoding, ZarrError};
    use hyperslab_store::MemoryStore;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    /// Looking up by name and listing find the same objects.
    #[test]
    fn what_is_looked_for_is_found() {
        for (format, separator) in
            [(Format::V3, '/'), (Format::V3, '.'), (Format::V2, '.'), (Format::V2, '/')]
        {
            let mut spec = ArraySpec::new(format, &[12, 12], "|u1".parse().unwrap());
            spec.chunks = Some([2, 2].as_slice().into());
            spec.key_encoding = Some(match format {
                Format::V3 => KeyEncoding::Default { separator },
                Format::V2 => KeyEncoding::V2 { separator },
            });
            let array = Array::create(Arc::new(MemoryStore::new()), "a", spec, false).unwrap();
            let mut key = String::new();
            for chunk in [[0, 0], [0, 5], [3, 1], [5, 5], [2, 2], [9, 0]] {
                key.clear();
                array.layout().locate(&chunk, &mut key).unwrap();
                array.store().write(Key::new(&key).unwrap(), &[b"x"]).unwrap();
            }
            for (from, to, expected) in [
                ([Some(3), None], [6, 6], &[[3, 1], [5, 5]][..]),
                ([None, Some(2)], [6, 6], &[[0, 5], [2, 2], [5, 5]]),
                ([Some(3), Some(2)], [6, 6], &[[0, 5], [2, 2], [3, 1], [5, 5]]),
                ([Some(3), None], [6, 2], &[[3, 1]]),
                ([Some(3), None], [u64::MAX, u64::MAX], &[[3, 1], [5, 5], [9, 0]]),
                ([None, None], [6, 6], &[]),
            ] {
                let beyond = Beyond { from: from.to_vec(), to: to.to_vec() };
                let expected: BTreeSet<Vec<u64>> = expected.iter().map(|chunk| chunk.to_vec()).collect();
                let listed = array.stored_beyond(&beyond, None).unwrap();
                let listed: BTreeSet<Vec<u64>> =
                    listed.into_iter().map(|(_, chunk)| chunk.to_vec()).collect();
                if from != [None, None] {
                    assert_eq!(listed, expected, "{separator} {from:?} {to:?}");
                }
                let mut visited = BTreeSet::new();
                array
                    .each_beyond(&beyond, None, &mut |key, chunk| {
                        if array.store().exists(key)? {
                            assert!(visited.insert(chunk.to_vec()));
                        }
                        Ok(())
                    })
                    .unwrap();
                assert_eq!(visited, expected, "{separator} {from:?} {to:?}");
            }
            let beyond = Beyond { from: vec![Some(0), None], to: vec![u64::MAX, u64::MAX] };
            let stopped = array.each_beyond(&beyond, Some(&|| true), &mut |_, _| Ok(()));
            assert!(matches!(stopped, Err(ZarrError::Array(ArrayError::Interrupted { .. }))));
        }
    }

    #[test]
    fn lost_chunks_are_visited_once() {
        let lost = |old: &[u64], new: &[u64]| {
            let mut seen = Vec::new();
            for_each_lost(old, new, &mut |chunk| {
                seen.push(chunk.to_vec());
                Ok(())
            })
            .unwrap();
            seen
        };
        let all = (0..3).flat_map(|i| (0..4).flat_map(move |j| (0..2).map(move |k| vec![i, j, k])));
        let expected: Vec<Vec<u64>> = all.filter(|at| at[0] >= 2 || at[2] >= 1).collect();
        let mut sorted = lost(&[3, 4, 2], &[2, 5, 1]);
        sorted.sort();
        assert_eq!(sorted, expected);
        assert!(lost(&[], &[]).is_empty());
        assert!(lost(&[2, 2], &[2, 3]).is_empty());
        assert!(lost(&[2, 0], &[1, 0]).is_empty());
    }
}
