//! The blocks that a copy processes one after another: a grid over the array, as chunks are.
//!
//! A plan ([`super::plan`]) sets their length. If blocks are parts of objects, all parts of one
//! object come before the next object.

use super::plan::Pass;
use crate::{Dims, Index};
use hyperslab_array::ChunkGrid;
use std::collections::BTreeMap;

/// How many more blocks than chunks a table may list: a few tens of MB.
const MOST_SPANNED: usize = 1 << 18;

/// The blocks of an array, as a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    shape: Dims,
    block: Dims,
    /// Blocks per axis that form one object of the target.
    parts: Dims,
}

impl Blocks {
    /// The blocks of a pass; `small`: those for arrays with few stored chunks.
    pub(super) fn of(pass: &Pass, shape: &[u64], small: bool) -> Self {
        let block = if small { &pass.small } else { &pass.block };
        // The length of a small block divides the length of a large one.
        let parts = (0..shape.len()).map(|k| match pass.parts[k] > 1 || small && pass.in_parts() {
            true => (pass.target_object[k] / block[k].max(1)).max(1),
            false => 1,
        });
        Blocks { shape: shape.into(), block: block.as_slice().into(), parts: parts.collect() }
    }

    /// Blocks with length `block`; `parts` blocks per axis form one object.
    pub(super) fn new(shape: &[u64], block: &[u64], parts: &[u64]) -> Self {
        Blocks { shape: shape.into(), block: block.into(), parts: parts.into() }
    }

    /// Blocks per axis that form one object.
    pub(super) fn parts(&self) -> &[u64] {
        &self.parts
    }

    /// Returns `true` if blocks are parts of objects, which are written in parts.
    pub(super) fn are_parts(&self) -> bool {
        self.parts.iter().any(|parts| *parts > 1)
    }

    /// The object of the target that a block belongs to; the block itself if it is not a part.
    pub(super) fn object_of(&self, at: &[u64]) -> Dims {
        at.iter().zip(&self.parts).map(|(at, parts)| at / parts).collect()
    }

    /// The most chunks of a grid that a block can hold.
    pub(super) fn chunks(&self, chunk: &[u64]) -> u64 {
        let axes = self.block.iter().zip(chunk);
        axes.fold(1, |n: u64, (block, chunk)| n.saturating_mul(block.div_ceil((*chunk).max(1))))
    }

    /// Maps each block that contains grid cells to the indices in `stored` of these cells.
    /// Blocks are in C order. Cells outside do not count. `start`: the first element of the blocks
    /// in the array of the cells. Returns `None` if there are far more blocks than cells.
    ///
    /// Only these blocks need to be visited: of 2⁶⁰ chunks, one may be stored.
    pub(super) fn holding(
        &self,
        grid: &ChunkGrid,
        stored: &[Dims],
        start: &[u64],
    ) -> Option<BTreeMap<Dims, Vec<usize>>> {
        let mut found: BTreeMap<Dims, Vec<usize>> = BTreeMap::new();
        let mut left = stored.len().saturating_mul(16).saturating_add(MOST_SPANNED);
        let ends: Dims = self.shape.iter().zip(start).map(|(n, at)| at.saturating_add(*n)).collect();
        let counts = grid.counts(&ends);
        for (number, index) in stored.iter().enumerate() {
            // The first and the last block of the cell, per axis.
            let spans: Option<Spans> = (0..self.shape.len())
                .map(|axis| {
                    let at = index[axis];
                    let inside = if at < counts[axis] { grid.len_inside(axis, at, ends[axis]) } else { 0 };
                    let first = grid.start(axis, at);
                    let last = first.saturating_add(inside.checked_sub(1)?).checked_sub(start[axis])?;
                    let first = first.saturating_sub(start[axis]);
                    (self.shape[axis] > 0).then(|| (first / self.block[axis], last / self.block[axis]))
                })
                .collect();
            let Some(spans) = spans else { continue };
            for at in all_indices(spans) {
                left = left.checked_sub(1)?;
                found.entry(at).or_default().push(number);
            }
        }
        Some(found)
    }

    /// The objects that blocks are parts of, in C order; all blocks if they are not parts.
    pub(super) fn objects(&self) -> impl Iterator<Item = Dims> {
        all_indices(self.object_counts().map(|count| (0, count.saturating_sub(1))).collect())
            .filter(|_| self.counts().all(|count| count > 0))
    }

    /// The number of [`Blocks::objects`].
    pub(super) fn object_count(&self) -> u64 {
        self.object_counts().fold(1, |n, count| n.saturating_mul(count))
    }

    /// The object with this number, in C order.
    pub(super) fn object(&self, number: u64) -> Dims {
        let counts: Dims = self.object_counts().collect();
        let mut at = Dims::from_elem(0, counts.len());
        let mut rest = number;
        for (index, count) in at.iter_mut().zip(&counts).rev() {
            *index = rest % (*count).max(1);
            rest /= (*count).max(1);
        }
        at
    }

    fn object_counts(&self) -> impl Iterator<Item = u64> {
        self.counts().zip(&self.parts).map(|(count, parts)| count.div_ceil(*parts))
    }

    /// The blocks that are parts of an object.
    pub(super) fn parts_of(&self, object: &[u64]) -> impl Iterator<Item = Dims> {
        let axes = object.iter().zip(&self.parts).zip(self.counts());
        let span = |((at, parts), count): ((&u64, &u64), u64)| {
            let first = at.saturating_mul(*parts);
            (first, first.saturating_add(*parts).min(count).saturating_sub(1))
        };
        all_indices(axes.map(span).collect())
    }

    /// The first block that is a part of an object.
    pub(super) fn first_of(&self, object: &[u64]) -> Block {
        let at: Dims = object.iter().zip(&self.parts).map(|(at, parts)| at.saturating_mul(*parts)).collect();
        self.block(&at)
    }

    fn counts(&self) -> impl Iterator<Item = u64> {
        self.shape.iter().zip(&self.block).map(|(n, block)| n.div_ceil((*block).max(1)))
    }

    /// The block of this index.
    pub(super) fn block(&self, at: &[u64]) -> Block {
        let first: Dims = at.iter().zip(&self.block).map(|(index, block)| index * block).collect();
        let axes = first.iter().zip(&self.block).zip(&self.shape);
        let len = axes.map(|((at, block), n)| (*block).min(n - at)).collect();
        Block { first, len }
    }
}

/// First and last index, per axis.
pub(super) type Spans = Vec<(u64, u64)>;

/// All indices within spans, in C order.
pub(crate) fn all_indices(spans: Spans) -> impl Iterator<Item = Dims> {
    let first = spans.iter().map(|(first, _)| *first).collect();
    std::iter::successors(Some(first), move |at: &Dims| {
        let mut at = at.clone();
        for (index, (first, last)) in at.iter_mut().zip(&spans).rev() {
            if *index < *last {
                *index += 1;
                return Some(at);
            }
            *index = *first;
        }
        None
    })
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
    /// The block as indices. (Axes are at most `i64::MAX` long.)
    pub(super) fn index(&self) -> Vec<Index<'static>> {
        let range = |(first, len): (&u64, &u64)| Index::range(*first as i64, (first + len) as i64);
        self.first.iter().zip(&self.len).map(range).collect()
    }

    /// The same box, moved by `start`.
    pub(super) fn shift(&self, start: &[u64]) -> Block {
        Block { first: self.first.iter().zip(start).map(|(at, by)| at + by).collect(), len: self.len.clone() }
    }

    /// Number of elements.
    pub(super) fn elements(&self) -> u64 {
        self.len.iter().product()
    }

    /// Bytes of all elements, of `size` bytes each.
    pub(super) fn bytes(&self, size: usize) -> Option<usize> {
        usize::try_from(self.elements()).ok()?.checked_mul(size)
    }

    /// The intersection with a cell of a grid.
    pub(super) fn common(&self, place: &Dims, grid: &ChunkGrid) -> Block {
        let mut common = self.clone();
        for (axis, at) in place.iter().enumerate() {
            let (first, last) = (self.first[axis], self.first[axis] + self.len[axis]);
            let start = grid.start(axis, *at);
            common.first[axis] = start.clamp(first, last);
            let end = start.saturating_add(grid.size(axis, *at));
            common.len[axis] = end.clamp(common.first[axis], last) - common.first[axis];
        }
        common
    }

    /// The number in the block (C order) of the element at this index in the array.
    pub(super) fn number(&self, position: &[u64]) -> u64 {
        let axes = position.iter().zip(&self.first).zip(&self.len);
        axes.fold(0, |number, ((at, first), len)| number * len + (at - first))
    }

    /// The index in the array of element `number` of the block (C order).
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

    fn blocks(shape: &[u64], block: &[u64], parts: &[u64]) -> Blocks {
        Blocks::new(shape, block, parts)
    }

    fn regular(chunk: &[u64]) -> ChunkGrid {
        ChunkGrid::regular(chunk.into()).unwrap()
    }

    #[test]
    fn parts_follow_their_object() {
        // Shards of 4 × 6 in blocks of 2 × 3; the array ends within the second shards.
        let blocks = blocks(&[6, 7], &[2, 3], &[2, 2]);
        assert!(blocks.are_parts());
        let objects: Vec<Dims> = blocks.objects().collect();
        assert_eq!(
            objects.iter().map(|at| at.to_vec()).collect::<Vec<_>>(),
            [[0, 0], [0, 1], [1, 0], [1, 1]]
        );
        let parts = |object: &[u64]| blocks.parts_of(object).map(|at| at.to_vec()).collect::<Vec<_>>();
        assert_eq!(parts(&[0, 0]), [[0, 0], [0, 1], [1, 0], [1, 1]]);
        assert_eq!(parts(&[1, 1]), [[2, 2]]);
        let all: Vec<Dims> = objects.iter().flat_map(|object| blocks.parts_of(object)).collect();
        let elements: u64 = all.iter().map(|at| blocks.block(at).elements()).sum();
        assert_eq!((all.len(), elements), (9, 42));
        let numbered: Vec<Dims> = (0..blocks.object_count()).map(|number| blocks.object(number)).collect();
        assert_eq!(numbered, objects);
        for object in &objects {
            assert!(blocks.parts_of(object).all(|at| blocks.object_of(&at) == *object));
        }
    }

    #[test]
    fn nothing_and_scalars() {
        let count = |shape: &[u64], block: &[u64]| {
            let blocks = blocks(shape, block, &vec![1; shape.len()]);
            let all: Vec<Dims> =
                blocks.objects().flat_map(|at| blocks.parts_of(&at).collect::<Vec<_>>()).collect();
            (all.len(), all.iter().map(|at| blocks.block(at).elements()).sum::<u64>())
        };
        assert_eq!(count(&[0, 5], &[0, 5]), (0, 0));
        assert_eq!(count(&[], &[]), (1, 1));
        assert_eq!(count(&[7], &[3]), (3, 7));
    }

    #[test]
    fn only_blocks_with_stored_chunks() {
        let blocks = blocks(&[1 << 60, 100], &[6, 100], &[1, 1]);
        let stored = [[0, 0], [1, 0], [1 << 50, 0], [1 << 60, 0], [u64::MAX, 0], [0, 1]];
        let stored: Vec<Dims> = stored.iter().map(|index| index.as_slice().into()).collect();
        let found = blocks.holding(&regular(&[3, 100]), &stored, &[0, 0]).unwrap();
        let found: Vec<(&[u64], &[usize])> =
            found.iter().map(|(at, chunks)| (at.as_slice(), chunks.as_slice())).collect();
        assert_eq!(
            found,
            [([0, 0].as_slice(), [0, 1].as_slice()), ([(1 << 50) / 2, 0].as_slice(), [2].as_slice())]
        );
        // A single chunk as large as the array would be in 2⁵⁹ blocks.
        assert!(blocks.holding(&regular(&[1 << 60, 100]), &stored[..1], &[0, 0]).is_none());
    }

    #[test]
    fn chunks_of_different_lengths() {
        // Chunks of 3, 1, 1, 1 and 4 elements.
        let grid = ChunkGrid::rectilinear(&[vec![(3, 1), (1, 3), (4, 1)]]).unwrap();
        let blocks = blocks(&[9], &[2], &[1]);
        let stored: Vec<Dims> = [0u64, 3, 4, 5].iter().map(|at| Dims::from_slice(&[*at])).collect();
        let found = blocks.holding(&grid, &stored, &[0]).unwrap();
        let found: Vec<(u64, Vec<usize>)> = found.into_iter().map(|(at, which)| (at[0], which)).collect();
        assert_eq!(found, [(0, vec![0]), (1, vec![0]), (2, vec![1]), (3, vec![2]), (4, vec![2])]);
        // Blocks that start at element 4.
        let part = Blocks::new(&[5], &[2], &[1]).holding(&grid, &stored, &[4]).unwrap();
        let part: Vec<(u64, Vec<usize>)> = part.into_iter().map(|(at, which)| (at[0], which)).collect();
        assert_eq!(part, [(0, vec![1]), (1, vec![2]), (2, vec![2])]);
        let common = blocks.block(&[3]).common(&stored[2], &grid);
        assert_eq!((common.first[0], common.len[0]), (6, 2));
        assert_eq!(blocks.block(&[0]).common(&stored[2], &grid).elements(), 0);
    }

    #[test]
    fn positions_in_the_array() {
        let block = Block { first: [10, 20].as_slice().into(), len: [3, 4].as_slice().into() };
        assert_eq!(block.position(0), [10, 20]);
        assert_eq!(block.position(6), [11, 22]);
    }
}
