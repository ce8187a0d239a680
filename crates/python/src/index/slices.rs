//! Converts Python's indices to the engine's. Integers, slices and `...` are handled here, lists
//! and masks in [`crate::index::fancy`].

use crate::errors;
use crate::index::fancy;
use hyperslab::array::{ArrayLayout, Index, Selection};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyEllipsis, PyInt, PySlice, PyString, PyTuple};
use pyo3::{PyTypeInfo, ffi};

/// Number of index items with room on the stack. Most indices have fewer.
const INLINE: usize = 8;

/// Returns the selection of `array[key]`. Converts each item once.
pub(crate) fn selection(key: &Bound<'_, PyAny>, layout: &ArrayLayout) -> PyResult<Selection> {
    let mut few = [Index::Ellipsis; INLINE];
    let mut many = Vec::new();
    let indices = match key.cast_exact::<PyTuple>() {
        Ok(tuple) if tuple.len() <= INLINE => {
            let mut items = tuple.iter_borrowed();
            let mut done = 0;
            while let Some(item) = items.next() {
                match basic(&item)? {
                    Some(index) => few[done] = index,
                    None => return fancy::with_lists(&few[..done], &item, items, layout),
                }
                done += 1;
            }
            &few[..done]
        }
        Ok(tuple) => {
            let mut items = tuple.iter_borrowed();
            while let Some(item) = items.next() {
                match basic(&item)? {
                    Some(index) => many.push(index),
                    None => return fancy::with_lists(&many, &item, items, layout),
                }
            }
            &many[..]
        }
        Err(_) => match key.cast::<PyTuple>() {
            // A subclass of tuple, such as a named tuple.
            Ok(tuple) => return selection(tuple.to_list().to_tuple().as_any(), layout),
            Err(_) => match basic(key)? {
                Some(index) => {
                    few[0] = index;
                    &few[..1]
                }
                None => return fancy::with_lists(&[], key, [], layout),
            },
        },
    };
    Selection::new(layout.name(), layout.shape(), indices).map_err(|error| errors::array(key.py(), &error))
}

/// Converts an item that is one element, a range, or `...`. `None`: it may be a list or a mask.
pub(crate) fn basic(item: &Bound<'_, PyAny>) -> PyResult<Option<Index<'static>>> {
    if let Ok(slice) = item.cast::<PySlice>() {
        return unpack(slice).map(Some);
    }
    if item.is_exact_instance_of::<PyInt>() {
        return integer(item).map(Some);
    }
    if PyEllipsis::is_type_of(item) {
        return Ok(Some(Index::Ellipsis));
    }
    if item.cast::<PyUntypedArray>().is_ok_and(|array| array.ndim() > 0) {
        return Ok(None);
    }
    if item.is_none() || item.is_instance_of::<PyBool>() || item.is_instance_of::<PyString>() {
        return Err(refuse(item));
    }
    // Up to NumPy 2.2, NumPy's Booleans can be used as Python integers, with a warning.
    if item.get_type().name().is_ok_and(|name| name == "bool" || name == "bool_") {
        return Ok(None);
    }
    // Everything that can be used as a Python integer: NumPy's integers, and their 0-dimensional
    // arrays.
    if item.hasattr("__index__")? {
        match item.call_method0("__index__") {
            Ok(number) => return integer(&number).map(Some),
            // Other arrays have the method, too.
            Err(error) if error.is_instance_of::<PyTypeError>(item.py()) => {}
            Err(error) => return Err(error),
        }
    }
    let list = item.hasattr("__array__")? || item.hasattr("__len__")? && !item.is_instance_of::<PyBytes>();
    if list { Ok(None) } else { Err(refuse(item)) }
}

/// Converts an index of one element. A number over 64 bits is out of bounds for every axis.
fn integer(number: &Bound<'_, PyAny>) -> PyResult<Index<'static>> {
    match number.extract::<i64>() {
        Ok(at) => Ok(Index::At(at)),
        Err(error) if error.is_instance_of::<PyOverflowError>(number.py()) => Err(errors::exception(
            number.py(),
            "BoundsCheckError",
            format!("index {number} is out of bounds"),
        )),
        Err(error) => Err(error),
    }
}

/// Converts `start:stop:step`. Python clamps huge bounds. Absent bounds become the largest and
/// smallest numbers, which mean the same.
fn unpack(slice: &Bound<'_, PySlice>) -> PyResult<Index<'static>> {
    let (mut start, mut stop, mut step) = (0, 0, 0);
    // SAFETY: `slice` is a live slice object, the pointers are to locals, and the GIL is held.
    if unsafe { ffi::PySlice_Unpack(slice.as_ptr(), &mut start, &mut stop, &mut step) } < 0 {
        return Err(PyErr::fetch(slice.py()));
    }
    Ok(Index::Slice { start: Some(start as i64), stop: Some(stop as i64), step: step as i64 })
}

/// Returns an error that says what to use instead.
fn refuse(item: &Bound<'_, PyAny>) -> PyErr {
    let py = item.py();
    let kind = item.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
    let message = if item.is_none() {
        "np.newaxis (None) is for array[...] and array.lazy[...] only: reshape the result".to_owned()
    } else if item.is_instance_of::<PyBool>() {
        format!("{item} is no index: a mask is an array with axes")
    } else {
        format!("an index is made of integers, slices, ..., lists and masks, found {kind}")
    };
    errors::exception(py, "UnsupportedSelectionError", message)
}
