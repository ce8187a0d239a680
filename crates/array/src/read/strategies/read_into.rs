//! Read-into: one row of bytes of a chunk without codecs that is one row in the output, too.
//!
//! It is read straight to the output.

use super::{ReadStrategy, WHOLE};
use crate::copy::swap;
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::read::chunk::ChunkReader;
use crate::read::fetch::{self, Stored, ranges_of};
use crate::read::mask::Masking;
use hyperslab_store::RangeRead;

/// The most bytes that are read before they are compared with the missing value. They are then
/// still in the processor's cache.
const PIECE: usize = 256 << 10;

pub(crate) static READ_INTO: ReadStrategy = ReadStrategy {
    name: "read-into",
    fits: |chunk, task| chunk.is_plain() && chunk.one_row(task).is_some(),
    read: |chunk, scratch, stored| {
        let len = chunk.region.contiguous_len().unwrap_or(0);
        if let Some(masking) = masking(chunk) {
            return in_pieces(chunk, masking, len, scratch, stored);
        }
        // SAFETY: the target covers the task's elements, which are one row of `len` initialised
        // bytes; other tasks have other elements.
        let out = unsafe { &mut *chunk.row(len) };
        let range = &mut [RangeRead { offset: chunk.offset as u64, buf: out }];
        let found = ranges_of(chunk.layout, stored, &scratch.task, &scratch.key, range)?;
        let swap = chunk.layout.encoding().swap();
        if found && swap > 1 {
            // SAFETY: as above; the borrow for reading has ended.
            swap::in_place(unsafe { &mut *chunk.row(len) }, swap);
        }
        Ok(found)
    },
    ranges: |chunk, _, (start, _)| {
        vec![(start + chunk.offset as u64, chunk.region.contiguous_len().unwrap_or(0) as u64)]
    },
    decodes: |_, _| 0,
    marks: |chunk| masking(chunk).is_some(),
    ..WHOLE
};

/// The masking of a long row, which is compared piece by piece. `None` for all other rows.
fn masking<'a>(chunk: &ChunkReader<'a>) -> Option<&'a Masking<'a>> {
    let long = || chunk.layout.encoding().swap() == 1 && chunk.region.contiguous_len() > Some(PIECE);
    chunk.request.masking.filter(|_| long())
}

/// Reads the row in pieces, and compares each piece once it is there.
///
/// Not inlined, so that the far more common plain reads stay small.
#[inline(never)]
fn in_pieces(
    chunk: &ChunkReader<'_>,
    masking: &Masking<'_>,
    len: usize,
    scratch: &Scratch,
    stored: Stored<'_>,
) -> Result<bool, ArrayError> {
    let (layout, task, key) = (chunk.layout, &scratch.task, &scratch.key);
    let own = match stored.opened {
        Some(_) => None,
        None => fetch::open(layout, task, key, stored.location)?,
    };
    let Some(opened) = stored.opened.or(own.as_deref()) else { return Ok(false) };
    let stored = Stored { opened: Some(opened), ..stored };
    // Pieces hold whole elements.
    let piece = PIECE - PIECE % layout.dtype().size();
    for start in (0..len).step_by(piece) {
        // SAFETY: a part of the row, which the target covers; other tasks have other elements.
        let out = unsafe { &mut *chunk.row(len) };
        let Some(out) = out.get_mut(start..len.min(start + piece)) else { break };
        let range = &mut [RangeRead { offset: (chunk.offset + start) as u64, buf: out }];
        ranges_of(layout, stored, task, key, range)?;
        // SAFETY: as above: a part of the result, which has just been read.
        unsafe { masking.mark_row(out) };
    }
    Ok(true)
}
