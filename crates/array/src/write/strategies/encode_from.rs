//! Encode-from: a whole chunk with codecs, as one row of bytes of the caller's memory.

use crate::copy::strided::Region;
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::plan::task::Task;
use crate::write::chunk::{ChunkWriter, Old, Produced};
use crate::write::strategies::WriteStrategy;
use hyperslab_codec::CodecChain;

/// Encodes straight from the caller's memory.
pub(crate) struct EncodeFrom;

impl WriteStrategy for EncodeFrom {
    fn name(&self) -> &'static str {
        "encode-from"
    }

    fn fits(&self, chunk: &ChunkWriter<'_>, task: &Task, region: &Region) -> bool {
        chunk.is_one_row(task, region) && !chunk.layout.encoding().chain().is_identity()
    }

    fn produce(
        &self,
        chunk: &ChunkWriter<'_>,
        scratch: &mut Scratch,
        _region: &Region,
        _offset: usize,
        _old: Old<'_>,
    ) -> Result<Produced, ArrayError> {
        // SAFETY: this is chosen only where the source is one row of a whole chunk.
        let bytes = unsafe { chunk.source_row() };
        chunk.encode(scratch, bytes, CodecChain::encode_lent)?;
        Ok(Produced::Encoded)
    }
}
