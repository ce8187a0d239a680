//! Finds the chunks of a file.

use crate::hdf5_array::place;
use crate::{Array, Dims, Error, Result};
use hyperslab_array::ArrayError;
use hyperslab_codec::room;
use hyperslab_hdf5::data_layout::DataLayout;
use hyperslab_hdf5::{Bytes, Dataset};
use hyperslab_store::{Key, RangeRead};

/// A stored chunk: its place in the grid, offset in the file, bytes, and a mask of skipped filters.
pub(super) type StoredChunk = (Dims, u64, u64, u32);

/// The stored chunks of an array, if they are ranges of its file; `None`: they are elsewhere.
pub(super) fn stored_chunks(array: &Array) -> Result<Option<Vec<StoredChunk>>> {
    if let Some(variable) = array.as_netcdf3() {
        let places = variable.chunk_places()?.into_iter();
        return Ok(Some(places.map(|(place, offset, len)| (place.into(), offset, len, 0)).collect()));
    }
    match array.as_hdf5() {
        Some(dataset) => stored_in_dataset(dataset),
        None => Err(not_a_file()),
    }
}

/// The largest chunk in bytes to read through the pages that the HDF5 reader keeps.
/// A small chunk often shares a page with metadata, which saves a request.
const IN_PAGES: u64 = 1 << 20;

/// Reads bytes of the file.
pub(super) fn read(array: &Array, offset: u64, len: u64) -> Result<Bytes> {
    if let Some(dataset) = array.as_hdf5()
        && len <= IN_PAGES
    {
        let source = dataset.file().source();
        return Ok(source.read("a chunk", offset.saturating_sub(source.base()), len)?);
    }
    let file = array.file().ok_or_else(not_a_file)?;
    let bytes = usize::try_from(len).ok().and_then(room::zeros::<u8>);
    let mut bytes = bytes.ok_or_else(|| no_memory(array, len))?;
    file.store().read_ranges(Key::new(file.key())?, None, &mut [RangeRead { offset, buf: &mut bytes }])?;
    Ok(bytes.into())
}

pub(super) fn no_memory(array: &Array, bytes: u64) -> Error {
    let what = "chunks that are written into references (a smaller --inline keeps them in the file)";
    ArrayError::Memory { array: array.layout().name().into(), what, bytes }.into()
}

pub(super) fn not_a_file() -> Error {
    Error::Options("only files of HDF5 and NetCDF have an index of chunks".into())
}

fn stored_in_dataset(dataset: &Dataset) -> Result<Option<Vec<StoredChunk>>> {
    let base = dataset.file().source().base();
    let offset = |address: u64| address.saturating_add(base);
    if let Some(index) = dataset.chunk_index()? {
        let chunks = index.records.iter().map(|record| {
            (place(&index, record.number), offset(record.address), record.size, record.skipped)
        });
        return Ok(Some(chunks.collect()));
    }
    if !dataset.external_files().is_empty() {
        return Ok(None);
    }
    let rank = dataset.dataspace().shape().len();
    let whole = |address, len| Ok(Some(vec![(Dims::from_elem(0, rank), offset(address), len, 0)]));
    let elements = hyperslab_array::element_count(dataset.dataspace().shape());
    let bytes = elements.and_then(|n| n.checked_mul(dataset.datatype().size.into())).unwrap_or(u64::MAX);
    match dataset.data_layout() {
        _ if bytes == 0 => Ok(Some(Vec::new())),
        DataLayout::Compact { address, .. } => whole(*address, bytes),
        DataLayout::Contiguous { address: Some(address), .. } => whole(*address, bytes),
        DataLayout::Contiguous { address: None, .. } => Ok(Some(Vec::new())),
        _ => Ok(None),
    }
}
