//! A request, shard by shard.

use crate::{ArrayLayout, Dims, Plan, Selection, Sharding, Task};
use smallvec::SmallVec;
use std::ops::Range;

/// The tasks of a plan (one for each inner chunk), by the shards that they lie in.
pub(crate) struct ShardPlan<'a> {
    layout: &'a ArrayLayout,
    chunks: &'a Plan,
    shards: Plan,
    /// Chunks of a shard per axis.
    per_shard: Dims,
}

/// One chunk of a shard that a request touches.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    /// Its task's number in the plan of chunks.
    pub(crate) number: usize,
    /// Which chunk of the shard, per axis.
    pub(crate) at: Dims,
}

impl<'a> ShardPlan<'a> {
    /// `chunks`: the plan of `selection` along the layout's grid. `None` where there are more shards than can be counted.
    pub(crate) fn new(
        layout: &'a ArrayLayout,
        sharding: &Sharding,
        chunks: &'a Plan,
        selection: &Selection,
    ) -> Option<Self> {
        let shards = Plan::along(sharding.grid(), selection)?;
        let shape = sharding.grid().chunk_shape();
        let per_shard = shape.iter().zip(layout.grid().chunk_shape()).map(|(shard, chunk)| shard / chunk);
        Some(ShardPlan { layout, chunks, shards, per_shard: per_shard.collect() })
    }

    /// Number of shards.
    pub(crate) fn len(&self) -> usize {
        self.shards.len()
    }

    /// Puts shard `number`'s share of the request together: the task of a chunk as large as the shard.
    pub(crate) fn shard(&self, number: usize, task: &mut Task) {
        self.shards.task_of(self.layout.object_grid(), self.layout.shape(), number, task);
    }

    fn ranges(&self, shard: &Task) -> SmallVec<[Range<u64>; 8]> {
        self.chunks.numbers(&shard.out, &shard.count)
    }

    /// The chunks of the shard that are touched, in C order.
    pub(crate) fn touched(&self, shard: &Task) -> impl Iterator<Item = Touched> + use<'_, 'a> {
        let ranges = self.ranges(shard);
        let mut next: Option<Dims> = Some(ranges.iter().map(|range| range.start).collect());
        std::iter::from_fn(move || {
            let along = next.clone()?;
            let at = (along.iter().enumerate()).map(|(k, n)| self.chunks.chunk(k, *n) % self.per_shard[k]);
            let touched = Touched { number: self.chunks.number(&along), at: at.collect() };
            next = advance(along, &ranges);
            Some(touched)
        })
    }
}

/// The next place in C order; `None` after the last.
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
