//! The contiguous frame: a header, chunks, a chunk with the offsets of the others, a trailer.
//!
//! The header has MessagePack values at fixed places, and metalayers at its end.

use super::chunk::{Chunk, Special};
use super::corrupt;
use crate::Result;

/// Bytes of the header before the metalayers.
const FIXED: usize = 87;
/// Bits 0 to 3 of the flags. Early versions wrote 1; current ones write 2.
const VERSIONS: [u8; 2] = [1, 2];
/// Bits 4 and 5 of the flags: offsets of eight bytes.
const OFFSETS_64: u8 = 1;
/// The most bytes in the chunk of offsets. It holds one offset: a few dozen bytes.
const MAX_INDEX: usize = 1 << 10;

/// A frame with one chunk.
pub(super) struct Frame<'a> {
    pub typesize: usize,
    /// Decoded bytes.
    pub nbytes: usize,
    /// The metalayer `b2nd`.
    pub b2nd: Option<&'a [u8]>,
    pub content: Content<'a>,
}

pub(super) enum Content<'a> {
    /// The chunk, and everything after it in the frame.
    Chunk(&'a [u8]),
    /// All elements are the same; no chunk is stored.
    Repeated(Special<'a>),
}

impl<'a> Frame<'a> {
    pub(super) fn parse(src: &'a [u8]) -> Result<Self> {
        let mut header = Reader { bytes: src, at: 0 };
        if header.take(10)?.get(1..) != Some(b"\xa8b2frame\0") {
            return Err(corrupt("not a frame: the magic number is missing"));
        }
        let header_size = header.number(0xd2, 4)?;
        let frame_size = header.number(0xcf, 8)?;
        let Some(src) = src.get(..frame_size) else {
            return Err(corrupt(format!(
                "truncated: expected a frame of {frame_size} bytes, found {}",
                src.len()
            )));
        };
        header.expect(0xa4)?;
        let &[flags, kind, _codec, _other] = header.array()?;
        if !VERSIONS.contains(&(flags & 15)) || flags >> 4 & 3 != OFFSETS_64 {
            return Err(corrupt(format!(
                "the flags {flags:#04x} have an unknown version or unknown offsets"
            )));
        }
        if kind & 15 != 0 {
            return Err(corrupt(format!("expected a contiguous frame, found frame type {kind}")));
        }
        let nbytes = header.number(0xd3, 8)?;
        let cbytes = header.number(0xd3, 8)?;
        let typesize = header.number(0xd2, 4)?;
        let _blocksize = header.number(0xd2, 4)?;
        let chunksize = header.number(0xd2, 4)?;
        if nbytes > chunksize || nbytes == 0 {
            let why = format!(
                "only frames of one chunk are supported, found {nbytes} bytes in chunks of {chunksize} bytes"
            );
            return Err(corrupt(why));
        }
        let Some((header, chunks)) =
            src.split_at_checked(header_size).filter(|(header, _)| header.len() >= FIXED)
        else {
            return Err(corrupt(format!(
                "expected a header of {FIXED} to {frame_size} bytes, found {header_size} bytes"
            )));
        };
        let index = chunks.get(cbytes..).ok_or_else(|| {
            corrupt(format!("expected an index after {cbytes} bytes of chunks, found none"))
        })?;
        let index = Chunk::parse(index)?;
        let mut offset = [0; 8];
        if index.nbytes != offset.len() || index.cbytes > MAX_INDEX {
            return Err(corrupt(format!(
                "only frames of one chunk are supported, found an index of {} bytes",
                index.nbytes
            )));
        }
        index.decode(0..8, &mut offset, &mut Default::default(), &mut Default::default())?;
        let content = match offset {
            // The highest bit marks a value that is not an offset.
            [.., special] if special & 0x80 != 0 => {
                Content::Repeated(Special::from_code(special & 0x7f, &[])?)
            }
            offset => {
                let offset = usize::try_from(u64::from_le_bytes(offset)).unwrap_or(usize::MAX);
                let chunk = chunks.get(..cbytes).and_then(|chunks| chunks.get(offset..));
                Content::Chunk(chunk.ok_or_else(|| {
                    corrupt(format!("the chunk begins at byte {offset}, after the {cbytes} bytes of chunks"))
                })?)
            }
        };
        Ok(Frame { typesize, nbytes, b2nd: metalayer(header, "b2nd")?, content })
    }
}

/// The metalayer named `wanted`. A map from names to offsets follows the fixed part of the header.
fn metalayer<'a>(header: &'a [u8], wanted: &str) -> Result<Option<&'a [u8]>> {
    let mut map = Reader { bytes: header, at: FIXED };
    map.expect(0x93)?;
    let _size = map.number(0xcd, 2)?;
    for _ in 0..map.number(0xde, 2)? {
        let &[text] = map.array()?;
        if text & 0xe0 != 0xa0 {
            return Err(corrupt(format!("expected the name of a metalayer, found type {text:#04x}")));
        }
        let name = map.take(usize::from(text & 0x1f))?;
        let offset = map.number(0xd2, 4)?;
        if name == wanted.as_bytes() {
            let mut content = Reader { bytes: header, at: offset };
            let len = content.number(0xc6, 4)?;
            return content.take(len).map(Some);
        }
        if name == b"caterva" {
            return Err(corrupt("the metalayer \"caterva\" is not supported"));
        }
    }
    Ok(None)
}

/// Reads the MessagePack that frames use: big-endian numbers, each after a byte for its kind.
pub(super) struct Reader<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..len));
        let taken = taken.ok_or_else(|| corrupt(format!("the header is truncated at byte {}", self.at)))?;
        self.at += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N]> {
        self.take(N)?.first_chunk().ok_or_else(|| corrupt("the header is truncated"))
    }

    pub(super) fn expect(&mut self, kind: u8) -> Result<()> {
        match *self.array()? {
            [found] if found == kind => Ok(()),
            [found] => Err(corrupt(format!(
                "byte {} of the header: expected {kind:#04x}, found {found:#04x}",
                self.at - 1
            ))),
        }
    }

    /// A number of `len` bytes and the given kind. Negative numbers turn out too large everywhere.
    pub(super) fn number(&mut self, kind: u8, len: usize) -> Result<usize> {
        self.expect(kind)?;
        let value = self.take(len)?.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        usize::try_from(value).map_err(|_| corrupt(format!("the number {value} is too large")))
    }

    /// A number from 0 to 127, which is its own kind byte.
    pub(super) fn read_fixint(&mut self) -> Result<usize> {
        match *self.array()? {
            [value @ ..0x80] => Ok(usize::from(value)),
            [other] => Err(corrupt(format!("expected a number from 0 to 127, found {other:#04x}"))),
        }
    }
}
