//! Datatype messages, versions 1 to 5 (specification IV.A.2.d).
//!
//! ```text
//! class and version (1: low and high half) | class bits (3) | size of an element (4) | properties of the class
//! ```
//!
//! Types contain other types (of members, or base types), each a complete message. The versions
//! differ:
//!
//! 1. arrays are members of compounds
//! 2. arrays are a class
//! 3. names and offsets are packed
//! 4. adds the references of HDF5 1.12
//! 5. adds complex numbers
//!
//! A type nests at most [`MAX_DEPTH`](super::MAX_DEPTH) levels deep and contains at most
//! [`MAX_TYPES`] types. This lets later code recurse over a type.

use super::{
    Charset, Class, Datatype, FloatLayout, MAX_DEPTH, MAX_TYPES, Member, Order, Padding, ReferenceKind,
};
use crate::text::lossless;
use crate::{Cursor, ParseError, Parsed};
use std::collections::HashSet;
use std::sync::Arc;

/// Largest number of axes of an array, the same as of a dataspace.
const MAX_RANK: u8 = 32;

/// The first eight bytes of a message.
struct Head {
    version: u8,
    /// The class bits.
    bits: u32,
    size: u32,
    /// Number of enclosing types.
    depth: usize,
}

/// Parses a type and all types within it.
pub(super) fn datatype(cursor: &mut Cursor<'_>) -> Parsed<Datatype> {
    Parser { types: 0 }.datatype(cursor, 0)
}

struct Parser {
    /// Number of types parsed so far.
    types: usize,
}

impl Parser {
    fn datatype(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Parsed<Datatype> {
        let at = cursor.clone();
        self.types += 1;
        if depth >= MAX_DEPTH || self.types > MAX_TYPES {
            let why = format!(
                "expected a datatype of at most {MAX_DEPTH} levels and {MAX_TYPES} types, found more"
            );
            return Err(at.corrupt(why));
        }
        let first = cursor.u8()?;
        let version = first >> 4;
        if !(1..=5).contains(&version) {
            return Err(ParseError::Unsupported(format!(
                "version {version} of the datatype message (known: 1 to 5)"
            )));
        }
        let bits = u32::try_from(cursor.uint(3)?).unwrap_or_default();
        let size = cursor.u32()?;
        if size == 0 {
            return Err(at.corrupt("expected a datatype of at least 1 byte, found 0 bytes"));
        }
        let head = Head { version, bits, size, depth };
        let class = match first & 0x0f {
            0 => {
                let (offset, precision) = counted_bits(cursor, &head)?;
                Class::Integer { order: order(&head), signed: head.bits & 8 != 0, offset, precision }
            }
            1 => Class::Float(float(cursor, &head)?),
            2 => Class::Time { order: order(&head), precision: cursor.u16()? },
            3 => {
                let (padding, charset) = text(cursor, &head, 0)?;
                Class::String { padding, charset }
            }
            4 => {
                let (offset, precision) = counted_bits(cursor, &head)?;
                Class::Bitfield { order: order(&head), offset, precision }
            }
            5 => Class::Opaque { tag: tag(cursor, &head)? },
            6 => Class::Compound(self.compound(cursor, &head)?),
            7 => Class::Reference(reference(cursor, &head)?),
            8 => self.enumeration(cursor, &head)?,
            9 => self.variable(cursor, &head)?,
            10 => self.array(cursor, &head)?,
            11 => Class::Complex(self.complex(cursor, &head)?),
            class => return Err(ParseError::Unsupported(format!("datatype class {class} (known: 0 to 11)"))),
        };
        Ok(Datatype { size, class })
    }

    fn base(&mut self, cursor: &mut Cursor<'_>, head: &Head) -> Parsed<Arc<Datatype>> {
        self.datatype(cursor, head.depth + 1).map(Arc::new)
    }

    fn compound(&mut self, cursor: &mut Cursor<'_>, head: &Head) -> Parsed<Vec<Member>> {
        // Version 3 and later: an offset has as many bytes as the compound's size needs.
        let offset_len = match head.size {
            _ if head.version < 3 => 4,
            0..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xff_ffff => 3,
            _ => 4,
        };
        let mut members = Vec::new();
        let mut names = HashSet::new();
        for _ in 0..head.bits & 0xffff {
            let at = cursor.clone();
            let name = new_name(cursor, head, &mut names)?;
            let offset = u32::try_from(cursor.uint(offset_len)?).unwrap_or(u32::MAX);
            let shape = match head.version {
                1 => member_shape(cursor)?,
                _ => Vec::new(),
            };
            let mut datatype = self.base(cursor, head)?;
            if !shape.is_empty() {
                let size = array_size(&shape, datatype.size)
                    .ok_or_else(|| at.corrupt(format!("member '{name}' has more than 2³² bytes")))?;
                datatype = Arc::new(Datatype { size, class: Class::Array { shape, base: datatype } });
            }
            members.push(Member { name, offset, datatype });
        }
        members_apart(&members, head.size).map_err(|why| cursor.corrupt(why))?;
        Ok(members)
    }

    fn enumeration(&mut self, cursor: &mut Cursor<'_>, head: &Head) -> Parsed<Class> {
        let at = cursor.clone();
        let base = self.base(cursor, head)?;
        if !matches!(base.class, Class::Integer { .. }) || base.size != head.size {
            let why = format!(
                "expected an integer of {} bytes as the base type of an enumeration, found {} of {} bytes",
                head.size,
                if matches!(base.class, Class::Integer { .. }) { "an integer" } else { "another type" },
                base.size
            );
            return Err(at.corrupt(why));
        }
        let (mut names, mut seen) = (Vec::new(), HashSet::new());
        for _ in 0..head.bits & 0xffff {
            names.push(new_name(cursor, head, &mut seen)?);
        }
        let mut members = Vec::new();
        for name in names {
            members.push((name, cursor.take_u64(u64::from(base.size))?.to_vec()));
        }
        Ok(Class::Enum { base, members })
    }

    fn variable(&mut self, cursor: &mut Cursor<'_>, head: &Head) -> Parsed<Class> {
        let (padding, charset) = match head.bits & 0x0f {
            0 => return Ok(Class::Vlen(self.base(cursor, head)?)),
            1 => text(cursor, head, 4)?,
            kind => {
                return Err(
                    cursor.corrupt(format!("expected a variable-length type of 0 or 1, found {kind}"))
                );
            }
        };
        // The base type is a character and adds no information.
        self.base(cursor, head)?;
        Ok(Class::VlenString { padding, charset })
    }

    fn array(&mut self, cursor: &mut Cursor<'_>, head: &Head) -> Parsed<Class> {
        let at = cursor.clone();
        let rank = cursor.u8()?;
        if rank == 0 || rank > MAX_RANK {
            return Err(
                at.corrupt(format!("expected an array datatype of 1 to {MAX_RANK} axes, found {rank}"))
            );
        }
        if head.version < 3 {
            cursor.skip(3)?;
        }
        let shape = (0..rank).map(|_| cursor.u32()).collect::<Result<Vec<u32>, _>>()?;
        if head.version < 3 {
            // The permutation of the axes. It was never used.
            cursor.skip(4 * usize::from(rank))?;
        }
        let base = self.base(cursor, head)?;
        if shape.contains(&0) || array_size(&shape, base.size) != Some(head.size) {
            let why = format!(
                "an array datatype of shape {shape:?} with elements of {} bytes cannot have {} bytes",
                base.size, head.size
            );
            return Err(at.corrupt(why));
        }
        Ok(Class::Array { shape, base })
    }

    fn complex(&mut self, cursor: &mut Cursor<'_>, head: &Head) -> Parsed<Arc<Datatype>> {
        let at = cursor.clone();
        // Bit 0: both parts are of the same type. Bits 1 and 2: rectangular (0).
        if head.version < 5 || head.bits & 7 != 1 {
            let (bits, version) = (head.bits, head.version);
            let what = format!(
                "a complex number with class bits {bits:#x} in datatype message version {version} (known: \
                 0x1, version 5)"
            );
            return Err(ParseError::Unsupported(what));
        }
        let base = self.base(cursor, head)?;
        if !matches!(base.class, Class::Float(_)) || base.size.checked_mul(2) != Some(head.size) {
            let why = format!(
                "expected a floating-point number of half the size as the base type of a complex number of \
                 {} bytes, found {} of {} bytes",
                head.size,
                if matches!(base.class, Class::Float(_)) {
                    "a floating-point number"
                } else {
                    "another type"
                },
                base.size
            );
            return Err(at.corrupt(why));
        }
        Ok(base)
    }
}

fn order(head: &Head) -> Order {
    if head.bits & 1 == 0 { Order::Little } else { Order::Big }
}

/// Reads an integer's first significant bit and its number of significant bits.
fn counted_bits(cursor: &mut Cursor<'_>, head: &Head) -> Parsed<(u16, u16)> {
    let at = cursor.clone();
    let (offset, precision) = (cursor.u16()?, cursor.u16()?);
    significant(&at, head, offset, precision)?;
    Ok((offset, precision))
}

/// Checks that the significant bits are within the element.
fn significant(at: &Cursor<'_>, head: &Head, offset: u16, precision: u16) -> Parsed<()> {
    let bits = u64::from(head.size) * 8;
    if precision == 0 || u64::from(offset) + u64::from(precision) > bits {
        let why = format!(
            "expected significant bits inside a number of {bits} bits, found {precision} bits from bit \
             {offset} on"
        );
        return Err(at.corrupt(why));
    }
    Ok(())
}

fn float(cursor: &mut Cursor<'_>, head: &Head) -> Parsed<FloatLayout> {
    let at = cursor.clone();
    let order =
        match (head.bits & 0x40, head.bits & 1) {
            (0, 0) => Order::Little,
            (0, _) => Order::Big,
            (_, 1) if head.version >= 3 => Order::Vax,
            _ => return Err(at.corrupt(format!(
                "the byte order of a floating-point number is unknown (class bits {:#x}, datatype message \
                 version {})",
                head.bits, head.version
            ))),
        };
    let byte = |at: u32| u8::try_from(head.bits >> at & 0xff).unwrap_or_default();
    let layout = FloatLayout {
        order,
        normalization: byte(4) & 3,
        sign: byte(8),
        offset: cursor.u16()?,
        precision: cursor.u16()?,
        exponent_at: cursor.u8()?,
        exponent_bits: cursor.u8()?,
        mantissa_at: cursor.u8()?,
        mantissa_bits: cursor.u8()?,
        bias: cursor.u32()?,
    };
    significant(&at, head, layout.offset, layout.precision)?;
    let range = |at: u8, bits: u8| u16::from(at)..u16::from(at) + u16::from(bits);
    let exponent = range(layout.exponent_at, layout.exponent_bits);
    let mantissa = range(layout.mantissa_at, layout.mantissa_bits);
    let sign = u16::from(layout.sign);
    let beyond =
        u64::from(sign.saturating_add(1).max(exponent.end).max(mantissa.end)) > u64::from(head.size) * 8;
    let overlap = exponent.contains(&sign)
        || mantissa.contains(&sign)
        || exponent.start < mantissa.end && mantissa.start < exponent.end;
    let vax = order == Order::Vax && !head.size.is_multiple_of(2);
    if exponent.is_empty() || mantissa.is_empty() || beyond || overlap || vax || layout.normalization == 3 {
        let why = format!(
            "a floating-point number of {} bytes cannot have its sign at bit {sign}, its exponent in bits \
             {} to {}, its mantissa in bits {} to {} and normalization {}",
            head.size, exponent.start, exponent.end, mantissa.start, mantissa.end, layout.normalization
        );
        return Err(at.corrupt(why));
    }
    Ok(layout)
}

/// Reads padding and character set from the class bits, from bit `shift` on.
fn text(cursor: &Cursor<'_>, head: &Head, shift: u32) -> Parsed<(Padding, Charset)> {
    let padding = match head.bits >> shift & 0x0f {
        0 => Padding::NullTerminated,
        1 => Padding::NullPadded,
        2 => Padding::SpacePadded,
        other => return Err(cursor.corrupt(format!("expected string padding 0, 1 or 2, found {other}"))),
    };
    match head.bits >> (shift + 4) & 0x0f {
        0 => Ok((padding, Charset::Ascii)),
        1 => Ok((padding, Charset::Utf8)),
        other => Err(ParseError::Unsupported(format!("character set {other} (known: 0 and 1)"))),
    }
}

fn tag(cursor: &mut Cursor<'_>, head: &Head) -> Parsed<String> {
    let bytes = cursor.take_u64(u64::from(head.bits & 0xff))?;
    Ok(lossless(bytes.split(|byte| *byte == 0).next().unwrap_or_default()))
}

fn reference(cursor: &Cursor<'_>, head: &Head) -> Parsed<ReferenceKind> {
    let kind = match head.bits & 0x0f {
        0 => return Ok(ReferenceKind::Object),
        1 => return Ok(ReferenceKind::Region),
        2 => ReferenceKind::Object2,
        3 => ReferenceKind::Region2,
        4 => ReferenceKind::Attribute,
        other => return Err(cursor.corrupt(format!("expected a reference type of 0 to 4, found {other}"))),
    };
    let encoding = head.bits >> 4 & 0x0f;
    if head.version < 4 || encoding != 1 {
        let version = head.version;
        let what = format!(
            "reference version {encoding} in datatype message version {version} (known: 1, version 4 or \
             later)"
        );
        return Err(ParseError::Unsupported(what));
    }
    Ok(kind)
}

/// Reads the name of a member. The name must be unique.
fn new_name<'a>(cursor: &mut Cursor<'a>, head: &Head, seen: &mut HashSet<&'a [u8]>) -> Parsed<String> {
    let at = cursor.clone();
    let name = name(cursor, head)?;
    match seen.insert(name) {
        true => Ok(lossless(name)),
        false => Err(at.corrupt(format!("two members have the name '{}'", lossless(name)))),
    }
}

/// Reads a name, its NUL and, before version 3, the padding to a multiple of 8 bytes.
fn name<'a>(cursor: &mut Cursor<'a>, head: &Head) -> Parsed<&'a [u8]> {
    let mut scan = cursor.clone();
    let mut len: usize = 0;
    while scan.u8()? != 0 {
        len += 1;
    }
    let name = cursor.take(len)?;
    let end = len + 1;
    cursor.skip(if head.version < 3 { end.next_multiple_of(8) - len } else { 1 })?;
    Ok(name)
}

/// Version 1: a member may be an array with up to four axes. (Their permutation was never used.)
fn member_shape(cursor: &mut Cursor<'_>) -> Parsed<Vec<u32>> {
    let at = cursor.clone();
    let rank = cursor.u8()?;
    cursor.skip(3 + 4 + 4)?;
    let mut shape = (0..4).map(|_| cursor.u32()).collect::<Result<Vec<u32>, _>>()?;
    shape.truncate(rank.into());
    if rank > 4 || shape.contains(&0) {
        return Err(at.corrupt(format!(
            "expected a member of at most 4 axes without zeros, found {rank} axes, {shape:?}"
        )));
    }
    Ok(shape)
}

fn array_size(shape: &[u32], base: u32) -> Option<u32> {
    shape.iter().try_fold(base, |size, len| size.checked_mul(*len))
}

/// Checks that all members are within the compound and do not overlap.
fn members_apart(members: &[Member], size: u32) -> Result<(), String> {
    let mut sorted: Vec<&Member> = members.iter().collect();
    sorted.sort_by_key(|member| member.offset);
    let mut free = 0;
    for member in sorted {
        let end = member.offset.checked_add(member.datatype.size).filter(|end| *end <= size);
        match end {
            Some(end) if member.offset >= free => free = end,
            Some(_) => return Err(format!("member '{}' overlaps another member", member.name)),
            None => {
                let why = "ends after the end of the compound, which has";
                return Err(format!("member '{}' {why} {size} bytes", member.name));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{REFUSED, bytes, vectors};
    use super::*;
    use crate::element::Element;
    use crate::testing::{SIZES, changes, fails, says, structure};

    fn parse(message: &[u8]) -> Parsed<Datatype> {
        datatype(&mut Cursor::whole(message, 0, SIZES))
    }

    fn why(message: &[u8]) -> String {
        parse(message).unwrap_err().to_string()
    }

    const I4: [u8; 12] = [0x10, 8, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0];

    /// A message of version 3: class, class bits, size and the remaining bytes.
    fn message(class: u8, bits: u16, size: u32, rest: &[u8]) -> Vec<u8> {
        structure!([0x30 | class], bits, [0], size, rest)
    }

    fn compound(members: &[(&str, u8)], size: u32) -> Vec<u8> {
        let members = members.iter().flat_map(|(name, at)| [name.as_bytes(), &[0, *at], &I4].concat());
        let members: Vec<u8> = members.collect();
        message(6, (members.len() / 15) as u16, size, &members)
    }

    #[test]
    fn every_byte_is_read() {
        let refused = REFUSED.iter().map(|(hex, what)| (hex.to_string(), *what));
        for (hex, _) in vectors().into_iter().chain(refused) {
            let message = bytes(&hex);
            let mut cursor = Cursor::whole(&message, 0, SIZES);
            let whole = datatype(&mut cursor).unwrap_or_else(|error| panic!("{hex}: {error}"));
            assert!(cursor.is_empty(), "{hex}");
            // More bytes may follow a message. A truncated message gives an error.
            let longer = [&message[..], &[7; 9]].concat();
            assert_eq!(parse(&longer).unwrap(), whole);
            for len in 0..message.len() {
                assert!(parse(&message[..len]).is_err(), "{hex} of {len} bytes");
                let error = datatype(&mut Cursor::new(&message[..len], 0, SIZES)).unwrap_err();
                assert!(matches!(error, ParseError::Need(_) | ParseError::Corrupt { .. }), "{hex} {error}");
            }
        }
    }

    #[test]
    fn changed_bytes_give_another_type_or_an_error() {
        for (hex, _) in vectors() {
            for (at, message) in changes(&bytes(&hex), |_| 0..=255) {
                let Ok(found) = parse(&message) else { continue };
                let Ok(element) = Element::of(&found, SIZES) else { continue };
                element.to_json();
                // A converted element has its size in memory.
                let small = found.size < 1000 && element.size < 1000;
                if let Some(conversion) = element.conversion(&found).filter(|_| small) {
                    let stored = vec![message[at]; found.size as usize * 3];
                    let mut memory = vec![0xa5; element.size * 3];
                    let len = conversion.decode(&stored, &mut memory, &mut Default::default());
                    assert_eq!(len.unwrap(), memory.len());
                }
            }
        }
    }

    #[test]
    fn sizes_that_cannot_be() {
        says(why(&[0x10, 8, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0]), "0 bytes");
        says(
            why(&[0x10, 8, 0, 0, 4, 0, 0, 0, 1, 0, 32, 0]),
            "inside a number of 32 bits, found 32 bits from bit 1 on",
        );
        says(why(&[0x10, 8, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]), "0 bits");
        let array = |size, rank: &[u8]| why(&message(10, 0, size, &[rank, &I4].concat()));
        says(array(8, &[1, 3, 0, 0, 0]), "of shape [3] with elements of 4 bytes cannot have 8 bytes");
        says(array(4, &[0]), "1 to 32 axes, found 0");
        says(array(4, &[33]), "1 to 32 axes, found 33");
        says(array(4, &[2, 0, 0, 0, 0x40, 0, 0, 0, 0x40]), "shape [1073741824, 1073741824]");
        let enumeration = message(8, 0, 2, &I4);
        says(why(&enumeration), "expected an integer of 2 bytes as the base type of an enumeration");
    }

    #[test]
    fn members_are_apart_and_within() {
        assert_eq!(parse(&compound(&[("b", 4), ("a", 0)], 8)).unwrap().size, 8);
        says(why(&compound(&[("a", 0), ("b", 3)], 8)), "member 'b' overlaps another member");
        says(why(&compound(&[("a", 0), ("b", 0)], 8)), "member 'b' overlaps another member");
        says(why(&compound(&[("a", 0), ("b", 5)], 8)), "member 'b' ends after the end");
        says(why(&compound(&[("a", 0), ("a", 4)], 8)), "two members have the name 'a'");
    }

    #[test]
    fn offsets_have_as_many_bytes_as_the_size_needs() {
        for (size, len) in [(255, 1), (256, 2), (65_535, 2), (65_536, 3), (0xff_ffff, 3), (0x100_0000, 4)] {
            let at: u32 = size - 4;
            let member = [b"a\0", &at.to_le_bytes()[..len], &I4].concat();
            let found = parse(&message(6, 1, size, &member)).unwrap();
            let Class::Compound(members) = found.class else { panic!("{found:?}") };
            assert_eq!(members[0].offset, at);
        }
    }

    #[test]
    fn types_within_types_have_an_end() {
        // Sequences of sequences: 8 bytes each.
        let nested = |depth: usize| {
            let outer = message(9, 0, 16, &[]).repeat(depth);
            parse(&[&outer[..], &I4].concat())
        };
        nested(MAX_DEPTH - 1).unwrap();
        fails(nested(MAX_DEPTH), "at most 32 levels");
        assert!(nested(100_000).is_err());
        let members: Vec<u8> = (0..65_535_u32)
            .flat_map(|n| [format!("{n}").as_bytes(), &[0], &(n * 4).to_le_bytes()[..3], &I4].concat())
            .collect();
        let found = parse(&message(6, 65_535, 65_535 * 4, &members)).unwrap();
        assert!(Element::of(&found, SIZES).is_ok());
        let twice = [b"a\0\0", &[0; 2][..], &message(6, 65_535, 65_535 * 4, &members)].concat();
        assert!(parse(&message(6, 1, 65_535 * 4 + 100_000, &twice)).is_err(), "more types than there may be");
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        says(why(&[0x60, 0, 0, 0, 4, 0, 0, 0]), "version 6 of the datatype message");
        says(why(&[0x00, 0, 0, 0, 4, 0, 0, 0]), "version 0 of the datatype message");
        says(why(&message(12, 0, 4, &[])), "datatype class 12");
        says(why(&message(3, 0x20, 4, &[])), "character set 2");
        says(why(&message(3, 3, 4, &[])), "expected string padding 0, 1 or 2, found 3");
        says(why(&message(7, 5, 4, &[])), "expected a reference type of 0 to 4, found 5");
        says(why(&message(7, 0x12, 18, &[])), "reference version 1 in datatype message version 3");
        says(why(&message(9, 2, 16, &I4)), "expected a variable-length type of 0 or 1, found 2");
        says(why(&message(11, 1, 8, &I4)), "a complex number with class bits 0x1");
    }
}
