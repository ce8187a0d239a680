//! Decoded chunks that are kept: opt-in, bounded, never stale.
//!
//! A request for a small part of a compressed chunk decodes all of it. Where requests come back to
//! the same chunks, a [`ChunkCache`] (given with [`crate::read::options::ReadOptions::cache`])
//! keeps what was decoded:
//!
//! 1. Look for the chunk. It is found under the store's number of its object
//!    ([`hyperslab_store::Store::lock_id`]) and its place in it.
//! 2. Ask the store for the object's [`Stamp`], one system call, and compare it with the one that
//!    came with the bytes. Equal stamps promise equal bytes, whichever store and key they are asked
//!    of: numbers of objects may collide, which costs a hit and never a value.
//! 3. Compare how the bytes were decoded: the same object may be read under other metadata, and
//!    with checksums not verified.
//! 4. Copy from the kept chunk. What is kept is in stored order and byte order, as it came out of
//!    the codecs: data type, order of axes and shape of the array take effect in the copy.
//!
//! Otherwise the chunk is read, decoded into memory of its own, kept if the store vouches for it by
//! a stamp, and copied from there. Requests that touch more than the cache holds keep nothing: they
//! would push out all that is there, and then each other. So do chunks without codecs: a range of
//! them is read for little more than the stamp costs.
//!
//! What goes when there is no room is chosen by the CLOCK algorithm: a hand goes round and takes
//! what was not used since it last came by. What was read once leaves before what is read again and
//! again, and a hit only sets a flag.

#![expect(clippy::indexing_slicing, reason = "slots are numbered by the list itself")]

use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::runtime::memory::Memory;
use crate::runtime::process::PerProcess;
use hyperslab_store::{Key, Stamp};
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keeps decoded chunks, of one array or of several. Shared by threads. A forked child starts with
/// an empty one: its parent's may be locked for ever.
pub struct ChunkCache {
    limit: usize,
    state: AtomicPtr<CacheState>,
}

/// Tells processes apart: each has one, at an address of its own.
#[derive(Default)]
struct Here(#[allow(dead_code)] u8);

static HERE: PerProcess<Here> = PerProcess::new();

/// What a process keeps.
struct CacheState {
    /// Identifies the process: it is never freed, so no two have one address.
    owner: *const Here,
    /// Per process.
    kept: Mutex<KeptChunks>,
}

#[derive(Default)]
struct KeptChunks {
    places: HashMap<ChunkPlace, usize>,
    slots: Vec<Option<KeptChunk>>,
    free: Vec<usize>,
    /// The slot that is looked at next when there is no room.
    hand: usize,
    bytes: usize,
    hits: u64,
    misses: u64,
}

/// Where a chunk is found. May be the same for two chunks: the stamp tells them apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ChunkPlace {
    object: u64,
    /// Offset and length of a chunk that is a part of its object.
    range: Option<(u64, u64)>,
    /// Whether checksums were verified. Bytes whose sums nobody looked at must not pass for
    /// verified ones.
    verified: bool,
}

struct KeptChunk {
    place: ChunkPlace,
    stamp: Stamp,
    decoding: Arc<str>,
    memory: Arc<Memory>,
    used: bool,
}

/// Counted for each chunk besides its bytes: very small chunks must not take many times the bound.
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
    /// A cache that keeps at most so many bytes, 512 for each chunk included. 0: it keeps nothing.
    pub fn new(limit: usize) -> Self {
        ChunkCache { limit, state: AtomicPtr::default() }
    }

    /// The most bytes that it keeps.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes kept now.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// How often a chunk was found, and not: absent and changed chunks were not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        let kept = self.lock();
        (kept.hits, kept.misses)
    }

    /// Drops all chunks. The counts stay.
    pub fn clear(&self) {
        let mut kept = self.lock();
        let KeptChunks { hits, misses, .. } = *kept;
        let dropped = std::mem::replace(&mut *kept, KeptChunks { hits, misses, ..KeptChunks::default() });
        drop(kept);
        drop(dropped);
    }

    /// Whether a request of so many chunks is to be kept.
    pub(crate) fn has_room_for(&self, chunks: usize, decoded_size: usize) -> bool {
        cost(decoded_size).saturating_mul(chunks) <= self.limit
    }

    /// The decoded chunk, if it is kept and its object has not changed. `stamp`: which contents the
    /// object has; `None`: the store is asked. `count`: it is then counted as used, or as missed.
    pub(crate) fn get(&self, wanted: &ChunkId<'_>, stamp: Option<Stamp>, count: bool) -> Option<Arc<Memory>> {
        let found = match count {
            true => self.lock().take_note(wanted),
            false => self.lock().find(wanted).map(|chunk| (chunk.stamp, chunk.memory.clone())),
        }?;
        // The lock is not held while the store is asked. An error of the store is told by the read
        // that follows.
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
        // Giving memory back takes long: not under the lock.
        drop(removed);
    }

    fn lock(&self) -> MutexGuard<'_, KeptChunks> {
        // Nothing panics between changes that belong together.
        self.state().kept.lock().unwrap_or_else(PoisonError::into_inner)
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
        let new = Box::into_raw(Box::new(CacheState { owner, kept: Mutex::default() }));
        // A parent's state is left alone: another thread of the parent may have held its lock, and
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
            // SAFETY: as above; the last user of the cache is here, and a state of this process was
            // made by it.
            drop(unsafe { Box::from_raw(state) });
        }
    }
}

impl std::fmt::Debug for ChunkCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChunkCache({} of {} bytes)", self.bytes(), self.limit)
    }
}

/// A chunk that is looked for, and how it is read.
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
        // Equal decodings make equal sizes; what is copied from must not depend on how codecs print
        // themselves.
        (same && chunk.memory.len() == wanted.layout.encoding().decoded_size()).then_some(chunk)
    }

    /// What is kept at a place, counted as found and used; or counted as missed.
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

    /// What was counted as found is outdated. Removes it, if no other thread has put something
    /// newer in its place.
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

    /// Puts a chunk in the place of what is there, and returns what goes for it.
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

    fn places(kept: &KeptChunks) -> Vec<u64> {
        let mut found: Vec<u64> = kept.places.keys().map(|place| place.object).collect();
        found.sort_unstable();
        // Everything is told three times; they must agree.
        let slots = kept.slots.iter().flatten().count();
        assert_eq!((slots, slots * cost(CHUNK)), (found.len(), kept.bytes));
        assert_eq!(kept.slots.len(), slots + kept.free.len());
        for (place, slot) in &kept.places {
            assert!(kept.slots[*slot].as_ref().unwrap().place == *place);
        }
        found
    }

    #[test]
    fn the_bound_is_kept() {
        let mut kept = KeptChunks::default();
        for object in 0..1000 {
            kept.insert(chunk(object % 37, object), 5 * cost(CHUNK) + 1);
            assert_eq!(places(&kept).len(), (object as usize + 1).min(5));
        }
        assert_eq!(kept.slots.len(), 5);
        assert_eq!(kept.insert(chunk(0, 0), cost(CHUNK)).len(), 5);
        assert_eq!(places(&kept), [0]);
    }

    #[test]
    fn what_is_used_stays() {
        let mut kept = KeptChunks::default();
        let use_it = |kept: &mut KeptChunks, object: u64| {
            let slot = kept.places[&chunk(object, 0).place];
            kept.slots[slot].as_mut().unwrap().used = true;
        };
        for object in 0..4 {
            kept.insert(chunk(object, 0), 4 * cost(CHUNK));
        }
        for object in 10..200 {
            use_it(&mut kept, 1);
            use_it(&mut kept, 2);
            kept.insert(chunk(object, 0), 4 * cost(CHUNK));
            let found = places(&kept);
            assert_eq!(found.len(), 4);
            assert!(found.contains(&1) && found.contains(&2) && found.contains(&object), "{found:?}");
        }
        // Unused, they go like all others.
        for object in 200..208 {
            kept.insert(chunk(object, 0), 4 * cost(CHUNK));
        }
        assert_eq!(places(&kept), [204, 205, 206, 207]);
    }

    #[test]
    fn the_same_place_is_kept_once() {
        let mut kept = KeptChunks::default();
        for version in 0..10 {
            let removed = kept.insert(chunk(7, version), 2 * cost(CHUNK));
            assert_eq!(removed.len(), usize::from(version > 0));
        }
        assert_eq!(places(&kept), [7]);
        kept.hits = 2;
        assert!(kept.forget(&chunk(7, 0).place, Stamp::new([8, 0, 0, 0, 0, 0, 0])).is_none(), "it is newer");
        assert!(kept.forget(&chunk(7, 0).place, Stamp::new([9, 0, 0, 0, 0, 0, 0])).is_some());
        assert!(places(&kept).is_empty());
        assert_eq!((kept.hits, kept.misses), (0, 2));
    }
}
