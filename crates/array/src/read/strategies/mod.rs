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
use crate::read::fetch::{Stored, fetch_stamped, lent};
use hyperslab_store::Stamp;

/// All of them, in the order in which they are asked.
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

/// A way to read one chunk's share of a request. Where no task is given it is `scratch.task`.
pub(crate) struct ReadStrategy {
    /// What `explain` calls it.
    pub(crate) name: &'static str,
    /// Whether it is right for a stored chunk, of which all but the strategy is known.
    pub(crate) fits: fn(&ChunkReader<'_>, &Task) -> bool,
    /// Reads the stored bytes and puts the elements of the task where they belong. Returns whether
    /// the chunk exists.
    pub(crate) read: fn(&ChunkReader<'_>, &mut Scratch, Stored<'_>) -> Result<bool, ArrayError>,
    /// Puts the elements of the task where they belong, out of the stored bytes of the whole chunk.
    /// The stamp is that under which the decoded chunk may be kept.
    pub(crate) place: Place,
    /// The ranges that `read` asks for of a chunk, of which start and length are given. `explain`
    /// shows them: they are what is read, byte for byte.
    pub(crate) ranges: Ranges,
    /// How many bytes come out of decoders.
    pub(crate) decodes: fn(&ChunkReader<'_>, &Task) -> u64,
    /// Whether `read` itself marks what is missing, of a request that asks for it.
    pub(crate) marks: fn(&ChunkReader<'_>) -> bool,
}

/// See [`ReadStrategy::place`].
type Place = fn(&ChunkReader<'_>, &mut Scratch, &[u8], Location, Option<Stamp>) -> Result<(), ArrayError>;

/// See [`ReadStrategy::ranges`].
type Ranges = fn(&ChunkReader<'_>, &Task, (u64, u64)) -> Vec<(u64, u64)>;

/// Reads all of a chunk, decodes it to scratch, and scatters. Strategies say what they do otherwise.
const WHOLE: ReadStrategy = ReadStrategy {
    name: "",
    fits: |_, _| false,
    read: |chunk, scratch, stored| {
        if let Some((lent, stamp)) = lent(chunk.layout, scratch, stored, chunk.keep)? {
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

/// Chooses for a stored chunk: the one place that decides.
pub(crate) fn choose(chunk: &ChunkReader<'_>, task: &Task) -> &'static ReadStrategy {
    STRATEGIES.iter().find(|strategy| (strategy.fits)(chunk, task)).copied().unwrap_or(LAST)
}
