//! How an array is cut into chunks.

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]

use crate::dims::Dims;

/// A regular grid: chunk `i` of an axis covers elements `i * n .. (i + 1) * n`; the last may reach
/// past the array's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkGrid {
    chunk: Dims,
}

impl ChunkGrid {
    /// A grid of chunks of this shape. `None` where a chunk has no elements along some axis.
    pub fn regular(chunk: Dims) -> Option<Self> {
        (!chunk.contains(&0)).then_some(ChunkGrid { chunk })
    }

    /// The same grid with one more axis at the end, along which there is one chunk of this length.
    pub(crate) fn with_axis(&self, len: u64) -> Self {
        ChunkGrid { chunk: self.chunk.iter().copied().chain([len]).collect() }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.chunk.len()
    }

    /// Elements of a whole chunk per axis.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.chunk
    }

    /// Chunks per axis of an array of `shape`.
    pub fn counts(&self, shape: &[u64]) -> Dims {
        shape.iter().zip(&self.chunk).map(|(n, c)| n.div_ceil(*c)).collect()
    }

    /// How many elements of chunk `index` lie inside an axis of `extent` elements.
    pub fn inside(&self, axis: usize, index: u64, extent: u64) -> u64 {
        let chunk = self.chunk[axis];
        extent.saturating_sub(index.saturating_mul(chunk)).min(chunk)
    }
}
