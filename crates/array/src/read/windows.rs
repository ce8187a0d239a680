//! Points in chunks without codecs: only the bytes around them are read.
//!
//! 1. The region is the part of a chunk that is copied at each place. Axes of the region are walked
//!    if their steps are longer than the cost of one more range. A bite is then a few bytes close
//!    together, or one long row.
//! 2. The bites are walked, roughly in the order of the chunk's bytes, and taken one window at a
//!    time. Memory is bounded for any number of points and any size of the chunk.
//! 3. Bites within a window are sorted, and close ones are joined to one range. One call reads all
//!    ranges of a window. Long rows that are the same in the caller's memory are read straight to
//!    it.
//! 4. With more than one window, the object is opened once for all of them. If it were replaced in
//!    between, the windows would make a chunk that never existed.

#![expect(clippy::indexing_slicing, reason = "places of axes come from the list itself")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::copy::gather;
use crate::copy::places::Places;
use crate::copy::row::Axis;
use crate::copy::strided::Region;
use crate::costs;
use crate::error::ArrayError;
use crate::execute::scratch::{Scratch, resize_slot, with_ranges};
use crate::execute::tasks::memory_error;
use crate::read::chunk::ChunkReader;
use crate::read::fetch::{Stored, open, ranges_of};
use hyperslab_store::{Opened, RangeRead};
use smallvec::SmallVec;

/// Bytes of a chunk that are copied together.
#[derive(Clone, Copy, Debug)]
struct Bite {
    /// Their start in the chunk and in the caller's memory.
    chunk: isize,
    memory: isize,
    /// Number of points.
    count: usize,
}

/// One factor of the walk that finds bites.
#[derive(Clone, Copy)]
enum Factor<'p> {
    Axis(Axis),
    Places(&'p Places<'p>),
}

impl Factor<'_> {
    fn across(&self) -> isize {
        match self {
            Factor::Axis(axis) => axis.src,
            Factor::Places(places) => places.across,
        }
    }
}

/// The bites of a task.
struct Windows<'p> {
    /// Factors with long steps in the chunk come first.
    factors: SmallVec<[Factor<'p>; 8]>,
    /// The region that is copied at each point of a bite.
    region: Region,
    /// Bytes of the chunk from the first to the last byte of the region.
    reach: usize,
    /// The step from one point of a bite to the next, in the chunk and in the caller's memory.
    step: Axis,
    /// The most points of a bite.
    most: usize,
    /// `true` if each point is one long row, the same on both sides.
    direct: bool,
    /// The cost of one more range, in bytes.
    another: usize,
}

impl<'p> Windows<'p> {
    /// `another`: the cost of one more range, in bytes that could be read instead.
    fn new(mut region: Region, places: &'p [Places<'p>], another: u64) -> Self {
        let another = isize::try_from(another).unwrap_or(isize::MAX);
        let mut factors: SmallVec<[Factor<'p>; 8]> = places.iter().map(Factor::Places).collect();
        let reach_of = |region: &Region| {
            region.axes.iter().map(|axis| (axis.len - 1) * axis.src as usize).sum::<usize>() + region.unit
        };
        let mut direct = false;
        loop {
            direct |= region.contiguous_len().is_some() && region.direct_row().is_some();
            let longest = (0..region.axes.len()).max_by_key(|k| region.axes[*k].src);
            match longest {
                Some(k) if !direct && (region.axes[k].src > another || reach_of(&region) > costs::WINDOW) => {
                    factors.push(Factor::Axis(region.axes.remove(k)));
                }
                _ => break,
            }
        }
        factors.sort_by_key(|factor| std::cmp::Reverse(factor.across()));
        let (reach, mut step, mut most) = (reach_of(&region), Axis { len: 1, dst: 0, src: 0 }, 1);
        if let Some(Factor::Places(last)) = factors.last()
            && !direct
            && last.step <= another
        {
            step = Axis { len: 1, dst: last.stride, src: last.step };
            most = (costs::WINDOW / last.step.max(1) as usize).max(1);
        }
        let another = usize::try_from(another).unwrap_or(usize::MAX);
        Windows { factors, region, reach, step, most, direct, another }
    }

    /// Bytes of the chunk that a bite covers.
    fn len(&self, bite: Bite) -> usize {
        (bite.count - 1) * self.step.src as usize + self.reach
    }

    /// Calls `found` with each bite, until a call fails.
    fn walk<E>(
        &self,
        factors: &[Factor<'_>],
        at: Bite,
        found: &mut dyn FnMut(Bite) -> Result<(), E>,
    ) -> Result<(), E> {
        match factors {
            [] => found(at),
            [Factor::Axis(axis), rest @ ..] => (0..axis.len as isize).try_for_each(|n| {
                let (chunk, memory) = (at.chunk + n * axis.src, at.memory + n * axis.dst);
                self.walk(rest, Bite { chunk, memory, ..at }, found)
            }),
            [Factor::Places(places), rest @ ..] => places.entries.iter().try_for_each(|entry| {
                let most = if rest.is_empty() { self.most } else { 1 };
                let len = entry.len() as usize;
                (0..len).step_by(most).try_for_each(|n| {
                    let chunk = at.chunk + places.chunk(*entry) + n as isize * places.step;
                    let memory = at.memory + places.memory(*entry) + n as isize * places.stride;
                    self.walk(rest, Bite { chunk, memory, count: most.min(len - n) }, found)
                })
            }),
        }
    }

    /// Calls `full` with windows of bites. The second argument is `true` if more may come.
    fn for_each_window<E>(
        &self,
        offset: usize,
        full: &mut impl FnMut(&mut [Bite], bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut window, mut bytes): (Vec<Bite>, usize) = (Vec::new(), 0);
        let start = Bite { chunk: offset as isize, memory: 0, count: 1 };
        self.walk(&self.factors, start, &mut |bite| {
            let len = self.len(bite);
            if !window.is_empty() && (window.len() == costs::MOST_BITES || bytes + len > costs::WINDOW) {
                full(&mut window, true)?;
                window.clear();
                bytes = 0;
            }
            bytes += len;
            window.push(bite);
            Ok(())
        })?;
        if window.is_empty() { Ok(()) } else { full(&mut window, false) }
    }

    /// Sorts the bites of a window, and joins close ones to ranges of the chunk.
    fn ranges(&self, window: &mut [Bite]) -> Vec<(usize, usize)> {
        window.sort_unstable_by_key(|bite| bite.chunk);
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for bite in window {
            let (start, end) = (bite.chunk as usize, bite.chunk as usize + self.len(*bite));
            match ranges.last_mut() {
                Some((_, last)) if start <= last.saturating_add(self.another) => *last = end.max(*last),
                _ => ranges.push((start, end)),
            }
        }
        ranges
    }
}

/// The ranges to read for a task with points, as offset and length, window by window.
pub(crate) fn ranges(region: Region, places: &[Places<'_>], offset: usize, another: u64) -> Vec<(u64, u64)> {
    let windows = Windows::new(region, places, another);
    let mut all = Vec::new();
    let walked: Result<(), std::convert::Infallible> = windows.for_each_window(offset, &mut |window, _| {
        let direct = |bite: &mut Bite| (bite.chunk as u64, windows.len(*bite) as u64);
        let joined = |(start, end): (usize, usize)| (start as u64, (end - start) as u64);
        match windows.direct {
            true => all.extend(window.iter_mut().map(direct)),
            false => all.extend(windows.ranges(window).into_iter().map(joined)),
        }
        Ok(())
    });
    let Ok(()) = walked;
    all
}

/// Reads a task with points from a chunk without codecs. Returns `true` if the chunk exists.
pub(crate) fn read(
    chunk: &ChunkReader<'_>,
    scratch: &mut Scratch,
    stored: Stored<'_>,
) -> Result<bool, ArrayError> {
    let windows = Windows::new(chunk.region.clone(), &chunk.places, chunk.layout.store().cost().range);
    let mut opened: Option<Option<Box<dyn Opened + '_>>> = None;
    let mut found = true;
    windows.for_each_window(chunk.offset, &mut |window, more| {
        if more && opened.is_none() && stored.opened.is_none() {
            opened = Some(open(chunk.layout, &scratch.task, &scratch.key, stored.location)?);
            found = matches!(opened, Some(Some(_)));
        }
        if found {
            let again = opened.as_ref().and_then(|opened| opened.as_deref());
            let stored = Stored { opened: stored.opened.or(again), ..stored };
            found = read_window(chunk, scratch, stored, &windows, window)?;
        }
        Ok(())
    })?;
    Ok(found)
}

fn read_window(
    chunk: &ChunkReader<'_>,
    scratch: &mut Scratch,
    stored: Stored<'_>,
    windows: &Windows<'_>,
    window: &mut [Bite],
) -> Result<bool, ArrayError> {
    let layout = chunk.layout;
    let (list, decoded, key, task) = scratch.split_ranges();
    if windows.direct {
        return with_ranges(list, |list| {
            list.extend(window.iter().map(|bite| {
                let dst = chunk.dst.wrapping_offset(bite.memory);
                // SAFETY: a row of the output, of initialised bytes; the target covers the
                // task's elements, and no two points share bytes there.
                let buf = unsafe { std::slice::from_raw_parts_mut(dst, windows.reach) };
                RangeRead { offset: bite.chunk as u64, buf }
            }));
            ranges_of(layout, stored, task, key, list)
        });
    }
    let ranges = windows.ranges(window);
    let len = ranges.iter().map(|(start, end)| end - start).sum();
    let none = || memory_error(layout, "a part of a chunk", len as u64);
    let buffer = resize_slot(decoded, len).ok_or_else(none)?;
    let found = with_ranges(list, |list| {
        let mut rest = &mut *buffer;
        for (start, end) in &ranges {
            let (buf, behind) = std::mem::take(&mut rest).split_at_mut(end - start);
            list.push(RangeRead { offset: *start as u64, buf });
            rest = behind;
        }
        ranges_of(layout, stored, task, key, list)
    })?;
    if !found {
        return Ok(false);
    }
    // Bites and ranges are both in the order of the chunk's bytes.
    let (mut range, mut before) = (0, 0);
    for bite in window {
        while let Some((start, end)) = ranges.get(range)
            && *end <= bite.chunk as usize
        {
            before += end - start;
            range += 1;
        }
        let start = ranges.get(range).map_or(0, |(start, _)| *start);
        let src = buffer.as_ptr().wrapping_add(before + bite.chunk as usize - start);
        let dst = chunk.dst.wrapping_offset(bite.memory);
        let step = Axis { len: bite.count, ..windows.step };
        // SAFETY: the target covers the task's elements; the range with the bite was read to the
        // buffer, all of it.
        unsafe { gather::copy_run(&windows.region, step, dst, src) };
    }
    Ok(true)
}
