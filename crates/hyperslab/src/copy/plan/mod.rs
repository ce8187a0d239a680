//! The plan of a copy: from the geometry of source and target, which blocks are copied, and through
//! which temporary arrays.
//!
//! A *pass* is one walk over an array, block by block: each block is read, and written. Blocks own
//! whole objects of what is written (chunks, or shards), so that each is encoded and written once; of
//! an object that memory cannot hold, they are parts that divide it. A source chunk that several
//! blocks share is decoded by each of them. How often that happens in all is a product over the axes:
//! along one axis, blocks and source chunks are two grids, and counts the pieces that both cut it
//! into ([`axis::pieces`]).
//!
//! 1. Of all lengths of blocks, take those that cut source chunks least often within memory
//!    ([`search`]).
//! 2. Lengthen the slowest axes until there is enough work for all threads at once. (Slowest first,
//!    because chunks then stay in one piece in the block's memory, and are decoded and encoded without
//!    a copy.)
//! 3. If source chunks are decoded several times all the same, look at plans that go through temporary
//!    arrays ([`intermediate`]): more passes, but none that decodes again and again.
//! 4. Take the cheapest by [`costs`].
//!
//! A plan describes blocks and does not list them. It needs no I/O, and memory and time that do not
//! grow with the array.

mod axis;
mod costs;
mod intermediate;
mod search;
mod text;

use crate::Dims;
use axis::{Axis, divisor_below, pieces};
pub(crate) use costs::Reach;

/// Bytes from which a larger block brings no more speed: it only leaves the cache.
pub(crate) const ENOUGH: u64 = 32 << 20;

/// A temporary array has to save at least this part of the time: it takes room on the disk.
const WORTH_IT: f64 = 0.8;

/// How one side of a pass is stored.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    /// What is decoded or encoded at once.
    pub(crate) chunk: Dims,
    /// Where in the array that begins what is copied. Of a target: 0, objects begin there.
    pub(crate) offset: Dims,
    /// What one object holds: a shard, or a chunk.
    pub(crate) object: Dims,
    /// What can be appended to an object at once: a chunk, or of shards in shards one that lies in the
    /// object.
    pub(crate) part: Dims,
    /// Whether all objects have one shape.
    pub(crate) regular: bool,
    /// Whether there are chunks. Otherwise only what is wanted is read.
    pub(crate) chunked: bool,
    /// Whether chunks go through codecs.
    pub(crate) coded: bool,
    /// Bytes as stored, if somebody knows.
    pub(crate) stored: Option<u64>,
    pub(crate) reach: Reach,
}

/// What is copied, as far as a plan is concerned.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(crate) shape: Dims,
    /// Bytes of one element.
    pub(crate) element: u64,
    pub(crate) source: Side,
    pub(crate) target: Side,
    /// The most bytes in memory, unless a chunk of each side takes more.
    pub(crate) memory: u64,
    /// How many blocks are in memory together.
    pub(crate) blocks: u64,
    pub(crate) threads: usize,
    /// Inner chunks of a shard that are encoded at a time.
    pub(crate) in_flight: usize,
    /// Bytes from which a block need not be longer ([`ENOUGH`], or what a part of the copy has).
    pub(crate) enough: u64,
    /// How temporary arrays are reached, and the most bytes that they may take; `None`: there is no
    /// place for them.
    pub(crate) temporary: Option<(Reach, u64)>,
}

/// How an array is copied.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CopyPlan {
    /// Walks over the array: one, or with temporary arrays in between more.
    pub passes: Vec<Pass>,
    /// Bytes of all elements in memory.
    pub bytes: u64,
    /// Why there are temporary arrays, or none.
    pub why: String,
}

/// One walk over an array, from a source to a target.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Pass {
    /// Elements per axis of a source chunk.
    pub source_chunk: Vec<u64>,
    /// Elements per axis of a target chunk.
    pub target_chunk: Vec<u64>,
    /// Elements per axis of what one object of the target holds: a shard, or a chunk.
    pub target_object: Vec<u64>,
    /// Elements per axis of a block.
    pub block: Vec<u64>,
    /// Parts per axis in which an object is written, of one that memory cannot hold.
    pub parts: Vec<u64>,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of source chunks.
    pub chunks: u64,
    /// How many source chunks are decoded in all, each as often as blocks share it.
    pub decoded: u64,
    /// Number of objects that are written.
    pub objects: u64,
    /// Bytes that are read.
    pub read: u64,
    /// Bytes that are written, about.
    pub written: u64,
    /// The most bytes in memory: the block, and the chunks that threads have at hand.
    pub memory: u64,
    /// Threads, of which each has chunks at hand.
    pub threads: usize,
    /// About how long it takes, by the costs that plans are chosen by.
    pub seconds: f64,
    /// Bytes of the blocks that are in memory together.
    pub(crate) buffer: u64,
    /// The smallest blocks that cut source chunks no more often: for arrays of which little is stored.
    pub(crate) small: Vec<u64>,
}

impl Geometry {
    /// The best plan.
    pub(crate) fn plan(&self) -> CopyPlan {
        let direct = vec![self.pass(&self.source, &self.target)];
        let times = direct.iter().map(Pass::times).fold(1.0, f64::max);
        let bytes = self.bytes(&self.shape);
        let plan = |passes, why| CopyPlan { passes, bytes, why };
        if times <= 1.0 {
            return plan(direct, "each source chunk is decoded once".into());
        }
        let again = format!("each source chunk is decoded {} times", text::rounded(times));
        let Some((reach, room)) = self.temporary else {
            return plan(direct, format!("{again}: there is no place for a temporary array"));
        };
        if room < bytes {
            return plan(direct, format!("{again}: there is no room on the disk for a temporary array"));
        }
        let through = |chunks: Vec<Dims>| {
            let arrays: Vec<Side> = chunks.into_iter().map(|chunk| Side::temporary(chunk, reach)).collect();
            let (first, last) = (std::slice::from_ref(&self.source), std::slice::from_ref(&self.target));
            let sides = [first, &arrays, last].concat();
            sides.windows(2).map(|pair| self.pass(&pair[0], &pair[1])).collect::<Vec<Pass>>()
        };
        let most = self.memory.max(direct[0].memory);
        let others = intermediate::chunks(self).into_iter().map(through);
        let others = others.filter(|passes| {
            temporary_bytes(bytes, passes) <= room && passes.iter().all(|pass| pass.memory <= most)
        });
        let best = others.min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        let (alone, best) = (seconds(&direct), best.unwrap_or_default());
        let less = |than: &str, with: f64, without: f64| {
            format!("about {} {than} {}", text::duration(with), text::duration(without))
        };
        if best.is_empty() || seconds(&best) >= alone * WORTH_IT {
            let why = match best.is_empty() {
                true => format!("{again}: memory is too small for a temporary array"),
                false => {
                    format!("{again}: {}", less("through a temporary array, directly", seconds(&best), alone))
                }
            };
            return plan(direct, why);
        }
        let why = format!("directly, {again}: {}", less("through it, directly", seconds(&best), alone));
        plan(best, why)
    }

    /// A plan of one pass.
    pub(crate) fn direct(&self) -> CopyPlan {
        Geometry { temporary: None, ..self.clone() }.plan()
    }

    /// That of comparing source and target, which takes two blocks.
    pub(crate) fn comparing(&self) -> Geometry {
        Geometry { blocks: self.blocks.saturating_mul(2), ..self.clone() }
    }

    /// Bytes of what is inside the array of a box that begins at its origin.
    fn bytes(&self, len: &[u64]) -> u64 {
        let inside = len.iter().zip(&self.shape).map(|(n, extent)| n.min(extent));
        inside.fold(self.element, |bytes, n| bytes.saturating_mul(*n))
    }

    /// Bytes that a thread has at hand of a chunk of one side: encoded, and decoded.
    fn at_hand(&self, side: &Side) -> u64 {
        let bytes = side.part.iter().fold(self.element, |bytes, n| bytes.saturating_mul(*n));
        match (side.chunked, side.coded) {
            (false, false) => 0,
            (_, true) => bytes.saturating_mul(2),
            (_, false) => bytes,
        }
    }

    /// How many threads work, and the bytes that all of them have at hand.
    fn workers(&self, source: &Side, target: &Side) -> (usize, u64) {
        let each = self.at_hand(source).max(self.at_hand(target));
        let fit = (self.memory / 2).checked_div(each).unwrap_or(u64::MAX);
        let threads = self.threads.min(usize::try_from(fit).unwrap_or(usize::MAX)).max(1);
        let mut all = each.saturating_mul(threads as u64);
        if target.object != target.part {
            // Inner chunks that wait for their turn in the shard, and its index, which is encoded.
            let early = self.in_flight.saturating_sub(threads) as u64;
            let part = self.bytes(&target.part).saturating_mul(early);
            let count = target
                .object
                .iter()
                .zip(&target.part)
                .fold(1u64, |n, (object, part)| n.saturating_mul(object / part.max(&1)));
            all = all.saturating_add(part).saturating_add(count.saturating_mul(32));
        }
        (threads, all)
    }

    /// One pass from a source to a target.
    pub(crate) fn pass(&self, source: &Side, target: &Side) -> Pass {
        let (threads, at_hand) = self.workers(source, target);
        let budget = self.memory.saturating_sub(at_hand) / self.blocks.max(1);
        let whole = self.bytes(&target.object) <= budget;
        let in_parts = !whole && target.regular;
        let step = if whole { &target.object } else { &target.part };
        let axis = |axis: usize| Axis {
            extent: self.shape[axis],
            source: source.chunk[axis],
            offset: source.offset[axis] % source.chunk[axis].max(1),
            step: step[axis],
            object: in_parts.then_some(target.object[axis]),
        };
        let axes: Vec<Axis> = (0..self.shape.len()).map(axis).collect();
        let small = search::search(&axes, budget / self.element.max(1));
        let block = self.lengthened(&small, budget, in_parts.then_some(&target.object));
        self.pass_of(source, target, (threads, at_hand), (block, small), in_parts)
    }

    /// One pass in these blocks; `in_parts`: they are parts of objects.
    fn pass_of(
        &self,
        source: &Side,
        target: &Side,
        (threads, at_hand): (usize, u64),
        (block, small): (Dims, Dims),
        in_parts: bool,
    ) -> Pass {
        let parts: Vec<u64> = match in_parts {
            // What is longer than the array has one part along it.
            true => (0..block.len())
                .map(|k| if block[k] < self.shape[k] { target.object[k] / block[k] } else { 1 })
                .collect(),
            false => vec![1; block.len()],
        };
        let product = |count: &dyn Fn(usize) -> u64| {
            (0..self.shape.len()).fold(1u64, |n, k| n.saturating_mul(count(k)))
        };
        let cut = |by: &Dims| product(&|k| pieces(self.shape[k], block[k].max(1), (by[k], source.offset[k])));
        let count = |len: &Dims| product(&|k| self.shape[k].div_ceil(len[k].max(1)));
        let touched =
            |by: &Dims| product(&|k| pieces(self.shape[k], self.shape[k].max(1), (by[k], source.offset[k])));
        let (chunks, decoded) = (touched(&source.chunk), cut(&source.chunk));
        let mut pass = Pass {
            source_chunk: source.chunk.to_vec(),
            target_chunk: target.chunk.to_vec(),
            target_object: target.object.to_vec(),
            parts,
            blocks: count(&block),
            chunks,
            decoded,
            objects: count(&target.object),
            read: 0,
            written: 0,
            memory: self.bytes(&block).saturating_mul(self.blocks).saturating_add(at_hand),
            threads,
            seconds: 0.0,
            buffer: self.bytes(&block).saturating_mul(self.blocks),
            small: small.to_vec(),
            block: block.to_vec(),
        };
        self.add_costs(&mut pass, source, target, cut(&source.object));
        pass
    }

    /// Bytes and time of a pass that opens so many objects.
    fn add_costs(&self, pass: &mut Pass, source: &Side, target: &Side, opened: u64) {
        let bytes = self.bytes(&self.shape) as f64;
        let threads = pass.threads as f64;
        let ratio = |side: &Side| side.stored.map_or(1.0, |stored| (stored as f64 / bytes.max(1.0)).min(1.0));
        let (decoding, read) = match source.coded {
            true => (bytes * pass.times() * costs::DECODE, bytes * ratio(source) * pass.times()),
            false => {
                let read = self.read_uncoded(pass, source);
                (read * costs::MOVE, read)
            }
        };
        let (encoding, written) = match target.coded {
            // As well compressed as the source.
            true => (bytes * costs::ENCODE, bytes * ratio(&self.source)),
            false => (bytes * costs::MOVE, bytes),
        };
        pass.read = read as u64;
        pass.written = written as u64;
        pass.seconds = 1e-9
            * ((decoding + encoding) / threads
                + read * source.reach.read
                + written * target.reach.write
                + opened as f64 * source.reach.open
                + pass.objects as f64 * target.reach.create);
    }

    /// Bytes that are read of chunks without codecs: rows that are wanted, or all, with the gaps that
    /// are not worth another range.
    fn read_uncoded(&self, pass: &Pass, source: &Side) -> f64 {
        let bytes = self.bytes(&self.shape) as f64;
        if !source.chunked || pass.decoded == pass.chunks {
            return bytes;
        }
        let mut row = self.element.max(1);
        for k in (0..self.shape.len()).rev() {
            let chunk = source.chunk[k].min(self.shape[k]);
            row = row.saturating_mul(chunk.min(pass.block[k]).max(1));
            if pass.block[k] < chunk {
                break;
            }
        }
        let all = self.bytes(&source.chunk) as f64 * pass.decoded as f64;
        (bytes + bytes / row as f64 * source.reach.gap as f64).min(all)
    }

    /// Longer blocks, as long as that brings speed. `object`: what they have to divide.
    fn lengthened(&self, small: &Dims, budget: u64, object: Option<&Dims>) -> Dims {
        let mut block = small.clone();
        for axis in 0..block.len() {
            let enough = budget.min(self.enough) / self.bytes(&block).max(1);
            if enough < 2 {
                break;
            }
            // A multiple of an aligned length is aligned.
            let times = match object {
                Some(object) => divisor_below(object[axis] / block[axis].max(1), enough),
                None => enough,
            };
            block[axis] = block[axis].saturating_mul(times).min(self.shape[axis]);
            if block[axis] < self.shape[axis] {
                break;
            }
        }
        block
    }
}

impl Side {
    /// A temporary array of chunks of this shape.
    fn temporary(chunk: Dims, reach: Reach) -> Side {
        Side {
            offset: Dims::from_elem(0, chunk.len()),
            object: chunk.clone(),
            part: chunk.clone(),
            chunk,
            regular: true,
            chunked: true,
            coded: false,
            stored: None,
            reach,
        }
    }
}

fn seconds(passes: &[Pass]) -> f64 {
    passes.iter().map(|pass| pass.seconds).sum()
}

impl Pass {
    /// How often a source chunk is decoded on average.
    pub fn times(&self) -> f64 {
        self.decoded as f64 / self.chunks.max(1) as f64
    }

    /// Whether objects of the target are written in parts.
    pub fn in_parts(&self) -> bool {
        self.parts.iter().any(|parts| *parts > 1)
    }
}

impl CopyPlan {
    /// About how long it takes, by the costs that plans are chosen by.
    pub fn seconds(&self) -> f64 {
        seconds(&self.passes)
    }

    /// The most bytes in memory.
    pub fn memory(&self) -> u64 {
        self.passes.iter().map(|pass| pass.memory).max().unwrap_or(0)
    }

    /// Bytes of each temporary array; the last two are on the disk together.
    pub fn temporary_bytes(&self) -> u64 {
        temporary_bytes(self.bytes, &self.passes)
    }
}

/// That of an array of so many bytes in these passes.
fn temporary_bytes(bytes: u64, passes: &[Pass]) -> u64 {
    bytes.saturating_mul(passes.len().saturating_sub(1).min(2) as u64)
}

#[cfg(test)]
mod rechunker;
#[cfg(test)]
mod tests;
