//! Values to write: everything that NumPy can convert to an array, broadcast to the selection.

use crate::errors;
use crate::gil::engine;
use crate::values::output::data_of;
use hyperslab::array::{ArrayLayout, Selection, Source, Strides, WriteOptions, write};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// Options of a write that Python can set.
#[derive(Clone, Copy, Default)]
pub(crate) struct Writing {
    pub(crate) threads: Option<usize>,
    pub(crate) write_empty_chunks: Option<bool>,
}

impl Writing {
    pub(crate) fn options<'a>(self, interrupt: &'a dyn Fn() -> bool) -> WriteOptions<'a> {
        let Writing { threads, write_empty_chunks } = self;
        let interrupt = Some(interrupt);
        WriteOptions { threads, write_empty_chunks, interrupt, ..WriteOptions::default() }
    }
}

/// Writes `value` to a selection with NumPy's rules for conversion and broadcasting in assignments.
pub(crate) fn assign(
    layout: &ArrayLayout,
    dtype: &Bound<'_, PyArrayDescr>,
    selection: &Selection,
    value: &Bound<'_, PyAny>,
    writing: Writing,
) -> PyResult<()> {
    with_source(dtype, selection, value, |source| {
        engine::run(dtype.py(), |stop| write(layout, selection, source, writing.options(stop)))
    })
}

/// Calls `work` with the elements of `value`, converted and broadcast to the selection's shape.
pub(crate) fn with_source<T>(
    dtype: &Bound<'_, PyArrayDescr>,
    selection: &Selection,
    value: &Bound<'_, PyAny>,
    work: impl FnOnce(&Source<'_>) -> PyResult<T>,
) -> PyResult<T> {
    let shape = selection.shape();
    let (array, strides) = broadcast_to(dtype, &shape, value)?;
    // SAFETY: NumPy guarantees that every element of an array is within its memory. Broadcasting
    // only repeats elements. `array` is held until the end. If another thread changes it meanwhile,
    // unspecified values are stored, in chunks that decode (`Source::from_raw`).
    let source = unsafe { Source::from_raw(data_of(&array), &shape, &strides) };
    work(&source)
}

/// Returns the value as an array of this type, and strides that broadcast it to `shape`.
pub(crate) fn broadcast_to<'py>(
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[u64],
    value: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyUntypedArray>, Strides)> {
    let array = convert(value, dtype)?;
    let Some(strides) = broadcast(array.shape(), array.strides(), shape) else {
        let message = format!(
            "could not broadcast input array from shape {} into shape {}",
            tuple(array.shape().iter().map(|n| *n as u64)),
            tuple(shape.iter().copied())
        );
        return Err(errors::exception(dtype.py(), "ArrayShapeError", message));
    };
    Ok((array, strides))
}

/// Returns the value as an array of exactly this type. An array of this type is used as it is, with
/// any strides.
fn convert<'py>(
    value: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    if let Ok(array) = value.cast::<PyUntypedArray>()
        && array.dtype().is_equiv_to(dtype)
    {
        return Ok(array.clone());
    }
    Ok(value.py().import("numpy")?.call_method1("asarray", (value, dtype))?.cast_into::<PyUntypedArray>()?)
}

/// Returns the strides that broadcast values of shape `from` to shape `to`. `None`: they do not
/// fit.
///
/// As in NumPy's assignments, axes are matched from the last, and axes of length 1 repeat. Surplus
/// axes in front must have length 1.
fn broadcast(from: &[usize], strides: &[isize], to: &[u64]) -> Option<Strides> {
    let surplus = from.len().saturating_sub(to.len());
    if from[..surplus].iter().any(|len| *len != 1) {
        return None;
    }
    let (from, strides) = (&from[surplus..], &strides[surplus..]);
    let mut result = Strides::from_elem(0, to.len());
    let first = to.len() - from.len();
    for ((len, stride), (wanted, place)) in
        from.iter().zip(strides).zip(to[first..].iter().zip(&mut result[first..]))
    {
        match *len as u64 {
            len if len == *wanted => *place = *stride,
            1 => *place = 0,
            _ => return None,
        }
    }
    Some(result)
}

/// Formats a shape as in NumPy's messages: `(3,)`, `(2,4)`.
fn tuple(shape: impl ExactSizeIterator<Item = u64>) -> String {
    let trailing = if shape.len() == 1 { "," } else { "" };
    format!("({}{trailing})", shape.map(|n| n.to_string()).collect::<Vec<_>>().join(","))
}
