//! The places of a task's points.

#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

/// Points that follow each other along the last of their axes, both in the chunk and in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlacedStretch {
    /// Number of the chunk times bytes per chunk, plus the first byte within the chunk.
    pub(crate) place: u64,
    /// Number of the first point in the result. The lowest bits hold the number of points, less
    /// one.
    pub(crate) out: u64,
}

pub(crate) const LEN_BITS: u32 = 16;

/// The most points of one entry.
pub(crate) const LONGEST: u64 = 1 << LEN_BITS;

/// No memory can hold a result of more points.
pub(crate) const MOST: u64 = 1 << (64 - LEN_BITS);

impl PlacedStretch {
    /// Number of the first point in the result.
    pub(crate) fn result_index(self) -> u64 {
        self.out >> LEN_BITS
    }

    /// Number of points, at least 1.
    pub(crate) fn len(self) -> u64 {
        (self.out & (LONGEST - 1)) + 1
    }
}

/// The places of a task's points, in the chunk and in the caller's memory.
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
    /// First byte of an entry in the chunk.
    pub(crate) fn chunk(&self, entry: PlacedStretch) -> isize {
        (entry.place - self.start) as isize
    }

    /// First byte of an entry in the caller's memory.
    pub(crate) fn memory(&self, entry: PlacedStretch) -> isize {
        self.stride.wrapping_mul(entry.result_index() as isize)
    }
}
