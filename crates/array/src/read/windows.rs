//! Points of chunks without codecs: only the bytes around them are read.
//!
//! 1. The part of a chunk that is copied at each place (the region) is looked at: axes whose steps
//!    are longer than what one more range costs are walked, so that a bite is a few bytes close
//!    together, or one long row.
//! 2. The bites are walked, roughly in the order of the chunk's bytes, and taken a window at a
//!    time: memory is bounded however many points there are, and however large the chunk is.
//! 3. Within a window they are sorted, and those that lie close together are joined to one range.
//!    All ranges of a window are read by one call. Long rows that are the same in the caller's
//!    memory are read straight to it.
//! 4. Where there is more than one window, the object is opened once for all: windows of an object
//!    that is replaced meanwhile would make a chunk that never was.

#![expect(clippy::indexing_slicing, reason = "places of axes come from the list itself")]
#![expect(
    clippy::cast_possible_truncation,
    reason = "sizes in memory, and numbers of what is in memory: 64 bits, and checked where they came in"
)]

use crate::copy::places::Places;
use crate::copy::row::Axis;
use crate::copy::strided::Region;
use crate::costs;
use smallvec::SmallVec;

/// Some bytes of a chunk that are copied together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bite {
    /// Where they start, in the chunk and in the caller's memory.
    pub(crate) chunk: isize,
    pub(crate) memory: isize,
    /// Points.
    pub(crate) count: usize,
}

/// What is walked to find bites.
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
pub(crate) struct Windows<'p> {
    /// Those with long steps in the chunk first.
    factors: SmallVec<[Factor<'p>; 8]>,
    /// What is copied at each point of a bite.
    pub(crate) region: Region,
    /// Bytes of the chunk from the first to the last of the region.
    pub(crate) reach: usize,
    /// From one point of a bite to the next: in the chunk, and in the caller's memory.
    pub(crate) step: Axis,
    /// Points of a bite, at most.
    most: usize,
    /// Whether each point is one long row, the same on both sides.
    pub(crate) direct: bool,
    /// What one more range costs.
    another: usize,
}

impl<'p> Windows<'p> {
    /// `another`: what one more range costs, in bytes that could be read instead.
    pub(crate) fn new(mut region: Region, places: &'p [Places<'p>], another: u64) -> Self {
        let another = isize::try_from(another).unwrap_or(isize::MAX);
        let mut factors: SmallVec<[Factor<'p>; 8]> = places.iter().map(Factor::Places).collect();
        let reach_of = |region: &Region| {
            region.axes.iter().map(|axis| (axis.len - 1) * axis.src as usize).sum::<usize>() + region.unit
        };
        let mut direct = false;
        loop {
            direct |= region.contiguous().is_some() && region.direct_row().is_some();
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
    pub(crate) fn len(&self, bite: Bite) -> usize {
        (bite.count - 1) * self.step.src as usize + self.reach
    }

    /// Calls `found` with each bite, until it fails.
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

    /// Calls `full` with windows of bites; whether more may come.
    pub(crate) fn each<E>(
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

    /// Sorts the bites of a window, and joins those that lie close together: ranges of the chunk.
    pub(crate) fn ranges(&self, window: &mut [Bite]) -> Vec<(usize, usize)> {
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

/// The ranges of a chunk that are read for a task with points, offset and length, window by window.
pub(crate) fn ranges(region: Region, places: &[Places<'_>], offset: usize, another: u64) -> Vec<(u64, u64)> {
    let windows = Windows::new(region, places, another);
    let mut all = Vec::new();
    let walked: Result<(), std::convert::Infallible> = windows.each(offset, &mut |window, _| {
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
