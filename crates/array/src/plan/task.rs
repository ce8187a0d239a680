//! One chunk's share of a request.

#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::dims::{Dims, Strides};
use crate::layout::ArrayLayout;
use crate::layout::grid::ChunkGrid;
use crate::plan::pick::Pick;
use std::ops::Range;

/// One chunk's share of a request. All vectors have one number per axis of the array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Which chunk.
    pub chunk: Dims,
    /// First selected element within the chunk.
    pub first: Dims,
    /// Distance between selected elements, at least 1.
    pub step: Dims,
    /// Number of selected elements.
    pub count: Dims,
    /// Position of the first one, in elements from the start of the ascending selection. (For
    /// points on several axes: the number of points before it, at the first of these axes.)
    pub out: Dims,
    /// The points, if they form more than one run. Their axes have a count of 1 above.
    pub(crate) picks: Vec<Pick>,
    /// `true` if every element of the chunk is selected. Always `false` for a chunk that reaches
    /// past the array's end: others may have made the array longer and written there.
    pub whole: bool,
}

impl Task {
    /// Number of selected elements.
    pub fn elements(&self) -> u64 {
        self.count.iter().product::<u64>() * self.picks.iter().map(|pick| pick.points).product::<u64>()
    }

    /// Returns whether every element of the chunk that lies inside the array is selected.
    ///
    /// The chunk is one of `grid`, the array has `shape`. Always `false` for a task with picks.
    pub(crate) fn covers(&self, grid: &ChunkGrid, shape: &[u64]) -> bool {
        let mut axes = self.chunk.iter().zip(&self.count).zip(shape).enumerate();
        self.picks.is_empty()
            && axes.all(|(k, ((chunk, count), extent))| *count == grid.len_inside(k, *chunk, *extent))
    }
}

/// The bytes of a decoded chunk from the first to the last that a task wants.
pub(crate) fn reach(layout: &ArrayLayout, task: &Task) -> Range<usize> {
    let (strides, start) = within_chunk(layout, task);
    let last: usize =
        strides.iter().zip(&task.count).map(|(step, count)| *step as usize * (*count as usize - 1)).sum();
    let end = start + last + layout.encoding().element_size();
    let picks = task.picks.iter().map(|pick| pick.reach.start as usize..pick.reach.end as usize);
    picks.fold(start..end, |reach, pick| reach.start + pick.start..reach.end + pick.end)
}

/// Bytes between selected elements in a decoded chunk, per axis; and bytes before the first one.
pub(crate) fn within_chunk(layout: &ArrayLayout, task: &Task) -> (Strides, usize) {
    let given = layout.encoding().strides();
    // If more than one element is selected, the step is at most the chunk's length, and the
    // products stay inside the chunk.
    let strides = given
        .iter()
        .zip(task.step.iter().zip(&task.count))
        .map(|(stride, (step, count))| if *count > 1 { stride * *step as isize } else { 0 })
        .collect();
    let offset =
        given.iter().zip(&task.first).map(|(stride, first)| *stride as usize * *first as usize).sum();
    (strides, offset)
}
