//! What a request would do: the plan, made visible.

use crate::error::ArrayError;
use crate::layout::dims::c_strides;
use crate::layout::{ArrayLayout, Location};
use crate::mosaic;
use crate::mosaic::Mosaic;
use crate::mosaic::nesting::Nesting;
use crate::plan::strategy::Strategy;
use crate::plan::strategy::{Rows, choose_read, choose_write};
use crate::plan::{Plan, Task};
use crate::read::cache::ChunkCache;
use crate::read::cache::Wanted;
use crate::read::pieces;
use crate::read::{reach, read_region};
use crate::runtime::tasks::memory_error;
use crate::runtime::{settings, tasks};
use crate::select::Selection;
use crate::select::view::along;
use crate::shard;
use crate::shard::plan::ShardPlan;
use crate::write::write_region;
use hyperslab_codec::Reach;
use hyperslab_store::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One chunk's share of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainTask {
    /// The chunk's index per axis.
    pub chunk: Vec<u64>,
    /// The object that holds it.
    pub key: String,
    /// How it is executed.
    pub strategy: Strategy,
    /// The byte ranges of the object that are read: offset and length. Empty where nothing is read.
    pub ranges: Vec<(u64, u64)>,
    /// Selected elements of the chunk.
    pub elements: u64,
    /// Bytes read from the store.
    pub bytes_read: u64,
    /// Bytes that come out of decoders.
    pub bytes_decoded: u64,
}

/// What a request would do. `Display` prints it as text.
#[derive(Clone, Debug)]
pub struct Explain {
    /// The array's name.
    pub array: String,
    /// Whether it is a write.
    pub write: bool,
    /// Shape of the selection.
    pub shape: Vec<u64>,
    /// Bytes of the selection in memory.
    pub bytes: u64,
    /// Number of chunks touched.
    pub chunks: usize,
    /// How many of them were looked at for what follows: all, up to [`Explain::MOST_CHUNKS`].
    pub examined: usize,
    /// Number of distinct objects they lie in.
    pub objects: usize,
    /// Threads that would work on it, at most.
    pub threads: usize,
    /// How many chunks are executed by which strategy.
    pub strategies: Vec<(Strategy, usize)>,
    /// Bytes read from the store, in all; without the indexes of shards.
    pub bytes_read: u64,
    /// Bytes that come out of decoders, in all.
    pub bytes_decoded: u64,
    /// The first chunks, one by one.
    pub tasks: Vec<ExplainTask>,
}

impl Explain {
    /// The most chunks that are looked at, of an array of up to 8 axes; fewer of one with more.
    /// Each costs a look into the store, and an array may have any number of chunks: so many take
    /// about 0.1 s (x86, files in the page cache).
    pub const MOST_CHUNKS: usize = 100_000;

    /// The most chunks that are looked at of an array of so many axes.
    fn most_chunks(rank: usize) -> usize {
        Self::MOST_CHUNKS * 8 / rank.max(8)
    }
}

/// Explains [`crate::read`] of a selection; the first `list` chunks one by one. Looks chunks up in
/// the store but reads none.
pub fn explain_read(layout: &ArrayLayout, selection: &Selection, list: usize) -> Result<Explain, ArrayError> {
    explain(layout, selection, list, None, false)
}

/// Explains [`crate::read`] with [`crate::read::ReadOptions::cache`]. What is in the cache is looked at
/// now; the read itself may put chunks there and push others out.
pub fn explain_read_cached(
    layout: &ArrayLayout,
    selection: &Selection,
    list: usize,
    cache: Option<&ChunkCache>,
) -> Result<Explain, ArrayError> {
    explain(layout, selection, list, cache, false)
}

/// Explains [`crate::write`] of a selection from dense memory; the first `list` chunks one by one.
/// Whether chunks hold nothing but fill value, and are elided, depends on the elements and is not
/// foretold.
pub fn explain_write(
    layout: &ArrayLayout,
    selection: &Selection,
    list: usize,
) -> Result<Explain, ArrayError> {
    explain(layout, selection, list, None, true)
}

fn explain(
    layout: &ArrayLayout,
    selection: &Selection,
    list: usize,
    cache: Option<&ChunkCache>,
    write: bool,
) -> Result<Explain, ArrayError> {
    selection.check(layout.name(), layout.shape())?;
    let shape = selection.shape();
    let bytes = crate::layout::dims::element_count(&shape)
        .unwrap_or(u64::MAX)
        .saturating_mul(layout.dtype().size() as u64);
    // The sign that a negative step brings is kept: it decides whether a chunk is one run.
    let strides = along(selection, &shape, &c_strides(&shape, layout.dtype().size())).strides;
    let mut explain = Explain {
        array: layout.name().into(),
        write,
        shape: shape.to_vec(),
        bytes,
        chunks: 0,
        examined: 0,
        objects: 0,
        threads: 0,
        strategies: Vec::new(),
        bytes_read: 0,
        bytes_decoded: 0,
        tasks: Vec::new(),
    };
    let most = Explain::most_chunks(shape.len().max(layout.shape().len()));
    let mut seen = Seen { list, write, cache, left: most, ..Seen::default() };
    seen.visit(layout, selection, &strides, None, &mut explain)?;
    let limit = if write { tasks::write_limit(layout, None) } else { tasks::limit(None) };
    let work = tasks::work(layout, explain.chunks, bytes);
    explain.threads = tasks::worthwhile(work, tasks::INLINE_WORK, explain.chunks, limit);
    explain.examined = most - seen.left;
    explain.objects = seen.objects.len();
    explain.strategies = seen.strategies.into_values().collect();
    Ok(explain)
}

/// What has been looked at so far.
#[derive(Default)]
struct Seen<'a> {
    list: usize,
    write: bool,
    cache: Option<&'a ChunkCache>,
    /// How many more chunks are looked at.
    left: usize,
    strategies: BTreeMap<String, (Strategy, usize)>,
    /// Numbers and keys of objects: other arrays may have the same keys elsewhere.
    objects: BTreeSet<(u64, String)>,
}

impl Seen<'_> {
    fn tell(&mut self, layout: &ArrayLayout, told: ExplainTask, explain: &mut Explain) {
        self.left -= 1;
        self.strategies.entry(told.strategy.to_string()).or_insert((told.strategy, 0)).1 += 1;
        explain.bytes_read = explain.bytes_read.saturating_add(told.bytes_read);
        explain.bytes_decoded = explain.bytes_decoded.saturating_add(told.bytes_decoded);
        let object = Key::new(&told.key).map_or(0, |key| layout.store().lock_id(key));
        if !told.key.is_empty() {
            self.objects.insert((object, told.key.clone()));
        }
        if explain.tasks.len() < self.list {
            explain.tasks.push(told);
        }
    }

    /// Looks at the chunks of a selection. `strides`: of the memory that it goes to or comes from,
    /// per axis; `nesting`: what the array is a part of.
    fn visit(
        &mut self,
        layout: &ArrayLayout,
        selection: &Selection,
        strides: &[isize],
        nesting: Option<&Nesting<'_>>,
        explain: &mut Explain,
    ) -> Result<(), ArrayError> {
        if let Some(mosaic) = layout.mosaic() {
            if selection.points().is_empty() {
                return self.visit_mosaic(layout, mosaic, selection, strides, nesting, explain);
            }
            let plan =
                Plan::new(layout, selection).ok_or_else(|| memory_error(layout, "the plan", u64::MAX))?;
            return mosaic::points::for_each_box(layout, &plan, &mut |_, selection| {
                self.visit_mosaic(layout, mosaic, selection, layout.encoding().strides(), nesting, explain)
            });
        }
        let plan =
            Plan::saturating(layout, selection).ok_or_else(|| memory_error(layout, "the plan", u64::MAX))?;
        explain.chunks = explain.chunks.saturating_add(plan.len());
        let cache = self.cache.filter(|_| !layout.encoding().chain().is_identity());
        let (mut task, mut key) = (Task::default(), String::new());
        let Some(sharding) = layout.sharding() else {
            for number in 0..plan.len().min(self.left) {
                plan.task(layout, number, &mut task);
                let location = layout.locate(&task.chunk, &mut key)?;
                let told = explain_task(layout, &plan, &task, strides, cache, self.write, (&key, location))?;
                self.tell(layout, told, explain);
            }
            return Ok(());
        };
        if plan.len() == usize::MAX {
            // Chunks that cannot be counted cannot be numbered either, which those of shards are.
            return Ok(());
        }
        let shards = ShardPlan::new(layout, sharding, &plan);
        for shard in 0..shards.len() {
            if self.left == 0 {
                break;
            }
            let found = shard::find::locate(layout, sharding, &plan, &shards, shard, self.left, &mut key)?;
            for (number, range) in found {
                plan.task(layout, number, &mut task);
                let location = range.map_or(Location::Absent, |(offset, len)| Location::Range {
                    offset,
                    len,
                    skipped: 0,
                });
                let told = explain_task(layout, &plan, &task, strides, cache, self.write, (&key, location))?;
                self.tell(layout, told, explain);
            }
        }
        Ok(())
    }

    /// Looks at the chunks of the arrays that a mosaic is made of. What is filled is told as one
    /// task, of no chunk.
    fn visit_mosaic(
        &mut self,
        layout: &ArrayLayout,
        mosaic: &Mosaic,
        selection: &Selection,
        strides: &[isize],
        nesting: Option<&Nesting<'_>>,
        explain: &mut Explain,
    ) -> Result<(), ArrayError> {
        if self.write {
            layout.check_writable()?;
        }
        let left = Nesting::left();
        let nesting = match nesting {
            Some(nesting) => nesting.deeper(layout, mosaic.pieces().len(), 0)?,
            None => Nesting::new(&left),
        };
        mosaic::read::explain(layout, mosaic, selection, strides, &mut |told| match told {
            _ if self.left == 0 => Ok(()),
            mosaic::read::Told::Read(source, selection, strides) => {
                self.visit(source, selection, strides, Some(&nesting), explain)
            }
            mosaic::read::Told::Fill(elements) => {
                let told = ExplainTask {
                    chunk: Vec::new(),
                    key: String::new(),
                    strategy: Strategy::Fill,
                    ranges: Vec::new(),
                    elements,
                    bytes_read: 0,
                    bytes_decoded: 0,
                };
                explain.chunks = explain.chunks.saturating_add(1);
                self.tell(layout, told, explain);
                Ok(())
            }
        })
    }
}

fn explain_task(
    layout: &ArrayLayout,
    plan: &Plan,
    task: &Task,
    strides: &[isize],
    cache: Option<&ChunkCache>,
    write: bool,
    (key, location): (&str, Location),
) -> Result<ExplainTask, ArrayError> {
    let some = layout.without(location);
    let layout = some.as_deref().unwrap_or(layout);
    let cache = cache.filter(|_| !layout.encoding().chain().is_identity());
    let encoding = layout.encoding();
    let fail = |source| tasks::store_error(layout, task, source);
    let size = match location {
        Location::Absent => None,
        Location::Object => layout.store().size(tasks::key(layout, task, key)?).map_err(fail)?,
        Location::Range { len, .. } => Some(len),
    };
    let start = if let Location::Range { offset, .. } = location { offset } else { 0 };
    let cached = match cache {
        Some(cache) if size.is_some() => {
            let checked = tasks::key(layout, task, key)?;
            cache.holds(&Wanted::new(layout, checked, location, settings::verify_checksums()))
        }
        _ => false,
    };
    let strategy = match size {
        _ if write => choose_write(encoding, task, &write_region(layout, task, strides).0),
        None => Strategy::Fill,
        Some(_) if cached => Strategy::Cached,
        Some(_) => {
            match choose_read(encoding, task, &read_region(layout, task, strides).0, reach(layout, task)) {
                // What is to be kept is decoded as a whole.
                Strategy::DecodePart if cache.is_some() => Strategy::DecodeScatter,
                strategy => strategy,
            }
        }
    };
    let whole: Vec<(u64, u64)> = size.map(|len| (start, len)).into_iter().collect();
    let ranges = match strategy {
        Strategy::ReadInto => {
            let (region, offset) = read_region(layout, task, strides);
            vec![(start + offset as u64, region.contiguous().unwrap_or(0) as u64)]
        }
        Strategy::ReadRows => read_row_ranges(layout, plan, task, strides, start),
        Strategy::DecodeInto | Strategy::DecodePart | Strategy::DecodeScatter | Strategy::Modify => whole,
        _ => Vec::new(),
    };
    let bytes_decoded = match strategy {
        Strategy::DecodePart if encoding.chain().reach() == Reach::Blocks => reach(layout, task).len(),
        Strategy::DecodePart => reach(layout, task).end,
        Strategy::DecodeInto | Strategy::DecodeScatter => encoding.decoded_size(),
        Strategy::Modify if size.is_some() && !encoding.chain().is_identity() => encoding.decoded_size(),
        _ => 0,
    };
    Ok(ExplainTask {
        chunk: task.chunk.to_vec(),
        key: key.into(),
        strategy,
        elements: task.elements(),
        bytes_read: ranges.iter().map(|(_, len)| len).sum(),
        bytes_decoded: bytes_decoded as u64,
        ranges,
    })
}

fn read_row_ranges(
    layout: &ArrayLayout,
    plan: &Plan,
    task: &Task,
    strides: &[isize],
    start: u64,
) -> Vec<(u64, u64)> {
    let (region, offset) = read_region(layout, task, strides);
    let mut ranges: Vec<(u64, u64)> = match region.direct_row() {
        _ if !task.picks.is_empty() => {
            let ranges = pieces::ranges(region, &plan.places(task, strides), offset);
            ranges.into_iter().map(|(offset, len)| (start + offset, len)).collect()
        }
        Some(row) => {
            let mut ranges = Vec::new();
            region.for_each_row(&mut |_, src| {
                ranges.push((start + (offset as isize + src) as u64, row as u64))
            });
            ranges
        }
        None => {
            let rows = Rows::new(layout.encoding(), task);
            rows.offsets().map(|offset| (start + offset, rows.span)).collect()
        }
    };
    // As a store does: ranges that touch are one.
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let touches = last.0 + last.1 == next.0;
        if touches {
            last.1 += next.1;
        }
        touches
    });
    ranges
}

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.write { "write" } else { "read" };
        writeln!(f, "{verb} {:?} of '{}' ({})", self.shape, self.array, Bytes(self.bytes))?;
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let chunks = if self.examined < self.chunks {
            format!("{}; the first {}", self.chunks, self.examined)
        } else {
            self.chunks.to_string()
        };
        let threads =
            if self.threads > 1 { format!("up to {} threads", self.threads) } else { "1 thread".into() };
        writeln!(f, "  chunks   {chunks} in {}, {threads}", count(self.objects, "object"))?;
        let counts: Vec<String> =
            self.strategies.iter().map(|(strategy, n)| format!("{n} {strategy}")).collect();
        writeln!(
            f,
            "  strategy {}",
            if counts.is_empty() { "nothing to do".into() } else { counts.join(", ") }
        )?;
        writeln!(f, "  read     {}", Bytes(self.bytes_read))?;
        writeln!(f, "  decode   {}", Bytes(self.bytes_decoded))?;
        let width = self.tasks.iter().map(|task| task.key.chars().count()).max().unwrap_or(0);
        for task in &self.tasks {
            let ranges = match task.ranges.as_slice() {
                [] => String::new(),
                [(offset, len)] => format!("bytes {offset}..{}, ", offset + len),
                [(first, _), .., (last, len)] => {
                    format!("{} ranges in bytes {first}..{}, ", task.ranges.len(), last + len)
                }
            };
            let ExplainTask { chunk, key, strategy, elements, .. } = task;
            writeln!(f, "  {key:width$}  {strategy:<14}  {ranges}{elements} elements of chunk {chunk:?}")?;
        }
        if self.tasks.len() < self.chunks {
            writeln!(f, "  … and {} more", self.chunks - self.tasks.len())?;
        }
        Ok(())
    }
}

/// A number of bytes for people.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut value = self.0 as f64;
        let mut unit = "bytes";
        for next in UNITS {
            if value < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = next;
        }
        if unit == "bytes" { write!(f, "{} bytes", self.0) } else { write!(f, "{value:.1} {unit}") }
    }
}
