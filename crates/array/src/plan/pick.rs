//! The points of a task.

use std::ops::Range;

/// The points of a task, along the axes that they are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    /// Which of [`crate::plan::Plan`]'s.
    pub(crate) plan: usize,
    pub(crate) entries: Range<usize>,
    /// The place where the chunk starts.
    pub(crate) start: u64,
    /// First byte of an entry, and of the point that lies furthest, from the start of the chunk.
    pub(crate) reach: Range<u64>,
    pub(crate) points: u64,
}
