//! The base class of `hyperslab.Array`.

use crate::errors::{Failed, OrRaise};
use crate::gil::engine;
use crate::gil::once::interned;
use crate::hdf5::attributes::{self, AttributeHandle};
use crate::hdf5::references;
use crate::hdf5::stored_types::StoredType;
use crate::hdf5::{self as file, ElementHandle};
use crate::index::kind::{Kind, kind, pop_fields, split_names};
use crate::nodes::attributes::StoredAttributes;
use crate::nodes::cache::CacheBase;
use crate::nodes::explain;
use crate::nodes::grid;
use crate::nodes::handles::ArrayHandle;
use crate::nodes::slot::Slot;
use crate::values::cells;
use crate::values::elements::{Elements, Types};
use crate::values::input::{Writing, assign};
use crate::values::masked;
use crate::values::output::{Reading, read_new};
use crate::values::ragged::{self, Form};
use crate::values::vlen::{self, Shown};
use hyperslab::array::{ChunkCache, element_count};
use hyperslab::zarr::{self, Json};
use hyperslab::{Array, Error};
use numpy::PyArrayDescr;
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use std::sync::Arc;

/// The parts of an array that must be fast or unsafe.
#[pyclass(frozen, subclass, module = "hyperslab._native")]
pub(crate) struct ArrayBase {
    slot: Arc<Slot<Array>>,
    read_only: bool,
    pub(crate) write_empty_chunks: Option<bool>,
    /// True: results are in Fortran order. `None`: as in the metadata of a Zarr v2 array.
    pub(crate) fortran: Option<bool>,
    /// The same for Zarr v3 arrays, if `fortran` is `None`.
    pub(crate) fortran_v3: bool,
    /// True: read missing chunks as fill value. `None`: as in the settings.
    pub(crate) read_missing: Option<bool>,
    /// Caches decoded chunks.
    pub(crate) cache: Option<Arc<ChunkCache>>,
    /// Built once. A resize does not change the types.
    pub(crate) types: PyOnceLock<Types>,
}

impl ArrayBase {
    pub(crate) fn slot(&self) -> &Arc<Slot<Array>> {
        &self.slot
    }

    pub(crate) fn array(&self, py: Python<'_>) -> PyResult<Arc<Array>> {
        self.slot.get(py)
    }

    /// Runs `question` on the Zarr array. Fails for other formats.
    fn zarr<R>(&self, py: Python<'_>, question: impl FnOnce(&zarr::Array) -> R) -> PyResult<R> {
        let array = self.array(py)?;
        array.as_zarr().map(question).ok_or_else(|| {
            let message = format!(
                "array '{}': only Zarr arrays have this, not those of {}",
                array.name(),
                array.format()
            );
            PyAttributeError::new_err(message)
        })
    }

    pub(crate) fn writable(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.writable(py, self.read_only)?;
        let array = self.array(py)?;
        match array.as_zarr() {
            Some(zarr) => py.detach(|| zarr.store_repair(None)).map_err(Error::from).or_raise(py),
            None => Ok(()),
        }
    }
}

#[pymethods]
impl ArrayBase {
    #[new]
    #[pyo3(signature = (handle, read_only=false, write_empty_chunks=None, cache=None, fortran=None, read_missing=None, fortran_v3=false))]
    fn new(
        handle: &ArrayHandle,
        read_only: bool,
        write_empty_chunks: Option<bool>,
        cache: Option<&CacheBase>,
        fortran: Option<bool>,
        read_missing: Option<bool>,
        fortran_v3: bool,
    ) -> Self {
        let cache = cache.map(|cache| cache.cache.clone());
        let slot = handle.slot.clone();
        ArrayBase {
            slot,
            read_only,
            write_empty_chunks,
            fortran,
            fortran_v3,
            read_missing,
            cache,
            types: PyOnceLock::new(),
        }
    }

    /// A handle that shares this array's state.
    #[getter]
    fn _handle(&self) -> ArrayHandle {
        ArrayHandle { slot: self.slot.clone() }
    }

    /// True if changes are refused.
    #[getter]
    fn read_only(&self) -> bool {
        self.read_only
    }

    /// The path in the store. Empty for the root.
    #[getter]
    fn path(&self) -> &str {
        self.slot.path()
    }

    /// Elements per axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array(py)?.layout().shape())
    }

    /// The same as `resize`.
    #[setter]
    fn set_shape(slf: &Bound<'_, Self>, shape: &Bound<'_, PyAny>) -> PyResult<()> {
        slf.call_method1("resize", (shape,)).map(drop)
    }

    /// Number of axes.
    #[getter]
    fn ndim(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.array(py)?.layout().shape().len())
    }

    /// The element type.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDescr>> {
        Ok(self.types(py, &*self.array(py)?)?.values.bind(py).clone())
    }

    /// Elements of a chunk per axis. With nested shards, this is the outermost chunk. Raises
    /// ``NotImplementedError`` if chunks have different shapes (a rectilinear grid):
    /// ``read_chunk_sizes`` has their lengths.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        grid::chunk_shape(py, &*self.array(py)?)
    }

    /// Elements of a chunk per axis. If chunks have different shapes, the longest along each axis.
    #[getter]
    fn _largest_chunk<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array(py)?.outer_chunk_shape())
    }

    /// Lengths of the chunks along each axis, cut at the array's end. ``None``: all have one shape.
    fn _chunk_lengths(&self, py: Python<'_>) -> PyResult<Option<Vec<Vec<u64>>>> {
        let array = self.array(py)?;
        grid::lengths(py, &array, array.layout().grid())
    }

    /// Lengths of the objects along each axis: shards, or chunks if the array has no shards.
    fn _object_lengths(&self, py: Python<'_>) -> PyResult<Option<Vec<Vec<u64>>>> {
        let array = self.array(py)?;
        grid::lengths(py, &array, array.layout().object_grid())
    }

    /// Objects per axis, stored or not: shards, or chunks if the array has no shards.
    #[getter]
    fn _object_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let array = self.array(py)?;
        let layout = array.layout();
        PyTuple::new(py, layout.object_grid().counts(layout.shape()))
    }

    /// Elements of a shard per axis. ``None``: the array has no shards, and each chunk is an
    /// object. Raises ``NotImplementedError`` if shards have different shapes (a rectilinear chunk
    /// grid): see ``write_chunk_sizes``.
    #[getter]
    fn shards<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        grid::shard_shape(py, &*self.array(py)?)
    }

    /// Elements of a shard per axis. If shards have different shapes, the longest along each axis.
    /// ``None``: the array has no shards.
    #[getter]
    fn _largest_shard<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.array(py)?.shard_shape().map(|shards| PyTuple::new(py, shards)).transpose()
    }

    /// Number of chunks in all stored objects.
    fn _chunks_stored(&self, py: Python<'_>) -> PyResult<u64> {
        let array = self.array(py)?;
        engine::run(py, |ask| match array.as_zarr() {
            Some(zarr) => Ok::<_, hyperslab::Error>(zarr.chunks_in_stored(zarr.chunks(), Some(ask))?),
            None => Ok(array.chunks_stored(Some(ask))?.0),
        })
    }

    /// Number of chunks per axis, stored or not.
    #[getter]
    fn cdata_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, grid::chunk_counts(&*self.array(py)?))
    }

    /// Number of elements.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<u128> {
        let array = self.array(py)?;
        let shape = array.layout().shape();
        // Metadata may name more elements than fit into 64 bits.
        Ok(element_count(shape)
            .map_or_else(|| shape.iter().fold(1u128, |n, d| n.saturating_mul(u128::from(*d))), u128::from))
    }

    /// Raises an error if changes are refused.
    fn _check_writable(&self, py: Python<'_>) -> PyResult<()> {
        self.writable(py)
    }

    #[getter]
    fn _zarr_format(&self, py: Python<'_>) -> PyResult<u32> {
        self.zarr(py, |array| array.format().number())
    }

    #[getter]
    fn _fortran_order(&self, py: Python<'_>) -> PyResult<bool> {
        self.zarr(py, zarr::Array::fortran_order)
    }

    /// The fill value of an array of objects.
    #[getter]
    fn _fill_object<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let array = self.array(py)?;
        match (&self.types(py, &array)?.elements, array.fill()) {
            (Elements::Vlen(Form::Objects(objects)), Some(fill)) => Ok(Some(objects.object(py, fill)?)),
            _ => Ok(None),
        }
    }

    /// The bytes of the fill value.
    #[getter]
    fn _fill<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.array(py)?.fill().map(|bytes| PyBytes::new(py, bytes)))
    }

    /// Names of the axes. ``None``: they have no names.
    #[getter]
    fn dimension_names<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let array = self.array(py)?;
        let names = py.detach(|| array.dimension_names()).or_raise(py)?;
        names.map(|names| PyTuple::new(py, names)).transpose()
    }

    /// Filters, serializer and compressors as JSON texts.
    #[getter]
    fn _codecs(&self, py: Python<'_>) -> PyResult<(String, Option<String>, String)> {
        let list = |codecs: &[Json]| Json::Array(codecs.to_vec()).to_text(None);
        self.zarr(py, |array| {
            let serializer = array.serializer().map(|json| json.to_text(None));
            (list(array.filters()), serializer, list(array.compressors()))
        })
    }

    /// The metadata document as JSON text.
    #[getter]
    fn _document(&self, py: Python<'_>) -> PyResult<String> {
        self.zarr(py, |array| array.to_json().to_text(None))
    }

    /// The attributes as stored.
    #[getter]
    fn _stored_attributes(&self) -> StoredAttributes {
        StoredAttributes::of(&self.slot, self.read_only)
    }

    /// Frees unused bytes in shards. ``dry_run`` only counts them.
    fn _compact(&self, py: Python<'_>, dry_run: bool) -> PyResult<u64> {
        if !dry_run {
            self.writable(py)?;
        }
        let array = self.array(py)?;
        engine::run(py, |stop| array.compact(dry_run, Some(stop)))
    }

    /// The attributes if they are in a file.
    fn _file_attributes(&self, py: Python<'_>) -> PyResult<Vec<AttributeHandle>> {
        attributes::attributes_of_array(py, &*self.array(py)?)
    }

    /// One attribute if it is in a file.
    fn _file_attribute(&self, py: Python<'_>, name: &str) -> PyResult<Option<AttributeHandle>> {
        attributes::attribute_of_array(py, &*self.array(py)?, name)
    }

    /// Returns `true` if the attribute is in a file.
    fn _has_file_attribute(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        attributes::array_has_attribute(py, &*self.array(py)?, name)
    }

    /// The chunks of a dataset: number, offset, bytes, skipped filters.
    fn _chunk_columns<'py>(&self, py: Python<'py>) -> PyResult<Option<file::ChunkColumns<'py>>> {
        file::chunk_columns(py, &*self.array(py)?)
    }

    /// The metadata of a dataset or variable in a file.
    fn _file_facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        file::facts(py, &*self.array(py)?)
    }

    /// Bytes of the file as stored. ``offset`` counts from the start of the file.
    fn _stored_bytes<'py>(&self, py: Python<'py>, offset: u64, len: usize) -> PyResult<Bound<'py, PyBytes>> {
        file::stored_bytes(py, &*self.array(py)?, offset, len)
    }

    /// A reference to an HDF5 dataset.
    fn _reference<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        references::to_array(py, &*self.array(py)?, None)
    }

    /// A reference to elements of an HDF5 dataset.
    fn _region<'py>(
        &self,
        py: Python<'py>,
        slabs: Vec<(u64, u64, u64, u64)>,
        points: Vec<Vec<u64>>,
        blocks: Vec<(Vec<u64>, Vec<u64>)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array(py)?;
        let region = references::region_of(array.shape().len(), slabs, points, blocks);
        references::to_array(py, &array, Some(region))
    }

    /// The sources of a virtual HDF5 dataset.
    fn _virtual_sources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        file::virtual_sources(py, &*self.array(py)?)
    }

    /// The type of the elements that the engine reads.
    #[getter]
    fn _memory_dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDescr>> {
        Ok(self.types(py, &*self.array(py)?)?.memory.bind(py).clone())
    }

    /// True if elements have variable length and the engine resolves them.
    #[getter]
    fn _is_vlen(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(matches!(self.types(py, &*self.array(py)?)?.elements, Elements::Vlen(_)))
    }

    /// The elements of an HDF5 dataset whose values are Python objects. `None`: the engine reads
    /// the values directly.
    #[getter]
    fn _objects(&self, py: Python<'_>) -> PyResult<Option<ElementHandle>> {
        Ok(ElementHandle::of_objects(&*self.array(py)?))
    }

    /// The elements of an HDF5 dataset.
    #[getter]
    fn _element(&self, py: Python<'_>) -> PyResult<Option<ElementHandle>> {
        Ok(ElementHandle::of_dataset(&*self.array(py)?))
    }

    /// The stored type of the elements of an HDF5 dataset.
    #[getter]
    fn _stored_type(&self, py: Python<'_>) -> PyResult<Option<StoredType>> {
        let array = self.array(py)?;
        Ok(array.as_hdf5().map(|dataset| {
            let datatype = Arc::new(dataset.datatype().clone());
            StoredType::of(dataset.file(), datatype, dataset.committed_type())
        }))
    }

    /// The bytes of the fill value of an HDF5 dataset. ``None``: the file has none.
    #[getter]
    fn _stored_fill<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let array = self.array(py)?;
        let fill = array.as_hdf5().and_then(|dataset| dataset.fill_value());
        Ok(fill.map(|bytes| PyBytes::new(py, bytes)))
    }

    /// Counts the states of the array in this process.
    #[getter]
    fn _version(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.slot.get_versioned(py)?.1)
    }

    /// Writes elements of an HDF5 dataset as they are in memory, as bytes: ``raw`` has the type
    /// ``V``.
    #[pyo3(signature = (selection, raw, meaning=None))]
    fn _set_raw(
        &self,
        py: Python<'_>,
        selection: &Bound<'_, PyAny>,
        raw: &Bound<'_, PyAny>,
        meaning: Option<&str>,
    ) -> PyResult<()> {
        self.writable(py)?;
        let array = self.array(py)?;
        let selection = self.select_as(&array, Some(selection), meaning)?;
        let size = array.layout().dtype().size();
        let dtype = PyArrayDescr::new(py, format!("V{size}"))?;
        assign(array.layout(), &dtype, &selection, raw, Writing::default())
    }

    /// Stores the encoded bytes of a chunk of an HDF5 dataset, by its place in the grid. Bit ``i`` of
    /// ``skipped``: filter ``i`` was left out.
    fn _write_chunk(&self, py: Python<'_>, place: Vec<u64>, bytes: &[u8], skipped: u32) -> PyResult<()> {
        self.writable(py)?;
        let array = self.array(py)?;
        py.detach(|| array.write_direct_chunk(&place, skipped, bytes)).or_raise(py)
    }

    /// The encoded bytes of a chunk of an HDF5 dataset, and the mask of filters that were left out.
    /// ``None``: the chunk is not stored.
    fn _read_chunk<'py>(
        &self,
        py: Python<'py>,
        place: Vec<u64>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, u32)>> {
        let array = self.array(py)?;
        let found = py.detach(|| array.read_direct_chunk(&place)).or_raise(py)?;
        Ok(found.map(|(bytes, skipped)| (PyBytes::new(py, &bytes), skipped)))
    }

    /// Number of stored objects (chunks, or shards) and their bytes.
    fn _stored(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let array = self.array(py)?;
        engine::run(py, |ask| array.chunks_stored(Some(ask)))
    }

    fn _resize(&self, py: Python<'_>, shape: Vec<u64>) -> PyResult<()> {
        self.writable(py)?;
        self.slot.change(py, |array, ask| Ok(array.resize(&shape, Some(ask))?))
    }

    /// Extends an axis by the length of `values` and writes them there. Returns the new shape.
    ///
    /// `values` has the array's type. Before the shape changes, calls `then` with the longer array and the
    /// first new index.
    #[pyo3(signature = (values, like, axis, then=None))]
    fn _append<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyAny>,
        like: Vec<u64>,
        axis: usize,
        then: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        self.writable(py)?;
        let writing = Writing { threads: None, write_empty_chunks: self.write_empty_chunks };
        let (more, values) = (like.get(axis).copied().unwrap_or(0), values.clone().unbind());
        let shape = self.slot.change(py, |array, ask| {
            array.append_with(axis, more, &like, Some(ask), |longer, rows| {
                let selection = longer.select(rows)?;
                // Other threads that wait for this array do not hold the GIL.
                Python::attach(|py| {
                    self.assign(py, longer, &selection, values.bind(py), writing)?;
                    let Some(then) = &then else { return Ok(()) };
                    let first = longer.shape().get(axis).map_or(0, |len| len.saturating_sub(more));
                    then.call1(py, (ArrayHandle::new(longer.clone()), first)).map(drop)
                })
                .map_err(Failed::Python)
            })?;
            Ok(array.shape().to_vec())
        })?;
        PyTuple::new(py, shape)
    }

    /// Reads the metadata again.
    fn _refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.change(py, |array, _| Ok(array.refresh()?))
    }

    /// Raises an error if a chunk of a selection is missing and may not be.
    fn _check_stored(&self, py: Python<'_>, selection: &Bound<'_, PyAny>) -> PyResult<()> {
        let array = self.array(py)?;
        self.check_stored(py, &array, &self.select(&array, Some(selection))?)
    }

    /// Explains what a request would do.
    #[pyo3(signature = (selection=None, write=false, tasks=20, meaning=None))]
    fn _explain<'py>(
        &self,
        py: Python<'py>,
        selection: Option<&Bound<'py, PyAny>>,
        write: bool,
        tasks: usize,
        meaning: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let array = self.array(py)?;
        let selection = self.select_as(&array, selection, meaning)?;
        explain::explanation(py, array.layout(), &selection, write, tasks, self.cache.as_deref())
    }

    /// Read a selection into a new array, or into the caller's memory.
    ///
    /// Parameters
    /// ----------
    /// selection : index, optional
    ///     As in ``array[selection]``. Default: everything.
    /// out : numpy.ndarray or writable buffer, optional
    ///     Memory for the result, with any strides. It must have the array's data type (with its
    ///     byte order) and the selection's shape.
    /// threads : int, optional
    ///     The largest number of threads. Default: ``config.threads``.
    /// verify : bool, optional
    ///     Verify checksums. Default: ``config.verify_checksums``.
    /// masked : bool, default False
    ///     Return a masked array in which elements that equal the fill value are missing. A fill
    ///     value of NaN masks every NaN. (Masked elements that are written become the fill value.)
    ///
    /// Returns
    /// -------
    /// numpy.ndarray
    ///     An array of the selection's shape (0-dimensional for one element), in C order (or F: see
    ///     ``with_config``), or ``out``. With ``masked``, a ``numpy.ma.MaskedArray``.
    ///
    /// Raises
    /// ------
    /// BoundsCheckError
    ///     If an index is outside the array.
    /// ArrayShapeError
    ///     If ``out`` has another shape or data type, or is read-only.
    /// ChunkError
    ///     If a chunk is corrupt. The contents of ``out`` are then unspecified.
    ///
    /// Examples
    /// --------
    /// >>> import hyperslab as hs, numpy as np
    /// >>> z = hs.array([[1, 2, 3], [4, 5, 6]], dtype="i4")
    /// >>> z.read((slice(None), 1))
    /// array([2, 5], dtype=int32)
    /// >>> z.read(0, out=np.empty(3, "i4"))
    /// array([1, 2, 3], dtype=int32)
    #[pyo3(signature = (selection=None, out=None, threads=None, verify=None, *, masked=false))]
    fn read<'py>(
        this: &Bound<'py, Self>,
        selection: Option<&Bound<'py, PyAny>>,
        out: Option<Bound<'py, PyAny>>,
        threads: Option<usize>,
        verify: Option<bool>,
        masked: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        if masked {
            return masked::read(this.py(), this.get(), selection, out, threads, verify);
        }
        this.get().values(this.py(), selection, out, threads, verify)
    }

    /// Read elements of variable length in their memory form: offsets and values.
    ///
    /// Parameters
    /// ----------
    /// selection : index, optional
    ///     As in ``array[selection]``. Default: everything.
    /// threads : int, optional
    ///     The largest number of threads. Default: ``config.threads``.
    /// verify : bool, optional
    ///     Verify checksums. Default: ``config.verify_checksums``.
    ///
    /// Returns
    /// -------
    /// Ragged
    ///     Has the selection's shape. No Python object is made per element.
    ///
    /// Raises
    /// ------
    /// TypeError
    ///     If elements have a fixed size.
    /// BoundsCheckError
    ///     If an index is outside the array.
    /// ChunkError
    ///     If a chunk or the heap is corrupt.
    ///
    /// Examples
    /// --------
    /// >>> import hyperslab as hs
    /// >>> z = hs.create_array(hs.MemoryStore(), shape=(3,), dtype="string")
    /// >>> z[...] = ["Rhine", "", "Rhône"]
    /// >>> names = z.read_ragged()
    /// >>> names.offsets, names[2]
    /// (array([ 0,  5,  5, 11]), 'Rhône')
    #[pyo3(signature = (selection=None, *, threads=None, verify=None))]
    fn read_ragged<'py>(
        &self,
        py: Python<'py>,
        selection: Option<&Bound<'py, PyAny>>,
        threads: Option<usize>,
        verify: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array(py)?;
        let form = self.form(&array, self.types(py, &array)?)?;
        let selection = self.select(&array, selection)?;
        let reading = Reading { threads, verify, ..self.reading(py, &array, &selection)? };
        ragged::to_python(py, vlen::read(py, &array, form, &selection, reading)?, form)
    }

    /// Text of variable length, decoded, as `str` or as NumPy strings of `dtype`.
    #[pyo3(signature = (selection, encoding, errors, dtype=None))]
    fn _text<'py>(
        &self,
        py: Python<'py>,
        selection: &Bound<'py, PyAny>,
        encoding: &str,
        errors: &str,
        dtype: Option<&Bound<'py, PyArrayDescr>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array(py)?;
        let types = self.types(py, &array)?;
        let form = self.form(&array, types)?;
        let selection = self.select(&array, Some(selection))?;
        let shown = match dtype {
            Some(dtype) => Shown::Strings(dtype),
            None => Shown::Text { encoding: &cells::encoding(encoding), errors },
        };
        let found = vlen::read(py, &array, form, &selection, self.reading(py, &array, &selection)?)?;
        vlen::to_numpy(found, form, types.values.bind(py), selection.is_scalar(), shown)
    }

    /// Values to write: masked elements become the fill value. (Elements that may be missing are
    /// written with their mask.)
    fn _unmasked<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        let array = self.array(py)?;
        match array.optional() {
            Some(_) => Ok(value.clone()),
            None => masked::unmasked(&array, self.types(py, &array)?.values.bind(py), value),
        }
    }

    /// Reads the elements as the engine returns them, before they become Python objects.
    #[pyo3(signature = (selection, meaning=None, threads=None, verify=None))]
    fn _raw<'py>(
        &self,
        py: Python<'py>,
        selection: Option<&Bound<'py, PyAny>>,
        meaning: Option<&str>,
        threads: Option<usize>,
        verify: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array(py)?;
        let selection = self.select_as(&array, selection, meaning)?;
        let reading = Reading { threads, verify, ..self.reading(py, &array, &selection)? };
        let dtype = self.types(py, &array)?.memory.bind(py);
        Ok(read_new(array.layout(), dtype, &selection, reading)?.into_any())
    }

    /// ``array[selection] = value``, with options.
    ///
    /// Parameters
    /// ----------
    /// selection : index or None
    ///     As in ``array[selection]``. ``None``: everything.
    /// value : array-like
    ///     Converted to the array's data type and broadcast to the selection's shape, as in NumPy.
    /// threads : int, optional
    ///     The largest number of threads. Default: ``config.threads``.
    /// write_empty_chunks : bool, optional
    ///     Store chunks that hold only the fill value. Default: the array's own setting, else
    ///     ``config.write_empty_chunks``.
    ///
    /// Raises
    /// ------
    /// BoundsCheckError
    ///     If an index is outside the array.
    /// ArrayShapeError
    ///     If ``value`` cannot be broadcast.
    /// ReadOnlyError
    ///     If the array was opened for reading.
    /// StoreError
    ///     If the store fails. Each chunk then has its old or its new contents.
    ///
    /// Examples
    /// --------
    /// >>> import hyperslab as hs
    /// >>> z = hs.zeros((4,), chunks=(2,), dtype="i4")
    /// >>> z.write(..., 0, write_empty_chunks=True)
    /// >>> z.nchunks_initialized
    /// 2
    #[pyo3(signature = (selection, value, threads=None, write_empty_chunks=None))]
    fn write(
        &self,
        py: Python<'_>,
        selection: Option<&Bound<'_, PyAny>>,
        value: &Bound<'_, PyAny>,
        threads: Option<usize>,
        write_empty_chunks: Option<bool>,
    ) -> PyResult<()> {
        self.writable(py)?;
        let array = self.array(py)?;
        let selection = self.select(&array, selection)?;
        let writing = Writing { threads, write_empty_chunks: write_empty_chunks.or(self.write_empty_chunks) };
        self.assign(py, &array, &selection, value, writing)
    }

    fn __getitem__<'py>(
        this: &Bound<'py, Self>,
        selection: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, base) = (this.py(), this.get());
        let array = base.array(py)?;
        let types = base.types(py, &array)?;
        let is_object = matches!(types.elements, Elements::Objects);
        let in_file = base.slot.file().is_some();
        let kind = kind(selection, in_file);
        match kind {
            Kind::Region => this.call_method1(interned!(py, "_read_region"), (selection,)),
            Kind::Names if matches!(types.elements, Elements::Structures) => {
                this.call_method1(interned!(py, "_read_fields"), pop_fields(selection)?)
            }
            Kind::Names if in_file => {
                this.call_method1(interned!(py, "_read_members"), split_names(selection)?)
            }
            _ if is_object || in_file && (array.shape().is_empty() || kind == Kind::Blocks) => {
                this.call_method1(interned!(py, "_read_objects"), (selection,))
            }
            Kind::NewAxis => this.call_method1(interned!(py, "_read_view"), (selection,)),
            _ => base.item(py, &array, types, &base.select(&array, Some(selection))?),
        }
    }

    fn __setitem__(
        this: &Bound<'_, Self>,
        selection: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (py, base) = (this.py(), this.get());
        match kind(selection, false) {
            Kind::Names if base.array(py)?.structure().is_some() => {
                let (names, rest) = pop_fields(selection)?;
                this.call_method1(interned!(py, "_write_fields"), (names, rest, value)).map(drop)
            }
            Kind::NewAxis => this.call_method1(interned!(py, "_write_view"), (selection, value)).map(drop),
            _ => base.write(py, Some(selection), value, None, None),
        }
    }

    /// Reads a selection whose index has the given ``meaning``, into a new array or into ``out``.
    #[pyo3(signature = (meaning, selection, out=None, threads=None))]
    fn _get<'py>(
        &self,
        py: Python<'py>,
        meaning: &str,
        selection: &Bound<'py, PyAny>,
        out: Option<Bound<'py, PyAny>>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array(py)?;
        let types = self.types(py, &array)?;
        let selection = self.select_as(&array, Some(selection), Some(meaning))?;
        match out {
            None => self.item(py, &array, types, &selection),
            Some(out) => {
                let reading = Reading { threads, ..self.reading(py, &array, &selection)? };
                self.item_into(py, &array, types, &selection, out, reading)
            }
        }
    }

    /// Writes a selection whose index has the given ``meaning``.
    #[pyo3(signature = (meaning, selection, value, threads=None))]
    fn _set(
        &self,
        py: Python<'_>,
        meaning: &str,
        selection: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        threads: Option<usize>,
    ) -> PyResult<()> {
        self.writable(py)?;
        let array = self.array(py)?;
        let selection = self.select_as(&array, Some(selection), Some(meaning))?;
        let writing = Writing { threads, write_empty_chunks: self.write_empty_chunks };
        self.assign(py, &array, &selection, value, writing)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        match self.array(py)?.layout().shape().first() {
            Some(len) => Ok(*len as usize),
            None => Err(PyTypeError::new_err("len() of an array without axes")),
        }
    }

    /// Always true, as in zarr-python: `if array:` tests that there is an array, not its length.
    fn __bool__(&self) -> bool {
        true
    }
}
