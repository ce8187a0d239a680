//! A lot of tasks whose chunks are located, and the steps that it is cut into.
//!
//! One thread does a whole step.

use crate::costs;
use crate::layout::locate::Location;
use crate::runtime::memory::Memory;
use hyperslab_store::{Opened, Stamp};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The tasks of a lot, once their chunks are located.
#[derive(Default)]
pub(crate) struct Lot<'s> {
    pub(crate) objects: SmallVec<[FoundObject<'s>; 1]>,
    /// Chunks that are read in runs or together. [`Lot::steps`] sorts them by position.
    pub(crate) chunks: SmallVec<[FoundChunk; 1]>,
    /// Chunks that are read one by one.
    pub(crate) alone: Vec<Alone>,
    /// Chunks that a cache holds in decoded form.
    pub(crate) cached: Vec<(FoundChunk, Arc<Memory>)>,
    /// Numbers of tasks whose chunks are absent, and the object that would hold each.
    pub(crate) absent: Vec<(usize, usize)>,
    /// Bytes of indexes that were read to locate the chunks.
    pub(crate) index_bytes: u64,
    /// Bytes of the other chunks of its shards, which a write copies. Counted only for `explain`.
    pub(crate) others: u64,
}

/// An object that holds chunks of a lot.
#[derive(Default)]
pub(crate) struct FoundObject<'s> {
    pub(crate) key: String,
    pub(crate) opened: Option<Box<dyn Opened + 's>>,
    /// The object's stamp when it was opened.
    pub(crate) stamp: Option<Stamp>,
    /// `true` if all its bytes were read before.
    pub(crate) in_memory: bool,
}

/// A chunk that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FoundChunk {
    /// Which object its bytes are in, at which offset, and how many.
    pub(crate) object: usize,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// The number of its task.
    pub(crate) number: usize,
}

/// A chunk that is read on its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone {
    pub(crate) object: usize,
    pub(crate) location: Location,
    pub(crate) number: usize,
}

/// The share of a lot that one thread does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Reads a run, and decodes its chunks.
    Run(ReadRun),
    /// Reads the wanted bytes of chunks without codecs, all in one object.
    Direct(Range<usize>),
    /// Reads a chunk on its own.
    Alone(usize),
    /// Copies a chunk that a cache holds.
    Held(usize),
    /// Fills the elements of absent chunks.
    Fill(Range<usize>),
}

/// Bytes of an object that are read at once, for one or more chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadRun {
    /// Which of the lot's chunks are in the run.
    pub(crate) chunks: Range<usize>,
    pub(crate) object: usize,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl<'s> Lot<'s> {
    /// Cuts the lot into steps and passes them to `each`.
    ///
    /// Runs have at most `gap` unwanted bytes between chunks, and at most `longest` bytes in all,
    /// unless a single chunk is longer. With `direct`, chunks must have no codecs, and only their
    /// wanted bytes are read. Absent chunks get a step only with `fill`.
    pub(crate) fn steps(
        &mut self,
        (gap, longest): (u64, u64),
        direct: bool,
        fill: bool,
        each: &mut dyn FnMut(Step),
    ) {
        let mut step = |run: ReadRun| each(if direct { Step::Direct(run.chunks) } else { Step::Run(run) });
        runs(&mut self.chunks, gap, longest, &mut step);
        (0..self.alone.len()).map(Step::Alone).for_each(&mut *each);
        (0..self.cached.len()).map(Step::Held).for_each(&mut *each);
        let absent = if fill { self.absent.len() } else { 0 };
        let fill = |start| Step::Fill(start..absent.min(start + costs::FILLED));
        (0..absent).step_by(costs::FILLED).map(fill).for_each(each);
    }

    /// Number of chunks that have to be read.
    pub(crate) fn to_read(&self) -> usize {
        self.chunks.len() + self.alone.len()
    }
}

/// Sorts chunks by position and joins neighbours into runs.
///
/// Neighbours have at most `gap` bytes between them. A run has at most `most` bytes, unless it is a
/// single chunk.
fn runs(chunks: &mut [FoundChunk], gap: u64, most: u64, each: &mut dyn FnMut(ReadRun)) {
    chunks.sort_unstable();
    let mut last: Option<ReadRun> = None;
    for (n, chunk) in chunks.iter().enumerate() {
        let end = chunk.offset + chunk.len;
        if let Some(run) = &mut last
            && run.object == chunk.object
            && chunk.offset <= (run.offset + run.len).saturating_add(gap)
            && end.saturating_sub(run.offset) <= most
        {
            run.len = run.len.max(end - run.offset);
            run.chunks.end = n + 1;
        } else {
            let FoundChunk { object, offset, len, .. } = *chunk;
            last.replace(ReadRun { chunks: n..n + 1, object, offset, len }).into_iter().for_each(&mut *each);
        }
    }
    last.into_iter().for_each(each);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_neighbours_up_to_a_gap_and_a_size() {
        let chunk = |number: usize, object, offset, len| FoundChunk { object, offset, len, number };
        let mut chunks = [
            chunk(0, 0, 100, 10),
            chunk(1, 0, 0, 10),
            chunk(2, 0, 10, 10),
            chunk(3, 1, 20, 10),
            chunk(4, 0, 25, 10),
            chunk(5, 0, 36, 1000),
        ];
        let mut found = Vec::new();
        runs(&mut chunks, 5, 50, &mut |run| found.push((run.chunks, run.object, run.offset, run.len)));
        assert_eq!(found, [(0..3, 0, 0, 35), (3..4, 0, 36, 1000), (4..5, 0, 100, 10), (5..6, 1, 20, 10)]);
        let numbers: Vec<usize> = chunks.iter().map(|chunk| chunk.number).collect();
        assert_eq!(numbers, [1, 2, 4, 5, 0, 3]);
        let mut count = 0;
        runs(&mut chunks, 0, 2000, &mut |_| count += 1);
        assert_eq!(count, 4);
    }
}
