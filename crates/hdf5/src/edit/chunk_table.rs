//! The stored chunks of a dataset that is being changed.

use super::merge::ChunkConflict;
use crate::index::paths::{self, ChunkEntry, Form, Plan, Tree};
use crate::index::{ChunkRecord, place};
use hyperslab_array::Dims;
use hyperslab_store::fork::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ops::Bound;
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
    /// Gated. Replaced and removed chunks, which the file on disk may refer to.
    dropped: Mutex<Vec<(u64, u64)>>,
}

#[derive(Debug, Default)]
struct Chunks {
    places: BTreeMap<Dims, ChunkPlace>,
    bases: Bases,
    index: StoredIndex,
}

/// The index in the file. It has the chunks as they were at the last flush.
#[derive(Debug, Default)]
pub(super) enum StoredIndex {
    /// There is none.
    #[default]
    None,
    /// One that the next flush replaces: its places, as far as they are known.
    Whole(Vec<(u64, u64)>),
    /// A tree. The next flush keeps its unchanged nodes.
    Tree(Tree),
}

/// The part of a flush that comes from the table, at one moment.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Changes up to here, or more, are among them.
    pub changes: u64,
    pub bases: Bases,
    /// Chunks and indexes that the file does not refer to after the flush. They are taken once.
    pub dropped: Vec<(u64, u64)>,
    /// The tree, if the next index is another one.
    pub replaced: Vec<(u64, u64)>,
    pub index: Option<TakenIndex>,
}

/// The chunks of the next index.
#[derive(Debug)]
pub(super) enum TakenIndex {
    /// All of them.
    Records(Vec<ChunkRecord>),
    /// The changed nodes of a tree.
    Tree(Plan),
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
    /// Makes the table of a dataset whose chunks are in the file.
    pub(super) fn of(records: &[ChunkRecord], counts: &[u64], index: StoredIndex) -> ChunkTable {
        let place_of = |record: &ChunkRecord| {
            let ChunkRecord { number, address, size, skipped } = *record;
            (place(number, counts).into(), ChunkPlace { address, size, skipped, is_flushed: true })
        };
        let places = records.iter().map(place_of).collect();
        let chunks = RwLock::new(Chunks { places, bases: Bases::new(), index });
        ChunkTable { chunks, changes: AtomicU64::new(0), dropped: Mutex::default() }
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
        let (mut places, index) = {
            let mut theirs = theirs.chunks.write();
            (theirs.places.clone(), std::mem::take(&mut theirs.index))
        };
        // Our last index is theirs to replace: they have read it before they flushed.
        chunks.index = index;
        let Chunks { places: ours, bases, .. } = &mut *chunks;
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

    /// Takes the changes since the last flush, in a grid of `counts` chunks per axis. `form`: the form
    /// of the next tree. `None`: the next index is no tree, and needs all records.
    ///
    /// The file on disk may refer to all chunks from now on.
    pub(super) fn take(&self, counts: &[u64], form: Option<&Form>) -> Taken {
        // Changes that come in between count as later ones.
        let changes = self.changes();
        let mut guard = self.chunks.write();
        let Chunks { places, bases: all, index } = &mut *guard;
        let mut dropped = self.take_dropped();
        let is_inside = |place: &[u64]| place.iter().zip(counts).all(|(at, count)| at < count);
        let mut bases = std::mem::take(all);
        for (place, base) in &bases {
            let Some(stored) = places.get_mut(place) else { continue };
            stored.is_flushed = true;
            if !is_inside(place) {
                // It is not stored, and may be inside at the next flush.
                all.insert(place.clone(), *base);
            }
        }
        if let StoredIndex::Whole(whole) = index {
            dropped.append(whole);
        }
        let mut replaced = Vec::new();
        let new = match form {
            None => {
                if let StoredIndex::Tree(tree) = index {
                    replaced = tree.places();
                }
                TakenIndex::Records(records(places, counts))
            }
            Some(form) => {
                let changed = bases.keys().map(|place| &place[..]);
                let mut chunks = |from: Option<&[u64]>, to: Option<&[u64]>| {
                    let bounds = (
                        from.map_or(Bound::Unbounded, Bound::Included),
                        to.map_or(Bound::Unbounded, Bound::Excluded),
                    );
                    let found = places.range::<[u64], _>(bounds).filter(|(place, _)| is_inside(place));
                    let entry = |(place, stored): (&Dims, &ChunkPlace)| {
                        let ChunkPlace { address, size, skipped, .. } = *stored;
                        ChunkEntry { place: place.clone(), address, size, skipped }
                    };
                    found.map(entry).collect()
                };
                TakenIndex::Tree(match index {
                    StoredIndex::Tree(tree) => paths::plan(form, Some(tree), changed, &mut chunks),
                    _ => paths::plan(form, None, changed, &mut chunks),
                })
            }
        };
        bases.retain(|place, _| !all.contains_key(place));
        Taken { changes, bases, dropped, replaced, index: Some(new) }
    }

    /// Notes that the file has this index.
    pub(super) fn set_index(&self, index: StoredIndex) {
        self.chunks.write().index = index;
    }

    /// `Some` if the file has an index: `true` if it is a tree that grows node by node.
    pub(super) fn has_tree(&self) -> Option<bool> {
        match &self.chunks.read().index {
            StoredIndex::None => None,
            StoredIndex::Whole(_) => Some(false),
            StoredIndex::Tree(_) => Some(true),
        }
    }

    /// The places of the index in the file, as far as they are known.
    pub(super) fn index_places(&self) -> Vec<(u64, u64)> {
        match &self.chunks.read().index {
            StoredIndex::None => Vec::new(),
            StoredIndex::Whole(places) => places.clone(),
            StoredIndex::Tree(tree) => tree.places(),
        }
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
        records(&self.chunks.read().places, counts)
    }
}

fn records(places: &BTreeMap<Dims, ChunkPlace>, counts: &[u64]) -> Vec<ChunkRecord> {
    let number = |place: &[u64]| {
        let axes = place.iter().zip(counts);
        axes.fold(0_u64, |number, (at, count)| number.saturating_mul(*count).saturating_add(*at))
    };
    let is_inside =
        |(place, _): &(&Dims, &ChunkPlace)| place.iter().zip(counts).all(|(at, count)| at < count);
    let record = |(place, stored): (&Dims, &ChunkPlace)| ChunkRecord {
        number: number(place),
        address: stored.address,
        size: stored.size,
        skipped: stored.skipped,
    };
    places.iter().filter(is_inside).map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_keep_their_places_when_the_grid_changes() {
        let record = |number, address| ChunkRecord { number, address, size: 5, skipped: 1 };
        let table =
            ChunkTable::of(&[record(1, 10), record(5, 20)], &[2, 3], StoredIndex::Whole(vec![(50, 9)]));
        assert_eq!(table.get(&[1, 2]).map(|place| (place.address, place.is_flushed)), Some((20, true)));
        let new = ChunkPlace { address: 30, size: 6, skipped: 0, is_flushed: false };
        assert_eq!(table.put(&[3, 0], new), None);
        assert_eq!(table.put(&[0, 1], new).map(|old| old.address), Some(10));
        assert_eq!(table.records(&[4, 5]).iter().map(|one| one.number).collect::<Vec<_>>(), [1, 7, 15]);
        let cropped = table.crop(&[3, 2]);
        assert_eq!(cropped.len(), 2);
        assert_eq!((table.len(), table.changes()), (1, 3));
        let taken = table.take(&[3, 2], None);
        // Flushed chunks that were replaced or are outside, and the old index.
        assert_eq!((taken.changes, taken.dropped), (3, vec![(10, 5), (20, 5), (50, 9)]));
        assert_eq!(taken.bases.len(), 3);
        let Some(TakenIndex::Records(records)) = taken.index else { panic!() };
        assert_eq!(records, [ChunkRecord { number: 1, address: 30, size: 6, skipped: 0 }]);
        let again = table.take(&[3, 2], None);
        assert_eq!((again.dropped, again.bases.len()), (vec![], 0));
        assert_eq!(table.places(), [(Dims::from_slice(&[0, 1]), ChunkPlace { is_flushed: true, ..new })]);
        assert_eq!(table.remove(&[0, 1]).map(|old| old.address), Some(30));
        assert!(table.is_empty());
    }

    /// A chunk beyond the shape is not stored. It still counts as changed once it is inside.
    #[test]
    fn a_chunk_outside_is_stored_later() {
        let table = ChunkTable::of(&[], &[1], StoredIndex::None);
        let new = ChunkPlace { address: 30, size: 6, skipped: 0, is_flushed: false };
        table.put(&[0], new);
        table.put(&[1], new);
        let form = Form::One { chunk: vec![2] };
        let flushed = |count| {
            let taken = table.take(&[count], Some(&form));
            let Some(TakenIndex::Tree(plan)) = taken.index else { panic!() };
            let placed = plan.place(100).unwrap();
            let found = (placed.tree.len(), placed.bytes.len(), taken.bases.len());
            table.set_index(StoredIndex::Tree(placed.tree));
            found
        };
        assert_eq!(flushed(1), (1, 2096, 1));
        assert_eq!(flushed(2), (2, 2096, 1));
        assert_eq!(flushed(2), (2, 0, 0));
    }
}
