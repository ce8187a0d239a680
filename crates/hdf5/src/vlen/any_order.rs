//! Resolves elements whose collections come in any order and do not fit into memory together.
//!
//! 1. Sort the elements of a share by collection (counting sort). Store everything needed with each
//!    element, so that nothing is looked up later.
//! 2. Fetch collections in units of about 1 MiB of the file. Neighbouring objects are read
//!    together. Only the writes jump, within the share.
//! 3. Each share begins with a different fetch. Fetched collections stay in memory for the other
//!    shares, within a limit. Nearly every fetch thus happens once per batch, regardless of the
//!    size of the heap.
//!
//! Two simpler ways were measured against this one: texts in random order, two cores, warm page
//! cache, alternating runs.
//!
//! Copying without sorting, from a moving window of the heap, took longer. With a window of 64 MiB
//! it took 1.2 times as long for a heap of 112 MiB (500 000 texts), with 4 MiB 2.5 times. For 830
//! MiB (2 million texts), a window of 16 MiB took 1.6 times as long.
//!
//! Holding the whole heap of 830 MiB in memory took 1.3 to 1.6 times as long, and twice the memory.

use super::fill::{IdBatch, Share};
use super::ids::taken_apart;
use super::inspect::{FETCH, Section, bytes};
use crate::Result;
use crate::cursor::to_usize;
use crate::heaps::{Collection, LINE};
use hyperslab_array::Memory;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Largest number of groups of neighbouring collections. The CPU cache holds a line of each group.
const GROUPS: usize = 1 << 10;

type Collections = Arc<Vec<Arc<Collection>>>;

/// The collections of a batch, by fetch.
pub(super) struct Fetches<'a> {
    addresses: &'a [u64],
    /// A group has 2^`shift` collections.
    shift: u32,
    fetches: Vec<Fetch>,
    /// Number of shares that run concurrently.
    threads: usize,
    /// Bytes of fetched collections in memory.
    waiting: AtomicU64,
}

struct Fetch {
    /// Range of the collections. Contains only whole groups.
    collections: Range<usize>,
    /// Local to a request. Held while its collections are fetched.
    state: Mutex<Taken>,
}

struct Taken {
    /// Number of shares that did not come yet.
    remaining: usize,
    found: Option<Collections>,
}

impl<'a> Fetches<'a> {
    pub(super) fn new(addresses: &'a [u64], shares: usize, threads: usize) -> Fetches<'a> {
        let shift = addresses.len().div_ceil(GROUPS).next_power_of_two().ilog2();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut begin = 0;
        for start in (0..addresses.len()).step_by(1 << shift) {
            let end = addresses.len().min(start + (1 << shift));
            let address = addresses.get(start).copied().unwrap_or_default();
            match ranges.last_mut() {
                Some(fetch) if address - begin < FETCH => fetch.end = end,
                _ => {
                    begin = address;
                    ranges.push(start..end);
                }
            }
        }
        let state = || Mutex::new(Taken { remaining: shares, found: None });
        let fetches = ranges.into_iter().map(|collections| Fetch { collections, state: state() }).collect();
        Fetches { addresses, shift, fetches, threads, waiting: AtomicU64::new(0) }
    }

    /// Returns the fetches in the order of a share. Concurrent shares start with different fetches.
    fn order(&self, share: usize) -> impl Iterator<Item = &Fetch> {
        self.fetches.chunks(self.threads).flat_map(move |fetches| {
            let turn = share % self.threads % fetches.len();
            (turn..fetches.len()).chain(0..turn).filter_map(|number| fetches.get(number))
        })
    }

    /// Returns the collections of a fetch to one share. `None`: the share does not need them.
    fn take(&self, fetch: &Fetch, batch: &IdBatch<'_>, needs: bool) -> Result<Option<Collections>> {
        let mut state = fetch.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.remaining = state.remaining.saturating_sub(1);
        let addresses = self.addresses.get(fetch.collections.clone()).unwrap_or_default();
        let size = bytes(addresses);
        if let Some(found) = state.found.clone() {
            if state.remaining == 0 {
                state.found = None;
                self.waiting.fetch_sub(size, Ordering::Relaxed);
            }
            return Ok(needs.then_some(found));
        }
        if !needs {
            return Ok(None);
        }
        // Fetch under the lock, so that no other share fetches the same collections.
        let found = Arc::new(batch.fetch(addresses)?);
        if state.remaining > 0 && self.waiting.load(Ordering::Relaxed).saturating_add(size) <= batch.together
        {
            self.waiting.fetch_add(size, Ordering::Relaxed);
            state.found = Some(found.clone());
        }
        Ok(Some(found))
    }
}

/// Bytes of a sorted element.
const WANTED: usize = 16;

/// Packs an element: number of items before it, object index, number of items, collection.
///
/// (Memory never holds 2⁴⁸ items.)
#[inline]
fn pack_wanted(start: u64, index: u16, len: u32, collection: u32) -> [u8; WANTED] {
    let all = u128::from(start & ((1 << 48) - 1)) | u128::from(index) << 48 | u128::from(len) << 64;
    (all | u128::from(collection) << 96).to_le_bytes()
}

#[inline]
fn unpack_wanted(bytes: &[u8; WANTED]) -> (u64, u32, u32, u32) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *bytes;
    let start = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    let (index, len) = (u16::from_le_bytes([g, h]), u32::from_le_bytes([i, j, k, l]));
    (start, index.into(), len, u32::from_le_bytes([m, n, o, p]))
}

impl IdBatch<'_> {
    /// Resolves a share. For each section, `places` maps its collections to `fetches`.
    pub(super) fn in_any_order(
        &self,
        sections: &[Section],
        places: &[Vec<u32>],
        fetches: &Fetches<'_>,
        number: usize,
        share: &mut Share<'_>,
    ) -> Result<()> {
        let (order, ends) = self.sort_by_group(sections, places, fetches, share)?;
        let (order, _) = order.as_slice().as_chunks::<WANTED>();
        let group = |collection: usize| collection >> fetches.shift;
        let end = |group: usize| group.checked_sub(1).and_then(|group| ends.get(group)).map_or(0, |end| *end);
        for fetch in fetches.order(number) {
            let groups = group(fetch.collections.start)..group(fetch.collections.end - 1) + 1;
            let needs = end(groups.start) < end(groups.end);
            let Some(found) = fetches.take(fetch, self, needs)? else { continue };
            let open: Vec<_> = found.iter().map(|found| found.open()).collect();
            for (group, open_here) in groups.zip(open.chunks(1 << fetches.shift)) {
                let elements = order.get(end(group)..end(group + 1)).unwrap_or_default();
                let bytes: usize = open_here.iter().map(|open| open.collection.bytes().len()).sum();
                if elements.len() >= bytes / LINE / 4 {
                    open_here.iter().for_each(|open| open.collection.touch());
                }
                for (start, index, len, collection) in elements.iter().map(unpack_wanted) {
                    let open = open.get(to_usize(collection).wrapping_sub(fetch.collections.start));
                    let place = self.bytes(start)..self.bytes(start.saturating_add(len.into()));
                    let here = share.values.get_mut(place);
                    self.copy(open, index, len, here).map_err(|error| {
                        let address =
                            fetches.addresses.get(to_usize(collection)).copied().unwrap_or_default();
                        self.element_error((len, address, index), error)
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Sorts the elements by group. Returns them and the end of each group. Notes the end of each
    /// element.
    fn sort_by_group(
        &self,
        sections: &[Section],
        places: &[Vec<u32>],
        fetches: &Fetches<'_>,
        share: &mut Share<'_>,
    ) -> Result<(Memory, Vec<usize>)> {
        let groups = fetches.addresses.len().div_ceil(1 << fetches.shift);
        let mut next = vec![0; groups + 1];
        for (section, places) in sections.iter().zip(places) {
            for number in &section.numbers {
                if let Some(place) = places.get(to_usize(*number))
                    && let Some(count) = next.get_mut((to_usize(*place) >> fetches.shift) + 1)
                {
                    *count += 1;
                }
            }
        }
        let mut sum: usize = 0;
        for next in &mut next {
            sum += *next;
            *next = sum;
        }
        let none = || self.file.source().invalid(format!("no memory for the places of {sum} elements"));
        let mut memory = Memory::dirty(sum.saturating_mul(WANTED)).ok_or_else(none)?;
        let (order, _) = memory.as_mut_slice().as_chunks_mut::<WANTED>();
        let (mut end, mut ends) = (share.start, share.ends.iter_mut());
        for (section, places) in sections.iter().zip(places) {
            let ids = self.ids.get(section.cells.clone()).unwrap_or_default();
            for ((id, number), end_of_cell) in ids.iter().zip(&section.numbers).zip(&mut ends) {
                if let Some((len @ 1.., address, index)) = taken_apart(id) {
                    let Ok(index) = u16::try_from(index) else {
                        let id = (len, address, index);
                        self.copy(None, index, len, None).map_err(|error| self.element_error(id, error))?;
                        continue;
                    };
                    if let Some(place) = places.get(to_usize(*number))
                        && let Some(next) = next.get_mut(to_usize(*place) >> fetches.shift)
                        && let Some(entry) = order.get_mut(*next)
                    {
                        *entry = pack_wanted(end.abs_diff(share.start), index, len, *place);
                        *next += 1;
                    }
                    end = end.saturating_add(len.into());
                }
                *end_of_cell = end;
            }
        }
        next.truncate(groups);
        Ok((memory, next))
    }
}
