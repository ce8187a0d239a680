//! Results: NumPy arrays over memory of the engine, or the caller's own.

use crate::engine;
use crate::errors;
use hyperslab::array::{ArrayLayout, Memory, ReadOptions, Selection, Target, read, read_into};
use numpy::npyffi::{NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API, get_type_object, npy_intp};
use numpy::{
    PyArrayDescr, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PySystemError, PyTypeError};
use pyo3::prelude::*;
use std::ffi::c_int;
use std::ptr::null_mut;

/// Keeps the memory of a result alive: the base of its NumPy array, and so of every view of it. When the last of them goes, the pages go
/// back to the engine's recycler, and not before.
#[pyclass(frozen, name = "Memory", module = "hyperslab._native")]
struct Owner(#[allow(dead_code, reason = "held for its destructor")] Memory);

/// Options of a read that Python can give.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reading {
    pub(crate) threads: Option<usize>,
    pub(crate) verify: Option<bool>,
}

impl Reading {
    fn options<'a>(self, interrupt: &'a dyn Fn() -> bool) -> ReadOptions<'a> {
        ReadOptions { threads: self.threads, verify: self.verify, interrupt: Some(interrupt) }
    }
}

/// Reads a selection into a new array.
pub(crate) fn read_new<'py>(
    layout: &ArrayLayout,
    dtype: &Bound<'py, PyArrayDescr>,
    selection: &Selection,
    reading: Reading,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let memory = engine::run(dtype.py(), |stop| read(layout, selection, reading.options(stop)))?;
    over(memory, dtype, selection)
}

/// A NumPy array of the selection's shape over `memory`, C order, writeable.
pub(crate) fn over<'py>(
    mut memory: Memory,
    dtype: &Bound<'py, PyArrayDescr>,
    selection: &Selection,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = dtype.py();
    let mut dims: Vec<npy_intp> = selection.shape().iter().map(|n| *n as npy_intp).collect();
    // NumPy takes null as "allocate it yourself": right where there is nothing to hold.
    let data = if memory.is_empty() { null_mut() } else { memory.as_mut_slice().as_mut_ptr() };
    let owner = Bound::new(py, Owner(memory))?;
    // SAFETY: `data` has room for `dims` elements of `dtype` (the engine made it so), is aligned for any type, and moving the Memory into
    // its Python object does not move the block. The array holds `owner` as its base, so the block outlives it and all views.
    // NewFromDescr takes the reference to the descriptor, SetBaseObject that to the owner, both also when they fail.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            dtype.clone().into_dtype_ptr(),
            dims.len() as c_int,
            dims.as_mut_ptr(),
            null_mut(),
            data.cast(),
            NPY_ARRAY_WRITEABLE,
            null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if !data.is_null()
            && PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.into_ptr()) < 0
        {
            return Err(PyErr::fetch(py));
        }
        Ok(array.cast_into_unchecked())
    }
}

/// What `array[key]` gives: a NumPy scalar where the result has no axes, else the array.
pub(crate) fn scalar_or_array<'py>(
    layout: &ArrayLayout,
    array: Bound<'py, PyUntypedArray>,
) -> PyResult<Bound<'py, PyAny>> {
    if array.ndim() > 0 {
        return Ok(array.into_any());
    }
    let py = array.py();
    // SAFETY: PyArray_Return takes over the reference to a 0-dimensional array and returns a new one to its scalar, or null with an exception.
    unsafe {
        let scalar = PY_ARRAY_API.PyArray_Return(py, array.into_ptr().cast());
        Bound::from_owned_ptr_or_err(py, scalar)
    }
    .map_err(|error| match error.is_instance_of::<PySystemError>(py) {
        // Text is what NumPy cannot make a scalar of: the stored number is beyond the last character there is.
        true => errors::exception(
            py,
            "ChunkError",
            format!("array '{}': the element is not text: {error}", layout.name()),
        ),
        false => error,
    })
}

/// Reads a selection into the caller's array or buffer.
pub(crate) fn read_out(
    layout: &ArrayLayout,
    dtype: &Bound<'_, PyArrayDescr>,
    selection: &Selection,
    out: &Bound<'_, PyAny>,
    reading: Reading,
) -> PyResult<()> {
    let py = dtype.py();
    let array = as_array(out)?;
    let shape = selection.shape();
    if !array.dtype().is_equiv_to(dtype) {
        // NumPy's type strings: other than names they tell byte orders apart.
        let (found, wanted) = (array.dtype().getattr("str")?, dtype.getattr("str")?);
        let message = format!("out has elements of type {found}, the array has {wanted}");
        return Err(errors::exception(py, "ArrayShapeError", message));
    }
    if array.shape().iter().map(|n| *n as u64).ne(shape.iter().copied()) {
        let message = format!("out has shape {:?}, the selection {:?}", array.shape(), shape.as_slice());
        return Err(errors::exception(py, "ArrayShapeError", message));
    }
    if !array.getattr("flags")?.getattr("writeable")?.is_truthy()? {
        return Err(errors::exception(py, "ArrayShapeError", "out is read-only"));
    }
    let strides = array.strides();
    if overlaps(array.shape(), strides, dtype.itemsize()) {
        // Elements that share bytes cannot be written by several threads at once; NumPy's own assignment gives the meaning.
        let read = read_new(layout, dtype, selection, reading)?;
        return array.set_item(pyo3::types::PyEllipsis::get(py), read);
    }
    // SAFETY: NumPy vouches that every element of an array lies in its memory; no two overlap, as checked; `array` is held until the end.
    // Python code that touches the array meanwhile from another thread races with itself, as with any NumPy function that releases the GIL.
    let mut target = unsafe { Target::from_raw(data_of(&array), &shape, strides) };
    engine::run(py, |stop| read_into(layout, selection, &mut target, reading.options(stop)))
}

/// The caller's memory as a NumPy array: itself, or a view of a buffer.
fn as_array<'py>(out: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    if let Ok(array) = out.cast::<PyUntypedArray>() {
        return Ok(array.clone());
    }
    let py = out.py();
    let view = py.import("builtins")?.getattr("memoryview")?.call1((out,)).map_err(|_| {
        let kind = out.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
        PyTypeError::new_err(format!("out is a NumPy array or a writable buffer, found {kind}"))
    })?;
    Ok(py.import("numpy")?.call_method1("asarray", (view,))?.cast_into::<PyUntypedArray>()?)
}

/// Whether elements may share bytes. Errs on the safe side: axes that interleave count as overlapping.
fn overlaps(shape: &[usize], strides: &[isize], element: usize) -> bool {
    if shape.contains(&0) {
        return false;
    }
    let mut axes: Vec<(usize, usize)> = (shape.iter().zip(strides))
        .filter(|(len, _)| **len > 1)
        .map(|(len, stride)| (stride.unsigned_abs(), *len))
        .collect();
    axes.sort_unstable();
    let mut reach = element;
    for (stride, len) in axes {
        if stride < reach {
            return true;
        }
        reach = stride.saturating_mul(len - 1).saturating_add(reach);
    }
    false
}

/// Where an array's first element is.
pub(crate) fn data_of(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: of the type of elements only the type of the pointer depends; nothing is read through it here.
    unsafe { array.cast_unchecked::<PyArrayDyn<u8>>() }.data()
}
