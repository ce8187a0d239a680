//! `bitshuffle`, filter 32008: bit 0 of all elements of a block, then bit 1, and so on; blocks may
//! then be compressed.
//!
//! * Specification: <https://github.com/kiyo-masui/bitshuffle>, `src/bshuf_h5filter.c`; client
//!   data: version of the filter (two numbers), bytes per element, elements per block (0: chosen by
//!   the encoder), compressor (0: none, 2: LZ4, 3: Zstandard), its level
//!
//! A compressed chunk is its decoded size (8 bytes), the bytes of a block (4 bytes), and the
//! blocks, each after its number of bytes (4 bytes). All numbers are big-endian. The last block
//! holds the remaining multiple of eight elements. Fewer than eight elements at the end are stored
//! unshuffled. Without a compressor, a chunk consists only of the shuffled bits.

use super::{framed_block, parameter, put_block, put_header, sized_header};
use crate::blosc::bitshuffle::{bitshuffle, bitunshuffle};
use crate::blosc::header::Format;
use crate::scratch::resize_buffer;
use crate::{Codec, CodecError, Reach, Result, Scratch, Zstd, chain, front, lz4};
use std::ops::Range;

/// The `bitshuffle` filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bitshuffle {
    element_size: usize,
    /// Elements per block; unused if chunks record the block size.
    block: usize,
    compressor: Option<Format>,
    /// The level of Zstandard.
    level: i32,
}

const NAME: &str = "bitshuffle";

impl Bitshuffle {
    pub(super) fn new(client_data: &[u32]) -> Result<Self> {
        let element_size = parameter(NAME, client_data, 2)? as usize;
        if element_size == 0 {
            return Err(CodecError::config(NAME, "the element size must be 1 or more, found 0"));
        }
        let block = match client_data.get(3) {
            None | Some(0) => default_block(element_size),
            Some(block) => *block as usize,
        };
        if !block.is_multiple_of(8) {
            return Err(CodecError::config(
                NAME,
                format!("expected a multiple of 8 elements per block, found {block}"),
            ));
        }
        let compressor = match client_data.get(4) {
            None | Some(0) => None,
            Some(2) => Some(Format::Lz4),
            Some(3) => Some(Format::Zstd),
            Some(other) => {
                return Err(CodecError::config(
                    NAME,
                    format!("compressor {other} is unknown (known: 0, 2 and 3)"),
                ));
            }
        };
        let level = client_data.get(5).map_or(3, |level| *level as i32);
        Ok(Bitshuffle { element_size, block, compressor, level })
    }
}

impl Codec for Bitshuffle {
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
        let (dst, block_size, mut rest) = match self.compressor {
            Some(_) => sized_header(NAME, src, dst)?,
            None => (front(NAME, dst, src.len())?, self.block.saturating_mul(self.element_size), src),
        };
        let size = dst.len();
        if !size.is_multiple_of(self.element_size) {
            let why = format!(
                "expected a whole number of elements of {} bytes, found {size} bytes",
                self.element_size
            );
            return Err(CodecError::corrupt(NAME, why));
        }
        let eight = 8usize.saturating_mul(self.element_size);
        let block_size = match block_size {
            0 => default_block(self.element_size).saturating_mul(self.element_size),
            size => size,
        };
        if !block_size.is_multiple_of(eight) {
            let why = format!(
                "expected blocks of a multiple of 8 elements of {} bytes, found blocks of {block_size} bytes",
                self.element_size
            );
            return Err(CodecError::corrupt(NAME, why));
        }
        let (blocks, loose) = dst.split_at_mut(size - size % eight);
        for (index, out) in blocks.chunks_mut(block_size).enumerate() {
            let at = index * block_size;
            let unwanted = at >= wanted.end || at + out.len() <= wanted.start;
            let Some(format) = self.compressor else {
                let bits = split_front(&mut rest, out.len())?;
                if !unwanted {
                    bitunshuffle(self.element_size, bits, out);
                }
                continue;
            };
            let block = framed_block(NAME, &mut rest)?;
            if unwanted {
                continue;
            }
            let bits = resize_buffer(&mut scratch.blosc.block, out.len(), NAME)?;
            let failed =
                |why| CodecError::corrupt(NAME, format!("block {index}, {} bytes: {why}", block.len()));
            scratch.blosc.decoders.decode(format, block, bits).map_err(failed)?;
            bitunshuffle(self.element_size, bits, out);
        }
        loose.copy_from_slice(split_front(&mut rest, loose.len())?);
        if !rest.is_empty() {
            return Err(CodecError::corrupt(NAME, format!("{} bytes follow the last element", rest.len())));
        }
        Ok(size)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, scratch: &mut Scratch) -> Result<()> {
        if !src.len().is_multiple_of(self.element_size) {
            let (size, found) = (self.element_size, src.len());
            let why = format!("expected a whole number of elements of {size} bytes, found {found} bytes");
            return Err(CodecError::encode(NAME, why));
        }
        dst.clear();
        let size = self.block.saturating_mul(self.element_size);
        let (blocks, loose) = src.split_at(src.len() - src.len() % 8usize.saturating_mul(self.element_size));
        if self.compressor.is_some() {
            put_header(dst, src.len(), size);
        }
        let (mut bits, mut stream) = (Vec::new(), Vec::new());
        for block in blocks.chunks(size.max(1)) {
            let bits = resize_buffer(&mut bits, block.len(), NAME)?;
            bitshuffle(self.element_size, block, bits);
            match self.compressor {
                None => dst.extend_from_slice(bits),
                Some(Format::Lz4) => put_block(NAME, dst, |dst| lz4::compress(bits, dst, 1))?,
                Some(_) => {
                    Zstd { level: self.level, checksum: false }.encode(bits, &mut stream, scratch)?;
                    put_block(NAME, dst, |dst| {
                        dst.extend_from_slice(&stream);
                        true
                    })?;
                }
            }
        }
        dst.extend_from_slice(loose);
        Ok(())
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        if self.compressor.is_none() {
            return decoded;
        }
        // Bytes that either compressor adds to a small block, plus the block's size field.
        const PER_BLOCK: usize = 128;
        let blocks = decoded / self.block.saturating_mul(self.element_size);
        chain::generous_bound(decoded).saturating_add(blocks.saturating_mul(PER_BLOCK))
    }

    fn reach(&self) -> Reach {
        Reach::Blocks
    }
}

/// The elements per block that bitshuffle chooses: 8 KiB, but at least 128 elements.
fn default_block(element_size: usize) -> usize {
    (8192 / element_size / 8 * 8).max(128)
}

fn split_front<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let Some((front, behind)) = rest.split_at_checked(len) else {
        let why = format!("truncated: expected {len} bytes, found {}", rest.len());
        return Err(CodecError::corrupt(NAME, why));
    };
    *rest = behind;
    Ok(front)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blosc::bitshuffle::bitshuffle;
    use crate::testing::{decode, noise};

    #[test]
    fn blocks_of_the_default_size() {
        assert_eq!([1, 2, 4, 8, 3, 64, 100].map(default_block), [8192, 4096, 2048, 1024, 2728, 128, 128]);
        // 2048 elements, then 16, then 3 unshuffled ones.
        let data = noise(4 * 2067, 1);
        let mut stored = data.clone();
        bitshuffle(4, &data[..8192], &mut stored[..8192]);
        bitshuffle(4, &data[8192..8256], &mut stored[8192..8256]);
        for client_data in [&[0, 4, 4][..], &[0, 4, 4, 0], &[0, 4, 4, 2048, 0]] {
            let codec = Bitshuffle::new(client_data).unwrap();
            assert!(decode(&codec, &stored, data.len()).unwrap() == data);
            assert_eq!(codec.max_encoded(data.len()), data.len());
        }
    }

    #[test]
    fn parameters() {
        let message = |client_data: &[u32]| Bitshuffle::new(client_data).unwrap_err().to_string();
        assert!(message(&[0, 4]).contains("expected more than 2 parameters, found 2"));
        assert!(message(&[0, 4, 0]).contains("the element size must be 1 or more, found 0"));
        assert!(message(&[0, 4, 4, 12]).contains("expected a multiple of 8 elements per block, found 12"));
        assert!(message(&[0, 4, 4, 0, 1]).contains("compressor 1 is unknown"));
    }

    #[test]
    fn what_is_wrong() {
        let lz4 = Bitshuffle::new(&[0, 4, 4, 0, 2]).unwrap();
        let chunk = |size: u64, block: u32, rest: &[u8]| {
            [&size.to_be_bytes()[..], &block.to_be_bytes(), rest].concat()
        };
        let message = |stored: &[u8]| decode(&lz4, stored, 100).unwrap_err().to_string();
        assert!(
            message(&chunk(1 << 60, 8192, b"")).contains("decodes to 1152921504606846976 bytes where 100")
        );
        assert!(
            message(&chunk(10, 8192, b"0123456789"))
                .contains("expected a whole number of elements of 4 bytes, found 10 bytes")
        );
        assert!(
            message(&chunk(64, 48, b""))
                .contains("multiple of 8 elements of 4 bytes, found blocks of 48 bytes")
        );
        assert!(message(&chunk(64, 0, b"")).contains("truncated in the last 0 bytes"));
        assert!(message(&chunk(8, 8192, b"0123456")).contains("truncated: expected 8 bytes, found 7"));
        assert!(message(&chunk(8, 8192, b"012345678")).contains("1 bytes follow the last element"));
        assert_eq!(decode(&lz4, &chunk(8, 8192, b"01234567"), 100).unwrap(), b"01234567");
        let plain = Bitshuffle::new(&[0, 4, 4]).unwrap();
        assert!(decode(&plain, &[0; 6], 100).is_err());
    }
}
