//! Arrays: metadata bound to a place in a store.

use crate::consolidated::Copied;
use crate::create::{self, Creation};
use crate::error::Problem;
use crate::json::Json;
use crate::metadata::Metadata;
use crate::node::{self, NodeKind, StoredNode, Wanted, ZARR_JSON, ZARRAY, ZATTRS};
use crate::origin::OpenedAt;
use crate::path::{join, normalize_path};
use crate::structure::Structure;
use crate::{ArraySpec, AxisChunks, Format, KeyEncoding, Result, ZarrError, node_lock, walk};
use hyperslab_array::ArrayLayout;
use hyperslab_codec::{DataType, VlenKind};
use hyperslab_store::{Ask, Identity, Store};
use std::fmt;
use std::sync::Arc;

/// An array.
#[derive(Clone)]
pub struct Array {
    store: Arc<dyn Store>,
    path: String,
    metadata: Arc<Metadata>,
    layout: Arc<ArrayLayout>,
    consolidated: bool,
    /// A group's copy of the metadata, updated when this array changes.
    copy: Option<Copied>,
}

impl Array {
    /// Opens an array. Without a `format`, v3 is tried first.
    pub fn open(store: &Arc<dyn Store>, path: &str, format: Option<Format>) -> Result<Self> {
        node::open_array(store, path, format)
    }

    /// Creates an array, and missing groups above it.
    ///
    /// With `overwrite`, the array replaces everything stored at `path` and below. The old content
    /// stays until the new array exists, and is then deleted. Without `overwrite`, an existing
    /// array or group is an error. If `spec` is not valid, nothing changes.
    ///
    /// The new array is empty. To replace an array together with its elements, use
    /// [`Array::replace_with`].
    pub fn create(store: Arc<dyn Store>, path: &str, spec: ArraySpec, overwrite: bool) -> Result<Self> {
        let how = if overwrite { Creation::Replace } else { Creation::New };
        Self::create_with(store, path, spec, how, None)
    }

    /// Like [`Array::create`]. `ask` is called while this waits for others or deletes; `true` gives
    /// up.
    pub fn create_with(
        store: Arc<dyn Store>,
        path: &str,
        spec: ArraySpec,
        how: Creation,
        ask: Option<Ask<'_>>,
    ) -> Result<Self> {
        let (array, documents) = Self::plan_new(&store, path, spec)?;
        let create = |found| create::node(&store, &array.path, array.format(), &documents, how, found, ask);
        let places = matches!(how, Creation::New | Creation::Inside);
        if places && store.facts().is_shared && store.cost().prefers_rounds() {
            let there = create::look(&store, &array.path, array.format(), how, ask)?;
            let leftovers = match there.below() {
                Some(keys) => array.chunks_among(keys),
                None => array.leftovers(ask)?,
            };
            create(Some((there, &|| array.clear_leftovers(&leftovers, ask))))?;
        } else {
            create(None)?;
        }
        Ok(array)
    }

    /// Creates an array with its elements and replaces everything stored at `path` and below.
    ///
    /// [`Array::create`] with `overwrite` does the same without elements.
    ///
    /// `fill` writes the elements. It receives the new array, which is stored beside the old one
    /// and visible to nobody else. `fill` must not use that array later. Then the new array
    /// replaces the old one, and is returned. If `fill` fails, `ask` gives up or the process is
    /// killed, the old array is unchanged. `fill` may therefore read from it.
    ///
    /// A store that cannot move objects collects the new array in memory and writes it at the end
    /// ([`Store::stage`]). A server does so up to a limit; above it, the old array is deleted
    /// first.
    pub fn replace_with<E: From<ZarrError>>(
        store: Arc<dyn Store>,
        path: &str,
        spec: ArraySpec,
        ask: Option<Ask<'_>>,
        fill: impl FnOnce(&Array) -> Result<(), E>,
    ) -> Result<Self, E> {
        let (array, documents) = Self::plan_new(&store, path, spec)?;
        create::replacing(&store, &array.path, array.format(), &documents, ask, |new| {
            let (root, metadata) = (String::new(), array.metadata.clone());
            let mut beside = Self::bind(new.clone(), root, metadata, "", false, None)?;
            // Messages use the caller's name for the array.
            let layout = ArrayLayout::clone(&beside.layout);
            beside.layout = Arc::new(layout.with_name(array.layout.name()));
            fill(&beside)
        })?;
        Ok(array)
    }

    /// An array that is not stored yet, and its documents.
    fn plan_new(
        store: &Arc<dyn Store>,
        path: &str,
        spec: ArraySpec,
    ) -> Result<(Self, Vec<create::Document>)> {
        let path = normalize_path(path)?;
        let invalid = |why: String| ZarrError::Invalid { path: path.clone(), why };
        let file = if spec.format == Format::V2 { ZARRAY } else { ZARR_JSON };
        let (document, attributes) = spec.document().map_err(|problem| match problem {
            Problem::Invalid(why) => invalid(why),
            Problem::Unsupported(_) => problem.at(&store.url(), &join(&path, file)),
        })?;
        let stored_attributes = (spec.format == Format::V2).then(|| Arc::new(attributes.clone()));
        let stored = StoredNode {
            format: spec.format,
            kind: NodeKind::Array,
            key: join(&path, file),
            document: document.into(),
            attributes: stored_attributes,
            consolidated: None,
            apart: None,
        };
        // Parse it as a reader would: a document that cannot be opened must not be stored.
        let array =
            Self::from_stored(store.clone(), path.clone(), stored.clone(), false, None).map_err(|error| {
                match error {
                    ZarrError::Metadata { why, .. } => invalid(why),
                    error => error,
                }
            })?;
        array.metadata.check_encodings().map_err(invalid)?;
        let mut documents = vec![(file, Json::clone(&stored.document))];
        if spec.format == Format::V2 {
            documents.insert(0, (ZATTRS, attributes));
        }
        Ok((array, documents))
    }

    pub(crate) fn from_stored(
        store: Arc<dyn Store>,
        path: String,
        stored: StoredNode,
        consolidated: bool,
        identity: Option<Identity>,
    ) -> Result<Self> {
        if stored.kind != NodeKind::Array {
            return Err(ZarrError::WrongNode {
                url: store.url(),
                path,
                expected: "an array",
                found: stored.kind.with_article(),
            });
        }
        let metadata = Arc::new(stored.array(&store)?);
        Self::bind(store, path, metadata, &stored.key, consolidated, identity)
    }

    /// Binds metadata to a place. `key` is the document's key, for messages. `identity` is the
    /// directory that the document was read from, if known.
    pub(crate) fn bind(
        store: Arc<dyn Store>,
        path: String,
        metadata: Arc<Metadata>,
        key: &str,
        consolidated: bool,
        identity: Option<Identity>,
    ) -> Result<Self> {
        let place = OpenedAt::new(store.clone(), path.clone(), metadata.clone(), identity);
        let layout = Arc::new(metadata.layout(&store, &path, key)?.with_origin(Arc::new(place)));
        Ok(Array { store, path, metadata, layout, consolidated, copy: None })
    }

    /// The array that a document describes, whatever is stored at `path`.
    ///
    /// The document is not looked up there, and reads and writes do not check that the stored
    /// document is still the same. For callers that have the metadata from elsewhere. `document` is
    /// the text of `zarr.json` or `.zarray`.
    pub fn of_document(store: Arc<dyn Store>, path: &str, format: Format, document: &[u8]) -> Result<Self> {
        let path = normalize_path(path)?;
        let key = join(&path, if format == Format::V2 { ZARRAY } else { ZARR_JSON });
        let document = node::parse_document(&store, &key, document)?;
        let kind = NodeKind::Array;
        let stored = StoredNode {
            format,
            kind,
            key,
            document: document.into(),
            attributes: None,
            consolidated: None,
            apart: None,
        };
        let metadata = Arc::new(stored.array(&store)?);
        let layout = Arc::new(metadata.layout(&store, &path, &stored.key)?);
        Ok(Array { store, path, metadata, layout, consolidated: false, copy: None })
    }

    pub(crate) fn metadata(&self) -> &Arc<Metadata> {
        &self.metadata
    }

    /// The layout that the engine needs to read and write.
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

    /// The user's attributes, as an object.
    pub fn attributes(&self) -> &Json {
        self.metadata.attributes.json()
    }

    /// Names of the axes: v3's `dimension_names`, or xarray's attribute `_ARRAY_DIMENSIONS` in v2.
    pub fn dimension_names(&self) -> Option<&[Option<String>]> {
        self.metadata.dimension_names.as_deref()
    }

    /// Elements per axis of a chunk, as users see it.
    ///
    /// With shards in shards, these are the chunks of the outermost shards, as in zarr-python. The
    /// engine uses the innermost chunks.
    pub fn chunks(&self) -> &[u64] {
        self.metadata.shown_chunk()
    }

    /// The chunks along each axis of a rectilinear grid.
    ///
    /// [`Array::chunks`] is then the largest possible chunk. In an array with shards, the shards
    /// have different lengths, and [`Array::shards`] is the largest shard.
    pub fn rectilinear(&self) -> Option<&[AxisChunks]> {
        self.metadata.rectilinear.as_ref().map(|grid| grid.axes.as_slice())
    }

    /// Elements per axis of a shard, or `None` if each chunk is an object.
    ///
    /// If shards have different lengths, this is the largest one.
    pub fn shards(&self) -> Option<&[u64]> {
        self.metadata.shards.as_ref().map(|_| self.metadata.object_shape())
    }

    /// How chunks are named.
    pub fn key_encoding(&self) -> &KeyEncoding {
        self.metadata.keys.encoding()
    }

    /// The type of elements of variable length, or `None` if elements have one size.
    pub fn vlen(&self) -> Option<VlenKind> {
        self.metadata.element.vlen()
    }

    /// The type of values if elements may be missing, otherwise `None`.
    ///
    /// An element in memory is then [`DataType::optional`] of this type.
    pub fn optional(&self) -> Option<DataType> {
        self.metadata.element.optional()
    }

    /// The fields of elements, in their byte order in memory, or `None` if there are no fields.
    pub fn structure(&self) -> Option<&Arc<Structure>> {
        self.metadata.structure.as_ref()
    }

    /// v3: the codecs before the serializer, `{"name": …, "configuration": …}`. v2: the filters,
    /// `{"id": …, …}`.
    ///
    /// If the array's only codec makes shards, these are the codecs of [`Array::chunks`]. The same
    /// holds for the two methods below.
    pub fn filters(&self) -> &[Json] {
        &self.metadata.filters
    }

    /// v3: the array-to-bytes codec. v2: `None`.
    pub fn serializer(&self) -> Option<&Json> {
        self.metadata.serializer.as_ref()
    }

    /// v3: the codecs after the serializer. v2: the compressor, if there is one.
    pub fn compressors(&self) -> &[Json] {
        &self.metadata.compressors
    }

    /// All codecs of an innermost chunk, in the order of encoding.
    pub fn chunk_codecs(&self) -> Vec<Json> {
        match &self.metadata.shards {
            Some(shards) => shards.chunk_codecs.clone(),
            None => {
                self.filters().iter().chain(self.serializer()).chain(self.compressors()).cloned().collect()
            }
        }
    }

    /// v2: the first filter, if it makes bytes from elements of variable length.
    pub fn object_codec(&self) -> Option<&Json> {
        let has_one = self.vlen().is_some() && self.format() == Format::V2;
        self.filters().first().filter(|_| has_one)
    }

    /// `true` if chunks are stored with the first axis fastest, the last slowest.
    ///
    /// v2 says so with `"order": "F"`, v3 with a transposition. With fewer than two axes both
    /// orders are the same, and the result is `false` unless v2 metadata says otherwise.
    pub fn fortran_order(&self) -> bool {
        match self.metadata.format {
            Format::V2 => self.metadata.document.get("order").and_then(Json::as_str) == Some("F"),
            Format::V3 => {
                let rank = self.metadata.codecs.order.len();
                rank > 1 && self.metadata.codecs.order.iter().copied().eq((0..rank).rev())
            }
        }
    }

    /// The fill value: one element's bytes in memory.
    ///
    /// `None` if it is v2's `null`: elements never written then read as the type's default.
    pub fn fill(&self) -> Option<&[u8]> {
        self.metadata.fill.as_deref()
    }

    /// The metadata document, `zarr.json` or `.zarray`.
    pub fn to_json(&self) -> &Json {
        &self.metadata.document
    }

    /// `true` if the metadata comes from consolidated metadata of a group above.
    pub fn is_consolidated(&self) -> bool {
        self.consolidated
    }

    /// Opens an array from a group's copy of the metadata.
    pub(crate) fn from_copy(
        store: Arc<dyn Store>,
        path: String,
        stored: StoredNode,
        copy: Copied,
    ) -> Result<Self> {
        let mut array = Self::from_stored(store, path, stored, true, None)?;
        array.copy = Some(copy);
        Ok(array)
    }

    /// From now on, changes also update a group's copy.
    pub(crate) fn keep_up(&mut self, copy: Copied) {
        self.copy = Some(copy);
    }

    /// Replaces this array by the stored one.
    pub(crate) fn become_stored(&mut self, stored: &StoredNode, mut now: Array) {
        now.copy = self.copy.take();
        if let Some(copy) = &now.copy {
            copy.put(stored.clone());
        }
        *self = now;
    }

    /// Reads the metadata again from the array's own object.
    ///
    /// Also does so if the metadata came from consolidated metadata.
    pub fn refresh(&mut self) -> Result<()> {
        let stored = self.read()?;
        let now = self.of_stored(&stored)?;
        self.become_stored(&stored, now);
        Ok(())
    }

    /// The array that `stored` describes, at this array's path.
    pub(crate) fn of_stored(&self, stored: &StoredNode) -> Result<Self> {
        Self::from_stored(self.store.clone(), self.path.clone(), stored.clone(), false, None)
    }

    /// Reads the array's metadata as it is stored now.
    pub(crate) fn read(&self) -> Result<StoredNode> {
        let wanted = Wanted::array(Some(self.format()));
        node::read(&self.store, &self.path, wanted)?.ok_or_else(|| self.not_found())
    }

    pub(crate) fn not_found(&self) -> ZarrError {
        ZarrError::NotFound { what: "array", url: self.store.url(), path: self.path.clone() }
    }

    /// The number of stored chunks (or shards, if there are any), and their bytes.
    ///
    /// Lists the store. `ask` is called now and then; `true` gives up with
    /// [`ZarrError::Interrupted`].
    pub fn chunks_stored(&self, ask: Option<Ask<'_>>) -> Result<(u64, u64)> {
        let counts = self.layout.object_grid().counts(self.layout.shape());
        let (mut chunks, mut bytes) = (0, 0u64);
        for (size, chunk) in self.chunk_sizes(ask)? {
            if chunk.iter().zip(&counts).all(|(index, count)| index < count) {
                chunks += 1;
                bytes = bytes.saturating_add(size);
            }
        }
        Ok((chunks, bytes))
    }

    /// The number of chunks of this shape in all stored objects.
    ///
    /// As in zarr-python, all chunks of a stored shard count, also those past the array's end.
    /// Lists the store.
    pub fn chunks_in_stored(&self, chunk: &[u64], ask: Option<Ask<'_>>) -> Result<u64> {
        let grid = self.layout.object_grid();
        let of_object = |place: &[u64]| {
            let axes = grid.shape_of(place).into_iter().zip(chunk);
            axes.fold(1u64, |n, (object, chunk)| n.saturating_mul(object.div_ceil((*chunk).max(1))))
        };
        let places = self.stored_places(ask)?;
        Ok(places.iter().fold(0u64, |n, place| n.saturating_add(of_object(place))))
    }

    /// Frees the bytes of shards that nothing refers to any more, and returns their number.
    ///
    /// Works shard by shard. With `dry`, only counts the bytes. `interrupt` is called before each
    /// shard; `true` stops. Each shard is complete at every instant, even if the process is killed.
    pub fn compact(&self, dry: bool, interrupt: Option<&dyn Fn() -> bool>) -> Result<u64> {
        if !dry {
            // Leftovers of killed writers, also in arrays without shards.
            self.store.sweep(node_lock::prefix(&self.path)?, interrupt)?;
        }
        if self.shards().is_none() {
            return Ok(0);
        }
        let counts = self.layout.object_grid().counts(self.layout.shape());
        let mut bytes = 0u64;
        for (_, shard) in self.chunk_keys(interrupt)? {
            walk::check(interrupt)?;
            if shard.iter().zip(&counts).all(|(index, count)| index < count) {
                let freed = hyperslab_array::compact_asking(&self.layout, &shard, dry, interrupt)?;
                bytes = bytes.saturating_add(freed);
            }
        }
        Ok(bytes)
    }

    /// Deletes the array with all its chunks, in one step if the store can do that.
    ///
    /// For an array at the root, deletes everything in the store.
    pub fn delete(self) -> Result<()> {
        create::remove(&self.store, &self.path, None)
    }
}

/// Omits the store's contents.
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

#[cfg(test)]
#[path = "array_tests.rs"]
mod tests;
