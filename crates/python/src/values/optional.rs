//! Elements that may be missing. In Python they are masked arrays.
//!
//! The engine moves structures of a value and a Boolean. [`pack`] makes such structures of anything
//! that Python programs call missing: masked elements, `None`, pandas' `NA`, null in Arrow.

use crate::errors;
use crate::gil::once::interned;
use crate::values::arrow_input::arrow_values;
use crate::values::elements::{is_scalar, with_note};
use crate::values::lists::{check_depth, is_list};
use crate::values::masked_arrays::{self, is_masked_array, mask_of};
use crate::values::output::is_writeable;
use crate::values::vlen_input::objects_of;
use hyperslab::array::Selection;
use numpy::{PyArray1, PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyEllipsis, PyFloat, PyInt, PyString, PyTuple};

/// The fields of the engine's structures.
const VALUE: &str = "value";
const VALID: &str = "valid";

/// Returns the NumPy type of the engine's structures for the type of the values.
pub(crate) fn memory_type<'py>(value: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyArrayDescr>> {
    let py = value.py();
    PyArrayDescr::new(py, [(VALUE, value.clone().into_any()), (VALID, numpy::dtype::<bool>(py).into_any())])
}

/// Returns the type that arrays show: the type of the values, marked as possibly missing.
#[pyfunction(name = "optional_type")]
pub(crate) fn type_of<'py>(value: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyArrayDescr>> {
    with_note(value.as_any(), "optional", true)
}

/// Returns `true` if a type is marked as possibly missing.
fn is_optional(dtype: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = dtype.py();
    let metadata = dtype.getattr(interned!(py, "metadata"))?;
    Ok(!metadata.is_none()
        && metadata.call_method1(interned!(py, "get"), (interned!(py, "optional"),))?.is_truthy()?)
}

// ---- reading

fn field<'py>(found: &Bound<'py, PyUntypedArray>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    found.get_item(name)
}

/// Returns the mask of elements that were read.
fn missing<'py>(found: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyAny>> {
    field(found, VALID)?.call_method0(interned!(found.py(), "__invert__"))
}

/// Converts elements that were read to a masked array, with the same order in memory.
#[pyfunction(name = "optional_masked")]
pub(crate) fn to_masked_array<'py>(found: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyAny>> {
    let values = field(found, VALUE)?.call_method1(interned!(found.py(), "copy"), ("K",))?;
    masked_arrays::new(&values, Some(&missing(found)?), None)
}

/// Converts an element that was read without axes to its value, or to `numpy.ma.masked`.
pub(crate) fn to_masked_element<'py>(found: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyAny>> {
    let py = found.py();
    if !field(found, VALID)?.is_truthy()? {
        return masked_arrays::masked(py).cloned();
    }
    field(found, VALUE)?.call_method0(interned!(py, "copy"))?.get_item(PyTuple::empty(py))
}

/// Reads into the caller's masked array.
pub(crate) fn read_out<'py>(
    out: &Bound<'py, PyAny>,
    memory: &Bound<'py, PyArrayDescr>,
    selection: &Selection,
    read: impl FnOnce() -> PyResult<Bound<'py, PyUntypedArray>>,
) -> PyResult<()> {
    let py = out.py();
    let value = memory.get_item(VALUE)?.cast_into::<PyArrayDescr>()?;
    check_out(out, &value, &PyTuple::new(py, selection.shape())?)?;
    let found = read()?;
    masked_arrays::data_of(out)?.set_item(PyEllipsis::get(py), field(&found, VALUE)?)?;
    out.setattr(interned!(py, "mask"), missing(&found)?)
}

/// Refuses memory that elements cannot be read into.
#[pyfunction(name = "optional_check_out")]
pub(crate) fn check_out(
    out: &Bound<'_, PyAny>,
    value: &Bound<'_, PyArrayDescr>,
    shape: &Bound<'_, PyTuple>,
) -> PyResult<()> {
    let py = out.py();
    let refuse = |message: String| Err(errors::exception(py, "ArrayShapeError", message));
    let Some(array) = out.cast::<PyUntypedArray>().ok().filter(|_| is_masked_array(out).unwrap_or(false))
    else {
        let kind = out.get_type().name()?;
        let message = format!("out: elements may be missing: expected a numpy.ma.MaskedArray, found {kind}");
        return Err(errors::exception(py, "ArgumentTypeError", message));
    };
    if !array.dtype().is_equiv_to(value) {
        // Use NumPy's type strings. Unlike names, they include the byte order.
        let (found, wanted) = (array.dtype().getattr("str")?, value.getattr("str")?);
        return refuse(format!("out has elements of type {found}, the array has {wanted}"));
    }
    let found = PyTuple::new(py, array.shape())?;
    if !found.eq(shape)? {
        return refuse(format!("out has shape {found}, the selection {shape}"));
    }
    if !is_writeable(array) || out.getattr(interned!(py, "hardmask"))?.is_truthy()? {
        let message =
            "out: expected a writable array with a soft mask, found a read-only array or a hard mask";
        return refuse(message.into());
    }
    Ok(())
}

// ---- writing

/// Converts values to write to the engine's structures of a value of this type and a Boolean.
#[pyfunction]
pub(crate) fn pack_optional<'py>(
    given: &Bound<'py, PyAny>,
    value: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyAny>> {
    pack(given, &memory_type(value)?)
}

/// Converts values to write to the engine's structures.
///
/// Masked elements are missing. Among objects, `None` and pandas' `NA` are missing too.
pub(crate) fn pack<'py>(
    given: &Bound<'py, PyAny>,
    memory: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = given.py();
    let value = memory.get_item(VALUE)?.cast_into::<PyArrayDescr>()?;
    if let Ok(array) = given.cast::<PyUntypedArray>() {
        let dtype = array.dtype();
        if dtype.is_equiv_to(memory) {
            return Ok(given.clone());
        }
        let swapped = value.call_method0(interned!(py, "newbyteorder"))?.cast_into::<PyArrayDescr>()?;
        if dtype.is_equiv_to(&memory_type(&swapped)?) {
            return given.call_method1(interned!(py, "astype"), (memory,));
        }
    }
    let Parts { values, valid } = parts(given, &value, 0)?;
    let numpy = numpy(py)?;
    let shape = values.getattr(interned!(py, "shape"))?;
    let found = numpy.call_method1(interned!(py, "zeros"), (shape, memory))?;
    copy_where(&found.get_item(VALUE)?, &values, &valid)?;
    found.set_item(VALID, valid)?;
    Ok(found)
}

/// Values, and which of them are present.
struct Parts<'py> {
    /// A NumPy array.
    values: Bound<'py, PyAny>,
    /// An array of Booleans, or a Boolean for all values.
    valid: Bound<'py, PyAny>,
}

impl<'py> Parts<'py> {
    fn all(values: Bound<'py, PyAny>, valid: bool) -> Self {
        let valid = PyBool::new(values.py(), valid).to_owned().into_any();
        Parts { values, valid }
    }
}

fn numpy(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(interned!(py, "numpy"))
}

/// Copies the values that are present. Converts them with any loss.
fn copy_where<'py>(
    to: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    valid: &Bound<'py, PyAny>,
) -> PyResult<()> {
    let py = to.py();
    let options = PyDict::new(py);
    options.set_item(interned!(py, "where"), valid)?;
    options.set_item(interned!(py, "casting"), interned!(py, "unsafe"))?;
    numpy(py)?.call_method(interned!(py, "copyto"), (to, values), Some(&options)).map(drop)
}

/// Returns the zero of a type, as an array without axes.
fn zero<'py>(dtype: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    numpy(py)?.call_method1(interned!(py, "zeros"), (PyTuple::empty(py), dtype))
}

fn as_array<'py>(given: &Bound<'py, PyAny>, dtype: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyAny>> {
    numpy(given.py())?.call_method1(interned!(given.py(), "asarray"), (given, dtype))
}

/// Returns values, and which of them are present. `depth`: nesting of the lists around `given`.
fn parts<'py>(
    given: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
    depth: usize,
) -> PyResult<Parts<'py>> {
    check_depth(depth)?;
    let py = given.py();
    if given.is_none() || given.is(masked_arrays::masked(py)?) {
        return Ok(Parts::all(zero(dtype)?, false));
    }
    if is_list(given) {
        return of_list(given, dtype, depth);
    }
    let own = given.getattr_opt(interned!(py, "dtype"))?.filter(|own| own.is_instance_of::<PyArrayDescr>());
    let mut given = given.clone();
    if let Some(own) = &own
        && given.hasattr(interned!(py, "read"))?
        && is_optional(own)?
    {
        // A stored array or a view of one.
        given = given.call_method0(interned!(py, "read"))?;
    }
    if is_masked_array(&given)? {
        let valid = mask_of(&given)?.call_method0(interned!(py, "__invert__"))?;
        return of_objects(masked_arrays::data_of(&given)?, valid, dtype);
    }
    if own.is_none() && given.hasattr(interned!(py, "isna"))? {
        // A pandas object whose type has missing values.
        let options = PyDict::new(py);
        options.set_item(interned!(py, "dtype"), dtype)?;
        options.set_item(interned!(py, "na_value"), zero(dtype)?.get_item(PyTuple::empty(py))?)?;
        let values = given.call_method(interned!(py, "to_numpy"), (), Some(&options))?;
        let missing = given.call_method0(interned!(py, "isna"))?;
        let missing = numpy(py)?.call_method1(interned!(py, "asarray"), (missing,))?;
        return Ok(Parts { values, valid: missing.call_method0(interned!(py, "__invert__"))? });
    }
    let is_arrow = given.hasattr(interned!(py, "__arrow_c_array__"))?
        || given.hasattr(interned!(py, "__arrow_c_stream__"))?;
    if is_arrow && !given.hasattr(interned!(py, "iloc"))? {
        let (values, valid) = arrow_values(&given)?;
        return Ok(Parts { values, valid });
    }
    let array = given.cast::<PyUntypedArray>();
    if array.is_err() && !is_scalar(&given)? && given.hasattr(interned!(py, "__array__"))? {
        // It may be masked. NumPy's `asarray` would lose the mask, and dask's `__array__` does.
        let graph = given.getattr_opt(interned!(py, "__dask_graph__"))?.filter(|graph| !graph.is_none());
        let of_dask = match graph {
            Some(graph) => !graph.call0()?.is_none(),
            None => false,
        };
        let method = if of_dask { interned!(py, "compute") } else { interned!(py, "__array__") };
        return parts(&given.call_method0(method)?, dtype, depth + 1);
    }
    if array.is_ok_and(|array| array.dtype().kind() == b'O') {
        return of_objects(given, PyBool::new(py, true).to_owned().into_any(), dtype);
    }
    Ok(Parts::all(as_array(&given, dtype)?, true))
}

fn of_list<'py>(
    given: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
    depth: usize,
) -> PyResult<Parts<'py>> {
    let py = given.py();
    if !has_missing(given, depth)? {
        return Ok(Parts::all(as_array(given, dtype)?, true));
    }
    let numpy = numpy(py)?;
    let items = given.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let mut is_flat = true;
    for item in &items {
        is_flat = is_flat
            && (is_plain(item)
                || is_missing(item)?
                || !numpy.call_method1(interned!(py, "ndim"), (item,))?.is_truthy()?);
    }
    if is_flat {
        let objects = numpy.call_method1(interned!(py, "array"), (given, numpy::dtype::<Py<PyAny>>(py)))?;
        return of_objects(objects, PyBool::new(py, true).to_owned().into_any(), dtype);
    }
    // Convert one by one: NumPy would lose the masks of masked arrays.
    let (mut values, mut valid) = (Vec::new(), Vec::new());
    for item in &items {
        let found = parts(item, dtype, depth + 1)?;
        let shape = found.values.getattr(interned!(py, "shape"))?;
        valid.push(numpy.call_method1(interned!(py, "broadcast_to"), (found.valid, shape))?);
        values.push(found.values);
    }
    let stack = interned!(py, "stack");
    Ok(Parts { values: numpy.call_method1(&stack, (values,))?, valid: numpy.call_method1(&stack, (valid,))? })
}

/// Returns `true` if nested lists contain elements that may be missing.
fn has_missing(given: &Bound<'_, PyAny>, depth: usize) -> PyResult<bool> {
    check_depth(depth)?;
    if is_list(given) {
        for item in given.try_iter()? {
            if has_missing(&item?, depth + 1)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    if is_plain(given) {
        return Ok(false);
    }
    Ok(is_missing(given)? || given.hasattr(interned!(given.py(), "__array__"))? && !is_scalar(given)?)
}

/// Returns `true` for the usual values, which are not missing. It takes less time to ask this first.
fn is_plain(one: &Bound<'_, PyAny>) -> bool {
    one.is_exact_instance_of::<PyFloat>()
        || one.is_exact_instance_of::<PyInt>()
        || one.is_exact_instance_of::<PyBool>()
        || one.is_exact_instance_of::<PyString>()
}

/// Returns `true` for an object that stands for a missing element.
fn is_missing(one: &Bound<'_, PyAny>) -> PyResult<bool> {
    if is_plain(one) {
        return Ok(false);
    }
    if one.is_none() || one.is(masked_arrays::masked(one.py())?) {
        return Ok(true);
    }
    // Compare the name: pandas may not be installed.
    Ok(one.get_type().name()? == "NAType")
}

/// Converts objects to the type, and returns which of them are present.
fn of_objects<'py>(
    values: Bound<'py, PyAny>,
    valid: Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Parts<'py>> {
    let py = dtype.py();
    let array = values.cast_into::<PyUntypedArray>()?;
    if array.dtype().kind() != b'O' {
        return Ok(Parts { values: array.into_any(), valid });
    }
    let there = objects_of(&array).iter().map(|one| Ok(!is_missing(one)?)).collect::<PyResult<Vec<_>>>()?;
    let shape = PyTuple::new(py, array.shape())?;
    let there = PyArray1::from_vec(py, there).call_method1(interned!(py, "reshape"), (&shape,))?;
    let valid = there.bitand(valid)?;
    let object = numpy::dtype::<Py<PyAny>>(py);
    let zero = zero(dtype)?.get_item(PyTuple::empty(py))?;
    let found = numpy(py)?.call_method1(interned!(py, "full"), (shape, zero, object))?;
    copy_where(&found, array.as_any(), &valid)?;
    Ok(Parts { values: found.call_method1(interned!(py, "astype"), (dtype,))?, valid })
}
