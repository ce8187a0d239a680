//! The selection along one axis.

/// The selection along one axis: `first, first + step, …`, `len` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisSelection {
    /// The element that comes first in the result. Meaningless if `len` is 0.
    pub first: u64,
    /// Distance to the next element; negative: backwards. Never zero.
    pub step: i64,
    /// Number of elements.
    pub len: u64,
    /// `true` if an integer selected the element: the result does not have this axis.
    pub dropped: bool,
}
