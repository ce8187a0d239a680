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
    /// Where the first one goes, in elements from the start of the ascending selection. (Of points
    /// that are on several axes: how many come before it, at the first of these axes.)
    pub out: Dims,
    /// Which points, along the axes that have them, where there is more than one run of them; their
    /// axes count one element above.
    pub(crate) picks: Vec<Pick>,
    /// Whether every element of the chunk is selected. Never of one that reaches past the array's
    /// end: somebody else may have made the array longer, and have written there.
    pub whole: bool,
}

impl Task {
    /// Number of selected elements.
    pub fn elements(&self) -> u64 {
        self.count.iter().product::<u64>() * self.picks.iter().map(|pick| pick.points).product::<u64>()
    }

    /// Whether every element of the chunk of `grid` that lies inside an array of `shape` is
    /// selected, as far as slices tell.
    pub(crate) fn covers(&self, grid: &ChunkGrid, shape: &[u64]) -> bool {
        let mut axes = self.chunk.iter().zip(&self.count).zip(shape).enumerate();
        self.picks.is_empty()
            && axes.all(|(k, ((chunk, count), extent))| *count == grid.inside(k, *chunk, *extent))
    }
}

/// The bytes of a decoded chunk between the first that a task wants and the last.
pub(crate) fn reach(layout: &ArrayLayout, task: &Task) -> Range<usize> {
    let (strides, start) = within_chunk(layout, task);
    let last: usize =
        strides.iter().zip(&task.count).map(|(step, count)| *step as usize * (*count as usize - 1)).sum();
    let end = start + last + layout.encoding().element_size();
    let picks = task.picks.iter().map(|pick| pick.reach.start as usize..pick.reach.end as usize);
    picks.fold(start..end, |reach, pick| reach.start + pick.start..reach.end + pick.end)
}

/// Bytes between selected elements in a decoded chunk, per axis, and those before the first.
pub(crate) fn within_chunk(layout: &ArrayLayout, task: &Task) -> (Strides, usize) {
    let given = layout.encoding().strides();
    // A step is at most the chunk's length where more than one element is selected, so products
    // stay inside the chunk.
    let strides = given
        .iter()
        .zip(task.step.iter().zip(&task.count))
        .map(|(stride, (step, count))| if *count > 1 { stride * *step as isize } else { 0 })
        .collect();
    let offset =
        given.iter().zip(&task.first).map(|(stride, first)| *stride as usize * *first as usize).sum();
    (strides, offset)
}
