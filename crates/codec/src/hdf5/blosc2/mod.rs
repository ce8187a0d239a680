//! `blosc2`, filter 32026: a Blosc2 frame that holds one chunk.
//!
//! * Specification: <https://github.com/Blosc/HDF5-Blosc2>, and the formats of
//!   <https://github.com/Blosc/c-blosc2>: `README_CFRAME_FORMAT.rst` ([`frame`]),
//!   `README_CHUNK_FORMAT.rst` ([`chunk`]), `README_B2ND_METALAYER.rst` ([`b2nd`])
//! * Client data record only what the encoder was asked for
//!
//! Without the metalayer `b2nd`, a chunk's blocks are the decoded bytes, one after another. With
//! it, they are boxes of an N-dimensional array, which is padded to whole boxes.

mod b2nd;
mod chunk;
mod frame;

use crate::{Codec, CodecError, Reach, Result, Scratch, chain, front};
use b2nd::Boxes;
use chunk::Chunk;
use frame::{Content, Frame};
use std::ops::Range;

/// The `blosc2` filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blosc2 {
    /// The most bytes that a chunk can have with padding.
    padded: usize,
}

const NAME: &str = "blosc2";

/// Buffers that a thread keeps between chunks.
#[derive(Default)]
pub(crate) struct Contexts {
    chunk: chunk::Buffers,
    /// One block, if blocks are boxes of an array.
    block: Vec<u8>,
}

impl Blosc2 {
    /// Reads client data: the versions, the sizes of a block, of an element and of the chunk,
    /// level, shuffle, compressor. The number of axes and the elements of a chunk along each may
    /// follow.
    pub(super) fn new(client_data: &[u32], chunk_bytes: usize) -> Self {
        // Along an axis, a box has at most as many elements as the array, which is padded to whole
        // boxes.
        let twice = |size: usize, side: &u32| size.saturating_mul((*side as usize).saturating_mul(2));
        let shape = client_data.get(8..).unwrap_or_default();
        let element = client_data.get(2).map_or(1, |size| *size as usize);
        Blosc2 { padded: shape.iter().fold(element, twice).max(chunk_bytes) }
    }
}

fn corrupt(why: impl Into<String>) -> CodecError {
    CodecError::corrupt(NAME, why)
}

impl Codec for Blosc2 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch) -> Result<usize> {
        self.decode_range(src, 0..dst.len(), dst, scratch)
    }

    fn decode_range(
        &self,
        src: &[u8],
        wanted: Range<usize>,
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<usize> {
        let frame = Frame::parse(src)?;
        let boxes = match frame.b2nd {
            None => None,
            Some(metalayer) => Some(Boxes::parse(metalayer, frame.typesize)?),
        };
        let size = boxes.as_ref().map_or(frame.nbytes, |boxes| boxes.size);
        let dst = front(NAME, dst, size)?;
        if let Some(boxes) = boxes.as_ref().filter(|boxes| boxes.padded_size != frame.nbytes) {
            let why = format!(
                "expected {} bytes for the blocks of the array, found {}",
                boxes.padded_size, frame.nbytes
            );
            return Err(corrupt(why));
        }
        let Scratch { blosc, blosc2, .. } = scratch;
        let Contexts { chunk: buffers, block } = blosc2;
        let chunk = match frame.content {
            Content::Repeated(special) => {
                special.fill(frame.typesize, dst)?;
                return Ok(size);
            }
            Content::Chunk(bytes) => Chunk::parse(bytes)?,
        };
        if chunk.nbytes != frame.nbytes {
            return Err(corrupt(format!(
                "expected a chunk of {} bytes, as its frame says, found {} bytes",
                frame.nbytes, chunk.nbytes
            )));
        }
        match boxes {
            None => chunk.decode(wanted, dst, &mut blosc.decoders, buffers)?,
            Some(boxes) => boxes.decode(&chunk, wanted, dst, &mut blosc.decoders, buffers, block)?,
        }
        Ok(size)
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        chain::generous_bound(decoded.max(self.padded))
    }

    fn reach(&self) -> Reach {
        Reach::Blocks
    }
}

#[cfg(test)]
mod tests;
