//! Elements in pieces that threads resolve as wholes.
//!
//! 1. All ids are looked at once: how many items there are, and in which collections ([`look`]). A piece ends where a collection does, and where its collections
//!    are enough for one read.
//! 2. Mostly elements were written one after the other, so each piece has collections of its own, and fetches them. Where pieces share collections, and these are few
//!    enough to be in memory together, all are fetched before.
//! 3. The objects of a piece are copied one behind the other, and where each ends is noted.
//!
//! Elements in any order of many collections are not for this ([`Pieces::heap`]).

use super::ids::Ids;
use super::{Items, cut};
use crate::heaps::{Collection, Numbers, ObjectError, WHOLE, named};
use crate::{File, Hdf5Error};
use hyperslab_array::{each_part, settings};
use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

/// Elements of a piece, at least (if there are so many) and at most.
const LEAST: usize = 4 << 10;
const MOST: usize = 32 << 10;

/// Pieces for each thread, so that uneven ones do not leave threads idle.
const TURNS: usize = 8;

/// Bytes of collections that a piece fetches at once.
const RUN: u64 = 1 << 20;

/// The fewest collections for which a piece ends.
const RUN_LEAST: usize = 64;

/// Bytes of collections that are in memory together where pieces share them.
const SHARED: u64 = 16 << 20;

/// What finding out about an element costs, in bytes that could be copied instead.
const WORK: u64 = 64;

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
    /// Collections of elements in order.
    pub(super) run: usize,
    /// Collections of elements in any order.
    pub(super) most: usize,
}

impl Limits {
    fn of(file: &File, count: usize, threads: Option<usize>) -> Limits {
        let threads = settings::threads().min(threads.unwrap_or(usize::MAX)).max(1);
        let collections =
            |bytes: u64| usize::try_from(bytes / file.collection_size().max(1)).unwrap_or_default();
        let run = collections(RUN).min(count / 16).max(RUN_LEAST);
        Limits {
            cells: (count / (threads * TURNS)).clamp(LEAST, MOST),
            run,
            most: collections(SHARED).max(run),
        }
    }
}

/// Looks at ids.
pub(super) fn look(file: &File, ids: Ids<'_>, threads: Option<usize>) -> Pieces {
    look_within(Limits::of(file, ids.len(), threads), ids, threads)
}

/// Looks at ids, for pieces of any size.
pub(super) fn look_within(limits: Limits, ids: Ids<'_>, threads: Option<usize>) -> Pieces {
    let starts: Vec<usize> = (0..ids.len()).step_by(limits.cells).collect();
    let work = WORK / 4 * ids.len() as u64;
    let looked = each_part(starts, work, threads, &|_, start| {
        let end = border(ids, start.saturating_add(limits.cells).min(ids.len()), limits.cells);
        Ok::<_, Infallible>(Look::at(ids, border(ids, start, limits.cells)..end, limits))
    });
    Pieces(looked.into_iter().flatten().flatten().collect())
}

/// Where the first piece from element `at` on begins: with another collection than the element before has, if there is one soon.
fn border(ids: Ids<'_>, at: usize, most: usize) -> usize {
    let mut last: Option<u64> = None;
    let mut number = at.saturating_sub(1);
    if at > 0 && at < ids.len() {
        let found = ids.walk(number..ids.len().min(at.saturating_add(most)), |id| {
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
            if piece.numbers.len() >= limits.run {
                if piece.numbers.is_next(address) {
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
    /// Each piece has its own.
    Own {
        /// How many there are.
        count: usize,
    },
    /// Pieces share them.
    Shared {
        /// How many there are.
        count: usize,
        /// Where they are, ascending.
        addresses: Vec<u64>,
    },
}

impl Pieces {
    /// Where their collections are; `None`: these are too many, and elements in any order.
    pub(super) fn heap(&self) -> Option<Heap> {
        let lists: Option<Vec<&Vec<u64>>> = self.0.iter().map(|piece| piece.collections.as_ref()).collect();
        let lists = lists?;
        let count = lists.iter().map(|list| list.len()).sum();
        let ends = |list: &&Vec<u64>| Some((*list.iter().min()?, *list.iter().max()?));
        let mut ends: Vec<(u64, u64)> = lists.iter().filter_map(ends).collect();
        ends.sort_unstable();
        if ends.is_sorted_by(|(_, end), (start, _)| end <= start) {
            return Some(Heap::Own { count });
        }
        let mut all: Vec<u64> = lists.into_iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        // None reaches into the next one; and one of more than 64 KiB is not fetched.
        let gaps = all.iter().zip(all.iter().skip(1)).map(|(here, next)| (next - here).min(WHOLE));
        let bytes = gaps.fold(WHOLE, u64::saturating_add);
        (bytes <= SHARED).then_some(Heap::Shared { count: all.len(), addresses: all })
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
        let shared = match heap {
            Heap::Own { .. } => None,
            Heap::Shared { addresses, .. } => Some(self.fetch_all(addresses)?),
        };
        let work = (values.len() as u64).saturating_add(WORK.saturating_mul(ends.len() as u64));
        let size = self.items.size;
        let (mut before, mut rest) = (start, (&mut *ends, &mut *values));
        let mut parts = Vec::with_capacity(pieces.0.len());
        for piece in &pieces.0 {
            let (these, later) = rest.0.split_at_mut_checked(piece.cells.len()).unwrap_or_default();
            let bytes = usize::try_from(piece.items).unwrap_or(usize::MAX).saturating_mul(size);
            let (place, free) = rest.1.split_at_mut_checked(bytes).unwrap_or_default();
            rest = (later, free);
            parts.push((piece, before, these, place));
            before = before.saturating_add_unsigned(piece.items);
        }
        let left = each_part(parts, work, self.threads, &|_, (piece, start, ends, place)| {
            self.piece(piece, shared.as_deref(), start, ends, place)?;
            Ok::<usize, Hdf5Error>(match self.items.text {
                true => cut(place, start, ends),
                false => place.len() / size.max(1),
            })
        })?;
        Ok(self.join(pieces, &left, ends, values))
    }

    /// Moves pieces together that have become shorter. Returns the items of all.
    fn join(&self, pieces: &Pieces, left: &[usize], mut ends: &mut [i64], values: &mut [u8]) -> usize {
        let (mut from, mut to) = (0, 0);
        for (piece, left) in pieces.0.iter().zip(left) {
            let (these, later) =
                std::mem::take(&mut ends).split_at_mut_checked(piece.cells.len()).unwrap_or_default();
            ends = later;
            if from > to {
                // Only text becomes shorter: its items are bytes.
                values.copy_within(from..from + left, to);
                these.iter_mut().for_each(|end| *end = end.saturating_sub_unsigned((from - to) as u64));
            }
            from += usize::try_from(piece.items).unwrap_or(usize::MAX);
            to += left;
        }
        to
    }

    /// Resolves a piece.
    fn piece(
        &self,
        piece: &Piece,
        shared: Option<&[Arc<Collection>]>,
        mut end: i64,
        ends: &mut [i64],
        mut place: &mut [u8],
    ) -> Result<(), Hdf5Error> {
        let addresses = piece.collections.as_deref().unwrap_or_default();
        let own;
        let there = match shared {
            Some(shared) => shared,
            None => {
                own = self.fetch(addresses)?;
                &own
            }
        };
        let mut open: Vec<(&Collection, &[u8])> = Vec::with_capacity(addresses.len());
        open.extend(addresses.iter().filter_map(|address| {
            let place = there.binary_search_by_key(address, |found| found.address()).ok()?;
            there.get(place).map(|found| (&**found, found.bytes()))
        }));
        let (mut cell, mut rest) = (piece.cells.start, piece.numbers.iter().zip(ends));
        self.ids.walk(piece.cells.clone(), |id| {
            let Some((number, end_of_cell)) = rest.next() else { return Ok(()) };
            let of_cell = usize::try_from(*number).ok().and_then(|number| open.get(number));
            if let (Some((len, _, index)), Some((collection, bytes))) = (id, of_cell) {
                // All elements together are as long as `place` is.
                let bytes_of_cell =
                    usize::try_from(len).unwrap_or(usize::MAX).saturating_mul(self.items.size);
                let parts = std::mem::take(&mut place).split_at_mut_checked(bytes_of_cell);
                let (here, later) = parts.unwrap_or_default();
                place = later;
                let mut put = || {
                    let object = self.items.payload(collection.object_in(bytes, index), index, len)?;
                    self.items.put(self.file, object, here).map_err(ObjectError::Read)
                };
                put().map_err(|error| error.of(self.file, self.first.saturating_add(cell), collection))?;
                end = end.saturating_add(len.into());
            }
            *end_of_cell = end;
            cell += 1;
            Ok(())
        })
    }

    /// Fetches collections, in runs. They are returned in the order of their addresses.
    fn fetch(&self, addresses: &[u64]) -> Result<Vec<Arc<Collection>>, Hdf5Error> {
        let mut sorted = Cow::Borrowed(addresses);
        if !sorted.is_sorted() {
            sorted.to_mut().sort_unstable();
        }
        let (mut found, mut rest) = (Vec::new(), &*sorted);
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
