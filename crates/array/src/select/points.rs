//! Elements that are picked one by one: lists of indices, and masks.
//!
//! A list along one axis, several lists of coordinates, and a mask are the same thing: **points**
//! on one or more axes, in the order of the result. They are kept as runs of element numbers, so
//! that neighbours cost nothing. A mask that selects half of an array in long rows takes a few
//! numbers per row. A list takes 16 bytes per point. Points as regular as a slice become a range
//! ([`Points::as_range`]).

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::dims::{Dims, element_count};
use crate::error::ArrayError;
use crate::select::axis::AxisSelection;
use smallvec::SmallVec;

/// Axes of an array, ascending.
pub(crate) type Axes = SmallVec<[usize; 4]>;

/// Consecutive elements along the last of some axes, continuing in the next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Number of the first element, counted along these axes in C order.
    pub(crate) at: u64,
    /// Number of elements, at least 1.
    pub(crate) len: u64,
}

/// Elements that are picked one by one along some axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Points {
    pub(crate) axes: Axes,
    /// Lengths of the array along these axes.
    pub(crate) extent: Dims,
    /// Lengths of the points' axes in the result.
    pub(crate) shape: Dims,
    /// Number of axes from strided ranges that come before these in the result.
    pub(crate) before: usize,
    /// In the order of the result.
    pub(crate) runs: Vec<Stretch>,
    /// The least length of the array along each axis that contains all points.
    pub(crate) reach: Dims,
}

/// Makes the error for a wrong index.
pub(crate) type Refuse<'r> = &'r dyn Fn(String) -> ArrayError;

impl Points {
    /// Points by their coordinates: one list per axis. Negative coordinates count from the end.
    ///
    /// Each list must have as many items as `shape` has elements.
    pub(crate) fn of_lists(
        refuse: Refuse<'_>,
        axes: Axes,
        extent: Dims,
        shape: Dims,
        lists: &[&[i64]],
    ) -> Result<Self, ArrayError> {
        let count = element_count(&shape);
        if let Some(list) = lists.iter().find(|list| Some(list.len() as u64) != count) {
            return Err(refuse(format!("a list of {} indices does not fill shape {shape:?}", list.len())));
        }
        let mut reach = Dims::new();
        for ((list, len), axis) in lists.iter().zip(&extent).zip(&axes) {
            reach.push(check(refuse, list, *len, *axis)?);
        }
        let mut runs = Stretches::default();
        if element_count(&extent).is_none() {
            return Err(refuse(format!("axes {axes:?} have more elements than points can be counted among")));
        }
        for n in 0..count.unwrap_or(0) as usize {
            let at =
                lists.iter().zip(&extent).fold(0, |at, (list, len)| at * len + wrap_index(list[n], *len));
            runs.push(at, 1).ok_or_else(|| refuse(NO_MEMORY.into()))?;
        }
        Ok(Points { axes, extent, shape, before: 0, runs: runs.0, reach })
    }

    /// The points for which `mask` (in C order) is true, along all of `axes`.
    ///
    /// They have one axis in the result.
    pub(crate) fn of_mask(
        refuse: Refuse<'_>,
        axes: Axes,
        extent: Dims,
        mask: &[bool],
    ) -> Result<Self, ArrayError> {
        if element_count(&extent) != Some(mask.len() as u64) {
            return Err(refuse(format!(
                "a mask of {} elements does not match axes {axes:?} of shape {extent:?}",
                mask.len()
            )));
        }
        let (mut runs, mut count) = (Stretches::default(), 0);
        let bytes: &[u8] = bytemuck::cast_slice(mask);
        let mut at = 0;
        loop {
            at += count_equal_bytes(&bytes[at..], 0);
            if at == bytes.len() {
                break;
            }
            let len = count_equal_bytes(&bytes[at..], 1);
            runs.push(at as u64, len as u64).ok_or_else(|| refuse(NO_MEMORY.into()))?;
            (at, count) = (at + len, count + len as u64);
        }
        let (shape, reach) = (Dims::from_slice(&[count]), extent.clone());
        Ok(Points { axes, extent, shape, before: 0, runs: runs.0, reach })
    }

    /// The range that selects the same elements along a single axis, if there is one.
    pub(crate) fn as_range(&self) -> Option<AxisSelection> {
        if self.axes.len() != 1 || self.shape.len() != 1 {
            return None;
        }
        let range = |first, step, len| Some(AxisSelection { first, step, len, dropped: false });
        match self.runs.as_slice() {
            [] => range(0, 1, 0),
            [run] => range(run.at, 1, run.len),
            [first, second, ..] => {
                // Both lie on an axis, whose length is at most i64::MAX.
                let step = second.at as i64 - first.at as i64;
                let even = |pair: &[Stretch]| pair[1].at as i64 - pair[0].at as i64 == step;
                let regular =
                    step != 0 && self.runs.iter().all(|run| run.len == 1) && self.runs.windows(2).all(even);
                if regular { range(first.at, step, self.runs.len() as u64) } else { None }
            }
        }
    }

    /// Returns `true` if an array of `shape` has all points.
    pub(crate) fn fits(&self, shape: &[u64]) -> bool {
        self.runs.is_empty()
            || self.axes.iter().zip(&self.reach).all(|(axis, reach)| shape.get(*axis) >= Some(reach))
    }
}

const NO_MEMORY: &str = "there is no memory for so many indices";

/// A growing list of stretches.
#[derive(Default)]
struct Stretches(Vec<Stretch>);

impl Stretches {
    /// Appends a run; `None` if there is no memory.
    fn push(&mut self, at: u64, len: u64) -> Option<()> {
        if let Some(last) = self.0.last_mut()
            && last.at + last.len == at
        {
            last.len += len;
            return Some(());
        }
        self.0.try_reserve(1).ok()?;
        self.0.push(Stretch { at, len });
        Some(())
    }
}

/// The index that `at` stands for on an axis of `len` elements.
fn wrap_index(at: i64, len: u64) -> u64 {
    if at < 0 { len.wrapping_add_signed(at) } else { at as u64 }
}

/// Fails if a list has an index outside an axis. Returns its largest index plus one.
fn check(refuse: Refuse<'_>, list: &[i64], len: u64, axis: usize) -> Result<u64, ArrayError> {
    // Lengths are at most i64::MAX. The loop has no branches, so that it vectorises.
    let len = len as i64;
    let (mut least, mut most, mut reach) = (0, -1, 0);
    for at in list {
        least = least.min(*at);
        most = most.max(*at);
        reach = reach.max(if *at < 0 { at.wrapping_add(len) } else { *at }.wrapping_add(1));
    }
    if most >= len || least < -len {
        let wrong = list.iter().find(|at| **at >= len || **at < -len).unwrap_or(&0);
        return Err(refuse(format!("index {wrong} is out of bounds for axis {axis} with size {len}")));
    }
    Ok(reach as u64)
}

/// Number of bytes at the start of `bytes` that are `value`. All bytes are 0 or 1.
fn count_equal_bytes(bytes: &[u8], value: u8) -> usize {
    let pattern = u64::from_le_bytes([value; 8]);
    let (words, rest) = bytes.as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let differs = u64::from_le_bytes(*word) ^ pattern;
        if differs != 0 {
            return n * 8 + differs.trailing_zeros() as usize / 8;
        }
    }
    bytes.len() - rest.len() + rest.iter().take_while(|byte| **byte == value).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refuse(why: String) -> ArrayError {
        ArrayError::Index { array: "a".into(), why }
    }

    fn list(len: u64, list: &[i64]) -> Result<Points, ArrayError> {
        let (extent, shape) = (Dims::from_slice(&[len]), Dims::from_slice(&[list.len() as u64]));
        Points::of_lists(&refuse, Axes::from_slice(&[0]), extent, shape, &[list])
    }

    #[test]
    fn regular_lists_are_ranges() {
        let range = |indices: &[i64]| {
            list(10, indices).unwrap().as_range().map(|range| (range.first, range.step, range.len))
        };
        assert_eq!(range(&[]), Some((0, 1, 0)));
        assert_eq!(range(&[-1]), Some((9, 1, 1)));
        assert_eq!(range(&[2, 3, 4]), Some((2, 1, 3)));
        assert_eq!(range(&[9, 6, 3]), Some((9, -3, 3)));
        assert_eq!(range(&[1, 4, -3]), Some((1, 3, 3)));
        assert_eq!(range(&[1, 1]), None);
        assert_eq!(range(&[1, 2, 4]), None);
        assert_eq!(range(&[3, 2, 1, 2]), None);
    }

    #[test]
    fn what_is_outside_is_refused() {
        for wrong in [[0, 3], [0, -4], [i64::MAX, 0], [i64::MIN, 0]] {
            let text = list(3, &wrong).unwrap_err().to_string();
            let at = if wrong[0] == 0 { wrong[1] } else { wrong[0] };
            assert!(text.contains(&format!("index {at} is out of bounds for axis 0 with size 3")), "{text}");
        }
        assert!(list(0, &[0]).is_err());
        assert!(list(0, &[]).unwrap().runs.is_empty());
        let huge = Dims::from_slice(&[1 << 40, 1 << 40]);
        let none =
            Points::of_lists(&refuse, Axes::from_slice(&[0, 1]), huge, Dims::from_slice(&[1]), &[&[0], &[0]]);
        assert!(none.unwrap_err().to_string().contains("more elements"));
    }

    proptest! {
        #[test]
        fn a_mask_is_the_list_of_what_it_selects(mask in prop::collection::vec(any::<bool>(), 0..70)) {
            let (axes, extent) = (Axes::from_slice(&[0]), Dims::from_slice(&[mask.len() as u64]));
            let found = Points::of_mask(&refuse, axes, extent, &mask).unwrap();
            let chosen: Vec<i64> = (0..mask.len()).filter(|k| mask[*k]).map(|k| k as i64).collect();
            let wanted = list(mask.len() as u64, &chosen).unwrap();
            prop_assert_eq!(&found.runs, &wanted.runs);
            prop_assert_eq!(&found.shape, &wanted.shape);
        }
    }
}
