//! How one chunk's share of a request is executed: the one place that decides.
//!
//! | reading | when |
//! |---|---|
//! | cached | a cache holds the chunk, as it is in the store |
//! | fill | the chunk is absent |
//! | read-scatter | no codec, and small chunks are read together |
//! | read-into | no codec, and one row of bytes on both sides |
//! | read-rows | no codec, otherwise |
//! | decode-into | all of the chunk is wanted, as one row of bytes of the output |
//! | decode-part | a part is wanted, and the codec can decode that by itself |
//! | decode-scatter | otherwise, and if a cache is to keep the chunk |
//!
//! | writing | when |
//! |---|---|
//! | modify | a part of a chunk |
//! | elide | a whole chunk of fill value |
//! | write-from | a whole chunk, no codec, and one row of bytes of the caller's memory |
//! | encode-from | the same with codecs |
//! | gather | a whole chunk, otherwise |
//!
//! [`Strategy`] says what each does.
//!
//! Tasks with several stretches of points have no single row of bytes on either side: of a chunk
//! without codecs they read the ranges around the points ([`crate::read::windows`]), and the pass
//! in the end goes from place to place ([`crate::copy::gather`]).

#![expect(
    clippy::indexing_slicing,
    reason = "axes are numbered below the rank, which all vectors of one array have"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "sizes in memory, and numbers of what is in memory: 64 bits, and checked where they came in"
)]

use crate::copy::strided::Region;
use crate::costs;
use crate::dims::Strides;
use crate::layout::encoding::ChunkEncoding;
use crate::plan::task::Task;
use crate::runtime::settings;
use hyperslab_codec::Reach;
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;

/// How a chunk's share of a request is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Read straight into the output.
    ReadInto,
    /// Read only the wanted byte ranges of an unencoded chunk.
    ReadRows,
    /// Scatter from bytes that were read together with those of neighbours.
    ReadScatter,
    /// Decode straight into the output.
    DecodeInto,
    /// Decode only the part that is wanted to scratch, then scatter into the output.
    DecodePart,
    /// Decode to scratch, then scatter into the output.
    DecodeScatter,
    /// Scatter from a decoded chunk in a [`crate::read::cache::ChunkCache`].
    Cached,
    /// The chunk is absent: fill value.
    Fill,
    /// Write the caller's memory as it is.
    WriteFrom,
    /// Gather into scratch, then encode and write.
    Gather,
    /// Encode straight from the caller's memory.
    EncodeFrom,
    /// Only fill value: store nothing.
    Elide,
    /// Read, overlay, replace.
    Modify,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Strategy::ReadInto => "read-into",
            Strategy::ReadRows => "read-rows",
            Strategy::ReadScatter => "read-scatter",
            Strategy::DecodeInto => "decode-into",
            Strategy::DecodePart => "decode-part",
            Strategy::DecodeScatter => "decode-scatter",
            Strategy::Cached => "cached",
            Strategy::Fill => "fill",
            Strategy::WriteFrom => "write-from",
            Strategy::Gather => "gather",
            Strategy::EncodeFrom => "encode-from",
            Strategy::Elide => "elide",
            Strategy::Modify => "modify",
        })
    }
}

/// What there is of a chunk besides its stored bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChunkState {
    /// A cache holds it, decoded.
    pub(crate) cached: bool,
    /// A cache is to keep it, decoded: all of it is.
    pub(crate) keep: bool,
    /// Its stored bytes are read together with those of neighbours.
    pub(crate) joined: bool,
}

/// Chooses for reading a chunk that is stored. `region` is the copy from the decoded chunk to the
/// output (if there are points, at each of them), `wanted` gives the bytes of the decoded chunk
/// that are touched.
pub(crate) fn choose_read(
    encoding: &ChunkEncoding,
    task: &Task,
    region: &Region,
    state: ChunkState,
    wanted: impl FnOnce() -> Range<usize>,
) -> Strategy {
    let row = || if task.picks.is_empty() { region.contiguous() } else { None };
    if state.cached {
        Strategy::Cached
    } else if encoding.chain().is_identity() {
        match state.joined {
            true => Strategy::ReadScatter,
            false if row().is_some() => Strategy::ReadInto,
            false => Strategy::ReadRows,
        }
    } else if state.keep {
        Strategy::DecodeScatter
    } else if row() == Some(encoding.decoded_size()) && !encoding.chain().only_frames() {
        Strategy::DecodeInto
    } else if is_worth_a_part(encoding, wanted) {
        Strategy::DecodePart
    } else {
        Strategy::DecodeScatter
    }
}

/// Whether decoding a part of a chunk is worth it: step by step costs a little more than all at
/// once, and checks less.
fn is_worth_a_part(encoding: &ChunkEncoding, wanted: impl FnOnce() -> Range<usize>) -> bool {
    if encoding.decoded_size() < costs::WORTH_A_PART {
        return false;
    }
    let decoded = match encoding.chain().reach() {
        Reach::Prefix => wanted().end,
        Reach::Blocks => wanted().len(),
        Reach::Whole | Reach::Bytes => return false,
    };
    encoding.decoded_size() - decoded >= costs::WORTH_A_PART && settings::partial_decode()
}

/// Chooses for writing a chunk. `region` is the copy from the caller's memory to the decoded chunk;
/// `blank` tells whether the values are nothing but fill value, which is then not stored.
pub(crate) fn choose_write(
    encoding: &ChunkEncoding,
    task: &Task,
    region: &Region,
    blank: impl FnOnce() -> bool,
) -> Strategy {
    if !task.whole {
        Strategy::Modify
    } else if task.picks.is_empty() && blank() {
        // Points are looked at once they are gathered.
        Strategy::Elide
    } else if !task.picks.is_empty()
        || region.contiguous() != Some(encoding.decoded_size())
        || encoding.swap() != 1
    {
        // Chunks that reach past the array's end come here too: they need padding.
        Strategy::Gather
    } else if encoding.chain().is_identity() {
        Strategy::WriteFrom
    } else {
        Strategy::EncodeFrom
    }
}

/// The byte ranges of an unencoded chunk that hold a part of it: `Π outer counts` ranges of `span`
/// bytes each.
///
/// Reading every wanted run by itself moves the fewest bytes but may take very many ranges; one
/// range from the first to the last wanted byte takes one, but may read a lot that nobody wants. In
/// between, the slower axes are walked and the faster ones covered: the split with the lowest cost
/// is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Axes that are walked: how many steps, bytes of each. Slowest first.
    pub(crate) outer: SmallVec<[(u64, u64); 8]>,
    /// First wanted byte of the chunk.
    pub(crate) start: u64,
    /// Bytes of one range.
    pub(crate) span: u64,
    /// Number of ranges.
    pub(crate) count: u64,
}

impl Rows {
    /// `another`: what one more range costs, in bytes that could be read instead.
    pub(crate) fn new(encoding: &ChunkEncoding, task: &Task, another: u64) -> Self {
        let element = encoding.element_size() as u64;
        let mut axes: SmallVec<[(u64, u64); 8]> = SmallVec::new();
        let mut start = 0;
        for axis in encoding.order() {
            let k = *axis as usize;
            let stride = encoding.strides()[k] as u64;
            start += task.first[k] * stride;
            if task.count[k] > 1 {
                axes.push((task.count[k], stride * task.step[k]));
            }
        }
        let reach = |axes: &[(u64, u64)]| axes.iter().map(|(n, step)| (n - 1) * step).sum::<u64>() + element;
        let mut best = (u64::MAX, 0);
        let mut ranges = 1u64;
        for depth in 0..=axes.len() {
            let cost = ranges.saturating_mul(another.saturating_add(reach(&axes[depth..])));
            if cost < best.0 {
                best = (cost, depth);
            }
            if let Some((n, _)) = axes.get(depth) {
                ranges = ranges.saturating_mul(*n);
            }
        }
        let span = reach(&axes[best.1..]);
        axes.truncate(best.1);
        let count = axes.iter().map(|(n, _)| n).product();
        Rows { outer: axes, start, span, count }
    }

    /// The offsets of all ranges within the chunk, ascending.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = u64> {
        (0..self.count).map(|number| {
            let mut rest = number;
            self.outer.iter().rev().fold(self.start, |offset, (n, step)| {
                let index = rest % n;
                rest /= n;
                offset + index * step
            })
        })
    }

    /// Where selected elements lie when the ranges stand one behind the other in a buffer: bytes
    /// from one to the next, per axis of the array. `within` is the same within the chunk. The
    /// first selected element is the first byte.
    pub(crate) fn packed(&self, encoding: &ChunkEncoding, task: &Task, within: &[isize]) -> Strides {
        let mut strides: Strides = within.into();
        // The axes that are walked are the slowest with more than one element, in stored order;
        // their steps in the buffer are whole ranges.
        let walked = encoding.order().iter().map(|axis| *axis as usize).filter(|k| task.count[*k] > 1);
        let mut step = self.count * self.span;
        for (k, (n, _)) in walked.zip(&self.outer) {
            step /= n;
            strides[k] = step as isize;
        }
        strides
    }
}
