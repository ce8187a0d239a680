//! Gather: a whole chunk that is not one row of bytes in the caller's memory, or that changes its
//! byte order. It is gathered into scratch, then encoded.

use super::WriteStrategy;
use crate::write::chunk::Produced;

pub(crate) static GATHER: WriteStrategy = WriteStrategy {
    name: "gather",
    fits: |_, _, _| true,
    produce: |chunk, scratch, region, offset, _| {
        let buffer = chunk.buffer(scratch)?;
        // SAFETY: the source covers the task's elements; the region lies within the chunk.
        unsafe { chunk.overlay(region, buffer, offset) };
        // Rows of the caller's memory were already checked for fill value by `elide`. Check the
        // points here.
        let look = !chunk.places.is_empty() && !chunk.keep_empty;
        if look && chunk.is_blank(scratch.decoded.as_ref()) {
            return Ok(Produced::Nothing);
        }
        chunk.finish(scratch)
    },
    reads_old: false,
};
