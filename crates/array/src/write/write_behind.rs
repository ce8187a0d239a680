//! Write-behind: writes that return at once, while threads of the pool encode and store.
//!
//! 1. A write copies the caller's elements, queues them and returns. The bytes that are queued and
//!    not yet stored are bounded ([`WriterOptions::buffer`]).
//! 2. Workers take the first job that may start: one whose chunks no earlier unfinished job
//!    touches. Writes to one chunk thus take effect in order, and all others at the same time. Jobs
//!    behind it that only continue it along an axis, in the same chunks, are joined with it.
//! 3. When the queue is full, the caller executes jobs itself until there is room. It waits only if
//!    every job left is under way, or behind one that is.
//! 4. A failed job stops no other job. The error of the earliest is kept, and returned once, by the
//!    next call.
//!
//! Some writes wait for the queue to empty, and are then executed as usual, without the copy. These
//! are points that are picked one by one, and requests that many threads can share (several chunks,
//! together larger than a thread's share of the buffer).

#![expect(
    clippy::indexing_slicing,
    reason = "jobs are numbered by the queue, under its lock; axes below the rank"
)]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::copy::strided;
use crate::copy::strided::Region;
use crate::costs;
use crate::dims::{Dims, Strides, c_strides, element_count};
use crate::error::ArrayError;
use crate::execute::tasks;
use crate::execute::tasks::{Interrupt, memory_error, store_error};
use crate::layout::ArrayLayout;
use crate::plan::Plan;
use crate::plan::axis_memory::AxisMemory;
use crate::plan::task::Task;
use crate::read::stream::{ASK, default_bound, lock};
use crate::runtime::memory::Memory;
use crate::runtime::pool::Background;
use crate::runtime::pool::POOL;
use crate::runtime::settings;
use crate::select::Selection;
use crate::select::view::Source;
use crate::write;
use crate::write::WriteOptions;
use crate::write::barrier::{self, Queue};
use crate::write::batch;
use crate::write::batch::{JoinedWrites, Work};
use hyperslab_store::StoreError;
use hyperslab_store::ending::Wait;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Options of a writer.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriterOptions {
    /// The most bytes that wait to be stored. A larger write is executed before it returns. `None`:
    /// four chunks per thread, but at least 64 and at most 512 MiB, and never less than two chunks.
    pub buffer: Option<u64>,
    /// How many threads may work on it, including the caller's; `None`: [`settings::threads`]. With
    /// 1, nothing is written behind.
    pub threads: Option<usize>,
    /// As in [`WriteOptions`].
    pub write_empty_chunks: Option<bool>,
}

/// Writes to an array that return before they are done. Threads may share a writer.
///
/// Everything written is stored when [`Writer::flush`] returns without an error. Before that,
/// reading the array may or may not show it. An error is returned by the call after it happened,
/// and names the chunk. Writes after the failed one are still done. Dropping a writer finishes the
/// queue but loses errors, so flush first.
///
/// A signal handler or a finalizer that flushes or drops a writer may interrupt a write of the same
/// thread to the same chunk. The queue cannot be emptied then. Calls return [`StoreError::Busy`],
/// and nothing is lost: workers store the queued jobs as soon as they can.
/// [`crate::write::barrier::settle_all`] waits for them.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    /// The process that owns the queue.
    process: u32,
}

#[derive(Debug)]
pub(crate) struct Shared {
    /// The layout of the array when the writer was made.
    layout: Arc<ArrayLayout>,
    /// The number of the array, see [`barrier::number`].
    array: u64,
    buffer: u64,
    /// Workers that may write at a time.
    helpers: usize,
    threads: Option<usize>,
    write_empty_chunks: Option<bool>,
    /// Per process: in a child the writer does not touch it.
    state: Mutex<WriterState>,
    /// Notified when a job is done.
    done: Condvar,
}

#[derive(Debug, Default)]
struct WriterState {
    /// Jobs that are not done, in the order of the calls.
    jobs: VecDeque<Job>,
    /// Number of the next job.
    next: u64,
    /// Bytes of all jobs.
    bytes: u64,
    /// Workers that were called and have not left yet.
    called: usize,
    /// Threads that wait for `done`.
    waiting: usize,
    failed: Option<(u64, Failure)>,
    /// The last change of shape that made the array smaller: the shape before, and after.
    shrunk: Option<(Dims, Dims)>,
    /// The writer was dropped. Jobs that it could not store are left to workers.
    abandoned: bool,
    /// A thread will not finish the job that it has: the program is ending.
    is_lost: bool,
    #[cfg(test)]
    most_bytes: u64,
}

/// An error, or the panic of a job.
type Failure = Result<ArrayError, Box<dyn std::any::Any + Send>>;

#[derive(Debug)]
struct Job {
    number: u64,
    chunks: Chunks,
    bytes: u64,
    /// `None` while the job is under way.
    work: Option<Work>,
}

/// A box of chunks, given by two corners.
#[derive(Debug, Default, PartialEq)]
struct Chunks {
    first: Dims,
    last: Dims,
}

impl Writer {
    /// A writer to this array.
    pub fn new(layout: Arc<ArrayLayout>, options: WriterOptions) -> Self {
        let threads = options.threads.filter(|n| *n > 0).unwrap_or_else(settings::threads);
        let chunk = layout.encoding().decoded_size() as u64;
        let shared = Shared {
            array: barrier::number(&layout),
            layout,
            buffer: options.buffer.unwrap_or_else(|| default_bound(chunk, threads)),
            helpers: threads - 1,
            threads: options.threads,
            write_empty_chunks: options.write_empty_chunks,
            state: Mutex::default(),
            done: Condvar::new(),
        };
        let shared = Arc::new(shared);
        let queue: Arc<dyn Queue> = shared.clone();
        barrier::add(shared.array, Arc::downgrade(&queue));
        Writer { shared, process: std::process::id() }
    }

    /// Queues a write of a selection, which is then executed as by [`write()`](crate::write()).
    ///
    /// The caller may change the memory when this returns.
    ///
    /// Fails if something is wrong with the request, or with the error of an earlier one; the
    /// request is then not done. `interrupt` is called while this waits. Return `true` to give the
    /// request up with [`ArrayError::Interrupted`].
    pub fn write(
        &self,
        selection: &Selection,
        source: &Source<'_>,
        interrupt: Option<Interrupt<'_>>,
    ) -> Result<(), ArrayError> {
        self.write_resized(&self.shared.layout, selection, source, interrupt)
    }

    /// [`Writer::write`] for an array that has grown since the writer was made.
    ///
    /// `layout` is the same array's, with its present shape. (Flush before the array shrinks.)
    pub fn write_resized(
        &self,
        layout: &Arc<ArrayLayout>,
        selection: &Selection,
        source: &Source<'_>,
        interrupt: Option<Interrupt<'_>>,
    ) -> Result<(), ArrayError> {
        layout.check_writable()?;
        // Cells refer to the heap of one request, and cells of only fill value would be written
        // without being encoded.
        if layout.vlen().is_some() {
            let why = "elements of variable length are written with write_ragged".into();
            return Err(ArrayError::Values { array: layout.name().to_owned(), why });
        }
        let shared = &self.shared;
        let direct = || {
            let Shared { threads, write_empty_chunks, .. } = **shared;
            write(
                layout,
                selection,
                source,
                WriteOptions { threads, write_empty_chunks, interrupt, ..WriteOptions::default() },
            )
        };
        let bound = AxisMemory::source(layout, source, selection)?;
        // A forked child must not use its parent's queue, whose lock may be held for ever.
        if self.process != std::process::id() {
            return direct();
        }
        shared.check_shape(layout, selection)?;
        if !selection.points().is_empty() {
            self.flush(interrupt)?;
            return direct();
        }
        shared.report()?;
        if selection.is_empty() {
            return Ok(());
        }
        let plan = Plan::new(layout, selection).ok_or_else(|| memory_error(layout, "the plan", u64::MAX))?;
        let chunks = Chunks::of(layout, &plan);
        let copied = Copied::new(layout, selection, &bound);
        if shared.helpers == 0 || shared.is_large(layout, plan.len() as u64, copied.bytes) {
            self.flush(interrupt)?;
            return direct();
        }
        shared.make_room(copied.bytes, interrupt, layout)?;
        let queued = copied.copy(layout, selection, &bound).and_then(|(values, strides)| {
            // A thread that resizes the array holds this turn meanwhile.
            let _turn = barrier::turn(layout, shared.array, interrupt)?;
            shared.check_shape(layout, selection)?;
            let work = Work { layout: layout.clone(), selection: selection.clone(), values, strides };
            shared.push(chunks, copied.bytes, work);
            Ok(())
        });
        if queued.is_err() {
            lock(&shared.state).bytes -= copied.bytes;
            shared.done.notify_all();
        }
        queued
    }

    /// Returns when everything written before is stored. This thread works on it too.
    ///
    /// Fails with the first error since the last call; nothing is under way then either.
    /// `interrupt` is as in [`Writer::write`], and queued jobs stay queued.
    pub fn flush(&self, interrupt: Option<Interrupt<'_>>) -> Result<(), ArrayError> {
        if self.process != std::process::id() {
            return Ok(());
        }
        self.shared.clone().finish(interrupt, &self.shared.layout)?;
        self.shared.report()
    }
}

#[cfg(test)]
impl Writer {
    pub(crate) fn most_bytes(&self) -> u64 {
        lock(&self.shared.state).most_bytes
    }

    /// Acts as in a child of the process that made the writer, forked while a thread held the lock.
    pub(crate) fn as_in_a_child(&mut self) {
        std::mem::forget(lock(&self.shared.state));
        self.process = 0;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        if !lock(&self.shared.state).is_lost {
            // Nobody is there to get an error, and a panic would abort.
            let _ = catch_unwind(AssertUnwindSafe(|| self.flush(None)));
        }
        // The workers keep the queue alive, and store the rest.
        let mut state = lock(&self.shared.state);
        state.abandoned = true;
        self.shared.call(&mut state);
    }
}

impl Queue for Shared {
    fn layout(&self) -> &ArrayLayout {
        &self.layout
    }

    fn finish(self: Arc<Self>, ask: Option<Interrupt<'_>>, layout: &ArrayLayout) -> Result<(), ArrayError> {
        let state = lock(&self.state);
        let until = state.next;
        let pending = |state: &WriterState| state.jobs.front().is_some_and(|job| job.number < until);
        drop(self.work_while(state, &pending, ask, layout)?);
        Ok(())
    }

    fn finish_abandoned(self: Arc<Self>, ask: Option<Interrupt<'_>>) -> Result<(), ArrayError> {
        self.clone().finish(ask, &self.layout)?;
        let abandoned = lock(&self.state).abandoned;
        if abandoned { self.report() } else { Ok(()) }
    }

    fn note_resize(&self, before: &[u64], after: &[u64]) {
        let smaller = before.iter().zip(after).any(|(before, after)| after < before);
        lock(&self.state).shrunk = smaller.then(|| (before.into(), after.into()));
    }
}

impl Shared {
    /// Returns whether a request is better executed at once, by all threads.
    fn is_large(&self, layout: &ArrayLayout, chunks: u64, bytes: u64) -> bool {
        let encoded = chunks.saturating_mul(layout.encoding().decoded_size() as u64);
        bytes > self.buffer || chunks > 1 && encoded > self.buffer / (self.helpers as u64 + 1)
    }

    /// Fails with the kept error, if there is one.
    fn report(&self) -> Result<(), ArrayError> {
        let failed = lock(&self.state).failed.take();
        match failed {
            None => Ok(()),
            Some((_, Ok(error))) => Err(error),
            Some((_, Err(panic))) => resume_unwind(panic),
        }
    }

    /// Refuses a selection that was made before the array shrank and reaches beyond its new shape.
    fn check_shape(&self, layout: &ArrayLayout, selection: &Selection) -> Result<(), ArrayError> {
        let state = lock(&self.state);
        let Some((before, after)) = &state.shrunk else { return Ok(()) };
        let last = |axis: &crate::select::axis::AxisSelection| {
            axis.first.max((axis.first as i128 + i128::from(axis.step) * (i128::from(axis.len) - 1)) as u64)
        };
        let outside = !selection.points().is_empty()
            || selection.axes().iter().zip(after).any(|(axis, len)| axis.len > 0 && last(axis) >= *len);
        if layout.shape() != before.as_slice() || !outside {
            return Ok(());
        }
        let why = format!(
            "it was resized from {before:?} to {after:?} after this write was begun, which reaches beyond: nothing was written"
        );
        Err(ArrayError::Index { array: layout.name().to_owned(), why })
    }

    /// Works until `bytes` more bytes fit.
    fn make_room(
        self: &Arc<Self>,
        bytes: u64,
        interrupt: Option<Interrupt<'_>>,
        layout: &ArrayLayout,
    ) -> Result<(), ArrayError> {
        let full = |state: &WriterState| state.bytes > 0 && state.bytes.saturating_add(bytes) > self.buffer;
        let mut state = self.work_while(lock(&self.state), &full, interrupt, layout)?;
        // Reserve the room now: another thread must not fill it meanwhile.
        state.bytes += bytes;
        #[cfg(test)]
        {
            state.most_bytes = state.most_bytes.max(state.bytes);
        }
        Ok(())
    }

    /// Executes jobs until `pending` is false. Waits while there is no job to execute.
    fn work_while<'s>(
        self: &'s Arc<Self>,
        mut state: MutexGuard<'s, WriterState>,
        pending: &dyn Fn(&WriterState) -> bool,
        interrupt: Option<Interrupt<'_>>,
        layout: &ArrayLayout,
    ) -> Result<MutexGuard<'s, WriterState>, ArrayError> {
        // In the middle of a chunk, in a signal handler, leave all jobs to the workers. Jobs that
        // wait for this chunk cannot be waited for.
        let inside = tasks::is_inside();
        let mut wait = Wait::default();
        while pending(&state) {
            match if inside { None } else { state.take() } {
                Some((number, batch)) => {
                    let (after, stopped) = self.execute(state, number, batch, interrupt);
                    state = after;
                    wait = Wait::default();
                    if stopped {
                        drop(state);
                        return Err(tasks::interrupted_error(layout));
                    }
                }
                None => {
                    self.call(&mut state);
                    let left = state.jobs.len();
                    state.waiting += 1;
                    state = self.done.wait_timeout(state, ASK).unwrap_or_else(PoisonError::into_inner).0;
                    state.waiting -= 1;
                    if state.jobs.len() < left {
                        wait = Wait::default();
                    } else if wait.is_vain() {
                        state.is_lost = true;
                        let (key, url) = (layout.name().to_owned(), layout.store().url());
                        let lost = StoreError::Abandoned { key, url };
                        return Err(store_error(layout, &Task::default(), lost));
                    }
                    if inside && state.jobs.len() >= left && tasks::is_waited_for() {
                        let (key, url) = (layout.name().to_owned(), layout.store().url());
                        return Err(store_error(layout, &Task::default(), StoreError::Busy { key, url }));
                    }
                }
            }
            if let Some(ask) = interrupt {
                // Asking may wait for another thread, which may need the lock.
                drop(state);
                if ask() {
                    return Err(tasks::interrupted_error(layout));
                }
                state = lock(&self.state);
            }
        }
        Ok(state)
    }

    /// Queues a job. There must be room for it.
    fn push(self: &Arc<Self>, chunks: Chunks, bytes: u64, work: Work) {
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        state.jobs.push_back(Job { number, chunks, bytes, work: Some(work) });
        self.call(&mut state);
    }

    /// Calls a worker, if there may be a job for it.
    fn call(self: &Arc<Self>, state: &mut WriterState) {
        if state.called < self.helpers && state.jobs.iter().any(|job| job.work.is_some()) {
            state.called += 1;
            POOL.get().run_in_background(self.clone(), self.helpers);
        }
    }

    /// Executes a job, or several joined jobs. Also returns whether they were stopped: then they
    /// are queued as before.
    fn execute<'s>(
        self: &'s Arc<Self>,
        state: MutexGuard<'s, WriterState>,
        number: u64,
        batch: JoinedWrites,
        interrupt: Option<Interrupt<'_>>,
    ) -> (MutexGuard<'s, WriterState>, bool) {
        drop(state);
        let work = || batch::execute(&batch, self.write_empty_chunks, interrupt);
        let outcome = catch_unwind(AssertUnwindSafe(work));
        if matches!(outcome, Ok(Err(ArrayError::Interrupted { .. }))) {
            let mut state = lock(&self.state);
            if let Some(at) = state.jobs.iter().position(|job| job.number == number) {
                for (job, work) in state.jobs.range_mut(at..).zip(batch) {
                    job.work = Some(work);
                }
            }
            self.call(&mut state);
            return (state, true);
        }
        let jobs = batch.len();
        drop(batch);
        let mut state = lock(&self.state);
        if let Some(at) = state.jobs.iter().position(|job| job.number == number) {
            let done: u64 = state.jobs.drain(at..at + jobs).map(|job| job.bytes).sum();
            state.bytes -= done;
        }
        let failure = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Ok(error)),
            Err(panic) => Some(Err(panic)),
        };
        if let Some(failure) = failure
            && let Some(later) = state.keep_first(number, failure)
        {
            // Dropping an error of foreign code may need other locks.
            drop(state);
            drop(later);
            state = lock(&self.state);
        }
        if state.waiting > 0 {
            self.done.notify_all();
        }
        // Jobs that waited for this one may start now.
        self.call(&mut state);
        (state, false)
    }
}

impl WriterState {
    /// Keeps the failure of the earliest job. Returns the other one, which must be dropped without
    /// the lock.
    #[must_use = "to be dropped without the lock"]
    fn keep_first(&mut self, number: u64, failure: Failure) -> Option<(u64, Failure)> {
        match &self.failed {
            Some((first, _)) if *first <= number => Some((number, failure)),
            _ => self.failed.replace((number, failure)),
        }
    }

    /// The first job that may start, and the jobs joined with it. The number is the first job's;
    /// the others follow it.
    fn take(&mut self) -> Option<(u64, JoinedWrites)> {
        let free = |at: &usize| {
            let job = &self.jobs[*at];
            job.work.is_some() && self.jobs.range(..*at).all(|earlier| !earlier.chunks.meet(&job.chunks))
        };
        let at = (0..self.jobs.len().min(costs::LOOK_AT)).find(free)?;
        let number = self.jobs[at].number;
        let mut batch: JoinedWrites = self.jobs[at].work.take().into_iter().collect();
        // The jobs follow each other directly, so they overtake nothing. They are in the same
        // chunks, so all of them may start.
        let mut along = None;
        for next in at + 1..self.jobs.len() {
            let (last, job) = (batch.last()?, &self.jobs[next]);
            let axis = job.work.as_ref().and_then(|work| last.continued_by(work));
            let joins = job.chunks == self.jobs[at].chunks && job.number == number + batch.len() as u64;
            if axis.is_none() || !joins || along.is_some_and(|along| Some(along) != axis) {
                break;
            }
            along = axis;
            batch.extend(self.jobs[next].work.take());
        }
        Some((number, batch))
    }
}

impl Background for Shared {
    fn step(self: Arc<Self>) -> bool {
        let mut state = lock(&self.state);
        let Some((number, batch)) = state.take() else {
            // A job that may not start yet: the worker of the job before it calls a worker again.
            state.called -= 1;
            return false;
        };
        drop(self.execute(state, number, batch, None));
        true
    }
}

impl Chunks {
    fn of(layout: &ArrayLayout, plan: &Plan) -> Self {
        let mut task = Task::default();
        plan.task(layout, 0, &mut task);
        let first = std::mem::take(&mut task.chunk);
        plan.task(layout, plan.len() - 1, &mut task);
        Chunks { first, last: task.chunk }
    }

    /// Returns whether two boxes of one array share a chunk. (Without axes there is only one
    /// chunk.)
    fn meet(&self, other: &Self) -> bool {
        (0..self.first.len()).all(|k| self.first[k] <= other.last[k] && other.first[k] <= self.last[k])
    }
}

/// The shape of a copy: the source's, with repeated axes taken once.
struct Copied {
    counts: Dims,
    bytes: u64,
}

impl Copied {
    fn new(layout: &ArrayLayout, selection: &Selection, bound: &AxisMemory<*const u8>) -> Self {
        let axes = selection.axes().iter().zip(bound.strides());
        let counts: Dims = axes.map(|(axis, stride)| if *stride == 0 { 1 } else { axis.len }).collect();
        let bytes = element_count(&counts).unwrap_or(u64::MAX).saturating_mul(layout.dtype().size() as u64);
        Copied { counts, bytes }
    }

    /// Copies the elements in the order of the selection, one after the other. Also returns their
    /// strides per axis of the selection's shape.
    fn copy(
        &self,
        layout: &ArrayLayout,
        selection: &Selection,
        bound: &AxisMemory<*const u8>,
    ) -> Result<(Memory, Strides), ArrayError> {
        let none = || memory_error(layout, "the elements to be written", self.bytes);
        let element = layout.dtype().size();
        let mut memory = usize::try_from(self.bytes).ok().and_then(Memory::dirty).ok_or_else(none)?;
        let dense = c_strides(&self.counts, element);
        // Bound views are walked upwards. This copy keeps the selection's own order.
        let backwards = || selection.axes().iter().map(|axis| axis.step < 0);
        let strides: Strides =
            bound.strides().iter().zip(backwards()).map(|(s, back)| if back { -s } else { *s }).collect();
        let corner: Dims =
            self.counts.iter().zip(backwards()).map(|(n, back)| if back { n - 1 } else { 0 }).collect();
        let region = Region::new(&self.counts, &dense, &strides, element, 1);
        let start = bound.at(&corner);
        // SAFETY: the source covers the selection (bound to it, so checked), `memory` is dense and
        // has room for `counts` elements.
        unsafe { strided::copy(&region, memory.as_mut_slice().as_mut_ptr(), start) };
        let axes = selection.axes().iter().zip(self.counts.iter().zip(&dense));
        let strides = axes
            .filter(|(axis, _)| !axis.dropped)
            .map(|(axis, (count, stride))| if *count == 1 && axis.len != 1 { 0 } else { *stride })
            .collect();
        Ok((memory, strides))
    }
}
