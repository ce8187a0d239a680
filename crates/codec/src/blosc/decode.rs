//! Decodes a blosc buffer.

use crate::numbers::low_bits::low8;
use crate::scratch::resize_buffer;
use crate::{Result, front};
use std::ops::Range;

use super::bitshuffle::bitunshuffle;
use super::header::{Filter, Format, HEADER, Header, corrupt};
use super::inner::Decoders;
use super::shuffle::unshuffle;
use super::{Contexts, NAME};

/// Decodes the blocks that hold bytes `wanted` of the decoded buffer into their places in `dst`.
///
/// Returns the size of the whole decoded buffer. The header and the start of every block are
/// checked, also of blocks that are not wanted.
pub(super) fn decode(
    src: &[u8],
    wanted: Range<usize>,
    dst: &mut [u8],
    contexts: &mut Contexts,
) -> Result<usize> {
    let header = Header::parse(src)?;
    let payload = src.get(HEADER..).unwrap_or_default();
    let dst = front(NAME, dst, header.nbytes)?;
    let wanted = wanted.start.min(dst.len())..wanted.end.min(dst.len());
    if header.copied {
        // `parse` checked that the payload is `nbytes` long.
        if let (Some(to), Some(from)) = (dst.get_mut(wanted.clone()), payload.get(wanted)) {
            to.copy_from_slice(from);
        }
        return Ok(dst.len());
    }
    let Contexts { block, decoders, .. } = contexts;
    // `parse` checked that the table fits and that the block size is not 0.
    let blocks = dst.len().div_ceil(header.blocksize);
    let (table, _) = payload.as_chunks::<4>();
    // Blocks that share bytes could make a small buffer take forever, so each stored byte is
    // decoded at most once.
    let mut unread = src.len() - HEADER - 4 * blocks;
    for (index, (out, start)) in dst.chunks_mut(header.blocksize).zip(table).enumerate() {
        let start = u32::from_le_bytes(*start) as usize;
        let streams = match src.get(start..) {
            Some(streams) if start >= HEADER + 4 * blocks => streams,
            _ => {
                return Err(corrupt(format!(
                    "block {index} starts at byte {start}, outside the bytes of the blocks"
                )));
            }
        };
        let first = index * header.blocksize;
        if wanted.is_empty() || wanted.end <= first || wanted.start >= first + out.len() {
            continue;
        }
        let mut decode = |out: &mut [u8]| {
            let splits = header.splits(out.len());
            decode_streams(header.format, splits, false, streams, &mut unread, out, decoders)
                .map_err(|why| corrupt(format!("block {index} at byte {start}, {why}")))
        };
        match header.filter(out.len()) {
            Filter::None => decode(out)?,
            filter => {
                let shuffled = resize_buffer(block, out.len(), "blosc")?;
                decode(shuffled)?;
                match filter {
                    Filter::Bit => bitunshuffle(header.typesize, shuffled, out),
                    _ => unshuffle(header.typesize, shuffled, out),
                }
            }
        }
    }
    Ok(dst.len())
}

/// Decodes the streams of one block from the front of `src` into all of `out`.
///
/// The block was split into `splits` streams. With `runs`, a length of zero or less stands for a
/// repeated byte. `unread` counts the bytes of all blocks that no stream has claimed yet. The error
/// says why decoding failed.
pub(crate) fn decode_streams(
    format: Format,
    splits: usize,
    runs: bool,
    mut src: &[u8],
    unread: &mut usize,
    out: &mut [u8],
    decoders: &mut Decoders,
) -> Result<(), String> {
    if !out.len().is_multiple_of(splits) || out.len() < splits {
        return Err(format!("{} bytes cannot be split into {splits} streams", out.len()));
    }
    for (split, out) in out.chunks_exact_mut(out.len() / splits).enumerate() {
        let Some((len, rest)) = src.split_first_chunk::<4>() else {
            return Err(format!("stream {split}: it is truncated before its length"));
        };
        let len = i32::from_le_bytes(*len);
        // A run stores one byte: its token.
        let stored = if runs && len < 0 { 1 } else { len.cast_unsigned() as usize };
        let Some((stream, rest)) = rest.split_at_checked(stored) else {
            return Err(format!("stream {split}: expected at most {} bytes, found {stored}", rest.len()));
        };
        *unread = unread
            .checked_sub(4 + stored)
            .ok_or_else(|| format!("stream {split}: it shares its bytes with another stream"))?;
        match (len, stream) {
            (0, _) if runs => out.fill(0),
            (-255..0, [1]) if runs => out.fill(low8(len.unsigned_abs().into())),
            (..0, _) if runs => {
                return Err(format!(
                    "stream {split}: its length is {len}, an unknown special value, and {} bytes follow",
                    stream.len()
                ));
            }
            _ if stored == out.len() => out.copy_from_slice(stream),
            _ => decoders.decode(format, stream, out).map_err(|why| {
                format!("stream {split}: {why} ({stored} stored bytes for {} decoded bytes)", out.len())
            })?,
        }
        src = rest;
    }
    Ok(())
}
