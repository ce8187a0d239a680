//! Missing objects as errors, for callers who know that all of an array is stored.

use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::execute::tasks;
use crate::execute::tasks::{Interrupt, memory_error};
use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::plan::Plan;
use crate::read::list_present_objects;
use crate::select::Selection;

/// Checks that every object (chunk or shard) of a selection is stored.
///
/// Chunks absent from a stored shard hold fill values and do not count as missing. An object that
/// is deleted between this check and a read goes unnoticed.
///
/// Fails with [`ArrayError::Missing`], which names the first missing object.
pub fn check_stored(
    layout: &ArrayLayout,
    selection: &Selection,
    interrupt: Option<Interrupt<'_>>,
) -> Result<(), ArrayError> {
    selection.check(layout.name(), layout.shape())?;
    if layout.mosaic().is_some() {
        return Ok(());
    }
    let none = || memory_error(layout, "the plan", u64::MAX);
    let chunks = Plan::new(layout, selection).ok_or_else(none)?;
    let plan = match layout.sharding() {
        Some(_) => chunks.by_object(layout).ok_or_else(none)?.0,
        None => chunks,
    };
    let listed = list_present_objects(layout, plan.len());
    Scratch::with(|scratch| {
        for n in 0..plan.len() {
            if interrupt.is_some_and(|ask| ask()) {
                return Err(ArrayError::Interrupted { array: layout.name().into() });
            }
            plan.task_of(layout, layout.object_grid(), n, &mut scratch.task);
            let stored = match layout.locate(&scratch.task.chunk, &mut scratch.key)? {
                Location::Absent => false,
                Location::Object => match &listed {
                    Some(listed) => listed.contains(scratch.key.as_str()),
                    None => {
                        let key = tasks::key(layout, &scratch.task, &scratch.key)?;
                        layout.store().exists(key).map_err(|source| ArrayError::Store {
                            array: layout.name().into(),
                            chunk: scratch.task.chunk.to_vec(),
                            source: Box::new(source),
                        })?
                    }
                },
                _ => true,
            };
            if !stored {
                return Err(ArrayError::Missing {
                    array: layout.name().into(),
                    chunk: scratch.task.chunk.to_vec(),
                    key: scratch.key.as_str().into(),
                });
            }
        }
        Ok(())
    })
}
