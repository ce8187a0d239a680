//! Values of variable length and references on their way into a file.
//!
//! Elements hold the ids of such values, which lead into a heap of the file. The values go there at
//! once. Nothing refers to them before the elements are stored.

use crate::errors::{self, OrRaise};
use crate::hdf5::references::{Reference, RegionReference};
use hyperslab::hdf5::edit::Editing;
use hyperslab::hdf5::reference::{Reference as Referred, ReferencedPart};
use hyperslab::hdf5::selection::Selection;
use hyperslab::hdf5::{self, Hdf5Error};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

/// Bytes of a reference to an object, and to a region.
const OBJECT: usize = 8;
const REGION: usize = 12;

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
    /// ``values``: `str` and `bytes`. ``is_ascii``: the type is ASCII text.
    fn text<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyList>,
        is_ascii: bool,
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut ends: Vec<usize> = Vec::with_capacity(values.len());
        for value in values {
            let start = bytes.len();
            if let Ok(text) = value.cast::<PyString>() {
                match text.to_str() {
                    Ok(text) if !is_ascii || text.is_ascii() => bytes.extend_from_slice(text.as_bytes()),
                    // Python's own error says what is wrong. (Lone surrogates are bytes that are not
                    // UTF-8, as attributes are read.)
                    _ => {
                        let how = if is_ascii { ("ascii", "strict") } else { ("utf-8", "surrogateescape") };
                        let encoded = text.call_method1("encode", how)?;
                        bytes.extend_from_slice(encoded.cast::<PyBytes>()?.as_bytes());
                    }
                }
            } else if let Ok(text) = value.cast::<PyBytes>() {
                bytes.extend_from_slice(text.as_bytes());
            } else {
                let message = format!(
                    "Can't implicitly convert non-string objects to strings: expected text, found {}",
                    value.get_type().name()?
                );
                return Err(PyTypeError::new_err(message));
            }
            if bytes.get(start..).unwrap_or_default().contains(&0) {
                return Err(PyValueError::new_err("VLEN strings do not support embedded NULLs"));
            }
            ends.push(bytes.len());
        }
        let starts = [0].into_iter().chain(ends.iter().copied());
        let found = starts.zip(&ends).map(|(start, end)| {
            let text = bytes.get(start..*end).unwrap_or_default();
            (text.len() as u64, text)
        });
        let found = self.put(py, found, true)?;
        Ok(PyArray1::from_vec(py, found))
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
