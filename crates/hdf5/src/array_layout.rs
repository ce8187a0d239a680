//! A dataset as the engine sees it: its [`ArrayLayout`].
//!
//! The codecs of a chunk are the conversion of elements, where those in memory are others than those stored, and then the filters: filter `i` of
//! the file is codec `i`, or `i + 1` behind a conversion.

use crate::data_layout::DataLayout;
use crate::dataspace::Dataspace;
use crate::{Dataset, Hdf5Error};
use hyperslab_array::{
    ArrayLayout, ChunkEncoding, ChunkGrid, ChunkLocator, Dims, FillValue, LocateError, Location,
    element_count,
};
use hyperslab_codec::{Codec, DataType};
use hyperslab_store::{Segment, SegmentStore, Store};
use std::sync::Arc;

/// Finds the chunk of a dataset that is one.
#[derive(Debug)]
struct SingleChunk {
    key: String,
    location: Location,
}

impl ChunkLocator for SingleChunk {
    fn locate(&self, _chunk: &[u64], key: &mut String) -> Result<Location, LocateError> {
        key.push_str(&self.key);
        Ok(self.location)
    }
}

/// Makes the description of a dataset.
pub(crate) fn of(dataset: &Dataset) -> Result<Arc<ArrayLayout>, Hdf5Error> {
    let source = dataset.file().source();
    if *dataset.dataspace() == Dataspace::Null {
        return Err(source.invalid("it has no elements and no shape (a null dataspace)"));
    }
    let element = dataset.element();
    let dtype =
        element.engine_type().ok_or_else(|| source.invalid(format!("elements of {} bytes", element.size)))?;
    let layout = match dataset.data_layout() {
        DataLayout::Chunked(layout) => chunked(dataset, dtype, &layout.chunk),
        DataLayout::Compact { address, data } => {
            contiguous(dataset, dtype, Some(*address), Some(data.len() as u64))
        }
        DataLayout::Contiguous { .. } if !dataset.external_files().is_empty() => external(dataset, dtype),
        DataLayout::Contiguous { address, size } => contiguous(dataset, dtype, *address, *size),
        DataLayout::Virtual { .. } => Err(source.invalid("virtual")),
    };
    layout.map(Arc::new)
}

fn chunked(dataset: &Dataset, dtype: DataType, chunk: &[u64]) -> Result<ArrayLayout, Hdf5Error> {
    let source = dataset.file().source();
    let stored = u64::from(dataset.datatype().size);
    let bytes = element_count(chunk)
        .and_then(|count| count.checked_mul(stored))
        .and_then(|bytes| usize::try_from(bytes).ok());
    let bytes =
        bytes.ok_or_else(|| source.invalid(format!("chunks of shape {chunk:?} are larger than memory")))?;
    let codecs = conversion(dataset);
    if let Some(filter) = dataset.filters().first() {
        return Err(unsupported(dataset, format!("the filter {}", filter.id)));
    }
    let locator = dataset.chunks().ok_or_else(|| source.invalid("chunks in a dataset without axes"))?;
    assemble(dataset, dtype, chunk.into(), codecs, locator, source.store().clone())
}

/// One run of bytes of the file.
fn contiguous(
    dataset: &Dataset,
    dtype: DataType,
    address: Option<u64>,
    size: Option<u64>,
) -> Result<ArrayLayout, Hdf5Error> {
    let source = dataset.file().source();
    let needed = needed(dataset)?;
    let location = match address {
        None => Location::Absent,
        Some(_) if needed == 0 => Location::Absent,
        Some(address) => {
            if let Some(size) = size.filter(|size| *size < needed) {
                return Err(source.invalid(format!("its elements are {needed} bytes, {size} are stored")));
            }
            if address.checked_add(needed).is_none_or(|end| end > source.end()) {
                let end = source.end();
                return Err(source.invalid(format!(
                    "its {needed} bytes at address {address} end behind the file, at {end}"
                )));
            }
            Location::Range { offset: source.base().saturating_add(address), len: needed, skipped: 0 }
        }
    };
    single(dataset, dtype, source.key(), location, source.store().clone())
}

/// One run of bytes, in other files.
fn external(dataset: &Dataset, dtype: DataType) -> Result<ArrayLayout, Hdf5Error> {
    let file = dataset.file();
    let needed = needed(dataset)?;
    let (mut segments, mut total) = (Vec::new(), 0_u64);
    for (name, offset, len) in dataset.external_files() {
        let found = file.find_other(name)?.ok_or_else(|| Hdf5Error::NotFound {
            file: file.source().name(),
            path: dataset.path().into(),
            why: Some(format!("there is no external file '{name}'")),
        })?;
        let len = len.unwrap_or(u64::MAX).min(needed.saturating_sub(total));
        total = total.saturating_add(len);
        segments.push(Segment { store: found.0, key: found.1, offset: *offset, len });
    }
    if total < needed {
        let why = format!("its elements are {needed} bytes, its external files have {total}");
        return Err(file.source().invalid(why));
    }
    let key = "external";
    let store = Arc::new(SegmentStore::new(key, segments, true));
    let location = match needed {
        0 => Location::Absent,
        len => Location::Range { offset: 0, len, skipped: 0 },
    };
    single(dataset, dtype, key, location, store)
}

/// A dataset that is one chunk.
fn single(
    dataset: &Dataset,
    dtype: DataType,
    key: &str,
    location: Location,
    store: Arc<dyn Store>,
) -> Result<ArrayLayout, Hdf5Error> {
    let shape = dataset.dataspace().shape();
    // No chunk is without elements; of an array without any none is read.
    let chunk = if shape.contains(&0) { Dims::from_elem(1, shape.len()) } else { shape.into() };
    let locator = Arc::new(SingleChunk { key: key.into(), location });
    assemble(dataset, dtype, chunk, conversion(dataset), locator, store)
}

fn conversion(dataset: &Dataset) -> Vec<Arc<dyn Codec>> {
    dataset.element().conversion(dataset.datatype()).into_iter().collect()
}

fn assemble(
    dataset: &Dataset,
    dtype: DataType,
    chunk: Dims,
    codecs: Vec<Arc<dyn Codec>>,
    locator: Arc<dyn ChunkLocator>,
    store: Arc<dyn Store>,
) -> Result<ArrayLayout, Hdf5Error> {
    let invalid = |why| dataset.file().source().invalid(why);
    let encoding = ChunkEncoding::new(&chunk, dtype, dtype.order(), &[], codecs).map_err(invalid)?;
    let grid = ChunkGrid::regular(chunk).ok_or_else(|| invalid("chunks without elements".into()))?;
    let fill = dataset.absent_value().map_or(FillValue::zero(dtype.size()), FillValue::new);
    let shape = dataset.dataspace().shape().into();
    let name = format!("/{}", dataset.path());
    Ok(ArrayLayout::new(name, shape, dtype, grid, encoding, fill, locator, store)?)
}

/// Bytes of all elements.
fn needed(dataset: &Dataset) -> Result<u64, Hdf5Error> {
    let size = u64::from(dataset.datatype().size);
    let needed = dataset.dataspace().count().and_then(|count| count.checked_mul(size));
    needed.ok_or_else(|| {
        let shape = dataset.dataspace().shape();
        dataset.file().source().invalid(format!("the bytes of shape {shape:?} cannot be counted"))
    })
}

fn unsupported(dataset: &Dataset, what: String) -> Hdf5Error {
    Hdf5Error::Unsupported { file: dataset.file().source().name(), object: None, what }
}
