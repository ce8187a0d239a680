//! Gather: a whole chunk that is not one row of bytes of the caller's memory, or changes its byte
//! order, or reaches past the array's end.

use crate::copy::strided::Region;
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::plan::task::Task;
use crate::write::chunk::{ChunkWriter, Old, Produced};
use crate::write::strategies::WriteStrategy;

/// Gathers into scratch, then encodes and writes.
pub(crate) struct Gather;

impl WriteStrategy for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn fits(&self, _chunk: &ChunkWriter<'_>, _task: &Task, _region: &Region) -> bool {
        true
    }

    fn produce(
        &self,
        chunk: &ChunkWriter<'_>,
        scratch: &mut Scratch,
        region: &Region,
        offset: usize,
        _old: Old<'_>,
    ) -> Result<Produced, ArrayError> {
        let encoding = chunk.layout.encoding();
        let inside = scratch.task.elements();
        let padded = inside as u128 * encoding.element_size() as u128 != encoding.decoded_size() as u128;
        let buffer = chunk.buffer(scratch)?;
        if padded {
            chunk.blank(buffer);
        }
        // SAFETY: the source covers the task's elements; the region lies within the chunk.
        unsafe { chunk.overlay(region, buffer, offset) };
        // What one row of the caller's memory tells by itself is told before: only points are
        // looked at here.
        let look = !chunk.places.is_empty() && !chunk.keep_empty;
        if look && chunk.is_blank(&scratch.task, scratch.decoded.as_ref()) {
            return Ok(Produced::Nothing);
        }
        chunk.finish(scratch)
    }
}
