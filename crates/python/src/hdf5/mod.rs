//! HDF5 beyond arrays and groups: element types, attributes, links, references, datatypes.
//!
//! Some elements have Python objects as values: text and sequences of variable length, references.
//! The engine reads these as raw bytes. The type [`ElementHandle`] describes the bytes and resolves
//! the heap ids of many elements at once. `hyperslab._hdf5.values` makes values of them.

pub(crate) mod attributes;
pub(crate) mod dtypes;
pub(crate) mod editor;
pub(crate) mod netcdf3;
pub(crate) mod netcdf4;
pub(crate) mod new_values;
pub(crate) mod quick;
pub(crate) mod references;
pub(crate) mod stored_types;

use self::attributes::AttributeHandle;
use self::references::{Reference, RegionReference};
use self::stored_types::StoredType;
use crate::errors::{self, OrRaise};
use crate::stores::store::StoreHandle;
use crate::values::cells::{self, Cells};
use crate::values::frozen;
use crate::values::output::array_over;
use hyperslab::array::convert_elements as convert;
use hyperslab::hdf5::data_layout::DataLayout;
use hyperslab::hdf5::dataspace::Dataspace;
use hyperslab::hdf5::element::{Element, ElementKind};
use hyperslab::hdf5::reference::{self, Reference as Referred, ReferencedPart};
use hyperslab::hdf5::selection::Selection;
use hyperslab::hdf5::{self, Attribute, Hdf5Error, LinkTarget, NamedDatatype, vlen};
use hyperslab::{Array, DataType};
use numpy::{PyArray1, PyArrayDescr, PyReadonlyArray1, PyReadwriteArray1, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use std::sync::Arc;

/// An element type in a file.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct ElementHandle {
    file: hdf5::File,
    element: Element,
    /// Path of the dataset with these elements, for errors.
    path: Option<Arc<str>>,
    /// Name of the attribute with these elements, for errors.
    attribute: Option<Arc<str>>,
}

/// For each level, the starts of its elements.
type Outer<'py> = Vec<PyReadonlyArray1<'py, i64>>;

impl ElementHandle {
    pub(crate) fn new(file: hdf5::File, element: Element) -> Self {
        ElementHandle { file, element, path: None, attribute: None }
    }

    /// Returns the element type of a dataset.
    pub(crate) fn of_dataset(array: &Array) -> Option<Self> {
        let dataset = array.as_hdf5()?;
        let (file, element) = (dataset.file().clone(), dataset.element().clone());
        let path = Some(format!("/{}", dataset.path()).into());
        Some(ElementHandle { file, element, path, attribute: None })
    }

    /// Returns the element type of an array if its values are Python objects.
    pub(crate) fn of_objects(array: &Array) -> Option<Self> {
        Self::of_dataset(array).filter(|found| is_made_of_objects(&found.element))
    }

    fn within(&self, element: &Element) -> Self {
        let (path, attribute) = (self.path.clone(), self.attribute.clone());
        ElementHandle { file: self.file.clone(), element: element.clone(), path, attribute }
    }

    fn error(&self, py: Python<'_>, error: Hdf5Error) -> PyErr {
        let mut error = error;
        if let Some(path) = &self.path {
            error = error.with_object_path(path);
        }
        if let Some(attribute) = &self.attribute {
            error = error.of_attribute(attribute);
        }
        errors::hdf5(py, &error)
    }

    /// Resolves `count` heap ids in `memory`, `stride` bytes apart from `offset` on.
    ///
    /// If the ids are items of outer elements, `outer` has the starts of these, level by level.
    /// Errors need it.
    fn resolve(
        &self,
        memory: &PyReadonlyArray1<'_, u8>,
        (offset, stride, count): (usize, usize, usize),
        outer: &Outer<'_>,
    ) -> PyResult<vlen::Ragged> {
        let (py, bytes) = (memory.py(), memory.as_slice()?);
        py.detach(|| vlen::resolve(&self.file, &self.element, bytes, offset, stride, count)).map_err(
            |error| {
                let mut error = error;
                for offsets in outer.iter().rev() {
                    match offsets.as_slice() {
                        Ok(offsets) => error = error.item_of(offsets),
                        Err(error) => return error.into(),
                    }
                }
                self.error(py, error)
            },
        )
    }
}

#[pymethods]
impl ElementHandle {
    /// Bytes of one element in memory.
    #[getter]
    fn size(&self) -> usize {
        self.element.size
    }

    /// True if values are Python objects, or contain some.
    #[getter]
    fn is_made_of_objects(&self) -> bool {
        is_made_of_objects(&self.element)
    }

    /// The file that contains the elements.
    #[getter]
    fn file(&self) -> StoreHandle {
        StoreHandle::of_file(self.file.clone().into())
    }

    /// NumPy type of the values.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDescr>> {
        dtypes::dtype_of(py, &self.element)
    }

    /// Members of a structure: name, offset and type.
    fn fields(&self) -> Vec<(String, usize, ElementHandle)> {
        let ElementKind::Struct(fields) = &self.element.kind else { return Vec::new() };
        let field =
            |field: &hdf5::element::Field| (field.name.clone(), field.offset, self.within(&field.element));
        fields.iter().map(field).collect()
    }

    /// The type of the elements of an array or a sequence.
    fn base(&self) -> Option<ElementHandle> {
        match &self.element.kind {
            ElementKind::Array { element, .. } | ElementKind::Vlen { element, .. } => {
                Some(self.within(element))
            }
            _ => None,
        }
    }

    /// Text of variable length, as bytes or decoded.
    #[pyo3(signature = (memory, offset, stride, count, outer, encoding=None, errors="strict"))]
    #[allow(clippy::too_many_arguments)]
    fn strings<'py>(
        &self,
        py: Python<'py>,
        memory: PyReadonlyArray1<'py, u8>,
        offset: usize,
        stride: usize,
        count: usize,
        outer: Outer<'py>,
        encoding: Option<&str>,
        errors: &str,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let found = self.resolve(&memory, (offset, stride, count), &outer)?;
        let cells = Cells::new(&found.offsets, found.values.as_slice(), None, 1)?;
        cells::decode_text_array(cells, encoding, errors, &numpy::dtype::<Py<PyAny>>(py), &[count as u64])
    }

    /// References as objects.
    fn references<'py>(
        &self,
        py: Python<'py>,
        memory: PyReadonlyArray1<'py, u8>,
        offset: usize,
        stride: usize,
        count: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let bytes = memory.as_slice()?;
        let found = py
            .detach(|| reference::resolve(&self.file, &self.element, bytes, offset, stride, count))
            .map_err(|error| self.error(py, error))?;
        let is_region = matches!(self.element.kind, ElementKind::RegionReference);
        let made = found.into_iter().map(|target| -> PyResult<Bound<'py, PyAny>> {
            let region =
                is_region || matches!(&target, Some(Referred { part: ReferencedPart::Region(_), .. }));
            let reference = Reference { file: self.file.clone(), target };
            match region {
                false => Ok(Bound::new(py, reference)?.into_any()),
                true => {
                    let class = PyClassInitializer::from(reference).add_subclass(RegionReference);
                    Ok(Bound::new(py, class)?.into_any())
                }
            }
        });
        PyList::new(py, made.collect::<PyResult<Vec<_>>>()?)
    }

    /// Text or sequences of variable length: offsets, bytes of all elements, and validity.
    ///
    /// The validity is `None` if no element is null.
    #[allow(clippy::type_complexity)]
    fn sequences<'py>(
        &self,
        py: Python<'py>,
        memory: PyReadonlyArray1<'py, u8>,
        offset: usize,
        stride: usize,
        count: usize,
        outer: Outer<'py>,
    ) -> PyResult<(Bound<'py, PyUntypedArray>, Bound<'py, PyUntypedArray>, Option<Bound<'py, PyUntypedArray>>)>
    {
        let found = self.resolve(&memory, (offset, stride, count), &outer)?;
        let (bytes, validity) = (found.values.len(), found.validity);
        let item = numpy::dtype::<u8>(py);
        // Freeze text, as in a ragged array. Numbers need not be frozen.
        let values = match &self.element.kind {
            ElementKind::VlenString { .. } => frozen::memory(found.values, &item, bytes)?,
            _ => array_over(found.values, &item, &[bytes as u64], false)?,
        };
        let validity = validity.map(|validity| frozen::booleans(py, validity)).transpose()?;
        Ok((frozen::offsets(py, found.offsets)?, values, validity))
    }
}

/// Converts numbers, Booleans and texts of fixed length as HDF5 does. ``False``: HDF5 has no such
/// conversion, and nothing was written.
#[pyfunction]
pub(crate) fn convert_elements(
    src: PyReadonlyArray1<'_, u8>,
    src_type: &str,
    mut dst: PyReadwriteArray1<'_, u8>,
    dst_type: &str,
) -> PyResult<bool> {
    let dtype = |name: &str| name.parse::<DataType>().ok();
    let Some((from, to)) = dtype(src_type).zip(dtype(dst_type)) else { return Ok(false) };
    Ok(convert(from, src.as_slice()?, to, dst.as_slice_mut()?))
}

/// Returns `true` if values of these elements are Python objects, or contain some.
pub(crate) fn is_made_of_objects(element: &Element) -> bool {
    match &element.kind {
        ElementKind::Struct(fields) => fields.iter().any(|field| is_made_of_objects(&field.element)),
        ElementKind::Array { element, .. } => is_made_of_objects(element),
        ElementKind::ObjectReference => true,
        _ => element.has_heap_ids(),
    }
}

/// A committed datatype.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct DatatypeHandle {
    pub(crate) file: hdf5::File,
    pub(crate) datatype: NamedDatatype,
}

#[pymethods]
impl DatatypeHandle {
    #[getter]
    fn path(&self) -> &str {
        &self.datatype.path
    }

    #[getter]
    fn file(&self) -> StoreHandle {
        StoreHandle::of_file(self.file.clone().into())
    }

    #[getter]
    fn element(&self, py: Python<'_>) -> PyResult<ElementHandle> {
        let element = Element::of(&self.datatype.datatype, self.file.sizes());
        let element = element.map_err(|why| {
            let error = self.file.source().structure_error("datatype message", 0, why);
            errors::hdf5(py, &error.with_object_path(&format!("/{}", self.datatype.path)))
        })?;
        Ok(ElementHandle { file: self.file.clone(), element, path: None, attribute: None })
    }

    /// Address of the object header.
    #[getter]
    fn address(&self) -> u64 {
        self.datatype.address
    }

    /// The stored type of the elements.
    #[getter]
    fn stored_type(&self) -> StoredType {
        StoredType::of(&self.file, self.datatype.datatype.clone(), Some(self.datatype.address))
    }

    /// A reference to the datatype.
    fn _reference<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        references::to_object(py, self.file.clone(), self.datatype.address, None)
    }

    fn _file_attributes(&self, py: Python<'_>) -> PyResult<Vec<AttributeHandle>> {
        attributes::attributes(py, None, || Some(self.attributes()))
    }

    fn _file_attribute(&self, py: Python<'_>, name: &str) -> PyResult<Option<AttributeHandle>> {
        let found = self._file_attributes(py)?;
        Ok(found.into_iter().find(|attribute| attribute.name() == name))
    }

    fn _has_file_attribute(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        Ok(self._file_attribute(py, name)?.is_some())
    }
}

impl DatatypeHandle {
    /// The attributes. They may have changed since the datatype was opened.
    fn attributes(&self) -> Result<Vec<Attribute>, Hdf5Error> {
        if self.file.editing().is_some()
            && let hdf5::Node::Datatype(now) =
                self.file.object_at(self.datatype.address, &self.datatype.path)?
        {
            return Ok(now.attributes);
        }
        Ok(self.datatype.attributes.clone())
    }
}

/// A selection in the form of `RegionReference._selection`.
pub(crate) fn selection<'py>(py: Python<'py>, selection: &Selection) -> PyResult<Bound<'py, PyTuple>> {
    match selection.clone().regularised() {
        Selection::None => PyTuple::new(py, ["none"]),
        Selection::All => PyTuple::new(py, ["all"]),
        Selection::Regular(slabs) => {
            let slabs: Vec<_> =
                slabs.iter().map(|slab| (slab.start, slab.stride, slab.count, slab.block)).collect();
            ("slabs", slabs).into_pyobject(py)
        }
        Selection::Points { .. } => {
            ("points", selection.points().map(<[u64]>::to_vec).collect::<Vec<_>>()).into_pyobject(py)
        }
        other => {
            let blocks = other.blocks().map(|(first, last)| (first.to_vec(), last.to_vec()));
            ("blocks", blocks.collect::<Vec<_>>()).into_pyobject(py)
        }
    }
}

/// The sources of a virtual dataset: elements of the dataset, file, path, elements of the source.
pub(crate) fn virtual_sources<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyList>> {
    let Some(dataset) = array.as_hdf5() else { return Ok(PyList::empty(py)) };
    let sources = py.detach(|| dataset.virtual_sources()).or_raise(py)?;
    let made = sources.into_iter().map(|source| -> PyResult<_> {
        let (target, from) = (selection(py, &source.target)?, selection(py, &source.source)?);
        (target, source.file, source.dataset, from).into_pyobject(py)
    });
    PyList::new(py, made.collect::<PyResult<Vec<_>>>()?)
}

/// The target of a link: its kind, an address (of a hard link), a path, a file.
#[derive(IntoPyObject)]
pub(crate) struct Link(&'static str, u64, String, String);

impl Link {
    pub(crate) fn hard(address: u64) -> Self {
        Link("hard", address, String::new(), String::new())
    }
}

impl From<LinkTarget> for Link {
    fn from(target: LinkTarget) -> Self {
        match target {
            LinkTarget::Hard(address) => Link::hard(address),
            LinkTarget::Soft(path) => Link("soft", 0, path, String::new()),
            LinkTarget::External { file, path } => Link("external", 0, path, file),
            LinkTarget::UserDefined(kind) => Link("user-defined", kind.into(), String::new(), String::new()),
        }
    }
}

/// Columns of a chunk index: number, offset in the file, bytes, skipped filters.
pub(crate) type ChunkColumns<'py> = (
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u32>>,
);

/// The chunk index of a dataset. `None`: the dataset is not chunked.
pub(crate) fn chunk_columns<'py>(py: Python<'py>, array: &Array) -> PyResult<Option<ChunkColumns<'py>>> {
    let Some(dataset) = array.as_hdf5() else { return Ok(None) };
    let index = py.detach(|| dataset.chunk_index()).or_raise(py)?;
    let Some(index) = index else { return Ok(None) };
    let base = dataset.file().source().base();
    let records = || index.records.iter();
    Ok(Some((
        PyArray1::from_iter(py, records().map(|record| record.number)),
        PyArray1::from_iter(py, records().map(|record| record.address.saturating_add(base))),
        PyArray1::from_iter(py, records().map(|record| record.size)),
        PyArray1::from_iter(py, records().map(|record| record.skipped)),
    )))
}

/// Reads bytes of a dataset's file as stored. `offset` counts from the start of the file.
pub(crate) fn stored_bytes<'py>(
    py: Python<'py>,
    array: &Array,
    offset: u64,
    len: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let Some(dataset) = array.as_hdf5() else { return Ok(PyBytes::new(py, &[])) };
    let source = dataset.file().source();
    let read = || {
        let address = offset.checked_sub(source.base());
        let end = address.and_then(|address| address.checked_add(len as u64));
        let (Some(address), true) = (address, end.is_some_and(|end| end <= source.end())) else {
            return Err(source.invalid(format!("{len} bytes at {offset} are not within the file")));
        };
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(len)
            .map_err(|_| source.invalid(format!("there is no memory for {len} bytes at {offset}")))?;
        bytes.resize(len, 0);
        source.read_into("chunk", [(address, &mut bytes[..])])?;
        Ok(bytes)
    };
    Ok(PyBytes::new(py, &py.detach(read).or_raise(py)?))
}

/// The metadata of a dataset or NetCDF-3 variable, apart from shape and type.
pub(crate) fn facts<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    if let Some(variable) = array.as_netcdf3() {
        let dimensions = variable.dimensions();
        let most = dimensions.map(|dimension| (!dimension.unlimited).then_some(dimension.len)).collect();
        facts.set_item("null", false)?;
        set_shapes(&facts, most, variable.chunk_shape())?;
        facts.set_item("filters", PyTuple::empty(py))?;
        facts.set_item("external", PyTuple::empty(py))?;
        facts.set_item("virtual", false)?;
        facts.set_item("address", variable.name())?;
    }
    let Some(dataset) = array.as_hdf5() else { return Ok(facts) };
    facts.set_item("null", matches!(dataset.dataspace(), Dataspace::Null))?;
    let max_shape = match dataset.dataspace() {
        Dataspace::Simple { max_shape, .. } => max_shape.clone(),
        _ => Vec::new(),
    };
    set_shapes(&facts, max_shape, dataset.chunk_shape().map(<[u64]>::to_vec))?;
    let filters = dataset.filters().iter();
    let filters = filters.map(|filter| (filter.id, filter.name.clone(), filter.client_data.clone()));
    facts.set_item("filters", filters.collect::<Vec<_>>())?;
    let optional = dataset.filters().iter().map(|filter| filter.optional);
    facts.set_item("optional", optional.collect::<Vec<_>>())?;
    facts.set_item("external", dataset.external_files().to_vec())?;
    facts.set_item("virtual", matches!(dataset.data_layout(), DataLayout::Virtual { .. }))?;
    facts.set_item("address", dataset.address())?;
    let layout = match dataset.data_layout() {
        DataLayout::Compact { .. } => "compact",
        DataLayout::Contiguous { .. } => "contiguous",
        DataLayout::Chunked(_) => "chunked",
        DataLayout::Virtual { .. } => "virtual",
    };
    facts.set_item("layout", layout)?;
    facts.set_item("unfilled", dataset.is_unfilled())?;
    let address = match dataset.data_layout() {
        DataLayout::Contiguous { address, .. } if dataset.external_files().is_empty() => *address,
        _ => None,
    };
    let base = dataset.file().source().base();
    facts.set_item("offset", address.map(|address| address.saturating_add(base)))?;
    Ok(facts)
}

fn set_shapes(facts: &Bound<'_, PyDict>, most: Vec<Option<u64>>, chunk: Option<Vec<u64>>) -> PyResult<()> {
    let py = facts.py();
    facts.set_item("maxshape", PyTuple::new(py, most)?)?;
    facts.set_item("chunks", chunk.map(|chunk| PyTuple::new(py, chunk)).transpose()?)
}
