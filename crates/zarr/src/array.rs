//! Arrays: metadata bound to a place in a store.

use crate::json::Json;
use crate::metadata::Metadata;
use crate::node::{self, NodeKind, Stored, ZARR_JSON, ZARRAY, ZATTRS};
use crate::path::{join, normalize_path};
use crate::{ArraySpec, Format, KeyEncoding, ZarrError, walk};
use hyperslab_array::{ArrayLayout, Dims};
use hyperslab_codec::VlenKind;
use hyperslab_store::{Ask, Key, Store};
use std::fmt;
use std::sync::Arc;

/// Up to so many chunks are deleted by name; beyond that the store is asked what there is, which costs by what is stored and not
/// by what could be: a grid may have 2⁶⁰ chunks, and one object.
const DELETED_BY_NAME: u64 = 1000;

/// An array.
#[derive(Clone)]
pub struct Array {
    store: Arc<dyn Store>,
    path: String,
    metadata: Arc<Metadata>,
    layout: Arc<ArrayLayout>,
    consolidated: bool,
}

impl Array {
    /// Opens an array. Without a `format`, v3 is looked for first.
    pub fn open(store: &Arc<dyn Store>, path: &str, format: Option<Format>) -> Result<Self, ZarrError> {
        node::open_array(store, path, format)
    }

    /// Creates an array, and missing groups above it. With `overwrite`, whatever is stored at `path` and below is deleted first; otherwise an
    /// array or group there is an error. Nothing is changed where `spec` is not valid.
    pub fn create(
        store: Arc<dyn Store>,
        path: &str,
        spec: ArraySpec,
        overwrite: bool,
    ) -> Result<Self, ZarrError> {
        let path = normalize_path(path)?;
        let invalid = |why: String| ZarrError::Invalid { path: path.clone(), why };
        let (document, attributes) = spec.document().map_err(|problem| invalid(problem.text()))?;
        let (file, stored_attributes) = match spec.format {
            Format::V2 => (ZARRAY, Some(attributes.clone())),
            Format::V3 => (ZARR_JSON, None),
        };
        let stored = Stored {
            format: spec.format,
            kind: NodeKind::Array,
            key: join(&path, file),
            document,
            attributes: stored_attributes,
        };
        // What readers will make of it decides whether it can be stored.
        let array = Self::from_stored(store.clone(), path.clone(), stored.clone(), false).map_err(
            |error| match error {
                ZarrError::Metadata { why, .. } => invalid(why),
                ZarrError::Unsupported { what, .. } => invalid(what),
                error => error,
            },
        )?;
        node::make_room(&store, &path, spec.format, overwrite)?;
        // Attributes first: the array appears when it is complete.
        if spec.format == Format::V2 {
            node::write_document(&store, &join(&path, ZATTRS), &attributes)?;
        }
        node::write_document(&store, &stored.key, &stored.document)?;
        Ok(array)
    }

    pub(crate) fn from_stored(
        store: Arc<dyn Store>,
        path: String,
        stored: Stored,
        consolidated: bool,
    ) -> Result<Self, ZarrError> {
        if stored.kind != NodeKind::Array {
            return Err(ZarrError::WrongNode {
                url: store.url(),
                path,
                expected: "an array",
                found: stored.kind.with_article(),
            });
        }
        let metadata = Arc::new(stored.array(&store)?);
        Self::bind(store, path, metadata, &stored.key, consolidated)
    }

    /// Binds metadata to a place. `key` is that of its document, for messages.
    pub(crate) fn bind(
        store: Arc<dyn Store>,
        path: String,
        metadata: Arc<Metadata>,
        key: &str,
        consolidated: bool,
    ) -> Result<Self, ZarrError> {
        let layout = Arc::new(metadata.layout(&store, &path, key)?);
        Ok(Array { store, path, metadata, layout, consolidated })
    }

    pub(crate) fn metadata(&self) -> &Arc<Metadata> {
        &self.metadata
    }

    /// What the engine needs to read and write.
    pub fn layout(&self) -> &Arc<ArrayLayout> {
        &self.layout
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The path in the store; `""` for the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// `/` and the path.
    pub fn name(&self) -> String {
        format!("/{}", self.path)
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.metadata.format
    }

    /// The user's attributes, an object.
    pub fn attributes(&self) -> &Json {
        &self.metadata.attributes
    }

    /// Names of the axes: v3's `dimension_names`; in v2, xarray's attribute `_ARRAY_DIMENSIONS`.
    pub fn dimension_names(&self) -> Option<&[Option<String>]> {
        self.metadata.dimension_names.as_deref()
    }

    /// Elements of a chunk per axis as users know it. Where shards lie within shards, these are the chunks of the outermost, as with zarr-python; the
    /// engine's are the innermost ones.
    pub fn chunks(&self) -> &[u64] {
        self.metadata.shown_chunk()
    }

    /// Elements of a shard per axis; `None` where each chunk is an object of its own.
    pub fn shards(&self) -> Option<&[u64]> {
        self.metadata.shards.as_ref().map(|_| self.metadata.object_shape())
    }

    /// How chunks are named.
    pub fn key_encoding(&self) -> KeyEncoding {
        self.metadata.keys
    }

    /// What its elements of variable length are; `None`: they have one size.
    pub fn vlen(&self) -> Option<VlenKind> {
        self.metadata.element.vlen()
    }

    /// v3: the codecs before the serializer, `{"name": …, "configuration": …}`. v2: the filters, `{"id": …, …}`. Where the array's only codec makes
    /// shards, the codecs of [`Array::chunks`] (also of the two methods below).
    pub fn filters(&self) -> &[Json] {
        &self.metadata.filters
    }

    /// v3: the codec from array to bytes. v2: none.
    pub fn serializer(&self) -> Option<&Json> {
        self.metadata.serializer.as_ref()
    }

    /// v3: the codecs after the serializer. v2: the compressor, if there is one.
    pub fn compressors(&self) -> &[Json] {
        &self.metadata.compressors
    }

    /// All codecs that an innermost chunk goes through, in the order of encoding.
    pub fn chunk_codecs(&self) -> Vec<Json> {
        match &self.metadata.shards {
            Some(shards) => shards.chunk_codecs.clone(),
            None => {
                self.filters().iter().chain(self.serializer()).chain(self.compressors()).cloned().collect()
            }
        }
    }

    /// Whether chunks are stored with the first axis fastest, the last slowest (v2: `"order": "F"`; v3: a transposition). False below two
    /// axes, where both orders are one, unless v2 metadata says so.
    pub fn fortran_order(&self) -> bool {
        match self.metadata.format {
            Format::V2 => self.metadata.document.get("order").and_then(Json::as_str) == Some("F"),
            Format::V3 => {
                let rank = self.metadata.order.len();
                rank > 1 && self.metadata.order.iter().copied().eq((0..rank).rev())
            }
        }
    }

    /// The fill value, one element's bytes in memory (of variable length: its bytes); `None` where it is v2's `null` (then elements never written read as the type's default).
    pub fn fill(&self) -> Option<&[u8]> {
        self.metadata.fill.as_deref()
    }

    /// The metadata document, `zarr.json` or `.zarray`.
    pub fn to_json(&self) -> &Json {
        &self.metadata.document
    }

    /// The metadata document as text.
    pub fn metadata_text(&self) -> String {
        self.metadata.document.to_text(Some(2))
    }

    /// Whether the metadata comes from consolidated metadata of a group above.
    pub fn is_consolidated(&self) -> bool {
        self.consolidated
    }

    /// Reads the metadata again (from the array's own object, also where it came from consolidated metadata).
    pub fn refresh(&mut self) -> Result<(), ZarrError> {
        *self = Self::from_stored(self.store.clone(), self.path.clone(), self.read()?, false)?;
        Ok(())
    }

    /// The array's metadata as it is stored now.
    fn read(&self) -> Result<Stored, ZarrError> {
        let missing =
            || ZarrError::NotFound { what: "array", url: self.store.url(), path: self.path.clone() };
        node::read(&self.store, &self.path, Some(self.format()))?.ok_or_else(missing)
    }

    /// Replaces the attributes, atomically. What else the metadata says is kept as it is stored now.
    pub fn set_attributes(&mut self, attributes: Json) -> Result<(), ZarrError> {
        node::check_attributes(&self.path, &attributes)?;
        let mut stored = self.read()?;
        match stored.format {
            Format::V2 => stored.attributes = Some(attributes.clone()),
            Format::V3 => stored.document.set("attributes", attributes.clone()),
        }
        let changed = Self::from_stored(self.store.clone(), self.path.clone(), stored, false)?;
        match changed.format() {
            Format::V2 => node::write_document(&self.store, &join(&self.path, ZATTRS), &attributes)?,
            Format::V3 => changed.write_document()?,
        }
        *self = changed;
        Ok(())
    }

    fn write_document(&self) -> Result<(), ZarrError> {
        let file = if self.format() == Format::V2 { ZARRAY } else { ZARR_JSON };
        node::write_document(&self.store, &join(&self.path, file), &self.metadata.document)
    }

    /// Changes the extent. No data moves. Chunks (shards, where there are any) that are wholly outside are deleted; of those at the new edge, what lies outside stays
    /// stored, and shows again if the array grows over it (as with zarr-python).
    ///
    /// The metadata is replaced first, then chunks are deleted. An interruption in between leaves an array of the new shape
    /// and some objects that are not part of it; the other order would leave one of the old shape with holes.
    pub fn resize(&mut self, shape: &[u64]) -> Result<(), ZarrError> {
        let stored = self.read()?;
        let key = stored.key.clone();
        let old = Self::from_stored(self.store.clone(), self.path.clone(), stored, false)?;
        if shape.len() != old.metadata.shape.len() {
            let why =
                format!("the new shape has {} axes, the array {}", shape.len(), old.metadata.shape.len());
            return Err(ZarrError::Invalid { path: self.path.clone(), why });
        }
        let old_counts = old.layout.object_grid().counts(&old.metadata.shape);
        let invalid = |why: String| ZarrError::Invalid { path: self.path.clone(), why };
        if let Some(n) = shape.iter().find(|n| **n > i64::MAX as u64) {
            return Err(invalid(format!(
                "shape: expected at most 2⁶³ - 1 elements along an axis, found {n}"
            )));
        }
        let mut metadata = Arc::unwrap_or_clone(old.metadata);
        metadata.set_shape(shape);
        let stored = Stored {
            format: metadata.format,
            kind: NodeKind::Array,
            key,
            document: metadata.document,
            attributes: Some(metadata.attributes),
        };
        let changed = Self::from_stored(self.store.clone(), self.path.clone(), stored, false)?;
        changed.write_document()?;
        changed.delete_outside(&old_counts)?;
        *self = changed;
        Ok(())
    }

    /// Deletes objects of a former grid of `old` objects per axis that this array's grid does not have.
    fn delete_outside(&self, old: &[u64]) -> Result<(), ZarrError> {
        let new = self.layout.object_grid().counts(self.layout.shape());
        let product =
            |counts: &mut dyn Iterator<Item = u64>| counts.fold(1u64, |n, count| n.saturating_mul(count));
        let kept = product(&mut old.iter().zip(&new).map(|(old, new)| *old.min(new)));
        let before = product(&mut old.iter().copied());
        if before == kept && before != u64::MAX {
            return Ok(());
        }
        if before != u64::MAX && before - kept <= DELETED_BY_NAME {
            let mut key = String::new();
            return for_each_lost(old, &new, &mut |chunk| {
                self.layout.locate(chunk, &mut key)?;
                self.store.delete(Key::new(&key)?)?;
                Ok(())
            });
        }
        for (key, chunk) in self.chunk_keys(None)? {
            if chunk.iter().zip(&new).any(|(index, count)| index >= count) {
                self.store.delete(Key::new(&key)?)?;
            }
        }
        Ok(())
    }

    /// All stored objects that are named like chunks (or shards) of this array, also outside its grid.
    fn chunk_keys(&self, ask: Option<Ask<'_>>) -> Result<Vec<(String, Dims)>, ZarrError> {
        let rank = self.layout.shape().len();
        let folder = match self.metadata.keys {
            KeyEncoding::Default { separator: '/' } if rank > 0 => join(&self.path, "c"),
            _ => self.path.clone(),
        };
        let folder = if folder.is_empty() { None } else { Some(Key::new(&folder)?) };
        let keys = self.store.list_asking(folder, ask).map_err(walk::stopped)?;
        let start = if self.path.is_empty() { 0 } else { self.path.len() + 1 };
        Ok(keys
            .into_iter()
            .filter_map(|key| {
                let chunk = self.metadata.keys.parse(key.get(start..)?, rank)?;
                Some((key, chunk))
            })
            .collect())
    }

    /// The indices of the chunks (where there are shards: shards) that are stored. Lists the store.
    pub fn stored_places(&self, ask: Option<Ask<'_>>) -> Result<Vec<Dims>, ZarrError> {
        let counts = self.layout.object_grid().counts(self.layout.shape());
        let places = self.chunk_keys(ask)?.into_iter().map(|(_, place)| place);
        Ok(places.filter(|place| place.iter().zip(&counts).all(|(at, count)| at < count)).collect())
    }

    /// How many chunks (where there are shards: shards) are stored, and their bytes. Lists the store.
    pub fn chunks_stored(&self) -> Result<(u64, u64), ZarrError> {
        self.chunks_stored_asking(None)
    }

    /// As [`Array::chunks_stored`]; `ask` is asked now and then, `true` gives up with [`ZarrError::Interrupted`].
    pub fn chunks_stored_asking(&self, ask: Option<Ask<'_>>) -> Result<(u64, u64), ZarrError> {
        let counts = self.layout.object_grid().counts(self.layout.shape());
        let (mut chunks, mut bytes) = (0, 0u64);
        for (key, chunk) in self.chunk_keys(ask)? {
            walk::check(ask)?;
            if chunk.iter().zip(&counts).all(|(index, count)| index < count)
                && let Some(size) = self.store.size(Key::new(&key)?)?
            {
                chunks += 1;
                bytes = bytes.saturating_add(size);
            }
        }
        Ok((chunks, bytes))
    }

    /// Gives back the bytes of shards that nothing refers to any more, shard by shard; returns how many. `dry`: only counts them. `interrupt` is asked
    /// before each shard whether to stop. Each shard is complete at every instant, also when this is killed.
    pub fn compact(&self, dry: bool, interrupt: Option<&dyn Fn() -> bool>) -> Result<u64, ZarrError> {
        if self.shards().is_none() {
            return Ok(0);
        }
        let counts = self.layout.object_grid().counts(self.layout.shape());
        let mut bytes = 0u64;
        for (_, shard) in self.chunk_keys(interrupt)? {
            walk::check(interrupt)?;
            if shard.iter().zip(&counts).all(|(index, count)| index < count) {
                bytes = bytes.saturating_add(hyperslab_array::compact(&self.layout, &shard, dry)?);
            }
        }
        Ok(bytes)
    }

    /// Deletes the array: its metadata first, then its chunks; an array at the root: everything in the store.
    pub fn delete(self) -> Result<(), ZarrError> {
        node::remove(&self.store, &self.path)
    }
}

/// Without the store's contents.
impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Array")
            .field("url", &self.store.url())
            .field("path", &self.path)
            .field("shape", &self.layout.shape())
            .field("dtype", &self.layout.dtype().numpy())
            .finish_non_exhaustive()
    }
}

/// Calls `visit` for each chunk of a grid of `old` chunks per axis that is not in one of `new`: for each axis that shrinks, the box of chunks
/// that it loses, without those that an earlier axis loses.
fn for_each_lost(
    old: &[u64],
    new: &[u64],
    visit: &mut dyn FnMut(&[u64]) -> Result<(), ZarrError>,
) -> Result<(), ZarrError> {
    for lost in 0..old.len() {
        let ranges: Vec<(u64, u64)> = (old.iter().zip(new).enumerate())
            .map(|(axis, (old, new))| match axis.cmp(&lost) {
                std::cmp::Ordering::Less => (0, *old.min(new)),
                std::cmp::Ordering::Equal => (*old.min(new), *old),
                std::cmp::Ordering::Greater => (0, *old),
            })
            .collect();
        if ranges.iter().any(|(from, to)| from >= to) {
            continue;
        }
        let mut chunk: Vec<u64> = ranges.iter().map(|(from, _)| *from).collect();
        'chunks: loop {
            visit(&chunk)?;
            for (index, (from, to)) in chunk.iter_mut().zip(&ranges).rev() {
                *index += 1;
                if *index < *to {
                    continue 'chunks;
                }
                *index = *from;
            }
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "array_tests.rs"]
mod tests;
