//! Encodings of chunks that are not all of one shape.
//!
//! Codecs are made for a shape of chunk. An array with a rectilinear grid has an encoding for each
//! shape that is met, made when it is first needed, and kept. So is the layout of a chunk with this
//! encoding: a chunk of a shape that was met before costs one lookup.

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
    /// The encoding, in the same order of axes for every shape. Errors (as text) where the codecs do
    /// not go with the shape.
    fn make(&self, shape: &[u64]) -> Result<ChunkEncoding, String>;
}

/// So many encodings of an array are kept, and layouts; each is some hundred bytes. Grids with more
/// different shapes than that make some of them again and again.
const KEPT: usize = 1024;

/// The encodings of an array, by the shape of chunk.
#[derive(Debug)]
pub(crate) struct ChunkShapes {
    make: Arc<dyn MakeEncoding>,
    kept: Arc<Mutex<HashMap<Dims, ChunkEncoding>>>,
    /// Where the bytes of elements of variable length are, for one request.
    heap: Option<Arc<Heap>>,
    /// Layouts of chunks, by their shape; all else is as in the one layout that this belongs to.
    layouts: Mutex<HashMap<Dims, Arc<ArrayLayout>>>,
}

/// For another layout: encodings are shared, layouts of chunks are made anew.
impl Clone for ChunkShapes {
    fn clone(&self) -> Self {
        let ChunkShapes { make, kept, heap, .. } = self;
        let (make, kept, heap) = (make.clone(), kept.clone(), heap.clone());
        ChunkShapes { make, kept, heap, layouts: Mutex::default() }
    }
}

impl ChunkShapes {
    pub(crate) fn new(make: Arc<dyn MakeEncoding>) -> Self {
        ChunkShapes { make, kept: Arc::default(), heap: None, layouts: Mutex::default() }
    }

    /// The same with elements of variable length whose bytes are in `heap`.
    pub(crate) fn bound(&self, heap: &Arc<Heap>) -> Self {
        ChunkShapes { heap: Some(heap.clone()), ..self.clone() }
    }

    /// The layout of chunks of a shape; `make` makes it of their encoding, if it is not kept.
    /// Errors as `make`, and with what `refuse` makes of the errors of [`MakeEncoding::make`].
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
        // Codecs may be foreign code: not under the lock.
        drop(layouts);
        drop(replaced);
        Ok(layout)
    }

    /// See [`ChunkEncoding::with_axis`].
    pub(crate) fn with_axis(&self, count: u64, unit: usize) -> Self {
        ChunkShapes::new(Arc::new(WithAxis { make: self.make.clone(), count, unit }))
    }

    /// The encoding of chunks of a shape. Errors as [`MakeEncoding::make`].
    fn encoding(&self, shape: &[u64]) -> Result<ChunkEncoding, String> {
        let found = self.kept.lock().get(shape).cloned();
        let encoding = match found {
            Some(encoding) => encoding,
            None => {
                let made = self.make.make(shape)?;
                let mut kept = self.kept.lock();
                let mut replaced = None;
                if kept.len() < KEPT {
                    replaced = kept.insert(shape.into(), made.clone());
                }
                // As above.
                drop(kept);
                drop(replaced);
                made
            }
        };
        Ok(self.heap.as_ref().and_then(|heap| encoding.bound(heap)).unwrap_or(encoding))
    }
}

/// Makes encodings with one more axis, along which there is one chunk.
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
