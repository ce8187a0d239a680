//! Values of variable length and references on their way into a file.
//!
//! Elements hold the ids of such values, which lead into a heap of the file. The values go there at
//! once. Nothing refers to them before the elements are stored.

use crate::errors::{self, OrRaise};
use crate::hdf5::references::{Reference, RegionReference};
use crate::values::output::data_of;
use crate::values::vlen_input::Places;
use hyperslab::hdf5::edit::{Editing, ValueWriter};
use hyperslab::hdf5::reference::{Reference as Referred, ReferencedPart};
use hyperslab::hdf5::selection::Selection;
use hyperslab::hdf5::{self, Hdf5Error};
use numpy::{
    PyArray1, PyArrayDescr, PyArrayDescrMethods, PyReadonlyArray1, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySlice, PyString};

/// Bytes of a reference to an object, and to a region.
const OBJECT: usize = 8;
const REGION: usize = 12;

/// Fewer texts share a collection with other values. This number fills about half of one: a text takes
/// 16 bytes or more.
const FEW: usize = 1366;

/// Texts that are looked at together, at most. A slice of a list is a copy.
const PART: usize = 1 << 12;

/// Sequences of fewer bytes share a collection with other values, if they are few.
const FEW_BYTES: usize = 32 << 10;

/// Values of variable length and references on their way into a file.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct NewValues {
    file: hdf5::File,
    editing: Editing,
}

impl NewValues {
    pub(crate) fn new(file: hdf5::File, editing: Editing) -> Self {
        NewValues { file, editing }
    }

    /// Stores values: their numbers of items and their bytes. Returns their ids.
    ///
    /// `is_text`: text without letters has a place, too.
    fn put<'v>(
        &self,
        py: Python<'_>,
        values: impl Iterator<Item = (u64, &'v [u8])> + Send,
        is_text: bool,
    ) -> PyResult<Vec<u8>> {
        py.detach(|| self.editing.put_values(values, is_text)).or_raise(py)
    }
}

#[pymethods]
impl NewValues {
    /// Stores text of variable length. Returns the bytes of elements.
    ///
    /// ``values``: `str` and `bytes`, in a list or an array of objects with one axis. ``is_ascii``: the
    /// type is ASCII text.
    fn text<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyAny>,
        is_ascii: bool,
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let count = values.len()?;
        if count < FEW {
            let mut texts = Few { bytes: Vec::new(), ends: Vec::with_capacity(count), size: 1 };
            for value in values.try_iter()? {
                with_text(&value?, is_ascii, |text| {
                    texts.bytes.extend_from_slice(text);
                    texts.ends.push(texts.bytes.len());
                    Ok(())
                })?;
            }
            return Ok(PyArray1::from_vec(py, self.put(py, texts.all(), true)?));
        }
        let mut writer = self.editing.value_writer(count, true);
        let mut at = 0;
        while at < count {
            // Between parts, the GIL is released, and code of Python has run: the values may have changed.
            let end = at.saturating_add(PART).min(count);
            let part = values.get_item(PySlice::new(py, at as isize, end as isize, 1))?;
            let start = at;
            each(&part, |value| {
                let put = |text: &[u8]| writer.put(text.len() as u64, text).or_raise(py);
                let has_run_python = with_text(value, is_ascii, put)?;
                at += 1;
                Ok(has_run_python || writer.is_full())
            })?;
            if writer.is_full() {
                write_block(py, &mut writer)?;
            } else if at == start {
                return Err(errors::invalid(py, "the texts were changed while they were written".to_owned()));
            }
        }
        let elements = py.detach(|| writer.finish()).or_raise(py)?;
        Ok(PyArray1::from_vec(py, elements))
    }

    /// Stores sequences of variable length, each an array with one axis. Returns the bytes of elements.
    /// ``None``: an item has another type than ``dtype``, or is no such array.
    ///
    /// ``values``: an array of objects with one axis. ``dtype``: a type of numbers or structures of
    /// numbers, as they are stored.
    fn arrays<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyUntypedArray>,
        dtype: &Bound<'py, PyArrayDescr>,
    ) -> PyResult<Option<Bound<'py, PyArray1<u8>>>> {
        let mut arrays = Vec::with_capacity(values.len());
        let size = dtype.itemsize();
        let mut known: Option<Bound<'py, PyArrayDescr>> = None;
        let mut bytes: usize = 0;
        each(values, |value| {
            let Ok(array) = value.cast_exact::<PyUntypedArray>() else { return Ok(true) };
            let found = array.dtype();
            let is_known = known.as_ref().is_some_and(|known| known.is(&found));
            if array.ndim() != 1 || !array.is_c_contiguous() || !is_known && !found.is_equiv_to(dtype) {
                return Ok(true);
            }
            known = Some(found);
            bytes = bytes.saturating_add(array.len().saturating_mul(size));
            arrays.push(array.clone());
            Ok(false)
        })?;
        if arrays.len() < values.len() {
            return Ok(None);
        }
        if bytes < FEW_BYTES {
            let mut all =
                Few { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(arrays.len()), size };
            for array in &arrays {
                // SAFETY: see `bytes_of`.
                all.bytes.extend_from_slice(unsafe { bytes_of(array, size) });
                all.ends.push(all.bytes.len());
            }
            return Ok(Some(PyArray1::from_vec(py, self.put(py, all.all(), false)?)));
        }
        let mut writer = self.editing.value_writer(arrays.len(), false);
        for array in &arrays {
            // SAFETY: see `bytes_of`.
            let bytes = unsafe { bytes_of(array, size) };
            writer.put((bytes.len() / size.max(1)) as u64, bytes).or_raise(py)?;
            if writer.is_full() {
                write_block(py, &mut writer)?;
            }
        }
        let elements = py.detach(|| writer.finish()).or_raise(py)?;
        Ok(Some(PyArray1::from_vec(py, elements)))
    }

    /// Stores sequences of variable length. Returns the bytes of elements.
    ///
    /// ``offsets``: the first item of each sequence, and the number of all items. ``size``: bytes of
    /// an item.
    fn sequences<'py>(
        &self,
        py: Python<'py>,
        offsets: PyReadonlyArray1<'py, i64>,
        items: PyReadonlyArray1<'py, u8>,
        size: usize,
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let (offsets, items) = (offsets.as_slice()?, items.as_slice()?);
        let place = |offset: i64| usize::try_from(offset).ok()?.checked_mul(size);
        let sequence = |pair: &[i64]| {
            let [start, end] = pair else { return None };
            Some((u64::try_from(end.checked_sub(*start)?).ok()?, items.get(place(*start)?..place(*end)?)?))
        };
        let values: Option<Vec<(u64, &[u8])>> = offsets.windows(2).map(sequence).collect();
        let values = values.ok_or_else(|| errors::invalid(py, "sequences: offsets beyond the items"))?;
        Ok(PyArray1::from_vec(py, self.put(py, values.into_iter(), false)?))
    }

    /// References as bytes of elements. ``None``: a reference to nothing.
    fn references<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyList>,
        is_region: bool,
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let mut found = Vec::with_capacity(values.len() * if is_region { REGION } else { OBJECT });
        for value in values {
            let target = match value.is_none() {
                true => None,
                false => self.target(&value, is_region)?,
            };
            match target {
                None => found.resize(found.len() + if is_region { REGION } else { OBJECT }, 0),
                Some(target) if is_region => found.extend(self.region(py, &target)?),
                Some(target) => found.extend(target.address.to_le_bytes()),
            }
        }
        Ok(PyArray1::from_vec(py, found))
    }
}

/// A few values, one after the other.
struct Few {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Bytes of an item.
    size: usize,
}

impl Few {
    fn all(&self) -> impl Iterator<Item = (u64, &[u8])> + Send {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| {
            let value = self.bytes.get(start..*end).unwrap_or_default();
            ((value.len() / self.size.max(1)) as u64, value)
        })
    }
}

/// Calls `take` with each object of an array of objects with one axis, or of another iterable. `take`
/// returns `true` to stop: it has to, once code of Python has run.
fn each<'py>(
    values: &Bound<'py, PyAny>,
    mut take: impl FnMut(&Bound<'py, PyAny>) -> PyResult<bool>,
) -> PyResult<()> {
    let py = values.py();
    if let Ok(array) = values.cast::<PyUntypedArray>()
        && array.dtype().kind() == b'O'
    {
        for place in Places::of(array) {
            // SAFETY: the place of an object in an array that is held: null, or a reference, which is
            // counted here. The array keeps its memory as long as no code of Python runs.
            let value = unsafe {
                let found = place.cast::<*mut pyo3::ffi::PyObject>().read_unaligned();
                Bound::from_borrowed_ptr_or_opt(py, found)
            };
            if take(&value.unwrap_or_else(|| py.None().into_bound(py)))? {
                break;
            }
        }
        return Ok(());
    }
    for value in values.try_iter()? {
        if take(&value?)? {
            break;
        }
    }
    Ok(())
}

/// Writes the values that are complete, and looks for signals.
fn write_block(py: Python<'_>, writer: &mut ValueWriter<'_>) -> PyResult<()> {
    py.detach(|| writer.write()).or_raise(py)?;
    py.check_signals()
}

/// The bytes of an array whose elements follow each other.
///
/// # Safety
///
/// The GIL is held for as long as the bytes are used, and elements have `size` bytes.
unsafe fn bytes_of<'a>(array: &'a Bound<'_, PyUntypedArray>, size: usize) -> &'a [u8] {
    match array.len().saturating_mul(size) {
        0 => &[],
        // SAFETY: the memory of the array has all of its elements.
        len => unsafe { std::slice::from_raw_parts(data_of(array), len) },
    }
}

/// Calls `put` with the bytes of a text as they are stored. Returns `true` if code of Python has run.
fn with_text(
    value: &Bound<'_, PyAny>,
    is_ascii: bool,
    put: impl FnOnce(&[u8]) -> PyResult<()>,
) -> PyResult<bool> {
    let check = |text: &[u8]| match text {
        text if text.contains(&0) => Err(PyValueError::new_err("VLEN strings do not support embedded NULLs")),
        text => put(text),
    };
    if let Ok(text) = value.cast::<PyString>() {
        return match text.to_str() {
            Ok(text) if !is_ascii || text.is_ascii() => check(text.as_bytes()).map(|()| false),
            // Python raises its own error. (Lone surrogates are bytes that are not UTF-8, as
            // attributes are read.)
            _ => {
                let how = if is_ascii { ("ascii", "strict") } else { ("utf-8", "surrogateescape") };
                let encoded = text.call_method1("encode", how)?;
                check(encoded.cast::<PyBytes>()?.as_bytes()).map(|()| true)
            }
        };
    }
    if let Ok(text) = value.cast::<PyBytes>() {
        return check(text.as_bytes()).map(|()| false);
    }
    let message = format!(
        "Can't implicitly convert non-string objects to strings: expected text, found {}",
        value.get_type().name()?
    );
    Err(PyTypeError::new_err(message))
}

impl NewValues {
    /// The target of a reference in this file. `None`: it leads nowhere.
    fn target(&self, value: &Bound<'_, PyAny>, is_region: bool) -> PyResult<Option<Referred>> {
        let py = value.py();
        let kind = if is_region { "region" } else { "object" };
        let wrong = || {
            let message = format!("Can't convert incompatible object to HDF5 {kind} reference");
            PyTypeError::new_err(message)
        };
        let reference = value.cast::<Reference>().map_err(|_| wrong())?;
        // A region reference is a reference, too. The elements that it names would be lost.
        if is_region != value.is_instance_of::<RegionReference>() {
            return Err(wrong());
        }
        let Some(target) = reference.get().target.clone() else { return Ok(None) };
        if target.file.is_some() || !self.file.is(&reference.get().file) {
            let message = "a reference leads into another file: HDF5 stores references within one file";
            return Err(errors::invalid(py, message));
        }
        Ok(Some(target))
    }

    fn region(&self, py: Python<'_>, target: &Referred) -> PyResult<[u8; REGION]> {
        let selection = match &target.part {
            ReferencedPart::Region(selection) => selection,
            _ => &Selection::All,
        };
        let selection = selection.build().map_err(|why| errors::invalid(py, why.to_string()))?;
        py.detach(|| self.editing.put_region(target.address, &selection)).or_raise(py)
    }
}

/// The error for values that a file cannot store.
pub(crate) fn unstorable(object: &str, why: String) -> Hdf5Error {
    Hdf5Error::Unstorable { object: object.to_owned(), why }
}
