//! Converts Python's `str` objects to the engine's text in one pass.
//!
//! It takes arrays of objects and flat lists. [`crate::values::vlen_input`] handles other objects (null,
//! bytes, lists).

use crate::errors;
use crate::values::vlen_input::Places;
use hyperslab::array::Ragged;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

/// After this many elements, memory for all is reserved, assuming that the others are as long.
const SAMPLE: usize = 1 << 10;

/// Returns the texts of an array of objects or of a list. `None`: it is neither, or an element is
/// not a `str`.
pub(crate) fn ragged(values: &Bound<'_, PyAny>) -> PyResult<Option<Ragged>> {
    let py = values.py();
    if let Ok(list) = values.cast::<PyList>() {
        let mut texts = Texts::new(py, list.len())?;
        for object in list.iter() {
            if !texts.push(&object)? {
                return Ok(None);
            }
        }
        let count = texts.found.count() as u64;
        return Ok(Some(texts.finish(&[count])));
    }
    let Ok(array) = values.cast::<PyUntypedArray>() else { return Ok(None) };
    if array.dtype().kind() != b'O' {
        return Ok(None);
    }
    let mut texts = Texts::new(py, array.len())?;
    for place in Places::of(array) {
        // SAFETY: `place` is the place of an element of objects: a pointer that is null or a
        // reference held by the array. `push` runs no Python code, so the array keeps the reference
        // until then.
        let object = unsafe {
            Borrowed::from_ptr_or_opt(py, place.cast::<*mut pyo3::ffi::PyObject>().read_unaligned())
        };
        let Some(object) = object else { return Ok(None) };
        if !texts.push(&object)? {
            return Ok(None);
        }
    }
    let shape: Vec<u64> = array.shape().iter().map(|len| *len as u64).collect();
    Ok(Some(texts.finish(&shape)))
}

/// Texts, one after the other.
struct Texts<'py> {
    py: Python<'py>,
    found: Ragged,
    count: usize,
    /// Bytes of the texts. The memory may be longer.
    end: usize,
}

impl<'py> Texts<'py> {
    /// Makes room for `count` texts.
    fn new(py: Python<'py>, count: usize) -> PyResult<Self> {
        let found = Ragged::growing(count).ok_or_else(|| no_memory(py, count, 0))?;
        Ok(Texts { py, found, count, end: 0 })
    }

    /// Adds a text. `false`: it is not text. Runs no Python code unless it fails.
    #[inline]
    fn push(&mut self, object: &Bound<'py, PyAny>) -> PyResult<bool> {
        let Ok(text) = object.cast::<PyString>() else { return Ok(false) };
        let text = text.to_str()?.as_bytes();
        let end = self.end.saturating_add(text.len());
        if end > self.found.values.len() {
            self.grow(end)?;
        }
        if let Some(to) = self.found.values.as_mut_slice().get_mut(self.end..end) {
            to.copy_from_slice(text);
        }
        self.end = end;
        self.found.offsets.push(end as i64);
        Ok(true)
    }

    /// Makes room for `least` bytes, and for texts to come.
    #[cold]
    fn grow(&mut self, least: usize) -> PyResult<()> {
        let there = self.found.count().max(1);
        let guess = match there < SAMPLE {
            true => 0,
            false => least as u128 * self.count as u128 / there as u128,
        };
        let guess = usize::try_from(guess + guess / 32).unwrap_or(0);
        let values = &mut self.found.values;
        let room = guess.max(least.saturating_mul(2));
        values.reserve(room);
        match values.resize(room) || values.resize(least) {
            true => Ok(()),
            false => Err(no_memory(self.py, self.count, least)),
        }
    }

    fn finish(mut self, shape: &[u64]) -> Ragged {
        // Only shrinks.
        self.found.values.resize(self.end);
        Ragged { shape: shape.into(), ..self.found }
    }
}

fn no_memory(py: Python<'_>, count: usize, bytes: usize) -> PyErr {
    errors::exception(py, "OutOfMemoryError", format!("no memory for {count} texts of {bytes} bytes or more"))
}
