//! Writes chunks of shards.
//!
//! A shard is written as a new object, which replaces the old one when it is complete. The shard is
//! therefore valid at every instant, even if the writer is killed. Steps, and what each prevents:
//!
//! 1. Take the shard's turn, and its lock between processes. Otherwise two writers of different
//!    inner chunks would each put back the other's old ones. A writer of the whole shard takes no
//!    lock, because its bytes do not depend on the old ones. Writers that have read the replaced
//!    shard notice that, and start again. A shard that reaches past the array's end is never
//!    written as a whole: others may have appended there.
//! 2. Open the old shard and look at its index, unless the whole shard is written. An index that
//!    cannot be right is refused: copying by it would lose data for good. (If everything inside the
//!    array is written, the damaged shard is replaced. On a store far away, such a shard is first
//!    put under the condition that there is none.)
//! 3. Begin the new shard with the inner chunks that stay, copied inside the kernel.
//! 4. Encode the inner chunks that are written, on several threads, and append them in order.
//!    Chunks that are written in part are read, decoded and overlaid. Chunks that hold only fill
//!    value are left out.
//! 5. Append the index (or put it into the place kept for it at the start), and rename. A shard
//!    that holds nothing is deleted instead.
//!
//! A shard within a shard is one inner chunk: it is put together in memory, in the same steps.

use crate::costs;
use crate::error::ArrayError;
use crate::execute::gate::Gate;
use crate::execute::scratch::Scratch;
use crate::execute::tasks;
use crate::execute::tasks::{Interrupt, codec_error, store_error};
use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::layout::sharding::Touched;
use crate::layout::sharding::{ShardLevel, Sharding};
use crate::plan::Plan;
use crate::plan::axis_memory::AxisMemory;
use crate::plan::task::Task;
use crate::runtime::settings;
use crate::shard::memory::InMemory;
use crate::shard::open_shard::Shard;
use crate::shard::plan::ShardPlan;
use crate::write::blanks::{Blanks, Presence};
use crate::write::chunk::{ChunkWriter, Old};
use crate::write::only_fill::Stored;
use crate::write::shard_output::{Former, ShardOutput, Sink, begin, finish};
use hyperslab_codec::{CodecError, check_vlen_limit, encode_any};
use hyperslab_store::{Ask, Expected, Opened, Stamp, StoreError};
use smallvec::SmallVec;

/// A request to write chunks that lie in shards.
pub(crate) struct WriteRequest<'a> {
    pub(crate) layout: &'a ArrayLayout,
    pub(crate) sharding: &'a Sharding,
    /// The plan of chunks.
    pub(crate) plan: &'a Plan,
    pub(crate) source: &'a AxisMemory<*const u8>,
    /// The fill value in the stored byte order.
    pub(crate) fill: &'a [u8],
    pub(crate) keep_empty: bool,
    /// All that is written is fill value. Absent chunks then stay as they are.
    pub(crate) only_fill: bool,
    pub(crate) presence: Presence<'a>,
    /// Limits how many threads encode at once.
    pub(crate) gate: Option<&'a Gate>,
    /// See [`WriteOptions::still`](crate::write::WriteOptions::still).
    pub(crate) still: Option<&'a (dyn Fn() -> bool + Sync)>,
}

/// Which threads encode the inner chunks of a shard.
pub(crate) enum Workers<'w> {
    /// All threads.
    Pool { work: u64, limit: usize },
    /// Only this thread.
    This(&'w mut Scratch),
}

/// Takes the bytes of an inner chunk; `None` if it holds nothing.
type Give<'g> = &'g mut dyn FnMut(Option<&[u8]>) -> Result<(), ArrayError>;

/// One inner chunk of a shard that is written. A shard may have millions of them.
pub(crate) struct Unit {
    /// Its number in the index.
    pub(crate) n: usize,
    /// The number of its task in the plan of chunks. If it is a shard itself: of its first chunk.
    number: usize,
    /// If it is a shard itself: the chunks in it that are written.
    inside: Box<[Touched]>,
}

/// Abandons an output when it is dropped, unless it was emptied after success.
struct Watch<'o, 's>(Option<&'o ShardOutput<'s>>);

impl Drop for Watch<'_, '_> {
    fn drop(&mut self) {
        if let Some(output) = self.0 {
            output.abandon();
        }
    }
}

/// Returns whether `threads` are busy nearly all the time if each takes one shard after another.
///
/// (Threads that share a shard are always busy, but wait for each other at each of its chunks.)
fn divide_well(shards: &ShardPlan<'_>, threads: usize) -> bool {
    if shards.len() >= costs::MANY_SHARDS * threads {
        return true;
    }
    let (mut task, mut total) = (Task::default(), 0_u64);
    let mut busy: SmallVec<[u64; 16]> = SmallVec::from_elem(0, threads);
    for number in 0..shards.len() {
        shards.shard(number, &mut task);
        let elements = task.count.iter().fold(1, |elements: u64, count| elements.saturating_mul(*count));
        total = total.saturating_add(elements);
        // The thread that is free first takes the next shard.
        if let Some(first) = busy.iter_mut().min() {
            *first = first.saturating_add(elements);
        }
    }
    let last = busy.into_iter().max().unwrap_or(0);
    last.saturating_mul(threads as u64) / 5 <= total / 4
}

impl WriteRequest<'_> {
    /// Writes all chunks of the request.
    ///
    /// `bytes` is an estimate of the bytes that are moved. `limits` are the threads that may work
    /// on it, at first and if the write waits.
    pub(crate) fn write(
        &self,
        bytes: u64,
        limits: (usize, usize),
        interrupt: Option<Interrupt<'_>>,
    ) -> Result<(), ArrayError> {
        let shards = ShardPlan::new(self.layout, self.sharding, self.plan)?;
        let most = settings::decodes_in_flight();
        let limits = (limits.0.min(most), limits.1.min(most));
        let stored =
            if self.only_fill { Stored::list(self.layout, shards.plan(), self.presence) } else { None };
        let blanks = if let Some(stored) = &stored {
            stored.blanks(self.layout, shards.plan())
        } else {
            let blanks = Blanks::of_write(self.layout, shards.len(), self.presence);
            self.write_shards(&shards, bytes, limits, interrupt, blanks.as_ref())?;
            let Some(blanks) = blanks else { return Ok(()) };
            blanks
        };
        let listed = stored.as_ref().map(|stored| &stored.keys);
        let locate = |number: usize, task: &mut Task, key: &mut String| {
            shards.shard(number, task);
            self.layout.locate(&task.chunk, key).map(drop)
        };
        blanks.finish(self.layout, listed, &locate, interrupt, &|numbers, presence| {
            let request = WriteRequest { presence, ..*self };
            Blanks::run_again(self.layout, numbers, limits, interrupt, &|number, scratch, ask| {
                until_done(|first| {
                    request.write_shard(&shards, number, first, Workers::This(scratch), ask, None)
                })
            })
        })
    }

    /// Writes all shards. `blanks` takes the ones that hold nothing.
    fn write_shards(
        &self,
        shards: &ShardPlan<'_>,
        bytes: u64,
        limits: (usize, usize),
        interrupt: Option<Interrupt<'_>>,
        blanks: Option<&Blanks>,
    ) -> Result<(), ArrayError> {
        let work = tasks::work(self.layout, self.plan.len(), bytes);
        let threads = limits.0.min(settings::threads());
        let few = self.plan.len() / shards.len().max(1) < costs::FEW_SHARDS * limits.1;
        let computes = !self.layout.store().cost().waiting_dominates();
        if shards.len() > 1 && (few || computes && divide_well(shards, threads)) {
            let limits = if few { limits } else { (threads, threads) };
            let each = |number: usize, scratch: &mut Scratch, ask: Ask<'_>| {
                until_done(|first| {
                    self.write_shard(shards, number, first, Workers::This(scratch), ask, blanks)
                })
            };
            let work = tasks::write_work(self.layout, self.plan.len(), bytes);
            return tasks::run_tasks(self.layout, shards.len(), work, limits, interrupt, &each);
        }
        // The store is waited for only at the end of a shard. More threads than cores would only
        // wait for their turns.
        let limit = threads;
        for number in 0..shards.len() {
            if interrupt.is_some_and(|ask| ask()) {
                return Err(tasks::interrupted_error(self.layout));
            }
            let work = work / shards.len() as u64;
            let never = || false;
            let ask = interrupt.unwrap_or(&never);
            until_done(|first| {
                self.write_shard(shards, number, first, Workers::Pool { work, limit }, ask, blanks)
            })?;
        }
        Ok(())
    }

    /// Writes a shard. `first` says whether this is the first attempt.
    ///
    /// Returns `false` if another process was faster: the shard has to be written again.
    fn write_shard(
        &self,
        shards: &ShardPlan<'_>,
        number: usize,
        first: bool,
        workers: Workers<'_>,
        ask: Ask<'_>,
        blanks: Option<&Blanks>,
    ) -> Result<bool, ArrayError> {
        let layout = self.layout;
        let (mut task, mut key) = (Task::default(), String::new());
        shards.shard(number, &mut task);
        let fail = |source| store_error(layout, &task, source);
        if let Location::Range { .. } = layout.locate(&task.chunk, &mut key)? {
            return Err(ArrayError::ReadOnly {
                array: layout.name().into(),
                chunk: task.chunk.to_vec(),
                key,
                why: "shards that are a part of an object cannot be replaced",
            });
        }
        let checked = tasks::key(layout, &task, &key)?;
        let store = &**layout.store();
        let _turn = tasks::take(layout, &task, checked, Some(ask))?;
        let (sharding, plan, chunk) = (self.sharding, self.plan, task.chunk.clone());
        // Chunks that stay are copied to the new shard.
        let shard = Shard::new(layout, sharding, plan, checked, chunk, true)?.read_entirely(true);
        let (mut lock, mut object) = (None, None);
        let covers = !task.whole && task.covers(layout.object_grid(), layout.shape());
        // Mostly there is no shard yet, and a server tells that in its answer to the write.
        let new = covers && first && store.facts().is_shared && !store.cost().looks_are_cheap();
        let mut replaces = task.whole;
        if !task.whole && !new {
            lock = Some(store.lock(checked, Some(ask)).map_err(fail)?);
            object = match shard.open() {
                // The write covers all that this handle knows of the shard. Damaged bytes cannot be
                // kept.
                Err(error) if covers && error.is_damage() => {
                    replaces = true;
                    None
                }
                object => object?,
            };
        }
        let was = object.as_ref().and_then(|object| object.opened.as_deref());
        let expected = match (&lock, was) {
            _ if replaces => Expected::Any,
            (Some(lock), Some(was)) if lock.is_held() => Expected::Locked(was),
            // The object came after the lock was requested, or files cannot be locked.
            (_, Some(was)) => Expected::Same(was),
            (_, None) => Expected::Absent,
        };
        let stamp = object.as_ref().and_then(|object| object.stamp);
        let former = match was {
            Some(was) => match read_old_shard(&shard, 0, was, stamp, (0, was.size())) {
                // As above.
                Err(error) if covers && error.is_damage() => None,
                former => Some(former?),
            },
            None => None,
        };
        let Some(level) = shard.level(0) else { return Ok(true) };
        let coded = |source| codec_error(layout, &task, &key, source);
        let mut sink = match level.codecs() {
            [] => Sink::object(store, checked),
            _ => Sink::Memory(Vec::new()),
        };
        let units = match &former {
            None if self.only_fill => Vec::new(),
            former => {
                let mut units = self.units(level, 0, shards.touched_chunks(number, &task));
                if let (Some(former), true) = (former, self.only_fill) {
                    units.retain(|unit| !matches!(former.index.get(unit.n), Ok(None)));
                }
                units
            }
        };
        if let (Some(former), true) = (&former, store.cost().prefers_rounds()) {
            former.opened.announce(&self.modified_ranges(former, &units), store.cost().at_once);
        }
        let replaced = |n: usize| units.binary_search_by_key(&n, |unit| unit.n).is_ok();
        let absent = level.index().absent().map_err(coded)?;
        let index = begin(level, &mut sink, former.as_ref(), true, &replaced, absent, ask).map_err(fail)?;
        let output = ShardOutput::new(sink, index, workers.window());
        self.encode_all(&shard, former.as_ref(), &units, &key, &output, workers, ask)?;
        let (mut sink, index) = output.end();
        // If the store cannot check and delete in one step, deleting might undo another writer.
        // Write an empty shard instead.
        let stays = was.is_some() && !store.facts().swaps_out;
        let empty = !stays && index.present_chunks().next().is_none();
        if !empty {
            finish(layout, &task, &key, level, &mut sink, &index)?;
        }
        if self.still.is_some_and(|still| !still()) {
            return Err(tasks::interrupted_error(layout));
        }
        let put = match sink {
            _ if empty && (new || replaces) && self.presence.is_absent(&key) => return Ok(true),
            _ if empty
                && replaces
                && let Some(blanks) = blanks =>
            {
                blanks.add_whole(number);
                return Ok(true);
            }
            _ if empty
                && new
                && let Some(blanks) = blanks =>
            {
                blanks.add_edge(number);
                return Ok(true);
            }
            // It is not known yet whether the shard exists.
            _ if empty && new => return Ok(false),
            // There was no shard when it was opened.
            _ if empty && !replaces && was.is_none() => return Ok(true),
            _ if empty => store.swap_out(checked, expected, Some(ask)),
            Sink::Memory(bytes) => {
                let mut bytes = apply_shard_codecs(layout, level, bytes).map_err(coded)?;
                store.swap_owned(checked, expected, &mut bytes, Some(ask))
            }
            object => object.commit(expected, Some(ask)),
        };
        put.map_err(fail)
    }

    /// Encodes inner chunks of a shard and passes them to `output`. `former` is the old shard.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn encode_all(
        &self,
        shard: &Shard<'_, '_>,
        former: Option<&Former<'_>>,
        units: &[Unit],
        key: &str,
        output: &ShardOutput<'_>,
        workers: Workers<'_>,
        ask: Ask<'_>,
    ) -> Result<(), ArrayError> {
        let layout = self.layout;
        let task = || Task { chunk: shard.chunk.clone(), ..Task::default() };
        let each = |turn: usize, scratch: &mut Scratch, _: Ask<'_>| {
            let mut watch = Watch(Some(output));
            let Some(unit) = units.get(turn) else { return Ok(()) };
            scratch.key.clear();
            scratch.key.push_str(key);
            self.encode(0, shard, former, unit, scratch, &mut |bytes| {
                // If the output was abandoned, the thread that did so reports the error.
                let pushed = output.push(turn, unit.n, bytes).map(|_| ());
                pushed.map_err(|source| store_error(layout, &task(), source))
            })?;
            watch.0 = None;
            Ok(())
        };
        match workers {
            Workers::Pool { work, limit } => {
                // A stop must also release threads that wait for their turn in the output.
                let ask = || {
                    let stop = ask();
                    if stop {
                        output.abandon();
                    }
                    stop
                };
                tasks::run_tasks(layout, units.len(), work, (limit, limit), Some(&ask), &each)
            }
            Workers::This(scratch) => (0..units.len()).try_for_each(|turn| match ask() {
                true => Err(tasks::interrupted_error(layout)),
                false => each(turn, scratch, ask),
            }),
        }
    }

    /// Returns whether the task writes all of an inner chunk that lies inside the array.
    fn covers(&self, task: &Task) -> bool {
        task.covers(self.layout.grid(), self.layout.shape())
    }

    /// The inner chunks that are written in a shard of `level` and depth `depth`, in the order of the
    /// index.
    pub(crate) fn units(
        &self,
        level: &ShardLevel,
        depth: usize,
        touched: impl Iterator<Item = Touched>,
    ) -> Vec<Unit> {
        let chunk = self.layout.grid().chunk_shape();
        // Inner shards may be as small as a chunk.
        if self.sharding.levels().len() == depth + 1 {
            let unit = |Touched { number, at }| Unit { n: level.number(&at), number, inside: Box::default() };
            let mut units: Vec<Unit> = touched.map(unit).collect();
            units.sort_unstable_by_key(|unit| unit.n);
            return units;
        }
        let groups = level.group(chunk, touched).into_iter();
        let unit = |(n, inside): (usize, Vec<Touched>)| {
            let number = inside.first()?.number;
            Some(Unit { n, number, inside: inside.into() })
        };
        groups.filter_map(unit).collect()
    }

    /// Offsets and lengths of the inner chunks that are written in part. Empty for shards within
    /// shards.
    fn modified_ranges(&self, former: &Former<'_>, units: &[Unit]) -> Vec<(u64, u64)> {
        let mut task = Task::default();
        let place = |unit: &Unit| {
            self.plan.task(self.layout, unit.number, &mut task);
            former.index.get(unit.n).ok()?.filter(|_| !task.whole)
        };
        if self.sharding.levels().len() > 1 {
            return Vec::new();
        }
        units.iter().filter_map(place).collect()
    }

    /// Encodes an inner chunk of a shard of depth `depth` and passes its bytes to `give`.
    ///
    /// Passes `None` if the inner chunk holds nothing. `former` is the old shard.
    fn encode(
        &self,
        depth: usize,
        shard: &Shard<'_, '_>,
        former: Option<&Former<'_>>,
        unit: &Unit,
        scratch: &mut Scratch,
        give: Give<'_>,
    ) -> Result<(), ArrayError> {
        // An index with any fault was refused before.
        let range = former.and_then(|former| {
            let (offset, len) = former.index.get(unit.n).ok()??;
            Some((former.opened, (former.range.0 + offset, len)))
        });
        match self.sharding.levels().get(depth + 1) {
            None => {
                self.plan.task(self.layout, unit.number, &mut scratch.task);
                let stored = match range {
                    Some((opened, range)) if !scratch.task.whole => {
                        let most = self.layout.encoding().chain().max_encoded() as u64;
                        let checked = shard.check_len(Some(unit.number), range.1, most);
                        match checked.and_then(|()| shard.bytes(opened, range)) {
                            // Damaged bytes cannot be kept.
                            Err(error) if error.is_damage() && self.covers(&scratch.task) => None,
                            bytes => Some(bytes?),
                        }
                    }
                    _ => None,
                };
                let places = self.plan.places(&scratch.task, self.source.strides());
                let writer = ChunkWriter {
                    layout: self.layout,
                    src: self.source.at(&scratch.task.out),
                    strides: self.source.strides(),
                    places: &places,
                    fill: self.fill,
                    keep_empty: self.keep_empty,
                    gate: self.gate,
                    presence: Presence::Unknown,
                    blanks: None,
                    still: None,
                };
                let produced = writer.produce(scratch, Old::Bytes(stored.as_deref()))?;
                give(writer.bytes(scratch, produced))
            }
            Some(level) => self.encode_shard(level, depth + 1, shard, range, unit, scratch, give),
        }
    }

    /// [`WriteRequest::encode`] for an inner chunk that is a shard itself.
    #[allow(clippy::too_many_arguments)]
    fn encode_shard(
        &self,
        level: &ShardLevel,
        depth: usize,
        shard: &Shard<'_, '_>,
        range: Option<(&dyn Opened, (u64, u64))>,
        unit: &Unit,
        scratch: &mut Scratch,
        give: Give<'_>,
    ) -> Result<(), ArrayError> {
        let mut inner = None;
        let decoded: Option<InMemory>;
        if let Some((opened, range)) = range {
            decoded = shard.read_decoded(depth, opened, range, Some(unit.number))?;
            inner = Some(match &decoded {
                Some(bytes) => read_old_shard(shard, depth, bytes, None, (0, bytes.size()))?,
                None => read_old_shard(shard, depth, opened, None, range)?,
            });
        }
        // Errors name it by the first chunk in it.
        let (key, mut task) = (scratch.key.clone(), Task::default());
        self.plan.task(self.layout, unit.number, &mut task);
        let fail = |source: StoreError| store_error(self.layout, &task, source);
        let units = self.units(level, depth, unit.inside.iter().cloned());
        let replaced = |n: usize| units.binary_search_by_key(&n, |unit| unit.n).is_ok();
        let mut sink = Sink::Memory(Vec::new());
        let coded = |source| codec_error(self.layout, &task, &key, source);
        let absent = level.index().absent().map_err(coded)?;
        let index =
            begin(level, &mut sink, inner.as_ref(), false, &replaced, absent, &|| false).map_err(fail)?;
        let output = ShardOutput::new(sink, index, 0);
        for (turn, unit) in units.iter().enumerate() {
            self.encode(depth, shard, inner.as_ref(), unit, scratch, &mut |bytes| {
                output.push(turn, unit.n, bytes).map(|_| ()).map_err(fail)
            })?;
        }
        drop(inner);
        let (mut sink, index) = output.end();
        if index.present_chunks().next().is_none() {
            return give(None);
        }
        finish(self.layout, &task, &key, level, &mut sink, &index)?;
        let Sink::Memory(bytes) = sink else { return Ok(()) };
        give(Some(&apply_shard_codecs(self.layout, level, bytes).map_err(coded)?))
    }
}

impl Workers<'_> {
    /// How many inner chunks may be ready before their turn. They count as in flight, like the
    /// chunks that threads are working on.
    pub(crate) fn window(&self) -> usize {
        match self {
            Workers::Pool { limit, .. } => settings::decodes_in_flight().saturating_sub(*limit),
            Workers::This(_) => 0,
        }
    }
}

/// Writes until no other writer was faster. Tells `write` whether this is the first attempt.
fn until_done(mut write: impl FnMut(bool) -> Result<bool, ArrayError>) -> Result<(), ArrayError> {
    let (mut changes, mut first) = (0, true);
    while !tasks::or_again(write(first), &mut changes)? {
        first = false;
    }
    Ok(())
}

/// The old shard of depth `depth`, at `range` of `opened`.
///
/// Fails if anything in its index cannot be right: copying by it would lose data for good.
pub(crate) fn read_old_shard<'o>(
    shard: &Shard<'_, '_>,
    depth: usize,
    opened: &'o dyn Opened,
    stamp: Option<Stamp>,
    range: (u64, u64),
) -> Result<Former<'o>, ArrayError> {
    let Some(level) = shard.level(depth) else {
        return Err(shard.error(None, "it has no level".into()));
    };
    let index = shard.index(level, opened, stamp, range)?;
    if let Some((n, why)) = index.fault() {
        return Err(
            shard.error(None, format!("inner chunk number {n} of its index: {why}; nothing was written"))
        );
    }
    Ok(Former { opened, range, index })
}

/// Encodes a shard with the codecs that it goes through as a whole.
pub(crate) fn apply_shard_codecs(
    layout: &ArrayLayout,
    level: &ShardLevel,
    bytes: Vec<u8>,
) -> Result<Vec<u8>, CodecError> {
    match level.codecs() {
        [] => Ok(bytes),
        codecs => {
            let mut stored = Vec::new();
            encode_any(codecs, &bytes, &mut stored, &mut hyperslab_codec::Scratch::default())?;
            if layout.vlen().is_some() {
                check_vlen_limit("sharding_indexed", bytes.len(), stored.len())?;
            }
            Ok(stored)
        }
    }
}
