//! The elements of an array that a part of a mosaic covers, and their order.
//!
//! Nearly all patterns consist of blocks at equal distances. They are handled axis by axis and
//! never written out. The elements that such an axis shares with a selection, or with another such
//! axis, are a few runs of equal steps ([`Interval`]). All other patterns are lists of rows.

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]

use crate::dims::element_count;
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;

/// One axis of a pattern: blocks of `block` elements.
///
/// The first block begins at `start`, and each further one `stride` elements after the previous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The first element.
    pub start: u64,
    /// Distance from one block to the next; at least `block`.
    pub stride: u64,
    /// Elements of a block.
    pub block: u64,
    /// Elements of all blocks together. The last block may be shorter than the others.
    pub len: u64,
}

/// Some elements of an array, in a given order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(pub(crate) Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every element.
    All,
    /// The product of blocks along each axis.
    Regular(SmallVec<[Blocks; 4]>),
    /// Rows, one after the other.
    IndexRows(IndexRows),
}

/// Elements that are consecutive along the last axis, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexRows {
    pub(crate) rank: usize,
    /// The first element of each row.
    starts: Vec<u64>,
    /// Number of elements before each row; at the end, the total.
    before: Vec<u64>,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexRow<'r> {
    pub(crate) start: &'r [u64],
    pub(crate) len: u64,
    /// Number of elements before the row.
    pub(crate) before: u64,
}

/// The most rows of a pattern that is not regular.
const MOST_ROWS: u64 = 1 << 22;

/// No element lies beyond this position, so that sums of positions do not overflow.
const END: u64 = i64::MAX as u64;

impl Blocks {
    /// Consecutive elements.
    pub fn run(start: u64, len: u64) -> Self {
        Blocks { start, stride: len.max(1), block: len.max(1), len }
    }

    /// End of the last block (exclusive).
    pub fn end(&self) -> u64 {
        let before = self.count().saturating_sub(1);
        self.start + before * self.stride + (self.len - before * self.block)
    }

    /// Number of blocks.
    fn count(&self) -> u64 {
        self.len.div_ceil(self.block)
    }

    /// Returns `true` if there are no gaps between the blocks.
    fn is_dense(&self) -> bool {
        self.len <= self.block || self.stride == self.block
    }

    fn is_valid(&self) -> bool {
        let Blocks { start, stride, block, len } = *self;
        if block == 0 || len == 0 || (len > block && stride < block) {
            return false;
        }
        let reach = || start.checked_add((self.count() - 1).checked_mul(stride)?)?.checked_add(block);
        reach().is_some_and(|end| end <= END)
    }
}

impl Pattern {
    /// Every element, for an array of any shape.
    pub fn all() -> Self {
        Pattern(Kind::All)
    }

    /// Blocks along each axis, with the elements in C order.
    ///
    /// Fails (with a message) if blocks are empty, overlap, or end beyond 2⁶³ - 1.
    pub fn regular(axes: &[Blocks]) -> Result<Self, String> {
        let lens: SmallVec<[u64; 4]> =
            axes.iter().filter(|axis| axis.is_valid()).map(|axis| axis.len).collect();
        if lens.len() < axes.len() || element_count(&lens).is_none_or(|count| count > END) {
            return Err(format!("blocks that cannot be: {axes:?}"));
        }
        Ok(Pattern(Kind::Regular(axes.into())))
    }

    /// Single elements, in this order.
    ///
    /// `coordinates` holds the coordinates of the first element, then of the second, and so on.
    /// Fails (with a message) if there are too many elements.
    pub fn points(rank: usize, coordinates: &[u64]) -> Result<Self, String> {
        let mut rows = IndexRows::new(rank);
        for point in coordinates.chunks_exact(rank.max(1)) {
            rows.push(point, 1)?;
        }
        Ok(Pattern(Kind::IndexRows(rows)))
    }

    /// The elements of any of these blocks, each once, in C order. Fails like [`Pattern::points`].
    ///
    /// Each block is given by its first and its last element.
    pub fn blocks<'b>(
        rank: usize,
        blocks: impl Iterator<Item = (&'b [u64], &'b [u64])>,
    ) -> Result<Self, String> {
        let mut found: Vec<(SmallVec<[u64; 4]>, u64)> = Vec::new();
        for (first, last) in blocks {
            let lens: SmallVec<[u64; 4]> =
                first.iter().zip(last).map(|(a, b)| b.saturating_sub(*a).saturating_add(1)).collect();
            let (Some((len, outer)), true) = (lens.split_last(), last.iter().all(|end| *end < END)) else {
                return Err(format!("a block from {first:?} to {last:?}"));
            };
            let rows = element_count(outer).filter(|rows| rows + found.len() as u64 <= MOST_ROWS);
            for number in 0..rows.ok_or_else(too_many)? {
                let (mut rest, mut start) = (number, SmallVec::from_slice(first));
                for (at, len) in start.iter_mut().zip(outer).rev() {
                    *at += rest % len;
                    rest /= len;
                }
                found.push((start, *len));
            }
        }
        found.sort_unstable();
        let mut rows = IndexRows::new(rank);
        let mut end: Option<SmallVec<[u64; 4]>> = None;
        for (mut start, mut len) in found {
            // Skip elements that an earlier row already has.
            if let (Some(end), Some(at)) = (&end, start.last().copied())
                && end[..rank - 1] == start[..rank - 1]
                && at < end[rank - 1]
            {
                len = (at + len).saturating_sub(end[rank - 1]);
                start[rank - 1] = end[rank - 1];
            }
            if len > 0 {
                rows.push(&start, len)?;
                start[rank - 1] += len;
                end = Some(start);
            }
        }
        Ok(Pattern(Kind::IndexRows(rows)))
    }

    /// Number of elements; `None`: as many as the array has.
    pub fn count(&self) -> Option<u64> {
        match &self.0 {
            Kind::All => None,
            Kind::Regular(axes) => {
                element_count(&axes.iter().map(|axis| axis.len).collect::<SmallVec<[u64; 4]>>())
            }
            Kind::IndexRows(rows) => Some(rows.count()),
        }
    }

    /// Start and end of the elements along each axis; `None`: every element of any array.
    pub fn bounds(&self) -> Option<Vec<(u64, u64)>> {
        match &self.0 {
            Kind::All => None,
            Kind::Regular(axes) => Some(axes.iter().map(|axis| (axis.start, axis.end())).collect()),
            Kind::IndexRows(rows) => Some(rows.bounds(0..rows.len())),
        }
    }

    /// The pattern for an array of `shape`. It may reach beyond the array.
    ///
    /// Fails (with a message) if the number of axes differs.
    pub(crate) fn in_rank(&self, shape: &[u64]) -> Result<Cow<'_, Pattern>, String> {
        let rank = match &self.0 {
            Kind::All => {
                let axes = shape.iter().map(|len| Blocks::run(0, *len)).collect();
                return Ok(Cow::Owned(Pattern(Kind::Regular(axes))));
            }
            Kind::Regular(axes) => axes.len(),
            Kind::IndexRows(rows) => rows.rank,
        };
        match rank == shape.len() {
            true => Ok(Cow::Borrowed(self)),
            false => Err(format!("{rank} axes are meant, the shape is {shape:?}")),
        }
    }

    /// For a part whose source is a whole array that may have become shorter since.
    ///
    /// `self` is the part's pattern in the mosaic, whose shape is `shape`. `other` is the source's
    /// shape now. Returns all elements that the source had. `None` if the source did not just
    /// become shorter along its slowest axis.
    pub(crate) fn longer(&self, shape: &[u64], other: &[u64]) -> Option<Pattern> {
        let mut lens: SmallVec<[u64; 4]> = match &self.0 {
            Kind::All => shape.into(),
            Kind::Regular(axes) => axes.iter().map(|axis| axis.len).collect(),
            Kind::IndexRows(rows) => smallvec![rows.count()],
        };
        if lens.len() != other.len() {
            lens.retain(|len| *len != 1);
        }
        if lens.len() != other.len() || lens.get(1..)? != other.get(1..)? || lens[0] <= other[0] {
            return None;
        }
        Some(Pattern(Kind::Regular(lens.iter().map(|len| Blocks::run(0, *len)).collect())))
    }
}

fn too_many() -> String {
    format!("an irregular selection of more than {MOST_ROWS} rows is not supported")
}

impl IndexRows {
    fn new(rank: usize) -> Self {
        IndexRows { rank, starts: Vec::new(), before: vec![0] }
    }

    /// Appends a row, or extends the last one.
    fn push(&mut self, start: &[u64], len: u64) -> Result<(), String> {
        let Some((first, outer)) = start.split_last().filter(|_| start.len() == self.rank) else {
            return Err(format!("{} coordinates for {} axes", start.len(), self.rank));
        };
        let count = self.count().checked_add(len).filter(|count| *count <= END).ok_or_else(too_many)?;
        if first.checked_add(len).is_none_or(|end| end > END) || outer.iter().any(|at| *at >= END) {
            return Err(format!("an element at {start:?}"));
        }
        let goes_on = self.iter(self.len().saturating_sub(1)..self.len()).next().is_some_and(|last| {
            last.start.split_last().is_some_and(|(at, before)| before == outer && at + last.len == *first)
        });
        if goes_on {
            self.before.pop();
        } else if self.len() as u64 >= MOST_ROWS {
            return Err(too_many());
        } else {
            self.starts.extend_from_slice(start);
        }
        self.before.push(count);
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.before.len() - 1
    }

    /// Number of elements.
    pub(crate) fn count(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }

    /// The rows in `range`.
    pub(crate) fn iter(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = IndexRow<'_>> {
        let starts = self.starts.chunks_exact(self.rank.max(1)).skip(range.start);
        let ends = self.before.windows(2).skip(range.start);
        starts.zip(ends).take(range.len()).map(|(start, ends)| IndexRow {
            start,
            len: ends[1] - ends[0],
            before: ends[0],
        })
    }

    /// The rows that contain the elements with these numbers.
    pub(crate) fn range(&self, elements: std::ops::Range<u64>) -> std::ops::Range<usize> {
        let first = self.before.partition_point(|before| *before <= elements.start).saturating_sub(1);
        let end = self.before.partition_point(|before| *before < elements.end).min(self.len());
        first..end.max(first)
    }

    /// Start and end of the elements of some rows, along each axis.
    pub(crate) fn bounds(&self, range: std::ops::Range<usize>) -> Vec<(u64, u64)> {
        let mut bounds = vec![(u64::MAX, 0); self.rank];
        for row in self.iter(range) {
            for (axis, (bound, at)) in bounds.iter_mut().zip(row.start).enumerate() {
                let len = if axis + 1 == self.rank { row.len } else { 1 };
                *bound = (bound.0.min(*at), bound.1.max(at + len));
            }
        }
        bounds.iter().map(|(start, end)| (*start.min(end), *end)).collect()
    }
}

/// `len` positions in equal steps, along an axis of the output and along another axis at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    /// First position along the output.
    pub(crate) out: u64,
    pub(crate) out_step: u64,
    /// First position along the other axis.
    pub(crate) at: u64,
    pub(crate) at_step: u64,
    pub(crate) len: u64,
}

pub(crate) type Intervals = SmallVec<[Interval; 2]>;

/// A selection along one axis, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ascending {
    pub(crate) lowest: u64,
    pub(crate) step: u64,
    pub(crate) len: u64,
}

impl Ascending {
    pub(crate) fn new(axis: &crate::select::axis::AxisSelection) -> Self {
        let step = axis.step.unsigned_abs();
        let reach = axis.len.saturating_sub(1).saturating_mul(step);
        let lowest = if axis.step > 0 { axis.first } else { axis.first.saturating_sub(reach) };
        // A single element has no step, and an absurdly large step would overflow sums.
        Ascending { lowest, step: if axis.len > 1 { step } else { 1 }, len: axis.len }
    }

    fn last(&self) -> u64 {
        self.lowest + self.len.saturating_sub(1) * self.step
    }

    /// The position of an element in the selection, if it is selected.
    pub(crate) fn position(&self, element: u64) -> Option<u64> {
        let distance = element.checked_sub(self.lowest)?;
        (distance % self.step == 0).then_some(distance / self.step).filter(|position| *position < self.len)
    }

    /// The selected elements within `start..end`; [`Interval::at`] counts from `start`.
    pub(crate) fn intersect_range(&self, start: u64, end: u64) -> Option<Interval> {
        let out = start.saturating_sub(self.lowest).div_ceil(self.step);
        let first = self.lowest.checked_add(out.checked_mul(self.step)?)?;
        if out >= self.len || first >= end {
            return None;
        }
        let len = ((end - 1 - first) / self.step + 1).min(self.len - out);
        Some(Interval { out, out_step: 1, at: first - start, at_step: self.step, len })
    }
}

/// The selected elements within blocks. [`Interval::at`] is the element's number in the blocks.
///
/// If elements of several blocks are selected, there are two ways to form runs. One goes block by
/// block. The other takes the first element of every block, then the second element, and so on. The
/// way that makes fewer runs is taken.
pub(crate) fn meet(blocks: &Blocks, selected: Ascending) -> Intervals {
    let Blocks { start, stride, block, len } = *blocks;
    if len == 0 || selected.len == 0 || selected.last() < start {
        return Intervals::new();
    }
    if blocks.is_dense() {
        return selected.intersect_range(start, start + len).into_iter().collect();
    }
    let count = blocks.count();
    let first = selected.lowest.saturating_sub(start) / stride;
    let last = ((selected.last() - start) / stride).min(count - 1);
    if first > last {
        return Intervals::new();
    }
    if last - first < block {
        let of_block = |number: u64| {
            let begin = start + number * stride;
            let run = selected.intersect_range(begin, begin + block.min(len - number * block))?;
            Some(Interval { at: run.at + number * block, ..run })
        };
        return (first..=last).filter_map(of_block).collect();
    }
    let common = gcd(stride, selected.step);
    // The element at the same place of a block is selected again every `period` blocks.
    let period = selected.step / common;
    let at_place = |place: u64| {
        // Solve start + place + number · stride = lowest + position · step for `number`. The terms
        // are sums of numbers below 2⁶³.
        let (base, lowest, wide) =
            (i128::from(start + place), i128::from(selected.lowest), i128::from(stride));
        let distance = lowest - base;
        if distance % i128::from(common) != 0 {
            return None;
        }
        let m = i128::from(period);
        let residue = (distance / i128::from(common)).rem_euclid(m)
            * inverse(i128::from(stride / common).rem_euclid(m), m)
            % m;
        let least = distance.max(0).div_euclid(wide) + i128::from(distance.max(0) % wide != 0);
        let number = least + (residue - least).rem_euclid(m);
        // The last block may end before this place.
        let blocks = (len - place).div_ceil(block);
        let most = (i128::from(selected.last()) - base).div_euclid(wide).min(i128::from(blocks) - 1);
        if number > most {
            return None;
        }
        let out = (base + number * wide - lowest) / i128::from(selected.step);
        Some(Interval {
            out: u64::try_from(out).ok()?,
            out_step: stride / common,
            at: u64::try_from(number).ok()? * block + place,
            at_step: period.saturating_mul(block),
            len: u64::try_from((most - number) / m + 1).ok()?,
        })
    };
    (0..block).filter_map(at_place).collect()
}

/// Maps a run of element numbers in `blocks` to runs of positions along the blocks' axis.
pub(crate) fn map_through_blocks(blocks: &Blocks, run: Interval) -> Intervals {
    let Blocks { start, stride, block, .. } = *blocks;
    if blocks.is_dense() {
        return smallvec![Interval { at: start + run.at, ..run }];
    }
    let position = |number: u64| start + number / block * stride + number % block;
    // After `period` elements of the run, elements have the same place in their block again.
    let period = block / gcd(run.at_step, block);
    let touched = (run.at + (run.len - 1) * run.at_step) / block - run.at / block + 1;
    let mut runs = Intervals::new();
    if period <= touched {
        for first in 0..period.min(run.len) {
            let len = (run.len - first).div_ceil(period);
            let at_step = if len > 1 { period * run.at_step / block * stride } else { 1 };
            let (at, out) = (position(run.at + first * run.at_step), run.out + first * run.out_step);
            runs.push(Interval { out, out_step: period.saturating_mul(run.out_step), at, at_step, len });
        }
        return runs;
    }
    let (mut number, mut out, mut left) = (run.at, run.out, run.len);
    while left > 0 {
        let len = ((block - 1 - number % block) / run.at_step + 1).min(left);
        runs.push(Interval { out, at: position(number), len, ..run });
        (number, out, left) = (number + len * run.at_step, out + len * run.out_step, left - len);
    }
    runs
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The inverse of `a` modulo `m`. The two have no common divisor.
fn inverse(a: i128, m: i128) -> i128 {
    let (mut old, mut new) = ((a, 1), (m, 0));
    while new.0 != 0 {
        let quotient = old.0 / new.0;
        (old, new) = (new, (old.0 - quotient * new.0, old.1 - quotient * new.1));
    }
    old.1.rem_euclid(m)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks() -> impl Strategy<Value = Blocks> {
        (0u64..20, 1u64..6, 1u64..40, 0u64..4).prop_map(|(start, block, len, gap)| Blocks {
            start,
            stride: block + gap,
            block,
            len,
        })
    }

    /// The elements of blocks, in order.
    fn listed(blocks: &Blocks) -> Vec<u64> {
        (0..blocks.len).map(|n| blocks.start + n / blocks.block * blocks.stride + n % blocks.block).collect()
    }

    /// Both positions of each element of the runs, sorted along the output.
    fn pairs(runs: &[Interval]) -> Vec<(u64, u64)> {
        let each = |run: &Interval| {
            let run = *run;
            (0..run.len).map(move |i| (run.out + i * run.out_step, run.at + i * run.at_step))
        };
        let mut pairs: Vec<_> = runs.iter().flat_map(each).collect();
        pairs.sort_unstable();
        pairs
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn blocks_meet_selections(blocks in blocks(), lowest in 0u64..60, step in 1u64..14, len in 0u64..40) {
            let selected = Ascending { lowest, step, len };
            let numbers = listed(&blocks);
            let expected: Vec<(u64, u64)> = (0..len)
                .filter_map(|out| {
                    let at = numbers.iter().position(|element| *element == lowest + out * step)?;
                    Some((out, at as u64))
                })
                .collect();
            let runs = meet(&blocks, selected);
            prop_assert_eq!(pairs(&runs), expected);
            prop_assert!(runs.len() as u64 <= blocks.count().min(blocks.block));
            prop_assert_eq!(blocks.end(), numbers.last().unwrap() + 1);
        }

        #[test]
        fn runs_go_through_blocks(
            blocks in blocks(),
            at in any::<prop::sample::Index>(),
            at_step in 1u64..9,
            len in 1u64..20,
            out_step in 1u64..4,
        ) {
            let numbers = listed(&blocks);
            let at = at.index(numbers.len()) as u64;
            let len = len.min((numbers.len() as u64 - 1 - at) / at_step + 1);
            let run = Interval { out: 7, out_step, at, at_step, len };
            let expected: Vec<(u64, u64)> =
                (0..len).map(|i| (7 + i * out_step, numbers[(at + i * at_step) as usize])).collect();
            prop_assert_eq!(pairs(&map_through_blocks(&blocks, run)), expected);
        }

        #[test]
        fn blocks_in_any_order_are_rows_in_c_order(corners in prop::collection::vec((0u64..6, 0u64..6, 1u64..4, 1u64..4), 0..5)) {
            let boxes: Vec<([u64; 2], [u64; 2])> =
                corners.iter().map(|(y, x, h, w)| ([*y, *x], [y + h - 1, x + w - 1])).collect();
            let pattern = Pattern::blocks(2, boxes.iter().map(|(a, b)| (&a[..], &b[..]))).unwrap();
            let Kind::IndexRows(rows) = &pattern.0 else { panic!() };
            let found: Vec<[u64; 2]> = rows
                .iter(0..rows.len())
                .flat_map(|row| (0..row.len).map(|i| [row.start[0], row.start[1] + i]).collect::<Vec<_>>())
                .collect();
            let inside = |y, x| boxes.iter().any(|(a, b)| (a[0]..=b[0]).contains(&y) && (a[1]..=b[1]).contains(&x));
            let expected: Vec<[u64; 2]> =
                (0..10).flat_map(|y| (0..10).map(move |x| [y, x])).filter(|at| inside(at[0], at[1])).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(pattern.count(), Some(expected.len() as u64));
            for n in 0..expected.len() as u64 {
                let range = rows.range(n..n + 1);
                let row = rows.iter(range.clone()).next().unwrap();
                prop_assert!(range.len() == 1 && row.before <= n && n < row.before + row.len);
            }
        }
    }

    #[test]
    fn long_axes_make_few_runs() {
        let blocks = Blocks { start: 5, stride: 1 << 20, block: 3, len: 3 << 40 };
        let all = Ascending { lowest: 0, step: 1, len: 1 << 61 };
        assert_eq!(meet(&blocks, all).len(), 3);
        assert_eq!(meet(&blocks, Ascending { lowest: 7, step: 12345, len: 1 << 40 }).len(), 3);
        let dense = Interval { out: 0, out_step: 1, at: 0, at_step: 1, len: 3 << 40 };
        assert_eq!(map_through_blocks(&blocks, dense).len(), 3);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let axis = Blocks { start: 0, stride: 2, block: 1, len: 2 };
        for bad in [
            Blocks { len: 0, ..axis },
            Blocks { block: 0, ..axis },
            Blocks { block: 3, len: 4, ..axis },
            Blocks { len: u64::MAX, ..axis },
            Blocks { start: END, ..axis },
        ] {
            assert!(Pattern::regular(&[axis, bad]).is_err(), "{bad:?}");
        }
        let long = Blocks::run(0, 1 << 40);
        assert!(Pattern::regular(&[long, long]).is_err());
        let corner = [1 << 13, 1 << 13, 0];
        assert!(Pattern::blocks(3, [(&[0, 0, 0][..], &corner[..])].into_iter()).is_err());
        assert!(Pattern::blocks(1, [(&[0][..], &[u64::MAX][..])].into_iter()).is_err());
        assert!(Pattern::points(1, &[u64::MAX]).is_err());
        let pattern = Pattern::points(2, &[3, 4, 3, 5, 0, 0]).unwrap();
        assert_eq!(pattern.bounds().unwrap(), [(0, 4), (0, 6)]);
        assert!(pattern.in_rank(&[4, 6]).is_ok() && pattern.in_rank(&[4, 6, 1]).is_err());
        assert_eq!(Pattern::all().in_rank(&[4, 0]).unwrap().count(), Some(0));
    }

    #[test]
    fn all_of_an_array_that_became_shorter() {
        let longer = |pattern: Pattern, shape: &[u64], other: &[u64]| {
            let found = pattern.longer(shape, other)?;
            let ends = found.bounds().unwrap().iter().map(|(_, end)| *end).collect::<Vec<_>>();
            Some(ends)
        };
        let part = Pattern::regular(&[Blocks::run(2, 1), Blocks::run(0, 5), Blocks::run(1, 4)]).unwrap();
        assert_eq!(longer(Pattern::all(), &[6], &[4]), Some(vec![6]));
        assert_eq!(longer(part.clone(), &[9, 9, 9], &[3, 4]), Some(vec![5, 4]));
        assert_eq!(longer(Pattern::points(1, &[7, 3, 5]).unwrap(), &[9], &[2]), Some(vec![3]));
        // Not shorter, other rows, other axes.
        for other in [&[6, 4][..], &[3, 3], &[5, 4], &[2], &[1, 4, 4], &[]] {
            assert_eq!(longer(part.clone(), &[9, 9, 9], other), None, "{other:?}");
        }
    }
}
