//! Python's objects as elements: what is in an array of `json2` or `msgpack2`, and what Python has.

use crate::errors;
use crate::msgpack;
use crate::once::interned;
use crate::vlen_input::objects_of;
use hyperslab::array::{Ragged, Selection};
use hyperslab::zarr::Json;
use hyperslab::{Array, Memory, VlenKind};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use std::sync::Arc;

/// Makes objects of the bytes of elements, and the other way round.
pub(crate) enum Objects {
    /// Text of JSON, without white space: methods of Python's `json`.
    Json {
        decode: Py<PyAny>,
        encode: Py<PyAny>,
    },
    MessagePack(msgpack::Settings),
}

impl Objects {
    /// Of an array whose elements are that.
    pub(crate) fn of(py: Python<'_>, array: &Array, kind: VlenKind) -> PyResult<Self> {
        let filters = array.as_zarr().map(|array| array.filters()).unwrap_or_default();
        Self::of_filter(py, kind, filters.first())
    }

    /// Of the filter that an array has; what it does not say is as numcodecs has it.
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

    /// The object of an element.
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

    /// Adds the bytes of an object.
    pub(crate) fn add(&self, object: &Bound<'_, PyAny>, to: &mut Vec<u8>) -> PyResult<()> {
        match self {
            Objects::Json { encode, .. } => {
                let text = encode.bind(object.py()).call1((object,))?;
                to.extend_from_slice(text.cast::<PyString>()?.to_str()?.as_bytes());
                Ok(())
            }
            Objects::MessagePack(settings) => msgpack::pack(object, *settings, to),
        }
    }

    /// Values for a selection of an array, as the engine has them. Of lists as many levels are axes
    /// as the selection has.
    pub(crate) fn values(
        &self,
        value: &Bound<'_, PyAny>,
        selection: &Selection,
        array: &Array,
    ) -> PyResult<Arc<Ragged>> {
        let py = value.py();
        let given = py
            .import(interned!(py, "hyperslab._vlen"))?
            .call_method1(interned!(py, "objects_array"), (value, selection.shape().len()))?;
        let given = given.cast_into::<PyUntypedArray>()?;
        let objects = objects_of(&given);
        let (mut offsets, mut bytes) = (Vec::with_capacity(objects.len() + 1), Vec::new());
        offsets.push(0);
        for (index, object) in objects.iter().enumerate() {
            self.add(object, &mut bytes).map_err(|error| {
                let note = format!("array '{}': value {index} in C order cannot be stored", array.name());
                let noted = error.value(py).call_method1(interned!(py, "add_note"), (note,));
                noted.map_or_else(|other| other, |_| error)
            })?;
            offsets.push(bytes.len() as i64);
        }
        let no_memory = || {
            let message = format!("array '{}': no memory for {} bytes of values", array.name(), bytes.len());
            errors::exception(py, "OutOfMemoryError", message)
        };
        let mut values = Memory::dirty(bytes.len()).ok_or_else(no_memory)?;
        values.as_mut_slice().copy_from_slice(&bytes);
        let shape: Vec<u64> = given.shape().iter().map(|len| *len as u64).collect();
        Ok(Arc::new(Ragged { shape: shape.as_slice().into(), offsets, values, validity: None }))
    }
}

/// The bytes of one object, as elements are stored by a codec: `json2` or `msgpack2`, with its
/// metadata as JSON text.
#[pyfunction]
pub(crate) fn object_bytes<'py>(object: &Bound<'py, PyAny>, codec: &str) -> PyResult<Bound<'py, PyBytes>> {
    let py = object.py();
    let filter = crate::create::json(py, "filters", codec)?;
    let kind = match filter.get("id").and_then(Json::as_str) {
        Some("msgpack2") => VlenKind::MessagePack,
        _ => VlenKind::Json,
    };
    let mut bytes = Vec::new();
    Objects::of_filter(py, kind, Some(&filter))?.add(object, &mut bytes)?;
    Ok(PyBytes::new(py, &bytes))
}
