//! Attributes as plain values, for JSON and for display.
//!
//! A type is walked once, not once per element. Each step handles all elements at once, so the heap
//! ids of a member are resolved in one pass.

use crate::cursor::to_usize;
use crate::dataspace::Dataspace;
use crate::element::{Element, ElementKind};
use crate::number::float_value;
use crate::reference::{self, Reference, ReferencedPart};
use crate::vlen::{self, strided};
use crate::{Attribute, File, Result};
use hyperslab_codec::{ByteOrder, DataType, Kind};

/// Largest number of values of an attribute. Elements may share objects many levels deep.
const MOST_VALUES: usize = 1 << 24;

/// A value without a datatype.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value: a null dataspace, or a reference that leads nowhere.
    Null,
    /// A Boolean.
    Bool(bool),
    /// An integer. Enumerations give their integer, dates and times their count of units.
    Int(i128),
    /// A float. 80-bit floats are rounded.
    Float(f64),
    /// UTF-8 text. A reference gives the path of its target.
    Text(String),
    /// Bytes that are not UTF-8 text.
    Bytes(Vec<u8>),
    /// An axis, or a sequence.
    List(Vec<Value>),
    /// A structure.
    Record(Vec<(String, Value)>),
    /// A complex number. 80-bit parts are rounded.
    Complex(f64, f64),
}

impl Value {
    /// Returns the value of one element in memory.
    pub fn of(file: &File, element: &Element, memory: &[u8]) -> Result<Value> {
        let values = Walk { file, left: MOST_VALUES }.values(element, memory)?;
        Ok(values.into_iter().next().unwrap_or(Value::Null))
    }
}

impl Attribute {
    /// Returns the value: a scalar, nested lists, or [`Value::Null`] for a null dataspace.
    pub fn value(&self) -> Result<Value> {
        let shape = match &self.dataspace {
            Dataspace::Null => return Ok(Value::Null),
            Dataspace::Scalar => &[][..],
            Dataspace::Simple { shape, .. } => shape,
        };
        let (element, memory) = (self.element()?, self.values()?);
        let values = Walk { file: &self.file, left: MOST_VALUES }.values(&element, &memory);
        let values = values.map_err(|error| error.of_attribute(&self.name))?;
        Ok(nested_list(values, shape))
    }
}

/// Arranges values in C order as nested lists.
fn nested_list(values: Vec<Value>, shape: &[u64]) -> Value {
    if shape.contains(&0) {
        return Value::List(Vec::new());
    }
    let mut values = values;
    for len in shape.iter().skip(1).rev() {
        let len = to_usize(*len);
        let mut rest = values.into_iter();
        values = Vec::new();
        loop {
            let row: Vec<Value> = rest.by_ref().take(len).collect();
            if row.is_empty() {
                break;
            }
            values.push(Value::List(row));
        }
    }
    match shape {
        [] => values.into_iter().next().unwrap_or(Value::Null),
        _ => Value::List(values),
    }
}

struct Walk<'a> {
    file: &'a File,
    /// Number of values that are still allowed.
    left: usize,
}

impl Walk<'_> {
    /// Returns the values of consecutive elements.
    fn values(&mut self, element: &Element, memory: &[u8]) -> Result<Vec<Value>> {
        let (source, size) = (self.file.source(), element.size.max(1));
        let (parts, count) = (memory.chunks_exact(size), memory.len() / size);
        self.left = self.left.checked_sub(count).ok_or_else(|| {
            source.invalid(format!("it has more than {MOST_VALUES} values, the most that are decoded"))
        })?;
        Ok(match &element.kind {
            ElementKind::Plain(plain) => parts.map(|bytes| plain_value(*plain, bytes)).collect(),
            ElementKind::Enum { base, .. } => parts.map(|bytes| plain_value(*base, bytes)).collect(),
            ElementKind::Extended { order, complex: false } => {
                parts.map(|bytes| Value::Float(float_value(bytes, *order))).collect()
            }
            ElementKind::Extended { order, complex: true } => {
                parts.map(|bytes| complex_value(bytes, *order)).collect()
            }
            ElementKind::FixedString { .. } => parts.map(text_value).collect(),
            ElementKind::Struct(fields) => {
                let mut records = vec![Vec::new(); count];
                for field in fields {
                    let column = strided(memory, field.offset, size, field.element.size, count);
                    let column: Vec<u8> = column.into_iter().flatten().flatten().copied().collect();
                    let column = self.values(&field.element, &column)?;
                    for (record, value) in records.iter_mut().zip(column) {
                        record.push((field.name.clone(), value));
                    }
                }
                records.into_iter().map(Value::Record).collect()
            }
            ElementKind::Array { shape, element: inner } => {
                let each = element.size / inner.size.max(1);
                let values = self.values(inner, memory);
                let starts =
                    || (0..=count).map(|n| i64::try_from(n.saturating_mul(each)).unwrap_or(i64::MAX));
                let values = values.map_err(|error| error.item_of(&starts().collect::<Vec<_>>()))?;
                let mut values = values.into_iter();
                (0..count).map(|_| nested_list(values.by_ref().take(each).collect(), shape)).collect()
            }
            ElementKind::VlenString { .. } => {
                let found = vlen::resolve(self.file, element, memory, 0, size, count)?;
                let values = found.values.as_slice();
                let texts = ranges(&found.offsets).map(|range| values.get(range).unwrap_or_default());
                texts.map(text_value).collect()
            }
            ElementKind::Vlen { element: item, .. } => {
                let found = vlen::resolve(self.file, element, memory, 0, size, count)?;
                let values = self.values(item, found.values.as_slice());
                let mut values = values.map_err(|error| error.item_of(&found.offsets))?.into_iter();
                let lists = ranges(&found.offsets).map(|items| values.by_ref().take(items.len()).collect());
                lists.map(Value::List).collect()
            }
            ElementKind::ObjectReference | ElementKind::RegionReference | ElementKind::AnyReference => {
                let found = reference::resolve(self.file, element, memory, 0, size, count)?;
                let values: Result<Vec<Value>> =
                    found.iter().map(|found| reference_value(self.file, found.as_ref())).collect();
                values?
            }
            ElementKind::Unsupported(what) => {
                return Err(source.invalid(format!("{what} is not supported")));
            }
        })
    }
}

/// Returns the range of each element's items. `offsets` holds the starts, and the end of the last
/// one.
fn ranges(offsets: &[i64]) -> impl Iterator<Item = std::ops::Range<usize>> {
    offsets.iter().zip(offsets.iter().skip(1)).map(|(start, end)| to_usize(*start)..to_usize(*end))
}

fn plain_value(plain: DataType, bytes: &[u8]) -> Value {
    let little = |bytes: &[u8]| {
        let mut low = [0; 16];
        let ordered: &mut dyn Iterator<Item = &u8> = match plain.order() {
            ByteOrder::Little => &mut bytes.iter(),
            ByteOrder::Big => &mut bytes.iter().rev(),
        };
        low.iter_mut().zip(ordered).for_each(|(to, from)| *to = *from);
        u128::from_le_bytes(low)
    };
    match plain.kind() {
        Kind::Bool => Value::Bool(bytes.iter().any(|byte| *byte != 0)),
        Kind::UInt => Value::Int(little(bytes).cast_signed()),
        Kind::Int | Kind::DateTime(_) | Kind::TimeDelta(_) => {
            let unused = 128_u32.saturating_sub(u32::try_from(plain.size() * 8).unwrap_or(128)).min(127);
            Value::Int((little(bytes) << unused).cast_signed() >> unused)
        }
        Kind::Float => Value::Float(float_value(bytes, plain.order())),
        Kind::Complex => complex_value(bytes, plain.order()),
        Kind::Bytes => text_value(bytes),
        // HDF5 reads small floats as larger floats.
        Kind::Raw | Kind::Small(_) => Value::Bytes(bytes.to_vec()),
        Kind::Text => {
            let code = |unit: &[u8]| u32::try_from(little(unit)).ok().and_then(char::from_u32);
            match bytes.chunks(4).map(code).collect::<Option<String>>() {
                Some(text) => Value::Text(text.trim_end_matches('\0').into()),
                None => Value::Bytes(bytes.to_vec()),
            }
        }
    }
}

fn complex_value(bytes: &[u8], order: ByteOrder) -> Value {
    let (re, im) = bytes.split_at(bytes.len() / 2);
    Value::Complex(float_value(re, order), float_value(im, order))
}

/// Text without trailing NULs.
fn text_value(bytes: &[u8]) -> Value {
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let bytes = bytes.get(..len).unwrap_or_default();
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Text(text.into()),
        Err(_) => Value::Bytes(bytes.to_vec()),
    }
}

/// Returns the path of a reference's target. Attributes are `path@name`, other files `file:path`.
fn reference_value(file: &File, found: Option<&Reference>) -> Result<Value> {
    let Some(found) = found else { return Ok(Value::Null) };
    let object = match (&found.file, found.path(file)?) {
        (None, Some(path)) => path,
        (None, None) => format!("#{}", found.address),
        (Some(other), _) => format!("{other}:#{}", found.address),
    };
    Ok(Value::Text(match &found.part {
        ReferencedPart::Attribute(name) => format!("{object}@{name}"),
        _ => object,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{DATA, REST, collection, element, file, heap_id};
    use std::sync::Arc;

    fn attribute(file: &File, hex: &str, shape: &[u64], data: &[u8]) -> Attribute {
        Attribute {
            file: file.clone(),
            name: "a".into(),
            datatype: Arc::new(element(hex).0),
            committed: None,
            dataspace: match shape {
                [] => Dataspace::Scalar,
                shape => Dataspace::Simple {
                    shape: shape.to_vec(),
                    max_shape: shape.iter().map(|len| Some(*len)).collect(),
                },
            },
            data: data.to_vec().into(),
        }
    }

    fn value(hex: &str, shape: &[u64], data: &[u8]) -> Value {
        attribute(&file(&[]), hex, shape, data).value().unwrap()
    }

    fn ints(list: &[i128]) -> Value {
        Value::List(list.iter().map(|value| Value::Int(*value)).collect())
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn numbers() {
        assert_eq!(value("100800000400000000002000", &[], &(-5_i32).to_le_bytes()), Value::Int(-5));
        assert_eq!(
            value("100100000800000000004000", &[], &u64::MAX.to_be_bytes()),
            Value::Int(u64::MAX.into())
        );
        assert_eq!(value("100800000300000000001800", &[2], &[1, 0, 0, 0xfe, 0xff, 0xff]), ints(&[1, -2]));
        assert_eq!(value("11200f0002000000000010000a05000a0f000000", &[], &[0, 0x3e]), Value::Float(1.5));
        assert_eq!(
            value("11211f000400000000002000170800177f000000", &[], &2.5_f32.to_be_bytes()),
            Value::Float(2.5)
        );
        let complex = "5b0100000800000011201f000400000000002000170800177f000000";
        let parts = [1.0_f32, -2.0].map(f32::to_le_bytes).concat();
        assert_eq!(value(complex, &[], &parts), Value::Complex(1.0, -2.0));
        assert_eq!(
            value("380200000100000010080000010000000000080046414c53450054525545000001", &[], &[1]),
            Value::Bool(true)
        );
        let date = "15100000080000004e554d50593a3c4d385b735d00000000";
        assert_eq!(value(date, &[], &7_i64.to_le_bytes()), Value::Int(7));
    }

    #[test]
    fn texts_and_bytes() {
        assert_eq!(value("1301000005000000", &[], b"ab\0\0\0"), text("ab"));
        assert_eq!(value("1302000005000000", &[], b"a b  "), text("a b"));
        assert_eq!(value("1311000003000000", &[], b"\xc3\x9f\0"), text("ß"));
        assert_eq!(value("1301000003000000", &[], b"\xdf\0\0"), Value::Bytes(vec![0xdf]));
        assert_eq!(value("1500000002000000", &[], b"\0\xff"), Value::Bytes(vec![0, 0xff]));
        let utf32 = "15100000080000004e554d50593a3c553200000000000000";
        assert_eq!(value(utf32, &[], b"\xdf\0\0\0\0\0\0\0"), text("ß"));
    }

    #[test]
    fn shapes() {
        let i1 = "100800000100000000000800";
        let list = |lists: Vec<Value>| Value::List(lists);
        assert_eq!(value(i1, &[2, 3], &[1, 2, 3, 4, 5, 6]), list(vec![ints(&[1, 2, 3]), ints(&[4, 5, 6])]));
        assert_eq!(value(i1, &[1, 1, 1], &[9]), list(vec![list(vec![ints(&[9])])]));
        assert_eq!(value(i1, &[0], &[]), list(vec![]));
        assert_eq!(value(i1, &[1 << 40, 0], &[]), list(vec![]));
        let array = "3a0000000400000002020000000200000010080000010000000000".to_owned() + "0800";
        let expected = list(vec![ints(&[1, 2]), ints(&[3, 4])]);
        assert_eq!(value(&array, &[], &[1, 2, 3, 4]), expected);
        let mut null = attribute(&file(&[]), i1, &[], &[]);
        null.dataspace = Dataspace::Null;
        assert_eq!(null.value().unwrap(), Value::Null);
    }

    #[test]
    fn structures_with_all_kinds_of_members() {
        let hex = concat!(
            "360300002c000000",
            "730000",
            "1901010010000000100000000100000000000800",
            "720010",
            "1700000008000000",
            "760018",
            "1900000010000000100800000100000000000800",
        );
        let file = file(&collection(&[(1, b"one"), (2, b"two"), (3, &[1, 2, 3])]));
        let row = |text: u32, object: u64, len: u32| {
            [heap_id(3, REST, text), object.to_le_bytes().to_vec(), heap_id(len, REST, 3), vec![0; 4]]
                .concat()
        };
        let data = [row(1, DATA, 3), row(2, 0, 0)].concat();
        let found = attribute(&file, hex, &[2], &data).value().unwrap();
        let record = |s: Value, r: Value, v: Value| {
            Value::Record(vec![("s".into(), s), ("r".into(), r), ("v".into(), v)])
        };
        let expected = vec![
            record(text("one"), text("/data"), ints(&[1, 2, 3])),
            record(text("two"), Value::Null, ints(&[])),
        ];
        assert_eq!(found, Value::List(expected));
    }

    #[test]
    fn errors_name_the_attribute() {
        let file = file(&collection(&[(1, b"one")]));
        let strings = "1901010010000000100000000100000000000800";
        let error = attribute(&file, strings, &[], &heap_id(3, REST, 2)).value().unwrap_err().to_string();
        assert!(error.contains("attribute 'a': element 0") && error.contains("no object 2"), "{error}");
    }

    #[test]
    fn sequences_of_sequences_that_share_have_an_end() {
        // Each object holds 100 ids of the next one. Six levels are 10^12 values.
        let mut heap = collection(&[(1, b"x")]);
        let mut at = REST;
        let mut len = 1;
        for _ in 0..6 {
            let next = REST + heap.len() as u64;
            heap.extend(collection(&[(1, &heap_id(len, at, 1).repeat(100))]));
            (at, len) = (next, 100);
        }
        let hex = "3900000010000000".repeat(7) + "100000000100000000000800";
        let error = attribute(&file(&heap), &hex, &[], &heap_id(100, at, 1)).value().unwrap_err().to_string();
        assert!(
            error.contains("values, the most that are decoded") || error.contains("bytes of the file"),
            "{error}"
        );
    }
}
