//! Inspects heap ids: counts items, and finds the collections.
//!
//! Each thread inspects one section of ids at a time. If elements are in the order of their
//! collections, a section ends at a border between collections, once it has enough of them for one
//! read. Nearly all collections then belong to a single section. If elements are in any order, the
//! sections share the collections.

use super::Items;
use super::ids::{Id, taken_apart};
use crate::File;
use crate::heaps::{Numbers, Ranked, WHOLE};
use hyperslab_array::{each_part, settings};
use std::convert::Infallible;
use std::ops::Range;

/// Smallest and largest number of elements of a section, for elements in order.
///
/// A section is smaller only if there are not enough elements.
const LEAST: usize = 4 << 10;
const MOST: usize = 32 << 10;

/// Sections per thread, for elements in order and in any order.
///
/// In order there are many sections, so that all threads end at the same time.
const TURNS: usize = 8;
const FEW_TURNS: usize = 2;

/// A section begins at the next collection if that is at most this many elements away.
const SOON: usize = 512;

/// Bytes of collections that are fetched together for a section in order.
pub(super) const FETCH: u64 = 1 << 20;

/// A section may end once its objects have this many bytes.
const PAYLOAD: u64 = 256 << 10;

/// A section does not end because of its collections until it has at least this many.
const FETCH_LEAST: usize = 64;

/// Largest number of bytes of collections that are in memory together.
pub(super) const TOGETHER: u64 = 16 << 20;

/// Cost of inspecting an element, in bytes that could be copied in the same time.
pub(super) const WORK: u64 = 64;

/// Stands for an element without a collection.
pub(super) const NONE: u32 = u32::MAX;

/// Elements that one thread inspects together.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) cells: Range<usize>,
    /// Number of each element's collection. [`NONE`]: it has no items.
    pub(super) numbers: Vec<u32>,
    pub(super) collections: Ranked,
    /// Number of items of all elements.
    pub(super) items: u64,
    nulls: bool,
}

/// All elements of a batch.
#[derive(Debug)]
pub(super) struct Sections {
    pub(super) sections: Vec<Section>,
    /// Largest number of collections that only one section uses.
    most: usize,
}

/// Approximate size of sections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) cells: usize,
    pub(super) items: u64,
    /// Approximate number of collections, for elements in order.
    pub(super) collections: usize,
    /// Largest number of collections that only this section uses.
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

/// Returns `true` if the first elements are mostly in the order of their collections.
fn in_order(ids: &[Id]) -> bool {
    let (mut last, mut back, some) = (0, 0, ids.len().min(SOON));
    for (_, address, _) in ids.iter().take(some).filter_map(taken_apart) {
        back += usize::from(address < last);
        last = address;
    }
    back <= some / 8
}

pub(super) fn inspect(file: &File, items: &Items, ids: &[Id], threads: Option<usize>) -> Sections {
    look_within(Limits::of(file, items, ids, threads), ids, threads)
}

/// Inspects ids, with sections of any size.
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

/// Returns the first of the next `soon` elements in a new collection, else `at`.
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

/// State while a section is inspected.
#[derive(Default)]
struct Inspection {
    collections: Numbers,
    items: u64,
    nulls: bool,
}

fn sections(ids: &[Id], range: Range<usize>, limits: Limits) -> Vec<Section> {
    let mut numbers = vec![NONE; range.len()];
    // The end of each section except the last, counted from the start of the range.
    let mut done: Vec<(usize, Inspection)> = Vec::new();
    let mut look = Inspection::default();
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
        made.push(look.into_section(range.start + from, numbers.get(from..end).unwrap_or_default().to_vec()));
        from = end;
    }
    if from > 0 {
        numbers.drain(..from);
    }
    if !numbers.is_empty() {
        made.push(look.into_section(range.start + from, numbers));
    }
    made
}

impl Inspection {
    fn into_section(self, start: usize, numbers: Vec<u32>) -> Section {
        Section {
            cells: start..start + numbers.len(),
            numbers,
            collections: Ranked::new(self.collections.into_addresses()),
            items: self.items,
            nulls: self.nulls,
        }
    }
}

/// The assignment of collections to sections.
pub(super) enum Heap {
    /// Nearly all collections belong to a single section.
    Own {
        /// Number of collections. Collections in two sections count twice.
        count: usize,
    },
    Shared {
        /// Addresses of all collections, ascending.
        addresses: Vec<u64>,
        /// For each section, maps the number of a collection to its place in `addresses`.
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

    /// Returns the places of some sections. Empty if sections have their own collections.
    pub(super) fn places(&self, sections: Range<usize>) -> &[Vec<u32>] {
        match self {
            Heap::Own { .. } => &[],
            Heap::Shared { places, .. } => places.get(sections).unwrap_or_default(),
        }
    }
}

impl Sections {
    /// Number of items of all elements.
    pub(super) fn items(&self) -> u64 {
        self.sections.iter().fold(0, |sum, section| sum.saturating_add(section.items))
    }

    pub(super) fn nulls(&self) -> bool {
        self.sections.iter().any(|section| section.nulls)
    }

    /// Decides whether sections share their collections.
    pub(super) fn heap(&self) -> Heap {
        let lists = || self.sections.iter().map(|section| section.collections.addresses());
        let count: usize = lists().map(<[u64]>::len).sum();
        let mut all = Vec::with_capacity(count);
        lists().for_each(|list| all.extend_from_slice(list));
        // This sort merges lists that are already sorted.
        all.sort();
        all.dedup();
        // A few collections are in two sections, because writers reuse free space.
        let own = count <= all.len() + all.len() / 4 + 2 * self.sections.len();
        // Sizes are unknown before reading. The gaps between addresses bound them.
        let fits = |list: &[u64]| list.len() <= self.most && bytes(list) <= 2 * TOGETHER;
        if own && lists().all(fits) {
            return Heap::Own { count };
        }
        let places = self.sections.iter().map(|section| section.collections.places_in(&all)).collect();
        Heap::Shared { addresses: all, places }
    }
}

/// Upper bound for the bytes of collections. (Collections over 64 KiB are not fetched.)
pub(super) fn bytes(addresses: &[u64]) -> u64 {
    let gaps = addresses.iter().zip(addresses.iter().skip(1)).map(|(here, next)| (next - here).min(WHOLE));
    gaps.fold(WHOLE, u64::saturating_add)
}

/// Returns the number of threads to use.
pub(super) fn threads(wanted: Option<usize>) -> usize {
    settings::threads().min(wanted.unwrap_or(usize::MAX)).max(1)
}
