//! Makes and reads NumPy's variable-length strings (`StringDType`) through NumPy's C API.
//!
//! An element is 16 opaque bytes. Only the allocator of the array's data type can read or write it
//! (<https://numpy.org/doc/stable/reference/c-api/strings.html>). The allocator is locked while we
//! hold it. No Python code may run during that time, because it might ask for the same lock.

use crate::errors::{self, Raise};
use crate::gil::once;
use crate::values::output::{data_of, new_array};
use hyperslab::Array;
use hyperslab::array::{ArrayError, Packed, PackedPiece};
use numpy::npyffi::{PyArray_StringDTypeObject, is_numpy_2, npy_packed_static_string, npy_static_string};
use numpy::{
    PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods, npyffi::npy_string_allocator,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;
use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;
use std::ptr::{NonNull, null, null_mut};

/// Bytes of an element.
const SIZE: usize = 16;

type Load = unsafe extern "C" fn(
    *mut npy_string_allocator,
    *const npy_packed_static_string,
    *mut npy_static_string,
) -> c_int;
type Pack = unsafe extern "C" fn(
    *mut npy_string_allocator,
    *mut npy_packed_static_string,
    *const c_char,
    usize,
) -> c_int;
type PackNull = unsafe extern "C" fn(*mut npy_string_allocator, *mut npy_packed_static_string) -> c_int;
type Acquire = unsafe extern "C" fn(*const PyArray_StringDTypeObject) -> *mut npy_string_allocator;
type Release = unsafe extern "C" fn(*mut npy_string_allocator);

/// The functions that we use from NumPy's table.
struct Api {
    load: Load,
    pack: Pack,
    pack_null: PackNull,
    acquire: Acquire,
    release: Release,
}

/// Looks the functions up once. Fails if NumPy has no such strings.
fn api(py: Python<'_>) -> PyResult<&'static Api> {
    static API: PyOnceLock<Api> = PyOnceLock::new();
    once::get_or_try_make(&API, py, || {
        if !is_numpy_2(py) {
            return Err(errors::exception(
                py,
                "UnsupportedError",
                "strings of any length need NumPy 2.0 or later",
            ));
        }
        let capsule = py.import("numpy._core.multiarray")?.getattr("_ARRAY_API")?.cast_into::<PyCapsule>()?;
        let table: NonNull<*const c_void> = capsule.pointer_checked(None)?.cast();
        // NumPy's modules are never unloaded. But the capsule must not be the last reference to the
        // table.
        std::mem::forget(capsule);
        // SAFETY: NumPy 2 has functions with these signatures at these places of its table
        // (numpy/__multiarray_api.h), and keeps them there.
        unsafe {
            let entry = |number: usize| *table.as_ptr().add(number);
            Ok(Api {
                load: std::mem::transmute::<*const c_void, Load>(entry(313)),
                pack: std::mem::transmute::<*const c_void, Pack>(entry(314)),
                pack_null: std::mem::transmute::<*const c_void, PackNull>(entry(315)),
                acquire: std::mem::transmute::<*const c_void, Acquire>(entry(316)),
                release: std::mem::transmute::<*const c_void, Release>(entry(318)),
            })
        }
    })
}

/// The locked allocator of an array's strings.
struct Allocator<'a> {
    api: &'static Api,
    allocator: *mut npy_string_allocator,
    _array: &'a Bound<'a, PyUntypedArray>,
}

impl<'a> Allocator<'a> {
    /// `array` must be of `StringDType`.
    fn of(array: &'a Bound<'a, PyUntypedArray>) -> PyResult<Self> {
        let (api, dtype) = (api(array.py())?, array.dtype());
        if !is_strings(&dtype) {
            return Err(errors::exception(
                array.py(),
                "DataTypeError",
                format!("{dtype} is no type of strings"),
            ));
        }
        // SAFETY: the data type is NumPy's own `StringDType`, as checked, and lives as long as the
        // array.
        let allocator = unsafe { (api.acquire)(dtype.as_dtype_ptr().cast()) };
        Ok(Allocator { api, allocator, _array: array })
    }
}

impl Drop for Allocator<'_> {
    fn drop(&mut self) {
        // SAFETY: `of` acquired the allocator, and it is released once.
        unsafe { (self.api.release)(self.allocator) }
    }
}

/// Returns `true` for `StringDType`.
pub(crate) fn is_strings(dtype: &Bound<'_, PyArrayDescr>) -> bool {
    dtype.kind() == b'T' && dtype.itemsize() == SIZE
}

/// Makes a new array of strings of this type (`StringDType`), in C order.
///
/// `text` returns the text of each element, which must be valid UTF-8: NumPy's functions rely on
/// it. `None` is null, or the empty string if the type has no null.
pub(crate) fn new_strings<'py, 'a>(
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[u64],
    mut text: impl FnMut(usize) -> Option<&'a str>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = dtype.py();
    let knows_null = dtype.hasattr("na_object")?;
    // SAFETY: null: NumPy allocates.
    let array = unsafe { new_array(dtype, shape, null_mut(), false) }?;
    let (first, count) = (data_of(&array), array.len());
    let allocator = Allocator::of(&array)?;
    let mut failed = false;
    for index in 0..count {
        let found = text(index);
        // SAFETY: the array is new, in C order, and has `count` elements of SIZE bytes. Its own
        // allocator packs them. Until then they are valid (empty) strings, because the array is
        // filled with zeros. The text is read before the call returns.
        let status = unsafe {
            let place = first.add(index * SIZE).cast();
            match found {
                Some(text) => {
                    (allocator.api.pack)(allocator.allocator, place, text.as_ptr().cast(), text.len())
                }
                None if knows_null => (allocator.api.pack_null)(allocator.allocator, place),
                None => 0,
            }
        };
        failed |= status < 0;
    }
    drop(allocator);
    if failed {
        return Err(errors::exception(py, "OutOfMemoryError", format!("no memory for {count} strings")));
    }
    Ok(array)
}

/// Calls `each` with the bytes of each string at `places`, the addresses of elements. `None`: null.
///
/// # Safety
/// `places` must be elements of `array`, and `each` must not call Python. (NumPy changes strings
/// only under the lock of their allocator, which is held.)
pub(crate) unsafe fn for_each_string(
    array: &Bound<'_, PyUntypedArray>,
    places: impl Iterator<Item = *const u8>,
    mut each: impl FnMut(Option<&[u8]>),
) -> PyResult<()> {
    let allocator = Allocator::of(array)?;
    let mut failed = false;
    for place in places {
        let mut text = npy_static_string { size: 0, buf: null() };
        // SAFETY: `place` is an element of the array, and this is the array's allocator. The text
        // does not move while the allocator is locked.
        unsafe {
            match (allocator.api.load)(allocator.allocator, place.cast(), &mut text) {
                0 if text.size == 0 => each(Some(&[])),
                0 => each(Some(std::slice::from_raw_parts(text.buf.cast(), text.size))),
                1 => each(None),
                _ => failed = true,
            }
        }
    }
    drop(allocator);
    match failed {
        true => Err(errors::exception(
            array.py(),
            "HyperslabError",
            "NumPy cannot load a string of its own array",
        )),
        false => Ok(()),
    }
}

/// Packs the strings of an array for an array of text, on all threads. `None`: the array is not in
/// C order, or contains a null.
pub(crate) fn pack_strings(strings: &Bound<'_, PyUntypedArray>, array: &Array) -> PyResult<Option<Packed>> {
    let (py, count) = (strings.py(), strings.len());
    if !strings.is_c_contiguous() || count == 0 {
        return Ok(None);
    }
    let shape: Vec<u64> = strings.shape().iter().map(|len| *len as u64).collect();
    let held = Strings { allocator: Allocator::of(strings)?, first: data_of(strings), count };
    let packed = Packed::take(array.layout(), &shape, &|range, piece| held.take(range, piece));
    drop(held);
    match packed {
        Ok(packed) => Ok(Some(packed)),
        Err(Failed::NotPlain) => Ok(None),
        Err(Failed::Refused(error)) => Err(hyperslab::Error::from(error).raise(py)),
    }
}

/// The strings of an array in C order, while its allocator is locked.
struct Strings<'a> {
    allocator: Allocator<'a>,
    first: *const u8,
    count: usize,
}

// SAFETY: strings are only read, which changes nothing in the allocator. NumPy changes strings only
// under the lock of their allocator, which is held. No Python function is called.
unsafe impl Sync for Strings<'_> {}

/// The reason why strings were not packed.
enum Failed {
    /// A string is null or cannot be loaded.
    NotPlain,
    Refused(ArrayError),
}

impl From<ArrayError> for Failed {
    fn from(error: ArrayError) -> Self {
        Failed::Refused(error)
    }
}

impl Strings<'_> {
    /// Passes the strings of a range to `piece`.
    fn take(&self, range: Range<usize>, piece: &mut PackedPiece<'_>) -> Result<(), Failed> {
        let Allocator { api, allocator, .. } = &self.allocator;
        for index in range.start..range.end.min(self.count) {
            let mut text = npy_static_string { size: 0, buf: null() };
            // SAFETY: `place` is an element of the array, and this is the array's allocator. The
            // text does not move while the allocator is locked, and it is copied now. A short text
            // is at the start of the element itself.
            unsafe {
                let place = self.first.add(index * SIZE);
                match (api.load)(*allocator, place.cast(), &mut text) {
                    0 if text.size < SIZE && text.buf.cast() == place => {
                        piece.push_short(&place.cast::<[u8; SIZE]>().read_unaligned(), text.size);
                    }
                    0 if text.size == 0 => piece.push(&[]),
                    0 => piece.push(std::slice::from_raw_parts(text.buf.cast(), text.size)),
                    _ => return Err(Failed::NotPlain),
                }
            }
        }
        Ok(())
    }
}
