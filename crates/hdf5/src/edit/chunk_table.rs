//! The stored chunks of a dataset that is being changed.

use super::merge::ChunkConflict;
use crate::index::{ChunkRecord, place};
use hyperslab_array::Dims;
use hyperslab_store::fork::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The place of a stored chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlace {
    /// Address of the first byte.
    pub address: u64,
    /// Stored bytes.
    pub size: u64,
    /// Skipped filters: bit `i` stands for filter `i` of the pipeline.
    pub skipped: u32,
    /// `true` if the file on disk may refer to these bytes: they must not change.
    pub is_flushed: bool,
}

/// The chunks that were changed since the last flush, as they were then. `None`: not stored.
pub(super) type Bases = BTreeMap<Dims, Option<ChunkPlace>>;

/// The stored chunks of a dataset, by place in the grid.
#[derive(Debug)]
pub struct ChunkTable {
    /// Gated.
    chunks: RwLock<Chunks>,
    /// Counts changes.
    changes: AtomicU64,
    /// Gated. The stored index, and replaced and removed chunks, which the file on disk may refer to.
    dropped: Mutex<Vec<(u64, u64)>>,
}

#[derive(Debug, Default)]
struct Chunks {
    places: BTreeMap<Dims, ChunkPlace>,
    bases: Bases,
}

impl ChunkPlace {
    /// Returns `true` if both are the same stored bytes.
    pub fn is_same(one: Option<ChunkPlace>, other: Option<ChunkPlace>) -> bool {
        let place = |chunk: ChunkPlace| (chunk.address, chunk.size);
        one.map(place) == other.map(place)
    }
}

impl Chunks {
    fn set(&mut self, place: &[u64], new: Option<ChunkPlace>) -> Option<ChunkPlace> {
        let key = Dims::from_slice(place);
        let old = match new {
            Some(new) => self.places.insert(key.clone(), new),
            None => self.places.remove(place),
        };
        self.bases.entry(key).or_insert(old);
        old
    }
}

impl ChunkTable {
    /// Makes the table of a dataset whose chunks are in the file. `index`: the places of the stored
    /// index, which the next flush replaces.
    pub(super) fn of(records: &[ChunkRecord], counts: &[u64], index: Vec<(u64, u64)>) -> ChunkTable {
        let place_of = |record: &ChunkRecord| {
            let ChunkRecord { number, address, size, skipped } = *record;
            (place(number, counts).into(), ChunkPlace { address, size, skipped, is_flushed: true })
        };
        let places = records.iter().map(place_of).collect();
        let chunks = RwLock::new(Chunks { places, bases: Bases::new() });
        ChunkTable { chunks, changes: AtomicU64::new(0), dropped: Mutex::new(index) }
    }

    /// Returns a chunk. `None`: it is not stored.
    pub fn get(&self, place: &[u64]) -> Option<ChunkPlace> {
        self.chunks.read().places.get(place).copied()
    }

    /// Returns several chunks, as they are at one moment.
    pub fn get_all<'p>(&self, wanted: impl Iterator<Item = &'p [u64]>) -> Vec<Option<ChunkPlace>> {
        let mut found = Vec::with_capacity(wanted.size_hint().0);
        let chunks = self.chunks.read();
        found.extend(wanted.map(|place| chunks.places.get(place).copied()));
        found
    }

    /// Stores a chunk. Returns the one that it replaces.
    pub fn put(&self, place: &[u64], new: ChunkPlace) -> Option<ChunkPlace> {
        let old = self.chunks.write().set(place, Some(new));
        self.note_dropped(old.as_slice());
        self.changes.fetch_add(1, Ordering::Release);
        old
    }

    /// Stores a chunk if the table has `expected` at its place. Otherwise returns the chunk that it has.
    pub fn exchange(
        &self,
        place: &[u64],
        expected: Option<ChunkPlace>,
        new: ChunkPlace,
    ) -> Result<Option<ChunkPlace>, Option<ChunkPlace>> {
        let old = {
            let mut chunks = self.chunks.write();
            let found = chunks.places.get(place).copied();
            if !ChunkPlace::is_same(found, expected) {
                return Err(found);
            }
            chunks.set(place, Some(new))
        };
        self.note_dropped(old.as_slice());
        self.changes.fetch_add(1, Ordering::Release);
        Ok(old)
    }

    /// Removes a chunk, and returns it.
    pub fn remove(&self, place: &[u64]) -> Option<ChunkPlace> {
        let old = self.chunks.write().set(place, None);
        self.note_dropped(old.as_slice());
        self.changes.fetch_add(1, Ordering::Release);
        old
    }

    /// Removes the chunks that begin behind the end of some axis, and returns them.
    pub(super) fn crop(&self, counts: &[u64]) -> Vec<ChunkPlace> {
        let mut chunks = self.chunks.write();
        let is_outside = |place: &&Dims| place.iter().zip(counts).any(|(at, count)| at >= count);
        let outside: Vec<Dims> = chunks.places.keys().filter(is_outside).cloned().collect();
        let removed: Vec<_> = outside.iter().filter_map(|place| chunks.set(place, None)).collect();
        drop(chunks);
        if !removed.is_empty() {
            self.note_dropped(&removed);
            self.changes.fetch_add(1, Ordering::Release);
        }
        removed
    }

    /// Takes the chunks of another writer's flush, where this one has changed none. Returns the chunks
    /// that both have changed: this writer's stay in the table.
    pub(super) fn rebase(&self, theirs: &ChunkTable) -> Vec<(Dims, ChunkConflict)> {
        let mut conflicts = Vec::new();
        let mut chunks = self.chunks.write();
        let mut places = theirs.chunks.read().places.clone();
        let Chunks { places: ours, bases } = &mut *chunks;
        let mut replaced = Vec::new();
        for (place, base) in bases {
            let other = match ours.get(place) {
                Some(mine) => places.insert(place.clone(), *mine),
                None => places.remove(place),
            };
            if !ChunkPlace::is_same(other, *base) {
                conflicts.push((place.clone(), ChunkConflict { base: *base, theirs: other }));
                replaced.extend(other);
                *base = other;
            }
        }
        *ours = places;
        drop(chunks);
        self.note_dropped(&replaced);
        conflicts
    }

    /// Returns the chunks that were changed since the last flush, as they were, and begins anew.
    pub(super) fn take_bases(&self) -> Bases {
        std::mem::take(&mut self.chunks.write().bases)
    }

    /// Gives back bases that count before newer ones, after a flush or a merge that failed.
    pub(super) fn give_back(&self, bases: Bases) {
        self.chunks.write().bases.extend(bases);
    }

    /// Gives back the chunks that a failed flush has taken.
    pub(super) fn drop_later(&self, dropped: Vec<(u64, u64)>) {
        self.dropped.lock().extend(dropped);
    }

    fn note_dropped(&self, places: &[ChunkPlace]) {
        let flushed = places.iter().filter(|place| place.is_flushed);
        self.dropped.lock().extend(flushed.map(|place| (place.address, place.size)));
    }

    /// Returns the replaced and removed chunks that the file on disk may refer to, once.
    pub(super) fn take_dropped(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut *self.dropped.lock())
    }

    /// Number of stored chunks.
    pub fn len(&self) -> usize {
        self.chunks.read().places.len()
    }

    /// Returns `true` if no chunk is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all stored chunks in C order.
    pub fn places(&self) -> Vec<(Dims, ChunkPlace)> {
        self.chunks.read().places.iter().map(|(place, stored)| (place.clone(), *stored)).collect()
    }

    /// Counts changes since the table was made.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns all chunks by number, in a grid of `counts` chunks per axis. Chunks beyond it are left
    /// out.
    pub(crate) fn records(&self, counts: &[u64]) -> Vec<ChunkRecord> {
        let number = |place: &[u64]| {
            let axes = place.iter().zip(counts);
            axes.fold(0_u64, |number, (at, count)| number.saturating_mul(*count).saturating_add(*at))
        };
        let chunks = self.chunks.read();
        let is_inside =
            |(place, _): &(&Dims, &ChunkPlace)| place.iter().zip(counts).all(|(at, count)| at < count);
        let record = |(place, stored): (&Dims, &ChunkPlace)| ChunkRecord {
            number: number(place),
            address: stored.address,
            size: stored.size,
            skipped: stored.skipped,
        };
        chunks.places.iter().filter(is_inside).map(record).collect()
    }

    /// Notes that the file on disk may refer to all chunks from now on.
    pub(super) fn mark_flushed(&self) {
        self.chunks.write().places.values_mut().for_each(|place| place.is_flushed = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_keep_their_places_when_the_grid_changes() {
        let record = |number, address| ChunkRecord { number, address, size: 5, skipped: 1 };
        let table = ChunkTable::of(&[record(1, 10), record(5, 20)], &[2, 3], vec![(50, 9)]);
        assert_eq!(table.get(&[1, 2]).map(|place| (place.address, place.is_flushed)), Some((20, true)));
        let new = ChunkPlace { address: 30, size: 6, skipped: 0, is_flushed: false };
        assert_eq!(table.put(&[3, 0], new), None);
        assert_eq!(table.put(&[0, 1], new).map(|old| old.address), Some(10));
        assert_eq!(table.records(&[4, 5]).iter().map(|one| one.number).collect::<Vec<_>>(), [1, 7, 15]);
        let cropped = table.crop(&[3, 2]);
        assert_eq!(cropped.len(), 2);
        assert_eq!((table.len(), table.changes()), (1, 3));
        // The old index, a flushed chunk that was replaced, and one that is outside.
        assert_eq!(table.take_dropped(), [(50, 9), (10, 5), (20, 5)]);
        assert_eq!(table.take_dropped(), []);
        table.mark_flushed();
        assert_eq!(table.places(), [(Dims::from_slice(&[0, 1]), ChunkPlace { is_flushed: true, ..new })]);
        assert_eq!(table.remove(&[0, 1]).map(|old| old.address), Some(30));
        assert!(table.is_empty());
    }
}
