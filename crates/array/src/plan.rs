//! A selection cut along the chunk grid.

use crate::{ArrayLayout, Dims, Selection};
use smallvec::SmallVec;

/// The part of one axis of a selection that falls into one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// Chunk index along the axis.
    chunk: u64,
    /// First selected element, counted from the start of the chunk.
    first: u64,
    /// Number of selected elements.
    count: u64,
    /// Position of the first one along the ascending selection.
    out: u64,
}

/// One axis of a plan, always walked upwards; a negative step is the target's to mirror.
#[derive(Clone, Debug)]
struct AxisPlan {
    spans: SmallVec<[Span; 4]>,
    step: u64,
}

/// The tasks of a request: one for each chunk that has a selected element, in C order of the chunks.
///
/// Spans are worked out once per axis, not per chunk; task `i` is put together from them on demand, on the thread that executes it,
/// without allocating.
#[derive(Clone, Debug)]
pub struct Plan {
    axes: SmallVec<[AxisPlan; 8]>,
    count: usize,
}

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
    /// Where the first one goes, in elements from the start of the ascending selection.
    pub out: Dims,
    /// Whether every element of the chunk that lies inside the array is selected.
    pub whole: bool,
}

impl Plan {
    /// Cuts `selection`, which was made for this layout's shape. `None` where that gives more tasks than can be counted.
    pub fn new(layout: &ArrayLayout, selection: &Selection) -> Option<Self> {
        if selection.is_empty() {
            return Some(Plan { axes: SmallVec::new(), count: 0 });
        }
        let mut axes = SmallVec::with_capacity(selection.axes().len());
        let mut count = 1usize;
        for (axis, chunk) in selection.axes().iter().zip(layout.grid().chunk_shape()) {
            let step = axis.step.unsigned_abs();
            let reach = (axis.len - 1).checked_mul(step)?;
            let lowest = if axis.step > 0 { axis.first } else { axis.first.checked_sub(reach)? };
            let mut spans: SmallVec<[Span; 4]> = SmallVec::new();
            let mut out = 0;
            while out < axis.len {
                let element = lowest + out * step;
                let (index, first) = (element / chunk, element % chunk);
                let count = ((chunk - first - 1) / step + 1).min(axis.len - out);
                spans.push(Span { chunk: index, first, count, out });
                out += count;
            }
            count = count.checked_mul(spans.len())?;
            axes.push(AxisPlan { spans, step });
        }
        Some(Plan { axes, count })
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Puts task `number` (below [`Plan::len`]) together in `task`, whose vectors are reused.
    pub fn task(&self, layout: &ArrayLayout, number: usize, task: &mut Task) {
        let rank = self.axes.len();
        for vector in [&mut task.chunk, &mut task.first, &mut task.step, &mut task.count, &mut task.out] {
            vector.resize(rank, 0);
        }
        task.whole = true;
        let mut rest = number;
        for (k, axis) in self.axes.iter().enumerate().rev() {
            let spans = axis.spans.len();
            let span = axis.spans[rest % spans];
            rest /= spans;
            task.chunk[k] = span.chunk;
            task.first[k] = span.first;
            task.step[k] = axis.step;
            task.count[k] = span.count;
            task.out[k] = span.out;
            // `count` equal to the elements inside can only mean all of them: steps above 1 select fewer, unless there is but one.
            task.whole &= span.count == layout.grid().inside(k, span.chunk, layout.shape()[k]);
        }
    }
}
