//! Cached: a cache holds the chunk, decoded.

use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::plan::task::Task;
use crate::read::chunk::ChunkReader;
use crate::read::fetch::Stored;
use crate::read::strategies::ReadStrategy;

/// Scatters from the cache.
pub(crate) struct Cached;

impl ReadStrategy for Cached {
    fn name(&self) -> &'static str {
        "cached"
    }

    fn fits(&self, chunk: &ChunkReader<'_>, _task: &Task) -> bool {
        chunk.held.is_some()
    }

    fn read(&self, chunk: &ChunkReader<'_>, _: &mut Scratch, _: Stored<'_>) -> Result<bool, ArrayError> {
        if let Some(held) = &chunk.held {
            chunk.scatter(held.as_slice());
        }
        Ok(true)
    }

    fn ranges(&self, _chunk: &ChunkReader<'_>, _task: &Task, _stored: (u64, u64)) -> Vec<(u64, u64)> {
        Vec::new()
    }
}
