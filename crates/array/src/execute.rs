//! What reading and writing have in common: tasks on threads, errors with their context.

use crate::scratch::Scratch;
use crate::{ArrayError, ArrayLayout, Plan, Task, process, settings};
use hyperslab_codec::CodecError;
use hyperslab_store::{Key, StoreError};

/// Asked now and then whether to stop; the answer `true` ends a request with [`ArrayError::Interrupted`].
pub type Interrupt<'a> = &'a dyn Fn() -> bool;

/// Below this much work (in bytes to move; decoding counts several times) a request stays on the caller's thread: waking another costs
/// more than it saves.
const INLINE_WORK: u64 = 512 << 10;

/// What opening an object costs, in bytes that could be moved instead.
const TASK_WORK: u64 = 16 << 10;

/// How much slower than moving bytes decoding or encoding them is, roughly.
const CODEC_FACTOR: u64 = 4;

/// How many threads may work on a request for which `asked` were asked.
pub(crate) fn limit(asked: Option<usize>) -> usize {
    asked.filter(|n| *n > 0).unwrap_or_else(settings::threads)
}

/// How many threads may work on a write for which `asked` were asked.
pub(crate) fn write_limit(layout: &ArrayLayout, asked: Option<usize>) -> usize {
    let usual = if layout.store().waits() { settings::waiting_threads() } else { settings::threads() };
    asked.filter(|n| *n > 0).unwrap_or(usual)
}

/// How many of `limit` threads a request of this many tasks is worth.
pub(crate) fn worthwhile(layout: &ArrayLayout, tasks: usize, bytes: u64, limit: usize) -> usize {
    let (encoding, chunks) = (layout.encoding(), tasks as u64);
    let moved = if encoding.chain().is_identity() {
        bytes
    } else {
        // However little of a chunk is wanted, all of it goes through the codecs.
        chunks.saturating_mul(encoding.decoded_size() as u64).saturating_mul(CODEC_FACTOR)
    };
    let work = moved.saturating_add(chunks.saturating_mul(TASK_WORK));
    limit.min(tasks).min((work / INLINE_WORK) as usize + 1)
}

/// Executes all tasks of a plan on up to `limit` threads. `bytes` is an estimate of what is moved.
pub(crate) fn run(
    layout: &ArrayLayout,
    plan: &Plan,
    bytes: u64,
    limit: usize,
    interrupt: Option<Interrupt<'_>>,
    execute: &(dyn Fn(&mut Scratch) -> Result<(), ArrayError> + Sync),
) -> Result<(), ArrayError> {
    let task = |number: usize| {
        Scratch::with(|scratch| {
            plan.task(layout, number, &mut scratch.task);
            execute(scratch)
        })
    };
    let threads = worthwhile(layout, plan.len(), bytes, limit);
    let interrupted = || {
        interrupt.is_some_and(|ask| ask()).then(|| ArrayError::Interrupted { array: layout.name().into() })
    };
    let outcome = process::current().pool.run(plan.len(), threads, &task, &interrupted);
    Scratch::trim();
    outcome
}

/// The key, checked: locators of hostile metadata must not name anything outside the store.
pub(crate) fn key<'k>(layout: &ArrayLayout, task: &Task, key: &'k str) -> Result<Key<'k>, ArrayError> {
    Key::new(key).map_err(|source| store_error(layout, task, source))
}

pub(crate) fn store_error(layout: &ArrayLayout, task: &Task, source: StoreError) -> ArrayError {
    ArrayError::Store { array: layout.name().into(), chunk: task.chunk.to_vec(), source: source.into() }
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
