//! Elements that may be missing. In Python they are masked arrays.
//!
//! The engine moves structures of a value and a Boolean. `hyperslab._elements.optional` converts
//! between the two.

use crate::gil::once::interned;
use hyperslab::array::Selection;
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

/// Calls a function of the Python module.
fn call<'py>(
    py: Python<'py>,
    name: Bound<'py, PyString>,
    args: impl PyCallArgs<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    py.import(interned!(py, "hyperslab._elements.optional"))?.call_method1(name, args)
}

/// Returns the NumPy type of the engine's structures for the type of the values.
pub(crate) fn memory_type<'py>(value: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyArrayDescr>> {
    Ok(call(value.py(), interned!(value.py(), "memory_dtype"), (value,))?.cast_into::<PyArrayDescr>()?)
}

/// Returns the type that arrays show: the type of the values, marked as possibly missing.
pub(crate) fn type_of<'py>(value: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyArrayDescr>> {
    Ok(call(value.py(), interned!(value.py(), "optional_dtype"), (value,))?.cast_into::<PyArrayDescr>()?)
}

/// Converts elements that were read to a masked array.
pub(crate) fn to_masked_array<'py>(found: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyAny>> {
    call(found.py(), interned!(found.py(), "to_masked_array"), (found,))
}

/// Converts an element that was read without axes to its value, or to `numpy.ma.masked`.
pub(crate) fn to_masked_element<'py>(found: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyAny>> {
    call(found.py(), interned!(found.py(), "to_masked_element"), (found,))
}

/// Converts values to the engine's structures for writing.
pub(crate) fn pack_optional<'py>(
    value: &Bound<'py, PyAny>,
    memory: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyAny>> {
    call(value.py(), interned!(value.py(), "pack_optional"), (value, memory))
}

/// Reads into the caller's masked array.
pub(crate) fn read_out<'py>(
    out: &Bound<'py, PyAny>,
    memory: &Bound<'py, PyArrayDescr>,
    selection: &Selection,
    read: impl FnOnce() -> PyResult<Bound<'py, PyUntypedArray>>,
) -> PyResult<()> {
    let py = out.py();
    let shape = PyTuple::new(py, selection.shape())?;
    call(py, interned!(py, "check_out"), (out, memory, shape))?;
    call(py, interned!(py, "fill_out"), (out, read()?)).map(drop)
}
