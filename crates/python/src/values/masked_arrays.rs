//! NumPy's masked arrays.

use crate::gil::once::{self, interned};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

fn numpy_ma(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(interned!(py, "numpy.ma"))
}

fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = once::get_or_try_make(&CLASS, py, || {
        Ok(numpy_ma(py)?.getattr("MaskedArray")?.cast_into::<PyType>()?.unbind())
    })?;
    Ok(class.bind(py))
}

/// Returns `true` for a `numpy.ma.MaskedArray`.
pub(crate) fn is_masked_array(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.is_instance(class(value.py())?)
}

/// Returns `true` for a masked array with a masked element.
pub(crate) fn has_masked(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    numpy_ma(value.py())?.call_method1(interned!(value.py(), "is_masked"), (value,))?.is_truthy()
}

/// Returns `numpy.ma.masked`, which stands for a missing element.
pub(crate) fn masked(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static MASKED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let masked = once::get_or_try_make(&MASKED, py, || Ok(numpy_ma(py)?.getattr("masked")?.unbind()))?;
    Ok(masked.bind(py))
}

/// Returns the mask of a masked array: an array of Booleans of its shape.
pub(crate) fn mask_of<'py>(masked: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    numpy_ma(masked.py())?.call_method1(interned!(masked.py(), "getmaskarray"), (masked,))
}

/// Returns the data of a masked array, including the masked ones.
pub(crate) fn data_of<'py>(masked: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    masked.getattr(interned!(masked.py(), "data"))
}

/// Makes a masked array. Without a mask, no element is masked.
pub(crate) fn new<'py>(
    values: &Bound<'py, PyAny>,
    mask: Option<&Bound<'py, PyAny>>,
    fill: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = values.py();
    let options = PyDict::new(py);
    if let Some(mask) = mask {
        options.set_item(interned!(py, "mask"), mask)?;
    }
    if let Some(fill) = fill {
        options.set_item(interned!(py, "fill_value"), fill)?;
    }
    class(py)?.call((values,), Some(&options))
}
