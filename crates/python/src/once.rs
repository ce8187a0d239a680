//! Values that are made once, without a lock while they are made.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

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
