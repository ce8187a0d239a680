//! A list of codecs in v3 metadata.
//!
//! It has any number of array-to-array codecs, one array-to-bytes codec, and any number of
//! compressors and checksums.

use super::extension::Extension;
use super::sharding;
use super::whole_shard::WholeShard;
use crate::error::{Problem, invalid, unexpected_value, unsupported};
use crate::json::Json;
use crate::metadata::codec_problem;
use crate::vlen::Element;
use hyperslab_codec::registry;
use hyperslab_codec::{
    AnyCodec, ArrayCodecs, ArrayToBytes, ByteOrder, ChunkCodecs, Codec, Context, DataType,
};
use serde_json::Value;
use std::sync::Arc;

/// The most codecs in a list. Arrays have a handful. A list of 100 000 takes seconds to parse, and
/// as many passes over each chunk.
pub(super) const MAX_CODECS: usize = registry::MOST_CODECS;

/// Refuses lists that are longer than any writer makes.
pub(super) fn check_count(field: &str, list: &[Json]) -> Result<(), Problem> {
    match list.len() {
        0..=MAX_CODECS => Ok(()),
        found => unsupported!("{field}: at most {MAX_CODECS} codecs are supported, found {found}"),
    }
}

/// A list of codecs.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    /// The array-to-array codecs.
    pub(super) arrays: ArrayCodecs<'a>,
    pub(super) serializer: Serializer<'a>,
    /// The bytes-to-bytes codecs, in the order of encoding.
    pub(super) bytes_to_bytes: Vec<Arc<dyn Codec>>,
    field: &'a str,
    list: &'a [Json],
    /// The index of the serializer in `list`.
    at: usize,
}

/// An array-to-bytes codec.
#[derive(Clone, Debug)]
pub(super) enum Serializer<'a> {
    Codec(Arc<dyn ArrayToBytes>),
    /// `sharding_indexed`, whose configuration contains another list. After codecs that change the
    /// array it is an ordinary codec instead.
    Sharding(Extension<'a>),
}

impl<'a> Chain<'a> {
    /// Parses the list at `field` (for messages), which encodes `array`.
    ///
    /// `order` gives the axes of `array` as axes of the array that users see.
    pub(super) fn parse(
        field: &'a str,
        json: &'a Json,
        order: Vec<usize>,
        array: Context<'a>,
    ) -> Result<Self, Problem> {
        let Some(list) = json.as_array() else {
            return unexpected_value(field, "a list", json);
        };
        check_count(field, list)?;
        let mut arrays = ArrayCodecs::new(order, array);
        let (mut serializer, mut bytes_to_bytes): (Option<(Serializer<'a>, usize)>, _) = (None, Vec::new());
        for (at, json) in list.iter().enumerate() {
            let extension = Extension::parse(field, json)?;
            let name = extension.name;
            let found = if name == sharding::NAME && arrays.first().is_some() {
                Serializer::Codec(Arc::new(WholeShard::new(json, &arrays.array)?))
            } else if name == sharding::NAME {
                Serializer::Sharding(extension)
            } else {
                match (codec(&extension, &arrays.array)?, &serializer) {
                    (AnyCodec::ArrayToArray(codec), None) => {
                        arrays.push(codec).map_err(|error| codec_problem(field, error))?;
                        continue;
                    }
                    (AnyCodec::ArrayToArray(_), Some((found, _))) => {
                        return invalid!(
                            "{field}: \"{name}\" works on arrays; it cannot come after \"{}\"",
                            found.name()
                        );
                    }
                    (AnyCodec::BytesToBytes(_), None) => {
                        return invalid!("{field}: \"{name}\" works on bytes; it must come after \"bytes\"");
                    }
                    (AnyCodec::BytesToBytes(codec), Some(_)) => {
                        bytes_to_bytes.push(codec);
                        continue;
                    }
                    (AnyCodec::ArrayToBytes(codec), _) => Serializer::Codec(codec),
                }
            };
            if let Some((other, _)) = serializer.replace((found, at)) {
                let other = other.name();
                return invalid!(
                    "{field}: expected one codec from array to bytes, found \"{other}\" and \"{name}\""
                );
            }
        }
        let Some((serializer, at)) = serializer else {
            return invalid!(
                "{field}: expected a codec from array to bytes (\"{}\", \"{}\"), found none",
                Element::of(&arrays.array).serializer(),
                sharding::NAME
            );
        };
        Ok(Chain { arrays, serializer, bytes_to_bytes, field, list, at })
    }

    /// The codecs of a chunk, with this array-to-bytes codec.
    pub(super) fn complete(self, serializer: Arc<dyn ArrayToBytes>) -> Result<ChunkCodecs, Problem> {
        let codecs = self.arrays.complete(serializer, self.bytes_to_bytes);
        codecs.map_err(|error| codec_problem(self.field, error))
    }

    /// The codecs before the serializer.
    pub(super) fn filters(&self) -> &'a [Json] {
        self.list.get(..self.at).unwrap_or_default()
    }

    /// The array-to-bytes codec.
    pub(super) fn serializer_json(&self) -> Option<&'a Json> {
        self.list.get(self.at)
    }

    /// The codecs after the serializer.
    pub(super) fn compressors(&self) -> &'a [Json] {
        self.list.get(self.at + 1..).unwrap_or_default()
    }
}

impl Serializer<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Serializer::Codec(codec) => codec.name(),
            Serializer::Sharding(_) => sharding::NAME,
        }
    }
}

/// The codec of this extension, made to encode `array`.
fn codec(extension: &Extension<'_>, array: &Context<'_>) -> Result<AnyCodec, Problem> {
    let configuration = configuration(extension)?;
    let codec = registry::CODECS.from_v3(extension.name, configuration.as_ref(), array);
    codec.map_err(|error| codec_problem(extension.field, error))
}

fn configuration(extension: &Extension<'_>) -> Result<Option<Value>, Problem> {
    let Extension { field, name, configuration } = *extension;
    match configuration.map(Json::to_serde).transpose() {
        Ok(configuration) => Ok(configuration),
        Err(error) => invalid!("{field}: \"{name}\": {}", error.why),
    }
}

/// Like [`codec`], for a new array.
///
/// Element types in the configuration of a numcodecs codec get the machine's byte order. The codec
/// gets elements in that order, and zarr-python reads their bytes as the type in the configuration.
fn new_codec(extension: &Extension<'_>, array: &Context<'_>) -> Result<AnyCodec, Problem> {
    const TYPES: [&str; 4] = ["dtype", "astype", "encode_dtype", "decode_dtype"];
    let mut configuration = configuration(extension)?;
    if let Some(Value::Object(fields)) = &mut configuration
        && extension.name.starts_with("numcodecs.")
    {
        for name in TYPES {
            let Some(value) = fields.get_mut(name) else { continue };
            // The codec itself refuses other names.
            if let Some(dtype) = value.as_str().and_then(|text| text.parse::<DataType>().ok()) {
                *value = dtype.with_order(ByteOrder::NATIVE).numpy().into();
            }
        }
    }
    let codec = registry::CODECS.from_v3(extension.name, configuration.as_ref(), array);
    codec.map_err(|error| codec_problem(extension.field, error))
}

/// A list of codecs that encode `array`, with every setting spelled out.
///
/// A later change of a default then does not change its meaning. `depth` is the number of shards
/// around the list.
pub(super) fn normalize(
    field: &str,
    list: &[Json],
    array: Context<'_>,
    depth: usize,
) -> Result<Vec<Json>, Problem> {
    // The byte order of the user's type says nothing about the array.
    let array = Context { dtype: array.dtype.with_order(ByteOrder::NATIVE), ..array };
    let mut arrays = ArrayCodecs::new((0..array.shape.len()).collect(), array);
    let one = |json: &Json| {
        let extension = Extension::parse(field, json)?;
        if extension.name == sharding::NAME {
            return sharding::normalize(&extension, &arrays.array, depth);
        }
        let codec = new_codec(&extension, &arrays.array)?;
        if let AnyCodec::ArrayToArray(codec) = &codec {
            arrays.push(codec.clone()).map_err(|error| codec_problem(field, error))?;
        }
        let codec = codec.codec();
        codec.check_encoder().map_err(|error| codec_problem(field, error))?;
        match codec.to_v3() {
            Some(value) => Ok(Json::from(&value)),
            None => invalid!("{field}: Zarr v3 has no codec \"{}\"", codec.name()),
        }
    };
    list.iter().map(one).collect()
}
