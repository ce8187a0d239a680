//! The metadata of an array in either format.

use crate::attributes::Attributes;
use crate::chunk_grid::{AxisChunks, GridMetadata};
use crate::error::{Problem, invalid, unexpected_value};
use crate::format::sharding::Shards;
use crate::json::Json;
use crate::keys::{ChunkKeys, KeyPattern};
use crate::structure::Structure;
use crate::vlen::Element;
use crate::{Format, Result};
use hyperslab_array::{ArrayLayout, ChunkEncoding, ChunkGrid, Dims, FillValue, MakeEncoding};
use hyperslab_codec::{ChunkCodecs, CodecError};
use hyperslab_store::Store;
use std::sync::Arc;

/// Parsed, checked metadata of an array.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    pub(crate) format: Format,
    pub(crate) shape: Dims,
    pub(crate) element: Element,
    /// The fields of elements, or `None`. For the engine such elements are raw bytes.
    pub(crate) structure: Option<Arc<Structure>>,
    /// Elements of a chunk per axis. With shards: of the innermost chunks. In a rectilinear grid:
    /// of the largest possible chunk.
    pub(crate) chunk: Dims,
    /// v3: the axes of a grid of chunks (or shards, if there are any) of different lengths.
    pub(crate) rectilinear: Option<Rectilinear>,
    /// The arrangement of chunks in shards.
    pub(crate) shards: Option<Shards>,
    /// The codecs of a chunk.
    pub(crate) codecs: ChunkCodecs,
    /// One element (its bytes, if it has variable length), or `None` for v2's `null`.
    pub(crate) fill: Option<Vec<u8>>,
    pub(crate) keys: Arc<KeyPattern>,
    pub(crate) dimension_names: Option<Vec<Option<String>>>,
    pub(crate) attributes: Attributes,
    /// Codecs as in metadata: v3's before the serializer, v2's filters. If the array is only
    /// shards, the codecs inside of them.
    pub(crate) filters: Vec<Json>,
    /// v3's array-to-bytes codec.
    pub(crate) serializer: Option<Json>,
    /// v3's codecs after the serializer, or v2's compressor.
    pub(crate) compressors: Vec<Json>,
    /// The whole document, `zarr.json` or `.zarray`. If the stored one was repaired, the repaired
    /// one.
    pub(crate) document: Arc<Json>,
    /// `true` if the document must be stored before chunks are written: other readers would not
    /// find the chunks with the stored one.
    pub(crate) moves_chunks: bool,
}

/// A grid of chunks of different lengths.
#[derive(Clone, Debug)]
pub(crate) struct Rectilinear {
    pub(crate) axes: Vec<AxisChunks>,
    pub(crate) encodings: Arc<dyn MakeEncoding>,
}

impl Metadata {
    /// Binds the array to its place in a store.
    pub(crate) fn layout(&self, store: &Arc<dyn Store>, path: &str, key: &str) -> Result<ArrayLayout> {
        let refuse = |why: String| Problem::Invalid(why).at(&store.url(), key);
        let dtype = self.element.engine_type();
        let fill = match (&self.codecs.vlen, &self.fill) {
            // The codec keeps the bytes of the fill value, the engine keeps their cell.
            (Some(vlen), _) => vlen.fill_cell().write().to_vec(),
            (None, Some(fill)) => fill.clone(),
            (None, None) => crate::fill::default(dtype),
        };
        let encoding = ChunkEncoding::of(&self.chunk, dtype, &self.codecs).map_err(refuse)?;
        let several = self.rectilinear.as_ref().map(|grid| GridMetadata::engine(&grid.axes, &self.shape));
        let several = several.transpose().map_err(refuse)?.flatten();
        // The chunks in shards have one shape, even if the shards do not.
        let (several, shards) = match &self.shards {
            None => (several, None),
            Some(Shards { sharding, .. }) => match several {
                None => (None, Some(sharding.clone())),
                Some(grid) => (None, Some(sharding.clone().in_grid(grid).map_err(refuse)?)),
            },
        };
        let grid = several
            .or_else(|| ChunkGrid::regular(self.chunk.clone()))
            .ok_or_else(|| refuse(format!("chunks of shape {:?} have no elements", self.chunk)))?;
        let shapes = self.rectilinear.as_ref().filter(|_| !grid.is_regular());
        let locator = Arc::new(ChunkKeys::new(path, self.keys.clone()));
        let name = if path.is_empty() { store.url() } else { format!("/{path}") };
        let layout = ArrayLayout::new(
            name,
            self.shape.clone(),
            dtype,
            grid,
            encoding,
            FillValue::new(&fill),
            locator,
            store.clone(),
        )?;
        let layout = match shapes {
            None => layout,
            Some(shapes) => layout.with_shapes(shapes.encodings.clone()),
        };
        match shards {
            None => Ok(layout),
            Some(sharding) => Ok(layout.with_sharding(sharding)?),
        }
    }

    /// Elements per axis of an object: a shard, or a chunk if there are no shards.
    ///
    /// In a rectilinear grid, of the largest possible object.
    pub(crate) fn object_shape(&self) -> &[u64] {
        self.shards.as_ref().map_or(&self.chunk, |shards| shards.sharding.grid().chunk_shape())
    }

    /// Elements per axis of a chunk as users see it.
    ///
    /// With shards in shards, these are the chunks of the outermost shards, as in zarr-python.
    pub(crate) fn shown_chunk(&self) -> &[u64] {
        let outermost = self.shards.as_ref().and_then(|shards| shards.sharding.levels().first());
        outermost.map_or(&self.chunk, |level| level.inner())
    }

    /// Refuses a shape that a resize cannot give (as text).
    ///
    /// In a rectilinear grid the elements past the last shard become one more shard, which must
    /// consist of whole inner chunks.
    pub(crate) fn check_shape(&self, shape: &[u64]) -> std::result::Result<(), String> {
        let (Some(grid), Some(_)) = (&self.rectilinear, &self.shards) else { return Ok(()) };
        let axes = GridMetadata::after_resize(&grid.axes, shape);
        match GridMetadata::undivided_shard(&axes, self.shown_chunk()) {
            None => Ok(()),
            Some((axis, length, inner)) => Err(format!(
                "shape {shape:?}: axis {axis} would need one more shard of {length} elements, but shards \
                 must be whole inner chunks of {inner} elements"
            )),
        }
    }

    /// Refuses a rectilinear grid with chunks that the codecs cannot encode (as text).
    ///
    /// The array could be opened, and would fail only when these chunks are read. The fault must
    /// therefore be found before the array is stored.
    pub(crate) fn check_encodings(&self) -> std::result::Result<(), String> {
        // Chunks in shards all have one shape, which is checked with the codecs.
        let Some(Rectilinear { axes, encodings }) =
            self.rectilinear.as_ref().filter(|_| self.shards.is_none())
        else {
            return Ok(());
        };
        let usual = encodings.make(&self.chunk)?;
        for shape in GridMetadata::shapes(axes) {
            let refuse = |why: String| format!("chunk_grid: chunks of shape {:?}: {why}", shape.as_slice());
            let encoding = encodings.make(&shape).map_err(refuse)?;
            if encoding.order() != usual.order() || encoding.element_size() != usual.element_size() {
                return Err(refuse(
                    "expected codecs that store the same order of axes for all chunks, found another order"
                        .into(),
                ));
            }
        }
        Ok(())
    }

    /// Puts another shape into the document, and the shape of objects as it was parsed.
    ///
    /// An axis without elements may have chunks of length zero in the document, an axis with
    /// elements may not.
    pub(crate) fn set_shape(&mut self, shape: &[u64]) {
        let objects = Json::from(self.object_shape());
        let document = Arc::make_mut(&mut self.document);
        document.set("shape", shape.into());
        if let Some(grid) = &self.rectilinear {
            let axes = GridMetadata::after_resize(&grid.axes, shape);
            document.set("chunk_grid", GridMetadata::to_json(Some(&axes), Json::Null));
            return;
        }
        let (parent, member) = match self.format {
            Format::V2 => (Some(document), "chunks"),
            Format::V3 => {
                let grid = document.get_mut("chunk_grid");
                (grid.and_then(|grid| grid.get_mut("configuration")), "chunk_shape")
            }
        };
        if let Some(parent) = parent {
            parent.set(member, objects);
        }
    }
}

/// The most axes that the engine takes. Larger documents are refused before anything is made from
/// them.
pub(crate) const MAX_RANK: usize = hyperslab_array::MAX_RANK;

/// The required member `name` of an object.
pub(crate) fn require<'a>(document: &'a Json, name: &str) -> Result<&'a Json, Problem> {
    document.get(name).ok_or_else(|| Problem::Invalid(format!("{name} is missing")))
}

/// Reads sizes of axes: a list of integers from 0 to 2⁶³ - 1.
pub(crate) fn sizes(field: &str, json: &Json) -> Result<Dims, Problem> {
    let Some(items) = json.as_array() else {
        return unexpected_value(field, "a list of integers", json);
    };
    if items.len() > MAX_RANK {
        return invalid!("{field}: expected at most {MAX_RANK} axes, found {}", items.len());
    }
    let mut sizes = Dims::new();
    for (axis, item) in items.iter().enumerate() {
        match item.as_integer::<i64>().and_then(|n| u64::try_from(n).ok()) {
            Some(size) => sizes.push(size),
            None => {
                return invalid!(
                    "{field}: axis {axis}: expected an integer from 0 to 2⁶³ - 1, found {}",
                    item.brief()
                );
            }
        }
    }
    Ok(sizes)
}

/// Reads chunk sizes for an array of `shape`: one per axis, none zero.
///
/// On an axis without elements, older writers stored zero for "all of it". It is read as one.
pub(crate) fn chunk_sizes(field: &str, json: &Json, shape: &[u64]) -> Result<Dims, Problem> {
    let mut chunk = sizes(field, json)?;
    if chunk.len() != shape.len() {
        return invalid!("{field}: expected {} axes as in shape, found {}", shape.len(), chunk.len());
    }
    for (axis, (size, extent)) in chunk.iter_mut().zip(shape).enumerate() {
        match (*size, *extent) {
            (0, 0) => *size = 1,
            (0, _) => return invalid!("{field}: axis {axis}: expected a positive integer, found 0"),
            _ => {}
        }
    }
    Ok(chunk)
}

/// `/` or `.`
pub(crate) fn separator(field: &str, json: &Json) -> Result<char, Problem> {
    match json.as_str() {
        Some("/") => Ok('/'),
        Some(".") => Ok('.'),
        _ => unexpected_value(field, "\"/\" or \".\"", json),
    }
}

/// Converts a codec's error. Metadata with an unknown codec is valid, but not supported.
pub(crate) fn codec_problem(field: &str, error: CodecError) -> Problem {
    match error {
        CodecError::Unknown { .. } => Problem::Unsupported(format!("{field}: {error}")),
        error => Problem::Invalid(format!("{field}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{v2, v3};
    use crate::testing::{json, memory};
    use proptest::prelude::*;

    const V2: &str = r#"{"shape": [4, 5], "chunks": [2, 2], "dtype": ">f4", "fill_value": "NaN", "order": "F", "filters": [{"id": "crc32c"}],
        "dimension_separator": "/", "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}, "zarr_format": 2}"#;
    const V3: &str = r#"{"shape": [4, 5], "data_type": {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0,
        "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes", "configuration": {"endian": "little"}},
                   {"name": "zstd", "configuration": {"level": 0, "checksum": false}}, "crc32c"],
        "attributes": {"a": 1}, "dimension_names": ["x", null], "zarr_format": 3, "node_type": "array", "storage_transformers": []}"#;
    const SHARDED: &str = r#"{"shape": [9, 9], "data_type": "uint16", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 4]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "zarr_format": 3, "node_type": "array",
        "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "sharding_indexed", "configuration": {"chunk_shape": [4, 4],
            "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 2],
                "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes", "configuration": {"endian": "big"}}, "crc32c"],
                "index_codecs": [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, {"name": "bytes", "configuration": {"endian": "big"}}],
                "index_location": "start"}}],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}}]}"#;
    const TEXT: &str = r#"{"shape": [9, 9], "data_type": "string", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 4]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": "none", "zarr_format": 3, "node_type": "array", "codecs": [{"name": "sharding_indexed",
        "configuration": {"chunk_shape": [4, 4], "codecs": [{"name": "vlen-utf8"}, "crc32c"], "index_codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}}]}"#;
    const OBJECTS: &str = r#"{"shape": [4, 5], "chunks": [2, 2], "dtype": "|O", "fill_value": 0, "order": "C", "compressor": null, "zarr_format": 2,
        "filters": [{"id": "vlen-array", "dtype": "<i4"}, {"id": "crc32c"}]}"#;
    const STRUCT_V2: &str = r#"{"shape": [4, 5], "chunks": [2, 2], "dtype": [["a", "<i4"], ["b", [["c", ">f8", [2, 3]], ["d", "|S3"]]]],
        "fill_value": null, "order": "C", "filters": null, "compressor": {"id": "zstd", "level": 0}, "zarr_format": 2}"#;
    const STRUCT_V3: &str = r#"{"shape": [9, 9], "data_type": {"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int32"},
        {"name": "b", "data_type": {"name": "structured", "configuration": {"fields": [["c", "bool"], ["d", "complex64"]]}}}]}},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 4]}}, "chunk_key_encoding": {"name": "default"},
        "fill_value": {"a": 3, "b": {"c": true, "d": [0, 1]}}, "zarr_format": 3, "node_type": "array",
        "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}"#;
    const OPTIONAL: &str = r#"{"shape": [9, 9], "data_type": {"name": "zarrs.optional", "configuration": {"name": "int32", "configuration": {}}},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 4]}}, "chunk_key_encoding": {"name": "default"},
        "fill_value": [3], "zarr_format": 3, "node_type": "array", "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}},
        {"name": "zarrs.optional", "configuration": {"mask_codecs": ["packbits", "crc32c"], "data_codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}}]}"#;
    const RECTILINEAR: &str = r#"{"shape": [9, 9], "data_type": "uint16",
        "chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[2, [3, 2], 1], 4]}},
        "chunk_key_encoding": {"name": "suffix", "configuration": {"suffix": ".x", "base-encoding": {"name": "fanout", "configuration": {"max_children": 4}}}},
        "fill_value": 0, "zarr_format": 3, "node_type": "array", "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}},
            {"name": "bytes", "configuration": {"endian": "big"}}, {"name": "zstd", "configuration": {"level": 0, "checksum": false}}]}"#;
    const RECTILINEAR_SHARDS: &str = r#"{"shape": [9, 9], "data_type": "uint16",
        "chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[2, [4, 2], 1], 4]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "zarr_format": 3, "node_type": "array",
        "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 1],
            "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}, "crc32c"],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}}]}"#;
    /// Values that replace others.
    const HOSTILE: &str = r#"[
        null, true, 0, 1, -1, 2, 3, 0.5, 1e400, NaN, 9223372036854775807, 9223372036854775808,
        18446744073709551616, 123456789012345678901234567890, "", "x", "bytes", "r8", "|V2147483647", "|O",
        "string", "vlen-bytes", {"id": "vlen-utf8"}, "<U536870911", "0x7fc00001", [], {}, [[]], [0],
        [0, 0], [9223372036854775807, 9223372036854775807], [1, 1, 1], ["bytes", "bytes"],
        {"name": "bytes"}, {"id": "zlib"}, {"must_understand": false},
        {"name": "r16", "configuration": {"length_bytes": 4}}, {"name": "sharding_indexed"}, [1, 1],
        [9223372036854775807, 1],
        [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd", "configuration": {"level": 0, "checksum": false}}]
    ]"#;

    /// Replaces (or removes) the `which`-th value of a document, in the order of its text.
    fn damage(json: &mut Json, which: &mut usize, by: Option<&Json>) {
        let mut visit = |value: &mut Json| {
            let hit = *which == 0;
            *which = which.wrapping_sub(1);
            if hit {
                *value = by.cloned().unwrap_or(Json::Null);
            } else {
                damage(value, which, by);
            }
            hit
        };
        match json {
            Json::Array(items) => {
                let hits: Vec<bool> = items.iter_mut().map(&mut visit).collect();
                if by.is_none() {
                    let mut hits = hits.into_iter();
                    items.retain(|_| !hits.next().unwrap());
                }
            }
            Json::Object(members) => {
                let hits: Vec<bool> = members.iter_mut().map(|(_, value)| visit(value)).collect();
                if by.is_none() {
                    let mut hits = hits.into_iter();
                    members.retain(|_| !hits.next().unwrap());
                }
            }
            _ => {}
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn damaged_documents_are_refused_or_sound(
            text in prop::sample::select(vec![V2, V3, SHARDED, TEXT, OBJECTS, STRUCT_V2, STRUCT_V3, OPTIONAL, RECTILINEAR, RECTILINEAR_SHARDS]),
            damages in proptest::collection::vec((0usize..60, proptest::option::of(any::<prop::sample::Index>())), 1..4),
        ) {
            let (mut document, hostile) = (json(text), json(HOSTILE));
            for (mut which, by) in damages {
                let by = by.map(|at| at.get(hostile.as_array().unwrap()).clone());
                damage(&mut document, &mut which, by.as_ref());
            }
            let parsed = if ![V2, OBJECTS, STRUCT_V2].contains(&text) { v3::parse(&document.clone().into()) } else { v2::parse(&document.clone().into(), Attributes::Alone(None)) };
            let store = memory();
            match parsed {
                Err(problem) => prop_assert!(!problem.text().is_empty()),
                Ok(metadata) => if let Ok(layout) = metadata.layout(&store, "a", "a/zarr.json") {
                    prop_assert_eq!(layout.shape().len(), layout.grid().rank());
                    prop_assert!(layout.grid().chunk_shape().iter().all(|n| *n > 0));
                    prop_assert_eq!(layout.fill().bytes().len(), layout.dtype().size());
                    prop_assert!(layout.dtype().size() > 0);
                    let structure = metadata.structure.as_ref();
                    prop_assert!(structure.is_none_or(|structure| structure.size() == layout.dtype().size()));
                    let objects = layout.object_grid().chunk_shape();
                    prop_assert!(objects.iter().zip(layout.grid().chunk_shape()).all(|(object, chunk)| object % chunk == 0));
                }
            }
        }
    }

    #[test]
    fn undamaged_documents_are_sound() {
        let store = memory();
        let v2 = v2::parse(&json(V2).into(), Attributes::Alone(None)).unwrap();
        let v3 = v3::parse(&json(V3).into()).unwrap();
        assert_eq!(
            v2::parse(&json(STRUCT_V2).into(), Attributes::Alone(None)).unwrap().element.engine_type().size(),
            55
        );
        assert_eq!(v3::parse(&json(STRUCT_V3).into()).unwrap().element.engine_type().size(), 13);
        let optional = v3::parse(&json(OPTIONAL).into()).unwrap();
        assert_eq!(optional.element.engine_type().size(), 5);
        assert_eq!(optional.layout(&store, "", "zarr.json").unwrap().encoding().chain().codecs().len(), 1);
        let sharded = v3::parse(&json(SHARDED).into()).unwrap();
        assert_eq!((sharded.chunk.as_slice(), sharded.codecs.order.as_slice()), (&[2, 1][..], &[0, 1][..]));
        assert_eq!(sharded.layout(&store, "", "zarr.json").unwrap().sharding().unwrap().levels().len(), 2);
        let shards =
            v3::parse(&json(RECTILINEAR_SHARDS).into()).unwrap().layout(&store, "", "zarr.json").unwrap();
        assert_eq!((shards.grid().is_regular(), shards.grid().chunk_shape()), (true, &[1, 2][..]));
        assert_eq!(shards.object_grid().counts(shards.shape()).as_slice(), [3, 3]);
        let odd = RECTILINEAR_SHARDS.replace("\"chunk_shape\": [2, 1]", "\"chunk_shape\": [2, 2]");
        let why = v3::parse(&json(&odd).into()).unwrap_err().text();
        assert!(
            why.contains("axis 0: shards must be whole inner chunks of 2 elements, found a shard of 1"),
            "{why}"
        );
        for metadata in [v2, v3] {
            let layout = metadata.layout(&store, "", "zarr.json").unwrap();
            // An array at the root has its store's name.
            assert_eq!(layout.name(), store.url());
            assert_eq!(layout.encoding().order(), [1, 0]);
            assert_eq!(layout.encoding().chain().codecs().len(), 2);
        }
    }
}
