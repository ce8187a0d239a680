//! Runs: chunks that are ranges of an object, of which neighbours are read at once. Shards
//! ([`crate::shard`]) and files of small chunks ([`crate::read::small`]) are read so.

use crate::copy::gather;
use crate::error::ArrayError;
use crate::layout::{ArrayLayout, Location};
use crate::plan::point_plan::Places;
use crate::plan::{Plan, Task};
use crate::read::cache::ChunkCache;
use crate::read::cache::Wanted;
use crate::read::fetch::Parts;
use crate::read::{Absent, Reader, read_region};
use crate::runtime::scratch::Scratch;
use crate::runtime::tasks;
use crate::runtime::tasks::{memory_error, store_error};
use crate::select::view::Bound;
use hyperslab_store::{Opened, RangeRead, Stamp};

/// Runs are no longer than this, so that memory is bounded, unless a chunk alone is.
pub(crate) const LONGEST: u64 = 1 << 20;

/// A chunk that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Chunk {
    /// Which of the blobs its bytes are in, from where, and how many.
    pub(crate) blob: usize,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Its task's number.
    pub(crate) number: usize,
}

/// A range of a blob that is read at once, for one or more chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Which chunks, of a sorted list.
    pub(crate) chunks: std::ops::Range<usize>,
    pub(crate) blob: usize,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// Sorts chunks by where they are and joins those with at most `gap` bytes between them, up to
/// `most` bytes in all.
pub(crate) fn runs(chunks: &mut [Chunk], gap: u64, most: u64) -> Vec<Run> {
    chunks.sort_unstable();
    let mut runs: Vec<Run> = Vec::new();
    for (n, chunk) in chunks.iter().enumerate() {
        let end = chunk.offset + chunk.len;
        if let Some(run) = runs.last_mut()
            && run.blob == chunk.blob
            && chunk.offset <= (run.offset + run.len).saturating_add(gap)
            && end.saturating_sub(run.offset) <= most
        {
            run.len = run.len.max(end - run.offset);
            run.chunks.end = n + 1;
        } else {
            let Chunk { blob, offset, len, .. } = *chunk;
            runs.push(Run { chunks: n..n + 1, blob, offset, len });
        }
    }
    runs
}

/// A request to read chunks that are ranges of objects.
pub(crate) struct RangeRequest<'a> {
    pub(crate) layout: &'a ArrayLayout,
    /// The plan of chunks.
    pub(crate) plan: &'a Plan,
    pub(crate) target: &'a Bound<*mut u8>,
    pub(crate) absent: Absent<'a>,
    pub(crate) verify: bool,
    /// Where decoded chunks are looked for.
    pub(crate) cache: Option<&'a ChunkCache>,
    /// Where decoded chunks are kept.
    pub(crate) keep: Option<&'a ChunkCache>,
}

impl RangeRequest<'_> {
    /// What reads the chunk of a task. `parts`: the object that it is in, if that is open.
    pub(crate) fn reader<'r>(
        &'r self,
        task: &Task,
        places: &'r [Places<'r>],
        parts: Option<&'r Parts<'r>>,
    ) -> Reader<'r> {
        Reader {
            layout: self.layout,
            dst: self.target.at(&task.out),
            strides: self.target.strides(),
            places,
            present: None,
            parts,
            verify: self.verify,
            cache: self.cache,
            keep: self.keep,
        }
    }

    /// Fills the part of the target of a task of `plan`: that of chunks, or that of shards.
    pub(crate) fn fill(&self, plan: &Plan, task: &Task) {
        if !self.absent.filled {
            let (strides, dst) = (self.target.strides(), self.target.at(&task.out));
            let (places, value) = (plan.places(task, strides), self.layout.fill().bytes());
            // SAFETY: the target covers the selection, of which the task is a part.
            unsafe { gather::fill(&places, &task.count, strides, value, dst) };
        }
    }

    /// Copies chunks that are in the cache, and takes them off the list. `stamp`: which contents
    /// the object `key` has.
    pub(crate) fn copy_cached(
        &self,
        key: &str,
        stamp: Option<Stamp>,
        chunks: &mut Vec<Chunk>,
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let (Some(cache), Some(stamp)) = (self.cache, stamp) else { return Ok(()) };
        let mut left = Vec::new();
        for chunk in std::mem::take(chunks) {
            self.plan.task(self.layout, chunk.number, &mut scratch.task);
            let task = &scratch.task;
            let wanted =
                Wanted::new(self.layout, tasks::key(self.layout, task, key)?, location(&chunk), self.verify);
            match cache.get_under(&wanted, stamp).filter(|_| chunk.blob == 0) {
                Some(memory) => {
                    let (region, offset) = read_region(self.layout, task, self.target.strides());
                    let places = self.plan.places(task, self.target.strides());
                    self.reader(task, &places, None).scatter(memory.as_slice(), &region, offset);
                }
                None => left.push(chunk),
            }
        }
        *chunks = left;
        Ok(())
    }

    /// Reads a run at once, and decodes its chunks to where they belong. `stamp`: which contents
    /// the object had when it was opened; `scratch` holds its key.
    pub(crate) fn read_run(
        &self,
        opened: &dyn Opened,
        stamp: Option<Stamp>,
        run: &Run,
        chunks: &[Chunk],
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let mut encoded = std::mem::take(&mut scratch.encoded);
        let outcome = self.read_run_by(&mut encoded, opened, stamp, run, chunks, scratch);
        scratch.encoded = encoded;
        outcome
    }

    /// As [`RangeRequest::read_run`], into a given buffer.
    fn read_run_by(
        &self,
        encoded: &mut Vec<u8>,
        opened: &dyn Opened,
        stamp: Option<Stamp>,
        run: &Run,
        chunks: &[Chunk],
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let layout = self.layout;
        let len = usize::try_from(run.len).unwrap_or(usize::MAX);
        encoded.clear();
        encoded.try_reserve(len).map_err(|_| memory_error(layout, "encoded chunks", run.len))?;
        encoded.resize(len, 0);
        if let Some(chunk) = chunks.first() {
            self.plan.task(layout, chunk.number, &mut scratch.task);
        }
        opened
            .read_ranges(&mut [RangeRead { offset: run.offset, buf: encoded }])
            .map_err(|source| store_error(layout, &scratch.task, source))?;
        // Under the same stamp as before the run was read: it vouches for the run.
        let vouched = self.keep.and(stamp).filter(|stamp| run.blob == 0 && opened.vouched() == Some(*stamp));
        for chunk in chunks {
            self.plan.task(layout, chunk.number, &mut scratch.task);
            let start = (chunk.offset - run.offset) as usize;
            let bytes = encoded.get(start..start + chunk.len as usize).unwrap_or_default();
            let (region, offset) = read_region(layout, &scratch.task, self.target.strides());
            let places = self.plan.places(&scratch.task, self.target.strides());
            let reader = self.reader(&scratch.task, &places, None);
            reader.place(scratch, bytes, location(chunk), vouched, &region, offset)?;
        }
        Ok(())
    }
}

/// Where a chunk is, as a format would say it.
pub(crate) fn location(chunk: &Chunk) -> Location {
    Location::Range { offset: chunk.offset, len: chunk.len, skipped: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_neighbours_up_to_a_gap_and_a_size() {
        let chunk = |number: usize, blob, offset, len| Chunk { blob, offset, len, number };
        let mut chunks = [
            chunk(0, 0, 100, 10),
            chunk(1, 0, 0, 10),
            chunk(2, 0, 10, 10),
            chunk(3, 1, 20, 10),
            chunk(4, 0, 25, 10),
            chunk(5, 0, 36, 1000),
        ];
        let found: Vec<_> = runs(&mut chunks, 5, 50)
            .into_iter()
            .map(|run| (run.chunks, run.blob, run.offset, run.len))
            .collect();
        assert_eq!(found, [(0..3, 0, 0, 35), (3..4, 0, 36, 1000), (4..5, 0, 100, 10), (5..6, 1, 20, 10)]);
        let numbers: Vec<usize> = chunks.iter().map(|chunk| chunk.number).collect();
        assert_eq!(numbers, [1, 2, 4, 5, 0, 3]);
        assert_eq!(runs(&mut chunks, 0, 2000).len(), 4);
    }
}
