//! Attributes as stored, and the storage of objects with many attributes.
//!
//! Specification IV.A.2.m, "The Attribute Message", versions 1 to 3, and IV.A.2.v, "The Attribute
//! Info Message".

use crate::error::{BuildError, Built};
use crate::output::{NEW_SIZES, Output, fit};
use crate::text::lossless;
use crate::{Cursor, Libver, Parsed};
use std::ops::Range;

pub const KIND: u16 = 0x0c;
pub const INFO_KIND: u16 = 0x15;

/// The parts of an attribute message. Its datatype and dataspace may be shared messages.
#[derive(Clone, Debug)]
pub struct AttributeParts<'a> {
    pub name: String,
    /// The name as stored.
    pub stored_name: &'a [u8],
    pub datatype: Cursor<'a>,
    /// `true` if `datatype` only refers to a shared message.
    pub datatype_shared: bool,
    pub dataspace: Cursor<'a>,
    /// `true` if `dataspace` only refers to a shared message.
    pub dataspace_shared: bool,
    /// Range of the message that holds the elements. Other bytes may follow them in it.
    pub data: Range<usize>,
}

impl<'a> AttributeParts<'a> {
    /// Parses the message. `cursor` has all of its bytes.
    pub fn parse(cursor: &mut Cursor<'a>) -> Parsed<AttributeParts<'a>> {
        let version = cursor.version("attribute message", &[1, 2, 3])?;
        let flags = cursor.u8()?;
        let flags = if version == 1 { 0 } else { flags };
        let (name, datatype, dataspace) = (cursor.u16()?, cursor.u16()?, cursor.u16()?);
        // Skip the character set of the name. Writers store wrong ones.
        cursor.skip(if version == 3 { 1 } else { 0 })?;
        let mut part = |len: u16| {
            let part = cursor.part(len.into())?;
            let padding =
                if version == 1 { usize::from(len).next_multiple_of(8) - usize::from(len) } else { 0 };
            cursor.skip(padding).map(|()| part)
        };
        let (mut name, datatype, dataspace) = (part(name)?, part(datatype)?, part(dataspace)?);
        let stored_name = name.take_rest().split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(AttributeParts {
            name: lossless(stored_name),
            stored_name,
            datatype,
            datatype_shared: flags & 1 != 0,
            dataspace,
            dataspace_shared: flags & 2 != 0,
            data: cursor.position()..cursor.position() + cursor.remaining_len(),
        })
    }
}

/// Returns `true` if a message that can be parsed has the attribute with this name. Parses no more
/// than the name: objects have many attributes, and each new one is compared with all of them.
pub(crate) fn has_name(message: &[u8], name: &str) -> bool {
    let [version, _, low, high, ..] = message else { return false };
    let start = if *version == 3 { 9 } else { 8 };
    let len = usize::from(u16::from_le_bytes([*low, *high]));
    let Some(stored) = message.get(start..start + len) else { return false };
    let stored = stored.split(|byte| *byte == 0).next().unwrap_or_default();
    stored == name.as_bytes() || (std::str::from_utf8(stored).is_err() && lossless(stored) == name)
}

/// Builds the message from the messages of its datatype and its dataspace, and its elements.
/// Version 3 can say that a name is not ASCII.
pub(crate) fn build(
    name: &str,
    datatype: &[u8],
    dataspace: &[u8],
    data: &[u8],
    libver: Libver,
) -> Built<Vec<u8>> {
    let is_old = libver == Libver::Earliest && name.is_ascii();
    let mut out = Output::new();
    out.u8(if is_old { 1 } else { 3 }).u8(0);
    let parts = [&[name.as_bytes(), &[0]].concat(), datatype, dataspace];
    for (part, what) in parts.iter().zip(["name", "datatype", "dataspace"]) {
        out.u16(fit(part.len() as u64, &format!("bytes of the {what} of attribute '{name}'"))?);
    }
    if !is_old {
        out.u8((!name.is_ascii()).into());
    }
    for part in parts {
        out.bytes(part).align(if is_old { 8 } else { 1 });
    }
    out.bytes(data);
    Ok(out.take())
}

/// Builds the message of an attribute with another name.
pub(crate) fn renamed(message: &[u8], name: &str, libver: Libver) -> Built<Vec<u8>> {
    rebuilt(message, Some(name), None, libver)
}

/// Builds the message of an attribute whose type is in another header. `datatype`: the reference.
pub(crate) fn with_shared_type(message: &[u8], datatype: &[u8]) -> Built<Vec<u8>> {
    rebuilt(message, None, Some(datatype), Libver::V110)
}

fn rebuilt(message: &[u8], name: Option<&str>, shared_type: Option<&[u8]>, libver: Libver) -> Built<Vec<u8>> {
    let mut cursor = Cursor::whole(message, 0, NEW_SIZES);
    let mut parts = AttributeParts::parse(&mut cursor).map_err(|why| BuildError(why.to_string()))?;
    let (datatype, dataspace) = (parts.datatype.take_rest().to_vec(), parts.dataspace.take_rest().to_vec());
    let data = message.get(parts.data.clone()).unwrap_or_default();
    let is_shared = parts.datatype_shared || shared_type.is_some();
    let (name, datatype) = (name.unwrap_or(&parts.name), shared_type.unwrap_or(&datatype));
    let shared = u8::from(is_shared) | u8::from(parts.dataspace_shared) << 1;
    // Version 1 cannot have shared parts.
    let libver = if shared == 0 { libver } else { Libver::V110 };
    let mut built = build(name, datatype, &dataspace, data, libver)?;
    if let Some(flags) = built.get_mut(1) {
        *flags = shared;
    }
    Ok(built)
}

/// Storage of attributes that are not in the object header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeInfo {
    /// Address of the fractal heap. `None`: all attributes are messages in the header.
    pub heap: Option<u64>,
    /// Address of the B-tree of names.
    pub names: Option<u64>,
}

impl AttributeInfo {
    pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<AttributeInfo> {
        cursor.version("attribute info message", &[0])?;
        let flags = cursor.u8()?;
        cursor.skip(if flags & 1 != 0 { 2 } else { 0 })?;
        Ok(AttributeInfo { heap: cursor.offset()?, names: cursor.offset()? })
    }
}

/// Builds the attribute info message. `next`: the number of the next attribute, if attributes have
/// a creation order. The addresses are of the heap, of the index of names, and of the index of
/// creation orders; `None`: attributes are in the header.
pub(crate) fn build_info(next: Option<u16>, [heap, names, orders]: [Option<u64>; 3]) -> Vec<u8> {
    let mut out = Output::new();
    out.u8(0).u8(if next.is_some() { 3 } else { 0 });
    if let Some(next) = next {
        out.u16(next);
    }
    out.address(heap).address(names);
    if next.is_some() {
        out.address(orders);
    }
    out.take()
}

/// A record of the B-tree of names (specification III.A.2, type 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameRecord {
    /// Id of the attribute in its heap.
    pub id: [u8; 8],
    /// `true` if the attribute is in the file's heap of shared messages.
    pub shared: bool,
    /// Creation order among the attributes of the object.
    pub creation: u32,
}

impl NameRecord {
    /// The record type.
    pub const KIND: u8 = 8;

    /// The hash of the attribute's name, by which records are sorted.
    pub fn hash(record: &mut Cursor<'_>) -> Parsed<u32> {
        // Id, flags and creation order.
        record.skip(8 + 1 + 4)?;
        record.u32()
    }

    pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<NameRecord> {
        let id = cursor.u64()?.to_le_bytes();
        let record = NameRecord { id, shared: cursor.u8()? & 2 != 0, creation: cursor.u32()? };
        // Hash of the name.
        cursor.skip(4)?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sizes;
    use crate::testing::needs_all;
    use proptest::prelude::*;

    const SIZES: Sizes = Sizes { offset: 4, length: 4 };

    /// Name; bytes of datatype, dataspace and elements; `true` for a shared datatype or dataspace.
    type Parts = (String, [Vec<u8>; 3], [bool; 2]);

    fn parsed(bytes: &[u8]) -> Parsed<Parts> {
        let mut parts = AttributeParts::parse(&mut Cursor::whole(bytes, 0, SIZES))?;
        let (datatype, dataspace) =
            (parts.datatype.take_rest().to_vec(), parts.dataspace.take_rest().to_vec());
        let data = bytes[parts.data].to_vec();
        Ok((parts.name, [datatype, dataspace, data], [parts.datatype_shared, parts.dataspace_shared]))
    }

    #[test]
    fn all_versions() {
        let one = b"\x01\xff\x03\0\x02\0\x08\0ab\0.....TT......SSSSSSSSdata";
        let whole = |shared| {
            let parts = [b"TT".to_vec(), b"SSSSSSSS".to_vec(), b"data".to_vec()];
            Ok(("ab".into(), parts, [shared, false]))
        };
        assert_eq!(parsed(one), whole(false));
        assert_eq!(parsed(b"\x02\x01\x03\0\x02\0\x08\0ab\0TTSSSSSSSSdata"), whole(true));
        assert_eq!(parsed(b"\x03\x01\x03\0\x02\0\x08\0\x01ab\0TTSSSSSSSSdata"), whole(true));
        needs_all(&one[..one.len() - 4], parsed);
        assert!(parsed(b"\x04\x01\x03\0\x02\0\x08\0").is_err());
    }

    #[test]
    fn where_many_are() {
        let info = |bytes: &[u8]| AttributeInfo::parse(&mut Cursor::whole(bytes, 0, SIZES));
        let all = [0, 3, 9, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
        assert_eq!(info(&all), Ok(AttributeInfo { heap: Some(1), names: Some(2) }));
        assert_eq!(
            info(&[0, 0, 255, 255, 255, 255, 255, 255, 255, 255]),
            Ok(AttributeInfo { heap: None, names: None })
        );
        let record = [1, 2, 3, 4, 5, 6, 7, 8, 2, 7, 0, 0, 0, 1, 2, 3, 4];
        let record = NameRecord::parse(&mut Cursor::whole(&record, 0, SIZES));
        assert_eq!(record, Ok(NameRecord { id: [1, 2, 3, 4, 5, 6, 7, 8], shared: true, creation: 7 }));
    }

    proptest! {
        #[test]
        fn what_is_built_is_parsed(
            name in "[a-zé/]{1,20}",
            parts in proptest::array::uniform3(proptest::collection::vec(any::<u8>(), 1..40)),
        ) {
            let [datatype, dataspace, data] = &parts;
            for libver in [Libver::Earliest, Libver::V110] {
                let built = build(&name, datatype, dataspace, data, libver).unwrap();
                prop_assert_eq!(parsed(&built), Ok((name.clone(), parts.clone(), [false; 2])));
            }
        }
    }

    #[test]
    fn places_are_built() {
        let sizes = Sizes { offset: 8, length: 8 };
        for next in [None, Some(7)] {
            for heap in [None, Some(1)] {
                let built = build_info(next, [heap, heap.map(|heap| heap + 1), None]);
                let info = AttributeInfo::parse(&mut Cursor::whole(&built, 0, sizes));
                assert_eq!(info, Ok(AttributeInfo { heap, names: heap.map(|heap| heap + 1) }));
            }
        }
    }

    #[test]
    fn names_are_at_most_64_kib() {
        let error = build(&"n".repeat(1 << 16), b"", b"", b"", Libver::V110).unwrap_err().to_string();
        assert!(error.contains("bytes of the name of attribute"), "{error}");
    }

    #[test]
    fn names_are_compared_as_they_are_shown() {
        for libver in [Libver::Earliest, Libver::V110] {
            for name in ["a", "température"] {
                let message = build(name, &[0; 8], &[0; 8], &[], libver).unwrap();
                assert!(has_name(&message, name));
                assert!(!has_name(&message, "b") && !has_name(&message, "") && !has_name(&message, "ab"));
                assert!(!has_name(&message[..8], name));
            }
        }
        let mut message = build("a", &[0; 8], &[0; 8], &[], Libver::Earliest).unwrap();
        message[8] = 0xff;
        assert!(has_name(&message, "\\xff") && !has_name(&message, "a"));
    }
}
