//! Encodings of chunks that are not all of one shape.
//!
//! Codecs are made for a shape of chunk. An array with a rectilinear grid has an encoding for each
//! shape that is met, made when it is first needed, and kept.

use crate::dims::Dims;
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

/// So many encodings of an array are kept; each is some hundred bytes. Grids with more different
/// shapes than that make some of them again and again.
const KEPT: usize = 1024;

/// The encodings of an array, by the shape of chunk. Clones share what is kept.
#[derive(Clone, Debug)]
pub(crate) struct ChunkShapes {
    make: Arc<dyn MakeEncoding>,
    kept: Arc<Mutex<HashMap<Dims, ChunkEncoding>>>,
    /// Where the bytes of elements of variable length are, for one request.
    heap: Option<Arc<Heap>>,
}

impl ChunkShapes {
    pub(crate) fn new(make: Arc<dyn MakeEncoding>) -> Self {
        ChunkShapes { make, kept: Arc::default(), heap: None }
    }

    /// The same with elements of variable length whose bytes are in `heap`.
    pub(crate) fn bound(&self, heap: &Arc<Heap>) -> Self {
        ChunkShapes { heap: Some(heap.clone()), ..self.clone() }
    }

    /// See [`ChunkEncoding::with_axis`].
    pub(crate) fn with_axis(&self, count: u64, unit: usize) -> Self {
        ChunkShapes::new(Arc::new(WithAxis { make: self.make.clone(), count, unit }))
    }

    /// The encoding of chunks of a shape. Errors as [`MakeEncoding::make`].
    pub(crate) fn encoding(&self, shape: &[u64]) -> Result<ChunkEncoding, String> {
        let found = self.kept.lock().get(shape).cloned();
        let encoding = match found {
            Some(encoding) => encoding,
            None => {
                let made = self.make.make(shape)?;
                let mut kept = self.kept.lock();
                if kept.len() < KEPT {
                    kept.insert(shape.into(), made.clone());
                }
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
