//! Encodes a blosc buffer.
//!
//! Block sizes, splits and levels are chosen as by c-blosc 1.21, whose ratio and speed users know.

use crate::numbers::low_bits::low32;
use crate::scratch::resize_buffer;
use crate::{CodecError, Result, room};

use super::bitshuffle::bitshuffle;
use super::header::{Filter, Format, HEADER, Header, MAX_BUFFER, MAX_SPLITS, MIN_BUFFER};
use super::shuffle::shuffle;
use super::{Blosc, BloscCompressor, BloscShuffle, Contexts, NAME};

/// The L1 cache size that c-blosc derives block sizes from.
const CACHE: usize = 32 << 10;
/// The largest block that c-blosc reads: three blocks, and a length for each byte of an element,
/// must fit in 31 bits.
const MAX_BLOCK: usize = (i32::MAX as usize - 255 * 4) / 3;

/// Encodes `src` into `dst`, which is cleared first and never grows by more than `src.len() + 16`.
pub(super) fn encode(codec: &Blosc, src: &[u8], dst: &mut Vec<u8>, contexts: &mut Contexts) -> Result<()> {
    dst.clear();
    if src.len() > MAX_BUFFER {
        let why = format!("expected at most {MAX_BUFFER} bytes, found {}: use smaller chunks", src.len());
        return Err(CodecError::Encode { codec: NAME, why });
    }
    // The field has one byte. c-blosc treats larger elements as bytes.
    let typesize = if codec.typesize > 255 { 1 } else { codec.typesize };
    let blocksize = blocksize(codec, typesize, src.len());
    let mut header = Header {
        format: Format::of(codec.compressor),
        copied: false,
        filter: match codec.shuffle.resolve(codec.typesize) {
            BloscShuffle::None => Filter::None,
            BloscShuffle::Bit => Filter::Bit,
            BloscShuffle::Byte | BloscShuffle::Auto => Filter::Byte,
        },
        split: splittable(codec.compressor, typesize, blocksize),
        typesize,
        nbytes: src.len(),
        blocksize,
    };
    let limit = HEADER + src.len();
    room::reserve(dst, limit, "blosc")?;
    let small = src.len() < MIN_BUFFER.max(typesize);
    if codec.nearest_level() == 0
        || small
        || encode_blocks(codec, &header, src, dst, limit, contexts).is_none()
    {
        header.copied = true;
        dst.clear();
        dst.resize(HEADER, 0);
        dst.extend_from_slice(src);
    }
    let bytes = header.bytes(dst.len());
    if let Some(place) = dst.first_chunk_mut() {
        *place = bytes;
    }
    Ok(())
}

/// Appends the header, the table and all blocks. Returns `None` if they exceed `limit` bytes.
fn encode_blocks(
    codec: &Blosc,
    header: &Header,
    src: &[u8],
    dst: &mut Vec<u8>,
    limit: usize,
    contexts: &mut Contexts,
) -> Option<()> {
    let Contexts { block, stream, encoders, .. } = contexts;
    let table = 4 * src.len().div_ceil(header.blocksize);
    if HEADER + table > limit {
        return None;
    }
    dst.resize(HEADER + table, 0);
    for (index, bytes) in src.chunks(header.blocksize).enumerate() {
        let start = low32(dst.len() as u64).to_le_bytes();
        *dst.get_mut(HEADER + 4 * index..)?.first_chunk_mut()? = start;
        let filtered = match header.filter(bytes.len()) {
            // libdeflate cannot bear changing input, and others may share this memory.
            Filter::None if codec.compressor == BloscCompressor::Zlib => {
                let own = resize_buffer(block, bytes.len(), "blosc").ok()?;
                own.copy_from_slice(bytes);
                own
            }
            Filter::None => bytes,
            filter => {
                let out = resize_buffer(block, bytes.len(), "blosc").ok()?;
                match filter {
                    Filter::Bit => bitshuffle(header.typesize, bytes, out),
                    _ => shuffle(header.typesize, bytes, out),
                }
                out
            }
        };
        // Whole blocks are multiples of the type size, so no bytes are left over.
        for part in filtered.chunks_exact(bytes.len() / header.splits(bytes.len())) {
            let room = limit.checked_sub(dst.len() + 4)?.min(part.len() - 1);
            let encoded = resize_buffer(stream, part.len(), "blosc").ok()?;
            let len =
                encoders.encode(codec.compressor, codec.nearest_level(), part, encoded.get_mut(..room)?);
            // Decoders take a stream of full length as stored uncompressed.
            let bytes = len.and_then(|len| encoded.get(..len)).unwrap_or(part);
            if dst.len() + 4 + bytes.len() > limit {
                return None;
            }
            dst.extend_from_slice(&low32(bytes.len() as u64).to_le_bytes());
            dst.extend_from_slice(bytes);
        }
    }
    Some(())
}

/// Returns `true` if whole blocks are split. Zstandard finds similarities between the streams, so
/// it gets the whole block.
fn splittable(compressor: BloscCompressor, typesize: usize, blocksize: usize) -> bool {
    compressor != BloscCompressor::Zstd && typesize <= MAX_SPLITS && blocksize / typesize >= MIN_BUFFER
}

/// The size of whole blocks: a multiple of the type size unless all of `nbytes` is less than one
/// element.
fn blocksize(codec: &Blosc, typesize: usize, nbytes: usize) -> usize {
    if nbytes < typesize {
        return 1;
    }
    let mut size = nbytes;
    if codec.blocksize != 0 {
        size = codec.blocksize.clamp(MIN_BUFFER, MAX_BLOCK);
    } else if nbytes >= CACHE {
        let thorough = matches!(
            codec.compressor,
            BloscCompressor::Lz4hc | BloscCompressor::Zlib | BloscCompressor::Zstd
        );
        let quarters = match codec.nearest_level() {
            0 => 1,
            1 => 2,
            2 => 4,
            3 => 8,
            4 | 5 => 16,
            9 if thorough => 64,
            _ => 32,
        };
        size = CACHE / 4 * quarters * if thorough { 2 } else { 1 };
    }
    if codec.nearest_level() > 0 && splittable(codec.compressor, typesize, size) {
        // Makes each stream as long as a block would be; all streams together take 64 KiB to 1 MiB.
        size = (size.min(256 << 10) * typesize).clamp(64 << 10, 1 << 20);
    }
    size = size.min(nbytes);
    if size > typesize { size / typesize * typesize } else { size }
}
