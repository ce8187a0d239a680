//! The base class of `hyperslab.Array`.

use crate::cache::CacheBase;
use crate::create;
use crate::engine::Signals;
use crate::errors;
use crate::explain;
use crate::fancy::{self, Meaning};
use crate::index::selection;
use crate::output::{Reading, read_item, read_new, read_out};
use crate::slot::{Slot, Stored};
use crate::store::StoreHandle;
use crate::values::{Writing, assign};
use hyperslab::array::{ChunkCache, Selection, element_count, explain_read_cached, explain_write};
use hyperslab::store::Store;
use hyperslab::zarr::{Array, Format, Json, ZarrError};
use numpy::PyArrayDescr;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::sync::Arc;

impl Stored for Array {
    fn open(store: &Arc<dyn Store>, path: &str, format: Option<Format>) -> Result<Self, ZarrError> {
        Array::open(store, path, format)
    }
}

/// An array to make an `ArrayBase` of; perhaps not open yet.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct ArrayHandle {
    pub(crate) slot: Arc<Slot<Array>>,
}

impl ArrayHandle {
    pub(crate) fn new(array: Array) -> Self {
        let (store, path, format) = (array.store().clone(), array.path().to_owned(), array.format());
        ArrayHandle { slot: Slot::open(store, path, format, array) }
    }
}

#[pymethods]
impl ArrayHandle {
    /// An array to be opened when it is first used.
    #[staticmethod]
    fn deferred(store: &StoreHandle, path: String, zarr_format: Option<u32>) -> PyResult<Self> {
        let format = create::format(zarr_format)?;
        Ok(ArrayHandle { slot: Slot::deferred(store.store.clone(), path, format) })
    }
}

/// What is fast or unsafe about an array.
#[pyclass(frozen, subclass, module = "hyperslab._native")]
pub(crate) struct ArrayBase {
    slot: Arc<Slot<Array>>,
    read_only: bool,
    write_empty_chunks: Option<bool>,
    /// Where decoded chunks are kept.
    cache: Option<Arc<ChunkCache>>,
    /// NumPy's description of the element type: made once. (A resize does not change it.)
    dtype: PyOnceLock<Py<PyArrayDescr>>,
}

impl ArrayBase {
    fn array(&self, py: Python<'_>) -> PyResult<Arc<Array>> {
        self.slot.get(py)
    }

    fn descr<'py>(&self, py: Python<'py>, array: &Array) -> PyResult<&Bound<'py, PyArrayDescr>> {
        let made = || PyArrayDescr::new(py, array.layout().dtype().numpy()).map(Bound::unbind);
        Ok(self.dtype.get_or_try_init(py, made)?.bind(py))
    }

    /// How this array is read. Results have the order in which Zarr v2 metadata says that elements are stored, as with zarr-python.
    fn reading(&self, array: &Array) -> Reading<'_> {
        let fortran = array.format() == Format::V2 && !array.layout().encoding().is_c_order();
        Reading { fortran, cache: self.cache.as_deref(), ..Reading::default() }
    }

    fn writable(&self, py: Python<'_>) -> PyResult<()> {
        if self.read_only {
            let message = format!(
                "array '/{}': store was opened in read-only mode and does not support writing",
                self.slot.path()
            );
            return Err(errors::exception(py, "ReadOnlyError", message));
        }
        Ok(())
    }

    fn select(&self, array: &Array, key: Option<&Bound<'_, PyAny>>) -> PyResult<Selection> {
        match key {
            Some(key) => selection(key, array.layout()),
            None => Ok(Selection::all(array.layout().shape())),
        }
    }
}

#[pymethods]
impl ArrayBase {
    #[new]
    #[pyo3(signature = (handle, read_only=false, write_empty_chunks=None, cache=None))]
    fn new(
        handle: &ArrayHandle,
        read_only: bool,
        write_empty_chunks: Option<bool>,
        cache: Option<&CacheBase>,
    ) -> Self {
        let cache = cache.map(|cache| cache.cache.clone());
        let slot = handle.slot.clone();
        ArrayBase { slot, read_only, write_empty_chunks, cache, dtype: PyOnceLock::new() }
    }

    /// What shares this array's state.
    #[getter]
    fn _handle(&self) -> ArrayHandle {
        ArrayHandle { slot: self.slot.clone() }
    }

    /// Whether changes are refused.
    #[getter]
    fn read_only(&self) -> bool {
        self.read_only
    }

    /// The path in the store; empty for the root.
    #[getter]
    fn path(&self) -> &str {
        self.slot.path()
    }

    /// Elements per axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array(py)?.layout().shape())
    }

    /// Number of axes.
    #[getter]
    fn ndim(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.array(py)?.layout().shape().len())
    }

    /// The element type.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDescr>> {
        self.descr(py, &*self.array(py)?).cloned()
    }

    /// Elements of a chunk per axis. Where shards lie within shards, of the chunks of the outermost.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array(py)?.chunks())
    }

    /// Elements of a shard per axis; ``None``: the array has no shards, each chunk is an object of its own.
    #[getter]
    fn shards<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.array(py)?.shards().map(|shards| PyTuple::new(py, shards)).transpose()
    }

    /// Number of chunks per axis, stored or not.
    #[getter]
    fn cdata_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let array = self.array(py)?;
        let axes = array.layout().shape().iter().zip(array.chunks());
        PyTuple::new(py, axes.map(|(n, chunk)| n.div_ceil(*chunk)).collect::<Vec<_>>())
    }

    /// Number of elements.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<u128> {
        let array = self.array(py)?;
        let shape = array.layout().shape();
        // Metadata may name more elements than 64 bits count.
        Ok(element_count(shape)
            .map_or_else(|| shape.iter().fold(1u128, |n, d| n.saturating_mul(u128::from(*d))), u128::from))
    }

    #[getter]
    fn _zarr_format(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.array(py)?.format().number())
    }

    #[getter]
    fn _fortran_order(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.array(py)?.fortran_order())
    }

    /// The bytes of the fill value.
    #[getter]
    fn _fill<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.array(py)?.fill().map(|bytes| PyBytes::new(py, bytes)))
    }

    /// Names of the axes; ``None`` where they have none.
    #[getter]
    fn dimension_names<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.array(py)?.dimension_names().map(|names| PyTuple::new(py, names)).transpose()
    }

    /// Filters, serializer and compressors, as JSON texts.
    #[getter]
    fn _codecs(&self, py: Python<'_>) -> PyResult<(String, Option<String>, String)> {
        let array = self.array(py)?;
        let list = |codecs: &[Json]| Json::Array(codecs.to_vec()).to_text(None);
        Ok((
            list(array.filters()),
            array.serializer().map(|json| json.to_text(None)),
            list(array.compressors()),
        ))
    }

    /// The metadata document, as JSON text.
    #[getter]
    fn _document(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.array(py)?.to_json().to_text(None))
    }

    /// The attributes, as JSON text.
    #[getter]
    fn _attributes(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.array(py)?.attributes().to_text(None))
    }

    /// Replaces all attributes by those of a JSON text.
    fn _set_attributes(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        self.writable(py)?;
        let attributes = create::json(py, "attributes", text)?;
        self.slot.change(py, |array| array.set_attributes(attributes))
    }

    /// Adds or replaces the attributes of a JSON text. The others keep the form in which somebody wrote them.
    fn _update_attributes(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        self.writable(py)?;
        let new = create::json(py, "attributes", text)?;
        self.slot.change(py, |array| array.set_attributes(create::merged(array.attributes(), new)))
    }

    /// Removes an attribute; returns whether there was one.
    fn _delete_attribute(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.writable(py)?;
        self.slot.change(py, |array| {
            let mut attributes = array.attributes().clone();
            let found = attributes.remove(name).is_some();
            if found {
                array.set_attributes(attributes)?;
            }
            Ok(found)
        })
    }

    /// Gives back the bytes of shards that nothing refers to, or only counts them.
    fn _compact(&self, py: Python<'_>, dry_run: bool) -> PyResult<u64> {
        if !dry_run {
            self.writable(py)?;
        }
        let array = self.array(py)?;
        let (result, raised) = py.detach(|| {
            let signals = Signals::new();
            let result = array.compact(dry_run, Some(&|| signals.ask()));
            (result, signals.raised())
        });
        match raised {
            Some(raised) => Err(raised),
            None => result.map_err(|error| errors::zarr(py, &error)),
        }
    }

    /// Number of objects (chunks, or shards) stored, and their bytes.
    fn _stored(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let array = self.array(py)?;
        py.detach(|| array.chunks_stored()).map_err(|error| errors::zarr(py, &error))
    }

    fn _resize(&self, py: Python<'_>, shape: Vec<u64>) -> PyResult<()> {
        self.writable(py)?;
        self.slot.change(py, |array| array.resize(&shape))
    }

    /// Reads the metadata again.
    fn _refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.change(py, Array::refresh)
    }

    #[pyo3(signature = (selection=None, write=false, tasks=20))]
    fn _explain<'py>(
        &self,
        py: Python<'py>,
        selection: Option<&Bound<'py, PyAny>>,
        write: bool,
        tasks: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let array = self.array(py)?;
        let selection = self.select(&array, selection)?;
        let told = py
            .detach(|| {
                if write {
                    explain_write(array.layout(), &selection, tasks)
                } else {
                    explain_read_cached(array.layout(), &selection, tasks, self.cache.as_deref())
                }
            })
            .map_err(|error| errors::array(py, &error))?;
        explain::to_dict(py, &told)
    }

    /// Read a selection into a new array, or into memory of the caller.
    ///
    /// Parameters
    /// ----------
    /// selection : index, optional
    ///     As in ``array[selection]``; by default everything.
    /// out : numpy.ndarray or writable buffer, optional
    ///     Where to: any strides; exactly the array's data type (with its byte order) and the selection's shape.
    /// threads : int, optional
    ///     How many threads may work on it. Default: ``config.threads``.
    /// verify : bool, optional
    ///     Whether checksums are verified. Default: ``config.verify_checksums``.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray
    ///     Of the selection's shape (0-dimensional for one element), in C order (of a Zarr v2 array of order "F":
    ///     in that); or ``out``.
    ///
    /// Raises
    /// ------
    /// BoundsCheckError
    ///     For an index outside the array.
    /// ArrayShapeError
    ///     Where ``out`` has another shape or data type, or is read-only.
    /// ChunkError
    ///     For a corrupt chunk. What ``out`` holds is then unspecified.
    ///
    /// Examples
    /// --------
    /// >>> import hyperslab as hs, numpy as np
    /// >>> z = hs.array([[1, 2, 3], [4, 5, 6]], dtype="i4")
    /// >>> z.read((slice(None), 1))
    /// array([2, 5], dtype=int32)
    /// >>> z.read(0, out=np.empty(3, "i4"))
    /// array([1, 2, 3], dtype=int32)
    #[pyo3(signature = (selection=None, out=None, threads=None, verify=None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        selection: Option<&Bound<'py, PyAny>>,
        out: Option<Bound<'py, PyAny>>,
        threads: Option<usize>,
        verify: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array(py)?;
        let dtype = self.descr(py, &array)?;
        let selection = self.select(&array, selection)?;
        let reading = Reading { threads, verify, ..self.reading(&array) };
        match out {
            None => Ok(read_new(array.layout(), dtype, &selection, reading)?.into_any()),
            Some(out) => {
                read_out(array.layout(), dtype, &selection, &out, reading)?;
                Ok(out)
            }
        }
    }

    /// ``array[selection] = value``, with options.
    ///
    /// Parameters
    /// ----------
    /// selection : index or None
    ///     As in ``array[selection]``; ``None``: everything.
    /// value : array-like
    ///     Converted to the array's data type and broadcast to the selection's shape, as NumPy does in an assignment.
    /// threads : int, optional
    ///     How many threads may work on it. Default: ``config.threads``.
    /// write_empty_chunks : bool, optional
    ///     Whether chunks of nothing but fill value are stored. Default: the array's own setting, else
    ///     ``config.write_empty_chunks``.
    ///
    /// Raises
    /// ------
    /// BoundsCheckError
    ///     For an index outside the array.
    /// ArrayShapeError
    ///     Where ``value`` cannot be broadcast.
    /// ReadOnlyError
    ///     Where the array was opened for reading.
    /// StoreError
    ///     Where the store fails. Each chunk is then as it was, or new.
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
        assign(array.layout(), self.descr(py, &array)?, &selection, value, writing)
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        selection: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array(py)?;
        let dtype = self.descr(py, &array)?;
        let selection = self.select(&array, Some(selection))?;
        read_item(array.layout(), dtype, &selection, self.reading(&array))
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        selection: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.write(py, Some(selection), value, None, None)
    }

    /// What an index of another meaning than that of ``array[selection]`` selects: in a new array, or in ``out``.
    #[pyo3(signature = (meaning, selection, out=None))]
    fn _get<'py>(
        &self,
        py: Python<'py>,
        meaning: &str,
        selection: &Bound<'py, PyAny>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array(py)?;
        let dtype = self.descr(py, &array)?;
        let selection = fancy::selection(selection, array.layout(), Meaning::named(py, meaning)?)?;
        match out {
            None => read_item(array.layout(), dtype, &selection, self.reading(&array)),
            Some(out) => {
                read_out(array.layout(), dtype, &selection, &out, self.reading(&array))?;
                Ok(out)
            }
        }
    }

    /// Writes what such an index selects.
    fn _set(
        &self,
        py: Python<'_>,
        meaning: &str,
        selection: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.writable(py)?;
        let array = self.array(py)?;
        let selection = fancy::selection(selection, array.layout(), Meaning::named(py, meaning)?)?;
        let writing = Writing { threads: None, write_empty_chunks: self.write_empty_chunks };
        assign(array.layout(), self.descr(py, &array)?, &selection, value, writing)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        match self.array(py)?.layout().shape().first() {
            Some(len) => Ok(*len as usize),
            None => Err(PyTypeError::new_err("len() of an array without axes")),
        }
    }

    /// Always true, as in zarr-python: `if array:` asks whether there is one, not how long it is.
    fn __bool__(&self) -> bool {
        true
    }
}
