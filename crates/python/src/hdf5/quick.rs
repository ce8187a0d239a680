//! Quick ways for the most frequent changes: plain values of Python and NumPy, in one call.
//!
//! They take what needs no conversion and no decision. Everything else, also everything that is
//! wrong, is left to the methods in Python, which know h5py's rules and errors.

use crate::errors::OrRaise;
use crate::gil::once::interned;
use crate::nodes::array::ArrayBase;
use crate::nodes::group::GroupBase;
use crate::nodes::handles::ArrayHandle;
use crate::values::output::data_of;
use hyperslab::hdf5::dataspace::Dataspace;
use hyperslab::hdf5::datatype::{Charset, Datatype};
use hyperslab::hdf5::edit::{COPIED, Editing};
use hyperslab::hdf5::new_file::{NewAttribute, ValuePart};
use hyperslab::zarr::join;
use hyperslab::{DataType, Error};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};

/// Elements that are stored as they are.
struct Plain {
    datatype: Datatype,
    shape: Vec<u64>,
    bytes: Vec<u8>,
}

/// The value of an attribute.
enum Value<'v> {
    Plain(Plain),
    Text(&'v str),
}

/// Sets an attribute of an array or group. False: nothing has changed, use `create`.
#[pyfunction]
pub(crate) fn set_plain_attribute(
    node: &Bound<'_, PyAny>,
    name: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let py = node.py();
    let Some(name) = name_of(name) else { return Ok(false) };
    let Some(value) = value_of(value)? else { return Ok(false) };
    let Some((editing, object)) = place_of(node)? else { return Ok(false) };
    let name = name.to_owned();
    py.detach(|| {
        let attribute = match value {
            Value::Plain(Plain { datatype, shape, bytes }) => {
                let dataspace = Dataspace::fixed(&shape);
                NewAttribute { name, datatype, dataspace, value: vec![ValuePart::Bytes(bytes)] }
            }
            Value::Text(text) => {
                let element = editing.put_values([(text.len() as u64, text.as_bytes())].into_iter(), true)?;
                let (datatype, value) = (Datatype::vlen_text(Charset::Utf8), vec![ValuePart::Bytes(element)]);
                NewAttribute { name, datatype, dataspace: Dataspace::Scalar, value }
            }
        };
        editing.set_attribute(object, &attribute)
    })
    .map_err(Error::from)
    .or_raise(py)?;
    Ok(true)
}

/// Makes a dataset of a few numbers in a group of an HDF5 file. ``None``: nothing has changed, use
/// the general way.
#[pyfunction]
pub(crate) fn create_plain(
    group: &Bound<'_, GroupBase>,
    name: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
) -> PyResult<Option<ArrayHandle>> {
    let py = group.py();
    let Some(name) = name_of(name).filter(|name| !name.contains('/') && *name != ".") else {
        return Ok(None);
    };
    let Some(Plain { datatype, shape, bytes }) = array_of(data)? else { return Ok(None) };
    let group = group.get().group(py)?;
    let made = py.detach(|| group.create_run(name, datatype, &shape, &bytes)).or_raise(py)?;
    let Some((address, file)) = made.zip(group.file()) else { return Ok(None) };
    Ok(Some(ArrayHandle::at(file, address, join(group.path(), name))))
}

/// A name that can be stored as it is.
fn name_of<'n>(name: &'n Bound<'_, PyAny>) -> Option<&'n str> {
    let name = name.cast::<PyString>().ok()?.to_str().ok()?;
    (!name.is_empty() && !name.contains('\0')).then_some(name)
}

/// The changes of the file of a node, and the node's address. `None`: the file is only read, or is
/// of another format.
fn place_of(node: &Bound<'_, PyAny>) -> PyResult<Option<(Editing, u64)>> {
    let py = node.py();
    if let Ok(array) = node.cast::<ArrayBase>() {
        let slot = array.get().slot();
        if let Some((file, address)) = slot.object(py)? {
            return Ok(file.as_hdf5().and_then(|file| Some((file.editing()?, address))));
        }
        let array = slot.get(py)?;
        return Ok(array.as_hdf5().and_then(|found| Some((found.file().editing()?, found.address()))));
    }
    let Ok(group) = node.cast::<GroupBase>() else { return Ok(None) };
    let group = group.get().group(py)?;
    Ok(group.as_hdf5().and_then(|found| Some((found.file().editing()?, found.address()))))
}

/// The value of an attribute, if it is plain.
fn value_of<'v>(value: &'v Bound<'_, PyAny>) -> PyResult<Option<Value<'v>>> {
    let number = |kind: &str, bytes: [u8; 8]| {
        let datatype = plain_type(kind)?;
        Some(Value::Plain(Plain { datatype, shape: Vec::new(), bytes: bytes.to_vec() }))
    };
    if let Ok(text) = value.cast_exact::<PyString>() {
        // The other texts are errors, or bytes that are not UTF-8.
        let is_storable = |text: &&str| !text.is_empty() && !text.contains('\0');
        return Ok(text.to_str().ok().filter(is_storable).map(Value::Text));
    }
    if value.is_exact_instance_of::<PyInt>() {
        // NumPy has other types for larger numbers.
        return Ok(value.extract::<i64>().ok().and_then(|n| number("<i8", n.to_le_bytes())));
    }
    if let Ok(value) = value.cast_exact::<PyFloat>() {
        return Ok(number("<f8", value.value().to_le_bytes()));
    }
    if let Ok(value) = value.cast_exact::<PyBool>() {
        let bytes = vec![u8::from(value.is_true())];
        let plain = plain_type("|b1").map(|datatype| Plain { datatype, shape: Vec::new(), bytes });
        return Ok(plain.map(Value::Plain));
    }
    Ok(array_of(value)?.map(Value::Plain))
}

/// The elements of a small array of numbers.
fn array_of(value: &Bound<'_, PyAny>) -> PyResult<Option<Plain>> {
    let Ok(array) = value.cast_exact::<PyUntypedArray>() else { return Ok(None) };
    let kind = array.dtype();
    let len = array.len().saturating_mul(kind.itemsize());
    if len == 0 || len as u64 > COPIED || !array.is_c_contiguous() {
        return Ok(None);
    }
    let Some(datatype) = number_type(&kind)? else { return Ok(None) };
    // SAFETY: the elements follow each other in the array's memory, which `array` keeps. They are
    // numbers, and the GIL is held.
    let bytes = unsafe { std::slice::from_raw_parts(data_of(array), len) }.to_vec();
    let shape = array.shape().iter().map(|n| *n as u64).collect();
    Ok(Some(Plain { datatype, shape, bytes }))
}

/// The stored type of a NumPy type of numbers without notes.
fn number_type(kind: &Bound<'_, PyArrayDescr>) -> PyResult<Option<Datatype>> {
    let (letter, size) = (char::from(kind.kind()), kind.itemsize());
    let is_known = match letter {
        'b' => size == 1,
        'i' | 'u' => matches!(size, 1 | 2 | 4 | 8),
        'f' => matches!(size, 4 | 8),
        'c' => matches!(size, 8 | 16),
        _ => false,
    };
    if !is_known || !kind.getattr(interned!(kind.py(), "metadata"))?.is_none() {
        return Ok(None);
    }
    let order = match kind.byteorder() {
        b'>' => '>',
        b'|' => '|',
        b'<' => '<',
        _ if cfg!(target_endian = "big") => '>',
        _ => '<',
    };
    Ok(plain_type(&format!("{order}{letter}{size}")))
}

fn plain_type(numpy: &str) -> Option<Datatype> {
    Datatype::of_numpy(numpy.parse::<DataType>().ok()?).ok()
}
