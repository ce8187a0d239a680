//! Writing: executes each task by its strategy.

pub(crate) mod barrier;
pub(crate) mod batch;
pub(crate) mod chunk;
pub(crate) mod compact;
pub(crate) mod shard;
pub(crate) mod shard_output;
pub(crate) mod shard_parts;
pub(crate) mod strategies;
pub(crate) mod write_behind;

use crate::copy::swap;
use crate::dims::element_count;
use crate::error::ArrayError;
use crate::execute::tasks;
use crate::execute::tasks::{Interrupt, memory_error};
use crate::layout::ArrayLayout;
use crate::plan::Plan;
use crate::plan::axis_memory::AxisMemory;
use crate::plan::point_plan::AllPlaces;
use crate::read::list_present_objects;
use crate::runtime::settings;
use crate::select::Selection;
use crate::select::view::Source;
use crate::write::chunk::ChunkWriter;
use smallvec::SmallVec;

/// Options of one write.
#[derive(Clone, Copy, Default)]
pub struct WriteOptions<'a> {
    /// How many threads may work on it, including the caller's; `None`: [`settings::threads`].
    pub threads: Option<usize>,
    /// `true` to store chunks that hold only fill value; `None`: [`settings::write_empty_chunks`].
    pub write_empty_chunks: Option<bool>,
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
    let limits = if tasks::is_inside() { (1, 1) } else { tasks::write_limits(layout, options.threads) };
    let gate = tasks::gate(layout, limits.1);
    let gate = gate.as_ref();
    if let Some(sharding) = layout.sharding() {
        let plan = &plan;
        let request = shard::WriteRequest {
            layout,
            sharding,
            plan,
            source: &bound,
            fill: &fill,
            keep_empty,
            gate,
            still: options.still,
        };
        return request.write(bytes, limits, options.interrupt);
    }
    // If everything becomes fill value, chunks are deleted. A listing tells which ones exist.
    let cost = layout.store().cost();
    let lists = cost.prefers_one_listing() && cost.worth_guessing();
    let may_delete = plan.len() > 1 && !keep_empty && lists;
    let deletes = may_delete && source.is_all(layout.fill().bytes());
    let present = if deletes { list_present_objects(layout, plan.len()) } else { None };
    let present = present.as_ref();
    let still = options.still;
    tasks::run(layout, &plan, bytes, limits, options.interrupt, &|scratch, ask| {
        let src = bound.at(&scratch.task.out);
        let strides = bound.strides();
        if layout.grid().is_regular() {
            let places = plan.places(&scratch.task, strides);
            return ChunkWriter {
                layout,
                src,
                strides,
                places: &places,
                fill: &fill,
                keep_empty,
                present,
                gate,
                still,
            }
            .write(scratch, ask);
        }
        let array = layout;
        let own = array.of_chunk(&scratch.task.chunk)?;
        let layout = own.as_deref().unwrap_or(array);
        let moved = plan.move_points(array, layout.encoding().strides(), &mut scratch.task);
        let moved = moved.ok_or_else(|| memory_error(layout, "the points of a chunk", u64::MAX))?;
        let places: AllPlaces<'_> = moved.iter().map(|points| points.places(strides)).collect();
        ChunkWriter { layout, src, strides, places: &places, fill: &fill, keep_empty, present, gate, still }
            .write(scratch, ask)
    })
}

/// The fill value that a decoded chunk repeats, in the stored byte order.
pub(crate) fn stored_fill(layout: &ArrayLayout) -> SmallVec<[u8; 16]> {
    let mut bytes = SmallVec::from_slice(layout.chunk_fill().bytes());
    swap::in_place(&mut bytes, layout.encoding().swap());
    bytes
}
