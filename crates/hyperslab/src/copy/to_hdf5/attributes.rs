//! Attributes of a new HDF5 file: from JSON, and from another HDF5 file.
//!
//! | JSON | HDF5, as h5py writes it |
//! |---|---|
//! | text | text of variable length in UTF-8 |
//! | true, false | an enumeration, h5py's Boolean |
//! | whole numbers, others | 64-bit integers, 64-bit floats |
//! | null | no elements and no shape (h5py's `Empty`) |
//! | lists of one of these, of equal lengths | an array |
//! | other lists, and objects | JSON text |

use crate::{Json, Result};
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::datatype::{Charset, Class, Datatype, ReferenceKind};
use hyperslab_hdf5::new_file::{NewAttribute, ValuePart};
use hyperslab_hdf5::{Attribute, File};
use std::collections::HashMap;

/// Numbers of the objects of a new file, by their addresses in the old one.
pub(super) type Numbers = HashMap<u64, usize>;

/// An attribute from JSON. The flag tells whether it became JSON text.
pub(super) fn of_json(name: &str, json: &Json) -> (NewAttribute, bool) {
    let made =
        |datatype, dataspace, value| NewAttribute { name: name.to_owned(), datatype, dataspace, value };
    if let Json::Null = json {
        return (made(number("<f4"), Dataspace::Null, Vec::new()), false);
    }
    let mut leaves = Vec::new();
    if let Some(shape) = shape(json, &mut leaves)
        && let Some((datatype, value)) = elements(&leaves)
    {
        let dataspace = match json {
            Json::Array(_) => Dataspace::fixed(&shape),
            _ => Dataspace::Scalar,
        };
        return (made(datatype, dataspace, value), false);
    }
    let text = json.to_text(None);
    (
        made(Datatype::vlen_text(Charset::Utf8), Dataspace::Scalar, vec![ValuePart::text(text.as_bytes())]),
        true,
    )
}

/// A type that HDF5 has.
pub(super) fn number(name: &str) -> Datatype {
    let found = name.parse().map_err(drop).and_then(|dtype| Datatype::of_numpy(dtype).map_err(drop));
    found.unwrap_or_else(|()| Datatype::vlen_text(Charset::Utf8))
}

/// The shape of nested lists, and their values in C order. `None`: the lists have other lengths.
fn shape<'j>(json: &'j Json, leaves: &mut Vec<&'j Json>) -> Option<Vec<u64>> {
    let Json::Array(list) = json else {
        leaves.push(json);
        return Some(Vec::new());
    };
    let mut inner: Option<Vec<u64>> = None;
    for item in list {
        let found = shape(item, leaves)?;
        if inner.get_or_insert_with(|| found.clone()) != &found {
            return None;
        }
    }
    let inner = inner.unwrap_or_default();
    // A list of empty lists has no type.
    (!inner.contains(&0)).then(|| [&[list.len() as u64][..], &inner].concat())
}

/// The common type of values, and their bytes. `None`: there is none.
fn elements(leaves: &[&Json]) -> Option<(Datatype, Vec<ValuePart>)> {
    let all = |is: fn(&Json) -> bool| leaves.iter().all(|json| is(json));
    let bytes = |bytes: Vec<u8>| vec![ValuePart::Bytes(bytes)];
    if leaves.is_empty() {
        return Some((number("<f8"), bytes(Vec::new())));
    }
    // Text of variable length ends at a NUL.
    if all(|json| json.as_str().is_some_and(|text| !text.contains('\0'))) {
        let texts = leaves.iter().filter_map(|json| json.as_str());
        let texts = texts.map(|text| ValuePart::text(text.as_bytes())).collect();
        return Some((Datatype::vlen_text(Charset::Utf8), texts));
    }
    if all(|json| matches!(json, Json::Bool(_))) {
        let value = leaves.iter().map(|json| u8::from(matches!(json, Json::Bool(true)))).collect();
        return Some((number("|b1"), bytes(value)));
    }
    if let Some(found) = leaves.iter().map(|json| json.as_integer::<i64>()).collect::<Option<Vec<_>>>() {
        return Some((number("<i8"), bytes(found.into_iter().flat_map(i64::to_le_bytes).collect())));
    }
    if let Some(found) = leaves.iter().map(|json| json.as_integer::<u64>()).collect::<Option<Vec<_>>>() {
        return Some((number("<u8"), bytes(found.into_iter().flat_map(u64::to_le_bytes).collect())));
    }
    let floats: Option<Vec<f64>> = leaves.iter().map(|json| float(json)).collect();
    Some((number("<f8"), bytes(floats?.into_iter().flat_map(f64::to_le_bytes).collect())))
}

/// A number as a float. `None`: an integer that no float is exactly, or something else.
fn float(json: &Json) -> Option<f64> {
    let Json::Number(text) = json else { return None };
    let float: f64 = text.parse().ok()?;
    let is_whole = !text.contains(['.', 'e', 'E', 'N', 'I']);
    (!is_whole || json.as_integer::<i128>().is_some_and(|whole| float as i128 == whole)).then_some(float)
}

/// An attribute of another file. `None`: it refers to what a copy cannot refer to.
pub(super) fn of_hdf5(attribute: &Attribute, numbers: &Numbers) -> Result<Option<NewAttribute>> {
    let Attribute { file, name, datatype, dataspace, data, .. } = attribute;
    let mut value = Vec::new();
    if !datatype.refers() {
        value.push(ValuePart::Bytes(data.to_vec()));
    } else {
        let sizes = file.sizes();
        if (sizes.offset, sizes.length) != (8, 8) || refers_to_attributes(datatype) {
            return Ok(None);
        }
        attribute.element()?;
        Split { file, numbers, left: MOST }.parts(datatype, data, &mut value)?;
    }
    let (name, dataspace) = (name.clone(), dataspace.clone());
    Ok(Some(NewAttribute { name, datatype: (**datatype).clone(), dataspace, value }))
}

/// Returns `true` if values have the same bytes, however they are split into parts.
pub(super) fn same_values(a: &[ValuePart], b: &[ValuePart]) -> bool {
    joined(a) == joined(b)
}

/// The same value with neighbouring bytes in one part.
fn joined(parts: &[ValuePart]) -> Vec<ValuePart> {
    let mut out: Vec<ValuePart> = Vec::new();
    for part in parts {
        match (out.last_mut(), part) {
            (_, ValuePart::Bytes(bytes)) if bytes.is_empty() => {}
            (Some(ValuePart::Bytes(last)), ValuePart::Bytes(bytes)) => last.extend(bytes),
            (_, ValuePart::Vlen { count, items }) => {
                out.push(ValuePart::Vlen { count: *count, items: joined(items) })
            }
            (_, part) => out.push(part.clone()),
        }
    }
    out
}

/// Returns `true` for the references of HDF5 1.12.
fn refers_to_attributes(datatype: &Datatype) -> bool {
    match &datatype.class {
        Class::Reference(kind) => !matches!(kind, ReferenceKind::Object | ReferenceKind::Region),
        Class::Compound(members) => members.iter().any(|member| refers_to_attributes(&member.datatype)),
        Class::Array { base, .. } | Class::Vlen(base) => refers_to_attributes(base),
        _ => false,
    }
}

/// The most bytes of one attribute. Elements may share values, many levels deep.
const MOST: usize = 1 << 28;

/// Splits the elements of an attribute into the parts that refer to others and the bytes between them.
struct Split<'a> {
    file: &'a File,
    numbers: &'a Numbers,
    /// Bytes that are still allowed.
    left: usize,
}

impl Split<'_> {
    fn parts(&mut self, datatype: &Datatype, data: &[u8], out: &mut Vec<ValuePart>) -> Result<()> {
        let size = usize::try_from(datatype.size).unwrap_or(usize::MAX).max(1);
        self.left = self
            .left
            .checked_sub(data.len())
            .ok_or_else(|| self.file.source().invalid(format!("its values have more than {MOST} bytes")))?;
        if !datatype.refers() {
            out.push(ValuePart::Bytes(data.to_vec()));
            return Ok(());
        }
        for element in data.chunks_exact(size) {
            self.element(datatype, element, out)?;
        }
        Ok(())
    }

    fn element(&mut self, datatype: &Datatype, element: &[u8], out: &mut Vec<ValuePart>) -> Result<()> {
        // `Attribute::element` has checked that ids have the sizes of this file.
        let (count, place) = element.split_at_checked(4).unwrap_or_default();
        match &datatype.class {
            Class::VlenString { .. } => out.push(match self.heap_value(Some(count), place, 1)? {
                None => ValuePart::Vlen { count: 0, items: Vec::new() },
                Some(text) => ValuePart::text(&text),
            }),
            Class::Vlen(base) => {
                let bytes = self.heap_value(Some(count), place, base.size)?.unwrap_or_default();
                let mut items = Vec::new();
                if !bytes.is_empty() {
                    self.parts(base, &bytes, &mut items)?;
                }
                out.push(ValuePart::Vlen { count: bytes.len() as u64 / u64::from(base.size.max(1)), items });
            }
            Class::Reference(ReferenceKind::Object) => {
                out.push(ValuePart::Object(object(element, self.numbers)))
            }
            Class::Reference(_) => {
                // The value is the address of the object, then the region.
                let found = self.heap_value(None, element, 0)?.unwrap_or_default();
                let region = found
                    .split_at_checked(8)
                    .and_then(|(address, region)| Some((object(address, self.numbers)?, region.to_vec())));
                out.push(ValuePart::Region(region));
            }
            Class::Compound(members) => {
                let mut at = 0;
                let mut sorted: Vec<_> = members.iter().collect();
                sorted.sort_by_key(|member| member.offset);
                let bytes = |range| element.get(range).unwrap_or_default();
                for member in sorted {
                    let start = member.offset as usize;
                    let end = start.saturating_add(member.datatype.size as usize);
                    if at < start {
                        out.push(ValuePart::Bytes(bytes(at..start).to_vec()));
                    }
                    self.parts(&member.datatype, bytes(start..end), out)?;
                    at = end;
                }
                if at < element.len() {
                    out.push(ValuePart::Bytes(bytes(at..element.len()).to_vec()));
                }
            }
            Class::Array { base, .. } => self.parts(base, element, out)?,
            _ => out.push(ValuePart::Bytes(element.to_vec())),
        }
        Ok(())
    }

    /// The value of a heap id: `count` items of `size` bytes; without a count, all bytes of its
    /// object. `None`: it has no place.
    fn heap_value(&mut self, count: Option<&[u8]>, place: &[u8], size: u32) -> Result<Option<Vec<u8>>> {
        let Some((address, index)) = place.split_first_chunk::<8>() else { return Ok(None) };
        let (address, index) = (u64::from_le_bytes(*address), index.try_into().map_or(0, u32::from_le_bytes));
        if address == 0 || address == u64::MAX {
            return Ok(None);
        }
        let source = self.file.source();
        let collection = self.file.collection(address)?;
        let missing = |what: &str| {
            source.invalid(format!("global heap collection at address {address}: {what} {index}"))
        };
        let object = collection.object(index).ok_or_else(|| missing("there is no object"))?;
        let mut value = object.read(source)?.into_owned();
        if let Some(Ok(count)) = count.map(|count| count.try_into().map(u32::from_le_bytes)) {
            let len = usize::try_from(u64::from(count) * u64::from(size)).unwrap_or(usize::MAX);
            if len > value.len() {
                return Err(missing("too few bytes in object").into());
            }
            value.truncate(len);
        }
        self.left = self.left.saturating_sub(value.len());
        Ok(Some(value))
    }
}

/// The number of the object that a reference leads to.
fn object(address: &[u8], numbers: &Numbers) -> Option<usize> {
    let address = u64::from_le_bytes(address.try_into().ok()?);
    numbers.get(&address).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> (String, Vec<u64>, Vec<ValuePart>, bool) {
        let (attribute, is_text) = of_json("a", &Json::parse(text.as_bytes()).unwrap());
        let kind = match attribute.datatype.class {
            Class::Integer { signed: true, .. } => "int",
            Class::Integer { .. } => "uint",
            Class::Float(_) => "float",
            Class::Enum { .. } => "bool",
            Class::VlenString { .. } => "text",
            _ => "other",
        };
        let space = match attribute.dataspace {
            Dataspace::Null => vec![u64::MAX],
            space => space.shape().to_vec(),
        };
        (kind.into(), space, attribute.value, is_text)
    }

    fn bytes<const N: usize>(numbers: &[[u8; N]]) -> Vec<ValuePart> {
        vec![ValuePart::Bytes(numbers.concat())]
    }

    #[test]
    fn json_values() {
        assert_eq!(made("3"), ("int".into(), vec![], bytes(&[3i64.to_le_bytes()]), false));
        let large = u64::MAX.to_le_bytes();
        assert_eq!(made("[18446744073709551615]"), ("uint".into(), vec![1], bytes(&[large]), false));
        assert_eq!(
            made("[1, 2.5]"),
            ("float".into(), vec![2], bytes(&[1f64, 2.5].map(f64::to_le_bytes)), false)
        );
        assert_eq!(
            made("-Infinity"),
            ("float".into(), vec![], bytes(&[f64::NEG_INFINITY.to_le_bytes()]), false)
        );
        assert_eq!(made("true"), ("bool".into(), vec![], bytes(&[[1]]), false));
        assert_eq!(made("\"é\""), ("text".into(), vec![], vec![ValuePart::text("é".as_bytes())], false));
        assert_eq!(made("[[1, 2], [3, 4], [5, 6]]").1, [3, 2]);
        assert_eq!(made("[]"), ("float".into(), vec![0], bytes::<0>(&[]), false));
        assert_eq!(made("null"), ("float".into(), vec![u64::MAX], vec![], false));
        assert_eq!(made("[\"a\", \"\"]").2, [ValuePart::text(b"a"), ValuePart::text(b"")]);
    }

    #[test]
    fn what_becomes_json_text() {
        for text in [
            "{\"a\": 1}",
            "[1, \"a\"]",
            "[[1], [2, 3]]",
            "[[], []]",
            "[null]",
            "100000000000000000001",
            "\"\\u0000\"",
        ] {
            let (kind, _, value, is_text) = made(text);
            assert!(is_text && kind == "text", "{text}");
            assert_eq!(value, [ValuePart::text(text.as_bytes())]);
        }
    }
}
