//! A format's description of one array.

pub(crate) mod encoding;
pub(crate) mod fill;
pub(crate) mod grid;
pub(crate) mod locate;
pub(crate) mod mosaic;
pub(crate) mod origin;
pub(crate) mod part;
pub(crate) mod pattern;
pub(crate) mod shapes;
pub(crate) mod shard_index;
pub(crate) mod sharding;
pub(crate) mod sink;

use crate::dims::Dims;
use crate::error::ArrayError;
use crate::error::LocateError;
use crate::layout::encoding::ChunkEncoding;
use crate::layout::fill::FillValue;
use crate::layout::grid::ChunkGrid;
use crate::layout::locate::{ChunkList, ChunkLocator, Found, Location};
use crate::layout::mosaic::Mosaic;
use crate::layout::origin::Origin;
use crate::layout::shapes::{ChunkShapes, MakeEncoding};
use crate::layout::sharding::Sharding;
use crate::layout::sink::ChunkSink;
use hyperslab_codec::{DataType, Heap, Vlen};
use hyperslab_store::Store;
use hyperslab_store::fork::Lazy;
use std::sync::Arc;

/// Everything the engine needs to know about one array.
///
/// Built once, when the array is opened. Immutable and shared.
#[derive(Clone, Debug)]
pub struct ArrayLayout {
    name: String,
    shape: Dims,
    dtype: DataType,
    grid: ChunkGrid,
    encoding: ChunkEncoding,
    /// Encodings for the chunk shapes of a rectilinear grid. `encoding` is for a chunk of the
    /// greatest length along each axis.
    shapes: Option<ChunkShapes>,
    fill: FillValue,
    /// For arrays of element parts (fields): the fill value of the whole element. New chunks are
    /// filled with it.
    whole_fill: Option<FillValue>,
    locator: Arc<dyn ChunkLocator>,
    store: Arc<dyn Store>,
    sharding: Option<Arc<Sharding>>,
    mosaic: Option<Arc<Mosaic>>,
    origin: Option<Arc<dyn Origin>>,
    /// Takes the chunks of writes. `None`: chunks are objects of the store.
    sink: Option<Arc<dyn ChunkSink>>,
    /// Made on first use.
    decoding: Lazy<Arc<str>>,
    /// See [`ArrayLayout::without_skipped_codecs`].
    without: [Lazy<(u32, Arc<ArrayLayout>)>; KEPT],
}

/// Number of layouts that [`ArrayLayout::without_skipped_codecs`] keeps. More sets of left-out
/// codecs are not in use.
const KEPT: usize = 4;

impl ArrayLayout {
    /// Joins the parts. Error messages call the array `name` (its path).
    ///
    /// Fails with [`ArrayError::Layout`] if the parts disagree: different ranks, a fill value that
    /// is not one element, an encoding bound to another chunk size, axes longer than `i64::MAX`.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        name: impl Into<String>,
        shape: Dims,
        dtype: DataType,
        grid: ChunkGrid,
        encoding: ChunkEncoding,
        fill: FillValue,
        locator: Arc<dyn ChunkLocator>,
        store: Arc<dyn Store>,
    ) -> Result<Self, ArrayError> {
        let name = name.into();
        let refuse = |why: String| Err(ArrayError::Layout { array: name.clone(), why });
        if shape.len() != grid.rank() || shape.len() != encoding.rank() {
            return refuse(format!(
                "the shape has {} axes, the chunk grid {}, the codecs {}",
                shape.len(),
                grid.rank(),
                encoding.rank()
            ));
        }
        if let Some((axis, len)) = shape.iter().enumerate().find(|(_, n)| **n > i64::MAX as u64) {
            return refuse(format!("axis {axis} is {len} elements long; the limit is 2⁶³ - 1"));
        }
        if fill.bytes().len() != dtype.size() || encoding.element_size() != dtype.size() {
            return refuse(format!(
                "elements are {} bytes, the fill value {}, the codecs' {}",
                dtype.size(),
                fill.bytes().len(),
                encoding.element_size()
            ));
        }
        if !grid.covers(&shape) {
            return refuse(format!("the chunks do not cover the shape {:?}", shape.as_slice()));
        }
        if encoding.chunk_shape() != grid.chunk_shape() {
            return refuse(format!(
                "chunks have shape {:?}, the codecs are made for {:?}",
                grid.chunk_shape(),
                encoding.chunk_shape()
            ));
        }
        Ok(ArrayLayout {
            name,
            shape,
            dtype,
            grid,
            encoding,
            shapes: None,
            fill,
            whole_fill: None,
            locator,
            store,
            sharding: None,
            mosaic: None,
            origin: None,
            sink: None,
            decoding: Lazy::new(),
            without: Default::default(),
        })
    }

    /// Returns the array with a rectilinear grid: `make` makes the encodings of its chunks.
    pub fn with_shapes(self, make: Arc<dyn MakeEncoding>) -> Self {
        ArrayLayout { shapes: Some(ChunkShapes::new(make)), without: Default::default(), ..self }
    }

    /// Returns the array with the encoding for this chunk's own shape.
    ///
    /// `None` if all chunks share the array's encoding. Fails with [`ArrayError::Layout`] if the
    /// codecs do not fit the shape.
    pub(crate) fn of_chunk(&self, chunk: &[u64]) -> Result<Option<Arc<ArrayLayout>>, ArrayError> {
        let Some(shapes) = &self.shapes else { return Ok(None) };
        let shape = self.grid.shape_of(chunk);
        let refuse = |why: String| {
            let why = format!("chunk {chunk:?} of shape {:?}: {why}", shape.as_slice());
            ArrayError::Layout { array: self.name.clone(), why }
        };
        let own = shapes.layout(&shape, refuse, |encoding| {
            if encoding.order() != self.encoding.order()
                || encoding.element_size() != self.encoding.element_size()
            {
                return Err(refuse("its codecs store another order of axes".into()));
            }
            let (decoding, without) = (Lazy::new(), Default::default());
            Ok(ArrayLayout { encoding, decoding, without, shapes: None, ..self.clone() })
        });
        own.map(Some)
    }

    /// Returns the array with its chunks in shards.
    ///
    /// The shards may form a rectilinear grid ([`Sharding::in_grid`]). Fails with
    /// [`ArrayError::Layout`] if the innermost shards hold chunks of another shape, if the array's
    /// chunks differ in shape, or if the shards do not cover the array.
    pub fn with_sharding(mut self, sharding: Sharding) -> Result<Self, ArrayError> {
        if !self.grid.is_regular() {
            let why = "shards of chunks of different shapes are not supported".into();
            return Err(ArrayError::Layout { array: self.name, why });
        }
        if !sharding.grid().covers(&self.shape) {
            let why = format!("the shards do not cover the shape {:?}", self.shape.as_slice());
            return Err(ArrayError::Layout { array: self.name, why });
        }
        if sharding.chunk_shape() != self.grid.chunk_shape() {
            let (found, chunk) = (sharding.chunk_shape(), self.grid.chunk_shape());
            let why = format!("shards hold chunks of shape {found:?}, the array has {chunk:?}");
            return Err(ArrayError::Layout { array: self.name, why });
        }
        self.sharding = Some(Arc::new(sharding));
        self.without = Default::default();
        Ok(self)
    }

    /// Returns the array as a mosaic, made of parts of other arrays.
    ///
    /// It can be read, but not written. Its chunks are never located; the grid says how much to
    /// read at a time. A read of points reads each cell that they touch as a whole. Fails with
    /// [`ArrayError::Layout`] if a part has another number of axes, or if elements are encoded.
    pub fn with_mosaic(mut self, mosaic: Mosaic) -> Result<Self, ArrayError> {
        let ranks = mosaic.pieces().iter().map(|piece| piece.target.bounds().map(|bounds| bounds.len()));
        if let Some(part) =
            ranks.into_iter().position(|rank| rank.is_some_and(|rank| rank != self.shape.len()))
        {
            let why = format!("part {part} has another number of axes than shape {:?}", self.shape);
            return Err(ArrayError::Layout { array: self.name, why });
        }
        if !self.encoding.is_plain() || !self.encoding.is_c_order() {
            let why = "an array that is made of others has no codecs of its own".into();
            return Err(ArrayError::Layout { array: self.name, why });
        }
        self.mosaic = Some(Arc::new(mosaic));
        Ok(self)
    }

    /// Returns the array with another name in messages.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        let shapes = self.shapes.clone();
        ArrayLayout { name: name.into(), shapes, ..self }
    }

    /// Returns the array with an origin: its reads check whether another array has taken its place.
    pub fn with_origin(mut self, origin: Arc<dyn Origin>) -> Self {
        self.origin = Some(origin);
        self.shapes = self.shapes.clone();
        self
    }

    /// Returns the array with a sink, which takes the chunks of its writes.
    #[must_use]
    pub fn with_sink(mut self, sink: Arc<dyn ChunkSink>) -> Self {
        self.sink = Some(sink);
        self.shapes = self.shapes.clone();
        self
    }

    /// Takes the chunks of writes; `None` if chunks are objects of the store.
    pub(crate) fn sink(&self) -> Option<&dyn ChunkSink> {
        self.sink.as_deref()
    }

    /// Tells whether another array has taken its place; `None` if that cannot be told.
    pub(crate) fn origin(&self) -> Option<&dyn Origin> {
        self.origin.as_deref()
    }

    /// The array's name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Elements per axis.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the array with another shape (after a resize). Fails like [`ArrayLayout::new`].
    pub fn with_shape(&self, shape: Dims) -> Result<Self, ArrayError> {
        let Self { name, dtype, grid, encoding, fill, locator, store, .. } = self.clone();
        let layout = Self::new(name, shape, dtype, grid, encoding, fill, locator, store)?;
        let Self { shapes, sharding, mosaic, origin, sink, .. } = self.clone();
        let layout = ArrayLayout { shapes, mosaic, origin, sink, ..layout };
        match sharding {
            None => Ok(layout),
            Some(sharding) => layout.with_sharding(Arc::unwrap_or_clone(sharding)),
        }
    }

    /// The element type in memory.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// How the array is cut into chunks.
    pub fn grid(&self) -> &ChunkGrid {
        &self.grid
    }

    /// The sharding, if chunks lie in shards.
    pub fn sharding(&self) -> Option<&Sharding> {
        self.sharding.as_deref()
    }

    /// The mosaic, if the array is made of other arrays.
    pub fn mosaic(&self) -> Option<&Mosaic> {
        self.mosaic.as_deref()
    }

    /// Fails with [`ArrayError::ReadOnly`] if the array is a mosaic.
    pub(crate) fn check_writable(&self) -> Result<(), ArrayError> {
        match self.mosaic {
            Some(_) => Err(ArrayError::ReadOnly {
                array: self.name.clone(),
                chunk: Vec::new(),
                key: String::new(),
                why: "its elements are those of other arrays, which are to be written themselves",
            }),
            None => Ok(()),
        }
    }

    /// The grid of objects: shards, or chunks if there are no shards.
    pub fn object_grid(&self) -> &ChunkGrid {
        self.sharding.as_ref().map_or(&self.grid, |sharding| sharding.grid())
    }

    /// How a chunk's bytes become elements.
    pub fn encoding(&self) -> &ChunkEncoding {
        &self.encoding
    }

    /// Describes the decoding of stored bytes as text.
    ///
    /// Under equal texts, equal bytes decode to equal bytes.
    pub(crate) fn decoding(&self) -> &Arc<str> {
        // The `Debug` output of codecs contains all their settings.
        self.decoding.get_or_make(|| format!("{:?}", self.encoding.chain()).into())
    }

    /// Returns `true` if equal stored bytes mean equal elements in both arrays: they have the same
    /// element type, grid, shards and codecs.
    ///
    /// The fill values of absent chunks may differ, and so may the shapes.
    pub fn decodes_like(&self, other: &Self) -> bool {
        let (own, its) = (&self.encoding, &other.encoding);
        let shards = match (&self.sharding, &other.sharding) {
            (None, None) => true,
            (Some(own), Some(its)) => own.decodes_like(its),
            _ => false,
        };
        shards
            && self.dtype == other.dtype
            && self.grid == other.grid
            && (own.order(), own.swap(), own.ends_early()) == (its.order(), its.swap(), its.ends_early())
            && self.mosaic.is_none()
            && other.mosaic.is_none()
            && self.decoding() == other.decoding()
    }

    /// Returns the layout for a chunk that was written without some codecs ([`Location::Range`]).
    ///
    /// `None` if no codec was left out.
    pub(crate) fn without_skipped_codecs(&self, location: Location) -> Option<Arc<ArrayLayout>> {
        let Location::Range { skipped, .. } = location else { return None };
        // Ignore bits beyond the codecs.
        let codecs = u32::try_from(self.encoding.chain().codecs().len()).unwrap_or(u32::MAX);
        let skipped = skipped & 1u32.checked_shl(codecs).map_or(u32::MAX, |bit| bit - 1);
        if skipped == 0 {
            return None;
        }
        let made = || {
            let (encoding, decoding) = (self.encoding.without_codecs(skipped), Lazy::new());
            Arc::new(ArrayLayout { encoding, decoding, without: Default::default(), ..self.clone() })
        };
        let found = self.without.iter().find_map(|place| {
            let (kept, layout) = place.get_or_make(|| (skipped, made()));
            (*kept == skipped).then(|| layout.clone())
        });
        Some(found.unwrap_or_else(made))
    }

    /// The codec of variable-length elements; `None` if elements have a fixed size.
    ///
    /// With such a codec, elements are [`hyperslab_codec::Cell`]s. Read the array with
    /// [`crate::ragged::read::read_ragged`] and write it with
    /// [`crate::ragged::write::write_ragged`].
    pub fn vlen(&self) -> Option<&Vlen> {
        self.encoding.chain().vlen()
    }

    /// Binds variable-length elements to `heap`, which holds their bytes during one request.
    ///
    /// `None` if elements have a fixed size. The result has no origin: the request as a whole
    /// checks whether another array has taken this one's place.
    pub fn bound(&self, heap: &Arc<Heap>) -> Option<Self> {
        let encoding = self.encoding.bound(heap)?;
        let (decoding, without) = (Lazy::new(), Default::default());
        let shapes = self.shapes.as_ref().map(|shapes| shapes.bound(heap));
        Some(ArrayLayout { encoding, shapes, decoding, without, origin: None, ..self.clone() })
    }

    /// The value of elements in absent chunks.
    pub fn fill(&self) -> &FillValue {
        &self.fill
    }

    /// The bytes that new chunks repeat: the fill value of a whole number of elements.
    pub(crate) fn chunk_fill(&self) -> &FillValue {
        self.whole_fill.as_ref().unwrap_or(&self.fill)
    }

    /// Finds the array's chunks.
    pub fn locator(&self) -> &Arc<dyn ChunkLocator> {
        &self.locator
    }

    /// Finds a chunk (in a sharded array: a shard) and writes its object's key to `key`.
    ///
    /// Fails with [`ArrayError::Locate`], or with [`ArrayError::Store`] if the store failed.
    pub fn locate(&self, chunk: &[u64], key: &mut String) -> Result<Location, ArrayError> {
        let mut found = Found::reusing(key);
        let outcome = self.locate_all(ChunkList::one(chunk), &mut found);
        let (text, location) = found.into_one();
        *key = text;
        outcome.map(|()| location.unwrap_or(Location::Absent))
    }

    /// Finds chunks (in a sharded array: shards) and adds each of them to `found`.
    ///
    /// Fails like [`ArrayLayout::locate`]; the error names the chunk at fault.
    pub(crate) fn locate_all(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), ArrayError> {
        let fail = |found: &Found, source| self.format_error(wanted.get(found.len()), source);
        self.locator.locate(wanted, found).map_err(|source| fail(found, source))?;
        // A chunk that the format skips would read as whatever is in memory.
        if found.len() != wanted.len() {
            let why = format!("the format told where {} of {} chunks are", found.len(), wanted.len());
            return Err(fail(found, why.into()));
        }
        Ok(())
    }

    /// Wraps a format's error about a chunk. Errors of the store become [`ArrayError::Store`].
    pub(crate) fn format_error(&self, chunk: &[u64], source: LocateError) -> ArrayError {
        let (array, chunk) = (self.name.clone(), chunk.to_vec());
        match source.downcast() {
            Ok(source) => ArrayError::Store { array, chunk, source },
            Err(source) => ArrayError::Locate { array, chunk, source },
        }
    }

    /// The store of the array's objects.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}
