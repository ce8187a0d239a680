//! How an array is cut: bricks that are hashed, and regions that are read.
//!
//! A brick is a leaf of the tree. Bricks depend on the lengths of the axes and the size of an element,
//! and on nothing else. A slab is all bricks with the same rows of the first axis. The length of the
//! first axis changes neither: rows that are appended make new slabs.
//!
//! A region is a box of whole bricks that is read at once. Regions follow the array's chunks as far
//! as memory allows, so that a chunk is decoded once.

use crate::Dims;
use std::ops::Range;

/// The most bytes of a brick, and of its rows along the last axis. 16 KiB keep all lanes of BLAKE3's
/// vector code busy. Longer bricks would make regions larger, because these have whole bricks.
const BRICK: u64 = 16 << 10;
const ROW: u64 = 4 << 10;

/// Elements per axis of a brick, for elements of `size` bytes.
pub(super) fn brick_shape(shape: &[u64], size: u64) -> Dims {
    let power = |n: u64| n.max(1).checked_next_power_of_two().unwrap_or(1 << 63);
    let mut room = (BRICK / power(size)).max(1);
    let mut brick: Dims = shape.iter().map(|_| 1).collect();
    for (axis, (len, n)) in brick.iter_mut().zip(shape).enumerate().rev() {
        let is_last_of_several = axis > 0 && axis + 1 == shape.len();
        let most = if is_last_of_several { room.min((ROW / power(size)).max(1)) } else { room };
        *len = if axis == 0 { most } else { most.min(power(*n)) };
        room = (room / *len).max(1);
    }
    brick
}

/// The regions of an array, from a row on.
#[derive(Clone, Debug)]
pub(super) struct Regions {
    pub(super) shape: Dims,
    pub(super) brick: Dims,
    /// Elements per axis of a region: a multiple of a brick's.
    len: Dims,
    /// The first row. A multiple of the rows of a brick.
    first: u64,
}

/// The limits of a region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// Elements per axis of the array's chunks.
    pub(super) chunk: &'a [u64],
    /// Bytes of an element in memory.
    pub(super) element: u64,
    /// The bytes that a region should have if chunks are small.
    pub(super) good: u64,
    /// The most bytes of a region, as far as whole bricks allow.
    pub(super) most: u64,
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Regions {
    pub(super) fn new(shape: &[u64], brick: &[u64], first: u64, wanted: Wanted<'_>) -> Regions {
        let chunk = |axis: usize| wanted.chunk.get(axis).copied().unwrap_or(1).max(1);
        let mut regions = Regions { shape: shape.into(), brick: brick.into(), len: brick.into(), first };
        for (axis, (len, brick)) in regions.len.iter_mut().zip(brick).enumerate() {
            let both = (brick / gcd(*brick, chunk(axis))).saturating_mul(chunk(axis));
            let all = shape.get(axis).copied().unwrap_or(1).max(1);
            *len = both.min(all.checked_next_multiple_of(*brick).unwrap_or(*brick));
        }
        while regions.bytes(wanted.element) > wanted.most {
            let half = |axis: usize| {
                let (len, brick) = (regions.len[axis], brick[axis]);
                let half = (len / 2).checked_next_multiple_of(brick).unwrap_or(brick).max(brick);
                (half < len).then(|| {
                    let mut cut = regions.clone();
                    cut.len[axis] = half;
                    cut
                })
            };
            let cost = |regions: &Regions| regions.decodes(wanted.chunk);
            let best = (0..shape.len()).filter_map(half).min_by(|a, b| cost(a).total_cmp(&cost(b)));
            let Some(best) = best else { break };
            regions = best;
        }
        for axis in (0..shape.len()).rev() {
            let times = wanted.good.min(wanted.most) / regions.bytes(wanted.element).max(1);
            let fits = shape[axis].div_ceil(regions.len[axis]).max(1);
            regions.len[axis] = regions.len[axis].saturating_mul(times.clamp(1, fits));
        }
        regions
    }

    /// Bytes of a whole region.
    pub(super) fn bytes(&self, element: u64) -> u64 {
        let lens = self.len.iter().zip(&self.shape).map(|(len, n)| (*len).min((*n).max(1)));
        lens.fold(element.max(1), u64::saturating_mul)
    }

    /// How often a chunk is decoded, on average.
    pub(super) fn decodes(&self, chunk: &[u64]) -> f64 {
        let axes = self.len.iter().zip(&self.shape).zip(chunk);
        let times = axes.map(|((len, n), chunk)| {
            let chunk = (*chunk).clamp(1, (*n).max(1));
            if len >= n { 1.0 } else { (len + chunk - gcd(*len, chunk)) as f64 / *len as f64 }
        });
        times.product()
    }

    /// The number of regions along an axis.
    fn along(&self, axis: usize) -> u64 {
        let count = self.shape[axis].div_ceil(self.len[axis]);
        // Rows before the first are not read.
        if axis == 0 { count.saturating_sub(self.first / self.len[0]) } else { count }
    }

    /// The number of regions that share the rows of one.
    pub(super) fn beside(&self) -> u64 {
        (1..self.shape.len()).fold(1, |count: u64, axis| count.saturating_mul(self.along(axis)))
    }

    /// The number of regions.
    pub(super) fn count(&self) -> u64 {
        let has_rows = self.shape.first().is_none_or(|n| *n > self.first);
        let along = if self.shape.is_empty() { 1 } else { self.along(0) };
        if has_rows { along.saturating_mul(self.beside()) } else { 0 }
    }

    /// The elements of a region. Regions are numbered in C order.
    pub(super) fn at(&self, mut number: u64) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = self.shape.iter().map(|_| 0..0).collect();
        for (axis, range) in ranges.iter_mut().enumerate().rev() {
            let (count, len) = (self.along(axis).max(1), self.len[axis]);
            let before = if axis == 0 { self.first / len } else { 0 };
            let start = (before + number % count) * len;
            let from = if axis == 0 { start.max(self.first) } else { start };
            *range = from..start.saturating_add(len).min(self.shape[axis]);
            number /= count;
        }
        ranges
    }

    /// The number of bricks in a slab.
    pub(super) fn bricks_of_slab(&self) -> u64 {
        let axes = self.shape.iter().zip(&self.brick).skip(1);
        axes.fold(1, |count: u64, (n, len)| count.saturating_mul(n.div_ceil(*len)))
    }
}

/// A brick of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Brick {
    /// Its slab, counted from the first one of the region.
    pub(super) slab: u64,
    /// Its number in the slab.
    pub(super) number: u64,
    /// Elements from the start of the region, per axis.
    pub(super) start: Dims,
    /// Elements per axis.
    pub(super) len: Dims,
}

impl Regions {
    /// The number of bricks in a region.
    pub(super) fn bricks(&self, region: &[Range<u64>]) -> u64 {
        let axes = region.iter().zip(&self.brick);
        axes.fold(1, |count: u64, (range, len)| {
            count.saturating_mul((range.end - range.start).div_ceil(*len))
        })
    }

    /// A brick of a region. Bricks are numbered in C order.
    pub(super) fn brick(&self, region: &[Range<u64>], mut number: u64) -> Brick {
        let zeros: Dims = region.iter().map(|_| 0).collect();
        let mut found = Brick { slab: 0, number: 0, start: zeros.clone(), len: zeros };
        let mut before = 1;
        for (axis, range) in region.iter().enumerate().rev() {
            let (edge, len) = (self.brick[axis], range.end - range.start);
            let count = len.div_ceil(edge).max(1);
            let at = number % count;
            number /= count;
            found.start[axis] = at * edge;
            found.len[axis] = edge.min(len - at * edge);
            if axis == 0 {
                found.slab = at;
            } else {
                found.number += (range.start / edge + at) * before;
                before *= self.shape[axis].div_ceil(edge);
            }
        }
        found
    }
}

/// Calls `each` with the first element and the number of elements of every run of a brick: elements
/// that are neighbours in a dense region.
pub(super) fn runs(region: &[Range<u64>], brick: &Brick, mut each: impl FnMut(usize, usize)) {
    let lens: Dims = region.iter().map(|range| range.end - range.start).collect();
    let mut strides: Dims = lens.iter().map(|_| 1).collect();
    for axis in (1..lens.len()).rev() {
        strides[axis - 1] = strides[axis] * lens[axis];
    }
    // The axes from `inner` on are one run.
    let mut inner = lens.len();
    while inner > 0 && (inner == lens.len() || brick.len[inner] == lens[inner]) {
        inner -= 1;
    }
    let run: u64 = brick.len.iter().skip(inner).product();
    let first: u64 = brick.start.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
    let outer: u64 = brick.len.iter().take(inner).product();
    for number in 0..outer {
        let (mut left, mut at) = (number, first);
        for axis in (0..inner).rev() {
            at += left % brick.len[axis] * strides[axis];
            left /= brick.len[axis];
        }
        each(at as usize, run as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn regions(shape: &[u64], chunk: &[u64], element: u64, first: u64, good: u64, most: u64) -> Regions {
        let brick = brick_shape(shape, element);
        Regions::new(
            shape,
            &brick,
            first * brick.first().unwrap_or(&1),
            Wanted { chunk, element, good, most },
        )
    }

    #[test]
    fn bricks_have_at_most_16_kib() {
        for (shape, size, brick) in [
            (&[][..], 8, &[][..]),
            (&[10], 4, &[4096]),
            (&[1_000_000], 1, &[16384]),
            (&[5, 721, 1440], 4, &[1, 4, 1024]),
            (&[5, 3, 2], 4, &[512, 4, 2]),
            (&[5, 100], 4, &[32, 128]),
            (&[5, 0], 4, &[4096, 1]),
            (&[7, 9], 100_000, &[1, 1]),
            (&[7, 9], 12, &[64, 16]),
            (&[5, u64::MAX], 1, &[4, 4096]),
        ] {
            assert_eq!(brick_shape(shape, size).as_slice(), brick, "{shape:?} {size}");
        }
    }

    #[test]
    fn regions_follow_chunks() {
        // All chunks are whole in one region each, and 4 MiB fit.
        let fields = regions(&[1000, 721, 1440], &[1, 721, 1440], 4, 0, 2 << 20, 256 << 20);
        assert_eq!((fields.decodes(&[1, 721, 1440]), fields.count()), (1.0, 1000));
        let cubes = regions(&[1000, 1000, 1000], &[100, 100, 100], 4, 0, 2 << 20, 256 << 20);
        assert_eq!(cubes.decodes(&[100, 100, 100]), 1.0);
        assert_eq!(cubes.at(0), [0..100, 0..100, 0..1000]);
        // Small chunks are read together.
        let small = regions(&[4096, 4096], &[16, 16], 4, 0, 2 << 20, 256 << 20);
        assert!(small.bytes(4) >= 1 << 20 && small.bytes(4) <= 2 << 20, "{small:?}");
        // Whole rows of chunks do not fit: the axis is cut where few chunks are decoded twice.
        let wide = regions(&[100_000, 100_000], &[1000, 1000], 8, 0, 2 << 20, 512 << 20);
        assert!(wide.bytes(8) <= 512 << 20 && wide.decodes(&[1000, 1000]) < 1.05, "{wide:?}");
        // A region has at least one brick.
        let tiny = regions(&[100_000, 100_000], &[1000, 1000], 8, 0, 2 << 20, 1);
        assert_eq!(tiny.at(0), [0..4, 0..512]);
    }

    proptest! {
        /// Regions have each element once, and their bricks each brick of the array once.
        #[test]
        fn bricks_cover_the_array(
            axes in proptest::collection::vec((1u64..40, 1u64..12), 0..4),
            element in 1u64..3000,
            first in 0u64..3,
            good in 1u64..100_000,
            most in 1u64..100_000,
        ) {
            let (shape, chunk): (Vec<u64>, Vec<u64>) = axes.into_iter().unzip();
            let first = if shape.is_empty() { 0 } else { first };
            let regions = regions(&shape, &chunk, element, first, good, most);
            let row = regions.first;
            let count = shape.iter().skip(1).product::<u64>()
                * shape.first().map_or(1, |n| n.saturating_sub(row));
            let (mut seen, mut numbers) = (0, std::collections::BTreeSet::new());
            for number in 0..regions.count() {
                let region = regions.at(number);
                let slab = region.first().map_or(0, |rows| rows.start / regions.brick[0]);
                let elements: u64 = region.iter().map(|range| range.end - range.start).product();
                let mut marks = vec![0; elements as usize];
                for number in 0..regions.bricks(&region) {
                    let brick = regions.brick(&region, number);
                    prop_assert!(brick.number < regions.bricks_of_slab());
                    prop_assert!(numbers.insert((slab + brick.slab, brick.number)));
                    runs(&region, &brick, |at, len| marks[at..at + len].iter_mut().for_each(|mark| *mark += 1));
                }
                prop_assert!(marks.iter().all(|mark| *mark == 1));
                seen += elements;
            }
            prop_assert_eq!(seen, count);
            let slabs = match shape.first() {
                Some(n) => n.div_ceil(regions.brick[0]).saturating_sub(row / regions.brick[0]),
                None => 1,
            };
            prop_assert_eq!(numbers.len() as u64, slabs * regions.bricks_of_slab());
        }
    }
}
