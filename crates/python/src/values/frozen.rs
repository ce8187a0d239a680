//! Memory that nobody changes any more. A `hyperslab.Ragged` consists of it.
//!
//! Offsets are checked once and then lent, to Arrow even beyond the life of the `Ragged`. Nobody
//! may be able to change them. A NumPy array that is merely read-only is not enough: its base or
//! another view may be writeable.
//!
//! [`Frozen`] keeps a block over which no writeable array was ever made. NumPy does not let an
//! array over it become writeable: it asks the base for a writeable buffer, and this base offers no
//! such buffer. Views of such an array have the same base.
//!
//! Memory that is not frozen is copied, and the copy is checked.

use crate::gil::once::interned;
use crate::values::output::{data_of, is_writeable, new_array};
use hyperslab::Memory;
use numpy::npyffi::{NPY_ARRAY_WRITEABLE, PY_ARRAY_API};
use numpy::{
    Element, PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray,
    PyUntypedArrayMethods, dtype,
};
use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::prelude::*;

/// Keeps a block that nobody changes. It is the base of the arrays over the block.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct Frozen(#[allow(dead_code, reason = "held for its destructor")] FrozenMemory);

enum FrozenMemory {
    Memory(Memory),
    Offsets(Vec<i64>),
    Bytes(Vec<u8>),
}

/// A NumPy array over frozen memory. It has one axis without gaps and is aligned.
#[derive(Clone)]
pub(crate) struct FrozenArray<'py, T>(Bound<'py, PyArray1<T>>);

impl<'py, T: Element> FrozenArray<'py, T> {
    /// Takes an array of any kind. Copies it unless it is frozen.
    pub(crate) fn of(array: &Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(FrozenArray(frozen(array)?.cast_into::<PyArray1<T>>()?))
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: `frozen` ensures one axis, no gaps, alignment, and no changes. The array keeps
        // the memory alive. Booleans are only read as bytes (see `bytes`).
        unsafe { self.0.as_slice() }.unwrap_or_default()
    }

    pub(crate) fn as_untyped(&self) -> &Bound<'py, PyUntypedArray> {
        self.0.as_untyped()
    }

    pub(crate) fn into_array(self) -> Bound<'py, PyArray1<T>> {
        self.0
    }
}

/// The validity of elements, as bytes. All bytes except 0 are true.
///
/// NumPy's Booleans may be any number, but Rust's only 0 and 1. Therefore the elements are not
/// `bool`.
pub(crate) struct Validity<'py>(FrozenArray<'py, u8>);

impl<'py> Validity<'py> {
    pub(crate) fn of(array: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = array.py();
        let Ok(booleans) = array.cast::<PyUntypedArray>() else {
            return Err(PyTypeError::new_err("validity: expected an array of Booleans"));
        };
        if booleans.dtype().kind() != b'b' {
            return Err(PyTypeError::new_err("validity: expected an array of Booleans"));
        }
        FrozenArray::of(&array.call_method1(interned!(py, "view"), (interned!(py, "u1"),))?).map(Validity)
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl Frozen {
    fn array<'py>(
        py: Python<'py>,
        mut block: FrozenMemory,
        dtype: &Bound<'py, PyArrayDescr>,
        count: usize,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let (data, room) = match &mut block {
            FrozenMemory::Memory(memory) => (memory.as_mut_slice().as_mut_ptr(), memory.len()),
            FrozenMemory::Offsets(offsets) => (offsets.as_mut_ptr().cast(), size_of_val(offsets.as_slice())),
            FrozenMemory::Bytes(bytes) => (bytes.as_mut_ptr(), bytes.len()),
        };
        if dtype.has_object() || count.checked_mul(dtype.itemsize()).is_none_or(|bytes| bytes > room) {
            return Err(PyTypeError::new_err(format!(
                "{count} items of type {dtype} are not in {room} bytes"
            )));
        }
        let owner = Bound::new(py, Frozen(block))?;
        // SAFETY: `data` has room for the items, as checked. Moving the block into its Python
        // object does not move the memory that it owns. The array becomes read-only before anybody
        // else can use it. It holds `owner` as its base, so the block outlives the array and all
        // its views. SetBaseObject takes the reference to the owner, even if it fails.
        unsafe {
            let array = new_array(dtype, &[count as u64], data, false)?;
            (*array.as_array_ptr()).fields.flags &= !NPY_ARRAY_WRITEABLE;
            if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.into_ptr()) < 0 {
                return Err(PyErr::fetch(py));
            }
            Ok(array)
        }
    }
}

/// Makes an array over memory that was read.
pub(crate) fn memory<'py>(
    memory: Memory,
    dtype: &Bound<'py, PyArrayDescr>,
    count: usize,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    Frozen::array(dtype.py(), FrozenMemory::Memory(memory), dtype, count)
}

/// Makes an array of offsets.
pub(crate) fn offsets(py: Python<'_>, offsets: Vec<i64>) -> PyResult<Bound<'_, PyUntypedArray>> {
    let count = offsets.len();
    Frozen::array(py, FrozenMemory::Offsets(offsets), &dtype::<i64>(py), count)
}

/// Makes an array of bytes.
pub(crate) fn bytes(py: Python<'_>, bytes: Vec<u8>) -> PyResult<Bound<'_, PyUntypedArray>> {
    let count = bytes.len();
    Frozen::array(py, FrozenMemory::Bytes(bytes), &dtype::<u8>(py), count)
}

/// Makes an array of Booleans.
pub(crate) fn booleans(py: Python<'_>, booleans: Vec<bool>) -> PyResult<Bound<'_, PyUntypedArray>> {
    let count = booleans.len();
    let bytes = booleans.into_iter().map(u8::from).collect();
    Frozen::array(py, FrozenMemory::Bytes(bytes), &dtype::<bool>(py), count)
}

/// Returns the array itself if its memory is frozen and it has one axis without gaps. Otherwise
/// returns a frozen copy.
///
/// Booleans in a copy are 0 or 1.
#[pyfunction]
pub(crate) fn frozen<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = array.py();
    let array = array.cast::<PyUntypedArray>()?;
    let dtype = array.dtype();
    if array.ndim() != 1 || dtype.has_object() {
        return Err(PyTypeError::new_err(format!(
            "expected an array of one axis, not of objects, found {} axes of {dtype}",
            array.ndim()
        )));
    }
    if array.is_c_contiguous() && is_aligned(array) && is_frozen(array) {
        return Ok(array.clone());
    }
    let (count, item, step) = (array.len(), dtype.itemsize(), array.strides().first().copied().unwrap_or(0));
    let len = count.checked_mul(item).ok_or_else(|| PyMemoryError::new_err("a ragged array is too large"))?;
    let no_memory = || PyMemoryError::new_err(format!("no memory for {len} bytes of a ragged array"));
    let mut copy = Memory::dirty(len).ok_or_else(no_memory)?;
    let (from, to) = (data_of(array).cast_const(), copy.as_mut_slice());
    // SAFETY: NumPy guarantees that every element is within the array's memory, which is held. If
    // another thread changes it meanwhile, the copy is a mixture, but nothing has been checked yet.
    // `to` has room for all elements.
    unsafe {
        if step == item as isize || count <= 1 {
            from.copy_to_nonoverlapping(to.as_mut_ptr(), len);
        } else {
            for at in 0..count {
                let place = from.wrapping_offset(step * at as isize);
                place.copy_to_nonoverlapping(to.as_mut_ptr().add(at * item), item);
            }
        }
    }
    if dtype.kind() == b'b' {
        to.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    Frozen::array(py, FrozenMemory::Memory(copy), &dtype, count)
}

fn is_aligned(array: &Bound<'_, PyUntypedArray>) -> bool {
    data_of(array).addr().is_multiple_of(array.dtype().alignment().max(1))
}

/// Returns `true` if the memory of an array is [`Frozen`].
fn is_frozen(array: &Bound<'_, PyUntypedArray>) -> bool {
    let py = array.py();
    let mut array = array.clone();
    loop {
        if is_writeable(&array) {
            return false;
        }
        // SAFETY: the array is alive. Its base is null or an object that it holds.
        let base = unsafe { Bound::from_borrowed_ptr_or_opt(py, (*array.as_array_ptr()).fields.base) };
        match base.map(|base| base.cast_into::<PyUntypedArray>()) {
            None => return false,
            Some(Ok(base)) => array = base,
            Some(Err(other)) => return other.into_inner().is_instance_of::<Frozen>(),
        }
    }
}
