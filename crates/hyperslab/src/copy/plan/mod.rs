//! Plans a copy from the geometry of source and target: blocks, and temporary arrays.
//!
//! A *pass* is one walk over an array, block by block: each block is read and then written. Blocks
//! own whole objects (chunks or shards) of the array that is written, so each object is encoded and
//! written once. If memory cannot hold an object, blocks are parts that divide it. A source chunk
//! that several blocks share is decoded by each of them. The total number of decodings is a product
//! over the axes. Along one axis, blocks and source chunks are two grids. The axis contributes the
//! number of pieces into which both cut it ([`axis::pieces`]).
//!
//! 1. Among the block lengths that fit into memory, take the ones that cut source chunks least
//!    often ([`search`]).
//! 2. Lengthen the slowest axes until there is enough work for all threads at once. (Slowest first,
//!    because then a chunk is contiguous in the block's memory, and is decoded and encoded without
//!    a copy.)
//! 3. If source chunks are still decoded several times, consider plans that go through temporary
//!    arrays ([`intermediate`]): they have more passes, but no repeated decoding.
//! 4. Take the cheapest plan by [`costs`] and [`prices`].
//!
//! A plan describes blocks and does not list them. It needs no I/O, and its memory and time do not
//! grow with the array.

mod axis;
mod costs;
mod intermediate;
mod prices;
mod search;
mod text;

use crate::Dims;
use axis::{Axis, divisor_below, pieces};
pub(crate) use costs::Reach;
pub use prices::Prices;
pub(super) use text::bytes as bytes_text;

/// Largest useful block in bytes. A larger block is no faster: it only leaves the cache.
pub(crate) const ENOUGH: u64 = 32 << 20;

/// A plan with temporary arrays must take less than this share of a direct copy's time or price.
/// Temporary arrays need room, so they have to be worth it.
const WORTH_IT: f64 = 0.8;

/// A plan is dear if another one costs this many times less.
const DEAR: f64 = 10.0;

/// Savings below this many dollars are not worth advice.
const LITTLE: f64 = 1.0;

/// How one side of a pass is stored.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    /// The unit of decoding or encoding.
    pub(crate) chunk: Dims,
    /// The first element to copy. Zero for a target, whose objects begin there.
    pub(crate) offset: Dims,
    /// The elements of one object: a shard, or a chunk.
    pub(crate) object: Dims,
    /// The unit of appending to an object: a chunk; in nested shards, one directly in the object.
    pub(crate) part: Dims,
    /// `true`: all objects have one shape.
    pub(crate) regular: bool,
    /// `true`: there are chunks. `false`: only the wanted elements are read.
    pub(crate) chunked: bool,
    /// `true`: chunks go through codecs.
    pub(crate) coded: bool,
    /// Stored bytes, if known.
    pub(crate) stored: Option<u64>,
    pub(crate) reach: Reach,
    pub(crate) is_temporary: bool,
}

/// The properties of a copy that matter for its plan.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(crate) shape: Dims,
    /// Bytes of one element.
    pub(crate) element: u64,
    pub(crate) source: Side,
    pub(crate) target: Side,
    /// The memory limit in bytes. Exceeded only if a chunk of each side needs more.
    pub(crate) memory: u64,
    /// Number of blocks in memory at once.
    pub(crate) blocks: u64,
    pub(crate) threads: usize,
    /// Number of requests to the target that are worth making at once. 0: it is near.
    pub(crate) requests: usize,
    /// These requests may hold the memory divided by this number.
    pub(crate) requests_share: u64,
    /// Number of inner chunks of a shard that are encoded at once.
    pub(crate) in_flight: usize,
    /// Bytes that are enough for a block: [`ENOUGH`], or the size of a part of the copy.
    pub(crate) enough: u64,
    /// The same for blocks of whole objects: a task has at least one. Parts of an object are always in
    /// one task, so their lengths do not depend on it.
    pub(crate) enough_whole: u64,
    /// The costs and the maximum bytes of temporary arrays; `None`: there is no place for them.
    pub(crate) temporary: Option<(Reach, u64)>,
    pub(crate) prices: Prices,
    /// Number of tasks that run at once.
    pub(crate) workers: u64,
}

/// The plan for copying an array.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CopyPlan {
    /// Walks over the array: one, or several with temporary arrays in between.
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
    /// Elements per axis of one object of the target: a shard, or a chunk.
    pub target_object: Vec<u64>,
    /// Elements per axis of a block.
    pub block: Vec<u64>,
    /// Parts per axis in which an object is written if memory cannot hold it.
    pub parts: Vec<u64>,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of source chunks.
    pub chunks: u64,
    /// Number of chunk decodings. A chunk is decoded by each block that shares it.
    pub decoded: u64,
    /// Number of objects that are written.
    pub objects: u64,
    /// Bytes to read.
    pub read: u64,
    /// Approximate bytes to write.
    pub written: u64,
    /// Maximum bytes in memory: the block, and the chunks that threads have at hand.
    pub memory: u64,
    /// Number of threads. Each has chunks at hand.
    pub threads: usize,
    /// Number of requests to a target on a server that are on their way at a time. Each holds a
    /// chunk in memory.
    pub requests: usize,
    /// Estimated duration, by the costs that choose plans.
    pub seconds: f64,
    /// Estimated number of requests that read from a server.
    pub gets: u64,
    /// Estimated number of requests that write to a server.
    pub puts: u64,
    /// Estimated price of the requests, and of temporary arrays while the pass runs, in dollars.
    pub dollars: f64,
    /// Bytes of the blocks that are in memory at once.
    pub(crate) buffer: u64,
    /// The smallest blocks that cut source chunks no more often: for arrays with little stored.
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
        let again = format!("each source chunk is decoded {} times", text::format_decimal(times));
        let Some((reach, room)) = self.temporary else {
            return plan(direct, format!("{again}: there is no place for a temporary array"));
        };
        if room < bytes {
            return plan(direct, format!("{again}: there is no room on the disk for a temporary array"));
        }
        let most = self.memory.max(direct[0].memory);
        // Threads have chunks at hand, and requests hold chunks. Between servers that memory may be
        // worth more in blocks.
        let crews: &[Geometry] = &match reach.far {
            true => vec![
                self.clone(),
                Geometry { threads: 1, ..self.clone() },
                Geometry {
                    threads: 1,
                    requests_share: self.requests_share.saturating_mul(2),
                    ..self.clone()
                },
            ],
            false => vec![self.clone()],
        };
        let through = |chunks: Vec<Dims>| {
            let arrays: Vec<Side> =
                chunks.into_iter().map(|chunk| Side::temporary_side(chunk, reach)).collect();
            let (first, last) = (std::slice::from_ref(&self.source), std::slice::from_ref(&self.target));
            let sides = [first, &arrays, last].concat();
            let cheapest = |pair: &[Side]| {
                let passes = crews.iter().map(|of| of.pass(&pair[0], &pair[1]));
                let expense = |pass: &Pass| self.expense(std::slice::from_ref(pass));
                let fitting = passes.filter(|pass| pass.memory <= most);
                fitting.min_by(|a, b| expense(a).total_cmp(&expense(b)))
            };
            // `None`: a pass needs more memory.
            sides.windows(2).map(cheapest).collect::<Option<Vec<Pass>>>()
        };
        let mut lists: Vec<Vec<Dims>> = Vec::new();
        for chunks in crews.iter().flat_map(intermediate::chunks) {
            if !lists.contains(&chunks) {
                lists.push(chunks);
            }
        }
        let others = lists.into_iter().filter_map(through);
        let others = others.filter(|passes| temporary_bytes(bytes, passes) <= room);
        let best = others.min_by(|a, b| self.expense(a).total_cmp(&self.expense(b)));
        let best = best.unwrap_or_default();
        let less = |than: &str| format!("about {} {than} {}", text::effort(&best), text::effort(&direct));
        if best.is_empty() || self.expense(&best) >= self.expense(&direct) * WORTH_IT {
            let why = match best.is_empty() {
                true => format!("{again}: memory is too small for a temporary array"),
                false => format!("{again}: {}", less("through a temporary array, directly")),
            };
            return plan(direct, why);
        }
        let why = format!("directly, {again}: {}", less("through it, directly"));
        plan(best, why)
    }

    /// The cost of a plan in dollars. Between disks this is proportional to its time.
    fn expense(&self, passes: &[Pass]) -> f64 {
        dollars(passes) + self.prices.work(seconds(passes))
    }

    /// Advice for a plan that is ten times dearer than another one. `None`: there is no such plan,
    /// or it would save less than a dollar.
    pub(crate) fn advice(&self, plan: &CopyPlan) -> Option<String> {
        let dear = self.expense(&plan.passes);
        if dear < LITTLE {
            return None;
        }
        let is_cheap = |other: &CopyPlan| {
            let cheap = self.expense(&other.passes);
            cheap * DEAR <= dear && dear - cheap >= LITTLE
        };
        let with = |memory: u64, temporary| Geometry { memory, temporary, ..self.clone() }.plan();
        let say = |other: &CopyPlan, how: String| {
            format!(
                "this plan costs about {}; {how} it would cost about {}",
                text::money(dear),
                text::money(self.expense(&other.passes))
            )
        };
        let anywhere = Some((self.target.reach, u64::MAX));
        // Values of variable length go through several blocks, and not through temporary arrays.
        if self.blocks == 1 && self.temporary.is_none_or(|(_, room)| room < u64::MAX) {
            let other = with(self.memory, anywhere);
            if is_cheap(&other) {
                return Some(say(&other, "with room for temporary arrays".into()));
            }
        }
        [4, 16, 64].into_iter().find_map(|times| {
            let memory = self.memory.saturating_mul(times);
            let other = with(memory, self.temporary);
            is_cheap(&other).then(|| say(&other, format!("with max_memory={memory}")))
        })
    }

    /// The best plan with one pass.
    pub(crate) fn one_pass_plan(&self) -> CopyPlan {
        Geometry { temporary: None, ..self.clone() }.plan()
    }

    /// The geometry for comparing source and target, which needs two blocks.
    pub(crate) fn comparing(&self) -> Geometry {
        Geometry { blocks: self.blocks.saturating_mul(2), ..self.clone() }
    }

    /// The bytes inside the array of a box that begins at the array's origin.
    fn bytes(&self, len: &[u64]) -> u64 {
        let inside = len.iter().zip(&self.shape).map(|(n, extent)| n.min(extent));
        inside.fold(self.element, |bytes, n| bytes.saturating_mul(*n))
    }

    /// Bytes that a thread has at hand for a chunk of one side: encoded and decoded.
    fn at_hand(&self, side: &Side) -> u64 {
        let bytes = side.part.iter().fold(self.element, |bytes, n| bytes.saturating_mul(*n));
        match (side.chunked, side.coded) {
            (false, false) => 0,
            (_, true) => bytes.saturating_mul(2),
            (_, false) => bytes,
        }
    }

    /// Number of requests to the target at a time, and the bytes that they hold.
    fn requests(&self, target: &Side, threads: usize) -> (usize, u64) {
        let sharded = target.object != target.part;
        let each = if sharded { target.object_bytes(self.element) } else { self.at_hand(target) };
        let fit = (self.memory / self.requests_share.max(1)).checked_div(each).unwrap_or(u64::MAX);
        let most = if sharded { self.in_flight } else { usize::MAX };
        let requests = self.requests.min(usize::try_from(fit).unwrap_or(usize::MAX)).min(most);
        match requests > threads {
            true => (requests, each.saturating_mul(requests as u64)),
            false => (threads, 0),
        }
    }

    /// Numbers of threads and of requests, and the bytes that all of them have at hand.
    fn workers(&self, source: &Side, target: &Side) -> (usize, usize, u64) {
        let each = self.at_hand(source).max(self.at_hand(target));
        let fit = (self.memory / 2).checked_div(each).unwrap_or(u64::MAX);
        let threads = self.threads.min(usize::try_from(fit).unwrap_or(usize::MAX)).max(1);
        let mut all = each.saturating_mul(threads as u64);
        if target.object != target.part {
            // Inner chunks that wait for their turn in the shard, and the shard's encoded index.
            let early = self.in_flight.saturating_sub(threads) as u64;
            let part = self.bytes(&target.part).saturating_mul(early);
            let count = target
                .object
                .iter()
                .zip(&target.part)
                .fold(1u64, |n, (object, part)| n.saturating_mul(object / part.max(&1)));
            all = all.saturating_add(part).saturating_add(count.saturating_mul(32));
        }
        let (requests, held) = self.requests(target, threads);
        (threads, requests, all.max(held))
    }

    /// Plans one pass from a source to a target.
    pub(crate) fn pass(&self, source: &Side, target: &Side) -> Pass {
        let workers = self.workers(source, target);
        let (_, _, at_hand) = workers;
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
        let block = self.lengthen_blocks(&small, budget, in_parts.then_some(&target.object));
        self.pass_of(source, target, workers, (block, small), in_parts)
    }

    /// One pass with these blocks; `in_parts`: they are parts of objects.
    fn pass_of(
        &self,
        source: &Side,
        target: &Side,
        (threads, requests, at_hand): (usize, usize, u64),
        (block, small): (Dims, Dims),
        in_parts: bool,
    ) -> Pass {
        let parts: Vec<u64> = match in_parts {
            // Along an axis that the block spans, there is one part.
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
            requests,
            seconds: 0.0,
            gets: 0,
            puts: 0,
            dollars: 0.0,
            buffer: self.bytes(&block).saturating_mul(self.blocks),
            small: small.to_vec(),
            block: block.to_vec(),
        };
        self.add_costs(&mut pass, source, target, cut(&source.object));
        pass
    }

    /// Sets the bytes and the time of a pass that opens `opened` objects.
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
            // Assume that it compresses as well as the source.
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
        let stored = |side: &Side, len: &Dims| self.bytes(len) as f64 * ratio(side);
        let object = stored(source, &source.object);
        let visits = if source.coded { pass.decoded } else { self.rows(pass, source) };
        pass.gets = prices::gets(source, (opened, object), (visits, stored(source, &source.chunk)));
        let compressed = if target.coded { ratio(&self.source) } else { 1.0 };
        let object = self.bytes(&target.object) as f64 * compressed;
        pass.puts = prices::puts(target, pass.objects, object);
        pass.dollars = self.prices.pass(pass, (source, target), self.workers, bytes);
    }

    /// Bytes read from chunks without codecs.
    /// These are the wanted rows, with the gaps that are cheaper to read than to skip; at most
    /// everything.
    fn read_uncoded(&self, pass: &Pass, source: &Side) -> f64 {
        let bytes = self.bytes(&self.shape) as f64;
        if !source.chunked || pass.decoded == pass.chunks {
            return bytes;
        }
        let all = self.bytes(&source.chunk) as f64 * pass.decoded as f64;
        (bytes + bytes / self.row(pass, source) as f64 * source.reach.gap as f64).min(all)
    }

    /// Number of ranges that are read from chunks without codecs: rows, or chunks whose rows are
    /// read together with the gaps.
    fn rows(&self, pass: &Pass, source: &Side) -> u64 {
        let bytes = self.bytes(&self.shape);
        let together = self.read_uncoded(pass, source) >= bytes as f64 * pass.times();
        if together { pass.decoded } else { (bytes / self.row(pass, source)).max(pass.decoded) }
    }

    /// Bytes that a block reads from a chunk of the source without a gap.
    fn row(&self, pass: &Pass, source: &Side) -> u64 {
        let mut row = self.element.max(1);
        for k in (0..self.shape.len()).rev() {
            let chunk = source.chunk[k].min(self.shape[k]);
            row = row.saturating_mul(chunk.min(pass.block[k]).max(1));
            if pass.block[k] < chunk {
                break;
            }
        }
        row
    }

    /// Lengthens blocks as long as this makes the copy faster. `object`: lengths must divide this.
    fn lengthen_blocks(&self, small: &Dims, budget: u64, object: Option<&Dims>) -> Dims {
        let mut block = small.clone();
        let most = if object.is_some() { self.enough } else { self.enough_whole };
        for axis in 0..block.len() {
            let enough = budget.min(most) / self.bytes(&block).max(1);
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
    /// Bytes of the elements of an object.
    pub(crate) fn object_bytes(&self, element: u64) -> u64 {
        self.object.iter().fold(element, |bytes, n| bytes.saturating_mul(*n))
    }

    /// A temporary array with chunks of this shape.
    fn temporary_side(chunk: Dims, reach: Reach) -> Side {
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
            is_temporary: true,
        }
    }
}

fn seconds(passes: &[Pass]) -> f64 {
    passes.iter().map(|pass| pass.seconds).sum()
}

fn dollars(passes: &[Pass]) -> f64 {
    passes.iter().map(|pass| pass.dollars).sum()
}

impl Pass {
    /// The average number of times that a source chunk is decoded.
    pub fn times(&self) -> f64 {
        self.decoded as f64 / self.chunks.max(1) as f64
    }

    /// Returns `true` if objects of the target are written in parts.
    pub fn in_parts(&self) -> bool {
        self.parts.iter().any(|parts| *parts > 1)
    }
}

impl CopyPlan {
    /// Estimated duration, by the costs that choose plans.
    pub fn seconds(&self) -> f64 {
        seconds(&self.passes)
    }

    /// Estimated price of requests and of temporary arrays, in dollars.
    pub fn dollars(&self) -> f64 {
        dollars(&self.passes)
    }

    /// Maximum bytes in memory.
    pub fn memory(&self) -> u64 {
        self.passes.iter().map(|pass| pass.memory).max().unwrap_or(0)
    }

    /// Bytes of all temporary arrays that are on the disk at once: at most two.
    pub fn temporary_bytes(&self) -> u64 {
        temporary_bytes(self.bytes, &self.passes)
    }
}

/// Bytes of temporary arrays on the disk at once, for an array of `bytes` bytes.
fn temporary_bytes(bytes: u64, passes: &[Pass]) -> u64 {
    bytes.saturating_mul(passes.len().saturating_sub(1).min(2) as u64)
}

#[cfg(test)]
mod rechunker;
#[cfg(test)]
mod tests;
