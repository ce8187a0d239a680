//! HDF5 datasets as arrays.

use crate::copy::{Copied, Copying, Paths, hdf5 as copying};
use crate::formats::hdf5_json;
use crate::formats::hdf5_write::{self, Current};
use crate::nodes::interface::{ArrayNode, FileNode, StoredNode, stored_in_file};
use crate::nodes::words;
use crate::{Array, DataFile, Dims, Error, Format, Json, Result};
use hyperslab_array::{
    ArrayLayout, ChunkEncoding, ChunkGrid, ChunkList, ChunkLocator, FillValue, Found, LocateError, Ragged,
    ReadOptions, Selection, WriteOptions, element_count,
};
use hyperslab_codec::{ByteOrder, DataType, Kind, VlenKind};
use hyperslab_hdf5::data_layout::{ChunkIndexKind, DataLayout};
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::edit::Editing;
use hyperslab_hdf5::element::ElementKind;
use hyperslab_hdf5::filter::Filter;
use hyperslab_hdf5::index::place;
use hyperslab_hdf5::value::Value;
use hyperslab_hdf5::{Dataset, Hdf5Error, vlen};
use hyperslab_netcdf::netcdf4;
use hyperslab_store::{Ask, Store};
use std::borrow::Cow;
use std::sync::Arc;

/// A dataset with the layout that the engine reads it by.
#[derive(Clone, Debug)]
pub(crate) struct Hdf5Array {
    dataset: Dataset,
    layout: Arc<ArrayLayout>,
    /// The dataset as it is now, in a file that is being changed.
    current: Option<Arc<Current>>,
    /// The reason why its elements cannot be read, if any.
    problem: Option<Problem>,
}

/// The reason why elements cannot be read, although the metadata can.
#[derive(Clone, Debug)]
enum Problem {
    /// The dataset needs this unsupported feature.
    Unsupported(String),
    /// A file with its elements does not exist.
    Missing(String),
    /// A file with its elements may not be opened.
    Refused { target: String, why: String },
}

impl Problem {
    /// Turns an error about a dataset's description into a problem; other errors stay errors.
    fn of(error: Hdf5Error) -> Result<Problem, Hdf5Error> {
        match error {
            Hdf5Error::Unsupported { what, .. } => Ok(Problem::Unsupported(what)),
            Hdf5Error::NotFound { why, path, .. } => Ok(Problem::Missing(why.unwrap_or(path))),
            Hdf5Error::Refused { target, why, .. } => Ok(Problem::Refused { target, why }),
            error => Err(error),
        }
    }

    fn text(&self) -> String {
        match self {
            Problem::Unsupported(what) => format!("{what} is not supported"),
            Problem::Missing(why) => why.clone(),
            Problem::Refused { target, why } => format!("'{target}' is not opened: {why}"),
        }
    }

    fn error(&self, file: String, path: String) -> Hdf5Error {
        match self.clone() {
            Problem::Unsupported(what) => Hdf5Error::Unsupported { file, object: Some(path), what },
            Problem::Missing(why) => Hdf5Error::NoData { file, object: Some(path), why },
            Problem::Refused { target, why } => Hdf5Error::Refused { file, object: Some(path), target, why },
        }
    }
}

impl Hdf5Array {
    pub(crate) fn new(dataset: Dataset) -> Result<Self> {
        let problem = match (dataset.dataspace(), dataset.layout()) {
            (Dataspace::Null, _) => Problem::Unsupported("a dataset without a shape".to_owned()),
            (_, Err(error)) => Problem::of(error)?,
            (_, Ok(layout)) => {
                let current = dataset.file().editing().map(|editing| Current::new(&dataset, editing));
                let layout = hdf5_write::layout_of(&dataset, &layout)?;
                return Ok(Hdf5Array { dataset, layout, current: current.map(Arc::new), problem: None });
            }
        };
        let layout = unreadable_layout(&dataset, problem.clone())?;
        Ok(Hdf5Array { dataset, layout, current: None, problem: Some(problem) })
    }

    /// The reason why its elements cannot be read, if any.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.as_ref().map(Problem::text)
    }

    pub(crate) fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Returns the dataset as it is now. Another handle may have changed it.
    fn now(&self) -> Result<Dataset> {
        match &self.current {
            Some(current) => Ok(current.dataset()?),
            None => Ok(self.dataset.clone()),
        }
    }

    /// Returns `true` if another handle has changed the shape or the storage layout.
    pub(crate) fn is_outdated(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.is_outdated())
    }

    /// Returns the file for changes. Fails if it was opened for reading.
    pub(crate) fn editing(&self) -> Result<&Editing> {
        let read_only = || Hdf5Error::ReadOnly { file: self.dataset.file().source().name() };
        match (&self.current, &self.problem) {
            (Some(current), _) => Ok(current.editing()),
            (None, Some(problem)) => {
                let (file, path) = (self.dataset.file().source().name(), format!("/{}", self.dataset.path()));
                Err(problem.error(file, path).into())
            }
            (None, None) => Err(read_only().into()),
        }
    }

    /// Changes the shape. Returns the dataset as it is then.
    pub(crate) fn resized(&self, shape: &[u64]) -> Result<Dataset> {
        hdf5_write::resize(&self.dataset, self.editing()?, &self.layout, shape)
    }

    /// See [`Array::write_direct_chunk`].
    pub(crate) fn write_chunk(&self, place: &[u64], skipped: u32, bytes: &[u8]) -> Result<()> {
        hdf5_write::write_chunk(&self.now()?, self.editing()?, &self.layout, (place, skipped), bytes)
    }

    /// See [`Array::read_direct_chunk`].
    pub(crate) fn read_chunk(&self, place: &[u64]) -> Result<Option<(Vec<u8>, u32)>> {
        hdf5_write::read_chunk(&self.now()?, &self.layout, place)
    }
}

stored_in_file!(Hdf5Array, |array|
    file: array.dataset.file(),
    path: array.dataset.path(),
    attributes: hdf5_json::attributes(&array.dataset.attributes()?)?,
    changed: (array.dataset.file(), array.dataset.address()));

impl ArrayNode for Hdf5Array {
    fn layout(&self) -> &Arc<ArrayLayout> {
        &self.layout
    }

    fn dimension_names(&self) -> Result<Option<Vec<Option<String>>>> {
        Ok(netcdf4::dimension_names(&self.dataset)?)
    }

    fn has_chunks(&self) -> bool {
        self.dataset.chunk_shape().is_some()
    }

    fn codec_names(&self) -> Vec<String> {
        self.dataset.filters().iter().map(filter_name).collect()
    }

    fn fill_value(&self) -> Result<Json> {
        let Some(fill) = self.dataset.fill_value() else { return Ok(Json::Null) };
        Ok(hdf5_json::to_json(Value::of(self.dataset.file(), self.dataset.element(), fill), "")?)
    }

    fn fill(&self) -> Option<&[u8]> {
        self.dataset.fill_value()
    }

    fn type_words(&self) -> String {
        words::element(self.dataset.element())
    }

    fn has_elements_of(&self, other: &Array) -> bool {
        self.layout.dtype() == other.dtype()
            && other.as_hdf5().is_some_and(|other| other.element() == self.dataset.element())
    }

    fn collect_copied(&self, copying: &mut Copying<'_>) -> Result<Copied> {
        copying::collect_copied(self, copying)
    }

    fn read_copied(
        &self,
        selection: &Selection,
        options: ReadOptions<'_>,
        paths: &mut Paths,
    ) -> Result<Ragged> {
        copying::read(self, selection, options, paths)
    }

    fn absent_text(&self) -> Result<Option<Vec<u8>>> {
        match self.dataset.element().kind {
            ElementKind::VlenString { .. } => Ok(Some(copying::absent_text(&self.dataset)?)),
            _ => Ok(None),
        }
    }

    fn copies_absent(&self) -> bool {
        copying::copies_absent(&self.dataset)
    }

    /// The kind of elements of variable length. Items without a plain NumPy type are raw bytes.
    fn vlen(&self) -> Option<VlenKind> {
        match &self.dataset.element().kind {
            ElementKind::VlenString { .. } => Some(VlenKind::Text),
            ElementKind::Vlen { element, .. } => element.engine_type().map(VlenKind::Array),
            _ => None,
        }
    }

    fn is_writable(&self) -> bool {
        self.current.is_some()
    }

    fn check_writable(&self) -> Result<()> {
        self.editing().map(drop)
    }

    fn write_ragged(
        &self,
        selection: &Selection,
        values: &Arc<Ragged>,
        options: WriteOptions<'_>,
    ) -> Result<()> {
        hdf5_write::write_ragged(self.editing()?, &self.layout, self.vlen(), selection, values, options)
    }

    fn read_ragged(&self, selection: &Selection, options: ReadOptions<'_>) -> Result<Ragged> {
        Ok(vlen::read(&self.dataset, &self.layout, selection, options)?)
    }

    /// Number of stored chunks (one if there are no chunks), and their bytes.
    /// Bytes in other files do not count, except for external raw data.
    fn chunks_stored(&self, _: Option<Ask<'_>>) -> Result<(u64, u64)> {
        let dataset = self.now()?;
        if let Some(index) = dataset.chunk_index()? {
            let bytes = index.records.iter().fold(0, |sum: u64, record| sum.saturating_add(record.size));
            return Ok((index.records.len() as u64, bytes));
        }
        let all = element_count(self.layout.shape()).unwrap_or(u64::MAX);
        let all = all.saturating_mul(u64::from(self.dataset.datatype().size));
        Ok(match dataset.data_layout() {
            DataLayout::Compact { size, .. } => (1, *size),
            // Count like the library: the dataset's size in other files, whether they exist or not.
            DataLayout::Contiguous { .. } if !dataset.external_files().is_empty() => (1, all),
            DataLayout::Contiguous { address: Some(_), size } => (1, size.unwrap_or(all)),
            _ => (0, 0),
        })
    }

    fn stored_objects(&self, _: Option<Ask<'_>>) -> Result<Option<Vec<Dims>>> {
        let dataset = self.now()?;
        let Some(index) = dataset.chunk_index()? else {
            let data = dataset.data_layout();
            let unwritten = matches!(data, DataLayout::Contiguous { address: None, .. });
            return Ok((unwritten && self.dataset.external_files().is_empty()).then(Vec::new));
        };
        Ok(Some(index.records.iter().map(|record| place(record.number, &index.counts).into()).collect()))
    }

    fn storage(&self) -> Option<&'static str> {
        Some(match self.dataset.data_layout() {
            _ if !self.dataset.external_files().is_empty() => "in external files",
            DataLayout::Compact { .. } => "compact, in the object header",
            DataLayout::Contiguous { .. } => "contiguous",
            DataLayout::Virtual { .. } => "virtual, parts of other datasets",
            DataLayout::Chunked(layout) => match layout.index {
                ChunkIndexKind::BTree1 => "chunked, found by a B-tree of version 1",
                ChunkIndexKind::Single { .. } => "one chunk",
                ChunkIndexKind::Implicit => "chunked, one behind the other",
                ChunkIndexKind::FixedArray { .. } => "chunked, found by a fixed array",
                ChunkIndexKind::ExtensibleArray { .. } => "chunked, found by an extensible array",
                ChunkIndexKind::BTree2 { .. } => "chunked, found by a B-tree of version 2",
            },
        })
    }

    /// The filters, in encoding order.
    fn codecs(&self) -> Vec<Json> {
        let filters = self.dataset.filters().iter().map(|filter| {
            let data = filter.client_data.iter().map(|n| (*n).into()).collect();
            let configuration = [("id", u64::from(filter.id).into()), ("client_data", Json::Array(data))];
            Json::named(&filter_name(filter), configuration)
        });
        filters.collect()
    }
}

/// The number of the filter that HDF5 calls deflate and h5py gzip.
const DEFLATE: u16 = 1;

/// The name of a filter in h5py, or its registered name, or its name in the file, or its number.
pub(crate) fn filter_name(filter: &Filter) -> String {
    if filter.id == DEFLATE {
        return "gzip".into();
    }
    let registered = hyperslab_codec::hdf5::name(filter.id).map(str::to_owned);
    registered.or(filter.name.clone()).unwrap_or_else(|| format!("filter {}", filter.id))
}

/// The layout of an array whose elements cannot be read.
/// It has a shape, an element type and a chunk grid, but locating any chunk fails.
fn unreadable_layout(dataset: &Dataset, problem: Problem) -> Result<Arc<ArrayLayout>> {
    let file = dataset.file().source();
    let invalid = |why: &str| Error::Hdf5(file.invalid(why).with_object_path(dataset.path()));
    let dtype = dataset.element().engine_type().or(DataType::new(Kind::Raw, 0, ByteOrder::NATIVE));
    let dtype = dtype.ok_or_else(|| invalid("elements are too large"))?;
    let null = matches!(dataset.dataspace(), Dataspace::Null);
    let shape: Dims = if null { Dims::from_elem(0, 1) } else { dataset.dataspace().shape().into() };
    let stored: Dims = dataset.chunk_shape().unwrap_or(&shape).into();
    let single = Dims::from_elem(1, shape.len());
    // A dataset without chunks may be too large for a single chunk.
    let encoding = |chunk: &Dims| ChunkEncoding::new(chunk, dtype, dtype.order(), &[], Vec::new());
    let usable = stored.len() == shape.len() && !stored.contains(&0) && encoding(&stored).is_ok();
    let chunk = if usable { stored } else { single };
    let encoding = encoding(&chunk);
    let grid = ChunkGrid::regular(chunk).ok_or_else(|| invalid("chunks without elements"))?;
    Ok(Arc::new(ArrayLayout::new(
        format!("/{}", dataset.path()),
        shape,
        dtype,
        grid,
        encoding.map_err(|why| invalid(&why))?,
        FillValue::new(&vec![0; dtype.size()]),
        Arc::new(Unreadable { file: file.name(), path: format!("/{}", dataset.path()), problem }),
        file.store().clone(),
    )?))
}

/// A locator that always fails, with the reason.
#[derive(Debug)]
struct Unreadable {
    file: String,
    path: String,
    problem: Problem,
}

impl ChunkLocator for Unreadable {
    fn locate(&self, _: ChunkList<'_>, _: &mut Found) -> Result<(), LocateError> {
        Err(Box::new(self.problem.error(self.file.clone(), self.path.clone())))
    }
}
