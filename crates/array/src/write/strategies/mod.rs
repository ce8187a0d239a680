//! The ways to write one chunk's share of a request.
//!
//! To add one, add a file here and a line in [`STRATEGIES`].

mod elide;
mod encode_from;
mod gather;
pub(crate) mod modify;
mod write_from;

use crate::copy::strided::Region;
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::plan::task::Task;
use crate::write::chunk::{ChunkWriter, Old, Produced};

/// All strategies, in the order in which they are tried.
static STRATEGIES: &[&WriteStrategy] =
    &[&modify::MODIFY, &elide::ELIDE, &write_from::WRITE_FROM, &encode_from::ENCODE_FROM, LAST];

/// Fits every whole chunk.
static LAST: &WriteStrategy = &gather::GATHER;

/// A way to write one chunk's share of a request.
pub(crate) struct WriteStrategy {
    /// Its name in `explain`.
    pub(crate) name: &'static str,
    /// Returns whether it is right for a task that no earlier strategy fits. The region is the copy
    /// from the caller's memory to the decoded chunk.
    pub(crate) fits: fn(&ChunkWriter<'_>, &Task, &Region) -> bool,
    /// Produces the bytes to store for the chunk of `scratch.task`.
    pub(crate) produce: Produce,
    /// `true` if it needs the chunk as it was before.
    pub(crate) reads_old: bool,
}

/// See [`WriteStrategy::produce`]. The number is where the region begins in the decoded chunk.
type Produce = fn(&ChunkWriter<'_>, &mut Scratch, &Region, usize, Old<'_>) -> Result<Produced, ArrayError>;

/// Chooses the strategy for a chunk. Nothing else decides.
pub(crate) fn choose(chunk: &ChunkWriter<'_>, task: &Task, region: &Region) -> &'static WriteStrategy {
    STRATEGIES.iter().find(|strategy| (strategy.fits)(chunk, task, region)).copied().unwrap_or(LAST)
}
