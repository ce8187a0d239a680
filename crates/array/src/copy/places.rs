//! Where the points of a task are.

#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

/// Some points that follow each other along the last of their axes, in the chunk and in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlacedStretch {
    /// The number of its chunk times bytes of a chunk, plus the first byte within it.
    pub(crate) place: u64,
    /// Where the first one goes in the result, and how many there are, less one (the lowest bits).
    pub(crate) out: u64,
}

pub(crate) const LEN_BITS: u32 = 16;

/// The most points of one entry.
pub(crate) const LONGEST: u64 = 1 << LEN_BITS;

/// Results of more points than this fit into no memory.
pub(crate) const MOST: u64 = 1 << (64 - LEN_BITS);

impl PlacedStretch {
    /// Number of the first point in the result.
    pub(crate) fn out(self) -> u64 {
        self.out >> LEN_BITS
    }

    /// Number of points, at least 1.
    pub(crate) fn len(self) -> u64 {
        (self.out & (LONGEST - 1)) + 1
    }
}

/// Where the points of a task are: in the chunk, and in the caller's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    pub(crate) entries: &'a [PlacedStretch],
    /// The place where the chunk starts.
    pub(crate) start: u64,
    /// Bytes from one point of an entry to the next in the chunk.
    pub(crate) step: isize,
    /// Bytes from one point of the result to the next in the caller's memory.
    pub(crate) stride: isize,
    /// The longest step in the chunk.
    pub(crate) across: isize,
}

impl Places<'_> {
    /// Where an entry lies in the chunk.
    pub(crate) fn chunk(&self, entry: PlacedStretch) -> isize {
        (entry.place - self.start) as isize
    }

    /// Where it goes in the caller's memory.
    pub(crate) fn memory(&self, entry: PlacedStretch) -> isize {
        self.stride.wrapping_mul(entry.out() as isize)
    }
}
