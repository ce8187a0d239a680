//! Reading chunks of shards.
//!
//! 1. The shards that a request touches are taken a few at a time: each is open while its chunks are read, and a process may have only so many open files.
//! 2. Their indexes are looked at ([`Finder`]), by several threads where there are several shards. Shards that do not exist are filled at once.
//! 3. The ranges of the chunks are sorted and joined to runs. Each run is a task: read it, decode each chunk straight to where it belongs. The runs of all the shards are
//!    in one queue, so uneven shards leave no thread idle.

use super::Sharding;
use super::find::{Blobs, Chunk, Finder, Run, runs};
use super::plan::ShardPlan;
use crate::cache::Wanted;
use crate::execute::{self, Interrupt, memory_error, store_error};
use crate::fetch::Parts;
use crate::point_plan::Places;
use crate::read::{Absent, Reader, read_region};
use crate::scratch::{Scratch, with_ranges};
use crate::view::Bound;
use crate::{ArrayError, ArrayLayout, ChunkCache, Location, Plan, Task, gather, settings};
use hyperslab_store::{Opened, RangeRead, Stamp};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// A request to read chunks that lie in shards.
pub(crate) struct Request<'a> {
    pub(crate) layout: &'a ArrayLayout,
    pub(crate) sharding: &'a Sharding,
    /// The plan of chunks.
    pub(crate) plan: &'a Plan,
    pub(crate) target: &'a Bound<*mut u8>,
    pub(crate) absent: Absent<'a>,
    pub(crate) verify: bool,
    pub(crate) cache: Option<&'a ChunkCache>,
    pub(crate) keep: Option<&'a ChunkCache>,
}

/// How many shards of a request are open at a time.
const OPEN: usize = 16;

/// Runs are no longer than this, so that memory is bounded, unless a chunk alone is.
const LONGEST: u64 = 1 << 20;

/// Runs are not made shorter than this for the sake of more threads.
const SHORTEST: u64 = 128 << 10;

/// One open shard, and what is to be read from it.
struct Shard<'s> {
    key: String,
    blobs: Vec<Parts<'s>>,
    stamp: Option<Stamp>,
    chunks: Vec<Chunk>,
    /// The numbers of tasks whose chunks do not exist.
    absent: Vec<usize>,
}

/// A task of the second step: something of one of the open shards.
enum Job {
    Read(usize, Run),
    /// Fills some of the chunks that do not exist.
    Fill(usize, Range<usize>),
}

/// Chunks that do not exist are filled so many at a time.
const FILLED: usize = 16;

impl Request<'_> {
    /// Reads all. `bytes`: an estimate of what is moved; `limit`: the threads that may work on it, and those if it waits.
    pub(crate) fn read(
        &self,
        bytes: u64,
        limit: (usize, usize),
        interrupt: Option<Interrupt<'_>>,
    ) -> Result<(), ArrayError> {
        let shards = ShardPlan::new(self.layout, self.sharding, self.plan);
        let most = settings::decodes_in_flight();
        let limit = (limit.0.min(most), limit.1.min(most));
        for first in (0..shards.len()).step_by(OPEN) {
            let count = OPEN.min(shards.len() - first);
            let found: Vec<Mutex<Option<Shard<'_>>>> = (0..count).map(|_| Mutex::default()).collect();
            let work = count as u64 * (64 << 10);
            execute::run_tasks(self.layout, count, work, limit, interrupt, &|number, scratch| {
                let shard = self.find(&shards, first + number, scratch)?;
                if let Some(slot) = found.get(number) {
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = shard;
                }
                Ok(())
            })?;
            let found = found
                .into_iter()
                .filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
            let mut found: Vec<Shard<'_>> = found.collect();
            let stored: u64 = found.iter().flat_map(|shard| &shard.chunks).map(|chunk| chunk.len).sum();
            let most = match limit.0 {
                // What goes straight to the target is kept nowhere.
                1 if self.layout.encoding().chain().is_identity() => u64::MAX,
                1 => LONGEST,
                threads => (stored / (4 * threads as u64)).clamp(SHORTEST, LONGEST),
            };
            let mut jobs: Vec<Job> = Vec::new();
            for (n, shard) in found.iter_mut().enumerate() {
                let gap = self.layout.store().gap();
                jobs.extend(runs(&mut shard.chunks, gap, most).into_iter().map(|run| Job::Read(n, run)));
                let absent = if self.absent.filled { 0 } else { shard.absent.len() };
                let starts = (0..absent).step_by(FILLED);
                jobs.extend(starts.map(|start| Job::Fill(n, start..absent.min(start + FILLED))));
            }
            let chunks: usize = found.iter().map(|shard| shard.chunks.len()).sum();
            let part = (bytes as u128 * chunks as u128 / self.plan.len().max(1) as u128) as u64;
            let work = execute::work(self.layout, chunks, part);
            execute::run_tasks(
                self.layout,
                jobs.len(),
                work,
                limit,
                interrupt,
                &|number, scratch| match jobs.get(number) {
                    Some(Job::Read(n, run)) => self.read_run(&found[*n], run, scratch),
                    Some(Job::Fill(n, absent)) => {
                        for number in &found[*n].absent[absent.clone()] {
                            self.plan.task(self.layout, *number, &mut scratch.task);
                            self.fill(self.plan, &scratch.task);
                        }
                        Ok(())
                    }
                    None => Ok(()),
                },
            )?;
        }
        Ok(())
    }

    /// Opens a shard and finds its chunks. What does not exist is filled; what is in the cache is copied from there.
    fn find<'s>(
        &'s self,
        shards: &ShardPlan<'_>,
        number: usize,
        scratch: &mut Scratch,
    ) -> Result<Option<Shard<'s>>, ArrayError> {
        let layout = self.layout;
        let Scratch { task, key, .. } = scratch;
        shards.shard(number, task);
        let location = layout.locate(&task.chunk, key)?;
        if let Location::Range { .. } = location {
            let why = "shards that are a part of an object are not supported".into();
            return Err(ArrayError::Shard {
                array: layout.name().into(),
                key: key.clone(),
                chunk: None,
                why,
            });
        }
        let present = location != Location::Absent
            && self.absent.present.is_none_or(|present| present.contains(key.as_str()));
        let checked = execute::key(layout, task, key)?;
        let finder = match present {
            true => Finder::open(layout, self.sharding, self.plan, checked, task, self.verify)?,
            false => None,
        };
        let Some(mut finder) = finder else {
            self.fill(shards.plan(), task);
            return Ok(None);
        };
        finder.find(shards.touched(number, task))?;
        let Finder { blobs, stamp, chunks, absent, .. } = finder;
        let mut shard = Shard { key: key.clone(), blobs: open(blobs), stamp, chunks, absent };
        if self.cache.is_some() {
            self.copy_cached(&mut shard, scratch)?;
        }
        Ok(Some(shard))
    }

    /// Fills the part of the target of a task of `plan`: that of chunks, or that of shards.
    fn fill(&self, plan: &Plan, task: &Task) {
        if !self.absent.filled {
            let (strides, dst) = (self.target.strides(), self.target.at(&task.out));
            let (places, value) = (plan.places(task, strides), self.layout.fill().bytes());
            // SAFETY: the target covers the selection, of which the task is a part.
            unsafe { gather::fill(&places, &task.count, strides, value, dst) };
        }
    }

    /// Copies chunks that are in the cache, and takes them off the list.
    fn copy_cached(&self, shard: &mut Shard<'_>, scratch: &mut Scratch) -> Result<(), ArrayError> {
        let (Some(cache), Some(stamp)) = (self.cache, shard.stamp) else { return Ok(()) };
        let mut left = Vec::new();
        for chunk in std::mem::take(&mut shard.chunks) {
            self.plan.task(self.layout, chunk.number, &mut scratch.task);
            let task = &scratch.task;
            let key = execute::key(self.layout, task, &shard.key)?;
            let wanted = Wanted::new(self.layout, key, location(&chunk), self.verify);
            match cache.get_under(&wanted, stamp).filter(|_| chunk.blob == 0) {
                Some(memory) => {
                    let (region, offset) = read_region(self.layout, task, self.target.strides());
                    let places = self.plan.places(task, self.target.strides());
                    self.reader(task, &places, None).scatter(memory.as_slice(), &region, offset);
                }
                None => left.push(chunk),
            }
        }
        shard.chunks = left;
        Ok(())
    }

    fn reader<'r>(
        &'r self,
        task: &Task,
        places: &'r [Places<'r>],
        parts: Option<&'r Parts<'r>>,
    ) -> Reader<'r> {
        Reader {
            layout: self.layout,
            dst: self.target.at(&task.out),
            strides: self.target.strides(),
            places,
            present: None,
            parts,
            verify: self.verify,
            cache: self.cache,
            keep: self.keep,
        }
    }

    /// Reads the chunks of a run.
    fn read_run(&self, shard: &Shard<'_>, run: &Run, scratch: &mut Scratch) -> Result<(), ArrayError> {
        let (Some(chunks), Some(blob)) = (shard.chunks.get(run.chunks.clone()), shard.blobs.get(run.blob))
        else {
            return Ok(());
        };
        scratch.key.clone_from(&shard.key);
        if self.layout.encoding().chain().is_identity() {
            return self.read_plain(blob, chunks, scratch);
        }
        let Some(opened) = blob else { return Ok(()) };
        let mut encoded = std::mem::take(&mut scratch.encoded);
        let outcome = self.read_encoded(&**opened, shard.stamp, run, chunks, &mut encoded, scratch);
        scratch.encoded = encoded;
        outcome
    }

    fn read_encoded(
        &self,
        opened: &dyn Opened,
        stamp: Option<Stamp>,
        run: &Run,
        chunks: &[Chunk],
        encoded: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let layout = self.layout;
        let len = usize::try_from(run.len).unwrap_or(usize::MAX);
        encoded.clear();
        encoded.try_reserve(len).map_err(|_| memory_error(layout, "encoded chunks", run.len))?;
        encoded.resize(len, 0);
        if let Some(chunk) = chunks.first() {
            self.plan.task(layout, chunk.number, &mut scratch.task);
        }
        opened
            .read_ranges(&mut [RangeRead { offset: run.offset, buf: encoded }])
            .map_err(|source| store_error(layout, &scratch.task, source))?;
        // Under the same stamp as before the run was read: it vouches for the run.
        let vouched = self.keep.and(stamp).filter(|stamp| run.blob == 0 && opened.vouched() == Some(*stamp));
        for chunk in chunks {
            self.plan.task(layout, chunk.number, &mut scratch.task);
            let start = (chunk.offset - run.offset) as usize;
            let bytes = encoded.get(start..start + chunk.len as usize).unwrap_or_default();
            let (region, offset) = read_region(layout, &scratch.task, self.target.strides());
            let places = self.plan.places(&scratch.task, self.target.strides());
            let reader = self.reader(&scratch.task, &places, None);
            reader.place(scratch, bytes, location(chunk), vouched, &region, offset)?;
        }
        Ok(())
    }

    /// Reads chunks without codecs: only the bytes that are wanted, all that go straight to the target in one call.
    fn read_plain(
        &self,
        blob: &Parts<'_>,
        chunks: &[Chunk],
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let (layout, strides) = (self.layout, self.target.strides());
        let mut task = std::mem::take(&mut scratch.task);
        let (list, ..) = scratch.split_ranges();
        let mut others: Vec<Chunk> = Vec::new();
        let outcome = with_ranges(list, |list| {
            for chunk in chunks {
                self.plan.task(layout, chunk.number, &mut task);
                let (region, offset) = read_region(layout, &task, strides);
                let row = region.contiguous().or_else(|| region.direct_row());
                let Some(row) = row.filter(|_| layout.encoding().swap() == 1 && task.picks.is_empty()) else {
                    others.push(*chunk);
                    continue;
                };
                let dst = self.target.at(&task.out);
                let start = chunk.offset + offset as u64;
                let mut push = |dst_offset: isize, src: isize| {
                    // SAFETY: a row that is contiguous in the output, of initialised bytes; rows are disjoint.
                    let buf = unsafe { std::slice::from_raw_parts_mut(dst.wrapping_offset(dst_offset), row) };
                    list.push(RangeRead { offset: start.wrapping_add_signed(src as i64), buf });
                };
                match region.contiguous() {
                    Some(_) => push(0, 0),
                    None => region.for_each_row(&mut push),
                }
            }
            match blob {
                Some(opened) if !list.is_empty() => {
                    opened.read_ranges(list).map_err(|source| store_error(layout, &task, source))
                }
                _ => Ok(()),
            }
        });
        scratch.task = task;
        outcome?;
        for chunk in others {
            self.plan.task(layout, chunk.number, &mut scratch.task);
            let (region, offset) = read_region(layout, &scratch.task, strides);
            let places = self.plan.places(&scratch.task, strides);
            let reader = self.reader(&scratch.task, &places, Some(blob));
            match region.contiguous().filter(|_| reader.places.is_empty()) {
                Some(_) => reader.read_into(scratch, location(&chunk), &region, offset)?,
                None => reader.read_rows(scratch, location(&chunk), &region, offset)?,
            };
        }
        Ok(())
    }
}

fn open(blobs: Blobs<'_>) -> Vec<Parts<'_>> {
    blobs.into_iter().map(Some).collect()
}

fn location(chunk: &Chunk) -> Location {
    Location::Range { offset: chunk.offset, len: chunk.len, skipped: 0 }
}
