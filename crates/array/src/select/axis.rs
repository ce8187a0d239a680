//! What is selected along one axis.

/// What is selected along one axis: `first, first + step, …`, `len` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisSelection {
    /// The element that comes first in the result. Meaningless where `len` is 0.
    pub first: u64,
    /// Distance to the next; negative runs backwards. Not zero.
    pub step: i64,
    /// Number of elements.
    pub len: u64,
    /// Whether an integer selected it: the result does not have this axis.
    pub dropped: bool,
}
