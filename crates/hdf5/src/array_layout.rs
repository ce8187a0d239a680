//! A dataset as the engine sees it: its [`ArrayLayout`].
//!
//! The codecs of a chunk are the filters of the file in order: filter `i` is codec `i`. If elements
//! in memory differ from stored elements, their conversion is codec 0 and filter `i` is codec
//! `i + 1`.

use crate::cursor::to_usize;
use crate::data_layout::DataLayout;
use crate::dataspace::Dataspace;
use crate::element::ElementKind;
use crate::{Dataset, FoundFile, Hdf5Error, Purpose, Result, virtual_dataset};
use hyperslab_array::{
    ArrayLayout, ChunkEncoding, ChunkGrid, ChunkList, ChunkLocator, Dims, FillValue, Found, LocateError,
    Location, element_count,
};
use hyperslab_codec::{Codec, CodecError, DataType};
use hyperslab_store::{Key, MemoryStore, Segment, SegmentStore, Store};
use std::sync::Arc;

/// Finds the only chunk of a dataset that is stored in one piece.
#[derive(Debug)]
pub(crate) struct SingleChunk {
    key: String,
    location: Location,
}

impl SingleChunk {
    /// A locator whose chunk is absent. Mosaics use it.
    pub fn absent() -> SingleChunk {
        SingleChunk { key: String::new(), location: Location::Absent }
    }
}

impl ChunkLocator for SingleChunk {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        found.object(|key| key.push_str(&self.key));
        wanted.iter().for_each(|_| found.chunk(self.location));
        Ok(())
    }
}

/// Bytes per chunk when contiguous elements that need conversion are cut into chunks.
const ROWS: u64 = 1 << 20;

/// Finds the chunks of a contiguous run of bytes.
#[derive(Debug)]
struct ContiguousChunks {
    /// Bytes from one chunk to the next, per axis.
    strides: Dims,
    len: u64,
}

impl ContiguousChunks {
    const KEY: &str = "rows";
}

impl ChunkLocator for ContiguousChunks {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        found.object(|key| key.push_str(Self::KEY));
        for chunk in wanted.iter() {
            let offset = chunk
                .iter()
                .zip(&self.strides)
                .fold(0_u64, |offset, (index, stride)| offset.saturating_add(index.saturating_mul(*stride)));
            found.chunk(Location::Range { offset, len: self.len, skipped: 0 });
        }
        Ok(())
    }

    fn shares_objects(&self) -> bool {
        true
    }
}

/// Builds the layout of a dataset.
pub(crate) fn of(dataset: &Dataset) -> Result<Arc<ArrayLayout>> {
    let source = dataset.file().source();
    if *dataset.dataspace() == Dataspace::Null {
        return Err(source.invalid("it has no elements and no shape (a null dataspace)"));
    }
    let element = dataset.element();
    if let ElementKind::Unsupported(what) = &element.kind {
        return Err(source.unsupported(what.clone()));
    }
    let dtype = element.engine_type().ok_or_else(|| {
        source.invalid(format!("its elements have {} bytes, more than are supported", element.size))
    })?;
    let layout = match dataset.data_layout() {
        DataLayout::Chunked(layout) => chunked(dataset, dtype, &layout.chunk),
        DataLayout::Compact { address, size } => {
            contiguous_layout(dataset, dtype, Some(*address), Some(*size))
        }
        DataLayout::Contiguous { .. } if !dataset.external_files().is_empty() => {
            external_layout(dataset, dtype)
        }
        DataLayout::Contiguous { address, size } => contiguous_layout(dataset, dtype, *address, *size),
        DataLayout::Virtual { collection, index } => {
            virtual_dataset::layout(dataset, dtype, (*collection, *index))
        }
    };
    layout.map(Arc::new)
}

fn chunked(dataset: &Dataset, dtype: DataType, chunk: &[u64]) -> Result<ArrayLayout> {
    let source = dataset.file().source();
    let stored = u64::from(dataset.datatype().size);
    let bytes = element_count(chunk)
        .and_then(|count| count.checked_mul(stored))
        .and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| {
        source.invalid(format!(
            "a chunk of shape {chunk:?} with elements of {stored} bytes is larger than the address space"
        ))
    })?;
    let mut codecs = conversion(dataset);
    for filter in dataset.filters() {
        let size = to_usize(stored);
        let codec = hyperslab_codec::hdf5::filter(filter.id, &filter.client_data, size, bytes);
        codecs.push(codec.map_err(|error| match error {
            CodecError::Unknown { name, .. } => source.unsupported(format!("the filter {name}")),
            error => source.invalid(format!("the filter {}: {error}", filter.id)),
        })?);
    }
    let locator = dataset
        .chunks()
        .ok_or_else(|| source.invalid("its data layout is chunked, but its dataspace has no axes"))?;
    assemble(dataset, dtype, chunk.into(), codecs, locator, source.store().clone())
}

fn contiguous_layout(
    dataset: &Dataset,
    dtype: DataType,
    address: Option<u64>,
    size: Option<u64>,
) -> Result<ArrayLayout> {
    let source = dataset.file().source();
    let needed = elements_len(dataset)?;
    let location = match address {
        None => Location::Absent,
        Some(_) if needed == 0 => Location::Absent,
        Some(address) => {
            if let Some(size) = size.filter(|size| *size < needed) {
                return Err(source.invalid(format!(
                    "expected {needed} bytes of elements, found {size} bytes in its data layout"
                )));
            }
            if address.checked_add(needed).is_none_or(|end| end > source.end()) {
                let end = source.end();
                return Err(source.invalid(format!(
                    "its {needed} bytes of elements at address {address} end after the end of the file, \
                     which has {end} bytes"
                )));
            }
            Location::Range { offset: source.base().saturating_add(address), len: needed, skipped: 0 }
        }
    };
    one_run_layout(dataset, dtype, source.key(), location, source.store().clone())
}

/// A dataset whose elements are one run of bytes in external files.
fn external_layout(dataset: &Dataset, dtype: DataType) -> Result<ArrayLayout> {
    let file = dataset.file();
    let needed = elements_len(dataset)?;
    let (mut segments, mut total) = (Vec::new(), 0_u64);
    for (name, offset, len) in dataset.external_files() {
        let found = file.options().find(file.source(), name, Purpose::RawData)?;
        // The first write to a new dataset makes its files. Until then only reads fail.
        let is_new = || file.inner.edits.is_some().then(|| missing(name));
        let found = found.or_else(is_new).ok_or_else(|| Hdf5Error::NotFound {
            file: file.source().name(),
            path: dataset.path().into(),
            why: Some(format!("its external file '{name}' does not exist")),
        })?;
        let len = len.unwrap_or(u64::MAX).min(needed.saturating_sub(total));
        total = total.saturating_add(len);
        segments.push(Segment { store: found.0, key: found.1, offset: *offset, len });
    }
    if total < needed {
        let why = format!("expected {needed} bytes of elements, found {total} bytes in its external files");
        return Err(file.source().invalid(why));
    }
    let key = "external";
    let store = Arc::new(SegmentStore::new(key, segments, true));
    let location = match needed {
        0 => Location::Absent,
        len => Location::Range { offset: 0, len, skipped: 0 },
    };
    one_run_layout(dataset, dtype, key, location, store)
}

/// A file that does not exist: reads of it fail, and name it.
fn missing(name: &str) -> FoundFile {
    let last = name.rsplit('/').next().unwrap_or(name);
    let key = if Key::new(last).is_ok() { last } else { "external file" };
    (Arc::new(MemoryStore::new()), key.to_owned())
}

/// A dataset whose elements are one run of bytes.
fn one_run_layout(
    dataset: &Dataset,
    dtype: DataType,
    key: &str,
    location: Location,
    store: Arc<dyn Store>,
) -> Result<ArrayLayout> {
    let shape = dataset.dataspace().shape();
    let codecs = conversion(dataset);
    match location {
        Location::Range { offset, len, .. } if !codecs.is_empty() && len > ROWS => {
            let (chunk, rows) = rows(shape, dataset.datatype().size.into());
            // The last chunk may reach past the end. The bytes read there are not used.
            let padded = Segment { store, key: key.into(), offset, len: len.saturating_add(rows.len) };
            let store = Arc::new(SegmentStore::new(ContiguousChunks::KEY, vec![padded], true));
            assemble(dataset, dtype, chunk, codecs, Arc::new(rows), store)
        }
        location => {
            // Chunks cannot be empty. The chunk of an empty array is never read.
            let chunk = if shape.contains(&0) { Dims::from_elem(1, shape.len()) } else { shape.into() };
            let locator = Arc::new(SingleChunk { key: key.into(), location });
            assemble(dataset, dtype, chunk, codecs, locator, store)
        }
    }
}

/// Cuts a run of bytes into chunks of about [`ROWS`] bytes. Cuts the slowest axes first.
fn rows(shape: &[u64], size: u64) -> (Dims, ContiguousChunks) {
    let mut chunk = Dims::from_elem(1, shape.len());
    let mut strides = Dims::from_elem(0, shape.len());
    let mut len = size.max(1);
    let mut stride = len;
    for ((chunk, step), n) in chunk.iter_mut().zip(strides.iter_mut()).zip(shape).rev() {
        *chunk = (ROWS / len).clamp(1, (*n).max(1));
        // Once an axis is cut, all axes before it are cut to single elements.
        len = if *chunk < *n { ROWS.max(len.saturating_mul(*chunk)) } else { len.saturating_mul(*chunk) };
        *step = stride.saturating_mul(*chunk);
        stride = stride.saturating_mul(*n);
    }
    let len = chunk.iter().fold(size, |len, n| len.saturating_mul(*n));
    (chunk, ContiguousChunks { strides, len })
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
) -> Result<ArrayLayout> {
    let invalid = |why| dataset.file().source().invalid(why);
    let encoding = ChunkEncoding::new(&chunk, dtype, dtype.order(), &[], codecs).map_err(invalid)?;
    // Some writers omit the part of a chunk beyond the array's end. The HDF5 library reads such
    // chunks.
    let encoding = encoding.that_may_end_early();
    let grid = ChunkGrid::regular(chunk)
        .ok_or_else(|| invalid("its chunk shape has an axis of 0 elements".into()))?;
    let fill = dataset.absent_value().map_or(FillValue::zero(dtype.size()), FillValue::new);
    let shape = dataset.dataspace().shape().into();
    let name = format!("/{}", dataset.path());
    Ok(ArrayLayout::new(name, shape, dtype, grid, encoding, fill, locator, store)?)
}

/// Bytes of all elements together.
fn elements_len(dataset: &Dataset) -> Result<u64> {
    let size = u64::from(dataset.datatype().size);
    let needed = dataset.dataspace().count().and_then(|count| count.checked_mul(size));
    needed.ok_or_else(|| {
        let shape = dataset.dataspace().shape();
        dataset.file().source().invalid(format!("the elements of shape {shape:?} have more than 2⁶⁴ bytes"))
    })
}

#[cfg(test)]
mod tests {
    use super::rows;
    use crate::testing::{
        Builder, attribute, contiguous_message, dataset, elements, fails, only_dataset, structure,
    };
    use crate::{Result, messages};

    /// Reads a dataset with these messages. `put` may first append to the file and change the
    /// layout.
    fn values(
        shape: &[u64],
        mut layout: Vec<u8>,
        more: &[(u16, Vec<u8>)],
        put: impl FnOnce(&mut Builder, &mut Vec<u8>),
    ) -> Result<Vec<u8>> {
        let mut builder = Builder::new();
        put(&mut builder, &mut layout);
        let dataset = only_dataset(builder, &[dataset(shape, layout), more.to_vec()].concat())?;
        Ok(elements(&*dataset.layout()?)?)
    }

    fn fill(time: u8) -> (u16, Vec<u8>) {
        (messages::fill_value::KIND, vec![3, 0x20 | time << 2, 2, 0, 0, 0, 9, 0])
    }

    #[test]
    fn one_run_of_bytes() {
        let bytes: Vec<u8> = (0..12).collect();
        let put = |builder: &mut Builder, layout: &mut Vec<u8>| {
            let address = builder.put(&bytes);
            layout[2..10].copy_from_slice(&address.to_le_bytes());
        };
        assert_eq!(values(&[2, 3], contiguous_message(0, 12), &[], put).unwrap(), bytes);
        assert_eq!(values(&[1, 2], contiguous_message(0, 12), &[], put).unwrap(), bytes[..4]);
        assert_eq!(values(&[], contiguous_message(0, 2), &[], put).unwrap(), bytes[..2]);
        assert_eq!(values(&[0, 7], contiguous_message(0, 0), &[], put).unwrap(), [0; 0]);
        fails(
            values(&[2, 3], contiguous_message(0, 11), &[], put),
            "expected 12 bytes of elements, found 11 bytes",
        );
        fails(values(&[1000], contiguous_message(0, 2000), &[], put), "end after the end of the file");
        assert!(values(&[u64::MAX / 2, 4], contiguous_message(0, u64::MAX), &[], put).is_err());
        assert!(values(&[u64::MAX / 2], contiguous_message(0, u64::MAX), &[], put).is_err());
        fails(
            values(&[2], vec![3, 0, 3, 0, 1, 2, 3], &[], |_, _| ()),
            "expected 4 bytes of elements, found 3 bytes",
        );
    }

    #[test]
    fn what_numpy_has_not_is_looked_at_but_not_read() {
        let time = vec![0x12, 0, 0, 0, 4, 0, 0, 0, 32, 0];
        let mut all = dataset(&[2], vec![3, 0, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        all[1] = (crate::datatype::KIND, time);
        all.push((messages::fill_value::KIND, vec![3, 0x20, 4, 0, 0, 0, 9, 0, 0, 0]));
        all.push(attribute());
        let dataset = only_dataset(Builder::new(), &all).unwrap();
        assert_eq!((dataset.dataspace().shape(), dataset.element().size), (&[2][..], 4));
        assert_eq!(dataset.element().to_json(), r#"{"unsupported":"the datatype class 'time'"}"#);
        assert_eq!(dataset.attributes().unwrap()[0].values().unwrap(), [5, 0]);
        assert_eq!(dataset.fill_value(), None);
        let message = dataset.layout().unwrap_err().to_string();
        assert!(message.ends_with(", '/d': the datatype class 'time' is not supported"), "{message}");
    }

    #[test]
    fn runs_are_cut_into_rows() {
        let cut = |shape: &[u64], size| {
            let (chunk, rows) = rows(shape, size);
            (chunk.to_vec(), rows.strides.to_vec(), rows.len)
        };
        const M: u64 = 1 << 20;
        assert_eq!(cut(&[3 * M], 4), (vec![M / 4], vec![M], M));
        assert_eq!(cut(&[5, 7, M], 2), (vec![1, 1, M / 2], vec![14 * M, 2 * M, M], M));
        assert_eq!(cut(&[100, 1000, 8], 4), (vec![32, 1000, 8], vec![32 * 32_000, 32_000, 32], 1_024_000));
        assert_eq!(
            cut(&[9, 1000, 1000], 3),
            (vec![1, 349, 1000], vec![3_000_000, 1_047_000, 3000], 1_047_000)
        );
        assert_eq!(cut(&[9, 2], 3 * M), (vec![1, 1], vec![6 * M, 3 * M], 3 * M));
    }

    #[test]
    fn what_was_never_written() {
        let absent = || contiguous_message(u64::MAX, 4);
        let read = |more: &[(u16, Vec<u8>)]| values(&[2], absent(), more, |_, _| ()).unwrap();
        assert_eq!(read(&[]), [0; 4]);
        assert_eq!(read(&[fill(0)]), [9, 0, 9, 0]);
        assert_eq!(read(&[fill(2)]), [9, 0, 9, 0]);
        // Fill time 1: the fill value is never written.
        assert_eq!(read(&[fill(1)]), [0; 4]);
        assert_eq!(read(&[(messages::fill_value::OLD_KIND, vec![2, 0, 0, 0, 8, 0])]), [8, 0, 8, 0]);
        let wrong = (messages::fill_value::OLD_KIND, vec![1, 0, 0, 0, 8]);
        assert!(values(&[2], absent(), &[wrong], |_, _| ()).is_err());
    }

    #[test]
    fn chunks_that_cannot_be() {
        let chunked = |axes: &[u32]| {
            let axes_bytes: Vec<u8> = axes.iter().flat_map(|n| n.to_le_bytes()).collect();
            structure!([3, 2, axes.len() as u8], [0xff; 8], axes_bytes)
        };
        let read = |shape: &[u64], axes: &[u32]| values(shape, chunked(axes), &[], |_, _| ());
        assert_eq!(read(&[3], &[2, 2]).unwrap(), [0; 6]);
        assert_eq!(read(&[3], &[1000, 2]).unwrap(), [0; 6]);
        assert_eq!(read(&[0], &[2, 2]).unwrap(), [0; 0]);
        for axes in [&[2, 4][..], &[2, 2, 2], &[2], &[0, 2]] {
            assert!(read(&[3], axes).is_err(), "{axes:?}");
        }
        assert!(read(&[], &[1, 2]).is_err());
        let most = u32::MAX;
        fails(read(&[3, 3, 3], &[most, most, most, 2]), "larger than the address space");
    }
}
