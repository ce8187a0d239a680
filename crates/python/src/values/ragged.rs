//! `hyperslab.Ragged`: its parts, and the native code of its methods.

use crate::gil::once::interned;
use crate::values::cells::{self, Cells, Views};
use crate::values::frozen::{self, FrozenArray, Validity};
use crate::values::objects::Objects;
use crate::values::output::array_over;
use hyperslab::array::Ragged;
use numpy::{
    PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

/// The type of variable-length elements.
pub(crate) enum Form {
    /// UTF-8 text. (In HDF5: any encoding.)
    Text,
    Bytes,
    /// Arrays of items of this type.
    Items(Py<PyArrayDescr>),
    /// Python objects. (No ragged array holds them.)
    Objects(Objects),
}

impl Form {
    /// Name of the form in `hyperslab.Ragged`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Form::Text => "text",
            Form::Bytes => "bytes",
            Form::Items(_) => "items",
            Form::Objects(_) => "objects",
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

/// The class `hyperslab.Ragged`. Its module sets it.
static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Sets the class of ragged arrays. Its module calls this once, when it is loaded.
///
/// The class has a class method `_made(kind, shape, offsets, values, validity)`, a method
/// `_with_items(dtype)`, and the attributes that [`Parts`] takes.
#[pyfunction]
pub(crate) fn set_ragged_class(py: Python<'_>, cls: Bound<'_, PyType>) {
    let _ = CLASS.set(py, cls.unbind());
}

/// Returns the class `hyperslab.Ragged`.
pub(crate) fn ragged_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    let unset = || PyRuntimeError::new_err("the class of ragged arrays is not loaded: import hyperslab");
    CLASS.get(py).map(|class| class.bind(py)).ok_or_else(unset)
}

/// Makes a `Ragged` of these parts.
pub(crate) fn make_ragged<'py>(
    form: &Form,
    shape: &[u64],
    offsets: Vec<i64>,
    values: Bound<'py, PyUntypedArray>,
    validity: Option<Vec<bool>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = values.py();
    let shape = PyTuple::new(py, shape)?;
    let validity = validity.map(|valid| frozen::booleans(py, valid)).transpose()?;
    let offsets = frozen::offsets(py, offsets)?;
    ragged_class(py)?.call_method1(interned!(py, "_made"), (form.name(), shape, offsets, values, validity))
}

/// Converts elements that were read to a `Ragged`, without a copy.
pub(crate) fn to_python<'py>(py: Python<'py>, ragged: Ragged, form: &Form) -> PyResult<Bound<'py, PyAny>> {
    let item = form.item(py);
    let count = ragged.offsets.last().map_or(0, |last| *last as u64);
    let fits =
        count.checked_mul(item.itemsize() as u64).is_some_and(|bytes| bytes <= ragged.values.len() as u64);
    if !fits {
        return Err(PyTypeError::new_err(format!("{count} items of type {item} are not what was read")));
    }
    let values = match form {
        // Arrays of numbers may be changed in place. Nothing relies on their contents.
        Form::Items(_) => array_over(ragged.values, &item, &[count], false)?,
        Form::Text | Form::Bytes | Form::Objects(_) => frozen::memory(ragged.values, &item, count as usize)?,
    };
    make_ragged(form, &ragged.shape, ragged.offsets, values, ragged.validity)
}

/// The parts of a `Ragged`. Nobody changes them any more, except for the items of arrays.
pub(crate) struct Parts<'py> {
    pub(crate) kind: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) offsets: FrozenArray<'py, i64>,
    /// A NumPy array (for text and bytes a frozen one), or another `Ragged`.
    pub(crate) values: Bound<'py, PyAny>,
    pub(crate) validity: Option<Validity<'py>>,
}

impl<'py> Parts<'py> {
    /// Takes any object, because somebody may have changed its attributes.
    ///
    /// Checks the number of offsets. [`Cells`] checks the offsets themselves.
    pub(crate) fn of(ragged: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = ragged.py();
        let kind: String = ragged.getattr(interned!(py, "_kind"))?.extract()?;
        let shape: Vec<u64> = ragged.getattr(interned!(py, "shape"))?.extract()?;
        let offsets = FrozenArray::<i64>::of(&ragged.getattr(interned!(py, "offsets"))?)?;
        let mut values = ragged.getattr(interned!(py, "values"))?;
        if kind != "items" {
            values = FrozenArray::<u8>::of(&values)?.into_array().into_any();
        }
        let validity = ragged.getattr(interned!(py, "validity"))?;
        let validity = if validity.is_none() { None } else { Some(Validity::of(&validity)?) };
        let count = shape.iter().try_fold(1_u64, |count, len| count.checked_mul(*len));
        if count.and_then(|count| count.checked_add(1)) != Some(offsets.as_slice().len() as u64) {
            return Err(PyValueError::new_err("offsets: expected one number more than there are elements"));
        }
        Ok(Parts { kind, shape, offsets, values, validity })
    }

    /// Returns the values as bytes that nobody changes.
    pub(crate) fn bytes(&self) -> PyResult<FrozenArray<'py, u8>> {
        FrozenArray::of(bytes_of(&self.values)?.as_any())
    }

    /// Calls `work` with the elements, as items of one byte. `nulls`: null elements stay null.
    fn with_cells<R>(&self, nulls: bool, work: impl FnOnce(Cells<'_>) -> PyResult<R>) -> PyResult<R> {
        let (bytes, validity) = (self.bytes()?, self.validity.as_ref().filter(|_| nulls));
        let validity = validity.map(Validity::as_slice);
        work(Cells::new(self.offsets.as_slice(), bytes.as_slice(), validity, 1)?)
    }
}

/// Returns the bytes of an array of one axis.
pub(crate) fn bytes_of<'py>(values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let py = values.py();
    let array =
        py.import(interned!(py, "numpy"))?.call_method1(interned!(py, "ascontiguousarray"), (values,))?;
    let array = array.cast_into::<PyUntypedArray>()?;
    if array.len() == 0 || array.dtype().itemsize() == 0 {
        return Ok(PyArray1::<u8>::zeros(py, 0, false));
    }
    Ok(array.call_method1(interned!(py, "view"), (interned!(py, "u1"),))?.cast_into::<PyArray1<u8>>()?)
}

/// Converts to NumPy strings of this type.
#[pyfunction]
pub(crate) fn ragged_strings<'py>(
    ragged: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let parts = Parts::of(ragged)?;
    parts.with_cells(true, |cells| cells::strings(cells.check_text(ragged.py())?, dtype, &parts.shape))
}

/// Converts to objects: `str` if there is an encoding, else `bytes`. Null becomes `None`.
#[pyfunction]
#[pyo3(signature = (ragged, dtype, encoding=None, errors="strict"))]
pub(crate) fn ragged_objects<'py>(
    ragged: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
    encoding: Option<&str>,
    errors: &str,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let parts = Parts::of(ragged)?;
    parts.with_cells(true, |cells| cells::decode_text_array(cells, encoding, errors, dtype, &parts.shape))
}

/// Converts to bytes or text of fixed length.
#[pyfunction]
#[pyo3(signature = (ragged, wide, len=None))]
pub(crate) fn ragged_fixed<'py>(
    ragged: &Bound<'py, PyAny>,
    wide: bool,
    len: Option<usize>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let parts = Parts::of(ragged)?;
    parts.with_cells(false, |cells| cells::fixed_length_array(ragged.py(), cells, wide, len, &parts.shape))
}

/// Converts to objects that are views of the values, a writeable array.
#[pyfunction]
pub(crate) fn ragged_views<'py>(
    ragged: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let parts = Parts::of(ragged)?;
    let views = Views::of_array(parts.values.cast::<PyUntypedArray>()?)?;
    views.array(
        parts.offsets.as_slice(),
        parts.validity.as_ref().map(Validity::as_slice),
        dtype,
        &parts.shape,
    )
}

/// Fails unless all elements are valid UTF-8.
#[pyfunction]
pub(crate) fn ragged_check_text(ragged: &Bound<'_, PyAny>) -> PyResult<()> {
    Parts::of(ragged)?.with_cells(false, |cells| cells.check_text(ragged.py()).map(|_| ()))
}

/// Returns the elements at these places: offsets, and the bytes of the values.
///
/// `size` is the size of an item in bytes. `lasting`: nobody may change the bytes.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub(crate) fn ragged_take<'py>(
    py: Python<'py>,
    offsets: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    size: usize,
    places: &Bound<'py, PyAny>,
    lasting: bool,
) -> PyResult<(Bound<'py, PyUntypedArray>, Bound<'py, PyUntypedArray>)> {
    let (offsets, places) = (FrozenArray::<i64>::of(offsets)?, FrozenArray::<i64>::of(places)?);
    let values = values.cast::<PyArray1<u8>>()?.readonly();
    let cells = Cells::new(offsets.as_slice(), values.as_slice()?, None, size)?;
    let cell = |place: &i64| {
        let index = usize::try_from(*place).ok().filter(|index| *index < cells.len());
        index
            .and_then(|index| cells.get(index))
            .ok_or_else(|| PyIndexError::new_err(format!("index {place} is out of bounds")))
    };
    let mut total = 0;
    let mut taken = Vec::with_capacity(places.as_slice().len() + 1);
    taken.push(0);
    for place in places.as_slice() {
        total += cell(place)?.len();
        taken.push(total.checked_div(size).unwrap_or(0) as i64);
    }
    let mut bytes = Vec::with_capacity(total);
    for place in places.as_slice() {
        bytes.extend_from_slice(cell(place)?);
    }
    let bytes = match lasting {
        true => frozen::bytes(py, bytes)?,
        false => PyArray1::from_vec(py, bytes).as_untyped().clone(),
    };
    Ok((frozen::offsets(py, taken)?, bytes))
}
