//! Facts about arrays and groups, for display or storage.

use crate::{Array, Error, Format, Group, Json, Node, NodeKind, Object, Result, error::check};
use hyperslab_array::element_count;
use hyperslab_codec::{DataType, VlenKind};
use hyperslab_store::Ask;
use hyperslab_zarr::Structure;
use std::sync::Arc;

/// All facts about an array.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Info {
    /// The URL of the store or the file.
    pub url: String,
    /// `/` and the path in the store or file.
    pub name: String,
    /// The format.
    pub format: Format,
    /// Elements per axis.
    pub shape: Vec<u64>,
    /// The element type in memory; for elements that may be missing, the type of their values.
    pub dtype: DataType,
    /// The kind of elements of variable length; `None`: all have one size.
    pub vlen: Option<VlenKind>,
    /// `true`: elements may be missing.
    pub optional: bool,
    /// The fields of Zarr elements; `None`: no fields.
    pub structure: Option<Arc<Structure>>,
    /// Elements of a chunk per axis; with shards, of the innermost chunks.
    pub chunks: Vec<u64>,
    /// `true`: chunks have different shapes.
    /// Then `chunks` and `chunk_bytes` describe the largest possible chunk.
    pub several_shapes: bool,
    /// Chunks per axis.
    pub grid: Vec<u64>,
    /// The axes in the order in which a chunk stores them, slowest first: `0, 1, …` is C order.
    pub order: Vec<u64>,
    /// How the elements are stored, in a few words; `None`: each chunk (or shard) is an object.
    pub storage: Option<&'static str>,
    /// The codecs of a chunk as in the metadata, in encoding order.
    /// For v2: filters and compressor. For HDF5: filters.
    pub codecs: Vec<Json>,
    /// The shards, if there are any.
    pub shards: Option<ShardInfo>,
    /// The fill value as in the metadata.
    pub fill_value: Json,
    /// Names of the axes.
    pub dimension_names: Option<Vec<Option<String>>>,
    /// The user's attributes.
    pub attributes: Json,
    /// Bytes of all elements in memory.
    /// For elements of variable length, excludes their values; so does `chunk_bytes`.
    pub bytes: u64,
    /// Bytes of one chunk in memory.
    pub chunk_bytes: u64,
    /// Number of chunks in the grid.
    pub chunks_total: u64,
    /// Number of stored chunks. All chunks of a stored shard count.
    /// `None`: unknown, because the store does not list its objects.
    pub chunks_stored: Option<u64>,
    /// Bytes of the stored chunks or shards, if known.
    pub bytes_stored: Option<u64>,
}

/// Facts about the shards of an array.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ShardInfo {
    /// Elements of a shard per axis; if shapes differ, the longest along each axis.
    pub shape: Vec<u64>,
    /// `true`: shards have different shapes (a rectilinear grid).
    pub several_shapes: bool,
    /// Number of innermost chunks in a shard; if shapes differ, in the largest.
    pub chunks: u64,
    /// Shards per axis.
    pub grid: Vec<u64>,
    /// Number of shards in the grid.
    pub total: u64,
    /// Number of stored shards, if known.
    pub stored: Option<u64>,
    /// Levels of nested shards, from the object inwards; usually one level.
    pub levels: Vec<ShardLevelInfo>,
}

/// Facts about one level of shards.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ShardLevelInfo {
    /// Elements of a shard of this level per axis.
    pub shape: Vec<u64>,
    /// `true`: the index comes before the chunks. `false`: it comes after them.
    pub index_at_start: bool,
    /// Names of the codecs that encode the shard as a whole.
    pub codecs: Vec<&'static str>,
}

impl ShardInfo {
    fn new(array: &Array, stored: Option<u64>) -> Option<Self> {
        let layout = array.layout();
        let sharding = layout.sharding()?;
        let grid = sharding.grid().counts(layout.shape());
        let shape = sharding.grid().chunk_shape();
        let chunks = shape.iter().zip(layout.grid().chunk_shape());
        let chunks = chunks.fold(1, |n: u64, (shard, chunk)| n.saturating_mul(shard / (*chunk).max(1)));
        let levels = sharding.levels().iter().map(|level| ShardLevelInfo {
            shape: level.shape().to_vec(),
            index_at_start: level.at_start(),
            codecs: level.codecs().iter().map(|codec| codec.name()).collect(),
        });
        Some(ShardInfo {
            shape: shape.to_vec(),
            several_shapes: !sharding.grid().is_regular(),
            chunks,
            total: element_count(&grid).unwrap_or(u64::MAX),
            grid: grid.to_vec(),
            stored,
            levels: levels.collect(),
        })
    }

    fn to_json(&self) -> Json {
        let level = |level: &ShardLevelInfo| {
            let location = if level.index_at_start { "start" } else { "end" };
            let codecs = level.codecs.iter().map(|name| Json::from(*name)).collect();
            Json::from([
                ("shape", level.shape.as_slice().into()),
                ("index_location", location.into()),
                ("codecs", Json::Array(codecs)),
            ])
        };
        Json::from([
            ("shape", self.shape.as_slice().into()),
            ("several_shapes", self.several_shapes.into()),
            ("chunks", self.chunks.into()),
            ("grid", self.grid.as_slice().into()),
            ("total", self.total.into()),
            ("stored", optional(self.stored)),
            ("levels", Json::Array(self.levels.iter().map(level).collect())),
        ])
    }
}

impl Info {
    pub(crate) fn new(array: &Array, ask: Option<Ask<'_>>) -> Result<Self> {
        // A file knows its chunks without listing the store.
        let known = array.file().is_some() || array.store().facts().lists;
        let stored = known.then(|| array.chunks_stored(ask)).transpose()?;
        let (objects, bytes_stored) = (stored.map(|(objects, _)| objects), stored.map(|(_, bytes)| bytes));
        let shards = ShardInfo::new(array, objects);
        let layout = array.layout();
        let grid = layout.grid().counts(layout.shape());
        let chunks_stored = match &shards {
            None => objects,
            Some(shards) if !shards.several_shapes => objects.map(|n| n.saturating_mul(shards.chunks)),
            Some(_) => match (array.as_zarr(), objects) {
                (Some(zarr), Some(_)) => Some(zarr.chunks_in_stored(layout.grid().chunk_shape(), ask)?),
                _ => objects,
            },
        };
        Ok(Info {
            url: array.url(),
            name: array.name(),
            format: array.format(),
            shape: layout.shape().to_vec(),
            dtype: array.optional().unwrap_or(layout.dtype()),
            vlen: array.vlen(),
            optional: array.optional().is_some(),
            structure: array.structure().cloned(),
            chunks: layout.grid().chunk_shape().to_vec(),
            several_shapes: !layout.grid().is_regular(),
            chunks_total: element_count(&grid).unwrap_or(u64::MAX),
            grid: grid.to_vec(),
            order: layout.encoding().order().iter().map(|axis| u64::from(*axis)).collect(),
            storage: array.node().storage(),
            codecs: array.node().codecs(),
            fill_value: array.node().fill_value()?,
            dimension_names: array.dimension_names()?,
            attributes: array.attributes()?.into_owned(),
            bytes: array_bytes(array),
            chunk_bytes: layout.encoding().decoded_size() as u64,
            chunks_stored,
            bytes_stored,
            shards,
        })
    }

    /// The element type, as NumPy writes it, or `string`, `bytes`, `array of <i4`, `optional <i4`.
    pub fn type_name(&self) -> String {
        match self.vlen {
            Some(kind) => kind.to_string(),
            None if self.optional => format!("optional {}", self.dtype),
            None => self.dtype.to_string(),
        }
    }

    /// The size of the elements divided by the size of the stored chunks.
    /// `None` if nothing is known to be stored, or for elements of variable length. Chunks that are
    /// not stored do not count. All chunks of a stored shard count, so with shards this is an
    /// estimate.
    pub fn ratio(&self) -> Option<f64> {
        let (stored, bytes) = (self.chunks_stored? as f64, self.bytes_stored?);
        let elements = match &self.shards {
            // An estimate from the mean chunk size.
            None if self.several_shapes => self.bytes as f64 * stored / self.chunks_total.max(1) as f64,
            // Chunks at the edge are stored whole, so these bytes were encoded.
            None => self.chunk_bytes as f64 * stored,
            Some(shards) => self.bytes as f64 * shards.stored? as f64 / shards.total.max(1) as f64,
        };
        (bytes > 0 && self.vlen.is_none()).then(|| elements / bytes as f64)
    }

    /// Converts to a JSON object with the names of the fields.
    /// The order of axes is `"C"`, `"F"` or a list.
    pub fn to_json(&self) -> Json {
        let name = |name: &Option<String>| name.as_deref().map_or(Json::Null, Json::from);
        let names = |names: &[Option<String>]| Json::Array(names.iter().map(name).collect());
        Json::from([
            ("kind", "array".into()),
            ("url", self.url.as_str().into()),
            ("name", self.name.as_str().into()),
            ("format", self.format.to_string().as_str().into()),
            ("shape", self.shape.as_slice().into()),
            ("dtype", self.structure.as_ref().map_or_else(|| Json::String(self.type_name()), |s| s.to_v2())),
            ("chunks", self.chunks.as_slice().into()),
            ("several_shapes", self.several_shapes.into()),
            ("grid", self.grid.as_slice().into()),
            ("order", self.order_name().map_or_else(|| self.order.as_slice().into(), Json::from)),
            ("storage", self.storage.map_or(Json::Null, Json::from)),
            ("codecs", Json::Array(self.codecs.clone())),
            ("shards", self.shards.as_ref().map_or(Json::Null, ShardInfo::to_json)),
            ("fill_value", self.fill_value.clone()),
            ("dimension_names", self.dimension_names.as_deref().map_or(Json::Null, names)),
            ("attributes", self.attributes.clone()),
            ("bytes", self.bytes.into()),
            ("chunk_bytes", self.chunk_bytes.into()),
            ("chunks_total", self.chunks_total.into()),
            ("chunks_stored", optional(self.chunks_stored)),
            ("bytes_stored", optional(self.bytes_stored)),
        ])
    }

    /// `"C"` (also below two axes), `"F"`, or `None` for another order.
    pub fn order_name(&self) -> Option<&'static str> {
        if self.order.is_sorted() {
            Some("C")
        } else if self.order.iter().rev().is_sorted() {
            Some("F")
        } else {
            None
        }
    }
}

/// A number, or null.
fn optional(number: Option<u64>) -> Json {
    number.map_or(Json::Null, Json::from)
}

/// Bytes of all elements of an array in memory.
pub(crate) fn array_bytes(array: &Array) -> u64 {
    element_count(array.shape()).unwrap_or(u64::MAX).saturating_mul(array.dtype().size() as u64)
}

/// All facts about a group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupInfo {
    /// The URL of the store or the file.
    pub url: String,
    /// `/` and the path in the store or file.
    pub name: String,
    /// The format.
    pub format: Format,
    /// `true`: nodes below are found through consolidated metadata.
    pub consolidated: bool,
    /// The user's attributes.
    pub attributes: Json,
    /// Number of groups below, at any depth.
    pub groups: u64,
    /// Number of arrays below, at any depth.
    pub arrays: u64,
    /// Bytes of all elements in memory.
    pub bytes: u64,
    /// Number of stored chunks. `None`: unknown, because the store does not list its objects.
    pub chunks_stored: Option<u64>,
    /// Bytes of the stored chunks, if known.
    pub bytes_stored: Option<u64>,
    /// Path and error message of nodes that could not be opened. They are not counted.
    pub failures: Vec<(String, String)>,
}

impl GroupInfo {
    pub(crate) fn new(group: &Group, ask: Option<Ask<'_>>) -> Result<Self> {
        let mut info = GroupInfo {
            url: group.url(),
            name: group.name(),
            format: group.format(),
            consolidated: group.is_consolidated(),
            attributes: group.attributes()?.into_owned(),
            groups: 0,
            arrays: 0,
            bytes: 0,
            chunks_stored: Some(0),
            bytes_stored: Some(0),
            failures: Vec::new(),
        };
        for below in group.below(None, ask)? {
            check(ask)?;
            if below.kind != NodeKind::Array {
                info.groups += u64::from(below.kind == NodeKind::Group);
                continue;
            }
            let opened = match group.open_below(&below).and_then(Object::into_node) {
                Ok(Node::Array(array)) => array.info(ask),
                Ok(Node::Group(_)) => continue,
                Err(error) => Err(error),
            };
            match opened {
                Ok(array) => {
                    info.arrays += 1;
                    info.bytes = info.bytes.saturating_add(array.bytes);
                    let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
                    info.chunks_stored = sum(info.chunks_stored, array.chunks_stored);
                    info.bytes_stored = sum(info.bytes_stored, array.bytes_stored);
                }
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => info.failures.push((below.path, error.to_string())),
            }
        }
        Ok(info)
    }

    /// Converts to a JSON object with the names of the fields.
    pub fn to_json(&self) -> Json {
        let failure = |(path, why): &(String, String)| {
            Json::from([("path", path.as_str().into()), ("error", why.as_str().into())])
        };
        Json::from([
            ("kind", "group".into()),
            ("url", self.url.as_str().into()),
            ("name", self.name.as_str().into()),
            ("format", self.format.to_string().as_str().into()),
            ("consolidated", self.consolidated.into()),
            ("attributes", self.attributes.clone()),
            ("groups", self.groups.into()),
            ("arrays", self.arrays.into()),
            ("bytes", self.bytes.into()),
            ("chunks_stored", optional(self.chunks_stored)),
            ("bytes_stored", optional(self.bytes_stored)),
            ("failures", Json::Array(self.failures.iter().map(failure).collect())),
        ])
    }
}
