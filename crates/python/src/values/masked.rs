//! Masked arrays: elements that equal the fill value are missing.

use crate::errors;
use crate::gil::engine;
use crate::gil::once::interned;
use crate::nodes::array::ArrayBase;
use crate::values::elements::Elements;
use crate::values::masked_arrays::{self, is_masked_array, mask_of};
use crate::values::optional;
use crate::values::output::{NUMPYS_BELOW, Reading, array_over};
use hyperslab::array::{element_count, read_masked};
use hyperslab::{Array, VlenKind};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, dtype};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::PyBytes;

/// `ArrayBase.read` with `masked`.
pub(crate) fn read<'py>(
    py: Python<'py>,
    base: &ArrayBase,
    selection: Option<&Bound<'py, PyAny>>,
    out: Option<Bound<'py, PyAny>>,
    threads: Option<usize>,
    verify: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = base.array(py)?;
    let types = base.types(py, &array)?;
    match types.elements {
        // Optional elements are always read as a masked array.
        Elements::Optional => return base.values(py, selection, out, threads, verify),
        Elements::Vlen(_) => {
            let message = format!("array '{}': elements of variable length cannot be masked", array.name());
            return Err(errors::exception(py, "ArgumentTypeError", message));
        }
        _ => {}
    }
    let fill = array.fill().map(|bytes| element_of(types.values.bind(py), bytes)).transpose()?;
    let found = match out {
        // Others may change the caller's memory, so let NumPy compare.
        Some(_) => None,
        None => compared(py, base, selection, threads, verify)?,
    };
    if let Some((values, mask)) = found {
        return masked_arrays::new(values.as_any(), Some(mask.as_any()), fill.as_ref());
    }
    let values = base.values(py, selection, out, threads, verify)?;
    let values = py.import(interned!(py, "numpy"))?.call_method1(interned!(py, "asarray"), (values,))?;
    let Some(fill) = fill else { return masked_arrays::new(&values, None, None) };
    // Not-a-number and not-a-time are not equal to anything.
    let none_equal = fill.rich_compare(&fill, CompareOp::Ne)?;
    let same = values.rich_compare(&fill, CompareOp::Eq)?;
    let unequal = values.rich_compare(&values, CompareOp::Ne)?.bitand(none_equal)?;
    masked_arrays::new(&values, Some(&same.bitor(unequal)?), Some(&fill))
}

/// Returns the element in these bytes as a scalar.
fn element_of<'py>(dtype: &Bound<'py, PyArrayDescr>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    elements_of(dtype, bytes)?.get_item(0)
}

/// Returns the elements in these bytes as an array of one axis.
fn elements_of<'py>(dtype: &Bound<'py, PyArrayDescr>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    let bytes = PyBytes::new(py, bytes);
    py.import(interned!(py, "numpy"))?.call_method1(interned!(py, "frombuffer"), (bytes, dtype))
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
/// If elements of the array may be missing, returns values and validity. `dtype` is the type of the
/// array's values, or of the engine's elements if these may be missing.
pub(crate) fn fill_masked<'py>(
    array: &Array,
    dtype: &Bound<'py, PyArrayDescr>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    if array.optional().is_some() {
        return optional::pack(value, dtype);
    }
    unmasked(array, dtype, value)
}

/// Returns the values to write. Masked elements become the fill value; elements of variable length
/// become null.
pub(crate) fn unmasked<'py>(
    array: &Array,
    dtype: &Bound<'py, PyArrayDescr>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    // Masked objects are refused where objects are converted.
    let is_object = matches!(array.vlen(), Some(VlenKind::Json | VlenKind::MessagePack));
    if is_object || !is_masked_array(value)? {
        return Ok(value.clone());
    }
    if array.vlen().is_some() {
        let objects = py.import(interned!(py, "numpy"))?.call_method1(
            interned!(py, "array"),
            (masked_arrays::data_of(value)?, numpy::dtype::<Py<PyAny>>(py)),
        )?;
        objects.set_item(mask_of(value)?, py.None())?;
        return Ok(objects);
    }
    filled(array, dtype, array.fill(), value)
}

/// Returns the data of a masked array as elements of a type, with the fill value in masked ones.
fn filled<'py>(
    array: &Array,
    dtype: &Bound<'py, PyArrayDescr>,
    fill: Option<&[u8]>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let numpy = py.import(interned!(py, "numpy"))?;
    let data = masked_arrays::data_of(value)?;
    let Some(fill) = fill_of_masked(array, fill, value)? else {
        return numpy.call_method1(interned!(py, "asarray"), (data,));
    };
    if dtype.has_fields() {
        // Each field has its own mask.
        let value = value.call_method1(interned!(py, "astype"), (dtype,))?;
        let found = value.call_method1(interned!(py, "filled"), (element_of(dtype, fill)?,))?;
        return numpy.call_method1(interned!(py, "asarray"), (found,));
    }
    let made = numpy.call_method1(interned!(py, "array"), (data, dtype))?;
    made.set_item(mask_of(value)?, elements_of(dtype, fill)?)?;
    Ok(made)
}

/// Returns the values to write to a field of this type. `shape`: the field's own axes. `fill`: its
/// bytes in the array's fill value.
pub(crate) fn unmasked_field<'py>(
    array: &Array,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
    fill: Option<&[u8]>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if !is_masked_array(value)? {
        return Ok(value.clone());
    }
    if shape.is_empty() {
        return filled(array, dtype, fill, value);
    }
    let numpy = py.import(interned!(py, "numpy"))?;
    let data = numpy.call_method1(interned!(py, "asarray"), (masked_arrays::data_of(value)?, dtype))?;
    let Some(fill) = fill_of_masked(array, fill, value)? else { return Ok(data) };
    let fill = elements_of(dtype, fill)?.call_method1(interned!(py, "reshape"), (shape.to_vec(),))?;
    numpy.call_method1(interned!(py, "where"), (mask_of(value)?, fill, data))
}

/// Returns the fill value. Fails if there is none and elements are masked.
fn fill_of_masked<'f>(
    array: &Array,
    fill: Option<&'f [u8]>,
    value: &Bound<'_, PyAny>,
) -> PyResult<Option<&'f [u8]>> {
    if fill.is_none() && masked_arrays::has_masked(value)? {
        let message = format!(
            "array '{}' has no fill value (null in Zarr v2): masked elements would become zeros; fill them \
             before: values.filled(…)",
            array.name()
        );
        return Err(errors::invalid(value.py(), message));
    }
    Ok(fill)
}
