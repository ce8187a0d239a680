//! How an array is cut into chunks.

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]

use crate::dims::Dims;
use std::sync::Arc;

/// How an array is cut into chunks.
///
/// In a regular grid, chunk `i` of an axis covers elements `i * n .. (i + 1) * n`. In a rectilinear
/// grid, chunks along an axis may differ in length; each axis is a list of runs of equally long
/// chunks. In both, the last chunk may reach past the array's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkGrid {
    /// Length of the longest chunk along each axis.
    chunk: Dims,
    /// The runs of each axis, at least one per axis; `None` if the grid is regular.
    runs: Option<Arc<[Vec<EqualChunks>]>>,
}

/// Consecutive chunks of one length along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EqualChunks {
    /// Number of the first chunk.
    pub(crate) chunk: u64,
    /// First element of the first chunk.
    pub(crate) start: u64,
    /// Elements of each chunk.
    pub(crate) size: u64,
    /// End of the last chunk (exclusive).
    pub(crate) end: u64,
}

impl ChunkGrid {
    /// A grid of chunks of this shape. `None` if a chunk has no elements along some axis.
    pub fn regular(chunk: Dims) -> Option<Self> {
        (!chunk.contains(&0)).then_some(ChunkGrid { chunk, runs: None })
    }

    /// A grid of chunks of different lengths.
    ///
    /// Each axis lists lengths, each with the number of consecutive chunks that have it. `None` if
    /// an axis has no chunks, a chunk has no elements, or an axis has more than 2⁶³ - 1 elements.
    pub fn rectilinear(axes: &[Vec<(u64, u64)>]) -> Option<Self> {
        let (mut chunk, mut all) = (Dims::new(), Vec::new());
        for axis in axes {
            let (mut runs, mut number, mut start): (Vec<EqualChunks>, u64, u64) = (Vec::new(), 0, 0);
            for (size, count) in axis.iter().copied() {
                let end =
                    size.checked_mul(count)?.checked_add(start).filter(|end| *end <= i64::MAX as u64)?;
                if end == start {
                    return None;
                }
                match runs.last_mut() {
                    Some(last) if last.size == size => last.end = end,
                    _ => runs.push(EqualChunks { chunk: number, start, size, end }),
                }
                (number, start) = (number + count, end);
            }
            chunk.push(runs.iter().map(|run| run.size).max()?);
            all.push(runs);
        }
        Some(ChunkGrid { chunk, runs: Some(all.into()) })
    }

    /// Returns `true` if all chunks have one shape.
    pub fn is_regular(&self) -> bool {
        self.runs.is_none()
    }

    /// Appends an axis with a single chunk of length `len`.
    pub(crate) fn with_axis(&self, len: u64) -> Self {
        let whole = EqualChunks { chunk: 0, start: 0, size: len, end: len };
        let runs = self.runs.as_ref().map(|axes| axes.iter().cloned().chain([vec![whole]]).collect());
        ChunkGrid { chunk: self.chunk.iter().copied().chain([len]).collect(), runs }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.chunk.len()
    }

    /// Elements of a whole chunk per axis; in a rectilinear grid, of the longest along each axis.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.chunk
    }

    /// Elements of one chunk per axis, including those past the array's end.
    pub fn shape_of(&self, chunk: &[u64]) -> Dims {
        chunk.iter().enumerate().map(|(axis, index)| self.size(axis, *index)).collect()
    }

    /// Elements of chunk `index` of an axis, including those past the array's end.
    pub fn size(&self, axis: usize, index: u64) -> u64 {
        self.run(axis, |run| run.chunk <= index).map_or(self.chunk[axis], |run| run.size)
    }

    /// The first element of chunk `index` of an axis.
    ///
    /// Past the last chunk of a rectilinear axis, it is the end of the axis.
    pub fn start(&self, axis: usize, index: u64) -> u64 {
        match self.run(axis, |run| run.chunk <= index) {
            None => index.saturating_mul(self.chunk[axis]),
            Some(run) => (index - run.chunk).saturating_mul(run.size).saturating_add(run.start).min(run.end),
        }
    }

    /// The chunk that contains this element of an axis.
    pub fn index_of(&self, axis: usize, element: u64) -> u64 {
        match self.run(axis, |run| run.start <= element) {
            None => element / self.chunk[axis],
            Some(run) => run.chunk + (element - run.start) / run.size,
        }
    }

    /// Chunks per axis of an array of `shape`.
    pub fn counts(&self, shape: &[u64]) -> Dims {
        match self.runs {
            None => shape.iter().zip(&self.chunk).map(|(n, c)| n.div_ceil(*c)).collect(),
            Some(_) => {
                let count = |(axis, n): (usize, &u64)| n.checked_sub(1).map(|n| self.index_of(axis, n) + 1);
                shape.iter().enumerate().map(|axis| count(axis).unwrap_or(0)).collect()
            }
        }
    }

    /// Number of elements of chunk `index` inside an axis of `extent` elements.
    pub fn len_inside(&self, axis: usize, index: u64, extent: u64) -> u64 {
        if self.runs.is_some() {
            return extent.saturating_sub(self.start(axis, index)).min(self.size(axis, index));
        }
        let chunk = self.chunk[axis];
        extent.saturating_sub(index.saturating_mul(chunk)).min(chunk)
    }

    /// Returns `true` if the chunks cover an array of `shape`.
    pub(crate) fn covers(&self, shape: &[u64]) -> bool {
        self.runs.as_ref().is_none_or(|axes| {
            axes.iter().zip(shape).all(|(runs, n)| runs.last().is_some_and(|last| last.end >= *n))
        })
    }

    /// The runs of an axis of a rectilinear grid, in order.
    pub(crate) fn runs(&self, axis: usize) -> Option<&[EqualChunks]> {
        self.runs.as_ref().map(|axes| axes[axis].as_slice())
    }

    /// The last run of an axis for which `is_before` is true, as for all runs before it.
    fn run(&self, axis: usize, is_before: impl Fn(&EqualChunks) -> bool) -> Option<&EqualChunks> {
        let runs = self.runs(axis)?;
        runs.get(runs.partition_point(is_before).saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_grid_is_refused() {
        assert_eq!(ChunkGrid::regular([3, 0].as_slice().into()), None);
        for axis in
            [&[][..], &[(0, 1)], &[(3, 0)], &[(1 << 62, 2)], &[(1 << 62, 1), (1 << 62, 1)], &[(u64::MAX, 2)]]
        {
            assert_eq!(ChunkGrid::rectilinear(&[vec![(1, 1)], axis.to_vec()]), None, "{axis:?}");
        }
        // Memory does not grow with the number of chunks.
        let grid = ChunkGrid::rectilinear(&[vec![(1, 5), (2, 1 << 61)]]).unwrap();
        assert_eq!(grid.counts(&[1 << 62]), Dims::from_slice(&[5 + ((1 << 62) - 5u64).div_ceil(2)]));
    }

    proptest! {
        #[test]
        fn as_counted_one_by_one(
            runs in proptest::collection::vec((1u64..5, 1u64..4), 1..6),
            extent in 0u64..70,
        ) {
            let grid = ChunkGrid::rectilinear(std::slice::from_ref(&runs)).unwrap();
            let sizes: Vec<u64> =
                runs.iter().flat_map(|(size, count)| std::iter::repeat_n(*size, *count as usize)).collect();
            let total: u64 = sizes.iter().sum();
            prop_assert_eq!(grid.covers(&[extent]), extent <= total);
            prop_assert_eq!(grid.chunk_shape(), &[*sizes.iter().max().unwrap()]);
            let extent = extent.min(total);
            let (mut start, mut count) = (0, 0);
            for (index, size) in sizes.iter().enumerate() {
                let index = index as u64;
                prop_assert_eq!((grid.start(0, index), grid.size(0, index)), (start, *size));
                prop_assert_eq!(grid.len_inside(0, index, extent), extent.saturating_sub(start).min(*size));
                (start..start + size).for_each(|element| assert_eq!(grid.index_of(0, element), index));
                count += u64::from(start < extent);
                start += size;
            }
            prop_assert_eq!(grid.start(0, sizes.len() as u64), total);
            prop_assert_eq!(grid.counts(&[extent]), Dims::from_slice(&[count]));
        }
    }
}
