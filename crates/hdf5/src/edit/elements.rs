//! Elements of datasets that are being changed: their space, their chunks, their shape.

use super::chunk_table::StoredIndex;
use super::links::message_of;
use super::object::{self, Object};
use super::{Attached, ChunkTable, Editing};
use crate::data_layout::{self, ChunkIndexKind, ChunkedLayout, DataLayout};
use crate::dataspace::{self, Dataspace};
use crate::datatype::{self, Datatype};
use crate::error::{BuildError, Built};
use crate::index::paths::{self, Form};
use crate::index::{size_width, version1_places};
use crate::messages::Message;
use crate::object_header::NewMessage;
use crate::{Bytes, File, Result, Source};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

impl Editing {
    /// Reserves `len` bytes that no one else uses. Unwritten bytes read as zeros in a new part of
    /// the file only.
    pub fn allocate(&self, len: u64) -> Result<u64> {
        self.take(len, |space| space.take(len, 8))
    }

    /// Gives back bytes that were reserved since the last flush, and that nothing refers to.
    ///
    /// Others get them once no read of elements is under way that began before.
    pub fn free(&self, address: u64, len: u64) {
        if !self.edits.space.lock().is_flushing {
            self.edits.leaving.lock().push((address, len));
            self.free_unread();
        }
    }

    fn free_unread(&self) {
        let mut leaving = self.edits.leaving.lock();
        if self.edits.readers.load(Ordering::SeqCst) > 0 {
            return;
        }
        let unread = std::mem::take(&mut *leaving);
        drop(leaving);
        let mut space = self.edits.space.lock();
        for (address, len) in unread {
            space.give(address, len);
        }
    }

    /// Counts reads of elements that are under way.
    pub fn readers(&self) -> &Arc<AtomicUsize> {
        &self.edits.readers
    }

    /// Counts the bytes that attached states hold in memory.
    pub fn held(&self) -> &AtomicU64 {
        &self.edits.held
    }

    /// Like [`Editing::allocate`], but all bytes are zero.
    pub fn allocate_zeros(&self, len: u64) -> Result<u64> {
        const PIECE: u64 = 1 << 20;
        let mut used_before = 0;
        let address = self.take(len, |space| {
            let (at, used) = space.take_clean(len, 8)?;
            used_before = used;
            Some(at)
        })?;
        let zeros = vec![0; usize::try_from(used_before.min(PIECE)).unwrap_or_default()];
        let mut at = 0;
        while at < used_before {
            let piece = usize::try_from(used_before - at).ok().and_then(|left| zeros.get(..left));
            let piece = piece.unwrap_or(&zeros);
            self.write(address.saturating_add(at), &[piece])?;
            at = at.saturating_add(piece.len() as u64);
        }
        Ok(address)
    }

    /// Writes bytes at an address.
    pub fn write(&self, address: u64, parts: &[&[u8]]) -> Result<()> {
        let source = self.file.source();
        let start = source.base().saturating_add(address);
        let mut at = start;
        for part in parts {
            self.edits.bytes.write_at(at, part)?;
            at = at.saturating_add(part.len() as u64);
        }
        source.drop_pages(start, at);
        Ok(())
    }

    /// Returns the chunks of a dataset, for all handles of this file.
    pub fn chunk_table(&self, dataset: u64) -> Result<Arc<ChunkTable>> {
        if let Some(table) = self.edits.chunks(dataset) {
            return Ok(table);
        }
        loop {
            let epoch = self.epoch();
            let table = Arc::new(table_of(&self.file, dataset)?);
            let made = self.with(dataset, |object| {
                // Otherwise another writer has flushed meanwhile.
                (self.epoch() == epoch).then(|| object.chunks.get_or_insert(table).clone())
            })?;
            if let Some(table) = made {
                return Ok(table);
            }
        }
    }

    /// Sets the place of the elements of a contiguous dataset.
    pub fn set_run(&self, dataset: u64, address: u64) -> Result<()> {
        // The type may be in another header, which cannot be read during the change.
        let header = self.file.header(dataset)?;
        let datatype = self.file.message(&header, datatype::KIND, Datatype::parse)?;
        self.change(dataset, |object| {
            let Some(message) = object.message(data_layout::KIND) else {
                return Err(BuildError("it has no data layout message".into()));
            };
            let DataLayout::Contiguous { size, .. } = object::parsed(message, DataLayout::parse)? else {
                return Err(BuildError("its elements are not one run of bytes".into()));
            };
            let size = match size {
                Some(size) => size,
                None => object.elements_len(datatype.as_ref())?,
            };
            object.replace_message(object::contiguous(address, size));
            object.version += 1;
            Ok(())
        })
    }

    /// Replaces elements of a compact dataset, from a byte on.
    pub fn set_compact(&self, dataset: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let changed = self.change(dataset, |object| {
            let Some(message) = object.message(data_layout::KIND) else {
                return Err(BuildError("it has no data layout message".into()));
            };
            let DataLayout::Compact { address, size } = object::parsed(message, DataLayout::parse)? else {
                return Err(BuildError("its elements are not in its header".into()));
            };
            let too_long = || BuildError(format!("{} bytes at {offset} of {size} bytes", bytes.len()));
            let head = usize::try_from(address.saturating_sub(message.address)).map_err(|_| too_long())?;
            let start =
                usize::try_from(offset).ok().and_then(|at| at.checked_add(head)).ok_or_else(too_long)?;
            let mut data = message.data.to_vec();
            let end = start.checked_add(bytes.len()).ok_or_else(too_long)?;
            data.get_mut(start..end).ok_or_else(too_long)?.copy_from_slice(bytes);
            let message = Message { data: Bytes::from(data), ..message.clone() };
            object.replace_message(message);
            Ok(object.clone())
        })?;
        // Readers find the elements in the file, so they are there, too.
        let mut object = changed;
        self.place_compact(&mut object)?;
        let message = object.message(data_layout::KIND).cloned();
        self.with(dataset, |current| {
            if let Some(message) = message {
                current.replace_message(message);
            }
            current.version += 1;
            current.changed();
        })
    }

    /// Writes the elements of a compact dataset to a place of their own, where readers of this
    /// process find them.
    pub(super) fn place_compact(&self, object: &mut Object) -> Result<()> {
        let Some(message) = object.message(data_layout::KIND).cloned() else { return Ok(()) };
        let Ok(DataLayout::Compact { .. }) = object::parsed(&message, DataLayout::parse) else {
            return Ok(());
        };
        let address = self.allocate(message.data.len() as u64)?;
        self.write(address, &[&message.data])?;
        object.replace_message(Message { address, ..message });
        Ok(())
    }

    /// Sets the shape of a dataset. Chunks beyond it are dropped.
    ///
    /// Fails with [`Hdf5Error::Unstorable`](crate::Hdf5Error::Unstorable) if the dataset has other
    /// axes, or cannot be as long.
    pub fn set_shape(&self, dataset: u64, new: &[u64]) -> Result<()> {
        let libver = self.edits.libver;
        let is_chunked = self.with(dataset, |object| {
            let layout =
                object.message(data_layout::KIND).map(|message| object::parsed(message, DataLayout::parse));
            match layout {
                Some(Ok(DataLayout::Chunked(layout))) => Some(layout.chunk),
                _ => None,
            }
        })?;
        let table = is_chunked.as_ref().map(|_| self.chunk_table(dataset)).transpose()?;
        let shrinks = self.change(dataset, |object| {
            let Dataspace::Simple { shape, max_shape } = object.dataspace()? else {
                return Err(BuildError("a dataset without axes cannot be resized".into()));
            };
            if shape.len() != new.len() {
                let (found, expected) = (new.len(), shape.len());
                return Err(BuildError(format!("expected a shape of {expected} axes, found {found}")));
            }
            let too_long =
                new.iter().zip(&max_shape).position(|(n, most)| most.is_some_and(|most| *n > most));
            if let Some(axis) = too_long {
                return Err(BuildError(format!(
                    "shape {new:?}: axis {axis} is limited by maxshape {max_shape:?}"
                )));
            }
            let dataspace = Dataspace::Simple { shape: new.to_vec(), max_shape };
            let data = dataspace.build(libver)?;
            object.replace_message(message_of(NewMessage { kind: dataspace::KIND, constant: false, data }));
            object.version += 1;
            Ok(shape.iter().zip(new).any(|(old, new)| new < old))
        })?;
        // A dataset that only grows loses nothing. To look at all chunks for each new row takes long.
        if let (Some(table), Some(chunk), true) = (table, is_chunked, shrinks) {
            let counts: Vec<u64> = new.iter().zip(&chunk).map(|(n, len)| n.div_ceil((*len).max(1))).collect();
            for removed in table.crop(&counts) {
                if !removed.is_flushed {
                    self.free(removed.address, removed.size);
                }
            }
        }
        Ok(())
    }

    /// Returns the state that the layer above attached to a dataset, or attaches it.
    pub fn attached(&self, dataset: u64, make: impl FnOnce() -> Arc<dyn Attached>) -> Arc<dyn Attached> {
        if let Some(found) = self.edits.attached.lock().get(&dataset) {
            return found.clone();
        }
        let new = make();
        self.edits.attached.lock().entry(dataset).or_insert(new).clone()
    }

    /// Calls [`Attached::settle`] of all states.
    pub fn settle(&self) -> Result<()> {
        let attached: Vec<_> = self.edits.attached.lock().values().cloned().collect();
        attached.iter().try_for_each(|one| one.settle(self))
    }

    /// Calls [`Attached::settle`] of the state of a dataset, if it has one.
    pub(crate) fn settle_one(&self, dataset: u64) -> Result<()> {
        self.find_attached(dataset).map_or(Ok(()), |one| one.settle(self))
    }

    /// Returns the state that is attached to a dataset.
    pub fn find_attached(&self, dataset: u64) -> Option<Arc<dyn Attached>> {
        self.edits.attached.lock().get(&dataset).cloned()
    }
}
/// Reads the chunks of a dataset from the index in the file.
pub(super) fn table_of(file: &File, dataset: u64) -> Result<ChunkTable> {
    let crate::Node::Dataset(found) = file.object_at(dataset, "")? else {
        return Err(file.source().invalid(format!("the object at address {dataset} is not a dataset")));
    };
    let DataLayout::Chunked(layout) = found.data_layout() else {
        return Err(file.source().invalid(format!("the dataset at address {dataset} has no chunks")));
    };
    let axes = found.dataspace().shape().iter().zip(&layout.chunk);
    let counts: Vec<u64> = axes.map(|(n, chunk)| n.div_ceil((*chunk).max(1))).collect();
    let index = found.stored_index()?;
    let mut records = index.map_or_else(Vec::new, |index| index.records.clone());
    if layout.edges_unfiltered {
        // The new layout does not say so any more: each of these chunks does.
        let all = u32::MAX
            .checked_shr(32_u32.saturating_sub(u32::try_from(found.filters().len()).unwrap_or(32)))
            .unwrap_or(0);
        for record in &mut records {
            let place = crate::index::place(record.number, &counts);
            let axes = place.iter().zip(&layout.chunk).zip(found.dataspace().shape());
            if axes.into_iter().any(|((at, len), n)| at.saturating_add(1).saturating_mul(*len) > *n) {
                record.skipped |= all;
            }
        }
    }
    let index = stored_index(found.file().source(), layout, !found.filters().is_empty(), records.len())?;
    Ok(ChunkTable::of(&records, &counts, index))
}

/// Finds out which index a dataset has in the file. `count`: its chunks.
fn stored_index(
    source: &Source,
    layout: &ChunkedLayout,
    filtered: bool,
    count: usize,
) -> Result<StoredIndex> {
    let Some(address) = layout.address else { return Ok(StoredIndex::None) };
    let form = match layout.index {
        ChunkIndexKind::BTree1 => Form::One { chunk: layout.chunk.clone() },
        ChunkIndexKind::BTree2 { .. } => {
            let bytes = layout.chunk.iter().fold(layout.element_size, |bytes, n| bytes.saturating_mul(*n));
            let width = filtered.then(|| size_width(bytes));
            Form::Two { rank: layout.chunk.len(), width }
        }
        _ => return Ok(StoredIndex::Whole(Vec::new())),
    };
    // Chunks at the edge that skip their filters say so in the next index only.
    if !layout.edges_unfiltered
        && form.is_possible()
        && let Some(tree) = paths::read(source, &form, address, count as u64)?
    {
        return Ok(StoredIndex::Tree(tree));
    }
    Ok(StoredIndex::Whole(match form {
        Form::One { chunk } => version1_places(source, chunk.len(), address)?,
        Form::Two { .. } => Vec::new(),
    }))
}

impl Object {
    /// Bytes of all elements of a dataset.
    fn elements_len(&self, datatype: Option<&Datatype>) -> Built<u64> {
        let datatype = datatype.ok_or_else(|| BuildError("it has no datatype message".into()))?;
        let len = self.dataspace()?.count().and_then(|count| count.checked_mul(datatype.size.into()));
        len.ok_or_else(|| BuildError("its elements have more than 2⁶⁴ bytes".into()))
    }
}
