//! `hyperslab.Ragged`: what it is made of, and what its methods need Rust for.

use crate::cells::{self, Cells, Views, Wanted};
use crate::once;
use crate::output::over;
use hyperslab::array::Ragged;
use numpy::{
    PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods, PyReadonlyArray1, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

/// What elements of variable length are.
pub(crate) enum Form {
    /// Text in UTF-8. (Of HDF5: in whatever encoding.)
    Text,
    Bytes,
    /// Arrays of items of this type.
    Items(Py<PyArrayDescr>),
}

impl Form {
    /// As `hyperslab.Ragged` calls it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Form::Text => "text",
            Form::Bytes => "bytes",
            Form::Items(_) => "items",
        }
    }

    /// The type of an item.
    pub(crate) fn item<'py>(&self, py: Python<'py>) -> Bound<'py, PyArrayDescr> {
        match self {
            Form::Items(item) => item.bind(py).clone(),
            _ => numpy::dtype::<u8>(py),
        }
    }
}

/// The class.
pub(crate) fn ragged_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = once::get_or_try_make(&CLASS, py, || {
        Ok(py.import("hyperslab._ragged")?.getattr("Ragged")?.cast_into::<PyType>()?.unbind())
    })?;
    Ok(class.bind(py))
}

/// One of these parts.
pub(crate) fn made<'py>(
    form: &Form,
    shape: &[u64],
    offsets: Vec<i64>,
    values: Bound<'py, PyUntypedArray>,
    validity: Option<Vec<bool>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = values.py();
    let shape = PyTuple::new(py, shape)?;
    let (offsets, validity) =
        (PyArray1::from_vec(py, offsets), validity.map(|valid| PyArray1::from_vec(py, valid)));
    ragged_class(py)?.call_method1(intern!(py, "_made"), (form.name(), shape, offsets, values, validity))
}

/// What was read as an object of Python's, without a copy.
pub(crate) fn to_python<'py>(py: Python<'py>, ragged: Ragged, form: &Form) -> PyResult<Bound<'py, PyAny>> {
    let item = form.item(py);
    let count = ragged.offsets.last().map_or(0, |last| *last as u64);
    let fits =
        count.checked_mul(item.itemsize() as u64).is_some_and(|bytes| bytes <= ragged.values.len() as u64);
    if !fits {
        return Err(PyTypeError::new_err(format!("{count} items of type {item} are not what was read")));
    }
    let values = over(ragged.values, &item, &[count], false)?;
    made(form, &ragged.shape, ragged.offsets, values, ragged.validity)
}

/// The parts of one.
pub(crate) struct Parts<'py> {
    pub(crate) kind: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) offsets: PyReadonlyArray1<'py, i64>,
    /// A NumPy array, or another ragged one.
    pub(crate) values: Bound<'py, PyAny>,
    pub(crate) validity: Option<PyReadonlyArray1<'py, bool>>,
}

impl<'py> Parts<'py> {
    pub(crate) fn of(ragged: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = ragged.py();
        let validity = ragged.getattr(intern!(py, "validity"))?;
        Ok(Parts {
            kind: ragged.getattr(intern!(py, "_kind"))?.extract()?,
            shape: ragged.getattr(intern!(py, "shape"))?.extract()?,
            offsets: readonly(&ragged.getattr(intern!(py, "offsets"))?)?,
            values: ragged.getattr(intern!(py, "values"))?,
            validity: if validity.is_none() { None } else { Some(readonly(&validity)?) },
        })
    }

    /// The values as bytes.
    pub(crate) fn bytes(&self) -> PyResult<PyReadonlyArray1<'py, u8>> {
        bytes_of(&self.values)
    }
}

/// An array of one axis without gaps.
fn readonly<'py, T: numpy::Element>(array: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArray1<'py, T>> {
    Ok(array.cast::<PyArray1<T>>()?.readonly())
}

/// The bytes of an array of one axis.
pub(crate) fn bytes_of<'py>(values: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArray1<'py, u8>> {
    if let Ok(bytes) = values.cast::<PyArray1<u8>>() {
        return Ok(bytes.readonly());
    }
    let py = values.py();
    let array = py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "ascontiguousarray"), (values,))?;
    let array = array.cast_into::<PyUntypedArray>()?;
    if array.len() == 0 || array.dtype().itemsize() == 0 {
        return Ok(PyArray1::<u8>::zeros(py, 0, false).readonly());
    }
    readonly(&array.call_method1(intern!(py, "view"), (intern!(py, "u1"),))?)
}

/// As strings of NumPy's, of this type.
#[pyfunction]
pub(crate) fn ragged_strings<'py>(
    ragged: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let parts = Parts::of(ragged)?;
    let bytes = parts.bytes()?;
    let validity = parts.validity.as_ref().map(|validity| validity.as_slice()).transpose()?;
    let cells = Cells::new(parts.offsets.as_slice()?, bytes.as_slice()?, validity, 1)?;
    cells::strings(cells.check_text(ragged.py())?, dtype, &parts.shape)
}

/// As objects: `str` in an encoding, else `bytes`; what is null is `None`.
#[pyfunction]
#[pyo3(signature = (ragged, dtype, encoding=None, errors="strict"))]
pub(crate) fn ragged_objects<'py>(
    ragged: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
    encoding: Option<&str>,
    errors: &str,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let parts = Parts::of(ragged)?;
    let bytes = parts.bytes()?;
    let validity = parts.validity.as_ref().map(|validity| validity.as_slice()).transpose()?;
    let cells = Cells::new(parts.offsets.as_slice()?, bytes.as_slice()?, validity, 1)?;
    let encoding = encoding.map(cells::encoding);
    let wanted = match &encoding {
        None => Wanted::Bytes,
        Some(encoding) => Wanted::Text { encoding, errors },
    };
    cells::objects(cells, wanted, dtype, &parts.shape)
}

/// As bytes of fixed length, or as text of fixed length.
#[pyfunction]
#[pyo3(signature = (ragged, wide, len=None))]
pub(crate) fn ragged_fixed<'py>(
    ragged: &Bound<'py, PyAny>,
    wide: bool,
    len: Option<usize>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let parts = Parts::of(ragged)?;
    let bytes = parts.bytes()?;
    let cells = Cells::new(parts.offsets.as_slice()?, bytes.as_slice()?, None, 1)?;
    cells::fixed(ragged.py(), cells, wide, len, &parts.shape)
}

/// As objects that are views of the values, an array that may be written to.
#[pyfunction]
pub(crate) fn ragged_views<'py>(
    ragged: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let parts = Parts::of(ragged)?;
    let validity = parts.validity.as_ref().map(|validity| validity.as_slice()).transpose()?;
    let views = Views::of_array(parts.values.cast::<PyUntypedArray>()?)?;
    views.array(parts.offsets.as_slice()?, validity, dtype, &parts.shape)
}

/// Errors unless all elements are text in UTF-8.
#[pyfunction]
pub(crate) fn ragged_check_text(ragged: &Bound<'_, PyAny>) -> PyResult<()> {
    let parts = Parts::of(ragged)?;
    let bytes = parts.bytes()?;
    let cells = Cells::new(parts.offsets.as_slice()?, bytes.as_slice()?, None, 1)?;
    cells.check_text(ragged.py()).map(|_| ())
}

/// The elements at these places: offsets, and the bytes of the values. `size`: of an item.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub(crate) fn ragged_take<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArray1<'py, i64>,
    values: PyReadonlyArray1<'py, u8>,
    size: usize,
    places: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u8>>)> {
    let cells = Cells::new(offsets.as_slice()?, values.as_slice()?, None, size)?;
    let places = places.as_slice()?;
    let cell = |place: &i64| {
        let index = usize::try_from(*place).ok().filter(|index| *index < cells.len());
        index
            .and_then(|index| cells.get(index))
            .ok_or_else(|| PyIndexError::new_err(format!("index {place} is out of bounds")))
    };
    let mut total = 0;
    let mut taken = Vec::with_capacity(places.len() + 1);
    taken.push(0);
    for place in places {
        total += cell(place)?.len();
        taken.push(total.checked_div(size).unwrap_or(0) as i64);
    }
    let mut bytes = Vec::with_capacity(total);
    for place in places {
        bytes.extend_from_slice(cell(place)?);
    }
    Ok((PyArray1::from_vec(py, taken), PyArray1::from_vec(py, bytes)))
}
