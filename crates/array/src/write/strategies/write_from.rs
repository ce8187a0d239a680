//! Write-from: a whole chunk without codecs, as one row of bytes of the caller's memory.

use crate::copy::strided::Region;
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::plan::task::Task;
use crate::write::chunk::{ChunkWriter, Old, Produced};
use crate::write::strategies::WriteStrategy;

/// Writes the caller's memory as it is.
pub(crate) struct WriteFrom;

impl WriteStrategy for WriteFrom {
    fn name(&self) -> &'static str {
        "write-from"
    }

    fn fits(&self, chunk: &ChunkWriter<'_>, task: &Task, region: &Region) -> bool {
        chunk.is_one_row(task, region) && chunk.layout.encoding().chain().is_identity()
    }

    fn produce(
        &self,
        _: &ChunkWriter<'_>,
        _: &mut Scratch,
        _: &Region,
        _: usize,
        _: Old<'_>,
    ) -> Result<Produced, ArrayError> {
        Ok(Produced::Source)
    }
}
