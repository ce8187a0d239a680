//! Zarr v3: `zarr.json` (<https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>).
//!
//! ```json
//! {"shape": [4, 5], "data_type": "float32",
//!  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}},
//!  "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0.0,
//!  "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd", "configuration": {"level": 0, "checksum": false}}],
//!  "attributes": {}, "dimension_names": ["y", null], "zarr_format": 3, "node_type": "array", "storage_transformers": []}
//! ```
//!
//! Everything unknown is refused by name, except fields whose value is an object with
//! `"must_understand": false`.

use super::codecs::normalize;
use super::extension::Extension;
use super::sharding::{self, Codecs};
use crate::attributes::Attributes;
use crate::chunk_grid::GridMetadata;
use crate::error::{Problem, invalid, unexpected_value, unsupported};
use crate::json::Json;
use crate::keys::KeyPattern;
use crate::metadata::{Metadata, Rectilinear, require, sizes};
use crate::spec::{ArraySpec, Choice};
use crate::structure::{self, Structure};
use crate::vlen::{self, Element};
use crate::{Format, KeyEncoding, dtypes, fill, optional};
use hyperslab_array::{ChunkEncoding, MakeEncoding, ShardLevel};
use hyperslab_codec::{ByteOrder, BytesCodec, Transpose};
use std::sync::Arc;

const ARRAY_FIELDS: [&str; 11] = [
    "zarr_format",
    "node_type",
    "data_type",
    "shape",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "attributes",
    "storage_transformers",
    "dimension_names",
];

/// `consolidated_metadata` is not in the specification. zarr-python writes it, with
/// `"must_understand": false` or as `null`.
const GROUP_FIELDS: [&str; 4] = ["zarr_format", "node_type", "attributes", "consolidated_metadata"];

/// Returns `true` if a `zarr.json` describes an array, `false` for a group.
pub(crate) fn is_array(document: &Json) -> Result<bool, Problem> {
    if !matches!(document, Json::Object(_)) {
        return invalid!("expected an object, found {}", document.brief());
    }
    match require(document, "zarr_format")? {
        format if format.as_integer() == Some(3u8) => {}
        other => return unexpected_value("zarr_format", "3", other),
    }
    match require(document, "node_type")? {
        Json::String(kind) if kind == "array" => Ok(true),
        Json::String(kind) if kind == "group" => Ok(false),
        other => unexpected_value("node_type", "\"array\" or \"group\"", other),
    }
}

/// Checks the `zarr.json` of a group and returns the group's attributes.
pub(crate) fn parse_group(document: &Arc<Json>) -> Result<Attributes, Problem> {
    if is_array(document)? {
        return invalid!("node_type: expected \"group\", found \"array\"");
    }
    known_fields(document, &GROUP_FIELDS)?;
    Attributes::Within(document.clone()).checked()
}

fn known_fields(document: &Json, known: &[&str]) -> Result<(), Problem> {
    for (name, value) in document.as_object().unwrap_or_default() {
        if !known.contains(&name.as_str()) && value.get("must_understand") != Some(&Json::Bool(false)) {
            return unsupported!(
                "field {} is unknown, and not marked \"must_understand\": false",
                Json::from(name.as_str()).brief()
            );
        }
    }
    Ok(())
}

/// Parses the `zarr.json` of an array.
pub(crate) fn parse(document: &Arc<Json>) -> Result<Metadata, Problem> {
    if !is_array(document)? {
        return invalid!("node_type: expected \"array\", found \"group\"");
    }
    known_fields(document, &ARRAY_FIELDS)?;
    let shape = sizes("shape", require(document, "shape")?)?;
    let data_type = require(document, "data_type")?;
    let stored = document.get("codecs").map_or(ByteOrder::Little, structure::stored_order);
    let structure = Structure::from_v3(data_type, stored)?.map(Arc::new);
    let element = match &structure {
        Some(structure) => Element::Fixed(structure.engine_type()),
        None => Element::from_v3(data_type)?,
    };
    let grid = GridMetadata::parse(require(document, "chunk_grid")?, &shape)?;
    let keys = KeyEncoding::parse(require(document, "chunk_key_encoding")?, 0)?;
    let keys = Arc::new(KeyPattern::new(keys, shape.len())?);
    let fill = require(document, "fill_value")?;
    let fill = match (&structure, element) {
        (Some(structure), _) => structure.parse_fill(fill, Format::V3)?,
        (None, Element::Fixed(dtype)) => fill::parse(dtype, fill, Format::V3)?,
        (None, Element::Vlen(kind)) => vlen::parse_fill(kind, fill, Format::V3)?,
        (None, Element::Optional(value)) => optional::parse_fill(value, fill)?,
    };
    match document.get("storage_transformers") {
        None | Some(Json::Null) => {}
        Some(Json::Array(transformers)) => {
            if let Some(first) = transformers.first() {
                let name = Extension::parse("storage_transformers", first)?.name;
                return unsupported!("storage transformer \"{name}\" is not supported");
            }
        }
        Some(other) => {
            return unexpected_value("storage_transformers", "a list", other);
        }
    }
    let listed = require(document, "codecs")?;
    let codecs = Codecs::parse(listed, element.context(&grid.chunk, &fill))?;
    if let (Some(shards), Some(axes)) = (&codecs.shards, &grid.axes) {
        GridMetadata::check_divided(axes, shards.sharding.levels().first().map_or(&[], ShardLevel::inner))?;
    }
    let encodings = || Arc::new(Encodings { codecs: listed.clone(), element, fill: fill.clone() });
    Ok(Metadata {
        format: Format::V3,
        dimension_names: dimension_names(document.get("dimension_names"), shape.len())?,
        shape,
        element,
        structure,
        chunk: codecs.chunk,
        rectilinear: grid.axes.map(|axes| Rectilinear { axes, encodings: encodings() }),
        shards: codecs.shards,
        codecs: codecs.codecs,
        fill: Some(fill),
        keys,
        attributes: Attributes::Within(document.clone()).checked()?,
        filters: codecs.filters,
        serializer: codecs.serializer,
        compressors: codecs.compressors,
        document: document.clone(),
        moves_chunks: false,
    })
}

/// Makes the encodings of chunks of different shapes.
#[derive(Debug)]
struct Encodings {
    codecs: Json,
    element: Element,
    fill: Vec<u8>,
}

impl MakeEncoding for Encodings {
    fn make(&self, shape: &[u64]) -> Result<ChunkEncoding, String> {
        let codecs = Codecs::parse(&self.codecs, self.element.context(shape, &self.fill));
        let codecs = codecs.map_err(Problem::text)?;
        ChunkEncoding::of(shape, self.element.engine_type(), &codecs.codecs)
    }
}

fn dimension_names(json: Option<&Json>, rank: usize) -> Result<Option<Vec<Option<String>>>, Problem> {
    let names = match json {
        None | Some(Json::Null) => return Ok(None),
        Some(Json::Array(names)) => names,
        Some(other) => return unexpected_value("dimension_names", "a list", other),
    };
    if names.len() != rank {
        return invalid!("dimension_names: expected {rank} names, one per axis, found {}", names.len());
    }
    let names = names.iter().map(|name| match name {
        Json::Null => Ok(None),
        Json::String(name) => Ok(Some(name.clone())),
        other => unexpected_value("dimension_names", "text or null", other),
    });
    names.collect::<Result<_, _>>().map(Some)
}

/// The document of a new array, and its attributes.
pub(crate) fn document(spec: &ArraySpec) -> Result<(Json, Json), Problem> {
    let data_type = match (&spec.structure, spec.element()) {
        (Some(structure), _) => structure.to_v3()?,
        (None, Element::Fixed(dtype)) => dtypes::to_v3(dtype),
        (None, Element::Vlen(kind)) => vlen::to_v3(kind)?,
        (None, Element::Optional(value)) => optional::to_v3(value),
    };
    let mut codecs = Vec::new();
    match &spec.filters {
        Choice::Auto if spec.fortran_order && spec.shape.len() > 1 => {
            let reversed: Vec<usize> = (0..spec.shape.len()).rev().collect();
            codecs.push(Json::from(&Transpose::metadata(&reversed)));
        }
        Choice::Auto => {}
        Choice::Set(_) if spec.fortran_order => {
            return invalid!(
                "order: with explicit filters, give a \"transpose\" filter instead of order \"F\"",
            );
        }
        Choice::Set(list) => codecs.extend(list.iter().cloned()),
    }
    codecs.push(match (&spec.serializer, spec.vlen) {
        (Choice::Set(serializer), _) => match &spec.structure {
            Some(structure) if structure.has_order() && structure::lacks_order(serializer) => {
                Json::from(&BytesCodec::metadata(Some(ByteOrder::Little)))
            }
            _ => serializer.clone(),
        },
        (Choice::Auto, Some(kind)) => vlen::v3_codec(kind),
        (Choice::Auto, None) if spec.optional => optional::v3_codec(spec.dtype),
        (Choice::Auto, None) => {
            // Filters may turn one-byte numbers into numbers of several bytes.
            let transpose =
                |codec: &Json| Extension::parse("filters", codec).is_ok_and(|c| c.name == "transpose");
            let same = match &spec.filters {
                Choice::Auto => true,
                Choice::Set(list) => list.iter().all(transpose),
            };
            let endian = match &spec.structure {
                // As in zarr-python.
                Some(structure) => structure.has_order().then_some(ByteOrder::Little),
                None => (spec.dtype.has_order() || !same).then_some(ByteOrder::NATIVE),
            };
            Json::from(&BytesCodec::metadata(endian))
        }
    });
    match &spec.compressors {
        // Shards compressed as a whole could not be read in parts.
        Choice::Auto if matches!(&spec.serializer, Choice::Set(json) if sharding::is_sharding(json)) => {}
        Choice::Auto => {
            codecs.push(Json::named("zstd", [("level", 0u32.into()), ("checksum", false.into())]));
        }
        Choice::Set(list) => codecs.extend(list.iter().cloned()),
    }
    // Every setting is spelled out, so that a later change of a default does not change its
    // meaning.
    let (chunk, shards) = match (&spec.rectilinear, &spec.rectilinear_shards) {
        (None, None) => spec.grid_json()?,
        (Some(_), _)
            if spec.chunks.is_some() || spec.shards.is_some() || spec.rectilinear_shards.is_some() =>
        {
            return invalid!(
                "chunks: a rectilinear grid cannot be combined with other chunks or with shards"
            );
        }
        (_, Some(_)) if spec.shards.is_some() => {
            return invalid!("shards: a rectilinear grid cannot be combined with shards of one shape");
        }
        (Some(axes), _) => {
            let grid = GridMetadata::rectilinear(axes.clone(), &spec.shape)?;
            (grid.chunk.as_slice().into(), None)
        }
        (None, Some(axes)) => {
            let grid = GridMetadata::rectilinear(axes.clone(), &spec.shape)?;
            let chunk = spec.chunk_in(axes)?;
            GridMetadata::check_divided(axes, &chunk)?;
            (chunk.as_slice().into(), Some(grid.chunk.as_slice().into()))
        }
    };
    let axes = spec.rectilinear.as_deref().or(spec.rectilinear_shards.as_deref());
    let encoded = sizes("chunks", &chunk)?;
    let fill = spec.fill.as_deref().unwrap_or_default();
    let mut codecs = normalize("codecs", &codecs, spec.element().context(&encoded, fill), 0)?;
    let objects = match shards {
        None => chunk,
        Some(shards) => {
            codecs = vec![sharding::default_codec(chunk, codecs, spec.index_location)];
            shards
        }
    };
    let keys = spec.key_encoding.as_ref().unwrap_or(&KeyEncoding::Default { separator: '/' });
    let mut document = Json::from([
        ("shape", spec.shape.as_slice().into()),
        ("data_type", data_type),
        ("chunk_grid", GridMetadata::to_json(axes, objects)),
        ("chunk_key_encoding", keys.to_json()),
        ("fill_value", spec.fill_json()?),
        ("codecs", Json::Array(codecs)),
        ("attributes", spec.attributes.clone()),
    ]);
    if let Some(names) = &spec.dimension_names {
        let names = names.iter().map(|name| name.as_deref().map_or(Json::Null, Json::from)).collect();
        document.set("dimension_names", Json::Array(names));
    }
    document.set("zarr_format", 3u32.into());
    document.set("node_type", "array".into());
    document.set("storage_transformers", Json::Array(Vec::new()));
    Ok((document, spec.attributes.clone()))
}

#[cfg(test)]
#[path = "v3_tests.rs"]
mod tests;
