//! Datasets of a new file: the messages of their headers.

use crate::Libver;
use crate::data_layout::{self, ChunkIndexKind, ChunkedLayout};
use crate::dataspace::{self, Dataspace};
use crate::datatype::{self, Datatype};
use crate::error::{BuildError, Built};
use crate::filter::{self, Filter};
use crate::index::{self, ChunkRecord};
use crate::messages::fill_value::{self, Allocation, FillValue};
use crate::object_header::NewMessage;

/// A dataset.
#[derive(Clone, Debug)]
pub struct NewDataset {
    /// The stored type of the elements.
    pub datatype: Datatype,
    /// The shape.
    pub dataspace: Dataspace,
    /// The stored value of elements that were never written. `None`: zero.
    pub fill: Option<Vec<u8>>,
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
}

/// The place of the index of a dataset's chunks.
#[derive(Clone, Debug)]
pub(super) struct NewIndex {
    pub kind: ChunkIndexKind,
    pub address: Option<u64>,
    /// Its bytes, which begin at the given address.
    pub bytes: Vec<u8>,
}

impl NewDataset {
    /// Builds the index of the chunks at `at`. `None`: the dataset has no chunks.
    pub(super) fn index(&self, at: u64) -> Built<Option<NewIndex>> {
        let NewStorage::Chunked { chunk, chunks } = &self.storage else { return Ok(None) };
        let shape = self.dataspace.shape();
        if shape.is_empty() || chunk.len() != shape.len() || chunk.contains(&0) {
            return Err(BuildError(format!("chunks of shape {chunk:?} for elements of shape {shape:?}")));
        }
        let counts: Vec<u64> = shape.iter().zip(chunk).map(|(n, len)| n.div_ceil(*len)).collect();
        let kind = ChunkIndexKind::BTree1;
        if chunks.is_empty() {
            return Ok(Some(NewIndex { kind, address: None, bytes: Vec::new() }));
        }
        let tree = index::build_version1(at, chunk, &counts, chunks)?;
        Ok(Some(NewIndex { kind, address: Some(tree.root), bytes: tree.bytes }))
    }

    /// Builds the messages of the header. `index` is the place of the chunk index.
    pub(super) fn messages(&self, index: Option<&NewIndex>, libver: Libver) -> Built<Vec<NewMessage>> {
        let message = |kind, constant, data| NewMessage { kind, constant, data };
        let fill = FillValue { never: self.unfilled, value: self.fill.clone() };
        let (layout, allocation) = match &self.storage {
            NewStorage::Compact(data) => (data_layout::build_compact(data)?, Allocation::Early),
            NewStorage::Contiguous(address) => {
                let size =
                    self.dataspace.count().and_then(|count| count.checked_mul(self.datatype.size.into()));
                let too_large = || BuildError("its elements have more than 2⁶⁴ bytes".into());
                (data_layout::build_contiguous(*address, size.ok_or_else(too_large)?), Allocation::Late)
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
