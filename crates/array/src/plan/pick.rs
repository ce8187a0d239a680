//! The points of a task.

use std::ops::Range;

/// The points of a task, along the axes that have points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    /// Number of the point plan in [`crate::plan::Plan`].
    pub(crate) plan: usize,
    pub(crate) entries: Range<usize>,
    /// The place where the chunk starts.
    pub(crate) start: u64,
    /// First byte of the nearest point and of the furthest one, from the start of the chunk.
    pub(crate) reach: Range<u64>,
    pub(crate) points: u64,
}
