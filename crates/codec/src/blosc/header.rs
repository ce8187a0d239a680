//! The 16 bytes before the blocks of a blosc buffer.
//!
//! Layout: <https://github.com/Blosc/c-blosc/blob/main/README_HEADER.rst>.

use crate::numbers::low_bits::{low8, low32};
use crate::{CodecError, Result};

use super::{BloscCompressor, NAME};

/// Bytes of the header; also the most that a buffer grows by.
pub(super) const HEADER: usize = 16;
/// Smaller buffers are stored uncompressed, and streams of split blocks are at least this long.
pub(super) const MIN_BUFFER: usize = 128;
/// Blocks are split into at most this many streams.
pub(super) const MAX_SPLITS: usize = 16;
/// The most bytes in one buffer: c-blosc's sizes are 32-bit signed integers.
pub(super) const MAX_BUFFER: usize = i32::MAX as usize - HEADER;

/// The only format version that c-blosc 1 has written since its first release.
const VERSION: u8 = 2;
/// The version of every inner format.
const INNER_VERSION: u8 = 1;

const BYTE_SHUFFLE: u8 = 0x01;
const COPIED: u8 = 0x02;
const BIT_SHUFFLE: u8 = 0x04;
const RESERVED: u8 = 0x08;
const DONT_SPLIT: u8 = 0x10;

/// How a block was rearranged before compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    None,
    Byte,
    Bit,
}

/// The inner format, by its code. LZ4 and LZ4HC share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    BloscLz = 0,
    Lz4 = 1,
    Snappy = 2,
    Zlib = 3,
    Zstd = 4,
}

impl Format {
    pub(super) fn of(compressor: BloscCompressor) -> Format {
        match compressor {
            BloscCompressor::BloscLz => Format::BloscLz,
            BloscCompressor::Lz4 | BloscCompressor::Lz4hc => Format::Lz4,
            BloscCompressor::Snappy => Format::Snappy,
            BloscCompressor::Zlib => Format::Zlib,
            BloscCompressor::Zstd => Format::Zstd,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Format> {
        use Format::{BloscLz, Lz4, Snappy, Zlib, Zstd};
        [BloscLz, Lz4, Snappy, Zlib, Zstd].into_iter().find(|format| *format as u8 == code)
    }
}

/// A header that is valid and fits its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Inner format; unused when `copied`.
    pub format: Format,
    /// The payload is the decoded bytes: no blocks, no filter, no compression.
    pub copied: bool,
    pub filter: Filter,
    /// Whole blocks may be split into one stream per byte of an element ([`Header::splits`]).
    pub split: bool,
    /// Bytes per element, 1 to 255.
    pub typesize: usize,
    /// Decoded bytes.
    pub nbytes: usize,
    /// Decoded bytes per block, at least 1; the last block may have fewer.
    pub blocksize: usize,
}

impl Header {
    /// Reads and checks the header of `src`, which must be the whole buffer and nothing else.
    pub(super) fn parse(src: &[u8]) -> Result<Header> {
        let Some(&[version, inner, flags, typesize, sizes @ ..]) = src.first_chunk::<HEADER>() else {
            return Err(corrupt(format!("expected a header of {HEADER} bytes, found {} bytes", src.len())));
        };
        let [n0, n1, n2, n3, b0, b1, b2, b3, c0, c1, c2, c3] = sizes;
        let nbytes = u32::from_le_bytes([n0, n1, n2, n3]) as usize;
        let blocksize = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
        let cbytes = u32::from_le_bytes([c0, c1, c2, c3]) as usize;

        if version > VERSION || (flags & (BYTE_SHUFFLE | BIT_SHUFFLE) == BYTE_SHUFFLE | BIT_SHUFFLE) {
            return Err(corrupt(format!(
                "this is a Blosc2 chunk (format version {version}), only Blosc 1 (version {VERSION}) is supported"
            )));
        }
        if version != VERSION {
            return Err(corrupt(format!("expected format version {VERSION}, found {version}")));
        }
        if flags & RESERVED != 0 {
            return Err(corrupt(format!("the flags {flags:#04x} contain an unknown flag")));
        }
        if cbytes != src.len() {
            return Err(corrupt(format!(
                "the header says {cbytes} encoded bytes, found {}: the chunk is truncated, or other bytes \
                 follow it",
                src.len()
            )));
        }
        if nbytes > MAX_BUFFER {
            return Err(corrupt(format!("expected at most {MAX_BUFFER} decoded bytes, found {nbytes}")));
        }
        let copied = flags & COPIED != 0;
        if copied && cbytes - HEADER != nbytes {
            return Err(corrupt(format!(
                "expected {nbytes} stored bytes after the header, found {}",
                cbytes - HEADER
            )));
        }
        let header = Header {
            format: Format::from_code(flags >> 5)
                .ok_or_else(|| corrupt(format!("inner format {} is unknown", flags >> 5)))?,
            copied,
            filter: match flags & (BYTE_SHUFFLE | BIT_SHUFFLE) {
                0 => Filter::None,
                BYTE_SHUFFLE => Filter::Byte,
                _ => Filter::Bit,
            },
            split: flags & DONT_SPLIT == 0,
            typesize: usize::from(typesize),
            nbytes,
            blocksize,
        };
        if copied {
            return Ok(header);
        }
        if inner != INNER_VERSION {
            return Err(corrupt(format!("expected inner format version {INNER_VERSION}, found {inner}")));
        }
        if typesize == 0 || blocksize == 0 {
            return Err(corrupt(format!(
                "expected a type size and a block size of at least 1, found type size {typesize}, block \
                 size {blocksize}"
            )));
        }
        // The table of block starts must fit; without blocks, nothing may follow the header.
        let blocks = nbytes.div_ceil(blocksize);
        if blocks > (cbytes - HEADER) / 4 || (blocks == 0 && cbytes != HEADER) {
            let least =
                if blocks == 0 { "0".into() } else { format!("at least {}", blocks.saturating_mul(4)) };
            let why = format!(
                "expected {least} bytes after the header for {blocks} blocks, found {}",
                cbytes - HEADER
            );
            return Err(corrupt(why));
        }
        Ok(header)
    }

    /// The 16 bytes of the header, for a buffer of `cbytes` in total.
    pub(super) fn bytes(&self, cbytes: usize) -> [u8; HEADER] {
        let mut flags = (self.format as u8) << 5;
        flags |= match self.filter {
            Filter::None => 0,
            Filter::Byte => BYTE_SHUFFLE,
            Filter::Bit => BIT_SHUFFLE,
        };
        if self.copied {
            flags |= COPIED;
        }
        if !self.split {
            flags |= DONT_SPLIT;
        }
        // No size exceeds `MAX_BUFFER` plus the header, and no type size exceeds 255.
        let size = |bytes: usize| low32(bytes as u64).to_le_bytes();
        let [n0, n1, n2, n3] = size(self.nbytes);
        let [b0, b1, b2, b3] = size(self.blocksize);
        let [c0, c1, c2, c3] = size(cbytes);
        let typesize = low8(self.typesize as u64);
        [VERSION, INNER_VERSION, flags, typesize, n0, n1, n2, n3, b0, b1, b2, b3, c0, c1, c2, c3]
    }

    /// The number of streams of a block of `len` bytes. Only whole blocks are split, and only if
    /// the streams are long enough. Buffers older than the don't-split flag leave it clear and rely
    /// on this rule.
    pub(super) fn splits(&self, len: usize) -> usize {
        let worthwhile = self.typesize <= MAX_SPLITS && len / self.typesize >= MIN_BUFFER;
        if self.split && worthwhile && len == self.blocksize { self.typesize } else { 1 }
    }

    /// The filter applied to a block of `len` bytes: [`Filter::None`] if the header's filter leaves
    /// such a block unchanged.
    pub(super) fn filter(&self, len: usize) -> Filter {
        match self.filter {
            Filter::Byte if self.typesize > 1 && len > self.typesize => Filter::Byte,
            // Blosc bit-shuffles a multiple of eight elements, or nothing.
            Filter::Bit if len >= self.typesize && (len / self.typesize).is_multiple_of(8) => Filter::Bit,
            _ => Filter::None,
        }
    }
}

pub(super) fn corrupt(why: String) -> CodecError {
    CodecError::corrupt(NAME, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            format: Format::Zstd,
            copied: false,
            filter: Filter::Bit,
            split: false,
            typesize: 4,
            nbytes: 1000,
            blocksize: 512,
        }
    }

    #[test]
    fn bytes_and_back() {
        let mut buffer = header().bytes(40).to_vec();
        assert_eq!(buffer, [2, 1, 0x94, 4, 232, 3, 0, 0, 0, 2, 0, 0, 40, 0, 0, 0]);
        buffer.resize(40, 0);
        assert_eq!(Header::parse(&buffer).unwrap(), header());
    }

    #[test]
    fn lies_are_refused() {
        let mut good = header().bytes(40).to_vec();
        good.resize(40, 0);
        let message = |at: usize, value: u8| {
            let mut bad = good.clone();
            bad[at] = value;
            Header::parse(&bad).unwrap_err().to_string()
        };
        assert!(message(0, 5).contains("Blosc2"));
        assert!(message(0, 1).contains("expected format version 2, found 1"));
        assert!(message(1, 2).contains("expected inner format version 1, found 2"));
        assert!(message(2, 0x97).contains("Blosc2"));
        assert!(message(2, 0x9c).contains("flag"));
        assert!(message(2, 0xf4).contains("inner format 7 is unknown"));
        assert!(message(2, 0x96).contains("expected 1000 stored bytes after the header, found 24"));
        assert!(message(3, 0).contains("type size 0"));
        assert!(message(7, 0xff).contains(format!("expected at most {MAX_BUFFER} decoded bytes").as_str()));
        assert!(message(9, 0).contains("block size 0"));
        assert!(message(12, 41).contains("41 encoded bytes, found 40"));
        assert!(message(12, 39).contains("39 encoded bytes, found 40"));
        assert!(Header::parse(&good[..15]).unwrap_err().to_string().contains("15 bytes"));
        assert!(Header::parse(&[]).unwrap_err().to_string().contains("0 bytes"));
        let tiny = Header { blocksize: 1, ..header() };
        let mut buffer = tiny.bytes(40).to_vec();
        buffer.resize(40, 0);
        assert!(Header::parse(&buffer).unwrap_err().to_string().contains("1000 blocks"));
    }
}
