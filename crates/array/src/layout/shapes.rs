//! Encodings for chunks of different shapes.
//!
//! Codecs are made for one chunk shape. An array with a rectilinear grid has an encoding for each
//! shape in use. It is made when first needed, and kept. The layout of a chunk with this encoding
//! is kept too, so a shape that was seen before costs one lookup.

use crate::dims::Dims;
use crate::layout::ArrayLayout;
use crate::layout::encoding::ChunkEncoding;
use hyperslab_codec::Heap;
use hyperslab_store::fork::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Makes the encoding of chunks of a shape.
pub trait MakeEncoding: fmt::Debug + Send + Sync {
    /// Makes the encoding. The order of axes must be the same for every shape.
    ///
    /// Fails (with a message) if the codecs do not fit the shape.
    fn make(&self, shape: &[u64]) -> Result<ChunkEncoding, String>;
}

/// Number of encodings, and of layouts, kept for an array: some hundred bytes each.
///
/// Grids with more shapes make some of them again and again.
const KEPT: usize = 1024;

/// The encodings of an array, by chunk shape.
#[derive(Debug)]
pub(crate) struct ChunkShapes {
    make: Arc<dyn MakeEncoding>,
    encodings: Arc<Mutex<HashMap<Dims, ChunkEncoding>>>,
    /// The bytes of variable-length elements, for one request.
    heap: Option<Arc<Heap>>,
    /// Layouts of chunks, by shape. In all else they equal the one layout that owns this value.
    layouts: Mutex<HashMap<Dims, Arc<ArrayLayout>>>,
}

/// A clone is for another layout: it shares the encodings and makes its own layouts of chunks.
impl Clone for ChunkShapes {
    fn clone(&self) -> Self {
        let ChunkShapes { make, encodings: cached, heap, .. } = self;
        let (make, cached, heap) = (make.clone(), cached.clone(), heap.clone());
        ChunkShapes { make, encodings: cached, heap, layouts: Mutex::default() }
    }
}

impl ChunkShapes {
    pub(crate) fn new(make: Arc<dyn MakeEncoding>) -> Self {
        ChunkShapes { make, encodings: Arc::default(), heap: None, layouts: Mutex::default() }
    }

    /// Binds variable-length elements to `heap`, which holds their bytes.
    pub(crate) fn bound(&self, heap: &Arc<Heap>) -> Self {
        ChunkShapes { heap: Some(heap.clone()), ..self.clone() }
    }

    /// Returns the layout of chunks of a shape. If it is not kept, `make` makes it.
    ///
    /// Fails with the errors of `make`. Errors of [`MakeEncoding::make`] go through `refuse`.
    pub(crate) fn layout<E>(
        &self,
        shape: &Dims,
        refuse: impl FnOnce(String) -> E,
        make: impl FnOnce(ChunkEncoding) -> Result<ArrayLayout, E>,
    ) -> Result<Arc<ArrayLayout>, E> {
        if let Some(layout) = self.layouts.lock().get(shape) {
            return Ok(layout.clone());
        }
        let layout = Arc::new(make(self.encoding(shape).map_err(refuse)?)?);
        let mut layouts = self.layouts.lock();
        let mut replaced = None;
        if layouts.len() < KEPT {
            replaced = layouts.insert(shape.clone(), layout.clone());
        }
        // Codecs may be foreign code: drop them outside the lock.
        drop(layouts);
        drop(replaced);
        Ok(layout)
    }

    /// See [`ChunkEncoding::with_axis`].
    pub(crate) fn with_axis(&self, count: u64, unit: usize) -> Self {
        ChunkShapes::new(Arc::new(WithAxis { make: self.make.clone(), count, unit }))
    }

    /// Returns the encoding of chunks of a shape. Fails like [`MakeEncoding::make`].
    fn encoding(&self, shape: &[u64]) -> Result<ChunkEncoding, String> {
        let found = self.encodings.lock().get(shape).cloned();
        let encoding = match found {
            Some(encoding) => encoding,
            None => {
                let made = self.make.make(shape)?;
                let mut cached = self.encodings.lock();
                let mut replaced = None;
                if cached.len() < KEPT {
                    replaced = cached.insert(shape.into(), made.clone());
                }
                // As above.
                drop(cached);
                drop(replaced);
                made
            }
        };
        Ok(self.heap.as_ref().and_then(|heap| encoding.bound(heap)).unwrap_or(encoding))
    }
}

/// Makes encodings with one more axis, along which there is a single chunk.
#[derive(Debug)]
struct WithAxis {
    make: Arc<dyn MakeEncoding>,
    count: u64,
    unit: usize,
}

impl MakeEncoding for WithAxis {
    fn make(&self, shape: &[u64]) -> Result<ChunkEncoding, String> {
        let shape = shape.split_last().map_or(shape, |(_, shape)| shape);
        Ok(self.make.make(shape)?.with_axis(self.count, self.unit))
    }
}
