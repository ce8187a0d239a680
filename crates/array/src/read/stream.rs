//! Read-ahead: rows of an array along one axis, in order, while pool threads read the next ones.
//!
//! 1. The axis is cut into blocks: the rows of one chunk along the axis, or of several chunks if
//!    they are small. Each hand-off between threads then moves many kilobytes, and a chunk is
//!    decoded once.
//! 2. Workers begin blocks in order, as long as all blocks that are begun but not delivered fit
//!    [`StreamOptions::ahead`].
//! 3. The consumer takes the next block. If no worker has begun it, the consumer reads it. If a
//!    worker is reading it, the consumer reads a later one, and waits only if no other block may
//!    begin. Two threads therefore decode all the time, even if the consumer has nothing else to
//!    do.
//! 4. An error is delivered in the place of its block, after all rows before it, and ends the
//!    stream.
//!
//! A dropped stream cancels blocks that have not begun. A worker inside a block finishes its chunk
//! and throws the block away.

#![expect(
    clippy::indexing_slicing,
    reason = "axes are numbered below the rank; blocks are cut within their memory"
)]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::copy::strided;
use crate::copy::strided::Region;
use crate::costs;
use crate::dims::{Dims, c_strides, element_count};
use crate::error::ArrayError;
use crate::execute::tasks::{Interrupt, interrupted_error, memory_error};
use crate::layout::ArrayLayout;
use crate::read;
use crate::read::options::ReadOptions;
use crate::runtime::memory::Memory;
use crate::runtime::pool::Background;
use crate::runtime::pool::POOL;
use crate::runtime::settings;
use crate::select::{Index, Selection};
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Options of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamOptions {
    /// The most bytes that are read ahead. A larger block is still read, alone.
    ///
    /// `None`: four blocks per thread, but at least 64 and at most 512 MiB, and never less than two
    /// blocks.
    pub ahead: Option<u64>,
    /// Number of threads that may work on the stream, including the caller's.
    ///
    /// `None`: [`settings::threads`]. With 1, nothing is read ahead.
    pub threads: Option<usize>,
    /// Verifies checksums. `None`: [`settings::verify_checksums`].
    pub verify: Option<bool>,
}

/// One index of the streamed axis, and its elements.
#[derive(Debug)]
pub struct Row {
    /// Index along the axis.
    pub index: u64,
    /// The elements, dense, in C order, of shape [`Stream::row_shape`]. The memory holds nothing
    /// else.
    pub memory: Memory,
}

/// The rows of an array along one axis, in order, read ahead by other threads. See [`Stream::new`].
///
/// The stream has the shape that the array had when the stream began. Later writes may or may not
/// be seen.
#[derive(Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    /// The process whose threads read ahead.
    process: u32,
    /// Blocks that were delivered.
    delivered: u64,
    /// The block being handed out, and its share of `ahead`.
    current: Option<RowBlock>,
    ended: bool,
}

/// How often a waiting consumer asks whether to stop.
pub(crate) const ASK: Duration = Duration::from_millis(50);

/// A limit for the bytes under way, for units of work of `unit` bytes on `threads` threads.
pub(crate) fn default_bound(unit: u64, threads: usize) -> u64 {
    unit.saturating_mul(4)
        .saturating_mul(threads as u64)
        .clamp(64 << 20, 512 << 20)
        .max(unit.saturating_mul(2))
}

fn row_shape(layout: &ArrayLayout, axis: usize) -> Dims {
    layout.shape().iter().enumerate().filter(|(k, _)| *k != axis).map(|(_, n)| *n).collect()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State shared by all threads of a stream.
#[derive(Debug)]
struct Shared {
    layout: Arc<ArrayLayout>,
    axis: usize,
    rows: Range<u64>,
    /// Rows of a block. Blocks end at multiples of this number.
    per_block: u64,
    row_bytes: u64,
    ahead: u64,
    /// Number of workers that may read at a time.
    helpers: usize,
    /// Threads per block: all of them if only few blocks fit `ahead`.
    threads: Option<usize>,
    verify: Option<bool>,
    /// Per process: a child makes its own, see [`Stream::follow_fork`].
    state: Mutex<StreamState>,
    /// Signals that a block was read.
    ready: Condvar,
}

#[derive(Debug, Default)]
struct StreamState {
    /// Number of blocks begun, including delivered ones.
    begun: u64,
    /// Blocks begun and not delivered, in order. `None`: a thread is reading the block.
    window: VecDeque<Option<Outcome>>,
    /// Bytes of these blocks and of the one being handed out.
    bytes: u64,
    /// Number of workers that were called and have not left yet.
    called: usize,
    stopped: bool,
    waiting: bool,
    #[cfg(test)]
    most_bytes: u64,
}

/// A worker's panic is passed on to the consumer.
type Outcome = std::thread::Result<Result<RowBlock, ArrayError>>;

/// Rows to be handed out.
#[derive(Debug)]
struct RowBlock {
    rows: Range<u64>,
    /// Index of the first row in memory.
    first: u64,
    bytes: u64,
    elements: Elements,
}

#[derive(Debug)]
enum Elements {
    /// The memory of each row.
    Rows(VecDeque<Memory>),
    /// All rows in one array, to copy from. A row that the caller keeps must not keep its block.
    Together(Memory),
}

impl Stream {
    /// Streams `rows` of `axis`: the result of [`read()`](crate::read()) for each index.
    ///
    /// Rows do not have the streamed axis. Fails with [`ArrayError::Index`] if the array has no
    /// such axis, or the axis has no such rows.
    pub fn new(
        layout: Arc<ArrayLayout>,
        axis: usize,
        rows: Range<u64>,
        options: StreamOptions,
    ) -> Result<Self, ArrayError> {
        let refuse = |why: String| ArrayError::Index { array: layout.name().to_owned(), why };
        let Some(len) = layout.shape().get(axis).copied() else {
            let rank = layout.shape().len();
            return Err(refuse(format!("there is no axis {axis}: the array has {rank} axes")));
        };
        if rows.start > rows.end || rows.end > len {
            return Err(refuse(format!("rows {rows:?} are out of bounds for axis {axis} with size {len}")));
        }
        let row_bytes = element_count(&row_shape(&layout, axis))
            .unwrap_or(u64::MAX)
            .saturating_mul(layout.dtype().size() as u64);
        let threads = options.threads.filter(|n| *n > 0).unwrap_or_else(settings::threads);

        let chunk = layout.grid().chunk_shape()[axis];
        let share = options.ahead.map_or(costs::WORTH_A_HAND_OFF, |ahead| {
            (ahead / 2 / threads as u64).min(costs::WORTH_A_HAND_OFF)
        });
        let per_block = match chunk.saturating_mul(row_bytes) {
            // Rows without elements: there is nothing to read.
            0 => u64::MAX,
            bytes if bytes > costs::LARGEST_BLOCK.max(options.ahead.unwrap_or(0)) => {
                (costs::LARGEST_BLOCK / row_bytes).max(1)
            }
            bytes => chunk.saturating_mul((share / bytes).max(1)),
        };
        let block = per_block.min(len).saturating_mul(row_bytes);
        let ahead = options.ahead.unwrap_or_else(|| default_bound(block, threads));
        let few = block.saturating_mul(threads as u64) > ahead;
        let shared = Shared {
            axis,
            rows,
            per_block,
            row_bytes,
            ahead,
            helpers: threads - 1,
            threads: if few { options.threads } else { Some(1) },
            verify: options.verify,
            state: Mutex::default(),
            ready: Condvar::new(),
            layout,
        };
        let stream = Stream {
            shared: Arc::new(shared),
            process: std::process::id(),
            delivered: 0,
            current: None,
            ended: false,
        };
        stream.shared.call(&mut lock(&stream.shared.state));
        Ok(stream)
    }

    /// The shape of a row: the array's without the streamed axis.
    pub fn row_shape(&self) -> Dims {
        row_shape(&self.shared.layout, self.shared.axis)
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> u64 {
        self.shared.row_bytes
    }

    /// Number of rows still to come, unless an error comes first.
    pub fn remaining(&self) -> u64 {
        let handed_out = match &self.current {
            Some(block) => block.rows.start - self.shared.rows.start,
            None if self.delivered == 0 => 0,
            None => self.shared.block_rows(self.delivered - 1).end - self.shared.rows.start,
        };
        if self.ended { 0 } else { self.shared.rows.end - self.shared.rows.start - handed_out }
    }

    /// Returns `true` if the next row needs no reading, no waiting, and next to no copying.
    pub fn is_ready(&self) -> bool {
        const QUICK: u64 = 64 << 10;
        self.current.as_ref().is_some_and(|block| {
            !block.rows.is_empty()
                && (matches!(block.elements, Elements::Rows(_)) || self.shared.row_bytes <= QUICK)
        })
    }

    /// Returns the next row, as the iterator does.
    ///
    /// `interrupt` is called now and then while this reads or waits. If it returns `true`, the
    /// stream ends with [`ArrayError::Interrupted`].
    pub fn next_row(&mut self, interrupt: Option<Interrupt<'_>>) -> Option<Result<Row, ArrayError>> {
        if self.ended {
            return None;
        }
        let outcome = self.row(interrupt).transpose();
        if !matches!(outcome, Some(Ok(_))) {
            self.close();
        }
        outcome
    }

    /// Ends the stream: stops reading ahead, and drops everything that was read.
    pub fn close(&mut self) {
        self.ended = true;
        self.current = None;
        // In a forked child, the lock may be held by a thread that does not exist there.
        if self.process == std::process::id() {
            let mut state = lock(&self.shared.state);
            state.stopped = true;
            let window = std::mem::take(&mut state.window);
            drop(state);
            drop(window);
        }
    }

    #[cfg(test)]
    pub(crate) fn most_bytes(&self) -> u64 {
        lock(&self.shared.state).most_bytes
    }

    /// Makes this process look like a child of the stream's process.
    ///
    /// The fork happened while a thread held the lock.
    #[cfg(test)]
    pub(crate) fn as_in_a_child(&mut self) {
        std::mem::forget(lock(&self.shared.state));
        self.process = 0;
    }

    fn row(&mut self, interrupt: Option<Interrupt<'_>>) -> Result<Option<Row>, ArrayError> {
        while self.current.as_ref().is_none_or(|block| block.rows.is_empty()) {
            match self.advance(interrupt)? {
                Some(block) => self.current = Some(block),
                None => return Ok(None),
            }
        }
        let Some(block) = &mut self.current else { return Ok(None) };
        let Some(index) = block.rows.next() else { return Ok(None) };
        let memory = match &mut block.elements {
            Elements::Rows(rows) => rows.pop_front(),
            Elements::Together(all) => Some(self.shared.copy_row(all, index - block.first)?),
        };
        Ok(memory.map(|memory| Row { index, memory }))
    }

    /// Returns the next block. Reads it, or others, until it is there.
    fn advance(&mut self, interrupt: Option<Interrupt<'_>>) -> Result<Option<RowBlock>, ArrayError> {
        self.follow_fork();
        let shared = &*self.shared;
        let done = self.current.take().map_or(0, |block| block.bytes);
        let mut state = lock(&shared.state);
        state.bytes -= done;
        loop {
            if matches!(state.window.front(), Some(Some(_))) {
                let outcome = state.window.pop_front().flatten();
                self.delivered += 1;
                self.shared.call(&mut state);
                drop(state);
                return match outcome {
                    Some(Ok(block)) => block.map(Some),
                    Some(Err(panic)) => {
                        // The rows of this block never come. A caller that catches the panic must
                        // not get later rows.
                        self.close();
                        resume_unwind(panic)
                    }
                    None => Ok(None),
                };
            }
            if let Some(number) = shared.begin(&mut state) {
                self.shared.call(&mut state);
                drop(state);
                let outcome = catch_unwind(AssertUnwindSafe(|| shared.read(number, interrupt)));
                if let Ok(Err(error @ ArrayError::Interrupted { .. })) = outcome {
                    return Err(error);
                }
                state = lock(&shared.state);
                if let Some(unwanted) = shared.put(&mut state, number, outcome) {
                    drop(state);
                    drop(unwanted);
                    state = lock(&shared.state);
                }
            } else if state.window.is_empty() {
                return Ok(None);
            } else {
                state.waiting = true;
                state = shared.ready.wait_timeout(state, ASK).unwrap_or_else(PoisonError::into_inner).0;
                state.waiting = false;
                if let Some(ask) = interrupt {
                    // The callback may wait for another thread, which may need the lock.
                    drop(state);
                    if ask() {
                        return Err(interrupted_error(&shared.layout));
                    }
                    state = lock(&shared.state);
                }
            }
        }
    }

    /// In a forked child, starts again at the parent's position.
    ///
    /// The parent's threads do not exist here, and its lock may be held forever.
    fn follow_fork(&mut self) {
        if self.process == std::process::id() {
            return;
        }
        let fresh = self.shared.restart(self.delivered, self.current.as_ref().map_or(0, |block| block.bytes));
        // Never freed: its drop would depend on threads that do not exist.
        std::mem::forget(std::mem::replace(&mut self.shared, Arc::new(fresh)));
        self.process = std::process::id();
    }
}

impl Iterator for Stream {
    type Item = Result<Row, ArrayError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_row(None)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An error ends the stream early.
        (0, usize::try_from(self.remaining()).ok())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// A copy with `begun` blocks done and only the handed-out block in flight.
    fn restart(&self, begun: u64, bytes: u64) -> Self {
        Shared {
            layout: self.layout.clone(),
            rows: self.rows.clone(),
            state: Mutex::new(StreamState { begun, bytes, ..StreamState::default() }),
            ready: Condvar::new(),
            ..*self
        }
    }

    /// Number of blocks.
    fn blocks(&self) -> u64 {
        if self.rows.is_empty() {
            return 0;
        }
        (self.rows.end - 1) / self.per_block - self.rows.start / self.per_block + 1
    }

    fn block_rows(&self, number: u64) -> Range<u64> {
        let start = (self.rows.start / self.per_block + number).saturating_mul(self.per_block);
        start.max(self.rows.start)..start.saturating_add(self.per_block).min(self.rows.end)
    }

    fn block_bytes(&self, number: u64) -> u64 {
        let rows = self.block_rows(number);
        (rows.end - rows.start).saturating_mul(self.row_bytes)
    }

    /// Returns `true` if there is a next block that fits `ahead`, or that would be under way alone.
    fn may_begin(&self, state: &StreamState) -> bool {
        // The sum overflows if blocks are absurdly large. They do not fit, however large `ahead`
        // is.
        let fits = |block| state.bytes.checked_add(block).is_some_and(|bytes| bytes <= self.ahead);
        !state.stopped
            && state.begun < self.blocks()
            && (state.bytes == 0 || fits(self.block_bytes(state.begun)))
    }

    /// Begins the next block. The caller must read it and [`Shared::put`] it.
    fn begin(&self, state: &mut StreamState) -> Option<u64> {
        if !self.may_begin(state) {
            return None;
        }
        let number = state.begun;
        state.begun += 1;
        state.window.push_back(None);
        state.bytes += self.block_bytes(number);
        #[cfg(test)]
        {
            state.most_bytes = state.most_bytes.max(state.bytes);
        }
        Some(number)
    }

    /// Puts a block in its place. Returns an outcome that nobody waits for.
    ///
    /// The caller drops that outcome without the lock, because dropping an error of foreign code
    /// may take other locks.
    #[must_use = "to be dropped without the lock"]
    fn put(&self, state: &mut StreamState, number: u64, outcome: Outcome) -> Option<Outcome> {
        if state.stopped {
            return Some(outcome);
        }
        let first = state.begun - state.window.len() as u64;
        let unwanted = match state.window.get_mut((number - first) as usize) {
            Some(place) => place.replace(outcome),
            None => Some(outcome),
        };
        if state.waiting {
            self.ready.notify_one();
        }
        unwanted
    }

    /// Calls workers for blocks that may begin.
    fn call(self: &Arc<Self>, state: &mut StreamState) {
        while state.called < self.helpers && self.may_begin(state) {
            state.called += 1;
            // One more than helpers: if several threads read a block, one of them may be the
            // consumer's, and asleep.
            POOL.get().run_in_background(self.clone(), self.helpers + 1);
        }
    }

    fn read(&self, number: u64, interrupt: Option<Interrupt<'_>>) -> Result<RowBlock, ArrayError> {
        let rows = self.block_rows(number);
        let bytes = self.block_bytes(number);
        let options =
            ReadOptions { threads: self.threads, verify: self.verify, interrupt, ..ReadOptions::default() };
        let select = |index: Index<'_>| {
            let mut indices = vec![Index::ALL; self.layout.shape().len()];
            indices[self.axis] = index;
            Selection::new(self.layout.name(), self.layout.shape(), &indices)
        };
        let together = || -> Result<_, ArrayError> {
            let all = select(Index::range(rows.start as i64, rows.end as i64))?;
            Ok(Elements::Together(read(&self.layout, &all, options)?))
        };
        let each = || -> Result<_, ArrayError> {
            let row = |at: u64| read(&self.layout, &select(Index::At(at as i64))?, options);
            Ok(Elements::Rows(rows.clone().map(row).collect::<Result<_, _>>()?))
        };
        // Rows that are whole chunks need not be taken apart.
        let apart = self.row_bytes > 0 && self.layout.grid().chunk_shape()[self.axis] == 1;
        let elements = if apart { each()? } else { together()? };
        Ok(RowBlock { first: rows.start, rows, bytes, elements })
    }

    /// Copies a row of a block.
    fn copy_row(&self, block: &Memory, row: u64) -> Result<Memory, ArrayError> {
        let none = || memory_error(&self.layout, "a row", self.row_bytes);
        let len = usize::try_from(self.row_bytes).map_err(|_| none())?;
        let mut memory = Memory::dirty(len).ok_or_else(none)?;
        if len == 0 {
            return Ok(memory);
        }
        let (shape, element) = (row_shape(&self.layout, self.axis), self.layout.dtype().size());
        let mut whole: Dims = self.layout.shape().into();
        whole[self.axis] = (block.len() / len) as u64;
        let mut strides = c_strides(&whole, element);
        let offset = strides.remove(self.axis) as usize * row as usize;
        let region = Region::new(&shape, &c_strides(&shape, element), &strides, element, 1);
        // SAFETY: `memory` is a dense row; `block` is a dense array of rows, and this row lies
        // within it.
        unsafe {
            strided::copy(&region, memory.as_mut_slice().as_mut_ptr(), block.as_slice()[offset..].as_ptr())
        };
        Ok(memory)
    }
}

impl Background for Shared {
    fn step(self: Arc<Self>) -> bool {
        let mut state = lock(&self.state);
        let Some(number) = self.begin(&mut state) else {
            state.called -= 1;
            return false;
        };
        drop(state);
        let stopped = || lock(&self.state).stopped;
        let outcome = catch_unwind(AssertUnwindSafe(|| self.read(number, Some(&stopped))));
        let mut state = lock(&self.state);
        let unwanted = self.put(&mut state, number, outcome);
        let again = self.may_begin(&state);
        if !again {
            state.called -= 1;
        }
        drop(state);
        drop(unwanted);
        again
    }
}
