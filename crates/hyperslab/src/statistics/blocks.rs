//! The blocks that statistics read: whole chunks, as many as a thread should hold at once.
//!
//! Blocks depend on the array alone, not on the reader. The additions within a block therefore have
//! the same order on every machine.

use crate::{Array, Dims, Index, Selection};
use std::collections::HashSet;
use std::ops::Range;

/// Bytes of a block of small chunks.
/// Larger blocks would leave the caches before they are processed; smaller ones cost more
/// hand-offs. (No difference was measured between 512 KiB and 4 MiB.)
const NEAR: u64 = 2 << 20;
/// Bytes of a block from a distant store: enough chunks for many requests at once.
const FAR: u64 = 32 << 20;

/// The blocks of a part of an array.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    /// Per axis, the starts of the blocks and the end of the last.
    cuts: Vec<Cuts>,
}

/// The block boundaries along an axis: the edges of the region, and every `step` in between.
#[derive(Clone, Debug)]
enum Cuts {
    Even { region: Range<u64>, step: u64 },
    Listed(Vec<u64>),
}

impl Cuts {
    fn count(&self) -> u64 {
        match self {
            Cuts::Even { region, .. } if region.is_empty() => 0,
            Cuts::Even { region, step } => (region.end - 1) / step - region.start / step + 1,
            Cuts::Listed(cuts) => cuts.len().saturating_sub(1) as u64,
        }
    }

    fn at(&self, n: u64) -> Range<u64> {
        match self {
            Cuts::Even { region, step } => {
                let first = (region.start / step + n).saturating_mul(*step);
                first.max(region.start)..first.saturating_add(*step).min(region.end)
            }
            Cuts::Listed(cuts) => {
                let cut = |n: u64| usize::try_from(n).ok().and_then(|n| cuts.get(n)).copied().unwrap_or(0);
                cut(n)..cut(n + 1)
            }
        }
    }

    /// The blocks that have some of these elements.
    fn of(&self, elements: &Range<u64>) -> Range<u64> {
        match self {
            Cuts::Even { region, step } => {
                let (start, end) = (elements.start.max(region.start), elements.end.min(region.end));
                let number = |element: u64| element / step - region.start / step;
                if start < end { number(start)..number(end - 1) + 1 } else { 0..0 }
            }
            Cuts::Listed(cuts) => {
                let first = cuts.partition_point(|cut| *cut <= elements.start).saturating_sub(1);
                let last = cuts.partition_point(|cut| *cut < elements.end);
                first as u64..(last as u64).min(self.count())
            }
        }
    }

    fn longest(&self) -> u64 {
        match self {
            Cuts::Even { region, step } => (*step).min(region.end.saturating_sub(region.start)),
            Cuts::Listed(cuts) => cuts.iter().zip(cuts.iter().skip(1)).map(|(a, b)| b - a).max().unwrap_or(0),
        }
    }
}

impl Blocks {
    pub(crate) fn new(array: &Array, region: &[Range<u64>]) -> Self {
        let layout = array.layout();
        let grid = layout.grid();
        let wanted = if layout.store().cost().waiting_dominates() { FAR } else { NEAR };
        let unit = |axis: usize, region: &Range<u64>| match grid.is_regular() {
            true => {
                let chunk = grid.chunk_shape().get(axis).copied().unwrap_or(1).max(1);
                let step = if array.has_chunks() { chunk } else { 1 };
                Cuts::Even { region: region.clone(), step }
            }
            false => {
                let count = grid.counts(array.shape()).get(axis).copied().unwrap_or(0);
                let starts = (0..count).map(|n| grid.start(axis, n));
                let inside = starts.filter(|start| region.start < *start && *start < region.end);
                let mut cuts: Vec<u64> = [region.start].into_iter().chain(inside).collect();
                if !region.is_empty() {
                    cuts.push(region.end);
                }
                Cuts::Listed(cuts)
            }
        };
        let mut cuts: Vec<Cuts> =
            region.iter().enumerate().map(|(axis, region)| unit(axis, region)).collect();
        let mut bytes = layout.dtype().size().max(1) as u64;
        bytes = cuts.iter().fold(bytes, |bytes, cut| bytes.saturating_mul(cut.longest().max(1)));
        // Lengthen the last axis first: neighbours in memory are read together.
        for cut in cuts.iter_mut().rev() {
            let times = wanted / bytes.max(1);
            if let (Cuts::Even { region, step }, 2..) = (&mut *cut, times) {
                let before = (*step).min(region.end.saturating_sub(region.start)).max(1);
                let times = times.min((region.end.saturating_sub(region.start)).div_ceil(*step)).max(1);
                *step = step.saturating_mul(times);
                bytes = (bytes / before).saturating_mul(cut.longest().max(1));
            }
        }
        Blocks { cuts }
    }

    /// The elements of a block per axis. Blocks are numbered in C order.
    pub(crate) fn ranges(&self, mut number: u64) -> Vec<Range<u64>> {
        let mut ranges = vec![0..0; self.cuts.len()];
        for (cuts, range) in self.cuts.iter().zip(&mut ranges).rev() {
            let count = cuts.count().max(1);
            *range = cuts.at(number % count);
            number /= count;
        }
        ranges
    }

    /// Number of blocks.
    pub(crate) fn count(&self) -> u64 {
        self.cuts.iter().fold(1, |count, cuts| count.saturating_mul(cuts.count()))
    }

    /// The blocks that have elements of the objects at these places.
    pub(crate) fn of_objects(&self, array: &Array, places: &[Dims]) -> HashSet<u64> {
        let grid = array.layout().object_grid();
        let mut found = HashSet::new();
        for place in places {
            let mut numbers = vec![0];
            for (axis, (cuts, at)) in self.cuts.iter().zip(place).enumerate() {
                let elements = grid.start(axis, *at)..grid.start(axis, at.saturating_add(1));
                let along = cuts.of(&elements);
                let of = |number: u64| along.clone().map(move |at| number * cuts.count() + at);
                numbers = numbers.into_iter().flat_map(of).collect();
            }
            found.extend(numbers);
        }
        found
    }

    /// The selection of a block, and its elements per axis. Blocks are numbered in C order.
    pub(crate) fn block(&self, array: &Array, number: u64) -> crate::Result<(Selection, Dims)> {
        let ranges = self.ranges(number);
        let index = |range: &Range<u64>| Index::range(range.start.cast_signed(), range.end.cast_signed());
        let indices: Vec<Index<'_>> = ranges.iter().map(index).collect();
        let shape = ranges.iter().map(|range| range.end - range.start).collect();
        Ok((array.select(&indices)?, shape))
    }
}
