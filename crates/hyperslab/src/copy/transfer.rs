//! Moving elements, block by block, and comparing them.

use super::blocks::{Block, Cut};
use super::stored::{self, Sizes, StoredObjects, Wanted, is_sparse, objects};
use super::structures::Repack;
use super::{Paths, Phase, Progress, ragged};
use crate::element::swap_bytes;
use crate::error::check;
use crate::info::array_bytes;
use crate::{Array, Dims, Error, Result};
use hyperslab_array::{ArrayError, Memory, Ragged, ReadOptions, Source, Target, WriteOptions};
use hyperslab_codec::VlenKind;
use hyperslab_store::Ask;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One array and its copy, which exists and is empty.
pub(super) struct Job {
    pub(super) name: String,
    pub(super) source: Array,
    pub(super) target: Array,
    /// How elements with fields become those of the copy; `None`: they are the same bytes.
    pub(super) repack: Option<Repack>,
}

/// All arrays of a copy, and the memory that their elements go through.
pub(super) struct Transfer<'a> {
    jobs: &'a [Job],
    /// Per array: its blocks for copying and for comparing.
    blocks: Vec<[Sizes; 2]>,
    threads: Vec<usize>,
    /// One piece for the blocks of all arrays, so that no second one exists while the first waits
    /// to be used again. Made for the first block that needs it: a document may claim chunks that
    /// no memory could hold, and have none stored.
    buffer: RefCell<Memory>,
    /// Bytes that are enough for the blocks of all arrays, but for chunks that are larger than
    /// memory should be.
    usual: u64,
    /// Bytes of the values of variable length that were copied, and the most of a block.
    values: Cell<(u64, u64)>,
    /// The arrays that cannot be copied.
    left_out: RefCell<BTreeSet<usize>>,
    progress: Option<&'a dyn Progress>,
}

impl<'a> Transfer<'a> {
    pub(super) fn new(
        jobs: &'a [Job],
        threads: usize,
        max_memory: u64,
        progress: Option<&'a dyn Progress>,
    ) -> Result<Self> {
        let mut this = Transfer {
            jobs,
            blocks: Vec::new(),
            threads: Vec::new(),
            buffer: RefCell::new(memory(0, "")?),
            usual: 0,
            values: Cell::default(),
            left_out: RefCell::default(),
            progress,
        };
        let ask: Ask<'_> = &|| progress.is_some_and(Progress::cancelled);
        for job in jobs {
            check(Some(ask))?;
            // Elements of variable length also are in the heap of the request, twice while they are
            // compared.
            let (element, parts) = match job.target.vlen() {
                None => (job.source.dtype().size() as u64, 1),
                Some(_) => (ragged::element_bytes(&job.source, Some(ask))?, 4),
            };
            // A thread holds an encoded and a decoded chunk, of the source or of the copy.
            let chunk = |array: &Array| match array.layout().encoding() {
                // All of the array: only what is wanted is read.
                encoding if !array.has_chunks() && encoding.chain().codecs().is_empty() => 0,
                encoding => {
                    let size = encoding.decoded_size() as u64;
                    (size / encoding.element_size().max(1) as u64).saturating_mul(element)
                }
            };
            let scratch = chunk(&job.source).max(chunk(&job.target)).saturating_mul(2);
            let fit = (max_memory / 2).checked_div(scratch).unwrap_or(u64::MAX);
            let threads = threads.min(usize::try_from(fit).unwrap_or(usize::MAX)).max(1);
            let budget = max_memory.saturating_sub(scratch.saturating_mul(threads as u64));
            let cut = |budget| Cut {
                shape: job.source.shape(),
                source_chunk: match job.source.has_chunks() {
                    true => job.source.chunk_shape(),
                    false => job.target.chunk_shape(),
                },
                target_object: objects(&job.target),
                target_chunk: job.target.chunk_shape(),
                element,
                budget,
            };
            let sizes = |budget| Sizes { large: cut(budget).blocks(), small: cut(budget).small_blocks() };
            let sizes = [sizes(budget / parts), sizes(budget / parts / 2)];
            this.threads.push(threads);
            if parts == 1 {
                // Comparing takes two blocks, of half the budget.
                let bytes = sizes[0].large.bytes().max(sizes[1].large.bytes().saturating_mul(2));
                this.usual = this.usual.max(if bytes <= max_memory { bytes } else { 0 });
            }
            this.blocks.push(sizes);
        }
        Ok(this)
    }

    /// Bytes of the memory that all blocks went through.
    pub(super) fn block_bytes(&self) -> u64 {
        (self.buffer.borrow().len() as u64).max(self.values.get().1)
    }

    /// Bytes of the values of variable length that were copied.
    pub(super) fn value_bytes(&self) -> u64 {
        self.values.get().0
    }

    /// Copies or compares all arrays, which are `total` bytes in memory. `failed` gets the error of
    /// each that cannot be copied; if it returns `Ok`, the others go on.
    pub(super) fn run(
        &self,
        phase: Phase,
        total: u64,
        failed: &mut dyn FnMut(&Job, Error) -> Result<()>,
    ) -> Result<()> {
        if let Some(progress) = self.progress {
            progress.begin(phase, total);
        }
        for (number, job) in self.jobs.iter().enumerate() {
            if self.left_out.borrow().contains(&number) {
                continue;
            }
            if let Some(progress) = self.progress {
                progress.array(&job.name);
            }
            // Elsewhere both have the fill value.
            let mut rest = array_bytes(&job.source);
            if let Err(error) = self.run_job(phase, number, job, &mut rest) {
                failed(job, error)?;
                self.left_out.borrow_mut().insert(number);
            }
            self.advance(rest);
        }
        Ok(())
    }

    /// Copies or compares one array. `rest`: bytes that are not done yet.
    fn run_job(&self, phase: Phase, number: usize, job: &Job, rest: &mut u64) -> Result<()> {
        let Some([copied, compared]) = self.blocks.get(number) else { return Err(wrong_size()) };
        let sizes = if phase == Phase::Copy { copied } else { compared };
        let threads = self.threads.get(number).copied().unwrap_or(1);
        let mover = Mover { job, threads, cancelled: &|| self.cancelled() };
        let mut paths = Paths::new();
        let stored = mover.stored(phase)?;
        let wanted = mover.wanted(sizes, &stored, phase);
        let blocks = wanted.blocks;
        let places: Box<dyn Iterator<Item = (Dims, &[Vec<usize>; 2])>> = match &wanted.places {
            None => Box::new(blocks.all().map(|at| (at, &NONE_LISTED))),
            Some(places) => Box::new(places.iter().map(|(at, found)| (at.clone(), found))),
        };
        for (at, found) in places {
            if self.cancelled() {
                return Err(Error::Interrupted);
            }
            let block = blocks.block(&at);
            let len = block.bytes(job.source.dtype().size()).ok_or_else(wrong_size)?;
            let mut buffer = self.buffer.borrow_mut();
            if job.target.vlen().is_none() {
                self.make_room(&mut buffer, len, phase, &job.name)?;
            }
            let listed = |array: &Array, which: usize| {
                let (numbers, all) = (&found[which], stored[which].as_deref()?);
                let sparse = wanted.sparse && is_sparse(array, blocks, numbers.len());
                sparse.then_some(Listed { numbers, all })
            };
            let parts = [listed(&job.source, 0), listed(&job.target, 1)];
            let done = match (phase, job.target.vlen()) {
                (Phase::Copy, None) => mover.copy(&block, parts, buffer.as_mut_slice(), len),
                (Phase::Verify, None) => mover.compare(&block, parts, buffer.as_mut_slice(), len),
                (Phase::Copy, Some(kind)) => mover.copy_ragged(&block, &mut paths, kind).map(|bytes| {
                    let (all, most) = self.values.get();
                    self.values.set((all.saturating_add(bytes), most.max(bytes + len as u64)));
                }),
                (Phase::Verify, Some(kind)) => mover.compare_ragged(&block, &mut paths, kind),
            };
            done.map_err(|error| match error {
                Error::Array(ArrayError::Interrupted { .. }) => Error::Interrupted,
                error => error,
            })?;
            *rest = rest.saturating_sub(len as u64);
            self.advance(len as u64);
        }
        Ok(())
    }

    /// Makes the buffer long enough for a block.
    fn make_room(&self, buffer: &mut Memory, len: usize, phase: Phase, name: &str) -> Result<()> {
        let needed = (len as u64).saturating_mul(if phase == Phase::Copy { 1 } else { 2 });
        if needed > buffer.len() as u64 {
            // Given back first.
            *buffer = memory(0, name)?;
            *buffer = memory(needed.max(self.usual), name)?;
        }
        Ok(())
    }

    fn advance(&self, bytes: u64) {
        if let Some(progress) = self.progress {
            progress.advance(bytes);
        }
    }

    fn cancelled(&self) -> bool {
        self.progress.is_some_and(Progress::cancelled)
    }
}

fn memory(bytes: u64, array: &str) -> Result<Memory> {
    let memory = usize::try_from(bytes).ok().and_then(Memory::dirty);
    Ok(memory.ok_or_else(|| ArrayError::Memory {
        array: array.to_owned(),
        what: "a block of chunks",
        bytes,
    })?)
}

/// The objects in a block, of the source and of the copy, where nobody listed them.
static NONE_LISTED: [Vec<usize>; 2] = [Vec::new(), Vec::new()];

/// The objects that are stored of a block, by their numbers among all that are.
#[derive(Clone, Copy)]
struct Listed<'a> {
    numbers: &'a [usize],
    all: &'a [Dims],
}

/// What is listed of a block, of the source and of the copy; `None`: any object may be stored.
type Parts<'a> = [Option<Listed<'a>>; 2];

/// Copies and compares the blocks of one array.
struct Mover<'a> {
    job: &'a Job,
    threads: usize,
    cancelled: &'a dyn Fn() -> bool,
}

impl Mover<'_> {
    /// The objects that are stored of the source, and where that matters of the copy. Lists stores.
    fn stored(&self, phase: Phase) -> Result<[StoredObjects; 2]> {
        let (source, target) = (&self.job.source, &self.job.target);
        if source.node().copies_absent() {
            return Ok([None, None]);
        }
        let list = |array: &Array| array.node().stored_objects(Some(self.cancelled));
        let source = list(source)?;
        let target = if phase == Phase::Verify && source.is_some() { list(target)? } else { None };
        Ok([source, target])
    }

    /// The blocks that are not all fill value.
    fn wanted<'b>(&self, sizes: &'b Sizes, stored: &[StoredObjects; 2], phase: Phase) -> Wanted<'b> {
        let (source, target) = (&self.job.source, &self.job.target);
        match (phase, stored) {
            (Phase::Copy, [Some(list), _]) => stored::wanted(sizes, &[(source, list)]),
            (Phase::Verify, [Some(list), Some(copied)]) => {
                stored::wanted(sizes, &[(source, list), (target, copied)])
            }
            _ => Wanted { blocks: &sizes.large, places: None, sparse: false },
        }
    }

    fn copy(&self, block: &Block, [part, _]: Parts<'_>, buffer: &mut [u8], len: usize) -> Result<()> {
        let bytes = front(buffer, len)?;
        self.read(&self.job.source, block, part, bytes)?;
        let len = self.to_target_type(bytes);
        let (bytes, target) = (front(buffer, len)?, &self.job.target);
        let selection = target.select(&block.index())?;
        let source = Source::dense(bytes, &block.len, target.dtype().size()).ok_or_else(wrong_size)?;
        target.write(&selection, &source, self.write_options())
    }

    fn read_source_ragged(&self, block: &Block, paths: &mut Paths) -> Result<Ragged> {
        let source = &self.job.source;
        source.node().read_copied(&source.select(&block.index())?, self.read_options(), paths)
    }

    /// Returns the bytes of the values.
    fn copy_ragged(&self, block: &Block, paths: &mut Paths, kind: VlenKind) -> Result<u64> {
        let values = self.read_source_ragged(block, paths)?;
        if kind == VlenKind::Text && !self.job.source.node().checks_text() {
            ragged::check_text(&values, block, &self.job.name)?;
        }
        let bytes = values.values.len() as u64;
        let target = &self.job.target;
        target.write_ragged(&target.select(&block.index())?, &Arc::new(values), self.write_options())?;
        Ok(bytes)
    }

    fn compare_ragged(&self, block: &Block, paths: &mut Paths, kind: VlenKind) -> Result<()> {
        let expected = self.read_source_ragged(block, paths)?;
        let target = &self.job.target;
        let found = target.read_ragged(&target.select(&block.index())?, self.read_options())?;
        match ragged::difference(&expected, &found, kind.item_size()) {
            None => Ok(()),
            Some((number, expected, found)) => Err(self.mismatch(block, number, expected, found)),
        }
    }

    fn mismatch(&self, block: &Block, number: u64, expected: &[u8], found: &[u8]) -> Error {
        Error::Mismatch {
            array: self.job.name.clone(),
            index: block.position(number),
            expected: hex(expected),
            found: hex(found),
        }
    }

    fn compare(&self, block: &Block, [part, copied]: Parts<'_>, buffer: &mut [u8], len: usize) -> Result<()> {
        let (expected, rest) = buffer.split_at_mut_checked(len).ok_or_else(wrong_size)?;
        self.read(&self.job.source, block, part, expected)?;
        let len = self.to_target_type(expected);
        let (expected, found) = (front(expected, len)?, front(rest, len)?);
        self.read(&self.job.target, block, copied, found)?;
        if expected == found {
            return Ok(());
        }
        let size = self.job.target.dtype().size().max(1);
        let pairs = expected.chunks_exact(size).zip(found.chunks_exact(size));
        match pairs.enumerate().find(|(_, (expected, found))| expected != found) {
            None => Ok(()),
            Some((number, (expected, found))) => Err(self.mismatch(block, number as u64, expected, found)),
        }
    }

    fn read(&self, array: &Array, block: &Block, part: Option<Listed<'_>>, bytes: &mut [u8]) -> Result<()> {
        if let Some(Listed { numbers, all }) = part {
            let places = numbers.iter().filter_map(|number| all.get(*number));
            return stored::read(array, block, places, bytes, self.read_options());
        }
        let selection = array.select(&block.index())?;
        let mut target = Target::dense(bytes, &block.len, array.dtype().size()).ok_or_else(wrong_size)?;
        array.read_into(&selection, &mut target, self.read_options())
    }

    fn read_options(&self) -> ReadOptions<'_> {
        ReadOptions {
            threads: Some(self.threads),
            verify: Some(true),
            interrupt: Some(self.cancelled),
            ..ReadOptions::default()
        }
    }

    fn write_options(&self) -> WriteOptions<'_> {
        WriteOptions {
            threads: Some(self.threads),
            write_empty_chunks: Some(false),
            interrupt: Some(self.cancelled),
            still: None,
        }
    }

    /// Makes elements of the copy of those of the source, in the front of `bytes`, and gives the
    /// number of their bytes. Elements of a v3 array are in the machine's byte order in memory, those
    /// of a v2 array in the stored one.
    fn to_target_type(&self, bytes: &mut [u8]) -> usize {
        if let Some(repack) = &self.job.repack {
            return repack.apply(bytes);
        }
        let (from, to) = (self.job.source.dtype(), self.job.target.dtype());
        if from.order() != to.order() {
            swap_bytes(bytes, to.number_size());
        }
        bytes.len()
    }
}

pub(super) fn front(buffer: &mut [u8], len: usize) -> Result<&mut [u8]> {
    buffer.get_mut(..len).ok_or_else(wrong_size)
}

/// Blocks are cut to fit the buffer. If one did not fit, this error would come instead of a wrong
/// copy.
pub(super) fn wrong_size() -> Error {
    Error::Options("a block does not fit the memory set aside for it".into())
}

fn hex(bytes: &[u8]) -> String {
    const MOST: usize = 16;
    let digits: String = bytes.iter().take(MOST).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > MOST { digits + "…" } else { digits }
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn elements_as_text() {
        assert_eq!(hex(&[0, 1, 0xab]), "0001ab");
        assert_eq!(hex(&[7; 17]), "07070707070707070707070707070707…");
    }
}
