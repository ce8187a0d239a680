//! Reads elements of variable length batch by batch, with little more memory than the result needs.
//!
//! Steps for each batch:
//!
//! 1. Read its cells with the ordinary engine. Decoding a chunk puts the bytes that cells refer to
//!    into the batch's heap.
//! 2. Add up the lengths of the cells. The sums are the offsets of the result.
//! 3. Copy from the heap to the end of the values, on all threads. Neighbours are copied in one go.
//!
//! The number of cells in a batch depends on the bytes in the heap of the batch before: the bytes
//! of all elements of the chunks that it touched.

#![expect(clippy::indexing_slicing, reason = "offsets were pushed for every cell before they are looked at")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use super::batches::Batches;
use super::parts::each_part;
use super::{Ragged, heap};
use crate::costs;
use crate::error::ArrayError;
use crate::execute::tasks;
use crate::execute::tasks::memory_error;
use crate::layout::ArrayLayout;
use crate::plan::Plan;
use crate::read::one_array::of_one_array;
use crate::read::options::ReadOptions;
use crate::select::Selection;
use hyperslab_codec::{Cell, Heap, Vlen};
use std::sync::Arc;

/// Reads elements of variable length whose codec is [`hyperslab_codec::Vlen`].
///
/// Elements that were never written have the fill value. Ignores the options for the order of the
/// result and for a cache.
///
/// Fails as [`crate::read()`] does, and with [`ArrayError::Layout`] if elements have a fixed size.
pub fn read_ragged(
    layout: &ArrayLayout,
    selection: &Selection,
    options: ReadOptions<'_>,
) -> Result<Ragged, ArrayError> {
    // Points are nearly always in several objects, and planning them builds a table. Do not count.
    let count = || match selection.points() {
        [] => Plan::new(layout, selection).map_or(usize::MAX, |plan| plan.len()),
        _ => usize::MAX,
    };
    of_one_array(layout, count, |_| read_once(layout, selection, options))
}

fn read_once(
    layout: &ArrayLayout,
    selection: &Selection,
    options: ReadOptions<'_>,
) -> Result<Ragged, ArrayError> {
    let vlen = codec(layout)?;
    // Cells refer to the heap of one batch. Chunks kept in a cache would refer to other heaps.
    let options = ReadOptions { cache: None, fortran: false, ..options };
    let mut batches = Batches::new(layout, selection)?;
    let mut output = RaggedOutput::new(layout, vlen, batches.total())?;
    let mut cells = first_cells(layout, selection, tasks::limit(options.threads));
    let (mut buffer, mut first) = (None, 0);
    let mut stretches = u64::MAX;
    while let Some(part) = batches.next(layout, first, cells, stretches)? {
        let heap = Arc::new(heap(vlen));
        let bound = layout.bound(&heap).ok_or_else(|| one_size(layout))?;
        let mut payload = 0;
        batches.read(&bound, &part, options, &mut buffer, &mut |memory| {
            payload = output.append(layout, memory, &heap, options)?;
            Ok::<(), ArrayError>(())
        })?;
        first += part.count;
        output.result.expect(batches.total() as usize, u64::MAX);
        let fitting =
            |n: u64| (u128::from(costs::PAYLOAD) * u128::from(n) / u128::from(payload.max(1))) as u64;
        cells = fitting(part.count)
            .min(cells.max(part.count).saturating_mul(costs::GROWTH))
            .clamp(1, costs::MOST_CELLS);
        // Points may be close together here and far apart there. The bytes in the heap depend on
        // the chunks, not on the points, so bound the stretches too.
        stretches = match part.stretches {
            0 => u64::MAX,
            n => fitting(n).clamp(1, n.saturating_mul(costs::GROWTH)),
        };
    }
    Ok(output.result.finish(selection.shape()))
}

/// The codec of an array's elements. Fails if they have a fixed size.
pub(super) fn codec(layout: &ArrayLayout) -> Result<&Vlen, ArrayError> {
    layout.vlen().ok_or_else(|| one_size(layout))
}

pub(super) fn one_size(layout: &ArrayLayout) -> ArrayError {
    let why = format!("its elements ({}) are of one size: they are read and written as such", layout.dtype());
    ArrayError::Layout { array: layout.name().into(), why }
}

/// Number of cells in the first batch: several chunks' cells, at least one chunk for each thread.
fn first_cells(layout: &ArrayLayout, selection: &Selection, threads: usize) -> u64 {
    let (mut elements, mut selected) = (1u64, 1u64);
    for (axis, chunk) in selection.axes().iter().zip(layout.grid().chunk_shape()) {
        let wanted = chunk.div_ceil(axis.step.unsigned_abs()).min(axis.len).max(1);
        elements = elements.saturating_mul(*chunk);
        selected = selected.saturating_mul(wanted);
    }
    selected.saturating_mul((costs::FIRST_BATCH / elements.max(1)).max(threads as u64))
}

/// The result so far.
struct RaggedOutput {
    result: Ragged,
    /// Bytes per item.
    item: u32,
}

impl RaggedOutput {
    fn new(layout: &ArrayLayout, vlen: &Vlen, total: u64) -> Result<Self, ArrayError> {
        let none = || memory_error(layout, "the result", total.saturating_mul(size_of::<i64>() as u64));
        let item = u32::try_from(vlen.kind().item_size()).unwrap_or(u32::MAX).max(1);
        if !(vlen.fill().len() as u32).is_multiple_of(item) {
            let why = format!("the fill value has {} bytes, no multiple of {item}", vlen.fill().len());
            return Err(ArrayError::Layout { array: layout.name().into(), why });
        }
        Ok(RaggedOutput { result: Ragged::growing(total as usize).ok_or_else(none)?, item })
    }

    /// Appends the bytes that cells refer to. Returns the bytes of the heap and of the cells
    /// together.
    fn append(
        &mut self,
        layout: &ArrayLayout,
        memory: &[u8],
        heap: &Heap,
        options: ReadOptions<'_>,
    ) -> Result<u64, ArrayError> {
        let (cells, _) = memory.as_chunks::<{ Cell::SIZE }>();
        let buffers = heap.buffers();
        let buffers: Vec<&[u8]> =
            buffers.iter().map(|buffer| buffer.as_deref().map_or(&[][..], |bytes| bytes.as_ref())).collect();
        let before = self.result.count();
        let mut end = self.result.end();
        // A division would take longer than everything else here.
        if self.item == 1 {
            self.result.offsets.extend(cells.iter().map(|cell| {
                end += i64::from(Cell::read(cell).len);
                end
            }));
        } else {
            self.result.offsets.extend(cells.iter().map(|cell| {
                end += i64::from(Cell::read(cell).len / self.item);
                end
            }));
        }
        let item = self.item as usize;
        let items = (end - self.result.offsets[before]) as u64;
        let done = self.result.grow(items, item).ok_or_else(|| {
            memory_error(layout, "the result", (end as u64).saturating_mul(self.item.into()))
        })?;
        let offsets = &self.result.offsets[before..];
        let values = &mut self.result.values.as_mut_slice()[done..];

        let work = (values.len() as u64).saturating_add(costs::CELL_WORK * cells.len() as u64);
        let limit = tasks::limit(options.threads);
        let threads = tasks::worthwhile_threads(work, costs::INLINE_WORK, cells.len(), limit).max(1);
        let pieces = if threads == 1 { 1 } else { threads * costs::TURNS };
        let mut left = (cells, values);
        let mut jobs = Vec::with_capacity(pieces);
        let mut cut = 0;
        for piece in 1..=pieces {
            let target = offsets[0] + ((end - offsets[0]) as i128 * piece as i128 / pieces as i128) as i64;
            let next = if piece == pieces {
                cells.len()
            } else {
                offsets.partition_point(|at| *at < target).max(cut)
            };
            let bytes = (offsets[next] - offsets[cut]) as usize * item;
            let (these, others) = left.0.split_at(next - cut);
            let (to, rest) = std::mem::take(&mut left.1).split_at_mut(bytes);
            jobs.push((these, to));
            left = (others, rest);
            cut = next;
        }
        each_part(jobs, work, Some(limit), &|_, (cells, to)| {
            copy(cells, &buffers, to).ok_or_else(|| {
                let why = "a cell refers to bytes that its heap does not have".into();
                ArrayError::Layout { array: layout.name().into(), why }
            })
        })?;
        let payload: u64 = buffers.iter().map(|bytes| bytes.len() as u64).sum();
        Ok(payload + memory.len() as u64)
    }
}

/// Copies the bytes that cells refer to, one after the other. Adjacent bytes are copied together.
/// `None` if a cell refers to bytes that do not exist.
fn copy(cells: &[[u8; Cell::SIZE]], buffers: &[&[u8]], mut to: &mut [u8]) -> Option<()> {
    let mut run = Cell::default();
    let mut end = 0;
    let mut flush = |buffer: u32, start: u64, end: u64| {
        let bytes =
            buffers.get(buffer as usize)?.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?;
        let (place, rest) = std::mem::take(&mut to).split_at_mut_checked(bytes.len())?;
        place.copy_from_slice(bytes);
        to = rest;
        Some(())
    };
    for cell in cells {
        let cell = Cell::read(cell);
        if cell.buffer != run.buffer || cell.offset != end {
            if cell.len == 0 {
                continue;
            }
            flush(run.buffer, run.offset, end)?;
            run = cell;
            end = cell.offset;
        }
        end = end.checked_add(u64::from(cell.len))?;
    }
    flush(run.buffer, run.offset, end)
}
