//! State that one thread keeps between chunks: codec contexts and intermediate buffers.

use crate::hdf5::blosc2;
use crate::{CodecError, Result, blosc, deflate, room, zstd};

/// One thread's contexts and buffers, created on first use and reused for every later chunk.
///
/// In the steady state, decoding or encoding a chunk allocates nothing.
#[derive(Default)]
pub struct Scratch {
    pub(crate) zstd: zstd::Contexts,
    pub(crate) deflate: deflate::Contexts,
    pub(crate) blosc: blosc::Contexts,
    pub(crate) blosc2: blosc2::Contexts,
    /// The private copy of a chunk for encoders that need one ([`crate::Racing::NeedsCopy`]).
    pub(crate) own: Vec<u8>,
    /// Buffers between the steps of a chain.
    pub(crate) stages: [Vec<u8>; 2],
    /// Which elements are present, and their values.
    pub(crate) optional: [Vec<u8>; 2],
}

impl Scratch {
    /// Frees buffers of more than `keep` bytes.
    pub fn trim(&mut self, keep: usize) {
        let Scratch { own, stages: [from, to], optional: [valid, values], .. } = self;
        for buffer in [own, from, to, valid, values] {
            if buffer.capacity() > keep {
                *buffer = Vec::new();
            }
        }
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scratch")
    }
}

/// The first `len` bytes of a buffer that only grows, with stale contents. New bytes are zeroed
/// once, when the buffer grows.
#[expect(clippy::indexing_slicing, reason = "the buffer has just grown to that size")]
pub(crate) fn resize_buffer<'b>(
    buf: &'b mut Vec<u8>,
    len: usize,
    codec: &'static str,
) -> Result<&'b mut [u8]> {
    if buf.capacity() < len {
        // Nothing is copied, and new memory from the system is already zero.
        *buf = Vec::new();
        *buf = room::zeros(len).ok_or_else(|| CodecError::memory(codec, len))?;
    } else if buf.len() < len {
        buf.resize(len, 0);
    }
    Ok(&mut buf[..len])
}
