//! A chunk: a header of 32 bytes, the offsets of the blocks (32 bits each), the blocks.
//!
//! A block is one stream, or one stream for each byte of an element. A stream is its length (32
//! bits, signed) and its bytes, which are uncompressed if they are as many as decoded. Length 0
//! stands for zeros. A negative length, followed by a token 1, stands for a repeated byte: the
//! length's absolute value. The encoder applied up to six filters to each block, in the order of
//! their slots; decoding undoes them from the last.

use super::corrupt;
use crate::Result;
use crate::blosc::bitshuffle::bitunshuffle;
use crate::blosc::decode::decode_streams;
use crate::blosc::header::Format;
use crate::blosc::inner::Decoders;
use crate::blosc::shuffle::unshuffle;
use crate::scratch::resize_buffer;
use std::ops::Range;

const HEADER: usize = 32;
/// The format version of every Blosc2 release.
const VERSION: u8 = 5;

const EXTENDED: u8 = 0x05;
const COPIED: u8 = 0x02;
const DONT_SPLIT: u8 = 0x10;
/// Unsupported bits of the second flags (dictionary, big-endian, instrumented, lazy, reserved). The
/// other bits are [`Special`].
const UNSUPPORTED: u8 = 0x8f;

/// Filters by their codes.
const SHUFFLE: u8 = 1;
const BITSHUFFLE: u8 = 2;
const DELTA: u8 = 3;
const TRUNC_PREC: u8 = 4;

/// A chunk without blocks: one repeated value.
pub(super) enum Special<'a> {
    Zeros,
    NaN,
    Value(&'a [u8]),
}

/// One thread's buffers.
#[derive(Default)]
pub(crate) struct Buffers {
    /// A block between two filters.
    stages: [Vec<u8>; 2],
    /// The first block, if the delta filter needs it.
    reference: Vec<u8>,
}

/// A chunk whose header is valid and fits the bytes after it.
pub(super) struct Chunk<'a> {
    /// The chunk from its first byte, without any bytes that follow it.
    bytes: &'a [u8],
    format: Format,
    /// The bytes after the header are the decoded bytes.
    copied: bool,
    special: Option<Special<'a>>,
    split: bool,
    filters: [u8; 6],
    typesize: usize,
    /// Decoded bytes.
    pub nbytes: usize,
    /// Decoded bytes per block, at least 1.
    pub blocksize: usize,
    /// Stored bytes.
    pub cbytes: usize,
}

impl<'a> Special<'a> {
    pub(super) fn from_code(code: u8, value: &'a [u8]) -> Result<Self> {
        match code {
            1 => Ok(Special::Zeros),
            2 => Ok(Special::NaN),
            3 => Ok(Special::Value(value)),
            4 => Err(corrupt("the values of the chunk were never initialised")),
            other => Err(corrupt(format!("special value {other} is unknown"))),
        }
    }

    /// Fills `dst` with copies of the value.
    pub(super) fn fill(&self, typesize: usize, dst: &mut [u8]) -> Result<()> {
        let (single, double) = (f32::NAN.to_le_bytes(), f64::NAN.to_le_bytes());
        let element: &[u8] = match (self, typesize) {
            (Special::Zeros, _) => &[0],
            (Special::NaN, 4) => &single,
            (Special::NaN, 8) => &double,
            (Special::NaN, _) => {
                return Err(corrupt(format!("expected NaNs of 4 or 8 bytes, found {typesize} bytes")));
            }
            (Special::Value(value), _) => value,
        };
        if element.is_empty() || !dst.len().is_multiple_of(element.len()) {
            return Err(corrupt(format!(
                "expected a whole number of values of {} bytes, found {} bytes",
                element.len(),
                dst.len()
            )));
        }
        match *element {
            [byte] => dst.fill(byte),
            _ => dst.chunks_exact_mut(element.len()).for_each(|out| out.copy_from_slice(element)),
        }
        Ok(())
    }
}

impl<'a> Chunk<'a> {
    /// Reads the header of the chunk at the start of `src`.
    pub(super) fn parse(src: &'a [u8]) -> Result<Self> {
        let Some(
            &[version, _, flags, typesize, n0, n1, n2, n3, b0, b1, b2, b3, c0, c1, c2, c3, ref more @ ..],
        ) = src.first_chunk::<HEADER>()
        else {
            return Err(corrupt(format!(
                "expected a chunk header of {HEADER} bytes, found {} bytes",
                src.len()
            )));
        };
        let &[k0, k1, k2, k3, k4, k5, _codec, _codec_meta, m0, m1, m2, m3, m4, m5, reserved, flags2] = more;
        let filters = [k0, k1, k2, k3, k4, k5];
        let [nbytes, blocksize, cbytes] = [[n0, n1, n2, n3], [b0, b1, b2, b3], [c0, c1, c2, c3]]
            .map(|word| u32::from_le_bytes(word) as usize);
        if version != VERSION || flags & EXTENDED != EXTENDED {
            return Err(corrupt(format!(
                "a chunk of version {version}, flags {flags:#04x}, is not supported"
            )));
        }
        if flags2 & UNSUPPORTED != 0 || reserved != 0 {
            return Err(corrupt(format!(
                "a chunk with flags {reserved:#04x}, {flags2:#04x} is not supported"
            )));
        }
        for (code, meta) in filters.into_iter().zip([m0, m1, m2, m3, m4, m5]) {
            if code > TRUNC_PREC || (meta != 0 && matches!(code, SHUFFLE | BITSHUFFLE)) {
                return Err(corrupt(format!("filter {code} with parameter {meta} is not supported")));
            }
        }
        let Some(bytes) = src.get(..cbytes).filter(|_| cbytes >= HEADER) else {
            return Err(corrupt(format!(
                "expected a chunk of {HEADER} to {} bytes, found {cbytes} bytes in its header",
                src.len()
            )));
        };
        let (copied, special) = (flags & COPIED != 0, flags2 >> 4 & 7);
        let special = match special {
            0 => None,
            code => Some(Special::from_code(code, bytes.get(HEADER..).unwrap_or_default())?),
        };
        if copied && special.is_none() && cbytes - HEADER != nbytes {
            return Err(corrupt(format!(
                "expected {nbytes} stored bytes after the header, found {}",
                cbytes - HEADER
            )));
        }
        let format = match flags >> 5 {
            // Snappy, and user-defined codecs, which is Blosc2's name for plug-ins.
            code @ (2 | 5..) => return Err(corrupt(format!("compressor {code} is not supported"))),
            code => {
                Format::from_code(code).ok_or_else(|| corrupt(format!("compressor {code} is unknown")))?
            }
        };
        let typesize = usize::from(typesize);
        if typesize == 0 || blocksize == 0 {
            return Err(corrupt(format!(
                "expected a type size and a block size of at least 1, found type size {typesize}, block \
                 size {blocksize}"
            )));
        }
        let chunk = Chunk {
            bytes,
            format,
            copied,
            special,
            split: flags & DONT_SPLIT == 0,
            filters,
            typesize,
            nbytes,
            blocksize,
            cbytes,
        };
        if chunk.has_blocks() && nbytes.div_ceil(blocksize) > (cbytes - HEADER) / 4 {
            let blocks = nbytes.div_ceil(blocksize);
            let least = blocks.saturating_mul(4).saturating_add(HEADER);
            let why = format!("expected at least {least} bytes for {blocks} blocks, found {cbytes}");
            return Err(corrupt(why));
        }
        Ok(chunk)
    }

    fn has_blocks(&self) -> bool {
        !self.copied && self.special.is_none()
    }

    /// Returns `true` if all other blocks need the first one.
    fn has_reference(&self) -> bool {
        self.has_blocks() && self.filters.contains(&DELTA)
    }

    /// Decodes the blocks that hold bytes `wanted` into their places in `dst`, which has `nbytes`.
    pub(super) fn decode(
        &self,
        wanted: Range<usize>,
        dst: &mut [u8],
        decoders: &mut Decoders,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let mut blocks = self.blocks(decoders, buffers)?;
        for (index, out) in dst.chunks_mut(self.blocksize).enumerate() {
            let at = index * self.blocksize;
            if at < wanted.end && at + out.len() > wanted.start {
                blocks.decode(index, out)?;
            }
        }
        Ok(())
    }

    /// Prepares to decode blocks.
    pub(super) fn blocks<'b>(
        &'b self,
        decoders: &'b mut Decoders,
        buffers: &'b mut Buffers,
    ) -> Result<Blocks<'b>> {
        // Blocks that share bytes could make a small chunk take forever. Each stored byte is
        // therefore decoded at most once, except in the reference.
        let unread = self.cbytes - HEADER;
        let mut blocks = Blocks { chunk: self, unread, decoders, buffers };
        if self.has_reference() {
            let mut reference = std::mem::take(&mut blocks.buffers.reference);
            let len = self.blocksize.min(self.nbytes);
            let decoded = resize_buffer(&mut reference, len, "blosc2").and_then(|to| blocks.decode(0, to));
            blocks.buffers.reference = reference;
            decoded?;
            blocks.unread = unread;
        }
        Ok(blocks)
    }
}

/// The blocks of a chunk while they are decoded.
pub(super) struct Blocks<'b> {
    chunk: &'b Chunk<'b>,
    unread: usize,
    decoders: &'b mut Decoders,
    buffers: &'b mut Buffers,
}

impl Blocks<'_> {
    /// Decodes block `index` into all of `out`.
    pub(super) fn decode(&mut self, index: usize, out: &mut [u8]) -> Result<()> {
        let chunk = self.chunk;
        if let Some(special) = &chunk.special {
            return special.fill(chunk.typesize, out);
        }
        if chunk.copied {
            let stored =
                chunk.bytes.get(HEADER + index * chunk.blocksize..).and_then(|rest| rest.get(..out.len()));
            out.copy_from_slice(stored.ok_or_else(|| corrupt(format!("truncated before block {index}")))?);
            return Ok(());
        }
        let start = chunk.bytes.get(HEADER + 4 * index..).and_then(|rest| rest.first_chunk());
        let start = start.map_or(usize::MAX, |start| u32::from_le_bytes(*start) as usize);
        let streams = chunk.bytes.get(start..).filter(|_| start >= HEADER);
        let streams = streams
            .ok_or_else(|| corrupt(format!("block {index} starts at byte {start}, outside the chunk")))?;
        // The filters that change bytes.
        let filters = chunk.filters.iter().rev().copied().filter(|code| matches!(code, SHUFFLE..=DELTA));
        let [from, to] = &mut self.buffers.stages;
        let (from, to) = (resize_buffer(from, out.len(), "blosc2")?, resize_buffer(to, out.len(), "blosc2")?);
        // Delta works in place. Each shuffle goes from one buffer to another, the last one to
        // `out`.
        let shuffles = filters.clone().filter(|code| *code != DELTA).count();
        let splits = if chunk.split && out.len() == chunk.blocksize { chunk.typesize } else { 1 };
        let first = if shuffles == 0 { &mut *out } else { &mut *from };
        decode_streams(chunk.format, splits, true, streams, &mut self.unread, first, self.decoders)
            .map_err(|why| corrupt(format!("block {index}, {why}")))?;
        let (mut from, mut to, mut left) = (from, to, shuffles);
        for code in filters {
            if code == DELTA {
                let data = if left == 0 { &mut *out } else { &mut *from };
                undo_delta(chunk.typesize, index, &self.buffers.reference, data)?;
                continue;
            }
            left -= 1;
            let target = if left == 0 { &mut *out } else { &mut *to };
            if code == SHUFFLE {
                unshuffle(chunk.typesize, from, target);
            } else {
                unshuffle_bits(chunk.typesize, from, target);
            }
            std::mem::swap(&mut from, &mut to);
        }
        Ok(())
    }
}

/// Undoes the bit shuffle. Only a multiple of eight elements is shuffled; the rest is copied.
fn unshuffle_bits(typesize: usize, src: &[u8], dst: &mut [u8]) {
    let whole = src.len() - src.len() % (8 * typesize);
    let ((bits, rest), (out, behind)) = (src.split_at(whole), dst.split_at_mut(whole));
    bitunshuffle(typesize, bits, out);
    behind.copy_from_slice(rest);
}

/// Undoes the exclusive-or of each element with the element at its place in the first block.
///
/// In the first block the other operand is the element before it. Elements whose size is a multiple
/// of 8 are taken 8 bytes at a time. Elements of any size but these, 1, 2 and 4 count as bytes.
fn undo_delta(typesize: usize, index: usize, reference: &[u8], data: &mut [u8]) -> Result<()> {
    let size = match typesize {
        2 | 4 => typesize,
        _ if typesize.is_multiple_of(8) => 8,
        _ => 1,
    };
    if !data.len().is_multiple_of(size) {
        return Err(corrupt(format!(
            "a block of {} bytes cannot have differences of {size} bytes",
            data.len()
        )));
    }
    if index > 0 {
        data.iter_mut().zip(reference).for_each(|(byte, reference)| *byte ^= reference);
    } else {
        #[expect(clippy::indexing_slicing, reason = "`at` counts from `size` to the end")]
        for at in size..data.len() {
            data[at] ^= data[at - size];
        }
    }
    Ok(())
}
