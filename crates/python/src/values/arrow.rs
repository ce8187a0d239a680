//! Ragged arrays, and elements of fixed size, as Arrow arrays without a copy.
//!
//! They use the C data interface in Python's capsules:
//!
//! * structs and formats: <https://arrow.apache.org/docs/format/CDataInterface.html>
//! * capsules: <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>
//!
//! 1. A `hyperslab.Ragged` becomes a tree of [`Node`]s. Offsets and values are buffers of NumPy
//!    arrays, which the node holds. The validity becomes a bitmap.
//! 2. Each node becomes an [`ArrowArray`] that owns it. The consumer calls its `release`, on any
//!    thread and at any time. Only then are the NumPy arrays dropped.
//!
//! Arrow trusts its input, so offsets and text are checked first. They are in frozen memory
//! ([`crate::values::frozen`]), so that they cannot change after the check. Numbers may change, because
//! every value is valid.

use crate::gil::once::interned;
use crate::values::cells::Cells;
use crate::values::frozen::Validity;
use crate::values::output::data_of;
use crate::values::ragged::{Parts, ragged_class};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};

/// Arrow's formats of numbers, and NumPy's type strings for them without the byte order.
pub(crate) const NUMBERS: [(&str, &str); 20] = [
    ("b", "?"),
    ("c", "i1"),
    ("C", "u1"),
    ("s", "i2"),
    ("S", "u2"),
    ("i", "i4"),
    ("I", "u4"),
    ("l", "i8"),
    ("L", "u8"),
    ("e", "f2"),
    ("f", "f4"),
    ("g", "f8"),
    ("tss:", "M8[s]"),
    ("tsm:", "M8[ms]"),
    ("tsu:", "M8[us]"),
    ("tsn:", "M8[ns]"),
    ("tDs", "m8[s]"),
    ("tDm", "m8[ms]"),
    ("tDu", "m8[us]"),
    ("tDn", "m8[ns]"),
];

/// The type of an Arrow array.
#[repr(C)]
pub(crate) struct ArrowSchema {
    pub(crate) format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    pub(crate) n_children: i64,
    pub(crate) children: *mut *mut ArrowSchema,
    pub(crate) dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private: *mut c_void,
}

/// The memory of an Arrow array.
#[repr(C)]
pub(crate) struct ArrowArray {
    pub(crate) length: i64,
    pub(crate) null_count: i64,
    pub(crate) offset: i64,
    pub(crate) n_buffers: i64,
    pub(crate) n_children: i64,
    pub(crate) buffers: *mut *const c_void,
    pub(crate) children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private: *mut c_void,
}

impl ArrowSchema {
    /// An empty schema, to be filled by somebody else.
    pub(crate) fn released() -> Self {
        // SAFETY: zeros are valid: null pointers, numbers, no function.
        unsafe { std::mem::zeroed() }
    }
}

impl ArrowArray {
    /// An empty array, to be filled by somebody else.
    pub(crate) fn released() -> Self {
        // SAFETY: as for the schema.
        unsafe { std::mem::zeroed() }
    }
}

impl Drop for ArrowSchema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: not released yet, and nobody else refers to it.
            unsafe { release(self) }
        }
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: not released yet, and nobody else refers to it.
            unsafe { release(self) }
        }
    }
}

// SAFETY: the interface says that both may be moved to other threads and released there.
unsafe impl Send for ArrowSchema {}
// SAFETY: as above.
unsafe impl Send for ArrowArray {}

/// Memory of an Arrow array.
enum Buffer {
    /// There is no memory.
    Absent,
    /// The memory of a NumPy array, which it holds.
    Numpy {
        address: *const c_void,
        _array: Py<PyUntypedArray>,
    },
    Bits(Vec<u8>),
    SmallOffsets(Vec<i32>),
}

impl Buffer {
    /// The memory of a NumPy array in C order. If consumers rely on its contents (offsets, text),
    /// it must be frozen.
    fn numpy(array: &Bound<'_, PyUntypedArray>) -> Self {
        Buffer::Numpy { address: data_of(array).cast_const().cast(), _array: array.clone().unbind() }
    }

    fn address(&self) -> *const c_void {
        match self {
            Buffer::Absent => null(),
            Buffer::Numpy { address, .. } => *address,
            Buffer::Bits(bits) => bits.as_ptr().cast(),
            Buffer::SmallOffsets(offsets) => offsets.as_ptr().cast(),
        }
    }

    /// One bit per element, lowest bit first.
    fn bitmap(validity: &[u8]) -> Self {
        let byte = |eight: &[u8]| {
            eight.iter().enumerate().fold(0, |byte, (at, valid)| byte | u8::from(*valid != 0) << at)
        };
        Buffer::Bits(validity.chunks(8).map(byte).collect())
    }
}

/// An array to be handed to the consumer.
struct Node {
    format: CString,
    length: usize,
    nulls: usize,
    buffers: Vec<Buffer>,
    /// The items of lists.
    child: Option<Box<Node>>,
}

/// The consumer's wishes: the format of a node, then of its child, and so on.
struct Wish(Vec<String>);

impl Wish {
    /// Reads the formats of a requested schema, from the outermost inwards.
    fn of(requested: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let mut formats = Vec::new();
        let Some(requested) = requested.filter(|requested| !requested.is_none()) else {
            return Ok(Wish(formats));
        };
        let capsule = requested.cast::<PyCapsule>()?;
        let mut schema: *const ArrowSchema = capsule.pointer_checked(Some(c"arrow_schema"))?.as_ptr().cast();
        // SAFETY: a capsule of this name holds a schema. Its formats are C strings, and it has as
        // many children as it says.
        unsafe {
            while let Some(found) =
                schema.as_ref().filter(|found| !found.format.is_null() && formats.len() < 64)
            {
                formats.push(CStr::from_ptr(found.format).to_string_lossy().into_owned());
                schema = if found.n_children == 1 { *found.children } else { null() };
            }
        }
        Ok(Wish(formats))
    }

    fn is(&self, depth: usize, format: &str) -> bool {
        self.0.get(depth).is_some_and(|wanted| wanted == format)
    }
}

impl Node {
    /// Builds a ragged array. For several axes, each axis but the first becomes a list of fixed
    /// size.
    fn of_ragged(ragged: &Bound<'_, PyAny>, wish: &Wish, depth: usize) -> PyResult<Node> {
        let parts = Parts::of(ragged)?;
        let axes = parts.shape.len().saturating_sub(1);
        Ok(Node::of_cells(&parts, wish, depth + axes)?.with_axes(&parts.shape))
    }

    /// Builds elements of fixed size, some possibly missing. Axes are handled as for a ragged
    /// array.
    fn of_values(values: &Bound<'_, PyUntypedArray>, valid: Option<&Bound<'_, PyAny>>) -> PyResult<Node> {
        let py = values.py();
        let shape: Vec<u64> = values.shape().iter().map(|n| *n as u64).collect();
        let flat = values.call_method1(interned!(py, "reshape"), (-1,))?.cast_into::<PyUntypedArray>()?;
        let mut node = Node::of_numbers(&flat)?;
        if let Some(valid) = valid {
            let valid = Validity::of(valid)?;
            if valid.as_slice().len() != node.length {
                return Err(PyValueError::new_err("valid: expected one Boolean for each element"));
            }
            node.nulls = valid.as_slice().iter().filter(|valid| **valid == 0).count();
            if let Some(first) = node.buffers.first_mut() {
                *first = Buffer::bitmap(valid.as_slice());
            }
        }
        Ok(node.with_axes(&shape))
    }

    /// Wraps elements in C order in lists of fixed size, one for each axis but the first.
    fn with_axes(mut self, shape: &[u64]) -> Node {
        for axis in (1..shape.len()).rev() {
            let (before, rest) = shape.split_at(axis);
            let format = format!("+w:{}", rest.first().copied().unwrap_or_default());
            let length = before.iter().product::<u64>() as usize;
            let (buffers, child) = (vec![Buffer::Absent], Some(Box::new(self)));
            self = Node { format: text(&format), length, nulls: 0, buffers, child };
        }
        self
    }

    fn of_cells(parts: &Parts<'_>, wish: &Wish, depth: usize) -> PyResult<Node> {
        let py = parts.values.py();
        let nested = parts.values.is_instance(ragged_class(py)?)?;
        let (small, large) = match parts.kind.as_str() {
            "text" => ("u", "U"),
            "bytes" => ("z", "Z"),
            _ => ("+l", "+L"),
        };
        let offsets = parts.offsets.as_slice();
        let length = offsets.len().saturating_sub(1);
        let mut buffers = Vec::new();
        let mut child = None;
        if nested && large == "+L" {
            let held = Node::of_ragged(&parts.values, wish, depth + 1)?;
            check_offsets(offsets, held.length)?;
            child = Some(Box::new(held));
        } else {
            let values = parts.values.cast::<PyUntypedArray>()?;
            if large == "+L" {
                child = Some(Box::new(Node::of_numbers(values)?));
                check_offsets(offsets, values.len())?;
            } else {
                let bytes = parts.bytes()?;
                let cells = Cells::new(offsets, bytes.as_slice(), None, 1)?;
                if large == "U" {
                    cells.check_text(py)?;
                }
                buffers.push(Buffer::numpy(bytes.as_untyped()));
            }
        }
        let format = if wish.is(depth, small) { small } else { large };
        let offsets = if format == small {
            let narrow = |at: &i64| i32::try_from(*at).ok();
            let narrowed: Option<Vec<i32>> = offsets.iter().map(narrow).collect();
            let message = "there is more than the small Arrow types can hold (2 GiB): ask for the large ones";
            Buffer::SmallOffsets(narrowed.ok_or_else(|| PyValueError::new_err(message))?)
        } else {
            Buffer::numpy(parts.offsets.as_untyped())
        };
        buffers.insert(0, offsets);
        let validity = parts.validity.as_ref().map(Validity::as_slice);
        buffers.insert(0, validity.map_or(Buffer::Absent, Buffer::bitmap));
        let nulls = validity.map_or(0, |validity| validity.iter().filter(|valid| **valid == 0).count());
        if validity.is_some_and(|validity| validity.len() != length) {
            return Err(PyValueError::new_err("validity: expected one Boolean for each element"));
        }
        Ok(Node { format: text(format), length, nulls, buffers, child })
    }

    /// Builds the items of arrays.
    fn of_numbers(values: &Bound<'_, PyUntypedArray>) -> PyResult<Node> {
        let (py, dtype, length) = (values.py(), values.dtype(), values.len());
        let name: String = dtype.getattr(interned!(py, "str"))?.extract()?;
        let format = match (dtype.kind(), name.get(1..).unwrap_or_default()) {
            (b'b', _) => "b".to_owned(),
            (b'S' | b'V', _) if values.ndim() == 1 && !dtype.has_fields() => {
                format!("w:{}", dtype.itemsize())
            }
            (_, name) => {
                let number = NUMBERS.iter().find(|(_, numpy)| *numpy == name);
                number.map_or_else(String::new, |(arrow, _)| (*arrow).to_owned())
            }
        };
        if format.is_empty() || values.ndim() != 1 {
            return Err(PyTypeError::new_err(format!("Arrow has no type for items of type {dtype}")));
        }
        let numpy = py.import(interned!(py, "numpy"))?;
        let memory = if format == "b" {
            let options = PyDict::new(py);
            options.set_item("bitorder", "little")?;
            numpy.call_method(interned!(py, "packbits"), (values,), Some(&options))?
        } else {
            // Arrow requires native byte order and no gaps. Usually this copies nothing.
            let native = dtype.call_method1(interned!(py, "newbyteorder"), ("=",))?;
            numpy.call_method1(interned!(py, "ascontiguousarray"), (values, native))?
        };
        // A subclass of NumPy's array may return anything.
        let memory = memory.cast::<PyUntypedArray>()?;
        let (wanted, itemsize) =
            if format == "b" { (length.div_ceil(8), 1) } else { (length, dtype.itemsize()) };
        if memory.len() != wanted || memory.dtype().itemsize() != itemsize || !memory.is_c_contiguous() {
            return Err(PyTypeError::new_err("values: NumPy did not give them in memory without gaps"));
        }
        let buffers = vec![Buffer::Absent, Buffer::numpy(memory)];
        Ok(Node { format: text(&format), length, nulls: 0, buffers, child: None })
    }

    fn schema(&self, name: &'static CStr) -> ArrowSchema {
        let children = self.child.iter().map(|child| Box::into_raw(Box::new(child.schema(c"item"))));
        let mut private =
            Box::new(SchemaPrivate { format: self.format.clone(), children: children.collect() });
        ArrowSchema {
            format: private.format.as_ptr(),
            name: name.as_ptr(),
            metadata: null(),
            flags: NULLABLE,
            n_children: private.children.len() as i64,
            children: private.children.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(release_schema),
            private: Box::into_raw(private).cast(),
        }
    }

    fn array(mut self) -> ArrowArray {
        let children = self.child.take().map(|child| Box::into_raw(Box::new(child.array())));
        let addresses = self.buffers.iter().map(Buffer::address).collect();
        let (length, null_count) = (self.length as i64, self.nulls as i64);
        let mut private = Box::new(ArrayPrivate {
            addresses,
            children: children.into_iter().collect(),
            _buffers: self.buffers,
        });
        ArrowArray {
            length,
            null_count,
            offset: 0,
            n_buffers: private.addresses.len() as i64,
            n_children: private.children.len() as i64,
            buffers: private.addresses.as_mut_ptr(),
            children: private.children.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(release_array),
            private: Box::into_raw(private).cast(),
        }
    }
}

/// Elements may be null.
const NULLABLE: i64 = 2;

struct SchemaPrivate {
    format: CString,
    children: Vec<*mut ArrowSchema>,
}

struct ArrayPrivate {
    addresses: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    /// Owns the memory at the addresses.
    _buffers: Vec<Buffer>,
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: called once, for a schema made here: `private` and the children came from boxes. A
    // child that was moved away is marked as released, and dropping it does nothing.
    unsafe {
        let private = Box::from_raw((*schema).private.cast::<SchemaPrivate>());
        private.children.iter().for_each(|child| drop(Box::from_raw(*child)));
        (*schema).release = None;
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: as for the schema.
    let private = unsafe {
        let private = Box::from_raw((*array).private.cast::<ArrayPrivate>());
        private.children.iter().for_each(|child| drop(Box::from_raw(*child)));
        (*array).release = None;
        private
    };
    // Dropping NumPy arrays needs Python. After Python has ended, the arrays' memory is freed with
    // the process.
    let mut private = Some(private);
    Python::try_attach(|_| drop(private.take()));
    std::mem::forget(private);
}

/// Refuses offsets outside `len` items. Consumers do not check.
fn check_offsets(offsets: &[i64], len: usize) -> PyResult<()> {
    let within = |at: &i64| usize::try_from(*at).is_ok_and(|at| at <= len);
    if offsets.is_sorted() && offsets.first().is_some_and(within) && offsets.last().is_some_and(within) {
        return Ok(());
    }
    let message = "offsets: expected numbers that ascend from 0 or more to at most the length of values";
    Err(PyValueError::new_err(message))
}

fn text(format: &str) -> CString {
    CString::new(format).unwrap_or_default()
}

/// Returns the schema of a ragged array as a capsule.
#[pyfunction]
pub(crate) fn arrow_schema<'py>(ragged: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyCapsule>> {
    let node = Node::of_ragged(ragged, &Wish::of(None)?, 0)?;
    PyCapsule::new_with_value(ragged.py(), node.schema(c""), c"arrow_schema")
}

/// Returns a ragged array as capsules of its schema and its memory.
///
/// `requested`: uses small types instead of large ones if it asks for them. The consumer must do
/// all other conversions.
#[pyfunction]
#[pyo3(signature = (ragged, requested=None))]
pub(crate) fn arrow_array<'py>(
    ragged: &Bound<'py, PyAny>,
    requested: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let py = ragged.py();
    let node = Node::of_ragged(ragged, &Wish::of(requested)?, 0)?;
    let schema = PyCapsule::new_with_value(py, node.schema(c""), c"arrow_schema")?;
    Ok((schema, PyCapsule::new_with_value(py, node.array(), c"arrow_array")?))
}

/// Returns elements of fixed size as capsules of a schema and of memory.
///
/// `valid` has one Boolean per element, on one axis. It is false for missing elements.
#[pyfunction]
#[pyo3(signature = (values, valid=None))]
pub(crate) fn arrow_of_values<'py>(
    values: &Bound<'py, PyUntypedArray>,
    valid: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let py = values.py();
    let node = Node::of_values(values, valid)?;
    let schema = PyCapsule::new_with_value(py, node.schema(c""), c"arrow_schema")?;
    Ok((schema, PyCapsule::new_with_value(py, node.array(), c"arrow_array")?))
}
