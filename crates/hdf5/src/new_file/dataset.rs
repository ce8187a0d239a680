//! Datasets of a new file: the messages of their headers.

use super::value::{self, Places, ValuePart};
use crate::Libver;
use crate::data_layout::{self, ChunkIndexKind, ChunkedLayout};
use crate::dataspace::{self, Dataspace};
use crate::datatype::{self, Datatype};
use crate::error::{BuildError, Built};
use crate::filter::{self, Filter};
use crate::index::{self, ChunkRecord};
use crate::messages::fill_value::{self, Allocation, FillValue};
use crate::object_header::NewMessage;
use crate::output::Output;

/// A dataset.
#[derive(Clone, Debug)]
pub struct NewDataset {
    /// The stored type of the elements.
    pub datatype: Datatype,
    /// The shape.
    pub dataspace: Dataspace,
    /// The stored value of elements that were never written. `None`: zero.
    pub fill: Option<Vec<ValuePart>>,
    /// `true` if the fill value is never written, so that these elements are zero.
    pub unfilled: bool,
    /// The filters of chunks, in the order in which they were applied.
    pub filters: Vec<Filter>,
    /// The elements.
    pub storage: NewStorage,
}

/// The place of the elements of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewStorage {
    /// In the header.
    Compact(Vec<u8>),
    /// A run of bytes at an address. `None`: none was written.
    Contiguous(Option<u64>),
    /// Chunks.
    Chunked {
        /// Elements of a chunk per axis.
        chunk: Vec<u64>,
        /// The stored chunks, sorted by number.
        chunks: Vec<ChunkRecord>,
    },
    /// Parts of other datasets: the place of their list
    /// ([`build_mappings`](crate::build_mappings)) in the global heap.
    Virtual {
        /// Address of the heap collection.
        collection: u64,
        /// Index of the object in the collection.
        index: u32,
    },
}

/// The place of the index of a dataset's chunks.
#[derive(Clone, Debug)]
pub(crate) struct NewIndex {
    pub kind: ChunkIndexKind,
    pub address: Option<u64>,
    /// Its bytes, which begin at the given address.
    pub bytes: Vec<u8>,
}

impl NewDataset {
    /// Builds the index of the chunks at `at`. `None`: the dataset has no chunks.
    pub(crate) fn index(&self, at: u64, libver: Libver) -> Built<Option<NewIndex>> {
        let NewStorage::Chunked { chunk, chunks } = &self.storage else { return Ok(None) };
        let shape = self.dataspace.shape();
        if shape.is_empty() || chunk.len() != shape.len() || chunk.contains(&0) {
            return Err(BuildError(format!("chunks of shape {chunk:?} for elements of shape {shape:?}")));
        }
        let counts: Vec<u64> = shape.iter().zip(chunk).map(|(n, len)| n.div_ceil(*len)).collect();
        let kind = self.index_kind(chunk, chunks, libver);
        if chunks.is_empty() {
            return Ok(Some(NewIndex { kind, address: None, bytes: Vec::new() }));
        }
        let filtered = (!self.filters.is_empty()).then(|| {
            let bytes = chunk.iter().fold(u64::from(self.datatype.size), |bytes, n| bytes.saturating_mul(*n));
            index::size_width(bytes)
        });
        let (address, bytes) = match (&kind, &chunks[..]) {
            (ChunkIndexKind::Single { .. }, [only, ..]) => (only.address, Vec::new()),
            (ChunkIndexKind::FixedArray { .. }, _) => {
                let elements = self.slots(chunk, &counts, chunks, filtered);
                (at, index::build_fixed_array(at, filtered.is_some(), &elements)?)
            }
            (ChunkIndexKind::BTree2 { .. }, _) => (at, index::build_version2(at, filtered, &counts, chunks)?),
            _ => {
                let tree = index::build_version1(at, chunk, &counts, chunks, None)?;
                (tree.root, tree.bytes)
            }
        };
        Ok(Some(NewIndex { kind, address: Some(address), bytes }))
    }

    /// The kind of index. A fixed array has a slot for each chunk that there could be, so it is for
    /// datasets that have most of them.
    fn index_kind(&self, chunk: &[u64], chunks: &[ChunkRecord], libver: Libver) -> ChunkIndexKind {
        let Dataspace::Simple { shape, max_shape } = &self.dataspace else { return ChunkIndexKind::BTree1 };
        if libver == Libver::Earliest {
            return ChunkIndexKind::BTree1;
        }
        if shape == chunk && max_shape.iter().zip(chunk).all(|(most, len)| *most == Some(*len)) {
            let only = chunks.first().filter(|_| !self.filters.is_empty());
            return ChunkIndexKind::Single { filtered: only.map(|only| (only.size, only.skipped)) };
        }
        match array_slots(max_shape, chunk, chunks.len()) {
            Some(_) => ChunkIndexKind::FixedArray { page_bits: index::PAGE_BITS },
            None => ChunkIndexKind::BTree2 { node_size: index::BTREE2_NODE, split: 100, merge: 40 },
        }
    }

    /// The elements of a fixed array: a slot for each chunk of the maximum shape, in C order.
    fn slots(
        &self,
        chunk: &[u64],
        counts: &[u64],
        chunks: &[ChunkRecord],
        filtered: Option<usize>,
    ) -> Vec<Vec<u8>> {
        let element = |address: Option<u64>, size: u64, skipped: u32| {
            let mut out = Output::new();
            out.address(address);
            if let Some(width) = filtered {
                out.uint(size, width).u32(skipped);
            }
            out.take()
        };
        let limits: Vec<u64> = match &self.dataspace {
            Dataspace::Simple { max_shape, .. } => {
                max_shape.iter().zip(chunk).map(|(most, len)| most.unwrap_or(0).div_ceil(*len)).collect()
            }
            _ => Vec::new(),
        };
        let total = limits.iter().fold(1, |total: u64, count| total.saturating_mul(*count));
        let mut slots = vec![element(None, 0, 0); usize::try_from(total).unwrap_or(0)];
        for record in chunks {
            let place = index::place(record.number, counts);
            let slot = place.iter().zip(&limits).fold(0, |slot: u64, (at, count)| slot * count + at);
            if let Some(slot) = usize::try_from(slot).ok().and_then(|slot| slots.get_mut(slot)) {
                *slot = element(Some(record.address), record.size, record.skipped);
            }
        }
        slots
    }

    /// The bytes of the fill value. Values of variable length get their places.
    pub(crate) fn fill(&self, places: &mut dyn Places) -> Built<Option<Vec<u8>>> {
        self.fill.as_ref().map(|parts| value::bytes(parts, places)).transpose()
    }

    /// The index before it has a place: its kind decides the length of a message.
    pub(crate) fn unplaced_index(&self, libver: Libver) -> Option<NewIndex> {
        let NewStorage::Chunked { chunk, chunks } = &self.storage else { return None };
        Some(NewIndex { kind: self.index_kind(chunk, chunks, libver), address: None, bytes: Vec::new() })
    }

    /// Builds the messages of the header. `index` is the place of the chunk index.
    pub(crate) fn messages(
        &self,
        index: Option<&NewIndex>,
        fill: Option<Vec<u8>>,
        libver: Libver,
    ) -> Built<Vec<NewMessage>> {
        let message = |kind, constant, data| NewMessage { kind, constant, data };
        let fill = FillValue { never: self.unfilled, value: fill };
        let (layout, allocation) = match &self.storage {
            NewStorage::Compact(data) => (data_layout::build_compact(data)?, Allocation::Early),
            NewStorage::Contiguous(address) => {
                let size =
                    self.dataspace.count().and_then(|count| count.checked_mul(self.datatype.size.into()));
                let too_large = || BuildError("its elements have more than 2⁶⁴ bytes".into());
                (data_layout::build_contiguous(*address, size.ok_or_else(too_large)?), Allocation::Late)
            }
            NewStorage::Virtual { collection, index } => {
                (data_layout::build_virtual(*collection, *index), Allocation::Late)
            }
            NewStorage::Chunked { chunk, .. } => {
                let layout = ChunkedLayout {
                    chunk: chunk.clone(),
                    element_size: self.datatype.size.into(),
                    index: index.map_or(ChunkIndexKind::BTree1, |index| index.kind.clone()),
                    address: index.and_then(|index| index.address),
                    edges_unfiltered: false,
                };
                (layout.build()?, Allocation::Incremental)
            }
        };
        let mut messages = vec![
            message(dataspace::KIND, false, self.dataspace.build(libver)?),
            message(datatype::KIND, true, self.datatype.build(libver)?),
            message(fill_value::KIND, true, fill.build(allocation, libver)?),
            message(data_layout::KIND, false, layout),
        ];
        if !self.filters.is_empty() {
            messages.push(message(filter::KIND, true, filter::build(&self.filters, libver)?));
        }
        Ok(messages)
    }
}

/// The elements of a fixed array of chunks: one for each chunk of the maximum shape. `None`: an array is
/// not possible, or `count` stored chunks are too few for it.
pub(crate) fn array_slots(max_shape: &[Option<u64>], chunk: &[u64], count: usize) -> Option<u64> {
    let mut axes = max_shape.iter().zip(chunk);
    let slots =
        axes.try_fold(1_u64, |slots, (most, len)| slots.checked_mul(most.as_ref()?.div_ceil((*len).max(1))))?;
    let enough = (count as u64).saturating_mul(4).saturating_add(1024);
    (slots <= enough).then_some(slots)
}
