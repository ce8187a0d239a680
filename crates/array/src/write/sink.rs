//! Writes to a [`ChunkSink`]: whole chunks are encoded and put, the others are changed in memory.
//!
//! A request is cut into blocks of chunks, so that the sink can bound the memory that it keeps.

use crate::dims::{c_strides, element_count};
use crate::error::{ArrayError, LocateError};
use crate::execute::scratch::Scratch;
use crate::execute::tasks;
use crate::execute::tasks::memory_error;
use crate::layout::ArrayLayout;
use crate::layout::sink::{ChunkSink, SinkWrite, WholeChunk};
use crate::plan::Plan;
use crate::plan::axis_memory::AxisMemory;
use crate::plan::task::Task;
use crate::runtime::pool::{POOL, is_worker};
use crate::runtime::settings;
use crate::select::Selection;
use crate::select::view::Source;
use crate::write::blanks::Presence;
use crate::write::chunk::{ChunkWriter, write_region};
use crate::write::{WriteOptions, stored_fill};
use hyperslab_codec::{self as codec, CodecError};
use hyperslab_store::{Ask, StoreError};

/// Bytes of a run of elements that are written at once. One thread writes a run: several threads wait
/// for each other at the lock of the file's inode.
const RUN: usize = 8 << 20;

/// Writes a selection to the sink of an array.
pub(crate) fn write(
    layout: &ArrayLayout,
    sink: &dyn ChunkSink,
    selection: &Selection,
    source: &Source<'_>,
    options: WriteOptions<'_>,
) -> Result<(), ArrayError> {
    let bound = AxisMemory::source(layout, source, selection)?;
    let element = layout.dtype().size();
    if bound.is_uneven() {
        let shape = selection.shape();
        let none = || memory_error(layout, "the elements to be written", u64::MAX);
        let dense = source.dense_copy(element).ok_or_else(none)?;
        let source = Source::dense(dense.as_slice(), &shape, element).ok_or_else(none)?;
        return write(layout, sink, selection, &source, options);
    }
    if selection.is_empty() {
        return Ok(());
    }
    let failed = |error| sink_error(layout, &[], error);
    let covers = selection
        .as_run(layout.shape())
        .is_some_and(|(_, count)| element_count(layout.shape()).is_some_and(|all| count == all));
    let request = sink.begin(covers).map_err(failed)?;
    let to = request.layout();
    if let Some((first, bytes)) = run_of(to, selection, source)
        && let Some(piece) = request.run_piece(first, bytes.len(), RUN)
    {
        put_run(&*request, first, bytes.chunks(piece.max(1)), options)?;
        return request.finish().map_err(failed);
    }
    let plan = Plan::new(to, selection).ok_or_else(|| memory_error(layout, "the plan", u64::MAX))?;
    let bytes = element_count(&selection.shape()).unwrap_or(u64::MAX).saturating_mul(element as u64);
    let limits = if tasks::is_inside() { (1, 1) } else { tasks::write_limits(to, options) };
    let fill = stored_fill(to);
    let block = request.block().max(limits.0).max(1);
    let mut start = 0;
    while start < plan.len() {
        let count = block.min(plan.len() - start);
        if to.encoding().chain().is_identity() {
            let mut task = Task::default();
            let whole = (start..start + count).map(|number| {
                plan.task(to, number, &mut task);
                is_whole(&*request, &task)
            });
            request.expect(start, &whole.collect::<Vec<_>>()).map_err(failed)?;
        }
        let execute = |number: usize, scratch: &mut Scratch, ask: Ask<'_>| {
            let number = start + number;
            plan.task(to, number, &mut scratch.task);
            let (src, strides) = (bound.at(&scratch.task.out), bound.strides());
            let places = plan.places(&scratch.task, strides);
            let writer = ChunkWriter {
                layout: to,
                src,
                strides,
                places: &places,
                fill: &fill,
                keep_empty: true,
                presence: Presence::Unknown,
                blanks: None,
                gate: None,
                still: None,
            };
            writer.write_to(&*request, number, scratch, ask)
        };
        let share = (bytes / plan.len() as u64).saturating_mul(count as u64);
        let work = tasks::write_work(to, count, share);
        tasks::run_tasks(to, count, work, limits, options.interrupt, &execute)?;
        start += count;
        request.pause().map_err(failed)?;
    }
    request.finish().map_err(failed)
}

/// Writes a run of elements piece by piece.
fn put_run<'s>(
    request: &dyn SinkWrite,
    first: u64,
    pieces: impl Iterator<Item = &'s [u8]>,
    options: WriteOptions<'_>,
) -> Result<(), ArrayError> {
    let layout = request.layout();
    let mut at = first;
    for piece in pieces {
        if at > first && options.interrupt.is_some_and(|ask| ask()) {
            return Err(tasks::interrupted_error(layout));
        }
        request.put_run(at, piece).map_err(|error| sink_error(layout, &[], error))?;
        at = at.saturating_add(piece.len() as u64);
    }
    Ok(())
}

/// Returns the elements as one run of the array's bytes, if they are one: where it begins, and its
/// bytes in the caller's memory.
fn run_of<'s>(to: &ArrayLayout, selection: &Selection, source: &'s Source<'_>) -> Option<(u64, &'s [u8])> {
    if !to.encoding().is_plain() || !to.encoding().is_c_order() {
        return None;
    }
    let (first, count) = selection.as_run(to.shape())?;
    let element = to.dtype().size();
    let len = usize::try_from(count).ok()?.checked_mul(element)?;
    let strides = c_strides(&source.shape, element);
    let mut axes = source.shape.iter().zip(&source.strides).zip(&strides);
    if !axes.all(|((n, found), dense)| *n == 1 || found == dense) {
        return None;
    }
    // SAFETY: the source was bound to the selection, so it has as many elements, and they follow
    // each other in memory.
    let bytes = unsafe { std::slice::from_raw_parts(source.base, len) };
    Some((first.checked_mul(element as u64)?, bytes))
}

/// Returns `true` if all elements of a chunk that matter are written.
fn is_whole(request: &dyn SinkWrite, task: &Task) -> bool {
    let layout = request.layout();
    task.whole || request.ends_at_shape() && task.covers(layout.grid(), layout.shape())
}

/// Gives an error of a sink its context.
fn sink_error(layout: &ArrayLayout, chunk: &[u64], error: LocateError) -> ArrayError {
    let array = || layout.name().to_owned();
    let error = match error.downcast::<ArrayError>() {
        Ok(error) => return *error,
        Err(error) => error,
    };
    let error = match error.downcast::<CodecError>() {
        Ok(source) => {
            return ArrayError::Codec { array: array(), chunk: chunk.into(), key: String::new(), source };
        }
        Err(error) => error,
    };
    if error.downcast_ref::<StoreError>().is_some_and(|error| matches!(error, StoreError::Interrupted { .. }))
    {
        return tasks::interrupted_error(layout);
    }
    match chunk {
        [] => match error.downcast::<StoreError>() {
            Ok(source) => ArrayError::Store { array: array(), chunk: Vec::new(), source },
            Err(source) => ArrayError::Sink { array: array(), source },
        },
        chunk => layout.format_error(chunk, error),
    }
}

impl ChunkWriter<'_> {
    /// Writes a chunk to a sink.
    fn write_to(
        &self,
        request: &dyn SinkWrite,
        number: usize,
        scratch: &mut Scratch,
        ask: Ask<'_>,
    ) -> Result<(), ArrayError> {
        let layout = self.layout;
        let turn = request.turn(&scratch.task.chunk);
        let _turn = tasks::take_number(layout, &scratch.task, (turn, ""), Some(ask))?;
        let (region, offset) = write_region(layout, &scratch.task, self.strides);
        if !is_whole(request, &scratch.task) {
            let Scratch { codec, task, .. } = scratch;
            // SAFETY: the source covers the task's elements; the region lies within the chunk.
            let mut change = |chunk: &mut [u8]| unsafe { self.overlay(&region, chunk, offset) };
            let changed = request.change(number, &task.chunk, codec, &mut change);
            return changed.map_err(|error| sink_error(layout, &task.chunk, error));
        }
        if self.is_one_row(&scratch.task, &region) {
            // SAFETY: the source is one row of a whole chunk.
            let row = unsafe { self.source_row() };
            return self.put_to(request, number, row, true, scratch);
        }
        let has_all = scratch.task.whole;
        let buffer = self.buffer(scratch)?;
        if !has_all {
            self.write_fill_value(buffer);
        }
        // SAFETY: the source covers the task's elements; the region lies within the chunk.
        unsafe { self.overlay(&region, buffer, offset) };
        let Some(chunk) = scratch.decoded.take() else { return Err(self.no_memory()) };
        let bytes = chunk.as_slice().get(..layout.encoding().decoded_size()).unwrap_or_default();
        let done = self.put_to(request, number, bytes, false, scratch);
        scratch.decoded = Some(chunk);
        done
    }

    /// Encodes a whole chunk and puts it into a sink.
    fn put_to(
        &self,
        request: &dyn SinkWrite,
        number: usize,
        chunk: &[u8],
        lent: bool,
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let layout = self.layout;
        let Scratch { encoded, codec, task, .. } = scratch;
        let put = if layout.encoding().chain().is_identity() {
            request.put(number, &task.chunk, WholeChunk::Lent(chunk), 0)
        } else {
            match request.encode(chunk, lent, encoded, codec) {
                Ok(skipped) => request.put(number, &task.chunk, WholeChunk::Given(encoded), skipped),
                Err(error) => Err(error.into()),
            }
        };
        put.map_err(|error| sink_error(layout, &task.chunk, error))
    }
}

/// Runs `task` for each of `0..count` on the engine's threads. `bytes`: how many it encodes.
///
/// The error of the lowest failed number is returned.
pub fn encode_on_threads<E: Send>(
    count: usize,
    bytes: u64,
    task: &(dyn Fn(usize, &mut codec::Scratch) -> Result<(), E> + Sync),
) -> Result<(), E> {
    let pool = &POOL.get();
    let (_caller, _) = pool.enter();
    let is_alone = tasks::is_inside() || is_worker();
    let most = if is_alone { 1 } else { settings::threads() };
    let work = bytes.saturating_mul(crate::costs::CODEC_FACTOR);
    let threads = tasks::worthwhile_threads(work, crate::costs::INLINE_WORK, count, most);
    let run = |number: usize, _: Ask<'_>| Scratch::with(|scratch| task(number, &mut scratch.codec));
    let done = pool.run(count, threads, &|| 0, &run, &|| None);
    Scratch::trim();
    done
}
