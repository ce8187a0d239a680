//! N-dimensional arrays: the blocks of a chunk are boxes of the array.
//!
//! Boxes are in C order, and so are the elements of each box. Boxes at the ends of axes reach past
//! the array; elements outside the array are padding.
//!
//! The metalayer `b2nd` is a MessagePack array. It holds a version (0), the number of axes, the
//! shapes of the array, of chunks and of blocks, and the format and text of a datatype. Decoding
//! does not need the datatype.

use super::chunk::{Buffers, Chunk};
use super::corrupt;
use super::frame::Reader;
use crate::Result;
use crate::blosc::inner::Decoders;
use crate::numbers::low_bits::low8;
use crate::scratch::resize_buffer;
use std::ops::Range;

/// The most axes of an array: as many as a short MessagePack array can hold. The library allows
/// only 8.
const MAX_RANK: usize = 15;

/// The boxes of one chunk.
#[derive(Debug)]
pub(super) struct Boxes {
    rank: usize,
    /// Elements of the array along each axis.
    shape: [usize; MAX_RANK],
    /// Elements of a box along each axis.
    side: [usize; MAX_RANK],
    typesize: usize,
    /// Bytes of the array.
    pub size: usize,
    /// Bytes of all boxes.
    pub padded_size: usize,
}

impl Boxes {
    pub(super) fn parse(metalayer: &[u8], typesize: usize) -> Result<Self> {
        let mut reader = Reader { bytes: metalayer, at: 0 };
        reader.expect(0x97)?;
        let (version, rank) = (reader.read_fixint()?, reader.read_fixint()?);
        if version != 0 || !(1..=MAX_RANK).contains(&rank) {
            return Err(corrupt(format!("an array of version {version} with {rank} axes is not supported")));
        }
        let mut shapes = [[1; MAX_RANK]; 3];
        for (shape, (kind, len)) in shapes.iter_mut().zip([(0xd3, 8), (0xd2, 4), (0xd2, 4)]) {
            reader.expect(0x90 | low8(rank as u64))?;
            for side in shape.iter_mut().take(rank) {
                *side = reader.number(kind, len)?;
            }
        }
        let [shape, chunk, side] = shapes;
        let fits = |((shape, chunk), side): ((&usize, &usize), &usize)| {
            shape == chunk && *side >= 1 && side <= chunk
        };
        if !shape.iter().zip(&chunk).zip(&side).all(fits) {
            return Err(corrupt(
                "an array that is not one chunk, or has blocks larger than it, is not supported",
            ));
        }
        let size = shape.iter().copied().try_fold(typesize, usize::checked_mul);
        let padded = shape
            .iter()
            .zip(&side)
            .map(|(shape, side)| shape.div_ceil(*side).saturating_mul(*side))
            .try_fold(typesize, usize::checked_mul);
        match (size, padded) {
            (Some(size), Some(padded_size)) => Ok(Boxes { rank, shape, side, typesize, size, padded_size }),
            _ => Err(corrupt("the array is too large")),
        }
    }

    /// Decodes the boxes that hold bytes `wanted` of the array into `dst`, at their places.
    ///
    /// `dst` has the array's size.
    pub(super) fn decode(
        &self,
        chunk: &Chunk<'_>,
        wanted: Range<usize>,
        dst: &mut [u8],
        decoders: &mut Decoders,
        buffers: &mut Buffers,
        block: &mut Vec<u8>,
    ) -> Result<()> {
        let box_size = self.side.iter().product::<usize>() * self.typesize;
        if chunk.blocksize != box_size {
            return Err(corrupt(format!(
                "expected blocks of {box_size} bytes, found blocks of {} bytes",
                chunk.blocksize
            )));
        }
        let mut blocks = chunk.blocks(decoders, buffers)?;
        for index in 0..self.padded_size / box_size {
            let extent = self.extent(index);
            let (first, last) = (self.offset(&extent.start), self.offset(&extent.last()));
            if first >= wanted.end || last + self.typesize <= wanted.start {
                continue;
            }
            if extent.is_contiguous(self) {
                // Rows of the box are rows of the array.
                let out = dst.get_mut(first..first + box_size);
                blocks
                    .decode(index, out.ok_or_else(|| corrupt("a block ends after the end of the array"))?)?;
                continue;
            }
            let block = resize_buffer(block, box_size, "blosc2")?;
            blocks.decode(index, block)?;
            self.scatter(&extent, block, dst);
        }
        Ok(())
    }

    /// The part of the array that box `index` covers.
    fn extent(&self, mut index: usize) -> Extent {
        let mut extent = Extent { start: [0; MAX_RANK], count: [1; MAX_RANK] };
        let places = extent.start.iter_mut().zip(&mut extent.count);
        for ((start, count), (shape, side)) in
            places.zip(self.shape.iter().zip(&self.side)).take(self.rank).rev()
        {
            let boxes = shape.div_ceil(*side);
            *start = index % boxes * side;
            *count = (*side).min(shape - *start);
            index /= boxes;
        }
        extent
    }

    /// The byte at which an element starts.
    fn offset(&self, element: &[usize; MAX_RANK]) -> usize {
        element.iter().zip(&self.shape).fold(0, |offset, (at, shape)| offset * shape + at) * self.typesize
    }

    /// Copies the rows of a box that are within the array to their places.
    fn scatter(&self, extent: &Extent, block: &[u8], dst: &mut [u8]) {
        let Some((row, counts)) = extent.count.get(..self.rank).and_then(<[usize]>::split_last) else {
            return;
        };
        let row = row * self.typesize;
        let rows: usize = counts.iter().product();
        // The index of the row's first element within the box.
        let mut at = [0; MAX_RANK];
        for _ in 0..rows {
            let within =
                at.iter().zip(&self.side).fold(0, |offset, (at, side)| offset * side + at) * self.typesize;
            let mut element = extent.start;
            element.iter_mut().zip(&at).for_each(|(element, at)| *element += at);
            let target = self.offset(&element);
            if let (Some(to), Some(from)) =
                (dst.get_mut(target..target + row), block.get(within..within + row))
            {
                to.copy_from_slice(from);
            }
            for (at, count) in at.iter_mut().zip(counts).rev() {
                *at += 1;
                if *at < *count {
                    break;
                }
                *at = 0;
            }
        }
    }
}

/// The part of the array that a box covers.
struct Extent {
    start: [usize; MAX_RANK],
    count: [usize; MAX_RANK],
}

impl Extent {
    fn last(&self) -> [usize; MAX_RANK] {
        let mut last = self.start;
        last.iter_mut().zip(&self.count).for_each(|(last, count)| *last += count - 1);
        last
    }

    /// Returns `true` if the box is inside the array and its bytes there have no gaps.
    ///
    /// The box must be as wide as the array on all axes after the first axis on which it has more
    /// than one element.
    fn is_contiguous(&self, boxes: &Boxes) -> bool {
        let first = boxes.side.iter().position(|side| *side > 1).unwrap_or(0);
        let mut behind = boxes.side.iter().zip(&boxes.shape).skip(first + 1);
        self.count == boxes.side && behind.all(|(side, shape)| side == shape)
    }
}
