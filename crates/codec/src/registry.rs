//! Codecs by the names that metadata gives them.
//!
//! To add a codec: a file with its type, a line in each of the functions here, its names in the two
//! lists.

use crate::{Blosc, BytesCodec, Codec, CodecError, Crc32c, Gzip, Lz4, Transpose, Zlib, Zstd};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::sync::Arc;

/// A codec of Zarr v3 metadata, by what it does.
#[derive(Clone, Debug)]
pub enum Parsed {
    /// Array to array.
    Transpose(Transpose),
    /// Array to bytes.
    Bytes(BytesCodec),
    /// Bytes to bytes: compressors and checksums.
    Compressor(Arc<dyn Codec>),
}

/// The most codecs that one list may have. Arrays have up to five; each is a pass over every chunk,
/// so thousands of them only cost time.
pub const MOST_CODECS: usize = 64;

/// The names of Zarr v3 that [`from_v3`] takes. `numcodecs.*` are zarr-python's names for
/// numcodecs' codecs, configured as in v2.
pub const V3_NAMES: &[&str] = &[
    "bytes",
    "transpose",
    "gzip",
    "zstd",
    "blosc",
    "crc32c",
    "numcodecs.zlib",
    "numcodecs.lz4",
    "numcodecs.gzip",
    "numcodecs.zstd",
    "numcodecs.blosc",
    "numcodecs.crc32c",
];

/// The ids of Zarr v2 that [`from_v2`] takes.
pub const V2_NAMES: &[&str] = &["zlib", "gzip", "zstd", "blosc", "lz4", "crc32c"];

/// The codec of a Zarr v3 name and configuration, for elements of `element_size` bytes.
pub fn from_v3(name: &str, configuration: Option<&Value>, element_size: usize) -> Result<Parsed, CodecError> {
    let codec: Arc<dyn Codec> = match name {
        "bytes" => return BytesCodec::from_v3(configuration).map(Parsed::Bytes),
        "transpose" => return Transpose::from_v3(configuration).map(Parsed::Transpose),
        "gzip" => Arc::new(Gzip::from_v3(configuration, element_size)?),
        "zstd" => Arc::new(Zstd::from_v3(configuration, element_size)?),
        "blosc" => Arc::new(Blosc::from_v3(configuration, element_size)?),
        "crc32c" => Arc::new(Crc32c::from_v3(configuration, element_size)?),
        _ => match name.strip_prefix("numcodecs.") {
            Some(id) if V3_NAMES.contains(&name) => {
                from_v2(&with_id(name, id, configuration)?, element_size)?
            }
            _ => return Err(unknown(name, V3_NAMES)),
        },
    };
    Ok(Parsed::Compressor(codec))
}

/// The codec of a Zarr v2 (numcodecs) object, `{"id": …, …}`, for elements of `element_size` bytes.
pub fn from_v2(config: &Value, element_size: usize) -> Result<Arc<dyn Codec>, CodecError> {
    let Some(id) = config.get("id").and_then(Value::as_str) else {
        let why = format!("expected an object with a string \"id\", found {}", shown(config));
        return Err(CodecError::Config { name: "?".into(), why });
    };
    Ok(match id {
        "zlib" => Arc::new(Zlib::from_v2(config, element_size)?),
        "gzip" => Arc::new(Gzip::from_v2(config, element_size)?),
        "zstd" => Arc::new(Zstd::from_v2(config, element_size)?),
        "blosc" => Arc::new(Blosc::from_v2(config, element_size)?),
        "lz4" => Arc::new(Lz4::from_v2(config, element_size)?),
        "crc32c" => Arc::new(Crc32c::from_v2(config, element_size)?),
        _ => return Err(unknown(id, V2_NAMES)),
    })
}

fn unknown(name: &str, supported: &[&str]) -> CodecError {
    CodecError::Unknown { name: name.into(), supported: supported.join(", ") }
}

/// The v2 object of a `numcodecs.*` codec: its configuration, and the id if that is not there
/// (zarr-python takes both).
fn with_id(name: &str, id: &str, configuration: Option<&Value>) -> Result<Value, CodecError> {
    let mut object = match configuration {
        None => Map::new(),
        Some(Value::Object(fields)) => fields.clone(),
        Some(other) => return Err(not_an_object(name, other)),
    };
    object.entry("id").or_insert_with(|| id.into());
    match object.get("id") {
        Some(Value::String(found)) if found == id => Ok(Value::Object(object)),
        found => {
            let found = found.map(shown).unwrap_or_default();
            Err(CodecError::Config {
                name: name.into(),
                why: format!("\"id\" must be {id:?}, found {found}"),
            })
        }
    }
}

/// Parses the `configuration` of v3 metadata; an absent one is an empty one, so that each codec
/// says what it misses.
pub(crate) fn configuration<T: DeserializeOwned>(
    name: &str,
    metadata: Option<&Value>,
) -> Result<T, CodecError> {
    match metadata {
        None => fields(name, Value::Object(Map::new())),
        Some(object) => fields(name, object.clone()),
    }
}

/// Parses the fields of a v2 object other than its id, which must be `name`.
pub(crate) fn configuration_v2<T: DeserializeOwned>(name: &str, metadata: &Value) -> Result<T, CodecError> {
    let Value::Object(object) = metadata else { return Err(not_an_object(name, metadata)) };
    let mut object = object.clone();
    match object.shift_remove("id") {
        Some(Value::String(id)) if id == name => fields(name, Value::Object(object)),
        id => {
            let found = id.as_ref().map_or("none".into(), shown);
            Err(CodecError::Config {
                name: name.into(),
                why: format!("\"id\" must be {name:?}, found {found}"),
            })
        }
    }
}

fn fields<T: DeserializeOwned>(name: &str, object: Value) -> Result<T, CodecError> {
    // Derived implementations would also take an array, field by field.
    if !object.is_object() {
        return Err(not_an_object(name, &object));
    }
    // serde's message names unknown and missing fields, but not the field of a wrong type: the text
    // does.
    let text = shown(&object);
    T::deserialize(object)
        .map_err(|error| CodecError::Config { name: name.into(), why: format!("{error} in {text}") })
}

fn not_an_object(name: &str, found: &Value) -> CodecError {
    CodecError::Config { name: name.into(), why: format!("expected an object, found {}", shown(found)) }
}

/// A value of metadata as text for a message, cut where it is too long for one.
fn shown(value: &Value) -> String {
    const MOST: usize = 200;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn v2_of(name: &str, configuration: Value) -> Option<Value> {
        match from_v3(name, Some(&configuration), 4).unwrap() {
            Parsed::Compressor(codec) => codec.to_v2(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_listed_name_is_known_and_no_other() {
        for name in V3_NAMES {
            // Some need fields; but none is unknown.
            assert!(!matches!(from_v3(name, None, 4), Err(CodecError::Unknown { .. })), "{name}");
        }
        for id in V2_NAMES {
            assert!(!matches!(from_v2(&json!({"id": id}), 4), Err(CodecError::Unknown { .. })), "{id}");
        }
        for name in
            ["sharding_indexed", "vlen-utf8", "numcodecs.bz2", "numcodecs.", "zlib", "lz4", "endian", ""]
        {
            let message = from_v3(name, None, 4).unwrap_err().to_string();
            assert!(message.starts_with(&format!("codec {name:?} is not supported")), "{message}");
            assert!(message.contains("bytes, transpose, gzip"), "{message}");
        }
        for id in ["bz2", "delta", "bytes", ""] {
            let message = from_v2(&json!({"id": id}), 4).unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("codec {id:?} is not supported (supported: zlib, ")),
                "{message}"
            );
        }
    }

    #[test]
    fn names_of_both_versions_give_the_same_codec() {
        assert_eq!(v2_of("numcodecs.zlib", json!({"level": 4})), Some(json!({"id": "zlib", "level": 4})));
        assert_eq!(v2_of("numcodecs.lz4", json!({})), Some(json!({"id": "lz4", "acceleration": 1})));
        assert_eq!(
            v2_of("numcodecs.gzip", json!({"id": "gzip", "level": 4})),
            Some(json!({"id": "gzip", "level": 4}))
        );
        assert_eq!(v2_of("numcodecs.zstd", json!({"level": 4})), Some(json!({"id": "zstd", "level": 4})));
        assert_eq!(
            v2_of("numcodecs.crc32c", json!({"location": "start"})),
            Some(json!({"id": "crc32c", "location": "start"}))
        );
        assert_eq!(v2_of("gzip", json!({"level": 4})), Some(json!({"id": "gzip", "level": 4})));
    }

    #[test]
    fn what_is_written_is_read() {
        let codecs: [Arc<dyn Codec>; 6] = [
            Arc::new(Zlib { level: -1 }),
            Arc::new(Gzip { level: 0 }),
            Arc::new(Zstd { level: -7, checksum: true }),
            Arc::new(Lz4 { acceleration: 3 }),
            Arc::new(Crc32c { at_start: true }),
            Arc::new(Crc32c { at_start: false }),
        ];
        for codec in codecs {
            let v2 = codec.to_v2().unwrap();
            assert_eq!(from_v2(&v2, 4).unwrap().to_v2().unwrap(), v2);
            let v3 = codec.to_v3().unwrap();
            match from_v3(v3["name"].as_str().unwrap(), v3.get("configuration"), 4).unwrap() {
                Parsed::Compressor(read) => assert_eq!(read.to_v3().unwrap(), v3),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn metadata_of_the_wrong_form() {
        let message = |config: Value| from_v2(&config, 4).unwrap_err().to_string();
        for bad in
            [json!(null), json!("zlib"), json!([{"id": "zlib"}]), json!({"id": 5}), json!({"name": "zlib"})]
        {
            assert!(message(bad.clone()).contains("a string \"id\""), "{bad}");
        }
        let wrong_type = message(json!({"id": "zlib", "level": "1"}));
        assert!(wrong_type.contains(r#"in {"level":"1"}"#), "{wrong_type}");
        let unknown_field = message(json!({"id": "zlib", "levels": 1}));
        assert!(unknown_field.contains("unknown field `levels`"), "{unknown_field}");
        let long = message(json!({"id": "zlib", "level": "é".repeat(1000)}));
        assert!(long.ends_with("é…"), "{long}");
        assert!(from_v3("numcodecs.zlib", Some(&json!({"id": "lz4"})), 4).is_err());
        assert!(from_v3("numcodecs.zlib", Some(&json!([1])), 4).is_err());
        assert!(from_v3("gzip", Some(&json!([1])), 4).is_err());
    }
}
