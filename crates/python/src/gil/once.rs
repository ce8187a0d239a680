//! Values that are made once, without holding a lock while they are made.

use numpy::{PyArrayDescr, PyArrayMethods, PyUntypedArray};
use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyCapsule, PyDict, PyFloat, PyInt, PyIterator, PyList, PyMapping,
    PyMemoryView, PyModule, PySequence, PySlice, PyString, PyTuple, PyType,
};

/// Returns the value, and makes it now if there is none. If several threads make it, the first
/// value stays.
///
/// `PyOnceLock::get_or_try_init` holds a lock while Python code makes the value. If another thread
/// forks meanwhile, the child waits for that lock forever. Setting a value takes no time and is
/// done with the GIL, which the forking thread holds.
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

/// A text as a Python string that is made once: `interned!(py, "name")`.
///
/// `pyo3::intern!` holds a lock while it waits for the GIL. If the thread with the GIL forks, the
/// child waits for that lock forever.
macro_rules! interned {
    ($py:expr, $text:expr) => {{
        static TEXT: pyo3::sync::PyOnceLock<pyo3::Py<pyo3::types::PyString>> = pyo3::sync::PyOnceLock::new();
        crate::gil::once::interned_in(&TEXT, $py, $text)
    }};
}
pub(crate) use interned;

/// A structure of the items of a Python dictionary.
///
/// `FromPyObject` is not derived, because the derived code makes the names of items under a lock,
/// like `pyo3::intern!`.
macro_rules! items {
    ($(#[$doc:meta])* $vis:vis struct $name:ident { $($(#[$about:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        $vis struct $name {
            $($(#[$about])* $field: $type,)*
        }

        impl<'py> pyo3::FromPyObject<'_, 'py> for $name {
            type Error = pyo3::PyErr;

            fn extract(items: pyo3::Borrowed<'_, 'py, pyo3::PyAny>) -> pyo3::PyResult<Self> {
                Ok($name { $($field: items.get_item(stringify!($field))?.extract()?,)* })
            }
        }
    };
}
pub(crate) use items;

/// A dictionary of some fields of a structure, under their names, and of other items.
macro_rules! dict {
    ($py:expr, $of:ident { $($field:ident),* $(,)? }, $($name:literal: $value:expr),* $(,)?) => {{
        let dict = pyo3::types::PyDict::new($py);
        $(dict.set_item(stringify!($field), &$of.$field)?;)*
        $(dict.set_item($name, $value)?;)*
        Ok(dict)
    }};
}
pub(crate) use dict;

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

/// Initializes lazy values of PyO3 and rust-numpy, which they make under such locks.
///
/// Runs while the module is imported, before other threads use it.
pub(crate) fn make_early(py: Python<'_>) {
    let empty = numpy::PyArray1::<u8>::zeros(py, 0, false);
    // Ignore errors. They come again on first use.
    drop(empty.try_readonly());
    macro_rules! make {
        ($($type:ident)*) => {
            [$($type::type_object(py)),*]
        };
    }
    let types = make! {
        PyBool PyByteArray PyBytes PyCapsule PyDict PyFloat PyInt PyIterator PyList PyMapping PyMemoryView
        PyModule PySequence PySlice PyString PyTuple PyType PyArrayDescr PyUntypedArray
    };
    drop(types);
}
