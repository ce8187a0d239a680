//! Small chunks of one object (a file of HDF5), of which each would take longer to ask for than to
//! read: neighbours are read at once.
//!
//! 1. The chunks of a request are taken some hundreds at a time, in the order of the plan; each
//!    such lot is a task of the pool.
//! 2. Those that exist are located, sorted by where they are, and joined to runs. Each run is read,
//!    and its chunks decoded to where they belong.
//! 3. A chunk whose range cannot be right, or that went through other codecs than the others, is
//!    read by itself: an error names the chunk that is at fault.

use crate::error::ArrayError;
use crate::layout::{ArrayLayout, Location};
use crate::plan::Plan;
use crate::read::Reader;
use crate::read::runs::{Chunk, LONGEST, RangeRequest, runs};
use crate::runtime::scratch::Scratch;
use crate::runtime::tasks;
use crate::runtime::tasks::{Interrupt, store_error};
use hyperslab_store::Opened;
use std::ops::Range;

/// Chunks of so many bytes, decoded, are small; and neighbours are those with no more bytes between
/// them.
const SMALL: usize = 4 << 10;

/// Decoded bytes of a lot.
const LOT: usize = 256 << 10;

/// The fewest and the most chunks of a lot: a lot asks the system for more than its bytes, and has
/// a table of its chunks.
const CHUNKS: Range<usize> = 32..1024;

/// Whether chunks are read so: they are small, several, and ranges of an object.
pub(crate) fn applies(layout: &ArrayLayout, plan: &Plan) -> Result<bool, ArrayError> {
    if plan.len() < 2 || layout.encoding().decoded_size() > SMALL {
        return Ok(false);
    }
    Scratch::with(|scratch| {
        plan.task(layout, 0, &mut scratch.task);
        Ok(layout.locate(&scratch.task.chunk, &mut scratch.key)? != Location::Object)
    })
}

/// Reads all chunks. `bytes`: an estimate of what is moved; `limit`: the threads that may work on
/// it, and those if it waits.
pub(crate) fn read(
    request: &RangeRequest<'_>,
    bytes: u64,
    limit: (usize, usize),
    interrupt: Option<Interrupt<'_>>,
) -> Result<(), ArrayError> {
    let (layout, plan) = (request.layout, request.plan);
    let fit = LOT / layout.encoding().decoded_size().max(1);
    let each = fit.min(plan.len().div_ceil(2 * limit.0)).clamp(CHUNKS.start, CHUNKS.end);
    let work = tasks::work(layout, plan.len(), bytes);
    tasks::run_tasks(layout, plan.len().div_ceil(each), work, limit, interrupt, &|lot, scratch, _| {
        let first = lot * each;
        read_lot(request, first..plan.len().min(first + each), scratch)
    })
}

/// Reads the chunks of some tasks.
fn read_lot(
    request: &RangeRequest<'_>,
    numbers: Range<usize>,
    scratch: &mut Scratch,
) -> Result<(), ArrayError> {
    let (layout, plan) = (request.layout, request.plan);
    let mut object: Option<(String, Box<dyn Opened + '_>)> = None;
    let mut chunks = Vec::with_capacity(numbers.len());
    for number in numbers {
        plan.task(layout, number, &mut scratch.task);
        match layout.locate(&scratch.task.chunk, &mut scratch.key)? {
            Location::Absent => request.fill(plan, &scratch.task),
            Location::Range { offset, len, skipped: 0 } => {
                if object.is_none() {
                    let key = tasks::key(layout, &scratch.task, &scratch.key)?;
                    let opened = layout.store().open(key, None);
                    let opened = opened.map_err(|source| store_error(layout, &scratch.task, source))?;
                    object = opened.map(|opened| (scratch.key.clone(), opened));
                }
                match &object {
                    Some((key, opened)) if *key == scratch.key && fits(layout, &**opened, offset, len) => {
                        chunks.push(Chunk { blob: 0, offset, len, number });
                    }
                    _ => read_one(request, scratch)?,
                }
            }
            _ => read_one(request, scratch)?,
        }
    }
    let Some((key, opened)) = object else { return Ok(()) };
    let stamp = opened.stamp();
    request.copy_cached(&key, stamp, &mut chunks, scratch)?;
    scratch.key = key;
    for run in runs(&mut chunks, layout.store().gap().min(SMALL as u64), LONGEST) {
        let chunks = chunks.get(run.chunks.clone()).unwrap_or_default();
        request.read_run(&*opened, stamp, &run, chunks, scratch)?;
    }
    Ok(())
}

/// Whether a chunk can be in this range of the object.
fn fits(layout: &ArrayLayout, opened: &dyn Opened, offset: u64, len: u64) -> bool {
    let chain = layout.encoding().chain();
    let (size, most) = (chain.decoded_size() as u64, chain.max_encoded() as u64);
    let whole = if chain.is_identity() { len == size } else { len <= most };
    whole && offset.checked_add(len).is_some_and(|end| end <= opened.size())
}

/// Reads the chunk of the task at hand by itself.
fn read_one(request: &RangeRequest<'_>, scratch: &mut Scratch) -> Result<(), ArrayError> {
    let strides = request.target.strides();
    let places = request.plan.places(&scratch.task, strides);
    let reader: Reader<'_> = request.reader(&scratch.task, &places, None);
    if !reader.read(scratch)? {
        request.fill(request.plan, &scratch.task);
    }
    Ok(())
}
