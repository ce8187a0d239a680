//! One chunk's share of a read: everything known about it, and the strategy that follows.

use crate::copy::gather;
use crate::copy::gather::Direction;
use crate::copy::strided::Region;
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::layout::ArrayLayout;
use crate::plan::point_plan::AllPlaces;
use crate::plan::task::{Task, within_chunk};
use crate::read::fetch::Stored;
use crate::read::request::Request;
use crate::read::strategies::{self, ReadStrategy};
use crate::runtime::memory::Memory;
use hyperslab_store::RangeRead;
use std::sync::Arc;

/// The copy from a decoded chunk to the output, and the byte in the chunk at which it starts.
pub(crate) fn read_region(layout: &ArrayLayout, task: &Task, target: &[isize]) -> (Region, usize) {
    let (strides, offset) = within_chunk(layout, task);
    let encoding = layout.encoding();
    (Region::new(&task.count, target, &strides, encoding.element_size(), encoding.swap()), offset)
}

/// Reads one chunk's share of a request, by a strategy chosen in advance.
pub(crate) struct ChunkReader<'a> {
    pub(crate) strategy: &'static ReadStrategy,
    pub(crate) request: &'a Request<'a>,
    /// The chunk's layout, which may leave out some codecs.
    pub(crate) layout: &'a ArrayLayout,
    /// The place of the first element in the output.
    pub(crate) dst: *mut u8,
    /// The points of the task, if any. The region is copied at each of them.
    pub(crate) places: AllPlaces<'a>,
    pub(crate) region: Region,
    /// First byte of the region in the decoded chunk.
    pub(crate) offset: usize,
    /// The decoded chunk, if a cache holds it.
    pub(crate) cached: Option<Arc<Memory>>,
    /// `true` if a cache will keep the decoded chunk.
    pub(crate) keep: bool,
    /// `true` if its stored bytes are read together with its neighbours.
    pub(crate) joined: bool,
}

impl<'a> ChunkReader<'a> {
    /// Decides how to read a stored chunk.
    ///
    /// `held` is the decoded chunk from a cache. `joined`: its bytes are read together with its
    /// neighbours.
    pub(crate) fn new(
        request: &'a Request<'a>,
        layout: &'a ArrayLayout,
        task: &Task,
        held: Option<Arc<Memory>>,
        joined: bool,
    ) -> Self {
        let places = request.plan.places(task, request.target.strides());
        Self::with_places(request, layout, task, places, held, joined)
    }

    /// [`ChunkReader::new`] with the given places for the points of the task.
    #[inline(always)]
    pub(crate) fn with_places(
        request: &'a Request<'a>,
        layout: &'a ArrayLayout,
        task: &Task,
        places: AllPlaces<'a>,
        held: Option<Arc<Memory>>,
        joined: bool,
    ) -> Self {
        let strides = request.target.strides();
        let (region, offset) = read_region(layout, task, strides);
        // Chunks without codecs are never kept.
        let keep = request.keep.is_some() && !layout.encoding().chain().stores_decoded();
        let dst = request.target.at(&task.out);
        let strategy = strategies::LAST;
        let mut this = ChunkReader {
            strategy,
            request,
            layout,
            dst,
            places,
            region,
            offset,
            cached: held,
            keep,
            joined,
        };
        this.strategy = strategies::choose(&this, task);
        this
    }

    /// Returns `true` if the chunk has no codecs.
    pub(crate) fn is_plain(&self) -> bool {
        self.layout.encoding().chain().stores_decoded()
    }

    /// The length of the task if it is one row of bytes, both in the chunk and in the output.
    pub(crate) fn one_row(&self, task: &Task) -> Option<usize> {
        if task.picks.is_empty() { self.region.contiguous_len() } else { None }
    }

    /// Reads the task at hand. Returns `true` if the chunk exists.
    pub(crate) fn read(&self, scratch: &mut Scratch, stored: Stored<'_>) -> Result<bool, ArrayError> {
        let found = (self.strategy.read)(self, scratch, stored)?;
        if found && self.request.masking.is_some() && !(self.strategy.marks)(self) {
            self.request.mark(&scratch.task);
        }
        Ok(found)
    }

    /// The output as one row of `len` bytes.
    ///
    /// Dereference it only for a region whose [`Region::contiguous`] is `len`.
    pub(crate) fn row(&self, len: usize) -> *mut [u8] {
        std::ptr::slice_from_raw_parts_mut(self.dst, len)
    }

    /// Returns `true` if the chunk's bytes go unchanged to rows of the output.
    pub(crate) fn is_direct(&self) -> bool {
        self.places.is_empty()
            && self.layout.encoding().swap() == 1
            && self.region.contiguous_len().or_else(|| self.region.direct_row()).is_some()
    }

    /// Adds the ranges of a chunk that goes [straight](ChunkReader::is_direct) to the output.
    ///
    /// The chunk begins at `start` of its object.
    pub(crate) fn push_rows<'b>(&self, start: u64, list: &mut Vec<RangeRead<'b>>) {
        let mut push = |len: usize, dst: isize, src: isize| {
            // SAFETY: a row that is contiguous in the output, of initialised bytes; rows are
            // disjoint.
            let buf = unsafe { std::slice::from_raw_parts_mut(self.dst.wrapping_offset(dst), len) };
            list.push(RangeRead {
                offset: (start + self.offset as u64).wrapping_add_signed(src as i64),
                buf,
            });
        };
        match (self.region.contiguous_len(), self.region.direct_row()) {
            (Some(len), _) => push(len, 0, 0),
            (None, Some(len)) => self.region.for_each_row(&mut |dst, src| push(len, dst, src)),
            (None, None) => {}
        }
    }

    /// Copies the task's elements from a whole decoded chunk to the output.
    pub(crate) fn scatter(&self, chunk: &[u8]) {
        debug_assert_eq!(chunk.len(), self.layout.encoding().decoded_size());
        let src = chunk.as_ptr().wrapping_add(self.offset);
        // SAFETY: the target covers the task's elements; `chunk` is a whole decoded chunk, and the
        // region lies within it.
        unsafe { gather::copy(&self.places, Direction::Read, &self.region, self.dst, src) };
    }

    /// The ranges that [`ChunkReader::read`] requests from a chunk.
    ///
    /// The chunk has `stored.1` bytes, from `stored.0` on. The ranges are ascending, and touching
    /// ones are joined, as a store reads them.
    pub(crate) fn ranges(&self, task: &Task, stored: (u64, u64)) -> Vec<(u64, u64)> {
        let mut ranges = (self.strategy.ranges)(self, task, stored);
        join_touching(&mut ranges);
        ranges
    }
}

/// Sorts ranges, and joins touching ones, as a store reads them.
pub(crate) fn join_touching(ranges: &mut Vec<(u64, u64)>) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let touches = last.0 + last.1 == next.0;
        if touches {
            last.1 += next.1;
        }
        touches
    });
}
