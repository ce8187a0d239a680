//! `sharding_indexed`: an array-to-bytes codec that cuts a chunk (now a shard) into inner chunks.
//!
//! It stores an index of where each inner chunk is.
//!
//! * Specification:
//!   <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html>
//!
//! ```json
//! {"name": "sharding_indexed", "configuration": {"chunk_shape": [32, 32],
//!  "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd", "configuration": {"level": 0, "checksum": false}}],
//!  "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}], "index_location": "end"}}
//! ```
//!
//! For the engine it is not a codec but a level of chunk locations. `chunk_shape` counts the axes
//! at the codec's place in the list, after earlier transpositions; the engine's shapes count the
//! axes of the array. Inner codecs may again end in `sharding_indexed`: shards in shards.

use super::codecs::{Chain, Serializer, normalize as normalized_list};
use super::extension::Extension;
use crate::error::{Problem, invalid, unexpected_value};
use crate::json::Json;
use crate::metadata::sizes;
use crate::spec::IndexLocation;
use crate::vlen::{self, Element};
use crate::{dtypes, optional};
use hyperslab_array::{Dims, IndexEncoding, ShardLevel, Sharding};
use hyperslab_codec::{ByteOrder, BytesCodec, ChunkCodecs, Context};

pub(super) const NAME: &str = "sharding_indexed";

const MEMBERS: [&str; 4] = ["chunk_shape", "codecs", "index_codecs", "index_location"];

/// Shards nested more deeply are refused before anything is made from them.
const DEEPEST: usize = 8;

/// The array of an index of inner chunks, `counts` per axis. Its last axis holds offset and length.
fn index_array(counts: impl Iterator<Item = u64>) -> Result<Context<'static>, Problem> {
    let shape: Vec<u64> = counts.chain([2]).collect();
    let absent = vec![0xff; size_of::<u64>()];
    let dtype = dtypes::from_v3(&"uint64".into())?;
    Ok(Context {
        dtype,
        vlen: None,
        optional: None,
        shape: shape.into(),
        fortran: false,
        by_value: true,
        fill: absent.into(),
    })
}

/// Returns `true` if this is the metadata of a sharding codec.
pub(super) fn is_sharding(json: &Json) -> bool {
    json.as_str().or_else(|| json.get("name")?.as_str()) == Some(NAME)
}

/// The parsed codecs of an array.
#[derive(Debug)]
pub(super) struct Codecs {
    /// Elements of an innermost chunk per axis of the array.
    pub(super) chunk: Dims,
    /// The codecs of an innermost chunk.
    pub(super) codecs: ChunkCodecs,
    pub(super) shards: Option<Shards>,
    /// The codecs shown for the array. As in zarr-python, its [`chunks`](crate::Array::chunks) go
    /// through them.
    pub(super) filters: Vec<Json>,
    pub(super) serializer: Option<Json>,
    pub(super) compressors: Vec<Json>,
}

/// The arrangement of chunks in shards.
#[derive(Clone, Debug)]
pub(crate) struct Shards {
    pub(crate) sharding: Sharding,
    /// The codecs of the innermost chunks, as in metadata.
    pub(crate) chunk_codecs: Vec<Json>,
}

impl Codecs {
    /// Parses the codecs of chunks (which may turn out to be shards) like `array`.
    pub(super) fn parse(json: &Json, array: Context<'_>) -> Result<Self, Problem> {
        let shape = array.shape.clone();
        let chain = Chain::parse("codecs", json, (0..shape.len()).collect(), array)?;
        let own = |chain: &Chain<'_>| {
            (chain.filters().to_vec(), chain.serializer_json().cloned(), chain.compressors().to_vec())
        };
        let mut shown = own(&chain);
        let sharding = match chain.serializer.clone() {
            Serializer::Codec(serializer) => {
                let (filters, serializer_json, compressors) = shown;
                return Ok(Codecs {
                    chunk: shape.as_ref().into(),
                    codecs: chain.complete(serializer)?,
                    shards: None,
                    filters,
                    serializer: serializer_json,
                    compressors,
                });
            }
            Serializer::Sharding(sharding) => sharding,
        };
        let alone = chain.filters().is_empty() && chain.compressors().is_empty();
        let mut levels = Vec::new();
        let inner = Inner::parse(&sharding, &chain, &shape, &mut levels, &mut |inner| {
            if alone {
                shown = own(inner);
            }
        })?;
        let (filters, serializer, compressors) = shown;
        let sharding = Sharding::new(levels).map_err(|why| problem(&format!("codecs: \"{NAME}\""), why))?;
        Ok(Codecs {
            chunk: inner.chunk,
            codecs: inner.codecs,
            shards: Some(Shards { sharding, chunk_codecs: inner.listed }),
            filters,
            serializer,
            compressors,
        })
    }
}

/// The innermost chunks.
struct Inner {
    chunk: Dims,
    codecs: ChunkCodecs,
    /// The codecs, as in metadata.
    listed: Vec<Json>,
}

impl Inner {
    /// Parses a sharding codec, which is the serializer of `around`, for shards of `shape`.
    ///
    /// Adds its level and the levels in it. `visit` gets the first list of inner codecs.
    fn parse(
        sharding: &Extension<'_>,
        around: &Chain<'_>,
        shape: &[u64],
        levels: &mut Vec<ShardLevel>,
        visit: &mut dyn FnMut(&Chain<'_>),
    ) -> Result<Self, Problem> {
        let field = format!("{}: \"{NAME}\"", sharding.field);
        if levels.len() >= DEEPEST {
            return invalid!("{field}: shards are nested more than {DEEPEST} deep");
        }
        sharding.allow_only(&MEMBERS)?;
        let order = &around.arrays.order;
        let inner = inner_shape(&field, sharding.require("chunk_shape")?, order, shape)?;
        let index = index(&field, sharding, order, shape, &inner)?;
        let at_start = location(&field, sharding)? == IndexLocation::Start;
        let level = ShardLevel::new(shape, &inner, order, index, at_start, around.bytes_to_bytes.clone());
        levels.push(level.map_err(|why| problem(&field, why))?);

        let inside = format!("{field}: codecs");
        let axes: Vec<u64> = order.iter().filter_map(|axis| inner.get(*axis).copied()).collect();
        let array = Context { shape: axes.into(), ..around.arrays.array.clone() };
        let chain = Chain::parse(&inside, sharding.require("codecs")?, order.clone(), array)?;
        if levels.len() == 1 {
            visit(&chain);
        }
        let listed =
            [chain.filters(), chain.serializer_json().map_or(&[], std::slice::from_ref), chain.compressors()];
        match chain.serializer.clone() {
            Serializer::Sharding(deeper) => Inner::parse(&deeper, &chain, &inner, levels, visit),
            Serializer::Codec(serializer) => {
                Ok(Inner { chunk: inner, listed: listed.concat(), codecs: chain.complete(serializer)? })
            }
        }
    }
}

/// Refuses shards that are nested too deeply, even with other codecs between them.
pub(super) fn check_depth(json: &Json) -> Result<(), Problem> {
    fn depth(json: &Json) -> usize {
        let inner = json.get("configuration").and_then(|configuration| configuration.get("codecs"));
        let inner = inner.and_then(Json::as_array).unwrap_or_default();
        usize::from(is_sharding(json)) + inner.iter().map(depth).max().unwrap_or(0)
    }
    match depth(json) {
        0..=DEEPEST => Ok(()),
        _ => invalid!("codecs: \"{NAME}\": shards are nested more than {DEEPEST} deep"),
    }
}

/// Reads `chunk_shape`, per axis of the array.
fn inner_shape(field: &str, json: &Json, order: &[usize], shape: &[u64]) -> Result<Dims, Problem> {
    let found = sizes(&format!("{field}: chunk_shape"), json)?;
    if found.len() != order.len() {
        return invalid!(
            "{field}: chunk_shape: expected {} axes as in shape, found {}",
            order.len(),
            found.len()
        );
    }
    if let Some(axis) = found.iter().position(|size| *size == 0) {
        return invalid!("{field}: chunk_shape: axis {axis}: expected a positive integer, found 0");
    }
    let mut inner: Dims = shape.into();
    let mut uneven = false;
    for (axis, size) in order.iter().zip(&found) {
        if let Some(inner) = inner.get_mut(*axis) {
            uneven |= *inner % size != 0;
            *inner = *size;
        }
    }
    if uneven {
        let here: Vec<u64> = order.iter().filter_map(|axis| shape.get(*axis).copied()).collect();
        return invalid!(
            "{field}: chunk_shape: inner chunks of shape {:?} do not divide shards of shape {here:?} evenly",
            found.as_slice()
        );
    }
    Ok(inner)
}

/// The encoding of the index.
fn index(
    field: &str,
    sharding: &Extension<'_>,
    order: &[usize],
    shape: &[u64],
    inner: &[u64],
) -> Result<IndexEncoding, Problem> {
    let counts: Vec<u64> =
        order.iter().filter_map(|axis| shape.get(*axis)?.checked_div(*inner.get(*axis)?)).collect();
    let within = format!("{field}: index_codecs");
    let array = index_array(counts.iter().copied())?;
    let axes = (0..array.shape.len()).collect();
    let chain = Chain::parse(&within, sharding.require("index_codecs")?, axes, array)?;
    match (chain.serializer.clone(), chain.arrays.first()) {
        (Serializer::Codec(codec), None) if codec.byte_order().is_some() => {
            let codecs = chain.complete(codec)?;
            IndexEncoding::new(&counts, &codecs.order, codecs.stored, codecs.codecs)
                .map_err(|why| problem(&within, why))
        }
        (serializer, first) => {
            let name = first.map_or(serializer.name(), |codec| codec.name());
            invalid!("{within}: \"{name}\" has no fixed size; expected \"bytes\"")
        }
    }
}

fn location(field: &str, sharding: &Extension<'_>) -> Result<IndexLocation, Problem> {
    match sharding.get("index_location").map(|json| (json, json.as_str())) {
        None | Some((_, Some("end"))) => Ok(IndexLocation::End),
        Some((_, Some("start"))) => Ok(IndexLocation::Start),
        Some((json, _)) => {
            invalid!("{field}: index_location: expected \"start\" or \"end\", found {}", json.brief())
        }
    }
}

fn problem(field: &str, why: String) -> Problem {
    Problem::Invalid(format!("{field}: {why}"))
}

/// A sharding codec of chunks like `array`, with every setting spelled out.
///
/// Missing settings get zarr-python's defaults.
pub(super) fn normalize(
    sharding: &Extension<'_>,
    array: &Context<'_>,
    depth: usize,
) -> Result<Json, Problem> {
    let field = format!("{}: \"{NAME}\"", sharding.field);
    if depth >= DEEPEST {
        return invalid!("{field}: shards are nested more than {DEEPEST} deep");
    }
    sharding.allow_only(&MEMBERS)?;
    let list = |member: &str, array: Context<'_>| -> Result<Option<Json>, Problem> {
        let field = format!("{field}: {member}");
        match sharding.get(member) {
            None => Ok(None),
            Some(Json::Array(list)) => {
                normalized_list(&field, list, array, depth + 1).map(Json::Array).map(Some)
            }
            Some(other) => unexpected_value(&field, "a list", other),
        }
    };
    let shape = sharding.require("chunk_shape")?;
    let inner = sizes(&format!("{field}: chunk_shape"), shape)?;
    let counts = array.shape.iter().zip(&inner).map(|(shard, chunk)| shard.checked_div(*chunk).unwrap_or(0));
    let index_codecs = list("index_codecs", index_array(counts)?)?.unwrap_or_else(default_index_codecs);
    let inner = Context { shape: inner.to_vec().into(), ..array.clone() };
    let serializer = match Element::of(array) {
        Element::Vlen(kind) => vlen::v3_codec(kind),
        Element::Optional(value) => optional::v3_codec(value),
        Element::Fixed(dtype) => {
            let endian = (dtype.size() > 1).then_some(ByteOrder::Little);
            Json::from(&BytesCodec::metadata(endian))
        }
    };
    let codecs = list("codecs", inner)?.unwrap_or_else(|| Json::Array(vec![serializer]));
    Ok(codec(shape.clone(), codecs, index_codecs, location(&field, sharding)?))
}

/// The sharding codec for inner chunks of shape `chunk` and codecs `codecs`.
pub(super) fn default_codec(chunk: Json, codecs: Vec<Json>, location: IndexLocation) -> Json {
    codec(chunk, Json::Array(codecs), default_index_codecs(), location)
}

/// Little-endian, with a checksum, as the specification recommends.
fn default_index_codecs() -> Json {
    let bytes = BytesCodec::metadata(Some(ByteOrder::Little));
    Json::Array(vec![Json::from(&bytes), Json::from([("name", "crc32c".into())])])
}

fn codec(chunk: Json, codecs: Json, index_codecs: Json, location: IndexLocation) -> Json {
    let location = match location {
        IndexLocation::End => "end",
        IndexLocation::Start => "start",
    };
    let configuration = [
        ("chunk_shape", chunk),
        ("codecs", codecs),
        ("index_codecs", index_codecs),
        ("index_location", location.into()),
    ];
    Json::named(NAME, configuration)
}

#[cfg(test)]
#[path = "sharding_tests.rs"]
mod tests;
