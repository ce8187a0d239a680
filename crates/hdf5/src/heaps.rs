//! Heaps: where names, large attributes, and elements of variable length are.

use crate::{Bytes, Hdf5Error, Sizes, Source};
use std::sync::Arc;

/// A collection of the global heap (specification III.E), its directory taken apart once.
#[derive(Debug)]
pub struct Collection {
    /// Where it is.
    pub address: u64,
    /// All of its bytes.
    pub bytes: Bytes,
    /// For each object index, where its bytes are in `bytes` (start, length); `(0, 0)`: no such object.
    pub objects: Vec<(u32, u32)>,
}

impl Collection {
    /// Reads the collection at an address.
    pub fn read(source: &Source, address: u64, sizes: Sizes) -> Result<Arc<Collection>, Hdf5Error> {
        let _ = (address, sizes);
        Err(source.invalid("no heap"))
    }

    /// The bytes of an object; `None`: there is none of that index.
    pub fn object(&self, index: u32) -> Option<&[u8]> {
        let (start, len) = *self.objects.get(usize::try_from(index).ok()?)?;
        let start = usize::try_from(start).ok().filter(|start| *start > 0)?;
        self.bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)
    }
}

/// The local heap.
pub struct LocalHeap;
impl LocalHeap {
    /// Reads it.
    pub fn read(source: &Source, _address: u64, _sizes: Sizes) -> Result<LocalHeap, Hdf5Error> {
        Err(source.invalid("no heap"))
    }
    /// A name.
    pub fn name(&self, _offset: u64) -> Result<String, crate::ParseError> {
        Err(crate::ParseError::Unsupported("a heap".into()))
    }
}
/// The fractal heap.
#[derive(Debug)]
pub struct FractalHeap;
impl FractalHeap {
    /// Reads it.
    pub fn read(
        source: &Source,
        _address: u64,
        _sizes: Sizes,
        _verify: bool,
    ) -> Result<FractalHeap, Hdf5Error> {
        Err(source.invalid("no heap"))
    }
    /// An object.
    pub fn get(&self, source: &Source, _id: &[u8]) -> Result<Bytes, Hdf5Error> {
        Err(source.invalid("no heap"))
    }
}
