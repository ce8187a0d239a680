//! Values that are made once, without a lock while they are made.

use numpy::PyArrayMethods;
use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyCapsule, PyDict, PyFloat, PyInt, PyIterator, PyList, PyMapping,
    PyMemoryView, PyModule, PySequence, PySlice, PyString, PyTuple, PyType,
};

/// The value, made now if there is none. Threads that race make one each, and the first one's
/// stays.
///
/// `PyOnceLock::get_or_try_init` holds a lock while Python code makes the value: a child that
/// another thread forks meanwhile would wait for it for ever. Setting a value takes no time and is
/// done with the GIL, which the forking thread has.
pub(crate) fn get_or_try_make<'c, T>(
    cell: &'c PyOnceLock<T>,
    py: Python<'_>,
    make: impl FnOnce() -> PyResult<T>,
) -> PyResult<&'c T> {
    if let Some(value) = cell.get(py) {
        return Ok(value);
    }
    let value = make()?;
    let _ = cell.set(py, value);
    cell.get(py).ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("a value that was set is gone"))
}

/// A text as a Python string that is made once: `interned!(py, "name")`. As `pyo3::intern!`, which
/// holds a lock while it waits for the GIL: a child that is forked by the thread that has the GIL
/// would wait for that lock for ever.
macro_rules! interned {
    ($py:expr, $text:expr) => {{
        static TEXT: pyo3::sync::PyOnceLock<pyo3::Py<pyo3::types::PyString>> = pyo3::sync::PyOnceLock::new();
        crate::once::interned_in(&TEXT, $py, $text)
    }};
}
pub(crate) use interned;

pub(crate) fn interned_in<'py>(
    cell: &PyOnceLock<Py<PyString>>,
    py: Python<'py>,
    text: &str,
) -> Bound<'py, PyString> {
    if let Some(found) = cell.get(py) {
        return found.bind(py).clone();
    }
    let made = PyString::intern(py, text);
    let _ = cell.set(py, made.clone().unbind());
    made
}

/// Makes what PyO3 and rust-numpy make when it is first needed, under such locks: while the module
/// is imported, before other threads use it.
pub(crate) fn make_early(py: Python<'_>) {
    let empty = numpy::PyArray1::<u8>::zeros(py, 0, false);
    // Errors would come again where it is needed.
    drop(empty.try_readonly());
    let types = [
        PyBool::type_object(py),
        PyByteArray::type_object(py),
        PyBytes::type_object(py),
        PyCapsule::type_object(py),
        PyDict::type_object(py),
        PyFloat::type_object(py),
        PyInt::type_object(py),
        PyIterator::type_object(py),
        PyList::type_object(py),
        PyMapping::type_object(py),
        PyMemoryView::type_object(py),
        PyModule::type_object(py),
        PySequence::type_object(py),
        PySlice::type_object(py),
        PyString::type_object(py),
        PyTuple::type_object(py),
        PyType::type_object(py),
        numpy::PyArrayDescr::type_object(py),
        numpy::PyUntypedArray::type_object(py),
    ];
    drop(types);
}
