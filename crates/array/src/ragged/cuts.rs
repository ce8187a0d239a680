//! Finds where a list of points may be cut without decoding chunks again and again.
//!
//! Successive points in one chunk are a **stretch**. A cut between two stretches makes a chunk be
//! decoded twice only if later points return to a chunk from before the cut. There are two cases:
//!
//! - Points visit every chunk once or twice on average. Any end of a stretch will do.
//! - Otherwise a cut is free if no chunk is visited on both sides of it. If points are sorted by
//!   chunk, all ends of stretches are free. For a mask on several axes, the ends of rows of chunks
//!   are. If points jump back and forth, no end is.

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]

use crate::dims::Dims;
use crate::select::points::{Points, Stretch};

/// The cuts of the [`Points`] of a selection.
pub(super) struct Cuts {
    /// The number of the first point of each run.
    starts: Vec<u64>,
    /// Number of points.
    count: u64,
    /// Ends of stretches; empty if chunks have no codecs.
    ends: Vec<u64>,
    /// Ends at which a cut costs nothing; `None`: all of them.
    free: Option<Vec<u64>>,
}

/// Bounds on the number of points in a part.
pub(super) struct Bounds {
    /// The wanted number of points.
    pub(super) wanted: u64,
    /// The most stretches.
    pub(super) stretches: u64,
    /// The most points if a chunk would be decoded twice otherwise.
    pub(super) most: u64,
    /// The most points if all of them are in one chunk.
    pub(super) chunk: u64,
}

impl Cuts {
    /// `chunk` has the elements of a chunk per axis of the array. `coded` says whether a chunk
    /// costs twice if two parts touch it. `None` if there is no memory.
    pub(super) fn new(points: &Points, chunk: &[u64], coded: bool) -> Option<Self> {
        let mut starts = Vec::new();
        starts.try_reserve_exact(points.runs.len()).ok()?;
        let mut count = 0;
        for run in &points.runs {
            starts.push(count);
            count += run.len;
        }
        let mut cuts = Cuts { starts, count, ends: Vec::new(), free: None };
        if coded {
            let chunk: Dims = points.axes.iter().map(|axis| chunk[*axis]).collect();
            let stretches = stretches(points, &chunk)?;
            cuts.ends.try_reserve_exact(stretches.len()).ok()?;
            cuts.ends.extend(stretches.iter().skip(1).map(|(_, start)| *start));
            cuts.ends.push(count);
            cuts.free = free(stretches, count);
        }
        Some(cuts)
    }

    /// Returns whether some chunk has several successive points, and would be decoded for each.
    pub(super) fn shares(&self) -> bool {
        (self.ends.len() as u64) < self.count && !self.ends.is_empty()
    }

    /// Returns the end of the part that begins with point `from`.
    pub(super) fn end(&self, from: u64, bounds: &Bounds) -> u64 {
        let mut wanted = from.saturating_add(bounds.wanted);
        if let Some(end) = self.stretch(from).checked_add(bounds.stretches - 1)
            && let Some(end) = usize::try_from(end).ok().and_then(|end| self.ends.get(end))
        {
            wanted = wanted.min(*end);
        }
        if wanted >= self.count {
            return self.count;
        }
        if self.ends.is_empty() {
            return wanted;
        }
        let (most, chunk) = (from.saturating_add(bounds.most), from.saturating_add(bounds.chunk));
        let free = self.free.as_deref().unwrap_or(&self.ends);
        let before = last_between(free, from, wanted).or_else(|| first(free, wanted, most));
        let whole = || first(&self.ends, from, chunk).filter(|end| *end > wanted);
        // Points jump back and forth. Each smaller part would touch the same chunks: it would hold
        // as much, and decode it again.
        before.or_else(whole).or_else(|| first(free, wanted, self.count)).unwrap_or(self.count)
    }

    /// The number of stretches that the points from number `from` to `to` are in; 0 if it does not
    /// matter.
    pub(super) fn stretches(&self, from: u64, to: u64) -> u64 {
        if self.ends.is_empty() { 0 } else { self.stretch(to - 1) - self.stretch(from) + 1 }
    }

    /// The number of the stretch that contains point number `at`.
    fn stretch(&self, at: u64) -> u64 {
        self.ends.partition_point(|end| *end <= at) as u64
    }

    /// The points from number `from` to `to`, as a list. `None` if there is no memory.
    pub(super) fn part(&self, points: &Points, from: u64, to: u64) -> Option<Points> {
        let these = self.run(from)..self.starts.partition_point(|start| *start < to);
        let mut runs = Vec::new();
        runs.try_reserve_exact(these.len()).ok()?;
        for (run, start) in points.runs[these.clone()].iter().zip(&self.starts[these]) {
            let (skip, end) = (from.saturating_sub(*start), run.len.min(to - start));
            runs.push(Stretch { at: run.at + skip, len: end - skip });
        }
        let shape = Dims::from_slice(&[to - from]);
        let (axes, extent, reach) = (points.axes.clone(), points.extent.clone(), points.reach.clone());
        Some(Points { axes, extent, shape, before: points.before, runs, reach })
    }

    /// The index of point number `at`, along each axis with points.
    pub(super) fn index(&self, points: &Points, at: u64) -> Dims {
        let run = self.run(at);
        unravel(points.runs[run].at + (at - self.starts[run]), &points.extent)
    }

    /// The run that contains point number `at`.
    fn run(&self, at: u64) -> usize {
        self.starts.partition_point(|start| *start <= at) - 1
    }
}

/// The last number that is greater than `low` and not greater than `high`.
fn last_between(ascending: &[u64], low: u64, high: u64) -> Option<u64> {
    let end = ascending.partition_point(|at| *at <= high);
    ascending[..end].last().copied().filter(|at| *at > low)
}

/// The first number that is greater than `low` and not greater than `high`.
fn first(ascending: &[u64], low: u64, high: u64) -> Option<u64> {
    let next = ascending.partition_point(|at| *at <= low);
    ascending.get(next).copied().filter(|at| *at <= high)
}

fn unravel(mut at: u64, extent: &[u64]) -> Dims {
    let mut index = Dims::from_elem(0, extent.len());
    for (index, len) in index.iter_mut().zip(extent).rev() {
        (*index, at) = (at % len, at / len);
    }
    index
}

/// For each stretch, its chunk and the number of its first point. `None` if there is no memory.
fn stretches(points: &Points, chunk: &[u64]) -> Option<Vec<(u64, u64)>> {
    let last = points.extent.len() - 1;
    let mut stretches: Vec<(u64, u64)> = Vec::new();
    let (mut row, mut number, mut count) = (0..0, 0, 0);
    for Stretch { mut at, mut len } in points.runs.iter().copied() {
        while len > 0 {
            if !row.contains(&at) {
                let index = unravel(at, &points.extent);
                let within = index[last] % chunk[last];
                row = at - within..at + (chunk[last] - within).min(points.extent[last] - index[last]);
                let axes = points.extent.iter().zip(chunk).zip(&index);
                number = axes.fold(0, |all, ((len, chunk), at)| all * len.div_ceil(*chunk) + at / chunk);
            }
            if stretches.last().is_none_or(|(before, _)| *before != number) {
                stretches.try_reserve(1).ok()?;
                stretches.push((number, count));
            }
            let here = len.min(row.end - at);
            (at, len, count) = (at + here, len - here, count + here);
        }
    }
    Some(stretches)
}

/// Ends of stretches after which no earlier chunk is visited again. `None`: any end may be used.
fn free(mut stretches: Vec<(u64, u64)>, count: u64) -> Option<Vec<u64>> {
    let all = stretches.len();
    if stretches.is_sorted() {
        return None;
    }
    stretches.sort_unstable();
    // For each chunk, where its first and its last stretch start.
    let mut visits = stretches;
    let (mut chunks, mut current) = (0, None);
    for n in 0..visits.len() {
        let (chunk, start) = visits[n];
        if current.replace(chunk) == Some(chunk) {
            visits[chunks - 1].1 = start;
        } else {
            visits[chunks] = (start, start);
            chunks += 1;
        }
    }
    if all <= 2 * chunks {
        return None;
    }
    visits.truncate(chunks);
    visits.sort_unstable();
    let mut free = Vec::new();
    let mut open = 0;
    for (first, last) in visits {
        if first > open {
            free.push(first);
        }
        open = open.max(last);
    }
    free.push(count);
    Some(free)
}
