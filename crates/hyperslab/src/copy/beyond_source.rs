//! Writes the elements of a copy that are beyond the end of its source.
//! A source may be shorter than its unlimited dimensions.
//!
//! In Zarr v3 these elements are the fill value of the copy. In Zarr v2 the fill value is `null` if
//! no element is missing, and `null` reads as zero: there these elements are written.

use super::blocks::{Block, all_indices};
use super::stored_blocks::in_target;
use super::transfer::{Job, wrong_size};
use crate::error::check;
use crate::{Dims, Result, Source, WriteOptions, meaning};
use hyperslab_array::{Ragged, element_count};
use hyperslab_store::Ask;
use std::cmp::Ordering;
use std::sync::Arc;

/// The value of the elements beyond the end, as the copy has it in memory.
/// `None`: no such elements, or the value is the copy's fill value.
pub(super) fn value_beyond_source(job: &Job) -> Result<Option<Vec<u8>>> {
    if !job.is_new || job.window.shape.as_slice() == job.target.shape() {
        return Ok(None);
    }
    let Some(value) = meaning::value_beyond_end(&job.source)? else { return Ok(None) };
    let (value, fill) = match job.target.vlen() {
        Some(_) => (value, job.target.fill().unwrap_or_default()),
        None => (in_target(job, value), job.target.layout().fill().bytes()),
    };
    Ok((value != fill).then_some(value))
}

/// Writes the elements beyond the end, for a copy as a whole.
pub(super) fn write_all(job: &Job, ask: Option<Ask<'_>>) -> Result<()> {
    let Some(value) = value_beyond_source(job)? else { return Ok(()) };
    let copied = Block { first: Dims::from_elem(0, job.window.shape.len()), len: job.window.shape.clone() };
    write(job, &copied, &value, ask)
}

/// Extends a copied block by the elements beyond the end of the source that adjoin it.
/// The extended blocks together are the whole copy.
pub(super) fn extend_block(job: &Job, block: &Block) -> Block {
    let mut extended = block.clone();
    let ends = job.window.shape.iter().zip(job.target.shape());
    for ((len, first), (copied, all)) in extended.len.iter_mut().zip(&block.first).zip(ends) {
        if first + *len == *copied {
            *len = all - first;
        }
    }
    extended
}

/// Writes the elements that [`extended`] adds to a block.
pub(super) fn write(job: &Job, copied: &Block, value: &[u8], ask: Option<Ask<'_>>) -> Result<()> {
    let all = extend_block(job, copied);
    for axis in 0..all.len.len() {
        // The copied part of earlier axes, the rest of this axis, and all of later axes.
        let mut part = all.clone();
        for other in 0..all.len.len() {
            match other.cmp(&axis) {
                Ordering::Less => part.len[other] = copied.len[other],
                Ordering::Equal => {
                    part.first[other] += copied.len[other];
                    part.len[other] -= copied.len[other];
                }
                Ordering::Greater => {}
            }
        }
        if !part.len.contains(&0) {
            write_box(job, &part, value, ask)?;
        }
    }
    Ok(())
}

fn write_box(job: &Job, part: &Block, value: &[u8], ask: Option<Ask<'_>>) -> Result<()> {
    let target = &job.target;
    let options = WriteOptions { interrupt: ask, ..WriteOptions::default() };
    if target.vlen().is_none() {
        let selection = target.select(&part.index())?;
        return target.write(&selection, &Source::repeated(value, &part.len), options);
    }
    // All texts of a write are in memory, so write one object at a time.
    let grid = target.layout().object_grid();
    let spans = part.first.iter().zip(&part.len).enumerate();
    let spans = spans.map(|(axis, (first, len))| {
        (grid.index_of(axis, *first), grid.index_of(axis, first + len.saturating_sub(1)))
    });
    for place in all_indices(spans.collect()) {
        check(ask)?;
        let one = part.common(&place, grid);
        let count = element_count(&one.len).and_then(|count| usize::try_from(count).ok());
        let texts = std::iter::repeat_n(value, count.ok_or_else(wrong_size)?);
        let texts = Ragged::of(&one.len, texts).ok_or_else(wrong_size)?;
        target.write_ragged(&target.select(&one.index())?, &Arc::new(texts), options)?;
    }
    Ok(())
}
