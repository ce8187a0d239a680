//! Looking at heap ids: how many items there are, and in which collections.
//!
//! Ids are looked at in sections, each by one thread. If elements are in the order of their
//! collections, a section ends where a collection does, as soon as its collections are enough for
//! one read: nearly all collections then belong to one section. If elements are in any order, the
//! sections share the collections.

use super::Items;
use super::ids::{Id, taken_apart};
use crate::File;
use crate::heaps::{Numbers, Ranked, WHOLE};
use hyperslab_array::{each_part, settings};
use std::convert::Infallible;
use std::ops::Range;

/// Elements of a section in order: at least (if there are enough) and at most.
const LEAST: usize = 4 << 10;
const MOST: usize = 32 << 10;

/// Sections per thread, in order (many, so that threads end together) and in any order.
const TURNS: usize = 8;
const FEW_TURNS: usize = 2;

/// A section begins where another collection does, if one does within this many elements.
const SOON: usize = 512;

/// Bytes of collections that a section in order fetches at once.
pub(super) const FETCH: u64 = 1 << 20;

/// Bytes of objects for which a section ends.
const PAYLOAD: u64 = 256 << 10;

/// The fewest collections for which a section ends.
const FETCH_LEAST: usize = 64;

/// Bytes of collections that are in memory together.
pub(super) const TOGETHER: u64 = 16 << 20;

/// The cost of looking at an element, in bytes that could be copied instead.
pub(super) const WORK: u64 = 64;

/// The number of no collection.
pub(super) const NONE: u32 = u32::MAX;

/// Elements that one thread looks at together.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) cells: Range<usize>,
    /// The number of the collection of each; [`NONE`]: it has no items.
    pub(super) numbers: Vec<u32>,
    pub(super) collections: Ranked,
    /// Items of all elements.
    pub(super) items: u64,
    nulls: bool,
}

/// All elements of a batch.
#[derive(Debug)]
pub(super) struct Sections {
    pub(super) sections: Vec<Section>,
    /// The most collections that one may have to itself.
    most: usize,
}

/// How large sections are, about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) cells: usize,
    pub(super) items: u64,
    /// Collections of elements in order, about.
    pub(super) collections: usize,
    /// Collections that a section may have to itself.
    pub(super) most: usize,
}

impl Limits {
    fn of(file: &File, items: &Items, ids: &[Id], threads: Option<usize>) -> Limits {
        let threads = self::threads(threads);
        let collections =
            |bytes: u64| usize::try_from(bytes / file.collection_size().max(1)).unwrap_or_default();
        let least = collections(FETCH).min(ids.len() / 16).max(FETCH_LEAST);
        let cells = match in_order(ids) {
            true => (ids.len() / (threads * TURNS)).clamp(LEAST, MOST),
            false => ids.len().div_ceil(threads * FEW_TURNS).max(LEAST),
        };
        let items = PAYLOAD / (items.stored as u64).max(1);
        Limits { cells, items, collections: least, most: collections(TOGETHER).max(least) }
    }
}

/// Whether the first elements are in the order of their collections, mostly.
fn in_order(ids: &[Id]) -> bool {
    let (mut last, mut back, some) = (0, 0, ids.len().min(SOON));
    for (_, address, _) in ids.iter().take(some).filter_map(taken_apart) {
        back += usize::from(address < last);
        last = address;
    }
    back <= some / 8
}

pub(super) fn look(file: &File, items: &Items, ids: &[Id], threads: Option<usize>) -> Sections {
    look_within(Limits::of(file, items, ids, threads), ids, threads)
}

/// Looks at ids, for sections of any size.
pub(super) fn look_within(limits: Limits, ids: &[Id], threads: Option<usize>) -> Sections {
    let starts: Vec<usize> = (0..ids.len()).step_by(limits.cells).collect();
    let work = WORK / 4 * ids.len() as u64;
    let soon = limits.cells.min(SOON);
    let looked = each_part(starts, work, threads, &|_, start| {
        let end = start.saturating_add(limits.cells).min(ids.len());
        Ok::<_, Infallible>(sections(ids, border(ids, start, soon)..border(ids, end, soon), limits))
    });
    Sections { sections: looked.into_iter().flatten().flatten().collect(), most: limits.most }
}

/// The first of the next `soon` elements with another collection than the one before; or `at`.
fn border(ids: &[Id], at: usize, soon: usize) -> usize {
    let Some(before) = at.checked_sub(1) else { return at };
    let mut last = None;
    for (cell, id) in ids.iter().enumerate().take(at.saturating_add(soon)).skip(before) {
        let address = taken_apart(id).map(|(_, address, _)| address);
        if last.is_some() && address.is_some() && last != address {
            return cell;
        }
        last = address.or(last);
    }
    at
}

/// What is known of a section while it is looked at.
#[derive(Default)]
struct Look {
    collections: Numbers,
    items: u64,
    nulls: bool,
}

fn sections(ids: &[Id], range: Range<usize>, limits: Limits) -> Vec<Section> {
    let mut numbers = vec![NONE; range.len()];
    // The ends of all sections but the last, counted from the start of the range.
    let mut done: Vec<(usize, Look)> = Vec::new();
    let mut look = Look::default();
    // No element has the address 0.
    let (mut last, mut number) = (0, NONE);
    for (cell, (id, place)) in ids.get(range.clone()).unwrap_or_default().iter().zip(&mut numbers).enumerate()
    {
        let Some((len, address, _)) = taken_apart(id) else {
            look.nulls = true;
            continue;
        };
        if len == 0 {
            continue;
        }
        if address != last {
            let is_full = look.collections.len() >= limits.collections;
            if is_full || look.items >= limits.items {
                let may_end = look.collections.ascend() || !is_full;
                if may_end && look.collections.is_next(address) {
                    done.push((cell, std::mem::take(&mut look)));
                }
            }
            number = look.collections.of(address);
            last = address;
        }
        look.items += u64::from(len);
        *place = number;
    }
    let (mut made, mut from) = (Vec::with_capacity(done.len() + 1), 0);
    for (end, look) in done {
        made.push(look.made(range.start + from, numbers.get(from..end).unwrap_or_default().to_vec()));
        from = end;
    }
    if from > 0 {
        numbers.drain(..from);
    }
    if !numbers.is_empty() {
        made.push(look.made(range.start + from, numbers));
    }
    made
}

impl Look {
    fn made(self, start: usize, numbers: Vec<u32>) -> Section {
        Section {
            cells: start..start + numbers.len(),
            numbers,
            collections: Ranked::new(self.collections.into_addresses()),
            items: self.items,
            nulls: self.nulls,
        }
    }
}

/// Where sections find their collections.
pub(super) enum Heap {
    /// Each section has its own, nearly.
    Own {
        /// How many there are; those of two sections twice.
        count: usize,
    },
    Shared {
        /// Where they are, ascending.
        addresses: Vec<u64>,
        /// For each section: for each number of a collection where it is among these.
        places: Vec<Vec<u32>>,
    },
}

impl Heap {
    pub(super) fn collections(&self) -> usize {
        match self {
            Heap::Own { count } => *count,
            Heap::Shared { addresses, .. } => addresses.len(),
        }
    }

    /// The places of the collections of some sections. Empty if sections have their own.
    pub(super) fn places(&self, sections: Range<usize>) -> &[Vec<u32>] {
        match self {
            Heap::Own { .. } => &[],
            Heap::Shared { places, .. } => places.get(sections).unwrap_or_default(),
        }
    }
}

impl Sections {
    /// Items of all elements.
    pub(super) fn items(&self) -> u64 {
        self.sections.iter().fold(0, |sum, section| sum.saturating_add(section.items))
    }

    pub(super) fn nulls(&self) -> bool {
        self.sections.iter().any(|section| section.nulls)
    }

    /// Where their collections are.
    pub(super) fn heap(&self) -> Heap {
        let lists = || self.sections.iter().map(|section| section.collections.addresses());
        let count: usize = lists().map(<[u64]>::len).sum();
        let mut all = Vec::with_capacity(count);
        lists().for_each(|list| all.extend_from_slice(list));
        // Stable: lists that are sorted already are only merged.
        all.sort();
        all.dedup();
        // A few collections are in two sections: writers come back to free space.
        let own = count <= all.len() + all.len() / 4 + 2 * self.sections.len();
        // Sizes are unknown before reading: the gaps between addresses bound them.
        let fits = |list: &[u64]| list.len() <= self.most && bytes(list) <= 2 * TOGETHER;
        if own && lists().all(fits) {
            return Heap::Own { count };
        }
        let places = self.sections.iter().map(|section| section.collections.places_in(&all)).collect();
        Heap::Shared { addresses: all, places }
    }
}

/// Bytes of collections, at most. Those of more than 64 KiB are not fetched.
pub(super) fn bytes(addresses: &[u64]) -> u64 {
    let gaps = addresses.iter().zip(addresses.iter().skip(1)).map(|(here, next)| (next - here).min(WHOLE));
    gaps.fold(WHOLE, u64::saturating_add)
}

/// How many threads there may be.
pub(super) fn threads(wanted: Option<usize>) -> usize {
    settings::threads().min(wanted.unwrap_or(usize::MAX)).max(1)
}
