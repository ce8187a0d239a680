//! Decoded chunks that are kept: opt-in, bounded, never stale.
//!
//! A request for a small part of a compressed chunk decodes all of it. If requests come back to the
//! same chunks, a [`ChunkCache`] (given with [`crate::read::options::ReadOptions::cache`]) keeps
//! the decoded chunks:
//!
//! 1. Look up the chunk by the store's number of its object ([`hyperslab_store::Store::lock_id`])
//!    and by its place in the object.
//! 2. Ask the store for the object's [`Stamp`] (one system call), and compare it with the stamp
//!    that came with the bytes. Equal stamps promise equal bytes, whatever store and key they come
//!    from. Numbers of objects may collide; that costs a hit and never returns a wrong value.
//! 3. Compare how the bytes were decoded: the same object may be read under other metadata, or
//!    without verifying checksums.
//! 4. Copy from the kept chunk. It is in stored order and byte order, as it came out of the codecs.
//!    The copy applies the array's data type, order of axes and shape.
//!
//! Otherwise the chunk is read, decoded into its own memory, kept if the store vouches for it with
//! a stamp, and copied from there. Requests that touch more than the cache holds keep nothing:
//! their chunks would push out everything else, and then each other. Chunks without codecs are not
//! kept either, because reading a range of them costs little more than the stamp.
//!
//! The CLOCK algorithm chooses the chunks to drop: a hand goes round and removes chunks that were
//! not used since it last passed. Chunks that are read once leave before chunks that are read again
//! and again, and a hit only sets a flag.

#![expect(clippy::indexing_slicing, reason = "slots are numbered by the list itself")]

use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::runtime::memory::Memory;
use crate::runtime::process::PerProcess;
use hyperslab_store::{Key, Stamp};
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keeps decoded chunks of one or several arrays. Shared by threads.
///
/// A forked child starts with an empty cache, because its parent's may be locked forever.
pub struct ChunkCache {
    limit: usize,
    state: AtomicPtr<CacheState>,
}

/// Identifies a process: each process has one, at its own address.
#[derive(Default)]
struct Here(#[allow(dead_code)] u8);

static HERE: PerProcess<Here> = PerProcess::new();

/// The part of the cache that belongs to one process.
struct CacheState {
    /// Identifies the process. It is never freed, so no two processes share an address.
    owner: *const Here,
    /// Per process.
    chunks: Mutex<KeptChunks>,
}

#[derive(Default)]
struct KeptChunks {
    places: HashMap<ChunkPlace, usize>,
    slots: Vec<Option<KeptChunk>>,
    free: Vec<usize>,
    /// The slot to look at next when there is no room.
    hand: usize,
    bytes: usize,
    hits: u64,
    misses: u64,
}

/// Key of a chunk in the cache. Two chunks may share it: the stamp tells them apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ChunkPlace {
    object: u64,
    /// Offset and length of a chunk that is only a part of its object.
    range: Option<(u64, u64)>,
    /// `true` if checksums were verified. Unverified bytes must not pass for verified ones.
    verified: bool,
}

struct KeptChunk {
    place: ChunkPlace,
    stamp: Stamp,
    decoding: Arc<str>,
    memory: Arc<Memory>,
    used: bool,
}

/// Bytes counted for each chunk besides its own. Very small chunks must not take many times the
/// limit.
const OVERHEAD: usize = 512;

impl KeptChunk {
    fn cost(&self) -> usize {
        cost(self.memory.len())
    }
}

fn cost(len: usize) -> usize {
    len.saturating_add(OVERHEAD)
}

impl ChunkCache {
    /// A cache that keeps at most `limit` bytes, including 512 per chunk. 0: it keeps nothing.
    pub fn new(limit: usize) -> Self {
        ChunkCache { limit, state: AtomicPtr::default() }
    }

    /// The most bytes that the cache keeps.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes kept now.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// The number of hits and of misses. Absent and changed chunks count as misses.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        let chunks = self.lock();
        (chunks.hits, chunks.misses)
    }

    /// Drops all chunks. The counts stay.
    pub fn clear(&self) {
        let mut chunks = self.lock();
        let KeptChunks { hits, misses, .. } = *chunks;
        let dropped = std::mem::replace(&mut *chunks, KeptChunks { hits, misses, ..KeptChunks::default() });
        drop(chunks);
        drop(dropped);
    }

    /// Returns `true` if the cache can hold all chunks of a request.
    pub(crate) fn has_room_for(&self, chunks: usize, decoded_size: usize) -> bool {
        cost(decoded_size).saturating_mul(chunks) <= self.limit
    }

    /// Returns the decoded chunk if it is kept and its object has not changed.
    ///
    /// `stamp` is the object's current stamp; `None`: ask the store. With `count`, the chunk counts
    /// as used or as missed.
    pub(crate) fn get(&self, wanted: &ChunkId<'_>, stamp: Option<Stamp>, count: bool) -> Option<Arc<Memory>> {
        let found = match count {
            true => self.lock().take_note(wanted),
            false => self.lock().find(wanted).map(|chunk| (chunk.stamp, chunk.memory.clone())),
        }?;
        // Do not hold the lock while asking the store. The read that follows reports errors of the
        // store.
        let now = stamp.or_else(|| wanted.layout.store().stamp(wanted.key).ok().flatten());
        if now == Some(found.0) {
            return Some(found.1);
        }
        if count {
            let removed = self.lock().forget(&wanted.place, found.0);
            drop(removed);
        }
        None
    }

    /// Keeps a chunk that was decoded from bytes that came with `stamp`.
    pub(crate) fn keep(&self, wanted: &ChunkId<'_>, stamp: Stamp, memory: Arc<Memory>) {
        if cost(memory.len()) > self.limit {
            return;
        }
        let decoding = wanted.layout.decoding().clone();
        let chunk = KeptChunk { place: wanted.place, stamp, decoding, memory, used: false };
        let removed = self.lock().insert(chunk, self.limit);
        // Freeing memory takes long: do it outside the lock.
        drop(removed);
    }

    fn lock(&self) -> MutexGuard<'_, KeptChunks> {
        // Nothing panics between changes that belong together.
        self.state().chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> &CacheState {
        let owner: *const Here = HERE.get();
        let found = self.state.load(Ordering::Acquire);
        // SAFETY: null, or from Box::into_raw in `make`. While `self` is borrowed, only a forked
        // child replaces it, and nobody frees it.
        match unsafe { found.as_ref() } {
            Some(state) if std::ptr::eq(state.owner, owner) => state,
            _ => self.make(owner, found),
        }
    }

    #[cold]
    fn make(&self, owner: *const Here, old: *mut CacheState) -> &CacheState {
        let new = Box::into_raw(Box::new(CacheState { owner, chunks: Mutex::default() }));
        // Leave a parent's state alone: another thread of the parent may have held its lock, and
        // been about to change it.
        match self.state.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: made above; see `state`.
            Ok(_) => unsafe { &*new },
            Err(other) => {
                // SAFETY: nobody else has seen `new`.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: another thread of this process was first, with a state from here; see
                // `state`.
                unsafe { &*other }
            }
        }
    }
}

// SAFETY: `owner` is compared and never dereferenced.
unsafe impl Send for CacheState {}
// SAFETY: as above.
unsafe impl Sync for CacheState {}

impl Drop for ChunkCache {
    fn drop(&mut self) {
        let state = *self.state.get_mut();
        // SAFETY: null, or from Box::into_raw in `make`.
        let mine = unsafe { state.as_ref() }.is_some_and(|state| std::ptr::eq(state.owner, HERE.get()));
        if mine {
            // SAFETY: as above; nobody else uses the cache any more, and it made this state in this
            // process.
            drop(unsafe { Box::from_raw(state) });
        }
    }
}

impl std::fmt::Debug for ChunkCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChunkCache({} of {} bytes)", self.bytes(), self.limit)
    }
}

/// A chunk to look for, and how it is read.
pub(crate) struct ChunkId<'a> {
    layout: &'a ArrayLayout,
    key: Key<'a>,
    place: ChunkPlace,
}

impl<'a> ChunkId<'a> {
    pub(crate) fn new(layout: &'a ArrayLayout, key: Key<'a>, location: Location, verified: bool) -> Self {
        let range = match location {
            Location::Range { offset, len, .. } => Some((offset, len)),
            _ => None,
        };
        let place = ChunkPlace { object: layout.store().lock_id(key), range, verified };
        ChunkId { layout, key, place }
    }
}

impl KeptChunks {
    fn find(&mut self, wanted: &ChunkId<'_>) -> Option<&mut KeptChunk> {
        let chunk = self.slots.get_mut(*self.places.get(&wanted.place)?)?.as_mut()?;
        let same = Arc::ptr_eq(&chunk.decoding, wanted.layout.decoding())
            || chunk.decoding == *wanted.layout.decoding();
        // Equal decodings imply equal sizes. Check anyway: the copy must be safe whatever codecs
        // print as their `Debug` output.
        (same && chunk.memory.len() == wanted.layout.encoding().decoded_size()).then_some(chunk)
    }

    /// Returns the chunk of a place and counts it as found and used, or counts a miss.
    fn take_note(&mut self, wanted: &ChunkId<'_>) -> Option<(Stamp, Arc<Memory>)> {
        let found = self.find(wanted).map(|chunk| {
            chunk.used = true;
            (chunk.stamp, chunk.memory.clone())
        });
        match found {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        found
    }

    /// Turns a hit into a miss, because the chunk that was found is outdated.
    ///
    /// Removes the chunk, unless another thread has already put a newer one in its place.
    fn forget(&mut self, place: &ChunkPlace, stamp: Stamp) -> Option<KeptChunk> {
        self.hits -= 1;
        self.misses += 1;
        let slot = *self.places.get(place)?;
        let outdated = self.slots.get(slot)?.as_ref().is_some_and(|chunk| chunk.stamp == stamp);
        outdated.then(|| self.remove(slot)).flatten()
    }

    fn remove(&mut self, slot: usize) -> Option<KeptChunk> {
        let chunk = self.slots.get_mut(slot)?.take()?;
        self.places.remove(&chunk.place);
        self.free.push(slot);
        self.bytes -= chunk.cost();
        Some(chunk)
    }

    /// Puts a chunk in its place, and returns the chunks that it replaces or pushes out.
    fn insert(&mut self, chunk: KeptChunk, limit: usize) -> Vec<KeptChunk> {
        let mut removed: Vec<KeptChunk> = Vec::new();
        removed.extend(self.places.get(&chunk.place).copied().and_then(|slot| self.remove(slot)));
        let room = limit.saturating_sub(chunk.cost());
        while self.bytes > room {
            let slot = self.hand % self.slots.len();
            self.hand = slot + 1;
            match &mut self.slots[slot] {
                Some(chunk) if chunk.used => chunk.used = false,
                _ => removed.extend(self.remove(slot)),
            }
        }
        self.bytes += chunk.cost();
        let place = chunk.place;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(chunk);
                slot
            }
            None => {
                self.slots.push(Some(chunk));
                self.slots.len() - 1
            }
        };
        self.places.insert(place, slot);
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: usize = 1000;

    fn chunk(object: u64, version: u64) -> KeptChunk {
        KeptChunk {
            place: ChunkPlace { object, range: None, verified: true },
            stamp: Stamp::new([version, 0, 0, 0, 0, 0, 0]),
            decoding: "zstd".into(),
            memory: Arc::new(Memory::dirty(CHUNK).unwrap()),
            used: false,
        }
    }

    fn places(chunks: &KeptChunks) -> Vec<u64> {
        let mut found: Vec<u64> = chunks.places.keys().map(|place| place.object).collect();
        found.sort_unstable();
        // Chunks are counted in three ways, which must agree.
        let slots = chunks.slots.iter().flatten().count();
        assert_eq!((slots, slots * cost(CHUNK)), (found.len(), chunks.bytes));
        assert_eq!(chunks.slots.len(), slots + chunks.free.len());
        for (place, slot) in &chunks.places {
            assert!(chunks.slots[*slot].as_ref().unwrap().place == *place);
        }
        found
    }

    #[test]
    fn the_bound_is_kept() {
        let mut chunks = KeptChunks::default();
        for object in 0..1000 {
            chunks.insert(chunk(object % 37, object), 5 * cost(CHUNK) + 1);
            assert_eq!(places(&chunks).len(), (object as usize + 1).min(5));
        }
        assert_eq!(chunks.slots.len(), 5);
        assert_eq!(chunks.insert(chunk(0, 0), cost(CHUNK)).len(), 5);
        assert_eq!(places(&chunks), [0]);
    }

    #[test]
    fn what_is_used_stays() {
        let mut chunks = KeptChunks::default();
        let use_it = |chunks: &mut KeptChunks, object: u64| {
            let slot = chunks.places[&chunk(object, 0).place];
            chunks.slots[slot].as_mut().unwrap().used = true;
        };
        for object in 0..4 {
            chunks.insert(chunk(object, 0), 4 * cost(CHUNK));
        }
        for object in 10..200 {
            use_it(&mut chunks, 1);
            use_it(&mut chunks, 2);
            chunks.insert(chunk(object, 0), 4 * cost(CHUNK));
            let found = places(&chunks);
            assert_eq!(found.len(), 4);
            assert!(found.contains(&1) && found.contains(&2) && found.contains(&object), "{found:?}");
        }
        // Unused chunks are dropped like all others.
        for object in 200..208 {
            chunks.insert(chunk(object, 0), 4 * cost(CHUNK));
        }
        assert_eq!(places(&chunks), [204, 205, 206, 207]);
    }

    #[test]
    fn the_same_place_is_kept_once() {
        let mut chunks = KeptChunks::default();
        for version in 0..10 {
            let removed = chunks.insert(chunk(7, version), 2 * cost(CHUNK));
            assert_eq!(removed.len(), usize::from(version > 0));
        }
        assert_eq!(places(&chunks), [7]);
        chunks.hits = 2;
        assert!(
            chunks.forget(&chunk(7, 0).place, Stamp::new([8, 0, 0, 0, 0, 0, 0])).is_none(),
            "it is newer"
        );
        assert!(chunks.forget(&chunk(7, 0).place, Stamp::new([9, 0, 0, 0, 0, 0, 0])).is_some());
        assert!(places(&chunks).is_empty());
        assert_eq!((chunks.hits, chunks.misses), (0, 2));
    }
}
