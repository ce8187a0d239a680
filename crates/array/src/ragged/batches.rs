//! A selection cut into parts that follow each other in C order.
//!
//! A part is some rows along one axis: of the slower axes one element each, of the faster ones everything. So that chunks are not decoded twice, a part ends where a chunk ends, if it can:
//! a smaller part is taken for that, or a larger one within a bound.

use crate::execute::memory_error;
use crate::{ArrayError, ArrayLayout, AxisSelection, Memory, ReadOptions, Selection, Target, element_count};
use crate::{read, read_into};
use smallvec::SmallVec;

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

/// Reads a selection in batches of about `cells` elements, in C order, and gives each to `each`: what becomes of references need not be in memory as a
/// whole. Batches end where chunks end, if that is possible without being many times larger; they are larger than `cells` only where chunks with codecs would otherwise be decoded several times. Points come in one batch, and
/// of a selection of nothing there is none. Stops at the first error.
pub fn in_batches<E: From<ArrayError>>(
    layout: &ArrayLayout,
    selection: &Selection,
    options: ReadOptions<'_>,
    cells: usize,
    each: &mut dyn FnMut(Batch<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let options = ReadOptions { fortran: false, ..options };
    let batches = Batches::new(layout, selection)?;
    let mut buffer: Option<Memory> = None;
    let mut first = 0;
    while let Some(part) = batches.next(first, cells as u64) {
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
    /// Elements of a chunk per axis.
    chunk: &'s [u64],
    /// Whether a chunk that is met by two parts costs twice.
    coded: bool,
    /// Elements that are selected.
    total: u64,
}

/// A part of a selection.
pub(super) struct Part<'s> {
    /// `None`: all of it.
    selection: Option<Selection>,
    whole: &'s Selection,
    pub(super) count: u64,
}

impl Part<'_> {
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
        Ok(Batches { selection, chunk: layout.grid().chunk_shape(), coded, total })
    }

    /// How many elements there are.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The part from element number `first` on (in C order), of about `cells` elements. `None`: that is the end. Parts are to be taken one after the other.
    pub(super) fn next(&self, first: u64, cells: u64) -> Option<Part<'s>> {
        let left = self.total.checked_sub(first).filter(|left| *left > 0)?;
        let cells = cells.max(1);
        if first == 0 && (left <= cells || !self.selection.points().is_empty()) {
            return Some(Part { selection: None, whole: self.selection, count: left });
        }
        let axes = self.selection.axes();
        let chunk: u64 = self.chunk.iter().fold(1, |all, len| all.saturating_mul(*len));
        let most = cells.saturating_mul(LARGER).max(self.total / LARGER).max(chunk);
        // The slowest axis along which rows may be taken from here: with few enough elements in a row, and none of the row that is next taken already.
        let (mut along, mut row) = (axes.len() - 1, 1);
        for k in (1..axes.len()).rev() {
            let slower = row * axes[k].len;
            let most = if self.coded && self.chunk[k - 1] > 1 { most } else { cells };
            if slower > most || !first.is_multiple_of(slower) {
                break;
            }
            (along, row) = (k - 1, slower);
        }
        let mut rest = first / row;
        let mut part: SmallVec<[AxisSelection; 8]> = axes.into();
        let from = rest % axes[along].len;
        let to = self.end(along, from, row, cells, most);
        for k in (0..=along).rev() {
            let axis = &mut part[k];
            let (at, len) = if k == along { (from, to - from) } else { (rest % axis.len, 1) };
            rest /= axes[k].len;
            axis.first = element(axis, at);
            axis.len = len;
        }
        Some(Part { selection: Some(Selection::of(part)), whole: self.selection, count: (to - from) * row })
    }

    /// Where a part that begins with row `from` along an axis ends, of rows of `row` elements.
    fn end(&self, along: usize, from: u64, row: u64, cells: u64, most: u64) -> u64 {
        let (axis, chunk) = (&self.selection.axes()[along], self.chunk[along]);
        let wanted = from + (cells / row).max(1);
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
        next_chunk(axis, chunk, wanted).min(from.saturating_add((most / row).max(1))).min(axis.len)
    }

    /// Reads a part, and gives its bytes to `take`. `buffer` is reused from part to part.
    pub(super) fn read<E: From<ArrayError>>(
        &self,
        layout: &ArrayLayout,
        part: &Part<'_>,
        options: ReadOptions<'_>,
        buffer: &mut Option<Memory>,
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
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
                // What it holds is not needed: another block, in use before, costs less than making this one larger.
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

/// The first selected element of the chunk behind that which holds the `at`-th (there may be none; then it is one that is not selected).
fn next_chunk(axis: &AxisSelection, chunk: u64, at: u64) -> u64 {
    let within = element(axis, at) % chunk;
    let left = if axis.step > 0 { chunk - within } else { within + 1 };
    at.saturating_add(left.div_ceil(axis.step.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::generated::{index, spec};
    use crate::tests::model::Spec;
    use crate::{Index, Source, WriteOptions, write};
    use hyperslab_store::MemoryStore;
    use proptest::prelude::*;

    fn numbers(layout: &ArrayLayout) -> Vec<u8> {
        let all = Selection::all(layout.shape());
        let size = layout.dtype().size();
        let count = all.shape().iter().product::<u64>() as usize;
        let values: Vec<u8> =
            (0..count).flat_map(|n| (0..size).map(move |k| (n >> (8 * (k % 4))) as u8 ^ k as u8)).collect();
        write(layout, &all, &Source::dense(&values, &all.shape(), size).unwrap(), WriteOptions::default())
            .unwrap();
        values
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn batches_are_the_whole_in_order(
            (spec, selection) in spec().prop_flat_map(|spec| {
                let indices: Vec<_> = spec.shape.iter().map(|len| index(*len)).collect();
                let shape = spec.shape.clone();
                (Just(spec), indices.prop_map(move |indices| Selection::new("test", &shape, &indices).unwrap()))
            }),
            cells in 0usize..70,
        ) {
            let layout = spec.layout(&MemoryStore::new());
            numbers(&layout);
            let wanted = read(&layout, &selection, ReadOptions::default()).unwrap();
            let (mut found, mut count) = (Vec::new(), 0);
            in_batches::<ArrayError>(&layout, &selection, ReadOptions::default(), cells, &mut |batch| {
                assert_eq!(batch.first, count);
                assert!(batch.count > 0);
                assert_eq!(batch.memory.len(), batch.count * layout.dtype().size());
                let total = selection.shape().iter().product::<u64>() as usize;
                let chunk = spec.chunk.iter().product::<u64>() as usize;
                let most = (cells.max(1) * 8).max(total / 8).max(chunk);
                assert!(batch.count <= most);
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
        let selection = Selection::new("test", &spec.shape, indices).unwrap();
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

    #[test]
    fn points_come_at_once_and_nothing_not_at_all() {
        let spec = Spec::plain(&[100], &[10], "<u2");
        assert_eq!(starts(&spec, &[Index::List(&[3, 99, 50, 3])], 1), [0]);
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
