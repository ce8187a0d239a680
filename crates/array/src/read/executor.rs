//! The executor of reads, for every format alike.
//!
//! Lots are located, and their chunks joined to runs, read, decoded and put in place.
//!
//! 1. Tasks are grouped in [`Lots`].
//! 2. The chunks of a lot are located by [`ArrayLayout::locate_all`], or in a shard by its index
//!    ([`crate::shard::find`]). They are grouped by object, and joined to runs where reading the
//!    gap costs less than another request.
//! 3. For each chunk, a [`ChunkReader`] chooses the strategy and follows it.
//!
//! From a store far away, steps are executed in the order of arrival ([`crate::read::flight`]).
//!
//! If locating needs no I/O, the thread that claims a lot does all its work. Shards are located
//! first, some at a time, each by one thread. Their steps then share one queue, so that uneven
//! shards leave no thread idle. [`crate::explain`] does the same, but reports the steps instead of
//! executing them.

#![expect(clippy::indexing_slicing, reason = "steps have the numbers of the lots that they were made of")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::costs;
use crate::dims::Dims;
use crate::error::ArrayError;
use crate::execute::scratch::{Scratch, with_ranges};
use crate::execute::tasks::{self, Interrupt, memory_error, store_error};
use crate::layout::locate::{ChunkList, Found, Location};
use crate::plan::lot::{Alone, FoundChunk, FoundObject, Lot, ReadRun, Step};
use crate::plan::task::Task;
use crate::read::chunk::ChunkReader;
use crate::read::fetch::{self, Stored};
use crate::read::lots::Lots;
use crate::read::request::Request;
use crate::shard::find::{Finder, ShardPlace};
use crate::shard::open_shard::Shard;
use crate::shard::plan::ShardPlan;
use hyperslab_store::{Key, Next, Opened, RangeRead};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Takes the lots of a round, and its steps with their lots' numbers. Returns `false` to stop.
pub(crate) type EachRound<'e> = &'e mut dyn FnMut(&[Lot<'_>], &[(usize, Step)]) -> Result<bool, ArrayError>;

/// Number of threads that may work on a request, and the number if it waits.
pub(crate) type Limits = (usize, usize);

impl<'a> Request<'a> {
    /// Reads everything. `bytes` estimates the bytes to move.
    pub(crate) fn read(
        &self,
        bytes: u64,
        limits: Limits,
        interrupt: Option<Interrupt<'_>>,
    ) -> Result<(), ArrayError> {
        let layout = self.layout;
        let lots = Lots::new(layout, self.plan, limits.0)?;
        let work = tasks::work(layout, self.plan.len(), bytes);
        if let Some(window) = lots.window(layout, limits.0) {
            return self.fly(&lots, window, work, limits, interrupt);
        }
        if !lots.are_spread() {
            return tasks::run_tasks(layout, lots.len(), work, limits, interrupt, &|number, scratch, _| {
                match lots {
                    Lots::Neighbours(..) => {
                        let (mut lot, mut steps) = (Lot::default(), Vec::new());
                        self.find(&lots, number, usize::MAX, scratch, &mut lot)?;
                        self.steps(&lots, &mut lot, 0, limits.0, &mut |step| steps.push(step));
                        steps.iter().try_for_each(|step| self.execute(&lot, step, scratch))
                    }
                    _ => self.read_one(number, scratch),
                }
            });
        }
        self.rounds(&lots, limits, usize::MAX, interrupt, &mut |found, steps| {
            let chunks: usize = found.iter().map(Lot::to_read).sum();
            let part = (bytes as u128 * chunks as u128 / self.plan.len().max(1) as u128) as u64;
            let work = tasks::work(layout, chunks, part);
            tasks::run_tasks(layout, steps.len(), work, limits, interrupt, &|number, scratch, _| {
                steps.get(number).map_or(Ok(()), |(lot, step)| self.execute(&found[*lot], step, scratch))
            })?;
            Ok(true)
        })
    }

    /// Locates spread lots, some at a time, and calls `each` with them and their steps.
    ///
    /// Stops when `each` returns `false`. Looks at no more than `most` chunks of a lot.
    pub(crate) fn rounds(
        &self,
        lots: &Lots<'_>,
        limits: Limits,
        most: usize,
        interrupt: Option<Interrupt<'_>>,
        each: EachRound<'_>,
    ) -> Result<(), ArrayError> {
        let together = lots.of_a_round();
        for first in (0..lots.len()).step_by(together) {
            let mut found: SmallVec<[Lot<'_>; 1]> = SmallVec::new();
            found.resize_with(together.min(lots.len() - first), Lot::default);
            match &mut found[..] {
                // The usual case: no other thread is needed.
                [lot] => Scratch::with(|scratch| self.find(lots, first, most, scratch, lot))?,
                found => {
                    // Local: only threads of this request know the locks.
                    let found: Vec<Mutex<&mut Lot<'_>>> = found.iter_mut().map(Mutex::new).collect();
                    let work = found.len() as u64 * costs::LOCATE_WORK;
                    tasks::run_tasks(self.layout, found.len(), work, limits, interrupt, &|n, scratch, _| {
                        let Some(lot) = found.get(n) else { return Ok(()) };
                        let mut lot = lot.lock().unwrap_or_else(PoisonError::into_inner);
                        self.find(lots, first + n, most, scratch, &mut lot)
                    })?;
                }
            }
            let stored: u64 = found.iter().flat_map(|lot| &lot.chunks).map(|chunk| chunk.len).sum();
            let mut steps: SmallVec<[(usize, Step); 1]> = SmallVec::new();
            for (n, lot) in found.iter_mut().enumerate() {
                self.steps(lots, lot, stored, limits.0, &mut |step| steps.push((n, step)));
            }
            if !each(&found, &steps)? {
                break;
            }
        }
        Ok(())
    }

    /// Cuts a lot into steps. `stored` is the number of bytes of the whole round.
    pub(crate) fn steps(
        &self,
        lots: &Lots<'_>,
        lot: &mut Lot<'_>,
        stored: u64,
        threads: usize,
        each: &mut dyn FnMut(Step),
    ) {
        let (identity, cost) = (self.layout.encoding().chain().stores_decoded(), self.layout.store().cost());
        let fill = !self.absent.filled;
        match lots {
            // Only the wanted bytes are read. They are announced together, which joins near ranges.
            Lots::Neighbours(..) if cost.prefers_rounds() && identity => {
                lot.steps((u64::MAX, costs::LONGEST_RUN), true, fill, each);
            }
            // Runs are requested together, so few gaps are worth reading.
            Lots::Neighbours(..) if cost.prefers_rounds() => {
                lot.steps((cost.request / costs::GAPS_FAR_AWAY, costs::LONGEST_RUN), false, fill, each);
            }
            Lots::Neighbours(..) => {
                let gap = cost.request.min(cost.range);
                lot.steps((gap, costs::LONGEST_RUN), false, fill, each);
            }
            _ => {
                let longest = match threads {
                    // Bytes that go straight to the target need no buffer.
                    1 if identity => u64::MAX,
                    1 => costs::LONGEST_RUN,
                    threads => (stored / (4 * threads as u64)).clamp(costs::SHORTEST_RUN, costs::LONGEST_RUN),
                };
                lot.steps((cost.request, longest), identity, fill, each);
            }
        }
    }

    /// Locates the chunks of a lot, no more than the first `most`.
    pub(crate) fn find(
        &self,
        lots: &Lots<'_>,
        number: usize,
        most: usize,
        scratch: &mut Scratch,
        lot: &mut Lot<'a>,
    ) -> Result<(), ArrayError> {
        match lots {
            Lots::Single(_) | Lots::Objects(..) => self.find_all(number..number + 1, scratch, lot)?,
            Lots::Neighbours(tasks, each) => {
                self.find_all(number * each..(*tasks).min((number + 1) * each), scratch, lot)?;
            }
            Lots::Cut(tasks) => self.find_cut(*tasks, scratch, lot)?,
            Lots::Shards(shards, each) => {
                let numbers = number * each..shards.len().min((number + 1) * each);
                self.find_shards(shards, numbers, most, scratch, lot)?;
            }
        }
        self.take_held(lot, scratch)
    }

    /// Locates the chunks of some tasks.
    fn find_all(
        &self,
        numbers: Range<usize>,
        scratch: &mut Scratch,
        lot: &mut Lot<'a>,
    ) -> Result<(), ArrayError> {
        let layout = self.layout;
        let (mut indices, mut found) = (Vec::new(), Found::default());
        for number in numbers.clone() {
            self.plan.task(layout, number, &mut scratch.task);
            indices.extend_from_slice(&scratch.task.chunk);
        }
        let wanted = ChunkList::new(layout.shape().len(), numbers.len(), &indices);
        layout.locate_all(wanted, &mut found)?;
        lot.chunks.reserve_exact(found.len());
        let mut last = None;
        for (n, number) in numbers.enumerate() {
            let Some((key, location)) = found.get(n) else { continue };
            if last != Some(found.object_of(n)) {
                last = Some(found.object_of(n));
                if lot.objects.last().is_none_or(|object| object.key != key) {
                    lot.objects.push(FoundObject { key: key.into(), ..FoundObject::default() });
                }
            }
            let object = lot.objects.len().saturating_sub(1);
            match location {
                Location::Absent => lot.absent.push((number, object)),
                Location::Range { offset, len, skipped: 0 }
                    if self.fits(lot, wanted.get(n), offset, len)? =>
                {
                    lot.chunks.push(FoundChunk { object, offset, len, number });
                }
                _ => lot.alone.push(Alone { object, location, number }),
            }
        }
        Ok(())
    }

    /// Returns `true` if a chunk can be in this range of the last object, which is opened for that.
    ///
    /// A chunk that cannot be there is read by itself: the error names it.
    fn fits(&self, lot: &mut Lot<'a>, chunk: &[u64], offset: u64, len: u64) -> Result<bool, ArrayError> {
        let (layout, chain) = (self.layout, self.layout.encoding().chain());
        let Some(object) = lot.objects.last_mut() else { return Ok(false) };
        if object.opened.is_none() {
            let task = || Task { chunk: chunk.into(), ..Task::default() };
            let key = Key::new(&object.key);
            let opened = key.and_then(|key| layout.store().open(key, None));
            object.opened = opened.map_err(|source| store_error(layout, &task(), source))?;
            object.stamp = object.opened.as_ref().and_then(|opened| opened.stamp());
        }
        let Some(opened) = &object.opened else { return Ok(false) };
        let (size, most) = (chain.decoded_size() as u64, chain.max_encoded() as u64);
        let whole = if chain.stores_decoded() { len == size } else { len <= most };
        Ok(whole && offset.checked_add(len).is_some_and(|end| end <= opened.size()))
    }

    /// Locates the chunk that all tasks are parts of, and opens its object once for all of them.
    ///
    /// If the object were replaced in between, its parts would make a chunk that never existed.
    fn find_cut(&self, tasks: usize, scratch: &mut Scratch, lot: &mut Lot<'a>) -> Result<(), ArrayError> {
        let layout = self.layout;
        self.plan.task(layout, 0, &mut scratch.task);
        let location = layout.locate(&scratch.task.chunk, &mut scratch.key)?;
        let opened = match self.is_present(location, &scratch.key) {
            true => fetch::open(layout, &scratch.task, &scratch.key, location)?,
            false => None,
        };
        match opened.is_some() {
            true => lot.alone.extend((0..tasks).map(|number| Alone { object: 0, location, number })),
            false => lot.absent.extend((0..tasks).map(|number| (number, 0))),
        }
        lot.objects.push(FoundObject { key: scratch.key.clone(), opened, ..FoundObject::default() });
        Ok(())
    }

    /// Locates the touched chunks of some shards, no more than the first `most` of each.
    fn find_shards(
        &self,
        shards: &ShardPlan<'_>,
        numbers: Range<usize>,
        most: usize,
        scratch: &mut Scratch,
        lot: &mut Lot<'a>,
    ) -> Result<(), ArrayError> {
        let layout = self.layout;
        let (Some(sharding), Scratch { task, key, .. }) = (layout.sharding(), scratch) else { return Ok(()) };
        let mut chunks = Dims::new();
        let mut entire = SmallVec::<[bool; 8]>::new();
        for number in numbers.clone() {
            shards.shard(number, task);
            chunks.extend_from_slice(&task.chunk);
            entire.push(task.covers(layout.object_grid(), layout.shape()));
        }
        let wanted = ChunkList::new(layout.shape().len(), numbers.len(), &chunks);
        let mut found = Found::reusing(key);
        layout.locate_all(wanted, &mut found)?;
        // The shards that may exist, and the shards that do not.
        let (mut open, mut absent) = (SmallVec::<[usize; 8]>::new(), SmallVec::<[usize; 8]>::new());
        let mut there: SmallVec<[Shard<'_, '_>; 1]> = SmallVec::new();
        for n in 0..numbers.len() {
            let (chunk, Some((key, location))) = (wanted.get(n), found.get(n)) else { continue };
            if let Location::Range { .. } = location {
                let (array, key) = (layout.name().into(), key.into());
                let why = "shards that are a part of an object are not supported".into();
                return Err(ArrayError::Shard { array, key, chunk: None, why });
            }
            if !self.is_present(location, key) {
                absent.push(n);
                continue;
            }
            let task = || Task { chunk: chunk.into(), ..Task::default() };
            let key = Key::new(key).map_err(|source| store_error(layout, &task(), source))?;
            let (plan, verify, chunk) = (self.plan, self.verify, chunk.into());
            let entire = entire.get(n).copied().unwrap_or(false);
            let shard = Shard::new(layout, sharding, plan, key, chunk, verify)?;
            there.push(shard.read_entirely(entire));
            open.push(n);
        }
        let (mut read, mut places) = (0, SmallVec::<[ShardPlace; 1]>::new());
        Shard::open_all(&there, &mut read, &mut |shard, object| match object {
            Some(object) => {
                let size = object.opened.as_ref().map_or(0, |opened| opened.size());
                places.push(ShardPlace { shard, object: lot.objects.len(), range: (0, size) });
                lot.objects.push(object);
            }
            None => absent.extend(open.get(shard).copied()),
        })?;
        lot.index_bytes += read;
        let mut at_hand = numbers.len() - 1;
        let mut touched = |n: usize, task: &mut Task| {
            // Usually there is one shard.
            if std::mem::replace(&mut at_hand, n) != n {
                shards.shard(numbers.start + n, task);
            }
            shards.touched_chunks(numbers.start + n, task).take(most)
        };
        let of_place = |n: usize| touched(open[places[n].shard], task);
        Finder::new(&there, lot, self.dry).find(&places, of_place)?;
        for n in absent {
            let touched = touched(n, task);
            if self.dry {
                lot.absent.extend(touched.map(|touched| (touched.number, lot.objects.len())));
                let key = found.get(n).map_or("", |(key, _)| key).into();
                lot.objects.push(FoundObject { key, ..FoundObject::default() });
            } else {
                // Fill everything at once.
                self.fill(shards.plan(), task);
            }
        }
        drop(there);
        *key = found.into_one().0;
        Ok(())
    }

    /// Moves chunks that a cache holds from the chunks to read to the held chunks.
    fn take_held(&self, lot: &mut Lot<'_>, scratch: &mut Scratch) -> Result<(), ArrayError> {
        if self.cache.is_none() {
            return Ok(());
        }
        let mut left = SmallVec::new();
        for chunk in std::mem::take(&mut lot.chunks) {
            let Some(FoundObject { key, stamp: Some(stamp), .. }) = lot.objects.get(chunk.object) else {
                left.push(chunk);
                continue;
            };
            self.plan.task(self.layout, chunk.number, &mut scratch.task);
            match self.cached_chunk(self.layout, &scratch.task, key, location(&chunk), Some(*stamp))? {
                Some(memory) => lot.cached.push((chunk, memory)),
                None => left.push(chunk),
            }
        }
        lot.chunks = left;
        Ok(())
    }

    /// The part of an object to read for the task at hand: without codecs, only the wanted bytes.
    pub(crate) fn next_of(
        &self,
        location: Location,
        key: &str,
        scratch: &mut Scratch,
    ) -> Result<Next, ArrayError> {
        let (start, len) = match location {
            Location::Range { offset, len, .. } => (offset, len),
            // No chunk is longer, whatever its object contains.
            _ if !self.layout.encoding().chain().stores_decoded() => {
                return Ok(Next::Start(self.layout.encoding().chain().max_encoded() as u64));
            }
            _ => (0, self.layout.encoding().decoded_size() as u64),
        };
        scratch.key.clear();
        scratch.key.push_str(key);
        let ranges = self.decide(location, scratch, |reader, scratch| {
            Ok((reader.strategy.ranges)(reader, &scratch.task, (start, len)))
        })?;
        let first = ranges.iter().min();
        let end = ranges.iter().map(|(offset, len)| offset.saturating_add(*len)).max();
        Ok(match first.zip(end) {
            // Reading the bytes in between costs less than another request.
            Some(((first, _), end)) if self.layout.store().cost().worth_joining(end - first) => {
                Next::Part(*first, end - first)
            }
            Some(((first, len), _)) => Next::Part(*first, *len),
            None => Next::Part(start, len),
        })
    }

    /// Reads a task whose object has been opened. Fails if opening failed.
    pub(crate) fn read_opened(
        &self,
        (number, location): (usize, Location),
        key: String,
        opened: hyperslab_store::Result<Option<Box<dyn Opened + '_>>>,
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let layout = self.layout;
        self.plan.task(layout, number, &mut scratch.task);
        scratch.key = key;
        let opened = opened.map_err(|source| store_error(layout, &scratch.task, source))?;
        let Some(opened) = opened else {
            self.fill(self.plan, &scratch.task);
            return Ok(());
        };
        fetch::check_size(layout, &scratch.task, &scratch.key, location, &*opened)?;
        self.read_alone(Stored { location, opened: Some(&*opened) }, scratch)
    }

    /// Reads a task that is a lot of its own.
    fn read_one(&self, number: usize, scratch: &mut Scratch) -> Result<(), ArrayError> {
        self.plan.task(self.layout, number, &mut scratch.task);
        let location = self.layout.locate(&scratch.task.chunk, &mut scratch.key)?;
        self.read_alone(Stored { location, opened: None }, scratch)
    }

    /// Reads the chunk of the task at hand by itself. `scratch` has the key of its object.
    fn read_alone(&self, stored: Stored<'_>, scratch: &mut Scratch) -> Result<(), ArrayError> {
        let found = self.is_present(stored.location, &scratch.key)
            && self.decide(stored.location, scratch, |reader, scratch| reader.read(scratch, stored))?;
        if !found {
            self.fill(self.plan, &scratch.task);
        }
        Ok(())
    }

    /// Decides how to read the chunk of the task at hand by itself, and calls `then`.
    pub(crate) fn decide<T>(
        &self,
        location: Location,
        scratch: &mut Scratch,
        then: impl FnOnce(&ChunkReader<'_>, &mut Scratch) -> Result<T, ArrayError>,
    ) -> Result<T, ArrayError> {
        let some = self.layout.without_skipped_codecs(location);
        let layout = some.as_deref().unwrap_or(self.layout);
        if !layout.grid().is_regular() {
            return self.decide_by_shape(location, scratch, then);
        }
        // Usually there is no cache to look in.
        let held = match self.cache {
            Some(_) => self.cached_chunk(layout, &scratch.task, &scratch.key, location, None)?,
            None => None,
        };
        then(&ChunkReader::new(self, layout, &scratch.task, held, false), scratch)
    }

    /// [`Request::decide`] for a chunk with a shape of its own.
    #[inline(never)]
    fn decide_by_shape<T>(
        &self,
        location: Location,
        scratch: &mut Scratch,
        then: impl FnOnce(&ChunkReader<'_>, &mut Scratch) -> Result<T, ArrayError>,
    ) -> Result<T, ArrayError> {
        let some = self.layout.of_chunk(&scratch.task.chunk)?;
        let layout = some.as_deref().unwrap_or(self.layout);
        let held = match self.cache {
            Some(_) => self.cached_chunk(layout, &scratch.task, &scratch.key, location, None)?,
            None => None,
        };
        let moved = self.plan.move_points(self.layout, layout.encoding().strides(), &mut scratch.task);
        let moved = moved.ok_or_else(|| memory_error(layout, "the points of a chunk", u64::MAX))?;
        let places = moved.iter().map(|points| points.places(self.target.strides())).collect();
        then(&ChunkReader::with_places(self, layout, &scratch.task, places, held, false), scratch)
    }

    /// Executes a step of a lot.
    pub(crate) fn execute(
        &self,
        lot: &Lot<'_>,
        step: &Step,
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let put_together = |object: usize, number: usize, scratch: &mut Scratch| {
            scratch.key.clear();
            scratch.key.push_str(lot.objects.get(object).map_or("", |object| &object.key));
            self.plan.task(self.layout, number, &mut scratch.task);
        };
        match step {
            Step::Run(run) => {
                let mut encoded = std::mem::take(&mut scratch.encoded);
                let outcome = self.read_run(&mut encoded, lot, run, scratch);
                scratch.encoded = encoded;
                outcome
            }
            Step::Direct(chunks) => {
                self.read_direct(lot, lot.chunks.get(chunks.clone()).unwrap_or_default(), scratch)
            }
            Step::Alone(n) => lot.alone.get(*n).map_or(Ok(()), |alone| {
                put_together(alone.object, alone.number, scratch);
                let opened = lot.objects.get(alone.object).and_then(|object| object.opened.as_deref());
                self.read_alone(Stored { location: alone.location, opened }, scratch)
            }),
            Step::Held(n) => lot.cached.get(*n).map_or(Ok(()), |(chunk, memory)| {
                put_together(chunk.object, chunk.number, scratch);
                let stored = Stored { location: location(chunk), opened: None };
                let reader = ChunkReader::new(self, self.layout, &scratch.task, Some(memory.clone()), false);
                reader.read(scratch, stored).map(|_| ())
            }),
            Step::Fill(absent) => {
                for (number, _) in lot.absent.get(absent.clone()).unwrap_or_default() {
                    self.plan.task(self.layout, *number, &mut scratch.task);
                    self.fill(self.plan, &scratch.task);
                }
                Ok(())
            }
        }
    }

    /// Reads a run into `encoded`, and decodes its chunks to their places.
    fn read_run(
        &self,
        encoded: &mut Vec<u8>,
        lot: &Lot<'_>,
        run: &ReadRun,
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let (layout, chunks) = (self.layout, lot.chunks.get(run.chunks.clone()).unwrap_or_default());
        let (Some(FoundObject { key, opened: Some(opened), stamp, .. }), Some(first)) =
            (lot.objects.get(run.object), chunks.first())
        else {
            return Ok(());
        };
        scratch.key.clone_from(key);
        let len = usize::try_from(run.len).unwrap_or(usize::MAX);
        self.plan.task(layout, first.number, &mut scratch.task);
        let fail = |source| store_error(layout, &scratch.task, source);
        let lent = opened.lend(run.offset, run.len).map_err(fail)?;
        let encoded = match &lent {
            Some(lent) => (**lent).as_ref(),
            None => {
                encoded.clear();
                encoded.try_reserve(len).map_err(|_| memory_error(layout, "encoded chunks", run.len))?;
                encoded.resize(len, 0);
                opened.read_ranges(&mut [RangeRead { offset: run.offset, buf: encoded }]).map_err(fail)?;
                encoded
            }
        };
        // The stamp is the same before and after reading the run, so it vouches for the run.
        let vouched = self.keep.and(*stamp).filter(|stamp| opened.vouched() == Some(*stamp));
        for chunk in chunks {
            self.plan.task(layout, chunk.number, &mut scratch.task);
            let start = (chunk.offset - run.offset) as usize;
            let bytes = encoded.get(start..start + chunk.len as usize).unwrap_or_default();
            let reader = ChunkReader::new(self, layout, &scratch.task, None, true);
            (reader.strategy.place)(&reader, scratch, bytes, location(chunk), vouched)?;
            self.mark(&scratch.task);
        }
        Ok(())
    }

    /// Reads chunks without codecs of one object: only the wanted bytes.
    ///
    /// One call reads all bytes that go straight to the target.
    fn read_direct(
        &self,
        lot: &Lot<'_>,
        chunks: &[FoundChunk],
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let layout = self.layout;
        let object = chunks.first().and_then(|chunk| lot.objects.get(chunk.object));
        let Some(FoundObject { key, opened: Some(opened), .. }) = object else { return Ok(()) };
        scratch.key.clone_from(key);
        let mut task = std::mem::take(&mut scratch.task);
        // All chunks of a request have the same kind of rows, except at its edges.
        let mut direct = true;
        let mut others: Vec<FoundChunk> = Vec::new();
        let (list, ..) = scratch.split_ranges();
        let outcome = with_ranges(list, |list| {
            for (n, chunk) in chunks.iter().enumerate() {
                self.plan.task(layout, chunk.number, &mut task);
                let reader = ChunkReader::new(self, layout, &task, None, false);
                match reader.is_direct() {
                    true => reader.push_rows(chunk.offset, list),
                    false if n == 0 => {
                        direct = false;
                        break;
                    }
                    false => others.push(*chunk),
                }
            }
            if list.is_empty() {
                return Ok(());
            }
            opened.read_ranges(list).map_err(|source| store_error(layout, &task, source))
        });
        scratch.task = task;
        outcome?;
        if direct && self.masking.is_some() {
            // Chunks that are not direct are marked again when they are read.
            for chunk in chunks {
                self.plan.task(layout, chunk.number, &mut scratch.task);
                self.mark(&scratch.task);
            }
        }
        let opened: Option<&dyn Opened> = Some(&**opened);
        let others = if direct { &others } else { chunks };
        let cost = layout.store().cost();
        if cost.prefers_rounds() {
            let mut needed = Vec::new();
            for chunk in others {
                self.plan.task(layout, chunk.number, &mut scratch.task);
                needed.extend(self.decide(location(chunk), scratch, |reader, scratch| {
                    Ok((reader.strategy.ranges)(reader, &scratch.task, (chunk.offset, chunk.len)))
                })?);
            }
            opened.iter().for_each(|opened| opened.announce(&needed, cost.at_once));
        }
        others.iter().try_for_each(|chunk| {
            self.plan.task(layout, chunk.number, &mut scratch.task);
            self.read_alone(Stored { location: location(chunk), opened }, scratch)
        })
    }
}

/// The location of a chunk, as a format would report it.
pub(crate) fn location(chunk: &FoundChunk) -> Location {
    Location::Range { offset: chunk.offset, len: chunk.len, skipped: 0 }
}
