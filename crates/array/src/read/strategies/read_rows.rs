//! Read-rows: only the wanted byte ranges of a chunk without codecs.
//!
//! Long rows that are the same in the output are read straight to it. Other ranges go to scratch
//! and are scattered from there. Points: [`crate::read::windows`].

#![expect(clippy::indexing_slicing, reason = "axes are numbered below the rank, which all vectors have")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use super::{ReadStrategy, WHOLE};
use crate::copy::strided::{self, Region};
use crate::dims::Strides;
use crate::execute::scratch::{resize_slot, with_ranges};
use crate::execute::tasks::memory_error;
use crate::layout::encoding::ChunkEncoding;
use crate::plan::task::{Task, within_chunk};
use crate::read::fetch::ranges_of;
use crate::read::windows;
use hyperslab_store::RangeRead;
use smallvec::SmallVec;

pub(crate) static READ_ROWS: ReadStrategy = ReadStrategy {
    name: "read-rows",
    fits: |chunk, _| chunk.is_plain(),
    read: |chunk, scratch, stored| {
        let layout = chunk.layout;
        if !chunk.places.is_empty() {
            return windows::read(chunk, scratch, stored);
        }
        let (list, decoded, key, task) = scratch.split_ranges();
        if chunk.region.direct_row().is_some() {
            return with_ranges(list, |list| {
                chunk.push_rows(0, list);
                ranges_of(layout, stored, task, key, list)
            });
        }
        let encoding = layout.encoding();
        let rows = Rows::new(encoding, task, layout.store().cost().range);
        let bytes = rows.count.saturating_mul(rows.span);
        let none = || memory_error(layout, "a part of a chunk", bytes);
        let len = usize::try_from(bytes).map_err(|_| none())?;
        let buffer = resize_slot(decoded, len).ok_or_else(none)?;
        let found = with_ranges(list, |list| {
            let slots = buffer.chunks_exact_mut((rows.span as usize).max(1));
            list.extend(rows.offsets().zip(slots).map(|(offset, buf)| RangeRead { offset, buf }));
            ranges_of(layout, stored, task, key, list)
        })?;
        if found {
            let (strides, _) = within_chunk(layout, task);
            let packed = rows.packed_strides(encoding, task, &strides);
            let target = chunk.request.target.strides();
            let region = Region::new(&task.count, target, &packed, encoding.element_size(), encoding.swap());
            // SAFETY: the target covers the task's elements; the buffer holds all ranges, in the
            // places given by `packed`.
            unsafe { strided::copy(&region, chunk.dst, buffer.as_ptr()) };
        }
        Ok(found)
    },
    ranges: |chunk, task, (start, _)| {
        let cost = chunk.layout.store().cost().range;
        let mut ranges = match chunk.region.direct_row() {
            _ if !chunk.places.is_empty() => {
                windows::ranges(chunk.region.clone(), &chunk.places, chunk.offset, cost)
            }
            Some(row) => {
                let mut ranges = Vec::new();
                let mut push = |_, src: isize| {
                    ranges.push(((chunk.offset as u64).wrapping_add_signed(src as i64), row as u64));
                };
                chunk.region.for_each_row(&mut push);
                ranges
            }
            None => {
                let rows = Rows::new(chunk.layout.encoding(), task, cost);
                rows.offsets().map(|offset| (offset, rows.span)).collect()
            }
        };
        ranges.iter_mut().for_each(|(offset, _)| *offset += start);
        ranges
    },
    decodes: |_, _| 0,
    ..WHOLE
};

/// The byte ranges that hold a part of an unencoded chunk: `Π outer counts` ranges of `span` bytes.
///
/// Reading every wanted run separately moves the fewest bytes, but may take very many ranges. A
/// single range from the first to the last wanted byte may contain many unwanted bytes. In between,
/// the slower axes are walked and the faster ones covered. The split with the lowest cost is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rows {
    /// The axes that are walked, slowest first: number of steps, and bytes per step.
    outer: SmallVec<[(u64, u64); 8]>,
    /// First wanted byte of the chunk.
    start: u64,
    /// Bytes of one range.
    span: u64,
    /// Number of ranges.
    count: u64,
}

impl Rows {
    /// `another`: the cost of one more range, in bytes that could be read instead.
    fn new(encoding: &ChunkEncoding, task: &Task, another: u64) -> Self {
        let element = encoding.element_size() as u64;
        let mut axes: SmallVec<[(u64, u64); 8]> = SmallVec::new();
        let mut start = 0;
        for axis in encoding.order() {
            let k = *axis as usize;
            let stride = encoding.strides()[k] as u64;
            start += task.first[k] * stride;
            if task.count[k] > 1 {
                axes.push((task.count[k], stride * task.step[k]));
            }
        }
        let reach = |axes: &[(u64, u64)]| axes.iter().map(|(n, step)| (n - 1) * step).sum::<u64>() + element;
        let mut best = (u64::MAX, 0);
        let mut ranges = 1u64;
        for depth in 0..=axes.len() {
            let cost = ranges.saturating_mul(another.saturating_add(reach(&axes[depth..])));
            if cost < best.0 {
                best = (cost, depth);
            }
            if let Some((n, _)) = axes.get(depth) {
                ranges = ranges.saturating_mul(*n);
            }
        }
        let span = reach(&axes[best.1..]);
        axes.truncate(best.1);
        let count = axes.iter().map(|(n, _)| n).product();
        Rows { outer: axes, start, span, count }
    }

    /// The offsets of all ranges within the chunk, ascending.
    fn offsets(&self) -> impl Iterator<Item = u64> {
        (0..self.count).map(|number| {
            let mut rest = number;
            self.outer.iter().rev().fold(self.start, |offset, (n, step)| {
                let index = rest % n;
                rest /= n;
                offset + index * step
            })
        })
    }

    /// Bytes between selected elements in a buffer that holds the ranges one after the other.
    ///
    /// Per axis of the array. `within` has the same numbers for the chunk. The first selected
    /// element is the first byte of the buffer.
    fn packed_strides(&self, encoding: &ChunkEncoding, task: &Task, within: &[isize]) -> Strides {
        let mut strides: Strides = within.into();
        // The walked axes are the slowest ones with more than one element, in stored order. Their
        // steps in the buffer are whole ranges.
        let walked = encoding.order().iter().map(|axis| *axis as usize).filter(|k| task.count[*k] > 1);
        let mut step = self.count * self.span;
        for (k, (n, _)) in walked.zip(&self.outer) {
            step /= n;
            strides[k] = step as isize;
        }
        strides
    }
}
