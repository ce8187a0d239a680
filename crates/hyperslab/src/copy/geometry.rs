//! Collects what a plan needs to know about an array and its copy.

use super::plan::{ENOUGH, Geometry, Reach, Side};
use super::transfer::{Job, Means};
use super::{ragged, stored_blocks::objects};
use crate::{Array, Dims, Error, Result};
use hyperslab_array::settings;
use hyperslab_store::Ask;

/// The geometry of one array. Reads a sample of elements of variable length.
pub(super) fn geometry(job: &Job, means: &Means<'_>, ask: Option<Ask<'_>>) -> Result<Geometry> {
    // Elements of variable length are also in the request's heap, and twice while comparing. Chunks
    // for one file wait, encoded, for the end of their block.
    let (element, blocks) = match job.target.vlen() {
        None if means.one_file.is_some() => (job.source.dtype().size() as u64, 2),
        None => (job.source.dtype().size() as u64, 1),
        Some(_) => (ragged::element_bytes(&job.source, ask)?, 4),
    };
    let mut target = side(&job.target);
    let server = means.server.and_then(|server| server.cost).map(Reach::of);
    target.reach = server.unwrap_or(target.reach);
    let mut source = side(&job.source);
    if source.chunked {
        source.offset = job.window.from.clone();
        source.part = source.chunk.clone();
    } else {
        // A source without chunks is read only where it is wanted: plan with the target's chunks.
        (source.chunk, source.object, source.part) =
            (target.chunk.clone(), target.chunk.clone(), target.chunk.clone());
    }
    source.stored = Some(job.stored_of_window()).filter(|bytes| *bytes > 0);
    let requests = requests(job, means);
    let round = target.object_bytes(element).saturating_mul(requests as u64);
    let cost = job.source.store().cost();
    let reads = if cost.waiting_dominates() { cost.at_once as u64 } else { 0 };
    // A block that is smaller than a round of requests would wait for them in vain.
    let round = round.max(source.object_bytes(element).saturating_mul(reads));
    let beside = means.beside.as_ref().map(|beside| (Reach::NEAR, beside.room()));
    let place = beside.or(server.map(|reach| (reach, u64::MAX)));
    let place = place.filter(|_| job.target.vlen().is_none());
    let geometry = Geometry {
        shape: job.window.shape.clone(),
        element,
        source,
        target,
        memory: means.max_memory,
        blocks,
        threads: means.threads,
        requests,
        requests_share: 4,
        in_flight: settings::decodes_in_flight(),
        enough: ENOUGH.max(round),
        enough_whole: ENOUGH.max(round),
        temporary: place.filter(|_| blocks == 1),
        prices: means.prices,
        workers: means.workers,
    };
    match least_memory(&geometry) {
        Some(least) if means.memory_is_limit => Err(Error::Options(format!(
            "max_memory: {} bytes are less than the {least} that one block of array '{}' needs, with the chunks \
             that a thread has at hand",
            means.max_memory, job.name
        ))),
        _ => Ok(geometry),
    }
}

/// Number of requests that are worth making at once, if the target is on a server.
fn requests(job: &Job, means: &Means<'_>) -> usize {
    let cost = job.target.store().cost();
    let server = means.server.map(|server| server.requests);
    let at_once = server.or_else(|| cost.waiting_dominates().then_some(cost.at_once));
    at_once.map_or(0, |at_once| means.asked.unwrap_or_else(|| settings::waiting_writers(at_once)))
}

/// The least memory that the copy needs; `None`: the given memory is enough.
fn least_memory(geometry: &Geometry) -> Option<u64> {
    let needed = |memory| Geometry { memory, ..geometry.clone() }.one_pass_plan().memory();
    let mut least = needed(geometry.memory);
    if least <= geometry.memory || geometry.shape.contains(&0) {
        return None;
    }
    // More memory may allow more threads, each with its own chunks.
    for _ in 0..16 {
        match needed(least) {
            more if more > least => least = more,
            _ => break,
        }
    }
    Some(least)
}

fn side(array: &Array) -> Side {
    let layout = array.layout();
    let level = layout.sharding().and_then(|sharding| sharding.levels().first());
    // A joined array has no codecs, but its sources have.
    let coded = !array.template().layout().encoding().chain().codecs().is_empty();
    Side {
        chunk: array.chunk_shape().into(),
        offset: Dims::from_elem(0, array.shape().len()),
        object: objects(array).into(),
        part: level.map_or(array.chunk_shape(), |level| level.inner()).into(),
        regular: layout.object_grid().is_regular(),
        chunked: array.has_chunks() || coded,
        coded,
        stored: None,
        reach: Reach::of(array.store().cost()),
        is_temporary: false,
    }
}
