//! A format's answer to the question where chunks are.

use crate::dims::Dims;
use crate::error::LocateError;
use smallvec::SmallVec;
use std::fmt::Debug;

/// The place of one chunk's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// The chunk does not exist: it reads as fill value.
    Absent,
    /// The chunk is all of its object (the object itself may be missing: fill value).
    Object,
    /// The chunk is `len` bytes of its object from `offset`. These chunks can be read, not written.
    Range {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Codecs that were left out when this chunk was written. 0: none.
        ///
        /// Bit `i` stands for the `i`-th of
        /// [`CodecChain::codecs`](hyperslab_codec::CodecChain::codecs).
        skipped: u32,
    },
}

/// Finds the bytes of chunks: a Zarr chunk is a whole object, an HDF5 chunk a range of the file.
///
/// In a sharded array, it finds shards: the chunks of
/// [`ArrayLayout::object_grid`](crate::ArrayLayout::object_grid).
pub trait ChunkLocator: Debug + Send + Sync {
    /// Finds many chunks in one call.
    ///
    /// For each of `wanted`, in order, it reports the object that holds the chunk
    /// ([`Found::object`]) and the chunk's place in there ([`Found::chunk`]). If an index has to be
    /// read first, it is read once for all chunks. Called from many threads. Allocates only in
    /// `found`, and usually does no I/O.
    ///
    /// Errors are about the first chunk that `found` lacks.
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError>;

    /// Returns `true` if chunks are ranges of shared objects. Neighbours may then be read at once.
    fn shares_objects(&self) -> bool {
        false
    }

    /// The prefix of the keys of all chunk objects, shared with few other objects.
    ///
    /// `""` is the whole store. `None` if there is no such prefix.
    fn folder(&self) -> Option<&str> {
        None
    }

    /// The chunks whose objects have these keys, in their order. Keys of other objects are left
    /// out.
    ///
    /// `None` if keys do not tell.
    fn chunks_of(&self, _keys: &mut dyn Iterator<Item = &str>) -> Option<Vec<Dims>> {
        None
    }
}

/// Chunks to look for.
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

    /// `count` chunks of an array of `rank` axes, with their indices one after the other.
    pub(crate) fn new(rank: usize, count: usize, indices: &'a [u64]) -> Self {
        debug_assert_eq!(rank * count, indices.len());
        ChunkList { rank, count, indices }
    }

    /// Number of chunks.
    pub fn len(self) -> usize {
        self.count
    }

    /// Returns `true` if the list has no chunks.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// The chunks, each by its index along each axis.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = &'a [u64]> {
        (0..self.count).map(move |n| self.get(n))
    }

    /// The `n`-th chunk; empty if there are fewer.
    #[inline]
    pub fn get(self, n: usize) -> &'a [u64] {
        self.indices.get(n * self.rank..(n + 1) * self.rank).unwrap_or_default()
    }
}

/// The places of chunks, in the order of the request.
#[derive(Debug, Default)]
pub struct Found {
    /// The keys of objects, one after the other, and where each begins.
    keys: String,
    starts: SmallVec<[usize; 1]>,
    /// Per chunk: the number of its object, and its place there.
    chunks: SmallVec<[(usize, Location); 1]>,
}

impl Found {
    /// Starts an object, whose key `write` appends. The chunks that follow are in it.
    #[inline]
    pub fn object(&mut self, write: impl FnOnce(&mut String)) {
        self.starts.push(self.keys.len());
        write(&mut self.keys);
    }

    /// Adds the next chunk, at this place of the object that was started last.
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

    /// Returns `true` if no chunk has been added.
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

    /// The number of the `n`-th chunk's object: equal for chunks that were added to one object.
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
