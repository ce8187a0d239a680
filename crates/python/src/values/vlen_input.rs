//! Converts variable-length values from Python to ragged arrays.
//!
//! It takes lists, single values, ragged arrays, Arrow arrays and NumPy arrays. NumPy arrays may
//! hold objects, strings, text or bytes of fixed length, or numbers (the last axis is the element).
//!
//! Text and bytes are copied once, from Python's memory to the end of the values. NumPy converts
//! all numbers at once.

use crate::errors;
use crate::gil::once::interned;
use crate::values::arrow_input::{self, Kind};
use crate::values::frozen;
use crate::values::lists::{self, Leaf, flatten, is_list, is_text_or_bytes, nesting};
use crate::values::npy_string::{for_each_string, is_strings};
use crate::values::output::data_of;
use crate::values::ragged::{Form, make_ragged, ragged_check_text, ragged_class};
use numpy::{PyArray1, PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

/// Builds a sequence of elements.
pub(crate) struct Builder {
    /// Offsets in bytes.
    offsets: Vec<i64>,
    bytes: Vec<u8>,
    validity: Option<Vec<bool>>,
}

impl Builder {
    fn new(count: usize) -> Self {
        let mut offsets = Vec::with_capacity(count + 1);
        offsets.push(0);
        Builder { offsets, bytes: Vec::new(), validity: None }
    }

    /// Adds an element.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.offsets.push(self.bytes.len() as i64);
        if let Some(validity) = &mut self.validity {
            validity.push(true);
        }
    }

    /// Adds a null element.
    pub(crate) fn push_null(&mut self) {
        let before = self.len();
        self.validity.get_or_insert_with(|| vec![true; before]).push(false);
        self.offsets.push(self.bytes.len() as i64);
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the elements as a `hyperslab.Ragged`.
    fn finish<'py>(self, py: Python<'py>, shape: &[u64], form: &Form) -> PyResult<Bound<'py, PyAny>> {
        let Builder { mut offsets, bytes, validity } = self;
        let Form::Items(item) = form else {
            return make_ragged(form, shape, offsets, frozen::bytes(py, bytes)?, validity);
        };
        let size = item.bind(py).itemsize().max(1) as i64;
        offsets.iter_mut().for_each(|at| *at /= size);
        let values = PyArray1::from_vec(py, bytes).call_method1(interned!(py, "view"), (item,))?;
        make_ragged(form, shape, offsets, values.cast_into::<PyUntypedArray>()?, validity)
    }
}

/// Converts values to a `hyperslab.Ragged` of text, bytes, or items of a type.
///
/// A missing `kind` or `item` is chosen from the values. NumPy chooses the type of items.
#[pyfunction]
#[pyo3(signature = (values, kind=None, item=None))]
pub(crate) fn ragged_of<'py>(
    values: &Bound<'py, PyAny>,
    kind: Option<&str>,
    item: Option<Bound<'py, PyArrayDescr>>,
) -> PyResult<Bound<'py, PyAny>> {
    let target = match kind {
        None => Wanted::Any,
        Some("text") => Wanted::Text,
        Some("bytes") => Wanted::Bytes,
        Some(_) => Wanted::Items(item),
    };
    of(values, &target)
}

/// The wanted form of values.
pub(crate) enum Wanted<'py> {
    /// The form that fits the values.
    Any,
    Text,
    Bytes,
    /// Arrays of items of this type. `None`: of any type.
    Items(Option<Bound<'py, PyArrayDescr>>),
}

impl<'py> Wanted<'py> {
    /// Returns the form that values must have for an array.
    pub(crate) fn of(form: &Form, py: Python<'py>) -> Self {
        match form {
            Form::Text => Wanted::Text,
            Form::Bytes => Wanted::Bytes,
            Form::Items(item) => Wanted::Items(Some(item.bind(py).clone())),
            Form::Objects(_) => Wanted::Any,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Wanted::Any => "anything",
            Wanted::Text => "text",
            Wanted::Bytes => "bytes",
            Wanted::Items(_) => "arrays",
        }
    }

    /// Fails if values of this form may not become the wanted form.
    fn check(&self, found: &Form) -> PyResult<()> {
        match (self, found) {
            (Wanted::Any, _)
            | (Wanted::Text, Form::Text)
            | (Wanted::Bytes, Form::Bytes)
            | (Wanted::Items(_), Form::Items(_)) => Ok(()),
            (Wanted::Text, Form::Bytes) => {
                Err(PyTypeError::new_err("expected text, found bytes: decode them"))
            }
            (Wanted::Bytes, Form::Text) => Err(PyTypeError::new_err("expected bytes, found text: encode it")),
            _ => Err(PyTypeError::new_err(format!("expected {}, found {}", self.name(), found.name()))),
        }
    }
}

/// Converts values to a `hyperslab.Ragged`.
pub(crate) fn of<'py>(values: &Bound<'py, PyAny>, target: &Wanted<'py>) -> PyResult<Bound<'py, PyAny>> {
    let py = values.py();
    if let Ok(array) = values.cast::<PyUntypedArray>() {
        return of_array(array, target);
    }
    if values.is_instance(ragged_class(py)?)? {
        return of_ragged(values, target);
    }
    if values.is_none() || is_text_or_bytes(values) {
        return of_objects(py, &[], std::slice::from_ref(values), target);
    }
    if is_list(values) {
        return of_list(values, target);
    }
    if arrow_input::is_arrow(values)? {
        return of_arrow(values, target);
    }
    let array = py.import(interned!(py, "numpy"))?.call_method1(interned!(py, "asarray"), (values,))?;
    let array = array.cast_into::<PyUntypedArray>()?;
    if array.ndim() == 0 {
        let kind = values.get_type().name()?;
        let expected =
            if matches!(target, Wanted::Items(_)) { "an array, or a list of numbers" } else { target.name() };
        return Err(PyTypeError::new_err(format!("expected {expected}, found {kind}")));
    }
    of_array(&array, target)
}

fn of_ragged<'py>(ragged: &Bound<'py, PyAny>, target: &Wanted<'py>) -> PyResult<Bound<'py, PyAny>> {
    let py = ragged.py();
    let kind: String = ragged.getattr(interned!(py, "_kind"))?.extract()?;
    let values = ragged.getattr(interned!(py, "values"))?;
    let found = match kind.as_str() {
        "text" => Form::Text,
        "bytes" => Form::Bytes,
        _ => match values.cast::<PyUntypedArray>() {
            Ok(values) => Form::Items(values.dtype().unbind()),
            Err(_) if matches!(target, Wanted::Any | Wanted::Items(None)) => return Ok(ragged.clone()),
            Err(_) => {
                return Err(PyTypeError::new_err(format!(
                    "expected {}, found arrays of arrays",
                    target.name()
                )));
            }
        },
    };
    target.check(&found)?;
    match (target, &found) {
        (Wanted::Items(Some(wanted)), Form::Items(item)) if !item.bind(py).is_equiv_to(wanted) => {
            ragged.call_method1(interned!(py, "_with_items"), (wanted,))
        }
        _ => Ok(ragged.clone()),
    }
}

fn of_arrow<'py>(values: &Bound<'py, PyAny>, target: &Wanted<'py>) -> PyResult<Bound<'py, PyAny>> {
    let mut builder = Builder::new(0);
    let form = match arrow_input::read(values, &mut builder)? {
        Kind::Text => Form::Text,
        Kind::Bytes => Form::Bytes,
        Kind::Items(item) => Form::Items(item.unbind()),
    };
    let shape = [builder.len() as u64];
    let found = builder.finish(values.py(), &shape, &form)?;
    if matches!(form, Form::Text) {
        ragged_check_text(&found)?;
    }
    of_ragged(&found, target)
}

fn of_array<'py>(array: &Bound<'py, PyUntypedArray>, target: &Wanted<'py>) -> PyResult<Bound<'py, PyAny>> {
    let (py, dtype) = (array.py(), array.dtype());
    let shape: Vec<u64> = array.shape().iter().map(|len| *len as u64).collect();
    match dtype.kind() {
        b'O' => of_objects(py, &shape, &objects_of(array), target),
        b'T' if is_strings(&dtype) => {
            target.check(&Form::Text)?;
            let mut builder = Builder::new(array.len());
            // SAFETY: the places belong to the array's elements. NumPy changes strings only under
            // the lock of their allocator, which is held. The builder does not call Python.
            unsafe {
                for_each_string(array, Places::of(array), |text| match text {
                    Some(text) => builder.push(text),
                    None => builder.push_null(),
                })?;
            }
            builder.finish(py, &shape, &Form::Text)
        }
        b'U' => of_characters(array, &shape, target),
        b'S' => of_fixed(array, &shape, target),
        _ => {
            let (Wanted::Items(_) | Wanted::Any) = target else {
                return Err(PyTypeError::new_err(format!(
                    "expected {}, found an array of {dtype}",
                    target.name()
                )));
            };
            of_rows(array, &shape, target)
        }
    }
}

/// Returns the elements of an array of objects, in C order.
pub(crate) fn objects_of<'py>(array: &Bound<'py, PyUntypedArray>) -> Vec<Bound<'py, PyAny>> {
    let py = array.py();
    if array.dtype().kind() != b'O' {
        return Vec::new();
    }
    let objects = Places::of(array).map(|place| {
        // SAFETY: `place` is the place of an element of objects: a pointer that is null or a
        // reference held by the array.
        unsafe {
            Bound::from_borrowed_ptr_or_opt(py, place.cast::<*mut pyo3::ffi::PyObject>().read_unaligned())
        }
        .unwrap_or_else(|| py.None().into_bound(py))
    });
    objects.collect()
}

/// Converts text of fixed length.
fn of_characters<'py>(
    array: &Bound<'py, PyUntypedArray>,
    shape: &[u64],
    target: &Wanted<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    target.check(&Form::Text)?;
    let native = array.dtype().call_method1(interned!(py, "newbyteorder"), ("=",))?;
    let array = array.call_method1(interned!(py, "astype"), (native,))?.cast_into::<PyUntypedArray>()?;
    let len = array.dtype().itemsize() / size_of::<u32>();
    let mut builder = Builder::new(array.len());
    let (mut text, mut buffer) = (String::new(), [0; 4]);
    for (index, place) in Places::of(&array).enumerate() {
        text.clear();
        let mut end = 0;
        for at in 0..len {
            // SAFETY: elements have `len` characters.
            let number = unsafe { place.cast::<u32>().add(at).read_unaligned() };
            let character = char::from_u32(number).ok_or_else(|| {
                PyValueError::new_err(format!(
                    "element {index} in C order: {number:#x} is no character that UTF-8 has"
                ))
            })?;
            text.push_str(character.encode_utf8(&mut buffer));
            if number != 0 {
                end = text.len();
            }
        }
        // Trailing NULs are padding.
        builder.push(&text.as_bytes()[..end]);
    }
    builder.finish(py, shape, &Form::Text)
}

/// Converts bytes of fixed length, also to text if they are valid UTF-8.
fn of_fixed<'py>(
    array: &Bound<'py, PyUntypedArray>,
    shape: &[u64],
    target: &Wanted<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let form = match target {
        Wanted::Text => Form::Text,
        _ => Form::Bytes,
    };
    target.check(&form)?;
    let (len, mut builder) = (array.dtype().itemsize(), Builder::new(array.len()));
    let mut element = vec![0; len];
    for (index, place) in Places::of(array).enumerate() {
        // SAFETY: elements have `len` bytes. They are copied first, because another thread may
        // change them.
        unsafe { place.copy_to_nonoverlapping(element.as_mut_ptr(), len) };
        let bytes = element.as_slice();
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let bytes = &bytes[..end];
        if matches!(form, Form::Text) && std::str::from_utf8(bytes).is_err() {
            let message = format!("element {index} in C order: expected text in UTF-8, found other bytes");
            return Err(PyValueError::new_err(message));
        }
        builder.push(bytes);
    }
    builder.finish(array.py(), shape, &form)
}

/// Converts numbers. Each row along the last axis is an element.
fn of_rows<'py>(
    array: &Bound<'py, PyUntypedArray>,
    shape: &[u64],
    target: &Wanted<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let Some((len, shape)) = shape.split_last() else {
        return Err(PyTypeError::new_err("expected arrays, found a single value: give a list of one"));
    };
    let numpy = py.import(interned!(py, "numpy"))?;
    let item = match target {
        Wanted::Items(Some(item)) => item.clone(),
        _ => array.dtype(),
    };
    // Copy, so that later changes of the values do not matter.
    let flat = numpy
        .call_method1(interned!(py, "array"), (array, &item))?
        .call_method1(interned!(py, "reshape"), (-1,))?;
    let count: u64 = shape.iter().product();
    let offsets = (0..=count).map(|index| (index * len) as i64).collect();
    make_ragged(&Form::Items(item.unbind()), shape, offsets, flat.cast_into::<PyUntypedArray>()?, None)
}

/// Converts nested lists.
fn of_list<'py>(list: &Bound<'py, PyAny>, target: &Wanted<'py>) -> PyResult<Bound<'py, PyAny>> {
    let (levels, leaf) = nesting(list, 0)?;
    // For numbers, the innermost level is the element.
    let levels = match (target, leaf) {
        (Wanted::Text | Wanted::Bytes, _) | (_, Leaf::Null) | (Wanted::Any, Leaf::Text) => levels,
        (_, Leaf::Nothing) if levels == 1 => levels,
        _ => levels.saturating_sub(1),
    };
    let mut shape = Vec::new();
    let mut leaves = Vec::new();
    flatten(list, levels, 0, &mut shape, &mut leaves)?;
    shape.resize(levels, 0);
    of_objects(list.py(), &shape, &leaves, target)
}

/// Converts objects in C order: text, bytes, or objects that NumPy can convert to arrays. `None` is
/// null.
fn of_objects<'py>(
    py: Python<'py>,
    shape: &[u64],
    objects: &[Bound<'py, PyAny>],
    target: &Wanted<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let first = objects.iter().find(|object| !object.is_none());
    let form = match (target, first) {
        (Wanted::Text, _) => Form::Text,
        (Wanted::Bytes, _) => Form::Bytes,
        (Wanted::Items(item), _) => return of_arrays(py, shape, objects, item.as_ref()),
        (Wanted::Any, None) => Form::Text,
        (Wanted::Any, Some(first)) if first.is_instance_of::<PyString>() => Form::Text,
        (Wanted::Any, Some(first)) if lists::is_bytes(first) => Form::Bytes,
        (Wanted::Any, Some(_)) => return of_arrays(py, shape, objects, None),
    };
    let mut builder = Builder::new(objects.len());
    for (index, object) in objects.iter().enumerate() {
        let expected = |what: &str| -> PyErr {
            let kind = object.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
            PyTypeError::new_err(format!("element {index} in C order: expected {what} or None, found {kind}"))
        };
        match &form {
            _ if object.is_none() => builder.push_null(),
            Form::Text => {
                let text = object.cast::<PyString>().map_err(|_| expected("str"))?;
                builder.push(text.to_str()?.as_bytes());
            }
            _ => match object.cast::<PyBytes>() {
                Ok(bytes) => builder.push(bytes.as_bytes()),
                Err(_) if lists::is_bytes(object) => {
                    let copy = py.get_type::<PyBytes>().call1((object,))?;
                    builder.push(copy.cast::<PyBytes>()?.as_bytes());
                }
                Err(_) => return Err(expected("bytes")),
            },
        }
    }
    builder.finish(py, shape, &form)
}

/// Converts arrays and lists of numbers. NumPy converts all items together.
fn of_arrays<'py>(
    py: Python<'py>,
    shape: &[u64],
    objects: &[Bound<'py, PyAny>],
    item: Option<&Bound<'py, PyArrayDescr>>,
) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import(interned!(py, "numpy"))?;
    let null = |object: &Bound<'_, PyAny>| object.is_none();
    let validity = objects.iter().any(null).then(|| objects.iter().map(|object| !object.is_none()).collect());
    let (mut offsets, mut end) = (Vec::with_capacity(objects.len() + 1), 0);
    offsets.push(end);
    let no_axis = |index: usize, what: &str| {
        PyValueError::new_err(format!(
            "element {index} in C order: expected an array of one axis, or a list of numbers, found {what}"
        ))
    };
    let values = if objects.iter().all(|object| object.is_none() || is_list(object)) {
        let flat = PyList::empty(py);
        for object in objects {
            if !object.is_none() {
                flat.call_method1(interned!(py, "extend"), (object,))?;
            }
            offsets.push(flat.len() as i64);
        }
        let made = match (item, flat.is_empty()) {
            (None, true) => numpy.call_method1(interned!(py, "empty"), (0,))?,
            _ => numpy.call_method1(interned!(py, "array"), (flat, item))?,
        };
        let made = made.cast_into::<PyUntypedArray>()?;
        if made.ndim() != 1 {
            return Err(no_axis(0, "lists within lists"));
        }
        made
    } else {
        let mut arrays = Vec::with_capacity(objects.len());
        for (index, object) in objects.iter().enumerate() {
            if !object.is_none() {
                let array = match object.cast::<PyUntypedArray>() {
                    Ok(array) => array.clone(),
                    Err(_) => numpy
                        .call_method1(interned!(py, "asarray"), (object, item))?
                        .cast_into::<PyUntypedArray>()?,
                };
                if array.ndim() != 1 {
                    return Err(no_axis(index, &format!("one of {} axes", array.ndim())));
                }
                end += array.len() as i64;
                arrays.push(array);
            }
            offsets.push(end);
        }
        let options = PyDict::new(py);
        if let Some(item) = item {
            options.set_item(interned!(py, "dtype"), item)?;
            options.set_item(interned!(py, "casting"), "unsafe")?;
        }
        numpy
            .call_method(interned!(py, "concatenate"), (arrays,), Some(&options))?
            .cast_into::<PyUntypedArray>()?
    };
    if values.dtype().has_object() {
        let message =
            format!("elements of objects ({}) have no form in which they could be stored", values.dtype());
        return Err(errors::exception(py, "DataTypeError", message));
    }
    make_ragged(&Form::Items(values.dtype().unbind()), shape, offsets, values, validity)
}

/// Iterates over the addresses of an array's elements in C order.
pub(crate) struct Places {
    first: *const u8,
    shape: Vec<usize>,
    strides: Vec<isize>,
    index: Vec<usize>,
    left: usize,
}

impl Places {
    pub(crate) fn of(array: &Bound<'_, PyUntypedArray>) -> Self {
        let (shape, strides) = (array.shape().to_vec(), array.strides().to_vec());
        let index = vec![0; shape.len()];
        Places { first: data_of(array), left: array.len(), shape, strides, index }
    }
}

impl Iterator for Places {
    type Item = *const u8;

    fn next(&mut self) -> Option<*const u8> {
        self.left = self.left.checked_sub(1)?;
        let place = self.first;
        for ((at, len), stride) in self.index.iter_mut().zip(&self.shape).zip(&self.strides).rev() {
            *at += 1;
            if *at < *len {
                self.first = self.first.wrapping_offset(*stride);
                break;
            }
            self.first = self.first.wrapping_offset(-stride * (*len as isize - 1));
            *at = 0;
        }
        Some(place)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
