//! Arrays of variable-length elements: reading and writing.

use crate::errors;
use crate::gil::engine;
use crate::hdf5::dtypes::descr;
use crate::hdf5::is_made_of_objects;
use crate::values::cells::{self, Cells, Views, Wanted};
use crate::values::elements::with_note;
use crate::values::frozen::Validity;
use crate::values::input::Writing;
use crate::values::lists::is_list;
use crate::values::npy_string::{self, is_strings};
use crate::values::objects::Objects;
use crate::values::output::Reading;
use crate::values::ragged::{Form, Parts, bytes_of};
use crate::values::text_input;
use crate::values::vlen_input;
use hyperslab::array::{Ragged, Selection};
use hyperslab::hdf5::element::{Element, ElementKind};
use hyperslab::{Array, Memory, VlenKind};
use numpy::{
    PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyEllipsis};
use std::sync::Arc;

/// Returns NumPy's type for the elements of a Zarr array, and their form.
pub(crate) fn types(py: Python<'_>, array: &Array, kind: VlenKind) -> PyResult<(Py<PyArrayDescr>, Form)> {
    let object = numpy::dtype::<Py<PyAny>>(py);
    let (dtype, form) = match kind {
        VlenKind::Text => {
            let strings = py.import("numpy")?.getattr("dtypes")?.getattr("StringDType")?.call0()?;
            (strings.cast_into::<PyArrayDescr>()?, Form::Text)
        }
        VlenKind::Bytes => (with_note(&object, "vlen", py.get_type::<PyBytes>())?, Form::Bytes),
        VlenKind::Array(item) => {
            let item = PyArrayDescr::new(py, item.numpy())?;
            (with_note(&object, "vlen", &item)?, Form::Items(item.unbind()))
        }
        VlenKind::Json | VlenKind::MessagePack => {
            let objects = Objects::of(py, array, kind)?;
            (with_note(&object, "objects", kind.codec_name())?, Form::Objects(objects))
        }
    };
    Ok((dtype.unbind(), form))
}

/// Returns the form of HDF5 elements that the engine resolves. `None`: other elements.
///
/// The items of sequences must be values already: sequences of Python objects are not supported
/// here.
pub(crate) fn form(py: Python<'_>, element: &Element) -> PyResult<Option<Form>> {
    Ok(match &element.kind {
        ElementKind::VlenString { .. } => Some(Form::Text),
        ElementKind::Vlen { element, .. } if !is_made_of_objects(element) => {
            let memory =
                element.engine_type().map(|memory| PyArrayDescr::new(py, memory.numpy())).transpose()?;
            memory
                .map(|memory| descr(py, element, &memory))
                .transpose()?
                .map(|item| Form::Items(item.unbind()))
        }
        _ => None,
    })
}

/// Reads a selection. HDF5 sequences are never null, because the HDF5 library stores empty ones
/// like null.
pub(crate) fn read(
    py: Python<'_>,
    array: &Array,
    form: &Form,
    selection: &Selection,
    reading: Reading<'_>,
) -> PyResult<Ragged> {
    let mut found = engine::run(py, |stop| {
        array.read_ragged(selection, Reading { fortran: false, ..reading }.options(stop))
    })?;
    if matches!(form, Form::Items(_)) {
        found.validity = None;
    }
    Ok(found)
}

/// The form of the result.
pub(crate) enum Shown<'a, 'py> {
    /// The form of `array[selection]`: an array, or one value.
    Item,
    /// Always an array.
    Array,
    /// Decoded text.
    Text { encoding: &'a str, errors: &'a str },
    /// NumPy strings of this type.
    Strings(&'a Bound<'py, PyArrayDescr>),
}

/// A single array below this size in bytes is copied to NumPy's memory. That takes no longer than
/// making it own our memory.
const SMALL: usize = 16 << 10;

/// Converts elements to NumPy's values. Null elements become empty.
///
/// `dtype` is the type of an array of the values. `scalar`: there is one element and no axis.
pub(crate) fn to_numpy<'py>(
    found: Ragged,
    form: &Form,
    dtype: &Bound<'py, PyArrayDescr>,
    scalar: bool,
    shown: Shown<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    let (shape, scalar) = (found.shape, scalar && !matches!(shown, Shown::Array));
    if let Form::Items(item) = form {
        // NumPy initializes new memory for structures member by member, so use views for these.
        if scalar && found.values.len() < SMALL && !item.bind(py).has_fields() {
            return Ok(cells::copy_items(found.values.as_slice(), item.bind(py))?.into_any());
        }
        let views = Views::new(found.values, item.bind(py))?;
        return match (scalar, found.offsets.as_slice()) {
            (true, &[start, end]) => views.get(start, end),
            (_, offsets) => Ok(views.array(offsets, None, dtype, &shape)?.into_any()),
        };
    }
    let cells = Cells::new(&found.offsets, found.values.as_slice(), None, 1)?;
    if let Form::Objects(objects) = form {
        return match scalar {
            true => objects.object(py, cells.all_bytes()),
            false => Ok(objects.array(cells, dtype, &shape)?.into_any()),
        };
    }
    let strings = match shown {
        Shown::Strings(strings) => Some(strings.clone()),
        Shown::Item | Shown::Array if dtype.kind() == b'T' => Some(dtype.clone()),
        _ => None,
    };
    if let Some(strings) = strings {
        let texts = cells.check_text(py)?;
        return match scalar {
            true => Wanted::Text { encoding: "utf-8", errors: "strict" }.object(py, cells.all_bytes()),
            false => Ok(cells::strings(texts, &strings, &shape)?.into_any()),
        };
    }
    let wanted = match shown {
        Shown::Text { encoding, errors } => Wanted::Text { encoding, errors },
        _ => Wanted::Bytes,
    };
    if scalar {
        return wanted.object(py, cells.all_bytes());
    }
    let objects = if matches!(shown, Shown::Text { .. }) { &numpy::dtype::<Py<PyAny>>(py) } else { dtype };
    Ok(cells::objects(cells, wanted, objects, &shape)?.into_any())
}

/// Copies elements to the caller's array of objects or strings.
pub(crate) fn assign_out<'py>(out: &Bound<'py, PyAny>, found: Bound<'py, PyAny>) -> PyResult<()> {
    let py = out.py();
    let refuse = |message: String| Err(errors::exception(py, "ArrayShapeError", message));
    let Ok(array) = out.cast::<PyUntypedArray>() else {
        return Err(PyTypeError::new_err("out is a NumPy array, where elements are of variable length"));
    };
    let found = found.cast_into::<PyUntypedArray>()?;
    if array.shape() != found.shape() {
        return refuse(format!("out has shape {:?}, the selection {:?}", array.shape(), found.shape()));
    }
    if array.dtype().kind() != found.dtype().kind() && array.dtype().kind() != b'O' {
        return refuse(format!(
            "out has elements of type {}, the array has {}",
            array.dtype(),
            found.dtype()
        ));
    }
    if !array.getattr("flags")?.getattr("writeable")?.is_truthy()? {
        return refuse("out is read-only".into());
    }
    array.set_item(PyEllipsis::get(py), found)
}

/// Writes values to a selection.
pub(crate) fn write(
    array: &Array,
    form: &Form,
    selection: &Selection,
    value: &Bound<'_, PyAny>,
    writing: Writing,
) -> PyResult<()> {
    let py = value.py();
    if let Form::Objects(objects) = form {
        let values = objects.values(value, selection, array)?;
        return engine::run(py, |stop| array.write_ragged(selection, &values, writing.options(stop)));
    }
    // An empty list is one element without items.
    let empty = matches!(form, Form::Items(_)) && is_list(value) && value.len()? == 0;
    let none = if empty { Some(PyArray1::<u8>::zeros(py, 0, false).into_any()) } else { None };
    let value = none.as_ref().unwrap_or(value);
    if let Form::Text = form {
        let strings = value.cast::<PyUntypedArray>().ok().filter(|array| is_strings(&array.dtype()));
        if let Some(strings) = strings
            && let Some(packed) = npy_string::pack_strings(strings, array)?
        {
            return engine::run(py, |stop| array.write_packed(selection, &packed, writing.options(stop)));
        }
        if let Some(ragged) = text_input::ragged(value)? {
            let ragged = Arc::new(ragged);
            return engine::run(py, |stop| array.write_ragged(selection, &ragged, writing.options(stop)));
        }
    }
    let ragged = to_engine(&vlen_input::of(value, &vlen_input::Wanted::of(form, py))?, array)?;
    engine::run(py, |stop| array.write_ragged(selection, &ragged, writing.options(stop)))
}

/// Converts a `hyperslab.Ragged` to the engine's form: offsets from 0, values copied.
fn to_engine(ragged: &Bound<'_, PyAny>, array: &Array) -> PyResult<Arc<Ragged>> {
    let py = ragged.py();
    let parts = Parts::of(ragged)?;
    let size = match parts.values.cast::<PyUntypedArray>() {
        Ok(values) => values.dtype().itemsize(),
        Err(_) => return Err(PyTypeError::new_err("arrays of arrays cannot be stored")),
    };
    let bytes = bytes_of(&parts.values)?.readonly();
    let given = parts.offsets.as_slice();
    let cells = Cells::new(given, bytes.as_slice()?, None, size)?;
    let first = given.first().copied().unwrap_or(0);
    let all = cells.all_bytes();
    let no_memory = || {
        let message = format!("array '{}': no memory for {} bytes of values", array.name(), all.len());
        errors::exception(py, "OutOfMemoryError", message)
    };
    // Copy the values, because numbers may change while they are written.
    let mut values = Memory::dirty(all.len()).ok_or_else(no_memory)?;
    values.as_mut_slice().copy_from_slice(all);
    let validity = parts.validity.as_ref().map(Validity::as_slice);
    Ok(Arc::new(Ragged {
        shape: parts.shape.as_slice().into(),
        offsets: given.iter().map(|at| at - first).collect(),
        values,
        validity: validity.map(|validity| validity.iter().map(|valid| *valid != 0).collect()),
    }))
}
