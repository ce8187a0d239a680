//! One of the two arrays: how its elements are read, and what they are in the report.

use super::blocks::{self, Region};
use super::numbers::{self, Numbers};
use super::tally::Rules;
use crate::copy::{Paths, StoredObjects, structure_of_hdf5};
use crate::formats::hdf5_json;
use crate::nodes::element::swap_bytes;
use crate::nodes::words;
use crate::{
    Array, ByteOrder, DataType, Error, Json, Kind, Ragged, ReadOptions, Result, Variable, VlenKind, zarr,
};
use hyperslab_array::{ArrayError, Target, element_count};
use hyperslab_hdf5::element::{Element, ElementKind};
use hyperslab_hdf5::value::Value;
use hyperslab_zarr::{FieldKind, Structure};

/// An array, and what its elements mean.
pub(super) struct Side<'a> {
    pub(super) array: &'a Array,
    pub(super) variable: Variable,
    pub(super) elements: Elements,
    /// The stored objects; `None`: any may be stored.
    pub(super) present: StoredObjects,
    /// The value of elements beyond the end of a variable that is shorter than its dimension.
    rest: Option<Vec<u8>>,
}

/// The kinds of elements that are compared in different ways.
pub(super) enum Elements {
    Numbers(Box<Numbers>),
    Complex,
    /// Elements of variable length, and references, whose values are paths.
    Ragged(VlenKind),
    /// Text and bytes of one length, structures, small numbers.
    Other,
}

/// The elements of a block.
pub(super) enum Block<'m> {
    Fixed(&'m [u8]),
    Ragged(Ragged),
}

impl<'a> Side<'a> {
    pub(super) fn new(array: &'a Array, variable: Variable, raw: bool) -> Result<Self> {
        let is_reference =
            array.as_hdf5().is_some_and(|dataset| dataset.element().kind == ElementKind::ObjectReference);
        let is_plain = array.structure().is_none() && array.optional().is_none();
        let elements = match (array.vlen(), Numbers::of(array, raw)?) {
            (Some(kind), _) => Elements::Ragged(kind),
            _ if is_reference => Elements::Ragged(VlenKind::Text),
            (None, Some(numbers)) => Elements::Numbers(Box::new(numbers)),
            _ if array.dtype().kind() == Kind::Complex && is_plain => Elements::Complex,
            _ => Elements::Other,
        };
        let rest = variable.rest(array)?;
        Ok(Side { array, variable, elements, present: None, rest })
    }

    /// The element type in words, without the byte order.
    pub(super) fn type_words(&self) -> String {
        let array = self.array;
        let plain = |dtype: DataType| words::dtype(dtype.with_order(ByteOrder::NATIVE));
        let structure = |structure: &Structure| words::structure(&structure.with_order(ByteOrder::NATIVE));
        if let (Some(dtype), None) = (array.optional(), array.vlen()) {
            return format!("optional {}", plain(dtype));
        }
        match (&self.elements, array.structure(), array.as_hdf5()) {
            (Elements::Ragged(VlenKind::Array(dtype)), ..) => format!("array of {}", plain(*dtype)),
            (Elements::Ragged(kind), ..) => kind.to_string(),
            (_, Some(found), _) => structure(found),
            (_, _, Some(dataset)) => match &dataset.element().kind {
                ElementKind::Struct(_) => structure_of_hdf5(dataset.element())
                    .map_or_else(|_| array.type_words(), |found| structure(&found)),
                ElementKind::Plain(_) | ElementKind::FixedString { .. } | ElementKind::Enum { .. } => {
                    plain(array.dtype())
                }
                _ => array.type_words(),
            },
            _ => plain(array.dtype()),
        }
    }

    /// Describes elements in memory: under equal texts, equal bytes are equal elements.
    /// `None`: elements have parts elsewhere in their file.
    pub(super) fn signature(&self) -> Option<String> {
        if let Some(dataset) = self.array.as_hdf5() {
            return match &dataset.element().kind {
                ElementKind::Plain(_) | ElementKind::FixedString { .. } => {
                    Some(self.array.dtype().to_string())
                }
                _ if has_pointers(dataset.element()) => None,
                _ => Some(format!("{:?}", dataset.element())),
            };
        }
        match (self.array.structure(), self.array.optional()) {
            (Some(structure), _) => Some(structure.to_v2().to_text(None)),
            (None, Some(dtype)) => Some(format!("optional {dtype}")),
            (None, None) => Some(self.array.dtype().to_string()),
        }
    }

    /// Returns `true` if elements are text or bytes.
    pub(super) fn is_text(&self) -> bool {
        match self.elements {
            Elements::Ragged(kind) => matches!(kind, VlenKind::Text | VlenKind::Bytes),
            Elements::Other => {
                matches!(self.array.dtype().kind(), Kind::Bytes | Kind::Text)
                    && self.array.structure().is_none()
            }
            _ => false,
        }
    }

    /// Returns `true` if all elements of the variable are stored elements of the array.
    pub(super) fn is_complete(&self) -> bool {
        self.rest.is_none()
    }

    /// Reads a block. Numbers are in the machine's byte order, except optional ones.
    ///
    /// `memory` holds 64-bit words, so that all numbers in it are aligned.
    pub(super) fn read<'m>(
        &self,
        region: &Region,
        memory: &'m mut Vec<u64>,
        threads: Option<usize>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Block<'m>> {
        let array = self.array;
        let clip = |(axis, len): (&std::ops::Range<u64>, &u64)| axis.start.min(*len)..axis.end.min(*len);
        let inside: Region = region.iter().zip(array.shape()).map(clip).collect();
        let present = self.present.as_ref().and_then(|stored| stored.keys.as_ref());
        let options = ReadOptions { threads, interrupt: Some(stop), present, ..ReadOptions::default() };
        let is_short = inside != *region;
        if is_short && inside.iter().zip(region).skip(1).any(|(own, all)| own != all) {
            return Err(
                self.error("it is shorter than its unlimited dimensions; copy it, and compare the copy")
            );
        }
        if let Elements::Ragged(_) = self.elements {
            if is_short {
                return Err(
                    self.error("it is shorter than its unlimited dimension; copy it, and compare the copy")
                );
            }
            let selection = blocks::select(array, &inside)?;
            return Ok(Block::Ragged(array.node().read_copied(&selection, options, &mut Paths::new())?));
        }
        let size = array.dtype().size();
        let bytes = |region: &Region| {
            element_count(&blocks::shape(region))
                .and_then(|n| n.checked_mul(size as u64))
                .and_then(|n| usize::try_from(n).ok())
        };
        let none = || ArrayError::Memory {
            array: array.layout().name().to_owned(),
            what: "a block",
            bytes: bytes(region).map_or(u64::MAX, |bytes| bytes as u64),
        };
        let (len, read) = (bytes(region).ok_or_else(none)?, bytes(&inside).ok_or_else(none)?);
        let count = len.div_ceil(8);
        if memory.len() < count {
            memory.clear();
            memory.try_reserve_exact(count).map_err(|_| none())?;
            memory.resize(count, 0);
        }
        let elements = bytemuck::cast_slice_mut::<u64, u8>(memory).get_mut(..len).ok_or_else(none)?;
        let (front, behind) = elements.split_at_mut(read);
        if read > 0 || !is_short {
            let mut target = Target::dense(front, &blocks::shape(&inside), size).ok_or_else(none)?;
            array.read_into(&blocks::select(array, &inside)?, &mut target, options)?;
        }
        if let Some(rest) = self.rest.as_ref().filter(|rest| rest.len() == size) {
            behind.chunks_exact_mut(size).for_each(|element| element.copy_from_slice(rest));
        }
        let swaps = match &self.elements {
            Elements::Numbers(_) => array.optional().is_none(),
            Elements::Complex => true,
            _ => false,
        };
        if swaps && array.dtype().order() != ByteOrder::NATIVE {
            swap_bytes(elements, array.dtype().number_size());
        }
        Ok(Block::Fixed(elements))
    }

    fn error(&self, why: &str) -> Error {
        Error::Copy { array: self.array.layout().name().to_owned(), why: why.into() }
    }

    /// The `n`-th element of a block, for the report.
    pub(super) fn element(&self, block: &Block<'_>, n: usize) -> Result<Json> {
        match block {
            Block::Fixed(bytes) => {
                let size = self.array.dtype().size();
                self.fixed(bytes.get(n * size..(n + 1) * size).unwrap_or_default())
            }
            Block::Ragged(ragged) => Ok(self.ragged(ragged, n)),
        }
    }

    /// An element of fixed length, as [`Side::read`] gives it.
    pub(super) fn fixed(&self, bytes: &[u8]) -> Result<Json> {
        let array = self.array;
        if let Elements::Numbers(numbers) = &self.elements {
            return Ok(numbers.show(bytes));
        }
        if let Some(dataset) = array.as_hdf5()
            && !matches!(dataset.element().kind, ElementKind::Plain(_) | ElementKind::FixedString { .. })
        {
            return Ok(hdf5_json::value(Value::of(dataset.file(), dataset.element(), bytes)?));
        }
        Ok(match (array.structure(), array.optional()) {
            (Some(structure), _) => of_structure(structure, bytes),
            (None, Some(dtype)) => match bytes.split_last() {
                Some((1, value)) => of_plain(dtype, value),
                _ => Json::Null,
            },
            (None, None) => of_plain(array.dtype(), bytes),
        })
    }

    pub(super) fn ragged(&self, ragged: &Ragged, n: usize) -> Json {
        let Elements::Ragged(kind) = self.elements else { return Json::Null };
        let Some(bytes) = cell(ragged, kind.item_size(), n) else { return Json::Null };
        match kind {
            VlenKind::Text | VlenKind::Bytes => of_bytes(bytes),
            VlenKind::Array(dtype) => Json::Array(
                bytes.chunks_exact(dtype.size().max(1)).map(|item| of_plain(dtype, item)).collect(),
            ),
            VlenKind::Json => Json::parse(bytes).unwrap_or_else(|_| of_bytes(bytes)),
            VlenKind::MessagePack => hex(bytes),
        }
    }
}

/// The bytes of an element of variable length; `None`: it is null. `item`: bytes of an item.
pub(super) fn cell(ragged: &Ragged, item: usize, n: usize) -> Option<&[u8]> {
    if ragged.validity.as_ref().is_some_and(|validity| validity.get(n) == Some(&false)) {
        return None;
    }
    let at = |n: usize| ragged.offsets.get(n).and_then(|at| usize::try_from(*at).ok()).unwrap_or(0) * item;
    Some(ragged.values.as_slice().get(at(n)..at(n + 1)).unwrap_or_default())
}

/// Returns `true` if elements have parts elsewhere in the file.
fn has_pointers(element: &Element) -> bool {
    match &element.kind {
        ElementKind::Struct(fields) => fields.iter().any(|field| has_pointers(&field.element)),
        ElementKind::Array { element, .. } => has_pointers(element),
        ElementKind::VlenString { .. }
        | ElementKind::Vlen { .. }
        | ElementKind::ObjectReference
        | ElementKind::RegionReference
        | ElementKind::AnyReference
        | ElementKind::Unsupported(_) => true,
        _ => false,
    }
}

/// Bytes as text, or as a list of numbers if they are no text. (As attributes of HDF5.)
fn of_bytes(bytes: &[u8]) -> Json {
    hdf5_json::value(Value::Bytes(bytes.to_vec()))
}

fn hex(bytes: &[u8]) -> Json {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Json::String(format!("0x{digits}"))
}

/// An element of a type without parts.
fn of_plain(dtype: DataType, bytes: &[u8]) -> Json {
    match dtype.kind() {
        Kind::Bytes => {
            let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            of_bytes(&bytes[..len])
        }
        Kind::Raw => hex(bytes),
        Kind::Float => match numbers::plain(bytes, dtype) {
            crate::meaning::Number::Float(float) => Json::float(float),
            _ => Json::Null,
        },
        Kind::Complex => {
            let half = dtype.number_size().max(1);
            let part = DataType::new(Kind::Float, half, dtype.order());
            Json::Array(bytes.chunks_exact(half).filter_map(|bytes| Some(of_plain(part?, bytes))).collect())
        }
        _ => zarr::fill_to_json(dtype, bytes).unwrap_or_else(|| hex(bytes)),
    }
}

fn of_structure(structure: &Structure, bytes: &[u8]) -> Json {
    let members = structure.fields().iter().map(|field| {
        let bytes = bytes.get(field.offset..field.offset + field.size).unwrap_or_default();
        let count: usize = field.shape.iter().product();
        let one = |bytes: &[u8]| match &field.kind {
            FieldKind::Plain(dtype) => of_plain(*dtype, bytes),
            FieldKind::Structure(inner) => of_structure(inner, bytes),
        };
        let items = || bytes.chunks_exact((field.size / count.max(1)).max(1)).map(one).collect();
        let value = if field.shape.is_empty() { one(bytes) } else { nested(items(), &field.shape) };
        (field.name.clone(), value)
    });
    Json::Object(members.collect())
}

/// Arranges values in C order as nested lists.
fn nested(mut values: Vec<Json>, shape: &[usize]) -> Json {
    for len in shape.iter().skip(1).rev() {
        values = values.chunks((*len).max(1)).map(|row| Json::Array(row.to_vec())).collect();
    }
    Json::Array(values)
}

/// Compares values of the report. Members of objects may come in any order.
pub(super) fn is_close(a: &Json, b: &Json, rules: &Rules) -> bool {
    match (a, b) {
        (Json::Number(own), Json::Number(its)) => {
            if own == its {
                return rules.equal_nan || &**own != "NaN";
            }
            let number = |text: &str| match (text.parse::<i128>(), text.parse::<f64>()) {
                (Ok(int), _) => Some(crate::meaning::Number::Int(int)),
                (_, float) => float.ok().map(crate::meaning::Number::Float),
            };
            match (number(own), number(its)) {
                (Some(a), Some(b)) => numbers::differ(a, b, Some(8), rules).is_none(),
                _ => false,
            }
        }
        (Json::Array(own), Json::Array(its)) => {
            own.len() == its.len() && own.iter().zip(its).all(|(a, b)| is_close(a, b, rules))
        }
        (Json::Object(own), Json::Object(its)) => {
            let has = |(name, value): &(String, Json)| {
                b.get(name).is_some_and(|other| is_close(value, other, rules))
            };
            own.len() == its.len() && own.iter().all(has)
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn values_of_metadata() {
        let rules = Rules { rtol: 0.0, atol: 0.0, ulp: 0, equal_nan: true, most: 0 };
        for (a, b, equal) in [
            ("1", "1.0", true),
            ("[1, {\"a\": 2, \"b\": NaN}]", "[1.0, {\"b\": NaN, \"a\": 2}]", true),
            ("{\"a\": 1}", "{\"a\": 1, \"b\": 2}", false),
            ("\"1\"", "1", false),
            ("9007199254740993", "9007199254740992.0", false),
            ("null", "0", false),
        ] {
            assert_eq!(is_close(&json(a), &json(b), &rules), equal, "{a} {b}");
        }
        let strict = Rules { equal_nan: false, ..rules };
        assert!(!is_close(&json("NaN"), &json("NaN"), &strict));
    }

    #[test]
    fn elements_of_structures() {
        let structure =
            Structure::from_text(r#"[["a", ">i2"], ["b", [["c", "|S3"]], [2]], ["d", "<f4", [2, 2]]]"#)
                .unwrap();
        let mut bytes = vec![1, 2];
        bytes.extend(b"ab\0\xffz\0");
        (0..4).for_each(|n| bytes.extend((n as f32).to_le_bytes()));
        let text = r#"{"a": 258, "b": [{"c": "ab"}, {"c": [255, 122]}], "d": [[0.0, 1.0], [2.0, 3.0]]}"#;
        assert_eq!(of_structure(&structure, &bytes).to_text(None), text);
    }
}
