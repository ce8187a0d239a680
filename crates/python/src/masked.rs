//! Masked arrays: elements that equal the fill value are missing.

use crate::array::ArrayBase;
use crate::elements::Elements;
use crate::engine;
use crate::once::interned;
use crate::optional;
use crate::output::over;
use hyperslab::Array;
use hyperslab::array::{ReadOptions, mask};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods, dtype};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyType};

/// `ArrayBase.read` with `masked`.
pub(crate) fn read<'py>(
    this: &Bound<'py, ArrayBase>,
    selection: Option<&Bound<'py, PyAny>>,
    out: Option<Bound<'py, PyAny>>,
    threads: Option<usize>,
    verify: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, base) = (this.py(), this.get());
    if base.array(py)?.optional().is_some() {
        // They are masked anyway.
        return base.values(py, selection, out, threads, verify);
    }
    // Memory of the caller, whom nobody keeps from changing it, is for NumPy to compare.
    let own = out.is_none();
    let values = base.values(py, selection, out, threads, verify)?;
    let array = base.array(py)?;
    let found = match (values.cast::<PyUntypedArray>(), array.fill()) {
        (Ok(values), Some(fill)) if own && matches!(base.types(py, &array)?.elements, Elements::Plain) => {
            compare(&array, values, fill, threads)?
        }
        _ => None,
    };
    py.import("hyperslab._masked")?.call_method1(interned!(py, "masked"), (this, values, found))
}

/// What is missing of a result that nobody else knows yet; `None`: NumPy has to compare.
fn compare<'py>(
    array: &Array,
    values: &Bound<'py, PyUntypedArray>,
    fill: &[u8],
    threads: Option<usize>,
) -> PyResult<Option<Bound<'py, PyUntypedArray>>> {
    let (py, layout) = (values.py(), array.layout());
    let len = values.len() * layout.dtype().size();
    if !(values.is_c_contiguous() || values.is_fortran_contiguous())
        || values.dtype().itemsize() * values.len() != len
    {
        return Ok(None);
    }
    let shape: Vec<u64> = values.shape().iter().map(|n| *n as u64).collect();
    // SAFETY: an array without gaps, of elements of this size, which lives as long as `values`; it
    // was just made, so that nobody changes it.
    let bytes = unsafe { std::slice::from_raw_parts(crate::output::data_of(values), len) };
    let found = engine::run(py, |stop| {
        mask(layout, bytes, fill, ReadOptions { threads, interrupt: Some(stop), ..ReadOptions::default() })
    })?;
    let fortran = !values.is_c_contiguous();
    found.map(|memory| over(memory, &dtype::<bool>(py), &shape, fortran)).transpose()
}

/// What is to be written: of a masked array its data, with the fill value where it is masked. Of
/// elements that may be missing, the values and which of them are there.
pub(crate) fn filled<'py>(
    array: &Array,
    dtype: &Bound<'py, PyArrayDescr>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    static MASKED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = value.py();
    if array.optional().is_some() {
        return optional::packed(value, dtype);
    }
    if !value.is_instance(MASKED.import(py, "numpy.ma", "MaskedArray")?)? {
        return Ok(value.clone());
    }
    let fill = array.fill().map(|bytes| PyBytes::new(py, bytes));
    py.import("hyperslab._masked")?
        .call_method1(interned!(py, "filled"), (value, dtype, fill, array.name().to_string()))
}
