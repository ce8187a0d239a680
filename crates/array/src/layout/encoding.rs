//! How the stored bytes of a chunk become its elements.

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::dims::{Dims, Strides};
use crate::dims::{c_strides, element_count};
use hyperslab_codec::{ByteOrder, ChunkCodecs, Codec, CodecChain, DataType, Heap, Vlen};
use smallvec::SmallVec;
use std::sync::Arc;

/// The codecs of an array, bound to its element type and chunk shape.
///
/// Decoded bytes differ from elements in memory only in the order of axes (a transposed chunk is a
/// chunk with other strides) and in byte order. The copy between chunk and output applies both, so
/// neither needs a pass of its own.
#[derive(Clone, Debug)]
pub struct ChunkEncoding {
    chunk: Dims,
    element: usize,
    /// `order[k]` is the array axis stored as the k-th, slowest first. Identity: C order.
    order: SmallVec<[u8; 8]>,
    /// Bytes from one element to the next in the decoded chunk, per array axis.
    strides: Strides,
    /// Bytes reversed as a unit when reading; 1: none.
    swap: usize,
    chain: CodecChain,
    /// See [`ChunkEncoding::that_may_end_early`].
    ends_early: bool,
}

impl ChunkEncoding {
    /// Binds codecs to a chunk shape and an element type.
    ///
    /// `order` lists the array axes as they are stored, slowest first (empty: C order). `stored` is
    /// the byte order of stored elements. Fails (with a message) if `order` is not a permutation of
    /// the axes, or if a chunk has more bytes than memory can hold.
    pub fn new(
        chunk: &[u64],
        dtype: DataType,
        stored: ByteOrder,
        order: &[usize],
        codecs: Vec<Arc<dyn Codec>>,
    ) -> Result<Self, String> {
        Self::bind(chunk, dtype, stored, order, None, codecs)
    }

    /// Binds the codecs of metadata. Fails like [`ChunkEncoding::new`].
    pub fn of(chunk: &[u64], dtype: DataType, codecs: &ChunkCodecs) -> Result<Self, String> {
        let ChunkCodecs { order, stored, vlen, codecs } = codecs;
        Self::bind(chunk, dtype, *stored, order, vlen.clone(), codecs.clone())
    }

    fn bind(
        chunk: &[u64],
        dtype: DataType,
        stored: ByteOrder,
        order: &[usize],
        vlen: Option<Vlen>,
        codecs: Vec<Arc<dyn Codec>>,
    ) -> Result<Self, String> {
        let rank = chunk.len();
        let order: SmallVec<[u8; 8]> = if order.is_empty() {
            (0..rank as u8).collect()
        } else {
            order.iter().map(|axis| *axis as u8).collect()
        };
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if rank > crate::dims::MAX_RANK
            || sorted.iter().enumerate().any(|(k, axis)| k != *axis as usize)
            || sorted.len() != rank
        {
            return Err(format!(
                "the stored order of axes {order:?} is not a permutation of the {rank} axes"
            ));
        }
        let size = element_count(chunk)
            .and_then(|n| n.checked_mul(dtype.size() as u64))
            .and_then(|n| isize::try_from(n).ok())
            .ok_or_else(|| {
                format!("a chunk of shape {chunk:?} of {dtype} has more bytes than memory can hold")
            })?;
        let stored_shape: Dims = order.iter().map(|axis| chunk[*axis as usize]).collect();
        let mut strides: Strides = SmallVec::from_elem(0, rank);
        for (axis, stride) in order.iter().zip(c_strides(&stored_shape, dtype.size())) {
            strides[*axis as usize] = stride;
        }
        let swap = if dtype.has_order() && stored != dtype.order() { dtype.number_size() } else { 1 };
        let chain = match vlen {
            None => CodecChain::new(codecs, size as usize),
            Some(vlen) => CodecChain::of_vlen(vlen, codecs, size as usize),
        };
        let (chunk, element) = (chunk.into(), dtype.size());
        Ok(ChunkEncoding { chunk, element, order, strides, swap, chain, ends_early: false })
    }

    /// The encoding of chunks written without some codecs: bit `i` means the `i`-th of the chain.
    pub(crate) fn without_codecs(&self, skipped: u32) -> Self {
        ChunkEncoding { chain: self.chain.without_codecs(skipped), ..self.clone() }
    }

    /// Binds variable-length elements to `heap`, which holds their bytes.
    ///
    /// `None` if elements have a fixed size.
    pub fn bound(&self, heap: &Arc<Heap>) -> Option<Self> {
        Some(ChunkEncoding { chain: self.chain.bound(heap)?, ..self.clone() })
    }

    /// Allows chunks to end early. A read fails only if it wants the missing part.
    ///
    /// For formats whose writers leave out elements beyond the array.
    #[must_use]
    pub fn that_may_end_early(self) -> Self {
        ChunkEncoding { ends_early: true, ..self }
    }

    /// Returns `true` if chunks need not be stored to their end.
    pub(crate) fn ends_early(&self) -> bool {
        self.ends_early
    }

    /// Returns `true` if elements have variable length, or change their byte order when read.
    pub(crate) fn vlen_or_swapped(&self) -> bool {
        self.swap > 1 || self.chain.vlen().is_some()
    }

    /// Splits each element into `count` elements of `unit` bytes, along a new last axis.
    ///
    /// The new axis is stored fastest.
    pub(crate) fn with_axis(&self, count: u64, unit: usize) -> Self {
        let chunk = self.chunk.iter().copied().chain([count]).collect();
        let order = self.order.iter().copied().chain([self.rank() as u8]).collect();
        let strides = self.strides.iter().copied().chain([unit as isize]).collect();
        let (chain, ends_early) = (self.chain.clone(), self.ends_early);
        ChunkEncoding { chunk, element: unit, order, strides, swap: 1, chain, ends_early }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.chunk.len()
    }

    /// Elements of a whole chunk per axis.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.chunk
    }

    /// Bytes of one element.
    pub fn element_size(&self) -> usize {
        self.element
    }

    /// Bytes of a decoded chunk.
    pub fn decoded_size(&self) -> usize {
        self.chain.decoded_size()
    }

    /// The array axes in the order in which they are stored, slowest first.
    pub fn order(&self) -> &[u8] {
        &self.order
    }

    /// Returns `true` if the first axis is stored slowest and the last fastest.
    pub fn is_c_order(&self) -> bool {
        self.order.iter().enumerate().all(|(k, axis)| k == *axis as usize)
    }

    /// Byte strides of a decoded chunk, per array axis.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Bytes reversed as a unit between stored and in-memory elements; 1: none.
    pub fn swap(&self) -> usize {
        self.swap
    }

    /// The codecs that run.
    pub fn chain(&self) -> &CodecChain {
        &self.chain
    }

    /// Returns `true` if stored bytes are the elements in memory, up to the order of axes.
    ///
    /// Then there is nothing to decode and nothing to swap.
    pub fn is_plain(&self) -> bool {
        self.swap == 1 && self.chain.is_identity()
    }
}
