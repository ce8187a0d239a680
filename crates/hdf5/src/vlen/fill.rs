//! Copies the objects of a batch to their places, on all threads, and notes the end of each.
//!
//! A thread takes one share at a time: a section that has its own collections, or several sections
//! of elements in any order (see `any_order`).

use super::any_order::Fetches;
use super::ids::{Id, taken_apart};
use super::inspect::{FETCH, Heap, Section, Sections, WORK, bytes, threads};
use super::{Items, cut};
use crate::cursor::to_usize;
use crate::heaps::{Collection, ObjectError, Open, heap_error};
use crate::{File, Hdf5Error, Result};
use hyperslab_array::{each_part, prefetch};
use std::ops::Range;
use std::sync::Arc;

/// Number of objects that are prefetched before they are copied. Elements in any order then wait
/// for memory once, not each.
const AHEAD: usize = 64;

/// Shared by all sections of a batch.
#[derive(Clone, Copy)]
pub(super) struct IdBatch<'a> {
    pub(super) file: &'a File,
    pub(super) items: &'a Items,
    pub(super) ids: &'a [Id],
    /// Number of elements before the batch.
    pub(super) first: usize,
    /// `true` if collections may be needed again.
    pub(super) keep: bool,
    pub(super) threads: Option<usize>,
    /// Largest number of bytes of collections in memory together.
    pub(super) together: u64,
    /// Only check that the heap holds the objects of the ids. Copy nothing.
    pub(super) only_look: bool,
}

/// The sections that one thread resolves, and the place of their result.
pub(super) struct Share<'p> {
    sections: Range<usize>,
    /// Start of the first element's items.
    pub(super) start: i64,
    pub(super) ends: &'p mut [i64],
    pub(super) values: &'p mut [u8],
}

impl IdBatch<'_> {
    /// Resolves all sections. Returns the number of items left, because strings may end early.
    ///
    /// `values` receives the items, `ends` the ends of elements, counted from `start`.
    pub(super) fn fill(
        &self,
        sections: &Sections,
        heap: &Heap,
        start: i64,
        ends: &mut [i64],
        values: &mut [u8],
    ) -> Result<usize> {
        let work = (values.len() as u64).saturating_add(WORK.saturating_mul(ends.len() as u64));
        let threads = threads(self.threads);
        // `None`: the collections are too many. Then each share goes through them one after the
        // other.
        let together = match heap {
            Heap::Shared { addresses, .. } if bytes(addresses) <= self.together => {
                Some(self.fetch_all(addresses)?)
            }
            _ => None,
        };
        let (addresses, most): (&[u64], usize) = match heap {
            Heap::Shared { addresses, .. } if together.is_none() => (addresses, threads),
            _ => (&[], usize::MAX),
        };
        let shares = self.shares(&sections.sections, most, start, (&mut *ends, &mut *values));
        let fetches = Fetches::new(addresses, shares.len(), threads);
        let lens: Vec<(usize, usize)> =
            shares.iter().map(|share| (share.ends.len(), share.values.len())).collect();
        let left = each_part(shares, work, self.threads, &|number, mut share| {
            let these = share.sections.clone();
            let (sections, places) =
                (sections.sections.get(these.clone()).unwrap_or_default(), heap.places(these));
            match &together {
                Some(found) => self.in_memory(sections, places, found, &mut share)?,
                None if places.is_empty() => self.in_order(sections, &mut share)?,
                None => self.in_any_order(sections, places, &fetches, number, &mut share)?,
            }
            Ok::<usize, Hdf5Error>(match self.items.text {
                true => cut(share.values, share.start, share.ends),
                false => share.values.len(),
            })
        })?;
        Ok(join(&lens, &left, ends, values) / self.items.size.max(1))
    }

    /// Cuts a result into at most `most` shares.
    fn shares<'p>(
        &self,
        sections: &[Section],
        most: usize,
        mut start: i64,
        (mut ends, mut values): (&'p mut [i64], &'p mut [u8]),
    ) -> Vec<Share<'p>> {
        let per = sections.len().div_ceil(most.max(1)).max(1);
        let mut shares = Vec::with_capacity(sections.len().div_ceil(per));
        for (number, these) in sections.chunks(per).enumerate() {
            let cells = these.iter().map(|section| section.cells.len()).sum();
            let items = these.iter().fold(0_u64, |sum, section| sum.saturating_add(section.items));
            let (here, later) = ends.split_at_mut_checked(cells).unwrap_or_default();
            let (place, free) = values.split_at_mut_checked(self.bytes(items)).unwrap_or_default();
            let first = number * per;
            shares.push(Share { sections: first..first + these.len(), start, ends: here, values: place });
            start = start.saturating_add_unsigned(items);
            (ends, values) = (later, free);
        }
        shares
    }

    /// Resolves elements in the order of collections. Not inlined, so that enough registers are
    /// free.
    #[inline(never)]
    fn in_order(&self, sections: &[Section], share: &mut Share<'_>) -> Result<()> {
        let (mut end, mut place, mut ends) = (share.start, 0_usize, share.ends.iter_mut());
        for section in sections {
            let found = self.fetch(section.collections.addresses())?;
            let by_number =
                (0..found.len()).filter_map(|number| found.get(section.collections.place(number)));
            let open: Vec<Open<'_>> = by_number.map(|found| found.open()).collect();
            let ids = self.ids.get(section.cells.clone()).unwrap_or_default();
            for ((id, number), end_of_cell) in ids.iter().zip(&section.numbers).zip(&mut ends) {
                if let Some((len @ 1.., _, index)) = taken_apart(id) {
                    // The values have room for exactly all elements.
                    let next = place.saturating_add(self.bytes(len.into()));
                    let here = share.values.get_mut(place..next);
                    let copied = self.copy(open.get(to_usize(*number)), index, len, here);
                    copied.map_err(|error| self.about_this(id, error))?;
                    place = next;
                    end = end.saturating_add(len.into());
                }
                *end_of_cell = end;
            }
        }
        Ok(())
    }

    /// Resolves elements in any order. Their collections are in memory: `found`, indexed by
    /// `places`.
    #[inline(never)]
    fn in_memory(
        &self,
        sections: &[Section],
        places: &[Vec<u32>],
        found: &[Arc<Collection>],
        share: &mut Share<'_>,
    ) -> Result<()> {
        let (mut end, mut place, mut ends) = (share.start, 0_usize, share.ends.iter_mut());
        for (section, places) in sections.iter().zip(places) {
            let own = places.iter().filter_map(|place| found.get(to_usize(*place)));
            let open: Vec<Open<'_>> = own.map(|found| found.open()).collect();
            let ids = self.ids.get(section.cells.clone()).unwrap_or_default();
            for (ids, numbers) in ids.chunks(AHEAD).zip(section.numbers.chunks(AHEAD)) {
                let mut objects: [&[u8]; AHEAD] = [&[]; AHEAD];
                let (first, mut are_plain) = (end, self.items.conversion.is_none());
                for (((id, number), object), end_of_cell) in
                    ids.iter().zip(numbers).zip(&mut objects).zip(&mut ends)
                {
                    if let Some((len @ 1.., _, index)) = taken_apart(id) {
                        let open = open.get(to_usize(*number));
                        match open.and_then(|open| open.find(index, self.bytes(len.into()))) {
                            Some(found) => {
                                prefetch(found);
                                *object = found;
                            }
                            None => are_plain = false,
                        }
                        end = end.saturating_add(len.into());
                    }
                    *end_of_cell = end;
                }
                let next = place.saturating_add(self.bytes(end.abs_diff(first)));
                let here = share.values.get_mut(place..next);
                place = next;
                match here {
                    Some(here) if are_plain => one_behind_the_other(&objects, here),
                    here => self.one_by_one(ids, numbers, &open, here.unwrap_or_default())?,
                }
            }
        }
        Ok(())
    }

    /// Copies the objects of some elements of any kind.
    #[cold]
    #[inline(never)]
    fn one_by_one(
        &self,
        ids: &[Id],
        numbers: &[u32],
        open: &[Open<'_>],
        mut values: &mut [u8],
    ) -> Result<()> {
        for (id, number) in ids.iter().zip(numbers) {
            let Some((len @ 1.., _, index)) = taken_apart(id) else { continue };
            let (here, rest) =
                std::mem::take(&mut values).split_at_mut_checked(self.bytes(len.into())).unzip();
            let copied = self.copy(open.get(to_usize(*number)), index, len, here);
            copied.map_err(|error| self.about_this(id, error))?;
            values = rest.unwrap_or_default();
        }
        Ok(())
    }

    /// Copies `len` items of an object to their place.
    #[inline(always)]
    pub(super) fn copy(
        &self,
        open: Option<&Open<'_>>,
        index: u32,
        len: u32,
        here: Option<&mut [u8]>,
    ) -> Result<(), ObjectError> {
        // The usual case: unconverted bytes of a collection in memory.
        match here {
            Some(here) if self.items.conversion.is_none() => {
                if let Some(bytes) = open.and_then(|open| open.find(index, here.len())) {
                    copy(bytes, here);
                    return Ok(());
                }
                self.copy_any(open, index, len, here)
            }
            here => self.copy_any(open, index, len, here.unwrap_or_default()),
        }
    }

    /// Like [`IdBatch::copy`], for any object. Not inlined, to keep registers free there.
    #[cold]
    #[inline(never)]
    fn copy_any(
        &self,
        open: Option<&Open<'_>>,
        index: u32,
        len: u32,
        here: &mut [u8],
    ) -> Result<(), ObjectError> {
        let object = open.and_then(|open| open.collection.object(index));
        let object = self.items.payload(object, index, len)?;
        if self.only_look {
            return Ok(());
        }
        Ok(self.items.put(self.file, object, here)?)
    }

    #[inline]
    pub(super) fn bytes(&self, items: u64) -> usize {
        to_usize(items).saturating_mul(self.items.size)
    }

    /// Fetches collections at ascending addresses.
    pub(super) fn fetch(&self, addresses: &[u64]) -> Result<Vec<Arc<Collection>>> {
        let mut found = Vec::with_capacity(addresses.len());
        for fetch in fetches(addresses) {
            found.extend(self.file.collections(fetch, self.keep).map_err(|error| self.of_first(error))?);
        }
        Ok(found)
    }

    /// Fetches collections at ascending addresses on all threads.
    fn fetch_all(&self, addresses: &[u64]) -> Result<Vec<Arc<Collection>>> {
        let fetches = fetches(addresses).collect();
        let found = each_part(fetches, bytes(addresses), self.threads, &|_, fetch| self.fetch(fetch))?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Turns an error about a collection into one about the first element that needs it.
    fn of_first(&self, error: Hdf5Error) -> Hdf5Error {
        let Hdf5Error::Parse { address, why, .. } = error else { return error };
        let cell = self.first_of(|(len, at, _)| len > 0 && at == address);
        heap_error(self.file, cell, address, why.to_string())
    }

    /// Turns an error into one about the first element with this id.
    pub(super) fn element_error(&self, id: (u32, u64, u32), error: ObjectError) -> Hdf5Error {
        error.of(self.file, self.first_of(|other| other == id), id.1)
    }

    /// Like [`IdBatch::element_error`]. Not inlined: a whole id would take registers that the
    /// usual case needs.
    #[cold]
    #[inline(never)]
    fn about_this(&self, id: &Id, error: ObjectError) -> Hdf5Error {
        self.element_error(taken_apart(id).unwrap_or_default(), error)
    }

    /// Returns the number of the first element whose id matches.
    fn first_of(&self, is_such: impl Fn((u32, u64, u32)) -> bool) -> usize {
        let place = self.ids.iter().position(|id| taken_apart(id).is_some_and(&is_such));
        self.first.saturating_add(place.unwrap_or_default())
    }
}

/// Splits ascending addresses into groups that are fetched together.
fn fetches(addresses: &[u64]) -> impl Iterator<Item = &[u64]> {
    let mut rest = addresses;
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let (fetch, later) = rest.split_at(rest.partition_point(|address| address - first < FETCH));
        rest = later;
        Some(fetch)
    })
}

/// Copies objects one after the other. `place` has exactly their total length.
#[inline(always)]
fn one_behind_the_other(objects: &[&[u8]], mut place: &mut [u8]) {
    for object in objects {
        let Some((here, rest)) = std::mem::take(&mut place).split_at_mut_checked(object.len()) else {
            return;
        };
        copy(object, here);
        place = rest;
    }
}

/// Copies bytes. Copies up to 16 bytes (most texts) inline, because a call takes longer.
#[inline(always)]
fn copy(from: &[u8], to: &mut [u8]) {
    if let (Some(first), Some(last), Some(place)) =
        (from.first_chunk(), from.last_chunk(), to.first_chunk_mut::<8>())
        && from.len() <= 16
    {
        *place = *first;
        if let Some(place) = to.last_chunk_mut::<8>() {
            *place = *last;
        }
    } else {
        to.copy_from_slice(from);
    }
}

/// Closes the gaps between shares that became shorter. Returns the total number of bytes.
///
/// `lens` has the elements and bytes of each share before, `left` the bytes now.
fn join(lens: &[(usize, usize)], left: &[usize], mut ends: &mut [i64], values: &mut [u8]) -> usize {
    let (mut from, mut to) = (0, 0);
    for ((cells, bytes), left) in lens.iter().zip(left) {
        let (these, later) = std::mem::take(&mut ends).split_at_mut_checked(*cells).unwrap_or_default();
        ends = later;
        if from > to {
            values.copy_within(from..from + left, to);
            these.iter_mut().for_each(|end| *end = end.saturating_sub_unsigned((from - to) as u64));
        }
        from += bytes;
        to += left;
    }
    to
}
