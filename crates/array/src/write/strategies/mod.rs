//! The ways to write one chunk's share of a request. To add one: a file here, and a line in
//! [`STRATEGIES`].

mod elide;
mod encode_from;
mod gather;
mod modify;
mod write_from;

use crate::copy::strided::Region;
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::plan::task::Task;
use crate::write::chunk::{ChunkWriter, Old, Produced};

/// All of them, in the order in which they are asked.
static STRATEGIES: &[&dyn WriteStrategy] =
    &[MODIFY, &elide::Elide, &write_from::WriteFrom, &encode_from::EncodeFrom, LAST];

/// For parts of chunks.
pub(crate) const MODIFY: &dyn WriteStrategy = &modify::Modify;

/// Fits every whole chunk.
const LAST: &dyn WriteStrategy = &gather::Gather;

/// A way to write one chunk's share of a request.
pub(crate) trait WriteStrategy: Sync {
    /// What `explain` calls it.
    fn name(&self) -> &'static str;

    /// Whether it is right for a task, of which those before did not fit. `region` is the copy from
    /// the caller's memory to the decoded chunk.
    fn fits(&self, chunk: &ChunkWriter<'_>, task: &Task, region: &Region) -> bool;

    /// Makes what the chunk of `scratch.task` is to be stored as; `offset`: where `region` begins
    /// in the decoded chunk.
    fn produce(
        &self,
        chunk: &ChunkWriter<'_>,
        scratch: &mut Scratch,
        region: &Region,
        offset: usize,
        old: Old<'_>,
    ) -> Result<Produced, ArrayError>;

    /// Whether it needs the chunk as it was before.
    fn reads_old(&self) -> bool {
        false
    }
}

/// Chooses for a chunk: the one place that decides.
pub(crate) fn choose(chunk: &ChunkWriter<'_>, task: &Task, region: &Region) -> &'static dyn WriteStrategy {
    STRATEGIES.iter().find(|strategy| strategy.fits(chunk, task, region)).copied().unwrap_or(LAST)
}
