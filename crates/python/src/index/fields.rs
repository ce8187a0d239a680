//! Reads, writes and explains a single field of an array of structures.

use crate::gil::engine;
use crate::nodes::array::ArrayBase;
use crate::nodes::explain;
use crate::values::elements::field_type;
use crate::values::input::{Writing, assign, broadcast_to};
use crate::values::masked::unmasked_field;
use crate::values::output::{Reading, array_over, data_of, new_array, read_new, scalar_of};
use hyperslab::Array;
use hyperslab::array::{Dims, Selection, Source, Strides, Target, element_count, read, read_into, write};
use hyperslab::zarr::Field;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyEllipsis};
use std::ops::Range;

/// Returns the field with this name. Fails if there is no such field.
fn field_of<'a>(array: &'a Array, name: &str) -> PyResult<&'a Field> {
    let fields = array.structure().map(|structure| structure.fields()).unwrap_or_default();
    fields.iter().find(|field| field.name == name).ok_or_else(|| {
        let known: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        PyIndexError::new_err(format!("array '{}' has no field {name:?}, but {known:?}", array.name()))
    })
}

/// Returns the byte range of a field in each element.
fn bytes_of(field: &Field) -> Range<usize> {
    field.offset..field.offset + field.size
}

/// Returns the shape of a field in a selection. The field itself may be an array.
fn shape_of(selection: &Selection, field: &Field) -> Dims {
    selection.shape().iter().copied().chain(field.shape.iter().map(|len| *len as u64)).collect()
}

/// Reads one field of a selection. `meaning`: the index's meaning, if other than
/// ``array[selection]``.
#[pyfunction]
#[pyo3(signature = (array, name, selection, meaning=None))]
pub(crate) fn read_field<'py>(
    py: Python<'py>,
    array: &Bound<'py, ArrayBase>,
    name: &str,
    selection: Option<&Bound<'py, PyAny>>,
    meaning: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let base = array.get();
    let array = base.array(py)?;
    let field = field_of(&array, name)?;
    let selection = base.select_as(&array, selection, meaning)?;
    let reading = base.reading(py, &array, &selection)?;
    let (layout, fortran) = (array.layout(), reading.fortran && field.shape.is_empty());
    let Some(part) = layout.part(bytes_of(field), false) else {
        let dtype = base.types(py, &array)?.memory.bind(py);
        let whole = read_new(layout, dtype, &selection, reading)?;
        let order = if fortran { "F" } else { "C" };
        let found = whole.get_item(name)?.call_method1("copy", (order,))?.cast_into::<PyUntypedArray>()?;
        return scalar_of(layout, found);
    };
    let (dtype, shape) = (field_type(py, &field.kind)?, shape_of(&selection, field));
    let within = part.of(selection);
    let bytes = element_count(&shape).and_then(|n| n.checked_mul(field.kind.size() as u64));
    let reading = Reading { fortran: false, ..reading };
    if !fortran && bytes.is_none_or(|bytes| bytes >= crate::values::output::NUMPYS_BELOW) {
        let memory = engine::run(py, |stop| read(part.layout(), &within, reading.options(stop)))?;
        return Ok(array_over(memory, &dtype, &shape, false)?.into_any());
    }
    // SAFETY: null: NumPy allocates.
    let found = unsafe { new_array(&dtype, &shape, std::ptr::null_mut(), fortran) }?;
    let axes = within.shape().len() - 1;
    let strides = found.strides().iter().take(axes).copied().chain([part.unit() as isize]);
    let strides: Strides = strides.collect();
    // SAFETY: the memory belongs to a new array that nobody else refers to. Along the selection's
    // axes it has the array's strides. Then the bytes of one field follow each other, in units: a
    // field that is an array is in C order.
    let mut target = unsafe { Target::from_raw(data_of(&found), &within.shape(), &strides) };
    engine::run(py, |stop| read_into(part.layout(), &within, &mut target, reading.options(stop)))?;
    scalar_of(layout, found)
}

/// Writes one field of a selection. The other fields stay.
///
/// If the fill value is not zero, the other fields in absent chunks are not zero either. Then the
/// selection is read, changed and written as a whole.
#[pyfunction]
#[pyo3(signature = (array, name, selection, value, meaning=None))]
pub(crate) fn write_field(
    py: Python<'_>,
    array: &Bound<'_, ArrayBase>,
    name: &str,
    selection: Option<&Bound<'_, PyAny>>,
    value: &Bound<'_, PyAny>,
    meaning: Option<&str>,
) -> PyResult<()> {
    let base = array.get();
    base.writable(py)?;
    let array = base.array(py)?;
    let field = field_of(&array, name)?;
    let selection = base.select_as(&array, selection, meaning)?;
    let writing = Writing { threads: None, write_empty_chunks: base.write_empty_chunks };
    let layout = array.layout();
    let (dtype, fill) =
        (field_type(py, &field.kind)?, array.fill().and_then(|fill| fill.get(bytes_of(field))));
    let value = &unmasked_field(&array, &dtype, &field.shape, fill, value)?;
    let Some(part) = layout.part(bytes_of(field), true) else {
        let memory = base.types(py, &array)?.memory.bind(py);
        let whole = read_new(layout, memory, &selection, Reading::default())?;
        whole.get_item(name)?.set_item(PyEllipsis::get(py), value)?;
        return assign(layout, memory, &selection, whole.as_any(), writing);
    };
    let shape = shape_of(&selection, field);
    let (value, mut strides) = broadcast_to(&dtype, &shape, value)?;
    let (value, within) = (dense_within(value, &mut strides, &shape, field)?, part.of(selection));
    strides.truncate(within.shape().len() - 1);
    strides.push(part.unit() as isize);
    // SAFETY: NumPy guarantees that every element of an array is within its memory. Broadcasting
    // only repeats elements. The bytes of one field follow each other. `value` is held until the
    // end. For changes meanwhile see `Source::from_raw`.
    let source = unsafe { Source::from_raw(data_of(&value), &within.shape(), &strides) };
    engine::run(py, |stop| write(part.layout(), &within, &source, writing.options(stop)))
}

/// Makes the elements of a field that is an array contiguous in memory. Sets `strides`.
fn dense_within<'py>(
    value: Bound<'py, PyUntypedArray>,
    strides: &mut Strides,
    shape: &[u64],
    field: &Field,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    if field.shape.is_empty() {
        return Ok(value);
    }
    let numpy = value.py().import("numpy")?;
    let whole = numpy.call_method1("broadcast_to", (value, shape.to_vec()))?;
    let dense = numpy.call_method1("ascontiguousarray", (whole,))?.cast_into::<PyUntypedArray>()?;
    *strides = dense.strides().into();
    Ok(dense)
}

/// Explains reading or writing one field. The last axis is the bytes of an element, in units that
/// divide every field.
#[pyfunction]
pub(crate) fn explain_field<'py>(
    py: Python<'py>,
    array: &Bound<'py, ArrayBase>,
    name: &str,
    selection: &Bound<'py, PyAny>,
    write: bool,
    tasks: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let base = array.get();
    let array = base.array(py)?;
    let field = field_of(&array, name)?;
    let selection = base.select(&array, Some(selection))?;
    let (layout, cache) = (array.layout(), base.cache.as_deref());
    match layout.part(bytes_of(field), write) {
        Some(part) => explain::explanation(py, part.layout(), &part.of(selection), write, tasks, cache),
        None => explain::explanation(py, layout, &selection, write, tasks, cache),
    }
}
