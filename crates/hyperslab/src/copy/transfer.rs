//! Copies and compares arrays: each in the passes of its plan, block by block.

use super::blocks::Blocks;
use super::geometry::geometry;
use super::listings::Listings;
use super::mover::{InBlock, Mover, Shard};
use super::plan::{CopyPlan, Geometry, Pass, Prices};
use super::region::Window;
use super::stored_blocks::{Sizes, little_is_stored};
use super::structures::Repack;
use super::temporary::{Beside, Temporary};
use super::{Paths, Phase, Progress, path_text};
use crate::error::check;
use crate::nodes::info::array_bytes;
use crate::{Array, Dims, Error, Result};
use hyperslab_array::{ArrayError, Memory, write_shard_in_parts};
use hyperslab_store::{Ask, Cost};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// An array and its existing copy, which is empty, or in which a part is replaced.
pub(super) struct Job {
    pub(super) name: String,
    pub(super) source: Array,
    pub(super) target: Array,
    /// Bytes of the source's chunks; 0: unknown.
    pub(super) stored: u64,
    /// Conversion of elements with fields; `None`: source and copy have the same bytes.
    pub(super) repack: Option<Repack>,
    /// The part to copy, and its place in the copy.
    pub(super) window: Window,
    /// `true`: the target is made by this copy, by this run or an earlier one.
    pub(super) is_new: bool,
    /// `true`: nothing was stored at the place of the copy when this run began.
    pub(super) is_fresh: bool,
}

impl Job {
    /// A job for planning only.
    pub(super) fn planned(path: &str, source: &Array, target: Array, stored: u64, window: &Window) -> Job {
        let (name, source, window) = (path_text(path), source.clone(), window.clone());
        Job { name, source, target, stored, repack: None, window, is_new: true, is_fresh: true }
    }

    /// Bytes in memory of the elements to copy.
    pub(super) fn bytes(&self) -> u64 {
        self.window.bytes(self.source.dtype().size())
    }

    /// Estimates the bytes of the source's chunks that belong to the elements to copy.
    pub(super) fn stored_of_window(&self) -> u64 {
        let all = array_bytes(&self.source).max(1);
        (u128::from(self.stored) * u128::from(self.bytes()) / u128::from(all)) as u64
    }
}

/// Settings that all arrays of a copy share.
pub(super) struct Means<'a> {
    pub(super) threads: usize,
    /// The number of threads that the caller asked for.
    pub(super) asked: Option<usize>,
    /// The server of the copies, if they are only described yet.
    pub(super) server: Option<Server>,
    pub(super) max_memory: u64,
    pub(super) memory_is_limit: bool,
    /// The place for temporary arrays on a local disk.
    pub(super) beside: Option<Beside>,
    pub(super) prices: Prices,
    /// Number of tasks that run at once.
    pub(super) workers: u64,
    pub(super) progress: Option<&'a dyn Progress>,
    /// For targets in one file.
    pub(super) one_file: Option<OneFile<'a>>,
}

/// A copy of many arrays into one file.
#[derive(Clone, Copy)]
pub(super) struct OneFile<'a> {
    /// Called with its array after each block: moves the written chunks to the file.
    pub(super) settle: &'a dyn Fn(&Job) -> Result<()>,
    /// The most threads. Plans assume another number, so that the order of blocks, and with it the
    /// bytes of the file, do not depend on threads.
    pub(super) threads: usize,
}

/// A server that a planned copy goes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    /// Number of requests at a time.
    pub(super) requests: usize,
    /// Its costs. `None`: unknown, and there is no place for temporary arrays.
    pub(super) cost: Option<Cost>,
}

/// The plans of an array.
struct Plans {
    geometry: Geometry,
    copy: CopyPlan,
    compare: CopyPlan,
}

/// All arrays of a copy, and the buffer for their elements.
pub(super) struct Transfer<'a> {
    jobs: &'a [Job],
    plans: Vec<Plans>,
    beside: Option<Beside>,
    /// One buffer for the blocks of all arrays, so that a second never exists beside the first.
    /// Allocated for the first block that needs it: a document may claim chunks that no memory
    /// could hold, and have none of them stored.
    buffer: RefCell<Memory>,
    /// Buffer size for the blocks of all arrays, except blocks above the memory limit.
    usual: u64,
    /// Bytes of the copied values of variable length, and the maximum in one block.
    values: Cell<(u64, u64)>,
    /// The arrays that cannot be copied.
    left_out: RefCell<BTreeSet<usize>>,
    progress: Option<&'a dyn Progress>,
    one_file: Option<OneFile<'a>>,
}

impl<'a> Transfer<'a> {
    pub(super) fn new(jobs: &'a [Job], means: Means<'a>) -> Result<Self> {
        let mut this = Transfer {
            jobs,
            plans: Vec::new(),
            buffer: RefCell::new(memory(0, "")?),
            usual: 0,
            values: Cell::default(),
            left_out: RefCell::default(),
            progress: means.progress,
            beside: None,
            one_file: means.one_file,
        };
        let ask: Ask<'_> = &|| means.progress.is_some_and(Progress::cancelled);
        for job in jobs {
            check(Some(ask))?;
            let geometry = geometry(job, &means, Some(ask))?;
            let plans =
                Plans { copy: geometry.plan(), compare: geometry.comparing().one_pass_plan(), geometry };
            if job.target.vlen().is_none() {
                for plan in [&plans.copy, &plans.compare] {
                    for pass in &plan.passes {
                        let bytes = pass.buffer;
                        this.usual = this.usual.max(if bytes <= means.max_memory { bytes } else { 0 });
                    }
                }
            }
            this.plans.push(plans);
        }
        this.beside = means.beside;
        Ok(this)
    }

    /// A transfer that only copies parts of an array ([`Transfer::units`]).
    pub(super) fn of_parts(progress: Option<&'a dyn Progress>) -> Result<Self> {
        let means = Means {
            threads: 1,
            asked: None,
            server: None,
            max_memory: 0,
            memory_is_limit: false,
            beside: None,
            prices: Prices::default(),
            workers: 1,
            progress,
            one_file: None,
        };
        Transfer::new(&[], means)
    }

    /// The plan of each array.
    pub(super) fn into_plans(self) -> impl Iterator<Item = CopyPlan> {
        self.plans.into_iter().map(|plans| plans.copy)
    }

    /// Bytes of the memory that all blocks went through.
    pub(super) fn block_bytes(&self) -> u64 {
        (self.buffer.borrow().len() as u64).max(self.values.get().1)
    }

    /// Bytes of the copied values of variable length.
    pub(super) fn value_bytes(&self) -> u64 {
        self.values.get().0
    }

    /// Copies or compares all arrays, which have `total` bytes in memory.
    /// `failed` receives the error of each array that cannot be copied. If it returns `Ok`, the
    /// copy continues with the next array.
    pub(super) fn run(
        &self,
        phase: Phase,
        total: u64,
        failed: &mut dyn FnMut(&Job, Error) -> Result<()>,
    ) -> Result<()> {
        if let Some(progress) = self.progress {
            progress.begin(phase, total);
        }
        for (number, job) in self.jobs.iter().enumerate() {
            if self.left_out.borrow().contains(&number) {
                continue;
            }
            if let Some(progress) = self.progress {
                progress.array(&job.name);
            }
            // Count the blocks that are skipped, in which both have the fill value.
            let mut rest = job.bytes();
            if let Err(error) = self.run_job(phase, number, job, &mut rest) {
                failed(job, error)?;
                self.left_out.borrow_mut().insert(number);
            }
            self.advance(rest);
        }
        Ok(())
    }

    /// Copies or compares one array. `rest`: bytes that are not done yet.
    fn run_job(&self, phase: Phase, number: usize, job: &Job, rest: &mut u64) -> Result<()> {
        let Some(plans) = self.plans.get(number) else { return Err(wrong_size()) };
        let cancelled: Ask<'_> = &|| self.is_cancelled();
        let mut lists = Mover::new(job, (&job.source, &job.target), (1, 1), cancelled);
        lists.list_stored_objects(phase)?;
        let direct;
        let plan = match (phase, lists.places(0)) {
            (Phase::Verify, _) => &plans.compare,
            (Phase::Copy, Some(list))
                if plans.copy.passes.len() > 1 && little_is_stored(&job.source, list) =>
            {
                direct = plans.geometry.one_pass_plan();
                &direct
            }
            (Phase::Copy, _) => &plans.copy,
        };
        let (mut read, mut found): (Option<Temporary<'_>>, _) = (None, lists.stored);
        for (n, pass) in plan.passes.iter().enumerate() {
            let written = match plan.passes.get(n + 1) {
                None => None,
                Some(_) => Some(self.create_temporary(job, pass)?),
            };
            let from = read.as_ref().map_or(&job.source, |temporary| &temporary.array);
            let to = written.as_ref().map_or(&job.target, |temporary| &temporary.array);
            let most = self.one_file.map_or(usize::MAX, |file| file.threads);
            let mut mover = Mover::new(job, (from, to), (pass.threads.min(most), pass.requests), cancelled);
            match n {
                0 => mover.stored = std::mem::take(&mut found),
                _ => mover.list_stored_objects(phase)?,
            }
            self.walk(&Walk { phase, mover, share: plan.passes.len() as u64 }, pass, rest)?;
            // This drops the temporary array that was read.
            read = written;
        }
        Ok(())
    }

    /// The temporary array that a pass writes, if it is not the last pass.
    fn create_temporary(&self, job: &Job, pass: &Pass) -> Result<Temporary<'_>> {
        let beside = self.beside.as_ref().ok_or_else(wrong_size)?;
        Temporary::new(beside, &job.source, &job.window.shape, &pass.target_chunk)
    }

    /// One pass over an array.
    fn walk(&self, walk: &Walk<'_>, pass: &Pass, rest: &mut u64) -> Result<()> {
        let Walk { phase, mover, .. } = walk;
        let shape = &mover.job.window.shape;
        let sizes = Sizes { large: Blocks::of(pass, shape, false), small: Blocks::of(pass, shape, true) };
        let wanted = mover.blocks_to_visit(&sizes, *phase)?;
        let blocks = wanted.blocks;
        let mut paths = Paths::new();
        let mut go = |at: &Dims, found: &Found, shard: Shard<'_, '_>| {
            let listed = if wanted.sparse { mover.listed(blocks, found) } else { [None, None] };
            self.block(walk, (blocks, at), listed, &mut paths, shard, rest)
        };
        let mut object = |object: &Dims, parts: &mut dyn Iterator<Item = (Dims, &Found)>| {
            if *phase == Phase::Verify || !blocks.are_parts() {
                for (at, found) in parts {
                    go(&at, found, None)?;
                }
                return Ok(());
            }
            let object = &mover.object(blocks, object);
            write_shard_in_parts(mover.to.layout(), object, Some(mover.cancelled), |shard| {
                for (at, found) in parts {
                    go(&at, found, Some(&mut *shard))?;
                }
                Ok(())
            })
        };
        match &wanted.places {
            None => blocks
                .objects()
                .try_for_each(|at| object(&at, &mut blocks.parts_of(&at).map(|at| (at, &NONE_LISTED)))),
            Some(places) => {
                let mut objects: BTreeMap<Dims, Vec<(&Dims, &Found)>> = BTreeMap::new();
                for (at, found) in places {
                    objects.entry(blocks.object_of(at)).or_default().push((at, found));
                }
                objects.iter().try_for_each(|(at, parts)| {
                    object(at, &mut parts.iter().map(|(at, found)| ((*at).clone(), *found)))
                })
            }
        }
        .map_err(interrupted_error)
    }

    /// Copies or compares a range of units: a part of one pass.
    /// Units are numbered as [`Blocks::objects`].
    pub(super) fn units(
        &self,
        phase: Phase,
        mut mover: Mover<'_>,
        blocks: &Blocks,
        units: Range<u64>,
        listings: &Listings,
    ) -> Result<()> {
        mover.list_for_part(phase, listings)?;
        let held = mover.blocks_held(blocks, phase)?;
        let walk = Walk { phase, mover, share: 1 };
        let (mut paths, mut rest) = (Paths::new(), 0);
        let mut go = |at: &Dims, shard: Shard<'_, '_>| {
            let found = held.as_ref().and_then(|held| held.get(at));
            let listed = found.map_or([None, None], |found| walk.mover.listed(blocks, found));
            self.block(&walk, (blocks, at), listed, &mut paths, shard, &mut rest)
        };
        for number in units {
            let object = blocks.object(number);
            let wanted = |at: &Dims| held.as_ref().is_none_or(|held| held.contains_key(at));
            let mut parts = blocks.parts_of(&object).filter(wanted).peekable();
            if parts.peek().is_none() {
                continue;
            }
            let done = match blocks.are_parts() && phase == Phase::Copy {
                false => parts.try_for_each(|at| go(&at, None)),
                true => write_shard_in_parts(
                    walk.mover.to.layout(),
                    &walk.mover.object(blocks, &object),
                    Some(walk.mover.cancelled),
                    |shard| parts.try_for_each(|at| go(&at, Some(&mut *shard))),
                ),
            };
            done.map_err(interrupted_error)?;
        }
        Ok(())
    }

    /// Copies or compares one block.
    fn block(
        &self,
        walk: &Walk<'_>,
        (blocks, at): (&Blocks, &Dims),
        listed: InBlock<'_>,
        paths: &mut Paths,
        shard: Shard<'_, '_>,
        rest: &mut u64,
    ) -> Result<()> {
        if self.is_cancelled() {
            return Err(Error::Interrupted);
        }
        let (mover, job) = (&walk.mover, walk.mover.job);
        let block = blocks.block(at);
        let len = block.bytes(job.source.dtype().size()).ok_or_else(wrong_size)?;
        let mut buffer = self.buffer.borrow_mut();
        if job.target.vlen().is_none() {
            self.make_room(&mut buffer, len, walk.phase, &job.name)?;
        }
        match (walk.phase, job.target.vlen()) {
            (Phase::Copy, None) => mover.copy(&block, listed, buffer.as_mut_slice(), len, shard)?,
            (Phase::Verify, None) => mover.compare(&block, listed, buffer.as_mut_slice(), len)?,
            (Phase::Copy, Some(kind)) => {
                let bytes = mover.copy_ragged(&block, paths, kind, shard)?;
                let (all, most) = self.values.get();
                self.values.set((all.saturating_add(bytes), most.max(bytes + len as u64)));
            }
            (Phase::Verify, Some(kind)) => mover.compare_ragged(&block, paths, kind)?,
        }
        if let Some(file) = self.one_file.filter(|_| walk.phase == Phase::Copy && !mover.is_temporary) {
            (file.settle)(job)?;
        }
        let done = len as u64 / walk.share;
        *rest = rest.saturating_sub(done);
        self.advance(done);
        Ok(())
    }

    /// Makes the buffer large enough for a block.
    fn make_room(&self, buffer: &mut Memory, len: usize, phase: Phase, name: &str) -> Result<()> {
        let needed = (len as u64).saturating_mul(if phase == Phase::Copy { 1 } else { 2 });
        if needed > buffer.len() as u64 {
            // Free the old buffer first.
            *buffer = memory(0, name)?;
            *buffer = memory(needed.max(self.usual), name)?;
        }
        Ok(())
    }

    fn advance(&self, bytes: u64) {
        if let Some(progress) = self.progress {
            progress.advance(bytes);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.progress.is_some_and(Progress::cancelled)
    }
}

fn interrupted_error(error: Error) -> Error {
    match error {
        Error::Array(ArrayError::Interrupted { .. }) => Error::Interrupted,
        error => error,
    }
}

fn memory(bytes: u64, array: &str) -> Result<Memory> {
    let memory = usize::try_from(bytes).ok().and_then(Memory::dirty);
    Ok(memory.ok_or_else(|| ArrayError::Memory {
        array: array.to_owned(),
        what: "a block of chunks",
        bytes,
    })?)
}

/// One pass while it runs.
struct Walk<'w> {
    phase: Phase,
    mover: Mover<'w>,
    /// Number of passes that share the progress of an array.
    share: u64,
}

/// The numbers of the objects in a block, in the source and in the copy.
type Found = [Vec<usize>; 2];

/// Used if the objects are not listed.
static NONE_LISTED: Found = [Vec::new(), Vec::new()];

/// Blocks are cut to fit the buffer. If one does not fit, fail instead of making a wrong copy.
pub(super) fn wrong_size() -> Error {
    Error::Options("a block does not fit the memory set aside for it".into())
}
