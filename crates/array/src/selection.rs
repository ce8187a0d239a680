//! Indices in one normal form.

use crate::{ArrayError, Dims};
use smallvec::SmallVec;

/// One item of a NumPy-style index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// One element; negative counts from the end. The axis is dropped from the result.
    At(i64),
    /// `start:stop:step` with Python's meaning of absent and out-of-range bounds.
    Slice {
        /// First element, or the end where `step` is negative.
        start: Option<i64>,
        /// One past the last.
        stop: Option<i64>,
        /// Not zero.
        step: i64,
    },
    /// `...`: all axes not named by other items.
    Ellipsis,
}

impl Index {
    /// `:`
    pub const ALL: Index = Index::Slice { start: None, stop: None, step: 1 };

    /// `start:stop`
    pub fn range(start: i64, stop: i64) -> Self {
        Index::Slice { start: Some(start), stop: Some(stop), step: 1 }
    }
}

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

/// What is selected of an array: one strided range per axis. Every element named lies inside the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    axes: SmallVec<[AxisSelection; 8]>,
}

impl Selection {
    /// Everything of an array of `shape`.
    pub fn all(shape: &[u64]) -> Self {
        let axis = |len: &u64| AxisSelection { first: 0, step: 1, len: *len, dropped: false };
        Selection { axes: shape.iter().map(axis).collect() }
    }

    /// NumPy's basic indexing on an array of `shape`; missing items at the end mean `:`.
    ///
    /// Errors with [`ArrayError::Index`] for an integer out of bounds, a zero step, more items than axes, or two ellipses. `array` is
    /// the name for these messages.
    pub fn new(array: &str, shape: &[u64], indices: &[Index]) -> Result<Self, ArrayError> {
        let refuse = |why: String| ArrayError::Index { array: array.to_owned(), why };
        let rank = shape.len();
        let ellipses = indices.iter().filter(|index| **index == Index::Ellipsis).count();
        if ellipses > 1 {
            return Err(refuse("an index can have only one ellipsis ('...')".into()));
        }
        let named = indices.len() - ellipses;
        if named > rank {
            return Err(refuse(format!("too many indices: the array has {rank} axes, {named} were indexed")));
        }
        let mut axes: SmallVec<[AxisSelection; 8]> = SmallVec::new();
        let whole = |axes: &mut SmallVec<[AxisSelection; 8]>, n: usize| {
            for _ in 0..n {
                let len = shape[axes.len()];
                axes.push(AxisSelection { first: 0, step: 1, len, dropped: false });
            }
        };
        for index in indices {
            let axis = axes.len();
            match *index {
                Index::Ellipsis => whole(&mut axes, rank - named),
                Index::At(at) => {
                    let len = shape[axis];
                    let first = if at < 0 { len.checked_sub(at.unsigned_abs()) } else { Some(at as u64) };
                    let first = first.filter(|first| *first < len).ok_or_else(|| {
                        refuse(format!("index {at} is out of bounds for axis {axis} with size {len}"))
                    })?;
                    axes.push(AxisSelection { first, step: 1, len: 1, dropped: true });
                }
                Index::Slice { step: 0, .. } => return Err(refuse("slice step cannot be zero".into())),
                Index::Slice { start, stop, step } => {
                    let (first, len) = slice(shape[axis], start, stop, step);
                    axes.push(AxisSelection { first, step, len, dropped: false });
                }
            }
        }
        let missing = rank - axes.len();
        whole(&mut axes, missing);
        Ok(Selection { axes })
    }

    /// These ranges, which the caller knows to lie inside the array.
    pub(crate) fn of(axes: SmallVec<[AxisSelection; 8]>) -> Self {
        Selection { axes }
    }

    /// What is selected of each axis of the array.
    pub fn axes(&self) -> &[AxisSelection] {
        &self.axes
    }

    /// The shape of the result: axes selected by an integer are gone.
    pub fn shape(&self) -> Dims {
        self.axes.iter().filter(|axis| !axis.dropped).map(|axis| axis.len).collect()
    }

    /// Refuses an array of another shape than the selection was made for, where that would reach outside it: an array may
    /// have shrunk since. Errors with [`ArrayError::Index`].
    pub(crate) fn check(&self, array: &str, shape: &[u64]) -> Result<(), ArrayError> {
        let last = |axis: &AxisSelection| {
            let reach = axis.step.unsigned_abs().checked_mul(axis.len.saturating_sub(1))?;
            if axis.step > 0 {
                axis.first.checked_add(reach)
            } else {
                axis.first.checked_sub(reach).map(|_| axis.first)
            }
        };
        let inside =
            |(axis, len): (&AxisSelection, &u64)| axis.len == 0 || last(axis).is_some_and(|last| last < *len);
        if self.axes.len() == shape.len() && self.axes.iter().zip(shape).all(inside) {
            return Ok(());
        }
        Err(ArrayError::Index {
            array: array.to_owned(),
            why: format!("the selection was made for another shape than {shape:?}"),
        })
    }

    /// Whether nothing is selected.
    pub fn is_empty(&self) -> bool {
        self.axes.iter().any(|axis| axis.len == 0)
    }
}

/// First element and number of elements of a slice, as Python's `slice.indices` has it.
fn slice(len: u64, start: Option<i64>, stop: Option<i64>, step: i64) -> (u64, u64) {
    // Lengths are at most i64::MAX, so i128 holds every sum.
    let len = i128::from(len);
    let clamp = |bound: i64, low: i128, high: i128| {
        let bound = if bound < 0 { i128::from(bound) + len } else { i128::from(bound) };
        bound.clamp(low, high)
    };
    let (first, span) = if step > 0 {
        let first = start.map_or(0, |bound| clamp(bound, 0, len));
        let stop = stop.map_or(len, |bound| clamp(bound, 0, len));
        (first, stop - first)
    } else {
        let first = start.map_or(len - 1, |bound| clamp(bound, -1, len - 1));
        let stop = stop.map_or(-1, |bound| clamp(bound, -1, len - 1));
        (first, first - stop)
    };
    if span <= 0 {
        return (0, 0);
    }
    let count = (span - 1) / i128::from(step.unsigned_abs()) + 1;
    (first as u64, count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(shape: &[u64], indices: &[Index]) -> Result<Selection, ArrayError> {
        Selection::new("a", shape, indices)
    }

    #[test]
    fn ellipsis_and_missing_axes() {
        let sel = one(&[2, 3, 4], &[Index::Ellipsis, Index::At(-1)]).unwrap();
        assert_eq!(sel.shape().as_slice(), &[2, 3]);
        assert_eq!(sel.axes()[2].first, 3);
        assert_eq!(one(&[2, 3, 4], &[]).unwrap(), Selection::all(&[2, 3, 4]));
        assert_eq!(one(&[], &[Index::Ellipsis]).unwrap().shape().len(), 0);
        assert_eq!(one(&[5], &[Index::At(0), Index::Ellipsis]).unwrap().shape().len(), 0);
    }

    #[test]
    fn refusals_name_axis_and_bound() {
        let text = |shape: &[u64], indices: &[Index]| one(shape, indices).unwrap_err().to_string();
        assert!(text(&[3], &[Index::At(3)]).contains("index 3 is out of bounds for axis 0 with size 3"));
        assert!(text(&[3], &[Index::At(-4)]).contains("index -4"));
        assert!(text(&[3], &[Index::At(i64::MIN)]).contains("out of bounds"));
        assert!(text(&[0], &[Index::At(0)]).contains("size 0"));
        assert!(text(&[3], &[Index::At(0), Index::At(0)]).contains("too many indices"));
        assert!(text(&[3], &[Index::Ellipsis, Index::Ellipsis]).contains("only one ellipsis"));
        let zero = Index::Slice { start: None, stop: None, step: 0 };
        assert!(text(&[3], &[zero]).contains("step cannot be zero"));
    }

    proptest! {
        /// Against the definition: walk the axis by Python's rules, element by element.
        #[test]
        fn slices_are_pythons(
            len in 0u64..12,
            start in proptest::option::of(prop_oneof![-15i64..15, Just(i64::MIN), Just(i64::MAX)]),
            stop in proptest::option::of(prop_oneof![-15i64..15, Just(i64::MIN), Just(i64::MAX)]),
            step in prop_oneof![1i64..6, -5i64..0, Just(i64::MIN), Just(i64::MAX)],
        ) {
            let n = len as i128;
            let wrap = |b: i64| if b < 0 { (b as i128 + n).max(-1) } else { (b as i128).min(n) };
            let mut wanted = Vec::new();
            if step > 0 {
                let stop = stop.map_or(n, |b| wrap(b).max(0));
                let mut i = start.map_or(0, |b| wrap(b).max(0));
                while i < stop { wanted.push(i as u64); i += step as i128; }
            } else {
                let stop = stop.map_or(-1, |b| wrap(b).min(n - 1));
                let mut i = start.map_or(n - 1, |b| wrap(b).min(n - 1));
                while i > stop { wanted.push(i as u64); i += step as i128; }
            }
            let sel = one(&[len], &[Index::Slice { start, stop, step }]).unwrap();
            let axis = sel.axes()[0];
            let found: Vec<u64> =
                (0..axis.len).map(|k| (axis.first as i128 + k as i128 * axis.step as i128) as u64).collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
