//! Elements in any order of their collections, which all parts of a batch share, where these are
//! not in memory together.
//!
//! 1. Elements of a part are sorted by collection, by counting. All that is to be known of one goes
//!    with it, so that nothing else is looked for once its turn has come.
//! 2. Collections come in runs of about 1 MiB of the file. What lies together is read together;
//!    only writing jumps, within the part.
//! 3. Parts begin with different runs, which then wait in memory for the other parts, under a
//!    bound: of a heap of any size each run is fetched once for a batch, nearly.

use super::fill::{Batch, Part};
use super::ids::taken_apart;
use super::look::{Piece, RUN, bytes};
use crate::Hdf5Error;
use crate::heaps::{Collection, LINE};
use hyperslab_array::Memory;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Elements are sorted into so many groups at most, each of some neighbouring collections: the
/// cache has a line of each.
const GROUPS: usize = 1 << 10;

/// Collections of a run.
type Found = Arc<Vec<Arc<Collection>>>;

/// The collections of a batch, run by run.
pub(super) struct Runs<'a> {
    addresses: &'a [u64],
    /// A group has two to the power of this many collections.
    shift: u32,
    runs: Vec<Run>,
    /// How many parts work at a time.
    threads: usize,
    /// Bytes that wait in memory.
    waiting: AtomicU64,
}

struct Run {
    /// The collections, whole groups.
    collections: Range<usize>,
    /// Local to a request: held while its collections are fetched.
    state: Mutex<State>,
}

struct State {
    /// Parts to come.
    left: usize,
    found: Option<Found>,
}

impl<'a> Runs<'a> {
    /// Runs for so many parts.
    pub(super) fn new(addresses: &'a [u64], parts: usize, threads: usize) -> Runs<'a> {
        let shift = addresses.len().div_ceil(GROUPS).next_power_of_two().ilog2();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut begin = 0;
        for start in (0..addresses.len()).step_by(1 << shift) {
            let end = addresses.len().min(start + (1 << shift));
            let address = addresses.get(start).copied().unwrap_or_default();
            match ranges.last_mut() {
                Some(run) if address - begin < RUN => run.end = end,
                _ => {
                    begin = address;
                    ranges.push(start..end);
                }
            }
        }
        let state = || Mutex::new(State { left: parts, found: None });
        let runs = ranges.into_iter().map(|collections| Run { collections, state: state() }).collect();
        Runs { addresses, shift, runs, threads, waiting: AtomicU64::new(0) }
    }

    /// The runs as a part takes them: so that those that work at a time have different ones in
    /// hand, and soon have the same.
    fn order(&self, part: usize) -> impl Iterator<Item = &Run> {
        self.runs.chunks(self.threads).flat_map(move |runs| {
            let turn = part % self.threads % runs.len();
            (turn..runs.len()).chain(0..turn).filter_map(|number| runs.get(number))
        })
    }

    /// The collections of a run, for one part. `None`: it needs none.
    fn take(&self, run: &Run, batch: &Batch<'_>, needs: bool) -> Result<Option<Found>, Hdf5Error> {
        let mut state = run.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.left = state.left.saturating_sub(1);
        let addresses = self.addresses.get(run.collections.clone()).unwrap_or_default();
        let size = bytes(addresses);
        if let Some(found) = state.found.clone() {
            if state.left == 0 {
                state.found = None;
                self.waiting.fetch_sub(size, Ordering::Relaxed);
            }
            return Ok(needs.then_some(found));
        }
        if !needs {
            return Ok(None);
        }
        // Under the lock: another part that comes for it meanwhile shall not fetch it, too.
        let found = Arc::new(batch.fetch(addresses)?);
        if state.left > 0 && self.waiting.load(Ordering::Relaxed).saturating_add(size) <= batch.together {
            self.waiting.fetch_add(size, Ordering::Relaxed);
            state.found = Some(found.clone());
        }
        Ok(Some(found))
    }
}

/// Bytes of an element that waits for its collection.
const WANTED: usize = 16;

/// Items of the part before an element, index of its object, its items, and number of its
/// collection. (No memory has 2⁴⁸ items.)
#[inline]
fn wanted(start: u64, index: u16, len: u32, collection: u32) -> [u8; WANTED] {
    let all = u128::from(start & ((1 << 48) - 1)) | u128::from(index) << 48 | u128::from(len) << 64;
    (all | u128::from(collection) << 96).to_le_bytes()
}

#[inline]
fn unpacked(bytes: &[u8; WANTED]) -> (u64, u32, u32, u32) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *bytes;
    let start = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    let (index, len) = (u16::from_le_bytes([g, h]), u32::from_le_bytes([i, j, k, l]));
    (start, index.into(), len, u32::from_le_bytes([m, n, o, p]))
}

impl Batch<'_> {
    /// Resolves a part. `places`: for each piece where its collections are in `runs`.
    pub(super) fn in_any_order(
        &self,
        pieces: &[Piece],
        places: &[Vec<u32>],
        runs: &Runs<'_>,
        number: usize,
        part: &mut Part<'_>,
    ) -> Result<(), Hdf5Error> {
        let (order, ends) = self.sorted(pieces, places, runs, part)?;
        let (order, _) = order.as_slice().as_chunks::<WANTED>();
        let group = |collection: usize| collection >> runs.shift;
        let end = |group: usize| group.checked_sub(1).and_then(|group| ends.get(group)).map_or(0, |end| *end);
        for run in runs.order(number) {
            let groups = group(run.collections.start)..group(run.collections.end - 1) + 1;
            let needs = end(groups.start) < end(groups.end);
            let Some(found) = runs.take(run, self, needs)? else { continue };
            let open: Vec<_> = found.iter().map(|found| found.open()).collect();
            for (group, open_here) in groups.zip(open.chunks(1 << runs.shift)) {
                let elements = order.get(end(group)..end(group + 1)).unwrap_or_default();
                let bytes: usize = open_here.iter().map(|open| open.collection.bytes().len()).sum();
                if elements.len() >= bytes / LINE / 4 {
                    open_here.iter().for_each(|open| open.collection.touch());
                }
                for (start, index, len, collection) in elements.iter().map(unpacked) {
                    let open = open.get(at(collection).wrapping_sub(run.collections.start));
                    let place = self.bytes(start)..self.bytes(start.saturating_add(len.into()));
                    let here = part.values.get_mut(place);
                    self.copy(open, index, len, here).map_err(|error| {
                        let address = runs.addresses.get(at(collection)).copied().unwrap_or_default();
                        self.about((len, address, index), error)
                    })?;
                }
            }
        }
        Ok(())
    }

    /// The elements of a part by group, and where those of each group end. Notes where the items of
    /// each element end.
    fn sorted(
        &self,
        pieces: &[Piece],
        places: &[Vec<u32>],
        runs: &Runs<'_>,
        part: &mut Part<'_>,
    ) -> Result<(Memory, Vec<usize>), Hdf5Error> {
        let groups = runs.addresses.len().div_ceil(1 << runs.shift);
        let mut next = vec![0; groups + 1];
        for (piece, places) in pieces.iter().zip(places) {
            for number in &piece.numbers {
                if let Some(place) = places.get(at(*number))
                    && let Some(count) = next.get_mut((at(*place) >> runs.shift) + 1)
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
        let (mut end, mut ends) = (part.start, part.ends.iter_mut());
        for (piece, places) in pieces.iter().zip(places) {
            let ids = self.ids.get(piece.cells.clone()).unwrap_or_default();
            for ((id, number), end_of_cell) in ids.iter().zip(&piece.numbers).zip(&mut ends) {
                if let Some((len @ 1.., address, index)) = taken_apart(id) {
                    let Ok(index) = u16::try_from(index) else {
                        let id = (len, address, index);
                        self.copy(None, index, len, None).map_err(|error| self.about(id, error))?;
                        continue;
                    };
                    if let Some(place) = places.get(at(*number))
                        && let Some(next) = next.get_mut(at(*place) >> runs.shift)
                        && let Some(entry) = order.get_mut(*next)
                    {
                        *entry = wanted(end.abs_diff(part.start), index, len, *place);
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

#[inline]
fn at(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
