//! Converts between the elements of `json2` or `msgpack2` arrays and Python objects.

use crate::errors;
use crate::gil::once::interned;
use crate::values::cells::{Cells, new_objects};
use crate::values::elements::is_scalar;
use crate::values::lists::is_list;
use crate::values::masked_arrays::{has_masked, is_masked_array};
use crate::values::msgpack;
use crate::values::vlen_input::objects_of;
use hyperslab::array::{Ragged, Selection};
use hyperslab::codec::json_items;
use hyperslab::zarr::Json;
use hyperslab::{Array, Memory, VlenKind};
use numpy::{PyArrayDescr, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use std::sync::Arc;

/// Number of objects that are converted from or to JSON in one call.
const BATCH: usize = 1 << 14;

/// Converts the bytes of elements to objects, and objects to bytes.
pub(crate) enum Objects {
    /// JSON text without white space: methods of Python's `json`.
    Json {
        decode: Py<PyAny>,
        encode: Py<PyAny>,
    },
    MessagePack(msgpack::Settings),
}

impl Objects {
    /// Returns the converter for an array of this kind.
    pub(crate) fn of(py: Python<'_>, array: &Array, kind: VlenKind) -> PyResult<Self> {
        Self::of_filter(py, kind, array.as_zarr().and_then(|array| array.object_codec()))
    }

    /// Returns the converter for an array's filter. Missing settings have numcodecs' defaults.
    fn of_filter(py: Python<'_>, kind: VlenKind, filter: Option<&Json>) -> PyResult<Self> {
        let setting = |name: &str, otherwise: bool| match filter.and_then(|filter| filter.get(name)) {
            Some(Json::Bool(value)) => *value,
            _ => otherwise,
        };
        if kind == VlenKind::MessagePack {
            return Ok(Objects::MessagePack(msgpack::Settings {
                raw: setting("raw", false),
                use_single_float: setting("use_single_float", false),
                use_bin_type: setting("use_bin_type", true),
            }));
        }
        let json = py.import("json")?;
        let reading = PyDict::new(py);
        reading.set_item("strict", setting("strict", true))?;
        let writing = PyDict::new(py);
        for (name, otherwise) in [
            ("skipkeys", false),
            ("ensure_ascii", true),
            ("check_circular", true),
            ("allow_nan", true),
            ("sort_keys", true),
        ] {
            writing.set_item(name, setting(name, otherwise))?;
        }
        writing.set_item("separators", (",", ":"))?;
        let decoder = json.getattr("JSONDecoder")?.call((), Some(&reading))?;
        let encoder = json.getattr("JSONEncoder")?.call((), Some(&writing))?;
        Ok(Objects::Json {
            decode: decoder.getattr("raw_decode")?.unbind(),
            encode: encoder.getattr("encode")?.unbind(),
        })
    }

    /// Converts an element to an object.
    pub(crate) fn object<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Objects::Json { decode, .. } => {
                let text = PyString::from_bytes(py, bytes)?;
                let found = decode.bind(py).call1((text,))?;
                Ok(found.cast::<PyTuple>()?.get_item(0)?)
            }
            Objects::MessagePack(settings) => msgpack::unpack(py, bytes, *settings),
        }
    }

    /// Converts elements to an array of objects. Many JSON texts are parsed in one call, because a
    /// call of Python's `json` takes longer than a short text.
    pub(crate) fn array<'py>(
        &self,
        cells: Cells<'_>,
        dtype: &Bound<'py, PyArrayDescr>,
        shape: &[u64],
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let py = dtype.py();
        if let Objects::MessagePack(_) = self {
            return new_objects(dtype, shape, |index| self.object(py, cells.bytes(index)));
        }
        let (mut text, mut batch) = (Vec::new(), PyList::empty(py));
        new_objects(dtype, shape, |index| {
            if index % BATCH == 0 {
                text.clear();
                for index in index..cells.len().min(index + BATCH) {
                    text.push(if text.is_empty() { b'[' } else { b',' });
                    text.extend_from_slice(cells.bytes(index));
                }
                text.push(b']');
                batch = self.object(py, &text)?.cast_into::<PyList>()?;
            }
            batch.get_item(index % BATCH)
        })
    }

    /// Appends the bytes of an object.
    fn add(&self, object: &Bound<'_, PyAny>, to: &mut Vec<u8>) -> PyResult<()> {
        match self {
            Objects::Json { encode, .. } => {
                let text = encode.bind(object.py()).call1((object,))?;
                to.extend_from_slice(text.cast::<PyString>()?.to_str()?.as_bytes());
                Ok(())
            }
            Objects::MessagePack(settings) => msgpack::pack(object, *settings, to),
        }
    }

    /// Appends the bytes of many objects, and the end of each.
    fn add_all(
        &self,
        objects: &[Bound<'_, PyAny>],
        offsets: &mut Vec<i64>,
        to: &mut Vec<u8>,
    ) -> PyResult<()> {
        for batch in objects.chunks(BATCH) {
            let (count, size) = (offsets.len(), to.len());
            if matches!(self, Objects::Json { .. }) && self.add_list(batch, offsets, to)? {
                continue;
            }
            // One of the objects may have no JSON. Converting them one by one finds it.
            offsets.truncate(count);
            to.truncate(size);
            for object in batch {
                self.add(object, to)?;
                offsets.push(to.len() as i64);
            }
        }
        Ok(())
    }

    /// Appends the JSON of many objects, made in one call. `false`: that does not work.
    ///
    /// Fails only with exceptions that must not be caught, such as `KeyboardInterrupt`.
    fn add_list(
        &self,
        objects: &[Bound<'_, PyAny>],
        offsets: &mut Vec<i64>,
        to: &mut Vec<u8>,
    ) -> PyResult<bool> {
        let Some(first) = objects.first() else { return Ok(true) };
        let (py, count) = (first.py(), offsets.len() + objects.len());
        let mut text = Vec::new();
        match self.add(PyList::new(py, objects)?.as_any(), &mut text) {
            Err(error) if error.is_instance_of::<PyException>(py) => return Ok(false),
            added => added?,
        }
        let split = std::str::from_utf8(&text).is_ok_and(|text| {
            let items = json_items(text, |item| {
                to.extend_from_slice(item);
                offsets.push(to.len() as i64);
            });
            items.is_ok()
        });
        Ok(split && offsets.len() == count)
    }

    /// Converts values for a selection to the engine's form. The outer levels of lists are axes, as
    /// many as the selection has.
    pub(crate) fn values(
        &self,
        value: &Bound<'_, PyAny>,
        selection: &Selection,
        array: &Array,
    ) -> PyResult<Arc<Ragged>> {
        let py = value.py();
        let Collected { shape, objects } = collect(value, selection.shape().len())?;
        let (mut offsets, mut bytes) = (Vec::with_capacity(objects.len() + 1), Vec::new());
        offsets.push(0);
        self.add_all(&objects, &mut offsets, &mut bytes).map_err(|error| {
            let index = offsets.len() - 1;
            let note = format!("array '{}': value {index} in C order cannot be stored", array.name());
            let noted = error.value(py).call_method1(interned!(py, "add_note"), (note,));
            noted.map_or_else(|other| other, |_| error)
        })?;
        let no_memory = || {
            let message = format!("array '{}': no memory for {} bytes of values", array.name(), bytes.len());
            errors::exception(py, "OutOfMemoryError", message)
        };
        let mut values = Memory::dirty(bytes.len()).ok_or_else(no_memory)?;
        values.as_mut_slice().copy_from_slice(&bytes);
        Ok(Arc::new(Ragged { shape: shape.as_slice().into(), offsets, values, validity: None }))
    }
}

/// Objects in C order, and their number per axis.
struct Collected<'py> {
    shape: Vec<u64>,
    objects: Vec<Bound<'py, PyAny>>,
}

/// Collects objects. The outer `ndim` levels of lists become axes. Elements of arrays become
/// Python's objects.
fn collect<'py>(values: &Bound<'py, PyAny>, ndim: usize) -> PyResult<Collected<'py>> {
    let py = values.py();
    if is_masked_array(values)? && has_masked(values)? {
        let message = "masked objects have no value to write: fill them before: values.filled(…)";
        return Err(errors::exception(py, "ArgumentTypeError", message));
    }
    if is_list(values) {
        let mut shape = Vec::new();
        let mut level = Some(values.clone());
        while let Some(list) = level.filter(|level| is_list(level) && shape.len() < ndim) {
            shape.push(list.len()? as u64);
            level = list.try_iter()?.next().transpose()?;
        }
        let mut objects = Vec::new();
        flatten(values, &shape, 0, &mut objects)?;
        return Ok(Collected { shape, objects });
    }
    if is_scalar(values)? {
        let object = values.call_method0(interned!(py, "item"))?;
        return Ok(Collected { shape: Vec::new(), objects: vec![object] });
    }
    if values.hasattr(interned!(py, "__array__"))? {
        let object = numpy::dtype::<Py<PyAny>>(py);
        let array = py
            .import(interned!(py, "numpy"))?
            .call_method1(interned!(py, "asarray"), (values,))?
            .call_method1(interned!(py, "astype"), (object,))?
            .cast_into::<PyUntypedArray>()?;
        let shape = array.shape().iter().map(|len| *len as u64).collect();
        return Ok(Collected { shape, objects: objects_of(&array) });
    }
    Ok(Collected { shape: Vec::new(), objects: vec![values.clone()] })
}

/// Collects the items of nested lists of this shape. The items may be lists too.
fn flatten<'py>(
    values: &Bound<'py, PyAny>,
    shape: &[u64],
    depth: usize,
    objects: &mut Vec<Bound<'py, PyAny>>,
) -> PyResult<()> {
    let Some(len) = shape.get(depth) else {
        objects.push(values.clone());
        return Ok(());
    };
    if !is_list(values) || values.len()? as u64 != *len {
        let message = format!("lists of level {depth} differ in length: they make no array");
        return Err(errors::invalid(values.py(), message));
    }
    for item in values.try_iter()? {
        flatten(&item?, shape, depth + 1, objects)?;
    }
    Ok(())
}

/// Returns values as an array of objects. The outer `ndim` levels of lists become axes.
#[pyfunction]
pub(crate) fn objects_array<'py>(
    values: &Bound<'py, PyAny>,
    ndim: usize,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let Collected { shape, objects } = collect(values, ndim)?;
    let missing = || PyValueError::new_err("a list changed while its objects were collected");
    let mut objects = objects.into_iter();
    new_objects(&numpy::dtype::<Py<PyAny>>(values.py()), &shape, |_| objects.next().ok_or_else(missing))
}

/// Returns the bytes of an object as an element. `codec` is the metadata of `json2` or `msgpack2`,
/// as JSON text.
#[pyfunction]
pub(crate) fn object_bytes<'py>(object: &Bound<'py, PyAny>, codec: &str) -> PyResult<Bound<'py, PyBytes>> {
    let py = object.py();
    let filter = crate::nodes::create::json(py, "filters", codec)?;
    let kind = match filter.get("id").and_then(Json::as_str) {
        Some("msgpack2") => VlenKind::MessagePack,
        _ => VlenKind::Json,
    };
    let mut bytes = Vec::new();
    Objects::of_filter(py, kind, Some(&filter))?.add(object, &mut bytes)?;
    Ok(PyBytes::new(py, &bytes))
}
