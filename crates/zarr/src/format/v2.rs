//! Zarr v2: `.zarray` (<https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html>).
//!
//! ```json
//! {"shape": [4, 5], "chunks": [2, 2], "dtype": "<f4", "fill_value": 0.0, "order": "C", "filters": null,
//!  "dimension_separator": ".", "compressor": {"id": "zstd", "level": 0}, "zarr_format": 2}
//! ```
//!
//! Unknown fields are ignored, as readers of the format have always done. `compressor`, `filters`
//! and `dimension_separator` may be absent.

use super::codecs;
use crate::attributes::Attributes;
use crate::error::{Problem, invalid, unexpected_value, unsupported};
use crate::json::Json;
use crate::keys::KeyPattern;
use crate::metadata::{Metadata, chunk_sizes, codec_problem, require, separator, sizes};
use crate::spec::{ArraySpec, Choice};
use crate::structure::Structure;
use crate::vlen::{self, Element};
use crate::{Format, KeyEncoding, fill};
use hyperslab_codec::{
    AnyCodec, ArrayCodecs, ArrayToBytes, BytesCodec, ChunkCodecs, Codec, Context, Vlen, VlenKind, registry,
};
use std::sync::Arc;

/// The attribute that holds xarray's names of the axes.
const DIMENSIONS: &str = "_ARRAY_DIMENSIONS";

/// Checks that this is the document of a v2 array or group.
pub(crate) fn check_format(document: &Json) -> Result<(), Problem> {
    if !matches!(document, Json::Object(_)) {
        return invalid!("expected an object, found {}", document.brief());
    }
    match require(document, "zarr_format")? {
        format if format.as_integer() == Some(2u8) => Ok(()),
        other => unexpected_value("zarr_format", "2", other),
    }
}

/// Parses `.zarray`. The attributes come from `.zattrs`.
pub(crate) fn parse(document: &Arc<Json>, attributes: Attributes) -> Result<Metadata, Problem> {
    check_format(document)?;
    let shape = sizes("shape", require(document, "shape")?)?;
    let chunk = chunk_sizes("chunks", require(document, "chunks")?, &shape)?;
    let dtype = require(document, "dtype")?;
    let fill = require(document, "fill_value")?;
    let fortran = match require(document, "order")? {
        Json::String(order) if order == "C" => false,
        Json::String(order) if order == "F" => true,
        other => return unexpected_value("order", "\"C\" or \"F\"", other),
    };
    let filters = match document.get("filters") {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(filters)) => {
            codecs::check_count("filters", filters)?;
            filters.clone()
        }
        Some(other) => return unexpected_value("filters", "null or a list", other),
    };
    let compressors = match document.get("compressor") {
        None | Some(Json::Null) => Vec::new(),
        Some(compressor @ Json::Object(_)) => vec![compressor.clone()],
        Some(other) => {
            return unexpected_value("compressor", "null or an object", other);
        }
    };
    let structure = match dtype {
        Json::Array(fields) => Some(Arc::new(Structure::from_v2(fields)?)),
        _ => None,
    };
    let engine_type = structure.as_ref().map(|structure| Json::String(structure.engine_type().numpy()));
    let (element, _) = vlen::from_v2(engine_type.as_ref().unwrap_or(dtype), &filters)?;
    let fill = match (fill, &structure, element) {
        (Json::Null, ..) => None,
        (value, Some(structure), _) => Some(structure.parse_fill(value, Format::V2)?),
        (value, None, Element::Fixed(dtype)) => Some(fill::parse(dtype, value, Format::V2)?),
        (value, None, Element::Vlen(kind)) => Some(vlen::parse_fill(kind, value, Format::V2)?),
        // No dtype of v2 says that elements may be missing.
        (_, None, Element::Optional(_)) => None,
    };
    let rank = shape.len();
    // In chunks of objects the last axis is always the fastest.
    let fortran = fortran && !element.vlen().is_some_and(VlenKind::is_objects);
    let order = if fortran { (0..rank).rev().collect() } else { (0..rank).collect() };
    let default = fill.clone().unwrap_or_else(|| element.default_fill());
    let array = Context { fortran, by_value: false, ..element.context(&chunk, &default) };
    let codecs = codecs(order, array, &filters, &compressors)?;
    let separator = match document.get("dimension_separator") {
        None => '.',
        Some(json) => separator("dimension_separator", json)?,
    };
    Ok(Metadata {
        format: Format::V2,
        element,
        structure,
        chunk,
        rectilinear: None,
        shards: None,
        codecs,
        fill,
        keys: Arc::new(KeyPattern::new(KeyEncoding::V2 { separator }, rank)?),
        dimension_names: dimension_names(attributes.json(), rank)
            .or_else(|| nczarr_names(document, attributes.json(), rank)),
        shape,
        attributes,
        filters,
        serializer: None,
        compressors,
        document: document.clone(),
        moves_chunks: false,
    })
}

/// The codecs of chunks like `array`, with the axes `order`. Without an array-to-bytes codec,
/// elements are stored unchanged.
fn codecs(
    order: Vec<usize>,
    array: Context<'_>,
    filters: &[Json],
    compressors: &[Json],
) -> Result<ChunkCodecs, Problem> {
    let mut arrays = ArrayCodecs::new(order, array);
    let mut serializer: Option<Arc<dyn ArrayToBytes>> = None;
    let mut bytes_to_bytes: Vec<Arc<dyn Codec>> = Vec::new();
    for (field, list) in [("filters", filters), ("compressor", compressors)] {
        for json in list {
            let last = bytes_to_bytes.last().map(|codec| codec.name());
            let last = last.or(serializer.as_ref().map(|codec| codec.name()));
            let found = match codec(field, json, &arrays.array)? {
                AnyCodec::ArrayToBytes(codec) if last.is_some() => match codec.of_bytes() {
                    Some(codec) => AnyCodec::BytesToBytes(codec),
                    None => AnyCodec::ArrayToBytes(codec),
                },
                found => found,
            };
            match (found, last) {
                (AnyCodec::BytesToBytes(codec), _) => bytes_to_bytes.push(codec),
                (AnyCodec::ArrayToBytes(codec), last)
                    if codec.vlen().is_some() && (last.is_some() || arrays.array.vlen.is_none()) =>
                {
                    return unsupported!(
                        "{field}: codec \"{}\" is supported only as the first filter of dtype \"|O\"",
                        codec.name()
                    );
                }
                (_, Some(last)) => {
                    return invalid!(
                        "{field}: {} works on arrays; it cannot come after \"{last}\"",
                        json.brief()
                    );
                }
                (AnyCodec::ArrayToArray(codec), None) => {
                    arrays.push(codec).map_err(|error| codec_problem(field, error))?;
                }
                (AnyCodec::ArrayToBytes(codec), None) => serializer = Some(codec),
            }
        }
    }
    let dtype = arrays.array.dtype;
    let as_stored = BytesCodec { endian: Some(dtype.order()), dtype };
    let serializer = serializer.unwrap_or_else(|| Arc::new(as_stored));
    arrays.complete(serializer, bytes_to_bytes).map_err(|error| codec_problem("filters", error))
}

fn codec(field: &str, json: &Json, array: &Context<'_>) -> Result<AnyCodec, Problem> {
    let value = json.to_serde().map_err(|error| Problem::Invalid(format!("{field}: {}", error.why)))?;
    if array.vlen.is_some() && vlen::is_categorize(json) {
        // For text of fixed length the same name means an array-to-array codec.
        let found = Vlen::of_objects(registry::Config::V2(&value), array);
        return found
            .map(|vlen| AnyCodec::ArrayToBytes(Arc::new(vlen)))
            .map_err(|error| codec_problem(field, error));
    }
    registry::CODECS.from_v2(&value, array).map_err(|error| codec_problem(field, error))
}

/// xarray's names of the axes. Anything else under that name is an ordinary attribute.
fn dimension_names(attributes: &Json, rank: usize) -> Option<Vec<Option<String>>> {
    let names = attributes.get(DIMENSIONS)?.as_array()?;
    let names: Vec<Option<String>> =
        names.iter().map(|name| name.as_str().map(|name| Some(name.to_owned()))).collect::<Option<_>>()?;
    (names.len() == rank).then_some(names)
}

/// NCZarr's names of the axes, given as paths of dimensions in the document or in an attribute.
///
/// See [NCZarr](https://docs.unidata.ucar.edu/nug/current/nczarr_head.html).
fn nczarr_names(document: &Json, attributes: &Json, rank: usize) -> Option<Vec<Option<String>>> {
    let said = document.get("_NCZARR_ARRAY").or_else(|| attributes.get("_nczarr_array"))?;
    let paths = said.get("dimrefs").or_else(|| said.get("dimension_references"))?.as_array()?;
    let name = |path: &Json| Some(Some(path.as_str()?.rsplit('/').next()?.to_owned()));
    let names: Vec<Option<String>> = paths.iter().map(name).collect::<Option<_>>()?;
    (names.len() == rank).then_some(names)
}

/// The documents of a new array: `.zarray` and `.zattrs`.
pub(crate) fn document(spec: &ArraySpec) -> Result<(Json, Json), Problem> {
    if spec.serializer != Choice::Auto {
        return invalid!("serializer: Zarr v2 has no serializers");
    }
    if spec.optional {
        return unsupported!("data_type: Zarr v2 has no elements that may be missing; use Zarr v3");
    }
    if spec.rectilinear.is_some() || spec.rectilinear_shards.is_some() {
        return invalid!("chunks: Zarr v2 has no rectilinear grids; use Zarr v3");
    }
    if let Some(shards) = &spec.shards {
        return invalid!("shards: Zarr v2 has no shards, found {:?}; use Zarr v3", shards.as_slice());
    }
    let separator = match &spec.key_encoding {
        None => '.',
        Some(KeyEncoding::V2 { separator }) => *separator,
        Some(other) => {
            return invalid!(
                "chunk_key_encoding: Zarr v2 has only \"v2\", found {}",
                other.to_json().brief()
            );
        }
    };
    let chunk = sizes("chunks", &spec.grid_json()?.0)?;
    // Each codec encodes the output of the codecs before it.
    let fill = spec.fill.as_deref().unwrap_or_default();
    let order = (0..chunk.len()).collect();
    let array =
        Context { fortran: spec.fortran_order, by_value: false, ..spec.element().context(&chunk, fill) };
    let mut arrays = ArrayCodecs::new(order, array);
    let mut normalized = |field: &str, list: &[Json]| -> Result<Vec<Json>, Problem> {
        list.iter()
            .map(|json| {
                let codec = codec(field, json, &arrays.array)?;
                if let AnyCodec::ArrayToArray(codec) = &codec {
                    arrays.push(codec.clone()).map_err(|error| codec_problem(field, error))?;
                }
                let codec = codec.codec();
                codec.check_encoder().map_err(|error| codec_problem(field, error))?;
                match codec.to_v2() {
                    Some(value) => Ok(Json::from(&value)),
                    None => invalid!("{field}: Zarr v2 has no codec \"{}\"", codec.name()),
                }
            })
            .collect()
    };
    let mut filters = match spec.vlen {
        Some(kind) => {
            let first = spec.object_codec.clone().unwrap_or_else(|| vlen::v2_filter(kind));
            if vlen::from_v2(&"|O".into(), std::slice::from_ref(&first))?.0 != spec.element() {
                return invalid!(
                    "filters: expected a first filter for elements of type {kind}, found {}",
                    first.brief()
                );
            }
            normalized("filters", &[first])?
        }
        None => match &spec.object_codec {
            Some(codec) => {
                return invalid!("filters: {} is for objects, found dtype {}", codec.brief(), spec.dtype);
            }
            None => Vec::new(),
        },
    };
    if let Choice::Set(list) = &spec.filters {
        filters.extend(normalized("filters", list)?);
    }
    let filters = if filters.is_empty() { Json::Null } else { Json::Array(filters) };
    let compressor = match &spec.compressors {
        Choice::Auto => Json::from([("id", "zstd".into()), ("level", 0u32.into())]),
        Choice::Set(list) if list.len() > 1 => {
            return invalid!("compressors: expected at most one in Zarr v2, found {}", list.len());
        }
        Choice::Set(list) => normalized("compressor", list)?.pop().unwrap_or(Json::Null),
    };
    let mut attributes = spec.attributes.clone();
    if let Some(names) = &spec.dimension_names {
        if names.len() != spec.shape.len() {
            return invalid!("dimension_names: expected {} names, found {}", spec.shape.len(), names.len());
        }
        let names: Option<Vec<Json>> = names.iter().map(|name| name.as_deref().map(Json::from)).collect();
        match names {
            Some(names) => attributes.set(DIMENSIONS, Json::Array(names)),
            None => {
                return invalid!(
                    "dimension_names: expected a name for each dimension in Zarr v2, found a dimension \
                     without a name"
                );
            }
        }
    }
    let document = Json::from([
        ("shape", spec.shape.as_slice().into()),
        ("chunks", spec.grid_json()?.0),
        (
            "dtype",
            match (&spec.structure, spec.vlen) {
                (Some(structure), _) => structure.to_v2(),
                (None, Some(_)) => "|O".into(),
                (None, None) => Json::String(spec.dtype.numpy()),
            },
        ),
        ("fill_value", spec.fill_json()?),
        ("order", if spec.fortran_order { "F".into() } else { "C".into() }),
        ("filters", filters),
        ("dimension_separator", Json::String(separator.into())),
        ("compressor", compressor),
        ("zarr_format", 2u32.into()),
    ]);
    Ok((document, attributes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cases, json};

    fn parse_text(text: &str) -> Result<Metadata, String> {
        parse(&json(text).into(), Attributes::Alone(None)).map_err(Problem::text)
    }

    const PLAIN: &str = r#"{"shape": [4, 5], "chunks": [2, 2], "dtype": ">f4", "fill_value": "NaN", "order": "F", "filters": null, "dimension_separator": "/", "compressor": {"id": "zstd", "level": 0}, "zarr_format": 2}"#;

    #[test]
    fn what_zarr_python_writes() {
        let metadata = parse_text(PLAIN).unwrap();
        assert_eq!(metadata.shape.as_slice(), [4, 5]);
        assert_eq!(metadata.chunk.as_slice(), [2, 2]);
        assert_eq!(metadata.element, Element::Fixed(">f4".parse().unwrap()));
        assert_eq!(metadata.codecs.stored, hyperslab_codec::ByteOrder::Big);
        assert_eq!(metadata.codecs.order, [1, 0]);
        assert_eq!(metadata.fill.as_deref(), Some(&0x7fc0_0000u32.to_be_bytes()[..]));
        assert_eq!(metadata.keys.encoding(), &KeyEncoding::V2 { separator: '/' });
        assert_eq!(metadata.codecs.codecs.len(), 1);
        let compressor = r#"{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}"#;
        let blosc = parse_text(&PLAIN.replace(r#"{"id": "zstd", "level": 0}"#, compressor)).unwrap();
        assert_eq!(blosc.codecs.codecs[0].name(), "blosc");
    }

    #[test]
    fn fields_that_may_be_absent_or_extra() {
        let text = r#"{"shape": [], "chunks": [], "dtype": "|b1", "fill_value": null, "order": "C", "zarr_format": 2, "extra": [1]}"#;
        let metadata = parse_text(text).unwrap();
        assert_eq!(metadata.keys.encoding(), &KeyEncoding::V2 { separator: '.' });
        assert!(metadata.codecs.codecs.is_empty() && metadata.fill.is_none());
        let filters = PLAIN.replace("\"filters\": null", r#""filters": [{"id": "crc32c"}]"#);
        let codecs = parse_text(&filters).unwrap().codecs.codecs;
        assert!(codecs.iter().map(|codec| codec.name()).eq(["crc32c", "zstd"]));
        let none = parse_text(&PLAIN.replace("\"filters\": null", "\"filters\": []")).unwrap();
        assert_eq!(none.codecs.codecs.len(), 1);
        let zero = PLAIN.replace("[4, 5]", "[0, 5]").replace("[2, 2]", "[0, 2]");
        assert_eq!(parse_text(&zero).unwrap().chunk.as_slice(), [1, 2]);
    }

    #[test]
    fn xarray_names_of_axes() {
        let document = json(PLAIN).into();
        let names = |text: &str| parse(&document, Attributes::new(json(text))).unwrap().dimension_names;
        let both = Some(vec![Some("y".into()), Some("x".into())]);
        assert_eq!(names(r#"{"_ARRAY_DIMENSIONS": ["y", "x"]}"#), both);
        for other in [r#"["y"]"#, r#"["y", 1]"#, r#""yx""#] {
            assert_eq!(names(&format!(r#"{{"_ARRAY_DIMENSIONS": {other}}}"#)), None, "{other}");
        }
        assert_eq!(names("{}"), None);
    }

    #[test]
    fn documents_that_are_refused() {
        for [from, to, want] in cases(
            r#"
            "zarr_format": 2 | "zarr_format": 3 | zarr_format: expected 2, found 3
            , "zarr_format": 2 |  | zarr_format is missing
            "shape": [4, 5],  |  | shape is missing
            "chunks": [2, 2],  |  | chunks is missing
            "dtype": ">f4",  |  | dtype is missing
            "fill_value": "NaN",  |  | fill_value is missing
            "order": "F",  |  | order is missing
            [4, 5] | [4, -5] | shape: axis 1: expected an integer from 0 to 2⁶³ - 1, found -5
            [4, 5] | [4, 5.0] | found 5.0
            [4, 5] | [4, 9223372036854775808] | found 9223372036854775808
            [4, 5] | [4, 1e3] | found 1e3
            [4, 5] | [4, true] | found true
            [4, 5] | [4, null] | found null
            [4, 5] | 20 | shape: expected a list of integers, found 20
            [4, 5] | {"0": 4} | expected a list
            [2, 2] | [2] | chunks: expected 2 axes as in shape, found 1
            [2, 2] | [2, 2, 2] | found 3
            [2, 2] | [2, 0] | chunks: axis 1: expected a positive integer, found 0
            [2, 2] | [2, -1] | chunks: axis 1
            [2, 2] | [2, [1, 1]] | chunks: axis 1
            [2, 2] | false | chunks: expected a list
            ">f4" | ">f5" | data type ">f5" is not supported
            ">f4" | "|O" | "|O" needs a first filter
            ">f4" | [["a", "<f4"]] | fill_value: expected an object with the fields
            "NaN" | "many" | fill_value: expected a number, "NaN", "Infinity" or "-Infinity", found "many"
            "order": "F" | "order": "A" | order: expected "C" or "F", found "A"
            "order": "F" | "order": null | found null
            "filters": null | "filters": {} | filters: expected null or a list, found {}
            "filters": null | "filters": [3] | filters:
            "filters": null | "filters": [{"id": "toy"}] | filters: codec "toy" is not supported
            "filters": null | "filters": [{}] | filters:
            {"id": "zstd", "level": 0} | "zstd" | compressor: expected null or an object, found "zstd"
            {"id": "zstd", "level": 0} | {"id": "sz3"} | compressor: codec "sz3" is not supported
            {"id": "zstd", "level": 0} | {"id": "vlen-utf8"} | compressor: codec "vlen-utf8" is supported only as the first filter
            "level": 0 | "level": NaN | compressor:
            "level": 0 | "level": "high" | compressor:
            "/" | "-" | dimension_separator: expected "/" or ".", found "-"
            "/" | null | dimension_separator
        "#,
        ) {
            assert!(PLAIN.contains(from), "{from}");
            let error = parse_text(&PLAIN.replace(from, to)).unwrap_err();
            assert!(error.contains(want), "{to}: {error}");
        }
        for text in ["null", "[]", "3", "\"x\"", "{}"] {
            assert!(parse_text(text).is_err(), "{text}");
        }
        let axes = format!("[{}]", vec!["1"; 65].join(", "));
        let error = parse_text(&PLAIN.replace("[4, 5]", &axes)).unwrap_err();
        assert!(error.contains("at most 64 axes, found 65"), "{error}");
    }

    #[test]
    fn new_documents() {
        let mut spec = ArraySpec::new(Format::V2, &[4, 5], ">f4".parse().unwrap());
        spec.chunks = Some([2, 2].into_iter().collect());
        spec.fill = Some(f32::NAN.to_be_bytes().to_vec());
        spec.fortran_order = true;
        spec.key_encoding = Some(KeyEncoding::V2 { separator: '/' });
        spec.dimension_names = Some(vec![Some("y".into()), Some("x".into())]);
        let (document, attributes) = document(&spec).unwrap();
        assert_eq!(document.to_text(None), PLAIN);
        assert_eq!(attributes.to_text(None), r#"{"_ARRAY_DIMENSIONS": ["y", "x"]}"#);

        let refused = |change: &dyn Fn(&mut ArraySpec)| {
            let mut spec = spec.clone();
            change(&mut spec);
            super::document(&spec).unwrap_err().text()
        };
        let zlib = || Json::from([("id", "zlib".into()), ("level", 1u32.into())]);
        assert!(refused(&|s| s.serializer = Choice::Set("bytes".into())).contains("serializer"));
        assert!(
            refused(&|s| s.key_encoding = Some(KeyEncoding::Default { separator: '/' }))
                .contains("chunk_key_encoding")
        );
        assert!(
            refused(&|s| s.compressors = Choice::Set(vec![zlib(), zlib()]))
                .contains("expected at most one in Zarr v2, found 2")
        );
        assert!(refused(&|s| s.compressors = Choice::Set(vec!["zlib".into()])).contains("compressor"));
        assert!(refused(&|s| s.dimension_names = Some(vec![None, None])).contains("without a name"));
        assert!(refused(&|s| s.dimension_names = Some(vec![None])).contains("expected 2 names, found 1"));
        assert!(refused(&|s| s.chunks = Some([0, 2].into_iter().collect())).contains("positive integers"));
        assert!(refused(&|s| s.chunks = Some([2].into_iter().collect())).contains("expected 2 axes"));
        assert!(refused(&|s| s.fill = Some(vec![0])).contains("expected 4 bytes"));
        let with = |change: &dyn Fn(&mut ArraySpec)| {
            let mut spec = spec.clone();
            change(&mut spec);
            super::document(&spec).unwrap().0
        };
        let none = with(&|s| s.compressors = Choice::Set(Vec::new()));
        assert_eq!(none.get("compressor"), Some(&Json::Null));
        let both = with(&|s| {
            s.compressors = Choice::Set(vec![zlib()]);
            s.filters = Choice::Set(vec![Json::from([("id", "crc32c".into())])]);
        });
        assert_eq!(both.get("compressor"), Some(&zlib()));
        assert_eq!(both.get("filters").and_then(Json::as_array).map(<[_]>::len), Some(1));
        assert_eq!(with(&|s| s.fill = None).get("fill_value"), Some(&Json::Null));
    }
}
