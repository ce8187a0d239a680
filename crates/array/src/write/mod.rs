//! Writing: executes each task by its strategy.

pub(crate) mod barrier;
pub(crate) mod batch;
pub(crate) mod blanks;
pub(crate) mod chunk;
pub(crate) mod compact;
pub(crate) mod only_fill;
pub(crate) mod shard;
pub(crate) mod shard_output;
pub(crate) mod shard_parts;
pub(crate) mod sink;
pub(crate) mod strategies;
pub(crate) mod write_behind;

use crate::copy::places::Places;
use crate::copy::swap;
use crate::dims::element_count;
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::execute::tasks;
use crate::execute::tasks::{Interrupt, memory_error};
use crate::layout::ArrayLayout;
use crate::plan::Plan;
use crate::plan::axis_memory::AxisMemory;
use crate::plan::point_plan::AllPlaces;
use crate::plan::task::Task;
use crate::runtime::settings;
use crate::select::Selection;
use crate::select::view::Source;
use crate::write::blanks::{Blanks, LateListing, Presence};
use crate::write::chunk::ChunkWriter;
use crate::write::only_fill::{Stored, is_only_fill};
use hyperslab_store::Ask;
use smallvec::SmallVec;

/// Options of one write.
#[derive(Clone, Copy, Default)]
pub struct WriteOptions<'a> {
    /// How many threads may work on it, including the caller's; `None`: [`settings::threads`].
    pub threads: Option<usize>,
    /// How many threads may wait for a store far away, if `threads` is a smaller number. Then
    /// `threads` of them encode at a time.
    pub requests: Option<usize>,
    /// `true` to store chunks that hold only fill value; `None`: [`settings::write_empty_chunks`].
    pub write_empty_chunks: Option<bool>,
    /// No object of the selection is stored yet: none has to be deleted.
    pub is_new: bool,
    /// Called between chunks on the calling thread. Return `true` to stop the write. Chunks already
    /// written stay.
    pub interrupt: Option<Interrupt<'a>>,
    /// Called by any thread when an object was opened to write a part of it, before it is replaced.
    /// Return `false` to stop the write with [`ArrayError::Interrupted`].
    ///
    /// For callers whose write is right only while something else stays as it was. The object is
    /// replaced only if it is still the opened one: a condition that holds during the call also
    /// held for the contents that are replaced.
    pub still: Option<&'a (dyn Fn() -> bool + Sync)>,
}

/// Writes a selection from the caller's memory.
///
/// The memory must have the selection's shape (strides of 0 broadcast).
///
/// Each chunk is replaced atomically, but the request as a whole is not: after an error some chunks
/// are new, the others as they were. Chunks that come to hold only fill value are deleted, unless
/// `write_empty_chunks` is set. Concurrent writes to different elements of one chunk lose nothing.
/// This holds for threads of this process, and also for other processes if the store is shared with
/// them ([`hyperslab_store::Facts::is_shared`]).
///
/// Fails with [`ArrayError::Shape`], [`ArrayError::Store`], [`ArrayError::Codec`] or
/// [`ArrayError::ReadOnly`], naming the chunk.
pub fn write(
    layout: &ArrayLayout,
    selection: &Selection,
    source: &Source<'_>,
    options: WriteOptions<'_>,
) -> Result<(), ArrayError> {
    layout.check_writable()?;
    if let Some(sink) = layout.sink() {
        return sink::write(layout, sink, selection, source, options);
    }
    let bound = AxisMemory::source(layout, source, selection)?;
    if bound.is_uneven() {
        let (shape, element) = (selection.shape(), layout.dtype().size());
        let none = || memory_error(layout, "the elements to be written", u64::MAX);
        let dense = source.dense_copy(element).ok_or_else(none)?;
        let source = Source::dense(dense.as_slice(), &shape, element).ok_or_else(none)?;
        return write(layout, selection, &source, options);
    }
    let mut plan = Plan::new(layout, selection).ok_or_else(|| memory_error(layout, "the plan", u64::MAX))?;
    plan.in_order_of_result();
    let bytes =
        element_count(&selection.shape()).unwrap_or(u64::MAX).saturating_mul(layout.dtype().size() as u64);
    let keep_empty = options.write_empty_chunks.unwrap_or_else(settings::write_empty_chunks);
    let fill = stored_fill(layout);
    let limits = if tasks::is_inside() { (1, 1) } else { tasks::write_limits(layout, options) };
    let gate = tasks::gate(layout, limits.1, options.threads);
    let gate = gate.as_ref();
    let known = if options.is_new { Presence::New } else { Presence::Unknown };
    let only_fill = !keep_empty && is_only_fill(layout, selection, source, plan.len());
    // Writes of nothing but fill value list the objects first.
    let listing = if only_fill { None } else { LateListing::of_write(layout, plan.len(), known) };
    let presence = listing.as_ref().map_or(known, Presence::Late);
    if let Some(sharding) = layout.sharding() {
        let plan = &plan;
        let request = shard::WriteRequest {
            layout,
            sharding,
            plan,
            source: &bound,
            fill: &fill,
            keep_empty,
            only_fill,
            presence,
            gate,
            still: options.still,
        };
        return request.write(bytes, limits, options.interrupt);
    }
    let still = options.still;
    let execute = |number: usize,
                   scratch: &mut Scratch,
                   ask: Ask<'_>,
                   blanks: Option<&Blanks>,
                   presence: Presence<'_>| {
        plan.task(layout, number, &mut scratch.task);
        let src = bound.at(&scratch.task.out);
        let strides = bound.strides();
        let writer = |layout, places: &[Places<'_>], scratch: &mut Scratch| {
            let (fill, blanks) = (&*fill, blanks.map(|blanks| (blanks, number)));
            let writer =
                ChunkWriter { layout, src, strides, places, fill, keep_empty, presence, blanks, gate, still };
            writer.write(scratch, ask)
        };
        if layout.grid().is_regular() {
            let places = plan.places(&scratch.task, strides);
            return writer(layout, &places, scratch);
        }
        let own = layout.of_chunk(&scratch.task.chunk)?;
        let own = own.as_deref().unwrap_or(layout);
        let moved = plan.move_points(layout, own.encoding().strides(), &mut scratch.task);
        let moved = moved.ok_or_else(|| memory_error(own, "the points of a chunk", u64::MAX))?;
        let places: AllPlaces<'_> = moved.iter().map(|points| points.places(strides)).collect();
        writer(own, &places, scratch)
    };
    let stored = if only_fill { Stored::list(layout, &plan, known) } else { None };
    let blanks = if let Some(stored) = &stored {
        stored.blanks(layout, &plan)
    } else {
        let blanks = Blanks::of_write(layout, plan.len(), known);
        let work = tasks::write_work(layout, plan.len(), bytes);
        tasks::run_tasks(layout, plan.len(), work, limits, options.interrupt, &|number, scratch, ask| {
            execute(number, scratch, ask, blanks.as_ref(), presence)
        })?;
        let Some(blanks) = blanks else { return Ok(()) };
        blanks
    };
    let listed = stored.as_ref().map(|stored| &stored.keys);
    let locate = |number: usize, task: &mut Task, key: &mut String| {
        plan.task(layout, number, task);
        layout.locate(&task.chunk, key).map(drop)
    };
    blanks.finish(layout, listed, &locate, options.interrupt, &|numbers, presence| {
        Blanks::run_again(layout, numbers, limits, options.interrupt, &|number, scratch, ask| {
            execute(number, scratch, ask, None, presence)
        })
    })
}

/// The fill value that a decoded chunk repeats, in the stored byte order.
pub(crate) fn stored_fill(layout: &ArrayLayout) -> SmallVec<[u8; 16]> {
    let mut bytes = SmallVec::from_slice(layout.chunk_fill().bytes());
    swap::in_place(&mut bytes, layout.encoding().swap());
    bytes
}
