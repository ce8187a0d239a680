//! Points cut along the chunk grid.
//!
//! 1. Runs of points are cut where chunks and rows end. Each piece is an entry, a
//!    [`PlacedStretch`]. It has its **place** in the array as stored (chunk by chunk, byte by byte
//!    within a chunk), its place in the result, and its number of points.
//! 2. Entries are sorted by place. The entries of one chunk are one span, in the order of the
//!    chunk's bytes. Chunks of the same shard are neighbours.
//! 3. Each span becomes a task. A span with a single entry becomes a task like a slice's, and is
//!    executed in the same way. Other tasks carry a [`Pick`].
//!
//! An entry has 16 bytes, however many axes there are.

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, spans as their entries")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::copy::places::{LEN_BITS, LONGEST, MOST, PlacedStretch, Places};
use crate::dims::Dims;
use crate::layout::ArrayLayout;
use crate::layout::grid::ChunkGrid;
use crate::plan::pick::Pick;
use crate::plan::task::Task;
use crate::select::points::{Axes, Points, Stretch};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The entries of one chunk or one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PointSpan {
    entries: Range<usize>,
    /// First byte of the nearest point and of the furthest one, from the start of the chunk.
    reach: Range<u64>,
    points: u64,
    /// `true` if a point may occur more than once.
    repeats: bool,
}

/// The points of a selection, as tasks.
#[derive(Clone, Debug)]
pub(crate) struct PointPlan {
    axes: Axes,
    entries: Arc<Vec<PlacedStretch>>,
    spans: Vec<PointSpan>,
    /// Number of places in a chunk, or in a shard if the plan is by object.
    size: u64,
    /// For each axis with points: chunks (or shards) per object, and objects in the array.
    per_object: Dims,
    objects: Dims,
    /// Bytes from one point to the next within a chunk.
    step: u64,
    /// The longest stride within a chunk along one of the axes.
    across: u64,
    cells: Cells,
}

/// How the axes are divided into objects and chunks.
#[derive(Clone, Debug)]
enum Cells {
    /// All objects have one shape.
    Even,
    /// Chunks have different shapes, given by the grid. Places assume a chunk of the largest shape.
    Chunks(ChunkGrid),
    /// Shards have different shapes: their grid, and the elements of an inner chunk along each axis
    /// with points. Places assume a shard of the largest shape.
    Shards(ChunkGrid, Dims),
}

/// The points of a task in a chunk that has a shape of its own.
pub(crate) struct MovedPoints {
    entries: Vec<PlacedStretch>,
    step: isize,
    across: isize,
    /// The first of the axes with points.
    axis: usize,
}

impl MovedPoints {
    /// The places of the points, in memory with these strides per axis of the array.
    pub(crate) fn places(&self, strides: &[isize]) -> Places<'_> {
        let MovedPoints { entries, step, across, axis } = self;
        Places { entries, start: 0, step: *step, stride: strides[*axis], across: *across }
    }
}

/// [`Places`] of a task, one for each set of points. Empty for a task of slices.
pub(crate) type AllPlaces<'a> = SmallVec<[Places<'a>; 1]>;

impl PointPlan {
    /// Returns `None` if there are more places than can be counted, or no memory.
    pub(crate) fn new(layout: &ArrayLayout, points: &Points) -> Option<Self> {
        let encoding = layout.encoding();
        let of = |numbers: &[u64]| points.axes.iter().map(|axis| numbers[*axis]).collect::<Dims>();
        let chunk = of(layout.grid().chunk_shape());
        let object = of(layout.object_grid().chunk_shape());
        let per_object: Dims = object.iter().zip(&chunk).map(|(object, chunk)| object / chunk).collect();
        let grid = layout.object_grid();
        let objects: Dims = match grid.is_regular() {
            true => points.extent.iter().zip(&object).map(|(len, object)| len.div_ceil(*object)).collect(),
            false => of(&grid.counts(layout.shape())),
        };
        let cells = match layout.sharding() {
            _ if grid.is_regular() => Cells::Even,
            None => Cells::Chunks(grid.clone()),
            Some(_) => Cells::Shards(grid.clone(), chunk.clone()),
        };
        let strides: Dims =
            points.axes.iter().map(|axis| encoding.strides()[*axis].unsigned_abs() as u64).collect();
        let size = (encoding.decoded_size() as u64).max(1);
        objects.iter().chain(&per_object).try_fold(size, |places, n| places.checked_mul(*n))?;

        let mut plan = PointPlan {
            axes: points.axes.clone(),
            entries: Arc::default(),
            spans: Vec::new(),
            size,
            per_object,
            objects,
            step: *strides.last()?,
            across: strides.iter().copied().max()?,
            cells,
        };
        let entries = plan.cut(points, &chunk, &strides)?;
        let entries = plan.sort_entries(entries)?;
        plan.spans = spans(&entries, size, plan.step)?;
        plan.entries = Arc::new(entries);
        Some(plan)
    }

    /// Cuts runs where chunks and rows end.
    fn cut(&self, points: &Points, chunk: &[u64], strides: &[u64]) -> Option<Vec<PlacedStretch>> {
        let mut entries: Vec<PlacedStretch> = Vec::new();
        entries.try_reserve(points.runs.len()).ok()?;
        let (mut row, mut first, mut out) = (0..0, 0, 0u64);
        for Stretch { mut at, mut len } in points.runs.iter().copied() {
            while len > 0 {
                if !row.contains(&at) {
                    (row, first) = self.row(at, &points.extent, chunk, strides);
                }
                let count = len.min(row.end - at).min(LONGEST);
                if out + count > MOST {
                    return None;
                }
                self.push(&mut entries, first + (at - row.start) * self.step, out, count)?;
                (at, len, out) = (at + count, len - count, out + count);
            }
        }
        Some(entries)
    }

    /// The part of a chunk's row that holds element number `at`: its elements, and the place of the
    /// first one.
    fn row(&self, at: u64, extent: &[u64], chunk: &[u64], strides: &[u64]) -> (Range<u64>, u64) {
        let mut index = Dims::from_elem(0, extent.len());
        let mut rest = at;
        for (index, len) in index.iter_mut().zip(extent).rev() {
            (*index, rest) = (rest % len, rest / len);
        }
        let last = extent.len() - 1;
        // The position of an index of the k-th axis in its chunk, and the chunk's length.
        let place = |k: usize, index: u64| match &self.cells {
            Cells::Even | Cells::Shards(..) => (index % chunk[k], chunk[k]),
            Cells::Chunks(grid) => {
                let number = grid.index_of(self.axes[k], index);
                (index - grid.start(self.axes[k], number), grid.size(self.axes[k], number))
            }
        };
        // The number of the object, and of the chunk within the object.
        let cell = |k: usize, index: u64| match &self.cells {
            Cells::Even => {
                let (number, per) = (index / chunk[k], self.per_object[k]);
                if per == 1 { (number, 0) } else { (number / per, number % per) }
            }
            Cells::Chunks(grid) => (grid.index_of(self.axes[k], index), 0),
            Cells::Shards(grid, _) => {
                let number = grid.index_of(self.axes[k], index);
                (number, (index - grid.start(self.axes[k], number)) / chunk[k])
            }
        };
        let (within, len) = place(last, index[last]);
        let row = at - within..at + (len - within).min(extent[last] - index[last]);
        index[last] -= within;
        let (mut object, mut inner, mut byte) = (0, 0, 0);
        for k in 0..=last {
            let (outer, number) = cell(k, index[k]);
            object = object * self.objects[k] + outer;
            inner = inner * self.per_object[k] + number;
            byte += place(k, index[k]).0 * strides[k];
        }
        let number = object * self.per_object.iter().product::<u64>() + inner;
        (row, number * self.size + byte)
    }

    /// Sorts entries by place, and entries with equal places by their place in the result. `None`
    /// if there is no memory.
    fn sort_entries(&self, mut entries: Vec<PlacedStretch>) -> Option<Vec<PlacedStretch>> {
        let chunks = self.objects.iter().chain(&self.per_object).product::<u64>();
        if entries.is_sorted() {
            return Some(entries);
        }
        if chunks > entries.len() as u64 {
            entries.sort_unstable();
            return Some(entries);
        }
        // Sort by chunk first, by counting. Entries within a chunk are then often in order already.
        let mut ends: Vec<usize> = Vec::new();
        ends.try_reserve_exact(chunks as usize + 1).ok()?;
        ends.resize(chunks as usize + 1, 0);
        for entry in &entries {
            ends[(entry.place / self.size) as usize + 1] += 1;
        }
        for n in 1..ends.len() {
            ends[n] += ends[n - 1];
        }
        let mut sorted = Vec::new();
        sorted.try_reserve_exact(entries.len()).ok()?;
        sorted.resize(entries.len(), PlacedStretch { place: 0, out: 0 });
        let mut starts = Vec::new();
        starts.try_reserve_exact(ends.len()).ok()?;
        starts.extend_from_slice(&ends);
        for entry in entries {
            let next = &mut starts[(entry.place / self.size) as usize];
            sorted[*next] = entry;
            *next += 1;
        }
        ends.windows(2).for_each(|ends| sorted[ends[0]..ends[1]].sort_unstable());
        Some(sorted)
    }

    /// Appends points. Extends the last entry if they continue it. `None` if there is no memory.
    fn push(&self, entries: &mut Vec<PlacedStretch>, place: u64, out: u64, count: u64) -> Option<()> {
        let step = self.step;
        if let Some(last) = entries.last_mut()
            && last.place + last.len() * step == place
            && place % self.size >= step.max(1) // in the same chunk
            && last.result_index() + last.len() == out
            && last.len() + count <= LONGEST
        {
            last.out += count;
            return Some(());
        }
        entries.try_reserve(1).ok()?;
        entries.push(PlacedStretch { place, out: out << LEN_BITS | (count - 1) });
        Some(())
    }

    /// The points of a task in a chunk that has a shape of its own.
    ///
    /// `from` and `to` are the bytes between elements per axis of the array: `from` in a chunk of
    /// the largest shape, `to` in this chunk. `None` if there is no memory.
    pub(crate) fn move_points(&self, pick: &mut Pick, from: &[isize], to: &[isize]) -> Option<MovedPoints> {
        // Divide by the longest stride first: the shorter strides together stay within it.
        let mut axes = self.axes.clone();
        axes.sort_unstable_by_key(|axis| std::cmp::Reverse(from[*axis]));
        let place = |entry: &PlacedStretch| {
            let (mut rest, mut place) = (entry.place - pick.start, 0);
            for axis in &axes {
                let stride = from[*axis].unsigned_abs().max(1) as u64;
                place += rest / stride * to[*axis].unsigned_abs() as u64;
                rest %= stride;
            }
            place
        };
        let given = self.entries.get(pick.entries.clone())?;
        let mut entries = Vec::new();
        entries.try_reserve_exact(given.len()).ok()?;
        entries.extend(given.iter().map(|entry| PlacedStretch { place: place(entry), out: entry.out }));
        let step = to[*self.axes.last()?];
        let last = |entry: &PlacedStretch| entry.place + (entry.len() - 1) * step.unsigned_abs() as u64;
        pick.reach = entries.iter().map(|entry| entry.place).min()?..entries.iter().map(last).max()?;
        let across = self.axes.iter().map(|axis| to[*axis]).max()?;
        Some(MovedPoints { entries, step, across, axis: *self.axes.first()? })
    }

    /// Number of tasks.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The same points grouped by object. Also returns the number of each object's first chunk
    /// here.
    pub(crate) fn by_object(&self) -> (Self, Vec<usize>) {
        let chunks: u64 = self.per_object.iter().product();
        let (size, mut firsts) = (self.size * chunks, Vec::new());
        let mut spans: Vec<PointSpan> = Vec::new();
        for (n, span) in self.spans.iter().enumerate() {
            let object = self.start(span) / size;
            match spans.last_mut() {
                Some(last) if self.start(last) / size == object => {
                    last.entries.end = span.entries.end;
                    last.points += span.points;
                    last.repeats |= span.repeats;
                }
                _ => {
                    firsts.push(n);
                    spans.push(span.clone());
                }
            }
        }
        let (per_object, cells) = (Dims::from_elem(1, self.axes.len()), Cells::Even);
        (PointPlan { spans, size, per_object, cells, ..self.clone() }, firsts)
    }

    /// The place where the chunk of a span starts.
    fn start(&self, span: &PointSpan) -> u64 {
        let place = self.entries.get(span.entries.start).map_or(0, |entry| entry.place);
        place - place % self.size
    }

    /// The index of the chunk of span `n`, along the `k`-th axis with points.
    fn index(&self, n: usize, k: usize) -> u64 {
        let number = self.spans.get(n).map_or(0, |span| self.start(span)) / self.size;
        let chunks: u64 = self.per_object.iter().product();
        let digit = |number: u64, counts: &[u64]| {
            let below: u64 = counts[k + 1..].iter().product();
            number / below.max(1) % counts[k].max(1)
        };
        let (outer, inner) =
            (digit(number / chunks, &self.objects), digit(number % chunks, &self.per_object));
        match &self.cells {
            Cells::Shards(grid, chunk) => grid.start(self.axes[k], outer) / chunk[k] + inner,
            _ => outer * self.per_object[k] + inner,
        }
    }

    /// The index of the chunk of span `n`, along an axis of the array. `None` if it has no points.
    pub(crate) fn chunk(&self, n: usize, axis: usize) -> Option<u64> {
        let k = self.axes.iter().position(|on| *on == axis)?;
        Some(self.index(n, k))
    }

    pub(crate) fn axes(&self) -> &[usize] {
        &self.axes
    }

    /// Puts the share of span `n` into a task.
    ///
    /// `number` is the number of this plan in [`Pick::plan`]. `size` gives the elements of a chunk
    /// along an axis of the array. Returns whether every element of the chunk is selected, as far
    /// as these axes say.
    pub(crate) fn task(
        &self,
        number: usize,
        n: usize,
        size: &dyn Fn(usize, u64) -> u64,
        strides: &[isize],
        task: &mut Task,
    ) -> bool {
        let Some(span) = self.spans.get(n) else { return false };
        let start = self.start(span);
        let mut all = 1u64;
        for (k, axis) in self.axes.iter().enumerate() {
            let index = self.index(n, k);
            task.chunk[*axis] = index;
            (task.first[*axis], task.step[*axis], task.count[*axis], task.out[*axis]) = (0, 1, 1, 0);
            all = all.saturating_mul(size(*axis, index));
        }
        match &self.entries[span.entries.clone()] {
            [entry] => {
                // Divide by the longest stride first: the shorter strides together stay within it.
                let mut rest = entry.place - start;
                let mut axes = self.axes.clone();
                axes.sort_unstable_by_key(|axis| std::cmp::Reverse(strides[*axis]));
                for axis in axes {
                    let stride = strides[axis].unsigned_abs().max(1) as u64;
                    (task.first[axis], rest) = (rest / stride, rest % stride);
                }
                if let (Some(first), Some(last)) = (self.axes.first(), self.axes.last()) {
                    task.count[*last] = entry.len();
                    task.out[*first] = entry.result_index();
                }
            }
            _ => task.picks.push(Pick {
                plan: number,
                entries: span.entries.clone(),
                start,
                reach: span.reach.clone(),
                points: span.points,
            }),
        }
        !span.repeats && span.points == all
    }

    /// Sorts the entries of chunks with repeated points by their order in the result, so that the
    /// value written last stays.
    pub(crate) fn in_order_of_result(&mut self) {
        if self.spans.iter().any(|span| span.repeats) {
            let entries = Arc::make_mut(&mut self.entries);
            for span in self.spans.iter().filter(|span| span.repeats) {
                entries[span.entries.clone()].sort_unstable_by_key(|entry| entry.out);
            }
        }
    }
}

impl Pick {
    /// The places of the points, in memory with these strides per axis of the array.
    pub(crate) fn places<'p>(&self, plans: &'p [PointPlan], strides: &[isize]) -> Option<Places<'p>> {
        let plan = plans.get(self.plan)?;
        Some(Places {
            entries: plan.entries.get(self.entries.clone())?,
            start: self.start,
            step: plan.step as isize,
            stride: plan.axes.first().map_or(0, |axis| strides[*axis]),
            across: plan.across as isize,
        })
    }
}

/// The spans of sorted entries. `None` if there is no memory.
fn spans(entries: &[PlacedStretch], size: u64, step: u64) -> Option<Vec<PointSpan>> {
    let mut spans: Vec<PointSpan> = Vec::new();
    // End of the bytes that earlier entries occupy.
    let (mut start, mut taken) = (0, 0);
    for (n, entry) in entries.iter().enumerate() {
        let last = entry.place + (entry.len() - 1) * step;
        match spans.last_mut() {
            Some(span) if entry.place - start < size => {
                span.entries.end = n + 1;
                span.repeats |= entry.place < taken;
                span.points += entry.len();
                span.reach.end = span.reach.end.max(last - start);
                taken = taken.max(last + 1);
            }
            _ => {
                start = entry.place - entry.place % size;
                taken = last + 1;
                let reach = entry.place - start..last - start;
                spans.try_reserve(1).ok()?;
                spans.push(PointSpan { entries: n..n + 1, reach, points: entry.len(), repeats: false });
            }
        }
    }
    Some(spans)
}
