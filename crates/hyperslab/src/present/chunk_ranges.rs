//! The ranges of a file that hold chunks.

use crate::{Array, Dims, Error, Key, Result, netcdf};
use hyperslab_array::element_count;
use hyperslab_hdf5::Dataset;
use hyperslab_hdf5::data_layout::DataLayout;
use hyperslab_hdf5::index::{ChunkIndex, ChunkRecord, place};
use hyperslab_store::{Operation, RangeRead, StoreError};
use std::io::ErrorKind;
use std::sync::Arc;

/// A range of a file that holds a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRange {
    /// Bytes from the start of the file.
    pub offset: u64,
    /// Stored bytes.
    pub len: u64,
    /// Skipped filters: bit `i` stands for filter `i`.
    pub skipped: u32,
}

impl FileRange {
    fn new(offset: u64, len: u64) -> FileRange {
        FileRange { offset, len, skipped: 0 }
    }

    fn of_record(record: &ChunkRecord, base: u64) -> FileRange {
        let offset = record.address.saturating_add(base);
        FileRange { offset, len: record.size, skipped: record.skipped }
    }
}

/// The chunks of an array that are ranges of its file.
#[derive(Clone, Debug)]
pub(crate) enum ChunkRanges {
    /// Chunks of HDF5. `base`: the offset of address 0.
    Indexed { index: Arc<ChunkIndex>, base: u64 },
    /// Records of NetCDF-3.
    Records(netcdf::Variable),
    /// All elements in one range. `None`: nothing is stored.
    Whole(Option<FileRange>),
}

impl ChunkRanges {
    /// Finds the chunks of an array. `None`: its elements are elsewhere, in other files or datasets.
    pub(crate) fn of(array: &Array) -> Result<Option<ChunkRanges>> {
        if let Some(variable) = array.as_netcdf3() {
            if variable.chunk_shape().is_some() {
                return Ok(Some(ChunkRanges::Records(variable.clone())));
            }
            let all = variable.chunk_places()?;
            return Ok(Some(ChunkRanges::Whole(
                all.first().map(|(_, offset, len)| FileRange::new(*offset, *len)),
            )));
        }
        match array.as_hdf5() {
            Some(dataset) => ChunkRanges::in_dataset(dataset),
            None => Err(not_a_file()),
        }
    }

    fn in_dataset(dataset: &Dataset) -> Result<Option<ChunkRanges>> {
        let base = dataset.file().source().base();
        if let Some(index) = dataset.chunk_index()? {
            return Ok(Some(ChunkRanges::Indexed { index, base }));
        }
        if !dataset.external_files().is_empty() {
            return Ok(None);
        }
        let elements = element_count(dataset.dataspace().shape());
        let bytes = elements.and_then(|n| n.checked_mul(dataset.datatype().size.into())).unwrap_or(u64::MAX);
        Ok(match dataset.data_layout() {
            _ if bytes == 0 => Some(ChunkRanges::Whole(None)),
            DataLayout::Compact { address, .. } | DataLayout::Contiguous { address: Some(address), .. } => {
                Some(ChunkRanges::Whole(Some(FileRange::new(address.saturating_add(base), bytes))))
            }
            DataLayout::Contiguous { address: None, .. } => Some(ChunkRanges::Whole(None)),
            _ => None,
        })
    }

    /// The range of a chunk, given its number in C order. `None`: it is not stored.
    pub(crate) fn get(&self, number: u64) -> Result<Option<FileRange>> {
        Ok(match self {
            ChunkRanges::Indexed { index, base } => {
                index.get(number).map(|record| FileRange::of_record(record, *base))
            }
            ChunkRanges::Records(variable) => {
                let (offset, len) = variable.record_place(number)?;
                Some(FileRange::new(offset, len))
            }
            ChunkRanges::Whole(range) => range.filter(|_| number == 0),
        })
    }
}

/// The stored chunks of an array: the place of each in the grid, and its range. `None`: the chunks
/// are no ranges of the file.
pub(crate) fn stored_chunks(array: &Array) -> Result<Option<Vec<(Dims, FileRange)>>> {
    let Some(ranges) = ChunkRanges::of(array)? else { return Ok(None) };
    Ok(Some(match ranges {
        ChunkRanges::Indexed { index, base } => {
            let chunk = |record: &ChunkRecord| {
                (place(record.number, &index.counts).into(), FileRange::of_record(record, base))
            };
            index.records.iter().map(chunk).collect()
        }
        ChunkRanges::Records(variable) => {
            let chunks = variable.chunk_places()?.into_iter();
            chunks.map(|(at, offset, len)| (at.into(), FileRange::new(offset, len))).collect()
        }
        ChunkRanges::Whole(whole) => {
            whole.into_iter().map(|whole| (Dims::from_elem(0, array.shape().len()), whole)).collect()
        }
    }))
}

/// Fills buffers with bytes of an array's file.
pub(crate) fn read_ranges(array: &Array, ranges: &mut [RangeRead<'_>]) -> Result<()> {
    if let Some(dataset) = array.as_hdf5() {
        let source = dataset.file().source();
        let base = source.base();
        let parts = ranges.iter_mut().map(|range| (range.offset.saturating_sub(base), &mut *range.buf));
        return Ok(source.read_into("a chunk", parts)?);
    }
    let file = array.file().ok_or_else(not_a_file)?;
    let (store, key) = (&**file.store(), file.key());
    match store.read_ranges(Key::new(key)?, None, ranges)? {
        true => Ok(()),
        false => Err(StoreError::io(store, Operation::Read, key, ErrorKind::NotFound).into()),
    }
}

pub(crate) fn not_a_file() -> Error {
    Error::Options("only files of HDF5 and NetCDF have an index of chunks".into())
}
