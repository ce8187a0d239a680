//! Turns heap ids into elements of a result, batch by batch.

use super::fill::IdBatch;
use super::ids::{Id, ids, taken_apart};
use super::inspect::{TOGETHER, inspect};
use super::{FEW, Items, cut};
use crate::cursor::to_usize;
use crate::heaps::{Collection, heap_error};
use crate::{File, Result};
use hyperslab_array::{Dims, Ragged};
use std::sync::Arc;

/// Largest ratio of the values' bytes to the file's bytes. It exceeds 1 only if elements share
/// objects.
const MOST_SHARED: u64 = 1 << 10;

/// A result under construction.
pub(super) struct VlenBuilder<'a> {
    file: &'a File,
    /// Bytes of an id.
    id: usize,
    items: &'a Items,
    result: Ragged,
    /// Bytes of all objects and number of heap collections so far. Some are counted more than once.
    bytes: u64,
    collections: usize,
}

impl<'a> VlenBuilder<'a> {
    /// An empty result with room for `count` elements. Ids have `id` bytes.
    pub(super) fn new(file: &'a File, id: usize, items: Option<&'a Items>, count: usize) -> Result<Self> {
        let items = items.ok_or_else(|| {
            file.source().invalid("expected elements of variable length, found elements of one size")
        })?;
        let none = || file.source().invalid(format!("no memory for the offsets of {count} elements"));
        let result = Ragged::growing(count).ok_or_else(none)?;
        Ok(VlenBuilder { file, id, items, result, bytes: 0, collections: 0 })
    }

    pub(super) fn finish(self, shape: Dims) -> Ragged {
        self.result.finish(shape)
    }

    /// Adds `count` elements. Their ids are in `memory` as in [`super::resolve`].
    pub(super) fn push(
        &mut self,
        memory: &[u8],
        offset: usize,
        stride: usize,
        count: usize,
        threads: Option<usize>,
    ) -> Result<()> {
        let Some(ids) = ids(memory, (offset, stride, self.id), count, self.file.sizes()) else {
            let why = format!("{count} heap ids do not fit into {} bytes of memory", memory.len());
            return Err(self.file.source().invalid(why));
        };
        if count <= FEW && self.push_few(&ids)? { Ok(()) } else { self.push_many(&ids, threads) }
    }

    /// Adds a few elements. `false`: none were added, because a collection is not in memory.
    fn push_few(&mut self, ids: &[Id]) -> Result<bool> {
        let (file, first) = (self.file, self.result.count());
        let wrong = |cell, address| move |why| heap_error(file, first + cell, address, why);
        // Check lengths against the heap before memory is allocated.
        let (mut last, mut total, mut nulls): (Option<Arc<Collection>>, u64, bool) = (None, 0, false);
        for (cell, id) in ids.iter().map(taken_apart).enumerate() {
            nulls |= id.is_none();
            let Some((len @ 1.., address, index)) = id else { continue };
            if last.as_ref().is_none_or(|last| last.address() != address) {
                last = file.cached_collection(address);
            }
            let Some(collection) = &last else { return Ok(false) };
            self.items.payload(collection.object(index), index, len).map_err(wrong(cell, address))?;
            total += u64::from(len);
        }
        let mut place = self.grow(total)?;
        let mut end = self.result.end();
        self.note(nulls, ids)?;
        for (cell, id) in ids.iter().map(taken_apart).enumerate() {
            if let Some((len @ 1.., address, index)) = id {
                if last.as_ref().is_none_or(|last| last.address() != address) {
                    last = Some(file.collection(address)?);
                }
                let object = last.as_ref().and_then(|collection| collection.object(index));
                let object = self.items.payload(object, index, len).map_err(wrong(cell, address))?;
                let bytes = to_usize(len).saturating_mul(self.items.size);
                let rest = self.result.values.as_mut_slice().get_mut(place..).unwrap_or_default();
                let here = rest.get_mut(..bytes).unwrap_or_default();
                self.items.put(file, object, here)?;
                let start = end;
                end = end.saturating_add(len.into());
                place += match self.items.text {
                    true => cut(here, start, std::slice::from_mut(&mut end)),
                    false => here.len(),
                };
            }
            self.result.offsets.push(end);
        }
        self.result.values.resize(place);
        Ok(true)
    }

    fn push_many(&mut self, ids: &[Id], threads: Option<usize>) -> Result<()> {
        let sections = inspect(self.file, self.items, ids, threads);
        let heap = sections.heap();
        self.collections += heap.collections();
        let (file, there, before) = (self.file, self.file.source().size(), self.result.count());
        let keep = file.can_keep(self.collections);
        let (items, together, only_look) = (self.items, TOGETHER, false);
        let batch = IdBatch { file, items, ids, first: before, keep, threads, together, only_look };
        let stored = sections.items().saturating_mul(self.items.stored as u64);
        if stored > there {
            let batch = IdBatch { only_look: true, ..batch };
            batch.fill(&sections, &heap, 0, &mut vec![0; ids.len()], &mut [])?;
        }
        self.bytes = self.bytes.saturating_add(stored);
        if self.bytes > there.saturating_mul(MOST_SHARED) {
            let why = format!(
                "elements of variable length have {} bytes, more than {MOST_SHARED} times the {there} \
                 bytes of the file",
                self.bytes
            );
            return Err(file.source().invalid(why));
        }
        self.note(sections.nulls(), ids)?;
        let (start, place) = (self.result.end(), self.grow(sections.items())?);
        self.result.offsets.resize(before + 1 + ids.len(), start);
        let ends = self.result.offsets.get_mut(before + 1..).unwrap_or_default();
        let values = self.result.values.as_mut_slice().get_mut(place..).unwrap_or_default();
        let left = batch.fill(&sections, &heap, start, ends, values)?;
        self.result.values.resize(place + left.saturating_mul(self.items.size));
        Ok(())
    }

    /// Notes which of the next elements are not null.
    fn note(&mut self, nulls: bool, ids: &[Id]) -> Result<()> {
        match self.result.note(nulls, ids.iter().map(|id| taken_apart(id).is_some())) {
            true => Ok(()),
            false => Err(self.file.source().invalid("no memory to note which elements are missing")),
        }
    }

    /// Makes room for `items` more items. Returns the place of the first.
    fn grow(&mut self, items: u64) -> Result<usize> {
        let (size, source) = (self.items.size, self.file.source());
        let none = || source.invalid(format!("no memory for {items} more elements of {size} bytes"));
        self.result.grow(items, size).ok_or_else(none)
    }

    /// Reserves address space for `total` elements, at most as many bytes as the file has.
    pub(super) fn expect(&mut self, total: usize) {
        self.result.expect(total, self.file.source().size());
    }
}
