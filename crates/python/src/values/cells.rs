//! Variable-length elements as NumPy arrays: of strings, of fixed-length bytes, or of objects.
//!
//! All are built from one form in memory ([`Cells`]) in one pass, without a list in between.

use crate::errors;
use crate::gil::once::interned;
use crate::values::npy_string::new_strings;
use crate::values::output::{Owner, data_of, is_writeable, new_array};
use hyperslab::Memory;
use numpy::npyffi::PY_ARRAY_API;
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyUnicodeDecodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use pyo3::{PyTypeInfo, ffi};
use std::borrow::Cow;
use std::ffi::CString;
use std::ptr::null_mut;

/// Elements of variable length in memory. Element `i` is `values[offsets[i] * size..offsets[i + 1]
/// * size]`.
#[derive(Clone, Copy)]
pub(crate) struct Cells<'a> {
    offsets: &'a [i64],
    values: &'a [u8],
    /// One byte per element; 0 is null. Any other byte is true: NumPy's Booleans may be any number.
    validity: Option<&'a [u8]>,
    /// Bytes of an item.
    size: usize,
}

impl<'a> Cells<'a> {
    /// Checks that offsets ascend and stay within the values. Nobody may change the memory.
    pub(crate) fn new(
        offsets: &'a [i64],
        values: &'a [u8],
        validity: Option<&'a [u8]>,
        size: usize,
    ) -> PyResult<Self> {
        let last = offsets.last().and_then(|last| usize::try_from(*last).ok());
        let fits = last.and_then(|last| last.checked_mul(size)).is_some_and(|end| end <= values.len());
        let ascend = offsets.first().is_some_and(|first| *first >= 0) && offsets.is_sorted();
        if !fits || !ascend {
            return Err(PyValueError::new_err(
                "offsets: expected numbers that ascend from 0 or more to at most the length of values",
            ));
        }
        if validity.is_some_and(|validity| validity.len() + 1 != offsets.len()) {
            return Err(PyValueError::new_err("validity: expected one Boolean for each element"));
        }
        Ok(Cells { offsets, values, validity, size })
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns the bytes of an element. `None`: it is null.
    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        match self.validity {
            Some(validity) if validity.get(index).is_none_or(|valid| *valid == 0) => None,
            _ => Some(self.bytes(index)),
        }
    }

    /// Returns the bytes of an element. Empty if it is null.
    pub(crate) fn bytes(&self, index: usize) -> &'a [u8] {
        match self.offsets.get(index..index + 2) {
            Some(&[start, end]) => {
                self.values.get(start as usize * self.size..end as usize * self.size).unwrap_or_default()
            }
            _ => &[],
        }
    }

    /// Returns the bytes of all elements, one after the other.
    pub(crate) fn all_bytes(&self) -> &'a [u8] {
        match *self.offsets {
            [first, .., last] => {
                self.values.get(first as usize * self.size..last as usize * self.size).unwrap_or_default()
            }
            _ => &[],
        }
    }

    /// Returns the index of the first element that is not UTF-8, and its error. `None`: all are
    /// UTF-8.
    fn not_text(&self) -> Option<(usize, std::str::Utf8Error)> {
        // Checking all bytes at once is several times faster than element by element. If this
        // fails, an element has invalid bytes, or a border between elements is within a character.
        let first = self.offsets.first().copied().unwrap_or(0);
        let whole = match std::str::from_utf8(self.all_bytes()) {
            Ok(all) => self.offsets.iter().all(|at| all.is_char_boundary((at - first) as usize)),
            Err(_) => false,
        };
        let wrong = |index: usize| Some((index, std::str::from_utf8(self.bytes(index)).err()?));
        if whole { None } else { (0..self.len()).find_map(wrong) }
    }

    /// Fails unless all elements are UTF-8.
    pub(crate) fn check_text(&self, py: Python<'_>) -> PyResult<Texts<'a>> {
        let Some((index, error)) = self.not_text() else { return Ok(Texts(*self)) };
        let (at, bytes) = (error.valid_up_to(), self.bytes(index));
        let why = CString::from(c"invalid UTF-8 in an element of variable length");
        let (found, start, end) = (PyBytes::new(py, bytes), at as ffi::Py_ssize_t, at as ffi::Py_ssize_t + 1);
        let raised =
            PyUnicodeDecodeError::type_object(py).call1(("utf-8", found, start, end, why.to_string_lossy()));
        let raised = raised?;
        raised.call_method1(
            interned!(py, "add_note"),
            (format!(
                "it is element {index} in C order; read bytes instead, or decode them from another encoding"
            ),),
        )?;
        Err(PyErr::from_value(raised))
    }
}

/// Cells that are valid UTF-8.
#[derive(Clone, Copy)]
pub(crate) struct Texts<'a>(Cells<'a>);

impl<'a> Texts<'a> {
    /// `None`: the element is null.
    fn get(&self, index: usize) -> Option<&'a str> {
        // SAFETY: all elements were checked when this value was built. They are borrowed from
        // memory that nobody changes: the engine's own, or frozen.
        self.0.get(index).map(|bytes| unsafe { std::str::from_utf8_unchecked(bytes) })
    }
}

/// Makes an array of NumPy's variable-length strings.
pub(crate) fn strings<'py>(
    texts: Texts<'_>,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[u64],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    new_strings(dtype, shape, |index| texts.get(index))
}

/// The objects that bytes become in an array of objects.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    Bytes,
    /// Text in this encoding, and the handling of errors.
    Text {
        encoding: &'a str,
        errors: &'a str,
    },
}

impl Wanted<'_> {
    /// Makes one object.
    pub(crate) fn object<'py>(self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let Wanted::Text { encoding, errors } = self else { return Ok(PyBytes::new(py, bytes).into_any()) };
        let text = match encoding {
            "utf-8" => std::str::from_utf8(bytes).ok(),
            "ascii" => std::str::from_utf8(bytes).ok().filter(|text| text.is_ascii()),
            _ => None,
        };
        match text {
            Some(text) => Ok(PyString::new(py, text).into_any()),
            // Let Python handle other encodings and invalid bytes.
            None => PyBytes::new(py, bytes).call_method1(interned!(py, "decode"), (encoding, errors)),
        }
    }
}

/// Makes an array of objects from cells. Null cells become `None`.
pub(crate) fn objects<'py>(
    cells: Cells<'_>,
    wanted: Wanted<'_>,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[u64],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = dtype.py();
    new_objects(dtype, shape, |index| match cells.get(index) {
        Some(bytes) => wanted.object(py, bytes),
        None => Ok(py.None().into_bound(py)),
    })
}

/// Makes an array of bytes, or of text in this encoding.
pub(crate) fn decode_text_array<'py>(
    cells: Cells<'_>,
    encoding: Option<&str>,
    errors: &str,
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[u64],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let encoding = encoding.map(self::encoding);
    let wanted = match &encoding {
        None => Wanted::Bytes,
        Some(encoding) => Wanted::Text { encoding, errors },
    };
    objects(cells, wanted, dtype, shape)
}

/// Makes a new array of objects, one by one.
pub(crate) fn new_objects<'py>(
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[u64],
    mut make: impl FnMut(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    if dtype.kind() != b'O' {
        return Err(PyTypeError::new_err(format!("expected a data type of objects, found {dtype}")));
    }
    // SAFETY: null: NumPy allocates.
    let array = unsafe { new_array(dtype, shape, null_mut(), false) }?;
    let first = data_of(&array).cast::<*mut ffi::PyObject>();
    for index in 0..array.len() {
        let object = make(index)?;
        // SAFETY: the array is new, in C order, and has as many elements. Each is a pointer that
        // NumPy has set to null, so no reference has to be dropped. The element takes over the
        // reference.
        unsafe { first.add(index).write(object.into_ptr()) };
    }
    Ok(array)
}

/// Copies the items in `bytes` into a new array.
pub(crate) fn copy_items<'py>(
    bytes: &[u8],
    item: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let count = bytes.len().checked_div(item.itemsize()).unwrap_or(0);
    if item.has_object() {
        return Err(PyTypeError::new_err(format!("{item} is not in memory as bytes")));
    }
    // SAFETY: null: NumPy allocates.
    let array = unsafe { new_array(item, &[count as u64], null_mut(), false) }?;
    // SAFETY: the array is new and has `count` items. They are no objects, and together not longer
    // than `bytes`.
    unsafe { data_of(&array).copy_from_nonoverlapping(bytes.as_ptr(), count * item.itemsize()) };
    Ok(array)
}

/// Arrays that are views of one block of memory and keep it alive. Each view takes one NumPy
/// allocation, and nothing is copied.
pub(crate) struct Views<'py> {
    /// Keeps the block alive.
    owner: Bound<'py, PyAny>,
    first: *mut u8,
    len: usize,
    item: Bound<'py, PyArrayDescr>,
}

impl<'py> Views<'py> {
    /// `item` is the type of an item. It must not contain objects.
    pub(crate) fn new(mut memory: Memory, item: &Bound<'py, PyArrayDescr>) -> PyResult<Self> {
        if item.has_object() {
            return Err(PyTypeError::new_err(format!("{item} is not in memory as bytes")));
        }
        let (first, len) = (memory.as_mut_slice().as_mut_ptr(), memory.len());
        let owner = Bound::new(item.py(), Owner(memory))?.into_any();
        Ok(Views { owner, first, len, item: item.clone() })
    }

    /// Uses the memory of a writeable NumPy array of one axis without gaps.
    pub(crate) fn of_array(array: &Bound<'py, PyUntypedArray>) -> PyResult<Self> {
        let item = array.dtype();
        let fits = array.ndim() == 1 && array.is_c_contiguous() && is_writeable(array);
        if !fits || item.has_object() {
            return Err(PyTypeError::new_err(
                "expected an array of one axis without gaps, not of objects, that may be written to",
            ));
        }
        Ok(Views {
            owner: array.clone().into_any(),
            first: data_of(array),
            len: array.len() * item.itemsize(),
            item,
        })
    }

    /// Returns items `start..end` as an array.
    pub(crate) fn get(&self, start: i64, end: i64) -> PyResult<Bound<'py, PyAny>> {
        let (py, size) = (self.item.py(), self.item.itemsize());
        let within = |at: i64| {
            usize::try_from(at).ok().and_then(|at| at.checked_mul(size)).filter(|at| *at <= self.len)
        };
        let (Some(from), Some(to)) = (within(start), within(end)) else {
            return Err(PyValueError::new_err(format!(
                "items {start} to {end} are not in {} bytes",
                self.len
            )));
        };
        let count = if from < to { (end - start) as u64 } else { 0 };
        // SAFETY: `count` items from `from` on are within the block, as checked. The array holds
        // the owner, so the block outlives it. SetBaseObject takes the reference to the owner, even
        // if it fails.
        unsafe {
            let array = new_array(&self.item, &[count], self.first.add(from), false)?;
            if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), self.owner.clone().into_ptr())
                < 0
            {
                return Err(PyErr::fetch(py));
            }
            Ok(array.into_any())
        }
    }

    /// Returns an array of objects, each a view. Null elements are `None`.
    pub(crate) fn array(
        &self,
        offsets: &[i64],
        validity: Option<&[u8]>,
        dtype: &Bound<'py, PyArrayDescr>,
        shape: &[u64],
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let py = dtype.py();
        let is_null =
            |index: usize| validity.and_then(|validity| validity.get(index)).is_some_and(|valid| *valid == 0);
        new_objects(dtype, shape, |index| match offsets.get(index..index + 2) {
            _ if is_null(index) => Ok(py.None().into_bound(py)),
            Some(&[start, end]) => self.get(start, end),
            _ => self.get(0, 0),
        })
    }
}

/// Makes an array of bytes (`S`), or with `wide` of characters (`U`), of fixed length.
///
/// `len`: the length of an element. `None`: the length of the longest. A longer element is an
/// error: nothing is cut off.
pub(crate) fn fixed_length_array<'py>(
    py: Python<'py>,
    cells: Cells<'_>,
    wide: bool,
    len: Option<usize>,
    shape: &[u64],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let texts = if wide { Some(cells.check_text(py)?) } else { None };
    let count = |index: usize| match texts {
        Some(texts) => texts.get(index).unwrap_or_default().chars().count(),
        None => cells.bytes(index).len(),
    };
    let longest = (0..cells.len()).map(count).max().unwrap_or(0);
    let unit = if wide { size_of::<u32>() } else { 1 };
    let len = len.unwrap_or(longest.max(1));
    if longest > len {
        let what = if wide { "characters" } else { "bytes" };
        let message = format!("an element has {longest} {what}, and only {len} fit: nothing is cut off");
        return Err(errors::invalid(py, message));
    }
    let dtype = PyArrayDescr::new(py, format!("{}{len}", if wide { 'U' } else { 'S' }))?;
    // SAFETY: null: NumPy allocates.
    let array = unsafe { new_array(&dtype, shape, null_mut(), false) }?;
    let bytes = array.len().checked_mul(len * unit).unwrap_or(0);
    // SAFETY: the array is new, in C order, and has `bytes` bytes. Nobody else refers to it.
    let memory = unsafe {
        let first = data_of(&array);
        first.write_bytes(0, bytes);
        std::slice::from_raw_parts_mut(first, bytes)
    };
    for (index, place) in memory.chunks_exact_mut((len * unit).max(1)).enumerate() {
        match texts {
            None => {
                let found = cells.bytes(index);
                place[..found.len()].copy_from_slice(found);
            }
            Some(texts) => {
                let characters = texts.get(index).unwrap_or_default().chars();
                for (place, character) in place.chunks_exact_mut(unit).zip(characters) {
                    place.copy_from_slice(&u32::from(character).to_ne_bytes());
                }
            }
        }
    }
    Ok(array)
}

/// Returns the name of an encoding as used by [`Wanted`].
pub(crate) fn encoding(name: &str) -> Cow<'_, str> {
    match name.to_ascii_lowercase().as_str() {
        "utf8" | "utf-8" => Cow::Borrowed("utf-8"),
        "ascii" => Cow::Borrowed("ascii"),
        _ => Cow::Borrowed(name),
    }
}
