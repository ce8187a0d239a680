//! Converts MessagePack values to Python objects and back, like the package msgpack.
//!
//! Format: <https://github.com/msgpack/msgpack/blob/master/spec.md>. Extensions (including times)
//! are classes of that package. It is only imported for these.

use crate::errors;
use crate::gil::once::interned;
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
    fn take(&mut self, len: usize) -> PyResult<&'a [u8]> {
        let (taken, left) = self
            .left
            .split_at_checked(len)
            .ok_or_else(|| PyValueError::new_err("a value of MessagePack ends too early"))?;
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> PyResult<[u8; N]> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| PyValueError::new_err("a value of MessagePack ends too early"))
    }

    /// Reads a length of `bytes` bytes.
    fn len(&mut self, bytes: usize) -> PyResult<usize> {
        Ok(self.take(bytes)?.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)))
    }

    fn object<'py>(&mut self, py: Python<'py>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        check_depth(depth)?;
        let start = self.left;
        let [first] = self.array()?;
        match first {
            0x00..=0x7f => first.into_bound_py_any(py),
            0x80..=0x8f => self.map(py, usize::from(first & 0x0f), depth),
            0x90..=0x9f => self.list(py, usize::from(first & 0x0f), depth),
            0xa0..=0xbf => self.text(py, usize::from(first & 0x1f)),
            0xc0 => Ok(py.None().into_bound(py)),
            0xc1 => Err(PyValueError::new_err("byte 0xc1 begins no value of MessagePack")),
            0xc2 | 0xc3 => (first == 0xc3).into_bound_py_any(py),
            0xc4..=0xc6 => {
                let len = self.len(1 << (first - 0xc4))?;
                Ok(PyBytes::new(py, self.take(len)?).into_any())
            }
            0xc7..=0xc9 => {
                let len = self.len(1 << (first - 0xc7))?;
                self.take(len.saturating_add(1))?;
                self.extension(py, start)
            }
            0xca => f32::from_be_bytes(self.array()?).into_bound_py_any(py),
            0xcb => f64::from_be_bytes(self.array()?).into_bound_py_any(py),
            0xcc => u8::from_be_bytes(self.array()?).into_bound_py_any(py),
            0xcd => u16::from_be_bytes(self.array()?).into_bound_py_any(py),
            0xce => u32::from_be_bytes(self.array()?).into_bound_py_any(py),
            0xcf => u64::from_be_bytes(self.array()?).into_bound_py_any(py),
            0xd0 => i8::from_be_bytes(self.array()?).into_bound_py_any(py),
            0xd1 => i16::from_be_bytes(self.array()?).into_bound_py_any(py),
            0xd2 => i32::from_be_bytes(self.array()?).into_bound_py_any(py),
            0xd3 => i64::from_be_bytes(self.array()?).into_bound_py_any(py),
            0xd4..=0xd8 => {
                self.take((1 << (first - 0xd4)) + 1)?;
                self.extension(py, start)
            }
            0xd9..=0xdb => {
                let len = self.len(1 << (first - 0xd9))?;
                self.text(py, len)
            }
            0xdc | 0xdd => {
                let len = self.len(if first == 0xdc { 2 } else { 4 })?;
                self.list(py, len, depth)
            }
            0xde | 0xdf => {
                let len = self.len(if first == 0xde { 2 } else { 4 })?;
                self.map(py, len, depth)
            }
            0xe0..=0xff => first.cast_signed().into_bound_py_any(py),
        }
    }

    fn text<'py>(&mut self, py: Python<'py>, len: usize) -> PyResult<Bound<'py, PyAny>> {
        let bytes = PyBytes::new(py, self.take(len)?);
        if self.settings.raw {
            return Ok(bytes.into_any());
        }
        bytes.call_method1(interned!(py, "decode"), (interned!(py, "utf-8"),))
    }

    fn list<'py>(&mut self, py: Python<'py>, len: usize, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let list = PyList::empty(py);
        for _ in 0..len {
            list.append(self.object(py, depth + 1)?)?;
        }
        Ok(list.into_any())
    }

    fn map<'py>(&mut self, py: Python<'py>, len: usize, depth: usize) -> PyResult<Bound<'py, PyAny>> {
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
        to.push(0xc0);
    } else if object.is_instance_of::<PyBool>() {
        to.push(if object.is_truthy()? { 0xc3 } else { 0xc2 });
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
            true => with(to, 0xca, &single.to_be_bytes()),
            false => with(to, 0xcb, &number.to_be_bytes()),
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
        sized(items.len(), 15, (0x80, None, 0xde, 0xdf), to)?;
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
        sized(items.len(), 15, (0x90, None, 0xdc, 0xdd), to)?;
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

fn with(to: &mut Vec<u8>, first: u8, bytes: &[u8]) {
    to.push(first);
    to.extend_from_slice(bytes);
}

fn pack_integer(object: &Bound<'_, PyAny>, to: &mut Vec<u8>) -> PyResult<()> {
    if let Ok(number) = object.extract::<u64>() {
        let [.., a, b, c, d] = number.to_be_bytes();
        match number {
            0..=0x7f => to.push(d),
            0x80..=0xff => with(to, 0xcc, &[d]),
            0x100..=0xffff => with(to, 0xcd, &[c, d]),
            0x1_0000..=0xffff_ffff => with(to, 0xce, &[a, b, c, d]),
            _ => with(to, 0xcf, &number.to_be_bytes()),
        }
        return Ok(());
    }
    let number: i64 = object.extract().map_err(|_| {
        PyOverflowError::new_err("an integer of more than 64 bits has no form in MessagePack")
    })?;
    let [.., a, b, c, d] = number.to_be_bytes();
    match number {
        -0x20.. => to.push(d),
        -0x80.. => with(to, 0xd0, &[d]),
        -0x8000.. => with(to, 0xd1, &[c, d]),
        -0x8000_0000.. => with(to, 0xd2, &[a, b, c, d]),
        _ => with(to, 0xd3, &number.to_be_bytes()),
    }
    Ok(())
}

/// Writes the shortest header with a length.
///
/// The length is in the first byte up to `short`, else in one byte (only some types), two or four.
fn sized(len: usize, short: usize, firsts: (u8, Option<u8>, u8, u8), to: &mut Vec<u8>) -> PyResult<()> {
    let len = u32::try_from(len)
        .map_err(|_| PyValueError::new_err(format!("{len} items or bytes have no form in MessagePack")))?;
    let [a, b, c, d] = len.to_be_bytes();
    let (fixed, one, two, four) = firsts;
    match (len, one) {
        (len, _) if len as usize <= short => to.push(fixed | d),
        (0..=0xff, Some(one)) => with(to, one, &[d]),
        (0..=0xffff, _) => with(to, two, &[c, d]),
        _ => with(to, four, &[a, b, c, d]),
    }
    Ok(())
}

fn pack_text(bytes: &[u8], use_bin_type: bool, to: &mut Vec<u8>) -> PyResult<()> {
    // If there is no type for bytes, there is none for short text either.
    sized(bytes.len(), 31, (0xa0, use_bin_type.then_some(0xd9), 0xda, 0xdb), to)?;
    to.extend_from_slice(bytes);
    Ok(())
}

fn pack_bytes(bytes: &[u8], use_bin_type: bool, to: &mut Vec<u8>) -> PyResult<()> {
    if !use_bin_type {
        return pack_text(bytes, false, to);
    }
    let len = bytes.len();
    match len {
        0 => with(to, 0xc4, &[0]),
        _ => sized(len, 0, (0, Some(0xc4), 0xc5, 0xc6), to)?,
    }
    to.extend_from_slice(bytes);
    Ok(())
}
