//! Chunk indexes: the places of a dataset's chunks (specification VII).
//!
//! Every kind of index becomes one flat sorted table in memory. If only few of many chunks are
//! wanted, each is looked up alone, without the rest of the index.

mod btrees;
mod elements;
mod extensible_array;
mod fixed_array;
mod locate;
pub(crate) mod paths;
mod records;
#[cfg(test)]
mod testing;

pub(crate) use btrees::{NODE as BTREE2_NODE, build_version1, build_version2, version1_places};
pub(crate) use extensible_array::build as build_extensible_array;
pub(crate) use fixed_array::{PAGE_BITS, build as build_fixed_array};
pub use locate::Chunks;

use crate::data_layout::{ChunkIndexKind, ChunkedLayout};
use crate::{Result, Source};
use elements::Slots;
use records::Records;

/// A stored chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRecord {
    /// Number of the chunk, in C order of the current extent.
    pub number: u64,
    /// Address of its first byte.
    pub address: u64,
    /// Stored bytes.
    pub size: u64,
    /// Skipped filters: bit `i` stands for filter `i` of the pipeline.
    pub skipped: u32,
}

/// All stored chunks of a dataset, sorted by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkIndex {
    /// Chunks per axis in the current extent.
    pub counts: Vec<u64>,
    /// The stored chunks.
    pub records: Vec<ChunkRecord>,
}

/// Everything needed to read an index.
#[derive(Clone, Debug)]
pub struct IndexRequest<'a> {
    /// The file.
    pub source: &'a Source,
    /// The layout message.
    pub layout: &'a ChunkedLayout,
    /// Elements per axis.
    pub shape: &'a [u64],
    /// Largest number of elements per axis.
    pub max_shape: &'a [Option<u64>],
    /// `true` if chunks have filters.
    pub filtered: bool,
}

/// The result of looking up one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The chunk is stored.
    Stored(ChunkRecord),
    /// The chunk is not stored.
    Absent,
    /// The index is not sorted. Only the whole index tells whether the chunk is stored.
    Unsorted,
}

impl ChunkIndex {
    /// Reads the whole index. Skips chunks beyond the shape: a dataset may keep them when it
    /// shrinks.
    pub fn read(request: &IndexRequest<'_>) -> Result<ChunkIndex> {
        let mut records = Records::new(request, None)?;
        fill(request, &mut records)?;
        records.finish(request.source)
    }

    /// Looks up the chunk at a place in the grid. Reads only the parts of the index that lead to
    /// it.
    pub fn find(request: &IndexRequest<'_>, place: &[u64]) -> Result<Lookup> {
        let mut records = Records::new(request, Some(place))?;
        fill(request, &mut records)?;
        if records.unsorted {
            return Ok(Lookup::Unsorted);
        }
        let found = records.finish(request.source)?.records.first().copied();
        Ok(found.map_or(Lookup::Absent, Lookup::Stored))
    }

    /// Returns the record of a chunk. `None`: the chunk is not stored.
    pub fn get(&self, number: u64) -> Option<&ChunkRecord> {
        // If every chunk is stored, a chunk's number is its position.
        let at = usize::try_from(number).ok()?;
        match self.records.get(at) {
            Some(record) if record.number == number => Some(record),
            _ => {
                let at = self.records.binary_search_by_key(&number, |record| record.number).ok()?;
                self.records.get(at)
            }
        }
    }
}

/// Adds the wanted chunks.
fn fill(request: &IndexRequest<'_>, records: &mut Records) -> Result<()> {
    let Some(address) = request.layout.address else { return Ok(()) };
    match &request.layout.index {
        ChunkIndexKind::BTree1 => btrees::version1(request, address, records),
        ChunkIndexKind::BTree2 { .. } => btrees::version2(request, address, records),
        ChunkIndexKind::Single { filtered } => add_single_chunk(request, address, *filtered, records),
        ChunkIndexKind::Implicit => add_implicit_chunks(request, address, records),
        ChunkIndexKind::FixedArray { .. } => fixed_array::read(request, address, records),
        ChunkIndexKind::ExtensibleArray { .. } => extensible_array::read(request, address, records),
    }
}

/// The place of the chunk with this number in a grid of `counts` chunks per axis, in C order.
pub fn place(number: u64, counts: &[u64]) -> Vec<u64> {
    let mut rest = number;
    let mut place = vec![0; counts.len()];
    for (at, count) in place.iter_mut().zip(counts).rev() {
        *at = rest.checked_rem(*count).unwrap_or(0);
        rest = rest.checked_div(*count).unwrap_or(0);
    }
    place
}

/// Bytes of the size of a filtered chunk in an index, for chunks of `bytes` bytes. The HDF5 library
/// leaves room for filters that make chunks larger.
pub(crate) fn size_width(bytes: u64) -> usize {
    let bits = bytes.checked_ilog2().unwrap_or(0);
    usize::try_from(1 + (bits + 8) / 8).unwrap_or(8).min(8)
}

/// Adds the only chunk.
fn add_single_chunk(
    request: &IndexRequest<'_>,
    address: u64,
    filtered: Option<(u64, u32)>,
    records: &mut Records,
) -> Result<()> {
    let source = request.source;
    let (size, skipped) = match filtered {
        Some(filtered) => filtered,
        None if request.filtered => {
            return Err(
                source.invalid("its data layout does not store the size of its single filtered chunk")
            );
        }
        None => (records.chunk_bytes, 0),
    };
    match records.grid.total {
        0 => Ok(()),
        1 => {
            let added = records.add(address, 0, address, size, skipped);
            added.map_err(|why| source.structure_error("single chunk", address, why))
        }
        total => Err(source
            .invalid(format!("expected a shape of 1 chunk for a single chunk index, found {total} chunks"))),
    }
}

/// Adds all chunks, which are stored one after the other.
fn add_implicit_chunks(request: &IndexRequest<'_>, address: u64, records: &mut Records) -> Result<()> {
    let source = request.source;
    if request.filtered {
        return Err(
            source.invalid("an implicit chunk index needs chunks of equal size, but the dataset has filters")
        );
    }
    let slots = Slots::new(request, &records.grid, None)?;
    let len = slots.total.and_then(|slots| slots.checked_mul(records.chunk_bytes));
    if len.and_then(|len| len.checked_add(address)).is_none_or(|end| end > source.end()) {
        let end = source.end();
        return Err(source.invalid(format!(
            "its chunks from address {address} on end after the end of the file, which has {end} bytes"
        )));
    }
    let all = 0..slots.total.unwrap_or_default();
    let wanted = records.only.map(|number| slots.slot(number));
    for slot in wanted.map_or(all, |slot| slot..slot.saturating_add(1)) {
        if slot & 0xffff == 0 {
            source.go_on()?;
        }
        if let Some(number) = slots.number(slot) {
            let at = address.saturating_add(slot.saturating_mul(records.chunk_bytes));
            let added = records.add(at, number, at, records.chunk_bytes, 0);
            added.map_err(|why| source.structure_error("chunk", at, why))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::testing::Dataset;
    use super::*;
    use crate::testing::{fails, mutations, source};

    #[test]
    fn one_chunk() {
        let source = source(&[0; 100]);
        let single = |filtered| ChunkIndexKind::Single { filtered };
        let mut dataset = Dataset::new(single(None), &[2, 1], &[Some(2), Some(1)], false);
        dataset.layout.address = Some(80);
        let record = ChunkRecord { number: 0, address: 80, size: 16, skipped: 0 };
        let index = dataset.read(&source).unwrap();
        assert_eq!((index.counts, index.records), (vec![1, 1], vec![record]));
        assert_eq!(dataset.find(&source, &[0, 0]).unwrap(), Lookup::Stored(record));
        fails(dataset.find(&source, &[1, 0]), "outside the chunk grid of shape [1, 1]");
        dataset.layout.index = single(Some((7, 2)));
        assert_eq!(dataset.read(&source).unwrap().records, [ChunkRecord { size: 7, skipped: 2, ..record }]);
        for (size, why) in
            [(0, "found 0 bytes"), (21, "in the file of 100 bytes, found 21 bytes at address 80")]
        {
            dataset.layout.index = single(Some((size, 0)));
            fails(dataset.read(&source), why);
        }
        dataset.shape = vec![3, 1];
        fails(dataset.read(&source), "found 2 chunks");
        dataset.shape = vec![0, 1];
        assert!(dataset.read(&source).unwrap().records.is_empty());
        dataset.layout.address = None;
        assert!(dataset.read(&source).unwrap().records.is_empty());
    }

    #[test]
    fn chunks_in_a_row() {
        let mut dataset = Dataset::new(ChunkIndexKind::Implicit, &[3, 5], &[Some(3), Some(9)], false);
        dataset.layout.address = Some(8);
        let index = dataset.read(&source(&[0; 168])).unwrap();
        let found: Vec<_> = index.records.iter().map(|record| (record.number, record.address)).collect();
        assert_eq!(found, [(0, 8), (1, 24), (2, 40), (3, 88), (4, 104), (5, 120)]);
        assert!(index.records.iter().all(|record| record.size == 16 && record.skipped == 0));
        assert_eq!(dataset.find_each(&source(&[0; 168])), index.records);
        fails(dataset.read(&source(&[0; 167])), "the end of the file, which has 167 bytes");
        dataset.max_shape[0] = Some(u64::MAX);
        assert!(dataset.read(&source(&[0; 168])).is_err());
        dataset.max_shape[0] = None;
        assert!(dataset.read(&source(&[0; 168])).is_err());
        mutations(&[0; 168], |source| drop(dataset.read(source)));
    }

    #[test]
    fn shapes_that_cannot_be() {
        let refused = |change: &dyn Fn(&mut Dataset)| {
            let mut dataset = Dataset::new(ChunkIndexKind::BTree1, &[4, 4], &[None, None], false);
            change(&mut dataset);
            dataset.read(&source(&[0; 8])).unwrap_err().to_string()
        };
        for error in [
            refused(&|dataset| dataset.layout.chunk[0] = 0),
            refused(&|dataset| dataset.layout.chunk.truncate(1)),
            refused(&|dataset| dataset.max_shape.truncate(1)),
            refused(&|dataset| dataset.layout.element_size = 0),
            refused(&|dataset| dataset.layout.chunk = vec![u64::MAX; 2]),
            refused(&|dataset| dataset.shape = vec![u64::MAX; 2]),
        ] {
            assert!(error.contains("does not fit dataset shape"), "{error}");
        }
    }

    #[test]
    fn lookup() {
        let record = |number| ChunkRecord { number, address: 100 + number, size: 1, skipped: 0 };
        let dense = ChunkIndex { counts: vec![9], records: (0..9).map(record).collect() };
        let sparse = ChunkIndex { counts: vec![9], records: [1, 2, 5, 8].map(record).into() };
        for number in 0..10 {
            let expected = (number < 9).then(|| record(number));
            assert_eq!(dense.get(number).copied(), expected);
            let expected = expected.filter(|record| [1, 2, 5, 8].contains(&record.number));
            assert_eq!(sparse.get(number).copied(), expected);
        }
    }
}
