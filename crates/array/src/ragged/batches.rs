//! A selection cut into parts that follow each other in C order.
//!
//! The result is counted along factors: axes, and lists of points. A part is some rows along one of
//! them: of the slower ones one element each, of the faster ones everything. So that chunks are not
//! decoded twice, a part ends where a chunk ends, if it can ([`Cuts`] says where for points): a
//! smaller part is taken for that, or a larger one within a bound.

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use super::cuts::{Bounds, Cuts};
use crate::dims::element_count;
use crate::error::ArrayError;
use crate::execute::tasks::memory_error;
use crate::layout::ArrayLayout;
use crate::read;
use crate::read::options::ReadOptions;
use crate::read::read_into;
use crate::runtime::memory::Memory;
use crate::select::Factor;
use crate::select::Selection;
use crate::select::axis::AxisSelection;
use crate::select::view::Target;
use smallvec::SmallVec;
use std::cmp::Ordering;

/// Elements of fixed size (heap ids, cells) that were read: a part of a request.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Their bytes, dense, in C order.
    pub memory: &'a [u8],
    /// How many there were before.
    pub first: usize,
    /// How many there are.
    pub count: usize,
}

/// Reads a selection in batches of about `cells` elements, in C order, and gives each to `each`:
/// what becomes of references need not be in memory as a whole. Batches end where chunks end, if
/// that is possible without being many times larger; they are larger than `cells` only where chunks
/// with codecs would otherwise be decoded several times (all in one where points of few chunks jump
/// back and forth). Of a selection of nothing there is none. Stops at the first error.
pub fn in_batches<E: From<ArrayError>>(
    layout: &ArrayLayout,
    selection: &Selection,
    options: ReadOptions<'_>,
    cells: usize,
    each: &mut dyn FnMut(Batch<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let options = ReadOptions { fortran: false, ..options };
    let mut batches = Batches::new(layout, selection)?;
    let mut buffer: Option<Memory> = None;
    let mut first = 0;
    while let Some(part) = batches.next(layout, first, cells as u64, u64::MAX)? {
        batches.read(layout, &part, options, &mut buffer, &mut |memory| {
            each(Batch { memory, first: first as usize, count: part.count as usize })
        })?;
        first += part.count;
    }
    Ok(())
}

/// The parts of a selection on an array.
pub(super) struct Batches<'s> {
    selection: &'s Selection,
    /// What the elements of the result are counted along, from slow to fast, and how far.
    factors: SmallVec<[(Factor, u64); 8]>,
    /// Of each of the selection's points, as soon as there is more than one part.
    cuts: Vec<Cuts>,
    /// Elements of a chunk per axis.
    chunk: &'s [u64],
    /// Whether a chunk that is met by two parts costs twice.
    coded: bool,
    /// Elements that are selected.
    total: u64,
}

/// A part of a selection.
pub(super) struct Share<'s> {
    /// `None`: all of it.
    selection: Option<Selection>,
    whole: &'s Selection,
    pub(super) count: u64,
    /// In how many stretches of points it is (see [`Cuts`]); 0 where chunks have as much of each
    /// part.
    pub(super) stretches: u64,
}

impl Share<'_> {
    pub(super) fn selection(&self) -> &Selection {
        self.selection.as_ref().unwrap_or(self.whole)
    }
}

/// A batch may be so many times larger than it should be, so that no chunk is decoded twice.
const LARGER: u64 = 8;

impl<'s> Batches<'s> {
    /// Errors with [`ArrayError::Index`] where the selection was made for another shape.
    pub(super) fn new(layout: &'s ArrayLayout, selection: &'s Selection) -> Result<Self, ArrayError> {
        selection.check(layout.name(), layout.shape())?;
        let total = if selection.is_empty() { Some(0) } else { element_count(&selection.shape()) };
        // Counts of a request are also places in memory.
        let total = total.filter(|total| isize::try_from(*total).is_ok());
        let total = total.ok_or_else(|| memory_error(layout, "the result", u64::MAX))?;
        let coded = !layout.encoding().chain().is_identity();
        let mut factors = SmallVec::new();
        selection.for_each_part(|factor| {
            let len = match factor {
                Factor::Axis(k) => selection.axes()[k].len,
                Factor::Points(n) => selection.points()[n].shape.iter().product(),
            };
            factors.push((factor, len));
        });
        Ok(Batches { selection, factors, cuts: Vec::new(), chunk: layout.grid().chunk_shape(), coded, total })
    }

    /// How many elements there are.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The part from element number `first` on (in C order), of about `cells` elements, in no more
    /// stretches of points than `stretches`, if that is possible without decoding chunks again and
    /// again. `None`: that is the end. Parts are to be taken one after the other.
    pub(super) fn next(
        &mut self,
        layout: &ArrayLayout,
        first: u64,
        cells: u64,
        stretches: u64,
    ) -> Result<Option<Share<'s>>, ArrayError> {
        let Some(left) = self.total.checked_sub(first).filter(|left| *left > 0) else { return Ok(None) };
        let cells = cells.max(1);
        if first == 0 && left <= cells {
            return Ok(Some(Share { selection: None, whole: self.selection, count: left, stretches: 0 }));
        }
        let none = || memory_error(layout, "the points of a batch", left);
        if self.cuts.is_empty() {
            let cuts = self.selection.points().iter().map(|points| Cuts::new(points, self.chunk, self.coded));
            self.cuts = cuts.collect::<Option<_>>().ok_or_else(none)?;
        }
        let chunk: u64 = self.chunk.iter().fold(1, |all, len| all.saturating_mul(*len));
        let more = cells.saturating_mul(LARGER).max(self.total / LARGER);
        let most = more.max(chunk);
        // The slowest factor along which rows may be taken from here: with few enough elements in a
        // row, and none of the row that is next taken already.
        let (mut along, mut row) = (self.factors.len() - 1, 1);
        for k in (1..self.factors.len()).rev() {
            let slower = row * self.factors[k].1;
            let most = if self.shares(k - 1) { most } else { cells };
            if slower > most || !first.is_multiple_of(slower) {
                break;
            }
            (along, row) = (k - 1, slower);
        }
        let mut rest = first / row;
        let from = rest % self.factors[along].1;
        let rows = |elements: u64| (elements / row).max(1);
        let (to, stretches) = match self.factors[along].0 {
            Factor::Axis(k) => (self.end(k, from, rows(cells), rows(most)), 0),
            Factor::Points(n) => {
                let bounds = Bounds { wanted: rows(cells), stretches, most: rows(more), chunk: rows(most) };
                let to = self.cuts[n].end(from, &bounds);
                (to, self.cuts[n].stretches(from, to))
            }
        };
        let mut axes: SmallVec<[AxisSelection; 8]> = self.selection.axes().into();
        let mut points = Vec::new();
        for (k, (factor, len)) in self.factors.iter().enumerate().rev() {
            let (at, taken) = match k.cmp(&along) {
                Ordering::Greater => (0, *len),
                Ordering::Equal => (from, to - from),
                Ordering::Less => (rest % len, 1),
            };
            if k <= along {
                rest /= len;
            }
            match *factor {
                Factor::Axis(k) => {
                    axes[k].first = element(&axes[k], at);
                    axes[k].len = taken;
                }
                Factor::Points(n) if k < along => {
                    let of = &self.selection.points()[n];
                    for (axis, first) in of.axes.iter().zip(self.cuts[n].index(of, at)) {
                        axes[*axis].first = first;
                    }
                }
                Factor::Points(n) => {
                    let part = self.cuts[n].part(&self.selection.points()[n], at, at + taken);
                    points.push(part.ok_or_else(none)?);
                }
            }
        }
        points.reverse();
        let selection = Some(Selection::of(axes, points));
        Ok(Some(Share { selection, whole: self.selection, count: (to - from) * row, stretches }))
    }

    /// Whether a chunk may have several elements that a factor tells apart, and would be decoded
    /// for each.
    fn shares(&self, factor: usize) -> bool {
        self.coded
            && match self.factors[factor].0 {
                Factor::Axis(k) => self.chunk[k] > 1,
                Factor::Points(n) => self.cuts[n].shares(),
            }
    }

    /// Where a part that begins with row `from` along an axis ends: of `rows` of them, or at most
    /// of `most`.
    fn end(&self, axis: usize, from: u64, rows: u64, most: u64) -> u64 {
        let (axis, chunk) = (&self.selection.axes()[axis], self.chunk[axis]);
        let wanted = from.saturating_add(rows);
        if wanted >= axis.len {
            return axis.len;
        }
        let before = chunk_start(axis, chunk, wanted);
        if before > from {
            return before;
        }
        if !self.coded {
            return wanted;
        }
        next_chunk(axis, chunk, wanted).min(from.saturating_add(most)).min(axis.len)
    }

    /// Reads a part, and gives its bytes to `take`. `buffer` is reused from part to part.
    pub(super) fn read<E: From<ArrayError>>(
        &self,
        layout: &ArrayLayout,
        part: &Share<'_>,
        options: ReadOptions<'_>,
        buffer: &mut Option<Memory>,
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if options.interrupt.is_some_and(|ask| ask()) {
            return Err(ArrayError::Interrupted { array: layout.name().into() }.into());
        }
        // Few elements need no memory of their own.
        let mut few = [0u128; 16];
        let none = || memory_error(layout, "elements of a batch", part.count);
        let len = (part.count as usize).checked_mul(layout.dtype().size()).ok_or_else(none)?;
        if part.count == self.total && len > size_of_val(&few) {
            // All at once: what `read` knows about arrays with few chunks is worth having.
            return take(read(layout, part.selection(), options)?.as_slice());
        }
        let memory = match len <= size_of_val(&few) {
            true => &mut bytemuck::cast_slice_mut(&mut few)[..len],
            false => {
                // What it holds is not needed: another block, in use before, costs less than making
                // this one larger.
                if !buffer.as_mut().is_some_and(|memory| len <= memory.room() && memory.resize(len)) {
                    *buffer = None;
                    *buffer = Some(Memory::dirty(len).ok_or_else(none)?);
                }
                buffer.as_mut().map(Memory::as_mut_slice).unwrap_or_default()
            }
        };
        let shape = part.selection().shape();
        let mut target = Target::dense(memory, &shape, layout.dtype().size()).ok_or_else(none)?;
        read_into(layout, part.selection(), &mut target, options)?;
        take(memory)
    }
}

/// The number of the `at`-th element of an axis that is selected.
fn element(axis: &AxisSelection, at: u64) -> u64 {
    axis.first.wrapping_add_signed(axis.step.wrapping_mul(at as i64))
}

/// The first selected element of the chunk that holds the `at`-th.
fn chunk_start(axis: &AxisSelection, chunk: u64, at: u64) -> u64 {
    let within = element(axis, at) % chunk;
    let before = if axis.step > 0 { within } else { chunk - 1 - within };
    at.saturating_sub(before / axis.step.unsigned_abs())
}

/// The first selected element of the chunk behind that which holds the `at`-th (there may be none;
/// then it is one that is not selected).
fn next_chunk(axis: &AxisSelection, chunk: u64, at: u64) -> u64 {
    let within = element(axis, at) % chunk;
    let left = if axis.step > 0 { chunk - within } else { within + 1 };
    at.saturating_add(left.div_ceil(axis.step.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::Index;
    use crate::tests::generated::{index, spec};
    use crate::tests::model::{Spec, Watched, filled, get, on, select};
    use crate::tests::points::chosen;
    use hyperslab_store::MemoryStore;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn batches_are_the_whole_in_order(
            (spec, selection) in spec().prop_flat_map(|spec| {
                let indices: Vec<_> = spec.shape.iter().map(|len| index(*len)).collect();
                let shape = spec.shape.clone();
                let ranges = indices.prop_map(move |indices| select(&shape, &indices));
                let points = chosen(spec.shape.clone()).prop_map(|chosen| chosen.selection);
                (Just(spec), prop_oneof![ranges, points])
            }),
            cells in 0usize..70,
        ) {
            let layout = spec.layout(&MemoryStore::new());
            filled(&layout);
            let wanted = get(&layout, &selection);
            let (mut found, mut count) = (Vec::new(), 0);
            in_batches::<ArrayError>(&layout, &selection, ReadOptions::default(), cells, &mut |batch| {
                assert_eq!(batch.first, count);
                assert!(batch.count > 0);
                assert_eq!(batch.memory.len(), batch.count * layout.dtype().size());
                let total = selection.shape().iter().product::<u64>() as usize;
                let chunk = spec.chunk.iter().product::<u64>() as usize;
                let most = (cells.max(1) * 8).max(total / 8).max(chunk);
                assert!(batch.count <= most || !selection.points().is_empty());
                assert!(spec.codecs != 0 || batch.count <= cells.max(1));
                count += batch.count;
                found.extend_from_slice(batch.memory);
                Ok(())
            }).unwrap();
            prop_assert!(found == wanted.as_slice());
        }
    }

    /// Where batches of an axis of `len` elements begin.
    fn starts(spec: &Spec, indices: &[Index<'_>], cells: usize) -> Vec<usize> {
        let layout = spec.layout(&MemoryStore::new());
        let selection = select(&spec.shape, indices);
        let mut starts = Vec::new();
        in_batches::<ArrayError>(&layout, &selection, ReadOptions::default(), cells, &mut |batch| {
            starts.push(batch.first);
            Ok(())
        })
        .unwrap();
        starts
    }

    #[test]
    fn batches_end_where_chunks_end() {
        let mut spec = Spec::plain(&[100], &[10], "<u2");
        assert_eq!(starts(&spec, &[], 100), [0]);
        assert_eq!(starts(&spec, &[], 25), [0, 20, 40, 60, 80]);
        assert_eq!(starts(&spec, &[Index::range(5, 50)], 25), [0, 25]);
        let back = Index::Slice { start: None, stop: None, step: -3 };
        // 99, 96, … 60 | 57, … 12 | 9, … 0
        assert_eq!(starts(&spec, &[back], 16), [0, 14, 30]);
        // Of chunks without codecs any part can be read.
        assert_eq!(starts(&spec, &[], 9)[..4], [0, 9, 10, 19]);
        spec.codecs = 1;
        assert_eq!(starts(&spec, &[], 9)[..4], [0, 10, 20, 30]);
        assert_eq!(starts(&spec, &[], 1)[..4], [0, 10, 20, 30]);

        // Rows of four: two of them are a chunk's, which is not to be decoded twice.
        let mut spec = Spec::plain(&[8, 4], &[2, 2], "<u2");
        assert_eq!(starts(&spec, &[], 4), [0, 4, 8, 12, 16, 20, 24, 28]);
        assert_eq!(starts(&spec, &[], 3)[..4], [0, 2, 4, 6]);
        spec.codecs = 1;
        assert_eq!(starts(&spec, &[], 4), [0, 8, 16, 24]);
        assert_eq!(starts(&spec, &[], 1), [0, 8, 16, 24]);
    }

    /// Reads points in batches of about `cells`; gives the most chunks that one batch decoded, and
    /// how many all did.
    fn decoded(shape: &[u64], chunk: &[u64], indices: &[Index<'_>], cells: usize) -> (usize, usize) {
        let spec = Spec { codecs: 1, ..Spec::plain(shape, chunk, "<u2") };
        let (store, log) = (MemoryStore::new(), Arc::new(Mutex::new(BTreeSet::new())));
        filled(&spec.layout(&store));
        let seen = log.clone();
        let watched = Watched(move |chunk: &[u64]| {
            seen.lock().unwrap().insert(chunk.to_vec());
        });
        let layout = spec.layout_with(Arc::new(store), Arc::new(watched));
        let len =
            |index: &Index<'_>| if let Index::List(list) = index { Some(list.len() as u64) } else { None };
        let dims = [indices.iter().find_map(len).unwrap()];
        let selection = Selection::pointwise("test", shape, indices, &dims).unwrap();
        let (mut most, mut all) = (0, 0);
        in_batches::<ArrayError>(&layout, &selection, on(1), cells, &mut |_| {
            let chunks = std::mem::take(&mut *log.lock().unwrap()).len();
            (most, all) = (most.max(chunks), all + chunks);
            Ok(())
        })
        .unwrap();
        (most, all)
    }

    #[test]
    fn points_touch_few_chunks_at_a_time_and_few_of_them_twice() {
        // Sorted, irregular: five or six of each of 100 chunks.
        let sorted: Vec<i64> = (0..1000).filter(|at| at * at % 13 < 9).collect();
        assert_eq!(decoded(&[1000], &[10], &[Index::List(&sorted)], 70), (13, 100));
        assert_eq!(decoded(&[1000], &[10], &[Index::List(&sorted)], 3), (1, 100));
        let back: Vec<i64> = sorted.iter().rev().copied().collect();
        assert_eq!(decoded(&[1000], &[10], &[Index::List(&back)], 3), (1, 100));
        // The same points in another order of chunks.
        let mut groups: Vec<i64> = sorted.clone();
        groups.sort_by_key(|at| (at / 10 * 37 % 100, *at));
        assert_eq!(decoded(&[1000], &[10], &[Index::List(&groups)], 3), (1, 100));
        // Few points, each in a chunk of its own: as many at a time as there should be.
        let far: Vec<i64> = (0..100).map(|n| n * 37 % 100 * 10).collect();
        assert_eq!(decoded(&[1000], &[10], &[Index::List(&far)], 7), (7, 100));
        // Back and forth: each batch would need all of them.
        let jumps: Vec<i64> = (0..1000).map(|n| n * 613 % 1000).collect();
        assert_eq!(decoded(&[1000], &[10], &[Index::List(&jumps)], 1), (100, 100));
        // In one half, then in the other.
        let halves: Vec<i64> = (0..1000).map(|n| n / 500 * 500 + n * 613 % 500).collect();
        assert_eq!(decoded(&[1000], &[10], &[Index::List(&halves)], 1), (50, 100));

        // On two axes, row by row of elements: rows of chunks are decoded once.
        let rows: Vec<i64> = (0..40 * 40).filter(|at| at * at % 13 < 9).collect();
        let (i, k): (Vec<i64>, Vec<i64>) = rows.iter().map(|at| (at / 40, at % 40)).unzip();
        assert_eq!(decoded(&[40, 40], &[4, 4], &[Index::List(&i), Index::List(&k)], 120), (10, 100));
        // Points and a slice.
        assert_eq!(decoded(&[1000, 4], &[10, 2], &[Index::List(&sorted), Index::ALL], 28), (2, 200));
        assert_eq!(
            decoded(&[4, 1000], &[2, 10], &[Index::range(0, 2), Index::List(&sorted)], 1400),
            (100, 100)
        );
    }

    #[test]
    fn batches_of_points() {
        let mut spec = Spec::plain(&[100], &[10], "<u2");
        // Of chunks without codecs any part can be read.
        assert_eq!(starts(&spec, &[Index::List(&[3, 99, 50, 3])], 1), [0, 1, 2, 3]);
        spec.codecs = 1;
        assert_eq!(starts(&spec, &[Index::List(&[3, 99, 50, 3])], 1), [0, 1, 2, 3]);
        assert_eq!(starts(&spec, &[Index::List(&[3, 4, 6, 50, 51, 53, 99])], 4), [0, 3]);
        assert_eq!(starts(&spec, &[Index::List(&[3, 4, 6, 50, 51, 53, 99])], 2), [0, 3, 6]);
        assert_eq!(starts(&spec, &[Index::List(&[3, 99, 50, 3])], 4), [0]);
    }

    #[test]
    fn nothing_comes_not_at_all() {
        let spec = Spec::plain(&[100], &[10], "<u2");
        assert_eq!(starts(&spec, &[Index::range(5, 5)], 1).len(), 0);
        assert_eq!(starts(&Spec::plain(&[3, 0], &[1, 1], "<u2"), &[], 1).len(), 0);
        assert_eq!(starts(&Spec::plain(&[], &[], "<u2"), &[], 0), [0]);
        let layout = spec.layout(&MemoryStore::new());
        let other = Selection::all(&[200]);
        let result = in_batches::<ArrayError>(&layout, &other, ReadOptions::default(), 10, &mut |_| Ok(()));
        assert!(matches!(result, Err(ArrayError::Index { .. })));
    }

    #[test]
    fn an_error_stops_it() {
        let layout = Spec::plain(&[100], &[10], "<u2").layout(&MemoryStore::new());
        let mut calls = 0;
        let result = in_batches(&layout, &Selection::all(&[100]), ReadOptions::default(), 10, &mut |batch| {
            calls += 1;
            if batch.first < 30 { Ok(()) } else { Err(ArrayError::Interrupted { array: "here".into() }) }
        });
        assert!(matches!(result, Err(ArrayError::Interrupted { .. })));
        assert_eq!(calls, 4);
    }
}
