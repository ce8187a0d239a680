//! The elements of a mosaic's pieces that a selection touches, and the reads for them.
//!
//! Elements of a piece are numbered in the order of its patterns.

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::dims::{Dims, Strides, element_count};
use crate::error::ArrayError;
use crate::layout::ArrayLayout;
use crate::layout::mosaic::{Mosaic, Piece};
use crate::layout::pattern::{
    Ascending, Blocks, IndexRow, Interval, Intervals, Kind, Pattern, map_through_blocks, meet,
};
use crate::select::Selection;
use crate::select::axis::AxisSelection;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// The selected elements of a piece.
pub(super) struct Overlap<'m> {
    pub(super) number: usize,
    pub(super) piece: &'m Piece,
    hits: Hits,
}

/// Positions in the output, and numbers of the pattern's elements.
enum Hits {
    /// For a regular pattern: its axes, and the runs along each.
    Regular(Vec<Blocks>, Vec<Intervals>),
    /// For rows: the position along all axes but the last, and the run along the last.
    /// [`Interval::at`] counts elements of the pattern.
    IndexRows(Vec<(Dims, Interval)>),
}

/// Some elements at equal steps along each axis.
///
/// `offset` and `strides` are bytes in the output, `first` and `steps` are numbers in the pattern.
pub(super) struct Hit {
    pub(super) counts: Dims,
    pub(super) offset: isize,
    pub(super) strides: Strides,
    pub(super) first: u64,
    pub(super) steps: Dims,
}

/// A sub-selection of a source, and its place in bytes from some base. Steps are positive.
pub(super) struct SubRead {
    pub(super) selection: Selection,
    pub(super) shape: Dims,
    pub(super) strides: Strides,
    pub(super) offset: isize,
}

impl SubRead {
    /// Number of elements.
    pub(super) fn count(&self) -> u64 {
        self.shape.iter().copied().fold(1, u64::saturating_mul)
    }

    /// The elements that lie inside an array of `shape`. `None`: no element does.
    pub(super) fn clip_to_shape(&self, shape: &[u64]) -> Option<SubRead> {
        let clip = |(axis, extent): (&AxisSelection, &u64)| {
            let rest = extent.checked_sub(axis.first)?;
            let len = rest.div_ceil(axis.step.unsigned_abs().max(1)).min(axis.len);
            (len > 0).then_some(AxisSelection { len, ..*axis })
        };
        let axes: SmallVec<[AxisSelection; 8]> =
            self.selection.axes().iter().zip(shape).map(clip).collect::<Option<_>>()?;
        Some(SubRead {
            shape: axes.iter().filter(|axis| !axis.dropped).map(|axis| axis.len).collect(),
            selection: Selection::of(axes, Vec::new()),
            strides: self.strides.clone(),
            offset: self.offset,
        })
    }
}

/// How a part is read. Elements are numbered in the order of the pattern.
pub(super) enum How {
    /// Straight to the output.
    Direct,
    /// Into memory: these elements of a regular pattern.
    Gather(Range<u64>),
    /// Into memory: the elements of these rows, row by row.
    IndexRows(Range<usize>),
    /// Into memory: the box around these rows. The rows are then taken from the box.
    Box(Range<usize>, Vec<(u64, u64)>),
}

fn ascending_axes(selection: &Selection) -> SmallVec<[Ascending; 8]> {
    selection.axes().iter().map(Ascending::new).collect()
}

/// The elements of each piece that a selection touches, in the order of the pieces.
pub(super) fn touched_overlaps<'m>(
    layout: &ArrayLayout,
    mosaic: &'m Mosaic,
    selection: &Selection,
) -> Vec<Overlap<'m>> {
    let selected = ascending_axes(selection);
    let hits = |piece: &Piece| {
        let whole: Vec<Blocks>;
        let axes: &[Blocks] = match &piece.target.0 {
            Kind::IndexRows(rows) => {
                let hits: Vec<_> =
                    rows.iter(0..rows.len()).filter_map(|row| hit_of_row(&row, &selected)).collect();
                return (!hits.is_empty()).then_some(Hits::IndexRows(hits));
            }
            Kind::Regular(axes) => axes,
            Kind::All => {
                whole = layout.shape().iter().map(|len| Blocks::run(0, *len)).collect();
                &whole
            }
        };
        let mut runs = Vec::with_capacity(axes.len());
        for (blocks, selected) in axes.iter().zip(&selected) {
            let along = meet(blocks, *selected);
            if along.is_empty() {
                return None;
            }
            runs.push(along);
        }
        Some(Hits::Regular(axes.to_vec(), runs))
    };
    let part = |(number, piece)| hits(piece).map(|hits| Overlap { number, piece, hits });
    mosaic.pieces.iter().enumerate().filter_map(part).collect()
}

fn hit_of_row(row: &IndexRow<'_>, selected: &[Ascending]) -> Option<(Dims, Interval)> {
    let ((first, outer), (last, before)) = (row.start.split_last()?, selected.split_last()?);
    let positions = before.iter().zip(outer).map(|(axis, at)| axis.position(*at));
    let run = last.intersect_range(*first, first + row.len)?;
    Some((positions.collect::<Option<Dims>>()?, Interval { at: run.at + row.before, ..run }))
}

/// Difference of the numbers of neighbouring elements along each axis, in C order.
fn numbers(axes: &[Blocks]) -> Dims {
    let mut steps: Dims = axes.iter().map(|axis| axis.len).collect();
    let mut step = 1u64;
    for each in steps.iter_mut().rev() {
        let len = *each;
        *each = step;
        step = step.saturating_mul(len);
    }
    steps
}

/// Calls `each` with every combination of one run per axis.
fn combine(
    axes: &[Intervals],
    each: &mut dyn FnMut(&[Interval]) -> Result<(), ArrayError>,
) -> Result<(), ArrayError> {
    let mut chosen: SmallVec<[usize; 8]> = SmallVec::from_elem(0, axes.len());
    if axes.iter().any(|runs| runs.is_empty()) {
        return Ok(());
    }
    loop {
        let runs: SmallVec<[Interval; 8]> = axes.iter().zip(&chosen).map(|(runs, n)| runs[*n]).collect();
        each(&runs)?;
        let Some(axis) = (0..axes.len()).rev().find(|axis| chosen[*axis] + 1 < axes[*axis].len()) else {
            return Ok(());
        };
        chosen[axis] += 1;
        chosen[axis + 1..].fill(0);
    }
}

impl Overlap<'_> {
    /// Number of elements.
    pub(super) fn count(&self) -> u64 {
        let total = |runs: &Intervals| runs.iter().map(|run| run.len).sum::<u64>();
        match &self.hits {
            Hits::Regular(_, runs) => runs.iter().map(total).fold(1, u64::saturating_mul),
            Hits::IndexRows(hits) => hits.iter().map(|(_, run)| run.len).sum(),
        }
    }

    /// The numbers of the elements, from the lowest to the highest.
    fn reach(&self) -> Range<u64> {
        let last = |run: &Interval| run.at + (run.len - 1) * run.at_step;
        match &self.hits {
            Hits::Regular(axes, runs) => {
                let (mut low, mut high) = (0u64, 0u64);
                for (runs, step) in runs.iter().zip(numbers(axes)) {
                    let (least, most) = (runs.iter().map(|run| run.at).min(), runs.iter().map(last).max());
                    low = least.unwrap_or(0).saturating_mul(step).saturating_add(low);
                    high = most.unwrap_or(0).saturating_mul(step).saturating_add(high);
                }
                low..high.saturating_add(1)
            }
            Hits::IndexRows(hits) => {
                let low = hits.iter().map(|(_, run)| run.at).min().unwrap_or(0);
                low..hits.iter().map(|(_, run)| last(run) + 1).max().unwrap_or(0)
            }
        }
    }

    /// Calls `each` for all elements. `strides` are the output's, per axis of the array.
    pub(super) fn for_each_hit(
        &self,
        strides: &[isize],
        each: &mut dyn FnMut(&Hit) -> Result<(), ArrayError>,
    ) -> Result<(), ArrayError> {
        match &self.hits {
            Hits::Regular(axes, runs) => {
                let numbers = numbers(axes);
                combine(runs, &mut |runs| {
                    let along = || runs.iter().zip(strides);
                    each(&Hit {
                        counts: runs.iter().map(|run| run.len).collect(),
                        offset: along().map(|(run, stride)| run.out as isize * stride).sum(),
                        strides: along().map(|(run, stride)| run.out_step as isize * stride).collect(),
                        first: runs.iter().zip(&numbers).map(|(run, step)| run.at * step).sum(),
                        steps: runs
                            .iter()
                            .zip(&numbers)
                            .map(|(run, step)| run.at_step.wrapping_mul(*step))
                            .collect(),
                    })
                })
            }
            Hits::IndexRows(hits) => hits.iter().try_for_each(|(outer, run)| {
                let Some((last, before)) = strides.split_last() else { return Ok(()) };
                let start: isize = outer.iter().zip(before).map(|(at, stride)| *at as isize * stride).sum();
                each(&Hit {
                    counts: [run.len].as_slice().into(),
                    offset: start + run.out as isize * last,
                    strides: [run.out_step as isize * last].as_slice().into(),
                    first: run.at,
                    steps: [run.at_step].as_slice().into(),
                })
            }),
        }
    }

    /// Chooses how to read the elements `source` of an array. `same`: their type is the mosaic's.
    pub(super) fn how(&self, source: &Pattern, same: bool) -> How {
        let lens =
            |axes: &[Blocks]| -> Dims { axes.iter().map(|axis| axis.len).filter(|len| *len != 1).collect() };
        match (&self.hits, &source.0) {
            (Hits::Regular(axes, _), Kind::Regular(others)) if same && lens(axes) == lens(others) => {
                How::Direct
            }
            (_, Kind::IndexRows(rows)) => {
                let range = rows.range(self.reach());
                let bounds = rows.bounds(range.clone());
                let lens: Dims = bounds.iter().map(|(start, end)| end - start).collect();
                let wanted: u64 = rows.iter(range.clone()).map(|row| row.len).sum();
                // Reading each row separately decodes its chunk once per row. Reading the elements
                // between them costs little, unless there are very many.
                let most = wanted.saturating_mul(8).max(64 << 10);
                match element_count(&lens).is_some_and(|volume| volume <= most) {
                    true => How::Box(range, bounds),
                    false => How::IndexRows(range),
                }
            }
            (_, Kind::Regular(axes)) => {
                let reach = self.reach();
                // Round to whole steps along the slowest axis.
                let slowest = axes.iter().zip(numbers(axes)).find(|(axis, _)| axis.len > 1);
                let step = slowest.map_or(1, |(_, step)| step);
                How::Gather(reach.start / step * step..reach.end.div_ceil(step) * step)
            }
            (_, Kind::All) => How::Gather(0..0),
        }
    }

    /// Calls `each` for every sub-selection of the source to read.
    ///
    /// `strides` are the output's, per axis of the array. `element` is the size of an element in
    /// memory.
    pub(super) fn for_each_read(
        &self,
        how: &How,
        source: &Pattern,
        (strides, element): (&[isize], usize),
        each: &mut dyn FnMut(SubRead) -> Result<(), ArrayError>,
    ) -> Result<(), ArrayError> {
        match (how, &source.0, &self.hits) {
            (How::Direct, Kind::Regular(others), Hits::Regular(axes, runs)) => {
                let mut base = 0isize;
                let mut matched = SmallVec::<[(&Intervals, isize); 8]>::new();
                for (axis, (runs, stride)) in axes.iter().zip(runs.iter().zip(strides)) {
                    match axis.len {
                        1 => {
                            base = runs
                                .first()
                                .map_or(0, |run| run.out as isize)
                                .wrapping_mul(*stride)
                                .wrapping_add(base)
                        }
                        _ => matched.push((runs, *stride)),
                    }
                }
                let mut matched = matched.into_iter();
                let along = |other: &Blocks| match other.len {
                    1 => single_position(other.start),
                    _ => match matched.next() {
                        Some((runs, stride)) => AxisRuns::keep_axis(
                            runs.iter().flat_map(|run| map_through_blocks(other, *run)).collect(),
                            stride,
                        ),
                        None => single_position(other.start),
                    },
                };
                sub_reads(others.iter().map(along).collect(), base, each)
            }
            (How::Gather(range), Kind::Regular(axes), _) => {
                let mut slowest = true;
                let along = |(axis, step): (&Blocks, u64)| {
                    let mut run = consecutive_interval(0, axis.len);
                    if axis.len == 1 {
                        return single_position(axis.start);
                    }
                    if std::mem::take(&mut slowest) {
                        run = consecutive_interval(range.start / step, (range.end - range.start) / step);
                    }
                    AxisRuns::keep_axis(
                        map_through_blocks(axis, run),
                        step.wrapping_mul(element as u64) as isize,
                    )
                };
                sub_reads(axes.iter().zip(numbers(axes)).map(along).collect(), 0, each)
            }
            (How::Box(_, bounds), _, _) => {
                let lens: Dims = bounds.iter().map(|(start, end)| end - start).collect();
                let steps = crate::dims::c_strides(&lens, element);
                let along = |((start, end), stride): (&(u64, u64), &isize)| {
                    AxisRuns::keep_axis(smallvec![consecutive_interval(*start, end - start)], *stride)
                };
                sub_reads(bounds.iter().zip(&steps).map(along).collect(), 0, each)
            }
            (How::IndexRows(range), Kind::IndexRows(rows), _) => {
                let base = rows.iter(range.clone()).next().map_or(0, |row| row.before);
                rows.iter(range.clone()).try_for_each(|row| {
                    let Some((last, outer)) = row.start.split_last() else { return Ok(()) };
                    let mut along: SmallVec<[AxisRuns; 4]> =
                        outer.iter().map(|at| single_position(*at)).collect();
                    let run = Interval { out: row.before - base, ..consecutive_interval(*last, row.len) };
                    along.push(AxisRuns::keep_axis(smallvec![run], element as isize));
                    sub_reads(along, 0, each)
                })
            }
            _ => Ok(()),
        }
    }
}

/// The runs to read along an axis of a source.
///
/// [`Interval::at`] is a position in the source. [`Interval::out`] is a position in memory, where
/// positions are `stride` bytes apart.
struct AxisRuns {
    runs: Intervals,
    stride: isize,
    dropped: bool,
}

impl AxisRuns {
    fn keep_axis(runs: Intervals, stride: isize) -> Self {
        AxisRuns { runs, stride, dropped: false }
    }
}

/// Consecutive positions, placed at the start of the memory.
fn consecutive_interval(at: u64, len: u64) -> Interval {
    Interval { out: 0, out_step: 1, at, at_step: 1, len }
}

fn single_position(at: u64) -> AxisRuns {
    AxisRuns { runs: smallvec![consecutive_interval(at, 1)], stride: 0, dropped: true }
}

fn sub_reads(
    axes: SmallVec<[AxisRuns; 4]>,
    base: isize,
    each: &mut dyn FnMut(SubRead) -> Result<(), ArrayError>,
) -> Result<(), ArrayError> {
    let runs: SmallVec<[Intervals; 4]> = axes.iter().map(|axis| axis.runs.clone()).collect();
    combine(&runs, &mut |runs| {
        let along = || axes.iter().zip(runs);
        let kept = || along().filter(|(axis, _)| !axis.dropped);
        let select = |(axis, run): (&AxisRuns, &Interval)| {
            let step = if run.len > 1 { i64::try_from(run.at_step).unwrap_or(i64::MAX) } else { 1 };
            AxisSelection { first: run.at, step, len: run.len, dropped: axis.dropped }
        };
        each(SubRead {
            selection: Selection::of(along().map(select).collect(), Vec::new()),
            shape: kept().map(|(_, run)| run.len).collect(),
            strides: kept().map(|(axis, run)| axis.stride.wrapping_mul(run.out_step as isize)).collect(),
            offset: along().fold(base, |sum: isize, (axis, run)| {
                sum.wrapping_add(axis.stride.wrapping_mul(run.out as isize))
            }),
        })
    })
}
