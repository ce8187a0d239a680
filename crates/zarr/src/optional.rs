//! The type, codec and fill value of elements that may be missing, in v3 metadata.
//!
//! | v3 | |
//! |---|---|
//! | `data_type` | `{"name": "zarrs.optional", "configuration": {"name": "int32", "configuration": {}}}`: that of the values, one level down |
//! | codec | `{"name": "zarrs.optional", "configuration": {"mask_codecs": […], "data_codecs": […]}}` |
//! | fill value | `null`: missing; `[7]`: present |
//!
//! zarrs writes these and owns the extension: <https://codec.zarrs.dev/array_to_bytes/optional>,
//! <https://github.com/zarr-developers/zarr-extensions/tree/main/data-types/optional>. The names
//! without `zarrs.`, and a fill value without the list, are from drafts and can also be read. v2
//! has no such elements.
//!
//! For the engine an element is raw bytes: [`DataType::optional`].

use crate::error::{Problem, invalid, unsupported};
use crate::format::extension::Extension;
use crate::json::Json;
use crate::vlen::Element;
use crate::{Format, dtypes, fill};
use hyperslab_codec::{ByteOrder, BytesCodec, DataType};

/// The names of the type: the one that is written, then the older one.
const NAMES: [&str; 2] = ["zarrs.optional", "optional"];

/// The type of the elements of a v3 `data_type`.
///
/// If elements may be missing, this is the type of their values, and the `bool` is `true`. Fails,
/// with a text, for structures and elements of variable length.
pub fn data_type(json: &Json) -> Result<(DataType, bool), String> {
    match Element::from_v3(json).map_err(Problem::text)? {
        Element::Fixed(dtype) => Ok((dtype, false)),
        Element::Optional(value) => Ok((value, true)),
        Element::Vlen(kind) => Err(format!("data_type: elements of type {kind} have variable length")),
    }
}

/// The type of values in a v3 `data_type`, or `None` if its elements cannot be missing.
pub(crate) fn from_v3(json: &Json) -> Result<Option<DataType>, Problem> {
    let extension = Extension::parse("data_type", json)?;
    if !NAMES.contains(&extension.name) {
        return Ok(None);
    }
    extension.allow_only(&["name", "configuration"])?;
    extension.require("name")?;
    // The configuration describes the type of the values, in the form of a data type.
    let inner = Extension::parse("data_type", extension.configuration.unwrap_or(json))?;
    let refuse = |what: &str| {
        unsupported!(
            "data type \"{}\": {what} ({}) that may be missing are not supported, only elements of one size",
            extension.name,
            Json::from(inner.name).brief()
        )
    };
    match inner.name {
        name if NAMES.contains(&name) => return refuse("elements that may be missing"),
        "struct" | "structured" => return refuse("structures"),
        _ => {}
    }
    match Element::from_v3(extension.configuration.unwrap_or(json))? {
        Element::Fixed(value) => Ok(Some(value)),
        _ => refuse("elements of variable length"),
    }
}

/// The v3 `data_type` of elements with values of this type.
pub(crate) fn to_v3(value: DataType) -> Json {
    let inner = dtypes::to_v3(value);
    let (name, configuration) = match &inner {
        Json::String(name) => (name.as_str(), None),
        object => {
            (object.get("name").and_then(Json::as_str).unwrap_or_default(), object.get("configuration"))
        }
    };
    // zarrs expects a configuration even if it is empty.
    let configuration = configuration.cloned().unwrap_or_else(Json::object);
    let [written, _] = NAMES;
    Json::named(written, [("name", name.into()), ("configuration", configuration)])
}

/// The v3 codec of such elements, as zarrs chooses it.
pub(crate) fn v3_codec(value: DataType) -> Json {
    let bytes = BytesCodec::metadata(value.has_order().then_some(ByteOrder::NATIVE));
    let [written, _] = NAMES;
    let mask = Json::Array(vec![Json::from([("name", "packbits".into())])]);
    Json::named(written, [("mask_codecs", mask), ("data_codecs", Json::Array(vec![Json::from(&bytes)]))])
}

/// The bytes of a fill value.
pub(crate) fn parse_fill(value: DataType, json: &Json) -> Result<Vec<u8>, Problem> {
    let there = |json: &Json| {
        let mut bytes = fill::parse(value, json, Format::V3)?;
        bytes.push(1);
        Ok(bytes)
    };
    match json {
        Json::Null => Ok(missing_fill_value(value)),
        Json::Array(items) => match items.as_slice() {
            // Without the list around it, a list of one item may also be one raw byte.
            [item] => there(item).or_else(|problem| there(json).map_err(|_| problem)),
            _ => there(json),
        },
        json => there(json),
    }
}

/// The fill value of a missing element.
pub(crate) fn missing_fill_value(value: DataType) -> Vec<u8> {
    vec![0; value.size() + 1]
}

/// The JSON of a fill value.
pub(crate) fn write_fill(value: DataType, bytes: &[u8]) -> Result<Json, Problem> {
    match bytes.split_last() {
        Some((0, _)) if bytes.len() == value.size() + 1 => Ok(Json::Null),
        Some((1, bytes)) => Ok(Json::Array(vec![fill::write(value, bytes, Format::V3)?])),
        _ => invalid!(
            "fill_value: expected {} bytes, the last of them 0 or 1, found {}",
            value.size() + 1,
            bytes.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cases, json, memory};
    use crate::{Array, ArraySpec, Choice};

    fn created(spec: ArraySpec) -> Result<Array, String> {
        Array::create(memory(), "a", spec, false).map_err(|error| error.to_string())
    }

    #[test]
    fn types() {
        for [text, numpy] in cases(
            r#"
            {"name": "zarrs.optional", "configuration": {"name": "int32", "configuration": {}}} | <i4
            {"name": "zarrs.optional", "configuration": {"name": "bool", "configuration": {}}} | |b1
            {"name": "zarrs.optional", "configuration": {"name": "bfloat16", "configuration": {}}} | bfloat16
            {"name": "zarrs.optional", "configuration": {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 5}}} | <M8[5s]
            {"name": "zarrs.optional", "configuration": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}} | <U2
        "#,
        ) {
            let value = from_v3(&json(text)).unwrap().unwrap();
            assert_eq!(value, numpy.parse::<DataType>().unwrap().with_order(ByteOrder::NATIVE));
            assert_eq!(to_v3(value).to_text(None), text);
        }
        let short = json(r#"{"name": "optional", "configuration": {"name": "r16"}}"#);
        assert_eq!(from_v3(&short).unwrap().unwrap().to_string(), "|V2");
        assert_eq!(from_v3(&"int32".into()).unwrap(), None);
        for [text, want] in cases(
            r#"
            "zarrs.optional" | lacks name
            {"name": "optional"} | lacks name
            {"name": "optional", "configuration": {"name": 3}} | name: expected text
            {"name": "optional", "configuration": {"name": "int8", "x": 3}} | unknown member "x"
            {"name": "optional", "configuration": {"name": "int99"}} | data type "int99" is not supported
            {"name": "optional", "configuration": {"name": "optional", "configuration": {"name": "int8"}}} | elements that may be missing ("optional") that may be missing
            {"name": "optional", "configuration": {"name": "string"}} | elements of variable length ("string") that may be missing
            {"name": "zarrs.optional", "configuration": {"name": "struct", "configuration": {"fields": []}}} | "zarrs.optional": structures ("struct")
        "#,
        ) {
            let found = from_v3(&json(text)).unwrap_err().text();
            assert!(found.contains(want), "{text}: {found}");
        }
    }

    #[test]
    fn fill_values() {
        for [numpy, text, bytes] in cases(
            r#"
            <i4 | null | 0 0 0 0 0
            <i4 | [7] | 7 0 0 0 1
            <i4 | [0] | 0 0 0 0 1
            |b1 | [true] | 1 1
            <f2 | ["NaN"] | 0 126 1
            <c8 | [[1.0, 0.0]] | 0 0 128 63 0 0 0 0 1
            |S2 | ["YQ=="] | 97 0 1
        "#,
        ) {
            let value: DataType = numpy.parse().unwrap();
            let bytes: Vec<u8> = bytes.split(' ').map(|byte| byte.parse().unwrap()).collect();
            assert_eq!(parse_fill(value, &json(text)).unwrap(), bytes, "{text}");
            assert_eq!(write_fill(value, &bytes).unwrap().to_text(None), text);
        }
        let value = |numpy: &str| numpy.parse::<DataType>().unwrap();
        assert_eq!(parse_fill(value("|i1"), &json("7")).unwrap(), [7, 1]);
        assert_eq!(parse_fill(value("|V1"), &json("[5]")).unwrap(), [5, 1]);
        assert_eq!(parse_fill(value("<c8"), &json("[0, 0]")).unwrap().len(), 9);
        for bad in ["[]", "[1, 2]", "[null]", "[[1]]", "300", "{}"] {
            let why = parse_fill(value("|i1"), &json(bad)).unwrap_err().text();
            assert!(why.starts_with("fill_value: "), "{why}");
        }
        for bad in [&[1][..], &[1, 2], &[1, 1, 1], &[0, 0, 0]] {
            assert!(write_fill(value("|i1"), bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn created_and_opened_again() {
        let mut spec = ArraySpec::of_optional(&[5, 4], "<i4".parse().unwrap());
        let array = created(spec.clone()).unwrap();
        let document = array.to_json();
        assert_eq!(document.get("fill_value"), Some(&Json::Null));
        let codecs = document.get("codecs").unwrap().to_text(None);
        let first = r#"[{"name": "zarrs.optional", "configuration": {"mask_codecs": [{"name": "packbits", "configuration": {"padding_encoding": "none"}}], "data_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}, {"name": "zstd""#;
        assert!(codecs.starts_with(first), "{codecs}");
        assert_eq!(array.optional(), Some("<i4".parse().unwrap()));
        assert_eq!((array.layout().dtype().size(), array.fill().unwrap()), (5, &[0; 5][..]));
        // Transpositions may precede the codec, and shards may contain it.
        spec.fill = Some(vec![1, 2, 3, 4, 1]);
        spec.fortran_order = true;
        spec.chunks = Some([2, 2][..].into());
        spec.shards = Some([4, 4][..].into());
        let array = created(spec.clone()).unwrap();
        assert_eq!(array.fill().unwrap(), [1, 2, 3, 4, 1]);
        assert_eq!(array.layout().encoding().order(), [1, 0]);
        let named = r#"{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1]}}"#;
        spec.shards = None;
        spec.serializer = Choice::Set(json(named));
        assert!(created(spec.clone()).unwrap().chunk_codecs()[0].to_text(None).contains("zarrs.optional"));

        spec.serializer = Choice::Set(json(r#"{"name": "bytes", "configuration": {"endian": "little"}}"#));
        assert!(created(spec.clone()).unwrap_err().contains(r#"put it in "data_codecs""#));
        spec.serializer = Choice::Auto;
        spec.fill = Some(vec![1, 2, 3, 4]);
        assert!(created(spec.clone()).unwrap_err().contains("fill_value"));
        spec.format = Format::V2;
        assert!(created(spec).unwrap_err().contains("Zarr v2 has no elements that may be missing"));
    }
}
