//! Queued writes, and how several become one.
//!
//! Rows written one by one to chunks of several rows would each decode, change and encode the same
//! chunk. If such writes wait behind each other, they are joined: the chunk is encoded once. If
//! they cover the chunk, it is not even decoded.

#![expect(
    clippy::indexing_slicing,
    reason = "axes are numbered below the rank; values were made for the selection"
)]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::copy::strided;
use crate::copy::strided::Region;
use crate::dims::{Dims, Strides, c_strides, element_count};
use crate::error::ArrayError;
use crate::execute::tasks::{Interrupt, memory_error};
use crate::layout::ArrayLayout;
use crate::runtime::memory::Memory;
use crate::select::axis::AxisSelection;
use crate::select::view::Source;
use crate::select::{Index, Selection};
use crate::write;
use crate::write::WriteOptions;
use smallvec::SmallVec;
use std::sync::Arc;

/// The copied elements of a write.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) layout: Arc<ArrayLayout>,
    pub(crate) selection: Selection,
    pub(crate) values: Memory,
    /// Strides of the values, per axis of the selection's shape; 0 along axes that repeat.
    pub(crate) strides: Strides,
}

/// One write, or several that continue each other along an axis.
pub(crate) type JoinedWrites = SmallVec<[Work; 1]>;

/// Executes a batch.
pub(crate) fn execute(
    batch: &[Work],
    write_empty_chunks: Option<bool>,
    interrupt: Option<Interrupt<'_>>,
) -> Result<(), ArrayError> {
    let options = WriteOptions { threads: Some(1), write_empty_chunks, interrupt, ..WriteOptions::default() };
    if let [first, .., last] = batch {
        let (selection, values) = join_writes(batch, first, last)?;
        let (layout, shape) = (&first.layout, selection.shape());
        let Some(source) = Source::dense(values.as_slice(), &shape, layout.dtype().size()) else {
            return Err(memory_error(layout, "joined writes", values.len() as u64));
        };
        return write(layout, &selection, &source, options);
    }
    batch.iter().try_for_each(|work| {
        let (values, shape) = (work.values.as_slice(), work.selection.shape());
        // SAFETY: the values have the selection's shape, except for axes that repeat, whose strides
        // are 0. Nobody changes the values.
        let source = unsafe { Source::from_raw(values.as_ptr(), &shape, &work.strides) };
        write(&work.layout, &work.selection, &source, options)
    })
}

impl Work {
    /// The axis along which `next` goes on where this ends; `None` if they differ in anything else.
    ///
    /// Axes before this one must have length 1: their other elements would lie between the two
    /// writes.
    pub(crate) fn continued_by(&self, next: &Work) -> Option<usize> {
        let same =
            |a: &AxisSelection, b: &AxisSelection| (a.first, a.step, a.len) == (b.first, b.step, b.len);
        let ascends = |axis: &AxisSelection| axis.step == 1 || axis.len == 1;
        let (own, other) = (self.selection.axes(), next.selection.axes());
        let axis = own.iter().zip(other).position(|(a, b)| !same(a, b))?;
        let fits = Arc::ptr_eq(&self.layout, &next.layout)
            && own[..axis].iter().all(|axis| axis.len == 1)
            && ascends(&own[axis])
            && ascends(&other[axis])
            && own[axis].first + own[axis].len == other[axis].first
            && own[axis + 1..].iter().zip(&other[axis + 1..]).all(|(a, b)| same(a, b));
        fits.then_some(axis)
    }
}

/// Joins the writes of a batch: their selection, and the elements, dense in C order.
fn join_writes(batch: &[Work], first: &Work, last: &Work) -> Result<(Selection, Memory), ArrayError> {
    let layout = &first.layout;
    let element = layout.dtype().size();
    let axes = first.selection.axes();
    // Neighbours along one axis, so the first and the last differ along it too.
    let end = last.selection.axes();
    let axis = (0..axes.len()).find(|k| axes[*k].first != end[*k].first).unwrap_or(0);
    let mut counts: Dims = axes.iter().map(|axis| axis.len).collect();
    counts[axis] = end[axis].first + end[axis].len - axes[axis].first;

    let mut indices: SmallVec<[Index<'_>; 8]> = axes.iter().map(as_slice).collect();
    indices[axis] = Index::range(axes[axis].first as i64, (axes[axis].first + counts[axis]) as i64);
    let selection = Selection::new(layout.name(), layout.shape(), &indices)?;

    let bytes = element_count(&counts).unwrap_or(u64::MAX).saturating_mul(element as u64);
    let memory = usize::try_from(bytes).ok().and_then(Memory::dirty);
    let mut memory = memory.ok_or_else(|| memory_error(layout, "joined writes", bytes))?;
    let dense = c_strides(&counts, element);
    for work in batch {
        let parts = work.selection.axes();
        let mut given = work.strides.iter();
        let strides: Strides = parts
            .iter()
            .map(|axis| if axis.dropped { 0 } else { given.next().copied().unwrap_or(0) })
            .collect();
        let lens: Dims = parts.iter().map(|axis| axis.len).collect();
        let offset = dense[axis] as usize * (parts[axis].first - axes[axis].first) as usize;
        let region = Region::new(&lens, &dense, &strides, element, 1);
        // SAFETY: the part lies between the first and the last, so within `memory`; its values have
        // its shape, see `execute`.
        unsafe {
            strided::copy(
                &region,
                memory.as_mut_slice()[offset..].as_mut_ptr(),
                work.values.as_slice().as_ptr(),
            )
        };
    }
    Ok((selection, memory))
}

/// The slice that selects the same elements.
fn as_slice(axis: &AxisSelection) -> Index<'static> {
    let stop = axis.first as i128 + i128::from(axis.step) * i128::from(axis.len);
    // Before the start of the axis: a slice cannot have this number.
    let stop = i64::try_from(stop).ok().filter(|stop| *stop >= 0);
    Index::Slice { start: Some(axis.first as i64), stop, step: axis.step }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_select_the_same() {
        let shape = [17u64];
        for start in 0..17 {
            for stop in [None, Some(0), Some(3), Some(9), Some(17)] {
                for step in [1, 2, 5, 40, -1, -3, -40, i64::MAX, i64::MIN] {
                    let index = Index::Slice { start: Some(start), stop, step };
                    let selection = Selection::new("a", &shape, &[index]).unwrap();
                    if !selection.is_empty() {
                        let again = as_slice(&selection.axes()[0]);
                        assert_eq!(Selection::new("a", &shape, &[again]).unwrap(), selection);
                    }
                }
            }
        }
    }
}
