//! The ways to read one chunk's share of a request.
//!
//! To add one: a file here, and a line in [`STRATEGIES`].

mod cached;
mod decode_into;
mod decode_part;
mod decode_scatter;
mod read_into;
mod read_rows;
mod read_scatter;
#[cfg(test)]
mod toy;

use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::layout::locate::Location;
use crate::plan::task::Task;
use crate::read::chunk::ChunkReader;
use crate::read::fetch::{Stored, fetch_stamped, lend_stored};
use hyperslab_store::Stamp;

/// All strategies, in the order in which they are tried.
static STRATEGIES: &[&ReadStrategy] = &[
    #[cfg(test)]
    &toy::TOY,
    &cached::CACHED,
    &read_scatter::READ_SCATTER,
    &read_into::READ_INTO,
    &read_rows::READ_ROWS,
    &decode_into::DECODE_INTO,
    &decode_part::DECODE_PART,
    LAST,
];

/// Fits every chunk.
pub(crate) static LAST: &ReadStrategy = &decode_scatter::DECODE_SCATTER;

/// A way to read one chunk's share of a request. Without a `Task` argument, the task is
/// `scratch.task`.
pub(crate) struct ReadStrategy {
    /// The name in `explain`.
    pub(crate) name: &'static str,
    /// Returns `true` if the strategy is right for a stored chunk. Only its strategy is not known
    /// yet.
    pub(crate) fits: fn(&ChunkReader<'_>, &Task) -> bool,
    /// Reads the stored bytes and puts the task's elements in their places.
    ///
    /// Returns `true` if the chunk exists.
    pub(crate) read: fn(&ChunkReader<'_>, &mut Scratch, Stored<'_>) -> Result<bool, ArrayError>,
    /// Puts the task's elements in their places, from the stored bytes of the whole chunk.
    ///
    /// The decoded chunk may be kept under the stamp.
    pub(crate) place: PlaceFn,
    /// The ranges that `read` requests from a chunk, given the chunk's start and length.
    ///
    /// `explain` shows them. They match the bytes that are read exactly.
    pub(crate) ranges: RangesFn,
    /// Number of bytes that come out of decoders.
    pub(crate) decodes: fn(&ChunkReader<'_>, &Task) -> u64,
    /// Returns `true` if `read` itself marks missing elements for a request with a mask.
    pub(crate) marks: fn(&ChunkReader<'_>) -> bool,
}

/// See [`ReadStrategy::place`].
type PlaceFn = fn(&ChunkReader<'_>, &mut Scratch, &[u8], Location, Option<Stamp>) -> Result<(), ArrayError>;

/// See [`ReadStrategy::ranges`].
type RangesFn = fn(&ChunkReader<'_>, &Task, (u64, u64)) -> Vec<(u64, u64)>;

/// Reads the whole chunk, decodes it to scratch, and scatters it. Strategies state their
/// differences.
const WHOLE: ReadStrategy = ReadStrategy {
    name: "",
    fits: |_, _| false,
    read: |chunk, scratch, stored| {
        if let Some((lent, stamp)) = lend_stored(chunk.layout, scratch, stored, chunk.keep)? {
            let place = chunk.strategy.place;
            return place(chunk, scratch, (*lent).as_ref(), stored.location, stamp).map(|()| true);
        }
        let (found, stamp) = fetch_stamped(chunk.layout, scratch, stored, chunk.keep)?;
        if !found {
            return Ok(false);
        }
        let encoded = std::mem::take(&mut scratch.encoded);
        let outcome = (chunk.strategy.place)(chunk, scratch, &encoded, stored.location, stamp);
        scratch.encoded = encoded;
        outcome.map(|()| true)
    },
    place: decode_scatter::place,
    ranges: |_, _, stored| vec![stored],
    decodes: |chunk, _| chunk.layout.encoding().decoded_size() as u64,
    marks: |_| false,
};

/// Chooses the strategy for a stored chunk. No other code decides this.
pub(crate) fn choose(chunk: &ChunkReader<'_>, task: &Task) -> &'static ReadStrategy {
    STRATEGIES.iter().find(|strategy| (strategy.fits)(chunk, task)).copied().unwrap_or(LAST)
}
