//! Converts MessagePack values to Python objects and back, like the package msgpack.
//!
//! Format: <https://github.com/msgpack/msgpack/blob/master/spec.md>. Extensions (including times)
//! are classes of that package. It is only imported for these.

use crate::errors;
use crate::gil::once::interned;
use hyperslab::codec::message_pack::{BadHead, Head};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple,
};

/// The deepest nesting. The package msgpack has the same limit for packing.
const MOST_DEPTH: usize = 511;

/// The settings in the metadata of `msgpack2`.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// Text is read as `bytes`.
    pub(crate) raw: bool,
    /// Floats are written with 32 bits.
    pub(crate) use_single_float: bool,
    /// `bytes` are written as bytes, not as text.
    pub(crate) use_bin_type: bool,
}

fn check_depth(depth: usize) -> PyResult<()> {
    match depth {
        0..=MOST_DEPTH => Ok(()),
        _ => Err(PyValueError::new_err(format!("nested more than {MOST_DEPTH} deep"))),
    }
}

/// Unpacks a value to an object.
pub(crate) fn unpack<'py>(py: Python<'py>, bytes: &[u8], settings: Settings) -> PyResult<Bound<'py, PyAny>> {
    let mut reader = Reader { left: bytes, settings };
    let object = reader.object(py, 0)?;
    match reader.left.len() {
        0 => Ok(object),
        more => Err(PyValueError::new_err(format!("{more} bytes behind a value of MessagePack"))),
    }
}

struct Reader<'a> {
    left: &'a [u8],
    settings: Settings,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: u32) -> PyResult<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(len as usize).ok_or_else(truncated)?;
        self.left = left;
        Ok(taken)
    }

    fn object<'py>(&mut self, py: Python<'py>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        check_depth(depth)?;
        let start = self.left;
        let head = Head::read(&mut self.left).map_err(|bad| match bad {
            BadHead::Reserved => PyValueError::new_err("byte 0xc1 begins no value of MessagePack"),
            BadHead::Missing | BadHead::Truncated => truncated(),
        })?;
        match head {
            Head::Nil => Ok(py.None().into_bound(py)),
            Head::Bool(value) => value.into_bound_py_any(py),
            Head::Unsigned(number) => number.into_bound_py_any(py),
            Head::Signed(number) => number.into_bound_py_any(py),
            Head::Single(number) => number.into_bound_py_any(py),
            Head::Double(number) => number.into_bound_py_any(py),
            Head::Text(len) => self.text(py, len),
            Head::Bytes(len) => Ok(PyBytes::new(py, self.take(len)?).into_any()),
            Head::Extension { len, .. } => {
                self.take(len)?;
                self.extension(py, start)
            }
            Head::Array(len) => self.list(py, len, depth),
            Head::Map(len) => self.map(py, len, depth),
        }
    }

    fn text<'py>(&mut self, py: Python<'py>, len: u32) -> PyResult<Bound<'py, PyAny>> {
        let bytes = PyBytes::new(py, self.take(len)?);
        if self.settings.raw {
            return Ok(bytes.into_any());
        }
        bytes.call_method1(interned!(py, "decode"), (interned!(py, "utf-8"),))
    }

    fn list<'py>(&mut self, py: Python<'py>, len: u32, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let list = PyList::empty(py);
        for _ in 0..len {
            list.append(self.object(py, depth + 1)?)?;
        }
        Ok(list.into_any())
    }

    fn map<'py>(&mut self, py: Python<'py>, len: u32, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let map = PyDict::new(py);
        for _ in 0..len {
            let key = self.object(py, depth + 1)?;
            map.set_item(key, self.object(py, depth + 1)?)?;
        }
        Ok(map.into_any())
    }

    /// Unpacks an extension: the bytes taken since `start`.
    fn extension<'py>(&self, py: Python<'py>, start: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let value = start.get(..start.len() - self.left.len()).unwrap_or_default();
        package(py)?.call_method1(interned!(py, "unpackb"), (PyBytes::new(py, value),))
    }
}

fn truncated() -> PyErr {
    PyValueError::new_err("a value of MessagePack ends too early")
}

/// Imports the package msgpack.
fn package(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("msgpack").map_err(|error| {
        let message = "an element holds an extension of MessagePack, whose classes are those of the package \
                       msgpack: install it";
        let missing = errors::exception(py, "UnsupportedError", message);
        missing.set_cause(py, Some(error));
        missing
    })
}

/// Packs an object and appends its bytes.
pub(crate) fn pack(object: &Bound<'_, PyAny>, settings: Settings, to: &mut Vec<u8>) -> PyResult<()> {
    pack_at(object, settings, to, 0)
}

fn pack_at(object: &Bound<'_, PyAny>, settings: Settings, to: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    let py = object.py();
    check_depth(depth)?;
    if object.is_none() {
        Head::Nil.write(to);
    } else if object.is_instance_of::<PyBool>() {
        Head::Bool(object.is_truthy()?).write(to);
    } else if object.is_instance_of::<PyInt>() {
        pack_integer(object, to)?;
    } else if let Ok(number) = object.cast::<PyFloat>() {
        let (number, single) = (number.value(), number.value() as f32);
        match settings.use_single_float {
            true if single.is_infinite() && number.is_finite() => {
                return Err(PyOverflowError::new_err(format!(
                    "{number} is too large for a float of 32 bits"
                )));
            }
            true => Head::Single(single).write(to),
            false => Head::Double(number).write(to),
        }
    } else if let Ok(text) = object.cast::<PyString>() {
        pack_text(text.to_str()?.as_bytes(), settings.use_bin_type, to)?;
    } else if let Ok(bytes) = object.cast::<PyBytes>() {
        pack_bytes(bytes.as_bytes(), settings.use_bin_type, to)?;
    } else if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() {
        let copy = py.get_type::<PyBytes>().call1((object,))?;
        pack_bytes(copy.cast::<PyBytes>()?.as_bytes(), settings.use_bin_type, to)?;
    } else if let Ok(map) = object.cast::<PyDict>() {
        let items = map.items();
        Head::Map(short(items.len())?).write(to);
        for item in items {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            pack_at(&key, settings, to, depth + 1)?;
            pack_at(&value, settings, to, depth + 1)?;
        }
    } else if is_of_package(object)? {
        let value = package(py)?.call_method1(interned!(py, "packb"), (object,))?;
        to.extend_from_slice(value.cast::<PyBytes>()?.as_bytes());
    } else if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let items: Vec<Bound<'_, PyAny>> = object.try_iter()?.collect::<PyResult<_>>()?;
        Head::Array(short(items.len())?).write(to);
        items.iter().try_for_each(|item| pack_at(item, settings, to, depth + 1))?;
    } else {
        let message = format!("objects of type {} have no form in MessagePack", object.get_type().name()?);
        return Err(PyTypeError::new_err(message));
    }
    Ok(())
}

/// Returns `true` for an `ExtType` or a `Timestamp`.
fn is_of_package(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let module = object.get_type().getattr(interned!(object.py(), "__module__"))?;
    Ok(module
        .cast::<PyString>()
        .is_ok_and(|name| name.to_str().is_ok_and(|name| name.starts_with("msgpack."))))
}

fn pack_integer(object: &Bound<'_, PyAny>, to: &mut Vec<u8>) -> PyResult<()> {
    let head = match object.extract() {
        Ok(number) => Head::Unsigned(number),
        Err(_) => Head::Signed(object.extract().map_err(|_| {
            PyOverflowError::new_err("an integer of more than 64 bits has no form in MessagePack")
        })?),
    };
    head.write(to);
    Ok(())
}

/// A length in the head of a value.
fn short(len: usize) -> PyResult<u32> {
    u32::try_from(len)
        .map_err(|_| PyValueError::new_err(format!("{len} items or bytes have no form in MessagePack")))
}

fn pack_text(bytes: &[u8], use_bin_type: bool, to: &mut Vec<u8>) -> PyResult<()> {
    match short(bytes.len())? {
        // The old specification without a type for bytes has no short text either: the length
        // takes two bytes.
        len @ 32..=0xff if !use_bin_type => to.extend_from_slice(&[0xda, 0, len as u8]),
        len => Head::Text(len).write(to),
    }
    to.extend_from_slice(bytes);
    Ok(())
}

fn pack_bytes(bytes: &[u8], use_bin_type: bool, to: &mut Vec<u8>) -> PyResult<()> {
    if !use_bin_type {
        return pack_text(bytes, false, to);
    }
    Head::Bytes(short(bytes.len())?).write(to);
    to.extend_from_slice(bytes);
    Ok(())
}
