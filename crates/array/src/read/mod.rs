//! Reads selections.

pub(crate) mod cache;
pub(crate) mod chunk;
pub(crate) mod executor;
pub(crate) mod fetch;
mod flight;
pub(crate) mod lots;
pub(crate) mod mask;
pub(crate) mod missing_objects;
pub(crate) mod mosaic;
pub(crate) mod one_array;
pub(crate) mod options;
pub(crate) mod request;
pub(crate) mod strategies;
pub(crate) mod stream;
pub(crate) mod windows;

use crate::costs;
use crate::dims::element_count;
use crate::error::ArrayError;
use crate::execute::scratch::Scratch;
use crate::execute::tasks::{self, memory_error};
use crate::layout::ArrayLayout;
use crate::layout::locate::Location;
use crate::plan::Plan;
use crate::plan::axis_memory::AxisMemory;
use crate::read::mask::{Comparing, Masking};
use crate::read::mosaic::read::MosaicRequest;
use crate::read::options::ReadOptions;
use crate::read::request::{Absent, Request};
use crate::runtime::memory::Memory;
use crate::select::Selection;
use crate::select::view::Target;
use hyperslab_store::{Key, Next, Opening};
use std::collections::HashSet;

/// Reads a selection into new memory.
///
/// The result is dense, has the selection's shape, and is in C order unless `options` say
/// otherwise.
///
/// Fails with [`ArrayError::Memory`] if memory cannot hold the result, and with
/// [`ArrayError::Store`] or [`ArrayError::Codec`], which name the chunk at fault. Nothing is
/// returned then.
pub fn read(
    layout: &ArrayLayout,
    selection: &Selection,
    options: ReadOptions<'_>,
) -> Result<Memory, ArrayError> {
    read_new(layout, selection, options, None)
}

/// Like [`read()`]. `comparing` finds the missing elements.
pub(crate) fn read_new(
    layout: &ArrayLayout,
    selection: &Selection,
    options: ReadOptions<'_>,
    comparing: Option<&mut Comparing<'_>>,
) -> Result<Memory, ArrayError> {
    selection.check(layout.name(), layout.shape())?;
    let shape = selection.shape();
    let element = layout.dtype().size();
    let bytes = element_count(&shape).and_then(|n| n.checked_mul(element as u64));
    let none = || memory_error(layout, "the result", bytes.unwrap_or(u64::MAX));
    let len = bytes.and_then(|n| usize::try_from(n).ok()).ok_or_else(none)?;
    let plan = Plan::new(layout, selection).ok_or_else(none)?;
    // In a near file, the sample would read a part of the index that is then read as a whole.
    let takes_calls = layout.store().cost().prefers_rounds() || layout.locator().folder().is_some();
    let worth_a_sample =
        len as u64 >= costs::SPARSE_FROM || plan.len() >= costs::SPARSE_CHUNKS && takes_calls;
    let (sparse, present) = match options.present {
        None if worth_a_sample => sparse(layout, &plan, selection),
        _ => (false, None),
    };
    let zeroed = sparse && layout.fill().is_zero();
    let mut memory = if zeroed { Memory::zeroed(len) } else { Memory::dirty(len) }.ok_or_else(none)?;
    let filled = zeroed.then(|| layout.fill().bytes());
    let mut target = Target::dense(memory.as_mut_slice(), &shape, element).ok_or_else(none)?;
    let masking = match comparing {
        Some(comparing) => Some(comparing.start(layout, target.base, len / element, filled)?),
        None => None,
    };
    if options.fortran {
        target.reverse_axes();
    }
    let bound = AxisMemory::target(layout, &target, selection)?;
    // If the parts of the result are boxes, each is compared once it is read. Parts with short rows
    // are not, because they would be compared row by row.
    let boxes = selection.points().is_empty()
        && layout.mosaic().is_none()
        && (masking.is_none() || mask::has_long_rows(layout, selection, bound.strides()));
    match bound.is_uneven() {
        true => read_into(layout, selection, &mut target, options)?,
        false => {
            let absent = Absent { filled: zeroed, present: present.as_ref().or(options.present) };
            let each = masking.as_ref().filter(|_| boxes);
            execute_all(layout, plan, selection, &bound, absent, len as u64, options, each, None)?;
        }
    }
    if let Some(masking) = masking.filter(|_| !boxes) {
        // SAFETY: all of the result is initialised, and nobody else uses it.
        unsafe { masking.mark_all(layout, len / element, options)? };
    }
    Ok(memory)
}

/// Reads a selection into the caller's memory, which must have the selection's shape.
///
/// After an error, its contents are unspecified: some chunks may have been written.
pub fn read_into(
    layout: &ArrayLayout,
    selection: &Selection,
    target: &mut Target<'_>,
    options: ReadOptions<'_>,
) -> Result<(), ArrayError> {
    read_target(layout, selection, target, options, None)
}

/// Like [`read_into`]. `nesting`: the position in nested mosaics, if the array is a part of one.
pub(crate) fn read_target(
    layout: &ArrayLayout,
    selection: &Selection,
    target: &mut Target<'_>,
    options: ReadOptions<'_>,
    nesting: Option<&mosaic::nesting::Nesting<'_>>,
) -> Result<(), ArrayError> {
    let bound = AxisMemory::target(layout, target, selection)?;
    if bound.is_uneven() {
        let memory = read(layout, selection, ReadOptions { fortran: false, ..options })?;
        target.copy_dense(memory.as_slice(), layout.dtype().size());
        return Ok(());
    }
    let plan = Plan::new(layout, selection).ok_or_else(|| memory_error(layout, "the plan", u64::MAX))?;
    let bytes =
        element_count(&selection.shape()).unwrap_or(u64::MAX).saturating_mul(layout.dtype().size() as u64);
    let absent = Absent { present: options.present, ..Absent::default() };
    execute_all(layout, plan, selection, &bound, absent, bytes, options, None, nesting)
}

/// Guesses whether most objects do not exist, from a sample of them.
///
/// Memory that the system zeroes on demand is then cheaper than dirty pages that are already there.
/// In this case, also returns the keys of all objects that exist, if listing them costs less than
/// asking for each. The guess only affects speed.
fn sparse(layout: &ArrayLayout, plan: &Plan, selection: &Selection) -> (bool, Option<HashSet<String>>) {
    const SAMPLE: usize = 8;
    if let Some(mosaic) = layout.mosaic() {
        return (selection.points().is_empty() && !mosaic::read::covers(layout, mosaic, selection), None);
    }
    let grid = layout.object_grid();
    let shards = layout.sharding().map(|_| plan.by_object(layout));
    let plan = match &shards {
        None => plan,
        Some(Some((shards, _))) => shards,
        Some(None) => return (false, None),
    };
    if plan.len() < SAMPLE {
        return (false, None);
    }
    let cost = layout.store().cost();
    // Asking for all objects takes no longer than asking for a sample.
    if cost.fits_one_round(plan.len()) || !cost.worth_guessing() {
        return (false, None);
    }
    let (mut absent, mut keys) = (0, Vec::new());
    Scratch::with(|scratch| {
        for n in 0..SAMPLE {
            plan.task_of(layout, grid, (plan.len() - 1) / (SAMPLE - 1) * n, &mut scratch.task);
            match layout.locate(&scratch.task.chunk, &mut scratch.key) {
                Ok(Location::Absent) => absent += 1,
                Ok(Location::Object) => keys.push(scratch.key.clone()),
                _ => {}
            }
        }
    });
    let opening =
        keys.iter().filter_map(|key| Some(Opening { key: Key::new(key).ok()?, next: Next::Start(1) }));
    if cost.prefers_rounds() {
        layout.store().open_all(&opening.collect::<Vec<_>>(), &mut |_, opened| {
            absent += usize::from(matches!(opened, Ok(None)));
        });
    } else {
        let gone =
            |Opening { key, .. }: &Opening<'_>| layout.store().exists(*key).is_ok_and(|exists| !exists);
        absent += opening.filter(gone).count();
    }
    let sparse = absent > SAMPLE / 2;
    (sparse, if sparse { list_present_objects(layout, plan.len()) } else { None })
}

/// The keys of all objects that exist, if listing them costs less than asking for each of `most`.
pub(crate) fn list_present_objects(layout: &ArrayLayout, most: usize) -> Option<HashSet<String>> {
    let prefix = match layout.locator().folder()? {
        "" => None,
        folder => Some(Key::new(folder).ok()?),
    };
    Some(layout.store().present(prefix, most)?.into_iter().collect())
}

/// Reads every chunk that a selection touches. All of them belong to one array.
#[allow(clippy::too_many_arguments)]
fn execute_all(
    layout: &ArrayLayout,
    plan: Plan,
    selection: &Selection,
    target: &AxisMemory<*mut u8>,
    absent: Absent<'_>,
    bytes: u64,
    options: ReadOptions<'_>,
    masking: Option<&Masking<'_>>,
    nesting: Option<&mosaic::nesting::Nesting<'_>>,
) -> Result<(), ArrayError> {
    // Chunks that are found now stay where they are until the read is done.
    let _reading = layout.sink().and_then(|sink| sink.reading());
    if let Some(mosaic) = layout.mosaic() {
        if !selection.points().is_empty() {
            return mosaic::points::read_points(layout, &plan, target, options, read_target);
        }
        let (ReadOptions { verify, cache, threads, interrupt, .. }, filled) = (options, absent.filled);
        let read = read_target;
        let request =
            MosaicRequest { layout, mosaic, selection, target, filled, verify, cache, read, nesting };
        return request.read(bytes, threads, interrupt);
    }
    let count = plan.len();
    let limits = (tasks::limit(options.threads), tasks::waiting_limit(layout, options.threads));
    let plan = plan.cut(layout, selection, limits.0);
    let limits = tasks::decoding_limits(layout, limits);
    one_array::of_one_array(
        layout,
        || count,
        |again| {
            let absent = if again { Absent::default() } else { absent };
            let request = Request::new(layout, &plan, target, absent, options.verify, options.cache);
            let request = Request { masking, ..request };
            request.read(bytes, limits, options.interrupt)
        },
    )
}
