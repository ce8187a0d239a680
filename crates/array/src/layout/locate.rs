//! Where chunks are: what a format answers.

use crate::error::LocateError;
use smallvec::SmallVec;
use std::fmt::Debug;

/// Where one chunk's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// The chunk does not exist: it reads as fill value.
    Absent,
    /// The chunk is all of its object (the object itself may be missing: fill value).
    Object,
    /// The chunk is `len` bytes of its object from `offset`. Such chunks can be read, not written.
    Range {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Codecs that were left out when this chunk was written: bit `i` stands for the `i`-th of
        /// [`CodecChain::codecs`](hyperslab_codec::CodecChain::codecs). 0: none.
        skipped: u32,
    },
}

/// Finds the bytes of chunks: a Zarr chunk is a whole object, an HDF5 chunk a range of the file.
/// Where chunks lie in shards, it finds shards: they are the chunks of
/// [`ArrayLayout::object_grid`](crate::ArrayLayout::object_grid).
pub trait ChunkLocator: Debug + Send + Sync {
    /// Finds chunks, many in one call: for each of `wanted`, in order, it says which object holds
    /// the chunk ([`Found::object`]) and where it is in there ([`Found::chunk`]). What has to be
    /// read for that (an index) is read for all of them at once. Called from many threads; no
    /// allocation but in `found`, no I/O in the usual case.
    ///
    /// Errors are about the first chunk that `found` lacks.
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError>;

    /// Whether chunks are ranges of objects that hold many of them, so that neighbours may be read
    /// at once.
    fn shares_objects(&self) -> bool {
        false
    }

    /// The prefix below which all objects of chunks lie, and little else (`""`: the whole store);
    /// `None`: there is none.
    fn folder(&self) -> Option<&str> {
        None
    }
}

/// Chunks that are looked for.
#[derive(Clone, Copy, Debug)]
pub struct ChunkList<'a> {
    rank: usize,
    count: usize,
    indices: &'a [u64],
}

impl<'a> ChunkList<'a> {
    /// One chunk, by its index along each axis.
    #[inline]
    pub fn one(chunk: &'a [u64]) -> Self {
        ChunkList { rank: chunk.len(), count: 1, indices: chunk }
    }

    /// `count` chunks of an array of `rank` axes; their indices stand one behind the other.
    pub(crate) fn new(rank: usize, count: usize, indices: &'a [u64]) -> Self {
        debug_assert_eq!(rank * count, indices.len());
        ChunkList { rank, count, indices }
    }

    /// Number of chunks.
    pub fn len(self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// The chunks, each by its index along each axis.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = &'a [u64]> {
        (0..self.count).map(move |n| self.get(n))
    }

    /// The `n`-th chunk; empty where there are fewer.
    #[inline]
    pub fn get(self, n: usize) -> &'a [u64] {
        self.indices.get(n * self.rank..(n + 1) * self.rank).unwrap_or_default()
    }
}

/// Where chunks were found, in the order in which they were asked for.
#[derive(Debug, Default)]
pub struct Found {
    /// The keys of objects, one behind the other, and where each begins.
    keys: String,
    starts: SmallVec<[usize; 1]>,
    /// Number of the object, and place in it.
    chunks: SmallVec<[(usize, Location); 1]>,
}

impl Found {
    /// The chunks that follow are in the object whose key `write` appends.
    #[inline]
    pub fn object(&mut self, write: impl FnOnce(&mut String)) {
        self.starts.push(self.keys.len());
        write(&mut self.keys);
    }

    /// The next chunk is at this place of the object that was told last.
    #[inline]
    pub fn chunk(&mut self, location: Location) {
        self.chunks.push((self.starts.len().saturating_sub(1), location));
    }

    /// An empty list that reuses the memory of `key`.
    #[inline]
    pub(crate) fn reusing(key: &mut String) -> Self {
        let mut keys = std::mem::take(key);
        keys.clear();
        Found { keys, starts: SmallVec::new(), chunks: SmallVec::new() }
    }

    /// The key of the only object, and the place of the only chunk.
    #[inline]
    pub(crate) fn into_one(self) -> (String, Option<Location>) {
        (self.keys, self.chunks.first().map(|(_, location)| *location))
    }

    /// Number of chunks.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Key of the object of the `n`-th chunk, and its place there.
    pub fn get(&self, n: usize) -> Option<(&str, Location)> {
        let (object, location) = self.chunks.get(n)?;
        let start = self.starts.get(*object).copied().unwrap_or(0);
        let end = self.starts.get(object + 1).copied().unwrap_or(self.keys.len());
        Some((self.keys.get(start..end).unwrap_or_default(), *location))
    }

    /// The number of the object of the `n`-th chunk: equal for chunks of one object that were told
    /// together.
    pub(crate) fn object_of(&self, n: usize) -> usize {
        self.chunks.get(n).map_or(0, |(object, _)| *object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_is_in_the_object_that_was_told_before_it() {
        let mut found = Found::default();
        found.object(|key| key.push('a'));
        found.chunk(Location::Object);
        found.object(|key| key.push_str("bc"));
        found.chunk(Location::Absent);
        found.chunk(Location::Range { offset: 1, len: 2, skipped: 0 });
        assert_eq!(found.len(), 3);
        let keys: Vec<_> = (0..4).map(|n| found.get(n).map(|(key, _)| key)).collect();
        assert_eq!(keys, [Some("a"), Some("bc"), Some("bc"), None]);
        assert_eq!(found.get(1).map(|(_, location)| location), Some(Location::Absent));
        assert!(Found::default().is_empty());
    }

    #[test]
    fn lists_of_chunks_of_any_rank() {
        let list = ChunkList::new(2, 3, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(list.iter().collect::<Vec<_>>(), [[1, 2], [3, 4], [5, 6]]);
        assert_eq!(ChunkList::new(0, 2, &[]).iter().count(), 2);
        assert_eq!(ChunkList::one(&[7]).get(0), [7]);
    }
}
