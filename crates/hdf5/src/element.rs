//! Elements in memory: a datatype as NumPy represents it, the same as in h5py.
//!
//! A type that h5py does not have (integers of 3 bytes, VAX floats, …) becomes the next larger
//! NumPy number that holds every value exactly. If there is none, the type is refused by name.
//! [`Element::conversion`] converts elements whose stored bytes differ from those in memory.
//!
//! Structures keep their size, and their members the offsets that they have in the file. If a
//! member is larger in memory and does not fit, the members are packed without gaps instead.

use crate::convert::Conversion;
use crate::cursor::to_usize;
use crate::datatype::{Class, Datatype, Member, ReferenceKind};
use crate::number::{Float, Integer, byte_order};
use crate::{ParseError, Parsed, Sizes};
use hyperslab_codec::{ByteOrder, Codec, DataType, Kind};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The type of an element in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    /// Bytes of one element in memory.
    pub size: usize,
    /// The meaning of these bytes.
    pub kind: ElementKind,
}

/// A member of a structure in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Name of the member.
    pub name: String,
    /// Offset in bytes from the start of the structure.
    pub offset: usize,
    /// Type of the member.
    pub element: Element,
}

/// The meaning of the bytes of an element in memory.
#[derive(Clone, Debug, PartialEq)]
pub enum ElementKind {
    /// A type that the engine knows, in the byte order of the file (as in h5py). Bitfields are
    /// unsigned integers, opaque bytes are `V`, opaque bytes tagged `NUMPY:` are dates.
    Plain(DataType),
    /// An 80-bit float in 16 bytes, or two of them: NumPy's `longdouble` and `clongdouble` on
    /// x86-64.
    Extended {
        /// Byte order in memory.
        order: ByteOrder,
        /// `true` for a complex number.
        complex: bool,
    },
    /// Text of fixed length: bytes `S` in memory, NUL-padded.
    FixedString {
        /// `true` for UTF-8.
        utf8: bool,
    },
    /// An integer with names for its values.
    Enum {
        /// The integer type in memory.
        base: DataType,
        /// Names and values.
        members: Vec<(String, i128)>,
    },
    /// A structure.
    Struct(Vec<Field>),
    /// A small array within each element.
    Array {
        /// Elements per axis.
        shape: Vec<u64>,
        /// Type of its elements.
        element: Box<Element>,
    },
    /// Text of any length. In memory it is the stored heap id, which must be resolved.
    VlenString {
        /// `true` for UTF-8.
        utf8: bool,
    },
    /// A sequence. In memory it is the stored heap id, which must be resolved.
    Vlen {
        /// The stored type of the sequence's elements.
        stored: Arc<Datatype>,
        /// The type of the sequence's elements in memory.
        element: Box<Element>,
    },
    /// A reference to an object: in memory the stored address.
    ObjectReference,
    /// A reference to a region of a dataset: in memory the stored heap id.
    RegionReference,
    /// A reference of HDF5 1.12 to an object, a region or an attribute: in memory as stored.
    AnyReference,
    /// A type that NumPy cannot represent, by name. Its dataset can be inspected but not read.
    Unsupported(String),
}

impl Element {
    /// Returns the type in memory. Fails with [`ParseError::Unsupported`] without a NumPy type.
    pub fn of(datatype: &Datatype, sizes: Sizes) -> Parsed<Element> {
        let size = to_usize(datatype.size);
        let (offset, id) = (usize::from(sizes.offset), usize::from(sizes.offset) + 4);
        let kind = match &datatype.class {
            Class::Integer { .. } | Class::Bitfield { .. } => {
                return integer(datatype)?.in_memory().map(plain);
            }
            Class::Float(layout) => return float(&Float { size, layout: *layout }),
            Class::Time { .. } => return Err(ParseError::Unsupported("the datatype class 'time'".into())),
            Class::String { charset, .. } => ElementKind::FixedString { utf8: charset.is_utf8() },
            Class::Opaque { tag } => match tag.strip_prefix("NUMPY:").and_then(|name| name.parse().ok()) {
                Some(numpy @ DataType { .. }) if numpy.size() == size => return Ok(plain(numpy)),
                _ => return raw(size),
            },
            Class::Compound(members) => return structure(members, size, sizes),
            Class::Reference(ReferenceKind::Object) => {
                expect("object references", size, offset, ElementKind::ObjectReference)?
            }
            Class::Reference(ReferenceKind::Region) => {
                expect("region references", size, id, ElementKind::RegionReference)?
            }
            Class::Reference(_) => expect("references", size, id + 6, ElementKind::AnyReference)?,
            Class::Enum { base, members } => return enumeration(base, members),
            Class::VlenString { charset, .. } => {
                let kind = ElementKind::VlenString { utf8: charset.is_utf8() };
                expect("strings of variable length", size, id + 4, kind)?
            }
            Class::Vlen(stored) => {
                let element = Box::new(Element::of(stored, sizes)?);
                let kind = ElementKind::Vlen { stored: stored.clone(), element };
                expect("sequences of variable length", size, id + 4, kind)?
            }
            Class::Array { shape, base } => {
                let element = Element::of(base, sizes)?;
                let count = shape
                    .iter()
                    .try_fold(1_usize, |count, len| count.checked_mul(usize::try_from(*len).ok()?));
                let size = count.and_then(|count| count.checked_mul(element.size));
                let size = check_size(size.unwrap_or(usize::MAX))?;
                let shape = shape.iter().map(|len| u64::from(*len)).collect();
                return Ok(Element { size, kind: ElementKind::Array { shape, element: Box::new(element) } });
            }
            Class::Complex(base) => {
                let part = Element::of(base, sizes)?;
                // NumPy has no complex numbers of half-precision floats.
                let half = DataType::new(
                    Kind::Float,
                    4,
                    part.plain().map_or(ByteOrder::NATIVE, |part| part.order()),
                );
                let part = match half {
                    Some(single) if part.size == 2 => plain(single),
                    _ => part,
                };
                return complex(&part).ok_or_else(|| {
                    ParseError::Unsupported(format!("a complex number with parts of type {}", part.to_json()))
                });
            }
        };
        Ok(Element { size: check_size(size)?, kind })
    }

    /// Like [`Element::of`], but keeps unsupported types. Users can still see shape and attributes.
    pub(crate) fn of_dataset(datatype: &Datatype, sizes: Sizes) -> Parsed<Element> {
        match Element::of(datatype, sizes) {
            Err(ParseError::Unsupported(what)) => {
                let size = to_usize(datatype.size);
                Ok(Element { size, kind: ElementKind::Unsupported(what) })
            }
            found => found,
        }
    }

    /// Returns the engine's type, possibly raw bytes. `None`: an element is too large.
    pub fn engine_type(&self) -> Option<DataType> {
        match &self.kind {
            ElementKind::Plain(plain) | ElementKind::Enum { base: plain, .. } => Some(*plain),
            ElementKind::FixedString { .. } => DataType::new(Kind::Bytes, self.size, ByteOrder::NATIVE),
            _ => DataType::new(Kind::Raw, self.size, ByteOrder::NATIVE),
        }
    }

    /// Returns the conversion from stored elements. `None`: the bytes are the same.
    pub fn conversion(&self, datatype: &Datatype) -> Option<Arc<dyn Codec>> {
        if matches!(self.kind, ElementKind::Unsupported(_)) {
            return None;
        }
        Some(Arc::new(Conversion::new(datatype, self)?))
    }

    /// Returns what keeps elements in memory from being stored as `datatype`, in words. `None`: they
    /// can be stored.
    pub fn unstorable(&self, datatype: &Datatype) -> Option<String> {
        match &self.kind {
            ElementKind::Unsupported(what) => Some(what.clone()),
            _ => Conversion::new(datatype, self)?.unstorable(),
        }
    }

    /// Returns `true` if elements hold heap ids: the bytes in memory are not yet values.
    pub fn has_heap_ids(&self) -> bool {
        match &self.kind {
            ElementKind::Struct(fields) => fields.iter().any(|field| field.element.has_heap_ids()),
            ElementKind::Array { element, .. } => element.has_heap_ids(),
            kind => matches!(
                kind,
                ElementKind::VlenString { .. }
                    | ElementKind::Vlen { .. }
                    | ElementKind::RegionReference
                    | ElementKind::AnyReference
            ),
        }
    }

    /// Returns the type as JSON, for other languages.
    ///
    /// It is a NumPy type string (`"<f4"`) or one of these objects:
    ///
    /// * `{"string": n, "utf8": b}`
    /// * `{"enum": "<i4", "members": {…}}`
    /// * `{"fields": [[name, type, offset], …], "itemsize": n}`
    /// * `{"array": type, "shape": […]}`
    /// * `{"vlen_string": utf8}`
    /// * `{"vlen": type}`
    /// * `{"reference": "object" | "region" | "any"}`
    /// * `{"unsupported": what}`
    pub fn to_json(&self) -> String {
        self.json().to_string()
    }

    fn json(&self) -> Value {
        match &self.kind {
            ElementKind::Plain(plain) => plain.numpy().into(),
            ElementKind::Extended { order, complex } => {
                let order = if *order == ByteOrder::Little { '<' } else { '>' };
                format!("{order}{}", if *complex { "c32" } else { "f16" }).into()
            }
            ElementKind::FixedString { utf8 } => json!({"string": self.size, "utf8": utf8}),
            ElementKind::Enum { base, members } => {
                let number = |value: i128| {
                    i64::try_from(value).map_or_else(|_| json!(u64::try_from(value).ok()), Value::from)
                };
                let members: Map<String, Value> =
                    members.iter().map(|(name, value)| (name.clone(), number(*value))).collect();
                json!({"enum": base.numpy(), "members": members})
            }
            ElementKind::Struct(fields) => {
                let fields: Vec<Value> = fields
                    .iter()
                    .map(|field| json!([field.name, field.element.json(), field.offset]))
                    .collect();
                json!({"fields": fields, "itemsize": self.size})
            }
            ElementKind::Array { shape, element } => json!({"array": element.json(), "shape": shape}),
            ElementKind::VlenString { utf8 } => json!({"vlen_string": utf8}),
            ElementKind::Vlen { element, .. } => json!({"vlen": element.json()}),
            ElementKind::ObjectReference => json!({"reference": "object"}),
            ElementKind::RegionReference => json!({"reference": "region"}),
            ElementKind::AnyReference => json!({"reference": "any"}),
            ElementKind::Unsupported(what) => json!({"unsupported": what}),
        }
    }

    /// Returns the float type of a complex number's parts. `None`: not a complex number.
    pub(crate) fn half(&self) -> Option<Element> {
        match self.kind {
            ElementKind::Plain(complex) if complex.kind() == Kind::Complex => {
                DataType::new(Kind::Float, complex.size() / 2, complex.order()).map(plain)
            }
            ElementKind::Extended { order, complex: true } => {
                Some(Element { size: 16, kind: ElementKind::Extended { order, complex: false } })
            }
            _ => None,
        }
    }

    fn plain(&self) -> Option<DataType> {
        match &self.kind {
            ElementKind::Plain(plain) => Some(*plain),
            _ => None,
        }
    }
}

fn plain(plain: DataType) -> Element {
    Element { size: plain.size(), kind: ElementKind::Plain(plain) }
}

fn raw(size: usize) -> Parsed<Element> {
    check_size(size)?;
    DataType::new(Kind::Raw, size, ByteOrder::NATIVE).map(plain).ok_or_else(|| too_large(size))
}

/// Returns the size if elements may have it. Fails if it is too large.
fn check_size(size: usize) -> Parsed<usize> {
    if size <= DataType::MAX_SIZE { Ok(size) } else { Err(too_large(size)) }
}

fn too_large(size: usize) -> ParseError {
    ParseError::Unsupported(format!("an element of {size} bytes (at most {} bytes)", DataType::MAX_SIZE))
}

/// Checks that addresses and heap ids have the length that the superblock gives.
fn expect(what: &str, found: usize, expected: usize, kind: ElementKind) -> Parsed<ElementKind> {
    if found == expected {
        return Ok(kind);
    }
    Err(ParseError::Unsupported(format!(
        "a datatype of {found} bytes for {what} (expected {expected} bytes, by the sizes in the superblock)"
    )))
}

fn integer(datatype: &Datatype) -> Parsed<Integer> {
    Integer::of(datatype).ok_or_else(|| {
        ParseError::Unsupported("an enumeration with a base type that is not an integer".into())
    })
}

fn float(float: &Float) -> Parsed<Element> {
    let (order, size) = (byte_order(float.layout.order), float.in_memory()?.size);
    let extended = Element { size, kind: ElementKind::Extended { order, complex: false } };
    Ok(DataType::new(Kind::Float, size, order).map_or(extended, plain))
}

/// Returns the complex type of two floats. `None`: there is no such NumPy type.
fn complex(part: &Element) -> Option<Element> {
    match part.kind {
        ElementKind::Plain(plain_part) if plain_part.kind() == Kind::Float => {
            DataType::new(Kind::Complex, part.size * 2, plain_part.order()).map(plain)
        }
        ElementKind::Extended { order, complex: false } => {
            Some(Element { size: 32, kind: ElementKind::Extended { order, complex: true } })
        }
        _ => None,
    }
}

/// An enumeration, or a Boolean if its members are `FALSE` and `TRUE`, 0 and 1.
fn enumeration(base: &Datatype, members: &[(String, Vec<u8>)]) -> Parsed<Element> {
    let integer = integer(base)?;
    let memory = integer.in_memory()?;
    let members: Vec<(String, i128)> =
        members.iter().map(|(name, value)| (name.clone(), integer.value(value))).collect();
    let has = |name: &str, value: i128| members.iter().any(|member| member.0 == name && member.1 == value);
    if members.len() == 2 && has("FALSE", 0) && has("TRUE", 1) {
        return DataType::new(Kind::Bool, 1, ByteOrder::NATIVE).map(plain).ok_or_else(|| too_large(1));
    }
    Ok(Element { size: memory.size(), kind: ElementKind::Enum { base: memory, members } })
}

/// Returns members in h5py's order: as in the file. Members are sorted by offset if any of them
/// refers to values elsewhere in the file, because HDF5 sorts these when it opens them.
pub(crate) fn in_order(members: &[Member]) -> Vec<&Member> {
    let mut ordered: Vec<&Member> = members.iter().collect();
    if members.iter().any(|member| member.datatype.refers()) {
        ordered.sort_by_key(|member| member.offset);
    }
    ordered
}

/// A structure, or the complex number that h5py writes as a structure of `r` and `i`.
fn structure(members: &[Member], size: usize, sizes: Sizes) -> Parsed<Element> {
    let mut fields = Vec::new();
    for member in in_order(members) {
        let element = Element::of(&member.datatype, sizes)?;
        let offset = to_usize(member.offset);
        fields.push(Field { name: member.name.clone(), offset, element });
    }
    if let [re, im] = &fields[..]
        && (re.name.as_str(), im.name.as_str()) == ("r", "i")
        && re.element == im.element
        && let Some(complex) = complex(&re.element)
    {
        return Ok(complex);
    }
    if are_disjoint(&fields, size) {
        return Ok(Element { size: check_size(size)?, kind: ElementKind::Struct(fields) });
    }
    let mut packed: usize = 0;
    for field in &mut fields {
        field.offset = packed;
        packed = check_size(packed.saturating_add(field.element.size))?;
    }
    Ok(Element { size: packed, kind: ElementKind::Struct(fields) })
}

/// Returns `true` if all fields are within `size` bytes and do not overlap.
fn are_disjoint(fields: &[Field], size: usize) -> bool {
    let mut ranges: Vec<_> =
        fields.iter().map(|field| (field.offset, field.offset.saturating_add(field.element.size))).collect();
    ranges.sort_unstable();
    ranges.is_sorted_by(|(_, end), (start, _)| end <= start)
        && ranges.last().is_none_or(|(_, end)| *end <= size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::vectors::{REFUSED, vectors};
    use crate::testing::{SIZES, element_within, fails};

    fn of(hex: &str) -> Parsed<Element> {
        Ok(element_within(hex, SIZES)?.1)
    }

    #[test]
    fn meanings() {
        for (hex, json) in vectors() {
            let element = of(&hex).unwrap_or_else(|error| panic!("{hex}: {error}"));
            assert_eq!(element.to_json(), json, "{hex}");
            let engine = element.engine_type().unwrap();
            assert_eq!(engine.size(), element.size, "{hex}");
            let ids = ["vlen", "region", "any"].iter().any(|word| json.contains(word));
            assert_eq!(element.has_heap_ids(), ids, "{json}");
        }
        for (hex, what) in REFUSED {
            let error = of(hex).unwrap_err();
            assert!(matches!(&error, ParseError::Unsupported(why) if why.contains(what)), "{hex}: {error}");
        }
    }

    #[test]
    fn what_the_engine_moves() {
        let engine = |hex| of(hex).unwrap().engine_type().unwrap().numpy();
        assert_eq!(engine("11211f000400000000002000170800177f000000"), ">f4");
        assert_eq!(engine("1301000005000000"), "|S5");
        assert_eq!(
            engine(
                "1802000002000000100900000200000000001000475245454e49534800000000000000005245440000000000fffd0001"
            ),
            ">i2"
        );
        assert_eq!(engine("1900000010000000100800000400000000002000"), "|V16");
        assert_eq!(
            engine("3a0000001800000002020000000300000011201f000400000000002000170800177f000000"),
            "|V24"
        );
    }

    #[test]
    fn large_elements_are_refused() {
        let array = |len: u32| {
            let base = Arc::new(Datatype { size: 65_536, class: Class::Opaque { tag: String::new() } });
            Element::of(&Datatype { size: u32::MAX, class: Class::Array { shape: vec![len], base } }, SIZES)
        };
        assert_eq!(array(0x7fff).unwrap().size, 0x7fff_0000);
        fails(array(0x8000), "an element of 2147483648 bytes");
        assert!(of("1500000000000080").is_err());
    }

    #[test]
    fn short_addresses() {
        let sizes = Sizes { offset: 4, length: 4 };
        let of = |hex| element_within(hex, sizes).map(|(_, element)| element);
        assert_eq!(of("190000000c000000100800000400000000002000").unwrap().size, 12);
        assert_eq!(of("1700000004000000").unwrap().size, 4);
        assert_eq!(of("1701000008000000").unwrap().size, 8);
        assert!(of("1900000010000000100800000400000000002000").is_err());
    }
}
