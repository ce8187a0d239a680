//! Chooses the chunks of temporary arrays.
//!
//! A reading block consists of whole source chunks, a writing block of whole target objects. Along
//! each axis, the chunks of a temporary array between them are as long as the shorter of the two
//! blocks. Then the first pass writes each chunk once, and the second pass reads it once.
//!
//! On servers each chunk is two requests. There the writing block also grows to lengths that divide
//! the reading block, so that memory is used up and no chunk is cut.
//!
//! With less memory, the two blocks overlap less, and these chunks get smaller. In that case
//! several temporary arrays have larger chunks: the blocks between the first and the last have
//! lengths in geometric steps.

use super::axis::{divisors, gcd};
use super::{Geometry, Side};
use crate::Dims;

/// The most temporary arrays in one plan.
const MOST: usize = 4;

/// A usual chunk of a temporary array, for estimating memory.
const CHUNK: u64 = 16 << 20;

/// Threads that assemble large chunks for a server at a time.
const THREADS: usize = 8;

/// The axes along which blocks grow first.
#[derive(Clone, Copy)]
enum Growth {
    Slowest,
    Fastest,
    /// The axis along which most is missing: blocks stay compact.
    Even,
    /// All axes, to lengths that divide the other block: no chunk is cut. (The reading block grows
    /// as with `Even`.)
    Aligned,
}

/// How the lengths of chunks are chosen, along an axis on which they shrink.
#[derive(Clone, Copy)]
enum Fit {
    /// They divide the reading block: the first pass writes whole chunks.
    Reading,
    /// They are multiples of the writing block: the last pass reads whole chunks.
    Writing,
}

/// Which of the possible lengths is taken on the first axis: short chunks are assembled from few
/// blocks, and long ones need fewer requests.
#[derive(Clone, Copy)]
enum Round {
    Nearest,
    Down,
    Up,
}

impl Round {
    /// A divisor of `n` that is near to `ideal`.
    fn divisor(self, n: u64, ideal: u64) -> u64 {
        let all = divisors(n).into_iter();
        match self {
            Round::Nearest => nearest_divisor(n, ideal),
            Round::Down => all.filter(|divisor| *divisor <= ideal).max().unwrap_or(1),
            Round::Up => all.filter(|divisor| *divisor >= ideal).min().unwrap_or(n),
        }
    }
}

/// The chunks of temporary arrays: one list for each plan to consider.
pub(super) fn chunks(geometry: &Geometry) -> Vec<Vec<Dims>> {
    // A thread assembles a chunk in memory before it is written. (Larger chunks need fewer requests
    // to a server, and so are worth fewer threads.)
    let most = if geometry.target.reach.far { THREADS } else { usize::MAX };
    let largest = geometry.memory / 8 / geometry.threads.clamp(1, most) as u64;
    let least = geometry.at_hand(&geometry.source).max(geometry.at_hand(&geometry.target)).max(largest);
    let workers = least.saturating_mul(geometry.threads as u64).min(least.max(geometry.memory / 2));
    let room = geometry.memory.saturating_sub(workers) / geometry.element.max(1);
    let mut all: Vec<Vec<Dims>> = Vec::new();
    // Temporary arrays need less at hand than compressed objects of the target.
    let full = geometry.memory.saturating_sub(geometry.held_for_temporary(largest)) / geometry.element.max(1);
    let mut add = |mut chunks: Vec<Dims>| {
        chunks.iter_mut().for_each(|chunk| cut(geometry, chunk, largest));
        if !all.contains(&chunks) {
            all.push(chunks);
        }
    };
    for growth in [Growth::Slowest, Growth::Fastest] {
        let (reading, writing) = blocks(geometry, (room, room), growth);
        for count in 1..=MOST {
            for fit in [Fit::Reading, Fit::Writing] {
                add(intermediate_chunks(geometry, (&reading, &writing), count, fit));
            }
        }
    }
    // Each request to a server has its price, so fewer and larger chunks are worth a longer search.
    for growth in [Growth::Slowest, Growth::Fastest, Growth::Even, Growth::Aligned] {
        if geometry.target.reach.far {
            let (reading, writing) = blocks(geometry, (full, room), growth);
            for count in 1..=MOST {
                for round in [Round::Nearest, Round::Down, Round::Up] {
                    add(full_chunks(geometry, (&reading, &writing), (count, full), round));
                }
            }
        }
    }
    all
}

/// The block that reads whole source chunks, and the one that writes whole target objects.
/// Each is as long as the other, as far as memory allows: `full` elements in the first one, and
/// `room` in the second.
fn blocks(geometry: &Geometry, (full, room): (u64, u64), growth: Growth) -> (Dims, Dims) {
    let whole = |side: &Side, len: &Dims| -> Dims {
        // Only a part of an object that is too large.
        let elements =
            len.iter().zip(&geometry.shape).fold(1u64, |n, (len, extent)| n.saturating_mul(*len.min(extent)));
        if elements <= room { len.clone() } else { side.part.clone() }
    };
    let (read_step, write_step) =
        (geometry.source.chunk.clone(), whole(&geometry.target, &geometry.target.object));
    let inside = |len: &Dims| -> Dims {
        len.iter().zip(&geometry.shape).map(|(len, extent)| *len.min(extent)).collect()
    };
    let (mut reading, mut writing) = (inside(&read_step), inside(&write_step));
    let start = writing.clone();
    let grow = |block: &mut Dims, other: &Dims, step: &Dims, room: u64| match growth {
        Growth::Slowest => {
            (0..block.len()).for_each(|axis| geometry.grow(block, axis, (other, step), room, false))
        }
        Growth::Fastest => {
            (0..block.len()).rev().for_each(|axis| geometry.grow(block, axis, (other, step), room, false));
        }
        Growth::Even | Growth::Aligned => geometry.grow_evenly(block, other, step, room),
    };
    match growth {
        Growth::Aligned => writing = aligned(&writing, &reading, room),
        _ => grow(&mut writing, &reading, &write_step, room),
    }
    grow(&mut reading, &start, &read_step, full);
    (reading, writing)
}

/// The largest block of at most `room` elements whose lengths are multiples of `block` that divide
/// `other`. An axis without such a length stays as it is. Among equals, takes the first.
fn aligned(block: &Dims, other: &Dims, room: u64) -> Dims {
    let mut found = vec![(block.iter().fold(1u64, |n, len| n.saturating_mul(*len)), block.clone())];
    for axis in 0..block.len() {
        let (least, longest) = (block[axis].max(1), other[axis]);
        let mut lengths = divisors(longest);
        lengths.retain(|len| *len > least && len.is_multiple_of(least));
        for n in 0..found.len() {
            let (elements, lens) = found[n].clone();
            for len in &lengths {
                let elements = elements.saturating_mul(len / least);
                if elements <= room && !found.iter().any(|(known, _)| *known == elements) {
                    let mut lens = lens.clone();
                    lens[axis] = *len;
                    found.push((elements, lens));
                }
            }
        }
    }
    let largest = found.into_iter().reduce(|best, other| if other.0 > best.0 { other } else { best });
    largest.map_or_else(|| block.clone(), |(_, lens)| lens)
}

impl Geometry {
    /// Bytes that a pass holds besides its block if it reads the source and writes a temporary
    /// array.
    fn held_for_temporary(&self, largest: u64) -> u64 {
        let each = self.at_hand(&self.source).max(largest.min(CHUNK));
        let threads = each.saturating_mul(self.threads as u64).min(self.memory / 2);
        if self.requests > 0 { threads.max(self.memory / self.requests_share.max(1)) } else { threads }
    }

    /// Lengthens a block of at most `room` elements along an axis, up to the length of another one.
    /// `exact`: as far as possible. Otherwise in multiples of its length, which fit other blocks
    /// more often.
    fn grow(&self, block: &mut Dims, axis: usize, (other, step): (&Dims, &Dims), room: u64, exact: bool) {
        let elements = block.iter().fold(1u64, |n, len| n.saturating_mul(*len)).max(1);
        let longest = match exact {
            true => room / (elements / block[axis].max(1)).max(1),
            false => block[axis].saturating_mul(room / elements),
        };
        if block[axis] < other[axis] && longest > block[axis] {
            let steps = (longest / step[axis]).min(other[axis].div_ceil(step[axis]));
            block[axis] =
                steps.saturating_mul(step[axis]).clamp(block[axis], self.shape[axis].max(block[axis]));
        }
    }

    /// Doubles the block along the axis along which the other one is longest by ratio, and again.
    fn grow_evenly(&self, block: &mut Dims, other: &Dims, step: &Dims, room: u64) {
        loop {
            let missing = |axis: &usize| other[*axis] as f64 / block[*axis].max(1) as f64;
            let axis = (0..block.len()).max_by(|a, b| missing(a).total_cmp(&missing(b)));
            let Some(axis) = axis.filter(|axis| missing(axis) > 1.0) else { return };
            let elements = block.iter().fold(1u64, |n, len| n.saturating_mul(*len));
            let before = block[axis];
            self.grow(block, axis, (other, step), room.min(elements.saturating_mul(2)), true);
            if block[axis] == before {
                // The last bit of room may fit along another axis.
                (0..block.len()).for_each(|axis| self.grow(block, axis, (other, step), room, true));
                return;
            }
        }
    }
}

/// The chunks of `count` temporary arrays between two blocks.
fn intermediate_chunks(
    geometry: &Geometry,
    (reading, writing): (&Dims, &Dims),
    count: usize,
    fit: Fit,
) -> Vec<Dims> {
    let rank = geometry.shape.len();
    let mut chunks = vec![Dims::from_elem(1, rank); count];
    for axis in 0..rank {
        let (from, to) = (reading[axis].max(1), writing[axis].max(1));
        let mut last = from;
        for (n, chunk) in chunks.iter_mut().enumerate() {
            let share = (n + 1) as f64 / count as f64;
            let ideal = ((from as f64).powf(1.0 - share) * (to as f64).powf(share)).round() as u64;
            chunk[axis] = match fit {
                // The previous pass writes whole chunks: its block is a multiple of the chunk, or
                // everything.
                Fit::Reading if to < from => {
                    last = if last >= geometry.shape[axis] { ideal } else { nearest_divisor(last, ideal) };
                    last.max(1)
                }
                Fit::Writing if to < from => {
                    let times = (ideal as f64 / to as f64).round().max(1.0) as u64;
                    times.saturating_mul(to).min(geometry.shape[axis])
                }
                _ => {
                    let chunk = last;
                    last = last.saturating_mul((ideal / last).max(1));
                    chunk
                }
            };
        }
    }
    chunks
}

/// The chunks of `count` temporary arrays, with blocks of `full` elements between them.
///
/// Chunks become shorter in lengths that both blocks share, if there are any, so that no pass cuts a
/// chunk. Each pass then makes them longer along the other axes, as far as memory allows.
fn full_chunks(
    geometry: &Geometry,
    (reading, writing): (&Dims, &Dims),
    (count, full): (usize, u64),
    round: Round,
) -> Vec<Dims> {
    let mut block = reading.clone();
    let mut chunks = Vec::with_capacity(count);
    for n in 0..count {
        let mut chunk = block.clone();
        // If one axis is too long, the next one becomes shorter.
        let mut rest = 1.0;
        for axis in 0..chunk.len() {
            let (from, to) = (block[axis].max(1), writing[axis].max(1));
            if to < from {
                let share = 1.0 / (count - n) as f64;
                let ideal = (from as f64).powf(1.0 - share) * (to as f64).powf(share) * rest;
                let unit = gcd(from, to);
                let times = round.divisor(from / unit, (ideal / unit as f64).round().max(1.0) as u64);
                chunk[axis] = times.saturating_mul(unit);
                rest = ideal / chunk[axis] as f64;
            }
        }
        block = chunk.clone();
        geometry.grow_evenly(&mut block, writing, &chunk, full);
        chunks.push(chunk);
    }
    chunks
}

/// The divisor of `n` that is closest to `ideal` by ratio.
fn nearest_divisor(n: u64, ideal: u64) -> u64 {
    let all = divisors(n);
    let below = all.iter().copied().filter(|divisor| *divisor <= ideal).max().unwrap_or(1);
    let above = all.iter().copied().filter(|divisor| *divisor >= ideal).min().unwrap_or(n);
    if below.saturating_mul(above) >= ideal.saturating_mul(ideal) { below } else { above }
}

/// Shortens a chunk along the slowest axes until it has at most `most` bytes.
fn cut(geometry: &Geometry, chunk: &mut Dims, most: u64) {
    for axis in 0..chunk.len() {
        let times = geometry.bytes(chunk).div_ceil(most.max(1));
        if times <= 1 {
            break;
        }
        let shorter = chunk[axis].div_ceil(times).max(1);
        chunk[axis] = divisors(chunk[axis]).into_iter().filter(|n| *n <= shorter).max().unwrap_or(1);
    }
}
