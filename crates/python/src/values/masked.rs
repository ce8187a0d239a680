//! Masked arrays: elements that equal the fill value are missing.

use crate::gil::engine;
use crate::gil::once::interned;
use crate::nodes::array::ArrayBase;
use crate::values::elements::Elements;
use crate::values::optional;
use crate::values::output::{NUMPYS_BELOW, Reading, array_over};
use hyperslab::Array;
use hyperslab::array::{element_count, read_masked};
use numpy::{PyArrayDescr, PyUntypedArray, dtype};
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
        // Optional elements are always read as a masked array.
        return base.values(py, selection, out, threads, verify);
    }
    let found = match out {
        // Others may change the caller's memory, so let NumPy compare.
        Some(_) => None,
        None => compared(py, base, selection, threads, verify)?,
    };
    let (values, mask) = match found {
        Some((values, mask)) => (values.into_any(), Some(mask)),
        None => (base.values(py, selection, out, threads, verify)?, None),
    };
    py.import("hyperslab._elements.masked")?.call_method1(interned!(py, "masked"), (this, values, mask))
}

type Pair<'py> = (Bound<'py, PyUntypedArray>, Bound<'py, PyUntypedArray>);

/// Returns values and mask. `None`: NumPy must compare, and nothing was read.
fn compared<'py>(
    py: Python<'py>,
    base: &ArrayBase,
    selection: Option<&Bound<'py, PyAny>>,
    threads: Option<usize>,
    verify: Option<bool>,
) -> PyResult<Option<Pair<'py>>> {
    let array = base.array(py)?;
    let types = base.types(py, &array)?;
    let (Some(fill), Elements::Plain) = (array.fill(), &types.elements) else { return Ok(None) };
    let layout = array.layout();
    let selection = base.select(&array, selection)?;
    let shape = selection.shape();
    if element_count(&shape).is_some_and(|n| n.saturating_mul(layout.dtype().size() as u64) < NUMPYS_BELOW) {
        return Ok(None);
    }
    let reading = Reading { threads, verify, ..base.reading(py, &array, &selection)? };
    let found = engine::run(py, |stop| read_masked(layout, &selection, fill, reading.options(stop)))?;
    let Some((values, mask)) = found else { return Ok(None) };
    let values = array_over(values, types.memory.bind(py), &shape, reading.fortran)?;
    Ok(Some((values, array_over(mask, &dtype::<bool>(py), &shape, reading.fortran)?)))
}

/// Returns the values to write. Masked elements become the fill value.
///
/// If elements of the array may be missing, returns values and validity.
pub(crate) fn fill_masked<'py>(
    array: &Array,
    dtype: &Bound<'py, PyArrayDescr>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    static MASKED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = value.py();
    if array.optional().is_some() {
        return optional::pack_optional(value, dtype);
    }
    if !value.is_instance(MASKED.import(py, "numpy.ma", "MaskedArray")?)? {
        return Ok(value.clone());
    }
    let fill = array.fill().map(|bytes| PyBytes::new(py, bytes));
    py.import("hyperslab._elements.masked")?
        .call_method1(interned!(py, "filled"), (value, dtype, fill, array.name().to_string()))
}
