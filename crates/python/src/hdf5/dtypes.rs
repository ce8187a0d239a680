//! HDF5 element types as NumPy types, described as in h5py.
//!
//! If NumPy lacks a type, the metadata of the data type describes it under h5py's names:
//!
//! * `vlen`: `str`, `bytes` or the item type of sequences.
//! * `enum`: names and values.
//! * `ref`: `Reference` or `RegionReference`.
//! * `h5py_encoding`: the encoding of fixed-length text.
//! * `h5py_opaque`: true for dates and text in opaque bytes.
//!
//! The functions of h5py, such as `h5py.check_string_dtype`, understand these types.

use crate::errors;
use crate::gil::once::interned;
use crate::hdf5::references::{Reference, RegionReference};
use crate::values::elements::with_note;
use hyperslab::hdf5::element::{Element, ElementKind, Field};
use hyperslab::{ByteOrder, DataType, Kind};
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

/// Returns the NumPy type of elements' values. `memory` is the type of the elements that the engine
/// reads.
pub(crate) fn descr<'py>(
    py: Python<'py>,
    element: &Element,
    memory: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyArrayDescr>> {
    match element.kind {
        ElementKind::Plain(plain) if !is_opaque(plain) => Ok(memory.clone()),
        _ => dtype_of(py, element),
    }
}

/// Returns `true` for dates and text. They are opaque bytes in the file with a note, which becomes
/// metadata of the type.
fn is_opaque(plain: DataType) -> bool {
    matches!(plain.kind(), Kind::DateTime(_) | Kind::TimeDelta(_) | Kind::Bytes | Kind::Text)
}

/// Returns the NumPy type of elements' values.
pub(crate) fn dtype_of<'py>(py: Python<'py>, element: &Element) -> PyResult<Bound<'py, PyArrayDescr>> {
    let noted = |base: &str, name: &str, note: Bound<'py, PyAny>| {
        with_note(PyString::new(py, base).as_any(), name, note)
    };
    match &element.kind {
        ElementKind::Plain(plain) if is_opaque(*plain) => {
            with_note(PyString::new(py, &plain.numpy()).as_any(), "h5py_opaque", true)
        }
        ElementKind::Plain(plain) => PyArrayDescr::new(py, plain.numpy()),
        ElementKind::Extended { order, complex } => {
            let order = if *order == ByteOrder::Little { '<' } else { '>' };
            PyArrayDescr::new(py, format!("{order}{}", if *complex { "c32" } else { "f16" }))
        }
        ElementKind::FixedString { utf8 } => {
            let encoding = PyString::new(py, if *utf8 { "utf-8" } else { "ascii" });
            noted(&format!("S{}", element.size), "h5py_encoding", encoding.into_any())
        }
        ElementKind::Enum { base, members } => {
            let values = PyDict::new(py);
            members.iter().try_for_each(|(name, value)| values.set_item(name, value))?;
            noted(&base.numpy(), "enum", values.into_any())
        }
        ElementKind::Struct(fields) => structure(py, fields, element.size),
        ElementKind::Array { shape, element } => {
            PyArrayDescr::new(py, (dtype_of(py, element)?, PyTuple::new(py, shape)?))
        }
        ElementKind::VlenString { utf8: true } => noted("O", "vlen", py.get_type::<PyString>().into_any()),
        ElementKind::VlenString { utf8: false } => noted("O", "vlen", py.get_type::<PyBytes>().into_any()),
        ElementKind::Vlen { element, .. } => noted("O", "vlen", dtype_of(py, element)?.into_any()),
        ElementKind::RegionReference => noted("O", "ref", py.get_type::<RegionReference>().into_any()),
        ElementKind::ObjectReference | ElementKind::AnyReference => {
            noted("O", "ref", py.get_type::<Reference>().into_any())
        }
        ElementKind::Unsupported(what) => {
            let message = format!("{what} is not supported: NumPy has no such elements");
            Err(errors::exception(py, "DataTypeError", message))
        }
    }
}

/// Returns a structure type with the member offsets of h5py.
///
/// These are the offsets in the file, except that variable-length text takes 8 bytes instead of 16.
/// If Python's objects do not fit there, members follow each other.
fn structure<'py>(py: Python<'py>, fields: &[Field], itemsize: usize) -> PyResult<Bound<'py, PyArrayDescr>> {
    let formats: Vec<_> = fields.iter().map(|field| dtype_of(py, &field.element)).collect::<PyResult<_>>()?;
    let sizes: Vec<usize> = formats.iter().map(|format| format.itemsize()).collect();
    let names = fields.iter().map(|field| field.name.as_str());
    let Some((offsets, size)) = offsets(fields, &sizes, itemsize) else {
        return PyArrayDescr::new(py, PyList::new(py, names.zip(formats))?);
    };
    let options = PyDict::new(py);
    options.set_item(interned!(py, "names"), PyList::new(py, names.collect::<Vec<_>>())?)?;
    options.set_item(interned!(py, "formats"), formats)?;
    options.set_item(interned!(py, "offsets"), offsets)?;
    options.set_item(interned!(py, "itemsize"), size)?;
    PyArrayDescr::new(py, options)
}

/// Returns the offsets of members, and the size of the structure. `sizes`: of the members in NumPy.
///
/// `None`: the members do not fit.
fn offsets(fields: &[Field], sizes: &[usize], itemsize: usize) -> Option<(Vec<usize>, usize)> {
    let mut in_order: Vec<usize> = (0..fields.len()).collect();
    in_order.sort_by_key(|index| fields[*index].offset);
    let (mut offsets, mut saved, mut end) = (vec![0; fields.len()], 0_usize, 0);
    for index in in_order {
        let field = &fields[index];
        let offset = field.offset.checked_sub(saved).filter(|offset| *offset >= end)?;
        offsets[index] = offset;
        end = offset.checked_add(sizes[index])?;
        saved = saved.checked_add(texts(&field.element)?.checked_mul(8)?)?;
    }
    let size = itemsize.checked_sub(saved).filter(|size| end <= *size)?;
    Some((offsets, size))
}

/// Number of variable-length texts in an element. `None`: more than fit into memory.
fn texts(element: &Element) -> Option<usize> {
    match &element.kind {
        ElementKind::Struct(fields) => {
            fields.iter().try_fold(0_usize, |sum, field| sum.checked_add(texts(&field.element)?))
        }
        ElementKind::Array { shape, element } => {
            let count = |n: usize, len: &u64| n.checked_mul(usize::try_from(*len).ok()?);
            shape.iter().try_fold(texts(element)?, count)
        }
        ElementKind::VlenString { .. } => Some(1),
        _ => Some(0),
    }
}
