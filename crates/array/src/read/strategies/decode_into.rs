//! Decode-into: all of a chunk, as one row of bytes of the output.

use crate::copy::swap;
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::execute::tasks::codec_error;
use crate::layout::locate::Location;
use crate::plan::task::Task;
use crate::read::chunk::ChunkReader;
use crate::read::strategies::ReadStrategy;
use hyperslab_store::Stamp;

/// Decodes straight into the output.
pub(crate) struct DecodeInto;

impl ReadStrategy for DecodeInto {
    fn name(&self) -> &'static str {
        "decode-into"
    }

    fn fits(&self, chunk: &ChunkReader<'_>, task: &Task) -> bool {
        let encoding = chunk.layout.encoding();
        !chunk.keep && chunk.one_row(task) == Some(encoding.decoded_size()) && !encoding.chain().only_frames()
    }

    fn place(
        &self,
        chunk: &ChunkReader<'_>,
        scratch: &mut Scratch,
        encoded: &[u8],
        _location: Location,
        _stamp: Option<Stamp>,
    ) -> Result<(), ArrayError> {
        let encoding = chunk.layout.encoding();
        // SAFETY: the target covers the task's elements, which are one row of a whole chunk of
        // initialised bytes; other tasks have other elements.
        let out = unsafe { &mut *chunk.row(encoding.decoded_size()) };
        encoding
            .chain()
            .decode(encoded, out, &mut scratch.codec, chunk.request.verify)
            .map_err(|source| codec_error(chunk.layout, &scratch.task, &scratch.key, source))?;
        swap::in_place(out, encoding.swap());
        Ok(())
    }

    fn decodes(&self, chunk: &ChunkReader<'_>, _task: &Task) -> u64 {
        chunk.layout.encoding().decoded_size() as u64
    }
}
