//! `sharding_indexed` after codecs that change elements or shapes (`reshape`, `bitround`, …).
//!
//! The codec then cuts something other than the array. Its inner chunks are not boxes of the array,
//! so the engine cannot read a single one. The whole shard goes through its codecs at once.
//!
//! The shard is an array of its own in memory, which the engine reads and writes.

use super::sharding::{self, Codecs, NAME};
use crate::error::{Problem, invalid};
use crate::json::Json;
use hyperslab_array::{
    ArrayError, ArrayLayout, ChunkEncoding, ChunkGrid, ChunkList, ChunkLocator, Dims, FillValue, Found,
    LocateError, Location, ReadOptions, Selection, Sharding, Source, Target, WriteOptions, read_into, write,
};
use hyperslab_codec::{ArrayToBytes, Codec, CodecError, Context, DataType, Result, Scratch};
use hyperslab_store::{Key, MemoryStore, Store, StoreError};
use std::sync::Arc;

/// The only object of the shard's store.
const OBJECT: &str = "shard";

/// Factor on the size of all chunks, for gaps that other writers leave between them.
const SLACK: usize = 2;

/// Shards of an array that codecs have changed.
#[derive(Debug)]
pub(super) struct WholeShard {
    shape: Dims,
    dtype: DataType,
    encoding: ChunkEncoding,
    fill: FillValue,
    sharding: Sharding,
    json: serde_json::Value,
}

impl WholeShard {
    /// Reads the metadata of a sharding codec for chunks like `array`.
    pub(super) fn new(json: &Json, array: &Context<'_>) -> Result<Self, Problem> {
        sharding::check_depth(json)?;
        let list = Json::Array(vec![json.clone()]);
        // Inner chunks get elements by value, whatever codec made the elements.
        let codecs = Codecs::parse(&list, Context { by_value: true, ..array.clone() })?;
        let Some(shards) = codecs.shards else { return invalid!("codecs: expected \"{NAME}\"") };
        let encoding = ChunkEncoding::of(&codecs.chunk, array.dtype, &codecs.codecs);
        Ok(WholeShard {
            shape: array.shape.as_ref().into(),
            dtype: array.dtype,
            encoding: encoding.map_err(|why| Problem::Invalid(format!("codecs: \"{NAME}\": {why}")))?,
            fill: FillValue::new(&array.fill),
            sharding: shards.sharding,
            json: json.to_serde().map_err(|error| Problem::Invalid(error.why))?,
        })
    }

    /// An array of one shard, in `store`.
    fn layout(&self, store: &Arc<MemoryStore>) -> Result<ArrayLayout, ArrayError> {
        let inner = self.encoding.chunk_shape();
        let grid = ChunkGrid::regular(inner.into()).ok_or_else(|| ArrayError::Layout {
            array: NAME.into(),
            why: format!("chunks of shape {inner:?} have no elements"),
        })?;
        ArrayLayout::new(
            NAME,
            self.shape.clone(),
            self.dtype,
            grid,
            self.encoding.clone(),
            self.fill.clone(),
            Arc::new(OneObject),
            store.clone(),
        )?
        .with_sharding(self.sharding.clone())
    }

    /// Bytes of all elements of the shard.
    fn size(&self) -> usize {
        let elements = hyperslab_array::element_count(&self.shape).and_then(|n| usize::try_from(n).ok());
        elements.and_then(|n| n.checked_mul(self.dtype.size())).unwrap_or(usize::MAX)
    }

    fn read(&self, src: &[u8], dst: &mut [u8]) -> Result<(), ArrayError> {
        let store = Arc::new(MemoryStore::passing());
        put(&store, src)?;
        let layout = self.layout(&store)?;
        let target = Target::dense(dst, &self.shape, self.dtype.size());
        let mut target = target.ok_or_else(|| self.no_memory())?;
        // This thread has a task already, and the other threads have theirs.
        let options = ReadOptions { threads: Some(1), ..ReadOptions::default() };
        read_into(&layout, &Selection::all(&self.shape), &mut target, options)
    }

    fn write(&self, src: &[u8], dst: &mut Vec<u8>) -> Result<(), ArrayError> {
        let store = Arc::new(MemoryStore::passing());
        let layout = self.layout(&store)?;
        let source = Source::dense(src, &self.shape, self.dtype.size());
        let source = source.ok_or_else(|| self.no_memory())?;
        // The engine stores no object for a shard of only fill value, but here there must be one.
        for write_empty_chunks in [Some(false), Some(true)] {
            let options = WriteOptions { threads: Some(1), write_empty_chunks, ..WriteOptions::default() };
            write(&layout, &Selection::all(&self.shape), &source, options)?;
            if get(&store, dst)? {
                break;
            }
        }
        Ok(())
    }

    fn no_memory(&self) -> ArrayError {
        let why = format!("elements of shape {:?} do not fit into memory", self.shape.as_slice());
        ArrayError::Layout { array: NAME.into(), why }
    }
}

fn key() -> Result<Key<'static>, ArrayError> {
    Key::new(OBJECT).map_err(store_error)
}

fn put(store: &MemoryStore, bytes: &[u8]) -> Result<(), ArrayError> {
    store.write(key()?, &[bytes]).map_err(store_error)
}

fn get(store: &MemoryStore, bytes: &mut Vec<u8>) -> Result<bool, ArrayError> {
    store.read_all(key()?, bytes, usize::MAX).map_err(store_error)
}

fn store_error(source: StoreError) -> ArrayError {
    ArrayError::Store { array: NAME.into(), chunk: Vec::new(), source: Box::new(source) }
}

/// Keeps an error from a codec in another language unchanged.
fn cause(error: ArrayError, other: impl FnOnce(String) -> CodecError) -> CodecError {
    match error {
        ArrayError::Codec { source, .. } if matches!(*source, CodecError::Foreign { .. }) => *source,
        error => other(error.to_string()),
    }
}

impl Codec for WholeShard {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let (size, room) = (self.size(), dst.len());
        let dst = dst.get_mut(..size).ok_or_else(|| CodecError::Size {
            codec: NAME,
            expected: room as u64,
            found: size as u64,
        })?;
        self.read(src, dst).map_err(|error| cause(error, |why| CodecError::Corrupt { codec: NAME, why }))?;
        Ok(size)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        self.write(src, dst).map_err(|error| cause(error, |why| CodecError::Encode { codec: NAME, why }))
    }

    fn max_encoded(&self, _: usize) -> usize {
        let innermost = self.encoding.chain().max_encoded();
        self.sharding.levels().iter().rev().fold(innermost, |chunk, level| {
            let chunks = hyperslab_array::element_count(level.counts()).and_then(|n| usize::try_from(n).ok());
            let all = chunks.unwrap_or(usize::MAX).saturating_mul(chunk);
            let shard = all.saturating_mul(SLACK).saturating_add(level.index().size());
            level.codecs().iter().fold(shard, |size, codec| codec.max_encoded(size))
        })
    }

    fn runs_in(&self) -> Option<&'static str> {
        let shards = self.sharding.levels().iter().flat_map(|level| level.codecs());
        let chunks = self.encoding.chain().codecs();
        shards.chain(chunks).find_map(|codec| codec.runs_in())
    }

    fn to_v3(&self) -> Option<serde_json::Value> {
        Some(self.json.clone())
    }

    fn to_v2(&self) -> Option<serde_json::Value> {
        None
    }
}

impl ArrayToBytes for WholeShard {}

/// All chunks are in one object.
#[derive(Debug)]
struct OneObject;

impl ChunkLocator for OneObject {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        for _ in wanted.iter() {
            found.object(|key| key.push_str(OBJECT));
            found.chunk(Location::Object);
        }
        Ok(())
    }
}
