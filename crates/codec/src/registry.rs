//! Codecs by their names in metadata.
//!
//! To add a codec, write a file with its type, and a line in [`CODECS`]. Programs add their own
//! codecs with [`register`].

use crate::bz2::Bzip2;
use crate::cast_value::CastValue;
use crate::fletcher32::Fletcher32;
use crate::jenkins::JenkinsLookup3;
use crate::lzma::Lzma;
use crate::numcodecs::as_type::AsType;
use crate::numcodecs::base64::Base64;
use crate::numcodecs::bitround::BitRound;
use crate::numcodecs::categorize::Categorize;
use crate::numcodecs::checksum::Checksum;
use crate::numcodecs::delta::Delta;
use crate::numcodecs::fixed_scale_offset::FixedScaleOffset;
use crate::numcodecs::packbools::PackBools;
use crate::numcodecs::quantize::Quantize;
use crate::objects::plain_objects::PlainObjects;
use crate::optional::{self, Optional};
use crate::packbits::PackBits;
use crate::pcodec::Pcodec;
use crate::reshape::Reshape;
use crate::scale_offset::ScaleOffset;
use crate::shuffle::Shuffle;
use crate::user_codecs;
use crate::zfp::Zfp;
use crate::zfpy::Zfpy;
use crate::{
    AnyCodec, ArrayToArray, ArrayToBytes, Blosc, BytesCodec, Codec, CodecError, Context, Crc32c, Gzip, Lz4,
    Result, Transpose, Vlen, Zlib, Zstd,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub use crate::user_codecs::{Finder, finder_count, is_reserved, register, set_finder};

/// The metadata of one codec.
#[derive(Clone, Copy, Debug)]
pub enum Config<'a> {
    /// The `configuration` of Zarr v3.
    V3(Option<&'a Value>),
    /// The object of Zarr v2 (numcodecs), `{"id": …, …}`.
    V2(&'a Value),
}

impl Config<'_> {
    /// The fields without a v2 `id`, which must be `name`.
    ///
    /// A missing configuration counts as an empty one, so that each codec reports its missing
    /// fields.
    pub fn fields<T: DeserializeOwned>(self, name: &str) -> Result<T> {
        match self {
            Config::V3(metadata) => configuration(name, metadata),
            Config::V2(metadata) => configuration_v2(name, metadata),
        }
    }

    /// Makes a codec with the constructor for the metadata's format.
    pub fn either<C: Codec + 'static>(
        self,
        from_v3: impl FnOnce(Option<&Value>) -> Result<C>,
        from_v2: impl FnOnce(&Value) -> Result<C>,
    ) -> Result<Arc<dyn Codec>> {
        Ok(match self {
            Config::V3(configuration) => Arc::new(from_v3(configuration)?),
            Config::V2(object) => Arc::new(from_v2(object)?),
        })
    }
}

/// Makes a codec of one kind from metadata, for the array that it will encode.
pub type Constructor<C> = fn(Config<'_>, &Context<'_>) -> Result<Arc<C>>;

/// A codec's constructor, which also gives its kind.
#[derive(Clone, Copy, Debug)]
pub enum Make {
    /// Array to array.
    ArrayToArray(Constructor<dyn ArrayToArray>),
    /// Array to bytes.
    ArrayToBytes(Constructor<dyn ArrayToBytes>),
    /// Bytes to bytes.
    BytesToBytes(Constructor<dyn Codec>),
}

/// A line of a [`Table`]: one codec.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// The id in Zarr v2, if the codec has one.
    pub v2: Option<&'static str>,
    /// The names in Zarr v3. `numcodecs.*` are zarr-python's names for codecs with the
    /// configuration of v2.
    pub v3: &'static [&'static str],
    /// The kind of codec, and its constructor.
    pub make: Make,
}

/// Codecs by their names.
#[derive(Clone, Copy, Debug)]
pub struct Table(pub &'static [Registration]);

const fn line(v2: Option<&'static str>, v3: &'static [&'static str], make: Make) -> Registration {
    Registration { v2, v3, make }
}

/// The codecs of Zarr. `sharding_indexed` is not among them: for the engine it is a level of chunk
/// locations.
#[rustfmt::skip]
pub const CODECS: Table = Table(&[
    line(None,               &["bytes"],                      Make::ArrayToBytes(|json, array| Ok(Arc::new(BytesCodec::new(json, array)?)))),
    line(None,               &["packbits"],                   Make::ArrayToBytes(|json, array| Ok(Arc::new(PackBits::new(json, array)?)))),
    line(None,               &["transpose"],                  Make::ArrayToArray(|json, array| Ok(Arc::new(Transpose::new(json, array)?)))),
    line(None,               &["cast_value"],                 Make::ArrayToArray(|json, array| Ok(Arc::new(CastValue::new(json, array)?)))),
    line(None,               &["scale_offset"],               Make::ArrayToArray(|json, array| Ok(Arc::new(ScaleOffset::new(json, array)?)))),
    line(None,               &["reshape"],                    Make::ArrayToArray(|json, array| Ok(Arc::new(Reshape::new(json, array)?)))),
    line(None,               &["zarrs.squeeze", "squeeze"],   Make::ArrayToArray(|json, array| Ok(Arc::new(Reshape::squeeze(json, array)?)))),
    line(None,               &["zarrs.optional", "optional"], Make::ArrayToBytes(|json, array| Ok(Arc::new(Optional::new(json, array)?)))),
    line(Some("zlib"),       &["numcodecs.zlib"],             Make::BytesToBytes(|json, _| json.either(Zlib::from_v3, Zlib::from_v2))),
    line(Some("gzip"),       &["gzip", "numcodecs.gzip"],     Make::BytesToBytes(|json, _| json.either(Gzip::from_v3, Gzip::from_v2))),
    line(Some("zstd"),       &["zstd", "numcodecs.zstd"],     Make::BytesToBytes(|json, _| json.either(Zstd::from_v3, Zstd::from_v2))),
    line(Some("blosc"),      &["blosc", "numcodecs.blosc"],   Make::BytesToBytes(|json, array| json.either(|json| Blosc::from_v3(json, array.element_size()), |json| Blosc::from_v2(json, array.element_size())))),
    line(Some("lz4"),        &["numcodecs.lz4"],              Make::BytesToBytes(|json, _| json.either(Lz4::from_v3, Lz4::from_v2))),
    line(Some("crc32c"),     &["crc32c", "numcodecs.crc32c"], Make::BytesToBytes(|json, _| json.either(Crc32c::from_v3, Crc32c::from_v2))),
    line(Some("crc32"),      &["numcodecs.crc32"],            Make::BytesToBytes(|json, _| Ok(Arc::new(Checksum::new("crc32", json)?)))),
    line(Some("adler32"),    &["numcodecs.adler32"],          Make::BytesToBytes(|json, _| Ok(Arc::new(Checksum::new("adler32", json)?)))),
    line(Some("fletcher32"), &["numcodecs.fletcher32"],       Make::BytesToBytes(|json, _| { let NoFields {} = json.fields("fletcher32")?; Ok(Arc::new(Fletcher32)) })),
    line(Some("jenkins_lookup3"), &["numcodecs.jenkins_lookup3"], Make::BytesToBytes(|json, _| Ok(Arc::new(JenkinsLookup3::from_config(json)?)))),
    line(Some("bz2"),        &["numcodecs.bz2"],              Make::BytesToBytes(|json, _| Ok(Arc::new(Bzip2::from_config(json)?)))),
    line(Some("lzma"),       &["numcodecs.lzma"],             Make::BytesToBytes(|json, _| Ok(Arc::new(Lzma::from_config(json)?)))),
    line(Some("base64"),     &[],                             Make::BytesToBytes(|json, _| Ok(Arc::new(Base64::from_config(json)?)))),
    line(Some("shuffle"),    &["numcodecs.shuffle"],          Make::BytesToBytes(|json, array| Ok(Arc::new(Shuffle::from_config(json, array)?)))),
    line(Some("pcodec"),     &["numcodecs.pcodec"],           Make::ArrayToBytes(|json, array| Ok(Arc::new(Pcodec::new(json, array)?)))),
    line(None,               &["zfp"],                        Make::ArrayToBytes(|json, array| Ok(Arc::new(Zfp::new(json, array)?)))),
    line(Some("zfpy"),       &["numcodecs.zfpy"],             Make::ArrayToBytes(|json, array| Ok(Arc::new(Zfpy::new(json, array)?)))),
    line(Some("delta"),      &["numcodecs.delta"],            Make::ArrayToArray(|json, array| Ok(Arc::new(Delta::new(json, array)?)))),
    line(Some("fixedscaleoffset"), &["numcodecs.fixedscaleoffset"], Make::ArrayToArray(|json, array| Ok(Arc::new(FixedScaleOffset::new(json, array)?)))),
    line(Some("quantize"),   &["numcodecs.quantize"],         Make::ArrayToArray(|json, array| Ok(Arc::new(Quantize::new(json, array)?)))),
    line(Some("astype"),     &["numcodecs.astype"],           Make::ArrayToArray(|json, array| Ok(Arc::new(AsType::new(json, array)?)))),
    line(Some("bitround"),   &["bitround", "numcodecs.bitround"], Make::ArrayToArray(|json, array| Ok(Arc::new(BitRound::new(json, array)?)))),
    line(Some("packbits"),   &["numcodecs.packbits"],         Make::ArrayToArray(|json, array| Ok(Arc::new(PackBools::new(json, array)?)))),
    line(Some("categorize"), &[],                             Make::ArrayToArray(|json, array| Ok(Arc::new(Categorize::new(json, array)?)))),
    line(Some("vlen-utf8"),  &["vlen-utf8"],                  Make::ArrayToBytes(|json, array| Ok(Arc::new(Vlen::text(json, array)?)))),
    line(Some("vlen-bytes"), &["vlen-bytes"],                 Make::ArrayToBytes(|json, array| Ok(Arc::new(Vlen::bytes(json, array)?)))),
    line(Some("vlen-array"), &[],                             Make::ArrayToBytes(|json, array| Ok(Arc::new(Vlen::array(json, array)?)))),
    line(Some("json2"),      &[],                             Make::ArrayToBytes(objects)),
    line(Some("json"),       &[],                             Make::ArrayToBytes(objects)),
    line(Some("msgpack2"),   &[],                             Make::ArrayToBytes(objects)),
]);

/// A codec for objects, or for numbers and text in the same form.
fn objects(json: Config<'_>, array: &Context<'_>) -> Result<Arc<dyn ArrayToBytes>> {
    Ok(match array.vlen {
        Some(_) => Arc::new(Vlen::of_objects(json, array)?),
        None => Arc::new(PlainObjects::new(json, array)?),
    })
}

/// Names that implementations once wrote into Zarr v3 metadata, and today's names.
///
/// They come from the specification's first version, and from zarrs before its codecs were
/// registered.
#[rustfmt::skip]
const OLD_NAMES: [(&str, &str); 11] = [
    ("endian",                                            "bytes"),
    ("zarrs.bitround",                                    "bitround"),
    ("https://codec.zarrs.dev/array_to_array/bitround",   "bitround"),
    ("https://codec.zarrs.dev/array_to_bytes/bitround",   "bitround"),
    ("https://codec.zarrs.dev/array_to_bytes/pcodec",     "numcodecs.pcodec"),
    ("zarrs.zfp",                                         "zfp"),
    ("https://codec.zarrs.dev/array_to_bytes/zfp",        "zfp"),
    ("https://codec.zarrs.dev/bytes_to_bytes/bz2",        "numcodecs.bz2"),
    ("https://codec.zarrs.dev/bytes_to_bytes/fletcher32", "numcodecs.fletcher32"),
    ("https://codec.zarrs.dev/array_to_array/squeeze",    "zarrs.squeeze"),
    ("https://codec.zarrs.dev/array_to_bytes/optional",   "zarrs.optional"),
];

/// Today's Zarr v3 name of a codec.
fn current_name(name: &str) -> &str {
    OLD_NAMES.iter().find(|(old, _)| *old == name).map_or(name, |(_, current)| current)
}

/// The most codecs in one list. Arrays have up to five. Each is a pass over every chunk, so
/// thousands of them would only cost time.
pub const MOST_CODECS: usize = 64;

/// `true` if the codec with this Zarr v3 name is an array-to-bytes codec.
pub fn makes_bytes(name: &str) -> bool {
    let name = current_name(name);
    match CODECS.0.iter().chain(user_codecs::registrations()).find(|line| line.v3.contains(&name)) {
        Some(line) => matches!(line.make, Make::ArrayToBytes(_)),
        None => user_codecs::finds_bytes(name),
    }
}

/// Tells whether the codec with this Zarr v3 name is an array-to-array codec.
///
/// Returns `None` if only a finder knows the codec.
pub fn is_filter(name: &str) -> Option<bool> {
    let name = current_name(name);
    let line = CODECS.0.iter().chain(user_codecs::registrations()).find(|line| line.v3.contains(&name))?;
    Some(matches!(line.make, Make::ArrayToArray(_)))
}

impl Table {
    /// The names of Zarr v3: first its own names, then zarr-python's for numcodecs' codecs.
    pub fn v3_names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.0.iter().flat_map(|line| line.v3).copied().collect();
        names.sort_by_key(|name| name.starts_with("numcodecs."));
        names
    }

    /// The ids of Zarr v2.
    pub fn v2_names(&self) -> Vec<&'static str> {
        self.0.iter().filter_map(|line| line.v2).collect()
    }

    /// The codec with this Zarr v3 name and configuration, made to encode `array`.
    ///
    /// It comes from this table, or else from a user.
    pub fn from_v3(
        &self,
        name: &str,
        configuration: Option<&Value>,
        array: &Context<'_>,
    ) -> Result<AnyCodec> {
        let name = current_name(name);
        let mut lines = self.0.iter().chain(user_codecs::registrations());
        let Some(line) = lines.find(|line| line.v3.contains(&name)) else {
            let found = user_codecs::find(name, Config::V3(configuration), array);
            return found.unwrap_or_else(|| Err(unknown_codec_error(name, self.v3_names(), |line| line.v3)));
        };
        let takes_optional = match line.make {
            Make::BytesToBytes(_) => true,
            Make::ArrayToArray(_) | Make::ArrayToBytes(_) => {
                line.v3.iter().any(|name| matches!(*name, "transpose" | optional::NAME))
            }
        };
        if array.optional.is_some() && !takes_optional {
            return Err(optional::unsupported_codec_error(name));
        }
        match name.strip_prefix("numcodecs.") {
            Some(id) => line.make(Config::V2(&with_id(name, id, configuration)?), array),
            None => line.make(Config::V3(configuration), array),
        }
    }

    /// The codec of a Zarr v2 (numcodecs) object, `{"id": …, …}`, made to encode `array`.
    ///
    /// It comes from this table, or else from a user.
    pub fn from_v2(&self, config: &Value, array: &Context<'_>) -> Result<AnyCodec> {
        let Some(id) = config.get("id").and_then(Value::as_str) else {
            let why = format!("expected an object with a string \"id\", found {}", format_value(config));
            return Err(CodecError::config("?", why));
        };
        match self.0.iter().chain(user_codecs::registrations()).find(|line| line.v2 == Some(id)) {
            Some(line) => line.make(Config::V2(config), array),
            None => user_codecs::find(id, Config::V2(config), array)
                .unwrap_or_else(|| Err(unknown_codec_error(id, self.v2_names(), |line| line.v2.as_slice()))),
        }
    }
}

impl Registration {
    fn make(&self, config: Config<'_>, array: &Context<'_>) -> Result<AnyCodec> {
        Ok(match self.make {
            Make::ArrayToArray(make) => AnyCodec::ArrayToArray(make(config, array)?),
            Make::ArrayToBytes(make) => AnyCodec::ArrayToBytes(make(config, array)?),
            Make::BytesToBytes(make) => AnyCodec::BytesToBytes(make(config, array)?),
        })
    }
}

/// Why numcodecs' `pickle` is refused.
pub const NO_PICKLE: &str = "reading a pickle runs code that is in it. If you trust the source, read the array \
                             with zarr-python and write it again with another codec";

/// `names` returns the names of one line.
fn unknown_codec_error(
    name: &str,
    mut supported: Vec<&'static str>,
    names: fn(&'static Registration) -> &'static [&'static str],
) -> CodecError {
    supported.extend(user_codecs::registrations().flat_map(names));
    let mut supported = supported.join(", ");
    if name.trim_start_matches("numcodecs.") == "pickle" {
        supported.push_str("; ");
        supported.push_str(NO_PICKLE);
    }
    CodecError::Unknown { name: name.into(), supported }
}

/// The v2 object of a `numcodecs.*` codec: its configuration, plus the id if it is absent.
/// zarr-python accepts both forms.
fn with_id(name: &str, id: &str, configuration: Option<&Value>) -> Result<Value> {
    let mut object = match configuration {
        None => Map::new(),
        Some(Value::Object(fields)) => fields.clone(),
        Some(other) => return Err(not_an_object(name, other)),
    };
    object.entry("id").or_insert_with(|| id.into());
    Ok(Value::Object(object))
}

/// The v3 object of a numcodecs codec, which zarr-python configures as in v2.
pub(crate) fn numcodecs_v3(v2: Value) -> Option<Value> {
    let Value::Object(mut fields) = v2 else { return None };
    let id = fields.shift_remove("id")?;
    Some(json!({"name": format!("numcodecs.{}", id.as_str()?), "configuration": fields}))
}

/// Parses the `configuration` of v3 metadata.
pub(crate) fn configuration<T: DeserializeOwned>(name: &str, metadata: Option<&Value>) -> Result<T> {
    fields(name, metadata.cloned().unwrap_or_else(|| Value::Object(Map::new())))
}

/// Parses the fields of a v2 object other than its id, which must be `name`.
pub(crate) fn configuration_v2<T: DeserializeOwned>(name: &str, metadata: &Value) -> Result<T> {
    let Value::Object(object) = metadata else { return Err(not_an_object(name, metadata)) };
    let mut object = object.clone();
    match object.shift_remove("id") {
        Some(Value::String(id)) if id == name => fields(name, Value::Object(object)),
        id => {
            let why =
                format!("\"id\" must be {name:?}, found {}", id.as_ref().map_or("none".into(), format_value));
            Err(CodecError::Config { name: name.into(), why })
        }
    }
}

/// A configuration without fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFields {}

fn fields<T: DeserializeOwned>(name: &str, object: Value) -> Result<T> {
    // Derived implementations would also take an array, field by field.
    if !object.is_object() {
        return Err(not_an_object(name, &object));
    }
    // serde's message names unknown and missing fields, but not a field of the wrong type. The text
    // shows that field.
    let text = format_value(&object);
    T::deserialize(object).map_err(|error| CodecError::config(name, format!("{error} in {text}")))
}

fn not_an_object(name: &str, found: &Value) -> CodecError {
    CodecError::config(name, format!("expected an object, found {}", format_value(found)))
}

/// A metadata value as text for a message, shortened if it is too long.
fn format_value(value: &Value) -> String {
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

    fn from_v3(name: &str, configuration: Option<&Value>, numpy: &str) -> Result<AnyCodec> {
        CODECS.from_v3(name, configuration, &Context::of_elements(numpy.parse().unwrap()))
    }

    fn from_v2(config: &Value) -> Result<AnyCodec> {
        CODECS.from_v2(config, &Context::of_elements("<f4".parse().unwrap()))
    }

    fn v2_of(name: &str, configuration: Value) -> Option<Value> {
        from_v3(name, Some(&configuration), "<f4").unwrap().codec().to_v2()
    }

    #[test]
    fn old_names_mean_the_codecs_of_today() {
        let array = Context { shape: vec![1, 4].into(), ..Context::of_elements("<f4".parse().unwrap()) };
        let settings = json!({"endian": "little"});
        let found = CODECS.from_v3("endian", Some(&settings), &array).unwrap().codec().to_v3();
        assert_eq!(found, Some(json!({"name": "bytes", "configuration": settings})));
        for (old, current) in OLD_NAMES {
            assert!(CODECS.v3_names().contains(&current) && !CODECS.v3_names().contains(&old), "{old}");
            assert_eq!(makes_bytes(old), makes_bytes(current));
            let made = |name| CODECS.from_v3(name, Some(&json!({"keepbits": 3, "level": 1})), &array);
            let (old, current) = (made(old), made(current));
            assert_eq!(old.map_err(|e| e.to_string()).is_ok(), current.is_ok());
        }
    }

    #[test]
    fn no_name_is_there_twice() {
        for names in [CODECS.v3_names(), CODECS.v2_names()] {
            let mut once = names.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), names.len());
        }
    }

    #[test]
    fn every_listed_name_is_known_and_no_other() {
        for name in CODECS.v3_names() {
            // Some names need fields, but none is unknown.
            assert!(!matches!(from_v3(name, None, "<f4"), Err(CodecError::Unknown { .. })), "{name}");
        }
        for id in CODECS.v2_names() {
            assert!(!matches!(from_v2(&json!({"id": id})), Err(CodecError::Unknown { .. })), "{id}");
        }
        for name in
            ["sharding_indexed", "vlen-array", "numcodecs.pickle", "numcodecs.", "zlib", "lz4", "end", ""]
        {
            let message = from_v3(name, None, "<f4").unwrap_err().to_string();
            assert!(message.starts_with(&format!("codec {name:?} is not supported")), "{message}");
            assert!(message.contains("bytes, packbits, transpose"), "{message}");
        }
        let pickle = from_v2(&json!({"id": "pickle", "protocol": 5})).unwrap_err().to_string();
        assert!(pickle.contains("a pickle runs code"), "{pickle}");
        for id in ["json3", "pickle", "cast_value", "bytes", ""] {
            let message = from_v2(&json!({"id": id})).unwrap_err().to_string();
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
    fn kinds() {
        let kind = |name: &str, configuration: Value, numpy: &str| match from_v3(
            name,
            Some(&configuration),
            numpy,
        ) {
            Ok(AnyCodec::ArrayToArray(codec)) => ("array to array", codec.to_v3().unwrap()),
            Ok(AnyCodec::ArrayToBytes(codec)) => ("array to bytes", codec.to_v3().unwrap()),
            Ok(AnyCodec::BytesToBytes(codec)) => ("bytes to bytes", codec.to_v3().unwrap()),
            Err(error) => panic!("{error}"),
        };
        let (transpose, endian) = (json!({"order": [0]}), json!({"endian": "big"}));
        let read = |name: &str, configuration: &Value| json!({"name": name, "configuration": configuration});
        assert_eq!(
            kind("transpose", transpose.clone(), "<f4"),
            ("array to array", read("transpose", &transpose))
        );
        assert_eq!(kind("bytes", endian.clone(), "<f4"), ("array to bytes", read("bytes", &endian)));
        assert_eq!(kind("vlen-utf8", json!({}), "|V16"), ("array to bytes", read("vlen-utf8", &json!({}))));
        assert_eq!(kind("crc32c", json!({}), "<f4"), ("bytes to bytes", json!({"name": "crc32c"})));
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
            assert_eq!(from_v2(&v2).unwrap().codec().to_v2().unwrap(), v2);
            let v3 = codec.to_v3().unwrap();
            let read = from_v3(v3["name"].as_str().unwrap(), v3.get("configuration"), "<f4").unwrap();
            assert!(matches!(read, AnyCodec::BytesToBytes(_)), "{read:?}");
            assert_eq!(read.codec().to_v3().unwrap(), v3);
        }
    }

    #[test]
    fn metadata_of_the_wrong_form() {
        let message = |config: Value| from_v2(&config).unwrap_err().to_string();
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
        assert!(from_v3("numcodecs.zlib", Some(&json!({"id": "lz4"})), "<f4").is_err());
        assert!(from_v3("numcodecs.zlib", Some(&json!([1])), "<f4").is_err());
        assert!(from_v3("gzip", Some(&json!([1])), "<f4").is_err());
    }
}
