//! Cutting an array into blocks that are copied one after another.
//!
//! A block is a box of whole destination chunks, so that each of them is encoded and written once;
//! where they lie in shards, of whole shards. A shard that is too large for the memory is written
//! part by part, which stores it several times. A source chunk that several blocks share is read
//! and decoded by each of them. How often that happens in all is a product over the axes: along one
//! axis, blocks and source chunks are two grids, and the pieces that both cut it into, divided by
//! the number of source chunks, is how often each is read.
//!
//! 1. Start with one destination chunk or shard: the least that can be written. Of a shard that is
//!    too large, with a part that divides it.
//! 2. While source chunks are shared, lengthen the axis where that saves the most reading for the
//!    memory it takes.
//! 3. Then lengthen the slowest axes until there is enough work for all threads at once. (Slowest
//!    first, because chunks then stay in one piece in the block's memory, and are decoded and
//!    encoded without a copy.)
//!
//! Where little of the source is stored, step 3 is left out ([`Cut::small_blocks`]): large blocks
//! would consist of chunks that do not exist.

use crate::{Dims, Index};
use std::collections::BTreeMap;

/// Bytes from which a larger block brings no more speed: it only leaves the cache.
const ENOUGH: u64 = 32 << 20;

/// How many more blocks than chunks a table may have: a few tens of MB.
const MOST_SPANNED: usize = 1 << 18;

/// What is copied, as far as cutting it is concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut<'a> {
    pub(super) shape: &'a [u64],
    pub(super) source_chunk: &'a [u64],
    /// What one object of the destination holds: a shard, or a chunk.
    pub(super) target_object: &'a [u64],
    pub(super) target_chunk: &'a [u64],
    /// Bytes of one element.
    pub(super) element: u64,
    /// The most bytes of a block, unless one destination chunk is larger.
    pub(super) budget: u64,
}

/// The blocks of an array: a grid, like that of its chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    shape: Dims,
    block: Dims,
    element: u64,
}

impl Cut<'_> {
    /// Chooses the blocks.
    pub(super) fn blocks(&self) -> Blocks {
        let Blocks { shape, mut block, element } = self.small_blocks();
        for axis in 0..shape.len() {
            let enough = self.budget.min(ENOUGH) / self.bytes(&block).max(1);
            if enough < 2 {
                break;
            }
            // A multiple of an aligned length is aligned.
            block[axis] = block[axis].saturating_mul(enough).min(shape[axis]);
            if block[axis] < shape[axis] {
                break;
            }
        }
        Blocks { shape, block, element }
    }

    /// The smallest blocks that do not read source chunks several times without need: for arrays of
    /// which little is stored.
    pub(super) fn small_blocks(&self) -> Blocks {
        let shape: Dims = self.shape.into();
        let mut block: Dims = self.unit().iter().zip(&shape).map(|(unit, n)| (*unit).min(*n)).collect();
        while let Some((axis, len)) = self.best_step(&block) {
            block[axis] = len;
        }
        Blocks { shape, block, element: self.element }
    }

    /// The least that is written at a time: an object, or of one that is too large as many of its
    /// chunks as fit, fewer along the slowest axes first.
    fn unit(&self) -> Dims {
        let mut unit: Dims = self.target_object.into();
        for axis in 0..unit.len() {
            if self.bytes(&unit) <= self.budget {
                break;
            }
            let (chunk, count) =
                (self.target_chunk[axis], self.target_object[axis] / self.target_chunk[axis]);
            let fits = |count: &u64| {
                let mut part = unit.clone();
                part[axis] = chunk * count;
                *count == 1 || self.bytes(&part) <= self.budget
            };
            unit[axis] = chunk * divisors_downwards(count).find(fits).unwrap_or(1);
        }
        unit
    }

    /// Bytes of what is inside the array of a box that begins at its origin.
    fn bytes(&self, block: &[u64]) -> u64 {
        let inside = block.iter().zip(self.shape).map(|(n, extent)| n.min(extent));
        inside.fold(self.element, |bytes, n| bytes.saturating_mul(*n))
    }

    /// The axis and its new length that save the most reading per memory taken; `None` where
    /// nothing is saved, or there is no memory.
    fn best_step(&self, block: &[u64]) -> Option<(usize, u64)> {
        let mut best = None;
        let mut best_gain = 0.0;
        for (axis, &len) in block.iter().enumerate() {
            let (extent, chunk) = (self.shape[axis], self.source_chunk[axis]);
            let reads = |len| pieces(extent, len, chunk) as f64;
            if len == 0 || pieces(extent, len, chunk) == extent.div_ceil(chunk) {
                continue;
            }
            let aligned = len.checked_mul(chunk / gcd(len, chunk)).unwrap_or(extent);
            for longer in [len.saturating_mul(2), aligned, extent].map(|longer| longer.min(extent)) {
                let mut grown: Dims = block.into();
                grown[axis] = longer;
                if longer <= len || self.bytes(&grown) > self.budget {
                    continue;
                }
                let gain = (reads(len) / reads(longer)).ln() / (longer as f64 / len as f64).ln();
                if gain > best_gain {
                    best_gain = gain;
                    best = Some((axis, longer));
                }
            }
        }
        best
    }
}

/// The divisors of `n` (of a very large one, not those above 2¹⁶ that have no small counterpart),
/// largest first.
fn divisors_downwards(n: u64) -> impl Iterator<Item = u64> {
    let small = move |small: &u64| n.is_multiple_of(*small);
    let most = n.isqrt().min(1 << 16);
    let large = (1..=most).filter(small).map(move |small| n / small);
    large.chain((1..=most).rev().filter(small))
}

/// The pieces that two grids of steps `a` and `b` (not zero) cut `0..extent` into.
fn pieces(extent: u64, a: u64, b: u64) -> u64 {
    let inner = |step: u64| extent.div_ceil(step).saturating_sub(1);
    let shared = a.checked_mul(b / gcd(a, b)).map_or(0, inner);
    (inner(a) + inner(b) + 1).saturating_sub(shared)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Blocks {
    /// Bytes of the largest block.
    pub(super) fn bytes(&self) -> u64 {
        self.block.iter().fold(self.element, |bytes, n| bytes.saturating_mul(*n))
    }

    /// Chunks of a grid that a block has, at most.
    pub(super) fn chunks(&self, chunk: &[u64]) -> u64 {
        let axes = self.block.iter().zip(chunk);
        axes.fold(1, |n: u64, (block, chunk)| n.saturating_mul(block.div_ceil((*chunk).max(1))))
    }

    /// The blocks that chunks of a grid of `chunk` lie in, in C order, and which of `stored` lie in
    /// each. Chunks outside the array do not count. `None`: there are very many more blocks than
    /// chunks.
    ///
    /// Only these need to be looked at: an array may have 2⁶⁰ chunks, and only one of them stored.
    pub(super) fn holding(&self, chunk: &[u64], stored: &[Dims]) -> Option<BTreeMap<Dims, Vec<usize>>> {
        let mut found: BTreeMap<Dims, Vec<usize>> = BTreeMap::new();
        let mut left = stored.len().saturating_mul(16).saturating_add(MOST_SPANNED);
        for (number, index) in stored.iter().enumerate() {
            // Per axis, the first and the last block that the chunk lies in.
            let spans: Option<SmallSpans> = (0..self.shape.len())
                .map(|axis| {
                    let first =
                        index[axis].checked_mul(chunk[axis]).filter(|first| *first < self.shape[axis])?;
                    let last = first.saturating_add(chunk[axis] - 1).min(self.shape[axis] - 1);
                    Some((first / self.block[axis], last / self.block[axis]))
                })
                .collect();
            let Some(spans) = spans else { continue };
            let mut next = Some(spans.iter().map(|(first, _)| *first).collect::<Dims>());
            while let Some(at) = next {
                left = left.checked_sub(1)?;
                next = successor(at.clone(), &spans);
                found.entry(at).or_default().push(number);
            }
        }
        Some(found)
    }

    /// All blocks, in C order.
    pub(super) fn all(&self) -> impl Iterator<Item = Dims> {
        let counts = self.shape.iter().zip(&self.block).map(|(n, block)| n.div_ceil((*block).max(1)));
        let spans: SmallSpans = counts.clone().map(|count| (0, count.saturating_sub(1))).collect();
        let first = counts.clone().all(|count| count > 0).then(|| Dims::from_elem(0, spans.len()));
        std::iter::successors(first, move |at| successor(at.clone(), &spans))
    }

    /// The block of this index.
    pub(super) fn block(&self, at: &[u64]) -> Block {
        let first: Dims = at.iter().zip(&self.block).map(|(index, block)| index * block).collect();
        let axes = first.iter().zip(&self.block).zip(&self.shape);
        let len = axes.map(|((at, block), n)| (*block).min(n - at)).collect();
        Block { first, len }
    }
}

type SmallSpans = Vec<(u64, u64)>;

/// The index after `at` in C order within spans; `None` after the last.
fn successor(mut at: Dims, spans: &[(u64, u64)]) -> Option<Dims> {
    for (index, (first, last)) in at.iter_mut().zip(spans).rev() {
        if *index < *last {
            *index += 1;
            return Some(at);
        }
        *index = *first;
    }
    None
}

/// A box of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// First element per axis.
    pub(super) first: Dims,
    /// Elements per axis.
    pub(super) len: Dims,
}

impl Block {
    /// As an index. (Axes are at most `i64::MAX` long.)
    pub(super) fn index(&self) -> Vec<Index<'static>> {
        let range = |(first, len): (&u64, &u64)| Index::range(*first as i64, (first + len) as i64);
        self.first.iter().zip(&self.len).map(range).collect()
    }

    /// Number of elements.
    pub(super) fn elements(&self) -> u64 {
        self.len.iter().product()
    }

    /// Bytes of all elements, of `size` bytes each.
    pub(super) fn bytes(&self, size: usize) -> Option<usize> {
        usize::try_from(self.elements()).ok()?.checked_mul(size)
    }

    /// What it has in common with a chunk of a grid.
    pub(super) fn common(&self, place: &Dims, chunk: &[u64]) -> Block {
        let mut common = self.clone();
        for (axis, (at, n)) in place.iter().zip(chunk).enumerate() {
            let (first, last) = (self.first[axis], self.first[axis] + self.len[axis]);
            let start = at.saturating_mul(*n);
            common.first[axis] = start.clamp(first, last);
            common.len[axis] = start.saturating_add(*n).clamp(common.first[axis], last) - common.first[axis];
        }
        common
    }

    /// Which element of the block (in C order) the one of this index in the array is.
    pub(super) fn number(&self, position: &[u64]) -> u64 {
        let axes = position.iter().zip(&self.first).zip(&self.len);
        axes.fold(0, |number, ((at, first), len)| number * len + (at - first))
    }

    /// The index in the array of element `number` (in C order) of the block.
    pub(super) fn position(&self, number: u64) -> Vec<u64> {
        let mut rest = number;
        let mut position = self.first.to_vec();
        for axis in (0..position.len()).rev() {
            position[axis] += rest % self.len[axis];
            rest /= self.len[axis];
        }
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All chunks of a grid.
    fn chunks(shape: &[u64], chunk: &[u64]) -> Vec<Dims> {
        let counts = shape.iter().zip(chunk).map(|(n, c)| n.div_ceil(*c));
        counts.fold(vec![Dims::new()], |found, count| {
            let longer = |index: &Dims, n| index.iter().copied().chain([n]).collect();
            found.iter().flat_map(|index| (0..count).map(move |n| longer(index, n))).collect()
        })
    }

    fn blocks(cut: &Cut<'_>) -> (Blocks, Vec<Block>) {
        let blocks = cut.blocks();
        let all = blocks.holding(cut.source_chunk, &chunks(cut.shape, cut.source_chunk)).unwrap();
        let all = all.keys().map(|at| blocks.block(at)).collect();
        (blocks, all)
    }

    fn cut(shape: &[u64], source: &[u64], target: &[u64], element: u64, budget: u64) -> Vec<u64> {
        unsharded(shape, source, target, element, budget).blocks().block.to_vec()
    }

    fn unsharded<'a>(
        shape: &'a [u64],
        source: &'a [u64],
        target: &'a [u64],
        element: u64,
        budget: u64,
    ) -> Cut<'a> {
        Cut { shape, source_chunk: source, target_object: target, target_chunk: target, element, budget }
    }

    #[test]
    fn shards_are_written_whole_or_in_parts_that_divide_them() {
        let block = |shard: [u64; 2], budget| {
            let cut = Cut {
                shape: &[100, 100],
                source_chunk: &[10, 10],
                target_object: &shard,
                target_chunk: &[5, 10],
                element: 1,
                budget,
            };
            cut.blocks().block.to_vec()
        };
        assert_eq!(block([50, 100], 5000), [50, 100]);
        // Half of it; its first row of chunks; a chunk.
        assert_eq!(block([50, 100], 2500), [25, 100]);
        assert_eq!(block([50, 100], 999), [5, 100]);
        assert_eq!(block([50, 100], 1), [5, 10]);
        // What is outside the array takes no memory.
        assert_eq!(block([1 << 40, 1000], 10_000), [100, 100]);
        assert_eq!(divisors_downwards(12).collect::<Vec<_>>(), [12, 6, 4, 3, 2, 1]);
        assert_eq!(divisors_downwards(1).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn equal_grids_take_many_chunks_at_once() {
        // 256 KiB chunks, 32 MiB blocks, growing along the slowest axis first.
        assert_eq!(
            cut(&[50, 32, 256, 256], &[1, 1, 256, 256], &[1, 1, 256, 256], 4, 256 << 20),
            [50, 2, 256, 256]
        );
        assert_eq!(cut(&[1000, 256, 256], &[1, 256, 256], &[1, 256, 256], 4, 256 << 20), [128, 256, 256]);
        // A small budget: one chunk at a time.
        assert_eq!(cut(&[50, 32, 256, 256], &[1, 1, 256, 256], &[1, 1, 256, 256], 4, 1000), [1, 1, 256, 256]);
    }

    #[test]
    fn blocks_follow_the_source_chunks_where_memory_allows() {
        // Time series out of maps: all of the first axis is needed at once, and maps are read once
        // if all of them fits.
        assert_eq!(cut(&[100, 512, 512], &[1, 512, 512], &[100, 16, 16], 4, 256 << 20), [100, 512, 512]);
        // Half the memory: the source is read twice or so, not 32 times.
        let block = cut(&[100, 512, 512], &[1, 512, 512], &[100, 16, 16], 4, 53 << 20);
        assert!(pieces(512, block[1], 512) * pieces(512, block[2], 512) <= 2, "{block:?}");
        // 6 and 4: aligned every 12.
        assert_eq!(cut(&[1 << 40], &[6 << 20], &[4 << 20], 1, 16 << 20), [12 << 20]);
    }

    #[test]
    fn nothing_and_scalars() {
        let count = |shape: &[u64], chunk: &[u64], target: &[u64], element| {
            let (blocks, all) = blocks(&unsharded(shape, chunk, target, element, 100));
            (blocks.bytes(), all.len(), all.iter().map(Block::elements).sum::<u64>())
        };
        assert_eq!(count(&[0, 5], &[1, 5], &[1, 5], 8), (0, 0, 0));
        assert_eq!(count(&[], &[], &[], 8), (8, 1, 1));
        assert_eq!(count(&[7], &[2], &[3], 0).2, 7);
    }

    #[test]
    fn only_blocks_with_stored_chunks() {
        let shape = [1 << 60, 100];
        let blocks = unsharded(&shape, &[3, 100], &[2, 100], 1, 600).blocks();
        assert_eq!(blocks.block.as_slice(), [6, 100]);
        let stored = [[0, 0], [1, 0], [1 << 50, 0], [1 << 60, 0], [u64::MAX, 0], [0, 1]];
        let stored: Vec<Dims> = stored.iter().map(|index| index.as_slice().into()).collect();
        let found = blocks.holding(&[3, 100], &stored).unwrap();
        let found: Vec<(&[u64], &[usize])> =
            found.iter().map(|(at, chunks)| (at.as_slice(), chunks.as_slice())).collect();
        assert_eq!(
            found,
            [([0, 0].as_slice(), [0, 1].as_slice()), ([(1 << 50) / 2, 0].as_slice(), [2].as_slice())]
        );
        // One chunk that is all of the array would be in 2⁵⁹ blocks.
        assert!(blocks.holding(&[1 << 60, 100], &stored[..1]).is_none());
    }

    #[test]
    fn small_blocks_are_one_object_where_grids_agree() {
        let small = |shape: &[u64], source: &[u64], target: &[u64]| {
            unsharded(shape, source, target, 1, 1 << 20).small_blocks().block.to_vec()
        };
        assert_eq!(small(&[1 << 62], &[1], &[1]), [1]);
        assert_eq!(small(&[2; 64], &[1; 64], &[1; 64]), [1; 64]);
        assert_eq!(small(&[1 << 62], &[3], &[2]), [6]);
        assert_eq!(small(&[1 << 62], &[1], &[1000]), [1000]);
        assert_eq!(small(&[1 << 62], &[1000], &[1]), [1000]);
    }

    #[test]
    fn positions_in_the_array() {
        let block = Block { first: [10, 20].as_slice().into(), len: [3, 4].as_slice().into() };
        assert_eq!(block.position(0), [10, 20]);
        assert_eq!(block.position(6), [11, 22]);
    }

    proptest! {
        /// Pieces, counted one by one.
        #[test]
        fn pieces_are_the_common_refinement(extent in 1..200u64, a in 1..50u64, b in 1..50u64) {
            let cuts = (1..extent).filter(|at| at % a == 0 || at % b == 0).count() as u64;
            prop_assert_eq!(pieces(extent, a, b), cuts + 1);
        }

        /// Blocks cover every element once, are made of whole destination chunks, and keep to the
        /// budget.
        #[test]
        fn blocks_partition_the_array(
            axes in proptest::collection::vec((1..30u64, 1..12u64, 1..12u64), 0..4),
            budget in 1..20_000u64,
        ) {
            let (shape, (source, target)): (Vec<_>, (Vec<_>, Vec<_>)) = axes.into_iter().map(|(n, s, t)| (n, (s, t))).unzip();
            let plan = unsharded(&shape, &source, &target, 2, budget);
            let (blocks, all) = blocks(&plan);
            let least = 2 * shape.iter().zip(&target).map(|(n, t)| n.min(t)).product::<u64>();
            prop_assert!(blocks.bytes() <= budget.max(least));
            let mut seen = std::collections::HashSet::new();
            for block in all {
                prop_assert!(block.elements() * 2 <= blocks.bytes());
                for axis in 0..shape.len() {
                    let end = block.first[axis] + block.len[axis];
                    prop_assert!(block.first[axis] % target[axis] == 0);
                    prop_assert!(end % target[axis] == 0 || end == shape[axis]);
                }
                for number in 0..block.elements() {
                    prop_assert!(seen.insert(block.position(number)));
                }
            }
            prop_assert_eq!(seen.len() as u64, shape.iter().product::<u64>());
        }
    }
}
