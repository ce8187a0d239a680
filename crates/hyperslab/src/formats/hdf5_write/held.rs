//! Chunks in memory: parts of them were written.
//!
//! A thread takes the turn of a chunk ([`Held::turn`]) before it changes or replaces the chunk. A
//! reader takes the chunk's memory as it is at one moment. A writer copies memory that a reader still
//! has.
//!
//! Another process may have changed a chunk in the file since it was read. Its elements are merged
//! with the ones in memory when these go to the file.

use super::filters::Filters;
use super::ordered::{Ordered, Placed};
use super::{KEPT, MOST_HELD};
use hyperslab_array::{Dims, LocateError, Memory, encode_on_threads};
use hyperslab_codec::Scratch;
use hyperslab_hdf5::edit::{Attached, ChunkConflict, ChunkPlace, ChunkTable, Editing, merge_elements};
use hyperslab_hdf5::{File, Hdf5Error, Result};
use hyperslab_store::fork::Mutex;
use hyperslab_store::turns;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

/// The chunks of one dataset that are in memory. All handles of the file share them.
#[derive(Debug)]
pub(super) struct Held {
    dataset: u64,
    /// Name of the dataset in messages.
    name: String,
    filters: Filters,
    /// The value of unwritten elements.
    fill: Vec<u8>,
    /// The numbers of the chunks' turns are made from this one.
    seed: u64,
    /// Turn of the thread that writes changed chunks to the file.
    settling: u64,
    /// Gated.
    chunks: Mutex<BTreeMap<Dims, Arc<HeldChunk>>>,
}

/// A decoded chunk.
#[derive(Debug)]
pub(super) struct HeldChunk {
    /// Gated.
    bytes: Mutex<Arc<Memory>>,
    /// Gated. The chunk of the file that the bytes were made from.
    base: Mutex<Option<ChunkPlace>>,
    /// Counts changes of the bytes. All counts change with the chunk's turn.
    version: AtomicU64,
    /// The version that is being encoded, or was last.
    encoded: AtomicU64,
    /// The version that the table has.
    written: AtomicU64,
    /// The base has changed since a thread began to encode the bytes.
    is_rebased: AtomicBool,
}

impl HeldChunk {
    fn new(bytes: Memory, base: Option<ChunkPlace>) -> HeldChunk {
        HeldChunk {
            bytes: Mutex::new(Arc::new(bytes)),
            base: Mutex::new(base),
            version: AtomicU64::new(0),
            encoded: AtomicU64::new(0),
            written: AtomicU64::new(0),
            is_rebased: AtomicBool::new(false),
        }
    }

    /// Returns `true` if the table does not have these bytes.
    fn is_changed(&self) -> bool {
        self.version.load(Ordering::Acquire) != self.written.load(Ordering::Acquire)
    }

    /// Returns the bytes to encode. The caller has the turn.
    fn begin_encoding(&self) -> Arc<Memory> {
        self.encoded.store(self.version.load(Ordering::Acquire), Ordering::Release);
        self.is_rebased.store(false, Ordering::Release);
        self.snapshot()
    }

    pub(super) fn snapshot(&self) -> Arc<Memory> {
        self.bytes.lock().clone()
    }
}

impl Held {
    /// Returns the chunks that the handles of a dataset share.
    pub(super) fn attach(
        editing: &Editing,
        dataset: u64,
        make: impl FnOnce() -> (String, Filters, Vec<u8>),
    ) -> Option<Arc<Held>> {
        let attached = editing.attached(dataset, || {
            let (name, filters, fill) = make();
            let (seed, settling) = (turns::number(), turns::number());
            Arc::new(Held { dataset, name, filters, fill, seed, settling, chunks: Mutex::default() })
        });
        let attached: Arc<dyn Any + Send + Sync> = attached;
        attached.downcast().ok()
    }

    /// Returns the chunks that are attached to a dataset.
    pub(super) fn find(editing: &Editing, dataset: u64) -> Option<Arc<Held>> {
        let attached: Arc<dyn Any + Send + Sync> = editing.find_attached(dataset)?;
        attached.downcast().ok()
    }

    pub(super) fn filters(&self) -> &Filters {
        &self.filters
    }

    /// Returns a chunk that is in memory.
    pub(super) fn get(&self, place: &[u64]) -> Option<Arc<HeldChunk>> {
        self.chunks.lock().get(place).cloned()
    }

    /// Returns the chunk in memory whose bytes were made from this chunk of the file.
    fn held_from(&self, place: &[u64], base: ChunkPlace) -> Option<Arc<HeldChunk>> {
        self.get(place).filter(|chunk| ChunkPlace::is_same(*chunk.base.lock(), Some(base)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.lock().is_empty()
    }

    /// The places of all chunks that are in memory.
    pub(super) fn places(&self) -> Vec<Dims> {
        self.chunks.lock().keys().cloned().collect()
    }

    /// Tells which chunks of a list are in memory.
    pub(super) fn get_all<'p>(&self, places: impl Iterator<Item = &'p [u64]>) -> Vec<bool> {
        let chunks = self.chunks.lock();
        places.map(|place| chunks.contains_key(place)).collect()
    }

    /// Number of the turn that excludes other writers of a chunk.
    pub(super) fn turn(&self, place: &[u64]) -> u64 {
        place
            .iter()
            .fold(self.seed, |hash, at| (hash ^ at).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23))
    }

    /// Takes a chunk's turn. `None`: this thread has it already.
    pub(super) fn take_turn(&self, place: &[u64]) -> Option<turns::Turn> {
        turns::take(self.turn(place), None).ok()
    }

    /// Lends a chunk to `change`. The caller has its turn.
    pub(super) fn change(
        &self,
        editing: &Editing,
        place: &[u64],
        scratch: &mut Scratch,
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LocateError> {
        let chunk = match self.get(place) {
            Some(chunk) => chunk,
            None => {
                let table = editing.chunk_table(self.dataset).map_err(super::fault)?;
                let base = table.get(place);
                let bytes = self.load(editing, base, scratch)?;
                let new = Arc::new(HeldChunk::new(bytes, base));
                self.chunks.lock().insert(place.into(), new.clone());
                editing.held().fetch_add(self.filters.decoded_size() as u64, Ordering::Relaxed);
                new
            }
        };
        // Copied before the lock is taken: readers do not wait for that.
        let is_shared = Arc::strong_count(&*chunk.bytes.lock()) > 1;
        let copy = if is_shared { Some(self.copy(&chunk.snapshot())?) } else { None };
        let mut bytes = chunk.bytes.lock();
        if let Some(copy) = copy {
            *bytes = Arc::new(copy);
        }
        if Arc::get_mut(&mut bytes).is_none() {
            // A reader came in between.
            let copy = self.copy(&bytes)?;
            *bytes = Arc::new(copy);
        }
        if let Some(memory) = Arc::get_mut(&mut bytes) {
            change(memory.as_mut_slice());
        }
        drop(bytes);
        chunk.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn memory(&self) -> Result<Memory, LocateError> {
        let bytes = self.filters.decoded_size();
        Memory::dirty(bytes).ok_or_else(|| {
            let (array, bytes) = (self.name.clone(), bytes as u64);
            hyperslab_array::ArrayError::Memory { array, what: "a chunk", bytes }.into()
        })
    }

    fn copy(&self, from: &Memory) -> Result<Memory, LocateError> {
        let mut copy = self.memory()?;
        copy.as_mut_slice().copy_from_slice(from.as_slice());
        Ok(copy)
    }

    /// Reads a chunk of the file. `None`: makes one of fill values.
    pub(super) fn load(
        &self,
        editing: &Editing,
        stored: Option<ChunkPlace>,
        scratch: &mut Scratch,
    ) -> Result<Memory, LocateError> {
        let mut memory = self.memory()?;
        let decoded = memory.as_mut_slice();
        match stored {
            None => decoded.chunks_mut(self.fill.len().max(1)).for_each(|element| {
                if element.len() == self.fill.len() {
                    element.copy_from_slice(&self.fill);
                }
            }),
            Some(stored) => {
                let bytes = read_stored(editing.file(), &self.filters, (stored.address, stored.size))?;
                self.filters.decode(&bytes, stored.skipped, decoded, scratch)?;
            }
        }
        Ok(memory)
    }

    /// Puts a chunk of the file into the table. It replaces the chunk there, and the one in memory.
    pub(super) fn replace(&self, editing: &Editing, table: &ChunkTable, place: &[u64], new: ChunkPlace) {
        let turn = self.take_turn(place);
        // Readers look into memory first.
        let old = table.put(place, new);
        let removed = self.chunks.lock().remove(place);
        drop(turn);
        self.count_removed(editing, removed.is_some().into());
        free(editing, old);
    }

    /// Removes chunks from memory that `keeps` refuses. Their changes are lost.
    pub(super) fn retain(&self, editing: &Editing, keeps: impl Fn(&[u64]) -> bool) {
        let mut removed = Vec::new();
        self.chunks.lock().retain(|place, chunk| {
            let keep = keeps(place);
            if !keep {
                removed.push(chunk.clone());
            }
            keep
        });
        self.count_removed(editing, removed.len());
    }

    fn count_removed(&self, editing: &Editing, count: usize) {
        let bytes = (self.filters.decoded_size() as u64).saturating_mul(count as u64);
        editing.held().fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Writes changed chunks to the file if there are too many in memory.
    pub(super) fn limit(editing: &Editing) -> Result<()> {
        if editing.held().load(Ordering::Relaxed) > MOST_HELD { editing.settle() } else { Ok(()) }
    }

    /// Puts an encoded chunk of memory into the table, unless it was replaced meanwhile. Returns the
    /// place that is free then.
    fn put_settled(
        &self,
        editing: &Editing,
        table: &ChunkTable,
        chunk: &Arc<HeldChunk>,
        placed: &Placed,
        scratch: &mut Scratch,
    ) -> Result<Option<ChunkPlace>> {
        let _turn = self.take_turn(&placed.place);
        if self.get(&placed.place).is_none_or(|found| !Arc::ptr_eq(&found, chunk)) {
            return Ok(Some(placed.stored));
        }
        if chunk.is_rebased.load(Ordering::Acquire) {
            // The encoded bytes are older than a merge. They are encoded again.
            return Ok(Some(placed.stored));
        }
        let base = *chunk.base.lock();
        match table.exchange(&placed.place, base, placed.stored) {
            Ok(old) => {
                *chunk.base.lock() = Some(placed.stored);
                chunk.written.store(chunk.encoded.load(Ordering::Acquire), Ordering::Release);
                Ok(old)
            }
            Err(theirs) => {
                // Another process has changed the chunk: the merged elements are written next.
                let ours = chunk.snapshot();
                let merged = self.merged(editing, (base, theirs), &ours, scratch)?;
                drop(ours);
                *chunk.bytes.lock() = Arc::new(merged);
                *chunk.base.lock() = theirs;
                chunk.version.fetch_add(1, Ordering::AcqRel);
                Ok(Some(placed.stored))
            }
        }
    }

    /// Merges our elements of a chunk and the elements of another process. Both began with `base`.
    fn merged(
        &self,
        editing: &Editing,
        (base, theirs): (Option<ChunkPlace>, Option<ChunkPlace>),
        ours: &Memory,
        scratch: &mut Scratch,
    ) -> Result<Memory> {
        let read = |stored, scratch: &mut Scratch| {
            self.load(editing, stored, scratch).map_err(|error| self.fault(error))
        };
        let (base, theirs) = (read(base, scratch)?, read(theirs, scratch)?);
        let mut merged = self.copy(ours).map_err(|error| self.fault(error))?;
        let element = self.fill.len();
        merge_elements(base.as_slice(), merged.as_mut_slice(), theirs.as_slice(), element);
        Ok(merged)
    }

    /// Makes an error of the file.
    fn fault(&self, error: LocateError) -> Hdf5Error {
        Hdf5Error::Array(hyperslab_array::ArrayError::Sink { array: self.name.clone(), source: error })
    }

    fn encode(&self, place: &[u64], bytes: &Memory, scratch: &mut Scratch) -> Result<(Vec<u8>, u32)> {
        let mut encoded = Vec::new();
        let skipped = self.filters.encode(bytes.as_slice(), false, &mut encoded, scratch);
        let skipped = skipped.map_err(|source| {
            Hdf5Error::Array(hyperslab_array::ArrayError::Codec {
                array: self.name.clone(),
                chunk: place.to_vec(),
                key: String::new(),
                source: source.into(),
            })
        })?;
        Ok((encoded, skipped))
    }

    /// Drops chunks that the file has, and that `drops` chooses, from memory.
    fn drop_unchanged(&self, editing: &Editing, drops: impl Fn(&[u64], &HeldChunk) -> bool) {
        let all: Vec<Dims> = self.chunks.lock().keys().cloned().collect();
        for place in all {
            let turn = self.take_turn(&place);
            let removed = {
                let mut chunks = self.chunks.lock();
                if chunks.get(&place).is_some_and(|chunk| !chunk.is_changed() && drops(&place, chunk)) {
                    chunks.remove(&place)
                } else {
                    None
                }
            };
            drop(turn);
            self.count_removed(editing, removed.is_some().into());
        }
    }
}

/// Gives back the place of a chunk that was never flushed.
fn free(editing: &Editing, old: Option<ChunkPlace>) {
    if let Some(old) = old.filter(|old| !old.is_flushed) {
        editing.free(old.address, old.size);
    }
}

/// Reads the bytes of a stored chunk.
pub(super) fn read_stored(
    file: &File,
    filters: &Filters,
    (address, size): (u64, u64),
) -> Result<Vec<u8>, LocateError> {
    let source = file.source();
    let most = filters.max_encoded();
    let len = usize::try_from(size)
        .ok()
        .filter(|len| *len <= most)
        .ok_or_else(|| source.invalid(format!("a chunk has {size} bytes, expected at most {most} bytes")))?;
    let mut bytes = vec![0; len];
    source.read_into("chunk", [(address, &mut bytes[..])]).map_err(super::fault)?;
    Ok(bytes)
}

impl Held {
    /// Writes changed chunks to the file. Returns `false` if some were merged and have to be written
    /// again.
    fn write_changed(&self, editing: &Editing) -> Result<bool> {
        let changed: Vec<(Dims, Arc<HeldChunk>)> = {
            let chunks = self.chunks.lock();
            let is_changed = |(_, chunk): &(&Dims, &Arc<HeldChunk>)| chunk.is_changed();
            chunks.iter().filter(is_changed).map(|(place, chunk)| (place.clone(), chunk.clone())).collect()
        };
        if changed.is_empty() {
            return Ok(true);
        }
        let table = editing.chunk_table(self.dataset)?;
        let ordered = Ordered::new(editing);
        let is_done = AtomicBool::new(true);
        // Local. Given back at the end: which of them the next chunks take must not depend on
        // threads.
        let unused: std::sync::Mutex<Vec<ChunkPlace>> = std::sync::Mutex::default();
        let settle = |number: usize, scratch: &mut Scratch| -> Result<()> {
            let Some((place, chunk)) = changed.get(number) else { return Ok(()) };
            let turn = self.take_turn(place);
            let bytes = chunk.begin_encoding();
            drop(turn);
            let (mut encoded, skipped) = self.encode(place, &bytes, scratch)?;
            drop(bytes);
            for placed in ordered.put(number, place, &mut encoded, skipped)? {
                if let Some((_, chunk)) = changed.get(placed.number) {
                    let old = self.put_settled(editing, &table, chunk, &placed, scratch)?;
                    if old == Some(placed.stored) {
                        is_done.store(false, Ordering::Release);
                    }
                    unused.lock().unwrap_or_else(PoisonError::into_inner).extend(old);
                }
            }
            Ok(())
        };
        let bytes = (self.filters.decoded_size() as u64).saturating_mul(changed.len() as u64);
        let done = encode_on_threads(changed.len(), bytes, &settle);
        let unused = unused.into_inner().unwrap_or_else(PoisonError::into_inner);
        unused.into_iter().for_each(|old| free(editing, Some(old)));
        // After an error nothing is lost: the next call tries again.
        done.map(|()| is_done.into_inner())
    }
}

impl Attached for Held {
    fn settle(&self, editing: &Editing) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        // One thread at a time: when this returns, all changes that were made before are in the
        // file.
        let _turn = turns::take(self.settling, None).ok();
        while !self.write_changed(editing)? {}
        if editing.held().load(Ordering::Relaxed) > KEPT {
            self.drop_unchanged(editing, |_, _| true);
        }
        Ok(())
    }

    fn turn(&self) -> Option<u64> {
        None
    }

    fn reload(&self, editing: &Editing) {
        let Ok(table) = editing.chunk_table(self.dataset) else { return };
        self.drop_unchanged(editing, |place, chunk| {
            let base = *chunk.base.lock();
            !ChunkPlace::is_same(table.get(place), base)
        });
    }

    fn merge(&self, editing: &Editing, place: &[u64], conflict: ChunkConflict) -> Result<()> {
        let table = editing.chunk_table(self.dataset)?;
        let mut scratch = Scratch::default();
        let _turn = self.take_turn(place);
        // The dataset may become smaller meanwhile, without the turn.
        while let Some(ours) = table.get(place) {
            let decoded = self.load(editing, Some(ours), &mut scratch).map_err(|error| self.fault(error))?;
            let both = (conflict.base, conflict.theirs);
            let merged = self.merged(editing, both, &decoded, &mut scratch)?;
            let (encoded, skipped) = self.encode(place, &merged, &mut scratch)?;
            let size = encoded.len() as u64;
            let held = self.held_from(place, ours).map(|chunk| {
                let mut bytes = self.copy(&chunk.snapshot()).map_err(|error| self.fault(error))?;
                let element = self.fill.len();
                merge_elements(decoded.as_slice(), bytes.as_mut_slice(), merged.as_slice(), element);
                Ok::<_, Hdf5Error>((chunk, bytes))
            });
            let held = held.transpose()?;
            let address = editing.allocate(size)?;
            let new = ChunkPlace { address, size, skipped, is_flushed: false };
            if let Err(error) = editing.write(address, &[&encoded]) {
                free(editing, Some(new));
                return Err(error);
            }
            match table.exchange(place, Some(ours), new) {
                Ok(old) => {
                    if let Some((chunk, bytes)) = held {
                        // Its base is not needed any more, and may be given back.
                        *chunk.bytes.lock() = Arc::new(bytes);
                        *chunk.base.lock() = Some(new);
                        chunk.is_rebased.store(true, Ordering::Release);
                    }
                    free(editing, old);
                    break;
                }
                Err(_) => free(editing, Some(new)),
            }
        }
        Ok(())
    }
}
