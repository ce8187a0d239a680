//! A selection cut into parts that follow each other in C order.
//!
//! The result is counted along factors: axes, and lists of points. A part is some rows along one
//! factor. It takes one element of each slower factor, and all elements of the faster ones.
//!
//! If possible, a part ends where a chunk ends, so that no chunk is decoded twice. ([`Cuts`] says
//! where for points.) To do so, a part may be smaller than asked for, or larger within a bound.

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

/// A batch of elements of fixed size (heap ids, cells) that were read for a request.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Their bytes, dense, in C order.
    pub memory: &'a [u8],
    /// Number of elements in earlier batches.
    pub first: usize,
    /// Number of elements in this batch.
    pub count: usize,
}

/// Reads a selection in batches of about `cells` elements, in C order, and passes each to `each`.
///
/// The values that heap ids or cells refer to thus need not all be in memory at once. Batches end
/// where chunks end, unless that makes them many times larger. A batch exceeds `cells` only if
/// chunks with codecs would otherwise be decoded several times. If points jump back and forth
/// between few chunks, a single batch has them all. An empty selection yields no batches. Stops at
/// the first error.
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
    /// The factors of the result from slow to fast, and their lengths.
    factors: SmallVec<[(Factor, u64); 8]>,
    /// One for each set of points; made when there is more than one part.
    cuts: Vec<Cuts>,
    /// Elements per chunk along each axis.
    chunk: &'s [u64],
    /// `true` if a chunk costs twice when two parts touch it.
    coded: bool,
    /// Number of selected elements.
    total: u64,
}

/// A part of a selection.
pub(super) struct Share<'s> {
    /// `None`: the whole selection.
    selection: Option<Selection>,
    whole: &'s Selection,
    pub(super) count: u64,
    /// Number of stretches of points (see [`Cuts`]). 0 if it does not matter: for the whole
    /// selection, for parts along an axis, and without codecs.
    pub(super) stretches: u64,
}

impl Share<'_> {
    pub(super) fn selection(&self) -> &Selection {
        self.selection.as_ref().unwrap_or(self.whole)
    }
}

/// How many times larger than asked for a batch may be, so that no chunk is decoded twice.
const LARGER: u64 = 8;

impl<'s> Batches<'s> {
    /// Fails with [`ArrayError::Index`] if the selection was made for another shape.
    pub(super) fn new(layout: &'s ArrayLayout, selection: &'s Selection) -> Result<Self, ArrayError> {
        selection.check(layout.name(), layout.shape())?;
        let total = if selection.is_empty() { Some(0) } else { element_count(&selection.shape()) };
        // Counts also index memory, so they must fit `isize`.
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

    /// Number of elements in all parts.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The part that begins with element number `first` in C order; `None` at the end.
    ///
    /// The part has about `cells` elements. It has at most `stretches` stretches of points, unless
    /// that would decode chunks again and again. Parts must be taken one after the other.
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
        // Find the slowest factor along which rows may be taken from here. A row must have few
        // enough elements, and none of the next row may be taken already.
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

    /// Returns whether a chunk may hold several elements along a factor, and would be decoded for
    /// each.
    fn shares(&self, factor: usize) -> bool {
        self.coded
            && match self.factors[factor].0 {
                Factor::Axis(k) => self.chunk[k] > 1,
                Factor::Points(n) => self.cuts[n].shares(),
            }
    }

    /// Returns the end of a part along an axis that begins with row `from`. The part has about
    /// `rows` rows, and at most `most`.
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

    /// Reads a part and passes its bytes to `take`. Reuses `buffer` from part to part.
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
        // A few elements fit on the stack.
        let mut few = [0u128; 16];
        let none = || memory_error(layout, "elements of a batch", part.count);
        let len = (part.count as usize).checked_mul(layout.dtype().size()).ok_or_else(none)?;
        if part.count == self.total && len > size_of_val(&few) {
            // The part is the whole selection: `read` has shortcuts for arrays with few chunks.
            return take(read(layout, part.selection(), options)?.as_slice());
        }
        let memory = match len <= size_of_val(&few) {
            true => &mut bytemuck::cast_slice_mut(&mut few)[..len],
            false => {
                // The old contents are not needed. A recycled block costs less than growing this
                // one.
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

/// The array index of the `at`-th selected element of an axis.
fn element(axis: &AxisSelection, at: u64) -> u64 {
    axis.first.wrapping_add_signed(axis.step.wrapping_mul(at as i64))
}

/// The number of the first selected element in the chunk that holds the `at`-th one.
fn chunk_start(axis: &AxisSelection, chunk: u64, at: u64) -> u64 {
    let within = element(axis, at) % chunk;
    let before = if axis.step > 0 { within } else { chunk - 1 - within };
    at.saturating_sub(before / axis.step.unsigned_abs())
}

/// The number of the first selected element behind the chunk that holds the `at`-th one. May be
/// past the end of the selection.
fn next_chunk(axis: &AxisSelection, chunk: u64, at: u64) -> u64 {
    let within = element(axis, at) % chunk;
    let left = if axis.step > 0 { chunk - within } else { within + 1 };
    at.saturating_add(left.div_ceil(axis.step.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::Index;
    use crate::tests::model::{Spec, Watched, filled, get, on, select};
    use crate::tests::points::chosen;
    use crate::tests::properties::{index, spec};
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

    /// Returns the starts of the batches of a selection.
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
        // Without codecs, any part of a chunk can be read.
        assert_eq!(starts(&spec, &[], 9)[..4], [0, 9, 10, 19]);
        spec.codecs = 1;
        assert_eq!(starts(&spec, &[], 9)[..4], [0, 10, 20, 30]);
        assert_eq!(starts(&spec, &[], 1)[..4], [0, 10, 20, 30]);

        // Rows of four elements: two rows share a chunk, which must not be decoded twice.
        let mut spec = Spec::plain(&[8, 4], &[2, 2], "<u2");
        assert_eq!(starts(&spec, &[], 4), [0, 4, 8, 12, 16, 20, 24, 28]);
        assert_eq!(starts(&spec, &[], 3)[..4], [0, 2, 4, 6]);
        spec.codecs = 1;
        assert_eq!(starts(&spec, &[], 4), [0, 8, 16, 24]);
        assert_eq!(starts(&spec, &[], 1), [0, 8, 16, 24]);
    }

    /// Reads points in batches of about `cells`. Returns the most chunks that one batch decoded,
    /// and the total of all batches.
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
        // Sorted, irregular: five or six points in each of 100 chunks.
        let sorted: Vec<i64> = (0..1000).filter(|at| at * at % 13 < 9).collect();
        assert_eq!(decoded(&[1000], &[10], &[Index::List(&sorted)], 70), (13, 100));
        assert_eq!(decoded(&[1000], &[10], &[Index::List(&sorted)], 3), (1, 100));
        let back: Vec<i64> = sorted.iter().rev().copied().collect();
        assert_eq!(decoded(&[1000], &[10], &[Index::List(&back)], 3), (1, 100));
        // The same points in another order of chunks.
        let mut groups: Vec<i64> = sorted.clone();
        groups.sort_by_key(|at| (at / 10 * 37 % 100, *at));
        assert_eq!(decoded(&[1000], &[10], &[Index::List(&groups)], 3), (1, 100));
        // Few points, each in its own chunk: batches are as large as asked for.
        let far: Vec<i64> = (0..100).map(|n| n * 37 % 100 * 10).collect();
        assert_eq!(decoded(&[1000], &[10], &[Index::List(&far)], 7), (7, 100));
        // Back and forth: each batch would need all chunks.
        let jumps: Vec<i64> = (0..1000).map(|n| n * 613 % 1000).collect();
        assert_eq!(decoded(&[1000], &[10], &[Index::List(&jumps)], 1), (100, 100));
        // First in one half, then in the other.
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
        // Without codecs, any part of a chunk can be read.
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
