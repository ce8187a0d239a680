//! Elements of variable length in metadata: their names, codecs and fill values.
//!
//! | elements | v3 `data_type` | v3 codec | v2 first filter (`dtype` is `\|O`) | fill value |
//! |---|---|---|---|---|
//! | text | `string` | `vlen-utf8` | `{"id": "vlen-utf8"}` | text |
//! | bytes | `variable_length_bytes`, `bytes` | `vlen-bytes` | `{"id": "vlen-bytes"}` | base 64 |
//! | arrays | – | – | `{"id": "vlen-array", "dtype": "<i4"}` | only the empty array |
//! | JSON values | – | – | `{"id": "json2", …}` | any JSON |
//! | MessagePack values | – | – | `{"id": "msgpack2", …}` | `null`, a Boolean, a number, text |
//!
//! Text in v2 may have the first filter `{"id": "categorize", "labels": […], "dtype": "|O"}` instead.
//!
//! * v3: <https://github.com/zarr-developers/zarr-extensions/tree/main/data-types/string> and
//!   `bytes`, which zarr-python writes as `variable_length_bytes`.
//! * v2: <https://numcodecs.readthedocs.io/en/stable/other/vlen.html>; the first filter decides
//!   what `|O` is. `null` stands for the empty element. The 0 that zarr-python 2 wrote by default
//!   also stands for the empty element, but for text it is read as `"0"`, as in zarr-python. For
//!   objects `null` is `None`, and 0 is the number 0.

use crate::error::{Problem, invalid, unsupported};
use crate::format::extension::Extension;
use crate::json::Json;
use crate::{Format, base64, dtypes, fill, message_pack, optional};
use hyperslab_codec::registry::NO_PICKLE;
use hyperslab_codec::{Codec, Context, DataType, Vlen, VlenKind, compact_json};

/// The kind of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// All elements have one size.
    Fixed(DataType),
    /// Elements have variable length.
    Vlen(VlenKind),
    /// Some elements may be missing; the others have values of this type.
    Optional(DataType),
}

impl Element {
    /// The elements of a v3 `data_type`.
    pub(crate) fn from_v3(json: &Json) -> Result<Self, Problem> {
        if let Some(value) = optional::from_v3(json)? {
            return Ok(Element::Optional(value));
        }
        match from_v3(json)? {
            Some(kind) => Ok(Element::Vlen(kind)),
            None => dtypes::from_v3(json).map(Element::Fixed),
        }
    }

    /// The elements that codecs encode.
    pub(crate) fn of(array: &Context<'_>) -> Self {
        match (array.vlen, array.optional) {
            (Some(kind), _) => Element::Vlen(kind),
            (None, Some(value)) => Element::Optional(value),
            (None, None) => Element::Fixed(array.dtype),
        }
    }

    /// The context of the elements' codecs, for chunks of this shape.
    pub(crate) fn context<'a>(self, shape: &'a [u64], fill: &'a [u8]) -> Context<'a> {
        let (dtype, vlen, optional) = (self.engine_type(), self.vlen(), self.optional());
        let (shape, fill) = (shape.into(), fill.into());
        Context { dtype, vlen, optional, shape, fortran: false, by_value: true, fill }
    }

    /// The fill value if metadata gives none.
    pub(crate) fn default_fill(self) -> Vec<u8> {
        match self {
            Element::Fixed(dtype) => fill::default(dtype),
            Element::Vlen(VlenKind::Json) => b"null".to_vec(),
            Element::Vlen(VlenKind::MessagePack) => message_pack::NIL.to_vec(),
            Element::Vlen(_) => Vec::new(),
            Element::Optional(value) => optional::missing_fill_value(value),
        }
    }

    /// The element type that the engine moves.
    pub(crate) fn engine_type(self) -> DataType {
        match self {
            Element::Fixed(dtype) => dtype,
            Element::Vlen(_) => DataType::CELL,
            // Elements are smaller than every size limit.
            Element::Optional(value) => value.optional().unwrap_or(DataType::CELL),
        }
    }

    /// The v3 codec that makes bytes from these elements.
    pub(crate) fn serializer(self) -> &'static str {
        match self {
            Element::Fixed(_) => "bytes",
            Element::Vlen(kind) => kind.codec_name(),
            Element::Optional(_) => "zarrs.optional",
        }
    }

    /// The kind of elements of variable length, otherwise `None`.
    pub(crate) fn vlen(self) -> Option<VlenKind> {
        match self {
            Element::Fixed(_) | Element::Optional(_) => None,
            Element::Vlen(kind) => Some(kind),
        }
    }

    /// The type of values if elements may be missing, otherwise `None`.
    pub(crate) fn optional(self) -> Option<DataType> {
        match self {
            Element::Optional(value) => Some(value),
            Element::Fixed(_) | Element::Vlen(_) => None,
        }
    }
}

/// The kind of a v3 `data_type`, or `None` if its elements have one size.
fn from_v3(json: &Json) -> Result<Option<VlenKind>, Problem> {
    let extension = Extension::parse("data_type", json)?;
    let kind = match extension.name {
        "string" => VlenKind::Text,
        "variable_length_bytes" | "bytes" => VlenKind::Bytes,
        _ => return Ok(None),
    };
    extension.allow_only(&[])?;
    Ok(Some(kind))
}

/// The v3 `data_type` of a kind.
pub(crate) fn to_v3(kind: VlenKind) -> Result<Json, Problem> {
    v3_name(kind).map(Json::from).ok_or_else(|| {
        let what = if kind.is_objects() { "objects" } else { "arrays of variable length" };
        Problem::Unsupported(format!(
            "data_type: Zarr v3 has no {what} as elements; use Zarr v2, which has them"
        ))
    })
}

fn v3_name(kind: VlenKind) -> Option<&'static str> {
    match kind {
        VlenKind::Text => Some("string"),
        VlenKind::Bytes => Some("variable_length_bytes"),
        VlenKind::Array(_) | VlenKind::Json | VlenKind::MessagePack => None,
    }
}

/// The v3 codec of a kind.
pub(crate) fn v3_codec(kind: VlenKind) -> Json {
    Json::named(kind.codec_name(), [])
}

/// Returns `true` if a v2 codec makes bytes from objects, except for `categorize`.
///
/// Some of these codecs also take elements of one size. They count only if elements are objects.
fn is_object_codec(id: &str, object: bool) -> bool {
    ["vlen-utf8", "vlen-bytes", "vlen-array", "pickle"].contains(&id)
        || object && ["json2", "json", "msgpack2"].contains(&id)
}

/// Returns `true` for v2's `categorize`, which encodes objects if it is their first filter.
pub(crate) fn is_categorize(json: &Json) -> bool {
    id(json) == Some("categorize")
}

fn id(json: &Json) -> Option<&str> {
    json.get("id")?.as_str()
}

/// The elements of v2 metadata, and the filters that encode their bytes.
///
/// For `|O` the first filter defines the elements, so the filters are the ones after it.
pub(crate) fn from_v2<'a>(dtype: &Json, filters: &'a [Json]) -> Result<(Element, &'a [Json]), Problem> {
    let object = matches!(dtype.as_str(), Some("|O" | "O"));
    let misplaced =
        filters.iter().skip(usize::from(object)).filter_map(id).find(|id| is_object_codec(id, object));
    if let Some(id) = misplaced {
        return invalid!(
            "filters: \"{id}\" makes bytes of objects; it must be the first filter, of dtype \"|O\", found dtype {}",
            dtype.brief()
        );
    }
    if !object {
        return Ok((Element::Fixed(dtypes::from_v2(dtype)?), filters));
    }
    const SUPPORTED: &str = "vlen-utf8, vlen-bytes, vlen-array, json2, msgpack2, categorize";
    let Some((first, behind)) = filters.split_first() else {
        return invalid!(
            "dtype: \"|O\" needs a first filter that makes bytes of objects ({SUPPORTED}), found none"
        );
    };
    let kind = match id(first) {
        Some("vlen-utf8" | "categorize") => VlenKind::Text,
        Some("vlen-bytes") => VlenKind::Bytes,
        Some("vlen-array") => VlenKind::Array(item(first)?),
        Some("json2" | "json") => VlenKind::Json,
        Some("msgpack2") => VlenKind::MessagePack,
        Some("pickle") => {
            return unsupported!(
                "filters: object codec \"pickle\" is not supported (supported: {SUPPORTED}): {NO_PICKLE}"
            );
        }
        _ => {
            return invalid!(
                "filters: expected a first filter that makes bytes of objects ({SUPPORTED}), found {}",
                first.brief()
            );
        }
    };
    Ok((Element::Vlen(kind), behind))
}

/// The type of the items of `vlen-array`.
fn item(json: &Json) -> Result<DataType, Problem> {
    let within = |problem| match problem {
        Problem::Invalid(why) => Problem::Invalid(format!("filters: \"vlen-array\": {why}")),
        Problem::Unsupported(what) => Problem::Unsupported(format!("filters: \"vlen-array\": {what}")),
    };
    let dtype = json.get("dtype").ok_or_else(|| Problem::Invalid("dtype is missing".into()));
    dtype.and_then(dtypes::from_v2).map_err(within)
}

/// The usual first v2 filter of a kind, without settings.
pub(crate) fn v2_filter(kind: VlenKind) -> Json {
    match Vlen::new(kind, [].into()).to_v2() {
        Some(filter) => Json::from(&filter),
        None => Json::from([("id", kind.codec_name().into())]),
    }
}

/// The bytes of a fill value.
pub(crate) fn parse_fill(kind: VlenKind, json: &Json, format: Format) -> Result<Vec<u8>, Problem> {
    let is_integer = |text: &str| text.strip_prefix('-').unwrap_or(text).bytes().all(|b| b.is_ascii_digit());
    let parsed = match (kind, json) {
        (VlenKind::Text, Json::String(text)) => Some(text.as_bytes().to_vec()),
        (VlenKind::Text, Json::Number(text)) if format == Format::V2 && is_integer(text) => {
            Some(text.as_bytes().to_vec())
        }
        (VlenKind::Bytes, Json::String(text)) => base64::decode(text),
        (VlenKind::Bytes, Json::Array(items)) if format == Format::V3 => {
            items.iter().map(Json::as_integer).collect()
        }
        (VlenKind::Bytes | VlenKind::Array(_), Json::Number(text))
            if format == Format::V2 && &**text == "0" =>
        {
            Some(Vec::new())
        }
        (VlenKind::Array(_), Json::String(text)) if text.is_empty() => Some(Vec::new()),
        (VlenKind::Json, json) => compact_json(&json.to_text(None)).ok().map(String::into_bytes),
        (VlenKind::MessagePack, json) => message_pack::from_json(json),
        _ => None,
    };
    parsed.ok_or_else(|| {
        let expected = match kind {
            VlenKind::Text => "text",
            VlenKind::Bytes => "base 64 text",
            VlenKind::Array(_) => "null, 0 or \"\", for the empty array",
            VlenKind::Json => "JSON",
            VlenKind::MessagePack => "null, a Boolean, a number or text",
        };
        Problem::Invalid(format!("fill_value: expected {expected}, found {}", json.brief()))
    })
}

/// The JSON of a fill value.
pub(crate) fn write_fill(kind: VlenKind, bytes: &[u8]) -> Result<Json, Problem> {
    match kind {
        VlenKind::Text => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.into()),
            Err(error) => {
                invalid!("fill_value: expected text in UTF-8, found another byte at {}", error.valid_up_to())
            }
        },
        VlenKind::Bytes => Ok(Json::String(base64::encode(bytes))),
        // Written by zarr-python 2.
        VlenKind::Array(_) if bytes.is_empty() => Ok(0u32.into()),
        VlenKind::Array(_) => {
            invalid!("fill_value: expected an empty array, the only one that can be stored in metadata")
        }
        VlenKind::Json => {
            let json = Json::parse(bytes);
            json.map_err(|error| Problem::Invalid(format!("fill_value: expected JSON: {error}")))
        }
        VlenKind::MessagePack => match message_pack::to_json(bytes) {
            Some(json) => Ok(json),
            None => invalid!(
                "fill_value: expected null, a Boolean, a number or text: metadata can store only these of \
                 MessagePack's values"
            ),
        },
    }
}

#[cfg(test)]
#[path = "vlen_tests.rs"]
mod tests;
