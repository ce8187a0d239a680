//! A result that grows batch by batch.

use super::fill::Batch;
use super::ids::{Id, ids, taken_apart};
use super::look::{TOGETHER, look};
use super::{FEW, Items, cut};
use crate::heaps::{Collection, named};
use crate::{File, Hdf5Error};
use hyperslab_array::{Dims, Memory, Ragged};
use std::sync::Arc;

/// There may be so many times as many bytes of values as the file has: objects may be shared by
/// many elements.
const MOST_SHARED: u64 = 1 << 10;

/// Offsets, values and validity, as far as they are there.
pub(super) struct Growing<'a> {
    file: &'a File,
    /// Bytes of an id.
    id: usize,
    items: &'a Items,
    offsets: Vec<i64>,
    values: Memory,
    validity: Option<Vec<bool>>,
    /// Elements of which the id has been seen.
    seen: usize,
    /// Bytes of all objects so far, and heap collections, some more than once.
    bytes: u64,
    collections: usize,
}

impl<'a> Growing<'a> {
    /// Nothing yet, of `count` elements with ids of `id` bytes.
    pub(super) fn new(
        file: &'a File,
        id: usize,
        items: Option<&'a Items>,
        count: usize,
    ) -> Result<Self, Hdf5Error> {
        let items = items.ok_or_else(|| {
            file.source().invalid("elements that are not of variable length have no heap ids")
        })?;
        let mut offsets = Vec::new();
        let none = || file.source().invalid(format!("no memory for the offsets of {count} elements"));
        offsets.try_reserve_exact(count.saturating_add(1)).map_err(|_| none())?;
        offsets.push(0);
        let values = Memory::dirty(0).ok_or_else(none)?;
        Ok(Growing { file, id, items, offsets, values, validity: None, seen: 0, bytes: 0, collections: 0 })
    }

    /// The result.
    pub(super) fn finish(self, shape: Dims) -> Ragged {
        let Growing { offsets, mut values, validity, .. } = self;
        values.shrink();
        Ragged { shape, offsets, values, validity }
    }

    /// Adds `count` elements, of which the ids are in `memory` as for [`super::resolve`].
    pub(super) fn push(
        &mut self,
        memory: &[u8],
        offset: usize,
        stride: usize,
        count: usize,
        threads: Option<usize>,
    ) -> Result<(), Hdf5Error> {
        let Some(ids) = ids(memory, (offset, stride, self.id), count, self.file.sizes()) else {
            let why = format!("{count} heap ids are not within {} bytes", memory.len());
            return Err(self.file.source().invalid(why));
        };
        if count <= FEW && self.push_few(&ids)? { Ok(()) } else { self.push_many(&ids, threads) }
    }

    /// Adds a few elements, one by one; `false`: the collection of one is not in memory, and none
    /// was added.
    fn push_few(&mut self, ids: &[Id]) -> Result<bool, Hdf5Error> {
        let (file, first) = (self.file, self.offsets.len() - 1);
        let wrong = |cell, address| move |why| named(file, first + cell, address, why);
        // What the heap does not have asks for no memory.
        let (mut last, mut total): (Option<Arc<Collection>>, u64) = (None, 0);
        for (cell, id) in ids.iter().map(taken_apart).enumerate() {
            let Some((len @ 1.., address, index)) = id else { continue };
            if last.as_ref().is_none_or(|last| last.address() != address) {
                last = file.kept_collection(address);
            }
            let Some(collection) = &last else { return Ok(false) };
            self.items.payload(collection.object(index), index, len).map_err(wrong(cell, address))?;
            total += u64::from(len);
        }
        let mut place = self.grow(total)?;
        let mut end = self.end();
        for (cell, id) in ids.iter().map(taken_apart).enumerate() {
            self.see(id.is_some());
            if let Some((len @ 1.., address, index)) = id {
                if last.as_ref().is_none_or(|last| last.address() != address) {
                    last = Some(file.collection(address)?);
                }
                let object = last.as_ref().and_then(|collection| collection.object(index));
                let object = self.items.payload(object, index, len).map_err(wrong(cell, address))?;
                let bytes = usize::try_from(len).unwrap_or(usize::MAX).saturating_mul(self.items.size);
                let rest = self.values.as_mut_slice().get_mut(place..).unwrap_or_default();
                let here = rest.get_mut(..bytes).unwrap_or_default();
                self.items.put(file, object, here)?;
                let start = end;
                end = end.saturating_add(len.into());
                place += match self.items.text {
                    true => cut(here, start, std::slice::from_mut(&mut end)),
                    false => here.len(),
                };
            }
            self.offsets.push(end);
        }
        self.values.resize(place);
        Ok(true)
    }

    /// Adds any number of elements.
    fn push_many(&mut self, ids: &[Id], threads: Option<usize>) -> Result<(), Hdf5Error> {
        let pieces = look(self.file, self.items, ids, threads);
        let heap = pieces.heap();
        self.collections += heap.collections();
        let (file, there, before) = (self.file, self.file.source().size(), self.offsets.len() - 1);
        let keep = file.can_keep(self.collections);
        let (items, together, only_look) = (self.items, TOGETHER, false);
        let batch = Batch { file, items, ids, first: before, keep, threads, together, only_look };
        let stored = pieces.items().saturating_mul(self.items.stored as u64);
        if stored > there {
            let batch = Batch { only_look: true, ..batch };
            batch.fill(&pieces, &heap, 0, &mut vec![0; ids.len()], &mut [])?;
        }
        self.bytes = self.bytes.saturating_add(stored);
        if self.bytes > there.saturating_mul(MOST_SHARED) {
            let why = format!("elements of variable length have {} bytes, the file has {there}", self.bytes);
            return Err(file.source().invalid(why));
        }
        if pieces.nulls() || self.validity.is_some() {
            ids.iter().for_each(|id| self.see(taken_apart(id).is_some()));
        } else {
            self.seen += ids.len();
        }
        let (start, place) = (self.end(), self.grow(pieces.items())?);
        self.offsets.resize(before + 1 + ids.len(), start);
        let ends = self.offsets.get_mut(before + 1..).unwrap_or_default();
        let values = self.values.as_mut_slice().get_mut(place..).unwrap_or_default();
        let left = batch.fill(&pieces, &heap, start, ends, values)?;
        self.values.resize(place + left.saturating_mul(self.items.size));
        Ok(())
    }

    /// Notes whether the next element is there.
    #[inline]
    fn see(&mut self, is_there: bool) {
        match &mut self.validity {
            Some(validity) => validity.push(is_there),
            None if is_there => {}
            None => {
                let mut validity = Vec::with_capacity(self.offsets.capacity());
                validity.resize(self.seen, true);
                validity.push(false);
                self.validity = Some(validity);
            }
        }
        self.seen += 1;
    }

    /// Where the items of the elements end.
    fn end(&self) -> i64 {
        self.offsets.last().copied().unwrap_or_default()
    }

    /// Makes room for so many items more; says where they begin.
    fn grow(&mut self, items: u64) -> Result<usize, Hdf5Error> {
        let used = self.values.len();
        let len = usize::try_from(items).ok().and_then(|items| items.checked_mul(self.items.size));
        let len = len.and_then(|len| len.checked_add(used));
        let grown = len.is_some_and(|len| match used {
            0 => Memory::dirty(len).map(|memory| self.values = memory).is_some(),
            _ => self.values.resize(len),
        });
        match grown {
            true => Ok(used),
            false => {
                let size = self.items.size;
                Err(self
                    .file
                    .source()
                    .invalid(format!("no memory for {items} more elements of {size} bytes")))
            }
        }
    }

    /// Makes room for `total` elements, if they are as long as those that are `there`: room of
    /// addresses only, no more than the file has bytes.
    pub(super) fn expect(&mut self, there: usize, total: usize) {
        if there < total {
            let guess = self.values.len() as u128 * total as u128 / there.max(1) as u128;
            let most = u128::from(self.file.source().size());
            // Where there is no such room, it grows as it is needed.
            self.values.reserve(usize::try_from((guess + guess / 32).min(most)).unwrap_or_default());
        }
    }
}
