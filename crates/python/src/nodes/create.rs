//! Creates nodes.

use crate::errors::{self, Failed};
use crate::gil::engine;
use crate::gil::once::items;
use crate::nodes::handles::{ArrayHandle, GroupHandle};
use crate::stores::store::StoreHandle;
use hyperslab::codec::{DataType, VlenKind};
use hyperslab::store::Ask;
use hyperslab::zarr::{
    Array, ArraySpec, AxisChunks, Choice, Creation, Format, Group, IndexLocation, Json, KeyEncoding,
    Structure, data_type, remove,
};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Converts the number of a format.
pub(crate) fn format(number: Option<u32>) -> PyResult<Option<Format>> {
    match number {
        None => Ok(None),
        Some(2) => Ok(Some(Format::V2)),
        Some(3) => Ok(Some(Format::V3)),
        Some(other) => Err(PyValueError::new_err(format!("zarr_format is 2 or 3, found {other}"))),
    }
}

/// Parses JSON written by Python.
pub(crate) fn json(py: Python<'_>, what: &str, text: &str) -> PyResult<Json> {
    Json::parse(text.as_bytes()).map_err(|error| errors::invalid(py, format!("{what}: {error}")))
}

/// Creates a group. With `overwrite`, replaces the node at its path.
///
/// With `overwrite`, `fill` is first called with a store whose root is the new group. It creates
/// the members before the new group takes its place.
#[pyfunction]
#[pyo3(signature = (store, path, zarr_format, attributes, overwrite, fill=None))]
pub(crate) fn create_group(
    py: Python<'_>,
    store: &StoreHandle,
    path: &str,
    zarr_format: u32,
    attributes: &str,
    overwrite: bool,
    fill: Option<Py<PyAny>>,
) -> PyResult<GroupHandle> {
    let format = format(Some(zarr_format))?.unwrap_or(Format::V3);
    let attributes = json(py, "attributes", attributes)?;
    let create = |ask: Ask<'_>| -> Result<Group, Failed> {
        let (store, ask) = (store.store.clone(), Some(ask));
        if !overwrite {
            return Ok(Group::create_with(store, path, format, attributes, Creation::New, ask)?);
        }
        Group::replace_with(store, path, format, attributes, ask, |new| match &fill {
            None => Ok(()),
            Some(fill) => call(fill, StoreHandle::of(new.store().clone())),
        })
    };
    let group = engine::run(py, create)?;
    Ok(GroupHandle::new(group.into()))
}

/// Removes every object below a path. `""`: everything in the store.
#[pyfunction]
pub(crate) fn remove_below(py: Python<'_>, store: &StoreHandle, path: &str) -> PyResult<()> {
    engine::run(py, |ask| -> Result<(), Failed> { Ok(remove(&store.store, path, Some(ask))?) })
}

/// Calls a Python function with one argument.
fn call<A: for<'py> IntoPyObject<'py>>(function: &Py<PyAny>, argument: A) -> Result<(), Failed> {
    let answer = Python::attach(|py| function.call1(py, (argument.into_py_any(py)?,)).map(drop));
    answer.map_err(Failed::Python)
}

items! {
    /// The description of a new array. Python gives codecs and attributes as JSON texts, and types
    /// as NumPy type strings.
    pub(crate) struct Spec {
        zarr_format: u32,
        shape: Vec<u64>,
        dtype: String,
        /// Variable length: "text", "bytes", "json2", "msgpack2", or the NumPy type string of the
        /// items of arrays.
        vlen: Option<String>,
        /// True: elements may be missing. Then `dtype` is the type of their values.
        optional: bool,
        /// The filter that encodes objects as bytes, if it is not the usual one.
        object_codec: Option<String>,
        /// The fields of structures as JSON text, in Zarr v2's form.
        structure: Option<String>,
        chunks: Option<Vec<u64>>,
        rectilinear: Option<String>,
        shards: Option<Vec<u64>>,
        rectilinear_shards: Option<String>,
        choose_shards: bool,
        index_at_start: bool,
        filters: Option<String>,
        compressors: Option<String>,
        serializer: Option<String>,
        fill: Option<Vec<u8>>,
        fortran_order: bool,
        attributes: String,
        dimension_names: Option<Vec<Option<String>>>,
        key_encoding: Option<String>,
    }
}

impl Spec {
    fn parse(self, py: Python<'_>) -> PyResult<ArraySpec> {
        let invalid = |message: String| errors::invalid(py, message);
        let format = format(Some(self.zarr_format))?.unwrap_or(Format::V3);
        let dtype: DataType =
            self.dtype.parse().map_err(|message| errors::exception(py, "DataTypeError", message))?;
        let codecs = |what: &str, text: Option<String>| -> PyResult<Choice<Vec<Json>>> {
            match text.map(|text| json(py, what, &text)).transpose()? {
                None => Ok(Choice::Auto),
                Some(Json::Array(codecs)) => Ok(Choice::Set(codecs)),
                Some(other) => Err(invalid(format!("{what}: expected a list, found {}", other.brief()))),
            }
        };
        let mut spec = ArraySpec::new(format, &self.shape, dtype);
        spec.vlen = match self.vlen.as_deref() {
            None => None,
            Some("text") => Some(VlenKind::Text),
            Some("bytes") => Some(VlenKind::Bytes),
            Some("json2") => Some(VlenKind::Json),
            Some("msgpack2") => Some(VlenKind::MessagePack),
            Some(item) => {
                let item = item.parse().map_err(|message| errors::exception(py, "DataTypeError", message))?;
                Some(VlenKind::Array(item))
            }
        };
        spec.optional = self.optional;
        spec.object_codec = self.object_codec.map(|text| json(py, "filters", &text)).transpose()?;
        if let Some(text) = self.structure {
            let structure = Structure::from_text(&text);
            let structure = structure.map_err(|message| errors::exception(py, "DataTypeError", message))?;
            spec.dtype = structure.engine_type();
            spec.structure = Some(structure);
        }
        spec.chunks = self.chunks.map(|chunks| chunks.as_slice().into());
        let axes = |what: &str, text: Option<String>| -> PyResult<Option<Vec<AxisChunks>>> {
            let json = text.map(|text| json(py, what, &text)).transpose()?;
            json.map(|json| AxisChunks::list_from_json(&json).map_err(invalid)).transpose()
        };
        spec.rectilinear = axes("chunks", self.rectilinear)?;
        spec.rectilinear_shards = axes("shards", self.rectilinear_shards)?;
        spec.shards = self.shards.map(|shards| shards.as_slice().into());
        if self.choose_shards {
            spec.choose_shards().map_err(invalid)?;
        }
        if self.index_at_start {
            spec.index_location = IndexLocation::Start;
        }
        spec.filters = codecs("filters", self.filters)?;
        spec.compressors = codecs("compressors", self.compressors)?;
        if let Some(text) = self.serializer {
            spec.serializer = Choice::Set(json(py, "serializer", &text)?);
        }
        spec.fill = self.fill;
        spec.fortran_order = self.fortran_order;
        spec.attributes = json(py, "attributes", &self.attributes)?;
        spec.dimension_names = self.dimension_names;
        if let Some(text) = self.key_encoding {
            let encoding = json(py, "chunk_key_encoding", &text)?;
            spec.key_encoding = Some(KeyEncoding::from_json(&encoding).map_err(invalid)?);
        }
        Ok(spec)
    }
}

/// Returns the element type of a Zarr v3 `data_type` in JSON: NumPy's type string, and true if
/// elements may be missing.
#[pyfunction]
pub(crate) fn v3_data_type(py: Python<'_>, text: &str) -> PyResult<(String, bool)> {
    let found = data_type(&json(py, "dtype", text)?);
    let (dtype, optional) = found.map_err(|message| errors::exception(py, "DataTypeError", message))?;
    Ok((dtype.numpy(), optional))
}

/// Returns the key of a chunk, relative to its array. `encoding` is JSON.
#[pyfunction]
pub(crate) fn chunk_key(py: Python<'_>, encoding: &str, chunk: Vec<u64>) -> PyResult<String> {
    let encoding = KeyEncoding::from_json(&json(py, "chunk_key_encoding", encoding)?);
    encoding.and_then(|encoding| encoding.key(&chunk)).map_err(|why| errors::invalid(py, why))
}

/// Returns the chunk of a key relative to its array, which has `rank` axes. `None`: it is not a
/// chunk's key.
#[pyfunction]
pub(crate) fn chunk_of_key(
    py: Python<'_>,
    encoding: &str,
    key: &str,
    rank: usize,
) -> PyResult<Option<Vec<u64>>> {
    let encoding = KeyEncoding::from_json(&json(py, "chunk_key_encoding", encoding)?);
    let chunk = encoding.and_then(|encoding| encoding.chunk(key, rank));
    chunk.map(|chunk| chunk.map(|chunk| chunk.to_vec())).map_err(|why| errors::invalid(py, why))
}

/// Creates an array and calls `fill` with it, to write its elements.
///
/// With `overwrite`, `fill` runs before the new array replaces the node at its path.
#[pyfunction]
#[pyo3(signature = (store, path, spec, overwrite, fill=None))]
pub(crate) fn create_array(
    py: Python<'_>,
    store: &StoreHandle,
    path: &str,
    spec: Spec,
    overwrite: bool,
    fill: Option<Py<PyAny>>,
) -> PyResult<ArrayHandle> {
    let spec = spec.parse(py)?;
    let has_values = fill.is_some();
    let create = |ask: Ask<'_>| {
        let fill = |new: &Array| match &fill {
            None => Ok(()),
            Some(fill) => call(fill, ArrayHandle::new(new.clone().into())),
        };
        let store = store.store.clone();
        if overwrite && has_values {
            return Array::replace_with(store, path, spec, Some(ask), fill);
        }
        let creation = if overwrite { Creation::Replace } else { Creation::New };
        let new = Array::create_with(store, path, spec, creation, Some(ask))?;
        fill(&new)?;
        Ok(new)
    };
    let array = engine::run(py, create)?;
    Ok(ArrayHandle::new(array.into()))
}
