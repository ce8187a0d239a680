//! Values to be written: anything that NumPy makes an array of, broadcast to the selection.

use crate::engine;
use crate::errors;
use crate::output::data_of;
use hyperslab::array::{ArrayLayout, Selection, Source, Strides, WriteOptions, write};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// Options of a write that Python can give.
#[derive(Clone, Copy, Default)]
pub(crate) struct Writing {
    pub(crate) threads: Option<usize>,
    pub(crate) write_empty_chunks: Option<bool>,
}

impl Writing {
    pub(crate) fn options<'a>(self, interrupt: &'a dyn Fn() -> bool) -> WriteOptions<'a> {
        let Writing { threads, write_empty_chunks } = self;
        WriteOptions { threads, write_empty_chunks, interrupt: Some(interrupt), still: None }
    }
}

/// Writes `value` to a selection, with NumPy's rules: conversion as in an assignment, and
/// broadcasting.
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

/// Lends `work` the elements of `value`, converted and broadcast to the selection's shape.
pub(crate) fn with_source<T>(
    dtype: &Bound<'_, PyArrayDescr>,
    selection: &Selection,
    value: &Bound<'_, PyAny>,
    work: impl FnOnce(&Source<'_>) -> PyResult<T>,
) -> PyResult<T> {
    let shape = selection.shape();
    let (array, strides) = broadcast_to(dtype, &shape, value)?;
    // SAFETY: NumPy vouches that every element of an array lies in its memory; broadcasting repeats
    // elements and names no others. `array` is held until the end. Another thread may change it
    // meanwhile: then unspecified values are stored, in chunks that decode (`Source::from_raw`).
    let source = unsafe { Source::from_raw(data_of(&array), &shape, &strides) };
    work(&source)
}

/// The value as an array of this type, and the strides with which its elements fill `shape`.
pub(crate) fn broadcast_to<'py>(
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[u64],
    value: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyUntypedArray>, Strides)> {
    let array = converted(value, dtype)?;
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

/// The value as an array of exactly this type. An array that has it is taken as it is, whatever its
/// strides.
fn converted<'py>(
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

/// Strides with which values of `from` fill `to`: axes are matched from the last; axes of length 1
/// repeat; further axes in front must have length 1, as in an assignment of NumPy. `None` where
/// they do not fit.
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

/// A shape as NumPy's messages have it: `(3,)`, `(2,4)`.
fn tuple(shape: impl ExactSizeIterator<Item = u64>) -> String {
    let trailing = if shape.len() == 1 { "," } else { "" };
    format!("({}{trailing})", shape.map(|n| n.to_string()).collect::<Vec<_>>().join(","))
}
