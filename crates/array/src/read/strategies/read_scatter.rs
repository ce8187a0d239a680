//! Read-scatter: a chunk without codecs whose bytes were read together with those of neighbours.

use crate::plan::task::Task;
use crate::read::chunk::ChunkReader;
use crate::read::strategies::ReadStrategy;

/// Scatters from the bytes that were read.
pub(crate) struct ReadScatter;

impl ReadStrategy for ReadScatter {
    fn name(&self) -> &'static str {
        "read-scatter"
    }

    fn fits(&self, chunk: &ChunkReader<'_>, _task: &Task) -> bool {
        chunk.joined && chunk.is_plain()
    }
}
