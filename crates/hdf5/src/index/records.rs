//! The table of chunks while it is built.

use super::{ChunkIndex, ChunkRecord, IndexRequest};
use crate::salvage::losses::Losses;
use crate::{ParseError, Parsed, Result, Source};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Chunks of the current extent, numbered in C order.
#[derive(Debug)]
pub(super) struct Grid {
    pub counts: Vec<u64>,
    /// Difference between the numbers of neighbouring chunks, per axis.
    pub strides: Vec<u64>,
    pub total: u64,
}

impl Grid {
    /// The number of the chunk at a place. `None`: there is no such place.
    fn number(&self, place: &[u64]) -> Option<u64> {
        let axes = || place.iter().zip(&self.counts);
        let inside = place.len() == self.counts.len() && axes().all(|(place, count)| place < count);
        inside.then(|| place.iter().zip(&self.strides).map(|(place, stride)| place * stride).sum())
    }

    /// The place of the chunk with this number.
    pub fn place(&self, number: u64) -> Vec<u64> {
        super::place(number, &self.counts)
    }

    /// `None`: there are more than 2⁶⁴ chunks.
    fn new(shape: &[u64], chunk: &[u64]) -> Option<Grid> {
        let counts: Vec<u64> = shape.iter().zip(chunk).map(|(n, chunk)| n.div_ceil(*chunk)).collect();
        let (strides, total) = match counts.contains(&0) {
            true => (vec![0; counts.len()], 0),
            false => strides(&counts)?,
        };
        Some(Grid { counts, strides, total })
    }
}

/// For each axis, returns the product of all later counts. Also returns the product of all counts.
pub(super) fn strides(counts: &[u64]) -> Option<(Vec<u64>, u64)> {
    let mut product = 1u64;
    let mut strides = vec![0; counts.len()];
    for (stride, count) in strides.iter_mut().zip(counts).rev() {
        *stride = product;
        product = product.checked_mul(*count)?;
    }
    Some((strides, product))
}

/// Drops chunks that are stored at two places: nobody can tell which one is right. `records` are sorted
/// by number.
fn without_ambiguous(mut records: Vec<ChunkRecord>, counts: &[u64], losses: &Losses) -> Vec<ChunkRecord> {
    records.dedup();
    let mut kept: Vec<ChunkRecord> = Vec::with_capacity(records.len());
    for same in records.chunk_by(|a, b| a.number == b.number) {
        match same {
            [only] => kept.push(*only),
            [first, ..] => {
                let why = format!("two places are stored for it, addresses {:?}", addresses(same));
                losses.chunk(first.number, counts, first.address, why);
            }
            [] => {}
        }
    }
    kept
}

fn addresses(records: &[ChunkRecord]) -> Vec<u64> {
    records.iter().map(|record| record.address).collect()
}

#[derive(Debug)]
pub(super) struct Records {
    pub grid: Grid,
    /// Bytes of a chunk without filters.
    pub chunk_bytes: u64,
    /// The number of the only wanted chunk. `None`: all chunks are wanted.
    pub only: Option<u64>,
    /// `true` if the wanted chunk may be anywhere in the index.
    pub unsorted: bool,
    end: u64,
    /// The losses of a lenient reader.
    losses: Option<Arc<Losses>>,
    records: Vec<ChunkRecord>,
    /// `true` if the records are already sorted by number.
    ascending: bool,
}

impl Records {
    /// `only` is the place of the only wanted chunk.
    pub fn new(request: &IndexRequest<'_>, only: Option<&[u64]>) -> Result<Records> {
        let (chunk, shape) = (&request.layout.chunk, request.shape);
        let source = request.source;
        let invalid = || {
            source.invalid(format!(
                "chunk shape {chunk:?} does not fit dataset shape {shape:?}: expected as many axes, no \
                 zeros and fewer than 2⁶⁴ bytes in a chunk"
            ))
        };
        if chunk.len() != shape.len() || request.max_shape.len() != shape.len() || chunk.contains(&0) {
            return Err(invalid());
        }
        let bytes = chunk.iter().try_fold(request.layout.element_size, |bytes, n| bytes.checked_mul(*n));
        let grid = Grid::new(shape, chunk);
        let (Some(grid), Some(chunk_bytes)) = (grid, bytes.filter(|bytes| *bytes > 0)) else {
            return Err(invalid());
        };
        let outside = |place: &[u64]| {
            let counts = &grid.counts;
            source.invalid(format!("chunk {place:?} is outside the chunk grid of shape {counts:?}"))
        };
        let number = |place| grid.number(place).ok_or_else(|| outside(place));
        let only = only.map(number).transpose()?;
        let (end, records) = (source.end(), Vec::new());
        let losses = source.losses().cloned();
        Ok(Records { grid, chunk_bytes, only, unsorted: false, end, losses, records, ascending: true })
    }

    /// Adds a chunk, unless only another one is wanted. `at` is the address of its index entry, for
    /// error messages.
    #[inline]
    pub fn add(&mut self, at: u64, number: u64, address: u64, size: u64, skipped: u32) -> Parsed<()> {
        if self.only.is_some_and(|only| only != number) {
            return Ok(());
        }
        if size == 0 || address.checked_add(size).is_none_or(|end| end > self.end) {
            let end = self.end;
            let why = format!(
                "expected chunk {number} to have bytes and to end in the file of {end} bytes, found {size} \
                 bytes at address {address}"
            );
            let Some(losses) = &self.losses else { return Err(ParseError::Corrupt { at, why }) };
            losses.chunk(number, &self.grid.counts, address, format!("{size} bytes are not inside the file"));
            return Ok(());
        }
        self.ascending &= self.records.last().is_none_or(|last| last.number < number);
        self.records.push(ChunkRecord { number, address, size, skipped });
        Ok(())
    }

    /// The numbers of all chunks, for [`Records::take_between`].
    pub fn numbers(&self) -> BTreeSet<u64> {
        self.records.iter().map(|record| record.number).collect()
    }

    /// Takes over the chunks of another table. Does nothing if that table is empty, or if this one has
    /// chunks between its first and its last chunk. Returns `true` if it took them.
    ///
    /// `taken`: the numbers of this table's chunks. A search in them is short: a forged index may have as
    /// many tables as chunks.
    pub fn take_between(&mut self, other: Records, taken: &mut BTreeSet<u64>) -> bool {
        let numbers = || other.records.iter().map(|record| record.number);
        let Some((first, last)) = numbers().min().zip(numbers().max()) else { return false };
        if taken.range(first..=last).next().is_some() {
            return false;
        }
        taken.extend(numbers());
        self.records.extend(other.records);
        self.ascending = false;
        true
    }

    /// Returns the index. Fails if a chunk is stored twice.
    pub fn finish(self, source: &Source) -> Result<ChunkIndex> {
        let Records { grid, mut records, ascending, losses, .. } = self;
        if !ascending {
            // This sort merges runs that are already sorted.
            records.sort_by_key(|record| record.number);
            if let Some(losses) = &losses {
                records = without_ambiguous(records, &grid.counts, losses);
            }
            let mut pairs = records.iter().zip(records.iter().skip(1));
            if let Some((first, second)) = pairs.find(|(a, b)| a.number == b.number) {
                let (number, one, other) = (first.number, first.address, second.address);
                let why = format!("chunk {number} is stored twice, at addresses {one} and {other}");
                return Err(source.invalid(why));
            }
        }
        records.shrink_to_fit();
        Ok(ChunkIndex { counts: grid.counts, records })
    }
}
