//! Common parts of reading and writing: tasks on threads, errors with their context.

#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::costs;
use crate::error::ArrayError;
use crate::execute::gate::Gate;
use crate::execute::scratch::Scratch;
use crate::layout::ArrayLayout;
use crate::plan::task::Task;
use crate::runtime::pool::POOL;
use crate::runtime::settings;
use crate::write::WriteOptions;
use hyperslab_codec::CodecError;
use hyperslab_store::{Ask, Key, StoreError, turns};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// Called now and then to ask whether to stop.
///
/// If it returns `true`, the request ends with [`ArrayError::Interrupted`].
pub type Interrupt<'a> = &'a dyn Fn() -> bool;

/// Number of threads that may work on a request. `asked`: the number in its options.
pub(crate) fn limit(asked: Option<usize>) -> usize {
    asked.filter(|n| *n > 0).unwrap_or_else(settings::threads)
}

/// Number of threads that may work on a read that waits. `asked`: the number in its options.
pub(crate) fn waiting_limit(layout: &ArrayLayout, asked: Option<usize>) -> usize {
    if layout.store().facts().waits {
        asked.filter(|n| *n > 0).unwrap_or_else(settings::waiting_readers)
    } else {
        0
    }
}

/// Lowers both limits for chunks in shards: only a limited number of them is decoded at a time.
pub(crate) fn decoding_limits(layout: &ArrayLayout, (limit, waiting): (usize, usize)) -> (usize, usize) {
    match layout.sharding() {
        Some(_) => (limit.min(settings::decodes_in_flight()), waiting.min(settings::decodes_in_flight())),
        None => (limit, waiting),
    }
}

/// Numbers of threads that may work on a write: at first, and if its first task waits.
///
/// Each thread waits for its own request. For a store far away, there are as many threads as
/// requests are worth making at once, if the chunks that they hold fit into memory, or as many as
/// the options ask for.
pub(crate) fn write_limits(layout: &ArrayLayout, options: WriteOptions<'_>) -> (usize, usize) {
    let store = layout.store();
    if let Some(threads) = options.threads.filter(|n| *n > 0) {
        let cost = store.cost();
        let requests = options.requests.filter(|_| cost.waiting_dominates()).unwrap_or(0).min(cost.at_once);
        return (threads.max(requests), threads.max(requests));
    }
    if !store.facts().waits {
        return (settings::threads(), settings::threads());
    }
    let fit = costs::WAITING_BYTES / layout.encoding().decoded_size().saturating_mul(2).max(1);
    let waiting = settings::waiting_writers(fit.min(store.cost().at_once));
    match store.cost().waiting_dominates() {
        true => (waiting, waiting),
        false => (settings::threads(), waiting),
    }
}

/// The gate for encoding, if a write has more threads than there are cores, or than may compute.
/// `asked`: the number in the options.
pub(crate) fn gate(layout: &ArrayLayout, threads: usize, asked: Option<usize>) -> Option<Gate> {
    let compute = asked.filter(|n| *n > 0).unwrap_or(usize::MAX).min(settings::cores());
    let encodes = threads > compute && !layout.encoding().chain().is_identity();
    encodes.then(|| Gate::new(compute))
}

/// The work of a write, like [`work`]. A store far away counts as much work: it takes as long.
pub(crate) fn write_work(layout: &ArrayLayout, tasks: usize, bytes: u64) -> u64 {
    if tasks > 1 && layout.store().cost().waiting_dominates() { u64::MAX } else { work(layout, tasks, bytes) }
}

/// The work of a request of this many tasks, in bytes to move.
pub(crate) fn work(layout: &ArrayLayout, tasks: usize, bytes: u64) -> u64 {
    let (encoding, chunks) = (layout.encoding(), tasks as u64);
    let moved = if encoding.chain().is_identity() {
        bytes
    } else {
        // All of a chunk goes through the codecs, however little of it is wanted.
        chunks.saturating_mul(encoding.decoded_size() as u64).saturating_mul(costs::CODEC_FACTOR)
    };
    moved.saturating_add(chunks.saturating_mul(costs::TASK_WORK))
}

/// Number of threads that a request with this much work is worth, at most `limit`.
///
/// With less work than `inline`, it is one.
pub(crate) fn worthwhile_threads(work: u64, inline: u64, tasks: usize, limit: usize) -> usize {
    limit.min(tasks).min((work / inline) as usize + 1)
}

/// Measures how long a thread has not been running, and whether it gave up its processor itself.
struct Waited {
    start: Instant,
    begun: Used,
}

/// The resources that a thread has used so far.
#[derive(Clone, Copy, Default)]
struct Used {
    /// The time for which a processor worked for the thread.
    ran: Duration,
    /// How often the thread gave up its processor to wait for something. A thread that lost its
    /// processor to others, on a busy machine, did not wait: more threads would only make it worse.
    waits: libc::c_long,
}

impl Used {
    fn now() -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        #[cfg(target_os = "linux")]
        const WHO: libc::c_int = libc::RUSAGE_THREAD;
        #[cfg(not(target_os = "linux"))]
        const WHO: libc::c_int = libc::RUSAGE_SELF;
        // SAFETY: the call fills the structure, which is as large as it expects; zeros are valid
        // for it if it fails.
        let usage = unsafe {
            libc::getrusage(WHO, usage.as_mut_ptr());
            usage.assume_init()
        };
        let time = |time: libc::timeval| {
            Duration::new(time.tv_sec.unsigned_abs(), 1000 * u32::try_from(time.tv_usec).unwrap_or(0))
        };
        Used { ran: time(usage.ru_utime) + time(usage.ru_stime), waits: usage.ru_nvcsw }
    }
}

impl Waited {
    fn new() -> Self {
        Waited { start: Instant::now(), begun: Used::now() }
    }

    /// Returns `true` if the thread must have waited for a disk or a network.
    ///
    /// The wait must be long, and a large part of the thread's time.
    fn is_long(&self) -> bool {
        let (passed, used) = (self.start.elapsed(), Used::now());
        let waited = passed.saturating_sub(used.ran.saturating_sub(self.begun.ran));
        used.waits > self.begun.waits && waited > WAITED && waited > passed / costs::WAITED_SHARE
    }
}

/// Several times as long as a thread on a busy machine waits to run again.
const WAITED: Duration = Duration::from_micros(50);

/// Executes tasks `0..count` on up to `limit` threads. `work` estimates the bytes to move.
///
/// If the first task turns out to wait for a disk, up to `waiting` threads work on them.
/// A task that takes long asks now and then whether to give up. The error that it then returns is
/// not reported.
pub(crate) fn run_tasks(
    layout: &ArrayLayout,
    count: usize,
    work: u64,
    (limit, waiting): (usize, usize),
    interrupt: Option<Interrupt<'_>>,
    execute: &(dyn Fn(usize, &mut Scratch, Ask<'_>) -> Result<(), ArrayError> + Sync),
) -> Result<(), ArrayError> {
    let task = |number: usize, ask: Ask<'_>| Scratch::with(|scratch| execute(number, scratch, ask));
    let pool = &POOL.get();
    let (_caller, others) = pool.enter();
    // Requests of other threads already keep the cores busy. Handing over parts of small requests
    // would only make these threads wait for each other.
    let limit = if work < costs::SMALL_WORK { limit.saturating_sub(others).max(1) } else { limit };
    let inline = if pool.is_awake() { costs::INLINE_WORK / 4 } else { costs::INLINE_WORK };
    let threads = worthwhile_threads(work, inline, count, limit);
    let interrupted = || interrupt.is_some_and(|ask| ask()).then(|| interrupted_error(layout));
    // Measure only if more threads could come, even with a single core: it takes a system call.
    let is_much = worthwhile_threads(work, inline, count, limit.max(2)) > 1;
    let waited = (is_much && waiting > limit && others == 0).then(Waited::new);
    let more = || {
        let most = if waited.as_ref().is_some_and(Waited::is_long) { waiting.min(count) } else { 0 };
        most.saturating_sub(threads)
    };
    let outcome = pool.run(count, threads, &more, &task, &interrupted);
    Scratch::trim();
    outcome
}

thread_local! {
    /// The turns of chunks and shards that this thread holds.
    static HELD: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The turn of a chunk or a shard.
pub(crate) struct Taken {
    number: u64,
    _turn: turns::Turn,
}

/// Waits for the turn of the object of `task`'s chunk or shard.
///
/// Fails with [`StoreError::Busy`] if this thread already holds it.
pub(crate) fn take(
    layout: &ArrayLayout,
    task: &Task,
    key: Key<'_>,
    ask: Option<Ask<'_>>,
) -> Result<Taken, ArrayError> {
    take_number(layout, task, (layout.store().lock_id(key), key.as_str()), ask)
}

/// Waits for a turn by its number and a name for messages. See [`take`].
pub(crate) fn take_number(
    layout: &ArrayLayout,
    task: &Task,
    (number, key): (u64, &str),
    ask: Option<Ask<'_>>,
) -> Result<Taken, ArrayError> {
    let store = &**layout.store();
    let turn = turns::take(number, ask)
        .map_err(|refused| store_error(layout, task, StoreError::refused(refused, store, key)))?;
    let _ = HELD.try_with(|held| held.borrow_mut().push(number));
    Ok(Taken { number, _turn: turn })
}

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(at) = held.iter().rposition(|number| *number == self.number) {
                held.remove(at);
            }
        });
    }
}

/// Returns `true` if this thread is working on a chunk or a shard further up its stack.
///
/// It then runs a signal handler or a finalizer, and must work alone. A worker would wait for this
/// thread's turn, and this thread would wait for the worker.
pub(crate) fn is_inside() -> bool {
    HELD.try_with(|held| !held.borrow().is_empty()).unwrap_or(false)
}

/// Returns `true` if another thread waits for a turn that this thread holds.
pub(crate) fn is_waited_for() -> bool {
    let held = HELD.try_with(|held| held.borrow().clone()).unwrap_or_default();
    held.iter().any(|number| turns::is_waited_for(*number))
}

/// Checks the key: locators of hostile metadata must not name anything outside the store.
pub(crate) fn key<'k>(layout: &ArrayLayout, task: &Task, key: &'k str) -> Result<Key<'k>, ArrayError> {
    Key::new(key).map_err(|source| store_error(layout, task, source))
}

pub(crate) fn store_error(layout: &ArrayLayout, task: &Task, source: StoreError) -> ArrayError {
    if matches!(source, StoreError::Interrupted { .. }) {
        return interrupted_error(layout);
    }
    ArrayError::Store { array: layout.name().into(), chunk: task.chunk.to_vec(), source: source.into() }
}

/// How often a change starts again because its object was replaced while it was read.
///
/// Without this limit, a server that reports another version each time would keep it busy forever.
const CHANGES: usize = 1000;

/// The outcome of a change. `false`: another writer was faster.
///
/// [`StoreError::Changed`], met while the old object is read, means the same.
pub(crate) fn or_again(done: Result<bool, ArrayError>, changes: &mut usize) -> Result<bool, ArrayError> {
    match done {
        Err(ArrayError::Store { source, .. })
            if matches!(*source, StoreError::Changed { .. }) && *changes < CHANGES =>
        {
            *changes += 1;
            Ok(false)
        }
        done => done,
    }
}

/// The error of a request that was asked to stop.
pub(crate) fn interrupted_error(layout: &ArrayLayout) -> ArrayError {
    ArrayError::Interrupted { array: layout.name().into() }
}

pub(crate) fn codec_error(layout: &ArrayLayout, task: &Task, key: &str, source: CodecError) -> ArrayError {
    ArrayError::Codec {
        array: layout.name().into(),
        chunk: task.chunk.to_vec(),
        key: key.into(),
        source: source.into(),
    }
}

pub(crate) fn memory_error(layout: &ArrayLayout, what: &'static str, bytes: u64) -> ArrayError {
    ArrayError::Memory { array: layout.name().into(), what, bytes }
}
