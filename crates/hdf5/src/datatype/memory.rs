//! The types that store elements as they are in memory: the inverse of
//! [`Element::of`](crate::element::Element::of).
//!
//! Types that HDF5 does not have are stored as h5py stores them: Booleans as an enumeration, complex
//! numbers as a compound of `r` and `i`, dates as opaque bytes with a tag.

use super::{Charset, Class, Datatype, FloatLayout, Member, Order, Padding, ReferenceKind};
use crate::element::{Element, ElementKind};
use hyperslab_codec::{ByteOrder, DataType, Kind};
use std::sync::Arc;

/// Bytes of the id of an element of variable length in a new file.
const VLEN_SIZE: u32 = 16;

impl Datatype {
    /// Bytes without a meaning.
    pub(crate) fn raw(size: u32) -> Datatype {
        Datatype { size, class: Class::Opaque { tag: String::new() } }
    }

    /// The type of NumPy's elements. Fails (with text) if HDF5 has no such type.
    pub fn of_numpy(dtype: DataType) -> Result<Datatype, String> {
        let order = match dtype.order() {
            ByteOrder::Little => Order::Little,
            ByteOrder::Big => Order::Big,
        };
        let size = u32::try_from(dtype.size()).unwrap_or(u32::MAX);
        if size == 0 {
            return Err("elements of 0 bytes, which HDF5 has not".into());
        }
        Ok(match dtype.kind() {
            Kind::Bool => {
                let base = Arc::new(integer(Order::Little, true, 1));
                let members = vec![("FALSE".to_owned(), vec![0]), ("TRUE".to_owned(), vec![1])];
                Datatype { size, class: Class::Enum { base, members } }
            }
            Kind::Int => integer(order, true, size),
            Kind::UInt => integer(order, false, size),
            Kind::Float => float(order, size),
            Kind::Complex => complex(float(order, size / 2)),
            Kind::Bytes => Datatype {
                size,
                class: Class::String { padding: Padding::NullPadded, charset: Charset::Ascii },
            },
            Kind::Raw => Datatype { size, class: Class::Opaque { tag: String::new() } },
            Kind::DateTime(_) | Kind::TimeDelta(_) => {
                Datatype { size, class: Class::Opaque { tag: format!("NUMPY:{}", dtype.numpy()) } }
            }
            Kind::Text | Kind::Small(_) => {
                return Err(format!("elements of type {}, which HDF5 has not", dtype.numpy()));
            }
        })
    }

    /// The type of elements in memory. Fails (with text) if elements hold addresses of their file, or
    /// if they cannot be read.
    pub fn of_memory(element: &Element) -> Result<Datatype, String> {
        let size = u32::try_from(element.size).unwrap_or(u32::MAX);
        Ok(match &element.kind {
            ElementKind::Plain(plain) => Datatype::of_numpy(*plain)?,
            ElementKind::Extended { order, complex: is_complex } => {
                let order = if *order == ByteOrder::Little { Order::Little } else { Order::Big };
                if *is_complex { complex(extended(order)) } else { extended(order) }
            }
            ElementKind::FixedString { utf8 } => Datatype {
                size,
                class: Class::String { padding: Padding::NullPadded, charset: charset(*utf8) },
            },
            ElementKind::Enum { base, members } => {
                let base = Arc::new(Datatype::of_numpy(*base)?);
                let value = |value: i128| {
                    let mut bytes: Vec<u8> = value.to_le_bytes().into_iter().take(element.size).collect();
                    if matches!(base.class, Class::Integer { order: Order::Big, .. }) {
                        bytes.reverse();
                    }
                    bytes
                };
                let members = members.iter().map(|(name, number)| (name.clone(), value(*number))).collect();
                Datatype { size, class: Class::Enum { base, members } }
            }
            ElementKind::Struct(fields) => {
                let members = fields.iter().map(|field| {
                    let why = |why| format!("member {:?}: {why}", field.name);
                    let datatype = Arc::new(Datatype::of_memory(&field.element).map_err(why)?);
                    let offset = u32::try_from(field.offset).unwrap_or(u32::MAX);
                    Ok(Member { name: field.name.clone(), offset, datatype })
                });
                Datatype { size, class: Class::Compound(members.collect::<Result<_, String>>()?) }
            }
            ElementKind::Array { shape, element } => {
                let shape = shape.iter().map(|len| u32::try_from(*len).unwrap_or(u32::MAX)).collect();
                let base = Arc::new(Datatype::of_memory(element)?);
                Datatype { size, class: Class::Array { shape, base } }
            }
            ElementKind::VlenString { .. } | ElementKind::Vlen { .. } => {
                return Err("values of variable length within elements are not supported".into());
            }
            ElementKind::ObjectReference | ElementKind::RegionReference | ElementKind::AnyReference => {
                return Err("references, which lead into another file, are not supported".into());
            }
            ElementKind::Unsupported(what) => return Err(format!("{what} is not supported")),
        })
    }

    /// Text of variable length.
    pub fn vlen_text(charset: Charset) -> Datatype {
        Datatype { size: VLEN_SIZE, class: Class::VlenString { padding: Padding::NullTerminated, charset } }
    }

    /// Sequences of variable length.
    pub fn vlen(base: Datatype) -> Datatype {
        Datatype { size: VLEN_SIZE, class: Class::Vlen(Arc::new(base)) }
    }

    /// References to objects.
    pub fn reference() -> Datatype {
        Datatype { size: 8, class: Class::Reference(ReferenceKind::Object) }
    }

    /// ASCII text of `len` bytes with a NUL at its end, as netCDF and the HDF5 library write names.
    pub fn fixed_text(len: u32) -> Datatype {
        let class = Class::String { padding: Padding::NullTerminated, charset: Charset::Ascii };
        Datatype { size: len, class }
    }
}

fn charset(utf8: bool) -> Charset {
    if utf8 { Charset::Utf8 } else { Charset::Ascii }
}

fn integer(order: Order, signed: bool, size: u32) -> Datatype {
    let precision = u16::try_from(size.saturating_mul(8)).unwrap_or(u16::MAX);
    Datatype { size, class: Class::Integer { order, signed, offset: 0, precision } }
}

/// An IEEE float of 2, 4 or 8 bytes.
fn float(order: Order, size: u32) -> Datatype {
    let (exponent_bits, mantissa_bits, bias) = match size {
        2 => (5, 10, 15),
        4 => (8, 23, 127),
        _ => (11, 52, 1023),
    };
    let layout = FloatLayout {
        order,
        offset: 0,
        precision: 1 + u16::from(exponent_bits) + u16::from(mantissa_bits),
        sign: exponent_bits + mantissa_bits,
        exponent_at: mantissa_bits,
        exponent_bits,
        mantissa_at: 0,
        mantissa_bits,
        bias,
        normalization: 2,
    };
    Datatype { size, class: Class::Float(layout) }
}

/// A float of 80 bits in 16 bytes, which stores the first bit of its mantissa.
fn extended(order: Order) -> Datatype {
    let layout = FloatLayout {
        order,
        offset: 0,
        precision: 80,
        sign: 79,
        exponent_at: 64,
        exponent_bits: 15,
        mantissa_at: 0,
        mantissa_bits: 64,
        bias: 16_383,
        normalization: 0,
    };
    Datatype { size: 16, class: Class::Float(layout) }
}

fn complex(part: Datatype) -> Datatype {
    let (half, part) = (part.size, Arc::new(part));
    let member = |name: &str, offset| Member { name: name.into(), offset, datatype: part.clone() };
    Datatype { size: 2 * half, class: Class::Compound(vec![member("r", 0), member("i", half)]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::vectors::vectors;
    use crate::testing::{SIZES, element, fails};

    #[test]
    fn numpy_types_are_stored_as_they_are() {
        for name in [
            "|b1",
            "|i1",
            "<u2",
            ">i4",
            "<u8",
            "<f2",
            ">f4",
            "<f8",
            "<c8",
            ">c16",
            "|S7",
            "|V5",
            "<M8[ns]",
            ">m8[10us]",
        ] {
            let dtype: DataType = name.parse().unwrap();
            let stored = Datatype::of_numpy(dtype).unwrap();
            let element = Element::of(&stored, SIZES).unwrap();
            assert_eq!(element.engine_type(), Some(dtype), "{name}");
            assert!(element.conversion(&stored).is_none(), "{name}");
        }
        fails(Datatype::of_numpy("<U3".parse().unwrap()), "elements of type <U3, which HDF5 has not");
        fails(Datatype::of_numpy("|S0".parse().unwrap()), "elements of 0 bytes");
    }

    /// Elements of all types that the HDF5 library writes, as memory has them.
    #[test]
    fn elements_in_memory_are_stored_as_they_are() {
        let mut refused = 0;
        for (hex, json) in vectors() {
            let (_, found) = element(&hex);
            match Datatype::of_memory(&found) {
                Ok(stored) => {
                    assert_eq!(Element::of(&stored, SIZES).unwrap(), found, "{json}");
                    let is_text = json.contains("string");
                    assert!(is_text || found.conversion(&stored).is_none(), "{json}");
                }
                Err(_) => {
                    assert!(found.has_heap_ids() || json.contains("reference"), "{json}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0);
    }
}
