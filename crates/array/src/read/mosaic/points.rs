//! Points of a mosaic.
//!
//! They are cut along the mosaic's grid, like the points of any array. Instead of a chunk, a box of
//! the mosaic is read as a whole into memory, and the points are taken from there.

use crate::copy::gather;
use crate::copy::gather::Direction;
use crate::dims::Dims;
use crate::error::ArrayError;
use crate::execute::tasks::memory_error;
use crate::layout::ArrayLayout;
use crate::plan::Plan;
use crate::plan::axis_memory::AxisMemory;
use crate::plan::task::Task;
use crate::read::chunk::read_region;
use crate::read::mosaic::nesting::ReadSource;
use crate::read::options::ReadOptions;
use crate::runtime::memory::Memory;
use crate::select::Selection;
use crate::select::axis::AxisSelection;
use crate::select::view::Target;

/// Calls `each` with every task of a plan, and with the box of the array that has its elements.
pub(crate) fn for_each_box(
    layout: &ArrayLayout,
    plan: &Plan,
    each: &mut dyn FnMut(&Task, &Selection) -> Result<(), ArrayError>,
) -> Result<(), ArrayError> {
    let mut task = Task::default();
    for number in 0..plan.len() {
        plan.task(layout, number, &mut task);
        let lens = layout.grid().chunk_shape().iter().zip(layout.shape());
        let axes = task.chunk.iter().zip(lens).map(|(index, (chunk, len))| {
            let first = index * chunk;
            AxisSelection { first, step: 1, len: (len - first).min(*chunk), dropped: false }
        });
        each(&task, &Selection::of(axes.collect(), Vec::new()))?;
    }
    Ok(())
}

/// Reads the points of a plan, combined with the ranges along the other axes.
pub(crate) fn read_points(
    layout: &ArrayLayout,
    plan: &Plan,
    target: &AxisMemory<*mut u8>,
    options: ReadOptions<'_>,
    read: ReadSource,
) -> Result<(), ArrayError> {
    let encoding = layout.encoding();
    let len = encoding.decoded_size();
    let mut whole =
        Memory::dirty(len).ok_or_else(|| memory_error(layout, "a box of elements", len as u64))?;
    let options = ReadOptions { fortran: false, ..options };
    for_each_box(layout, plan, &mut |task, selection| {
        let shape: Dims = selection.shape();
        let at = whole.as_mut_slice().as_mut_ptr();
        // SAFETY: the memory has room for a whole chunk, and the box is the front of a chunk along
        // each axis.
        let mut inside = unsafe { Target::from_raw(at, &shape, encoding.strides()) };
        read(layout, selection, &mut inside, options, None)?;
        let (region, offset) = read_region(layout, task, target.strides());
        let places = plan.places(task, target.strides());
        let (dst, src) = (target.at(&task.out), at.wrapping_add(offset));
        // SAFETY: the target covers the task's elements, and all of them are in the box.
        unsafe { gather::copy(&places, Direction::Read, &region, dst, src) };
        Ok(())
    })
}
