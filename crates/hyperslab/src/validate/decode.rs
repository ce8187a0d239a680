//! Reads and decodes every stored chunk of an array.
//!
//! Threads claim blocks of whole chunks and decode them into their own memory, as for statistics. If a
//! block fails, its chunks are read one by one: each bad chunk is named, and the others go on.

use super::blame::Blame;
use super::finding::{Finding, Findings, Kind, Level};
use super::journal::{Checked, Journal};
use super::parts::{self, Numbers};
use crate::copy::Progress;
use crate::nodes::info::array_bytes;
use crate::statistics::blocks::Blocks;
use crate::{Array, Dims, Error, Index, ReadOptions, Result, Selection, workers};
use hyperslab_array::{
    self as engine, ArrayError, ArrayLayout, Location, Target, element_count, inspect_shard,
};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Bytes of elements between two records of a journal. That takes a second or less, and 1 TB has 4000
/// records.
const PART: u64 = 256 << 20;

/// Larger chunks are not decoded beyond the end of their array.
const LARGEST_WHOLE: u64 = 256 << 20;

thread_local! {
    /// Decoded elements. Kept from block to block.
    static MEMORY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The decoding of the stored chunks of one array.
pub(super) struct Decoding<'a> {
    array: &'a Array,
    path: &'a str,
    layout: Arc<ArrayLayout>,
    blocks: Blocks,
    /// The stored objects, if they are known.
    stored: Option<&'a [Dims]>,
    present: Option<HashSet<String>>,
}

impl<'a> Decoding<'a> {
    pub fn new(array: &'a Array, path: &'a str, stored: Option<&'a [Dims]>) -> Result<Self> {
        let layout = whole_chunks(array);
        let region: Vec<Range<u64>> = layout.shape().iter().map(|n| 0..*n).collect();
        let blocks = Blocks::new(array, &region);
        let of_zarr = stored.filter(|_| array.as_zarr().is_some());
        let present = of_zarr.map(|places| keys(array, places)).transpose()?;
        Ok(Decoding { array, path, layout, blocks, stored, present })
    }

    /// All blocks of the array, also those without a stored chunk.
    pub fn count(&self) -> u64 {
        self.blocks.count()
    }

    /// The blocks that have stored chunks.
    pub fn numbers(&self) -> Numbers {
        match self.stored {
            Some(places) => Numbers::of(self.blocks.of_objects(self.array, places).into_iter().collect()),
            None => Numbers::range(0..self.blocks.count()),
        }
    }

    /// The blocks that have elements of an object.
    pub fn blocks_of(&self, place: &Dims) -> HashSet<u64> {
        self.blocks.of_objects(self.array, std::slice::from_ref(place))
    }

    /// Bytes of the elements of a block.
    pub fn block_bytes(&self, number: u64) -> u64 {
        bytes_of(&self.layout, &self.blocks.ranges(number))
    }

    /// Decodes blocks. Returns the bytes of decoded elements. `left`: bytes of progress that may still be
    /// told.
    pub fn run(
        &self,
        numbers: &Numbers,
        threads: usize,
        findings: &Findings,
        progress: Option<&dyn Progress>,
        left: &Cell<u64>,
    ) -> Result<u64> {
        let count = numbers.len();
        let job = Job {
            array: self.array,
            path: self.path,
            layout: &self.layout,
            blocks: &self.blocks,
            present: self.present.as_ref(),
            // A distant store needs many requests at once.
            threads: match count <= 1 || self.layout.store().cost().waiting_dominates() {
                true => None,
                false => Some(1),
            },
            findings,
            done: AtomicU64::new(0),
            decoded: AtomicU64::new(0),
            given_up: AtomicBool::new(false),
        };
        let ask = || progress.is_some_and(Progress::cancelled);
        let tell = || {
            if let Some(progress) = progress {
                let bytes = job.done.swap(0, Relaxed).min(left.get());
                left.set(left.get() - bytes);
                progress.advance(bytes);
            }
        };
        let outcome = workers::share(count, threads, &ask, &tell, &|n, stop| job.block(numbers.get(n), stop));
        MEMORY.take();
        outcome?;
        tell();
        Ok(job.decoded.into_inner())
    }
}

/// Decodes the stored chunks of an array. Returns the bytes of decoded elements.
///
/// With a journal, parts that it knows are left out, and the others are recorded.
pub(super) fn decode(
    array: &Array,
    path: &str,
    stored: Option<&[Dims]>,
    threads: usize,
    findings: &Findings,
    progress: Option<&dyn Progress>,
    journal: Option<&mut Journal>,
) -> Result<u64> {
    let decoding = Decoding::new(array, path, stored)?;
    let numbers = decoding.numbers();
    // Chunks reach beyond the end of the array, and absent ones are left out.
    let left = Cell::new(array_bytes(array));
    let mut decoded = 0_u64;
    match journal {
        None => decoded = decoding.run(&numbers, threads, findings, progress, &left)?,
        Some(journal) => {
            let ask = || progress.is_some_and(Progress::cancelled);
            let parts = parts::cut(&decoding, &numbers, PART);
            let stamps = parts::stamps(array, &decoding, stored, &parts, &ask)?;
            for (part, stamp) in parts.iter().zip(stamps) {
                if let Some(known) = stamp.as_ref().and_then(|stamp| journal.get(stamp)) {
                    known.findings.iter().for_each(|finding| findings.put_unblamed(finding.clone()));
                    decoded = decoded.saturating_add(known.decoded);
                    let bytes = known.decoded.min(left.get());
                    left.set(left.get() - bytes);
                    progress.inspect(|progress| progress.advance(bytes));
                    continue;
                }
                let before = findings.mark();
                let bytes = decoding.run(part, threads, findings, progress, &left)?;
                decoded = decoded.saturating_add(bytes);
                // A fault of the network may have passed when the journal is read.
                if let (Some(stamp), Some(found)) = (stamp, findings.since(before))
                    && found.iter().all(|finding| finding.kind != Kind::Unreadable)
                {
                    journal.put(stamp, Checked { decoded: bytes, findings: found })?;
                }
            }
        }
    }
    if let Some(progress) = progress {
        progress.advance(left.get());
    }
    Ok(decoded)
}

/// The keys of stored objects.
fn keys(array: &Array, places: &[Dims]) -> Result<HashSet<String>> {
    let mut keys = HashSet::with_capacity(places.len());
    for place in places {
        let mut key = String::new();
        array.layout().locate(place, &mut key)?;
        keys.insert(key);
    }
    Ok(keys)
}

/// The array up to the end of its last chunks: a chunk that is decoded in part may hide damage.
fn whole_chunks(array: &Array) -> Arc<ArrayLayout> {
    let layout = array.layout();
    let grid = layout.grid();
    let plain = layout.encoding().chain().is_identity() && array.vlen().is_none();
    let bytes = element_count(grid.chunk_shape()).and_then(|n| n.checked_mul(layout.dtype().size() as u64));
    // HDF5 stores elements of variable length in heaps, which has nothing to do with chunks.
    let may_extend = array.has_chunks()
        && grid.is_regular()
        && layout.mosaic().is_none()
        && !(array.vlen().is_some() && array.as_zarr().is_none())
        && bytes.is_some_and(|bytes| bytes <= LARGEST_WHOLE);
    if plain || !may_extend {
        return layout.clone();
    }
    let shape: Dims = layout
        .shape()
        .iter()
        .zip(grid.chunk_shape())
        .map(|(n, chunk)| n.div_ceil(*chunk).saturating_mul(*chunk))
        .collect();
    match layout.with_shape(shape) {
        Ok(whole) => Arc::new(whole),
        Err(_) => layout.clone(),
    }
}

/// Bytes of the elements in some ranges.
fn bytes_of(layout: &ArrayLayout, ranges: &[Range<u64>]) -> u64 {
    let size = layout.dtype().size() as u64;
    ranges.iter().fold(size, |bytes, range| bytes.saturating_mul(range.end.saturating_sub(range.start)))
}

struct Job<'a> {
    array: &'a Array,
    path: &'a str,
    layout: &'a Arc<ArrayLayout>,
    blocks: &'a Blocks,
    present: Option<&'a HashSet<String>>,
    /// Number of threads that read a block.
    threads: Option<usize>,
    findings: &'a Findings,
    /// Bytes that have not been reported yet.
    done: AtomicU64,
    decoded: AtomicU64,
    /// All chunks fail for one reason, which was reported.
    given_up: AtomicBool,
}

impl Job<'_> {
    fn block(&self, number: u64, stop: &dyn Fn() -> bool) -> Result<()> {
        if self.given_up.load(Relaxed) {
            return Ok(());
        }
        let ranges = self.blocks.ranges(number);
        let bytes = self.bytes(&ranges);
        let outcome = match self.read(&ranges, stop) {
            Ok(()) => {
                self.decoded.fetch_add(bytes, Relaxed);
                Ok(())
            }
            Err(error) => self.chunks(&ranges, &error, stop),
        };
        self.done.fetch_add(bytes, Relaxed);
        outcome
    }

    /// Reads the chunks of a block one by one, after the block failed.
    fn chunks(&self, ranges: &[Range<u64>], error: &Error, stop: &dyn Fn() -> bool) -> Result<()> {
        let blame = Blame::of(error)?;
        let grid = self.layout.grid();
        if blame.is_of_array || !self.array.has_chunks() || ranges.is_empty() {
            return self.report(blame, None);
        }
        let numbers: Vec<Range<u64>> = ranges
            .iter()
            .enumerate()
            .map(|(axis, range)| match range.is_empty() {
                true => 0..0,
                false => grid.index_of(axis, range.start)..grid.index_of(axis, range.end - 1) + 1,
            })
            .collect();
        let mut chunk: Vec<u64> = numbers.iter().map(|range| range.start).collect();
        let (mut failed, count) = (0, numbers.iter().map(|range| range.end - range.start).product::<u64>());
        for _ in 0..count {
            if stop() {
                return Err(Error::Interrupted);
            }
            let shape = self.layout.shape();
            let own: Vec<Range<u64>> = chunk
                .iter()
                .enumerate()
                .map(|(axis, at)| {
                    let start = grid.start(axis, *at);
                    start..start + grid.len_inside(axis, *at, shape.get(axis).copied().unwrap_or(0))
                })
                .collect();
            match self.read(&own, stop) {
                Ok(()) => {
                    self.decoded.fetch_add(self.bytes(&own), Relaxed);
                }
                Err(error) => {
                    failed += 1;
                    self.report(Blame::of(&error)?, Some(&chunk))?;
                }
            }
            for (at, range) in chunk.iter_mut().zip(&numbers).rev() {
                *at += 1;
                if *at < range.end {
                    break;
                }
                *at = range.start;
            }
        }
        // The chunks can be read one by one: the fault was a passing one, or is in no chunk.
        if failed == 0 && blame.kind != Kind::Unreadable {
            return self.report(blame, None);
        }
        Ok(())
    }

    fn report(&self, blame: Blame, chunk: Option<&[u64]>) -> Result<()> {
        if blame.is_of_array && self.given_up.swap(true, Relaxed) {
            return Ok(());
        }
        // An index that is wrong as a whole is one fault, not one of each chunk.
        let of_shard = blame.kind == Kind::ShardIndex && blame.chunk.is_none();
        let chunk = chunk.map(<[u64]>::to_vec).or(blame.chunk).filter(|_| !blame.is_of_array && !of_shard);
        let (mut key, mut offset) = (blame.key, blame.offset);
        if let Some(chunk) = &chunk {
            let place = self.place(chunk);
            key = key.or_else(|| place.as_ref().map(|(key, _)| key.clone()));
            offset = offset.or_else(|| place.and_then(|(_, offset)| offset));
        }
        if self.findings.is_blamed(self.path, chunk.as_deref(), key.as_deref(), blame.is_of_array) {
            return Ok(());
        }
        let finding = self.findings.make(blame.severity, Level::Decode, blame.kind, self.path, blame.why);
        self.findings.put(Finding { chunk, key, offset, ..finding });
        Ok(())
    }

    /// The key of a chunk's object, and the chunk's first byte there.
    fn place(&self, chunk: &[u64]) -> Option<(String, Option<u64>)> {
        let (layout, mut key) = (self.array.layout(), String::new());
        if layout.sharding().is_none() {
            return match layout.locate(chunk, &mut key).ok()? {
                Location::Range { offset, .. } => Some((key, Some(offset))),
                _ => Some((key, None)),
            };
        }
        let objects = layout.object_grid();
        let element = |axis: usize, at: u64| layout.grid().start(axis, at);
        let shard: Dims =
            chunk.iter().enumerate().map(|(axis, at)| objects.index_of(axis, element(axis, *at))).collect();
        layout.locate(&shard, &mut key).ok()?;
        let found = inspect_shard(layout, &shard).ok().flatten();
        let offset = found.and_then(|found| {
            let within: Dims = chunk
                .iter()
                .zip(&found.inner)
                .enumerate()
                .map(|(axis, (at, inner))| element(axis, *at) / (*inner).max(1))
                .collect();
            found.chunks.iter().find(|entry| entry.chunk == within).map(|entry| entry.offset)
        });
        Some((key, offset))
    }

    fn bytes(&self, ranges: &[Range<u64>]) -> u64 {
        bytes_of(self.layout, ranges)
    }

    fn read(&self, ranges: &[Range<u64>], stop: &dyn Fn() -> bool) -> Result<()> {
        let indices: Vec<Index<'_>> = ranges
            .iter()
            .map(|range| Index::range(range.start.cast_signed(), range.end.cast_signed()))
            .collect();
        let selection = Selection::new(self.layout.name(), self.layout.shape(), &indices)?;
        let options = ReadOptions {
            threads: self.threads,
            verify: Some(true),
            interrupt: Some(stop),
            present: self.present,
            ..ReadOptions::default()
        };
        if self.array.vlen().is_some() {
            return match self.array.as_zarr() {
                Some(_) => Ok(engine::read_ragged(self.layout, &selection, options).map(drop)?),
                None => self.array.read_ragged(&selection, options).map(drop),
            };
        }
        let (shape, size) = (selection.shape(), self.layout.dtype().size());
        let bytes = self.bytes(ranges);
        let none = || ArrayError::Memory { array: self.layout.name().to_owned(), what: "a block", bytes };
        let len = usize::try_from(bytes).map_err(|_| none())?;
        MEMORY.with_borrow_mut(|memory| {
            if memory.len() < len {
                memory.clear();
                memory.try_reserve_exact(len).map_err(|_| none())?;
                memory.resize(len, 0);
            }
            let elements = memory.get_mut(..len).ok_or_else(none)?;
            let mut target = Target::dense(elements, &shape, size).ok_or_else(none)?;
            Ok(engine::read_into(self.layout, &selection, &mut target, options)?)
        })
    }
}
