//! `lz4`, filter 32004: LZ4 blocks, each after its size.
//!
//! This is neither the LZ4 frame format nor numcodecs' framing.
//!
//! * Specification: <https://github.com/HDFGroup/hdf5_plugins/blob/master/LZ4/LZ4_HDF5_format.md>;
//!   client data: the encoder's block size, which the chunk repeats
//!
//! A chunk is its decoded size (8 bytes), the decoded size of a block (4 bytes), and the blocks,
//! each after its number of bytes (4 bytes). All numbers are big-endian. The last block may decode
//! to less. A block that has as many bytes as it decodes to is stored uncompressed.

use super::{framed_block, put_block, put_header, sized_header};
use crate::blosc::header::Format;
use crate::lz4::compress;
use crate::{Codec, CodecError, Reach, Result, Scratch, chain};
use std::ops::Range;

/// The `lz4` filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lz4 {
    /// The block size in the client data.
    block_size: usize,
}

/// The encoder's block size if client data give none.
const DEFAULT_BLOCK: usize = 1 << 30;

impl Lz4 {
    pub(super) fn new(client_data: &[u32]) -> Self {
        match client_data.first() {
            None | Some(0) => Lz4 { block_size: DEFAULT_BLOCK },
            Some(size) => Lz4 { block_size: *size as usize },
        }
    }
}

impl Codec for Lz4 {
    fn name(&self) -> &'static str {
        "lz4"
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
        let (dst, block_size, mut rest) = sized_header("lz4", src, dst)?;
        if block_size == 0 && !dst.is_empty() {
            return Err(CodecError::corrupt("lz4", "the block size must be 1 or more, found 0"));
        }
        for (index, out) in dst.chunks_mut(block_size.max(1)).enumerate() {
            let block = framed_block("lz4", &mut rest)?;
            let at = index * block_size;
            if at >= wanted.end || at + out.len() <= wanted.start {
                continue;
            }
            if block.len() == out.len() {
                out.copy_from_slice(block);
                continue;
            }
            let failed =
                |why| CodecError::corrupt("lz4", format!("block {index}, {} bytes: {why}", block.len()));
            scratch.blosc.decoders.decode(Format::Lz4, block, out).map_err(failed)?;
        }
        if !rest.is_empty() {
            return Err(CodecError::corrupt("lz4", format!("{} bytes follow the last block", rest.len())));
        }
        Ok(dst.len())
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        let size = self.block_size.min(src.len()).max(1);
        put_header(dst, src.len(), size);
        for block in src.chunks(size) {
            put_block("lz4", dst, |dst| {
                let start = dst.len();
                if !compress(block, dst, 1) {
                    return false;
                }
                // A block that does not shrink is stored as it is.
                if dst.len() - start >= block.len() {
                    dst.truncate(start);
                    dst.extend_from_slice(block);
                }
                true
            })?;
        }
        Ok(())
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        let sizes = decoded.div_ceil(self.block_size).saturating_mul(4);
        chain::generous_bound(decoded).saturating_add(sizes)
    }

    fn reach(&self) -> Reach {
        Reach::Blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};

    /// A chunk with a header of `size` and `block_size`, and these blocks.
    fn chunk(size: u64, block_size: u32, blocks: &[&[u8]]) -> Vec<u8> {
        let mut chunk = [&size.to_be_bytes()[..], &block_size.to_be_bytes()].concat();
        for block in blocks {
            chunk.extend((block.len() as u32).to_be_bytes());
            chunk.extend_from_slice(block);
        }
        chunk
    }

    #[test]
    fn blocks() {
        let lz4 = Lz4::new(&[4]);
        // Two uncompressed blocks, the last one shorter; then one LZ4 block of three literals.
        let good = chunk(6, 4, &[b"abcd", b"ef"]);
        assert_eq!(decode(&lz4, &good, 6).unwrap(), b"abcdef");
        assert_eq!(decode(&lz4, &chunk(3, 100, &[b"\x30abc"]), 3).unwrap(), b"abc");
        assert_eq!(decode(&lz4, &chunk(0, 0, &[]), 3).unwrap(), b"");
        assert!(good.len() <= lz4.max_encoded(6));
        assert_eq!(Lz4::new(&[0]), Lz4::new(&[]));
    }

    #[test]
    fn round_trips() {
        for block in [1, 100, 4096, 0] {
            let lz4 = Lz4::new(&[block]);
            for data in testing::samples() {
                let stored = encode(&lz4, &data);
                assert!(stored.len() <= lz4.max_encoded(data.len()));
                assert_eq!(decode(&lz4, &stored, data.len()).unwrap(), data);
            }
        }
        assert!(encode(&Lz4::new(&[]), &[7; 10_000]).len() < 100);
        // Noise is stored as it is: header, one size, the bytes.
        assert_eq!(encode(&Lz4::new(&[]), &testing::noise(1000, 1)).len(), 12 + 4 + 1000);
    }

    #[test]
    fn what_is_wrong() {
        let lz4 = Lz4::new(&[]);
        let message = |stored: &[u8]| decode(&lz4, stored, 6).unwrap_err().to_string();
        assert_eq!(message(&[0; 11]), "lz4: truncated: expected at least 12 bytes for the header, found 11");
        assert_eq!(
            message(&chunk(u64::MAX, 4, &[])),
            format!("lz4: decodes to {} bytes where 6 are expected", u64::MAX)
        );
        assert_eq!(message(&chunk(6, 0, &[b"abcdef"])), "lz4: the block size must be 1 or more, found 0");
        assert_eq!(message(&chunk(6, 4, &[b"abcd"])), "lz4: truncated in the last 0 bytes");
        assert_eq!(message(&chunk(6, 6, &[b"abcdef", b""])), "lz4: 4 bytes follow the last block");
        assert!(message(&chunk(6, 6, &[b"\x40abcd"])).starts_with("lz4: block 0, 5 bytes: "));
    }
}
