//! A selection cut along the chunk grid.

use crate::{ArrayLayout, AxisSelection, Dims, Selection};
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
#[derive(Clone, Copy, Debug)]
struct AxisPlan {
    /// The lowest selected element.
    lowest: u64,
    /// Distance to the next.
    step: u64,
    /// Number of selected elements, at least 1.
    len: u64,
    /// Elements of a chunk.
    chunk: u64,
    /// Number of chunks with a selected element.
    spans: u64,
}

impl AxisPlan {
    fn new(axis: &AxisSelection, chunk: u64) -> Option<Self> {
        let step = axis.step.unsigned_abs();
        let reach = (axis.len - 1).checked_mul(step)?;
        let lowest = if axis.step > 0 { axis.first } else { axis.first.checked_sub(reach)? };
        // Steps up to a chunk's length miss no chunk between the first and the last; longer ones meet another chunk each time.
        let spans = if step <= chunk { (lowest + reach) / chunk - lowest / chunk + 1 } else { axis.len };
        Some(AxisPlan { lowest, step, len: axis.len, chunk, spans })
    }

    /// The n-th chunk with a selected element. Worked out, not looked up: an axis may have any number of chunks.
    fn span(&self, n: u64) -> Span {
        let AxisPlan { lowest, step, len, chunk, .. } = *self;
        let out = match () {
            () if step > chunk => n,
            () if n == 0 => 0,
            () => ((lowest / chunk + n) * chunk - lowest).div_ceil(step),
        };
        let element = lowest + out * step;
        let first = element % chunk;
        Span { chunk: element / chunk, first, count: ((chunk - first - 1) / step + 1).min(len - out), out }
    }
}

/// The tasks of a request: one for each chunk that has a selected element, in C order of the chunks.
///
/// Task `i` is put together on demand, on the thread that executes it, without allocating: a plan of any number of tasks is a few numbers
/// per axis.
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
            let axis = AxisPlan::new(axis, *chunk)?;
            count = count.checked_mul(usize::try_from(axis.spans).ok()?)?;
            axes.push(axis);
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
        let mut rest = number as u64;
        for (k, axis) in self.axes.iter().enumerate().rev() {
            let span = axis.span(rest % axis.spans);
            rest /= axis.spans;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Span by span, element by element.
    fn walked(axis: &AxisSelection, chunk: u64) -> Vec<Span> {
        let mut elements: Vec<u64> =
            (0..axis.len as i64).map(|i| (axis.first as i64 + i * axis.step) as u64).collect();
        elements.sort_unstable();
        let mut spans: Vec<Span> = Vec::new();
        for (out, element) in elements.iter().enumerate() {
            match spans.last_mut() {
                Some(span) if span.chunk == element / chunk => span.count += 1,
                _ => spans.push(Span {
                    chunk: element / chunk,
                    first: element % chunk,
                    count: 1,
                    out: out as u64,
                }),
            }
        }
        spans
    }

    #[test]
    fn spans_are_those_of_a_walk() {
        for chunk in 1..8 {
            for (first, step) in
                [(0, 1), (3, 1), (5, 2), (1, 3), (2, 7), (4, 20), (140, -1), (139, -3), (141, -7)]
            {
                for len in 1..8 {
                    let axis = AxisSelection { first, step, len, dropped: false };
                    let plan = AxisPlan::new(&axis, chunk).unwrap();
                    let spans: Vec<Span> = (0..plan.spans).map(|number| plan.span(number)).collect();
                    assert_eq!(spans, walked(&axis, chunk), "{axis:?} in chunks of {chunk}");
                }
            }
        }
    }

    #[test]
    fn an_axis_of_any_length_takes_no_memory() {
        let len = i64::MAX as u64;
        let axis = AxisSelection { first: len - 1, step: -1, len, dropped: false };
        let plan = AxisPlan::new(&axis, 10).unwrap();
        assert_eq!(plan.spans, len.div_ceil(10));
        assert_eq!(plan.span(0), Span { chunk: 0, first: 0, count: 10, out: 0 });
        let last = plan.span(plan.spans - 1);
        assert_eq!(last, Span { chunk: len / 10, first: 0, count: len % 10, out: len - len % 10 });
    }
}
