//! Copies points between their places in a chunk and their places in the caller's memory.
//!
//! A [`Region`] is copied at each place: one element if points are on all axes. If the region has
//! rows that are contiguous on both sides, it is copied as a whole at each place. Otherwise the
//! region is walked, and the places are the innermost loop, compiled once per element size.

#![expect(clippy::indexing_slicing, reason = "the slice was matched to have a first element")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::copy::places::Places;
use crate::copy::row::{Axis, copy_row};
use crate::copy::strided;
use crate::copy::strided::{Region, for_each};
use crate::copy::unit::{Unit, by_unit};
use smallvec::SmallVec;

/// The direction of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the chunk to the caller's memory.
    Read,
    /// From the caller's memory to the chunk.
    Write,
    /// One element to the caller's memory, repeatedly.
    Fill,
}

/// A run of points: first byte on either side, number of points, bytes from one to the next.
#[derive(Clone, Copy)]
struct Sweep {
    dst: isize,
    src: isize,
    axis: Axis,
}

/// The runs of one set of points.
fn runs<'p>(places: &'p Places<'_>, direction: Direction) -> impl Iterator<Item = Sweep> + use<'p> {
    places.entries.iter().map(move |entry| {
        let (chunk, memory, len) = (places.chunk(*entry), places.memory(*entry), entry.len() as usize);
        let axis = |dst, src| Axis { len, dst, src };
        match direction {
            Direction::Read => Sweep { dst: memory, src: chunk, axis: axis(places.stride, places.step) },
            Direction::Write => Sweep { dst: chunk, src: memory, axis: axis(places.step, places.stride) },
            Direction::Fill => Sweep { dst: memory, src: 0, axis: axis(places.stride, 0) },
        }
    })
}

/// Copies `region` at every combination of places.
///
/// # Safety
/// As [`strided::copy`], with `dst` and `src` moved to each place.
pub(crate) unsafe fn copy(
    places: &[Places<'_>],
    direction: Direction,
    region: &Region,
    dst: *mut u8,
    src: *const u8,
) {
    let (last, outer) = match places {
        _ if region.empty => return,
        // SAFETY: as promised by the caller.
        [] => return unsafe { strided::copy(region, dst, src) },
        [outer @ .., last] => (last, outer),
    };
    if let Some((first, _)) = outer.split_first() {
        let rest = &places[1..];
        for run in runs(first, direction) {
            for n in 0..run.axis.len as isize {
                let (to, from) = (run.dst + n * run.axis.dst, run.src + n * run.axis.src);
                // SAFETY: as promised by the caller.
                unsafe { copy(rest, direction, region, dst.wrapping_offset(to), src.wrapping_offset(from)) };
            }
        }
        return;
    }
    if !region.axes.is_empty() && region.row().is_some() {
        for run in runs(last, direction) {
            // SAFETY: as promised by the caller.
            unsafe { copy_run(region, run.axis, dst.wrapping_offset(run.dst), src.wrapping_offset(run.src)) };
        }
        return;
    }
    for_each(&region.axes, dst, src, &mut |dst, src| {
        // SAFETY: as promised by the caller, for the units of one size at this index of the region.
        unsafe {
            if region.swap {
                by_unit!(region.unit, copy_runs::<_, true>(last, direction, dst, src));
            } else {
                by_unit!(region.unit, copy_runs::<_, false>(last, direction, dst, src));
            }
        }
    });
}

/// Copies `region` at each point of a run.
///
/// # Safety
/// As [`strided::copy`], at each point.
pub(crate) unsafe fn copy_run(region: &Region, run: Axis, dst: *mut u8, src: *const u8) {
    if region.axes.is_empty() && !region.empty {
        // SAFETY: as promised by the caller, for units of one size.
        return unsafe {
            if region.swap {
                by_unit!(region.unit, copy_row::<_, true>(run, dst, src));
            } else {
                by_unit!(region.unit, copy_row::<_, false>(run, dst, src));
            }
        };
    }
    for n in 0..run.len as isize {
        let (dst, src) = (dst.wrapping_offset(n * run.dst), src.wrapping_offset(n * run.src));
        // SAFETY: as promised by the caller.
        unsafe { strided::copy(region, dst, src) };
    }
}

/// # Safety
/// As [`copy`], with a region of one unit.
unsafe fn copy_runs<T: Unit, const SWAP: bool>(
    places: &Places<'_>,
    direction: Direction,
    dst: *mut u8,
    src: *const u8,
) {
    let size = size_of::<T>() as isize;
    for Sweep { dst: to, src: from, axis } in runs(places, direction) {
        let (dst, src) = (dst.wrapping_offset(to), src.wrapping_offset(from));
        // SAFETY: the elements of one run.
        unsafe {
            if axis.len == 1 {
                let value = src.cast::<T>().read_unaligned();
                dst.cast::<T>().write_unaligned(if SWAP { value.reverse_bytes() } else { value });
            } else if !SWAP && axis.dst == size && axis.src == size {
                std::ptr::copy_nonoverlapping(src, dst, axis.len * size_of::<T>());
            } else {
                copy_row::<T, SWAP>(axis, dst, src);
            }
        }
    }
}

/// Writes `value` to `counts` elements at every combination of places.
///
/// # Safety
/// As [`strided::fill`], at each place.
pub(crate) unsafe fn fill(
    places: &[Places<'_>],
    counts: &[u64],
    strides: &[isize],
    value: &[u8],
    dst: *mut u8,
) {
    if places.is_empty() {
        // SAFETY: as promised by the caller.
        return unsafe { strided::fill(counts, strides, value, dst) };
    }
    let still = SmallVec::<[isize; 8]>::from_elem(0, strides.len());
    let region = Region::new(counts, strides, &still, value.len(), 1);
    // SAFETY: as promised by the caller; the source is one element, which does not move.
    unsafe { copy(places, Direction::Fill, &region, dst, value.as_ptr()) }
}
