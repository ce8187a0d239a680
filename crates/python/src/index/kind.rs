//! The kinds of indices in `array[key]`.

use crate::errors;
use crate::hdf5::references::RegionReference;
use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyInt, PyList, PySlice, PyString, PyTuple};

/// The kind of an index. The types of its items decide it, before any of them is converted.
///
/// If items are of different kinds, the last of these kinds counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Integers, slices, `...`, lists, masks: the engine. (Other items too: it refuses them.)
    Elements,
    /// `np.newaxis`: a view.
    NewAxis,
    /// `hyperslab.h5.MultiBlockSlice`: arrays in files.
    Blocks,
    /// Names of fields.
    Names,
    /// A region reference. It is the whole index.
    Region,
}

/// Returns the kind of an index. `in_file`: the array is in a file.
pub(crate) fn kind(key: &Bound<'_, PyAny>, in_file: bool) -> Kind {
    match key.cast::<PyTuple>() {
        Ok(tuple) => {
            let kinds = tuple.iter_borrowed().map(|item| kind_of_item(&item, in_file));
            kinds.max().unwrap_or(Kind::Elements)
        }
        Err(_) if in_file && key.is_instance_of::<RegionReference>() => Kind::Region,
        Err(_) => kind_of_item(key, in_file),
    }
}

fn kind_of_item(item: &Bound<'_, PyAny>, in_file: bool) -> Kind {
    if PySlice::is_type_of(item)
        || item.is_exact_instance_of::<PyInt>()
        || PyEllipsis::is_type_of(item)
        || item.is_exact_instance_of::<PyList>()
    {
        Kind::Elements
    } else if item.is_none() {
        Kind::NewAxis
    } else if item.is_instance_of::<PyString>() {
        Kind::Names
    } else if in_file && item.get_type().name().is_ok_and(|name| name == "MultiBlockSlice") {
        Kind::Blocks
    } else {
        Kind::Elements
    }
}

/// Separates the names in an index: `None`, one, or a list of several; and the other items.
pub(crate) fn split_names<'py>(
    key: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
    let py = key.py();
    let all = match key.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => vec![key.clone()],
    };
    let (names, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|item| item.is_instance_of::<PyString>());
    if !names.is_empty() && rest.iter().any(|item| item.is_none()) {
        let message = "np.newaxis beside the name of a field is not supported: index the values of the field";
        return Err(errors::exception(py, "UnsupportedSelectionError", message));
    }
    let names = match names.as_slice() {
        [] => py.None().into_bound(py),
        [one] => one.clone(),
        several => PyList::new(py, several)?.into_any(),
    };
    Ok((names, PyTuple::new(py, rest)?))
}

/// Returns the field names in an index (``None``, one, or a list), and the index without them.
#[pyfunction]
pub(crate) fn pop_fields<'py>(
    selection: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let py = selection.py();
    let (names, rest) = split_names(selection)?;
    let rest = match rest.len() {
        _ if names.is_none() => selection.clone(),
        0 => PyEllipsis::get(py).to_owned().into_any(),
        1 => rest.get_item(0)?,
        _ => rest.into_any(),
    };
    Ok((names, rest))
}
