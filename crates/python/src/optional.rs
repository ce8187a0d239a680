//! Elements that may be missing: masked arrays in Python. What the engine moves are structures of a
//! value and a Boolean, which `hyperslab._elements.optional` takes apart and puts together.

use crate::once::interned;
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

/// NumPy's description of what the engine moves, by that of the values.
pub(crate) fn memory_type<'py>(value: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyArrayDescr>> {
    Ok(call(value.py(), interned!(value.py(), "memory_dtype"), (value,))?.cast_into::<PyArrayDescr>()?)
}

/// The type that arrays show: that of the values, which says that elements may be missing.
pub(crate) fn type_of<'py>(value: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyArrayDescr>> {
    Ok(call(value.py(), interned!(value.py(), "optional_dtype"), (value,))?.cast_into::<PyArrayDescr>()?)
}

/// What was read, as a masked array.
pub(crate) fn shown<'py>(found: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyAny>> {
    call(found.py(), interned!(found.py(), "shown"), (found,))
}

/// What was read, which has no axes: the value, or `numpy.ma.masked`.
pub(crate) fn shown_one<'py>(found: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyAny>> {
    call(found.py(), interned!(found.py(), "shown_one"), (found,))
}

/// What is to be written, as what the engine moves.
pub(crate) fn packed<'py>(
    value: &Bound<'py, PyAny>,
    memory: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyAny>> {
    call(value.py(), interned!(value.py(), "packed"), (value, memory))
}

/// Reads into a masked array of the caller.
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
