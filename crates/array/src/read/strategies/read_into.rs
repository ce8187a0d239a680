//! Read-into: of a chunk without codecs, one row of bytes that is one in the output too.

use crate::copy::swap;
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::plan::task::Task;
use crate::read::chunk::ChunkReader;
use crate::read::fetch::{Stored, ranges_of};
use crate::read::strategies::ReadStrategy;
use hyperslab_store::RangeRead;

/// Reads straight into the output.
pub(crate) struct ReadInto;

impl ReadStrategy for ReadInto {
    fn name(&self) -> &'static str {
        "read-into"
    }

    fn fits(&self, chunk: &ChunkReader<'_>, task: &Task) -> bool {
        chunk.is_plain() && chunk.one_row(task).is_some()
    }

    fn read(
        &self,
        chunk: &ChunkReader<'_>,
        scratch: &mut Scratch,
        stored: Stored<'_>,
    ) -> Result<bool, ArrayError> {
        let len = chunk.region.contiguous().unwrap_or(0);
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
    }

    fn ranges(&self, chunk: &ChunkReader<'_>, _task: &Task, (start, _): (u64, u64)) -> Vec<(u64, u64)> {
        vec![(start + chunk.offset as u64, chunk.region.contiguous().unwrap_or(0) as u64)]
    }
}
