//! Python's indices as the engine's.

use crate::errors;
use hyperslab::array::{ArrayLayout, Index, Selection};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PySlice, PyString, PyTuple};
use pyo3::{PyTypeInfo, ffi};

/// Most indices have few items; this much room is on the stack.
const INLINE: usize = 8;

/// The selection that `array[key]` means.
pub(crate) fn selection(key: &Bound<'_, PyAny>, layout: &ArrayLayout) -> PyResult<Selection> {
    let mut few = [Index::Ellipsis; INLINE];
    let mut many = Vec::new();
    let indices = match key.cast_exact::<PyTuple>() {
        Ok(tuple) if tuple.len() <= INLINE => {
            for (place, item) in few.iter_mut().zip(tuple.iter_borrowed()) {
                *place = index(&item)?;
            }
            &few[..tuple.len()]
        }
        Ok(tuple) => {
            for item in tuple.iter_borrowed() {
                many.push(index(&item)?);
            }
            &many[..]
        }
        Err(_) => match key.cast::<PyTuple>() {
            // A subclass (a named tuple).
            Ok(tuple) => return selection(tuple.to_list().to_tuple().as_any(), layout),
            Err(_) => {
                few[0] = index(key)?;
                &few[..1]
            }
        },
    };
    Selection::new(layout.name(), layout.shape(), indices).map_err(|error| errors::array(key.py(), &error))
}

fn index(item: &Bound<'_, PyAny>) -> PyResult<Index<'static>> {
    if let Ok(slice) = item.cast::<PySlice>() {
        return unpack(slice);
    }
    if item.is_exact_instance_of::<PyInt>() {
        return integer(item);
    }
    if PyEllipsis::is_type_of(item) {
        return Ok(Index::Ellipsis);
    }
    // Everything that is an integer for Python: NumPy's, 0-dimensional arrays of them. For Python, booleans are; for NumPy, they are masks.
    if !item.is_instance_of::<PyBool>() && item.hasattr("__index__")? {
        match item.call_method0("__index__") {
            Ok(number) => return integer(&number),
            // An array of several integers has the method, too.
            Err(error) if error.is_instance_of::<PyTypeError>(item.py()) => {}
            Err(error) => return Err(error),
        }
    }
    Err(refuse(item))
}

/// One element. No axis is so long that a number beyond 64 bits would be on it.
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

/// `start:stop:step`, with Python's own clamping of huge bounds. Absent bounds become the largest and smallest numbers, which mean the same.
fn unpack(slice: &Bound<'_, PySlice>) -> PyResult<Index<'static>> {
    let (mut start, mut stop, mut step) = (0, 0, 0);
    // SAFETY: `slice` is a live slice object, the pointers are to locals, and the GIL is held.
    if unsafe { ffi::PySlice_Unpack(slice.as_ptr(), &mut start, &mut stop, &mut step) } < 0 {
        return Err(PyErr::fetch(slice.py()));
    }
    Ok(Index::Slice { start: Some(start as i64), stop: Some(stop as i64), step: step as i64 })
}

/// Says what to use instead.
fn refuse(item: &Bound<'_, PyAny>) -> PyErr {
    let py = item.py();
    let kind = item.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
    let message = if item.is_none() {
        "np.newaxis (None) is not supported in an index: reshape the result".to_owned()
    } else if item.is_instance_of::<PyBool>()
        || item.hasattr("__len__").unwrap_or(false) && !item.is_instance_of::<PyString>()
    {
        format!(
            "indexing with {kind} (lists, integer and boolean arrays: what oindex and vindex are for) is not supported yet; \
             integers, slices and ... are"
        )
    } else {
        format!("an index is made of integers, slices and ..., found {kind}")
    };
    errors::exception(py, "UnsupportedSelectionError", message)
}
