//! Reads Arrow arrays as ragged arrays, or as numbers with missing elements. Copies the arrays that
//! `__arrow_c_array__` and `__arrow_c_stream__` give.
//!
//! Supports text, bytes and lists of numbers, small and large, and views of text and bytes. Their
//! format: <https://arrow.apache.org/docs/format/Columnar.html>.

use crate::errors;
use crate::gil::once::interned;
use crate::values::arrow::{ArrowArray, ArrowSchema, NUMBERS};
use crate::values::vlen_input::Builder;
use numpy::{PyArray1, PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::ffi::{CStr, c_char, c_int, c_void};

/// A stream of arrays.
#[repr(C)]
struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private: *mut c_void,
}

/// The type of an array's elements.
pub(crate) enum Kind<'py> {
    Text,
    Bytes,
    /// Lists of this type.
    Items(Bound<'py, PyArrayDescr>),
}

/// The storage of elements.
#[derive(Clone, Copy)]
enum Form {
    /// Offsets of 4 or 8 bytes.
    Offsets { large: bool },
    /// 16 bytes per element. Short elements are stored inside them.
    Views,
}

/// Returns `true` for an Arrow object.
pub(crate) fn is_arrow(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    Ok(object.hasattr(interned!(py, "__arrow_c_array__"))?
        || object.hasattr(interned!(py, "__arrow_c_stream__"))?)
}

/// Copies all elements of an Arrow object to `builder`. Returns their type.
pub(crate) fn read<'py>(object: &Bound<'py, PyAny>, builder: &mut Builder) -> PyResult<Kind<'py>> {
    let py = object.py();
    let start = |schema: &ArrowSchema| kind_of(py, schema);
    let (kind, _) = each(object, start, |(kind, form), array| copy(py, array, kind, *form, builder))?;
    Ok(kind)
}

/// Returns the numbers of an Arrow object and their validity. (Missing elements have arbitrary
/// values.)
#[pyfunction]
pub(crate) fn arrow_values<'py>(
    object: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let py = object.py();
    let (mut values, mut valid) = (Vec::new(), Vec::new());
    let start = |schema: &ArrowSchema| {
        // SAFETY: a format is a C string.
        let format = unsafe { CStr::from_ptr(schema.format).to_string_lossy().into_owned() };
        match number(&format).filter(|_| schema.dictionary.is_null()) {
            Some(numpy) => PyArrayDescr::new(py, numpy),
            None => {
                let what = format!("Arrow arrays of numbers are read here, not those of format '{format}'");
                Err(errors::exception(py, "DataTypeError", what))
            }
        }
    };
    let dtype = each(object, start, |dtype, array| {
        let view = View::of(py, array)?;
        let elements = view.offset..view.offset + view.len;
        valid.extend(elements.clone().map(|index| u8::from(view.is_valid(index))));
        push_items(py, &view, dtype, elements.start, elements.end, &mut |bytes| {
            values.extend_from_slice(bytes)
        })
    })?;
    let booleans = numpy::dtype::<bool>(py);
    let view = |bytes, dtype| PyArray1::from_vec(py, bytes).call_method1(interned!(py, "view"), (dtype,));
    Ok((view(values, &dtype)?, view(valid, &booleans)?))
}

/// Calls `visit` with all arrays of an Arrow object, and with the result of `start`.
///
/// `start` gets the schema. Returns its result.
fn each<T>(
    object: &Bound<'_, PyAny>,
    start: impl FnOnce(&ArrowSchema) -> PyResult<T>,
    mut visit: impl FnMut(&T, &ArrowArray) -> PyResult<()>,
) -> PyResult<T> {
    let py = object.py();
    if object.hasattr(interned!(py, "__arrow_c_array__"))? {
        let capsules = object.call_method0(interned!(py, "__arrow_c_array__"))?.cast_into::<PyTuple>()?;
        let (schema, array) = (
            capsules.get_item(0)?.cast_into::<PyCapsule>()?,
            capsules.get_item(1)?.cast_into::<PyCapsule>()?,
        );
        let schema = schema.pointer_checked(Some(c"arrow_schema"))?;
        let array = array.pointer_checked(Some(c"arrow_array"))?;
        // SAFETY: capsules with these names hold these structs, and live during the call. The GIL
        // is held, and no Python code runs that could release them.
        let (schema, array) =
            unsafe { (schema.cast::<ArrowSchema>().as_ref(), array.cast::<ArrowArray>().as_ref()) };
        let started = start(schema)?;
        visit(&started, array)?;
        return Ok(started);
    }
    let capsule = object.call_method0(interned!(py, "__arrow_c_stream__"))?.cast_into::<PyCapsule>()?;
    let stream: *mut ArrowArrayStream = capsule.pointer_checked(Some(c"arrow_array_stream"))?.as_ptr().cast();
    let mut schema = ArrowSchema::released();
    // SAFETY: a capsule with this name holds a stream, and lives during the call.
    unsafe { call(py, stream, |stream| (*stream).get_schema.map_or(22, |get| get(stream, &mut schema)))? };
    let started = start(&schema)?;
    loop {
        let mut array = ArrowArray::released();
        // SAFETY: as above.
        unsafe { call(py, stream, |stream| (*stream).get_next.map_or(22, |get| get(stream, &mut array)))? };
        if array.release.is_none() {
            return Ok(started);
        }
        visit(&started, &array)?;
    }
}

/// # Safety
/// `stream` has not been released.
unsafe fn call(
    py: Python<'_>,
    stream: *mut ArrowArrayStream,
    ask: impl FnOnce(*mut ArrowArrayStream) -> c_int,
) -> PyResult<()> {
    let status = ask(stream);
    if status == 0 {
        return Ok(());
    }
    // SAFETY: if there is a text, it lives until the next call.
    let why = unsafe {
        let text = (*stream).get_last_error.map(|get| get(stream)).filter(|text| !text.is_null());
        text.map(|text| CStr::from_ptr(text).to_string_lossy().into_owned())
    };
    let why = why.unwrap_or_else(|| format!("error {status}"));
    Err(errors::invalid(py, format!("the Arrow stream cannot be read: {why}")))
}

fn kind_of<'py>(py: Python<'py>, schema: &ArrowSchema) -> PyResult<(Kind<'py>, Form)> {
    // SAFETY: formats are C strings.
    let format =
        |schema: &ArrowSchema| unsafe { CStr::from_ptr(schema.format).to_string_lossy().into_owned() };
    let (name, large, small) =
        (format(schema), Form::Offsets { large: true }, Form::Offsets { large: false });
    let refuse = |what: String| errors::exception(py, "DataTypeError", what);
    if !schema.dictionary.is_null() {
        return Err(refuse(
            "Arrow arrays with a dictionary are not read: decode it (pyarrow: dictionary_decode)".into(),
        ));
    }
    Ok(match name.as_str() {
        "u" => (Kind::Text, small),
        "U" => (Kind::Text, large),
        "vu" => (Kind::Text, Form::Views),
        "z" => (Kind::Bytes, small),
        "Z" => (Kind::Bytes, large),
        "vz" => (Kind::Bytes, Form::Views),
        "+l" | "+L" if schema.n_children == 1 => {
            // SAFETY: there is one child.
            let item = unsafe { &**schema.children };
            let item_format = format(item);
            let Some(item) = number(&item_format).filter(|_| item.dictionary.is_null()) else {
                let what = format!("Arrow lists of numbers are read, not those of format '{item_format}'");
                return Err(refuse(what));
            };
            (Kind::Items(PyArrayDescr::new(py, item)?), if name == "+L" { large } else { small })
        }
        _ => {
            let what = format!(
                "Arrow arrays of text, bytes and lists of numbers are read, not those of format '{name}'"
            );
            return Err(refuse(what));
        }
    })
}

/// Returns NumPy's type of an Arrow number.
fn number(format: &str) -> Option<&'static str> {
    NUMBERS.iter().find(|(arrow, _)| *arrow == format).map(|(_, numpy)| *numpy)
}

/// An array's memory. The interface guarantees that it exists.
struct View<'a> {
    array: &'a ArrowArray,
    offset: usize,
    len: usize,
}

impl<'a> View<'a> {
    fn of(py: Python<'_>, array: &'a ArrowArray) -> PyResult<Self> {
        match (usize::try_from(array.offset), usize::try_from(array.length)) {
            (Ok(offset), Ok(len)) => Ok(View { array, offset, len }),
            _ => Err(wrong(py)),
        }
    }

    fn buffer(&self, number: usize) -> *const u8 {
        if number as i64 >= self.array.n_buffers {
            return std::ptr::null();
        }
        // SAFETY: `number` is below the count of buffers.
        unsafe { (*self.array.buffers.add(number)).cast() }
    }

    /// Returns `true` if an element is not null. `index` counts from the start of the buffers.
    fn is_valid(&self, index: usize) -> bool {
        let bits = self.buffer(0);
        // SAFETY: there is a bit for each element.
        bits.is_null() || unsafe { *bits.add(index / 8) } >> (index % 8) & 1 == 1
    }

    /// Returns start and end of an element among the items.
    fn range(&self, py: Python<'_>, index: usize, large: bool) -> PyResult<(usize, usize)> {
        let offsets = self.buffer(1);
        if offsets.is_null() {
            return if self.len == 0 { Ok((0, 0)) } else { Err(wrong(py)) };
        }
        // SAFETY: there is one offset more than elements.
        let (start, end) = unsafe {
            if large {
                let offsets = offsets.cast::<i64>();
                (offsets.add(index).read_unaligned(), offsets.add(index + 1).read_unaligned())
            } else {
                let offsets = offsets.cast::<i32>();
                (offsets.add(index).read_unaligned().into(), offsets.add(index + 1).read_unaligned().into())
            }
        };
        match (usize::try_from(start), usize::try_from(end)) {
            (Ok(start), Ok(end)) if start <= end => Ok((start, end)),
            _ => Err(wrong(py)),
        }
    }

    /// Returns bytes of a buffer.
    fn bytes(&self, py: Python<'_>, number: usize, start: usize, end: usize) -> PyResult<&'a [u8]> {
        let first = self.buffer(number);
        match (start < end, first.is_null()) {
            (false, _) => Ok(&[]),
            (true, true) => Err(wrong(py)),
            // SAFETY: the interface guarantees as many bytes as the array says. `start` and `end`
            // come from its offsets.
            (true, false) => Ok(unsafe { std::slice::from_raw_parts(first.add(start), end - start) }),
        }
    }
}

#[cold]
fn wrong(py: Python<'_>) -> PyErr {
    errors::invalid(py, "the Arrow array contradicts itself")
}

fn copy(
    py: Python<'_>,
    array: &ArrowArray,
    kind: &Kind<'_>,
    form: Form,
    builder: &mut Builder,
) -> PyResult<()> {
    let view = View::of(py, array)?;
    let elements = view.offset..view.offset + view.len;
    let large = match form {
        Form::Views => {
            return elements.into_iter().try_for_each(|index| copy_view(py, &view, index, builder));
        }
        Form::Offsets { large } => large,
    };
    let Kind::Items(item) = kind else {
        for index in elements {
            let (start, end) = view.range(py, index, large)?;
            if view.is_valid(index) {
                builder.push(view.bytes(py, 2, start, end)?)
            } else {
                builder.push_null()
            }
        }
        return Ok(());
    };
    if array.n_children != 1 {
        return Err(wrong(py));
    }
    // SAFETY: there is one child.
    let items = View::of(py, unsafe { &**array.children })?;
    for index in elements {
        if !view.is_valid(index) {
            builder.push_null();
            continue;
        }
        let (start, end) = view.range(py, index, large)?;
        if end > items.len {
            return Err(wrong(py));
        }
        let (start, end) = (items.offset + start, items.offset + end);
        if items.array.null_count != 0 && (start..end).any(|item| !items.is_valid(item)) {
            let message = format!(
                "element {}: numbers that are null have no place in a ragged array",
                index - view.offset
            );
            return Err(errors::invalid(py, message));
        }
        push_items(py, &items, item, start, end, &mut |bytes| builder.push(bytes))?;
    }
    Ok(())
}

/// Pushes the numbers `start..end`.
fn push_items(
    py: Python<'_>,
    items: &View<'_>,
    item: &Bound<'_, PyArrayDescr>,
    start: usize,
    end: usize,
    push: &mut dyn FnMut(&[u8]),
) -> PyResult<()> {
    if item.kind() == b'b' {
        let bytes = items.bytes(py, 1, start / 8, end.div_ceil(8))?;
        let bit = |at: usize| bytes.get(at / 8 - start / 8).copied().unwrap_or(0) >> (at % 8) & 1;
        push(&(start..end).map(bit).collect::<Vec<u8>>());
        return Ok(());
    }
    let size = item.itemsize();
    push(items.bytes(py, 1, start * size, end * size)?);
    Ok(())
}

/// Copies an element of 16 bytes. It holds its length, then its bytes, or its first four bytes, the
/// number of a buffer and a place in it.
fn copy_view(py: Python<'_>, view: &View<'_>, index: usize, builder: &mut Builder) -> PyResult<()> {
    if !view.is_valid(index) {
        builder.push_null();
        return Ok(());
    }
    let bytes = view.bytes(py, 1, index * 16, index * 16 + 16)?;
    let word = |at: usize| -> PyResult<usize> {
        let word: [u8; 4] =
            bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).ok_or_else(|| wrong(py))?;
        usize::try_from(i32::from_ne_bytes(word)).map_err(|_| wrong(py))
    };
    let len = word(0)?;
    if len <= 12 {
        builder.push(bytes.get(4..4 + len).unwrap_or_default());
        return Ok(());
    }
    let (buffer, start) = (word(8)?, word(12)?);
    let end = start.checked_add(len).ok_or_else(|| PyOverflowError::new_err("Arrow view"))?;
    // The buffers come after validity and views. The last buffer holds their lengths.
    if buffer as i64 + 3 >= view.array.n_buffers {
        return Err(wrong(py));
    }
    builder.push(view.bytes(py, buffer + 2, start, end)?);
    Ok(())
}
