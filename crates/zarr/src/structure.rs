//! Structures: elements that consist of named fields, one after another.
//!
//! | | v3 `data_type` | v2 `dtype` |
//! |---|---|---|
//! | structure | `{"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int32"}]}}` | `[["a", "<i4"]]` |
//! | field that is a structure | a `struct` as its `data_type` | a list as its type |
//! | field that is an array | – | `["a", "<i4", [2, 3]]` |
//! | byte order | the `bytes` codec's, for all fields | one for each field |
//! | fill value | `{"a": 1}` | base 64 of the bytes |
//!
//! * v3: <https://github.com/zarr-developers/zarr-extensions/tree/main/data-types/struct>. The older
//!   name `structured`, whose fields are pairs `["a", "int32"]`, is read too. A `bytes` codec
//!   without `endian` is little-endian, as in zarr-python.
//! * v2: <https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#data-type-encoding>
//!
//! Fields have no gaps between them. For the engine an element is raw bytes. In memory fields have
//! the stored byte order, also in v3, so nothing is swapped.

use crate::dtypes::{self, MAX_ELEMENT};
use crate::error::{Problem, invalid, unexpected_value, unsupported};
use crate::format::extension::Extension;
use crate::json::Json;
use crate::{Format, base64, fill};
use hyperslab_codec::{ByteOrder, DataType, Kind};
use std::collections::{HashMap, HashSet};

/// The v3 names of a structure: the one that is written, then the older one.
const NAMES: [&str; 2] = ["struct", "structured"];

/// The most axes of a field that is an array: NumPy 1's limit.
const MAX_AXES: usize = 32;

/// The type of elements that have fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    fields: Vec<Field>,
    size: usize,
}

/// One field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name, unique in the structure.
    pub name: String,
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// Bytes of the field.
    pub size: usize,
    /// Elements per axis if the field is an array, otherwise empty.
    pub shape: Vec<usize>,
    /// The type of the field, or of the array's elements.
    pub kind: FieldKind,
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A number, text, raw bytes, ...
    Plain(DataType),
    /// Another structure.
    Structure(Structure),
}

impl FieldKind {
    /// Bytes of one value.
    pub fn size(&self) -> usize {
        match self {
            FieldKind::Plain(dtype) => dtype.size(),
            FieldKind::Structure(structure) => structure.size,
        }
    }

    fn with_order(&self, order: ByteOrder) -> Self {
        match self {
            FieldKind::Plain(dtype) => FieldKind::Plain(dtype.with_order(order)),
            FieldKind::Structure(structure) => FieldKind::Structure(structure.with_order(order)),
        }
    }
}

impl Structure {
    /// Makes a structure from fields, one after another.
    ///
    /// Each has a name, a shape (empty unless the field is an array), and a type. Fails, with a
    /// text, if there are no fields, if two have one name, or if an element has no bytes or more
    /// than 16 MiB.
    pub fn new(fields: impl IntoIterator<Item = (String, Vec<usize>, FieldKind)>) -> Result<Self, String> {
        let (mut made, mut names, mut size) = (Vec::new(), HashSet::new(), 0usize);
        for (name, shape, kind) in fields {
            if !names.insert(name.clone()) {
                return Err(format!("two fields have the name {}", Json::from(name.as_str()).brief()));
            }
            if shape.len() > MAX_AXES {
                return Err(format!("expected at most {MAX_AXES} axes in a field, found {}", shape.len()));
            }
            let bytes = shape.iter().try_fold(kind.size(), |size, len| size.checked_mul(*len));
            let end = bytes.and_then(|bytes| size.checked_add(bytes)).filter(|end| *end <= MAX_ELEMENT);
            let (Some(bytes), Some(end)) = (bytes, end) else {
                return Err(format!("structures of more than {MAX_ELEMENT} bytes are not supported"));
            };
            made.push(Field { name, offset: size, size: bytes, shape, kind });
            size = end;
        }
        if size == 0 {
            return Err("expected at least one field of at least one byte, found none".into());
        }
        Ok(Structure { fields: made, size })
    }

    /// The fields, in their order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Bytes of one element.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The engine's type for elements: raw bytes.
    pub fn engine_type(&self) -> DataType {
        // Structures are smaller than every size limit.
        DataType::new(Kind::Raw, self.size, ByteOrder::NATIVE).unwrap_or(DataType::CELL)
    }

    /// The same fields, all in one byte order.
    #[must_use]
    pub fn with_order(&self, order: ByteOrder) -> Self {
        let field = |field: &Field| Field { kind: field.kind.with_order(order), ..field.clone() };
        Structure { fields: self.fields.iter().map(field).collect(), size: self.size }
    }

    /// `true` if byte order has a meaning for one of the fields.
    pub fn has_order(&self) -> bool {
        self.fields.iter().any(|field| match &field.kind {
            FieldKind::Plain(dtype) => dtype.has_order(),
            FieldKind::Structure(structure) => structure.has_order(),
        })
    }

    /// The structure that a v2 list describes.
    pub(crate) fn from_v2(list: &[Json]) -> Result<Self, Problem> {
        Self::from_list(list, &dtypes::from_v2)
    }

    /// Parses a structure as in v2 metadata. Fields may also be small numbers, by their names.
    ///
    /// The error is a text.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let json = Json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
        let list = json.as_array().ok_or_else(|| format!("expected a list, found {}", json.brief()))?;
        let plain = |json: &Json| match json.as_str().map(str::parse) {
            Some(Ok(dtype)) => Ok(dtype),
            _ => dtypes::from_v2(json),
        };
        Self::from_list(list, &plain).map_err(Problem::text)
    }

    fn from_list(list: &[Json], plain: &dyn Fn(&Json) -> Result<DataType, Problem>) -> Result<Self, Problem> {
        let fields = list.iter().enumerate().map(|(at, json)| {
            let (name, kind, shape) = match json.as_array() {
                Some([Json::String(name), kind]) => (name, kind, None),
                Some([Json::String(name), kind, shape]) => (name, kind, Some(shape)),
                Some([Json::Array(_), ..]) => {
                    return unsupported!(
                        "dtype: fields with titles are not supported, found {}",
                        json.brief()
                    );
                }
                _ => return unexpected_value("dtype", "fields [name, type] or [name, type, shape]", json),
            };
            // NumPy's name for an unnamed field.
            let name = if name.is_empty() { format!("f{at}") } else { name.clone() };
            let kind = match kind {
                Json::Array(list) => FieldKind::Structure(Self::from_list(list, plain)?),
                other => FieldKind::Plain(plain(other)?),
            };
            let shape = match shape {
                None => Vec::new(),
                Some(json) => subshape(json)?,
            };
            Ok((name, shape, kind))
        });
        Self::of(fields.collect::<Result<Vec<_>, Problem>>()?, "dtype")
    }

    fn of(fields: Vec<(String, Vec<usize>, FieldKind)>, at: &str) -> Result<Self, Problem> {
        Structure::new(fields).map_err(|why| Problem::Invalid(format!("{at}: {why}")))
    }

    /// The v2 `dtype`.
    pub fn to_v2(&self) -> Json {
        let field = |field: &Field| {
            let kind = match &field.kind {
                FieldKind::Plain(dtype) => Json::String(dtype.numpy()),
                FieldKind::Structure(structure) => structure.to_v2(),
            };
            let mut items = vec![Json::String(field.name.clone()), kind];
            if !field.shape.is_empty() {
                items.push(Json::Array(field.shape.iter().map(|len| Json::from(*len)).collect()));
            }
            Json::Array(items)
        };
        Json::Array(self.fields.iter().map(field).collect())
    }

    /// The structure of a v3 `data_type`, with fields in byte order `stored`.
    ///
    /// Returns `None` if it is no structure.
    pub(crate) fn from_v3(json: &Json, stored: ByteOrder) -> Result<Option<Self>, Problem> {
        let extension = Extension::parse("data_type", json)?;
        if !NAMES.contains(&extension.name) {
            return Ok(None);
        }
        extension.allow_only(&["fields"])?;
        let list = extension.require("fields")?;
        let Some(list) = list.as_array() else {
            return unexpected_value("data_type: fields", "a list", list);
        };
        let mut fields = Vec::new();
        for json in list {
            let (name, kind) = v3_field(json)?;
            let kind = match Self::from_v3(kind, stored)? {
                Some(structure) => FieldKind::Structure(structure),
                None => FieldKind::Plain(dtypes::from_v3(kind)?.with_order(stored)),
            };
            fields.push((name.to_owned(), Vec::new(), kind));
        }
        Self::of(fields, "data_type").map(Some)
    }

    /// Fails, with a text, if v3 has no such fields.
    pub fn check_v3(&self) -> Result<(), String> {
        self.to_v3().map(drop).map_err(Problem::text)
    }

    /// The v3 `data_type`.
    pub(crate) fn to_v3(&self) -> Result<Json, Problem> {
        let mut fields = Vec::new();
        for field in &self.fields {
            if !field.shape.is_empty() {
                return unsupported!(
                    "data_type: field {} is an array, which Zarr v3 has no word for; use Zarr v2, or a field for each element",
                    Json::from(field.name.as_str()).brief()
                );
            }
            if field.name.is_empty() {
                return invalid!("data_type: a field without a name cannot be stored in Zarr v3");
            }
            let kind = match &field.kind {
                FieldKind::Plain(dtype) => dtypes::to_v3(*dtype),
                FieldKind::Structure(structure) => structure.to_v3()?,
            };
            fields.push(Json::from([("name", field.name.as_str().into()), ("data_type", kind)]));
        }
        Ok(Json::named("struct", [("fields", Json::Array(fields))]))
    }

    /// The bytes of a fill value, given as an object or as base 64 of the bytes.
    ///
    /// In v3 base 64 holds little-endian fields. A field missing in an object has its default.
    pub(crate) fn parse_fill(&self, json: &Json, format: Format) -> Result<Vec<u8>, Problem> {
        let bytes = match json {
            Json::Object(members) => return self.parse_members(members, format),
            Json::String(text) => base64::decode(text).filter(|bytes| bytes.len() == self.size),
            Json::Number(text) if format == Format::V2 && &**text == "0" => Some(vec![0; self.size]),
            _ => None,
        };
        let Some(mut bytes) = bytes else {
            return invalid!(
                "fill_value: expected an object with the fields, or base 64 text of {} bytes, found {}",
                self.size,
                json.brief()
            );
        };
        if format == Format::V3 {
            self.reorder(&mut bytes, ByteOrder::Little);
        }
        Ok(bytes)
    }

    fn parse_members(&self, members: &[(String, Json)], format: Format) -> Result<Vec<u8>, Problem> {
        let mut given: HashMap<&str, &Json> =
            members.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let mut bytes = Vec::with_capacity(self.size);
        for field in &self.fields {
            let found = match (given.remove(field.name.as_str()), &field.kind) {
                (Some(value), _) if !field.shape.is_empty() => {
                    return unexpected_value("fill_value", "base 64 text, where a field is an array", value);
                }
                (None, FieldKind::Plain(dtype)) if field.shape.is_empty() => fill::default(*dtype),
                (None, _) => vec![0; field.size],
                (Some(value), FieldKind::Plain(dtype)) => fill::parse(*dtype, value, format)?,
                (Some(value), FieldKind::Structure(structure)) => structure.parse_fill(value, format)?,
            };
            bytes.extend(found);
        }
        if let Some(name) = given.into_keys().min() {
            return invalid!("fill_value: the data type has no field {}", Json::from(name).brief());
        }
        Ok(bytes)
    }

    /// Converts numbers from byte order `from` to the byte order of their fields.
    fn reorder(&self, bytes: &mut [u8], from: ByteOrder) {
        for field in &self.fields {
            let field_bytes = bytes.get_mut(field.offset..field.offset + field.size).unwrap_or_default();
            match &field.kind {
                FieldKind::Structure(structure) => {
                    field_bytes.chunks_mut(structure.size).for_each(|one| structure.reorder(one, from));
                }
                FieldKind::Plain(dtype) if dtype.has_order() && dtype.order() != from => {
                    field_bytes.chunks_mut(dtype.number_size()).for_each(<[u8]>::reverse);
                }
                FieldKind::Plain(_) => {}
            }
        }
    }

    /// The JSON of a fill value, one element in the byte order of the fields.
    pub(crate) fn write_fill(&self, bytes: &[u8], format: Format) -> Result<Json, Problem> {
        if bytes.len() != self.size {
            return invalid!("fill_value: expected {} bytes, found {}", self.size, bytes.len());
        }
        if format == Format::V2 {
            return Ok(Json::String(base64::encode(bytes)));
        }
        let mut members = Vec::new();
        for field in &self.fields {
            let bytes = bytes.get(field.offset..field.offset + field.size).unwrap_or_default();
            let value = match &field.kind {
                FieldKind::Plain(dtype) => fill::write(*dtype, bytes, format)?,
                FieldKind::Structure(structure) => structure.write_fill(bytes, format)?,
            };
            members.push((field.name.clone(), value));
        }
        Ok(Json::Object(members))
    }
}

/// The shape of a field that is an array.
fn subshape(json: &Json) -> Result<Vec<usize>, Problem> {
    let shape = json.as_array().and_then(|list| list.iter().map(Json::as_integer).collect());
    shape.map_or_else(|| unexpected_value("dtype", "the shape of a field, a list of integers", json), Ok)
}

/// The name and type of a v3 field, given as an object or as the older pair.
fn v3_field(json: &Json) -> Result<(&str, &Json), Problem> {
    let found = match json {
        Json::Array(pair) => match pair.as_slice() {
            [Json::String(name), kind] => Some((name.as_str(), kind)),
            _ => None,
        },
        Json::Object(members) if members.len() == 2 => {
            json.get("name").and_then(Json::as_str).zip(json.get("data_type"))
        }
        _ => None,
    };
    match found {
        Some(("", _)) => invalid!("data_type: a field has no name"),
        Some(found) => Ok(found),
        None => unexpected_value("data_type", "fields with \"name\" and \"data_type\"", json),
    }
}

/// The byte order in the `bytes` codec of a list of v3 codecs, also inside shards.
pub(crate) fn stored_order(codecs: &Json) -> ByteOrder {
    for codec in codecs.as_array().unwrap_or_default() {
        let Ok(codec) = Extension::parse("codecs", codec) else { continue };
        match codec.name {
            "bytes" if codec.get("endian").and_then(Json::as_str) == Some("big") => return ByteOrder::Big,
            "sharding_indexed" => return codec.get("codecs").map_or(ByteOrder::Little, stored_order),
            _ => {}
        }
    }
    ByteOrder::Little
}

/// Returns `true` for a `bytes` codec without `endian`, which structures of numbers need.
pub(crate) fn lacks_order(codec: &Json) -> bool {
    Extension::parse("serializer", codec).is_ok_and(|c| c.name == "bytes" && c.get("endian").is_none())
}

#[cfg(test)]
#[path = "structure_tests.rs"]
mod tests;
