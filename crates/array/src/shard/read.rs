//! Reading chunks of shards.
//!
//! 1. The shards that a request touches are taken a few at a time: each is open while its chunks
//!    are read, and a process may have only so many open files.
//! 2. Their indexes are looked at ([`Finder`]), by several threads where there are several shards.
//!    Shards that do not exist are filled at once.
//! 3. The ranges of the chunks are sorted and joined to runs. Each run is a task: read it, decode
//!    each chunk straight to where it belongs. The runs of all the shards are in one queue, so
//!    uneven shards leave no thread idle.

use super::find::{Blobs, Finder};
use super::level::Sharding;
use super::plan::ShardPlan;
use crate::error::ArrayError;
use crate::layout::Location;
use crate::read::fetch::Parts;
use crate::read::read_region;
use crate::read::runs::{Chunk, LONGEST, RangeRequest, Run, location, runs};
use crate::runtime::scratch::{Scratch, with_ranges};
use crate::runtime::settings;
use crate::runtime::tasks;
use crate::runtime::tasks::{Interrupt, store_error};
use hyperslab_store::{RangeRead, Stamp};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// A request to read chunks that lie in shards.
pub(crate) struct Request<'a> {
    /// The chunks.
    pub(crate) inner: RangeRequest<'a>,
    pub(crate) sharding: &'a Sharding,
}

/// How many shards of a request are open at a time.
const OPEN: usize = 16;

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
    /// Reads all. `bytes`: an estimate of what is moved; `limit`: the threads that may work on it,
    /// and those if it waits.
    pub(crate) fn read(
        &self,
        bytes: u64,
        limit: (usize, usize),
        interrupt: Option<Interrupt<'_>>,
    ) -> Result<(), ArrayError> {
        let shards = ShardPlan::new(self.inner.layout, self.sharding, self.inner.plan);
        let most = settings::decodes_in_flight();
        let limit = (limit.0.min(most), limit.1.min(most));
        for first in (0..shards.len()).step_by(OPEN) {
            let count = OPEN.min(shards.len() - first);
            // Local: only threads of this request know them.
            let found: Vec<Mutex<Option<Shard<'_>>>> = (0..count).map(|_| Mutex::default()).collect();
            let work = count as u64 * (64 << 10);
            tasks::run_tasks(self.inner.layout, count, work, limit, interrupt, &|number, scratch, _| {
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
                1 if self.inner.layout.encoding().chain().is_identity() => u64::MAX,
                1 => LONGEST,
                threads => (stored / (4 * threads as u64)).clamp(SHORTEST, LONGEST),
            };
            let mut jobs: Vec<Job> = Vec::new();
            for (n, shard) in found.iter_mut().enumerate() {
                let gap = self.inner.layout.store().gap();
                jobs.extend(runs(&mut shard.chunks, gap, most).into_iter().map(|run| Job::Read(n, run)));
                let absent = if self.inner.absent.filled { 0 } else { shard.absent.len() };
                let starts = (0..absent).step_by(FILLED);
                jobs.extend(starts.map(|start| Job::Fill(n, start..absent.min(start + FILLED))));
            }
            let chunks: usize = found.iter().map(|shard| shard.chunks.len()).sum();
            let part = (bytes as u128 * chunks as u128 / self.inner.plan.len().max(1) as u128) as u64;
            let work = tasks::work(self.inner.layout, chunks, part);
            tasks::run_tasks(
                self.inner.layout,
                jobs.len(),
                work,
                limit,
                interrupt,
                &|number, scratch, _| match jobs.get(number) {
                    Some(Job::Read(n, run)) => self.read_run(&found[*n], run, scratch),
                    Some(Job::Fill(n, absent)) => {
                        for number in &found[*n].absent[absent.clone()] {
                            self.inner.plan.task(self.inner.layout, *number, &mut scratch.task);
                            self.inner.fill(self.inner.plan, &scratch.task);
                        }
                        Ok(())
                    }
                    None => Ok(()),
                },
            )?;
        }
        Ok(())
    }

    /// Opens a shard and finds its chunks. What does not exist is filled; what is in the cache is
    /// copied from there.
    fn find<'s>(
        &'s self,
        shards: &ShardPlan<'_>,
        number: usize,
        scratch: &mut Scratch,
    ) -> Result<Option<Shard<'s>>, ArrayError> {
        let layout = self.inner.layout;
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
            && self.inner.absent.present.is_none_or(|present| present.contains(key.as_str()));
        let checked = tasks::key(layout, task, key)?;
        let finder = match present {
            true => Finder::open(layout, self.sharding, self.inner.plan, checked, task, self.inner.verify)?,
            false => None,
        };
        let Some(mut finder) = finder else {
            self.inner.fill(shards.plan(), task);
            return Ok(None);
        };
        finder.find(shards.touched(number, task))?;
        let Finder { blobs, stamp, chunks, absent, .. } = finder;
        let mut shard = Shard { key: key.clone(), blobs: open(blobs), stamp, chunks, absent };
        self.inner.copy_cached(&shard.key, shard.stamp, &mut shard.chunks, scratch)?;
        Ok(Some(shard))
    }

    /// Reads the chunks of a run.
    fn read_run(&self, shard: &Shard<'_>, run: &Run, scratch: &mut Scratch) -> Result<(), ArrayError> {
        let (Some(chunks), Some(blob)) = (shard.chunks.get(run.chunks.clone()), shard.blobs.get(run.blob))
        else {
            return Ok(());
        };
        scratch.key.clone_from(&shard.key);
        if self.inner.layout.encoding().chain().is_identity() {
            return self.read_plain(blob, chunks, scratch);
        }
        match blob {
            Some(opened) => self.inner.read_run(&**opened, shard.stamp, run, chunks, scratch),
            None => Ok(()),
        }
    }

    /// Reads chunks without codecs: only the bytes that are wanted, all that go straight to the
    /// target in one call.
    fn read_plain(
        &self,
        blob: &Parts<'_>,
        chunks: &[Chunk],
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let (layout, strides) = (self.inner.layout, self.inner.target.strides());
        let mut task = std::mem::take(&mut scratch.task);
        let (list, ..) = scratch.split_ranges();
        let mut others: Vec<Chunk> = Vec::new();
        let outcome = with_ranges(list, |list| {
            for chunk in chunks {
                self.inner.plan.task(layout, chunk.number, &mut task);
                let (region, offset) = read_region(layout, &task, strides);
                let row = region.contiguous().or_else(|| region.direct_row());
                let Some(row) = row.filter(|_| layout.encoding().swap() == 1 && task.picks.is_empty()) else {
                    others.push(*chunk);
                    continue;
                };
                let dst = self.inner.target.at(&task.out);
                let start = chunk.offset + offset as u64;
                let mut push = |dst_offset: isize, src: isize| {
                    // SAFETY: a row that is contiguous in the output, of initialised bytes; rows
                    // are disjoint.
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
            self.inner.plan.task(layout, chunk.number, &mut scratch.task);
            let (region, offset) = read_region(layout, &scratch.task, strides);
            let places = self.inner.plan.places(&scratch.task, strides);
            let reader = self.inner.reader(&scratch.task, &places, Some(blob));
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
