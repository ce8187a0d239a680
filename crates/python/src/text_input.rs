//! Text of Python's `str` objects, as the engine has it: in one pass, from arrays of objects and flat
//! lists. What else there may be among the objects (null, bytes, lists), [`crate::vlen_input`] takes.

use crate::errors;
use crate::vlen_input::Places;
use hyperslab::array::Ragged;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

/// Elements after which memory for all is reserved, as if the others were as long.
const SAMPLE: usize = 1 << 10;

/// The texts of an array of objects, or of a list. `None`: it is something else, or an element is no
/// `str`.
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
        // SAFETY: the place of an element of objects: a pointer, which is null or a reference that
        // the array holds. `push` runs no code of Python's, so the array keeps it until then.
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

/// Texts, one behind the other.
struct Texts<'py> {
    py: Python<'py>,
    found: Ragged,
    count: usize,
    /// Bytes of the texts; the memory may be longer.
    end: usize,
}

impl<'py> Texts<'py> {
    /// For `count` of them.
    fn new(py: Python<'py>, count: usize) -> PyResult<Self> {
        let found = Ragged::growing(count).ok_or_else(|| no_memory(py, count, 0))?;
        Ok(Texts { py, found, count, end: 0 })
    }

    /// Adds a text; `false`: it is none. Runs no code of Python's, unless it fails.
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

    /// Makes room for `least` bytes, and for more that may come.
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
        // Never longer than it is.
        self.found.values.resize(self.end);
        Ragged { shape: shape.into(), ..self.found }
    }
}

fn no_memory(py: Python<'_>, count: usize, bytes: usize) -> PyErr {
    errors::exception(py, "OutOfMemoryError", format!("no memory for {count} texts of {bytes} bytes or more"))
}
