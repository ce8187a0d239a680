//! Moves the elements of one block, and compares them.

use super::blocks::{Block, Blocks};
use super::listings::{self, Listings, StoredObjects};
use super::stored_blocks::{self, Held, Sizes, Wanted, is_sparse};
use super::transfer::{Job, wrong_size};
use super::{Paths, Phase, ragged};
use crate::nodes::element::swap_bytes;
use crate::{Array, Dims, Error, Result};
use hyperslab_array::{Ragged, ReadOptions, ShardParts, Source, Target, WriteOptions};
use hyperslab_codec::VlenKind;
use std::sync::Arc;

/// The stored objects in a block, as numbers in the list of all stored objects.
#[derive(Clone, Copy)]
pub(super) struct Listed<'a> {
    pub(super) numbers: &'a [usize],
    pub(super) all: &'a [Dims],
}

/// The stored objects in a block of the source and of the copy; `None`: any may be stored.
pub(super) type InBlock<'a> = [Option<Listed<'a>>; 2];

/// Copies and compares the blocks of one array, in one pass.
pub(super) struct Mover<'a> {
    pub(super) job: &'a Job,
    /// The source, or a temporary array with the bytes that source elements have in memory.
    pub(super) from: &'a Array,
    /// The target, or a temporary array.
    pub(super) to: &'a Array,
    /// `true`: `to` is a temporary array.
    pub(super) is_temporary: bool,
    /// `true`: chunks that hold only fill value are stored, too.
    pub(super) keeps_fill: bool,
    /// Verifies checksums of the source. `None`: as in the settings.
    pub(super) verify: Option<bool>,
    /// The element at which blocks start to count, in `from` and in `to`.
    pub(super) starts: [Dims; 2],
    /// Number of threads that compute, and of requests to a server on their way.
    pub(super) threads: (usize, usize),
    pub(super) cancelled: &'a dyn Fn() -> bool,
    /// The stored objects of `from`, and of `to` if they matter.
    pub(super) stored: [StoredObjects; 2],
    /// If true, a listing may say which objects of the copy are absent.
    pub(super) lists_copy: bool,
}

/// The object that is written in parts, if blocks are parts of it.
pub(super) type Shard<'p, 's> = Option<&'p mut ShardParts<'s>>;

impl<'a> Mover<'a> {
    pub(super) fn new(
        job: &'a Job,
        (from, to): (&'a Array, &'a Array),
        threads: (usize, usize),
        cancelled: &'a dyn Fn() -> bool,
    ) -> Self {
        let zeros = || Dims::from_elem(0, job.window.shape.len());
        let start = |is_own: bool, start: &Dims| if is_own { start.clone() } else { zeros() };
        let is_temporary = !std::ptr::eq(to, &job.target);
        let starts =
            [start(std::ptr::eq(from, &job.source), &job.window.from), start(!is_temporary, &job.window.to)];
        // In a temporary array, writing fill values is cheaper than looking for them.
        let (keeps_fill, verify, stored) = (is_temporary, Some(true), [None, None]);
        let lists_copy = true;
        Mover {
            job,
            from,
            to,
            is_temporary,
            keeps_fill,
            verify,
            starts,
            threads,
            cancelled,
            stored,
            lists_copy,
        }
    }

    /// The place in the target's grid of the object that blocks are parts of.
    pub(super) fn object(&self, blocks: &Blocks, object: &[u64]) -> Dims {
        let grid = self.to.layout().object_grid();
        let first = blocks.first_of(object).shift(&self.starts[1]).first;
        first.iter().enumerate().map(|(axis, at)| grid.index_of(axis, *at)).collect()
    }

    /// Returns `true` if blocks without stored objects need no visit.
    fn skips_absent(&self) -> Result<bool> {
        let copies_absent = self.from.node().copies_absent();
        Ok(!copies_absent && self.job.is_new && !stored_blocks::fills_differ(self.job)?)
    }

    /// Lists the stored objects of the source, and of the copy if they matter.
    pub(super) fn list_stored_objects(&mut self, phase: Phase) -> Result<()> {
        let ask = Some(self.cancelled);
        if self.skips_absent()? || listings::is_listed_far(self.from) {
            self.stored[0] = listings::list(self.from, ask)?;
        }
        if phase == Phase::Verify && self.stored[0].is_some() {
            self.stored[1] = listings::list(self.to, ask)?;
        }
        Ok(())
    }

    /// The same for a part of a copy, with listings that parts share.
    pub(super) fn list_for_part(&mut self, phase: Phase, shared: &Listings) -> Result<()> {
        let ask = Some(self.cancelled);
        if self.skips_absent()? || listings::is_listed_far(self.from) {
            self.stored[0] = shared.source(self.from, ask)?;
        }
        if phase == Phase::Verify && self.lists_copy && self.stored[0].is_some() {
            self.stored[1] = shared.copy(self.to, ask)?;
        }
        Ok(())
    }

    /// The places of the stored objects of one side; `None`: any may be stored.
    pub(super) fn places(&self, side: usize) -> Option<&[Dims]> {
        self.stored.get(side)?.as_ref().map(|stored| stored.places.as_slice())
    }

    /// The blocks that are not entirely fill value.
    pub(super) fn blocks_to_visit<'b>(&self, sizes: &'b Sizes, phase: Phase) -> Result<Wanted<'b>> {
        let (source, target) = (self.from, self.to);
        let [start, to] = &self.starts;
        if !self.skips_absent()? {
            return Ok(Wanted { blocks: &sizes.large, places: None, sparse: false });
        }
        Ok(match (phase, self.places(0), self.places(1)) {
            (Phase::Copy, Some(list), _) => stored_blocks::wanted(sizes, &[(source, list, start)]),
            (Phase::Verify, Some(list), Some(copied)) => {
                stored_blocks::wanted(sizes, &[(source, list, start), (target, copied, to)])
            }
            _ => Wanted { blocks: &sizes.large, places: None, sparse: false },
        })
    }

    /// The blocks with stored objects on one side at least; `None`: any block.
    pub(super) fn blocks_held(&self, blocks: &Blocks, phase: Phase) -> Result<Option<Held>> {
        if !self.skips_absent()? {
            return Ok(None);
        }
        let [start, to] = &self.starts;
        let Some(stored) = self.places(0) else { return Ok(None) };
        let from = (self.from, stored, start.as_slice());
        Ok(match (phase, self.places(1)) {
            (Phase::Copy, _) => stored_blocks::holding(blocks, &[from]),
            (Phase::Verify, None) => None,
            (Phase::Verify, Some(copied)) => stored_blocks::holding(blocks, &[from, (self.to, copied, to)]),
        })
    }

    /// The stored objects in a block, for each side that stores little there.
    pub(super) fn listed<'l>(&'l self, blocks: &Blocks, found: &'l [Vec<usize>; 2]) -> InBlock<'l> {
        let listed = |array: &Array, side: usize| {
            let (numbers, all) = (found[side].as_slice(), self.places(side)?);
            is_sparse(array, blocks, numbers.len()).then_some(Listed { numbers, all })
        };
        [listed(self.from, 0), listed(self.to, 1)]
    }

    pub(super) fn copy(
        &self,
        block: &Block,
        [part, _]: InBlock<'_>,
        buffer: &mut [u8],
        len: usize,
        shard: Shard<'_, '_>,
    ) -> Result<()> {
        let bytes = front(buffer, len)?;
        let [start, place] = [0, 1].map(|side| block.shift(&self.starts[side]));
        self.read(0, self.from, &start, part, bytes)?;
        let len = if self.is_temporary { len } else { self.to_target_type(bytes) };
        let (bytes, target) = (front(buffer, len)?, self.to);
        let selection = target.select(&place.index())?;
        let source = Source::dense(bytes, &block.len, target.dtype().size()).ok_or_else(wrong_size)?;
        match shard {
            None => target.write(&selection, &source, self.write_options()),
            Some(shard) => Ok(shard.write(&selection, &source, self.write_options())?),
        }
    }

    fn read_source_ragged(&self, block: &Block, paths: &mut Paths) -> Result<Ragged> {
        let source = &self.job.source;
        let block = block.shift(&self.starts[0]);
        ragged::read(source, &source.select(&block.index())?, self.read_options(0), paths)
    }

    /// Copies a block of elements of variable length and returns the bytes of their values.
    pub(super) fn copy_ragged(
        &self,
        block: &Block,
        paths: &mut Paths,
        kind: VlenKind,
        shard: Shard<'_, '_>,
    ) -> Result<u64> {
        let values = self.read_source_ragged(block, paths)?;
        if kind == VlenKind::Text && !self.job.source.node().checks_text() {
            ragged::check_text(&values, &block.shift(&self.starts[0]), &self.job.name)?;
        }
        let bytes = values.values.len() as u64;
        let target = &self.job.target;
        let place = block.shift(&self.starts[1]);
        let (selection, values) = (target.select(&place.index())?, Arc::new(values));
        match shard {
            None => target.write_ragged(&selection, &values, self.write_options())?,
            Some(shard) => shard.write_ragged(&selection, &values, self.write_options())?,
        }
        Ok(bytes)
    }

    pub(super) fn compare_ragged(&self, block: &Block, paths: &mut Paths, kind: VlenKind) -> Result<()> {
        let expected = self.read_source_ragged(block, paths)?;
        let target = &self.job.target;
        let place = block.shift(&self.starts[1]);
        let found = target.read_ragged(&target.select(&place.index())?, self.read_options(1))?;
        match ragged::difference(&expected, &found, kind.item_size()) {
            None => Ok(()),
            Some((number, expected, found)) => Err(self.mismatch(block, number, expected, found)),
        }
    }

    fn mismatch(&self, block: &Block, number: u64, expected: &[u8], found: &[u8]) -> Error {
        Error::Mismatch {
            array: self.job.name.clone(),
            index: block.shift(&self.job.window.from).position(number),
            expected: hex(expected),
            found: hex(found),
        }
    }

    pub(super) fn compare(
        &self,
        block: &Block,
        [part, copied]: InBlock<'_>,
        buffer: &mut [u8],
        len: usize,
    ) -> Result<()> {
        let (expected, rest) = buffer.split_at_mut_checked(len).ok_or_else(wrong_size)?;
        let [start, place] = [0, 1].map(|side| block.shift(&self.starts[side]));
        self.read(0, &self.job.source, &start, part, expected)?;
        let len = self.to_target_type(expected);
        let (expected, found) = (front(expected, len)?, front(rest, len)?);
        self.read(1, &self.job.target, &place, copied, found)?;
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

    fn read(
        &self,
        side: usize,
        array: &Array,
        block: &Block,
        part: Option<Listed<'_>>,
        bytes: &mut [u8],
    ) -> Result<()> {
        if let Some(Listed { numbers, all }) = part {
            let places = numbers.iter().filter_map(|number| all.get(*number));
            return stored_blocks::read(array, block, places, bytes, self.read_options(side));
        }
        let selection = array.select(&block.index())?;
        let mut target = Target::dense(bytes, &block.len, array.dtype().size()).ok_or_else(wrong_size)?;
        array.read_into(&selection, &mut target, self.read_options(side))
    }

    /// `side`: 0 for the source, 1 for the copy.
    fn read_options(&self, side: usize) -> ReadOptions<'_> {
        let stored = self.stored.get(side).and_then(Option::as_ref);
        ReadOptions {
            threads: Some(self.threads.0),
            present: stored.and_then(|stored| stored.keys.as_ref()),
            verify: self.verify,
            interrupt: Some(self.cancelled),
            ..ReadOptions::default()
        }
    }

    fn write_options(&self) -> WriteOptions<'_> {
        WriteOptions {
            threads: Some(self.threads.0),
            requests: Some(self.threads.1),
            is_new: self.job.is_fresh,
            write_empty_chunks: Some(self.keeps_fill),
            interrupt: Some(self.cancelled),
            still: None,
        }
    }

    /// Converts source elements to elements of the copy, at the front of `bytes`.
    /// Returns the bytes of the converted elements. In memory, elements of a v3 array are in the
    /// machine's byte order, and elements of a v2 array in the stored order.
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
