//! Indices in one normal form.

pub(crate) mod axis;
pub(crate) mod points;
pub(crate) mod view;

use crate::dims::Dims;
use crate::error::ArrayError;
use crate::select::axis::AxisSelection;
use crate::select::points::{Axes, Points};
use smallvec::SmallVec;

/// One item of a NumPy-style index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index<'a> {
    /// One element; a negative index counts from the end. The result does not have this axis.
    At(i64),
    /// `start:stop:step` with Python's meaning of absent and out-of-range bounds.
    Slice {
        /// First element. `None`: the start of the axis, or its end if `step` is negative.
        start: Option<i64>,
        /// One past the last element.
        stop: Option<i64>,
        /// Must not be zero.
        step: i64,
    },
    /// `...`: all axes not named by other items.
    Ellipsis,
    /// These elements, in this order. Negative indices count from the end, and an element may occur
    /// more than once.
    List(&'a [i64]),
    /// The elements for which the mask is true. It is as long as the axis.
    Mask(&'a [bool]),
}

impl Index<'_> {
    /// `:`
    pub const ALL: Self = Index::Slice { start: None, stop: None, step: 1 };

    /// `start:stop`
    pub fn range(start: i64, stop: i64) -> Self {
        Index::Slice { start: Some(start), stop: Some(stop), step: 1 }
    }
}

/// The selected elements of an array: along each axis a strided range, or points on some axes.
///
/// All selected elements lie inside the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    axes: SmallVec<[AxisSelection; 8]>,
    /// In the order of their axes in the result. No two share an axis.
    points: Vec<Points>,
}

/// Stands for an axis with points. It adds no axis to the result itself.
const PICKED: AxisSelection = AxisSelection { first: 0, step: 1, len: 1, dropped: true };

#[expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]
impl Selection {
    /// All elements of an array of `shape`.
    pub fn all(shape: &[u64]) -> Self {
        let mut axes = SmallVec::new();
        all(&mut axes, shape, shape.len());
        Selection { axes, points: Vec::new() }
    }

    /// NumPy's basic indexing on an array of `shape`. Missing items at the end mean `:`.
    ///
    /// Each list or mask picks along its own axis (orthogonal indexing, NumPy's `a[np.ix_(…)]`).
    ///
    /// Fails with [`ArrayError::Index`] for an index out of bounds, a zero step, more items than
    /// axes, two ellipses, or a mask of another length than its axis. `array` is the name in these
    /// messages.
    pub fn new(array: &str, shape: &[u64], indices: &[Index<'_>]) -> Result<Self, ArrayError> {
        let refuse = |why: String| ArrayError::Index { array: array.to_owned(), why };
        let left = count_ellipsis_axes(&refuse, shape.len(), indices)?;
        let mut selection = Selection { axes: SmallVec::new(), points: Vec::new() };
        let axes = &mut selection.axes;
        for index in indices {
            let axis = axes.len();
            match *index {
                Index::Ellipsis => all(axes, shape, axis + left),
                Index::At(at) => axes.push(select_item(&refuse, axis, shape[axis], at)?),
                Index::Slice { start, stop, step } => {
                    axes.push(range(&refuse, shape[axis], start, stop, step)?);
                }
                Index::List(list) => {
                    let count = Dims::from_slice(&[list.len() as u64]);
                    let extent = Dims::from_slice(&[shape[axis]]);
                    let found = Points::of_lists(&refuse, Axes::from_slice(&[axis]), extent, count, &[list])?;
                    pick(axes, &mut selection.points, found);
                }
                Index::Mask(mask) => {
                    let len = shape[axis];
                    if mask.len() as u64 != len {
                        return Err(refuse(format!(
                            "boolean index did not match indexed array along axis {axis}; size of axis is {len} but size of corresponding boolean axis is {}",
                            mask.len()
                        )));
                    }
                    let (on, extent) = (Axes::from_slice(&[axis]), Dims::from_slice(&[len]));
                    pick(axes, &mut selection.points, Points::of_mask(&refuse, on, extent, mask)?);
                }
            }
        }
        all(axes, shape, shape.len());
        Ok(selection)
    }

    /// A selection of these ranges and points. The caller knows that they lie inside the array.
    pub(crate) fn of(axes: SmallVec<[AxisSelection; 8]>, points: Vec<Points>) -> Self {
        Selection { axes, points }
    }

    /// NumPy's advanced indexing: all lists together are the coordinates of points.
    ///
    /// In the result, the points have the axes `dims`, in C order. Each list must have as many
    /// items as `dims` has elements (broadcast them first). The points' axes stand in the place of
    /// the lists. They come first if a slice or an ellipsis stands between lists (or between a list
    /// and an integer).
    ///
    /// Fails like [`Selection::new`], and for masks.
    pub fn pointwise(
        array: &str,
        shape: &[u64],
        indices: &[Index<'_>],
        dims: &[u64],
    ) -> Result<Self, ArrayError> {
        let refuse = |why: String| ArrayError::Index { array: array.to_owned(), why };
        let left = count_ellipsis_axes(&refuse, shape.len(), indices)?;
        let mut axes: SmallVec<[AxisSelection; 8]> = SmallVec::new();
        let (mut on, mut extent, mut lists) = (Axes::new(), Dims::new(), Vec::new());
        // Position of the points' axes: at the first list or integer, or at the front if a slice or
        // an ellipsis stands before the last one.
        let (mut before, mut ended) = (None, false);
        for index in indices {
            let axis = axes.len();
            if let Index::Slice { .. } | Index::Ellipsis = index {
                ended = before.is_some();
            } else {
                let here = axes.iter().filter(|axis| !axis.dropped).count();
                before = Some(if ended { 0 } else { before.unwrap_or(here) });
            }
            match *index {
                Index::Ellipsis => all(&mut axes, shape, axis + left),
                Index::At(at) => axes.push(select_item(&refuse, axis, shape[axis], at)?),
                Index::Slice { start, stop, step } => {
                    axes.push(range(&refuse, shape[axis], start, stop, step)?);
                }
                Index::List(list) => {
                    on.push(axis);
                    extent.push(shape[axis]);
                    lists.push(list);
                    axes.push(PICKED);
                }
                Index::Mask(_) => return Err(refuse("a mask is not a list of coordinates".into())),
            }
        }
        all(&mut axes, shape, shape.len());
        if lists.is_empty() {
            return Err(refuse("there is no list of coordinates".into()));
        }
        let mut points = Points::of_lists(&refuse, on, extent, dims.into(), &lists)?;
        points.before = before.unwrap_or(0);
        Ok(Selection { axes, points: vec![points] })
    }

    /// The elements of an array of `shape` for which `mask` is true, as a result of one axis.
    ///
    /// `mask` has the array's shape. Mask and result are in C order.
    ///
    /// Fails with [`ArrayError::Index`] if the mask has another number of elements.
    pub fn mask(array: &str, shape: &[u64], mask: &[bool]) -> Result<Self, ArrayError> {
        let refuse = |why: String| ArrayError::Index { array: array.to_owned(), why };
        if shape.is_empty() {
            return Err(refuse("a mask needs an axis to be on".into()));
        }
        let points = Points::of_mask(&refuse, (0..shape.len()).collect(), shape.into(), mask)?;
        if let Some(range) = points.as_range() {
            return Ok(Selection { axes: SmallVec::from_slice(&[range]), points: Vec::new() });
        }
        Ok(Selection { axes: SmallVec::from_elem(PICKED, shape.len()), points: vec![points] })
    }

    /// Appends an axis at the end, and selects `len` of its elements, starting at `first`.
    pub(crate) fn with_range(mut self, first: u64, len: u64) -> Self {
        self.axes.push(AxisSelection { first, step: 1, len, dropped: false });
        self
    }

    /// The strided ranges, one per axis of the array. Axes with points have a range without
    /// meaning.
    pub(crate) fn axes(&self) -> &[AxisSelection] {
        &self.axes
    }

    /// The points of the selection.
    pub(crate) fn points(&self) -> &[Points] {
        &self.points
    }

    /// The shape of the result, without the axes selected by an integer.
    pub fn shape(&self) -> Dims {
        let kept = self.axes.iter().filter(|axis| !axis.dropped).map(|axis| axis.len);
        if self.points.is_empty() {
            return kept.collect();
        }
        let mut shape = Dims::new();
        self.for_each_part(|part| match part {
            Factor::Axis(k) => shape.push(self.axes[k].len),
            Factor::Points(n) => shape.extend_from_slice(&self.points[n].shape),
        });
        shape
    }

    /// Calls `part` with the origin of the result's axes, in their order.
    pub(crate) fn for_each_part(&self, mut part: impl FnMut(Factor)) {
        let mut waiting = self.points.iter().enumerate().peekable();
        let mut kept = 0;
        for (k, axis) in self.axes.iter().enumerate().filter(|(_, axis)| !axis.dropped) {
            while let Some((n, _)) = waiting.next_if(|(_, points)| points.before <= kept) {
                part(Factor::Points(n));
            }
            part(Factor::Axis(k));
            kept += usize::from(!axis.dropped);
        }
        waiting.for_each(|(n, _)| part(Factor::Points(n)));
    }

    /// Returns `true` if the result is one element without axes.
    pub fn is_scalar(&self) -> bool {
        self.axes.iter().all(|axis| axis.dropped) && self.points.iter().all(|points| points.shape.is_empty())
    }

    /// Returns the selected elements as one run in C order: the number of the first, and the count.
    ///
    /// `None` if elements of an array of `shape` do not follow each other, if nothing is selected,
    /// or if the selection was made for another shape.
    pub fn as_run(&self, shape: &[u64]) -> Option<(u64, u64)> {
        if !self.points.is_empty() || self.axes.len() != shape.len() {
            return None;
        }
        let (mut first, mut count, mut row) = (0u64, 1u64, 1u64);
        for (axis, len) in self.axes.iter().zip(shape).rev() {
            let inside = axis.first.checked_add(axis.len)? <= *len;
            let follows = axis.len == 1 || axis.step == 1 && count == row;
            if !inside || !follows || axis.len == 0 {
                return None;
            }
            first = axis.first.checked_mul(row)?.checked_add(first)?;
            count = count.checked_mul(axis.len)?;
            row = row.checked_mul(*len)?;
        }
        Some((first, count))
    }

    /// The selected elements as one range per axis, also of axes that an integer selected.
    ///
    /// `None` if there are points, or if elements along an axis do not follow each other.
    pub fn ranges(&self) -> Option<Vec<std::ops::Range<u64>>> {
        let range = |axis: &AxisSelection| match (axis.len, axis.step) {
            (0, _) => Some(0..0),
            (1, _) | (_, 1) => Some(axis.first..axis.first.checked_add(axis.len)?),
            _ => None,
        };
        if self.points.is_empty() { self.axes.iter().map(range).collect() } else { None }
    }

    /// Fails with [`ArrayError::Index`] if the selection reaches outside an array of `shape`.
    ///
    /// The array may have shrunk since the selection was made.
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
        let fits =
            self.axes.iter().zip(shape).all(inside) && self.points.iter().all(|points| points.fits(shape));
        if self.axes.len() == shape.len() && (fits || self.is_empty()) {
            return Ok(());
        }
        Err(ArrayError::Index {
            array: array.to_owned(),
            why: format!("the selection was made for another shape than {shape:?}"),
        })
    }

    /// Returns `true` if nothing is selected.
    pub fn is_empty(&self) -> bool {
        self.axes.iter().any(|axis| axis.len == 0) || self.points.iter().any(|points| points.runs.is_empty())
    }
}

/// The origin of axes of a result.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Factor {
    /// An axis of the array.
    Axis(usize),
    /// The [`Points`] of this number.
    Points(usize),
}

/// Selects everything along all axes before `end` that have no selection yet.
#[expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]
fn all(axes: &mut SmallVec<[AxisSelection; 8]>, shape: &[u64], end: usize) {
    for len in &shape[axes.len()..end] {
        axes.push(AxisSelection { first: 0, step: 1, len: *len, dropped: false });
    }
}

/// Number of axes that an ellipsis stands for. Fails on two ellipses, or on more items than axes.
fn count_ellipsis_axes(
    refuse: &dyn Fn(String) -> ArrayError,
    rank: usize,
    indices: &[Index<'_>],
) -> Result<usize, ArrayError> {
    let ellipses = indices.iter().filter(|index| matches!(index, Index::Ellipsis)).count();
    if ellipses > 1 {
        return Err(refuse("an index can have only one ellipsis ('...')".into()));
    }
    let named = indices.len() - ellipses;
    rank.checked_sub(named)
        .ok_or_else(|| refuse(format!("too many indices: the array has {rank} axes, {named} were indexed")))
}

#[inline]
fn select_item(
    refuse: &dyn Fn(String) -> ArrayError,
    axis: usize,
    len: u64,
    at: i64,
) -> Result<AxisSelection, ArrayError> {
    let first = if at < 0 { len.checked_sub(at.unsigned_abs()) } else { Some(at as u64) };
    let first = first
        .filter(|first| *first < len)
        .ok_or_else(|| refuse(format!("index {at} is out of bounds for axis {axis} with size {len}")))?;
    Ok(AxisSelection { first, step: 1, len: 1, dropped: true })
}

#[inline]
fn range(
    refuse: &dyn Fn(String) -> ArrayError,
    len: u64,
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
) -> Result<AxisSelection, ArrayError> {
    if step == 0 {
        return Err(refuse("slice step cannot be zero".into()));
    }
    let (first, len) = slice(len, start, stop, step);
    Ok(AxisSelection { first, step, len, dropped: false })
}

/// Selects points along the next axis, or a range if the points are regular enough.
fn pick(axes: &mut SmallVec<[AxisSelection; 8]>, points: &mut Vec<Points>, mut found: Points) {
    if let Some(range) = found.as_range() {
        return axes.push(range);
    }
    found.before = axes.iter().filter(|axis| !axis.dropped).count();
    axes.push(PICKED);
    points.push(found);
}

/// First element and number of elements of a slice, like Python's `slice.indices`.
#[expect(clippy::cast_possible_truncation, reason = "both are clamped to the axis first")]
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

    fn select(shape: &[u64], indices: &[Index<'_>]) -> Result<Selection, ArrayError> {
        Selection::new("a", shape, indices)
    }

    #[test]
    fn ellipsis_and_missing_axes() {
        let sel = select(&[2, 3, 4], &[Index::Ellipsis, Index::At(-1)]).unwrap();
        assert_eq!(sel.shape().as_slice(), &[2, 3]);
        assert_eq!(sel.axes()[2].first, 3);
        assert_eq!(select(&[2, 3, 4], &[]).unwrap(), Selection::all(&[2, 3, 4]));
        assert_eq!(select(&[], &[Index::Ellipsis]).unwrap().shape().len(), 0);
        assert_eq!(select(&[5], &[Index::At(0), Index::Ellipsis]).unwrap().shape().len(), 0);
    }

    proptest! {
        #[test]
        fn runs_are_elements_that_follow_each_other(
            axes in prop::collection::vec(
                (1u64..5).prop_flat_map(|len| (Just(len), 0..len, 0..=len, prop_oneof![4 => Just(1i64), 1 => -2..3i64])),
                0..4,
            ),
        ) {
            let shape: Vec<u64> = axes.iter().map(|(len, ..)| *len).collect();
            let indices: Vec<_> = (axes.iter())
                .map(|(_, start, stop, step)| match step {
                    0 => Index::At(*start as i64),
                    step => Index::Slice { start: Some(*start as i64), stop: Some(*stop as i64), step: *step },
                })
                .collect();
            let selection = select(&shape, &indices).unwrap();
            let mut numbers = vec![0u64];
            for (axis, len) in selection.axes().iter().zip(&shape) {
                let along = |n: u64| axis.first.wrapping_add_signed(axis.step * n as i64);
                numbers = numbers.iter().flat_map(|at| (0..axis.len).map(move |n| at * len + along(n))).collect();
            }
            let follow = !numbers.is_empty() && numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            let expected = follow.then(|| (numbers[0], numbers.len() as u64));
            prop_assert_eq!(selection.as_run(&shape), expected);
        }
    }

    #[test]
    fn refusals_name_axis_and_bound() {
        let text = |shape: &[u64], indices: &[Index<'_>]| select(shape, indices).unwrap_err().to_string();
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
        /// Compares with the definition: walks the axis by Python's rules, element by element.
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
            let sel = select(&[len], &[Index::Slice { start, stop, step }]).unwrap();
            let axis = sel.axes()[0];
            let found: Vec<u64> =
                (0..axis.len).map(|k| (axis.first as i128 + k as i128 * axis.step as i128) as u64).collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
