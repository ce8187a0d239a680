//! Writes of nothing but fill value.
//!
//! The write changes only objects that are stored. If few may be, a listing finds them, and no
//! other task is visited: the write costs as much as is stored, not as much as is selected.
//!
//! An object that comes after the listing belongs to a writer at the same time, see
//! [`blanks`](crate::write::blanks).

use crate::copy::strided;
use crate::costs;
use crate::dims::Dims;
use crate::layout::ArrayLayout;
use crate::plan::Plan;
use crate::plan::task::Task;
use crate::read::list_present_objects;
use crate::select::Selection;
use crate::select::view::Source;
use crate::write::blanks::{Blanks, Presence};
use std::collections::HashSet;

/// Returns whether a write of many chunks (`count`) writes only fill value, if that is soon known.
pub(crate) fn is_only_fill(
    layout: &ArrayLayout,
    selection: &Selection,
    source: &Source<'_>,
    count: usize,
) -> bool {
    if count < costs::LISTED_FROM || !selection.points().is_empty() {
        return false;
    }
    // An element that is repeated is looked at once.
    let axes = source.shape.iter().zip(&source.strides);
    let distinct: Dims = axes.map(|(len, stride)| if *stride == 0 { 1 } else { *len }).collect();
    let fill = layout.fill().bytes();
    let elements = distinct.iter().fold(1u64, |elements, len| elements.saturating_mul(*len));
    let most = (count as u64).saturating_mul(costs::SCANNED_PER_TASK);
    // SAFETY: the source covers its shape with elements of the array, which the caller has checked.
    // Along an axis whose length is 1 here, only the first element is read.
    elements.saturating_mul(fill.len() as u64) <= most
        && unsafe { strided::all_equal(&distinct, &source.strides, fill, source.base) }
}

/// The stored objects of an array, and the tasks that write to them.
pub(crate) struct Stored {
    pub(crate) keys: HashSet<String>,
    numbers: Vec<usize>,
}

impl Stored {
    /// Lists the stored objects. `objects` is the plan of the write, with a task for each object.
    ///
    /// `None` if a listing is uncertain, or saves too little.
    pub(crate) fn list(layout: &ArrayLayout, objects: &Plan, known: Presence<'_>) -> Option<Self> {
        if !matches!(known, Presence::Unknown) {
            return None;
        }
        let cost = layout.store().cost();
        let most = match cost.prefers_rounds() {
            true => Blanks::of_write(layout, objects.len(), known).map(|_| objects.len())?,
            false if objects.len() < costs::LISTED_FROM => return None,
            false => objects.len() / costs::LISTED_SHARE,
        };
        let keys = list_present_objects(layout, most)?;
        let chunks = layout.locator().chunks_of(&mut keys.iter().map(String::as_str))?;
        let mut numbers: Vec<_> = chunks.iter().filter_map(|chunk| objects.number_of_chunk(chunk)).collect();
        numbers.sort_unstable();
        Some(Stored { keys, numbers })
    }

    /// The tasks that are left to do.
    ///
    /// A server deletes many objects with one request. In a near store threads delete them.
    pub(crate) fn blanks(&self, layout: &ArrayLayout, objects: &Plan) -> Blanks {
        let (blanks, mut task) = (Blanks::default(), Task::default());
        let together = layout.store().cost().prefers_rounds();
        for number in &self.numbers {
            objects.task_of(layout, layout.object_grid(), *number, &mut task);
            match task.whole && together {
                true => blanks.add_whole(*number),
                false => blanks.add_edge(*number),
            }
        }
        blanks
    }
}
