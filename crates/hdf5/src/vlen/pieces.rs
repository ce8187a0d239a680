//! Elements in pieces that threads resolve as wholes.
//!
//! 1. All ids are looked at once: how many items there are, and in which collections ([`look`]). A piece ends where a collection does, and where its collections
//!    are enough for one read.
//! 2. Mostly elements were written one after the other, so each piece has collections of its own, but for some, and fetches them. Where pieces share collections, and these are few
//!    enough to be in memory together, all are fetched before.
//! 3. The objects of a piece are copied one behind the other, and where each ends is noted; or, where pieces share collections, collection by collection.
//!
//! Elements in any order of many collections are not for this ([`Pieces::heap`]).

use super::ids::Ids;
use super::{Items, cut};
use crate::heaps::{Collection, Numbers, ObjectError, Ranked, WHOLE, named};
use crate::{File, Hdf5Error};
use hyperslab_array::{each_part, settings};
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

/// Elements of a piece, at least (if there are so many) and at most.
const LEAST: usize = 4 << 10;
const MOST: usize = 32 << 10;

/// Pieces for each thread, so that uneven ones do not leave threads idle.
const TURNS: usize = 8;

/// A piece begins where another collection does, if there is one among so many elements.
const SOON: usize = 512;

/// Bytes of collections that a piece fetches at once.
const RUN: u64 = 1 << 20;

/// Bytes of objects for which a piece ends.
const PAYLOAD: u64 = 256 << 10;

/// The fewest collections for which a piece ends.
const RUN_LEAST: usize = 64;

/// Bytes of collections that are in memory together where pieces share them.
const SHARED: u64 = 16 << 20;

/// What finding out about an element costs, in bytes that could be copied instead.
const WORK: u64 = 64;

/// Bytes that the cache fetches at once.
const LINE: usize = 64;

/// The number of no collection.
const NONE: u32 = u32::MAX;

/// Elements that are resolved together.
#[derive(Debug)]
pub(super) struct Piece {
    /// Which they are.
    cells: Range<usize>,
    /// For each of them the number of its collection.
    numbers: Vec<u32>,
    /// The collections; `None`: so many that they are not in memory together.
    collections: Option<Vec<u64>>,
    /// Items of all elements.
    items: u64,
    /// Whether one of them is null.
    nulls: bool,
}

/// All elements of a batch.
#[derive(Debug)]
pub(super) struct Pieces(Vec<Piece>);

/// How large pieces are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Elements, about.
    pub(super) cells: usize,
    /// Items, about.
    pub(super) items: u64,
    /// Collections of elements in order.
    pub(super) run: usize,
    /// Collections of elements in any order.
    pub(super) most: usize,
}

impl Limits {
    fn of(file: &File, items: &Items, count: usize, threads: Option<usize>) -> Limits {
        let threads = self::threads(threads);
        let collections =
            |bytes: u64| usize::try_from(bytes / file.collection_size().max(1)).unwrap_or_default();
        let run = collections(RUN).min(count / 16).max(RUN_LEAST);
        Limits {
            cells: (count / (threads * TURNS)).clamp(LEAST, MOST),
            items: PAYLOAD / (items.stored as u64).max(1),
            run,
            most: collections(SHARED).max(run),
        }
    }
}

/// Looks at ids.
pub(super) fn look(file: &File, items: &Items, ids: Ids<'_>, threads: Option<usize>) -> Pieces {
    look_within(Limits::of(file, items, ids.len(), threads), ids, threads)
}

/// Looks at ids, for pieces of any size.
pub(super) fn look_within(limits: Limits, ids: Ids<'_>, threads: Option<usize>) -> Pieces {
    let starts: Vec<usize> = (0..ids.len()).step_by(limits.cells).collect();
    let work = WORK / 4 * ids.len() as u64;
    let soon = limits.cells.min(SOON);
    let looked = each_part(starts, work, threads, &|_, start| {
        let end = start.saturating_add(limits.cells).min(ids.len());
        Ok::<_, Infallible>(Look::at(ids, border(ids, start, soon)..border(ids, end, soon), limits))
    });
    Pieces(looked.into_iter().flatten().flatten().collect())
}

/// Where the piece begins that `at` is to begin: with another collection than the element before has, if one of the next `soon` has that.
fn border(ids: Ids<'_>, at: usize, soon: usize) -> usize {
    let mut last: Option<u64> = None;
    let mut number = at.saturating_sub(1);
    if at > 0 && at < ids.len() {
        let found = ids.walk(number..ids.len().min(at.saturating_add(soon)), |id| {
            let address = id.map(|(_, address, _)| address);
            if last.is_some() && address.is_some() && last != address {
                return Err(number);
            }
            last = address.or(last);
            number += 1;
            Ok(())
        });
        return found.err().unwrap_or(at);
    }
    at
}

/// A piece that is being made.
#[derive(Default)]
struct Look {
    cells: Vec<u32>,
    numbers: Numbers,
    items: u64,
    nulls: bool,
    is_many: bool,
}

impl Look {
    /// The pieces of a range.
    fn at(ids: Ids<'_>, range: Range<usize>, limits: Limits) -> Vec<Piece> {
        let (mut pieces, mut start) = (Vec::new(), range.start);
        let mut piece = Look { cells: Vec::with_capacity(range.len()), ..Look::default() };
        let Ok(()) = ids.walk(range.clone(), |id| {
            let Some((len @ 1.., address, _)) = id else {
                piece.nulls |= id.is_none();
                piece.cells.push(NONE);
                return Ok::<_, Infallible>(());
            };
            let is_full = piece.numbers.len() >= limits.run;
            if is_full || piece.items >= limits.items {
                let may_end = piece.numbers.ascend() || !is_full;
                if may_end && piece.numbers.is_next(address) {
                    let next = start + piece.cells.len();
                    pieces.push(std::mem::take(&mut piece).made(start));
                    start = next;
                    piece.cells.reserve(range.end - start);
                }
                piece.is_many |= piece.numbers.len() > limits.most;
            }
            piece.items += u64::from(len);
            let number = if piece.is_many { NONE } else { piece.numbers.of(address) };
            piece.cells.push(number);
            Ok(())
        });
        if start < range.end {
            pieces.push(piece.made(start));
        }
        pieces
    }

    fn made(self, start: usize) -> Piece {
        Piece {
            cells: start..start + self.cells.len(),
            numbers: self.cells,
            collections: (!self.is_many).then(|| self.numbers.into_addresses()),
            items: self.items,
            nulls: self.nulls,
        }
    }
}

impl Pieces {
    /// Items of all elements.
    pub(super) fn items(&self) -> u64 {
        self.0.iter().fold(0, |sum, piece| sum.saturating_add(piece.items))
    }

    /// Whether an element is null.
    pub(super) fn nulls(&self) -> bool {
        self.0.iter().any(|piece| piece.nulls)
    }
}

/// Where pieces find their collections.
pub(super) enum Heap {
    /// Each piece has its own, nearly.
    Own {
        /// How many there are; those of two pieces twice.
        count: usize,
    },
    /// Pieces share them.
    Shared {
        /// Where they are, ascending.
        addresses: Vec<u64>,
        /// For each piece the places of its collections among these.
        places: Vec<Vec<u32>>,
    },
}

impl Heap {
    /// How many collections there are.
    pub(super) fn collections(&self) -> usize {
        match self {
            Heap::Own { count } => *count,
            Heap::Shared { addresses, .. } => addresses.len(),
        }
    }
}

impl Pieces {
    /// Where their collections are; `None`: these are too many, and elements in any order.
    pub(super) fn heap(&self) -> Option<Heap> {
        let lists: Option<Vec<&Vec<u64>>> = self.0.iter().map(|piece| piece.collections.as_ref()).collect();
        let (lists, mut all) = (lists?, Numbers::default());
        let mut places: Vec<Vec<u32>> =
            lists.iter().map(|list| list.iter().map(|address| all.of(*address)).collect()).collect();
        let count = lists.iter().map(|list| list.len()).sum();
        // Programs that write one element after the other come back to a collection that has some space left: a few are in two pieces.
        if count <= all.len() + all.len() / 4 + 2 * lists.len() {
            return Some(Heap::Own { count });
        }
        let all = all.into_addresses();
        let ranked = Ranked::new(&all);
        for place in places.iter_mut().flatten() {
            *place = u32::try_from(ranked.place(at(*place))).unwrap_or(NONE);
        }
        let all = ranked.into_addresses();
        // None reaches into the next one; and one of more than 64 KiB is not fetched.
        let gaps = all.iter().zip(all.iter().skip(1)).map(|(here, next)| (next - here).min(WHOLE));
        let bytes = gaps.fold(WHOLE, u64::saturating_add);
        (bytes <= SHARED).then_some(Heap::Shared { addresses: all, places })
    }
}

/// What all pieces of a batch need.
#[derive(Clone, Copy)]
pub(super) struct Batch<'a> {
    pub(super) file: &'a File,
    pub(super) items: &'a Items,
    pub(super) ids: Ids<'a>,
    /// Elements before the batch.
    pub(super) first: usize,
    /// Whether collections may be wanted again.
    pub(super) keep: bool,
    pub(super) threads: Option<usize>,
}

/// What one thread resolves, and where it goes.
struct Part<'p> {
    /// Which pieces.
    pieces: Range<usize>,
    /// Where the items of the first element begin.
    start: i64,
    ends: &'p mut [i64],
    values: &'p mut [u8],
}

/// A collection, and its bytes if they are in memory.
type Open<'c> = (&'c Collection, &'c [u8]);

impl Batch<'_> {
    /// Resolves all pieces: `values` get the items, and `ends` where those of each element end, if the first begins at `start`. Returns the items that are left; there are fewer where strings end early.
    pub(super) fn fill(
        &self,
        pieces: &Pieces,
        heap: &Heap,
        start: i64,
        ends: &mut [i64],
        values: &mut [u8],
    ) -> Result<usize, Hdf5Error> {
        let work = (values.len() as u64).saturating_add(WORK.saturating_mul(ends.len() as u64));
        let shared = match heap {
            Heap::Own { .. } => Vec::new(),
            Heap::Shared { addresses, .. } => self.fetch_all(addresses)?,
        };
        let open: Vec<Open<'_>> = shared.iter().map(|found| (&**found, found.bytes())).collect();
        let least = match heap {
            Heap::Own { .. } => 1,
            // The more of its elements a part has, the more of a collection is read at once.
            Heap::Shared { .. } => (ends.len() / threads(self.threads)).min(MOST),
        };
        let parts = self.parts(&pieces.0, least, start, (&mut *ends, &mut *values));
        let lens: Vec<(usize, usize)> =
            parts.iter().map(|part| (part.ends.len(), part.values.len())).collect();
        let left = each_part(parts, work, self.threads, &|_, mut part| {
            let these = pieces.0.get(part.pieces.clone()).unwrap_or_default();
            match heap {
                Heap::Own { .. } => these.iter().try_for_each(|piece| self.in_order(piece, &mut part))?,
                Heap::Shared { places, .. } => {
                    self.in_any_order(
                        these,
                        places.get(part.pieces.clone()).unwrap_or_default(),
                        &open,
                        &mut part,
                    )?;
                }
            }
            Ok::<usize, Hdf5Error>(match self.items.text {
                true => cut(part.values, part.start, part.ends),
                false => part.values.len(),
            })
        })?;
        Ok(join(&lens, &left, ends, values) / self.items.size.max(1))
    }

    /// Cuts a result into parts of at least so many elements.
    fn parts<'p>(
        &self,
        pieces: &[Piece],
        least: usize,
        mut start: i64,
        (mut ends, mut values): (&'p mut [i64], &'p mut [u8]),
    ) -> Vec<Part<'p>> {
        let mut parts = Vec::with_capacity(pieces.len());
        let (mut first, mut cells, mut items) = (0, 0, 0_u64);
        for (number, piece) in pieces.iter().enumerate() {
            cells += piece.cells.len();
            items = items.saturating_add(piece.items);
            if cells < least && number + 1 < pieces.len() {
                continue;
            }
            let (these, later) = ends.split_at_mut_checked(cells).unwrap_or_default();
            let bytes = usize::try_from(items).unwrap_or(usize::MAX).saturating_mul(self.items.size);
            let (place, free) = values.split_at_mut_checked(bytes).unwrap_or_default();
            parts.push(Part { pieces: first..number + 1, start, ends: these, values: place });
            start = start.saturating_add_unsigned(items);
            (ends, values) = (later, free);
            (first, cells, items) = (number + 1, 0, 0);
        }
        parts
    }

    /// Resolves a piece whose elements are in the order of their collections, mostly. (Not inlined: together with the other kind it would not have all it needs in registers.)
    #[inline(never)]
    fn in_order(&self, piece: &Piece, part: &mut Part<'_>) -> Result<(), Hdf5Error> {
        let ranked = Ranked::new(piece.collections.as_deref().unwrap_or_default());
        let found = self.fetch(ranked.addresses())?;
        let mut open: Vec<Open<'_>> = Vec::with_capacity(found.len());
        let by_number = (0..found.len()).filter_map(|number| found.get(ranked.place(number)));
        open.extend(by_number.map(|found| (&**found, found.bytes())));
        let (mut end, mut values) = (part.start, &mut *part.values);
        let (mut cell, mut rest) = (piece.cells.start, piece.numbers.iter().zip(&mut *part.ends));
        self.ids.walk(piece.cells.clone(), |id| {
            let Some((number, end_of_cell)) = rest.next() else { return Ok(()) };
            if let Some(id @ (len @ 1.., ..)) = id {
                // All elements together are as long as the values are.
                let cut = std::mem::take(&mut values).split_at_mut_checked(self.bytes(len.into()));
                let (here, later) = cut.unwrap_or_default();
                values = later;
                self.put(cell, id, open.get(at(*number)), here)?;
                end = end.saturating_add(len.into());
            }
            *end_of_cell = end;
            cell += 1;
            Ok(())
        })
    }

    /// Resolves a part whose elements are in any order, collection by collection: what lies together is read together. Only writing jumps, within the part, which the
    /// cache has. `places`: for each piece where its collections are in `open`.
    #[inline(never)]
    fn in_any_order(
        &self,
        pieces: &[Piece],
        places: &[Vec<u32>],
        open: &[Open<'_>],
        part: &mut Part<'_>,
    ) -> Result<(), Hdf5Error> {
        let first = pieces.first().map_or(0, |piece| piece.cells.start);
        let (mut end, mut ends) = (part.start, part.ends.iter_mut());
        self.ids.walk(first..first + ends.len(), |id| {
            end = end.saturating_add(id.map_or(0, |(len, ..)| len).into());
            if let Some(place) = ends.next() {
                *place = end;
            }
            Ok::<(), Hdf5Error>(())
        })?;
        // Elements by collection, by counting.
        let mut next = vec![0_u32; open.len() + 1];
        for (piece, places) in pieces.iter().zip(places) {
            for number in &piece.numbers {
                let place = places.get(at(*number)).map(|place| at(*place) + 1);
                if let Some(count) = place.and_then(|place| next.get_mut(place)) {
                    *count += 1;
                }
            }
        }
        let mut sum = 0;
        for next in &mut next {
            sum += *next;
            *next = sum;
        }
        let (mut order, mut cell) = (vec![0_u32; at(sum)], 0);
        for (piece, places) in pieces.iter().zip(places) {
            for number in &piece.numbers {
                if let Some(place) = places.get(at(*number))
                    && let Some(next) = next.get_mut(at(*place))
                    && let Some(place) = order.get_mut(at(*next))
                {
                    *place = cell;
                    *next += 1;
                }
                cell += 1;
            }
        }
        let mut done = 0;
        for (open, end) in open.iter().zip(&next) {
            let cells = order.get(done..at(*end)).unwrap_or_default();
            if cells.len() >= open.1.len() / LINE / 4 {
                // From end to end, which the cache foresees; then elements do not wait for it one by one.
                std::hint::black_box(open.1.iter().step_by(LINE).fold(0, |all, byte| all ^ byte));
            }
            for cell in cells {
                let cell = at(*cell);
                let before = cell.checked_sub(1).and_then(|before| part.ends.get(before));
                let begin = before.copied().unwrap_or(part.start).abs_diff(part.start);
                let end = part.ends.get(cell).map_or(begin, |end| end.abs_diff(part.start));
                let here = part.values.get_mut(self.bytes(begin)..self.bytes(end)).unwrap_or_default();
                if let Some(id) = self.ids.get(first + cell) {
                    self.put(first + cell, id, Some(open), here)?;
                }
            }
            done = at(*end);
        }
        Ok(())
    }

    /// Copies the object of an element to its place.
    #[inline(always)]
    fn put(
        &self,
        cell: usize,
        (len, address, index): (u32, u64, u32),
        open: Option<&Open<'_>>,
        here: &mut [u8],
    ) -> Result<(), Hdf5Error> {
        let object = open.and_then(|(collection, bytes)| collection.object_in(bytes, index));
        match self.items.payload(object, index, len) {
            Ok(object) => self.items.put(self.file, object, here).map_err(ObjectError::Read),
            Err(why) => Err(ObjectError::Wrong(why)),
        }
        .map_err(|error| error.of(self.file, self.first.saturating_add(cell), address))
    }

    /// Bytes of so many items.
    #[inline]
    fn bytes(&self, items: u64) -> usize {
        usize::try_from(items).unwrap_or(usize::MAX).saturating_mul(self.items.size)
    }

    /// Fetches collections that ascend, in runs.
    fn fetch(&self, addresses: &[u64]) -> Result<Vec<Arc<Collection>>, Hdf5Error> {
        let (mut found, mut rest) = (Vec::new(), addresses);
        while let Some(first) = rest.first() {
            let (run, later) = rest.split_at(rest.partition_point(|address| address - first < RUN));
            let these = self.file.collections(run, self.keep).map_err(|error| self.of_first(error))?;
            if later.is_empty() && found.is_empty() {
                return Ok(these);
            }
            found.extend(these);
            rest = later;
        }
        Ok(found)
    }

    /// Fetches collections that ascend, on all threads.
    fn fetch_all(&self, addresses: &[u64]) -> Result<Vec<Arc<Collection>>, Hdf5Error> {
        let size = self.file.collection_size().max(1);
        let run = usize::try_from(RUN / size).unwrap_or_default().max(1);
        let work = size.saturating_mul(addresses.len() as u64);
        let runs = addresses.chunks(run).collect();
        let found = each_part(runs, work, self.threads, &|_, addresses| self.fetch(addresses))?;
        Ok(found.into_iter().flatten().collect())
    }

    /// An error about a collection, as one about the first element that needs it.
    fn of_first(&self, error: Hdf5Error) -> Hdf5Error {
        let Hdf5Error::Parse { address, why, .. } = error else { return error };
        let mut cell = self.first;
        let _found = self.ids.walk(0..self.ids.len(), |id| {
            if id.is_some_and(|(len, at, _)| len > 0 && at == address) {
                return Err(());
            }
            cell += 1;
            Ok(())
        });
        named(self.file, cell, address, why.to_string())
    }
}

/// Moves parts together that have become shorter (strings: their items are bytes). `lens`: elements of each, and bytes that it had; `left`: that it has. Returns how many all have.
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

/// How many threads there may be.
fn threads(wanted: Option<usize>) -> usize {
    settings::threads().min(wanted.unwrap_or(usize::MAX)).max(1)
}

#[inline]
fn at(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
