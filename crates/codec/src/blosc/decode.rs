//! From a blosc buffer to bytes.

use crate::scratch::sized;
use crate::{Result, front};
use std::ops::Range;

use super::bitshuffle::bitunshuffle;
use super::header::{Filter, HEADER, Header, corrupt};
use super::inner::Decoders;
use super::shuffle::unshuffle;
use super::{Contexts, NAME};

/// Decodes the blocks of `src` that hold bytes `wanted` of the decoded buffer into their places in
/// `dst`; returns how many bytes the decoded buffer has. Header and places of blocks are checked
/// whether they are wanted or not.
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
    // Blocks that share bytes could make a small buffer take forever: each byte is decoded once at
    // most.
    let mut unread = src.len() - HEADER - 4 * blocks;
    for (index, (out, start)) in dst.chunks_mut(header.blocksize).zip(table).enumerate() {
        let start = u32::from_le_bytes(*start) as usize;
        let streams = match src.get(start..) {
            Some(streams) if start >= HEADER + 4 * blocks => streams,
            _ => {
                return Err(corrupt(format!(
                    "block {index} starts at {start}, outside of the blocks' bytes"
                )));
            }
        };
        let at = Place { block: index, start };
        let first = index * header.blocksize;
        if wanted.is_empty() || wanted.end <= first || wanted.start >= first + out.len() {
            continue;
        }
        match header.filter(out.len()) {
            Filter::None => decode_streams(&header, streams, &mut unread, out, at, decoders)?,
            filter => {
                let shuffled = sized(block, out.len());
                decode_streams(&header, streams, &mut unread, shuffled, at, decoders)?;
                match filter {
                    Filter::Bit => bitunshuffle(header.typesize, shuffled, out),
                    _ => unshuffle(header.typesize, shuffled, out),
                }
            }
        }
    }
    Ok(dst.len())
}

/// Where a block is, for messages.
#[derive(Clone, Copy)]
struct Place {
    block: usize,
    start: usize,
}

/// Decodes the streams of one block, which are at the front of `src`, into all of `out`. `unread`
/// is how many bytes of the buffer's blocks no stream has claimed yet.
fn decode_streams(
    header: &Header,
    mut src: &[u8],
    unread: &mut usize,
    out: &mut [u8],
    at: Place,
    decoders: &mut Decoders,
) -> Result<()> {
    let splits = header.splits(out.len());
    if !out.len().is_multiple_of(splits) {
        return Err(corrupt(format!("blocks of {} bytes cannot be split into {splits} streams", out.len())));
    }
    for (split, out) in out.chunks_exact_mut(out.len() / splits).enumerate() {
        let place = || format!("block {} at {}, stream {split}", at.block, at.start);
        let Some((len, rest)) = src.split_first_chunk::<4>() else {
            return Err(corrupt(format!("{}: truncated before its length", place())));
        };
        let len = u32::from_le_bytes(*len) as usize;
        let Some((stream, rest)) = rest.split_at_checked(len) else {
            return Err(corrupt(format!("{}: {len} bytes where {} are left", place(), rest.len())));
        };
        *unread = unread
            .checked_sub(4 + len)
            .ok_or_else(|| corrupt(format!("{}: shares its bytes with another stream", place())))?;
        if len == out.len() {
            out.copy_from_slice(stream);
        } else {
            decoders.decode(header.format, stream, out).map_err(|why| {
                corrupt(format!("{}: {why} ({len} bytes for {} decoded)", place(), out.len()))
            })?;
        }
        src = rest;
    }
    Ok(())
}
