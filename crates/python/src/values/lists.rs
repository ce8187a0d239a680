//! Nested lists, whose outer levels are the axes of an array.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyMemoryView, PyString, PyTuple};

pub(crate) fn is_text_or_bytes(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyString>() || is_bytes(object)
}

pub(crate) fn is_bytes(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyBytes>()
        || object.is_instance_of::<PyByteArray>()
        || object.is_instance_of::<PyMemoryView>()
}

/// The contents of the innermost lists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Leaf {
    Nothing,
    Null,
    /// Text or bytes.
    Text,
    Other,
}

/// The deepest nesting of lists: the most axes that NumPy's arrays have.
const MOST_DEPTH: usize = 64;

/// Bounds the recursion into lists. A list may contain itself.
pub(crate) fn check_depth(depth: usize) -> PyResult<()> {
    match depth {
        0..=MOST_DEPTH => Ok(()),
        _ => Err(PyValueError::new_err(format!(
            "lists are nested more than {MOST_DEPTH} deep: they make no array"
        ))),
    }
}

/// Returns the number of levels of lists and arrays, and the contents of the innermost. `depth`:
/// levels of lists around the object.
///
/// The first item that is more than null decides.
pub(crate) fn nesting(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<(usize, Leaf)> {
    check_depth(depth)?;
    if let Ok(array) = object.cast::<PyUntypedArray>() {
        let text = matches!(array.dtype().kind(), b'O' | b'T' | b'U' | b'S');
        return Ok((array.ndim(), if text { Leaf::Text } else { Leaf::Other }));
    }
    if !is_list(object) {
        let text = is_text_or_bytes(object);
        let leaf = if text { Leaf::Text } else { Leaf::Other };
        return Ok((0, if object.is_none() { Leaf::Null } else { leaf }));
    }
    let mut found = (0, Leaf::Nothing);
    for item in object.try_iter()? {
        found = found.max(nesting(&item?, depth + 1)?);
        if found.1 > Leaf::Null {
            break;
        }
    }
    Ok((found.0 + 1, found.1))
}

/// Returns `true` for a list or a tuple.
pub(crate) fn is_list(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>()
}

/// Collects the items `levels` deep in lists, in C order. Lists of one level must have equal
/// lengths.
pub(crate) fn flatten<'py>(
    object: &Bound<'py, PyAny>,
    levels: usize,
    depth: usize,
    shape: &mut Vec<u64>,
    leaves: &mut Vec<Bound<'py, PyAny>>,
) -> PyResult<()> {
    if depth == levels {
        leaves.push(object.clone());
        return Ok(());
    }
    let unequal =
        || PyValueError::new_err(format!("lists of level {depth} differ in length: they make no array"));
    let len = match object.len() {
        Ok(len) if !is_text_or_bytes(object) => len as u64,
        _ => return Err(unequal()),
    };
    match shape.get(depth) {
        Some(expected) if *expected != len => return Err(unequal()),
        Some(_) => {}
        None => shape.push(len),
    }
    for item in object.try_iter()? {
        flatten(&item?, levels, depth + 1, shape, leaves)?;
    }
    Ok(())
}
