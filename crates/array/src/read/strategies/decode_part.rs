//! Decode-part: a part of a chunk, of a codec that can decode it by itself.

use crate::costs;
use crate::error::ArrayError;
use crate::execute::scratch::{Scratch, sized};
use crate::execute::tasks::{codec_error, memory_error};
use crate::layout::locate::Location;
use crate::plan::task::{Task, reach};
use crate::read::chunk::ChunkReader;
use crate::read::strategies::ReadStrategy;
use crate::runtime::settings;
use hyperslab_codec::Reach;
use hyperslab_store::Stamp;

/// Decodes only as much as the task needs, each byte to its place in scratch of a whole chunk, then
/// scatters.
pub(crate) struct DecodePart;

impl ReadStrategy for DecodePart {
    fn name(&self) -> &'static str {
        "decode-part"
    }

    /// Step by step costs a little more than all at once, and checks less: a part has to be worth it.
    fn fits(&self, chunk: &ChunkReader<'_>, task: &Task) -> bool {
        let encoding = chunk.layout.encoding();
        if chunk.keep || encoding.decoded_size() < costs::WORTH_A_PART {
            return false;
        }
        let decoded = match encoding.chain().reach() {
            Reach::Prefix => reach(chunk.layout, task).end,
            Reach::Blocks => reach(chunk.layout, task).len(),
            Reach::Whole | Reach::Bytes => return false,
        };
        encoding.decoded_size() - decoded >= costs::WORTH_A_PART && settings::partial_decode()
    }

    fn place(
        &self,
        chunk: &ChunkReader<'_>,
        scratch: &mut Scratch,
        encoded: &[u8],
        _location: Location,
        _stamp: Option<Stamp>,
    ) -> Result<(), ArrayError> {
        let (layout, verify) = (chunk.layout, chunk.request.verify);
        let wanted = reach(layout, &scratch.task);
        let Scratch { decoded, codec, task, key, .. } = scratch;
        let len = layout.encoding().decoded_size();
        let out = sized(decoded, len).ok_or_else(|| memory_error(layout, "a decoded chunk", len as u64))?;
        let done = layout.encoding().chain().decode_part(encoded, wanted, out, codec, verify);
        done.map_err(|source| codec_error(layout, task, key, source))?;
        chunk.scatter(out);
        Ok(())
    }

    fn decodes(&self, chunk: &ChunkReader<'_>, task: &Task) -> u64 {
        let wanted = reach(chunk.layout, task);
        let blocks = chunk.layout.encoding().chain().reach() == Reach::Blocks;
        (if blocks { wanted.len() } else { wanted.end }) as u64
    }
}
