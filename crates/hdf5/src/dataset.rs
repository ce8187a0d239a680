//! Datasets: their metadata.

use crate::array_layout;
use crate::data_layout::DataLayout;
use crate::dataspace::Dataspace;
use crate::datatype::Datatype;
use crate::element::{Element, ElementKind};
use crate::filter::{self, Filter};
use crate::heaps::LocalHeap;
use crate::index::{ChunkIndex, Chunks};
use crate::messages::external_files::ExternalFiles;
use crate::messages::fill_value::FillValue;
use crate::messages::{self, Message};
use crate::object_header::ObjectHeader;
use crate::virtual_dataset::{self, VirtualSource};
use crate::vlen::{IdCache, Items};
use crate::{Attribute, File, Hdf5Error, Result};
use hyperslab_array::{ArrayError, ArrayLayout, Dims};
use hyperslab_codec::{Scratch, room};
use hyperslab_store::fork::Lazy;
use std::sync::Arc;

/// A dataset of an open file.
#[derive(Clone, Debug)]
pub struct Dataset {
    file: File,
    path: String,
    address: u64,
    version: u64,
    facts: Arc<Facts>,
    made: Arc<Made>,
}

/// The contents of the object header.
#[derive(Debug)]
struct Facts {
    datatype: Arc<Datatype>,
    committed: Option<u64>,
    element: Element,
    dataspace: Dataspace,
    data: DataLayout,
    filters: Vec<Filter>,
    fill: Option<Vec<u8>>,
    /// `true` if absent elements are zero, regardless of the fill value.
    unfilled: bool,
    external: Vec<(String, u64, Option<u64>)>,
}

/// Values that are computed on first use.
#[derive(Debug)]
struct Made {
    layout: Lazy<Arc<ArrayLayout>>,
    chunks: Lazy<Option<Arc<Chunks>>>,
    items: Lazy<Option<Items>>,
    ids: IdCache,
}

impl Dataset {
    /// Reads the dataset of an object header. `version`: the number of changes before the header was
    /// read.
    pub(crate) fn new(file: &File, path: &str, header: &ObjectHeader, version: u64) -> Result<Dataset> {
        let facts = Arc::new(Facts::read(file, header)?);
        let (layout, chunks, items) = (Lazy::new(), Lazy::new(), Lazy::new());
        let made = Arc::new(Made { layout, chunks, items, ids: IdCache::default() });
        Ok(Dataset { file: file.clone(), path: path.into(), address: header.address, version, facts, made })
    }

    /// Returns the same dataset, reached by another path.
    pub(crate) fn with_path(self, path: String) -> Dataset {
        Dataset { path, ..self }
    }

    /// Returns the dataset's file. Behind an external link it is not the file that was opened.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path in that file by which the dataset was reached, without the leading `/`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Address of the object header.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// In a file that is being changed: the number of changes that the dataset has at least seen, as
    /// [`Editing::version`](crate::edit::Editing::version) counts them.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the stored type of the elements.
    pub fn datatype(&self) -> &Datatype {
        &self.facts.datatype
    }

    /// Returns the header of the committed type that the dataset refers to. `None`: the type is its own.
    pub fn committed_type(&self) -> Option<u64> {
        self.facts.committed
    }

    /// Returns the type of the elements in memory.
    pub fn element(&self) -> &Element {
        &self.facts.element
    }

    /// Returns the shape.
    pub fn dataspace(&self) -> &Dataspace {
        &self.facts.dataspace
    }

    /// Returns the storage layout of the elements.
    pub fn data_layout(&self) -> &DataLayout {
        &self.facts.data
    }

    /// Elements of a chunk per axis. `None`: the dataset is not chunked.
    pub fn chunk_shape(&self) -> Option<&[u64]> {
        match &self.facts.data {
            DataLayout::Chunked(layout) => Some(&layout.chunk),
            _ => None,
        }
    }

    /// Returns the filters of chunks in the order in which a writer applies them.
    pub fn filters(&self) -> &[Filter] {
        &self.facts.filters
    }

    /// Returns the fill value in memory. `None`: the file defines none, and absent elements are
    /// zero.
    pub fn fill_value(&self) -> Option<&[u8]> {
        self.facts.fill.as_deref()
    }

    /// Returns the value of absent elements, as in h5py. `None`: zeros (no fill value, or never
    /// written).
    pub fn absent_value(&self) -> Option<&[u8]> {
        self.fill_value().filter(|_| !self.facts.unfilled)
    }

    /// Returns `true` if elements that were never written have no value.
    pub fn is_unfilled(&self) -> bool {
        self.facts.unfilled
    }

    /// External raw data files: name, offset, bytes (`None`: to the end of the file).
    pub fn external_files(&self) -> &[(String, u64, Option<u64>)] {
        &self.facts.external
    }

    /// Returns the sources of a virtual dataset. Empty for other datasets.
    pub fn virtual_sources(&self) -> Result<Vec<VirtualSource>> {
        match self.data_layout() {
            DataLayout::Virtual { collection, index } => {
                virtual_dataset::sources(&self.file, (*collection, *index))
                    .map_err(|error| self.with_object_path(error))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the attributes, sorted by creation order if the object keeps it, else by name.
    pub fn attributes(&self) -> Result<Vec<Attribute>> {
        self.file.attributes(self.address).map_err(|error| self.with_object_path(error))
    }

    /// Returns the attribute with this name. Reads no other attributes.
    pub fn attribute(&self, name: &str) -> Result<Option<Attribute>> {
        self.file.attribute(self.address, name).map_err(|error| self.with_object_path(error))
    }

    /// Returns `true` if there is an attribute with this name, even if its value cannot be read.
    pub fn has_attribute(&self, name: &str) -> Result<bool> {
        self.file.has_attribute(self.address, name).map_err(|error| self.with_object_path(error))
    }

    /// Returns the layout for the engine, built once. Fails for a null dataspace and for
    /// unsupported features.
    ///
    /// The chunk index is only read when the first chunk is located.
    pub fn layout(&self) -> Result<Arc<ArrayLayout>> {
        let make = || array_layout::of(self).map_err(|error| self.with_object_path(error));
        self.made.layout.get_or_try_make(make).cloned()
    }

    /// Returns the index of all chunks, read once per open file. `None`: the dataset is not
    /// chunked.
    ///
    /// In a file that is being changed it has the chunks of this moment.
    pub fn chunk_index(&self) -> Result<Option<Arc<ChunkIndex>>> {
        if let Some(editing) = self.file.editing() {
            editing.settle_one(self.address)?;
        }
        if let Some(index) = self.changed_index() {
            return Ok(Some(Arc::new(index)));
        }
        self.stored_index()
    }

    /// Returns the index of a dataset whose chunks are being changed.
    fn changed_index(&self) -> Option<ChunkIndex> {
        let table = self.file.inner.edits.as_ref()?.chunks(self.address)?;
        let DataLayout::Chunked(layout) = self.data_layout() else { return None };
        let axes = self.dataspace().shape().iter().zip(&layout.chunk);
        let counts: Vec<u64> = axes.map(|(n, chunk)| n.div_ceil((*chunk).max(1))).collect();
        let is_inside = |record: &(Dims, _)| record.0.iter().zip(&counts).all(|(at, count)| at < count);
        let records =
            if table.places().iter().all(is_inside) { table.records(&counts) } else { return None };
        Some(ChunkIndex { counts, records })
    }

    /// Returns the index in the file.
    pub(crate) fn stored_index(&self) -> Result<Option<Arc<ChunkIndex>>> {
        self.chunks().map(|chunks| chunks.index().map_err(|error| self.with_object_path(error))).transpose()
    }

    /// Returns the chunks. `None`: the dataset is not chunked.
    pub(crate) fn chunks(&self) -> Option<Arc<Chunks>> {
        let make = || {
            let DataLayout::Chunked(layout) = self.data_layout() else { return None };
            let Dataspace::Simple { shape, max_shape } = self.dataspace() else { return None };
            let filters = u32::try_from(self.filters().len()).unwrap_or(u32::MAX);
            let shift = u32::from(self.element().conversion(self.datatype()).is_some());
            let (layout, shapes) = (layout.clone(), (shape.clone(), max_shape.clone()));
            let chunks = Chunks::new(self.file.clone(), self.address, layout, shapes, (filters, shift));
            Some(Arc::new(chunks))
        };
        self.made.chunks.get_or_make(make).clone()
    }

    /// Returns the item type of elements of variable length. `None`: the elements have a fixed
    /// size.
    pub(crate) fn items(&self) -> Option<&Items> {
        self.made.items.get_or_make(|| Items::of(self.element())).as_ref()
    }

    /// The heap ids that were read last.
    pub(crate) fn kept_ids(&self) -> &IdCache {
        &self.made.ids
    }

    pub(crate) fn with_object_path(&self, error: Hdf5Error) -> Hdf5Error {
        error.with_object_path(&format!("/{}", self.path))
    }
}

impl Facts {
    fn read(file: &File, header: &ObjectHeader) -> Result<Facts> {
        let source = file.source();
        let address = header.address;
        let missing =
            |what| source.invalid(format!("the dataset at address {address} has no {what} message"));
        let datatype = file.message(header, crate::datatype::KIND, Datatype::parse)?;
        let datatype = Arc::new(datatype.ok_or_else(|| missing("datatype"))?);
        let dataspace = file.message(header, messages::dataspace::KIND, Dataspace::parse)?;
        let dataspace = dataspace.ok_or_else(|| missing("dataspace"))?;
        let data = file.message(header, messages::data_layout::KIND, DataLayout::parse)?;
        let data = data.ok_or_else(|| missing("data layout"))?;
        let filters = file.message(header, messages::filter::KIND, filter::parse)?;
        let element = Element::of_dataset(&datatype, file.sizes());
        let element = element.map_err(|why| source.structure_error("datatype message", address, why))?;
        if !room::for_elements(element.size) {
            let (array, bytes) = (source.name(), element.size as u64);
            return Err(ArrayError::Memory { array, what: "an element", bytes }.into());
        }
        if let DataLayout::Chunked(layout) = &data {
            let (rank, size) = (dataspace.shape().len(), u64::from(datatype.size));
            if layout.chunk.len() != rank || layout.element_size != size {
                let why = format!(
                    "expected chunks of {rank} axes and elements of {size} bytes, found chunks of {} axes \
                     and elements of {} bytes",
                    layout.chunk.len(),
                    layout.element_size
                );
                return Err(source.invalid(why));
            }
        }
        let fill = match file.message(header, messages::fill_value::KIND, FillValue::parse)? {
            None => file.message(header, messages::fill_value::OLD_KIND, FillValue::parse_old)?,
            fill => fill,
        };
        Ok(Facts {
            unfilled: fill.as_ref().is_some_and(|fill| fill.never),
            fill: in_memory(file, fill, &datatype, &element)?,
            external: external(file, header)?,
            committed: header.message(crate::datatype::KIND).and_then(Message::committed_type),
            datatype,
            element,
            dataspace,
            data,
            filters: filters.unwrap_or_default(),
        })
    }
}

/// Converts the fill value to memory.
fn in_memory(
    file: &File,
    fill: Option<FillValue>,
    datatype: &Datatype,
    element: &Element,
) -> Result<Option<Vec<u8>>> {
    if matches!(element.kind, ElementKind::Unsupported(_)) {
        return Ok(None);
    }
    let Some(stored) = fill.and_then(|fill| fill.value) else { return Ok(None) };
    if stored.len() as u64 != u64::from(datatype.size) {
        let why = format!("expected a fill value of {} bytes, found {} bytes", datatype.size, stored.len());
        return Err(file.source().invalid(why));
    }
    let Some(conversion) = element.conversion(datatype) else { return Ok(Some(stored)) };
    let mut value = vec![0; element.size];
    match conversion.decode(&stored, &mut value, &mut Scratch::default()) {
        Ok(_) => Ok(Some(value)),
        Err(error) => Err(file.source().invalid(format!("fill value: {error}"))),
    }
}

/// Returns the external files of a dataset: name, offset, bytes.
fn external(file: &File, header: &ObjectHeader) -> Result<Vec<(String, u64, Option<u64>)>> {
    let files = file.message(header, messages::external_files::KIND, ExternalFiles::parse)?;
    let Some(files) = files else { return Ok(Vec::new()) };
    let heap = LocalHeap::read(file.source(), files.heap)?;
    let name = |at| heap.name(at).map_err(|why| file.source().structure_error("local heap", files.heap, why));
    files.slots.into_iter().map(|(at, offset, len)| Ok((name(at)?, offset, len))).collect()
}
