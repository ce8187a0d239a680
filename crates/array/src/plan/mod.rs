//! A selection cut along the chunk grid.

pub(crate) mod axis_memory;
pub(crate) mod lot;
pub(crate) mod pick;
pub(crate) mod point_plan;
pub(crate) mod strategy;
pub(crate) mod task;

use crate::costs;
use crate::layout::ArrayLayout;
use crate::layout::grid::{ChunkGrid, EqualChunks};
use crate::plan::point_plan::{AllPlaces, MovedPoints, PointPlan};
use crate::plan::task::Task;
use crate::select::Selection;
use crate::select::axis::AxisSelection;
use smallvec::SmallVec;
use std::ops::Range;

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

/// One axis of a plan, always walked upwards. The target mirrors a negative step.
#[derive(Clone, Copy, Debug)]
struct AxisPlan {
    /// The lowest selected element.
    lowest: u64,
    /// Distance to the next one.
    step: u64,
    /// Number of selected elements, at least 1.
    len: u64,
    /// Elements per chunk, or per part of one.
    chunk: u64,
    /// Number of chunks (or parts) with a selected element.
    spans: u64,
    /// Parts per chunk; 1 if chunks are not cut.
    parts: u64,
}

impl AxisPlan {
    fn new(axis: &AxisSelection, chunk: u64) -> Option<Self> {
        let step = axis.step.unsigned_abs();
        let reach = (axis.len - 1).checked_mul(step)?;
        let lowest = if axis.step > 0 { axis.first } else { axis.first.checked_sub(reach)? };
        Some(Self::cut(lowest, step, axis.len, chunk))
    }

    /// `len` elements from `lowest` on, `step` apart. The last one must fit into 64 bits.
    #[inline]
    fn cut(lowest: u64, step: u64, len: u64, chunk: u64) -> Self {
        let reach = (len - 1) * step;
        // Steps up to a chunk's length miss no chunk between the first and the last. Longer steps
        // reach a new chunk each time.
        let spans = if step <= chunk { (lowest + reach) / chunk - lowest / chunk + 1 } else { len };
        AxisPlan { lowest, step, len, chunk, spans, parts: 1 }
    }

    /// The number of the chunk that holds the `out`-th selected element.
    fn number(&self, out: u64) -> u64 {
        if self.step > self.chunk {
            return out;
        }
        (self.lowest + out * self.step) / self.chunk - self.lowest / self.chunk
    }

    /// The number of a chunk; `None` if it has no selected element.
    fn number_of_chunk(&self, chunk: u64) -> Option<u64> {
        let number = if self.step > self.chunk {
            chunk.checked_mul(self.chunk)?.saturating_sub(self.lowest).div_ceil(self.step)
        } else {
            chunk.checked_sub(self.lowest / self.chunk)?
        };
        (number < self.spans && self.span(number).chunk == chunk).then_some(number)
    }

    /// The n-th chunk with a selected element. Computed, not looked up: an axis may have any number
    /// of chunks.
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

/// The part of one axis of a plan that falls into a run of equally long chunks.
///
/// Only rectilinear grids have such runs. Elements and chunks count from the start of the run.
#[derive(Clone, Copy, Debug)]
struct RunPlan {
    axis: AxisPlan,
    /// The first chunk of the run.
    chunk: u64,
    /// Spans of the axis before this part.
    spans: u64,
    /// Selected elements before it.
    out: u64,
}

/// The parts of each axis of a plan.
#[derive(Clone, Debug)]
struct Runs(Vec<Vec<RunPlan>>);

impl RunPlan {
    /// The parts of an axis of a plan, one for each run with a selected element; and the number of
    /// their spans. `None` if there is no memory.
    fn for_runs(axis: &AxisPlan, runs: &[EqualChunks]) -> Option<(Vec<Self>, u64)> {
        let (mut all, mut out, mut spans, mut rest) = (Vec::new(), 0, 0, runs);
        while out < axis.len {
            let element = axis.lowest + out * axis.step;
            rest = rest.get(rest.partition_point(|run| run.end <= element)..)?;
            let run = rest.first()?;
            let len = ((run.end - element - 1) / axis.step + 1).min(axis.len - out);
            let part = AxisPlan::cut(element - run.start, axis.step, len, run.size);
            all.try_reserve(1).ok()?;
            all.push(RunPlan { axis: part, chunk: run.chunk, spans, out });
            (out, spans) = (out + len, spans + part.spans);
        }
        Some((all, spans))
    }

    /// The n-th chunk of the axis with a selected element.
    fn span(all: &[Self], n: u64) -> Option<Span> {
        let part = all.get(all.partition_point(|part| part.spans <= n).checked_sub(1)?)?;
        let span = part.axis.span(n - part.spans);
        Some(Span { chunk: span.chunk + part.chunk, out: span.out + part.out, ..span })
    }

    /// The number of a chunk of the axis; `None` if it has no selected element.
    fn number_of_chunk(all: &[Self], chunk: u64) -> Option<u64> {
        let part = all.get(all.partition_point(|part| part.chunk <= chunk).checked_sub(1)?)?;
        Some(part.spans + part.axis.number_of_chunk(chunk - part.chunk)?)
    }

    /// The number of the chunk that holds the `out`-th selected element of the axis.
    fn number(all: &[Self], out: u64) -> Option<u64> {
        let part = all.get(all.partition_point(|part| part.out <= out).checked_sub(1)?)?;
        Some(part.spans + part.axis.number(out - part.out))
    }
}

/// Bytes per cache line.
const LINE: usize = 64;

/// The tasks of a request: one for each chunk with a selected element.
///
/// Tasks of slices are in C order of the chunks. Task `i` is put together on demand, on the thread
/// that executes it, without allocating. A plan of any number of tasks therefore takes only a few
/// numbers per axis, and a table of the points that are picked one by one.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Axes with points have a single span here.
    axes: SmallVec<[AxisPlan; 8]>,
    /// The parts of each axis; only for a rectilinear grid.
    runs: Option<Box<Runs>>,
    points: Vec<PointPlan>,
    count: usize,
}

#[expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]
#[expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]
impl Plan {
    /// Cuts `selection`, which was made for this layout's shape. Returns `None` if there are more
    /// tasks than can be counted, or no memory for the table of points.
    pub fn new(layout: &ArrayLayout, selection: &Selection) -> Option<Self> {
        Self::saturating(layout, selection).filter(|plan| plan.count < usize::MAX)
    }

    /// As [`Plan::new`], but with a length of `usize::MAX` if there are more tasks than can be
    /// counted. The first of them can still be put together.
    pub(crate) fn saturating(layout: &ArrayLayout, selection: &Selection) -> Option<Self> {
        let mut plan = Plan { axes: SmallVec::new(), runs: None, points: Vec::new(), count: 0 };
        if selection.is_empty() {
            return Some(plan);
        }
        plan.count = 1;
        for (axis, chunk) in selection.axes().iter().zip(layout.grid().chunk_shape()) {
            let axis = AxisPlan::new(axis, *chunk)?;
            plan.count = plan.count.saturating_mul(usize::try_from(axis.spans).ok()?);
            plan.axes.push(axis);
        }
        if !layout.grid().is_regular() {
            plan.cut_by_runs(layout.grid())?;
        }
        for points in selection.points() {
            let points = PointPlan::new(layout, points)?;
            plan.count = plan.count.saturating_mul(points.len());
            plan.points.push(points);
        }
        Some(plan)
    }

    /// Cuts the axes along a rectilinear grid. Returns `None` as [`Plan::new`] does.
    #[inline(never)]
    fn cut_by_runs(&mut self, grid: &ChunkGrid) -> Option<()> {
        let mut all = Vec::new();
        self.count = 1;
        for (k, axis) in self.axes.iter_mut().enumerate() {
            let (parts, spans) = RunPlan::for_runs(axis, grid.runs(k)?)?;
            axis.spans = spans;
            self.count = self.count.saturating_mul(usize::try_from(spans).ok()?);
            all.push(parts);
        }
        self.runs = Some(Box::new(Runs(all)));
        Some(())
    }

    /// This selection cut along the grid of objects. Also returns, for each set of points, the
    /// first span here of each span there. `None` if there is no memory.
    pub(crate) fn by_object(&self, layout: &ArrayLayout) -> Option<(Self, Vec<Vec<usize>>)> {
        let grid = layout.object_grid();
        let axes: SmallVec<[AxisPlan; 8]> = (self.axes.iter().zip(grid.chunk_shape()))
            .map(|(axis, object)| AxisPlan::cut(axis.lowest, axis.step, axis.len, *object))
            .collect();
        let (points, firsts): (Vec<_>, Vec<_>) = self.points.iter().map(PointPlan::by_object).unzip();
        let mut plan = Plan { axes, runs: None, points, count: 0 };
        if self.count > 0 {
            if !grid.is_regular() {
                plan.cut_by_runs(grid)?;
            }
            // Does not overflow: there are at most as many objects as chunks.
            let spans = plan.axes.iter().map(|axis| axis.spans as usize);
            plan.count = spans.chain(plan.points.iter().map(PointPlan::len)).product();
        }
        Some((plan, firsts))
    }

    /// Orders points so that the value written last to a repeated element stays.
    pub(crate) fn in_order_of_result(&mut self) {
        self.points.iter_mut().for_each(PointPlan::in_order_of_result);
    }

    /// The places of a task's points, in memory with these strides per axis of the array.
    #[inline]
    pub(crate) fn places(&self, task: &Task, strides: &[isize]) -> AllPlaces<'_> {
        if task.picks.is_empty() {
            return AllPlaces::new();
        }
        task.picks.iter().filter_map(|pick| pick.places(&self.points, strides)).collect()
    }

    /// The points of a task in a chunk that has a shape of its own. Adjusts the reach of the task.
    ///
    /// `to` holds the bytes between the chunk's elements per axis of the array. Empty for a task
    /// without points. `None` if there is no memory.
    pub(crate) fn move_points(
        &self,
        layout: &ArrayLayout,
        to: &[isize],
        task: &mut Task,
    ) -> Option<Vec<MovedPoints>> {
        let from = layout.encoding().strides();
        task.picks.iter_mut().map(|pick| self.points.get(pick.plan)?.move_points(pick, from, to)).collect()
    }

    /// Cuts the only chunk of a plan into parts that are tasks, if it is large and has no codecs.
    ///
    /// Several threads can then read the chunk. Bytes are also still in the cache when axes or
    /// bytes are reordered. The cut is along the axis that is stored slowest. All parts have the
    /// same length, so their number divides the chunk's length. A chunk of prime length stays
    /// whole.
    pub(crate) fn cut(mut self, layout: &ArrayLayout, selection: &Selection, threads: usize) -> Self {
        let encoding = layout.encoding();
        let reordered = encoding.swap() > 1 || !encoding.is_c_order();
        let large = encoding.chain().stores_decoded() && encoding.decoded_size() >= 2 * costs::PART;
        if self.count != 1
            || !self.points.is_empty()
            || layout.sharding().is_some()
            || !layout.grid().is_regular()
            || !large
            || !(reordered || threads > 1)
        {
            return self;
        }
        let long = |axis: &&u8| encoding.chunk_shape()[**axis as usize] > 1;
        let Some(k) = encoding.order().iter().find(long).map(|axis| *axis as usize) else { return self };
        let (chunk, row) = (encoding.chunk_shape()[k], encoding.strides()[k].unsigned_abs());
        // If the cut axis is the output's fastest, parts of a transposed chunk become rows of the
        // output. Keep these to whole cache lines.
        let least = if k + 1 == self.axes.len() { LINE / encoding.element_size().max(1) } else { 1 };
        let least = least.max(costs::PART.div_ceil(row.max(1))) as u64;
        let Some(parts) = (2..=(chunk / least).min(costs::MOST_PARTS)).rev().find(|parts| chunk % parts == 0)
        else {
            return self;
        };
        let Some(axis) = selection.axes().get(k).and_then(|axis| AxisPlan::new(axis, chunk / parts)) else {
            return self;
        };
        self.count = axis.spans as usize;
        self.axes[k] = AxisPlan { parts, ..axis };
        self
    }

    /// Returns whether the tasks are parts of one chunk.
    pub(crate) fn is_cut(&self) -> bool {
        self.axes.iter().any(|axis| axis.parts > 1)
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The n-th chunk along axis `k` with a selected element.
    #[inline(always)]
    fn span(&self, k: usize, axis: &AxisPlan, n: u64) -> Span {
        match &self.runs {
            None => axis.span(n),
            Some(runs) => RunPlan::span(&runs.0[k], n).unwrap_or_else(|| axis.span(n)),
        }
    }

    /// The number of the chunk along axis `k` that holds the `out`-th selected element.
    fn number_of(&self, k: usize, axis: &AxisPlan, out: u64) -> u64 {
        let part = self.runs.as_ref().and_then(|runs| RunPlan::number(&runs.0[k], out));
        part.unwrap_or_else(|| axis.number(out))
    }

    /// Puts task `number` (below [`Plan::len`]) into `task`, whose vectors are reused.
    pub fn task(&self, layout: &ArrayLayout, number: usize, task: &mut Task) {
        self.task_of(layout, layout.grid(), number, task);
    }

    /// [`Plan::task`] for a plan along another grid of the array.
    pub(crate) fn task_of(&self, layout: &ArrayLayout, grid: &ChunkGrid, number: usize, task: &mut Task) {
        let rank = self.axes.len();
        for vector in [&mut task.chunk, &mut task.first, &mut task.step, &mut task.count, &mut task.out] {
            vector.resize(rank, 0);
        }
        task.picks.clear();
        task.whole = true;
        let mut rest = number as u64;
        for (k, axis) in self.axes.iter().enumerate().rev() {
            let span = self.span(k, axis, rest % axis.spans);
            rest /= axis.spans;
            task.chunk[k] = span.chunk / axis.parts;
            task.first[k] = span.first + span.chunk % axis.parts * axis.chunk;
            task.step[k] = axis.step;
            task.count[k] = span.count;
            task.out[k] = span.out;
            // `count` equals the chunk's length only if all elements are selected: steps above 1
            // select fewer, unless the length is 1.
            task.whole &= span.count == grid.size(k, task.chunk[k]);
        }
        if !self.points.is_empty() {
            self.put_points(layout, grid, rest as usize, task);
        }
    }

    /// Adds the points to a task. `rest` numbers the combination of their spans.
    #[inline(never)]
    fn put_points(&self, layout: &ArrayLayout, grid: &ChunkGrid, rest: usize, task: &mut Task) {
        let size = |axis: usize, index: u64| grid.size(axis, index);
        let picked = |axis: usize| self.points.iter().any(|points| points.axes().contains(&axis));
        let mut whole = (0..self.axes.len()).all(|k| picked(k) || task.count[k] == size(k, task.chunk[k]));
        for (number, span) in self.point_spans(rest).into_iter().enumerate() {
            whole &= self.points[number].task(number, span, &size, layout.encoding().strides(), task);
        }
        task.whole = whole;
    }

    /// The span of each set of points. `rest` is a task's number without the axes' share.
    fn point_spans(&self, mut rest: usize) -> SmallVec<[usize; 2]> {
        let mut spans = SmallVec::from_elem(0, self.points.len());
        for (span, points) in spans.iter_mut().zip(&self.points).rev() {
            *span = rest % points.len();
            rest /= points.len();
        }
        spans
    }

    /// The spans of the points of task `number`.
    pub(crate) fn point_spans_of(&self, number: usize) -> SmallVec<[usize; 2]> {
        self.point_spans(number / self.axes.iter().map(|axis| axis.spans as usize).product::<usize>().max(1))
    }

    /// The number of spans of the `k`-th set of points.
    pub(crate) fn point_count(&self, k: usize) -> usize {
        self.points.get(k).map_or(0, PointPlan::len)
    }

    /// Per axis, the numbers of the tasks that hold the `count` selected elements from `out` on.
    pub(crate) fn numbers(&self, out: &[u64], count: &[u64]) -> SmallVec<[Range<u64>; 8]> {
        let range = |(k, (axis, (out, count))): (usize, (&AxisPlan, (&u64, &u64)))| match axis.spans {
            1 => 0..1, // also axes with points
            _ => self.number_of(k, axis, *out)..self.number_of(k, axis, out + count - 1) + 1,
        };
        self.axes.iter().zip(out.iter().zip(count)).enumerate().map(range).collect()
    }

    /// The chunk index along `axis` of one task.
    ///
    /// The task is given by its number along each axis, and then along each set of points.
    pub(crate) fn chunk(&self, axis: usize, along: &[u64]) -> u64 {
        let (axes, spans) = along.split_at(self.axes.len());
        let picked = self.points.iter().zip(spans).find_map(|(points, n)| points.chunk(*n as usize, axis));
        picked.unwrap_or_else(|| self.span(axis, &self.axes[axis], axes[axis]).chunk)
    }

    /// The number of the task in a chunk. `None` if the chunk has no selected element, or if the
    /// plan has points.
    pub(crate) fn number_of_chunk(&self, chunk: &[u64]) -> Option<usize> {
        if !self.points.is_empty() || chunk.len() != self.axes.len() {
            return None;
        }
        self.axes.iter().zip(chunk).enumerate().try_fold(0, |number, (k, (axis, at))| {
            let along = match &self.runs {
                None => axis.number_of_chunk(*at),
                Some(runs) => RunPlan::number_of_chunk(&runs.0[k], *at),
            };
            // Does not overflow: the result is below the number of tasks, which was counted.
            Some(number * axis.spans as usize + along? as usize)
        })
    }

    /// The number of the task with these numbers along the axes, and then along the sets of points.
    pub(crate) fn number(&self, along: &[u64]) -> usize {
        // Does not overflow: the result is below the number of tasks, which was counted.
        let (axes, spans) = along.split_at(self.axes.len());
        let number =
            self.points.iter().zip(spans).fold(0, |number, (points, n)| number * points.len() + *n as usize);
        self.axes
            .iter()
            .zip(axes)
            .fold(number, |number, (axis, n)| number * axis.spans as usize + *n as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the spans element by element.
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
                    for chunk in 0..1000 {
                        let number = spans.iter().position(|span| span.chunk == chunk);
                        assert_eq!(plan.number_of_chunk(chunk), number.map(|number| number as u64));
                    }
                    for (number, span) in spans.iter().enumerate() {
                        for out in span.out..span.out + span.count {
                            assert_eq!(plan.number(out), number as u64);
                        }
                    }
                }
            }
        }
    }

    /// A layout with one plain chunk of `shape`, stored in `order`.
    fn plain(shape: &[u64], order: &[usize]) -> ArrayLayout {
        let dtype = "<f4".parse().unwrap();
        let encoding = crate::layout::encoding::ChunkEncoding::new(
            shape,
            dtype,
            hyperslab_codec::ByteOrder::Little,
            order,
            vec![],
        )
        .unwrap();
        let grid = crate::layout::grid::ChunkGrid::regular(shape.into()).unwrap();
        let store = std::sync::Arc::new(hyperslab_store::MemoryStore::new());
        let locator = std::sync::Arc::new(crate::tests::model::PerChunk("c"));
        ArrayLayout::new(
            "a",
            shape.into(),
            dtype,
            grid,
            encoding,
            crate::layout::fill::FillValue::zero(4),
            locator,
            store,
        )
        .unwrap()
    }

    #[test]
    fn parts_cover_a_chunk_once() {
        for (shape, order, parts) in [
            (vec![1, 32, 4, 6], vec![], 32),
            (vec![32, 4, 6], vec![2, 1, 0], 1), // not whole cache lines of the output
            (vec![4, 2, 64], vec![2, 1, 0], 4),
            (vec![257, 2], vec![], 1),   // prime
            (vec![1, 4, 10], vec![], 1), // small
            (vec![1 << 22], vec![], 64),
        ] {
            let layout = plain(&shape, &order);
            let selection = Selection::all(&shape);
            let plan = Plan::new(&layout, &selection).unwrap().cut(&layout, &selection, 2);
            assert_eq!(plan.len(), parts, "{shape:?}");
            let mut task = Task::default();
            let mut next = 0;
            let axis = (0..shape.len()).find(|k| plan.axes[*k].parts > 1).unwrap_or(0);
            for number in 0..plan.len() {
                plan.task(&layout, number, &mut task);
                assert!(task.chunk.iter().all(|index| *index == 0));
                assert_eq!((task.first[axis], task.out[axis]), (next, next));
                next += task.count[axis];
            }
            assert_eq!(next, shape[axis]);
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
        assert_eq!(plan.number_of_chunk(plan.spans - 1), Some(plan.spans - 1));
        assert_eq!(plan.number_of_chunk(u64::MAX), None);
        assert_eq!(last, Span { chunk: len / 10, first: 0, count: len % 10, out: len - len % 10 });
    }
}
