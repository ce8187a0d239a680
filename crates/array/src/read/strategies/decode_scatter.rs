//! Decode-scatter: any chunk.

use super::{ReadStrategy, WHOLE};
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::execute::tasks::{self, codec_error};
use crate::layout::locate::Location;
use crate::read::cache::ChunkId;
use crate::read::chunk::ChunkReader;
use crate::read::fetch::decode_chunk;
use crate::runtime::memory::Memory;
use hyperslab_store::Stamp;
use std::sync::Arc;

pub(crate) static DECODE_SCATTER: ReadStrategy =
    ReadStrategy { name: "decode-scatter", fits: |_, _| true, ..WHOLE };

/// Decodes to scratch, or to memory for a cache that keeps the chunk, then scatters.
pub(super) fn place(
    chunk: &ChunkReader<'_>,
    scratch: &mut Scratch,
    encoded: &[u8],
    location: Location,
    stamp: Option<Stamp>,
) -> Result<(), ArrayError> {
    let (layout, verify) = (chunk.layout, chunk.request.verify);
    let cache = chunk.request.keep.filter(|_| chunk.keep).zip(stamp);
    // Without memory for keeping the chunk, read it as without a cache.
    let kept = cache.and_then(|cache| Some((cache, Memory::dirty(layout.encoding().decoded_size())?)));
    let Some(((cache, stamp), mut memory)) = kept else {
        chunk.scatter(decode_chunk(layout, scratch, encoded, verify)?);
        return Ok(());
    };
    let done = layout.encoding().chain().decode(encoded, memory.as_mut_slice(), &mut scratch.codec, verify);
    if done.is_err() && layout.encoding().ends_early() {
        // Not kept: another request may want the missing part.
        chunk.scatter(decode_chunk(layout, scratch, encoded, verify)?);
        return Ok(());
    }
    done.map_err(|source| codec_error(layout, &scratch.task, &scratch.key, source))?;
    chunk.scatter(memory.as_slice());
    let key = tasks::key(layout, &scratch.task, &scratch.key)?;
    cache.keep(&ChunkId::new(layout, key, location, verify), stamp, Arc::new(memory));
    Ok(())
}
