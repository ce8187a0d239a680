//! Explains a request: walks the executor's lots and describes them instead of reading them.

use crate::costs;
use crate::dims::c_strides;
use crate::dims::element_count;
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::execute::tasks::{self, memory_error};
use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::layout::mosaic::Mosaic;
use crate::plan::Plan;
use crate::plan::axis_memory::{AxisMemory, follow_selection};
use crate::plan::lot::{Alone, Lot, Step};
use crate::plan::strategy::Strategy;
use crate::read::cache::ChunkCache;
use crate::read::chunk::{ChunkReader, join_touching};
use crate::read::executor::location;
use crate::read::lots::Lots;
use crate::read::mosaic;
use crate::read::mosaic::nesting::Nesting;
use crate::read::request::{Absent, Request};
use crate::runtime::memory::Memory;
use crate::select::Selection;
use crate::write::WriteOptions;
use crate::write::blanks::Presence;
use crate::write::chunk::{ChunkWriter, write_region};
use crate::write::strategies;
use hyperslab_store::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// One chunk's share of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainTask {
    /// The chunk's index per axis.
    pub chunk: Vec<u64>,
    /// The object that holds it.
    pub key: String,
    /// How it is executed.
    pub strategy: Strategy,
    /// The byte ranges of the object that are read: offset and length. Empty if nothing is read.
    pub ranges: Vec<(u64, u64)>,
    /// Selected elements of the chunk.
    pub elements: u64,
    /// Bytes read from the store.
    pub bytes_read: u64,
    /// Bytes that come out of decoders.
    pub bytes_decoded: u64,
}

/// The explanation of a request. `Display` prints it as text.
#[derive(Clone, Debug)]
pub struct Explain {
    /// The array's name.
    pub array: String,
    /// `true` for a write, `false` for a read.
    pub write: bool,
    /// Shape of the selection.
    pub shape: Vec<u64>,
    /// Bytes of the selection in memory.
    pub bytes: u64,
    /// Number of chunks touched.
    pub chunks: usize,
    /// How many of them the numbers below cover: all, up to [`Explain::MOST_CHUNKS`].
    pub examined: usize,
    /// Number of distinct objects that hold them.
    pub objects: usize,
    /// Most threads that would work on the request.
    pub threads: usize,
    /// How many chunks each strategy handles.
    pub strategies: Vec<(Strategy, usize)>,
    /// Number of byte ranges read. A run of neighbouring chunks counts as one range.
    pub ranges: usize,
    /// Bytes read from the store in all, without the indexes of shards.
    pub bytes_read: u64,
    /// How many of them lie between chunks: reading them costs less than another request.
    pub gap_bytes: u64,
    /// Bytes of shard indexes that had to be read for this explanation.
    pub index_bytes: u64,
    /// Bytes of other chunks that a write to a part of shards copies from the old objects to the
    /// new. A store whose objects can share bytes moves none of them.
    pub bytes_copied: u64,
    /// Bytes that come out of decoders, in all.
    pub bytes_decoded: u64,
    /// Codecs that run in another language, which is slow: their names, and the language.
    pub foreign_codecs: Vec<(&'static str, &'static str)>,
    /// The first chunks, one by one.
    pub tasks: Vec<ExplainTask>,
}

impl ExplainTask {
    /// Adds another part of the same chunk.
    fn join(&mut self, part: &mut ExplainTask) {
        self.ranges.append(&mut part.ranges);
        join_touching(&mut self.ranges);
        self.elements += part.elements;
        self.bytes_read += part.bytes_read;
        self.bytes_decoded += part.bytes_decoded;
    }
}

impl Explain {
    /// The most chunks that are examined, for an array of up to 8 axes. More axes mean fewer
    /// chunks.
    ///
    /// Each chunk costs a look into the store, and an array may have any number of chunks. 100 000
    /// chunks take about 0.1 s (x86, files in the page cache).
    pub const MOST_CHUNKS: usize = 100_000;

    /// The most chunks that are examined for an array of `rank` axes.
    fn most_chunks(rank: usize) -> usize {
        Self::MOST_CHUNKS * 8 / rank.max(8)
    }
}

/// Explains [`crate::read`] of a selection. Lists the first `list` chunks one by one. Looks chunks
/// up in the store but reads none.
pub fn explain_read(layout: &ArrayLayout, selection: &Selection, list: usize) -> Result<Explain, ArrayError> {
    explain(layout, selection, list, None, false)
}

/// Explains [`crate::read`] with [`crate::ReadOptions::cache`]. Shows what the cache holds now; the
/// read itself may add chunks to the cache and evict others.
pub fn explain_read_cached(
    layout: &ArrayLayout,
    selection: &Selection,
    list: usize,
    cache: Option<&ChunkCache>,
) -> Result<Explain, ArrayError> {
    explain(layout, selection, list, cache, false)
}

/// Explains [`crate::write`] of a selection from dense memory. Lists the first `list` chunks one by
/// one. Does not predict which chunks are elided: that depends on the elements.
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
    let bytes = element_count(&shape).unwrap_or(u64::MAX).saturating_mul(layout.dtype().size() as u64);
    // Keep the sign of a negative step: it decides whether a chunk is one row of bytes.
    let strides = follow_selection(selection, &shape, &c_strides(&shape, layout.dtype().size())).strides;
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
        ranges: 0,
        bytes_read: 0,
        gap_bytes: 0,
        index_bytes: 0,
        bytes_copied: 0,
        bytes_decoded: 0,
        foreign_codecs: foreign_codecs(layout),
        tasks: Vec::new(),
    };
    let most = Explain::most_chunks(shape.len().max(layout.shape().len()));
    let mut explainer = Explainer { list, write, cache, remaining: most, ..Explainer::default() };
    explainer.visit(layout, selection, &strides, (None, None), &mut explain)?;
    let limit =
        if write { tasks::write_limits(layout, WriteOptions::default()).0 } else { tasks::limit(None) };
    let work = if write { tasks::write_work } else { tasks::work }(layout, explain.chunks, bytes);
    explain.threads = tasks::worthwhile_threads(work, costs::INLINE_WORK, explain.chunks, limit);
    explain.examined = most - explainer.remaining;
    explain.objects = explainer.objects.len();
    explain.strategies = explainer.strategies.into_iter().map(|(name, n)| (Strategy(name), n)).collect();
    Ok(explain)
}

/// The codecs of chunks and of the shards around them that run in another language.
fn foreign_codecs(layout: &ArrayLayout) -> Vec<(&'static str, &'static str)> {
    let shards = layout.sharding().into_iter().flat_map(|sharding| sharding.levels());
    let around = shards.flat_map(|level| level.codecs());
    let codecs = layout.encoding().chain().codecs().iter().chain(around);
    codecs.filter_map(|codec| Some((codec.name(), codec.runs_in()?))).collect()
}

/// The state of an explanation.
#[derive(Default)]
struct Explainer<'a> {
    list: usize,
    write: bool,
    cache: Option<&'a ChunkCache>,
    /// How many more chunks may be examined.
    remaining: usize,
    strategies: BTreeMap<&'static str, usize>,
    /// Lock numbers and keys of the objects. Arrays in different stores may use the same keys.
    objects: BTreeSet<(u64, String)>,
}

impl Explainer<'_> {
    fn tell(&mut self, layout: &ArrayLayout, explained: ExplainTask, explain: &mut Explain) {
        self.remaining -= 1;
        *self.strategies.entry(explained.strategy.name()).or_default() += 1;
        explain.bytes_read = explain.bytes_read.saturating_add(explained.bytes_read);
        explain.ranges = explain.ranges.saturating_add(explained.ranges.len());
        explain.bytes_decoded = explain.bytes_decoded.saturating_add(explained.bytes_decoded);
        let object = Key::new(&explained.key).map_or(0, |key| layout.store().lock_id(key));
        if !explained.key.is_empty() {
            self.objects.insert((object, explained.key.clone()));
        }
        if explain.tasks.len() < self.list {
            explain.tasks.push(explained);
        }
    }

    /// Examines the chunks of a selection. `strides` are the caller's memory's, per axis; `nesting`
    /// is the mosaic that holds the array, `threads` the number of threads that the mosaic allows.
    fn visit(
        &mut self,
        layout: &ArrayLayout,
        selection: &Selection,
        strides: &[isize],
        (nesting, threads): (Option<&Nesting<'_>>, Option<usize>),
        explain: &mut Explain,
    ) -> Result<(), ArrayError> {
        if let Some(mosaic) = layout.mosaic() {
            if selection.points().is_empty() {
                return self.visit_mosaic(layout, mosaic, selection, strides, (nesting, threads), explain);
            }
            let plan =
                Plan::new(layout, selection).ok_or_else(|| memory_error(layout, "the plan", u64::MAX))?;
            return mosaic::points::for_each_box(layout, &plan, &mut |_, selection| {
                let strides = layout.encoding().strides();
                self.visit_mosaic(layout, mosaic, selection, strides, (nesting, threads), explain)
            });
        }
        let plan =
            Plan::saturating(layout, selection).ok_or_else(|| memory_error(layout, "the plan", u64::MAX))?;
        explain.chunks = explain.chunks.saturating_add(plan.len());
        let limits = tasks::decoding_limits(layout, (tasks::limit(threads), 0));
        let plan = if self.write { plan } else { plan.cut(layout, selection, limits.0) };
        let target = AxisMemory::without_memory(strides);
        let request = Request::new(layout, &plan, &target, Absent::default(), None, self.cache);
        let request = Request { dry: true, ..request };
        let lots = match Lots::new(layout, &plan, limits.0)? {
            // Objects that are fetched together are described one by one.
            Lots::Objects(tasks) => Lots::Single(tasks),
            lots => lots,
        };
        let mut scratch = Scratch::default();
        match lots {
            // Chunks in shards are visited by number. More than can be counted have no numbers.
            Lots::Shards(..) if plan.len() == usize::MAX => {}
            Lots::Cut(_) | Lots::Shards(..) => {
                request.rounds(&lots, limits, self.remaining, None, &mut |found, steps| {
                    let mut steps = steps.iter().peekable();
                    for (n, lot) in found.iter().enumerate() {
                        let own =
                            std::iter::from_fn(|| steps.next_if(|(lot, _)| *lot == n).map(|(_, step)| step));
                        self.tell_lot(&request, lot, own, &mut scratch, explain)?;
                    }
                    Ok(self.remaining > 0)
                })?;
            }
            Lots::Single(_) | Lots::Neighbours(..) | Lots::Objects(..) => {
                for number in 0..lots.len() {
                    if self.remaining == 0 {
                        break;
                    }
                    let (mut lot, mut steps) = (Lot::default(), Vec::new());
                    request.find(&lots, number, self.remaining, &mut scratch, &mut lot)?;
                    request.steps(&lots, &mut lot, 0, limits.0, &mut |step| steps.push(step));
                    self.tell_lot(&request, &lot, steps.iter(), &mut scratch, explain)?;
                }
            }
        }
        Ok(())
    }

    /// Describes the steps of a lot, in the order of its chunks.
    fn tell_lot<'s>(
        &mut self,
        request: &Request<'_>,
        lot: &Lot<'_>,
        steps: impl Iterator<Item = &'s Step>,
        scratch: &mut Scratch,
        explain: &mut Explain,
    ) -> Result<(), ArrayError> {
        let mut explained: Vec<(usize, ExplainTask)> = Vec::new();
        // Bytes between the chunks of runs; and how many fewer ranges than chunks there are.
        let (mut gap_bytes, mut joined) = (0, 0);
        explain.index_bytes += lot.index_bytes;
        let mut tell = |object: usize,
                        number: usize,
                        place: Location,
                        joined: bool,
                        held: Option<Arc<Memory>>,
                        scratch: &mut Scratch| {
            let object = lot.objects.get(object);
            scratch.key.clone_from(object.map_or(&String::new(), |object| &object.key));
            request.plan.task(request.layout, number, &mut scratch.task);
            let mut task = self.explain_task(request, place, joined, held, scratch)?;
            if object.is_some_and(|object| object.in_memory) {
                (task.ranges, task.bytes_read) = (Vec::new(), 0);
            }
            explained.push((number, task));
            Ok::<_, ArrayError>(())
        };
        for step in steps {
            match step {
                Step::Run(run) => {
                    let chunks = lot.chunks.get(run.chunks.clone()).unwrap_or_default();
                    for chunk in chunks {
                        tell(chunk.object, chunk.number, location(chunk), true, None, scratch)?;
                    }
                    let in_memory = lot.objects.get(run.object).is_none_or(|object| object.in_memory);
                    let gaps = run.len.saturating_sub(chunks.iter().map(|chunk| chunk.len).sum());
                    if !self.write && !in_memory {
                        (gap_bytes, joined) = (gap_bytes + gaps, joined + chunks.len() - 1);
                    }
                }
                Step::Direct(chunks) => {
                    for chunk in lot.chunks.get(chunks.clone()).unwrap_or_default() {
                        tell(chunk.object, chunk.number, location(chunk), false, None, scratch)?;
                    }
                }
                Step::Alone(n) => {
                    if let Some(Alone { object, location, number }) = lot.alone.get(*n) {
                        tell(*object, *number, *location, false, None, scratch)?;
                    }
                }
                Step::Held(n) => {
                    if let Some((chunk, memory)) = lot.cached.get(*n) {
                        tell(
                            chunk.object,
                            chunk.number,
                            location(chunk),
                            false,
                            Some(memory.clone()),
                            scratch,
                        )?;
                    }
                }
                Step::Fill(absent) => {
                    for (number, object) in lot.absent.get(absent.clone()).unwrap_or_default() {
                        tell(*object, *number, Location::Absent, false, None, scratch)?;
                    }
                }
            }
        }
        explained.sort_by_key(|(number, _)| *number);
        // The parts of a cut chunk are shown as one chunk.
        explained.dedup_by(|(_, part), (_, first)| {
            let same = request.plan.is_cut();
            if same {
                first.join(part);
            }
            same
        });
        if self.write && explained.len() < self.remaining {
            explain.bytes_copied = explain.bytes_copied.saturating_add(lot.others);
        }
        if explained.len() > self.remaining {
            // Only some of the lot is examined, so leave out the gaps between its chunks.
            explained.truncate(self.remaining);
            (gap_bytes, joined) = (0, 0);
        }
        explained.into_iter().for_each(|(_, task)| self.tell(request.layout, task, explain));
        explain.gap_bytes = explain.gap_bytes.saturating_add(gap_bytes);
        explain.bytes_read = explain.bytes_read.saturating_add(gap_bytes);
        explain.ranges -= joined;
        Ok(())
    }

    /// Describes how the chunk of the current task is read or written.
    fn explain_task(
        &self,
        request: &Request<'_>,
        place: Location,
        joined: bool,
        held: Option<Arc<Memory>>,
        scratch: &mut Scratch,
    ) -> Result<ExplainTask, ArrayError> {
        let fail = |source| tasks::store_error(request.layout, &scratch.task, source);
        let stored = match place {
            Location::Absent => None,
            Location::Object => {
                let key = tasks::key(request.layout, &scratch.task, &scratch.key)?;
                request.layout.store().size(key).map_err(fail)?.map(|len| (0, len))
            }
            Location::Range { offset, len, .. } => Some((offset, len)),
        };
        let explained = |strategy, ranges: Vec<(u64, u64)>, bytes_decoded, scratch: &Scratch| ExplainTask {
            chunk: scratch.task.chunk.to_vec(),
            key: scratch.key.clone(),
            strategy,
            elements: scratch.task.elements(),
            bytes_read: ranges.iter().map(|(_, len)| len).sum(),
            bytes_decoded,
            ranges,
        };
        if self.write {
            let (layout, task) = (request.layout, &scratch.task);
            let some = match layout.without_skipped_codecs(place) {
                None => layout.of_chunk(&task.chunk)?,
                some => some,
            };
            let layout = some.as_deref().unwrap_or(layout);
            let (strides, src, fill) = (request.target.strides(), std::ptr::null(), &[]);
            // Which chunks hold only fill value is unknown without the elements.
            let writer = ChunkWriter {
                layout,
                src,
                strides,
                places: &[],
                fill,
                keep_empty: true,
                presence: Presence::Unknown,
                blanks: None,
                gate: None,
                still: None,
            };
            let strategy = strategies::choose(&writer, task, &write_region(layout, task, strides).0);
            let reads = stored.filter(|_| strategy.reads_old);
            let encoding = layout.encoding();
            let decodes = reads.filter(|_| !encoding.chain().stores_decoded());
            let decoded = decodes.map_or(0, |_| encoding.decoded_size() as u64);
            let strategy = Strategy(strategy.name);
            return Ok(explained(strategy, reads.into_iter().collect(), decoded, scratch));
        }
        let Some(stored) = stored else { return Ok(explained(Strategy::FILL, Vec::new(), 0, scratch)) };
        let tell = |reader: &ChunkReader<'_>, scratch: &mut Scratch| {
            let task = &scratch.task;
            let (strategy, decodes) = (reader.strategy.name, (reader.strategy.decodes)(reader, task));
            Ok(explained(Strategy(strategy), reader.ranges(task, stored), decodes, scratch))
        };
        if joined || held.is_some() {
            let reader = ChunkReader::new(request, request.layout, &scratch.task, held, joined);
            return tell(&reader, scratch);
        }
        request.decide(place, scratch, tell)
    }

    /// Examines the chunks of the arrays that make up a mosaic. Each filled part is shown as one
    /// task without a chunk.
    fn visit_mosaic(
        &mut self,
        layout: &ArrayLayout,
        mosaic: &Mosaic,
        selection: &Selection,
        strides: &[isize],
        (nesting, threads): (Option<&Nesting<'_>>, Option<usize>),
        explain: &mut Explain,
    ) -> Result<(), ArrayError> {
        if self.write {
            layout.check_writable()?;
        }
        let left = Nesting::parts_budget();
        let nesting = match nesting {
            Some(nesting) => nesting.descend(layout, mosaic.pieces().len(), 0)?,
            None => Nesting::new(&left),
        };
        mosaic::read::explain(layout, mosaic, selection, strides, threads, &mut |explained| match explained {
            _ if self.remaining == 0 => Ok(()),
            mosaic::read::SourceStep::Read(source, selection, strides, threads) => {
                self.visit(source, selection, strides, (Some(&nesting), threads), explain)
            }
            mosaic::read::SourceStep::Fill(elements) => {
                let explained = ExplainTask {
                    chunk: Vec::new(),
                    key: String::new(),
                    strategy: Strategy::FILL,
                    ranges: Vec::new(),
                    elements,
                    bytes_read: 0,
                    bytes_decoded: 0,
                };
                explain.chunks = explain.chunks.saturating_add(1);
                self.tell(layout, explained, explain);
                Ok(())
            }
        })
    }
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
        write!(f, "  read     {}", Bytes(self.bytes_read))?;
        if self.ranges > 1 {
            write!(f, " in {}", count(self.ranges, "range"))?;
        }
        if self.gap_bytes > 0 {
            write!(f, ", {} of them between chunks", Bytes(self.gap_bytes))?;
        }
        writeln!(f)?;
        if self.bytes_copied > 0 {
            writeln!(f, "  copy     {} of other chunks of these shards", Bytes(self.bytes_copied))?;
        }
        writeln!(f, "  decode   {}", Bytes(self.bytes_decoded))?;
        for (codec, language) in &self.foreign_codecs {
            writeln!(f, "  slow     codec '{codec}' runs in {language}, on one thread at a time")?;
        }
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

/// A number of bytes, displayed with a unit.
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
