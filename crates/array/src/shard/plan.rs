//! A request, shard by shard.

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]

use crate::dims::Dims;
use crate::error::ArrayError;
use crate::execute::tasks::memory_error;
use crate::layout::ArrayLayout;
use crate::layout::sharding::Sharding;
use crate::layout::sharding::Touched;
use crate::plan::Plan;
use crate::plan::task::Task;
use smallvec::SmallVec;
use std::ops::Range;

/// The tasks of a plan (one for each inner chunk), grouped by shard.
pub(crate) struct ShardPlan<'a> {
    layout: &'a ArrayLayout,
    sharding: &'a Sharding,
    chunks: &'a Plan,
    shards: Plan,
    /// For each set of points and each of its spans in `shards`, the first span in `chunks`.
    firsts: Vec<Vec<usize>>,
}

impl<'a> ShardPlan<'a> {
    /// `chunks` is the plan of a selection. Fails with [`ArrayError::Memory`] if there is no
    /// memory.
    pub(crate) fn new(
        layout: &'a ArrayLayout,
        sharding: &'a Sharding,
        chunks: &'a Plan,
    ) -> Result<Self, ArrayError> {
        let none = || memory_error(layout, "the plan", u64::MAX);
        let (shards, firsts) = chunks.by_object(layout).ok_or_else(none)?;
        Ok(ShardPlan { layout, sharding, chunks, shards, firsts })
    }

    /// The plan that has one task for each shard.
    pub(crate) fn plan(&self) -> &Plan {
        &self.shards
    }

    /// Number of shards.
    pub(crate) fn len(&self) -> usize {
        self.shards.len()
    }

    /// Puts the share of shard `number` into `task`: the task of a chunk as large as the shard.
    pub(crate) fn shard(&self, number: usize, task: &mut Task) {
        self.shards.task_of(self.layout, self.layout.object_grid(), number, task);
    }

    /// The numbers of the chunks in shard `number`, along each axis and then along each set of
    /// points.
    fn ranges(&self, number: usize, shard: &Task) -> SmallVec<[Range<u64>; 8]> {
        let mut ranges = self.chunks.numbers(&shard.out, &shard.count);
        for (k, span) in self.shards.point_spans_of(number).into_iter().enumerate() {
            let (firsts, all) = (&self.firsts[k], self.chunks.point_count(k));
            let end = firsts.get(span + 1).copied().unwrap_or(all);
            ranges.push(firsts[span] as u64..end as u64);
        }
        ranges
    }

    /// The chunks touched in shard `number`, whose task is `shard`.
    pub(crate) fn touched_chunks(
        &self,
        number: usize,
        shard: &Task,
    ) -> impl Iterator<Item = Touched> + use<'_, 'a> {
        let ranges = self.ranges(number, shard);
        let mut next: Option<Dims> = Some(ranges.iter().map(|range| range.start).collect());
        // The first chunk of the shard. Inner chunks divide shards, so they lie in a regular grid.
        let grid = self.sharding.grid();
        let first = |(k, chunk): (usize, &u64)| grid.start(k, shard.chunk[k]) / chunk;
        let first: Dims = self.layout.grid().chunk_shape().iter().enumerate().map(first).collect();
        std::iter::from_fn(move || {
            let along = next.clone()?;
            let at = (first.iter().enumerate()).map(|(k, first)| self.chunks.chunk(k, &along) - first);
            let touched = Touched { number: self.chunks.number(&along), at: at.collect() };
            next = advance(along, &ranges);
            Some(touched)
        })
    }
}

/// The next position in C order; `None` after the last.
fn advance(mut along: Dims, ranges: &[Range<u64>]) -> Option<Dims> {
    for (n, range) in along.iter_mut().zip(ranges).rev() {
        *n += 1;
        if *n < range.end {
            return Some(along);
        }
        *n = range.start;
    }
    None
}
