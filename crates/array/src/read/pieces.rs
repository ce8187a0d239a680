//! Points of chunks without codecs: only the bytes around them are read.
//!
//! 1. The part of a chunk that is copied at each place (the region) is looked at: axes whose steps
//!    are longer than what one more range costs are walked, so that a piece is a few bytes close
//!    together, or one long row.
//! 2. The pieces are walked, roughly in the order of the chunk's bytes, and taken a window at a
//!    time: memory is bounded however many points there are, and however large the chunk is.
//! 3. Within a window they are sorted, and those that lie close together are joined to one range.
//!    All ranges of a window are read by one call. Long rows that are the same in the caller's
//!    memory are read straight to it.
//! 4. Where there is more than one window, the object is opened once for all: windows of an object
//!    that is replaced meanwhile would make a chunk that never was.

use crate::copy::gather;
use crate::copy::strided::{Axis, Region};
use crate::error::ArrayError;
use crate::plan::point_plan::Places;
use crate::plan::strategy::RANGE_COST;
use crate::read::fetch::{Stored, open, ranges_of};
use crate::read::reader::Reader;
use crate::runtime::scratch::{Scratch, sized, with_ranges};
use crate::runtime::tasks::memory_error;
use hyperslab_store::{Opened, RangeRead};
use smallvec::SmallVec;

/// Pieces of one window, at most. Unit tests have a small bound, so that they meet it.
const MOST_PIECES: usize = if cfg!(test) { 7 } else { 2048 };

/// Bytes of one window, at most, unless a piece alone is longer; without what lies between pieces.
const WINDOW: usize = if cfg!(test) { 512 } else { 1 << 20 };

/// Some bytes of a chunk that are copied together.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Where they start, in the chunk and in the caller's memory.
    chunk: isize,
    memory: isize,
    /// Points.
    count: usize,
}

/// What is walked to find pieces.
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

/// The pieces of a task.
struct Pieces<'p> {
    /// Those with long steps in the chunk first.
    factors: SmallVec<[Factor<'p>; 8]>,
    /// What is copied at each point of a piece.
    region: Region,
    /// Bytes of the chunk from the first to the last of the region.
    reach: usize,
    /// From one point of a piece to the next: in the chunk, and in the caller's memory.
    step: Axis,
    /// Points of a piece, at most.
    most: usize,
    /// Whether each point is one long row, the same on both sides.
    direct: bool,
}

impl<'p> Pieces<'p> {
    fn new(mut region: Region, places: &'p [Places<'p>]) -> Self {
        let mut factors: SmallVec<[Factor<'p>; 8]> = places.iter().map(Factor::Places).collect();
        let reach_of = |region: &Region| {
            region.axes.iter().map(|axis| (axis.len - 1) * axis.src as usize).sum::<usize>() + region.unit
        };
        let mut direct = false;
        loop {
            direct |= region.contiguous().is_some() && region.direct_row().is_some();
            let longest = (0..region.axes.len()).max_by_key(|k| region.axes[*k].src);
            match longest {
                Some(k)
                    if !direct
                        && (region.axes[k].src > RANGE_COST as isize || reach_of(&region) > WINDOW) =>
                {
                    factors.push(Factor::Axis(region.axes.remove(k)));
                }
                _ => break,
            }
        }
        factors.sort_by_key(|factor| std::cmp::Reverse(factor.across()));
        let (reach, mut step, mut most) = (reach_of(&region), Axis { len: 1, dst: 0, src: 0 }, 1);
        if let Some(Factor::Places(last)) = factors.last()
            && !direct
            && last.step <= RANGE_COST as isize
        {
            step = Axis { len: 1, dst: last.stride, src: last.step };
            most = (WINDOW / last.step.max(1) as usize).max(1);
        }
        Pieces { factors, region, reach, step, most, direct }
    }

    /// Bytes of the chunk that a piece covers.
    fn len(&self, piece: Piece) -> usize {
        (piece.count - 1) * self.step.src as usize + self.reach
    }

    /// Calls `found` with each piece, until it fails.
    fn walk<E>(
        &self,
        factors: &[Factor<'_>],
        at: Piece,
        found: &mut dyn FnMut(Piece) -> Result<(), E>,
    ) -> Result<(), E> {
        match factors {
            [] => found(at),
            [Factor::Axis(axis), rest @ ..] => (0..axis.len as isize).try_for_each(|n| {
                let (chunk, memory) = (at.chunk + n * axis.src, at.memory + n * axis.dst);
                self.walk(rest, Piece { chunk, memory, ..at }, found)
            }),
            [Factor::Places(places), rest @ ..] => places.entries.iter().try_for_each(|entry| {
                let most = if rest.is_empty() { self.most } else { 1 };
                let len = entry.len() as usize;
                (0..len).step_by(most).try_for_each(|n| {
                    let chunk = at.chunk + places.chunk(*entry) + n as isize * places.step;
                    let memory = at.memory + places.memory(*entry) + n as isize * places.stride;
                    self.walk(rest, Piece { chunk, memory, count: most.min(len - n) }, found)
                })
            }),
        }
    }

    /// Calls `full` with windows of pieces; whether more may come.
    fn windows<E>(
        &self,
        offset: usize,
        full: &mut impl FnMut(&mut [Piece], bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut window, mut bytes): (Vec<Piece>, usize) = (Vec::new(), 0);
        let start = Piece { chunk: offset as isize, memory: 0, count: 1 };
        self.walk(&self.factors, start, &mut |piece| {
            let len = self.len(piece);
            if !window.is_empty() && (window.len() == MOST_PIECES || bytes + len > WINDOW) {
                full(&mut window, true)?;
                window.clear();
                bytes = 0;
            }
            bytes += len;
            window.push(piece);
            Ok(())
        })?;
        if window.is_empty() { Ok(()) } else { full(&mut window, false) }
    }

    /// Sorts the pieces of a window, and joins those that lie close together: ranges of the chunk.
    fn ranges(&self, window: &mut [Piece]) -> Vec<(usize, usize)> {
        window.sort_unstable_by_key(|piece| piece.chunk);
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for piece in window {
            let (start, end) = (piece.chunk as usize, piece.chunk as usize + self.len(*piece));
            match ranges.last_mut() {
                Some((_, last)) if start <= *last + RANGE_COST as usize => *last = end.max(*last),
                _ => ranges.push((start, end)),
            }
        }
        ranges
    }
}

/// The ranges of a chunk that are read for a task with points, offset and length, window by window.
pub(crate) fn ranges(region: Region, places: &[Places<'_>], offset: usize) -> Vec<(u64, u64)> {
    let pieces = Pieces::new(region, places);
    let mut all = Vec::new();
    let walked: Result<(), std::convert::Infallible> = pieces.windows(offset, &mut |window, _| {
        let direct = |piece: &mut Piece| (piece.chunk as u64, pieces.len(*piece) as u64);
        let joined = |(start, end): (usize, usize)| (start as u64, (end - start) as u64);
        match pieces.direct {
            true => all.extend(window.iter_mut().map(direct)),
            false => all.extend(pieces.ranges(window).into_iter().map(joined)),
        }
        Ok(())
    });
    let Ok(()) = walked;
    all
}

impl Reader<'_> {
    /// Reads a task with points of a chunk without codecs. Returns whether the chunk exists.
    pub(crate) fn read_pieces(&self, scratch: &mut Scratch, stored: Stored<'_>) -> Result<bool, ArrayError> {
        let pieces = Pieces::new(self.region.clone(), &self.places);
        let mut opened: Option<Option<Box<dyn Opened + '_>>> = None;
        let mut found = true;
        pieces.windows(self.offset, &mut |window, more| {
            if more && opened.is_none() && stored.opened.is_none() {
                opened = Some(open(self.layout, &scratch.task, &scratch.key, stored.location)?);
                found = matches!(opened, Some(Some(_)));
            }
            if found {
                let again = opened.as_ref().and_then(|opened| opened.as_deref());
                let stored = Stored { opened: stored.opened.or(again), ..stored };
                found = self.read_window(scratch, stored, &pieces, window)?;
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn read_window(
        &self,
        scratch: &mut Scratch,
        stored: Stored<'_>,
        pieces: &Pieces<'_>,
        window: &mut [Piece],
    ) -> Result<bool, ArrayError> {
        let layout = self.layout;
        let (list, decoded, key, task) = scratch.split_ranges();
        if pieces.direct {
            return with_ranges(list, |list| {
                list.extend(window.iter().map(|piece| {
                    let dst = self.dst.wrapping_offset(piece.memory);
                    // SAFETY: a row of the output, of initialised bytes; the target covers the
                    // task's elements, and no two points share bytes there.
                    let buf = unsafe { std::slice::from_raw_parts_mut(dst, pieces.reach) };
                    RangeRead { offset: piece.chunk as u64, buf }
                }));
                ranges_of(layout, stored, task, key, list)
            });
        }
        let ranges = pieces.ranges(window);
        let len = ranges.iter().map(|(start, end)| end - start).sum();
        let none = || memory_error(layout, "a part of a chunk", len as u64);
        let buffer = sized(decoded, len).ok_or_else(none)?;
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
        // Both are in the order of the chunk's bytes.
        let (mut range, mut before) = (0, 0);
        for piece in window {
            while let Some((start, end)) = ranges.get(range)
                && *end <= piece.chunk as usize
            {
                before += end - start;
                range += 1;
            }
            let start = ranges.get(range).map_or(0, |(start, _)| *start);
            let src = buffer.as_ptr().wrapping_add(before + piece.chunk as usize - start);
            let dst = self.dst.wrapping_offset(piece.memory);
            let step = Axis { len: piece.count, ..pieces.step };
            // SAFETY: the target covers the task's elements; the range that holds the piece was
            // read to the buffer, all of it.
            unsafe { gather::copy_run(&pieces.region, step, dst, src) };
        }
        Ok(true)
    }
}
