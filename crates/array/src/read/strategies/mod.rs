//! The ways to read one chunk's share of a request. To add one: a file here, and a line in
//! [`STRATEGIES`].

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
use crate::read::fetch::{Stored, decoded, fetch_stamped};
use hyperslab_store::Stamp;

/// All of them, in the order in which they are asked.
static STRATEGIES: &[&dyn ReadStrategy] = &[
    #[cfg(test)]
    &toy::Toy,
    &cached::Cached,
    &read_scatter::ReadScatter,
    &read_into::ReadInto,
    &read_rows::ReadRows,
    &decode_into::DecodeInto,
    &decode_part::DecodePart,
    LAST,
];

/// Fits every chunk.
pub(crate) const LAST: &dyn ReadStrategy = &decode_scatter::DecodeScatter;

/// A way to read one chunk's share of a request. The task is always `scratch.task`, where it is not
/// given.
///
/// What [`ReadStrategy::ranges`] and [`ReadStrategy::decodes`] tell is what reading does, byte for
/// byte: `explain` shows it.
pub(crate) trait ReadStrategy: Sync {
    /// What `explain` calls it.
    fn name(&self) -> &'static str;

    /// Whether it is right for a stored chunk, of which all but the strategy is known.
    fn fits(&self, chunk: &ChunkReader<'_>, task: &Task) -> bool;

    /// Reads the stored bytes and puts the elements of the task where they belong. Returns whether
    /// the chunk exists.
    fn read(
        &self,
        chunk: &ChunkReader<'_>,
        scratch: &mut Scratch,
        stored: Stored<'_>,
    ) -> Result<bool, ArrayError> {
        let (found, stamp) = fetch_stamped(chunk.layout, scratch, stored, chunk.keep)?;
        if !found {
            return Ok(false);
        }
        let encoded = std::mem::take(&mut scratch.encoded);
        let outcome = self.place(chunk, scratch, &encoded, stored.location, stamp);
        scratch.encoded = encoded;
        outcome.map(|()| true)
    }

    /// Puts the elements of the task where they belong, out of the stored bytes of the whole chunk.
    /// `stamp`: under which the decoded chunk may be kept.
    fn place(
        &self,
        chunk: &ChunkReader<'_>,
        scratch: &mut Scratch,
        encoded: &[u8],
        _location: Location,
        _stamp: Option<Stamp>,
    ) -> Result<(), ArrayError> {
        chunk.scatter(decoded(chunk.layout, scratch, encoded, chunk.request.verify)?);
        Ok(())
    }

    /// The ranges that [`ReadStrategy::read`] asks for, of a chunk of `stored.1` bytes that start at
    /// `stored.0` of its object.
    fn ranges(&self, _chunk: &ChunkReader<'_>, _task: &Task, stored: (u64, u64)) -> Vec<(u64, u64)> {
        vec![stored]
    }

    /// How many bytes come out of decoders.
    fn decodes(&self, _chunk: &ChunkReader<'_>, _task: &Task) -> u64 {
        0
    }
}

/// Chooses for a stored chunk: the one place that decides.
pub(crate) fn choose(chunk: &ChunkReader<'_>, task: &Task) -> &'static dyn ReadStrategy {
    STRATEGIES.iter().find(|strategy| strategy.fits(chunk, task)).copied().unwrap_or(LAST)
}
