//! The compressors of a copy, in a notation that belongs to no format.

use crate::{Error, Json, Result};
use hyperslab_codec::{AnyCodec, Context, DataType, Kind, registry};
use hyperslab_codec::{ByteOrder, Codec};
use std::str::FromStr;
use std::sync::Arc;

/// Compressors and checksums, in encoding order.
///
/// The text form is one of:
///
/// | text | is |
/// |---|---|
/// | `none` | no compressor |
/// | `zstd`, `zstd:5` | Zstandard with this level (default 3) |
/// | `gzip`, `gzip:6`; `zlib`, `zlib:6` | Deflate with this level (default 6) |
/// | `lz4`, `lz4:1` | LZ4 with this acceleration (default 1) |
/// | `blosc`, `blosc:lz4`, `blosc:lz4:5`, `blosc:lz4:5:bitshuffle` | Blosc, see below |
/// | `{"name": …}`, `{"id": …}`, `[…]` | Zarr v3 or v2 metadata, or a list of it |
///
/// The parts of `blosc` are the compressor (zstd by default, lz4, lz4hc, blosclz or zlib), the
/// level (5 by default), and `shuffle`, `bitshuffle` or `noshuffle`. By default, elements of one
/// byte are shuffled by bits, and other elements by bytes.
///
/// ```
/// use hyperslab::copy::Compressors;
///
/// let zstd: Compressors = "zstd:5".parse()?;
/// let json: Compressors = r#"{"name": "gzip", "configuration": {"level": 6}}"#.parse()?;
/// assert!("zip".parse::<Compressors>().is_err());
/// # Ok::<(), hyperslab::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compressors(Vec<Json>);

impl FromStr for Compressors {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let list = if text.starts_with(['{', '[']) {
            match Json::parse(text.as_bytes())? {
                Json::Array(list) => list,
                one => vec![one],
            }
        } else {
            parse_short_form(text)?
        };
        let compressors = Compressors(list);
        // Report errors here, and not in the middle of a copy. Only blosc depends on the element
        // size.
        compressors.codecs(1)?;
        Ok(compressors)
    }
}

impl Compressors {
    /// The metadata of the codecs.
    pub(super) fn as_json(&self) -> &[Json] {
        &self.0
    }

    /// The codecs for elements of `element_size` bytes.
    pub(super) fn codecs(&self, element_size: usize) -> Result<Vec<Arc<dyn Codec>>> {
        self.0.iter().map(|json| codec(json, element_size)).collect()
    }
}

fn refuse(why: String) -> Error {
    Error::Options(format!("compressor: {why}"))
}

/// Converts a short form to v2 metadata.
fn parse_short_form(text: &str) -> Result<Vec<Json>> {
    let refuse_part = |part: &str, why: &str| refuse(format!("in {text:?}, {part:?} is {why}"));
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    let level = |part: Option<&str>, default: i64| match part {
        None | Some("") => Ok(Json::from(default)),
        Some(level) => match level.parse::<i64>() {
            Ok(level) if i32::try_from(level).is_ok() => Ok(level.into()),
            Ok(_) => Err(refuse_part(level, "out of range")),
            Err(_) => Err(refuse_part(level, "no number")),
        },
    };
    let json = match name {
        "none" => None,
        "zstd" => Some(Json::from([("id", name.into()), ("level", level(parts.next(), 3)?)])),
        "gzip" | "zlib" => Some(Json::from([("id", name.into()), ("level", level(parts.next(), 6)?)])),
        "lz4" => Some(Json::from([("id", name.into()), ("acceleration", level(parts.next(), 1)?)])),
        "blosc" => {
            let cname = parts.next().filter(|cname| !cname.is_empty()).unwrap_or("zstd");
            let clevel = level(parts.next(), 5)?;
            if !matches!(clevel.as_integer(), Some(0..=9_i64)) {
                return Err(refuse(format!("blosc: level must be 0 to 9, found {clevel}")));
            }
            // The numbers of numcodecs.
            let shuffle = match parts.next() {
                None | Some("") => -1_i64,
                Some("noshuffle" | "none") => 0,
                Some("shuffle" | "byteshuffle") => 1,
                Some("bitshuffle") => 2,
                Some(other) => return Err(refuse_part(other, "not shuffle, bitshuffle or noshuffle")),
            };
            Some(Json::from([
                ("id", name.into()),
                ("cname", cname.into()),
                ("clevel", clevel),
                ("shuffle", shuffle.into()),
                ("blocksize", 0u32.into()),
            ]))
        }
        other => {
            return Err(refuse(format!(
                "{other:?} is not known; use none, zstd, gzip, zlib, lz4, blosc (each with settings after colons, as in zstd:5) or JSON"
            )));
        }
    };
    match parts.next() {
        Some(rest) => Err(refuse_part(rest, "one setting too many")),
        None => Ok(json.into_iter().collect()),
    }
}

/// Makes the codec for an object of v2 (`id`) or v3 (`name`) metadata.
fn codec(json: &Json, element_size: usize) -> Result<Arc<dyn Codec>> {
    let value = json.to_serde()?;
    let bytes = DataType::new(Kind::Raw, element_size, ByteOrder::NATIVE)
        .ok_or_else(|| refuse(format!("elements of {element_size} bytes are too large")))?;
    // Chunks are not known yet: a codec cannot check their size.
    let array = Context { shape: vec![u64::MAX, 2].into(), ..Context::of_elements(bytes) };
    let found = match value.get("name").and_then(|name| name.as_str()).or(value.as_str()) {
        None => registry::CODECS.from_v2(&value, &array),
        Some(name) => registry::CODECS.from_v3(name, value.get("configuration"), &array),
    };
    match found.map_err(|error| refuse(error.to_string()))? {
        AnyCodec::BytesToBytes(codec) => {
            codec.check_settings().map_err(|error| refuse(error.to_string()))?;
            Ok(codec)
        }
        other => Err(refuse(format!("{:?} does not compress bytes", other.codec().name()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2(text: &str) -> String {
        let codecs = text.parse::<Compressors>().unwrap().codecs(4).unwrap();
        codecs.iter().map(|codec| codec.to_v2().unwrap().to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn short_forms() {
        for (text, metadata) in [
            ("none", ""),
            ("zstd", r#"{"id":"zstd","level":3}"#),
            ("zstd:-2", r#"{"id":"zstd","level":-2}"#),
            ("gzip:1", r#"{"id":"gzip","level":1}"#),
            ("zlib", r#"{"id":"zlib","level":6}"#),
            ("lz4:7", r#"{"id":"lz4","acceleration":7}"#),
            (
                r#"[{"name": "gzip", "configuration": {"level": 2}}, "crc32c"]"#,
                r#"{"id":"gzip","level":2} {"id":"crc32c"}"#,
            ),
            (r#"{"id": "zstd", "level": 9}"#, r#"{"id":"zstd","level":9}"#),
        ] {
            assert_eq!(v2(text), metadata, "{text}");
        }
        let blosc = v2("blosc:lz4:7:bitshuffle");
        for member in [r#""cname":"lz4""#, r#""clevel":7"#, r#""shuffle":2"#] {
            assert!(blosc.contains(member), "{blosc}");
        }
        assert!(v2("blosc").contains(r#""cname":"zstd""#));
        assert_eq!("none".parse::<Compressors>().unwrap(), Compressors(Vec::new()));
    }

    #[test]
    fn what_is_no_compressor() {
        for (text, why) in [
            ("", "not known"),
            ("zip", "\"zip\" is not known"),
            ("zstd:x", "\"x\" is no number"),
            ("gzip:99", "level must be -1 to 9, found 99"),
            ("zlib:10", "level must be -1 to 9, found 10"),
            ("zstd:99", "level must be -131072 to 22, found 99"),
            ("zstd:-131073", "level must be -131072 to 22"),
            ("zstd:99999999999", "out of range"),
            (r#"{"id": "zstd", "level": 99}"#, "level must be -131072 to 22, found 99"),
            ("lz4:0", "acceleration must be 1 to 65537, found 0"),
            ("lz4:-1", "acceleration must be 1 to 65537"),
            ("lz4:70000", "acceleration must be 1 to 65537"),
            (r#"{"name": "numcodecs.lz4", "configuration": {"acceleration": 0}}"#, "acceleration must be"),
            ("blosc:lz4:10", "level must be 0 to 9, found 10"),
            ("blosc:lz4:-1", "level must be 0 to 9, found -1"),
            ("zstd:5:6", "one setting too many"),
            ("blosc:lz5", "lz5"),
            ("blosc:snappy", "\"snappy\" is supported for decoding only"),
            ("blosc:snappy:5", "\"snappy\" is supported for decoding only"),
            (r#"{"name": "blosc", "configuration": {"clevel": 77}}"#, "clevel must be 0 to 9, found 77"),
            (r#"{"id": "bz2", "level": 77}"#, "level must be 1 to 9, found 77"),
            ("blosc:lz4:5:sideways", "sideways"),
            ("{", "invalid JSON"),
            (r#"{"name": "bytes"}"#, "does not compress"),
            (r#"{"name": "vlen-utf8"}"#, "does not compress"),
            ("[3]", "expected an object"),
        ] {
            let error = text.parse::<Compressors>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
