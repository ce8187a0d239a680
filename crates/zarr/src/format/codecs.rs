//! A list of codecs in v3 metadata: any number of transpositions, one codec from array to bytes,
//! any number of compressors and checksums.

use super::extension::Extension;
use super::sharding;
use crate::error::{Problem, invalid};
use crate::json::Json;
use crate::metadata::codec_problem;
use crate::vlen::{self, Element};
use hyperslab_codec::registry::{self, Parsed};
use hyperslab_codec::{ByteOrder, BytesCodec, Codec, VlenKind};
use std::sync::Arc;

/// The most codecs of a list. Arrays have a handful; a list of 100 000 takes seconds to make sense
/// of, and as many passes over each chunk.
pub(super) const MAX_CODECS: usize = registry::MOST_CODECS;

/// Refuses lists that no writer makes.
pub(super) fn check_count(field: &str, list: &[Json]) -> Result<(), Problem> {
    match list.len() {
        0..=MAX_CODECS => Ok(()),
        found => Err(Problem::Unsupported(format!(
            "{field}: at most {MAX_CODECS} codecs are supported, found {found}"
        ))),
    }
}

/// A list of codecs.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    /// `order[k]`: the axis of the array that is the k-th of what the serializer gets, slowest
    /// first.
    pub(super) order: Vec<usize>,
    pub(super) serializer: Serializer<'a>,
    /// What the bytes go through, in the order of encoding.
    pub(super) bytes_to_bytes: Vec<Arc<dyn Codec>>,
    list: &'a [Json],
    /// Where in `list` the serializer is.
    at: usize,
}

/// A codec from array to bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Serializer<'a> {
    Bytes(BytesCodec),
    /// `vlen-utf8`, `vlen-bytes`.
    Vlen(VlenKind),
    /// `sharding_indexed`, whose configuration is another list, and more.
    Sharding(Extension<'a>),
}

impl<'a> Chain<'a> {
    /// Parses the list at `field` (for messages). It encodes what has the axes `order` of the
    /// array, of elements `element`.
    pub(super) fn parse(
        field: &'a str,
        json: &'a Json,
        order: &[usize],
        element: Element,
    ) -> Result<Self, Problem> {
        let Some(list) = json.as_array() else {
            return invalid(format!("{field}: expected a list, found {}", json.brief()));
        };
        check_count(field, list)?;
        let mut order = order.to_vec();
        let (mut serializer, mut bytes_to_bytes) = (None, Vec::new());
        for (at, json) in list.iter().enumerate() {
            let extension = Extension::parse(field, json)?;
            let name = extension.name;
            if name == sharding::NAME {
                if serializer.replace((Serializer::Sharding(extension), at)).is_some() {
                    return several(field, name);
                }
                continue;
            }
            if let Some(kind) = vlen::of_v3_codec(&extension)? {
                if serializer.replace((Serializer::Vlen(kind), at)).is_some() {
                    return several(field, name);
                }
                continue;
            }
            match (codec(&extension, element.codec_size())?, serializer) {
                (Parsed::Transpose(transpose), None) => {
                    let composed = transpose.order.iter().map(|axis| order.get(*axis).copied());
                    order = match composed.collect::<Option<Vec<usize>>>() {
                        Some(composed) if composed.len() == order.len() => composed,
                        _ => {
                            return invalid(format!(
                                "{field}: \"{name}\": expected an order of {} axes, found {:?}",
                                order.len(),
                                transpose.order
                            ));
                        }
                    };
                }
                (Parsed::Transpose(_), Some((found, _))) => {
                    return invalid(format!(
                        "{field}: \"{name}\" works on arrays; it cannot come after \"{}\"",
                        found.name()
                    ));
                }
                (Parsed::Bytes(_), Some(_)) => return several(field, name),
                (Parsed::Bytes(codec), None) => serializer = Some((Serializer::Bytes(codec), at)),
                (Parsed::Compressor(_), None) => {
                    return invalid(format!(
                        "{field}: \"{name}\" works on bytes; it must come after \"bytes\""
                    ));
                }
                (Parsed::Compressor(codec), Some(_)) => bytes_to_bytes.push(codec),
            }
        }
        let Some((serializer, at)) = serializer else {
            return invalid(format!(
                "{field}: expected a codec from array to bytes (\"{}\", \"{}\"), found none",
                element.serializer(),
                sharding::NAME
            ));
        };
        Ok(Chain { order, serializer, bytes_to_bytes, list, at })
    }

    /// The codecs before the serializer.
    pub(super) fn filters(&self) -> &'a [Json] {
        self.list.get(..self.at).unwrap_or_default()
    }

    /// The codec from array to bytes.
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
            Serializer::Bytes(_) => "bytes",
            Serializer::Vlen(kind) => kind.codec_name(),
            Serializer::Sharding(_) => sharding::NAME,
        }
    }
}

fn several<T>(field: &str, name: &str) -> Result<T, Problem> {
    invalid(format!("{field}: \"{name}\" is there besides another codec from array to bytes"))
}

/// The byte order in which a serializer, which is none that makes shards, stores elements. Refuses
/// one that is made for others.
pub(super) fn byte_order(
    field: &str,
    serializer: Serializer<'_>,
    element: Element,
) -> Result<ByteOrder, Problem> {
    match (serializer, element) {
        (Serializer::Bytes(codec), Element::Fixed(dtype)) => match codec.endian {
            Some(order) => Ok(order),
            None if dtype.has_order() => {
                invalid(format!("{field}: \"bytes\" needs \"endian\" for elements of type {dtype}"))
            }
            None => Ok(ByteOrder::NATIVE),
        },
        (Serializer::Vlen(found), Element::Vlen(kind)) if found == kind => Ok(ByteOrder::NATIVE),
        (found, element) => invalid(format!(
            "{field}: expected \"{}\" for elements of type {}, found \"{}\"",
            element.serializer(),
            element.name(),
            found.name()
        )),
    }
}

fn codec(extension: &Extension<'_>, element: usize) -> Result<Parsed, Problem> {
    let Extension { field, name, configuration } = *extension;
    let configuration = match configuration.map(Json::to_serde) {
        None => None,
        Some(Ok(configuration)) => Some(configuration),
        Some(Err(error)) => return invalid(format!("{field}: \"{name}\": {}", error.why)),
    };
    registry::from_v3(name, configuration.as_ref(), element).map_err(|error| codec_problem(field, error))
}

/// A codec with every setting spelled out, so that what a default means cannot change later.
/// `depth`: of shards around it.
pub(super) fn normalized(field: &str, json: &Json, element: Element, depth: usize) -> Result<Json, Problem> {
    let extension = Extension::parse(field, json)?;
    if let Some(kind) = vlen::of_v3_codec(&extension)? {
        return Ok(vlen::v3_codec(kind));
    }
    if extension.name == sharding::NAME {
        return sharding::normalized(&extension, element, depth);
    }
    let value = match codec(&extension, element.codec_size())? {
        Parsed::Transpose(codec) => codec.to_v3(),
        Parsed::Bytes(codec) => codec.to_v3(),
        Parsed::Compressor(codec) => match codec.to_v3() {
            Some(value) => value,
            None => return invalid(format!("{field}: Zarr v3 has no codec \"{}\"", codec.name())),
        },
    };
    Ok(Json::from(&value))
}
