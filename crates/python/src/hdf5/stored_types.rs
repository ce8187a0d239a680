//! NumPy's types as types in HDF5 files: the mirror of [`dtypes`](super::dtypes).
//!
//! The choices are h5py's: Booleans are an enumeration, complex numbers a structure, texts of NumPy
//! text of fixed length padded with NULs. Notes in the metadata of a type (see
//! [`dtypes`](super::dtypes)) name types that NumPy lacks.

use crate::errors;
use crate::gil::once::interned;
use crate::hdf5::references::{self, Reference, RegionReference};
use crate::nodes::handles::NodeHandle;
use hyperslab::hdf5::datatype::{Charset, Class, Datatype, MAX_DEPTH, Member, Order, Padding, ReferenceKind};
use hyperslab::hdf5::element::{Element, ElementKind};
use hyperslab::hdf5::{File, Libver, Sizes};
use hyperslab::{ByteOrder, DataType};
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyType};
use std::sync::Arc;

/// Bytes of the id of a value of variable length, in files with addresses of eight bytes.
const VLEN: u32 = 16;

/// The type of elements in a file.
#[pyclass(frozen, module = "hyperslab._native")]
#[derive(Clone)]
pub(crate) struct StoredType {
    pub(crate) datatype: Arc<Datatype>,
    /// The committed type that objects with this type refer to: its file, and its header.
    committed: Option<(File, u64)>,
}

impl From<Datatype> for StoredType {
    fn from(datatype: Datatype) -> Self {
        StoredType { datatype: Arc::new(datatype), committed: None }
    }
}

impl StoredType {
    /// A type as an object of a file has it. `committed`: the header that it is in, if it is committed.
    pub(crate) fn of(file: &File, datatype: Arc<Datatype>, committed: Option<u64>) -> Self {
        StoredType { datatype, committed: committed.map(|address| (file.clone(), address)) }
    }

    /// The header of the committed type in a file. `None`: it is not committed there, and is copied.
    pub(crate) fn committed_in(&self, file: &File) -> Option<u64> {
        self.committed.as_ref().filter(|(found, _)| found.is(file)).map(|(_, address)| *address)
    }
}

#[pymethods]
impl StoredType {
    /// The type that stores elements of a NumPy type.
    #[new]
    fn new(dtype: &Bound<'_, PyArrayDescr>) -> PyResult<Self> {
        let aligned = dtype.getattr("isalignedstruct")?.is_truthy()?;
        Ok(stored(dtype, aligned, 0)?.datatype.into())
    }

    /// ASCII text of a number of bytes with a NUL at its end, as the HDF5 library writes names.
    #[staticmethod]
    fn fixed_text(len: u32) -> Self {
        Datatype::fixed_text(len).into()
    }

    /// Text of a number of bytes, or of variable length. ``padding``: 0 ends with a NUL, 1 is padded with
    /// NULs, 2 with spaces.
    #[staticmethod]
    fn text(py: Python<'_>, len: Option<u32>, padding: u8, utf8: bool) -> PyResult<Self> {
        let padding = match padding {
            0 => Padding::NullTerminated,
            1 => Padding::NullPadded,
            2 => Padding::SpacePadded,
            other => return Err(errors::invalid(py, format!("padding: expected 0, 1 or 2, found {other}"))),
        };
        let charset = if utf8 { Charset::Utf8 } else { Charset::Ascii };
        Ok(match len {
            None => Datatype { size: VLEN, class: Class::VlenString { padding, charset } },
            Some(size) => Datatype { size, class: Class::String { padding, charset } },
        }
        .into())
    }

    /// The type of an enumeration whose members keep their order. (`new` sorts them by name, as h5py.)
    #[staticmethod]
    fn enumeration(dtype: &Bound<'_, PyArrayDescr>) -> PyResult<Self> {
        let py = dtype.py();
        let members = note(dtype, "enum")?.ok_or_else(|| refused(py, format!("{dtype} has no members")))?;
        Ok(enumeration(plain(dtype)?, members.cast::<PyDict>()?, false)?.into())
    }

    /// Bits in a number of bytes.
    #[staticmethod]
    fn bitfield(py: Python<'_>, size: u32, big_endian: bool) -> PyResult<Self> {
        let precision = match size {
            1 | 2 | 4 | 8 => (size * 8) as u16,
            _ => {
                return Err(errors::invalid(
                    py,
                    format!("bitfield: expected 1, 2, 4 or 8 bytes, found {size}"),
                ));
            }
        };
        let order = if big_endian { Order::Big } else { Order::Little };
        Ok(Datatype { size, class: Class::Bitfield { order, offset: 0, precision } }.into())
    }

    /// Complex numbers of two floats of a type: HDF5's own, which HDF5 2.0 and later read.
    #[staticmethod]
    fn complex(py: Python<'_>, part: &StoredType) -> PyResult<Self> {
        if !matches!(part.datatype.class, Class::Float(_)) {
            return Err(errors::invalid(py, "complex: expected the type of a float".to_owned()));
        }
        let size = part.datatype.size * 2;
        Ok(Datatype { size, class: Class::Complex(Arc::clone(&part.datatype)) }.into())
    }

    /// The number of the class in HDF5: 0 integers, 1 floats, 4 bits, 11 complex numbers, …
    #[getter]
    fn class_number(&self) -> u8 {
        match self.datatype.class {
            Class::Integer { .. } => 0,
            Class::Float(_) => 1,
            Class::Time { .. } => 2,
            // For HDF5's functions, text of variable length is text.
            Class::String { .. } | Class::VlenString { .. } => 3,
            Class::Bitfield { .. } => 4,
            Class::Opaque { .. } => 5,
            Class::Compound(_) => 6,
            Class::Reference(_) => 7,
            Class::Enum { .. } => 8,
            Class::Vlen(_) => 9,
            Class::Array { .. } => 10,
            Class::Complex(_) => 11,
        }
    }

    /// True if the type is an object of a file, to which datasets and attributes refer.
    #[getter]
    fn is_committed(&self) -> bool {
        self.committed.is_some()
    }

    /// The same type as one that belongs to no file.
    fn transient(&self) -> Self {
        StoredType { datatype: self.datatype.clone(), committed: None }
    }

    /// The object that is the committed type.
    fn _open(&self, py: Python<'_>) -> PyResult<NodeHandle> {
        let not_committed = || errors::invalid(py, "the type is not committed".to_owned());
        let (file, address) = self.committed.clone().ok_or_else(not_committed)?;
        references::opened(py, &file, address)
    }

    /// Bytes of an element in a file.
    #[getter]
    fn size(&self) -> u32 {
        self.datatype.size
    }

    /// True if elements, or parts of them, refer to values elsewhere in the file.
    #[getter]
    fn refers(&self) -> bool {
        self.datatype.refers()
    }

    /// The datatype message. ``libver``: "earliest", "v110", …
    #[pyo3(signature = (libver="earliest"))]
    fn message<'py>(&self, py: Python<'py>, libver: &str) -> PyResult<Bound<'py, PyBytes>> {
        let libver: Libver = libver.parse().map_err(|why: String| errors::invalid(py, why))?;
        let bytes = self.datatype.build(libver).map_err(|why| errors::invalid(py, why.to_string()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<StoredType>().is_ok_and(|other| self.datatype == other.get().datatype)
    }

    fn __hash__(&self) -> u64 {
        u64::from(self.datatype.size)
    }

    fn __repr__(&self) -> String {
        let element = Element::of(&self.datatype, Sizes { offset: 8, length: 8 });
        match element {
            Ok(element) => format!("<StoredType {}>", element.to_json()),
            Err(why) => format!("<StoredType: {why}>"),
        }
    }
}

/// A type in a file, and the bytes of an element in the memory of the HDF5 library. The library lays
/// out structures in its memory first, where text of variable length is a pointer.
struct Stored {
    datatype: Datatype,
    memory: u32,
}

impl From<Datatype> for Stored {
    fn from(datatype: Datatype) -> Self {
        Stored { memory: datatype.size, datatype }
    }
}

/// `aligned`: the outermost structure has the alignment of a C compiler, which must be kept.
fn stored(dtype: &Bound<'_, PyArrayDescr>, aligned: bool, depth: usize) -> PyResult<Stored> {
    let py = dtype.py();
    if depth >= MAX_DEPTH {
        return Err(refused(py, format!("a type of more than {MAX_DEPTH} levels: {dtype}")));
    }
    let note = |name: &str| note(dtype, name);
    let size = size_of(dtype)?;
    if note("h5py_opaque")?.is_some_and(|opaque| opaque.is_truthy().unwrap_or(false)) {
        let tag = format!("NUMPY:{}", dtype.getattr(interned!(py, "str"))?);
        return Ok(Datatype { size, class: Class::Opaque { tag } }.into());
    }
    let kind = dtype.kind();
    Ok(match kind {
        b'V' if dtype.has_fields() => return structure(dtype, aligned, depth),
        b'V' => match dtype.shape().as_slice() {
            [] => Datatype { size, class: Class::Opaque { tag: String::new() } }.into(),
            shape => {
                let base = stored(&dtype.base(), false, depth + 1)?;
                let wrong = || refused(py, format!("a type of too many bytes: {dtype}"));
                let shape: Vec<u32> = shape
                    .iter()
                    .map(|len| u32::try_from(*len).map_err(|_| wrong()))
                    .collect::<PyResult<_>>()?;
                let times =
                    |size: u32| shape.iter().try_fold(size, |n, len| n.checked_mul(*len)).ok_or_else(wrong);
                let (size, memory) = (times(base.datatype.size)?, times(base.memory)?);
                let class = Class::Array { shape, base: Arc::new(base.datatype) };
                Stored { datatype: Datatype { size, class }, memory }
            }
        },
        b'T' => text(Charset::Utf8),
        b'S' => {
            let is_utf8 = note("h5py_encoding")?.is_some_and(|name| name.eq("utf-8").unwrap_or(false));
            let charset = if is_utf8 { Charset::Utf8 } else { Charset::Ascii };
            Datatype { size, class: Class::String { padding: Padding::NullPadded, charset } }.into()
        }
        b'O' => return object(dtype, depth),
        b'i' | b'u' => {
            let base = plain(dtype)?;
            match note("enum")? {
                Some(members) => enumeration(base, members.cast::<PyDict>()?, true)?.into(),
                None => base.into(),
            }
        }
        b'b' => plain(dtype)?.into(),
        b'f' | b'c' if size >= 16 && (kind == b'f' || size > 16) => extended(dtype, kind == b'c')?.into(),
        b'f' | b'c' => plain(dtype)?.into(),
        _ => return Err(refused(py, format!("No conversion path for dtype: {}", dtype.repr()?))),
    })
}

/// Text of variable length.
fn text(charset: Charset) -> Stored {
    let class = Class::VlenString { padding: Padding::NullTerminated, charset };
    Stored { datatype: Datatype { size: VLEN, class }, memory: 8 }
}

/// A type whose values are Python objects: its note says which.
fn object(dtype: &Bound<'_, PyArrayDescr>, depth: usize) -> PyResult<Stored> {
    let py = dtype.py();
    if let Some(item) = note(dtype, "vlen")? {
        if item.is(py.get_type::<PyString>()) {
            return Ok(text(Charset::Utf8));
        }
        if item.is(py.get_type::<PyBytes>()) {
            return Ok(text(Charset::Ascii));
        }
        let item = PyArrayDescr::new(py, item)?;
        let base = stored(&item, false, depth + 1)?.datatype;
        return Ok(Datatype { size: VLEN, class: Class::Vlen(Arc::new(base)) }.into());
    }
    if let Some(class) = note(dtype, "ref")? {
        let kind = reference_kind(&class)?;
        let kind = kind.ok_or_else(|| refused(py, "Unrecognized reference code".to_owned()))?;
        let size = if kind == ReferenceKind::Region { 12 } else { 8 };
        return Ok(Datatype { size, class: Class::Reference(kind) }.into());
    }
    Err(refused(py, format!("Object dtype {} has no native HDF5 equivalent", dtype.repr()?)))
}

/// The kind of references of a class: ours, or h5py's by its name.
fn reference_kind(class: &Bound<'_, PyAny>) -> PyResult<Option<ReferenceKind>> {
    let py = class.py();
    if class.is(py.get_type::<RegionReference>()) {
        return Ok(Some(ReferenceKind::Region));
    }
    if class.is(py.get_type::<Reference>()) {
        return Ok(Some(ReferenceKind::Object));
    }
    let Ok(class) = class.cast::<PyType>() else { return Ok(None) };
    Ok(match &*class.name()?.to_cow()? {
        "RegionReference" => Some(ReferenceKind::Region),
        "Reference" => Some(ReferenceKind::Object),
        _ => None,
    })
}

/// The type of plain elements.
fn plain(dtype: &Bound<'_, PyArrayDescr>) -> PyResult<Datatype> {
    let py = dtype.py();
    let name: String = dtype.getattr(interned!(py, "str"))?.extract()?;
    let wrong = |why: String| refused(py, format!("No conversion path for dtype: {dtype:?} ({why})"));
    let plain: DataType = name.parse().map_err(|_| wrong(format!("{name} is not known")))?;
    Datatype::of_numpy(plain).map_err(wrong)
}

/// The type of NumPy's `longdouble` and `clongdouble`.
fn extended(dtype: &Bound<'_, PyArrayDescr>, complex: bool) -> PyResult<Datatype> {
    let order = if dtype.byteorder() == b'>' { ByteOrder::Big } else { ByteOrder::NATIVE };
    let size = if complex { 32 } else { 16 };
    let element = Element { size, kind: ElementKind::Extended { order, complex } };
    Datatype::of_memory(&element).map_err(|why| refused(dtype.py(), why))
}

/// An enumeration. `sorted`: its members are sorted by name, as h5py stores them.
fn enumeration(base: Datatype, members: &Bound<'_, PyDict>, sorted: bool) -> PyResult<Datatype> {
    let py = members.py();
    let signed = matches!(base.class, Class::Integer { signed: true, .. });
    let is_big = matches!(base.class, Class::Integer { order: Order::Big, .. });
    let mut found: Vec<(String, Vec<u8>)> = Vec::with_capacity(members.len());
    for (name, value) in members {
        let name = match name.cast::<PyBytes>() {
            Ok(bytes) => String::from_utf8_lossy(bytes.as_bytes()).into_owned(),
            Err(_) => name.str()?.to_string(),
        };
        let number: i128 = value.extract()?;
        let bits = base.size * 8;
        let (low, high) = match signed {
            true => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
            false => (0, (1_i128 << bits) - 1),
        };
        if !(low..=high).contains(&number) {
            let why = format!("enumeration: the value {number} of {name:?} does not fit into {bits} bits");
            return Err(errors::exception(py, "NumberRangeError", why));
        }
        let mut bytes: Vec<u8> = number.to_le_bytes().into_iter().take(base.size as usize).collect();
        if is_big {
            bytes.reverse();
        }
        found.push((name, bytes));
    }
    if sorted {
        found.sort();
    }
    Ok(Datatype { size: base.size, class: Class::Enum { base: Arc::new(base), members: found } })
}

/// A structure. Members keep their offsets, unless one before them is larger in HDF5 than in NumPy.
fn structure(dtype: &Bound<'_, PyArrayDescr>, aligned: bool, depth: usize) -> PyResult<Stored> {
    let py = dtype.py();
    let too_large = || refused(py, format!("a structure of more than 2³² bytes: {dtype}"));
    let misaligned = || refused(py, "Enforced alignment not compatible with HDF5 type".to_owned());
    let names = dtype.names().unwrap_or_default();
    let mut fields = Vec::with_capacity(names.len());
    for (number, name) in names.iter().enumerate() {
        let (field, offset) = dtype.get_field(name)?;
        fields.push((offset, number, name, field));
    }
    fields.sort_by_key(|(offset, number, ..)| (*offset, *number));
    let mut end: u32 = 0;
    // The bytes by which members are larger in the file than in the memory of the HDF5 library.
    let mut grown: u32 = 0;
    let mut members: Vec<Option<Member>> = vec![None; names.len()];
    for (offset, number, name, field) in fields {
        let wanted = u32::try_from(offset).map_err(|_| too_large())?;
        let member = stored(&field, aligned, depth + 1)?;
        let at = end.max(wanted);
        if aligned && (at > wanted || member.memory != size_of(&field)?) {
            return Err(misaligned());
        }
        end = at.checked_add(member.memory).ok_or_else(too_large)?;
        let offset = at.checked_add(grown).ok_or_else(too_large)?;
        grown =
            grown.checked_add(member.datatype.size.saturating_sub(member.memory)).ok_or_else(too_large)?;
        if let Some(place) = members.get_mut(number) {
            *place = Some(Member { name: name.clone(), offset, datatype: Arc::new(member.datatype) });
        }
    }
    let memory = end.max(size_of(dtype)?);
    if aligned && end > size_of(dtype)? {
        return Err(misaligned());
    }
    let size = memory.checked_add(grown).ok_or_else(too_large)?;
    let members = members.into_iter().flatten().collect();
    Ok(Stored { datatype: Datatype { size, class: Class::Compound(members) }, memory })
}

fn size_of(dtype: &Bound<'_, PyArrayDescr>) -> PyResult<u32> {
    u32::try_from(dtype.itemsize())
        .map_err(|_| refused(dtype.py(), format!("a type of more than 2³² bytes: {dtype}")))
}

/// An entry of a type's metadata.
fn note<'py>(dtype: &Bound<'py, PyArrayDescr>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = dtype.py();
    let metadata = dtype.getattr(interned!(py, "metadata"))?;
    if metadata.is_none() {
        return Ok(None);
    }
    let found = metadata.call_method1(interned!(py, "get"), (name,))?;
    Ok((!found.is_none()).then_some(found))
}

fn refused(py: Python<'_>, message: String) -> PyErr {
    errors::exception(py, "ArgumentTypeError", message)
}
