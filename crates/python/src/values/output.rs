//! Results: NumPy arrays over the engine's memory, or over the caller's.

use crate::errors;
use crate::gil::engine;
use hyperslab::Kind;
use hyperslab::array::{
    ArrayLayout, ChunkCache, Dims, Memory, ReadOptions, Selection, Strides, Target, c_strides, element_count,
    read, read_into,
};
use numpy::npyffi::{
    NPY_ARRAY_F_CONTIGUOUS, NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API, get_type_object, npy_intp,
};
use numpy::{
    PyArrayDescr, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PySystemError, PyTypeError};
use pyo3::prelude::*;
use std::ffi::c_int;
use std::ptr::null_mut;

/// Keeps the memory of a result alive. It is the base of the NumPy array, and so of every view of
/// it.
///
/// The pages go back to the engine's recycler when the last of these is dropped.
#[pyclass(frozen, name = "Memory", module = "hyperslab._native")]
pub(crate) struct Owner(#[allow(dead_code, reason = "held for its destructor")] pub(crate) Memory);

/// Options of a read that Python can set.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reading<'c> {
    pub(crate) threads: Option<usize>,
    pub(crate) verify: Option<bool>,
    /// `true`: new arrays are in Fortran order.
    pub(crate) fortran: bool,
    pub(crate) cache: Option<&'c ChunkCache>,
}

impl<'c> Reading<'c> {
    pub(crate) fn options<'a>(self, interrupt: &'a dyn Fn() -> bool) -> ReadOptions<'a>
    where
        'c: 'a,
    {
        ReadOptions {
            threads: self.threads,
            verify: self.verify,
            fortran: self.fortran,
            interrupt: Some(interrupt),
            cache: self.cache,
            present: None,
        }
    }
}

/// Results below this size in bytes are in memory that NumPy allocates. It is not zeroed and needs
/// no extra owner object. Larger results are in pages that the engine recycles.
pub(crate) const NUMPYS_BELOW: u64 = 64 << 10;

/// Reads a selection into a new array.
pub(crate) fn read_new<'py>(
    layout: &ArrayLayout,
    dtype: &Bound<'py, PyArrayDescr>,
    selection: &Selection,
    reading: Reading<'_>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = dtype.py();
    let shape = selection.shape();
    let bytes = element_count(&shape).and_then(|n| n.checked_mul(layout.dtype().size() as u64));
    if bytes.is_none_or(|bytes| bytes >= NUMPYS_BELOW) {
        let memory = engine::run(py, |stop| read(layout, selection, reading.options(stop)))?;
        return array_over(memory, dtype, &shape, reading.fortran);
    }
    // SAFETY: null: NumPy allocates.
    let array = unsafe { new_array(dtype, &shape, null_mut(), reading.fortran) }?;
    let strides = dense(&shape, layout.dtype().size(), reading.fortran);
    // SAFETY: the memory belongs to a new array of this shape and order. It is exactly as large as
    // the elements that the engine writes, and nobody else refers to it. It is read only after all
    // of it has been written.
    let mut target = unsafe { Target::from_raw(data_of(&array), &shape, &strides) };
    engine::run(py, |stop| read_into(layout, selection, &mut target, reading.options(stop)))?;
    Ok(array)
}

/// Bytes from one element to the next, per axis, in memory without gaps.
fn dense(shape: &[u64], element: usize, fortran: bool) -> Strides {
    if !fortran {
        return c_strides(shape, element);
    }
    let reversed: Dims = shape.iter().rev().copied().collect();
    c_strides(&reversed, element).into_iter().rev().collect()
}

/// Makes a new writeable array of this shape, in C or Fortran order.
///
/// # Safety
/// `data` is null, and NumPy allocates. Or it has room for the elements, is aligned for any type,
/// and the caller makes the array own it.
pub(crate) unsafe fn new_array<'py>(
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[u64],
    data: *mut u8,
    fortran: bool,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = dtype.py();
    let order = if fortran { NPY_ARRAY_F_CONTIGUOUS } else { 0 };
    let mut dims: Strides = shape.iter().map(|n| *n as npy_intp).collect();
    // SAFETY: `dims` has as many numbers as passed. The caller is responsible for the rest.
    // NewFromDescr takes the reference to the descriptor, even if it fails.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            dtype.clone().into_dtype_ptr(),
            dims.len() as c_int,
            dims.as_mut_ptr(),
            null_mut(),
            data.cast(),
            if data.is_null() { order } else { order | NPY_ARRAY_WRITEABLE },
            null_mut(),
        );
        Ok(Bound::from_owned_ptr_or_err(py, array)?.cast_into_unchecked())
    }
}

/// Makes a NumPy array over `memory`.
pub(crate) fn array_over<'py>(
    mut memory: Memory,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[u64],
    fortran: bool,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = dtype.py();
    let data = memory.as_mut_slice().as_mut_ptr();
    let owner = Bound::new(py, Owner(memory))?;
    // SAFETY: `data` has room for the elements (the engine allocated it for them) and is aligned
    // for any type. Moving the Memory into its Python object does not move the block. The array
    // holds `owner` as its base, so the block outlives the array and all its views. SetBaseObject
    // takes the reference to the owner, even if it fails.
    unsafe {
        let array = new_array(dtype, shape, data, fortran)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.into_ptr()) < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}

/// Room for one element on the stack, aligned for any type.
type Element = [u128; 4];

/// Returns the result of `array[key]`: a NumPy scalar if it has no axes, else an array.
pub(crate) fn read_item<'py>(
    layout: &ArrayLayout,
    dtype: &Bound<'py, PyArrayDescr>,
    selection: &Selection,
    reading: Reading<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let size = layout.dtype().size();
    if !selection.is_scalar() {
        return Ok(read_new(layout, dtype, selection, reading)?.into_any());
    }
    // A long element goes through an array. Raw bytes do too, because their scalar refers to an
    // array.
    if size > size_of::<Element>() || layout.dtype().kind() == Kind::Raw {
        return scalar_of(layout, read_new(layout, dtype, selection, reading)?);
    }
    let py = dtype.py();
    let mut element: Element = [0; 4];
    let base = element.as_mut_ptr().cast::<u8>();
    // SAFETY: `element` has room for `size` bytes, and nobody else refers to it.
    let mut target = unsafe { Target::from_raw(base, &[], &[]) };
    engine::run(py, |stop| read_into(layout, selection, &mut target, reading.options(stop)))?;
    // SAFETY: `base` points to one element of the descriptor's type, which is copied. The
    // descriptor still belongs to the caller.
    let scalar = unsafe {
        let scalar = PY_ARRAY_API.PyArray_Scalar(py, base.cast(), dtype.as_dtype_ptr(), null_mut());
        Bound::from_owned_ptr_or_err(py, scalar)
    };
    scalar.map_err(|error| no_scalar(layout, py, error))
}

/// Returns the scalar of an array without axes. Returns any other array unchanged.
pub(crate) fn scalar_of<'py>(
    layout: &ArrayLayout,
    array: Bound<'py, PyUntypedArray>,
) -> PyResult<Bound<'py, PyAny>> {
    if array.ndim() > 0 {
        return Ok(array.into_any());
    }
    let py = array.py();
    // SAFETY: PyArray_Return takes the reference to a 0-dimensional array. It returns a new
    // reference to its scalar, or null with an exception.
    let scalar = unsafe {
        let scalar = PY_ARRAY_API.PyArray_Return(py, array.into_ptr().cast());
        Bound::from_owned_ptr_or_err(py, scalar)
    };
    scalar.map_err(|error| no_scalar(layout, py, error))
}

/// NumPy makes no scalar of text with a code beyond the last Unicode character.
#[cold]
fn no_scalar(layout: &ArrayLayout, py: Python<'_>, error: PyErr) -> PyErr {
    match error.is_instance_of::<PySystemError>(py) {
        true => errors::exception(
            py,
            "ChunkError",
            format!("array '{}': the element is not text: {error}", layout.name()),
        ),
        false => error,
    }
}

/// Reads a selection into the caller's array or buffer.
pub(crate) fn read_out(
    layout: &ArrayLayout,
    dtype: &Bound<'_, PyArrayDescr>,
    selection: &Selection,
    out: &Bound<'_, PyAny>,
    reading: Reading<'_>,
) -> PyResult<()> {
    let py = dtype.py();
    let array = as_array(out)?;
    let shape = selection.shape();
    if !array.dtype().is_equiv_to(dtype) {
        // Use NumPy's type strings. Unlike names, they include the byte order.
        let (found, wanted) = (array.dtype().getattr("str")?, dtype.getattr("str")?);
        let message = format!("out has elements of type {found}, the array has {wanted}");
        return Err(errors::exception(py, "ArrayShapeError", message));
    }
    if array.shape().iter().map(|n| *n as u64).ne(shape.iter().copied()) {
        let message = format!("out has shape {:?}, the selection {:?}", array.shape(), shape.as_slice());
        return Err(errors::exception(py, "ArrayShapeError", message));
    }
    if !is_writeable(&array) {
        return Err(errors::exception(py, "ArrayShapeError", "out is read-only"));
    }
    let strides = array.strides();
    if overlaps(array.shape(), strides, dtype.itemsize()) {
        // Several threads cannot write elements that share bytes. NumPy's own assignment defines
        // the result.
        let read = read_new(layout, dtype, selection, reading)?;
        return array.set_item(pyo3::types::PyEllipsis::get(py), read);
    }
    // SAFETY: NumPy guarantees that every element of an array is within its memory. No two elements
    // overlap, as checked. `array` is held until the end. Another thread may change it meanwhile,
    // as with any NumPy function that releases the GIL. Then the elements are unspecified
    // (`Target::from_raw`).
    let mut target = unsafe { Target::from_raw(data_of(&array), &shape, strides) };
    engine::run(py, |stop| read_into(layout, selection, &mut target, reading.options(stop)))
}

/// Returns the caller's memory as a NumPy array: itself, or a view of a buffer.
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

/// Returns `true` if elements may share bytes. Errs on the safe side: interleaved axes count as
/// overlapping.
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

/// Returns `true` if an array is writeable.
///
/// Reads the array's own flags. An attribute of a derived class would run code, which could change
/// the array's shape between its check and its use.
pub(crate) fn is_writeable(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: the array is alive.
    unsafe { (*array.as_array_ptr()).fields.flags & NPY_ARRAY_WRITEABLE != 0 }
}

/// Address of an array's first element.
pub(crate) fn data_of(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: only the type of the pointer depends on the element type, and nothing is read through
    // it here.
    unsafe { array.cast_unchecked::<PyArrayDyn<u8>>() }.data()
}
