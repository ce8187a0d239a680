//! Datasets of HDF5 as arrays.

use crate::{Dims, Error, Json, hdf5_json};
use hyperslab_array::{
    ArrayLayout, ChunkEncoding, ChunkGrid, ChunkLocator, FillValue, LocateError, Location, Ragged,
    ReadOptions, Selection, element_count,
};
use hyperslab_codec::{ByteOrder, DataType, Kind, VlenKind};
use hyperslab_hdf5::data_layout::{ChunkIndexKind, DataLayout};
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::element::ElementKind;
use hyperslab_hdf5::filter::Filter;
use hyperslab_hdf5::index::ChunkIndex;
use hyperslab_hdf5::{Dataset, Hdf5Error, vlen};
use std::sync::Arc;

/// A dataset, and what the engine needs to read it.
#[derive(Clone, Debug)]
pub(crate) struct Hdf5Array {
    dataset: Dataset,
    layout: Arc<ArrayLayout>,
    /// Why nothing of it can be read.
    problem: Option<String>,
}

impl Hdf5Array {
    pub(crate) fn new(dataset: Dataset) -> Result<Self, Error> {
        let problem = match (dataset.dataspace(), dataset.layout()) {
            (Dataspace::Null, _) => "a dataset without a shape".to_owned(),
            (_, Err(Hdf5Error::Unsupported { what, .. })) => what,
            (_, layout) => return Ok(Hdf5Array { dataset, layout: layout?, problem: None }),
        };
        let layout = unreadable(&dataset, problem.clone())?;
        Ok(Hdf5Array { dataset, layout, problem: Some(problem) })
    }

    /// What is not supported, if nothing can be read of it for that.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    pub(crate) fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    pub(crate) fn layout(&self) -> &Arc<ArrayLayout> {
        &self.layout
    }

    pub(crate) fn attributes(&self) -> Result<Json, Error> {
        Ok(hdf5_json::attributes(&self.dataset.attributes()?)?)
    }

    /// What its elements of variable length are. Items of which NumPy has no plain type are raw bytes.
    pub(crate) fn vlen(&self) -> Option<VlenKind> {
        match &self.dataset.element().kind {
            ElementKind::VlenString { .. } => Some(VlenKind::Text),
            ElementKind::Vlen { element, .. } => element.engine_type().map(VlenKind::Array),
            _ => None,
        }
    }

    /// Reads elements of variable length.
    pub(crate) fn read_ragged(
        &self,
        selection: &Selection,
        options: ReadOptions<'_>,
    ) -> Result<Ragged, Error> {
        Ok(vlen::read(&self.dataset, &self.layout, selection, options)?)
    }

    /// Number of chunks that are stored (one, where there are no chunks), and their bytes. What lies in other files is not counted.
    pub(crate) fn chunks_stored(&self) -> Result<(u64, u64), Error> {
        if let Some(index) = self.dataset.chunk_index()? {
            let bytes = index.records.iter().fold(0, |sum: u64, record| sum.saturating_add(record.size));
            return Ok((index.records.len() as u64, bytes));
        }
        let all = element_count(self.layout.shape()).unwrap_or(u64::MAX);
        let all = all.saturating_mul(u64::from(self.dataset.datatype().size));
        Ok(match self.dataset.data_layout() {
            DataLayout::Compact { data, .. } => (1, data.len() as u64),
            DataLayout::Contiguous { address: Some(_), size } => (1, size.unwrap_or(all)),
            _ => (0, 0),
        })
    }

    /// The indices of the chunks that are stored. `None`: not known, any may be.
    pub(crate) fn stored_chunks(&self) -> Result<Option<Vec<Dims>>, Error> {
        let Some(index) = self.dataset.chunk_index()? else {
            let data = self.dataset.data_layout();
            let unwritten = matches!(data, DataLayout::Contiguous { address: None, .. });
            return Ok((unwritten && self.dataset.external_files().is_empty()).then(Vec::new));
        };
        Ok(Some(index.records.iter().map(|record| place(&index, record.number)).collect()))
    }

    /// Where its elements are, in a few words.
    pub(crate) fn storage(&self) -> &'static str {
        match self.dataset.data_layout() {
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
        }
    }

    /// The filters, in the order of writing.
    pub(crate) fn filters(&self) -> Vec<Json> {
        let filters = self.dataset.filters().iter().map(|filter| {
            Json::from([
                ("name", filter_name(filter).as_str().into()),
                (
                    "configuration",
                    Json::from([
                        ("id", u64::from(filter.id).into()),
                        (
                            "client_data",
                            Json::Array(filter.client_data.iter().map(|n| (*n).into()).collect()),
                        ),
                    ]),
                ),
            ])
        });
        filters.collect()
    }
}

/// The place of a chunk in the grid.
pub(crate) fn place(index: &ChunkIndex, number: u64) -> Dims {
    let mut rest = number;
    let mut place: Dims = index.counts.iter().map(|_| 0).collect();
    for (at, count) in place.iter_mut().zip(&index.counts).rev() {
        *at = rest.checked_rem(*count).unwrap_or(0);
        rest = rest.checked_div(*count).unwrap_or(0);
    }
    place
}

/// The registered name of a filter, else that in the file, else its number.
pub(crate) fn filter_name(filter: &Filter) -> String {
    let registered = hyperslab_codec::hdf5::name(filter.id).map(str::to_owned);
    registered.or(filter.name.clone()).unwrap_or_else(|| format!("filter {}", filter.id))
}

/// The layout of an array of which nothing can be read: it has a shape and an element type, and every chunk is an error.
fn unreadable(dataset: &Dataset, what: String) -> Result<Arc<ArrayLayout>, Error> {
    let file = dataset.file().source();
    let invalid = |why: &str| Error::Hdf5(file.invalid(why).within(dataset.path()));
    let dtype = dataset.element().engine_type().or(DataType::new(Kind::Raw, 0, ByteOrder::NATIVE));
    let dtype = dtype.ok_or_else(|| invalid("elements are too large"))?;
    let null = matches!(dataset.dataspace(), Dataspace::Null);
    let shape: Dims = if null { Dims::from_elem(0, 1) } else { dataset.dataspace().shape().into() };
    let chunk: Dims = Dims::from_elem(1, shape.len());
    let encoding = ChunkEncoding::new(&chunk, dtype, dtype.order(), &[], Vec::new());
    let grid = ChunkGrid::regular(chunk).ok_or_else(|| invalid("chunks without elements"))?;
    Ok(Arc::new(ArrayLayout::new(
        format!("/{}", dataset.path()),
        shape,
        dtype,
        grid,
        encoding.map_err(|why| invalid(&why))?,
        FillValue::new(&vec![0; dtype.size()]),
        Arc::new(Unreadable { file: file.name(), path: format!("/{}", dataset.path()), what }),
        file.store().clone(),
    )?))
}

/// Finds no chunk, and says why.
#[derive(Debug)]
struct Unreadable {
    file: String,
    path: String,
    what: String,
}

impl ChunkLocator for Unreadable {
    fn locate(&self, _: &[u64], _: &mut String) -> Result<Location, LocateError> {
        let (file, object, what) = (self.file.clone(), Some(self.path.clone()), self.what.clone());
        Err(Box::new(Hdf5Error::Unsupported { file, object, what }))
    }
}
