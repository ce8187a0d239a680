//! NumPy's strings of any length (`StringDType`), made and read through its C API.
//!
//! An element is 16 opaque bytes, which only the allocator of the array's own data type can read or
//! write (<https://numpy.org/doc/stable/reference/c-api/strings.html>). The allocator is locked
//! while we have it. No Python code may run meanwhile: it might ask for the same lock.

use crate::errors::{self, Raise};
use crate::once;
use crate::output::{data_of, new_array};
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

/// What is used of NumPy's table of functions.
struct Api {
    load: Load,
    pack: Pack,
    pack_null: PackNull,
    acquire: Acquire,
    release: Release,
}

/// Looked up once. Errors for a NumPy that has no such strings.
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
        // NumPy's modules are never unloaded; but the capsule must not be the last reference to the
        // table.
        std::mem::forget(capsule);
        // SAFETY: NumPy 2 has functions of these signatures at these numbers of its table
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
    /// `array` is of `StringDType`.
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
        // SAFETY: acquired by `of`, and released once.
        unsafe { (self.api.release)(self.allocator) }
    }
}

/// Whether it is `StringDType`.
pub(crate) fn is_strings(dtype: &Bound<'_, PyArrayDescr>) -> bool {
    dtype.kind() == b'T' && dtype.itemsize() == SIZE
}

/// A new array of strings of this type (`StringDType`), in C order. `text` gives the UTF-8 of each
/// element, which the caller has checked to be that (NumPy's functions rely on it); `None`: null.
/// Where the type knows no null, that is the empty string.
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
        // allocator packs them; that the array is filled with zeros makes them valid (empty)
        // strings until then. The text is read before this returns.
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

/// Gives `each` the bytes of every string of an array, in the order of `places` (addresses of its
/// elements); `None`: null.
///
/// # Safety
/// `places` are elements of `array`, and `each` calls nothing of Python's. (NumPy changes strings
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
        // SAFETY: `place` is an element of the array, whose allocator this is; the text stays where
        // it is while the allocator is locked.
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

/// The strings of an array packed for an array of text, by all threads. `None`: the array is not in
/// C order, or has a null.
pub(crate) fn packed(strings: &Bound<'_, PyUntypedArray>, array: &Array) -> PyResult<Option<Packed>> {
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

// SAFETY: strings are only looked at, which changes nothing in the allocator. NumPy changes strings
// only under the lock of their allocator, which is held. No function of Python's is called.
unsafe impl Sync for Strings<'_> {}

/// Why strings are not packed.
enum Failed {
    /// One is null or cannot be loaded.
    NotPlain,
    Refused(ArrayError),
}

impl From<ArrayError> for Failed {
    fn from(error: ArrayError) -> Self {
        Failed::Refused(error)
    }
}

impl Strings<'_> {
    /// Gives the strings of a range to `piece`.
    fn take(&self, range: Range<usize>, piece: &mut PackedPiece<'_>) -> Result<(), Failed> {
        let Allocator { api, allocator, .. } = &self.allocator;
        for index in range.start..range.end.min(self.count) {
            let mut text = npy_static_string { size: 0, buf: null() };
            // SAFETY: an element of the array, whose allocator this is; the text stays where it is
            // while the allocator is locked, and is copied now. Short ones are in the front of the
            // element itself.
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
